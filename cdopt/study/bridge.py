"""The bridge between the two papers: elastic contacts tend to compatible contact dynamics.

Olsen & Kamrin (2018) define compatible forces as those that an elastic contact network carries
in the limit of infinite stiffness. Here that limit is walked: elastic contacts at rest, by De
Klerk et al. (2021) or by minimising energy, at stiffness κ times the scene's, and the distance of
their forces from the compatible ones. In exact geometry

    ‖f_κ − f‖ / ‖f‖ = O(κ^(−1/(p−1))),

1/κ for Hooke, κ^(−2/3) for Hertz; for one step of contact dynamics whose compliance ε vanishes,
O(ε) for every p. The least force and what a uniform ridge ε/2 ‖f‖² selects tend elsewhere.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.errors import CdoptError, InvalidInput, SolveFailed
from cdopt._util.formatting import short
from cdopt._util.progress import ProgressCallback, progress_bar
from cdopt.collision import Contacts, detect, step
from cdopt.formulations import CompatibleCD
from cdopt.hyperstatic import indeterminacy
from cdopt.problem.contact_law import HOOKE, PowerLaw
from cdopt.problem.contact_step import ContactStep
from cdopt.problem.solution import StepSolution
from cdopt.scene import Scene, State
from cdopt.study.bridge_record import Bridge, Line, fitted
from cdopt.study.resting import (
    CLOSED,
    FAILED,
    MARCHING,
    Goal,
    Rested,
    marched,
    settled,
)

METHODS = ("quasi-static", *MARCHING)
OVERLAPS = np.logspace(-2.0, -6.0, 5)  # of the smallest half-width: where κ is looked at
YIELDS = np.logspace(4.0, 0.0, 5)  # of the one-step method's own ε
_BACKEND = "newton"  # the sharpest
_MOVES = 1e-6  # of the speed that the loads alone would give: what still counts as rest
_TOUCHES = 1e-9  # of the smallest half-width: a wider gap is open
_REPEATS = 5


def bridge(
    scene: Scene,
    kappas: Any = None,
    *,
    state: State | None = None,
    methods: Sequence[str] = METHODS,
    epsilons: Any = None,
    limit: int = 100_000,
    progress: bool | ProgressCallback = False,
) -> Bridge:
    """Follow elastic contacts at rest to the limit of infinite stiffness.

    Parameters
    ----------
    scene : bodies at rest that touch exactly. Materials set ratios of stiffness; a scene that
        states none has contacts of stiffness one.
    kappas : (n,) factors κ on the stiffness (``Scene.stiffened``); by default those that let the
        deepest overlap be 1e-2, 1e-3, … 1e-6 of the smallest half-width.
    state : where the bodies are at rest; default the scene's.
    methods : of METHODS. "quasi-static" minimises energy; "variational" and "velocity-verlet" run,
        damped with γ_n = 2 √(k/m) of the stiffest contact and the lightest body, in steps of a
        collision's time t_c = π √(m/2k) over 16 and over 50, until what is unbalanced would
        change forces by less than 1e-3 of the error, or round-off ends it. Those two take
        spheres and half-spaces.
    epsilons : (m,) ε of the one-step problem, m N^(−1/(p−1)) / s at the scene's stiffness; by
        default 1e4, … 1 times that of ``CompatibleCD``. The uniform ridge takes the same shares.
    limit : time steps of a run at most.
    progress : True for a bar on stderr, or a function of (done, total, text).

    Returns
    -------
    Bridge : printing it gives a table. Points whose error cannot be told from round-off or from
        what is not yet at rest are marked and not fitted; so are those that failed.

    Raises
    ------
    InvalidInput : a bad argument; or bodies that are not at rest under rigid contacts.
    SolveFailed : the rigid step has no compatible forces.
    Unsupported : shapes that a method does not know.

    >>> import cdopt
    >>> pile = cdopt.scene.pyramid(3, separation=0.0)
    >>> found = cdopt.bridge(pile, methods=["quasi-static"])
    >>> round(found.line("quasi-static").slope, 2), round(found.one_step.slope, 2)
    (-1.0, 1.0)

    Notes
    -----
    Where elastic contacts close gaps that are open in the limit, the error does not follow its law
    until κ is so great that they open; such points are marked. Rest is tested to first order:
    bodies that rigid contacts hold just so, with a mechanism among the contacts that carry, pass,
    but their elastic counterparts creep away; such runs do not come to rest, and are marked.

    Olsen & Kamrin (2018), section 6; De Klerk et al. (2021), section 2.
    """
    if not isinstance(scene, Scene):
        raise InvalidInput("scene", checks.describe(scene), "a Scene")
    if isinstance(methods, str) or not isinstance(methods, Sequence):
        raise InvalidInput("methods", checks.describe(methods), "a list of methods")
    chosen = tuple(checks.choice("methods", name, METHODS) for name in methods)
    most = int(checks.scalar("limit", limit, at_least=1.0))
    start = scene.initial if state is None else state
    contacts, rigid = _rigid(scene, start)
    compatible = CompatibleCD(rigid, scene.power).solve(_BACKEND)
    alike = rigid.replace(stiffness=1.0)
    least = CompatibleCD(alike, HOOKE).solve(_BACKEND)
    _require_rest(scene, rigid, compatible.v_next)
    f, norm_least = _forces(compatible), _forces(least)
    law = PowerLaw(rigid.stiffness, scene.power)
    unit = float(np.max(law.overlap(f))) / _half_width(scene)  # deepest at κ = 1
    given = (unit / OVERLAPS) ** (scene.power - 1.0) if kappas is None else kappas
    ks = _positive("kappas", given)
    apart = contacts.phi > _TOUCHES * _half_width(scene)
    goal = Goal(contacts.contact_ids, f, apart)
    place = float(np.abs(start.position).max())
    with progress_bar(progress, "runs") as tell:
        lines = _lines(scene, start, chosen, ks, goal, law, most, tell)
    return Bridge(
        scene=scene,
        step=rigid,
        power=scene.power,
        nullity=indeterminacy(rigid, contacts=0).nullity,
        forces=f,
        minimum_norm=norm_least,
        overlap=unit * ks ** (-1.0 / (scene.power - 1.0)),
        lines=lines,
        one_step=_one_step("one step", rigid, scene.power, f, place, epsilons),
        uniform=_one_step("uniform ridge", alike, HOOKE, f, place, None),
        seconds_one_step=_seconds(rigid, scene.power, "one-step"),
        seconds_two_steps=_seconds(rigid, scene.power, "two-step"),
    )


# --- the limit ---------------------------------------------------------------------------


def _rigid(scene: Scene, state: State) -> tuple[Contacts, ContactStep]:
    """One rigid step from rest, with the stiffness that elastic contacts have at κ = 1.

    Raises
    ------
    InvalidInput : no contacts, or no loads.
    """
    still = State(state.t, state.q, np.zeros_like(state.v))
    contacts = detect(scene.stiffened(1.0), still)
    if not contacts.nc:
        raise InvalidInput("scene", "no contacts", "bodies that touch")
    trial = step(scene, still, contacts, 1.0)
    speed = float(np.abs(trial.v_star).max(initial=0.0))
    if speed == 0.0:
        raise InvalidInput("scene", "no loads", "gravity or a force: without, no contact carries")
    dt = float(np.sqrt(_half_width(scene) / speed))  # loads move a body by its half-width
    return contacts, trial.replace(dt=dt)


def _require_rest(scene: Scene, rigid: ContactStep, v_next: FloatArray | None) -> None:
    """Refuse bodies that a rigid step moves."""
    if v_next is None:
        return
    fastest = int(np.argmax(np.abs(v_next)))
    if abs(v_next[fastest]) > _MOVES * float(np.abs(rigid.v_star).max()):
        body = scene.bodies.label(int(scene.dofs.body[fastest]))
        raise InvalidInput(
            "scene", f"{body} moves at {abs(v_next[fastest]):.3g} m/s after a rigid step from rest",
            "bodies at rest on contacts that touch exactly",
        )  # fmt: skip


def _half_width(scene: Scene) -> float:
    """The smallest half-width of a body, m."""
    core = scene.bodies.core
    return float(core[np.isfinite(core)].min())


def _forces(found: StepSolution) -> FloatArray:
    """f (nc,) of the limit, if it is certified."""
    if found.f is None or not found.ok:
        raise SolveFailed(
            f"no certified forces in the limit: {found.formulation}", backend=found.backend,
            status=found.status,
        )  # fmt: skip
    return found.f


def _positive(name: str, values: Any) -> FloatArray:
    """(n,) distinct positive numbers."""
    found = checks.vector(name, values, None)
    if not found.size or not (found > 0.0).all() or np.unique(found).size < found.size:
        raise InvalidInput(name, short(float(found.min(initial=0.0))), "distinct positive numbers")
    return found


# --- the ways there ----------------------------------------------------------------------


def _lines(
    scene: Scene, state: State, names: Sequence[str], kappas: FloatArray, goal: Goal,
    law: PowerLaw, limit: int, tell: ProgressCallback,
) -> tuple[Line, ...]:  # fmt: skip
    """Every method at every κ."""
    done, total = 0, len(names) * kappas.size
    found = []
    for name in names:
        points: list[Rested | CdoptError] = []
        for kappa in kappas:
            tell(done, total, f"{name}, κ = {kappa:.2g}")
            points.append(_rest(scene, state, name, float(kappa), goal, law, limit))
            done += 1
        found.append(_line(name, kappas, points, goal))
    tell(done, total, "")
    return tuple(found)


def _rest(
    scene: Scene, state: State, name: str, kappa: float, goal: Goal, law: PowerLaw, limit: int
) -> Rested | CdoptError:
    """A method at one κ; why it has no equilibrium, if it has none."""
    if name not in MARCHING:
        try:
            return settled(scene.stiffened(kappa), state)
        except SolveFailed as error:
            return error
    # w″ of the forces to come: (p − 1) k^(1/(p−1)) f^((p−2)/(p−1))
    stiff = PowerLaw(law.stiffness * kappa, law.power)
    overlap = stiff.overlap(goal.forces)
    carry = overlap > 0.0
    k = float((law.power - 1.0) * (goal.forces[carry] / overlap[carry]).max())
    mass = float(scene.bodies.mass[~scene.bodies.fixed].min())
    damped = scene.stiffened(kappa, damping=2.0 * float(np.sqrt(k / mass)))
    return marched(damped, state, name, np.pi * float(np.sqrt(0.5 * mass / k)), goal, limit)


def _line(
    name: str, parameter: FloatArray, points: Sequence[Rested | CdoptError], goal: Goal
) -> Line:
    rested = [p if isinstance(p, Rested) else None for p in points]
    nothing = np.full(goal.forces.size, np.nan)

    def every(read: Callable[[Rested], float]) -> FloatArray:
        return np.array([np.nan if p is None else read(p) for p in rested])

    return fitted(
        name=name,
        parameter=parameter,
        forces=np.stack(
            [nothing if p is None else goal.onto(p.contact_ids, p.forces)[0] for p in rested]
        ),
        error=every(lambda p: goal.distance(p.contact_ids, p.forces)),
        noise=every(lambda p: p.noise),
        unrest=every(lambda p: p.unrest),
        trouble=[_trouble(p, goal) for p in points],
        steps=every(lambda p: float(p.steps)),
        seconds=every(lambda p: p.seconds),
    )


def _trouble(point: Rested | CdoptError, goal: Goal) -> str:
    """Why a point says nothing of the limit, "" if it does."""
    if not isinstance(point, Rested):
        return f"{FAILED}: {point}"
    bridged = goal.bridged(point.contact_ids, point.forces)
    return f"{CLOSED}: {bridged} open in the limit" if bridged else point.trouble


def _one_step(
    name: str, rigid: ContactStep, power: float, goal: FloatArray, place: float, epsilons: Any
) -> Line:
    """Compatible contact dynamics in one step, against ε; ``place`` of the furthest body, m."""
    own = CompatibleCD(rigid, power, method="one-step").epsilon or 1.0
    eps = _positive("epsilons", YIELDS * own if epsilons is None else epsilons)
    last = np.random.default_rng(0).uniform(-1.0, 1.0, rigid.nc) * np.spacing(place)
    shaken = rigid.replace(phi=rigid.phi + last)
    found = [_solved(rigid, power, float(e)) for e in eps]
    forces = np.stack([_or_nan(s.f, rigid.nc) for s in found])
    other = np.stack([_or_nan(_solved(shaken, power, float(e)).f, rigid.nc) for e in eps])
    size = float(np.linalg.norm(goal))
    worst = [np.nan if s.certificate is None else s.certificate.worst for s in found]
    return fitted(
        name=name,
        parameter=eps,
        forces=forces,
        error=np.linalg.norm(forces - goal, axis=1) / size,
        noise=np.fmax(worst, np.linalg.norm(other - forces, axis=1) / size),
        unrest=np.zeros(eps.size),
        trouble=["" if s.ok else f"{FAILED}: not certified, {s.status}" for s in found],
        steps=np.array([float(s.iterations or 0) for s in found]),
        seconds=np.array([sum(s.timings.values()) for s in found]),
    )


def _solved(rigid: ContactStep, power: float, epsilon: float) -> StepSolution:
    problem = CompatibleCD(rigid, power, method="one-step", epsilon=epsilon)
    return problem.solve(_BACKEND, check=False)


def _or_nan(forces: FloatArray | None, nc: int) -> FloatArray:
    return np.full(nc, np.nan) if forces is None else forces


def _seconds(rigid: ContactStep, power: float, method: str) -> float:
    """Median time of a solve, the problem's statement included."""
    runs = []
    for _ in range(_REPEATS):
        started = time.perf_counter()
        CompatibleCD(rigid, power, method=method).solve(_BACKEND, check=False)
        runs.append(time.perf_counter() - started)
    return statistics.median(runs)
