"""The linearised no-tension truss: how forces answer small changes while no contact changes state.

On the loaded contacts f = k c^(p−1) with c = −B u, so that df = f κ − D B du, where κ = d log k +
log c dp and D = (p−1) f/c is the tangent stiffness. Balance Bᵀdf = dF̃ gives K du = Bᵀ(f κ) − dF̃
with K = Bᵀ D B. This is implicit differentiation of the optimality conditions of equation (36) of
Olsen & Kamrin (2018); everything here is in the units of ``TrussData.scaled``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import SuperLU, splu

from cdopt._util.checks import BoolArray, FloatArray, read_only
from cdopt._util.errors import Unsupported
from cdopt._util.frozen import Frozen
from cdopt.hyperstatic import admissible, rank
from cdopt.problem import ScaledTruss

TOUCHING = 1e-9  # overlap or force, over the network's, within which a contact just touches
_DENSE = 600  # dofs up to which K is taken apart by singular values
_ZERO = 1e-11  # singular values of √D B below this share of the largest are zero
_SHIFT = 1e-9  # of the factorised K, over its largest entry; taken out again by refinement
_PASSES = 40
_CLEAN = 1e-11  # relative residual at which refinement ends
_LEFT = 1e-7  # and above which a load is one that the loaded contacts do not bear


@dataclass(frozen=True, eq=False)
class Tangent(Frozen):
    """The tangent of a truss at its solution, scaled.

    Attributes
    ----------
    truss : the scaled truss. f : (n,) its forces. overlap : (n,) −B u − opening.
    loaded : (n,) contacts that carry force.
    touching : (n,) contacts without force, and without gap in every motion that goes with f.
    """

    truss: ScaledTruss
    f: FloatArray
    overlap: FloatArray
    loaded: BoolArray
    touching: BoolArray

    @staticmethod
    def at(truss: ScaledTruss, f: FloatArray, u: FloatArray, tol: float) -> Tangent:
        """The tangent at forces f (n,) and displacement u (m,), scaled.

        Parameters
        ----------
        tol : overlap within which a contact counts as touching; the matching force and gap of
            the law c^(p−1) are taken if they are larger.
        """
        p = truss.law.power
        overlap = -(truss.B @ u) - truss.opening
        loaded = (f > max(tol, tol ** (p - 1.0))) | (overlap > tol)  # soft ones carry little
        near = ~loaded & (overlap >= -max(tol, tol ** (1.0 / (p - 1.0))))
        own = np.flatnonzero(loaded | near)
        if np.any(near):
            B = rank.equilibrated(sp.csr_array(truss.B[own]))[0]
            full = rank.ranks(B, [1e-9])[0]
            near[own] &= admissible.loadable_of(B, loaded[own], full, 1e-9)[0]
        parts = (np.array(f), overlap, loaded, near)
        return Tangent(truss, *(read_only(part) for part in parts))

    @cached_property
    def stiffness(self) -> FloatArray:
        """D (n,), w″ of each contact; zero where it carries nothing."""
        law = self.truss.law
        c = np.where(self.loaded, law.overlap(self.f), 1.0)
        return read_only(np.where(self.loaded, (law.power - 1.0) * self.f / c, 0.0))

    @cached_property
    def log_overlap(self) -> FloatArray:
        """log c (n,) of the loaded contacts; zero elsewhere."""
        c = np.where(self.loaded, self.truss.law.overlap(self.f), 1.0)
        return read_only(np.log(c))

    # --- both directions ---------------------------------------------------------------

    def push(self, kappa: FloatArray, load: FloatArray) -> FloatArray:
        """df (n, …) from κ (n, …) and dF̃ (m, …).

        Raises
        ------
        Unsupported : a load that the loaded contacts do not bear.
        """
        source = (self.f * kappa.T).T
        du = self.solve(self.truss.B.T @ source - load)
        return source - (self.stiffness * (self.truss.B @ du).T).T

    def pull(self, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The adjoint: derivatives of weightᵀf by κ (n, …) and by F̃ (m, …)."""
        weighted = (self.stiffness * weight.T).T
        motion = self.solve(self.truss.B.T @ weighted)
        by_kappa = (self.f * (weight - self.truss.B @ motion).T).T
        return by_kappa, motion

    def bears(self, load: FloatArray) -> bool:
        """Whether the loaded contacts alone resist a load (m,)."""
        size = float(np.abs(load).max(initial=0.0))
        if size == 0.0:
            return True
        try:
            self.solve(load)
        except Unsupported:
            return False
        return True

    # --- K du = r ----------------------------------------------------------------------

    def solve(self, rhs: FloatArray) -> FloatArray:
        """K⁺ r (m, …) for r in the range of K.

        Raises
        ------
        Unsupported : r has a part that no loaded contact bears.
        """
        if rhs.shape[0] == 0:
            return np.zeros_like(rhs)
        found = self._by_values(rhs) if self._factors is None else self._by_factors(rhs)
        left = np.abs(rhs - self._gram @ found).max(initial=0.0)
        if left > _LEFT * np.abs(rhs).max(initial=0.0):
            raise Unsupported(
                "this derivative",
                "the loaded contacts do not bear that change of load by themselves",
                ("along",),
            )
        return found

    @cached_property
    def _gram(self) -> sp.csc_array:
        """K (m, m)."""
        weighted = sp.csr_array(self.truss.B * self.stiffness[:, None])
        return sp.csc_array(self.truss.B.T @ weighted)

    @cached_property
    def _values(self) -> tuple[FloatArray, FloatArray]:
        """Right singular vectors (m, r) of √D B and its values (r,) that are not zero."""
        own = self.truss.B[np.flatnonzero(self.loaded)]
        root = np.sqrt(self.stiffness[self.loaded])[:, None] * own.toarray()
        if root.size == 0:
            return np.zeros((root.shape[1], 0)), np.zeros(0)
        _, values, Vt = np.linalg.svd(root, full_matrices=False)
        kept = values > _ZERO * values[0]
        return Vt[kept].T, values[kept]

    def _by_values(self, rhs: FloatArray) -> FloatArray:
        V, values = self._values
        return np.asarray(V @ ((V.T @ rhs).T / values**2).T)

    @cached_property
    def _factors(self) -> SuperLU | None:
        """Factors of K plus a small shift; None for few dofs."""
        m = self._gram.shape[0]
        if m <= _DENSE:
            return None
        shift = _SHIFT * float(abs(self._gram).max())
        system = sp.csc_matrix(self._gram + shift * sp.eye_array(m, format="csc"))
        return splu(system, permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True})

    def _by_factors(self, rhs: FloatArray) -> FloatArray:
        """By repeated correction, which takes the shift out where K resists."""
        factors, found = self._factors, np.zeros_like(rhs)
        if factors is None:
            return found
        goal = _CLEAN * float(np.abs(rhs).max(initial=0.0))
        for _ in range(_PASSES):
            left = rhs - self._gram @ found
            if float(np.abs(left).max(initial=0.0)) <= goal:
                break
            found = found + factors.solve(np.ascontiguousarray(left))
        return found
