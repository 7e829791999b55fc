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

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import read_only
from cdopt._util.errors import InfeasibilityProof, InvalidInput
from cdopt.formulations.base import Formulation
from cdopt.formulations.printing import align, conjugate_latex
from cdopt.problem import ContactProblem, prove_infeasible, truss_data
from cdopt.problem.contact_law import HOOKE, PowerLaw

TRUSS_FORMS = ("complementary", "potential")


class NoTensionTruss(Formulation):
    """Contacts as elastic struts that cannot pull, carrying a given load: f in N, u in m.

    Parameters
    ----------
    B : (nc, nv) gap gradient, sparse or dense.
    contact_load : F̃ (nv,), the generalised force that the contacts must deliver, N and N·m:
        F̃ = Bᵀf. For a beam of weight W on supports it is +W upward.
    stiffness : k > 0, one number or (nc,), N/m^(p−1). Only ratios matter to f; u scales with it.
    power : p > 1 of the contact energy w(c) = (k/p) c₊ᵖ: 2 for Hooke, 5/2 for Hertz. Below 1.2 the
        overlaps of small forces are smaller than the round-off of B u, so that few answers are
        certified.
    form : "complementary" for (33) and (36), "potential" for the corrected (32).
    free_dofs : the index set Γ_N of free dofs, as indices or a mask; default all. The others have a
        prescribed displacement, and the sum of their contact forces is a reaction.
    prescribed_u : (nv,) displacement of the dofs that are not free, m; default zero.
    contact_ids : (nc,) names of the contacts.
    dof_body : (nv,) the body of each dof, for structured solvers.
    two_sided : (nc,) mask, or indices, of members that also pull, such as bolts: their forces are
        k|c|^(p−1) sign c; by default none.

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
        power: float = HOOKE,
        form: str = "complementary",
        free_dofs: Any = None,
        prescribed_u: Any = None,
        contact_ids: Any = None,
        dof_body: Any = None,
        two_sided: Any = None,
    ) -> None:
        power = checks.power("power", power)
        form = checks.choice("form", form, TRUSS_FORMS)
        matrix = checks.gap_gradient(B)
        nc, nv = matrix.shape
        load = checks.vector("contact_load", contact_load, nv, "N")
        stiffness = checks.per_contact("stiffness", stiffness, nc, positive=True)
        free, both = np.full(nv, free_dofs is None), np.zeros(nc, dtype=bool)
        if free_dofs is not None:
            free[checks.positions("free_dofs", free_dofs, nv)] = True
        given = np.zeros(nv) if prescribed_u is None else prescribed_u
        given = checks.vector("prescribed_u", given, nv, "m")
        if np.any(given[free] != 0.0):
            raise InvalidInput("prescribed_u", "a value on a free dof", "zeros on free dofs")
        if contact_ids is not None:
            contact_ids = checks.labels("contact_ids", contact_ids, nc)
        if dof_body is not None:
            dof_body = checks.integers("dof_body", dof_body, (nv,), at_least=0)
        if two_sided is not None:
            both[checks.positions("two_sided", two_sided, nc)] = True
        self.form = form
        self.data = truss_data(
            matrix,
            load,
            PowerLaw(stiffness, power),
            free=None if free.all() else read_only(free),
            prescribed_u=given,
            two_sided=both,
            contact_ids=contact_ids,
            dof_body=dof_body,
        )

    @staticmethod
    def of(data: ContactProblem, form: str = "complementary") -> NoTensionTruss:
        """A truss from checked data."""
        checks.instance("data", data, ContactProblem)
        form = checks.choice("form", form, TRUSS_FORMS)
        truss = NoTensionTruss.__new__(NoTensionTruss)
        truss.form, truss.data = form, data
        return truss

    def _why(self, proof: InfeasibilityProof) -> str:
        """Why no forces carry the load; suggests a wrong sign if that is likely."""
        data = self.data
        against = dataclasses.replace(data, contact_load=read_only(-data.contact_load))
        if proof.kind != data.kind or prove_infeasible(against) is not None:
            return str(proof)
        hint = "contact_load is the load that contacts deliver, upward for a weight"
        return f"{proof}; the opposite load can be carried: {hint}"

    def latex(self) -> str:
        """The problem as mathematics."""
        data = self.data
        p, u = self._power, data.free_motion
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
