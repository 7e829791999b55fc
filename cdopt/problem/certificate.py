"""Certificates: residuals computed from the data and the answer alone.

Each residual is an error divided by the local load, speed or energy (``scales``). A scale of the
whole network would hide errors of a light body next to a heavy or fast one: its weight would count
as round-off. ``docs/residuals.md`` derives the scales.

The round-off of the terms of an error is subtracted from it. In the residual ``law``, where
stiffness multiplies round-off, it may hide a wrong force: there round-off over the scale is the
residual's resolution, and a resolution above the tolerance makes the certificate not ok.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from cdopt._util import checks, notebook
from cdopt._util.cached import cached_property
from cdopt._util.checks import BoolArray, FloatArray
from cdopt._util.errors import InvalidInput, Unsupported
from cdopt._util.formatting import against
from cdopt.problem.contact_problem import ContactProblem, LocalScales, same
from cdopt.problem.correction import motion_condition
from cdopt.problem.existence import attainment
from cdopt.problem.residual import (
    EPS,
    Condition,
    Groups,
    Residual,
    energy_round_off,
    largest_places,
    law_condition,
    positive,
    residuals_of,
    residuals_of_each,
)
from cdopt.problem.step import Step
from cdopt.problem.step_problems import LAWS, frictional_data, loaded_by_sliders, rigid_data

TOLERANCE = 1e-6
MOTION = "motion"
# and that of ``motion``, which need not be the largest once it exceeds a number
_Conditions = tuple[tuple[Condition, ...], Callable[[float], tuple[Condition, ...]]]
_DOUBT = 1e-2  # answers with larger residuals are wrong in any case


@dataclass(frozen=True)
class Certificate:
    """Residuals of an answer, and their tolerance ``tol``.

    ``kind`` is that of the problem, as in ``ContactProblem``. ``ok`` is true if every residual and
    every resolution is at most ``tol``, whatever the solver reported. ``slater`` is the Slater
    number of contacts with friction, if it had to be computed (``FrictionalCD.slater``).
    ``motion_error`` bounds the error of every entry of v⁺, in m/s (rad/s for a rotation). It
    follows from the duality gap: ½ ‖v − v⁺‖²_M is at most the gap if v⁺ and f are feasible.
    Otherwise it is None, and ``no_motion_error`` is the reason.
    """

    kind: str
    residuals: tuple[Residual, ...]
    tol: float = TOLERANCE
    slater: float | None = None
    motion_error: float | None = None
    no_motion_error: str = ""

    @cached_property
    def worst(self) -> float:
        """The largest residual; infinite if one is NaN."""
        values = [r.value if r.value == r.value else np.inf for r in self.residuals]
        return float(max(values, default=0.0))

    @cached_property
    def resolution(self) -> float:
        """The largest resolution, below which no error of a force can be detected."""
        return max((r.resolution for r in self.residuals), default=0.0)

    @property
    def ok(self) -> bool:
        """Whether every residual and its resolution are within the tolerance."""
        return self.worst <= self.tol and self.resolution <= self.tol

    def __getitem__(self, name: str) -> float:
        checks.text("name", name)
        by_name = {r.name: r.value for r in self}
        if name not in by_name:
            raise InvalidInput("name", repr(name), "one of " + ", ".join(by_name))
        return by_name[name]

    def __iter__(self) -> Iterator[Residual]:
        return iter(self.residuals)

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""
        return {
            **({} if self.slater is None else {"slater": self.slater}),
            "kind": self.kind,
            "ok": self.ok,
            "tol": self.tol,
            "residuals": {r.name: r.value for r in self},
            "resolution": self.resolution,
        }

    @property
    def shown(self) -> str:
        """The worst residual as text, with enough digits to distinguish it from the tolerance."""
        return against(self.worst, self.tol, 1)

    def rows(self) -> list[tuple[str, str, str]]:
        """Name, value and scale of each residual as texts."""
        return [(r.name, against(r.value, self.tol, 1), f"{r.scale:,.3g} {r.unit}") for r in self]

    @property
    def _verdict(self) -> str:
        verdict = "ok" if self.ok else "NOT OK"
        if self.worst <= self.tol < self.resolution:
            verdict += f" (round-off alone may be {against(self.resolution, self.tol, 1)})"
        return f"{self.kind}: {verdict} at {self.tol:g}"

    def _repr_html_(self) -> str:
        """The table in a notebook."""
        return notebook.table(self._verdict, ("residual", "value", "of"), self.rows())

    def __str__(self) -> str:
        lines = [f"  {name:<16}{value:>9}  of {scale}" for name, value, scale in self.rows()]
        lines += [] if self.slater is None else [f"  Slater number   {self.slater:9.1e}"]
        return "\n".join([self._verdict, *lines])


def check(
    step: Step, f: Any, f_t: Any = None, law: str | None = None, *, tol: float = TOLERANCE
) -> Certificate:
    """Check contact forces from any source, with the motion that they cause.

    Parameters
    ----------
    step : the step. law : with friction, "coulomb" (default) or "associated".
    f, f_t : (nc,) and (nc, d − 1) N, normal and tangential forces on body j; by default no
        tangential forces.
    tol : tolerance of the residuals: 1e-3 for forces in three digits.

    Returns
    -------
    Certificate : of the forces and of the motion v⁺ that they cause.

    Raises
    ------
    InvalidInput : forces of another shape, a law without friction, or no such law.
    Unsupported : a step with joints, whose reactions ``cdopt.audit`` computes.

    >>> import cdopt
    >>> beam = cdopt.bank.load("beam-uniform").step
    >>> cdopt.check(beam, [2.5, 5.0, 2.5]).ok, cdopt.check(beam, [3.0, 3.0, 3.0]).ok
    (True, False)
    """
    data = _of_step(checks.instance("step", step, Step), law)
    normal = checks.vector("f", f, step.nc, "N")
    many = data.d - 1 if step.nc else 0
    if f_t is None:
        tangential = np.zeros((step.nc, many))
    elif step.friction is None:
        raise InvalidInput("f_t", checks.describe(f_t), "none, of a step without friction")
    else:
        tangential = checks.real("f_t", f_t, f"shape {(step.nc, many)}, N", (step.nc, many))
    forces = np.column_stack([normal, tangential]).ravel()
    return certify(data, data.velocity(forces), forces, tol)


def _of_step(step: Step, law: str | None = None) -> ContactProblem:
    """The rigid problem of a step, under a law where it has friction."""
    if step.joints is not None:
        raise Unsupported("certify", "the step has joints", ("cdopt.audit", "solve"))
    if step.friction is not None:
        return frictional_data(step, LAWS[0] if law is None else law)
    if law is not None:
        raise InvalidInput("law", checks.describe(law), "none, of a step without friction")
    return rigid_data(step)


def certify(
    data: ContactProblem | Step,
    motion: FloatArray | None,
    forces: FloatArray,
    tol: float = TOLERANCE,
) -> Certificate:
    """Check a primal–dual pair against the optimality conditions of its problem.

    Parameters
    ----------
    data : the problem, such as ``ClassicCD(step).data``; or a step, with rigid contacts and, if it
        has friction, Coulomb's law.
    motion : v⁺ (nv,) of a step, or None where only N and p are known; u (nv,) of a static network.
        ``check`` takes the motion that the forces cause.
    forces : f (rows,), N; with friction d rows a contact, the normal one first.
    tol : tolerance of the residuals.

    Returns
    -------
    Certificate : residuals by name, and ``ok``, whether all are at most ``tol``.

    Raises
    ------
    InvalidInput : motion or forces have the wrong length, masked entries or numbers that are not
        real; tol is not in (0, 1].
    """
    data = _of_step(data) if isinstance(data, Step) else data
    data = checks.instance("data", data, ContactProblem)
    forces = checks.answer("forces", forces, data.rows)
    if motion is not None:
        motion = checks.answer("motion", motion, data.nv)
    elif data.nv:
        raise InvalidInput("motion", "None", f"shape ({data.nv},)")
    tol = checks.scalar("tol", tol, above=0.0, at_most=1.0)
    return _certificates(data, motion, forces, tol)[0]


def certify_each(
    data: ContactProblem,
    motion: FloatArray | None,
    forces: FloatArray,
    groups: Groups,
    tol: float = TOLERANCE,
) -> list[Certificate]:
    """The certificates of the independent problems of a stack, given its answer.

    One for each of ``groups``, in order. All scales are local, and residuals are those of each
    problem's entries: they equal those of the single problem, up to the order of sums. ``motion``,
    ``forces``, ``tol`` and errors as in ``certify``.
    """
    checks.instance("data", data, ContactProblem)
    checks.instance("groups", groups, Groups)
    forces = checks.answer("forces", forces, data.rows)
    motion = None if motion is None else checks.answer("motion", motion, data.nv)
    return _certificates(data, motion, forces, checks.tolerance("tol", tol), groups)


@np.errstate(all="ignore")  # what is not a number fails its residual
def _certificates(
    data: ContactProblem,
    motion: FloatArray | None,
    f: FloatArray,
    tol: float,
    groups: Groups | None = None,
) -> list[Certificate]:
    """The certificate of each problem of ``groups``; None is one problem."""
    each = [residuals(data, motion, f)]
    if groups is not None:
        conditions, further = _conditions(data, motion, f)
        each = list(map(_in_doubt, residuals_of_each((*conditions, *further(np.inf)), groups)))
    bounds = _motion_errors(data, motion, f, groups)
    certificates = [
        Certificate(data.kind, one, tol, None, *bound)
        for one, bound in zip(each, bounds, strict=True)
    ]
    sound = [(k, c.worst) for k, c in enumerate(certificates) if c.ok]
    for k, slater, doubts in attainment(data, motion, f, sound, groups):
        residuals_too = (*certificates[k].residuals, *doubts)
        certificates[k] = replace(certificates[k], residuals=residuals_too, slater=slater)
    return certificates


def _motion_errors(
    data: ContactProblem, motion: FloatArray | None, f: FloatArray, groups: Groups | None
) -> list[tuple[float | None, str]]:
    """A bound of the error of v⁺ in m/s or rad/s, or None and the reason, for each problem.

    The primal energy P is strongly convex: of the exact motion v, ½ ‖v − v⁺‖²_M ≤ P(v⁺) − P(v), and
    P(v) ≥ −Δt D(f) of any feasible forces. So it is at most the duality gap G, round-off included,
    and |v − v⁺|_j ≤ √(2 G (M⁻¹)_jj).
    """
    mass, count = data.inertia, 1 if groups is None else groups.count
    if mass is None or motion is None:
        return [(None, "without inertia no energy bounds a motion")] * count
    if data.law == "coulomb":
        return [(None, "Coulomb's law has no dual problem, and no gap")] * count
    if data.sliders is not None:
        return [(None, "it is computed of problems without sliders")] * count
    if mass.inverse_diagonal is None:
        return [(None, "the mass matrix has blocks too large to invert")] * count
    cones, local = data.cones, data.scales.local(motion, f)
    why = dict[int, str]()
    gap, round_off = local.rates, local.gap_round_off
    of = np.zeros(data.nc, dtype=np.int64) if groups is None else groups.of_contact
    outside = cones.dual_distance(gap) - cones.sensitivity * cones.norms(round_off)
    if data.compliance is None and (outside > 0.0).any():
        at = np.array([outside.argmax()]) if groups is None else largest_places(outside, of)
        off = zip(of[at].tolist(), outside[at].tolist(), strict=True)
        text = "the motion is not feasible: a rate is {:.1e} m/s off its cone"
        why = {k: text.format(x) for k, x in off if x > 0.0}
    pushes = cones.d == 1 and f.min(initial=0.0) >= 0.0  # which is in half-lines and in lines
    if not pushes:
        bad = cones.distance(f) > EPS * cones.norms(f)
        why |= dict.fromkeys(of[bad].tolist(), "the forces are not feasible")
    if len(why) == count:
        return [(None, why[k]) for k in range(count)]
    speed = _motion_bound(data, motion, f, local)
    if groups is None:
        return [(float(speed.max(initial=0.0)), "")]
    bound = np.zeros(count)
    np.maximum.at(bound, groups.of_part[data.parts.dof], speed)
    return [(None, why[k]) if k in why else (x, "") for k, x in enumerate(bound.tolist())]


def _motion_bound(
    data: ContactProblem, motion: FloatArray, f: FloatArray, local: LocalScales
) -> FloatArray:
    """(nv,) a bound of the error of each entry of v⁺, of an answer that is feasible."""
    mass, inverse = data.mass, np.asarray(data.mass.inverse_diagonal)
    gap, round_off = local.rates, local.gap_round_off
    jump, push = motion - data.free_motion, data.dt * data.load(f)
    missed = mass.times(jump) - push
    share = data.dt * f * gap
    size = data.dt * np.abs(f) * (np.abs(gap) + round_off)
    if data.compliance is not None:
        stored = data.stored_energy(data.overlap(motion, f)) + data.compliance.conjugate(f)
        share, size = share + stored, size + stored
    parts, at = data.parts, data.row_part
    noise = EPS * (mass.times_size(np.abs(motion) + np.abs(data.free_motion)) + np.abs(push))
    total = np.abs(parts.total(at, share)) + EPS * parts.total(at, size)
    total += parts.total(at, data.dt * np.abs(f) * round_off)
    if mass.is_diagonal:
        missed = np.abs(missed) + noise
        total += parts.total(parts.dof, 0.5 * missed * mass.solve(missed))
    else:  # by the triangle inequality in the norm of M⁻¹
        left = np.sqrt(positive(parts.total(parts.dof, missed * mass.solve(missed))))
        total += 0.5 * (left + parts.total(parts.dof, noise * np.sqrt(inverse))) ** 2
    return np.sqrt(2.0 * total[parts.dof] * inverse)


def residuals(
    data: ContactProblem, motion: FloatArray | None, f: FloatArray, doubt: float = _DOUBT
) -> tuple[Residual, ...]:
    """The residuals of an answer, a motion (nv,) and forces f (rows,).

    ``motion`` costs most, and is among them only where others are at most ``doubt``; where that is
    less than the default, parts may be left out once it exceeds it. The last result is kept: a
    native solver computes them before its answer is certified.
    """
    kept: Any = data.__dict__.get("_residuals")
    if kept is None or not (same(kept[0], f) and same(kept[1], motion)):
        f, motion = np.array(f), None if motion is None else np.array(motion)
        conditions, further = _conditions(data, motion, f)
        kept = data.__dict__["_residuals"] = [f, motion, residuals_of(*conditions), further]
    known: tuple[Residual, ...] = kept[2]
    if kept[3] is not None and max((r.value for r in known), default=0.0) <= doubt:
        conditions = kept[3](doubt if doubt < _DOUBT else np.inf)
        motions = residuals_of(*conditions) if conditions else ()
        known = _in_doubt(known + motions)
        if doubt >= _DOUBT or all(r.value <= doubt for r in motions):
            kept[2:] = known, None
    return known


def _in_doubt(residuals: tuple[Residual, ...]) -> tuple[Residual, ...]:
    """Residuals, ``motion`` only where it is the largest and others are small."""
    worst = max((r.value for r in residuals if r.name != MOTION), default=0.0)
    return tuple(r for r in residuals if r.name != MOTION or (worst <= _DOUBT and r.value > worst))


def worst_residual(data: ContactProblem, f: FloatArray, doubt: float = _DOUBT) -> float:
    """The largest residual of forces f (rows,), N, and the motion that they cause."""
    return max(r.value for r in residuals(data, data.velocity(f), f, doubt))


def _conditions(data: ContactProblem, motion: FloatArray | None, f: FloatArray) -> _Conditions:
    """The conditions of an answer, a motion (nv,) and forces f (rows,)."""
    if data.sliders is not None:
        motion = data.velocity(f) if motion is None else motion
        data = loaded_by_sliders(data, np.asarray(motion))
    local = data.scales.local(motion, f)
    if data.compliance is not None:
        return _elastic(data, local, motion, f), _no_motion
    conditions = _rigid if data.d == 1 else _with_friction
    return conditions(data, local, f)


def _no_motion(enough: float) -> tuple[Condition, ...]:
    return ()


def _rigid(data: ContactProblem, local: LocalScales, f: FloatArray) -> _Conditions:
    """f ≥ 0, g ≥ 0, fᵀg = 0: (20)–(22) of Olsen & Kamrin (2018).

    With the local speed S_i at contact i and the energy E of a part:

    - ``penetration``      max (−g_i)₊ / S_i
    - ``tension``          max (−N_ii f_i)₊ / S_i
    - ``complementarity``  max min(N_ii f_i, g_i)₊ / S_i
    - ``momentum``         max_j |M(v⁺ − v*) − Δt Bᵀf|_j / √(M_jj E_b), where bodies are known
    - ``duality gap``      |primal + Δt · dual| / E, the largest of all parts
    - ``motion``           if it is the largest, and others are small: the change of the motion of a
      body if the gaps of contacts that press were closed exactly, over 10³ √E_b

    A bilateral row has the penetration |g_i|, and its force is free.
    """
    gap, push, lines = local.rates, data.mobility * f, data.cones.bilateral
    speed, round_off, zero = local.speed, local.gap_round_off, np.zeros(data.nc)
    both, pull = positive(np.minimum(push, gap)), positive(-push)
    if lines.any():
        both, pull = np.where(lines, 0.0, both), np.where(lines, 0.0, pull)
    short = positive(-data.cones.opening(gap))
    off = np.maximum(np.maximum(both, pull), short)
    conditions = (
        Condition("penetration", "m/s", short, speed, round_off),
        Condition("tension", "m/s", pull, speed, zero),
        Condition("complementarity", "m/s", both, speed, round_off),
        *local.balance,
        _duality_gap(data, local, data.dt * f * gap, data.dt * np.abs(f) * round_off, zero),
    )

    chosen = partial(_pressing, push, gap, lines)
    return conditions, partial(motion_condition, data, f, local, chosen, off)


def _pressing(push: FloatArray, gap: FloatArray, lines: BoolArray) -> tuple[BoolArray, BoolArray]:
    """The rows that press, and those that do not."""
    presses = (push > gap) | lines
    return presses, ~presses


def _with_friction(data: ContactProblem, local: LocalScales, f: FloatArray) -> _Conditions:
    """K ∋ f ⟂ g̃ ∈ K*, for forces of the rows (rows,).

    With w = tr(N_ii)/d and the local speed S_i at contact i:

    - ``penetration``    (−g_n)₊ / S_i, for the associated law the distance of g_i from K*
    - ``friction cone``  w_i times the distance of f_i from K, over S_i
    - ``natural map``    ‖min(w f_n, g_n), w f_T − P(w f_T − g_T)‖ / S_i with P on the disc of
      radius μ w f_n; for the associated law ‖w_i f_i − P_K(w_i f_i − g_i)‖ / S_i
    - ``momentum``, ``duality gap``, ``motion`` : as of a rigid step, the gap with fᵀg̃

    A moment over its arm counts as a force, and an angular velocity times the arm as a speed.
    """
    w, speed, arm, gap = data.mobility, local.speed, data.scales.lever, local.rates
    cones, slack, given = data.cones, local.gap_round_off, f
    if isinstance(arm, np.ndarray):
        cones, f, gap, slack = cones.in_units(arm), f / arm, arm * gap, arm * slack
    coulomb, zero = data.law == "coulomb", np.zeros(data.nc)
    terms = cones.law_terms(f, gap, slack, w, coulomb)
    size = cones.sensitivity * terms.blur
    round_off = terms.blur if coulomb else size
    conditions = (
        Condition("penetration", "m/s", terms.outside, speed, round_off),
        Condition("friction cone", "m/s", w * terms.beyond, speed, 0.0 * speed),
        Condition("natural map", "m/s", terms.off, speed, round_off),
        *local.balance,
        _duality_gap(data, local, data.dt * terms.work, data.dt * terms.force * size, zero),
    )

    chosen = partial(_sticking, cones.on_rows(w), f, gap, terms.natural)
    return conditions, partial(motion_condition, data, given, local, chosen, terms.off)


def _sticking(
    w: FloatArray, f: FloatArray, gap: FloatArray, natural: FloatArray
) -> tuple[BoolArray, BoolArray]:
    """The rows whose natural map is their rate, and those where it is their force over 1/w."""
    push = w * f
    same_size = EPS * (np.abs(push) + np.abs(gap))
    kept = np.abs(natural - gap) <= same_size
    return kept, ~kept & (np.abs(natural - push) <= same_size)


def _elastic(
    data: ContactProblem, local: LocalScales, motion: FloatArray | None, f: FloatArray
) -> tuple[Condition, ...]:
    """f = w′(c), with c = −Δt (B v⁺ + b) or −(B u + gaps), and the local load F_i of a contact.

    - ``law``          max |f_i − w′(c_i)| / F_i
    - ``tension``      max (−f_i)₊ / F_i
    - ``momentum``     as of a rigid step, or
    - ``equilibrium``  max_j |Bᵀf − F̃|_j / (β_j Y_b) over free dofs, with Y_b the load of a body
    - ``duality gap``  |primal + Δt · dual| / the energies, for each independent part

    For springs that also pull, those of friction and of soft steps, ``friction cone`` replaces
    ``tension``, the distance of f_i from K, and w′ is the law of ``contact_forces``.
    Coulomb's micro-slip has no dual and no gap.
    """
    c, slack, law = data.overlap(motion, f), data.dt * local.gap_round_off, data.elastic_law
    cones, at = data.cones, local.force
    if not law.pulls:
        by_law = law_condition(law, f, c, slack, at)
        inside = Condition("tension", "N", cones.distance(f), at, np.zeros(f.size))
    else:
        off = cones.sensitivity * cones.norms(law.stiffness * slack) + EPS * cones.norms(f)
        by_law = Condition("law", "N", cones.norms(f - data.contact_forces(c)), at, off, True)
        inside = Condition("friction cone", "N", cones.distance(f), at, EPS * cones.norms(f))
    order = (*local.balance, inside, by_law)
    if not data.is_static:
        order = (by_law, inside, *local.balance)
    if data.law == "coulomb":
        return order
    stored = data.stored_energy(c) + law.conjugate(f)
    stored, unbalanced, round_off = (
        cones.total(values)
        for values in (stored, stored - f * c, energy_round_off(law, f, c, slack))
    )
    stored = np.maximum(stored, local.least_stored)
    return (*order, _duality_gap(data, local, unbalanced, round_off, stored))


def _duality_gap(
    data: ContactProblem,
    local: LocalScales,
    unbalanced: FloatArray,
    round_off: FloatArray,
    stored: FloatArray,
) -> Condition:
    """The condition of the duality gap, P + Δt D, written so that it does not cancel.

    Each contact's share of the gap, its round-off, and its elastic energy are (nc,) in J:
    ``unbalanced``, ``round_off`` and ``stored``.
    """
    at, parts = data.parts.contact, data.parts
    return Condition(
        "duality gap",
        "J",
        np.abs(parts.total(at, unbalanced) + local.imbalance),
        parts.total(at, stored) + local.part_energy,
        parts.total(at, round_off) + local.imbalance_round_off,
        part=np.arange(parts.count),
    )


def errors_elsewhere(
    data: ContactProblem, motion: FloatArray | None, f: FloatArray
) -> dict[str, float]:
    """Errors that other programs report, of an answer with friction, v⁺ (nv,) and f (rows,).

    All are ‖r − P_K(r − g̃)‖ with the impulses r = Δt f, over a scale, with u = g and q = p:

    - ``siconos`` : max(‖q‖, ‖r‖, ‖u‖)
    - ``rr-9118`` : ‖q‖ (V. Acary, M. Brémond, O. Huber, Inria RR-9118, 2017)
    - ``fclib``   : 1 + √‖q‖, as FCLib's MERIT_1 is written

    They add m/s to N s, and depend on the units.
    """
    rates, impulses, q = data.gap(motion, f), data.dt * f, float(np.linalg.norm(data.p))
    error = data.cones.natural_map(impulses, data.shifted(rates), np.ones(data.nc))
    size = float(np.linalg.norm(error))
    largest = max(q, float(np.linalg.norm(impulses)), float(np.linalg.norm(rates)))
    scales = {"siconos": largest, "rr-9118": q, "fclib": 1.0 + np.sqrt(q)}
    return {name: size / scale if size else 0.0 for name, scale in scales.items()}
