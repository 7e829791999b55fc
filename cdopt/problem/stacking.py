"""Stacked steps: one step with block-diagonal matrices, and the step of each of its items.

Steps that share no degree of freedom are independent parts of one network. Units and local scales
are those of each part, so a stacked step is as well scaled as its steps are.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import FloatArray, IntArray, read_only
from cdopt._util.frozen import Frozen, FrozenMatrix, frozen_rows
from cdopt.problem.contact_step import ContactStep
from cdopt.problem.delassus_step import DelassusStep
from cdopt.problem.friction import Friction
from cdopt.problem.joints import Joints
from cdopt.problem.mass import MassMatrix
from cdopt.problem.residual import Groups
from cdopt.problem.scaling import Parts
from cdopt.problem.step import Step

_FOR_PEOPLE = ("bodies", "normals", "contact_ids", "body_names", "origin")  # no solver needs them
_OF_CONTACTS = ("stiffness", "phi", "restitution", "gap_rate", "points", "p_rows")
_OF_DOFS = ("v", "F_ext")
_OF_ALL = ("dt", "power", "v_min")


def likeness(step: Step) -> Hashable:
    """Properties that steps of a stack must share."""
    friction = step.friction
    rows = None if friction is None else (friction.d, friction.moments, friction.cone)
    there = step.points is None or step.points.shape[1], step.dof_body is None, step.joints is None
    mass = step.mass.is_diagonal if isinstance(step, ContactStep) else None
    return type(step), *(getattr(step, name, None) for name in _OF_ALL), rows, *there, mass


@dataclass(frozen=True, eq=False)
class Stack(Frozen):
    """Stackable steps as one step."""

    steps: tuple[Step, ...]  # the single steps
    step: Step  # their stack, without names and pictures
    # contact, dof, joint: (nc,), (nv,) and (nj,) the number of the step that each belongs to
    contact: IntArray
    dof: IntArray
    joint: IntArray

    @staticmethod
    def of(steps: Sequence[Step]) -> Stack:
        """The stack of one or more steps of equal ``likeness``."""
        counts = [
            [step.nc, getattr(step, "nv", 0), 0 if step.joints is None else step.joints.count]
            for step in steps
        ]
        owners = (np.arange(len(steps)).repeat(many) for many in zip(*counts, strict=True))
        return Stack._of(
            **dict(zip(("contact", "dof", "joint"), owners, strict=True)),
            steps=tuple(steps),
            step=_side_by_side(steps),
        )

    @property
    def count(self) -> int:
        """Number of steps."""
        return len(self.steps)

    def groups(self, parts: Parts, dof: IntArray, contacts: Any = None) -> Groups:
        """The problems of the steps in one with these ``parts``.

        ``dof`` (m,) is the step of each of its degrees of freedom. Its contacts are ``contacts``
        (n,) of the step, by default all; rows of joints may follow them.
        """
        of_contact = self.contact if contacts is None else self.contact[contacts]
        of_part = np.zeros(parts.count, dtype=np.int64)
        if dof.size == parts.dof.size:  # else they are none of a body
            of_part[parts.dof] = dof
        of_part[parts.contact[: of_contact.size]] = of_contact
        of_joints = of_part[parts.contact[of_contact.size :]]
        return Groups(np.concatenate([of_contact, of_joints]), of_part, self.count)

    def split(self, owner: IntArray, values: Any) -> list[Any]:
        """``values`` (n, …) of each step; ``owner`` (n,) is ``contact``, ``dof`` or ``joint``."""
        if values is None:
            return [None] * self.count
        ends = np.searchsorted(owner, np.arange(self.count + 1)).tolist()
        return [values[a:b] for a, b in pairwise(ends)]


def _side_by_side(steps: Sequence[Any]) -> Step:
    """One step of all contacts and bodies."""
    first: Step = steps[0]
    arguments = {**first.__getstate__(), **dict.fromkeys(_FOR_PEOPLE)}
    arguments |= {
        name: _joined(steps, operator.attrgetter(name))
        for name in (*_OF_CONTACTS, *_OF_DOFS)
        if arguments.get(name) is not None
    }
    arguments["symmetrised"] = max(step.symmetrised for step in steps)
    if first.friction is not None:
        arguments["friction"] = _friction([step.friction for step in steps])
    if isinstance(first, DelassusStep):
        N = blocks([step.N_rows for step in steps])
        arguments |= {"N_rows": N, "negative": max(step.negative for step in steps)}
        step = DelassusStep._of(**arguments)
        vars(step).update(step._normal_rows())
        return step
    arguments |= {"B": blocks([step.B for step in steps])}
    arguments["M"] = MassMatrix(blocks([step.M for step in steps]))
    if first.dof_body is not None:
        many = [int(step.dof_body.max(initial=-1)) + 1 for step in steps]
        before = np.cumsum([0, *many[:-1]])
        shifted = [step.dof_body + n for step, n in zip(steps, before, strict=True)]
        arguments["dof_body"] = read_only(np.concatenate(shifted))
    if first.joints is not None:
        arguments["joints"] = _joints([step.joints for step in steps])
    return ContactStep._of(**arguments)


def _joined(items: Sequence[Any], value: Callable[[Any], Any]) -> FloatArray:
    """The values (n, …) of all items, one after the other."""
    return read_only(np.concatenate([value(item) for item in items]))


def _friction(each: Sequence[Any]) -> Friction:
    """The friction of all contacts."""
    first = each[0]
    arrays = {name for name, value in vars(first).items() if isinstance(value, np.ndarray)}
    values = {**vars(first), "tangents": None}
    values |= {name: _joined(each, operator.attrgetter(name)) for name in arrays - {"tangents"}}
    for name in ("B_t", "B_r"):
        if values[name] is not None:
            values[name] = blocks([getattr(one, name) for one in each])
    return Friction._of(**values)


def _joints(each: Sequence[Any]) -> Joints:
    """The joints of all steps, without names."""
    rate, stiffness = (_joined(each, operator.attrgetter(name)) for name in ("rate", "stiffness"))
    return Joints._of(J=blocks([one.J for one in each]), rate=rate, stiffness=stiffness, names=None)


def blocks(matrices: Sequence[sp.csr_array]) -> FrozenMatrix:
    """The block-diagonal matrix of frozen ones, in canonical order as they are."""
    high, wide = (np.cumsum([0, *(A.shape[k] for A in matrices)]) for k in (0, 1))
    many = np.cumsum([0, *(A.nnz for A in matrices)])
    starts = zip(matrices, wide.tolist(), strict=False)
    indices = np.concatenate([A.indices.astype(np.int64) + at for A, at in starts])
    ends = zip(matrices, many.tolist(), strict=False)
    indptr = np.concatenate([[0], *(A.indptr[1:].astype(np.int64) + at for A, at in ends)])
    data = np.concatenate([A.data for A in matrices])
    return frozen_rows(data, indices, indptr, (int(high[-1]), int(wide[-1])))
