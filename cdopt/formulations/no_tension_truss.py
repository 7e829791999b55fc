"""The no-tension truss: equations (32), (33) and (36) of Olsen & Kamrin (2018).

Complementary form, (33) for Hooke and (36) for any power::

    minimise over f ≥ 0    Σ w*(f)    subject to    Bᵀ f = F̃

Potential form, (32) with the sign of its linear term corrected::

    minimise over u    Σ w(−B u) + F̃ᵀ u

Both give the same f. The multiplier of Bᵀf = F̃ is the micro-displacement u itself, and the
two optimal values sum to zero.
"""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from cdopt import checks
from cdopt.checks import BoolArray, FloatArray, read_only
from cdopt.contact_law import HOOKE, PowerLaw
from cdopt.data import TrussData
from cdopt.errors import InvalidInput
from cdopt.formulations.base import Formulation, matched
from cdopt.solution import Iterate, StepSolution

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
        power: float = HOOKE,
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
        held = checks.vector(
            "prescribed_u", np.zeros(nv) if prescribed_u is None else prescribed_u, nv, "m"
        )
        if np.any(held[free] != 0.0):
            raise InvalidInput("prescribed_u", "a value on a free dof", "zeros on free dofs")
        ids = None if contact_ids is None else checks.labels("contact_ids", contact_ids, nc)
        self.form = checks.choice("form", form, FORMS)
        body = (
            None if dof_body is None else checks.integers("dof_body", dof_body, (nv,), at_least=0)
        )
        self.data = TrussData(matrix, load, law, free, held, ids, body)
        self.forces: cp.Expression | None = None
        self.displacement: cp.Expression | None = None
        if self.form == "complementary":
            self._pose_complementary()
        else:
            self._pose_potential()

    # --- the two statements ------------------------------------------------------------

    def _pose_complementary(self) -> None:
        data = self.data
        B, load = self._scaled()
        f = cp.Variable(B.shape[0], nonneg=True, name="f")
        self._f = f
        self.forces = cp.multiply(data.force, f[: data.nc])
        self._equilibrium = B.T @ f == load
        opening = self._padded(-data.overlap(data.prescribed_u) / data.length)

        def objective(weight: FloatArray) -> cp.Expression:
            own = self._padded(weight[data.parts.contact], 1.0)
            energy = self._unit_law().conjugate_expression(f, own)
            return energy + (own * opening) @ f if np.any(opening) else energy

        self._state(objective, [self._equilibrium])

    def _pose_potential(self) -> None:
        data = self.data
        B, load = self._scaled()
        u = cp.Variable(B.shape[1], name="u")
        c = cp.Variable(B.shape[0], nonneg=True, name="c")
        self._u, self._c = u, c
        scatter = sp.csr_array(
            (1.0 / self._unit, (self._used, np.arange(self._used.size))),
            shape=(data.B.shape[1], self._used.size),
        )
        self.displacement = scatter @ u + data.prescribed_u
        held = self._padded(data.overlap(data.prescribed_u) / data.length)
        self._closing = B @ u - held + c >= 0
        rest = [] if B.nnz or np.any(load) else [u == 0]  # nothing resists: no displacement

        def objective(weight: FloatArray) -> cp.Expression:
            energy = self._unit_law().energy_expression(
                c, self._padded(weight[data.parts.contact], 1.0)
            )
            return energy + (weight[data.parts.dof][self._used] * load) @ u

        self._state(objective, [self._closing, *rest])

    def _scaled(self) -> tuple[sp.csr_array, FloatArray]:
        """B and F̃ on the dofs in play, in units of each part's force and overlap.

        CVXPY needs at least one contact and one dof: an idle one stands in where there is none.
        """
        scaled = self.data.scaled()
        self._used, self._unit = scaled.used, scaled.unit
        B, load = scaled.B, scaled.load
        if self._used.size == 0:
            self._used, self._unit, load = np.zeros(1, dtype=np.intp), np.ones(1), np.zeros(1)
            B = sp.csr_array((self.data.nc, 1))
        return (B if self.data.nc else sp.csr_array((1, load.size))), load

    def _padded(self, values: FloatArray, idle: float = 0.0) -> FloatArray:
        """Per-contact values, or that of the idle contact when there is none."""
        return values if values.size else np.full(1, idle)

    def _unit_law(self) -> PowerLaw:
        data = self.data
        ratio = data.law.stiffness / data.part_stiffness[data.parts.contact]
        return PowerLaw(self._padded(ratio, 1.0), data.law.power)

    # --- reading and writing -----------------------------------------------------------

    @property
    def name(self) -> str:
        """Name and form."""
        return f"NoTensionTruss ({self.form} form, p = {self.data.law.power:g})"

    @property
    def _part_energy(self) -> FloatArray:
        return self.data.part_force * self.data.part_length

    def iterate(self) -> Iterate | None:
        """u and f: in complementary form u is the multiplier, in potential form f is."""
        data = self.data
        if self.form == "complementary":
            scaled, forces = self._equilibrium.dual_value, self._f.value
        else:
            scaled, forces = self._u.value, self._closing.dual_value
        if forces is None or scaled is None:
            return None
        if self.form == "complementary":  # multipliers come in units of the weighted objective
            scaled = scaled / self._weight[data.parts.dof][self._used]
        else:
            forces = forces / self._padded(self._weight[data.parts.contact], 1.0)
        u = np.array(data.prescribed_u)
        moved = np.asarray(scaled, dtype=float).ravel() / self._unit
        u[self._used] = np.where(data.free[self._used], moved, u[self._used])
        return Iterate(u, data.force * np.asarray(forces, dtype=float).ravel()[: data.nc])

    def seed(self, start: StepSolution) -> None:
        """Write forces, or the micro-displacement, into the variables."""
        data = self.data
        if self.form == "complementary":
            f = matched(start.f, start, data.contact_ids, data.nc)
            self._f.value = self._padded(np.maximum(f / data.force, 0.0))
            if start.u is not None and start.u.shape == data.prescribed_u.shape:
                weight = self._weight[data.parts.dof][self._used]
                self._seed_dual(self._equilibrium, weight * start.u[self._used] * self._unit)
        elif start.u is not None and start.u.shape == data.prescribed_u.shape:
            self._u.value = start.u[self._used] * self._unit
            overlap = np.maximum(data.overlap(start.u) / data.length, 0.0)
            self._c.value = self._padded(overlap)
            f = matched(start.f, start, data.contact_ids, data.nc)
            weight = self._weight[data.parts.contact]
            self._seed_dual(self._closing, self._padded(weight * np.maximum(f / data.force, 0.0)))

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
