"""limit_load(): the largest multiple of a load that contacts with friction can balance.

The static theorem of limit analysis (A. Drucker, W. Prager & H. Greenberg 1952; J. Heyman 1966 and
R. K. Livesley 1978 for masonry) is a cone program in λ and the forces f = (f_n, f_T):

    maximise λ    subject to    Bᵀf + F_dead + λ F_live = 0,  ‖f_T‖ ≤ μ f_n

Its dual is the kinematic theorem, over the velocities v of a collapse mechanism:

    minimise −F_deadᵀv    subject to    B v ∈ K*_μ,  F_liveᵀv = 1

Forces bound the load from below and mechanisms from above; both values are computed again from
the data. Sliding contacts of such a mechanism open at μ times their sliding speed, as the
associated law has it. For Coulomb's law λ is therefore an estimate from above (M. Gilbert, C.
Casapulla & H. Ahmed, Computers & Structures 84, 2006; M. C. Ferris & F. Tin-Loi, Int. J. Mech.
Sci. 43, 2001).
"""

from __future__ import annotations

import contextlib
import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.checks import BoolArray, FloatArray, read_only
from cdopt._util.errors import InfeasibilityProof, InvalidInput, SolveFailed
from cdopt._util.formatting import count, listed
from cdopt._util.frozen import Frozen
from cdopt.backends.registry import installed
from cdopt.hyperstatic.strength import JointStrength, ResistingCones, Strength
from cdopt.hyperstatic.structures import Structure
from cdopt.problem import ContactStep, frictional_data
from cdopt.problem.joint_elimination import Eliminated, eliminated
from cdopt.problem.scaling import column_scale, largest_by, rows_of, smallest_by
from cdopt.problem.step_problems import LAWS
from cdopt.scene import BlockModel, Scene, State

_CLOSED = 1e-3  # of what a part moves in one step: gaps that count as closed
_ACCURACY = {"tol_gap_abs": 1e-12, "tol_gap_rel": 1e-12, "tol_feas": 1e-12}
_REGULARISATIONS = (None, 1e-7, 1e-6)  # of Clarabel's systems, its own first
_ENOUGH = 1e-8  # residuals with which no further one is tried
_ROUND_OFF = 4 * float(np.finfo(float).eps)  # of the largest entry of a row of B
_LENT = 1e-3  # local load of a body without load, over the smallest load
_CLEAR = 1e-6  # of its terms: products of a proof below this are treated as 0, others exceed it
_MOVES = 1e-6  # of the fastest dof: slower ones rest


class Certified(Frozen):
    """Forces and a motion of blocks whose ``residuals`` certify each other."""

    step: ContactStep
    residuals: Mapping[str, float]
    tol: float

    @property
    def ok(self) -> bool:
        """Whether forces and motion certify the result from both sides within ``tol``."""
        return max(self.residuals.values()) <= self.tol

    @property
    @abstractmethod
    def summary(self) -> str:
        """The result in a sentence or two."""

    def _certificate(self) -> str:
        worst, residual = max(self.residuals.items(), key=lambda pair: pair[1])
        return f"It is {'' if self.ok else 'NOT '}certified: residual {residual:.1e} ({worst})."

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON; what is infinite is None."""
        names = ("ok", "residuals", "f", "f_t", "mechanism", "summary")
        plain = {name: getattr(self, name) for name in names}
        return {**plain, "residuals": dict(self.residuals), "contacts": self.step.contact_names}

    def __str__(self) -> str:
        return self.summary


@dataclass(frozen=True, eq=False)
class LimitLoad(Certified):
    """The load that a structure can bear, with forces and a mechanism that certify it.

    Attributes
    ----------
    value : λ, the largest multiple of the live load that admissible forces balance; negative if the
        structure does not stand without that load, infinite if there is no limit.
    bound : the multiple at which ``mechanism`` collapses, −F_deadᵀv / F_liveᵀv: no less than λ.
    law : "associated", for which λ is exact, or "coulomb", for which it is an upper estimate.
    step : the contact step. dead, live : (nv,) loads, N and N·m.
    f, f_t : (nc,) and (nc, d − 1) N, forces that balance F_dead + λ F_live; if λ is infinite,
        F_live alone.
    mechanism : (nv,) m/s and rad/s of the collapse, with F_liveᵀv = 1 W; None if λ is infinite.
    residuals : relative errors by name: "balance" of the forces on any degree of freedom,
        "mechanism" of the rates B v, their distance from K*_μ, also times the forces there, and
        "gap" between bound and value.
    tol : tolerance of ``ok``.
    dead_alone : whether admissible forces balance the dead load alone.
    bodies : the scene and its state, where it was given one. model : the blocks of a block model.
    joint_forces : (nj,) reactions of joints under these forces, N and N·m; None without joints.
    f_r : (nc, k) N·m, moments of contacts that resist turns; None without any.
    """

    value: float
    bound: float
    law: str
    step: ContactStep
    dead: FloatArray
    live: FloatArray
    f: FloatArray
    f_t: FloatArray
    mechanism: FloatArray | None
    residuals: Mapping[str, float]
    tol: float
    dead_alone: bool
    bodies: tuple[Scene, State] | None = None
    joint_forces: FloatArray | None = None
    model: BlockModel | None = None
    f_r: FloatArray | None = None

    @property
    def stands(self) -> bool:
        """Whether admissible forces balance only the dead load.

        This is the criterion of limit analysis: such forces exist. ``cdopt.stability`` decides
        whether elastic contacts, loaded from rest, also balance the load.
        """
        return self.dead_alone

    @property
    def rates(self) -> FloatArray:
        """(nc, d) m/s, rates of the contacts in the mechanism, the normal one first.

        Those of turns, rad/s, come last.
        """
        friction, moments = self.step.friction, 0 if self.f_r is None else self.f_r.shape[1]
        if self.mechanism is None or friction is None:
            return np.zeros((self.f.size, 1 + self.f_t.shape[1] + moments))
        others = [(B @ self.mechanism).reshape(self.f.size, -1) for B in friction.matrices]
        return np.column_stack([self.step.B @ self.mechanism, *others])

    @property
    def captions(self) -> tuple[str, str]:
        """What the two panels of its picture show."""
        return f"forces at {self.value:.5g} times the live load", "mechanism"

    @property
    def title(self) -> str:
        """The multiple, and the bodies with a live load."""
        text = f"{self.value:.5g} times the live load"
        if self.step.dof_body is None:
            return text
        bodies = np.unique(self.step.dof_body[self.live != 0.0]).tolist()
        return f"{text} on {listed([self.step.names.body(k) for k in bodies], 3)}"

    @property
    def moving_count(self) -> int:
        """Number of bodies that the mechanism moves; of degrees of freedom without bodies."""
        if self.mechanism is None:
            return 0
        speed = np.abs(self.mechanism) * _unit(column_scale(self.step.B))
        moves = np.flatnonzero(speed > _MOVES * speed.max(initial=0.0))
        return np.unique(
            self.step.dof_body[moves] if self.step.dof_body is not None else moves
        ).size

    @property
    def summary(self) -> str:
        assumed = "" if self.model is None else self.model.assumption
        if self.mechanism is None:
            return f"Admissible forces balance every multiple of the live load.{assumed}"
        text = f"The structure bears {self.value:.8g} times the live load"
        if self.value < 0.0:
            text = f"The structure does not stand: it lacks {-self.value:.8g} times the live load"
        elif not self.stands:
            text += " and stands only with a part of it applied"
        what = "body" if self.step.dof_body is not None else "coordinate"
        moved = count(self.moving_count, what)
        text += f"; a mechanism that moves {moved} bounds it by {self.bound:.8g}"
        text += f". {self._certificate()}"
        if self.law == "coulomb":
            text += " For Coulomb's law it is an upper estimate: sliding that does not open"
            text += " contacts may let it collapse earlier."
        return text + assumed

    def as_dict(self) -> dict[str, Any]:
        finite = self.mechanism is not None
        return {
            "value": self.value if finite else None,
            "bound": self.bound if finite else None,
            "law": self.law,
            "exact": self.law == "associated",
            **({} if self.f_r is None else {"f_r": self.f_r}),
            **super().as_dict(),
        }

    def __repr__(self) -> str:
        return f"LimitLoad({self.value:.8g}, {self.law}, ok={self.ok})"


def limit_load(
    structure: ContactStep | Scene | BlockModel | str | Path,
    live: Any,
    law: str = "associated",
    *,
    friction: float | None = None,
    strength: Strength | None = None,
    solver: str | None = None,
    tol: float = 1e-6,
) -> LimitLoad:
    """The largest multiple of a live load that some admissible forces balance.

    Parameters
    ----------
    structure : a step with friction, whose F_ext is the dead load; contacts open at its start carry
        no force. Or a scene, with its weights and loads; a block model
        (``cdopt.scene.load_blocks``); or the path of one or of a scene, with its parameters:
        ``wall.obj:density=2000,fixed=base``.
    live : (nv,) N and N·m, the live load of one multiple. Of bodies also a direction (dim,), for
        each one's weight in that direction (the static model of an earthquake); or loads of
        bodies by name or number, (dim,) N at the centre of mass, with torques (3,) in the plane
        and (6,) in space.
    friction : μ of all contacts, if the structure has none.
    strength : cohesion, tension and crushing of the joints; by default only friction.
    law : "associated", for which the result is exact, or "coulomb", for which the same number is
        labelled an upper estimate.
    solver : of CVXPY; by default HiGHS in the plane, where the cones are polyhedral, and Clarabel.
    tol : tolerance of the certificate.

    Returns
    -------
    LimitLoad : ``value`` and ``bound``, certified bounds from below and above on the multiple
        λ, the forces, and the collapse mechanism.

    Raises
    ------
    InvalidInput : a step or a scene without friction, a load of another shape or of unknown
        bodies, no live load, no such law or solver.
    Unsupported : a step known only by N and p; a strength of contacts that resist turns.
    SolveFailed : no multiple of the live load is balanced, with a motion that proves it: B v ∈ K*_μ
        and F_liveᵀv = 0, but F_deadᵀv > 0. Or the solver failed.

    >>> import cdopt
    >>> block = cdopt.scene.box_stack(1, dim=2, size=[0.4, 1.0]).with_friction(0.6)
    >>> limit = cdopt.limit_load(block, live=[1, 0])    # it tips at b/h = 0.4
    >>> round(limit.value, 9), round(limit.bound, 9), limit.ok
    (0.4, 0.4, True)
    """
    law, tol = checks.choice("law", law, LAWS), checks.positive("tol", tol)
    solver = checks.optional(checks.text, "solver", solver)
    assembly = Structure.of(structure, friction)
    return limit_of(assembly, assembly.live(live), law, assembly.strength(strength), solver, tol)


def limit_of(
    structure: Structure,
    load: FloatArray,
    law: str,
    strength: JointStrength | ResistingCones,
    solver: str | None,
    tol: float,
) -> LimitLoad:
    """``limit_load`` of arguments that are checked."""
    step = structure.step
    bodies = None if structure.scene is None else (structure.scene, structure.scene.initial)
    joints, may_be_open = eliminated(step), bodies is None and structure.model is None
    if joints is None:
        program = BalanceProgram(step, law, load, solver, may_be_open, strength)
    else:
        live_there = np.asarray(joints.motions.Z.T @ load)
        if not np.any(np.abs(live_there) > _ROUND_OFF * np.abs(load).max()):
            raise InvalidInput("live", "a load that the joints bear alone", "one that moves bodies")
        program = BalanceProgram(
            joints.step, law, live_there, solver, may_be_open, strength, joints
        )
    value, bound, f, motion, residuals = program.best(program.judged)
    last = f.shape[1] if step.friction is None else step.friction.d
    parts = f[:, 0].copy(), f[:, 1:last].copy(), f[:, last:].copy() if f[:, last:].size else None
    reactions = None
    if joints is not None:
        borne = load if motion is None else step.F_ext + value * load
        reactions = -joints.motions.reactions(borne + joints.load(*parts))
        motion = None if motion is None else joints.motions.Z @ motion
    return LimitLoad(value, bound, law, step, step.F_ext, load, parts[0], parts[1], motion,
                     residuals, tol, program.stands(value), bodies, reactions, structure.model,
                     parts[2])  # fmt: skip


Answer = TypeVar("Answer", bound=tuple[Any, ...])  # residuals last
Judged = tuple[float, float, FloatArray, FloatArray | None, dict[str, float]]


class BalanceProgram:
    """The cone program in units of the step: forces of the largest load, lengths of its columns."""

    def __init__(
        self,
        step: ContactStep,
        law: str,
        live: FloatArray,
        solver: str | None,
        may_be_open: bool,
        strength: JointStrength | ResistingCones,
        joints: Eliminated | None = None,
    ) -> None:
        self.joints, self.strength = joints, strength
        self.regularisation: float | None = None  # of the solver's systems; None is its own
        data = self.data = frictional_data(step, law)
        self.live, self.dead = live, np.asarray(step.F_ext)
        self.shape = data.nc, data.d
        reach = _CLOSED * data.dt * data.speed[:: data.d]
        self.closed = (step.phi <= reach) | (not may_be_open)
        rows = _without_noise(data.B, step.mass.diagonal, np.repeat(self.closed, data.d))
        self.length = _unit(column_scale(rows))
        self.rows = sp.csr_array(rows * (1.0 / self.length)[None, :])
        self.body, self.count = data.bodies, int(data.bodies.max(initial=-1)) + 1
        own = np.maximum(*(self._of_bodies(load / self.length) for load in (self.dead, live)))
        least = float(np.min(own, where=own > 0.0, initial=np.inf))
        self.floor = np.where(own > 0.0, own, _LENT * least)[self.body]  # N, least load of a dof
        weight = self._of_bodies(self.dead / self.length)
        unit = np.where(weight > 0.0, weight, np.where(own > 0.0, own, least))
        self.row = unit[self.body]  # N, of each balance
        with np.errstate(divide="ignore"):
            self.multiple = float(np.min(self.row * self.length / np.abs(live)))  # unit of λ
        contact = self.data.cones.contact[rows_of(self.rows)]
        self.unit = smallest_by(contact, self.row[self.rows.indices], data.nc)  # N, of forces
        self.unit = np.where(self.unit > 0.0, self.unit, least)
        linear = data.d == 2 and isinstance(strength, JointStrength)
        usual = "HIGHS" if linear else "CLARABEL"
        name = (solver or usual).upper()
        self.solver = (
            name if installed(name) else checks.choice("solver", name, cp.installed_solvers())
        )

    def _of_bodies(self, values: FloatArray) -> FloatArray:
        """(bodies,) the largest |value| of each body's dofs."""
        return largest_by(self.body, np.abs(values), self.count)

    def solved(self) -> tuple[float, FloatArray, FloatArray | None]:
        """λ, the forces (nc, d), and the mechanism (nv,), None where λ is infinite."""
        load = cp.Variable(name="λ")
        status, f, velocity = self.run(lambda _: cp.Maximize(load), 1.0, load)
        if status in ("infeasible_or_unbounded", "infeasible"):  # solvers mistake one for the other
            some = self.run(lambda _: cp.Maximize(cp.Constant(0.0)), 1.0, load)[0]
            status = "unbounded" if some == "optimal" else "infeasible"
        if status == "infeasible":
            raise self._proof()
        if status == "unbounded":
            status, f, _ = self.run(None, 0.0, cp.Constant(1.0))
            if status != "optimal":
                raise self._failed(
                    f"{self.solver} reports {status} for the live load alone", status
                )
            return np.inf, self.strength.nearest(f / self.multiple), None
        value = float(load.value) * self.multiple
        return value, self.strength.nearest(f), self.of_one_part(velocity / self.length)

    def of_one_part(self, motion: FloatArray) -> FloatArray:
        """The motion (nv,) of the independent part on which the live load has most power, 1 W.

        The others rest: each collapses by itself, and solvers leave errors in those that bear more.
        """
        parts, power = self.data.parts, self.live * motion
        driven = parts.total(parts.dof, power).argmax()
        motion, power = np.where(parts.dof == driven, (motion, power), 0.0)
        return motion / float(power.sum())

    def judged(self) -> Judged:
        """``solved``, with the bound of the mechanism, and the residuals last."""
        value, f, motion = self.solved()
        bound = np.inf if motion is None else self.power(motion)
        return value, bound, f, motion, self.residuals(value, bound, f, motion)

    def best(self, answer: Callable[[], Answer]) -> Answer:
        """The answer with the least residuals, its last entry, of regularisations in turn.

        Stacks of many equal blocks stop Clarabel early at its own; others are less exact with more.
        """
        answers: list[tuple[float, Answer]] = []
        failure: SolveFailed | None = None
        for regularisation in _REGULARISATIONS if self.solver == "CLARABEL" else (None,):
            self.regularisation = regularisation
            try:
                one = answer()
            except SolveFailed as error:
                if error.proof is not None and not answers:
                    raise
                failure = failure or error
                continue
            answers.append((max(one[-1].values()), one))
            if answers[-1][0] <= _ENOUGH:
                break
        if not answers:
            raise failure or self._failed("no answer", "")
        return min(answers, key=lambda pair: pair[0])[1]

    def power(self, motion: FloatArray) -> float:
        """W that the live load must have at least for a motion: its bound."""
        rates = (self.data.B @ motion).reshape(self.shape)
        return float(self.strength.power(rates * self.closed[:, None]).sum() - self.dead @ motion)

    def stands(self, value: float) -> bool:
        """Whether forces balance the dead load alone; none do where λ, its ``value``, is negative.

        Also False if λ > 0 but equilibrium needs a part of the live load.
        """
        if value < 0.0:
            return False
        with contextlib.suppress(SolveFailed):  # then λ decides
            return self.run(None, 1.0, cp.Constant(0.0))[0] == "optimal"
        return True

    def run(
        self, aim: Callable[[cp.Variable], Any] | None, dead: float, load: cp.Expression
    ) -> tuple[str, FloatArray, FloatArray]:
        """The solver's status, forces (nc, d) N in their cones, and multipliers (nv,).

        Forces balance ``dead`` times the dead load and ``load`` times the live one. ``aim`` is the
        objective as a function of the forces in ``unit``; by default the least normal forces. Each
        balance is in units of the load of its body. Raises SolveFailed if the solver fails.
        """
        f = cp.Variable(self.shape, name="f")
        live = self.live / self.length / self.row * self.multiple
        fixed = dead * self.dead / self.length / self.row
        rows = sp.csr_array(self.rows * (1.0 / self.row)[None, :])
        rows = sp.csr_array(rows * np.repeat(self.unit, self.shape[1])[:, None])
        balance = rows.T @ cp.vec(f, order="C") + fixed + load * live == 0
        objective = cp.Minimize(cp.sum(f[:, 0])) if aim is None else aim(f)
        problem = cp.Problem(objective, [balance, *self.strength.constraints(f, self.unit)])
        options = dict(_ACCURACY) if self.solver == "CLARABEL" else {}
        if self.regularisation is not None:
            options["static_regularization_constant"] = self.regularisation
        failure = ""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the certificate judges inexact answers
                problem.solve(solver=self.solver, **options)
        except cp.SolverError as error:
            failure = str(error)
        status = str(problem.status).removesuffix("_inaccurate")
        if status in ("infeasible", "unbounded", "infeasible_or_unbounded"):
            return status, np.zeros(0), np.zeros(0)
        if failure or status != "optimal" or balance.dual_value is None:
            raise self._failed(failure or f"{self.solver} reports {status}", status)
        forces = np.asarray(f.value) * self.unit[:, None]
        return status, forces, np.asarray(balance.dual_value, dtype=float) / self.row

    def _failed(self, why: str, status: str) -> SolveFailed:
        message = f"limit load: {why}"
        return SolveFailed(message, backend=self.solver, status=status, problem=self.data)

    def residuals(
        self, value: float, bound: float, f: FloatArray, motion: FloatArray | None
    ) -> dict[str, float]:
        """Errors of forces and mechanism from the data, relative to the local load of each body."""
        dead, multiple = (0.0, 1.0) if motion is None else (1.0, value)
        loads = np.array([dead * self.dead, multiple * self.live]) / self.length
        missed = self.rows.T @ f.ravel() + loads.sum(axis=0)
        terms = abs(self.rows).T @ np.abs(f.ravel()) + np.abs(loads).sum(axis=0)
        scale = np.maximum(self._of_bodies(terms)[self.body], self.floor)
        errors = {"balance": float((np.abs(missed) / scale).max(initial=0.0))}
        if motion is not None:
            rates = (self.rows @ (motion * self.length)).reshape(f.shape)
            outside = self.strength.violation(rates)
            size = float(self.strength.speed(rates).max(initial=0.0)) or 1.0
            power = float(np.abs(self.dead) @ np.abs(motion))  # W, at one of the live load
            unit = max(abs(value), min(power, self.multiple)) or 1.0
            lost = float(outside @ np.maximum(f[:, 0], self.unit))  # W, missing in the bound
            errors["mechanism"] = max(float(outside.max(initial=0.0)) / size, lost / unit)
            errors["gap"] = abs(bound - value) / unit
        return errors

    def _proof(self) -> SolveFailed:
        """No multiple of the live load is balanced, if a motion that dead loads drive proves it.

        The motion is in the dual cones, and its products are computed again from the data. Without
        such a motion nothing is said of the structure.
        """
        speed = cp.Variable(self.dead.size, name="v")
        if not self.strength.plain:
            why = "no multiple is balanced within the strength of the joints"
            return self._failed(f"{self.solver} finds that {why}", "infeasible")
        cones = self.strength.rests(self.rows, speed, self.shape[1])
        loads = (self.dead / self.length / self.row, self.live / self.length)
        still = (loads[1] / np.abs(loads[1]).max()) @ speed == 0
        problem = cp.Problem(cp.Maximize(loads[0] @ speed), [still, *cones, cp.abs(speed) <= 1])
        with contextlib.suppress(cp.SolverError):  # then there is no proof
            problem.solve(solver=self.solver)
        if speed.value is None:
            return self._failed(f"{self.solver} reports infeasible, without a proof", "infeasible")
        motion = read_only(np.asarray(speed.value) / self.length)
        full = motion if self.joints is None else read_only(self.joints.motions.Z @ motion)
        missed = self.data.cones.dual_distance(self.data.B @ motion)[self.closed]
        violation, fastest = float(missed.max(initial=0.0)), float(np.abs(speed.value).max())
        drive, powers = float(self.dead @ motion), np.abs(self.dead) @ np.abs(motion)
        most = float(np.abs(loads[1]).max()) * fastest  # of one dof; of a load on one alone, too
        terms = max(float(np.abs(self.live) @ np.abs(motion)), most)
        idle = abs(float(self.live @ motion)) <= _CLEAR * terms
        if not (idle and drive > _CLEAR * powers and violation <= _CLEAR * fastest):
            return self._failed(f"{self.solver} reports infeasible, without a proof", "infeasible")
        proof = InfeasibilityProof("limit load", full, -drive, violation)
        message = f"no multiple of the live load is balanced by forces in the cones; {proof}"
        return SolveFailed(
            message, backend=self.solver, status="infeasible", problem=self.data, proof=proof
        )


def _without_noise(B: sp.csr_array, mass: FloatArray, closed: BoolArray) -> sp.csr_array:
    """B of the rows ``closed`` without its round-off in units of the masses, b/√m."""
    rows = sp.coo_array(B * closed[:, None])
    size = np.abs(rows.data) / np.sqrt(mass[rows.col])
    largest = largest_by(rows.row, size, rows.shape[0])
    sound = size > _ROUND_OFF * largest[rows.row]
    place = (rows.row[sound], rows.col[sound])
    return sp.csr_array(sp.coo_array((rows.data[sound], place), shape=rows.shape))


def _unit(scale: FloatArray) -> FloatArray:
    """The scale, with one where it is zero."""
    return np.where(scale > 0.0, scale, 1.0)
