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
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from cdopt._util import checks
from cdopt._util.checks import BoolArray, FloatArray, read_only
from cdopt._util.errors import InvalidInput
from cdopt.backends.posing import posed_once
from cdopt.formulations.base import Formulation
from cdopt.formulations.statement import Statement, seed_dual
from cdopt.problem import ScaledTruss, TrussData
from cdopt.problem.contact_law import HOOKE, PowerLaw
from cdopt.problem.solution import Iterate
from cdopt.problem.warm_start import WarmStart

FORMS = ("complementary", "potential")


class NoTensionTruss(Formulation):
    """Contacts as elastic struts that cannot pull, carrying a given load.

    Parameters
    ----------
    B : (nc, nv) gap gradient, sparse or dense.
    contact_load : F̃ (nv,), the generalised force that the contacts must deliver, N and N·m:
        F̃ = Bᵀf. A beam of weight W resting on supports has contact_load +W upward.
    stiffness : k, one number or (nc,), positive. Only ratios matter to f; u scales with it.
    power : p > 1 of the contact energy w(c) = (k/p) c₊ᵖ: 2 for Hooke, 5/2 for Hertz.
    form : "complementary" for (33) and (36), "potential" for the corrected (32).
    free_dofs : the index set Γ_N of free dofs, as indices or a mask; default all. On the
        others the displacement is prescribed and the contacts' sum is a reaction.
    prescribed_u : (nv,) displacement of the dofs that are not free, m; default zero.
    contact_ids : (nc,) names of the contacts.
    dof_body : (nv,) the body of each dof, for structured solvers.

    Attributes
    ----------
    forces : CVXPY expression of f (nc,), N (complementary form).
    displacement : CVXPY expression of u (nv,), m (potential form).

    Raises
    ------
    InvalidInput : a bad argument.

    >>> import cdopt
    >>> beam = cdopt.NoTensionTruss([[1, -1], [1, 0], [1, 1]], [10, 0])
    >>> beam.solve("clarabel").f.round(6)
    array([3.333333, 3.333333, 3.333333])
    """

    data: TrussData

    def __init__(
        self,
        B: Any,
        contact_load: Any,
        stiffness: Any = 1.0,
        power: checks.Power = HOOKE,
        form: str = "complementary",
        free_dofs: Any = None,
        prescribed_u: Any = None,
        contact_ids: Any = None,
        dof_body: Any = None,
    ) -> None:
        matrix = checks.gap_gradient(B)
        nc, nv = matrix.shape
        load = checks.vector("contact_load", contact_load, nv, "N")
        law = PowerLaw(
            checks.per_contact("stiffness", stiffness, nc, positive=True),
            checks.power("power", power),
        )
        free = _free_mask(free_dofs, nv)
        held = _displaced(prescribed_u, free)
        ids = None if contact_ids is None else checks.labels("contact_ids", contact_ids, nc)
        self.form = checks.choice("form", form, FORMS)
        body = (
            None if dof_body is None else checks.integers("dof_body", dof_body, (nv,), at_least=0)
        )
        self._pose(TrussData(matrix, load, law, free, held, ids, body))

    @staticmethod
    def of(data: TrussData, form: str = "complementary") -> NoTensionTruss:
        """The truss of data that have been checked already.

        Raises
        ------
        InvalidInput : no such form.
        """
        truss = NoTensionTruss.__new__(NoTensionTruss)
        truss.form = checks.choice("form", form, FORMS)
        truss._pose(data)
        return truss

    def _pose(self, data: TrussData) -> None:
        """State the problem of these data in the form asked for."""
        self.data = data
        self.statement: _TrussStatement = (
            _Complementary(data) if self.form == "complementary" else _Potential(data)
        )

    @property
    def forces(self) -> cp.Expression | None:
        """CVXPY expression of f (nc,), N; None in potential form."""
        return self.statement.forces

    @property
    def displacement(self) -> cp.Expression | None:
        """CVXPY expression of u (nv,), m; None in complementary form."""
        return self.statement.displacement

    @property
    def name(self) -> str:
        """Name and form."""
        return f"NoTensionTruss ({self.form} form, p = {self.data.law.power:g})"

    @property
    def _part_energy(self) -> FloatArray:
        return self.data.part_force * self.data.part_length

    @property
    def _quadratic(self) -> bool:
        return self.data.law.power == HOOKE

    def _fields(self, iterate: Iterate) -> dict[str, FloatArray | None]:
        if iterate.motion is None:
            raise InvalidInput("iterate", "no displacement", "u and f")
        gap = -self.data.overlap(iterate.motion)
        dual = iterate.motion if self.form == "complementary" else iterate.forces
        return {"u": iterate.motion, "gap": gap, "dual": dual}

    def _objective(self, iterate: Iterate) -> float:
        if self.form == "complementary" or iterate.motion is None:
            return float(self.data.complementary_energy(iterate.forces).sum())
        return float(self.data.potential_energy(iterate.motion).sum())

    def latex(self) -> str:
        """The problem as mathematics."""
        data = self.data
        p, q = data.law.power, data.law.conjugate_power
        held = r", \qquad u = \bar u \text{ on } \Gamma_D" if not data.free.all() else ""
        rows = (
            r"(B^\mathsf{T} f)_j = \tilde F_j, \; j \in \Gamma_N"
            if held
            else (r"B^\mathsf{T} f = \tilde F")
        )
        extra = r" + f^\mathsf{T} B \bar u" if np.any(data.prescribed_u) else ""
        if self.form == "complementary":
            return (
                r"\begin{align*}"
                "\n"
                rf"\min_{{f \in \mathbb{{R}}^{{{data.nc}}}}}\quad & \tfrac{{1}}{{{q:.6g}}} "
                rf"\sum_i k_i^{{-1/{p - 1.0:.6g}}} f_i^{{{q:.6g}}}{extra} \\"
                "\n"
                rf"\text{{s.t.}}\quad & {rows}, \quad f \ge 0"
                "\n"
                r"\end{align*}"
            )
        return (
            r"\begin{align*}"
            "\n"
            rf"\min_{{u \in \mathbb{{R}}^{{{data.B.shape[1]}}}}}\quad & "
            rf"\sum_i \tfrac{{k_i}}{{{p:.6g}}} (-B u)_{{i,+}}^{{{p:.6g}}} "
            rf"+ \tilde F^\mathsf{{T}} u{held}"
            "\n"
            r"\end{align*}"
        )


def _displaced(prescribed_u: Any, free: BoolArray) -> FloatArray:
    """(nv,) m: what is prescribed, zero on free dofs."""
    if prescribed_u is None:
        return checks.read_only(np.zeros(free.size))
    held = checks.vector("prescribed_u", prescribed_u, free.size, "m")
    if np.any(held[free] != 0.0):
        raise InvalidInput("prescribed_u", "a value on a free dof", "zeros on free dofs")
    return held


# --- the two statements ----------------------------------------------------------------


class _TrussStatement(Statement):
    """What both forms share. CVXPY needs a contact and a dof: idle ones stand for none."""

    data: TrussData

    @posed_once
    def scaled(self) -> ScaledTruss:
        """The truss in units of each part's force and overlap."""
        scaled = self.data.scaled()
        if scaled.used.size == 0:
            scaled = dataclasses.replace(
                scaled,
                B=sp.csr_array((self.data.nc, 1)),
                load=np.zeros(1),
                used=np.zeros(1, dtype=np.intp),
                unit=np.ones(1),
            )
        if self.data.nc:
            return scaled
        law = PowerLaw(np.ones(1), scaled.law.power)
        idle = sp.csr_array((1, scaled.load.size))
        return dataclasses.replace(scaled, B=idle, opening=np.zeros(1), law=law)

    @property
    def own(self) -> FloatArray:
        """(nc,) weight of each contact."""
        return self.weight[self.data.parts.contact] if self.data.nc else np.ones(1)

    @property
    def borne(self) -> FloatArray:
        """(m,) weight of each dof in play."""
        return self.weight[self.data.parts.dof][self.scaled.used]

    def matched(self, start: WarmStart) -> FloatArray:
        """Scaled forces of a previous solution."""
        data = self.data
        f = start.forces_on(data.contact_ids, data.nc)
        return np.maximum(f / data.force, 0.0) if data.nc else np.zeros(1)

    def moved(self, start: WarmStart) -> FloatArray | None:
        """Scaled displacement of a previous solution, if it has one of this length."""
        if start.motion is None or start.motion.shape != (self.data.nv,):
            return None
        return start.motion[self.scaled.used] * self.scaled.unit

    def pair(self, u: Any, f: Any) -> Iterate:
        """The iterate of scaled u and f, in physical units."""
        data, used = self.data, self.scaled.used
        motion = np.array(data.prescribed_u)
        moved = np.asarray(u, dtype=float).ravel() / self.scaled.unit
        motion[used] = np.where(data.free[used], moved, motion[used])
        return Iterate(motion, data.force * np.asarray(f, dtype=float).ravel()[: data.nc])


class _Complementary(_TrussStatement):
    """(33) and (36)."""

    @posed_once
    def f(self) -> cp.Variable:
        """Scaled forces."""
        return cp.Variable(self.scaled.B.shape[0], nonneg=True, name="f")

    @posed_once
    def forces(self) -> cp.Expression:
        """f (nc,), N."""
        return cp.multiply(self.data.force, self.f[: self.data.nc])

    @posed_once
    def constraints(self) -> list[cp.Constraint]:
        """Bᵀf = F̃."""
        return [self.scaled.B.T @ self.f == self.scaled.load]

    def objective(self) -> cp.Expression:
        """Σ w*(f), and the work of prescribed displacements."""
        own, opening = self.own, self.scaled.opening
        energy = self.scaled.law.conjugate_expression(self.f, own)
        return energy + (own * opening) @ self.f if np.any(opening) else energy

    def iterate(self) -> Iterate | None:
        """f, and u from the multipliers, which come in units of the weighted objective."""
        u, f = self.constraints[0].dual_value, self.f.value
        return None if u is None or f is None else self.pair(u / self.borne, f)

    def seed(self, start: WarmStart) -> None:
        """Write forces, and the displacement as multipliers."""
        self.f.value = self.matched(start)
        u = self.moved(start)
        if u is not None:
            seed_dual(self.constraints[0], self.borne * u)


class _Potential(_TrussStatement):
    """(32) corrected, with overlaps c ≥ 0 as a second variable."""

    @posed_once
    def u(self) -> cp.Variable:
        """Scaled displacement of the dofs in play."""
        return cp.Variable(self.scaled.used.size, name="u")

    @posed_once
    def c(self) -> cp.Variable:
        """Scaled overlaps."""
        return cp.Variable(self.scaled.B.shape[0], nonneg=True, name="c")

    @posed_once
    def displacement(self) -> cp.Expression:
        """u (nv,), m."""
        used, nv = self.scaled.used, self.data.B.shape[1]
        ones = (1.0 / self.scaled.unit, (used, np.arange(used.size)))
        return sp.csr_array(ones, shape=(nv, used.size)) @ self.u + self.data.prescribed_u

    @posed_once
    def constraints(self) -> list[cp.Constraint]:
        """c ≥ −B u; where nothing resists, no displacement."""
        scaled, u = self.scaled, self.u
        rest = [] if scaled.B.nnz or np.any(scaled.load) else [u == 0]
        return [scaled.B @ u + scaled.opening + self.c >= 0, *rest]

    def objective(self) -> cp.Expression:
        """Σ w(c) + F̃ᵀu."""
        energy = self.scaled.law.energy_expression(self.c, self.own)
        return energy + (self.borne * self.scaled.load) @ self.u

    def iterate(self) -> Iterate | None:
        """u, and f from the multipliers, which come in units of the weighted objective."""
        u, f = self.u.value, self.constraints[0].dual_value
        return None if u is None or f is None else self.pair(u, f / self.own)

    def seed(self, start: WarmStart) -> None:
        """Write the displacement, overlaps, and forces as multipliers."""
        u = self.moved(start)
        if u is None or start.motion is None:
            return
        self.u.value = u
        overlap = np.maximum(self.data.overlap(start.motion) / self.data.length, 0.0)
        self.c.value = overlap if self.data.nc else np.zeros(1)
        seed_dual(self.constraints[0], self.own * self.matched(start))


def _free_mask(free_dofs: Any, nv: int) -> BoolArray:
    if free_dofs is None:
        return read_only(np.ones(nv, dtype=bool))
    index: NDArray[Any] = _as_index(free_dofs)
    if index.dtype.kind == "b":
        if index.shape != (nv,):
            raise InvalidInput("free_dofs", f"a mask of shape {index.shape}", f"{nv} flags")
        return read_only(index.copy())
    whole = index.ndim == 1 and (index.dtype.kind in "iu" or index.size == 0)
    if not whole or (index.size and not (index.min() >= 0 and index.max() < nv)):
        raise InvalidInput("free_dofs", checks.describe(index), f"indices from 0 to {nv - 1}")
    mask = np.zeros(nv, dtype=bool)
    mask[index.astype(np.intp)] = True
    return read_only(mask)


def _as_index(free_dofs: Any) -> NDArray[Any]:
    try:
        return np.asarray(free_dofs)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise InvalidInput("free_dofs", checks.describe(free_dofs), "indices or a mask") from error
