"""Quasi-static equilibrium of elastic contacts: the variational integrator without inertia.

The no-tension truss with gaps Φ that must close first::

    minimise over u    Σ w(−Φ − B u) − F_appliedᵀ u

over displacements u from a configuration linearised there: the limit in which inertia and damping
are dropped from a step of De Klerk et al. (2021), section 2.
"""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.errors import InfeasibilityProof
from cdopt.backends.base import posed_once
from cdopt.formulations.no_tension_truss import (
    NoTensionTruss,
    TrussForm,
    free_mask,
    prescribed_motion,
)
from cdopt.formulations.statement import align, conjugate_latex
from cdopt.problem.contact_law import HOOKE
from cdopt.problem.solution import Iterate


class QuasiStatic(NoTensionTruss):
    """Bodies at rest on elastic contacts, some of which may be open.

    Parameters
    ----------
    B : (nc, nv) gap gradient. phi : (nc,) gaps Φ, m; negative is overlap.
    applied : (nv,) load on the bodies, N and N·m: a weight W has −W upward. At rest it is −F̃,
        opposite to the load that the contacts deliver.
    stiffness : k, one number or (nc,), N/m^(p−1). power : p > 1, 2 Hooke, 5/2 Hertz.
    form : "potential", as above, or "complementary", its dual
        min Σ w*(f) + Φᵀf subject to Bᵀf = −F_applied, f ≥ 0.
    free_dofs : the free dofs, as indices or a mask; default all.
    prescribed_u : (nv,) displacement of the dofs that are not free, m; default zero.
    contact_ids : (nc,) names of the contacts.
    dof_body : (nv,) the body of each dof; names the bodies that nothing holds.

    Raises
    ------
    InvalidInput : a bad argument.

    Notes
    -----
    The solution's u (nv,) is the displacement, its ``gap`` (nc,) is Φ + B u in m. ``solve`` raises
    SolveFailed when the energy has no minimum, naming bodies that the load drives and nothing
    holds; its ``proof`` is their motion.

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
        power: checks.Power = HOOKE,
        form: TrussForm = "potential",
        free_dofs: Any = None,
        prescribed_u: Any = None,
        contact_ids: Any = None,
        dof_body: Any = None,
    ) -> None:
        matrix = checks.gap_gradient(B)
        nc, nv = matrix.shape
        gaps = checks.vector("phi", phi, nc, "m")
        load = checks.vector("applied", applied, nv, "N")
        if dof_body is not None:
            dof_body = checks.integers("dof_body", dof_body, (nv,), at_least=0)
            dof_body = np.append(dof_body, dof_body.max(initial=-1) + 1)
        self._nv, free = nv, free_mask(free_dofs, nv)
        super().__init__(  # one more dof, held at one, with the gaps Φ as its column
            sp.csr_array(sp.hstack([matrix, sp.csr_array(gaps[:, None])])),
            np.append(-load, 0.0),
            stiffness,
            power,
            form,
            free_dofs=np.append(free, False),
            prescribed_u=np.append(prescribed_motion(prescribed_u, free), 1.0),
            contact_ids=contact_ids,
            dof_body=dof_body,
        )

    @posed_once
    def displacement(self) -> cp.Expression | None:
        """CVXPY expression of u (nv,), m; None in complementary form."""
        whole = self.statement.displacement
        return None if whole is None else whole[: self._nv]

    def _fields(self, iterate: Iterate) -> dict[str, FloatArray | None]:
        fields = super()._fields(iterate)
        whole = "u" if self.form == "potential" else "dual"
        moved = None if iterate.motion is None else iterate.motion[: self._nv]
        return {**fields, whole: moved, "u": moved}

    def _why(self, proof: InfeasibilityProof) -> str:
        """The names of the bodies that nothing holds, and the proof."""
        work = -self.data.contact_load[: self._nv] * proof.vector[: self._nv]
        body, what = self.data.dof_body, "bodies"
        if body is None:
            body, what = np.arange(work.size), "dofs"
        driven = np.flatnonzero(np.bincount(body[: self._nv], work) > 0.0)  # others only follow
        names = ", ".join(map(str, driven[:10])) + (", …" if driven.size > 10 else "")
        why = f"nothing holds {what} {names} against their loads"
        return f"the energy has no minimum: {why}; {proof}"

    def latex(self) -> str:
        """The problem as mathematics."""
        p = self.data.law.power
        if self.form == "complementary":
            return align(
                rf"\min_{{f \in \mathbb{{R}}^{{{self.data.nc}}}}}\quad & {conjugate_latex(p)} "
                r"+ \Phi^\mathsf{T} f",
                r"\text{s.t.}\quad & B^\mathsf{T} f = -F, \quad f \ge 0",
            )
        return align(
            rf"\min_{{u \in \mathbb{{R}}^{{{self._nv}}}}}\quad & \sum_i \tfrac{{k_i}}{{{p:.6g}}} "
            rf"(-\Phi - B u)_{{i,+}}^{{{p:.6g}}} - F^\mathsf{{T}} u"
        )
