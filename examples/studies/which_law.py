"""``python -m examples.studies.which_law``: four systems under four laws of friction, in one table.

A box, a wheel, a robot on four feet and a pile of spheres, each as a network of contacts whose
directions stay as they are, stepped in time by

- Signorini's and Coulomb's law (V. Acary & F. Bourrier 2021, and Q. Le Lidec et al. 2023);
- the associated law, without compliance (M. Anitescu 2006, A. Tasora & M. Anitescu 2011);
- MuJoCo's with its default softness (E. Todorov 2014);
- SAP's, near-rigid (A. Castro et al. 2022 and 2023).

The soft ones are ``SoftCD`` with the compliance and the bias that the engines give to a contact of
a body of known mass. ``tests/formulations`` compares both with the engines themselves, digit by
digit; here they need neither installed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

import cdopt

DT, G, MU = 1e-3, 9.81, 0.5  # s, m/s², 1
FAST = 1.0  # m/s
TIME_CONSTANT, IMPEDANCE, WIDTH = 0.02, (0.9, 0.95), 1e-3  # s, 1, m: MuJoCo's defaults
RELAXATION, SINKING = 0.2, 1e-3  # s of both bodies, m: Drake's defaults
SIGMA, BETA = 1e-3, 1.0


@dataclass(frozen=True)
class Network:
    """Contacts with directions that stay: gaps phi (nc,) in m, and the motion v (nv,)."""

    M: np.ndarray
    B: np.ndarray
    B_t: np.ndarray
    load: np.ndarray
    mass: float  # kg, of a body at a contact
    v: np.ndarray
    phi: np.ndarray
    rolling: float = 0.0  # m
    B_r: np.ndarray | None = None

    def step(self, cone: str = "product") -> cdopt.ContactStep:
        """One time step; overlaps of the soft laws are theirs to push apart."""
        friction = cdopt.Friction(
            MU,
            self.B_t,
            rolling=self.rolling,
            B_r=self.B_r,
            cone="product" if self.B_r is None else cone,
        )
        gaps = np.maximum(self.phi, 0.0)
        return cdopt.ContactStep(self.M, self.B, gaps, self.v, self.load, DT, friction=friction)

    @property
    def many(self) -> int:
        """Tangents of a contact."""
        return len(self.B_t) // len(self.B)


Answer = tuple[np.ndarray, np.ndarray, np.ndarray]  # v⁺ (nv,), f (nc,), f_t (nc, d − 1)
Law = Callable[[Network], Answer]


def coulomb(network: Network) -> Answer:
    """Signorini's and Coulomb's law."""
    return _answer(cdopt.FrictionalCD(network.step(), law="coulomb").solve("newton"))


def associated(network: Network) -> Answer:
    """The associated law: what slides also opens."""
    return _answer(cdopt.FrictionalCD(network.step(), law="associated").solve("newton"))


def mujoco(network: Network) -> Answer:
    """MuJoCo's law with its default solref and solimp, elliptic cones, impratio 1.

    R = (1 − d)/d of the mobility 1/m, and a_ref = −b v − k d r with the overlap r.
    """
    low, high = IMPEDANCE
    x = np.minimum(np.abs(network.phi) / WIDTH, 1.0)
    smooth = np.where(x <= 0.5, 2.0 * x**2, 1.0 - 2.0 * (1.0 - x) ** 2)
    d = low + (high - low) * smooth
    R = DT * (1.0 - d) / d / network.mass
    damping, spring = 2.0 / (high * TIME_CONSTANT), 1.0 / (high * TIME_CONSTANT) ** 2
    rows = _rows(network) @ network.v
    bias = (DT * damping - 1.0) * rows
    bias[:, 0] += DT * spring * d * network.phi
    table = np.repeat(R[:, None], rows.shape[1], axis=1)
    if network.B_r is not None:
        table[:, 1 + network.many :] *= (MU / network.rolling) ** 2
    return _soft(network, table, bias)


def sap(network: Network) -> Answer:
    """SAP's law, so stiff that the body's weight sinks a millimetre, or near-rigid.

    It has no rolling friction.
    """
    network = replace(network, rolling=0.0, B_r=None)
    rows, time = _rows(network), DT + RELAXATION
    w = np.array([np.linalg.norm(J @ (J / np.diag(network.M)).T) / 3.0 for J in rows])
    stiffness = network.mass * G / SINKING
    R = np.repeat(SIGMA * w[:, None], 1 + network.many, axis=1)
    R[:, 0] = np.maximum(BETA**2 / (4.0 * np.pi**2) * w, 1.0 / (DT * time * stiffness))
    bias = np.zeros((len(rows), 1 + network.many))
    bias[:, 0] = network.phi / time
    return _soft(network, DT * R, bias)


LAWS: dict[str, Law] = {
    "Signorini–Coulomb": coulomb,
    "associated": associated,
    "MuJoCo": mujoco,
    "SAP": sap,
}


def _answer(solution: cdopt.StepSolution) -> Answer:
    if not solution.ok:
        raise RuntimeError(f"not certified: {solution!r}")
    return solution.v_next, solution.f, solution.f_t


def _rows(network: Network) -> np.ndarray:
    """(nc, d, nv) rows of each contact: the normal one, tangents, and rolling in the plane."""
    nc = len(network.B)
    others = [network.B_t.reshape(nc, network.many, -1)]
    others += [] if network.B_r is None else [network.B_r.reshape(nc, 1, -1)]
    return np.concatenate([network.B[:, None, :], *others], axis=1)


def _soft(network: Network, R: np.ndarray, bias: np.ndarray) -> Answer:
    """The soft step of the contacts that overlap: engines know no others."""
    touch, nc, many = np.flatnonzero(network.phi < 0.0), len(network.B), network.many
    v_next, f, f_t = network.step().v_star, np.zeros(nc), np.zeros((nc, many))
    if touch.size:
        step = network.step("elliptic").select(touch)
        solution = cdopt.SoftCD(step, R[touch].ravel(), bias[touch].ravel()).solve("newton")
        v_next, f[touch], f_t[touch] = _answer(solution)
    return v_next, f, f_t


def run(network: Network, law: Law, steps: int) -> list[tuple[Network, Answer]]:
    """The network after each step, and the answer in it."""
    path = []
    for _ in range(steps):
        answer = law(network)
        phi = network.phi + DT * network.B @ answer[0]
        network = replace(network, v=answer[0], phi=phi)
        path.append((network, answer))
    return path


# --- systems -----------------------------------------------------------------------------


def box(slope: float = 0.0, speed: float = 0.0, gap: float = 0.0) -> Network:
    """A box of 1 kg that does not turn: motion along the floor and away from it."""
    load = G * np.array([np.sin(slope), -np.cos(slope)])
    B, B_t = np.array([[0.0, 1.0]]), np.array([[1.0, 0.0]])
    return Network(np.eye(2), B, B_t, load, 1.0, np.array([speed, 0.0]), np.array([gap]))


def wheel(slope: float = 0.0, speed: float = 0.0, rolling: float = 0.0) -> Network:
    """A disc of 1 kg and radius 0.1 m: the third motion is its turning.

    ``rolling`` is the coefficient of rolling friction over the radius.
    """
    radius = 0.1
    load = G * np.array([np.sin(slope), -np.cos(slope), 0.0])
    M, B_t = np.diag([1.0, 1.0, 0.5 * radius**2]), np.array([[1.0, 0.0, radius]])
    B, v = np.array([[0.0, 1.0, 0.0]]), np.array([speed, 0.0, 0.0])
    resists = {} if rolling == 0.0 else {"B_r": np.array([[0.0, 0.0, 1.0]])}
    return Network(M, B, B_t, load, 1.0, v, np.zeros(1), rolling * radius, **resists)


FEET = np.array([[0.25, 0.15], [-0.25, 0.15], [-0.25, -0.15], [0.25, -0.15]])  # m
HEIGHT, WEIGHT = 0.3, 10.0 * G  # m, N


def robot(push: float = 0.0) -> Network:
    """A robot of 10 kg that holds its four legs stiff, pushed to the side at its centre."""
    normal, tangents = [], []
    for x, y in FEET:
        foot = np.array([x, y, -HEIGHT])
        for rows, way in ((normal, [0, 0, 1]), (tangents, [1, 0, 0]), (tangents, [0, 1, 0])):
            rows.append(np.concatenate([way, np.cross(foot, way)]))
    load = np.array([push, 0.0, -WEIGHT, 0.0, 0.0, 0.0])
    M = np.diag([10.0, 10.0, 10.0, 0.2, 0.4, 0.5])
    return Network(M, np.array(normal), np.array(tangents), load, 10.0, np.zeros(6), np.zeros(4))


def pile() -> Network:
    """Thirty spheres of 1 kg and 0.2 m in a pyramid of four layers, the lowest of them fixed."""
    scene = cdopt.scene.pyramid(4, diameter=0.2, density=6.0 / (np.pi * 0.2**3), separation=0.0)
    contacts = cdopt.collision.detect(scene, scene.initial)
    step = cdopt.collision.step(scene, scene.initial, contacts, DT, friction=MU)
    moves = np.abs(step.B).sum(axis=1) > 0.0  # not two spheres of the base
    step = step.select(np.flatnonzero(moves & (np.abs(step.phi) < 1e-9)))
    B, B_t = step.B.toarray(), step.friction.B_t.toarray()
    v = np.zeros(step.nv)
    return Network(step.M.toarray(), B, B_t, step.F_ext, 1.0, v, np.zeros(step.nc))


# --- measurements ------------------------------------------------------------------------

Row = tuple[str, Callable[[Law], float]]


def sliding(law: Law) -> tuple[float, float]:
    """Largest height of a box that slides to rest, mm, and the way it takes, mm."""
    path = [network for network, _ in run(box(speed=FAST), law, 250)]
    way = DT * sum(network.v[0] for network in path)
    return 1e3 * max(network.phi[0] for network in path), 1e3 * way


def hovering(law: Law) -> float:
    """Friction on a box that slides 0.2 mm above the floor and does not reach it, N."""
    _, _, f_t = law(box(speed=FAST, gap=2e-4))
    return float(np.abs(f_t).max())


def creeping(law: Law) -> float:
    """Speed of a box on a slope of half the friction coefficient, mm/s."""
    return 1e3 * float(run(box(slope=np.arctan(0.5 * MU)), law, 300)[-1][0].v[0])


def spinning_up(law: Law) -> tuple[float, float, float]:
    """Of a wheel set down sliding: height in mm, time until it rolls in ms, last speed in m/s."""
    path = [network for network, _ in run(wheel(speed=FAST), law, 150)]
    slips = [abs(network.B_t[0] @ network.v) > 1e-3 * FAST for network in path]
    return (
        1e3 * max(network.phi[0] for network in path),
        1e3 * DT * (1 + max(k for k, slip in enumerate(slips) if slip)),
        float(path[-1].v[0]),
    )


def parked(law: Law) -> float:
    """Speed after 0.3 s of a wheel whose rolling friction holds on twice its slope, mm/s."""
    return 1e3 * float(run(wheel(slope=np.arctan(0.02), rolling=0.04), law, 300)[-1][0].v[0])


def standing(law: Law) -> tuple[float, float, float]:
    """A robot pushed by a quarter of its weight: creep, mm/s; sinking, mm; N on a front foot."""
    network, (v, f, _) = run(robot(push=0.25 * WEIGHT), law, 300)[-1]
    return 1e3 * float(v[0]), -1e3 * float(network.phi.min()), float(f[0])


def resting(law: Law) -> tuple[float, float, float]:
    """A pile: largest speed in mm/s, largest normal force over m g, contacts without force."""
    _, (v, f, _) = run(pile(), law, 300)[-1]
    speed = np.abs(v.reshape(-1, 6)[:, :3]).max()
    return 1e3 * float(speed), float(f.max()) / G, float(np.sum(f <= 1e-6 * G))


SYSTEMS: dict[str, tuple[tuple[str, ...], Callable[[Law], tuple[float, ...]]]] = {
    "box": (
        ("slides at 1 m/s: rises by, mm", "stops after, mm"), sliding),
    "box above the floor": (
        ("0.2 mm above the floor: friction, N",), lambda law: (hovering(law),)),
    "box on a slope": (
        ("slope of μ/2: creeps at, mm/s",), lambda law: (creeping(law),)),
    "wheel": (
        ("set down at 1 m/s: rises by, mm", "rolls after, ms", "speed then, m/s"), spinning_up),
    "wheel on a slope": (
        ("slope 0.02, rolling friction 0.04: creeps at, mm/s",), lambda law: (parked(law),)),
    "robot": (
        ("pushed: creeps at, mm/s", "sinks by, mm", "front foot, N"), standing),
    "pile": (
        ("creeps at, mm/s", "largest force, m g", "contacts without force"), resting),
}  # fmt: skip


def measured(system: str) -> list[tuple[str, list[float]]]:
    """The rows of a system: what is measured, and its value under each law."""
    labels, measure = SYSTEMS[system]
    columns = [measure(law) for law in LAWS.values()]
    return list(zip(labels, map(list, zip(*columns, strict=True)), strict=True))


def shown(value: float) -> str:
    """A value in three digits; what is below a millionth is zero."""
    return "0" if abs(value) < 1e-6 else f"{value:.3g}"


def main() -> None:
    """Print the table of all systems."""
    print("| | " + " | ".join(LAWS) + " |\n|---|" + "---|" * len(LAWS))
    for system in SYSTEMS:
        for label, values in measured(system):
            print(f"| {system}: {label} | " + " | ".join(map(shown, values)) + " |", flush=True)
    for name, network in (("robot", robot(0.25 * WEIGHT)), ("pile", pile())):
        report = cdopt.indeterminacy(network.step(), law="coulomb")
        most = int(np.argmax(report.upper - report.lower))
        low, high = report.lower[most], report.upper[most]
        print(f"{name}: nullity {report.nullity}; contact {most} carries {low:.3g} to {high:.3g} N")


if __name__ == "__main__":
    main()
