"""The solution of stacked steps, split into one solution for each step."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cdopt._util.checks import FloatArray, IntArray
from cdopt.problem import ContactProblem
from cdopt.problem.certificate import certify_each
from cdopt.problem.scaling import total_by
from cdopt.problem.solution import Iterate, StepSolution
from cdopt.problem.stacking import Stack

_OF_CONTACTS = ("f", "f_t", "f_r", "gap", "slip", "spin")
_OF_DOFS = ("v_next", "u", "mom")
_SHARED = ("status", "claimed", "backend", "formulation", "iterations")


Judged = tuple[ContactProblem, FloatArray | None, FloatArray]


def of_bodies(bodies: ContactProblem, fields: Mapping[str, Any]) -> Judged:
    """Data, motion and forces of a step with joints in the coordinates of all ``bodies``."""
    tables = (fields.get(name) for name in ("f_t", "f_r"))
    rows = [fields["f"][:, None], *(table for table in tables if table is not None)]
    forces = np.concatenate([np.hstack(rows).ravel(), fields["joint_forces"]])
    return bodies, fields["v_next"], forces


@np.errstate(all="ignore")  # what overflows is not certified
def split_steps(posed: Any, whole: StepSolution, stack: Stack, tol: float) -> list[StepSolution]:
    """The solution of each step of a ``stack``, certified with its own data at ``tol``.

    ``posed`` is the formulation of the stacked step, ``whole`` its solution.
    """
    iterate, joints = whole.iterate, posed.joints
    if iterate is None:
        return [dataclasses.replace(whole, certificates={}, names=None)] * stack.count
    data, fields = posed.data, posed._answer(iterate)
    dofs = slice(None) if joints is None else joints.motions.free
    groups = stack.groups(data.parts, stack.dof[dofs])
    rows = groups.of_contact[data.cones.contact]
    objective = total_by(groups.of_part, posed._objectives(iterate), stack.count)
    owners = {"dual": rows, "rows": rows, "motion": stack.dof[dofs]}
    judged: Judged = data, iterate.motion, iterate.forces
    if posed.bodies is not None:
        judged = of_bodies(posed.bodies, fields)
        groups = stack.groups(posed.bodies.parts, stack.dof)
    each = [
        {"certificates": {"forces": certificate}, "objective": value}
        for certificate, value in zip(
            certify_each(*judged, groups, tol), objective.tolist(), strict=True
        )
    ]
    return split(whole, stack, fields, owners, each)


def split(
    whole: StepSolution,
    stack: Stack,
    fields: Mapping[str, Any],
    owners: Mapping[str, IntArray],
    each: Sequence[Mapping[str, Any]],
) -> list[StepSolution]:
    """One solution for each step of a ``stack``, from the ``whole``.

    Parameters
    ----------
    fields : arrays of the whole by name. owners : the step of each entry of "dual", and of the
        "rows" of forces and the "motion" of the iterate.
    each : for each step its ``certificates``, ``objective`` and other separate fields.
    """
    owner = {**dict.fromkeys(_OF_CONTACTS, stack.contact), **dict.fromkeys(_OF_DOFS, stack.dof)}
    owner |= {"joint_forces": stack.joint, **owners}
    given = {name: fields[name] for name in owner if fields.get(name) is not None}
    cut = {name: stack.split(owner[name], values) for name, values in given.items()}
    iterate = whole.iterate or Iterate(None, np.zeros(0))
    motions = stack.split(owner["motion"], iterate.motion)
    forces = stack.split(owner["rows"], iterate.forces)
    shared = {name: getattr(whole, name) for name in _SHARED}
    shared["timings"] = {name: t / stack.count for name, t in whole.timings.items()}
    record, nothing = {**whole.provenance, "stacked": stack.count}, dict.fromkeys(_ALWAYS)
    result = []
    for k, (step, own) in enumerate(zip(stack.steps, each, strict=True)):
        there = whole.claimed or all(c.ok for c in own["certificates"].values())
        arrays = {name: pieces[k] for name, pieces in cut.items()} if there else {}
        more = {**own, "provenance": {**record, **own.get("provenance", {})}}
        solution = StepSolution(
            **{**nothing, **shared, **arrays, **more},
            iterate=Iterate(motions[k], forces[k]),
            contact_ids=step.contact_ids,
            names=step.names,
        )
        result.append(solution)
    return result


_ALWAYS = ("f", "v_next", "u", "gap", "dual")  # arrays that every solution has, or None


def joined(solutions: Sequence[StepSolution]) -> StepSolution:
    """The solution of stacked steps, joined from theirs; its certificates are the worst."""
    first = solutions[0]
    arrays = dict[str, Any]()
    for name in (*_OF_CONTACTS, *_OF_DOFS, "joint_forces"):
        pieces = [getattr(solution, name) for solution in solutions]
        arrays[name] = None if pieces[0] is None else np.concatenate(pieces)
    worst = {
        name: max((s.certificates[name] for s in solutions), key=lambda c: c.worst)
        for name in first.certificates
    }
    each = [solution.iterate or Iterate(None, np.zeros(0)) for solution in solutions]
    motions = [np.asarray(iterate.motion) for iterate in each if iterate.motion is not None]
    motion = np.concatenate(motions) if motions else None
    classic = [solution.classic for solution in solutions if solution.classic is not None]
    return dataclasses.replace(
        first,
        **arrays,
        dual=None,
        certificates=worst,
        objective=sum(solution.objective or 0.0 for solution in solutions),
        iterate=Iterate(motion, np.concatenate([iterate.forces for iterate in each])),
        classic=joined(classic) if classic else None,
        contact_ids=None,
        names=None,
        raw=None,
    )
