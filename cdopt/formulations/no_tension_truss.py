"""The no-tension truss: equations (32), (33) and (36) of Olsen & Kamrin (2018).

Complementary form, (33) for Hooke and (36) for any power::

    minimise over f ≥ 0    Σ w*(f)    subject to    Bᵀ f = F̃

Potential form, (32) with the sign of its linear term corrected::

    minimise over u    Σ w(−B u) + F̃ᵀ u

Both give the same f. The multiplier of Bᵀf = F̃ is the micro-displacement u itself, and the
two optimal values sum to zero.
"""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.checks import FloatArray, read_only
from cdopt._util.errors import InvalidInput
from cdopt.formulations.base import Formulation
from cdopt.formulations.statement import (
    Statement,
    align,
    conjugate_energy,
    conjugate_latex,
    elastic_energy,
    seed_dual,
)
from cdopt.problem import ContactProblem, WarmStart, truss_data
from cdopt.problem.contact_law import HOOKE, PowerLaw
from cdopt.problem.solution import Iterate

TrussForm = Annotated[str, checks.one_of(("complementary", "potential"))]


class NoTensionTruss(Formulation):
    """Contacts as elastic struts that cannot pull, carrying a given load.

    Parameters
    ----------
    B : (nc, nv) gap gradient, sparse or dense.
    contact_load : F̃ (nv,), the generalised force that the contacts must deliver, N and N·m:
        F̃ = Bᵀf. A beam of weight W resting on supports has contact_load +W upward.
    stiffness : k, one number or (nc,), positive. Only ratios matter to f; u scales with it.
    power : p > 1 of the contact energy w(c) = (k/p) c₊ᵖ: 2 for Hooke, 5/2 for Hertz. Below 1.2
        overlaps of small forces are less than the round-off of B u, and few answers are certified.
    form : "complementary" for (33) and (36), "potential" for the corrected (32).
    free_dofs : the index set Γ_N of free dofs, as indices or a mask; default all. On the
        others the displacement is prescribed and the contacts' sum is a reaction.
    prescribed_u : (nv,) displacement of the dofs that are not free, m; default zero.
    contact_ids : (nc,) names of the contacts.
    dof_body : (nv,) the body of each dof, for structured solvers.

    Raises
    ------
    InvalidInput : a bad argument.

    >>> import cdopt
    >>> beam = cdopt.NoTensionTruss([[1, -1], [1, 0], [1, 1]], [10, 0])
    >>> beam.solve("clarabel").f.round(6)
    array([3.333333, 3.333333, 3.333333])
    """

    def __init__(
        self,
        B: Any,
        contact_load: Any,
        stiffness: Any = 1.0,
        power: checks.Power = HOOKE,
        form: TrussForm = "complementary",
        free_dofs: Any = None,
        prescribed_u: Any = None,
        contact_ids: Any = None,
        dof_body: Any = None,
    ) -> None:
        matrix = checks.gap_gradient(B)
        nc, nv = matrix.shape
        self.form = form
        self.data = truss_data(
            matrix,
            checks.vector("contact_load", contact_load, nv, "N"),
            PowerLaw(checks.per_contact("stiffness", stiffness, nc, positive=True), power),
            **network_arguments(nc, nv, free_dofs, prescribed_u, contact_ids, dof_body),
        )

    @staticmethod
    def of(data: ContactProblem, form: TrussForm = "complementary") -> NoTensionTruss:
        """The truss of data that have been checked already."""
        truss = NoTensionTruss.__new__(NoTensionTruss)
        truss.form, truss.data = form, data
        return truss

    def _stated(self) -> Statement:
        if self.form == "complementary":
            return ComplementaryForm(self.data, _complementary_form)
        return PotentialForm(self.data, _potential_form)

    def _fields(self, iterate: Iterate) -> dict[str, FloatArray | None]:
        if iterate.motion is None:
            raise InvalidInput("iterate", "no displacement", "u and f")
        gap = self.data.gap(iterate.motion, iterate.forces)
        dual = iterate.motion if self.form == "complementary" else iterate.forces
        return {"u": iterate.motion, "gap": gap, "dual": dual}

    def _objective(self, iterate: Iterate) -> float:
        if self.form == "complementary" or iterate.motion is None:
            return float(self.data.force_objective(iterate.forces).sum())
        return float(self.data.motion_objective(iterate.motion, iterate.forces).sum())

    def latex(self) -> str:
        """The problem as mathematics."""
        data = self.data
        p, u = self._power, data.rest
        boundary = "" if data.free is None else r", \qquad u = \bar u \text{ on } \Gamma_D"
        rows = r"(B^\mathsf{T} f)_j = \tilde F_j, \; j \in \Gamma_N"
        if not boundary:
            rows = r"B^\mathsf{T} f = \tilde F"
        extra = r" + f^\mathsf{T} B \bar u" if np.any(u) else ""
        if self.form == "complementary":
            return align(
                rf"\min_{{f \in \mathbb{{R}}^{{{data.nc}}}}}\quad & {conjugate_latex(p)}{extra}",
                rf"\text{{s.t.}}\quad & {rows}, \quad f \ge 0",
            )
        return align(
            rf"\min_{{u \in \mathbb{{R}}^{{{data.nv}}}}}\quad & "
            rf"\sum_i \tfrac{{k_i}}{{{p:.6g}}} (-B u)_{{i,+}}^{{{p:.6g}}} "
            rf"+ \tilde F^\mathsf{{T}} u{boundary}"
        )


def network_arguments(
    nc: int, nv: int, free_dofs: Any, prescribed_u: Any, contact_ids: Any, dof_body: Any
) -> dict[str, Any]:
    """The checked arguments of ``truss_data`` that say which dofs are free, and names."""
    free = np.full(nv, free_dofs is None)
    if free_dofs is not None:
        free[checks.positions("free_dofs", free_dofs, nv)] = True
    given = np.zeros(nv) if prescribed_u is None else prescribed_u
    given = checks.vector("prescribed_u", given, nv, "m")
    if np.any(given[free] != 0.0):
        raise InvalidInput("prescribed_u", "a value on a free dof", "zeros on free dofs")
    named, known = contact_ids is not None, dof_body is not None
    return {
        "free": None if free.all() else read_only(free),
        "prescribed_u": given,
        "contact_ids": checks.labels("contact_ids", contact_ids, nc) if named else None,
        "dof_body": checks.integers("dof_body", dof_body, (nv,), at_least=0) if known else None,
    }


# --- the two forms ---------------------------------------------------------------------


def _complementary_form(x: ComplementaryForm) -> cp.Problem:
    """(33) and (36): Σ w*(f) over f ≥ 0 with Bᵀf = F̃."""
    return cp.Problem(cp.Minimize(x.conjugate_energy + x.work), [x.B_T @ x.f == x.load])


def _potential_form(x: PotentialForm) -> cp.Problem:
    """(32) corrected: Σ w(c) + F̃ᵀu with overlaps c ≥ −B u, c ≥ 0."""
    return cp.Problem(cp.Minimize(x.elastic_energy + x.load @ x.u), [x.gap + x.c >= 0, *x.fixed])


class _TrussForm(Statement):
    """What both forms share; where no dof is in play, one without a contact is added."""

    def _declare(self) -> None:
        data, truss = self.data, self.data.scaled()
        self.law = truss.elastic_law
        if truss.used.size == 0:
            used, none = np.zeros(1, dtype=np.intp), sp.csr_array((data.nc, 1))
            truss = dataclasses.replace(truss, B=none, load=np.zeros(1), used=used, unit=np.ones(1))
        if data.nc == 0:
            law = PowerLaw(np.ones(1), self.law.power)
            none = sp.csr_array((1, truss.load.size))
            truss = dataclasses.replace(truss, B=none, p=np.zeros(1), compliance=law)
        self.scaled, self.law = truss, truss.elastic_law
        self.B = cp.Constant(truss.B, name="B")

    def displacement_of(self, start: WarmStart) -> FloatArray | None:
        """Scaled displacement of a previous solution, if it has one of this length."""
        if start.motion is None or start.motion.shape != (self.data.nv,):
            return None
        return start.motion[self.scaled.used] / self.scaled.unit

    def pair(self, u: Any, f: Any) -> Iterate | None:
        """The iterate of scaled u and f, in physical units; None where one is missing."""
        if u is None or f is None:
            return None
        data, used = self.data, self.scaled.used
        motion = np.array(data.rest)
        moved = np.asarray(u, dtype=float).ravel() * self.scaled.unit
        motion[used] = (
            moved if data.free is None else np.where(data.free[used], moved, motion[used])
        )
        return Iterate(motion, self.physical_forces(f))


class ComplementaryForm(_TrussForm):
    """Variables f ≥ 0."""

    def _declare(self) -> None:
        super()._declare()
        self.f = cp.Variable(self.scaled.B.shape[0], nonneg=True, name="f")
        self.forces = self.in_newtons(self.f)
        self.B_T = cp.Constant(sp.csr_array(self.scaled.B.T), name="Bᵀ")  # CVXPY's B.T is dense
        self.load = cp.Constant(self.scaled.load, name="F̃")

    @property
    def conjugate_energy(self) -> cp.Expression:
        """Σ w*(f)."""
        return conjugate_energy(self.law, self.f, self.contact_weight)

    @property
    def work(self) -> cp.Expression | float:
        """Work of prescribed displacements on the forces."""
        opening = self.scaled.p
        if not np.any(opening):
            return 0.0
        return cp.Constant(self.contact_weight * opening, name="Bū") @ self.f

    def iterate(self) -> Iterate | None:
        """f, and u from the multipliers, which come in units of the weighted objective."""
        u = self.problem.constraints[0].dual_value
        return self.pair(None if u is None else u / self.dof_weight[self.scaled.used], self.f.value)

    def seed(self, start: WarmStart) -> None:
        """Write forces, and the displacement as multipliers."""
        self.f.value = self.forces_of(start)[1]
        u = self.displacement_of(start)
        if u is not None:
            seed_dual(self.problem.constraints[0], self.dof_weight[self.scaled.used] * u)


class PotentialForm(_TrussForm):
    """Variables u, and overlaps c ≥ 0."""

    def _declare(self) -> None:
        super()._declare()
        used, nv = self.scaled.used, self.data.nv
        self.u = cp.Variable(used.size, name="u")
        self.c = cp.Variable(self.scaled.B.shape[0], nonneg=True, name="c")
        ones = (self.scaled.unit, (used, np.arange(used.size)))
        onto = sp.csr_array(ones, shape=(nv, used.size))
        prescribed = cp.Constant(self.data.rest, name="ū")
        self.displacement = cp.Constant(onto, name="U₀") @ self.u + prescribed

    @property
    def elastic_energy(self) -> cp.Expression:
        """Σ w(c)."""
        return elastic_energy(self.law, self.c, self.contact_weight)

    @property
    def load(self) -> cp.Constant:
        """F̃ (m,)."""
        return cp.Constant(self.dof_weight[self.scaled.used] * self.scaled.load, name="F̃")

    @property
    def gap(self) -> cp.Expression:
        """B u, and what prescribed displacements add to it."""
        gap, opening = self.B @ self.u, self.scaled.p
        return gap + cp.Constant(opening, name="Bū") if np.any(opening) else gap

    @property
    def fixed(self) -> list[cp.Constraint]:
        """No displacement where nothing resists and nothing pushes."""
        return [] if self.scaled.B.nnz or np.any(self.scaled.load) else [self.u == 0]

    def iterate(self) -> Iterate | None:
        """u, and f from the multipliers, which come in units of the weighted objective."""
        f = self.problem.constraints[0].dual_value
        return self.pair(self.u.value, None if f is None else f / self.contact_weight)

    def seed(self, start: WarmStart) -> None:
        """Write the displacement, overlaps, and forces as multipliers."""
        u = self.displacement_of(start)
        if u is None or start.motion is None:
            return
        self.u.value = u
        overlap = np.maximum(self.data.overlap(start.motion, start.forces) / self.data.speed, 0.0)
        self.c.value = overlap if self.data.nc else np.zeros(1)
        seed_dual(self.problem.constraints[0], self.contact_weight * self.forces_of(start)[1])
