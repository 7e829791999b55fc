"""One time step whose rows have any cones, for constraints of other engines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from cdopt._util import checks
from cdopt._util.cached import cached_property
from cdopt._util.checks import FloatArray, read_only
from cdopt._util.frozen import Frozen
from cdopt.problem.cones import Cones
from cdopt.problem.mass import MassMatrix


@dataclass(frozen=True, eq=False)
class ConeStep(Frozen):
    """A step with inertia whose rows are in any cones, contacts or not.

    Parameters
    ----------
    M : (nv, nv) mass matrix, kg and kg·m², symmetric positive definite, dense or sparse.
    G : (rows, nv) gradient of the rows; forces on the bodies are Gᵀ f.
    cones : K of the rows, in their order.
    bias : (rows,) m/s, b of the rates G v⁺ + b.
    v, F_ext : (nv,) velocity at the start, m/s, and loads, N.
    dt : time step Δt, s.
    contact_ids : names of the cones, one each, or None.
    dof_body : (nv,) the body of each degree of freedom, or None.

    Raises
    ------
    InvalidInput : a bad argument.
    """

    M: Any
    G: Any
    cones: Cones
    bias: Any
    v: Any
    F_ext: Any
    dt: float
    contact_ids: Any = None
    dof_body: Any = None

    points: ClassVar[None] = None  # rows need none

    def __post_init__(self) -> None:
        cones = checks.instance("cones", self.cones, Cones)
        G = checks.matrix("G", self.G, cones.rows, None)
        nv = G.shape[1]
        ids, body = self.contact_ids, self.dof_body
        self.__dict__.update(
            M=MassMatrix(checks.matrix("M", self.M, nv, nv)).M,
            G=G,
            bias=checks.vector("bias", self.bias, cones.rows, "m/s"),
            v=checks.vector("v", self.v, nv, "m/s"),
            F_ext=checks.vector("F_ext", self.F_ext, nv, "N"),
            dt=checks.positive("dt", self.dt),
            contact_ids=None if ids is None else checks.labels("contact_ids", ids, cones.nc),
            dof_body=None if body is None else checks.integers("dof_body", body, (nv,), at_least=0),
        )

    @cached_property
    def mass(self) -> MassMatrix:
        """M with its inverse as an operator."""
        return MassMatrix(self.M)

    @property
    def nv(self) -> int:
        """Number of degrees of freedom."""
        return int(self.G.shape[1])

    @cached_property
    def v_star(self) -> FloatArray:
        """v* = v + Δt M⁻¹ F_ext (nv,), m/s: the velocity without forces of the rows."""
        return read_only(np.asarray(self.v + self.dt * self.mass.solve(self.F_ext)))
