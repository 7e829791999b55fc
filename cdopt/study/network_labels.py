"""Labels of a contact network: numbers that predict how hard a step will be to solve.

They refer to the contacts that are closed after the classic step, because only these carry forces.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import ArpackError, eigsh

from cdopt._util.errors import CdoptError, Unsupported
from cdopt.formulations import CompatibleCD
from cdopt.hyperstatic.network import DENSE_LIMIT, equilibrated, rank_of
from cdopt.problem.step import Step
from cdopt.study.comparison import REFERENCE_BACKEND
from cdopt.study.named_problem import ProblemSource
from cdopt.study.table import Table

RANK_TOL = 1e-9  # share of the largest singular value below which one counts as zero
_SHIFT = 1e-14


@dataclass(frozen=True)
class Labels:
    """The network of a step's closed contacts."""

    contacts: int  # number of contacts.
    closed: int = 0  # number closed at the end of the classic step
    # degrees of freedom that a closed contact moves; the rank of N for a step without B
    dofs: int = 0
    # rank, nullity: of B, and the number of independent self-stress states, closed − rank
    rank: int = 0
    nullity: int = 0
    # largest singular value of B divided by the smallest nonzero one, for large networks by
    # Lanczos' method; None if unknown
    condition: float | None = None
    # the same for B with columns divided by their lever arms and rows of unit length, which removes
    # the influence of units and small angles
    scaled: float | None = None
    density: float = 0.0  # closed contacts per degree of freedom
    # largest N_ii divided by the smallest; large for unequal masses and lever arms
    mobility: float = 1.0
    stiffness: float = 1.0  # largest stiffness divided by the smallest


def labels(step: Step, reference_backend: str = REFERENCE_BACKEND) -> Labels:
    """The labels of a step, whose classic step ``reference_backend`` solves."""
    compatible_cd = CompatibleCD(step)
    network = compatible_cd.network(compatible_cd.classic_cd.solve(reference_backend))
    closed = int(network.contacts.size)
    if closed == 0:
        return Labels(step.nc)
    gradient = compatible_cd.truss(network).data.B
    plain = sp.csr_array(gradient[:, np.flatnonzero(np.diff(gradient.tocsc().indptr))])
    scaled, _ = equilibrated(plain)
    rank, dofs = rank_of(scaled, RANK_TOL), plain.shape[1]
    mobility = compatible_cd.classic_cd.data.mobility[network.contacts]
    stiffness = step.stiffness[network.contacts]
    conditions = _condition(plain, rank), _condition(scaled, rank)
    ratios = [float(values.max() / values.min()) for values in (mobility, stiffness)]
    return Labels(step.nc, closed, dofs, rank, closed - rank, *conditions, closed / dofs, *ratios)


def table_of_labels(problems: Iterable[ProblemSource]) -> Table:
    """A table of problems and their labels, or the reason why there are none."""
    names = [field.name for field in fields(Labels)]
    rows: list[tuple[Any, ...]] = []
    for problem in problems:
        loaded = problem.load()
        step, note = loaded.step, ""
        known: tuple[Any, ...] = (step and step.nc, *[None] * (len(names) - 1))
        try:
            if step is None:
                raise Unsupported("labels", "the problem is a truss", ("steps",))
            known = astuple(labels(step))
        except CdoptError as error:
            note = str(error)
        rows.append((problem.label, loaded.power, *known, note))
    return Table(
        "problems",
        "The problems",
        "Closed contacts, degrees of freedom that they move, rank and nullity (number of "
        "independent self-stress states) of their gap gradient B, its largest singular value over "
        "the smallest that is not zero, as it is and in units of levers, and closed contacts "
        "for each degree of freedom. Mobility and stiffness: largest over smallest.",
        ["problem", "power", *names, "note"],
        rows,
    )


def _condition(B: sp.csr_array, rank: int) -> float | None:
    """σmax/σmin; for large B by Lanczos' method on the smaller Gram matrix, if that is regular."""
    if min(B.shape) <= DENSE_LIMIT:
        values = np.linalg.svd(B.toarray(), compute_uv=False)
        return float(values[0] / values[rank - 1])
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
