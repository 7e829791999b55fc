"""Quasi-static equilibrium of elastic contacts: the variational integrator without inertia.

The no-tension truss with gaps Φ::

    minimise over u    Σ w(−Φ − B u) − F_appliedᵀ u

over displacements u, with gaps linearised about a configuration. It is a step of De Klerk et al.
(2021), section 2, without inertia and damping.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import read_only
from cdopt._util.errors import InfeasibilityProof
from cdopt.formulations.no_tension_truss import NoTensionTruss
from cdopt.formulations.printing import align, conjugate_latex
from cdopt.problem.contact_law import HOOKE


class QuasiStatic(NoTensionTruss):
    """Bodies at rest on elastic contacts, some of which may be open.

    Parameters
    ----------
    B : (nc, nv) gap gradient. phi : (nc,) gaps Φ, m; negative is overlap.
    applied : (nv,) external load on the bodies, N and N·m: −W upward for a weight W. In equilibrium
        it is −F̃, where F̃ is the load of the contacts.
    stiffness : k, one number or (nc,), N/m^(p−1). power : p > 1, 2 Hooke, 5/2 Hertz.
    form : "potential", as above, or "complementary", its dual
        min Σ w*(f) + Φᵀf subject to Bᵀf = −F_applied, f ≥ 0.
    free_dofs : the free dofs, as indices or a mask; default all.
    prescribed_u : (nv,) displacement of the dofs that are not free, m; default zero.
    contact_ids : (nc,) names of the contacts.
    dof_body : (nv,) the body of each dof, to name bodies that are not supported.
    two_sided : (nc,) mask, or indices, of elastic joints, which also pull where their gap opens:
        their forces are k|c|^(p−1) sign c, c = −(Φ + B u); by default none.

    Raises
    ------
    InvalidInput : a bad argument.

    Notes
    -----
    The solution's u (nv,) is the displacement, its ``gap`` (nc,) is Φ + B u in m. ``solve`` raises
    SolveFailed when the energy has no minimum, and names bodies that move without resistance;
    its ``proof`` is their motion.

    >>> import cdopt
    >>> ball = cdopt.QuasiStatic([[1.0]], phi=[0.25], applied=[-3.0], stiffness=6.0)
    >>> ball.solve("clarabel").u.round(6)
    array([-0.75])
    """

    def __init__(
        self,
        B: Any,
        phi: Any,
        applied: Any,
        stiffness: Any = 1.0,
        power: float = HOOKE,
        form: str = "potential",
        free_dofs: Any = None,
        prescribed_u: Any = None,
        contact_ids: Any = None,
        dof_body: Any = None,
        two_sided: Any = None,
    ) -> None:
        matrix = checks.gap_gradient(B)
        gaps = checks.vector("phi", phi, matrix.shape[0], "m")
        load = -checks.vector("applied", applied, matrix.shape[1], "N")
        names = contact_ids, dof_body, two_sided
        super().__init__(matrix, load, stiffness, power, form, free_dofs, prescribed_u, *names)
        self.data = replace(self.data, p=read_only(self.data.p + gaps), bias=gaps)

    def _why(self, proof: InfeasibilityProof) -> str:
        """The names of the bodies that are not supported, and the proof."""
        work = -self.data.contact_load * proof.vector
        body, what = self.data.dof_body, "bodies"
        if body is None:
            body, what = np.arange(work.size), "dofs"
        driven = np.flatnonzero(np.bincount(body, work) > 0.0)  # others only follow
        names = ", ".join(map(str, driven[:10])) + (", …" if driven.size > 10 else "")
        why = f"no contacts hold {what} {names} against their loads"
        return f"the energy has no minimum: {why}; {proof}"

    def latex(self) -> str:
        """The problem as mathematics."""
        p, nv = self._power, self.data.nv
        if self.form == "complementary":
            return align(
                rf"\min_{{f \in \mathbb{{R}}^{{{self.data.nc}}}}}\quad & {conjugate_latex(p)} "
                r"+ \Phi^\mathsf{T} f",
                r"\text{s.t.}\quad & B^\mathsf{T} f = -F, \quad f \ge 0",
            )
        return align(
            rf"\min_{{u \in \mathbb{{R}}^{{{nv}}}}}\quad & \sum_i \tfrac{{k_i}}{{{p:.6g}}} "
            rf"(-\Phi - B u)_{{i,+}}^{{{p:.6g}}} - F^\mathsf{{T}} u"
        )
