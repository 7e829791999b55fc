"""The bridge between the two papers: elastic contacts tend to compatible contact dynamics.

Olsen & Kamrin (2018) define compatible forces as those that an elastic contact network carries
in the limit of infinite stiffness. ``bridge`` computes elastic contacts at rest, by De Klerk et al.
(2021) or by minimising energy, at stiffness κ times the scene's, and the distance of their forces
from the compatible ones. In exact geometry

    ‖f_κ − f‖ / ‖f‖ = O(κ^(−1/(p−1))),

1/κ for Hooke, κ^(−2/3) for Hertz; for one step of contact dynamics whose compliance ε vanishes,
O(ε) for every p. The minimum-norm forces, and those of a uniform ridge ε/2 ‖f‖², have other limits.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import BoolArray, FloatArray
from cdopt._util.compiled import clock
from cdopt._util.errors import InvalidInput, SolveFailed
from cdopt._util.frozen import Frozen
from cdopt._util.progress import ProgressCallback, progress_bar
from cdopt.collision import Contacts, detect, step
from cdopt.formulations import CompatibleCD
from cdopt.hyperstatic.indeterminacy import indeterminacy
from cdopt.problem.contact_law import HOOKE, PowerLaw
from cdopt.problem.contact_step import ContactStep
from cdopt.problem.solution import StepSolution
from cdopt.scene import Scene, State

from .resting import (
    CLOSED,
    FAILED,
    INTEGRATORS,
    RESTLESS,
    ROUND_OFF,
    Point,
    ReferenceForces,
    equilibrium_at,
    half_width,
    integrated,
    lightest,
)

METHODS = ("quasi-static", *INTEGRATORS)
OVERLAPS = np.logspace(-2.0, -6.0, 5)  # over the smallest half-width: they give the default κ
EPSILONS = np.logspace(4.0, 0.0, 5)  # over the one-step method's default ε
_BACKEND = "newton"  # the sharpest
_REST_SPEED = 1e-6  # over the speed that the loads alone would give: slower is at rest
_OPEN = 1e-9  # over the smallest half-width: a wider gap is open
_REPEATS = 5
_BLUR = 0.05  # of the error: points with more noise or unrest are not fitted
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
    noise, unrest : (n,) relative change of the forces by round-off of positions, and by coming to
        rest entirely.
    excluded : (n,) why a point is not fitted, "round-off", "not at rest", "closed gaps" or
        "failed", and details; "" where it is.
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
        return np.array([not reason for reason in self.excluded], dtype=np.bool_)

    def _cell(self, i: int) -> str:
        """The error of a point as text, with a star where it is not fitted."""
        error = float(self.error[i])
        shown = f"{error:.4g}" if np.isfinite(error) else "–"
        return shown + ("*" if self.excluded[i] else " ")


def fitted(name: str, parameter: FloatArray, points: Sequence[Point]) -> Line:
    """A line through points, with the slope of those that can be fitted."""
    excluded = tuple(map(_excluded, points))
    columns = {
        field: np.array([getattr(point, field) for point in points])
        for field in ("forces", "error", "noise", "unrest", "steps", "seconds")
    }
    used, slope = np.array([not reason for reason in excluded]), np.nan
    if np.count_nonzero(used) >= _FEWEST:
        error = columns["error"][used]
        slope = float(np.polyfit(np.log(parameter[used]), np.log(error), 1)[0])
    return Line(name=name, parameter=parameter, excluded=excluded, slope=slope, **columns)


def _excluded(point: Point) -> str:
    """Why a point is not fitted; "" if it is."""
    clear = point.error > 0.0 and point.noise <= _BLUR * point.error
    fatal = point.trouble.startswith((FAILED, CLOSED))
    if clear and point.unrest <= _BLUR * point.error and not fatal:
        return ""
    return point.trouble or (RESTLESS if clear else ROUND_OFF)


@dataclass(frozen=True, eq=False)
class Bridge(Frozen):
    """Forces of elastic contacts on the way to infinite stiffness; see ``bridge``.

    Attributes
    ----------
    scene : as given. step : the rigid step, of contacts that exactly touch.
    power : p. nullity : how many numbers balance leaves free among the closed contacts.
    forces : (nc,) N, compatible.
    minimum_norm : (nc,) N, the least force that balances.
    overlap : (n,) deepest overlap at each κ in the limit, over the smallest half-width.
    lines : of each method, against κ.
    one_step : of ``CompatibleCD(method="one-step")``, against ε.
    uniform : the same with compliance ε of all contacts alike, Hooke, whatever they are.
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
        apart = float(np.linalg.norm(self.minimum_norm - self.forces))
        return apart / float(np.linalg.norm(self.forces))

    def line(self, name: str) -> Line:
        """A method's line.

        Raises
        ------
        InvalidInput : none of this name.
        """
        chosen = checks.choice("name", name, [line.name for line in self.lines])
        return next(line for line in self.lines if line.name == chosen)

    def __str__(self) -> str:
        head = "".join(f" {line.name:>16}" for line in self.lines)
        rows = [
            f"power {self.power:g}, {self.step.nc:,} contacts, nullity {self.nullity}; relative "
            "distance from the compatible forces",
            "",
            f"{'κ':>10} {'overlap':>9}{head}",
        ]
        for i, kappa in enumerate(self.lines[0].parameter if self.lines else ()):
            cells = "".join(f" {line._cell(i):>16}" for line in self.lines)
            rows.append(f"{kappa:>10.2e} {self.overlap[i]:>9.1e}{cells}")
        slopes = "".join(f" {line.slope:>+16.3f}" for line in self.lines)
        costs = "".join(f" {float(np.nansum(line.seconds)):>15.1f} " for line in self.lines)
        rows += [
            f"{'slope':>20}{slopes}   expected {self.expected:+.3f}",
            f"{'seconds':>20}{costs}",
            "",
            f"{'ε':>10} {'one step':>16} {'uniform ridge':>16}",
        ]
        for i, epsilon in enumerate(self.one_step.parameter):
            cells = f"{self.one_step._cell(i):>16} {self.uniform._cell(i):>16}"
            rows.append(f"{epsilon:>10.2e} {cells}")
        rows += [
            f"{'slope':>10} {self.one_step.slope:>+16.3f}   expected +1.000",
            f"minimum norm: {self.minimum_norm_error:.3g}",
            f"time of a solve: one step {1e3 * self.seconds_one_step:.0f} ms, "
            f"two steps {1e3 * self.seconds_two_steps:.0f} ms",
        ]
        excluded = {why for line in (*self.lines, self.one_step) for why in line.excluded if why}
        if excluded:
            reasons = sorted({why.partition(":")[0] for why in excluded})
            rows.append(f"* not fitted: {'; '.join(reasons)}")
        return "\n".join(rows)


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
    >>> from rigid_limit import bridge
    >>> result = bridge(pile, methods=["quasi-static"])
    >>> round(result.line("quasi-static").slope, 2), round(result.one_step.slope, 2)
    (-1.0, 1.0)

    Notes
    -----
    Where elastic contacts close gaps that are open in the limit, the error does not follow its law
    until κ is so great that they open; such points are marked. Rest is tested to first order:
    bodies on contacts whose forces balance but leave a mechanism pass the test, while their elastic
    counterparts creep away; such runs do not come to rest, and are marked.

    Olsen & Kamrin (2018), section 6; De Klerk et al. (2021), section 2.
    """
    if not isinstance(scene, Scene):
        raise InvalidInput("scene", checks.describe(scene), "a Scene")
    if isinstance(methods, str) or not isinstance(methods, Sequence):
        raise InvalidInput("methods", checks.describe(methods), "a list of methods")
    names = [checks.choice("methods", name, METHODS) for name in methods]
    most = checks.whole("limit", limit, 1)
    start = scene.initial if state is None else state
    power, width = scene.power, half_width(scene)
    contacts, rigid = _rigid(scene, start)
    compatible = CompatibleCD(rigid, power).solve(_BACKEND)
    alike = rigid.replace(stiffness=1.0)
    least = CompatibleCD(alike, HOOKE).solve(_BACKEND)
    _require_rest(scene, rigid, compatible.v_next)
    f, minimum_norm = _forces(compatible), _forces(least)
    law = PowerLaw(rigid.stiffness, power)
    unit = float(np.max(law.overlap(f))) / width  # deepest at κ = 1
    ks = _positive("kappas", (unit / OVERLAPS) ** (power - 1.0) if kappas is None else kappas)
    reference = ReferenceForces(contacts.contact_ids, f, contacts.phi > _OPEN * width)
    position = float(np.abs(start.position).max())
    lines: list[Line] = []
    total = len(names) * ks.size
    with progress_bar(progress, "runs") as update:
        for name in names:
            points: list[Point] = []
            for kappa in ks.tolist():
                update(len(lines) * ks.size + len(points), total, f"{name}, κ = {kappa:.2g}")
                points.append(_rest(scene, start, name, kappa, reference, law, most))
            lines.append(fitted(name, ks, points))
        update(total, total, "")
    return Bridge(
        scene=scene,
        step=rigid,
        power=power,
        nullity=indeterminacy(rigid, contacts=0).nullity,
        forces=f,
        minimum_norm=minimum_norm,
        overlap=unit * ks ** (-1.0 / (power - 1.0)),
        lines=tuple(lines),
        one_step=_one_step("one step", rigid, power, f, position, epsilons),
        uniform=_one_step("uniform ridge", alike, HOOKE, f, position, None),
        seconds_one_step=_seconds(rigid, power, "one-step"),
        seconds_two_steps=_seconds(rigid, power, "two-step"),
    )


def _positive(name: str, values: Any) -> FloatArray:
    """(n,) distinct positive numbers."""
    numbers = checks.vector(name, values, None)
    if not numbers.size or not (numbers > 0.0).all() or np.unique(numbers).size < numbers.size:
        raise InvalidInput(name, f"{numbers.min(initial=0.0):.4g}", "distinct positive numbers")
    return numbers


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
    dt = float(np.sqrt(half_width(scene) / speed))  # loads move a body by its half-width
    return contacts, trial.replace(dt=dt)


def _require_rest(scene: Scene, rigid: ContactStep, v_next: FloatArray | None) -> None:
    """Refuse bodies that a rigid step moves."""
    if v_next is None:
        return
    fastest = int(np.argmax(np.abs(v_next)))
    speed = abs(v_next[fastest])
    if speed > _REST_SPEED * float(np.abs(rigid.v_star).max()):
        body = scene.bodies.label(int(scene.dofs.body[fastest]))
        raise InvalidInput(
            "scene",
            f"{body} moves at {speed:.3g} m/s after a rigid step from rest",
            "bodies at rest on contacts that touch exactly",
        )


def _forces(solution: StepSolution) -> FloatArray:
    """f (nc,) of the limit, if it is certified."""
    if solution.f is None or not solution.ok:
        raise SolveFailed(
            f"no certified forces in the limit: {solution.formulation}",
            backend=solution.backend,
            status=solution.status,
        )
    return solution.f


# --- points on the way to it -------------------------------------------------------------


def _rest(
    scene: Scene,
    state: State,
    name: str,
    kappa: float,
    reference: ReferenceForces,
    law: PowerLaw,
    limit: int,
) -> Point:
    """A method at one κ; a failed point if it has no equilibrium."""
    if name not in INTEGRATORS:
        try:
            return equilibrium_at(scene.stiffened(kappa), state, reference)
        except SolveFailed as error:
            nothing = np.full(reference.forces.size, np.nan)
            return Point(nothing, trouble=f"{FAILED}: {error}")
    # w″ of the forces to come: (p − 1) k^(1/(p−1)) f^((p−2)/(p−1))
    overlap = PowerLaw(law.stiffness * kappa, law.power).overlap(reference.forces)
    carry = overlap > 0.0
    k = float((law.power - 1.0) * (reference.forces[carry] / overlap[carry]).max())
    mass = lightest(scene)
    damped = scene.stiffened(kappa, damping=2.0 * float(np.sqrt(k / mass)))
    return integrated(damped, state, name, np.pi * float(np.sqrt(0.5 * mass / k)), reference, limit)


def _one_step(
    name: str,
    rigid: ContactStep,
    power: float,
    reference: FloatArray,
    position: float,
    epsilons: Any,
) -> Line:
    """Compatible contact dynamics in one step, against ε; ``position`` of the furthest body, m."""
    default = CompatibleCD(rigid, power, method="one-step").epsilon or 1.0
    eps = _positive("epsilons", EPSILONS * default if epsilons is None else epsilons)
    last = np.random.default_rng(0).uniform(-1.0, 1.0, rigid.nc) * np.spacing(position)
    shaken = rigid.replace(phi=rigid.phi + last)
    size = float(np.linalg.norm(reference))
    points = []
    for epsilon in eps.tolist():
        solution, other = (
            CompatibleCD(data, power, method="one-step", epsilon=epsilon).solve(
                _BACKEND, check=False
            )
            for data in (rigid, shaken)
        )
        f, f_other = (np.full(rigid.nc, np.nan) if s.f is None else s.f for s in (solution, other))
        worst = np.nan if solution.certificate is None else solution.certificate.worst
        points.append(
            Point(
                forces=f,
                error=float(np.linalg.norm(f - reference)) / size,
                noise=float(np.fmax(worst, np.linalg.norm(f_other - f) / size)),
                unrest=0.0,
                trouble="" if solution.ok else f"{FAILED}: not certified, {solution.status}",
                steps=float(solution.iterations or 0),
                seconds=sum(solution.timings.values()),
            )
        )
    return fitted(name, eps, points)


def _seconds(rigid: ContactStep, power: float, method: str) -> float:
    """Median time of a solve, the problem's statement included."""
    runs = []
    for _ in range(_REPEATS):
        started = clock()
        CompatibleCD(rigid, power, method=method).solve(_BACKEND, check=False)
        runs.append(clock() - started)
    return statistics.median(runs)
