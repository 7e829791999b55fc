"""Discrete elements with friction, made stiffer and stiffer: the forces that they tend to.

A pile of rough spheres that touch exactly is loaded by raising gravity slowly, in velocity-Verlet
with tangential springs (Cundall & Strack). At stiffness κ its forces are 1/κ away from those of
``CompatibleFriction(flow="coulomb")``, and stay several per cent away from Haar and Kármán's, which
one step of associated contact dynamics tends to as its compliance ε vanishes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

import cdopt
from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput, SolveFailed
from cdopt._util.frozen import Frozen
from cdopt._util.progress import ProgressCallback, progress_bar
from cdopt.collision import PairFriction
from cdopt.dynamics.spheres import DONE, SphereStepper
from cdopt.formulations import CompatibleFriction, FrictionalCD
from cdopt.problem.contact_step import ContactStep
from cdopt.problem.delassus_step import DelassusStep
from cdopt.scene import Material, Scene, Spheres
from cdopt.scene.generators.packings import pyramid_positions

KAPPAS = (1e3, 2e3, 5e3, 1e4, 1e5)
FIT = (1e3, 1e4)  # κ of the points that are fitted
EPSILONS = np.logspace(-4.0, -7.0, 4)
STAGES = 16000  # of gravity
STEPS = 10  # of time in each
_HELD = 1000  # stages at full gravity, at least
_DT = 0.05  # of √(m/k)
_FLOWS = ("coulomb", "associated")


@dataclass(frozen=True, eq=False)
class FrictionBridge(Frozen):
    """Forces of discrete elements with friction and compatible ones; see ``friction_bridge``.

    Attributes
    ----------
    n, mu : of the pile. kappas : (k,) stiffness over m g/d.
    forces : (k, nc, 3) of the discrete elements, in units of m g.
    coulomb, associated : (nc, 3) compatible forces of either flow.
    error, associated_error : (k,) relative distance of ``forces`` from these.
    slope : fitted exponent of ``error`` in κ, from 1e3 to 1e4.
    increments : (2,) how far ten increments of load are from one, by flow.
    epsilons : (m,) compliances, and one_step : (m,) relative distance of the forces of one
        associated step of that compliance from ``associated``; one_step_slope is fitted.
    """

    n: int
    mu: float
    kappas: FloatArray
    forces: FloatArray
    coulomb: FloatArray
    associated: FloatArray
    error: FloatArray
    associated_error: FloatArray
    slope: float
    increments: FloatArray
    epsilons: FloatArray
    one_step: FloatArray
    one_step_slope: float

    @property
    def apart(self) -> float:
        """Relative distance of the two compatible forces."""
        return _distance(self.associated, self.coulomb)

    def __str__(self) -> str:
        rows = [
            f"pile of n = {self.n}, μ = {self.mu:g}, {len(self.coulomb):,} contacts; relative "
            "distance of the discrete elements from the compatible forces",
            "",
            f"{'κ':>10} {'Coulomb':>12} {'Haar–Kármán':>14}",
        ]
        columns = zip(self.kappas, self.error, self.associated_error, strict=True)
        rows += ["{:>10.0e} {:>12.2e} {:>13.3%}".format(*values) for values in columns]
        rows += [
            f"{'slope':>10} {self.slope:>+12.3f}   expected -1, from κ = 1e3 to 1e4",
            f"the two flows are {self.apart:.3%} apart; ten increments are one to "
            f"{self.increments.max():.1e}",
            "",
            f"{'ε':>10} {'one step':>12}   distance from Haar–Kármán",
        ]
        points = zip(self.epsilons, self.one_step, strict=True)
        rows += ["{:>10.0e} {:>12.2e}".format(*values) for values in points]
        rows.append(f"{'slope':>10} {self.one_step_slope:>+12.3f}   expected +1")
        return "\n".join(rows)


def friction_bridge(
    n: int = 3,
    mu: float = 0.5,
    kappas: Any = KAPPAS,
    *,
    stages: int = STAGES,
    progress: bool | ProgressCallback = False,
) -> FrictionBridge:
    """Follow discrete elements with friction to the limit of infinite stiffness.

    Parameters
    ----------
    n : spheres along the base of the pile. mu : friction coefficient.
    kappas : (k,) stiffness over m g/d.
    stages : in which gravity is raised, of 10 time steps each.
    progress : True for a bar on stderr, or a function of (done, total, text).

    Raises
    ------
    InvalidInput : a bad argument.
    SolveFailed : the discrete elements did not come to rest, or a problem has no answer.
    """
    many, rough = checks.whole("n", n, 2, 20), checks.scalar("mu", mu, above=0.0)
    ks = checks.vector("kappas", kappas, None)
    if not (ks > 0.0).all() or not ks.size:
        raise InvalidInput("kappas", checks.describe(ks), "positive numbers")
    parts = checks.whole("stages", stages, 1)
    scene = _pile(many, rough, 1.0)
    contacts = cdopt.collision.detect(scene, scene.initial, 1e-6)
    step = cdopt.collision.step(scene, scene.initial, contacts, 1e-3, friction=True)
    step = step.replace(phi=np.zeros(step.nc))
    answers = {flow: CompatibleFriction(step, flow=flow).solve() for flow in _FLOWS}
    limits = {flow: step.contact_vectors(f.f, f.f_t) for flow, f in answers.items()}
    forces = []
    with progress_bar(progress, "runs") as update:
        for k, kappa in enumerate(ks.tolist()):
            update(k, ks.size, f"κ = {kappa:.0e}")
            forces.append(_discrete_elements(many, rough, kappa, parts, step))
        update(ks.size, ks.size, "")
    error = np.array([_distance(f, limits["coulomb"]) for f in forces])
    used = (ks >= FIT[0]) & (ks <= FIT[1])
    limit = answers["associated"]
    nearby = np.array([_one_step(step, float(e), limit.f, limit.f_t) for e in EPSILONS])
    return FrictionBridge(
        n=many,
        mu=rough,
        kappas=ks,
        forces=np.array(forces),
        coulomb=limits["coulomb"],
        associated=limits["associated"],
        error=error,
        associated_error=np.array([_distance(f, limits["associated"]) for f in forces]),
        slope=_slope(ks[used], error[used]),
        increments=np.array([_increments(step, flow, answers[flow]) for flow in _FLOWS]),
        epsilons=EPSILONS.copy(),
        one_step=nearby,
        one_step_slope=_slope(EPSILONS, nearby),
    )


def _distance(f: FloatArray, limit: FloatArray) -> float:
    """‖f − f_limit‖ / ‖f_limit‖."""
    return float(np.linalg.norm(f - limit) / np.linalg.norm(limit))


def _slope(x: FloatArray, y: FloatArray) -> float:
    """The fitted exponent; not-a-number with one point."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0]) if x.size > 1 else float("nan")


def _pile(n: int, mu: float, kappa: float) -> Scene:
    """Rough spheres that touch, m = d = g = 1, at critical damping."""
    centres, layers = pyramid_positions(n)
    gamma = 2.0 * np.sqrt(kappa)
    return Scene(
        [Spheres(centres=centres, radius=0.5, mass=1.0, fixed=layers == 0, material="rough")],
        dim=3,
        gravity=[0.0, 0.0, -1.0],
        materials=[Material(name="rough", stiffness=2.0 * kappa, friction=mu)],
        damping=gamma,
        tangential_damping=gamma,
    )


def _discrete_elements(
    n: int, mu: float, kappa: float, stages: int, step: ContactStep
) -> FloatArray:
    """Forces (nc, 3) on the contacts of ``step`` after gravity was raised in stages, and held."""
    scene = _pile(n, mu, kappa)
    spheres, state = SphereStepper(scene, PairFriction(ratio=1.0)), scene.initial
    full, force = spheres.system.load, np.zeros((scene.nb, 6))
    for stage in range(stages + max(_HELD, stages // 4)):
        share = min(1.0, (stage + 1.0) / stages)
        force += share * full - spheres.system.load * (stage > 0)
        spheres.system = spheres.system._replace(load=share * full)
        taken, force = spheres.velocity_verlet(state, STEPS, _DT / np.sqrt(kappa), force)
        state = taken.state
        if taken.outcome != DONE:
            raise SolveFailed("the time step is too large", backend="velocity-verlet")
    unrest = float(np.abs(force[~scene.bodies.fixed]).max())
    if not unrest <= 1e-9:
        status = f"forces are off balance by {unrest:.1e} m g"
        raise SolveFailed(status, backend="velocity-verlet")
    contacts, forces = spheres.contacts(state), np.zeros((step.nc, 3))
    _, here, there = np.intersect1d(step.contact_ids, contacts.contact_ids, return_indices=True)
    forces[here] = contacts.forces[there, None] * contacts.normals[there]
    if contacts.tangential is not None:
        forces[here] += contacts.tangential[there]
    return forces


def _increments(step: ContactStep, flow: str, whole: Any) -> float:
    """Relative distance of forces from ten increments of load from those of one."""
    history = None
    for part in range(1, 11):
        loaded = step.replace(F_ext=0.1 * part * step.F_ext)
        history = CompatibleFriction(loaded, flow=flow, history=history).solve()
    rows = [np.column_stack([answer.f, answer.f_t]) for answer in (history, whole)]
    return _distance(*rows)


def _one_step(step: ContactStep, epsilon: float, f: FloatArray, f_t: FloatArray) -> float:
    """Relative distance from (f, f_t) of the forces of one associated step of compliance ε."""
    nc = step.nc
    friction = step.friction
    if friction is None:
        raise InvalidInput("step", "no friction", "a step with friction")
    order = np.column_stack([np.arange(nc), nc + np.arange(2 * nc).reshape(nc, 2)]).ravel()
    rows = sp.vstack([step.B, friction.B_t]).tocsr()[order]
    N = (step.dt * (rows @ step.mass.solve(rows.T.toarray()))) + epsilon * np.eye(3 * nc)
    soft = DelassusStep(N, rows @ step.v_star, dt=step.dt, friction=cdopt.Friction(friction.mu))
    answer = FrictionalCD(soft, "associated").solve("newton", tol=1e-9)
    limit = np.column_stack([f, f_t])
    return _distance(np.column_stack([answer.f, answer.f_t]), limit)
