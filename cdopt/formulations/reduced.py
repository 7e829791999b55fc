"""Reduced trusses: equilibrium among the displacements u = u₀ + P ū.

    minimise over ū    Σ ω w(−Φ − B u) + F̃ᵀ u    with    u = u₀ + P ū

The quasicontinuum method (E. B. Tadmor, M. Ortiz and R. Phillips, Phil. Mag. A 73, 1996, for atoms)
is the case in which P interpolates linearly between representative particles. De Klerk et al.
(2021), sections 1 and 4, name it for granular media as the aim of their variational integrator.
Weights ω of sampled contacts define a summation rule, here that of clusters (J. Knap and M. Ortiz,
J. Mech. Phys. Solids 49, 2001); ω = 1 is the exact sum. Representatives are added where the
particles' motion is not affine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu
from scipy.spatial import ConvexHull, Delaunay, QhullError, cKDTree

from cdopt._util import checks
from cdopt._util.cached import cached_property
from cdopt._util.checks import FloatArray, IntArray, read_only
from cdopt._util.errors import InvalidInput
from cdopt._util.frozen import Frozen
from cdopt.formulations.no_tension_truss import TRUSS_FORMS, NoTensionTruss
from cdopt.formulations.quasi_static import QuasiStatic
from cdopt.problem.scaling import total_by
from cdopt.problem.solution import StepSolution

_DIGITS = 10  # to which gap rates of contacts agree that become one
_ROUND_OFF = 1e-13  # share of the largest entry of B P that is zero
_LOOSE = 1e-9  # share of the largest stiffness that a dof has at least, for the estimate
_INSIDE = 1e-9  # share of an element by which a particle may be outside of it
_ZERO = 1e-12  # smaller shape functions are zero


class ReducedTruss(QuasiStatic):
    """A truss whose displacements are u = u₀ + P ū.

    For the parameters and ``weights`` see ``reduced``.

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
        form: str = "potential",
    ) -> None:
        checks.instance("truss", truss, NoTensionTruss)
        form = checks.choice("form", form, TRUSS_FORMS)
        data = truss.data
        nv, law = data.nv, data.elastic_law
        matrix = checks.matrix("P", P, nv, None)
        free = np.ones(nv, dtype=bool) if data.free is None else data.free
        if matrix[np.flatnonzero(~free)].count_nonzero():
            raise InvalidInput("P", "entries at prescribed dofs", "zero rows there")
        start = np.array(data.free_motion)
        if offset is not None:
            start += np.where(free, checks.vector("offset", offset, nv, "m"), 0.0)
        given = np.ones(data.nc) if weights is None else weights
        weight = checks.vector("weights", given, data.nc)
        if np.any(weight < 0.0):
            raise InvalidInput("weights", f"{weight.min():g}", "numbers ≥ 0")
        self.truss, self.P, self.offset = truss, matrix, read_only(start)
        sampled = np.flatnonzero(weight > 0.0)
        B, gaps, stiffness = _merged(
            sp.csr_array(data.B[sampled] @ matrix),
            data.gap(start, np.zeros(0))[sampled],
            (weight * law.stiffness)[sampled],
        )
        ghost = data.load((weight - 1.0) * law.force(-data.gap(start, np.zeros(0))))
        applied = -(matrix.T @ (data.contact_load + ghost))
        super().__init__(B, gaps, applied, stiffness, law.power, form)

    def expanded(self, solution: StepSolution) -> FloatArray:
        """Displacement u = u₀ + P ū (nv,) of all dofs, m.

        Raises
        ------
        InvalidInput : a solution of another problem.
        """
        checks.instance("solution", solution, StepSolution)
        if solution.u is None or solution.u.shape != (self.P.shape[1],):
            raise InvalidInput("solution", "no displacement of this truss", "its solution")
        return np.asarray(self.offset + self.P @ solution.u)

    def all_forces(self, solution: StepSolution) -> FloatArray:
        """f = w′ (nc,) of all contacts of the whole truss at the displacement u, N."""
        u = self.expanded(solution)
        return self.truss.data.elastic_law.force(self.truss.data.overlap(u, np.zeros(0)))

    def energy(self, solution: StepSolution) -> float:
        """Σ w + F̃ᵀu of the whole truss at u, J: at least its minimum."""
        u = self.expanded(solution)
        return float(self.truss.data.motion_objective(u, np.zeros(0)).sum())

    def unbalanced_energy(self, solution: StepSolution) -> FloatArray:
        """Estimate of the error, by dof of the whole truss (nv,), J.

        The energy that each body would release if it alone moved to balance its forces, ½ rᵀK⁻¹r
        with its residual r = −F̃ + Bᵀf and its block K of the stiffness. It is large where the true
        motion differs from the interpolated one (non-affine motion). With ``dof_body`` the blocks
        are those of the bodies, otherwise single dofs.
        """
        data, law = self.truss.data, self.truss.data.elastic_law
        free = np.ones(data.nv, dtype=bool) if data.free is None else data.free
        c = data.overlap(self.expanded(solution), np.zeros(0))
        load = np.where(free, data.load(law.force(c)) - data.contact_load, 0.0)
        stiffness = sp.coo_array(data.B.T @ sp.diags_array(law.tangent(c)) @ data.B)
        body = np.arange(data.nv) if data.dof_body is None else data.dof_body
        row, column = stiffness.coords
        inside = (body[row] == body[column]) & free[row] & free[column]
        least = _LOOSE * float(stiffness.data.max(initial=0.0)) or 1.0
        entries = (stiffness.data[inside], (row[inside], column[inside]))
        blocks = sp.csc_array(sp.coo_array(entries, shape=stiffness.shape))
        moved = splu(sp.csc_array(blocks + least * sp.eye_array(data.nv))).solve(load)
        return np.asarray(0.5 * load * moved)


def reduced(
    truss: NoTensionTruss,
    P: Any,
    weights: Any = None,
    offset: Any = None,
    form: str = "potential",
) -> ReducedTruss:
    """The truss with displacements restricted to u = u₀ + P ū, a smaller problem of the same kind.

    Parameters
    ----------
    truss : a ``NoTensionTruss`` or ``QuasiStatic``.
    P : (nv, m), sparse or dense; ``Representatives.matrix`` makes it. Rows of prescribed dofs are
        zero.
    weights : ω (nc,) ≥ 0, the number of contacts that each one represents; zero leaves a contact
        out. Default one: the exact sum. ``Representatives.clusters`` makes weights. The difference
        between both sums of forces at u₀ acts as a constant load, so that a packing in equilibrium
        there stays at rest (the ghost force correction of V. B. Shenoy and others, J. Mech. Phys.
        Solids 47, 1999).
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
    form = checks.choice("form", form, TRUSS_FORMS)
    return ReducedTruss(truss, P, weights, offset, form)


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
    key = np.round(key, _DIGITS)
    _, first, group = np.unique(key, axis=0, return_index=True, return_inverse=True)
    total = total_by(group.ravel(), stiffness, first.size)
    return sp.csr_array(B[first]), gaps[first], total


# --- representative particles -------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Representatives:
    """Some particles of a packing as the nodes of a Delaunay triangulation.

    Attributes
    ----------
    x : (n, d) centres of all particles in the plane or in space, m.
    indices : (m,) which of them are representatives, in increasing order.
    dofs : (n, d) the dofs of each particle's translation; default d for each particle in turn.
        Other dofs do not move.

    Raises
    ------
    InvalidInput : a bad argument, or representatives on one line or in one plane.
    """

    x: FloatArray
    indices: IntArray
    dofs: Any = None

    __setstate__ = Frozen.__setstate__  # arrays of copies are read-only too

    def __post_init__(self) -> None:
        x = _positions(self.x)
        given = checks.integers("indices", self.indices, (None,), at_least=0, below=len(x))
        dofs = np.arange(x.size).reshape(x.shape)
        if self.dofs is not None:
            dofs = checks.integers("dofs", self.dofs, x.shape, at_least=0)
        self.__dict__.update(x=x, indices=read_only(np.unique(given)), dofs=read_only(dofs))
        _ = self.mesh  # raises if there is none

    @classmethod
    def spread(cls, x: Any, spacing: float, dofs: Any = None) -> Representatives:
        """Particles next to the points of a square grid, and the corners of the packing.

        Parameters
        ----------
        x : (n, d) centres of all particles, m. spacing : of the grid, m. dofs : as the attribute.

        Raises
        ------
        InvalidInput : a bad argument.
        """
        spacing = checks.positive("spacing", spacing)
        centres = _positions(x)
        low, high = centres.min(axis=0), centres.max(axis=0)
        counts = np.maximum(np.ceil((high - low) / spacing), 1.0).astype(int) + 1
        if np.prod(counts.astype(float)) > 4.0 * len(centres):
            raise InvalidInput("spacing", f"{spacing:g}", "a grid with fewer points than particles")
        axes = [np.linspace(*ends) for ends in zip(low, high, counts, strict=True)]
        grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
        try:
            corners = ConvexHull(centres).vertices
        except QhullError:
            raise _flat() from None
        near = cKDTree(centres).query(grid)[1]
        return cls(centres, np.union1d(near, corners), dofs)

    # --- the mesh ----------------------------------------------------------------------

    @cached_property
    def mesh(self) -> Delaunay:
        """The triangulation of the representatives."""
        try:
            return Delaunay(self.x[self.indices])
        except (QhullError, ValueError):
            raise _flat() from None

    @cached_property
    def element(self) -> IntArray:
        """(n,) the simplex of each particle; the nearest one if it is outside all."""
        simplex = self.mesh.find_simplex(self.x, tol=_INSIDE)
        outside = np.flatnonzero(simplex < 0)
        if outside.size:
            centre = self.x[self.indices][self.mesh.simplices].mean(axis=1)
            simplex[outside] = cKDTree(centre).query(self.x[outside])[1]
        return read_only(simplex.astype(np.intp))

    @cached_property
    def shape_functions(self) -> sp.csr_array:
        """N (n, m): the share of each representative in each particle's displacement."""
        n, d = self.x.shape
        transform = self.mesh.transform[self.element]
        first = np.einsum("nij,nj->ni", transform[:, :d], self.x - transform[:, d])
        share = np.column_stack([first, 1.0 - first.sum(axis=1)])
        share[np.abs(share) < _ZERO] = 0.0
        row = np.repeat(np.arange(n), d + 1)
        column = self.mesh.simplices[self.element].ravel()
        N = sp.csr_array((share.ravel(), (row, column)), shape=(n, self.indices.size))
        N.eliminate_zeros()
        return N

    def matrix(self, free: Any = None) -> sp.csr_array:
        """P (nv, m d): displacement of all dofs for each dof of a representative.

        Parameters
        ----------
        free : (nv,) mask of the truss's free dofs; default all. Rows of the others are zero, and
            representatives have no column there.

        Raises
        ------
        InvalidInput : a bad argument.
        """
        d, nv = self.x.shape[1], int(self.dofs.max()) + 1
        mask = np.ones(nv, dtype=bool)
        if free is not None:
            mask = checks.array("free", free, "a mask")
            if mask.dtype.kind != "b" or mask.ndim != 1 or mask.size < nv:
                raise InvalidInput("free", checks.describe(mask), f"at least {nv} flags")
        N = sp.coo_array(self.shape_functions)
        row, column = N.coords
        rows = np.concatenate([self.dofs[row, k] for k in range(d)])
        columns = np.concatenate([d * column + k for k in range(d)])
        entries = np.tile(N.data, d) * mask[rows]
        P = sp.csc_array((entries, (rows, columns)), shape=(mask.size, d * self.indices.size))
        P.eliminate_zeros()
        return sp.csr_array(P[:, np.flatnonzero(mask[self.dofs[self.indices].ravel()])])

    # --- the summation rule ------------------------------------------------------------

    def clusters(self, pairs: Any, radius: float) -> FloatArray:
        """Weights (nc,) of contacts, zero outside clusters around the representatives.

        The cluster of a representative consists of the particles within ``radius`` of it that are
        not nearer to another one. Weights are such that all shape functions have the right sum over
        the particles; if one would be negative, all are those of the lumped system. A contact has
        the mean weight of its particles.

        Parameters
        ----------
        pairs : (nc, 2) the particles of each contact, −1 for a wall.
        radius : m; zero samples only the representatives.

        Raises
        ------
        InvalidInput : a bad argument.
        """
        radius = checks.not_negative("radius", radius)
        contacts = checks.integers("pairs", pairs, (None, 2), at_least=-1, below=len(self.x))
        if contacts.size and contacts.max(axis=1).min() < 0:
            raise InvalidInput("pairs", "a contact of two walls", "a particle in each contact")
        distance, nearest = cKDTree(self.x[self.indices]).query(self.x)
        member = np.flatnonzero(distance <= radius)
        N = self.shape_functions
        total = np.asarray(N.sum(axis=0)).ravel()
        chosen = (np.ones(member.size), (member, nearest[member]))
        inside = sp.csr_array(chosen, shape=(len(self.x), self.indices.size))
        weight = splu(sp.csc_array(N.T @ inside)).solve(total)
        if not np.all(weight > 0.0):
            weight = total / np.asarray(inside.sum(axis=0)).ravel()
        of_particle = np.zeros(len(self.x) + 1)  # the last one is that of walls
        of_particle[member] = weight[nearest[member]]
        count = np.count_nonzero(contacts >= 0, axis=1)
        return np.asarray(of_particle[contacts].sum(axis=1) / count)

    # --- refinement --------------------------------------------------------------------

    def refined(self, energy: Any, share: float = 0.5) -> Representatives:
        """More representatives, in the elements whose errors are largest.

        Parameters
        ----------
        energy : (nv,) estimate of the error by dof, J: ``ReducedTruss.unbalanced_energy``.
        share : least share of the whole error in the refined elements (W. Dörfler, SIAM J.
            Numer. Anal. 33, 1996).

        Returns
        -------
        The representatives, and the particle nearest to the middle of the longest edge of each such
        element.

        Raises
        ------
        InvalidInput : a bad argument.
        """
        share = checks.share("share", share)
        error = checks.vector("energy", energy, None, "J")
        if error.size <= self.dofs.max():
            raise InvalidInput("energy", f"{error.size:,} numbers", f"{self.dofs.max() + 1}")
        nodes = self.mesh.simplices
        of_element = np.bincount(self.element, error[self.dofs].sum(axis=1), minlength=len(nodes))
        order = np.argsort(-of_element, kind="stable")
        enough = np.searchsorted(np.cumsum(of_element[order]), share * of_element.sum())
        corner = self.x[self.indices][nodes[order[: int(enough) + 1]]]
        i, j = np.triu_indices(nodes.shape[1], 1)
        length = np.linalg.norm(corner[:, i] - corner[:, j], axis=2)
        longest = np.argmax(length, axis=1)
        each = np.arange(len(corner))
        middle = 0.5 * (corner[each, i[longest]] + corner[each, j[longest]])
        new = cKDTree(self.x).query(middle)[1]
        return Representatives(self.x, np.union1d(self.indices, new), self.dofs)


def _positions(x: Any) -> FloatArray:
    centres = checks.numbers("x", x, (None, None), "m")
    if centres.shape[1] not in (2, 3) or len(centres) <= centres.shape[1]:
        expected = "positions (n, 2) or (n, 3), more than two or three"
        raise InvalidInput("x", f"shape {centres.shape}", expected)
    return centres


def _flat() -> InvalidInput:
    return InvalidInput("indices", "representatives in one line or plane", "a mesh of simplices")
