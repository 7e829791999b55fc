"""audit(): what forces from any code get wrong, and what in them is a choice.

Given forces f, and the motion v⁺ that they are said to cause, four findings are kept apart:

1. the certificate of the pair under each law;
2. what they miss of the load that is determined, Bᵀf − F̃ with F̃ = M(v⁺ − v*)/Δt, body by body:
   an error of mechanics;
3. the nearest admissible forces, min ‖f − f′‖ over A(v⁺), and the contacts outside their bounds;
4. what is left, f′ less the compatible forces: self-balanced, a choice and no error.

A(v⁺) are the forces on the faces of the cones at the motion that deliver F̃, as in
``friction_network``; the nearest of them are those of an elastic network with equal springs and the
trial forces f.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from cdopt._util import checks, notebook
from cdopt._util.checks import FloatArray, IntArray, freeze, read_only
from cdopt._util.cone_program import ConeProgram
from cdopt._util.errors import InvalidInput, SolveFailed
from cdopt._util.formatting import count, plain, short
from cdopt._util.frozen import Frozen
from cdopt.backends.deadline import Deadline
from cdopt.formulations import ClassicCD, FrictionalCD, NoTensionTruss
from cdopt.formulations.faces import Faces
from cdopt.formulations.friction_network import FrictionNetwork, faces_of
from cdopt.formulations.rolling_faces import RollingFaces
from cdopt.hyperstatic.admissible import coordinates
from cdopt.hyperstatic.indeterminacy import indeterminacy
from cdopt.hyperstatic.report import Indeterminacy
from cdopt.problem.certificate import TOLERANCE, Certificate, certify
from cdopt.problem.cones import OPEN, FixedFaces
from cdopt.problem.contact_law import HOOKE, PowerLaw
from cdopt.problem.contact_problem import ContactProblem
from cdopt.problem.contact_step import ContactStep, with_matrices
from cdopt.problem.joint_elimination import Eliminated
from cdopt.problem.scales import step_scales
from cdopt.problem.scaling import column_scale, contact_rows
from cdopt.problem.solution import Iterate, StepSolution
from cdopt.problem.step import Step
from cdopt.problem.step_problems import LAWS, truss_data

if TYPE_CHECKING:
    import pandas as pd

CLASSIC = "classic"  # the law of steps without friction
ERROR, OUTSIDE, CHOICE = "error of mechanics", "not admissible", "a choice"
_DELIVERED = 1e-6  # of the largest local load: what nearest forces may miss
_SAME = 10.0  # motions within this many tolerances of each other are one
_LEAST = 1e-7  # share of local speeds below which rates of a reference are zero, at least
_RESOLVED = 10.0  # errors of at most this many times their round-off are none
_BOUNDED = 500  # contacts up to which bounds are computed unasked,
_LARGE = 5000  # contacts with friction up to which compatible forces are computed
_LARGEST = 20_000  # and up to which the nearest admissible forces are searched
_ASKED = 40  # and of how many, those farthest from admissible forces
_ROWS = 12  # bodies and contacts that printing shows


@dataclass(frozen=True, eq=False)
class Audit(Frozen):
    """What is wrong with forces, and what in them is a choice.

    Attributes
    ----------
    step : the step. law : of its friction, "coulomb" or "associated"; None without friction.
    forces : (nc, d) N, those in question, the normal component first.
    motion : (nv,) v⁺ that the forces are judged by; ``source`` tells whose it is.
    certificates : by law, of the forces with the motion given, or the one that they cause.
    body_names : (nb,) of the bodies that move.
    missed : (nv,) N and N·m, Bᵀf − F̃; of a step with joints (m,), on the degrees of freedom that
        they leave: they bear what is left.
    error : (nb,) N, its size on each body; a torque counts over the longest lever of its contacts.
    error_share : (nb,) the same over the local load of the body.
    nearest : (nc, d) N, the nearest admissible forces; None where ``failure`` gives the reason.
    distance : (nc,) N, of the forces from these.
    beyond : (nc,) N, by which the force is outside its cone, or the face of it that the motion
        leaves, or its certified bounds where they are known.
    acting : (nc,) N, the local load of each contact.
    compatible : (nc, d) N, admissible forces that elastic contacts would carry; None if unknown.
    report : bounds of the contacts that were asked for or are far from admissible; or None.
    failure : why there are no nearest forces; empty if there are.
    tol : share of local loads up to which errors do not count.
    """

    step: ContactStep
    law: str | None
    forces: FloatArray
    motion: FloatArray
    source: str
    certificates: Mapping[str, Certificate]
    body_names: tuple[str, ...]
    missed: FloatArray
    error: FloatArray
    error_share: FloatArray
    nearest: FloatArray | None
    distance: FloatArray
    beyond: FloatArray
    acting: FloatArray
    compatible: FloatArray | None
    report: Indeterminacy | None
    failure: str
    tol: float

    @property
    def balanced(self) -> bool:
        """Whether the forces deliver what is determined, on every body."""
        return bool((self.error_share <= self.tol).all())

    @property
    def admissible(self) -> bool:
        """Whether admissible forces with this motion are as near as ``tol``."""
        return self.nearest is not None and bool((self.distance_share <= self.tol).all())

    @property
    def verdict(self) -> str:
        """One of "error of mechanics", "not admissible", or "a choice"."""
        if not self.balanced:
            return ERROR
        return CHOICE if self.admissible else OUTSIDE

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong: what is left is a choice."""
        return self.verdict == CHOICE

    @property
    def choice(self) -> FloatArray | None:
        """(nc, d) N, the nearest admissible forces less the compatible ones: self-balanced."""
        if self.nearest is None or self.compatible is None:
            return None
        return self.nearest - self.compatible

    @property
    def wrong_bodies(self) -> IntArray:
        """Bodies with an error of mechanics, the largest first."""
        order = np.argsort(-self.error_share, kind="stable")
        return order[self.error_share[order] > self.tol]

    @property
    def distance_share(self) -> FloatArray:
        """(nc,) ``distance`` over the local load."""
        return self.distance / self.acting

    @property
    def outside(self) -> IntArray:
        """Contacts whose force no admissible answer has: outside its cone, face or bounds."""
        return np.flatnonzero(self.beyond > self.tol * self.acting)

    @property
    def summary(self) -> str:
        """The findings in a few sentences."""
        words = {ERROR: "An error of mechanics", OUTSIDE: "The forces are not admissible",
                 CHOICE: "Nothing is wrong with the forces"}  # fmt: skip
        text = words[self.verdict]
        if self.verdict == ERROR:
            many, worst = self.wrong_bodies.size, int(self.wrong_bodies[0])
            text += f": on {count(many, 'body')} they miss what is determined, on body "
            text += f"{self.body_names[worst]} by {short(self.error[worst])} N"
            text += f", {short(self.error_share[worst], 2)} of the local load."
        elif self.nearest is None:
            text += f": {self.failure}."
        elif self.verdict == OUTSIDE:
            far = int(np.argmax(self.distance_share))
            text += f": they balance, but are {short(self._size(self.forces - self.nearest))} N"
            text += " from the nearest admissible ones, most at contact "
            text += f"{self.step.contact_names[far]} ({short(self.distance[far])} N)."
        else:
            text += ": they balance on every body and are admissible."
        if (choice := self.choice) is not None:
            text += f" A choice of {short(self._size(choice))} N"
            text += " parts them from what elastic contacts would carry; it loads no body."
        return text

    @staticmethod
    def _size(forces: FloatArray) -> float:
        return float(np.linalg.norm(forces))

    def table(self) -> list[tuple[str, str, str]]:
        """The four findings as lines: what, value, and what it says."""
        lines = []
        for name, certificate in self.certificates.items():
            says = "ok" if certificate.ok else "not ok"
            lines.append((f"1 certificate, {name}", certificate.shown, says))
        worst = float(self.error.max(initial=0.0))
        says = f"wrong on {count(self.wrong_bodies.size, 'body')}"
        lines.append(
            ("2 error of mechanics", f"{short(worst)} N", "none" if self.balanced else says)
        )
        if self.nearest is None:
            lines.append(("3 distance from admissible forces", "–", self.failure))
        else:
            far = self._size(self.forces - self.nearest)
            says = "admissible" if self.admissible else "not admissible"
            if self.outside.size:
                says += f", {count(self.outside.size, 'contact')} outside cone or bounds"
            lines.append(("3 distance from admissible forces", f"{short(far)} N", says))
        if (choice := self.choice) is not None:
            lines.append(("4 choice", f"{short(self._size(choice))} N", "no error"))
        return lines

    def bodies_frame(self) -> pd.DataFrame:
        """A row for each body that moves: ``error`` in N and ``error_share`` of its local load."""
        columns = {"body": self.body_names, "error": self.error, "error_share": self.error_share}
        return notebook.data_frame(columns, index="body")

    def to_frame(self) -> pd.DataFrame:
        """A row for each contact as a pandas.DataFrame, its name the index.

        Columns: ``force`` in N, with friction ``force_t1``, …; the same of the ``nearest``
        admissible and of the ``compatible`` forces where they are known; ``distance`` in N, its
        share of the local load, and whether the contact is ``outside`` its cone or bounds.
        """
        columns: dict[str, Any] = {"contact": self.step.contact_names}
        tables = {"force": self.forces, "nearest": self.nearest, "compatible": self.compatible}
        for name, forces in tables.items():
            for k in range(0 if forces is None else forces.shape[1]):
                columns[f"{name}_t{k}" if k else name] = np.asarray(forces)[:, k]
        columns |= {"distance": self.distance, "distance_share": self.distance_share}
        outside = np.zeros(self.step.nc, dtype=bool)
        outside[self.outside] = True
        return notebook.data_frame({**columns, "outside": outside}, index="contact")

    def as_dict(self, contacts: bool = True) -> dict[str, Any]:
        """Plain values for JSON.

        Parameters
        ----------
        contacts : whether to include the forces contact by contact.
        """
        names = self.step.contact_names
        content: dict[str, Any] = {
            "verdict": self.verdict,
            "ok": self.ok,
            "law": self.law,
            "motion": self.source,
            "tol": self.tol,
            "certificates": {name: c.as_dict() for name, c in self.certificates.items()},
            "error": float(self.error.max(initial=0.0)),
            "wrong_bodies": [
                {"body": self.body_names[b], "error": self.error[b], "share": self.error_share[b]}
                for b in self.wrong_bodies.tolist()
            ],
            "distance": None if self.nearest is None else self._size(self.forces - self.nearest),
            "outside": [names[i] for i in self.outside.tolist()],
            "choice": None if self.choice is None else self._size(self.choice),
            "failure": self.failure,
            "summary": self.summary,
        }
        if checks.flag("contacts", contacts):
            content |= {"contacts": names, "forces": self.forces, "nearest": self.nearest}
        return dict(plain(content))

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        header = ("finding", "value", "says")
        return notebook.table("Audit", header, self.table(), self.summary)

    def __str__(self) -> str:
        lines = [self.summary, ""]
        lines += [f"{what:<36}{value:>12}  {says}" for what, value, says in self.table()]
        wrong = self.wrong_bodies[:_ROWS].tolist()
        lines += ["", f"{'body':<20}{'error [N]':>12}{'share':>10}"] if wrong else []
        for b in wrong:
            error, share = short(self.error[b]), short(self.error_share[b], 2)
            lines.append(f"{self.body_names[b]:<20}{error:>12}{share:>10}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Audit({self.verdict}, {self.step.nc:,} contacts)"


def audit(
    step: ContactStep,
    f: Any,
    f_t: Any = None,
    v_next: Any = None,
    law: str | None = None,
    *,
    f_r: Any = None,
    report: Indeterminacy | None = None,
    contacts: Any = None,
    tol: float = TOLERANCE,
    time_limit: float | None = None,
) -> Audit:
    """Judge contact forces from any code: what is an error, and what is a choice.

    Parameters
    ----------
    step : the contact step that they are forces of.
    f, f_t : (nc,) and (nc, d − 1) N, normal and tangential forces on body j, along the normals and
        tangents of the step; no ``f_t`` counts as none.
    f_r : (nc, k) N·m, moments of contacts that resist turns, by the rows of the step; as ``f_t``.
    v_next : (nv,) the motion at the end of the step that goes with them, zero for a structure that
        stays at rest. Forces are then judged by this motion. By default they are judged by the
        motion that they cause, if that is certified; else by the motion that cdopt finds.
    law : of a step with friction, "coulomb" (default) or "associated".
    report : what ``indeterminacy(step, law)`` returned: its motion, load and bounds are taken,
        which saves time where many forces of one step are judged.
    contacts : whose bounds to compute, as in ``indeterminacy``; by default of up to 40 contacts
        that are farther from admissible forces than ``tol``, in steps of up to 500 contacts.
    tol : share of local loads up to which errors do not count.
    time_limit : seconds for all of it; None for none.

    Returns
    -------
    Audit : ``verdict`` is "error of mechanics", "not admissible" or "a choice".

    Raises
    ------
    InvalidInput : a bad argument, or a report of another step.
    Unsupported : a step known by N and p alone.
    SolveFailed : neither these forces nor those of cdopt are certified, so that there is no motion
        to judge by; give ``v_next``.

    >>> import cdopt
    >>> beam = cdopt.bank.load("beam-uniform").step
    >>> cdopt.audit(beam, [5, 0, 5]).verdict  # as good as 10/3 each
    'a choice'
    >>> print(cdopt.audit(beam, [3, 3, 3]).error.round(6))  # the weight is 10 N
    [1.]
    """
    step, law = _stated(step, law)
    forces = _components(step, f, f_t, f_r)
    tol = checks.scalar("tol", tol, above=0.0, at_most=0.1)
    deadline = Deadline.after(checks.optional(checks.not_negative, "time_limit", time_limit))
    if report is not None:
        checks.instance("report", report, Indeterminacy)
        if report.step is not step or report.law != law:
            raise InvalidInput("report", repr(report), "that of this step and law")
    problems = _problems(step)
    problem, rows = problems[law or CLASSIC], forces.ravel()
    data = problem.data
    given = None if v_next is None else checks.vector("v_next", v_next, step.nv, "m/s")
    if given is not None and problem.joints is not None:
        given = _keeping(problem.joints, given)
    motion = np.asarray(data.velocity(rows)) if given is None else given
    certificates = {name: certify(one.data, motion, rows, tol) for name, one in problems.items()}
    if report is not None:
        solution, source = report.solution, "of the report"
    elif given is not None:
        solution, source = None, "given"
    else:
        solution, source = _reference(problem, motion, rows, certificates[law or CLASSIC], deadline)
    at = motion if solution is None else np.asarray(problem.motion_of(solution))
    label = data.bodies.label if data.dof_body is None else data.dof_body
    missed, share = _missed(data, at, rows)
    lever = column_scale(contact_rows(data.B, data.cones.ends))
    size = np.abs(missed) / np.where(lever > 0.0, lever, 1.0)
    bodies, body = np.unique(label, return_inverse=True)
    error, error_share = np.zeros((2, bodies.size))
    np.add.at(error, body, size**2)
    np.maximum.at(error_share, body, share)
    sound = bool((share <= tol).all())
    found = _nearest(problem, at, solution, forces, report, tol, sound)
    names = step.names.body_names
    called = [names[b] if b < len(names) and names[b] else str(b) for b in bodies.tolist()]
    far, bounds, beyond = found.distance / found.acting, report, found.beyond
    if report is None and found.nearest is not None:
        solution = solution or _solution(problem, at, found.nearest, tol)
        asked = _asked(far, tol) if contacts is None else contacts
        if solution.ok and asked is not None:
            bounds = indeterminacy(
                step, law, solution=solution, contacts=asked, time_limit=deadline.time_limit
            )
    if bounds is not None:
        outside = bounds.outside(forces[:, 0], forces[:, 1:] if bounds.d > 1 else None)
        beyond = np.fmax(beyond, outside.reshape(step.nc, -1).max(axis=1))
    return Audit(
        step,
        law,
        read_only(forces),
        read_only(at if problem.joints is None else problem.joints.full(at)),
        source,
        certificates,
        tuple(called),
        read_only(missed),
        read_only(np.sqrt(error)),
        read_only(error_share),
        found.nearest,
        read_only(found.distance),
        read_only(beyond),
        read_only(found.acting),
        found.compatible,
        bounds,
        found.failure,
        tol,
    )


def same_answer(
    step: ContactStep, f1: Any, f2: Any, law: str | None = None, *, tol: float = TOLERANCE
) -> bool:
    """Whether two sets of forces are one answer: both admissible, and apart by a choice only.

    Each is certified with the motion that it causes, and both motions are the same: Bᵀ(f1 − f2) = 0
    on every body. An oracle for tests of engines, whose forces may differ from release to release.

    Parameters
    ----------
    step : the contact step.
    f1, f2 : (nc,) N, normal forces; or (nc, d) with the tangential ones, the normal one first.
    law : of a step with friction, "coulomb" (default) or "associated".
    tol : of the certificates; motions may differ by ten times that share of local loads.

    Raises
    ------
    InvalidInput : a bad argument. Unsupported : a step known by N and p alone.

    >>> import cdopt
    >>> beam = cdopt.bank.load("beam-uniform").step
    >>> cdopt.same_answer(beam, [5, 0, 5], [0, 10, 0])
    True
    >>> cdopt.same_answer(beam, [5, 0, 5], [5, 1, 5])
    False
    """
    step, law = _stated(step, law)
    tol = checks.scalar("tol", tol, above=0.0, at_most=0.1)
    data = _problems(step)[law or CLASSIC].data
    rows = []
    for name, value in {"f1": f1, "f2": f2}.items():
        given = checks.array(name, value, "forces (nc,) or (nc, d)")
        given = given[:, None] if given.ndim == 1 else given
        table = checks.numbers(name, given, (step.nc, None), "N")
        last = table.shape[1] if step.friction is None else step.friction.d
        parts = [x if x.shape[1] else None for x in (table[:, 1:last], table[:, last:])]
        rows.append(_components(step, table[:, 0], *parts))
    one, other = (forces.ravel() for forces in rows)
    motion = np.asarray(data.velocity(one))
    if not certify(data, motion, one, tol).ok:
        return False
    if not certify(data, np.asarray(data.velocity(other)), other, tol).ok:
        return False
    return bool((_missed(data, motion, other)[1] <= _SAME * tol).all())


# --- pieces --------------------------------------------------------------------------------


class _Nearest(NamedTuple):
    """The nearest admissible forces (nc, d) and the compatible ones, N; None where not found.

    ``distance`` (nc,) N is how far the forces are, ``beyond`` how far outside their faces, and
    ``acting`` the local load.
    """

    nearest: FloatArray | None
    compatible: FloatArray | None
    distance: FloatArray
    beyond: FloatArray
    acting: FloatArray
    failure: str


def _stated(step: Any, law: Any) -> tuple[ContactStep, str | None]:
    """A step with matrices, and the law of its friction."""
    step = with_matrices(checks.instance("step", step, Step), "audit")
    if law is not None:
        checks.choice("law", law, LAWS)
        if step.friction is None:
            raise InvalidInput("law", repr(law), "None for a step without friction")
        return step, law
    return step, None if step.friction is None else LAWS[0]


def _components(step: ContactStep, f: Any, f_t: Any, f_r: Any = None) -> FloatArray:
    """(nc, d) N, of normal forces, tangential ones and moments, which are zero if None."""
    friction, parts = step.friction, [checks.vector("f", f, step.nc, "N")[:, None]]
    many = (0, 0) if friction is None else (friction.d - 1, friction.moments)
    for name, value, width in zip(("f_t", "f_r"), (f_t, f_r), many, strict=True):
        if value is None:
            parts.append(np.zeros((step.nc, width)))
        elif width:
            parts.append(checks.numbers(name, value, (step.nc, width), "N"))
        else:
            why = "friction" if name == "f_t" else "moments"
            raise InvalidInput(name, checks.describe(value), f"None for a step without {why}")
    return np.hstack(parts)


def _problems(step: ContactStep) -> dict[str, ClassicCD | FrictionalCD]:
    """The step under each law."""
    if step.friction is None:
        return {CLASSIC: ClassicCD(step)}
    return {law: FrictionalCD(step, law) for law in LAWS}


def _keeping(joints: Eliminated, v_next: FloatArray) -> FloatArray:
    """The motion in coordinates that keep the joints, after a check that it does."""
    y = joints.coordinates(v_next)
    off, size = np.abs(joints.full(y) - v_next), float(np.abs(v_next).max())
    if off.max() > TOLERANCE * size:
        worst = int(np.argmax(off))
        found = f"{off[worst]:.3g} m/s off what the joints allow at degree of freedom {worst}"
        raise InvalidInput("v_next", found, "a motion that keeps the joints")
    return y


def _reference(
    problem: ClassicCD | FrictionalCD,
    motion: FloatArray,
    rows: FloatArray,
    certificate: Certificate,
    deadline: Deadline,
) -> tuple[StepSolution, str]:
    """The answer whose motion forces are judged by: of the forces if certified, else of cdopt."""
    if certificate.ok:
        forces = problem.data.cones.table(rows)
        return _solution(problem, motion, forces, certificate.tol), "of these forces, certified"
    solution = problem.solve("auto", time_limit=deadline.time_limit, check=False)
    if not solution.ok:
        message = f"neither these forces ({certificate.shown}) nor those of cdopt"
        message += f" ({solution.certificate and solution.certificate.shown}) are certified"
        raise SolveFailed(
            f"{message}: there is no motion to judge by; state v_next",
            backend=solution.backend,
            status=solution.status,
            problem=problem.data,
            raw=solution,
        )
    return solution, "of cdopt's solution"


def _solution(
    problem: ClassicCD | FrictionalCD, motion: FloatArray, forces: FloatArray, tol: float
) -> StepSolution:
    """Forces (nc, d) and motion from elsewhere as a solution, certified here."""
    data, rows = problem.data, forces.ravel()
    rates = data.cones.table(data.gap(motion, rows))
    rough, last = data.d > 1, 1 + data.cones.sliding
    turns = last < data.d
    return StepSolution(
        f=forces[:, 0],
        v_next=motion if problem.joints is None else problem.joints.full(motion),
        u=None,
        gap=rates[:, 0],
        dual=None,
        certificates={"forces": certify(data, motion, rows, tol)},
        status="given",
        claimed=True,
        backend="given",
        formulation=problem.name,
        iterate=Iterate(motion, rows),
        contact_ids=problem.contact_ids,
        f_t=forces[:, 1:last] if rough else None,
        slip=rates[:, 1:last] if rough else None,
        f_r=forces[:, last:] if turns else None,
        spin=rates[:, last:] if turns else None,
        names=problem.names,
    )


def _missed(
    data: ContactProblem, motion: FloatArray, rows: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """(nv,) N, Bᵀf − M(v⁺ − v*)/Δt, and its size beyond round-off over the local load."""
    if data.inertia is None:
        raise TypeError("a problem without inertia")
    missed = data.load(rows) - data.inertia.times(motion - data.rest) / data.dt
    condition = data.scales.local(motion, rows).balance[0]
    error, floor = condition.error, _RESOLVED * condition.round_off
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(error > floor, error / condition.scale, 0.0)
    return missed, share


def _nearest(
    problem: ClassicCD | FrictionalCD,
    motion: FloatArray,
    solution: StepSolution | None,
    forces: FloatArray,
    report: Indeterminacy | None,
    tol: float,
    balanced: bool,
) -> _Nearest:
    """The nearest admissible forces to ``forces`` (nc, d), and the compatible ones.

    In large networks with friction forces that balance, on their faces, are taken for admissible
    themselves and no compatible ones are sought; in the largest, no nearest ones either.
    """
    data, step = problem.data, problem.step
    known = np.zeros(data.rows)
    if report is not None:
        faces, load = report.faces, report.faces.load
        known = faces.forces.ravel()
    elif solution is not None and solution.iterate is not None and solution.certificate is not None:
        known = solution.iterate.forces
        faces = faces_of(data, motion, known, max(_LEAST, _SAME * solution.certificate.worst))
        load = faces.load
    else:
        faces = faces_of(data, motion, known, max(_LEAST, tol))
        load = data.inertia.times(motion - data.rest) / data.dt if data.inertia else faces.load
        load = np.where(np.bincount(data.B.indices, minlength=load.size) > 0, load, 0.0)
    acting = step_scales(data).acting_force(data.scales.local(motion, known))
    acting = np.where(acting > 0.0, acting, float(np.abs(forces).max(initial=0.0)) or 1.0)
    ones, ratio = np.ones(data.nc), 1.0
    if step.friction is not None:
        ratio = step.friction.stiffness_ratio
    if isinstance(faces, RollingFaces):
        return _nearest_with_moments(data, faces, load, forces, acting)
    beyond = np.linalg.norm(forces - _on_face(faces, forces), axis=1)
    large = data.d > 1 and data.nc > _LARGE
    if large and balanced and bool((beyond <= tol * acting).all()):
        return _Nearest(_on_face(faces, forces), None, beyond, beyond, acting, "")
    unknown = np.full(data.nc, np.nan)
    if large and data.nc > _LARGEST:
        why = f"networks of more than {_LARGEST:,} contacts with friction are not searched"
        return _Nearest(None, None, unknown, beyond, acting, why)
    try:
        nearest = _on_faces(data, faces, load, _Elastic(forces, ones, 1.0, HOOKE))
    except SolveFailed as error:
        why = f"no forces have this motion: {error}"
        return _Nearest(None, None, unknown, beyond, acting, why)
    compatible: FloatArray | None = None
    with contextlib.suppress(SolveFailed):
        elastic = _Elastic(np.zeros_like(forces), step.stiffness, ratio, step.power)
        compatible = None if large else _on_faces(data, faces, load, elastic)
    far = np.linalg.norm(forces - nearest, axis=1)
    return _Nearest(nearest, compatible, far, beyond, acting, "")


def _nearest_with_moments(
    data: ContactProblem,
    faces: RollingFaces,
    load: FloatArray,
    forces: FloatArray,
    acting: FloatArray,
) -> _Nearest:
    """The same of contacts that resist turns, by a cone program; moments over arms of contacts.

    In coordinates z of the faces, f = G z, it is min t with ‖G z − forces‖ ≤ t. Elastic contacts
    with moments are not known.
    """
    G, sizes, ties = coordinates(faces)
    arm = np.broadcast_to(np.asarray(data.scales.lever), (data.rows,))
    unit = float(acting.max(initial=0.0)) or 1.0
    lever = column_scale(data.B)
    used = np.flatnonzero(lever > 0.0)
    balance = sp.csr_array(sp.csr_array(data.B[:, used] * (1.0 / lever[used])[None, :]).T @ G)
    n, zero = G.shape[1], np.zeros(ties.shape[0])
    equal = sp.hstack([sp.vstack([balance, ties]), sp.csr_array((used.size + zero.size, 1))])
    even = sp.csr_array(sp.diags_array(1.0 / arm) @ G)
    last = sp.csr_array(([1.0], ([0], [n])), shape=(1, n + 1))
    rows = sp.vstack(
        [
            sp.eye_array(n, n + 1, format="csr"),
            last,
            sp.hstack([even, sp.csr_array((data.rows, 1))]),
        ]
    )
    shift = np.concatenate([np.zeros(n + 1), -forces.ravel() / arm / unit])
    right = np.append(load[used] / lever[used] / unit, zero)
    cost = np.append(np.zeros(n), 1.0)
    program = ConeProgram(cost, equal, right, rows, shift, [*sizes.tolist(), 1 + data.rows])
    answer = program.solve()
    table = data.cones.table(arm)
    on_face = faces.nearest(data.cones, forces)
    beyond = np.linalg.norm((forces - on_face) / table, axis=1)
    missed = equal @ answer.x - right
    if not answer.useful or np.abs(missed).max(initial=0.0) > _DELIVERED:
        far = np.full(data.nc, np.nan)
        return _Nearest(
            None, None, far, beyond, acting, f"no forces have this motion: {answer.status}"
        )
    nearest = data.cones.table(unit * (G @ answer.x[:n]))
    far = np.linalg.norm((forces - nearest) / table, axis=1)
    return _Nearest(nearest, None, far, beyond, acting, "")


def _on_face(faces: Faces, forces: FloatArray) -> FloatArray:
    """(nc, d) N, the nearest forces on the faces, each contact by itself."""
    d = forces.shape[1]
    if d == 1:
        return np.where((faces.status != OPEN)[:, None], np.maximum(forces, 0.0), 0.0)
    cones = FixedFaces(faces.mu, d, faces.status, faces.ray)
    return cones.table(cones.project(forces.ravel()))


class _Elastic(NamedTuple):
    """Contacts that start from ``trial`` forces (nc, d), N."""

    trial: FloatArray
    stiffness: FloatArray
    ratio: Any
    power: float


def _on_faces(
    data: ContactProblem, faces: Faces, load: FloatArray, elastic: _Elastic
) -> FloatArray:
    """(nc, d) N, of elastic contacts on the faces."""
    B, label, trial = data.B, data.bodies.label, elastic.trial
    if data.d > 1:
        normal = np.arange(data.rows) % data.d == 0
        sides = sp.csr_array(B[normal]), sp.csr_array(B[~normal])
        stiffness = elastic.stiffness, elastic.ratio
        network = FrictionNetwork(
            *sides, load, faces.mu, *stiffness, faces, trial, "associated", dof_body=label
        ).solve()
        return np.column_stack([network.f, network.f_t])
    closed = np.flatnonzero(faces.status != OPEN)
    law = PowerLaw(read_only(elastic.stiffness[closed]), elastic.power)
    gaps = read_only(-law.overlap(trial[closed, 0]))
    truss = truss_data(freeze(sp.csr_array(B[closed])), load, law, gaps, dof_body=label)
    solution = NoTensionTruss.of(truss, "potential").solve("newton")
    if solution.f is None or not solution.ok:
        message = "the network of closed contacts is not certified"
        raise SolveFailed(message, backend=solution.backend, status=solution.status, problem=truss)
    forces = np.zeros((data.nc, 1))
    forces[closed, 0] = solution.f
    return forces


def _asked(far: FloatArray, tol: float) -> IntArray | None:
    """The contacts to bound unasked, those farthest from admissible forces; None for none."""
    order = np.argsort(-far, kind="stable")[:_ASKED]
    order = order[far[order] > tol]
    return np.sort(order) if order.size and far.size <= _BOUNDED else None
