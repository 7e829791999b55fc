"""Joints of a contact step as data: bilateral rows, J v⁺ + rate = 0; motions that satisfy them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.checks import FloatArray, IntArray, freeze, read_only
from cdopt._util.errors import InfeasibilityProof, InvalidInput, SolveFailed
from cdopt._util.frozen import Frozen
from cdopt.problem.scaling import components, rows_of, scaled

_DEPENDENT = 1e-10  # rows with less than this share of the largest pivot depend on others
_CLEAR = 1e-9  # of the rates: dependent rows whose rates differ by more contradict each other


@dataclass(frozen=True, eq=False)
class Joints(Frozen):
    """Joints between the bodies of a step: bilateral rows.

    Parameters
    ----------
    J : (nj, nv) joint rows, sparse or dense: J v⁺ + rate = 0, and ``J.T @ r`` is the effect of
        the reactions r (nj,), of any sign, on the bodies.
    rate : minus the prescribed speed of each row (a motor); or the gap over Δt, so that a joint
        does not drift; m/s or rad/s, one number or (nj,).
    stiffness : relative stiffness where contacts are elastic, one number or (nj,), positive: a
        spring that pushes and pulls; infinite, the default, is rigid.
    names : (nj,) distinct names of the rows, or None.

    Notes
    -----
    ``step.joints`` has these as arrays. If rows depend on each other, the reactions are not
    determined, but their resultant is.

    Raises
    ------
    InvalidInput : an invalid value. A step checks shapes.

    >>> import cdopt, numpy as np
    >>> step = cdopt.ContactStep(np.eye(2), [[0, 1]], [0], v=[0, 0], F_ext=[3, -10], dt=0.1,
    ...                          joints=cdopt.Joints([[1, 0]]))
    >>> solution = cdopt.ClassicCD(step).solve()
    >>> solution.f.round(6), solution.joint_forces.round(6)
    (array([10.]), array([-3.]))
    """

    J: Any
    rate: Any = 0.0
    stiffness: Any = np.inf
    names: Any = None

    def __post_init__(self) -> None:
        table = self.J
        if not sp.issparse(table):
            table = np.atleast_2d(checks.array("J", table, "a matrix (nj, nv), sparse or dense"))
        J = checks.matrix("J", table, None, None)
        many = J.shape[0]
        if (idle := np.flatnonzero(np.diff(J.indptr) == 0)).size:
            expected = "rows that move some degree of freedom"
            raise InvalidInput("J", f"nothing but zeros in row {int(idle[0])}", expected)
        self.__dict__.update(
            J=J,
            rate=_of_each("rate", self.rate, many),
            stiffness=_of_each("stiffness", self.stiffness, many, least=0.0),
            names=None if self.names is None else checks.labels("names", self.names, many),
        )

    def on(self, nv: int) -> Joints:
        """The same joints, after a check that they fit a step of ``nv`` degrees of freedom.

        Raises
        ------
        InvalidInput : J has another number of columns.
        """
        nv = checks.whole("nv", nv, 0)
        if self.J.shape[1] != nv:
            raise InvalidInput("J", f"shape {self.J.shape}", f"({self.count}, {nv}), nv columns")
        return self

    @property
    def count(self) -> int:
        """Number of rows."""
        return int(self.J.shape[0])

    @property
    def rigid(self) -> IntArray:
        """(n,) indices of the rows of infinite stiffness."""
        return np.flatnonzero(~np.isfinite(self.stiffness))

    def rows(self, index: Any) -> Joints:
        """The joints of these rows, by ``index``, numbers (n,) or a mask (nj,)."""
        index = checks.positions("index", index, self.count)
        names = None if self.names is None else self.names[index]
        J = freeze(sp.csr_array(self.J[index]))
        return Joints._of(J=J, rate=self.rate[index], stiffness=self.stiffness[index], names=names)

    def stiffer(self, factor: float) -> Joints:
        """The same joints with their stiffness times a positive ``factor``."""
        stiffness = read_only(self.stiffness * checks.positive("factor", factor))
        return Joints._of(**{**self.__getstate__(), "stiffness": stiffness})

    def __repr__(self) -> str:
        return f"Joints({self.count:,} rows, {self.rigid.size:,} of them rigid)"


def _of_each(name: str, value: Any, many: int, least: float = -np.inf) -> FloatArray:
    """One number or one for each row, as (many,); above ``least`` or, without it, finite."""
    expected = f"one number, or one for each row of J ({many})"
    expected += "" if np.isinf(least) else ", positive, infinite for rigid"
    values = checks.real(name, value, expected)
    values = checks.real(name, values, expected, (many,)) if values.ndim else values
    result = np.broadcast_to(values.astype(np.float64), (many,)).copy()
    fit = np.isfinite(result) if np.isinf(least) else result > least
    if not fit.all():
        i = int(np.argmin(fit))
        raise InvalidInput(name, f"{float(result[i])!r} in row {i}", expected)
    return read_only(result)


# --- motions that satisfy joints ------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class JointedMotion(Frozen):
    """The motions v = offset + Z y with J v + rate = 0, and the reactions to a load.

    The coordinates y are degrees of freedom themselves, those that are ``free``; the others follow
    from them.
    """

    # (m,) which degrees of freedom y are; if joints fix all of them, one that moves nothing
    free: IntArray
    Z: sp.csr_array  # (nv, m)
    offset: FloatArray  # (nv,) v at y = 0
    rank: int  # number of independent rows of J
    # (nj, nv) of reactions: r = lift q is the least one with Jᵀr = q, if there is any, in units
    # that make each row of J unit
    lift: sp.csr_array
    idle: sp.csr_array  # (nj, nj − rank) self-balanced reactions, Jᵀ idle = 0

    @staticmethod
    def of(joints: Joints, unit: FloatArray) -> JointedMotion:
        """The motions of dofs in these units (nv,); raises SolveFailed if rates contradict."""
        J, nv = scaled(joints.J, None, unit), joints.J.shape[1]
        length = np.sqrt(np.asarray(J.multiply(J).sum(axis=1)).ravel())
        J = scaled(J, 1.0 / length)
        label, _ = components(rows_of(J), joints.count + J.indices, joints.count + nv)
        rate, free, offset = -joints.rate / length, np.ones(nv, bool), np.zeros(nv)
        pieces: list[tuple[IntArray, IntArray, FloatArray]] = []
        lifts, idles, rank, wide = list(pieces), list(pieces), 0, 0
        at_row, at_dof = label[: joints.count], label[joints.count :]
        for part in np.unique(at_row).tolist():
            rows, dofs = np.flatnonzero(at_row == part), np.flatnonzero(at_dof == part)
            Q, R, order = scipy.linalg.qr(J[rows][:, dofs].toarray(), pivoting=True)
            diagonal = np.abs(np.diag(R))
            r = int(np.count_nonzero(diagonal > _DEPENDENT * diagonal[0]))
            given, left, Q1, Q2 = dofs[order[:r]], dofs[order[r:]], Q[:, :r], Q[:, r:]
            missed = Q2 @ (Q2.T @ rate[rows])
            if np.abs(missed).max(initial=0.0) > _CLEAR * np.abs(rate[rows]).max():
                raise _contradiction(joints, rows, missed / length[rows])
            inverse = scipy.linalg.solve_triangular(R[:r, :r], np.eye(r))
            follow = -(inverse @ R[:r, r:]) * unit[given][:, None] / unit[left][None, :]
            pieces.append((given, left, follow))
            offset[given] = unit[given] * (inverse @ (Q1.T @ rate[rows]))
            lifted = Q1 @ inverse.T / length[rows][:, None] * unit[given][None, :]
            lifts.append((rows, given, lifted))
            idles.append((rows, wide + np.arange(Q2.shape[1]), Q2 / length[rows][:, None]))
            rank, wide, free[given] = rank + r, wide + Q2.shape[1], False
        column = np.cumsum(free) - 1
        kept, held = np.flatnonzero(free), not free.any()
        pieces = [(given, column[left], block) for given, left, block in pieces]
        pieces.append((kept, column[kept], np.ones(0)))
        return JointedMotion(
            np.zeros(1, np.int64) if held else kept,
            _assembled(pieces, (nv, 1 if held else kept.size)),
            offset,
            rank,
            _assembled(lifts, (joints.count, nv)),
            _assembled(idles, (joints.count, wide)),
        )

    def motion(self, y: FloatArray) -> FloatArray:
        """v (nv,) of coordinates y (m,)."""
        return np.asarray(self.offset + self.Z @ y)

    def reactions(self, load: FloatArray) -> FloatArray:
        """(nj,) N, the least reactions equivalent to the ``load`` (nv,), in N and N·m."""
        return np.asarray(self.lift @ load)


def _assembled(
    pieces: list[tuple[IntArray, IntArray, FloatArray]], shape: tuple[int, int]
) -> sp.csr_array:
    """The matrix of blocks at rows and columns; a block in one dimension is a diagonal of ones."""
    data, row, column = [np.zeros(0)], [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for rows, columns, block in pieces:
        plain = block.ndim == 1
        data.append(np.ones(rows.size) if plain else block.ravel())
        row.append(rows if plain else rows.repeat(columns.size))
        column.append(columns if plain else np.tile(columns, rows.size))
    entries = np.concatenate(data), (np.concatenate(row), np.concatenate(column))
    return freeze(sp.csr_array(entries, shape=shape))


def _contradiction(joints: Joints, rows: IntArray, multipliers: FloatArray) -> SolveFailed:
    """Rates of dependent rows that no motion has: r with Jᵀr = 0 and rateᵀr ≠ 0."""
    forces = np.zeros(joints.count)
    forces[rows] = multipliers
    value = float(joints.rate @ forces)
    forces = read_only(-np.sign(value) * forces / np.abs(forces).max())
    value, missed = float(joints.rate @ forces), float(np.abs(joints.J.T @ forces).max())
    proof = InfeasibilityProof("joints", forces, value, missed)
    return SolveFailed(str(proof), backend="", status="infeasible", problem=joints, proof=proof)
