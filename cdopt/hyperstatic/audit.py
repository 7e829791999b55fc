"""audit(): errors in contact forces from any code, and the part that is free choice.

Given forces f, and the motion v⁺ that they should cause, four findings are kept apart:

1. the certificate of the pair under each law: an answer that is certified within the tolerance is a
   choice, whatever the other findings are;
2. what they miss of the load that is determined, Bᵀf − F̃ with F̃ = M(v⁺ − v*)/Δt, body by body:
   an error of mechanics;
3. the nearest admissible forces, min ‖f − f′‖ over A(v⁺), and the contacts outside their bounds;
4. what is left, f′ less the compatible forces: self-balanced, a choice and no error.

A(v⁺) are the forces on the faces of the cones at the motion that deliver F̃, as in
``friction_network``; the nearest of them are those of an elastic network with equal springs and the
trial forces f.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cdopt._util import checks, notebook
from cdopt._util.cached import cached_property
from cdopt._util.checks import FloatArray, IntArray, read_only
from cdopt._util.errors import InvalidInput, SolveFailed
from cdopt._util.formatting import count, plain, short, shortened
from cdopt._util.frozen import Frozen
from cdopt.backends.deadline import Deadline
from cdopt.formulations import ClassicCD, FrictionalCD
from cdopt.hyperstatic.given import CLASSIC, SAME, components, missed_load, problems_of, stated_law
from cdopt.hyperstatic.indeterminacy import indeterminacy
from cdopt.hyperstatic.nearest import AtMotion, nearest_forces
from cdopt.hyperstatic.report import Indeterminacy
from cdopt.problem.certificate import TOLERANCE, Certificate, certify
from cdopt.problem.contact_step import ContactStep, with_matrices
from cdopt.problem.joint_elimination import Eliminated
from cdopt.problem.scaling import column_scale, contact_rows
from cdopt.problem.solution import Iterate, StepSolution
from cdopt.problem.step import Step

if TYPE_CHECKING:
    import pandas as pd

ERROR, OUTSIDE, CHOICE = "error of mechanics", "not admissible", "a choice"
_BOUNDED = 500  # contacts up to which bounds are computed unasked,
_ASKED = 40  # and of how many, those farthest from admissible forces
_ROWS = 12  # bodies and contacts that printing shows


@dataclass(frozen=True, eq=False)
class Audit(Frozen):
    """The errors of given forces, and the part that is a free choice.

    Attributes
    ----------
    step : the step. law : of its friction, "coulomb" or "associated"; None without friction.
    forces : (nc, d) N, the given forces, the normal component first.
    motion : (nv,) v⁺ that the forces are compared with; ``source`` is its origin.
    certificates : by law, of the forces with ``motion``.
    body_names : (nb,) of the bodies that move.
    missed : (nv,) N and N·m, the error Bᵀf − F̃ of the load; with joints (m,), on the degrees of
        freedom that satisfy them.
    error : (nb,) N, its size on each body; a torque is divided by the longest lever arm of the
        contacts.
    error_share : (nb,) the same divided by the local load of the body.
    nearest : (nc, d) N, the nearest admissible forces; None if ``failure`` gives a reason. For
        forces that balance and lie on their faces within ``tol``, these are their projections onto
        the faces, admissible for a load as near to F̃.
    distance : (nc,) N, of the forces from these.
    beyond : (nc,) N, distance of the force from its cone, from the face of the cone that the motion
        selects, or from its certified bounds, if known.
    local_load : (nc,) N, the local load of each contact.
    compatible : (nc, d) N, the admissible forces of elastic contacts; None if unknown.
    report : bounds of the requested contacts or of those far from admissible; or None.
    failure : why there are no nearest forces; empty if there are.
    tol : errors up to this share of the local load are accepted.
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
    local_load: FloatArray
    compatible: FloatArray | None
    report: Indeterminacy | None
    failure: str
    tol: float

    @property
    def balanced(self) -> bool:
        """Whether the load of the forces is right on every body."""
        return bool((self.error_share <= self.tol).all())

    @property
    def admissible(self) -> bool:
        """Whether forces and motion are an answer under the law, each residual within ``tol``."""
        return self.certificates[self.law or CLASSIC].ok

    @property
    def verdict(self) -> str:
        """One of "error of mechanics", "not admissible", or "a choice".

        Certified forces are "a choice"; other forces that balance are "not admissible".
        """
        if self.admissible:
            return CHOICE
        return OUTSIDE if self.balanced else ERROR

    @property
    def ok(self) -> bool:
        """Whether there is no error: the rest is a choice."""
        return self.verdict == CHOICE

    @property
    def choice(self) -> FloatArray | None:
        """(nc, d) N, the nearest admissible forces minus the compatible ones: self-balanced."""
        if self.nearest is None or self.compatible is None:
            return None
        return self.nearest - self.compatible

    @property
    def choice_share(self) -> float | None:
        """Norm of the choice divided by that of the nearest admissible forces."""
        if self.nearest is None or self.choice is None:
            return None
        return self._size(self.choice) / (self._size(self.nearest) or 1.0)

    @property
    def wrong_bodies(self) -> IntArray:
        """Bodies with an error of mechanics, the largest first."""
        order = np.argsort(-self.error_share, kind="stable")
        return order[self.error_share[order] > self.tol]

    @property
    def distance_share(self) -> FloatArray:
        """(nc,) ``distance`` over the local load."""
        return self.distance / self.local_load

    @property
    def outside(self) -> IntArray:
        """Contacts whose force no admissible answer has: outside its cone, face or bounds.

        Empty if the verdict is "a choice": distances are then due to the tolerance.
        """
        if self.ok:
            return np.zeros(0, dtype=np.int64)
        return np.flatnonzero(self.beyond > self.tol * self.local_load)

    @property
    def summary(self) -> str:
        """The findings in a few sentences."""
        words = {ERROR: "An error of mechanics", OUTSIDE: "The forces are not admissible",
                 CHOICE: "Nothing is wrong with the forces"}  # fmt: skip
        text = words[self.verdict]
        if self.verdict == ERROR:
            many, worst = self.wrong_bodies.size, int(self.wrong_bodies[0])
            text += f": on {count(many, 'body')} their load is wrong, most on body "
            text += f"{self.body_names[worst]} by {short(self.error[worst])} N"
            text += f", {short(self.error_share[worst], 2)} of the local load."
        elif self.verdict == CHOICE:
            text += ": they balance on every body and are admissible."
        elif self.nearest is None:
            text += f": {self.failure}."
        elif (self.distance_share <= self.tol).all():
            residuals = self.certificates[self.law or CLASSIC].residuals
            largest = max(residuals, key=lambda one: one.value)
            text += ": they balance and are near admissible ones, but with this motion the "
            text += f"{largest.name} is {short(largest.value, 3)} of {short(largest.scale, 3)}"
            text += f" {largest.unit}."
        else:
            far = int(np.argmax(self.distance_share))
            text += f": they balance, but are {short(self._size(self.forces - self.nearest))} N"
            text += " from the nearest admissible ones, most at contact "
            text += f"{self.step.contact_names[far]} ({short(self.distance[far])} N)."
        if (choice := self.choice) is not None and self._chosen:
            size = f"{short(self._size(choice))} N{self._part}"
            text += f" They differ from the forces of elastic contacts by {size}: a choice, which"
            text += " is self-balanced and no error."
        elif choice is not None and self.ok:
            text += " They are the forces of elastic contacts."
        return text

    @property
    def basis(self) -> str:
        """The motion used for the comparison, the tolerance, and whether ``f_t`` may be missing."""
        whose = self.source.replace("given", "that was given")
        text = f"Compared with the motion {whose}; the tolerance is {self.tol:g} of the local load."
        friction = self.step.friction
        if not self.ok and friction is not None and not self.forces[:, 1 : friction.d].any():
            text += " All tangential forces are zero, as without f_t."
        return text

    @property
    def _chosen(self) -> bool:
        """Whether the choice is larger than the tolerance."""
        return (self.choice_share or 0.0) > self.tol

    @property
    def _part(self) -> str:
        """The share of the choice as text."""
        share = self.choice_share
        return "" if share is None else f", {short(100.0 * share, 2)} % of the forces"

    @staticmethod
    def _size(forces: FloatArray) -> float:
        return float(np.linalg.norm(forces))

    def table(self) -> list[tuple[str, str, str]]:
        """The four findings as lines: what, value and result."""
        lines = []
        for name, certificate in self.certificates.items():
            result = "ok" if certificate.ok else "not ok"
            lines.append((f"1 certificate, {name}", certificate.shown, result))
        worst = float(self.error.max(initial=0.0))
        result = f"wrong on {count(self.wrong_bodies.size, 'body')}"
        lines.append(
            ("2 error of mechanics", f"{short(worst)} N", "none" if self.balanced else result)
        )
        if self.nearest is None:
            result = "admissible; " if self.admissible else ""
            lines.append(("3 distance from admissible forces", "–", result + self.failure))
        else:
            far = self._size(self.forces - self.nearest)
            result = "admissible" if self.admissible else "not admissible"
            if self.outside.size:
                result += f", {count(self.outside.size, 'contact')} outside cone or bounds"
            lines.append(("3 distance from admissible forces", f"{short(far)} N", result))
        if (choice := self.choice) is not None:
            note = f"no error{self._part}" if self._chosen else "none"
            lines.append(("4 choice", f"{short(self._size(choice))} N", note))
        return lines

    @cached_property
    def sums(self) -> Mapping[str, FloatArray]:
        """(2,) or (3,) N by name, the sum of the contact forces on each body except the world.

        Empty of steps without bodies and normals.
        """
        step, last = self.step, 1 if self.step.friction is None else self.step.friction.d
        if step.bodies is None or step.normals is None:
            return {}
        rough = step.friction is not None and step.friction.tangents is not None
        total = step.body_forces(self.forces[:, 0], self.forces[:, 1:last] if rough else None)
        touched = np.unique(step.bodies[step.bodies >= 0]).tolist()
        return {step.names.body(b): read_only(total[b]) for b in touched}

    def bodies_frame(self) -> pd.DataFrame:
        """A row for each body that moves: ``error`` in N and ``error_share`` of its local load."""
        columns = {"body": self.body_names, "error": self.error, "error_share": self.error_share}
        return notebook.data_frame(columns, index="body")

    def body_tables(self) -> list[tuple[list[str], list[list[str]]]]:
        """Headings and texts: bodies with errors, and the ``sums`` where bodies are few."""
        tables = []
        if wrong := self.wrong_bodies[:_ROWS].tolist():
            rows = [
                [self.body_names[b], short(self.error[b]), short(self.error_share[b], 2)]
                for b in wrong
            ]
            tables.append((["body", "error [N]", "share"], rows))
        if 0 < len(self.sums) <= _ROWS:
            rows = [
                [name, *(f"{round(x, 3) + 0.0:,.3f}" for x in f.tolist())]
                for name, f in self.sums.items()
            ]
            many = len(rows[0]) - 1
            tables.append((["contact forces on", *(f"{axis} [N]" for axis in "xyz"[:many])], rows))
        return tables

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
            "sums": dict(self.sums),
            "distance": None if self.nearest is None else self._size(self.forces - self.nearest),
            "outside": [names[i] for i in self.outside.tolist()],
            "choice": None if self.choice is None else self._size(self.choice),
            "choice_share": self.choice_share,
            "failure": self.failure,
            "summary": self.summary,
        }
        if checks.flag("contacts", contacts):
            content |= {"contacts": names, "forces": self.forces, "nearest": self.nearest}
        return dict(plain(content))

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        header = ("finding", "value", "result")
        return notebook.table("Audit", header, self.table(), f"{self.summary} {self.basis}")

    def __str__(self) -> str:
        lines = [self.summary, self.basis, ""]
        lines += [f"{what:<36}{value:>12}  {note}" for what, value, note in self.table()]
        for headings, rows in self.body_tables():
            lines.append("")
            for name, *numbers in (headings, *rows):
                lines.append(f"{shortened(name, 20):<20}" + "".join(f"{x:>12}" for x in numbers))
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
    """Check contact forces from any code: separate errors from free choice.

    Parameters
    ----------
    step : the contact step.
    f, f_t : (nc,) and (nc, d − 1) N, normal and tangential forces on body j, along the normals and
        tangents of the step. Without ``f_t`` tangential forces are zero.
    f_r : (nc, k) N·m, moments of contacts that resist rolling and spinning; default none.
    v_next : (nv,) the motion at the end of the step with which forces are compared; zero for a
        structure at rest. By default it is the motion that the forces cause, if that is certified,
        otherwise the motion of cdopt's solution.
    law : of a step with friction, "coulomb" (default) or "associated".
    report : the result of ``indeterminacy(step, law)``, to save time with many forces of one step.
        Forces without a certificate are compared with its motion and its bounds.
    contacts : those with bounds, as in ``indeterminacy``; by default up to 40 that are farther from
        admissible forces than ``tol``, in steps of up to 500 contacts.
    tol : errors up to this share of the local load are accepted.
    time_limit : seconds for all of it; None for none.

    Returns
    -------
    Audit : ``verdict`` is "error of mechanics", "not admissible" or "a choice".

    Raises
    ------
    InvalidInput : a bad argument, or a report of another step.
    Unsupported : a step known only by N and p.
    SolveFailed : neither these forces nor those of cdopt are certified, so that there is no motion
        to compare with: pass ``v_next``.

    >>> import cdopt
    >>> beam = cdopt.bank.load("beam-uniform").step
    >>> cdopt.audit(beam, [5, 0, 5]).verdict  # as good as 10/3 each
    'a choice'
    >>> print(cdopt.audit(beam, [3, 3, 3]).error.round(6))  # the weight is 10 N
    [1.]
    """
    step = with_matrices(checks.instance("step", step, Step), "audit")
    law = stated_law(step, law)
    forces = components(step, f, f_t, f_r)
    tol = checks.scalar("tol", tol, above=0.0, at_most=0.1)
    deadline = Deadline.after(checks.optional(checks.not_negative, "time_limit", time_limit))
    if report is not None:
        checks.instance("report", report, Indeterminacy)
        if report.step is not step or report.law != law:
            raise InvalidInput("report", repr(report), "that of this step and law")
    problems = problems_of(step)
    problem, rows = problems[law or CLASSIC], forces.ravel()
    data = problem.data
    given = None if v_next is None else checks.vector("v_next", v_next, step.nv, "m/s")
    if given is not None and problem.joints is not None:
        given = _keeping(problem.joints, given)
    at = np.asarray(data.velocity(rows)) if given is None else given
    own = certify(data, at, rows, tol)
    solution, source, known = None, "given", report
    if own.ok and (given is None or report is not None):
        solution = problem._given(Iterate(at, rows))
        source = "of these forces, certified" if given is None else source
        known = report if report is not None and _same(problem, report, rows, tol) else None
    elif report is not None:
        solution, source = report.solution, "of the report"
    elif given is None:
        solution, source = _reference(problem, own, deadline), "of cdopt's solution"
    if solution is not None:
        at = np.asarray(problem.motion_of(solution))
    certificates = {name: certify(one.data, at, rows, tol) for name, one in problems.items()}
    label = data.bodies if data.dof_body is None else data.dof_body
    missed, share = missed_load(data, at, rows)
    lever = column_scale(contact_rows(data.B, data.cones.ends))
    size = np.abs(missed) / np.where(lever > 0.0, lever, 1.0)
    bodies, body = np.unique(label, return_inverse=True)
    error, error_share = np.zeros((2, bodies.size))
    np.add.at(error, body, size**2)
    np.maximum.at(error_share, body, share)
    sound = bool((share <= tol).all())
    faces = report.faces if report is not None and solution is report.solution else None
    left = AtMotion.of(problem, at, solution, faces, tol)
    local_load = left.local_load
    local_load = np.where(
        local_load > 0.0, local_load, float(np.abs(forces).max(initial=0.0)) or 1.0
    )
    near = nearest_forces(problem, left, forces, tol * local_load if sound else None)
    names = step.names.body_names
    called = [names[b] if b < len(names) and names[b] else str(b) for b in bodies.tolist()]
    far, bounds, beyond = near.distance / local_load, known, near.beyond
    if known is None and near.nearest is not None:
        if solution is None or not solution.ok:
            solution = problem._given(Iterate(at, near.nearest.ravel()))
        asked = contacts
        if contacts is None and not certificates[law or CLASSIC].ok:
            asked = _asked(far, tol)
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
        near.nearest,
        read_only(near.distance),
        read_only(beyond),
        read_only(local_load),
        near.compatible,
        bounds,
        near.failure,
        tol,
    )


# --- pieces --------------------------------------------------------------------------------


def _keeping(joints: Eliminated, v_next: FloatArray) -> FloatArray:
    """The motion in coordinates that keep the joints, after a check that it does."""
    y = joints.coordinates(v_next)
    off, size = np.abs(joints.full(y) - v_next), float(np.abs(v_next).max())
    if off.max() > TOLERANCE * size:
        worst = int(np.argmax(off))
        found = f"{off[worst]:.3g} m/s off what the joints allow at degree of freedom {worst}"
        raise InvalidInput("v_next", found, "a motion that keeps the joints")
    return y


def _same(
    problem: ClassicCD | FrictionalCD, report: Indeterminacy, rows: FloatArray, tol: float
) -> bool:
    """Whether forces (rows,) cause the motion of a report, by ``same_answer``'s measure."""
    at = np.asarray(problem.motion_of(report.solution))
    return bool((missed_load(problem.data, at, rows)[1] <= SAME * tol).all())


def _reference(
    problem: ClassicCD | FrictionalCD, own: Certificate, deadline: Deadline
) -> StepSolution:
    """cdopt's answer: its motion is the reference for forces without a certificate."""
    solution = problem.solve("auto", time_limit=deadline.time_limit, check=False)
    if not solution.ok:
        message = f"neither these forces ({own.shown}) nor those of cdopt"
        message += f" ({solution.certificate and solution.certificate.shown}) are certified"
        raise SolveFailed(
            f"{message}: there is no motion to compare with; pass v_next",
            backend=solution.backend,
            status=solution.status,
            problem=problem.data,
            raw=solution,
        )
    return solution


def _asked(far: FloatArray, tol: float) -> IntArray | None:
    """The contacts to bound unasked, those farthest from admissible forces; None for none."""
    order = np.argsort(-far, kind="stable")[:_ASKED]
    order = order[far[order] > tol]
    return np.sort(order) if order.size and far.size <= _BOUNDED else None
