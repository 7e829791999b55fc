"""Labels of a contact network: numbers that say how hard a step will be to solve.

They are of the contacts that the classic step closes; open ones carry no force (the truss problem
(36) of Olsen & Kamrin would load them).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import ArpackError, eigsh

from cdopt._util.errors import CdoptError, Unsupported
from cdopt.formulations import CompatibleCD
from cdopt.hyperstatic.network import equilibrated, rank_of
from cdopt.problem.contact_step import Step
from cdopt.study.comparison import REFERENCE_BACKEND
from cdopt.study.named_problem import ProblemSource
from cdopt.study.table import Table

RANK_TOL = 1e-9  # share of the largest singular value below which one counts as zero
DENSE_LIMIT = 1500  # the smaller side of B, up to which all singular values are computed
_SHIFT = 1e-14


@dataclass(frozen=True)
class Labels:
    """The network of a step's closed contacts.

    Attributes
    ----------
    contacts : of the step. closed : of them, those at the end of the classic step.
    dofs : degrees of freedom that a closed contact moves; the rank of N for a step without B.
    rank, nullity : of B, and the number of independent self-stress states, closed − rank.
    condition : largest singular value of B over the smallest that is not zero; None where it is
        not label.
    scaled : the same of B with columns in units of their levers and rows of unit length, which
        removes the influence of units and small angles.
    estimated : whether both come from Lanczos' method and not from all singular values.
    density : closed contacts for each of ``dofs``.
    mobility : largest over smallest N_ii, the effect of a contact's own force on its gap; unequal
        masses and levers make it large.
    stiffness : largest over smallest stiffness.
    """

    contacts: int
    closed: int
    dofs: int
    rank: int
    nullity: int
    condition: float | None
    scaled: float | None
    estimated: bool
    density: float
    mobility: float = 1.0
    stiffness: float = 1.0


def labels(step: Step, reference_backend: str = REFERENCE_BACKEND) -> Labels:
    """The labels of a step.

    Parameters
    ----------
    reference_backend : solver of the classic step.

    Raises
    ------
    SolveFailed : the step has no solution.
    Unsupported : the network is too large for its rank to be counted.
    """
    compatible_cd = CompatibleCD(step)
    network = compatible_cd.network(compatible_cd.classic_cd.solve(reference_backend))
    closed = int(network.contacts.size)
    if closed == 0:
        return Labels(step.nc, 0, 0, 0, 0, None, None, False, 0.0)
    gradient = compatible_cd.truss(network).data.B
    moving = np.flatnonzero(np.diff(gradient.tocsc().indptr) > 0)
    plain = sp.csr_array(gradient[:, moving])
    B, _ = equilibrated(plain)
    dofs, large = int(moving.size), min(B.shape) > DENSE_LIMIT
    if large:
        rank = rank_of(B, RANK_TOL)
        condition, scaled = _estimated(plain, rank), _estimated(B, rank)
    else:
        values = np.linalg.svd(B.toarray(), compute_uv=False)
        rank = int(np.count_nonzero(values > RANK_TOL * values[0]))
        scaled = float(values[0] / values[rank - 1])
        values = np.linalg.svd(plain.toarray(), compute_uv=False)
        condition = float(values[0] / values[rank - 1])
    mobility = compatible_cd.classic_cd.data.mobility[network.contacts]
    stiffness = step.stiffness[network.contacts]
    return Labels(
        step.nc, closed, dofs, rank, closed - rank, condition, scaled, large, closed / dofs,
        float(mobility.max() / mobility.min()), float(stiffness.max() / stiffness.min()),
    )  # fmt: skip


def table_of_labels(problems: Iterable[ProblemSource]) -> Table:
    """A table of problems and their labels; where there are none, why not."""
    rows: list[tuple[Any, ...]] = []
    for problem in problems:
        loaded = problem.load()
        step = loaded.step
        head = (problem.label, loaded.power, None if step is None else step.nc)
        try:
            if step is None:
                raise Unsupported("labels", "the problem is a truss", ("steps",))
            label = labels(step)
        except CdoptError as error:
            rows.append((*head, *[None] * 9, str(error)))
            continue
        rows.append((
            *head, label.closed, label.dofs, label.rank, label.nullity, label.condition,
            label.scaled, label.density, label.mobility, label.stiffness,
            "estimated" if label.estimated else "",
        ))  # fmt: skip
    return Table(
        "problems", "The problems",
        "Closed contacts, degrees of freedom that they move, rank and nullity (number of "
        "independent self-stress states) of their gap gradient B, its largest singular value over "
        "the smallest that is not zero, as it stands and in units of levers, and closed contacts "
        "for each degree of freedom. Mobility and stiffness: largest over smallest.",
        ("problem", "power", "contacts", "closed", "dofs", "rank", "nullity", "condition",
         "scaled condition", "density", "mobility", "stiffness", "note"),
        rows,
    )  # fmt: skip


def _estimated(B: sp.csr_array, rank: int) -> float | None:
    """σmax/σmin by Lanczos' method on the smaller Gram matrix; None where that is singular."""
    if rank < min(B.shape):
        return None
    gram = sp.csc_matrix(B.T @ B if B.shape[1] <= B.shape[0] else B @ B.T)
    start = np.random.default_rng(0).standard_normal(gram.shape[0])
    try:
        top = eigsh(gram, k=1, which="LM", v0=start, return_eigenvectors=False)
        low = eigsh(gram, k=1, sigma=-_SHIFT * float(top[0]), v0=start, return_eigenvectors=False)
    except (ArpackError, RuntimeError):
        return None
    return float(np.sqrt(top[0] / low[0])) if low[0] > 0.0 else None
