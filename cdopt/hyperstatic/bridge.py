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
from dataclasses import dataclass
from typing import Any

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import BoolArray, FloatArray
from cdopt._util.errors import CdoptError, InvalidInput, SolveFailed
from cdopt._util.frozen import Frozen
from cdopt._util.progress import ProgressCallback, progress_bar
from cdopt.collision import Contacts, detect, step
from cdopt.formulations import CompatibleCD
from cdopt.hyperstatic.indeterminacy import indeterminacy
from cdopt.hyperstatic.resting import (
    CLOSED,
    FAILED,
    INTEGRATORS,
    RESTLESS,
    ROUND_OFF,
    Reference,
    RestState,
    equilibrium_at,
    integrated,
)
from cdopt.problem.contact_law import HOOKE, PowerLaw
from cdopt.problem.contact_step import ContactStep
from cdopt.problem.solution import StepSolution
from cdopt.scene import Scene, State

METHODS = ("quasi-static", *INTEGRATORS)
OVERLAPS = np.logspace(-2.0, -6.0, 5)  # of the smallest half-width: where κ is looked at
YIELDS = np.logspace(4.0, 0.0, 5)  # of the one-step method's own ε
_BACKEND = "newton"  # the sharpest
_MOVES = 1e-6  # of the speed that the loads alone would give: what still counts as rest
_TOUCHES = 1e-9  # of the smallest half-width: a wider gap is open
_REPEATS = 5
BLUR = 0.05  # of the error: more noise or unrest than this, and a point is not fitted
_FEWEST = 3  # points of a fit


@dataclass(frozen=True, eq=False)
class Line(Frozen):
    """Forces on the way to a limit.

    Attributes
    ----------
    name : of the method.
    parameter : (n,) κ, or ε.
    forces : (n, nc) N on the contacts of ``Bridge.step``; not-a-number where there are none.
    error : (n,) ‖f − f_compatible‖ / ‖f_compatible‖ over all contacts, those of ``forces`` or not.
    noise, unrest : (n,) what round-off of places, and what is not yet at rest, make of that error.
    excluded : (n,) why a point is not fitted, "round-off", "not at rest", "closed gaps" or
        "failed", and how; "" where it is.
    slope : fitted exponent of the error in ``parameter``; not-a-number with under three points.
    steps : (n,) time steps, passes or iterations. seconds : (n,) wall-clock time.
    """

    name: str
    parameter: FloatArray
    forces: FloatArray
    error: FloatArray
    noise: FloatArray
    unrest: FloatArray
    excluded: tuple[str, ...]
    slope: float
    steps: FloatArray
    seconds: FloatArray

    @property
    def used(self) -> BoolArray:
        """(n,) which points are fitted."""
        return np.array([not why for why in self.excluded], dtype=np.bool_)


@dataclass(frozen=True, eq=False)
class Bridge(Frozen):
    """What ``bridge`` found.

    Attributes
    ----------
    scene : as given. step : the rigid step, of contacts that exactly touch.
    power : p. nullity : how many numbers balance leaves free among the closed contacts.
    forces : (nc,) N, compatible.
    minimum_norm : (nc,) N, the least force that balances.
    overlap : (n,) deepest overlap at each κ in the limit, over the smallest half-width.
    lines : of each method, against κ.
    one_step : of ``CompatibleCD(method="one-step")``, against ε.
    uniform : likewise with compliance ε of all contacts alike, Hooke, whatever they are.
    seconds_one_step, seconds_two_steps : median times of a solve, by the same backend.
    """

    scene: Scene
    step: ContactStep
    power: float
    nullity: int
    forces: FloatArray
    minimum_norm: FloatArray
    overlap: FloatArray
    lines: tuple[Line, ...]
    one_step: Line
    uniform: Line
    seconds_one_step: float
    seconds_two_steps: float

    @property
    def expected(self) -> float:
        """The exponent −1/(p−1) of the error in κ."""
        return -1.0 / (self.power - 1.0)

    @property
    def minimum_norm_error(self) -> float:
        """‖f − f_compatible‖ / ‖f_compatible‖ of the least force; the ridge tends to it too."""
        return self.distance(self.minimum_norm)

    def distance(self, forces: FloatArray) -> float:
        """‖f − f_compatible‖ / ‖f_compatible‖ of forces (nc,), N."""
        size = float(np.linalg.norm(self.forces))
        return float(np.linalg.norm(forces - self.forces)) / size

    def line(self, name: str) -> Line:
        """A method's line.

        Raises
        ------
        InvalidInput : none of this name.
        """
        chosen = checks.choice("name", name, [line.name for line in self.lines])
        return next(line for line in self.lines if line.name == chosen)

    def __str__(self) -> str:
        head = (
            f"power {self.power:g}, {self.step.nc} contacts, nullity {self.nullity}; relative "
            f"distance from the compatible forces\n\n{'κ':>10} {'overlap':>9}"
        )
        rows = [head + "".join(f" {line.name:>16}" for line in self.lines)]
        for i, kappa in enumerate(self.lines[0].parameter if self.lines else ()):
            cells = "".join(f" {_cell(line, i):>16}" for line in self.lines)
            rows.append(f"{kappa:>10.2e} {self.overlap[i]:>9.1e}{cells}")
        fits = "".join(f" {line.slope:>+16.3f}" for line in self.lines)
        rows += [f"{'slope':>20}{fits}   expected {self.expected:+.3f}", ""]
        costs = "".join(f" {float(np.nansum(line.seconds)):>15.1f} " for line in self.lines)
        rows.insert(-1, f"{'seconds':>20}{costs}")
        rows.append(f"{'ε':>10} {'one step':>16} {'uniform ridge':>16}")
        for i, epsilon in enumerate(self.one_step.parameter):
            cells = f"{_cell(self.one_step, i):>16} {_cell(self.uniform, i):>16}"
            rows.append(f"{epsilon:>10.2e} {cells}")
        rows.append(f"{'slope':>10} {self.one_step.slope:>+16.3f}   expected +1.000")
        rows.append(f"minimum norm: {self.minimum_norm_error:.3g}")
        one, two = self.seconds_one_step, self.seconds_two_steps
        rows.append(f"time of a solve: one step {1e3 * one:.0f} ms, two steps {1e3 * two:.0f} ms")
        every = (*self.lines, self.one_step)
        why = {reason.partition(":")[0] for line in every for reason in line.excluded if reason}
        return "\n".join(rows + [f"* not fitted: {'; '.join(sorted(why))}"] * bool(why))


def fitted(
    *, name: str, parameter: FloatArray, forces: FloatArray, error: FloatArray, noise: FloatArray,
    unrest: FloatArray, trouble: Sequence[str], steps: FloatArray, seconds: FloatArray,
) -> Line:  # fmt: skip
    """A line with its slope, and the points that it is fitted to."""
    excluded = []
    for why, off, blur, left in zip(trouble, error, noise, unrest, strict=True):
        clear = off > 0.0 and blur <= BLUR * off
        if clear and left <= BLUR * off and not why.startswith((FAILED, CLOSED)):
            excluded.append("")  # at rest, or near enough
        else:
            excluded.append(why or (RESTLESS if clear else ROUND_OFF))
    used = np.array([not why for why in excluded])
    slope = np.nan
    if np.count_nonzero(used) >= _FEWEST:
        slope = float(np.polyfit(np.log(parameter[used]), np.log(error[used]), 1)[0])
    return Line(
        name=name, parameter=parameter, forces=forces, error=error, noise=noise, unrest=unrest,
        excluded=tuple(excluded), slope=slope, steps=steps, seconds=seconds,
    )  # fmt: skip


def _cell(line: Line, i: int) -> str:
    error = float(line.error[i])
    shown = f"{error:.4g}" if np.isfinite(error) else "–"
    return shown + ("*" if line.excluded[i] else " ")


# --- the walk ----------------------------------------------------------------------------


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
    reference = Reference(contacts.contact_ids, f, apart)
    place = float(np.abs(start.position).max())
    with progress_bar(progress, "runs") as tell:
        lines = _lines(scene, start, chosen, ks, reference, law, most, tell)
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
        raise InvalidInput(name, f"{found.min(initial=0.0):.4g}", "distinct positive numbers")
    return found


# --- the ways there ----------------------------------------------------------------------


def _lines(
    scene: Scene, state: State, names: Sequence[str], kappas: FloatArray, reference: Reference,
    law: PowerLaw, limit: int, tell: ProgressCallback,
) -> tuple[Line, ...]:  # fmt: skip
    """Every method at every κ."""
    done, total = 0, len(names) * kappas.size
    found = []
    for name in names:
        points: list[RestState | CdoptError] = []
        for kappa in kappas:
            tell(done, total, f"{name}, κ = {kappa:.2g}")
            points.append(_rest(scene, state, name, float(kappa), reference, law, limit))
            done += 1
        found.append(_line(name, kappas, points, reference))
    tell(done, total, "")
    return tuple(found)


def _rest(
    scene: Scene,
    state: State,
    name: str,
    kappa: float,
    reference: Reference,
    law: PowerLaw,
    limit: int,
) -> RestState | CdoptError:
    """A method at one κ; why it has no equilibrium, if it has none."""
    if name not in INTEGRATORS:
        try:
            return equilibrium_at(scene.stiffened(kappa), state)
        except SolveFailed as error:
            return error
    # w″ of the forces to come: (p − 1) k^(1/(p−1)) f^((p−2)/(p−1))
    stiff = PowerLaw(law.stiffness * kappa, law.power)
    overlap = stiff.overlap(reference.forces)
    carry = overlap > 0.0
    k = float((law.power - 1.0) * (reference.forces[carry] / overlap[carry]).max())
    mass = float(scene.bodies.mass[~scene.bodies.fixed].min())
    damped = scene.stiffened(kappa, damping=2.0 * float(np.sqrt(k / mass)))
    return integrated(damped, state, name, np.pi * float(np.sqrt(0.5 * mass / k)), reference, limit)


def _line(
    name: str, parameter: FloatArray, points: Sequence[RestState | CdoptError], reference: Reference
) -> Line:
    rested = [p if isinstance(p, RestState) else None for p in points]
    nothing = np.full(reference.forces.size, np.nan)

    def every(read: Callable[[RestState], float]) -> FloatArray:
        return np.array([np.nan if p is None else read(p) for p in rested])

    return fitted(
        name=name,
        parameter=parameter,
        forces=np.stack(
            [nothing if p is None else reference.onto(p.contact_ids, p.forces)[0] for p in rested]
        ),
        error=every(lambda p: reference.distance(p.contact_ids, p.forces)),
        noise=every(lambda p: p.noise),
        unrest=every(lambda p: p.unrest),
        trouble=[_trouble(p, reference) for p in points],
        steps=every(lambda p: float(p.steps)),
        seconds=every(lambda p: p.seconds),
    )


def _trouble(point: RestState | CdoptError, reference: Reference) -> str:
    """Why a point says nothing of the limit, "" if it does."""
    if not isinstance(point, RestState):
        return f"{FAILED}: {point}"
    closed_gaps = reference.closed_gaps(point.contact_ids, point.forces)
    return f"{CLOSED}: {closed_gaps} open in the limit" if closed_gaps else point.trouble


def _one_step(
    name: str, rigid: ContactStep, power: float, reference: FloatArray, place: float, epsilons: Any
) -> Line:
    """Compatible contact dynamics in one step, against ε; ``place`` of the furthest body, m."""
    own = CompatibleCD(rigid, power, method="one-step").epsilon or 1.0
    eps = _positive("epsilons", YIELDS * own if epsilons is None else epsilons)
    last = np.random.default_rng(0).uniform(-1.0, 1.0, rigid.nc) * np.spacing(place)
    shaken = rigid.replace(phi=rigid.phi + last)
    found = [_solved(rigid, power, float(e)) for e in eps]
    forces = np.stack([_or_nan(s.f, rigid.nc) for s in found])
    other = np.stack([_or_nan(_solved(shaken, power, float(e)).f, rigid.nc) for e in eps])
    size = float(np.linalg.norm(reference))
    worst = [np.nan if s.certificate is None else s.certificate.worst for s in found]
    return fitted(
        name=name,
        parameter=eps,
        forces=forces,
        error=np.linalg.norm(forces - reference, axis=1) / size,
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
