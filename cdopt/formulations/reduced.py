"""Reduced trusses: equilibrium within the displacements u = u₀ + P ū.

    minimise over ū    Σ ω w(−Φ − B u) + F̃ᵀ u    with    u = u₀ + P ū

The quasicontinuum method is the case in which P interpolates between representative particles
(``Representatives``): E. B. Tadmor, M. Ortiz and R. Phillips, Phil. Mag. A 73 (1996), for atoms. De
Klerk et al. (2021), sections 1 and 4, name it for granular media as the aim of their variational
integrator. Weights ω of sampled contacts are a summation rule; ω = 1 sums all, exactly.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from cdopt._util import checks
from cdopt._util.checks import FloatArray, read_only
from cdopt._util.errors import InvalidInput
from cdopt.formulations.no_tension_truss import NoTensionTruss, TrussForm
from cdopt.formulations.quasi_static import QuasiStatic
from cdopt.problem.solution import StepSolution

_DIGITS = 10  # to which gap rates of contacts agree that become one
_ROUND_OFF = 1e-13  # share of the largest entry of B P that is zero
_LOOSE = 1e-9  # share of the largest stiffness that a dof has at least, for the estimate


class ReducedTruss(QuasiStatic):
    """A truss whose displacements are u = u₀ + P ū.

    ``reduced`` explains the parameters, weights among them.

    Attributes
    ----------
    truss : the whole truss, with all its contacts and dofs.
    P : (nv, m) displacement of its dofs for each reduced one.
    offset : u₀ (nv,), m.

    Raises
    ------
    InvalidInput : a bad argument.
    """

    def __init__(
        self,
        truss: NoTensionTruss,
        P: Any,
        weights: Any = None,
        offset: Any = None,
        form: TrussForm = "potential",
    ) -> None:
        data, nv = truss.data, _dofs(truss)
        matrix = checks.matrix("P", P, nv, None)
        free = data.free[:nv]
        if matrix[np.flatnonzero(~free)].count_nonzero():
            raise InvalidInput("P", "entries at prescribed dofs", "zero rows there")
        start = data.prescribed_u.copy()
        if offset is not None:
            start[:nv] += np.where(free, checks.vector("offset", offset, nv, "m"), 0.0)
        ones = np.ones(data.nc)
        weight = ones if weights is None else checks.vector("weights", weights, data.nc)
        if np.any(weight < 0.0):
            raise InvalidInput("weights", f"{weight.min():g}", "numbers ≥ 0")
        self.truss, self.P, self.offset = truss, matrix, read_only(start[:nv])
        sampled = np.flatnonzero(weight > 0.0)
        B, gaps, stiffness = _merged(
            sp.csr_array(data.B[sampled][:, :nv] @ matrix),
            -data.overlap(start)[sampled],
            (weight * data.law.stiffness)[sampled],
        )
        f = data.law.force(data.overlap(start))
        ghost = data.load((weight - 1.0) * f)[:nv]
        applied = -(matrix.T @ (data.contact_load[:nv] + ghost))
        super().__init__(B, gaps, applied, stiffness, data.law.power, form)

    @property
    def name(self) -> str:
        """Name and form."""
        return f"ReducedTruss ({self.form} form, p = {self.data.law.power:g})"

    def expanded(self, solution: StepSolution) -> FloatArray:
        """Displacement u = u₀ + P ū (nv,) of all dofs, m.

        Raises
        ------
        InvalidInput : a solution of another problem.
        """
        if solution.u is None or solution.u.shape != (self.P.shape[1],):
            raise InvalidInput("solution", "no displacement of this truss", "its solution")
        return np.asarray(self.offset + self.P @ solution.u)

    def all_forces(self, solution: StepSolution) -> FloatArray:
        """f = w′ (nc,) of all contacts of the whole truss at the displacement u, N."""
        return self.truss.data.law.force(self.truss.data.overlap(self._whole(solution)))

    def energy(self, solution: StepSolution) -> float:
        """Σ w + F̃ᵀu of the whole truss at u, J: at least its minimum."""
        return float(self.truss.data.potential_energy(self._whole(solution)).sum())

    def unbalanced_energy(self, solution: StepSolution) -> FloatArray:
        """Estimate of the error, by dof of the whole truss (nv,), J.

        What each body would gain if it alone moved to balance its forces, ½ rᵀK⁻¹r with its
        residual r = −F̃ + Bᵀf and its block K of the stiffness: large where the motion of the bodies
        differs from the interpolated one (non-affine motion). With ``dof_body`` the blocks are
        those of the bodies, otherwise single dofs.
        """
        data, nv = self.truss.data, self.P.shape[0]
        c = data.overlap(self._whole(solution))
        load = np.where(data.free, data.load(data.law.force(c)) - data.contact_load, 0.0)
        stiffness = sp.coo_array(data.B.T @ sp.diags_array(data.law.tangent(c)) @ data.B)
        body = np.arange(data.nv) if data.dof_body is None else data.dof_body
        row, column = stiffness.coords
        inside = (body[row] == body[column]) & data.free[row] & data.free[column]
        least = _LOOSE * float(stiffness.data.max(initial=0.0)) or 1.0
        entries = (stiffness.data[inside], (row[inside], column[inside]))
        blocks = sp.csc_array(sp.coo_array(entries, shape=stiffness.shape))
        moved = splu(sp.csc_array(blocks + least * sp.eye_array(data.nv))).solve(load)
        return np.asarray(0.5 * load * moved)[:nv]

    def _whole(self, solution: StepSolution) -> FloatArray:
        """Displacement of all dofs, those that hold gaps included."""
        u = self.truss.data.prescribed_u.copy()
        u[: self.P.shape[0]] = self.expanded(solution)
        return u


def reduced(
    truss: NoTensionTruss,
    P: Any,
    weights: Any = None,
    offset: Any = None,
    form: TrussForm = "potential",
) -> ReducedTruss:
    """The truss with displacements restricted to u = u₀ + P ū, a smaller problem of the same kind.

    Parameters
    ----------
    truss : a ``NoTensionTruss`` or ``QuasiStatic``.
    P : (nv, m), sparse or dense; ``Representatives.matrix`` makes it. Rows of prescribed dofs are
        zero.
    weights : ω (nc,) ≥ 0, how many contacts each one stands for; those with zero are left out.
        Default one: all contacts, summed exactly. ``Representatives.clusters`` makes weights. The
        difference between both sums of forces at u₀ acts as a constant load, so that a packing in
        equilibrium there stays at rest (the ghost force correction of V. B. Shenoy and others, J.
        Mech. Phys. Solids 47, 1999).
    offset : u₀ (nv,) on free dofs, m; default zero. Prescribed dofs keep their displacement.
    form : "potential" or "complementary".

    Returns
    -------
    A formulation in ū (m,). Contacts with equal rates and gaps, as those within an element of a
    crystal, become one whose stiffness is their sum: the energy is the same. ``expanded`` and
    ``all_forces`` give u and f of the whole truss, ``unbalanced_energy`` an error estimate.

    Raises
    ------
    InvalidInput : a bad argument.

    >>> import cdopt
    >>> column = cdopt.QuasiStatic([[1, 0], [-1, 1]], [0, 0], [-1, -1])  # two discs, one on one
    >>> affine = cdopt.reduced(column, [[1], [2]])
    >>> affine.expanded(affine.solve("newton")).round(6)
    array([-1.5, -3. ])
    """
    return ReducedTruss(truss, P, weights, offset, form)


def _dofs(truss: NoTensionTruss) -> int:
    """Number of dofs, without the one that holds the gaps."""
    return truss.data.nv - 1 if isinstance(truss, QuasiStatic) else truss.data.nv


def _merged(
    B: sp.csr_array, gaps: FloatArray, stiffness: FloatArray
) -> tuple[sp.csr_array, FloatArray, FloatArray]:
    """Contacts with equal rows of B and gaps as one, its stiffness their sum."""
    top = float(np.abs(B.data).max(initial=0.0))
    B.data[np.abs(B.data) <= _ROUND_OFF * top] = 0.0
    B.eliminate_zeros()
    probes = np.random.default_rng(0).standard_normal((B.shape[1], 2))
    rates, longest = B @ probes, float(np.abs(gaps).max(initial=0.0)) or 1.0
    key = np.column_stack([np.round(rates / (top or 1.0), _DIGITS), gaps / longest])
    _, first, group = np.unique(
        np.round(key, _DIGITS), axis=0, return_index=True, return_inverse=True
    )
    total = np.zeros(first.size)
    np.add.at(total, group.ravel(), stiffness)
    return sp.csr_array(B[first]), gaps[first], total
