"""The data of one time step in contact: the matrices of the bodies, validated and frozen.

It has no shapes; bodies are in the plane or in space. Equation numbers are those of
Olsen & Kamrin (2018).
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.cached import cached_property, changed
from cdopt._util.checks import BoolArray, FloatArray, IntArray, freeze, read_only
from cdopt._util.errors import InvalidInput, Unsupported
from cdopt._util.parameters import well_spelt
from cdopt.problem.contact_list import ListedBodies, tangents_of
from cdopt.problem.delassus_step import DelassusStep
from cdopt.problem.friction import Friction
from cdopt.problem.joints import Joints
from cdopt.problem.mass import MassMatrix
from cdopt.problem.step import Step


@well_spelt
@dataclass(frozen=True, eq=False, repr=False)
class ContactStep(Step):
    """One time step of rigid bodies in contact.

    Parameters
    ----------
    M : (nv, nv) symmetric positive definite mass matrix, kg and kg·m²; sparse or dense.
    B : (nc, nv) gap gradient ∂Φ/∂q: ``B @ v`` is the gap's rate, positive when separating;
        ``B.T @ f`` sums contact forces onto the bodies.
    phi : (nc,) gaps Φ at the start of the step, m; negative is penetration.
    v : (nv,) velocity at the start of the step, m/s and rad/s.
    F_ext : (nv,) applied loads, N and N·m.
    dt : time step Δt, s.
    stiffness : relative contact stiffness k̃, one number or (nc,), positive; default ones.
    restitution : Newton's coefficient e in [0, 1], one number or (nc,).
    gap_rate : prescribed part of the gap's rate (moving walls), m/s, one number or (nc,).
    v_min : approach speed below which there is no restitution, m/s.
    bodies : (nc, 2) body numbers i, j of each contact; −1 is the fixed world.
    normals : (nc, 2) or (nc, 3) unit vectors from body i towards body j.
    points : (nc, 2) or (nc, 3) contact points, m.
    contact_ids : (nc,) distinct names of the contacts, integers or strings.
    body_names : (nb,) distinct names of the bodies, by their numbers.
    dof_body : (nv,) the body that each degree of freedom belongs to.
    friction : coefficients and tangential rows, for ``FrictionalCD``.
    joints : bilateral rows J v⁺ + rate = 0 between the bodies; every formulation includes them.
    power : p > 1 of the contact energy, the default of ``CompatibleCD`` and others: 2 Hooke,
        5/2 Hertz.
    origin : scene and state of the step, for pictures and names; set by ``collision.step``.
    symmetrised : asymmetry of M before its symmetric part was taken, as in ``Step``.

    Raises
    ------
    InvalidInput : naming the argument, its value and what was expected.

    Notes
    -----
    The arrays are copies and read-only. Olsen & Kamrin (2018), section 3.
    """

    M: Any
    B: Any
    phi: Any
    v: Any
    F_ext: Any
    dt: float
    _: KW_ONLY
    restitution: Any = 0.0
    gap_rate: Any = 0.0
    v_min: float = 0.0
    dof_body: Any = None
    joints: Joints | None = None

    _KIND = "contact step"

    def __post_init__(self) -> None:
        B = checks.gap_gradient(self.B)
        nc, nv = B.shape
        if nc != nv and checks.shape_of(self.M) == (nc, nc):
            found = f"shape {B.shape}, and M of shape {(nc, nc)}"
            raise InvalidInput("B", found, "shape (nc, nv), a row for each contact: transposed?")
        dofs = checks.shape_of(self.F_ext)
        if dofs and dofs != (nv,) and checks.shape_of(self.M) == 2 * dofs:
            expected = f"{dofs[0]} columns, one for each degree of freedom of M and F_ext"
            raise InvalidInput("B", f"shape {B.shape}", expected)
        if self.joints is not None:
            checks.instance("joints", self.joints, Joints).on(nv)
        shared = isinstance(self.M, MassMatrix) and self.M.diagonal.size == nv  # checked already
        mass = self.M if shared else MassMatrix(checks.matrix("M", self.M, nv, nv))
        body = self.dof_body
        self.__dict__.update(
            M=mass.M,
            mass=mass,
            B=B,
            phi=checks.vector("phi", self.phi, nc, "m"),
            v=checks.vector("v", self.v, nv, "m/s"),
            F_ext=checks.vector("F_ext", self.F_ext, nv, "N"),
            restitution=checks.per_contact(
                "restitution", self.restitution, nc, at_least=0.0, at_most=1.0
            ),
            gap_rate=checks.per_contact("gap_rate", self.gap_rate, nc),
            v_min=checks.not_negative("v_min", self.v_min),
            dof_body=body if body is None else checks.integers("dof_body", body, (nv,), at_least=0),
        )
        friction = self._check_friction()
        self._check_contacts(nc, None if friction is None else friction.on(nc, nv))

    @classmethod
    def _of(cls, **arguments: Any) -> Self:
        """The step of complete and valid arguments made by cdopt, frozen and not copied."""
        mass = arguments["M"]
        if isinstance(mass, MassMatrix):
            arguments |= {"mass": mass, "M": mass.M}
        return super()._of(**arguments)

    def moved(self, phi: Any = None, v: Any = None, F_ext: Any = None) -> Self:
        """The same step with other ``phi``, ``v`` and ``F_ext``; nothing else is validated again.

        Raises
        ------
        InvalidInput : one of them is not a finite vector of its length.
        """
        new = {
            "phi": self.phi if phi is None else checks.vector("phi", phi, self.nc, "m"),
            "v": self.v if v is None else checks.vector("v", v, self.nv, "m/s"),
            "F_ext": self.F_ext if F_ext is None else checks.vector("F_ext", F_ext, self.nv, "N"),
        }
        return changed(self, mass=self.mass, names=self.names, **new)

    @staticmethod
    def from_delassus(N: Any, p_vec: Any, dt: Any = 1.0, **contacts: Any) -> DelassusStep:
        """The same as ``DelassusStep(N, p_vec, dt, **contacts)``.

        Raises
        ------
        InvalidInput : as there.
        """
        return DelassusStep(N, p_vec, dt, **contacts)

    @classmethod
    def from_contacts(
        cls,
        points: Any,
        normals: Any,
        bodies: Any,
        masses: Any,
        inertias: Any = None,
        centres: Any = None,
        *,
        dt: float = 1e-3,
        friction: Any = None,
        gravity: Any = None,
        loads: Any = None,
        v: Any = None,
        fixed: Any = None,
        phi: Any = 0.0,
        tangents: Any = None,
        **more: Any,
    ) -> Self:
        """The step of a contact list, as written by discrete-element and masonry codes.

        Parameters
        ----------
        points : (nc, dim) m, in the plane or in space. normals : (nc, dim) from body i towards j.
        bodies : (nc, 2) numbers i, j of bodies from 0 on; −1 is the fixed world.
        masses : (nb,) kg.
        inertias : (nb,) kg·m², about every axis the same, or in space (nb, 3, 3) in the global
            frame; None for bodies that do not turn, such as spheres without friction.
        centres : (nb, dim) m, of mass; needed where bodies turn.
        friction : μ, one number or (nc,); None for none.
        gravity : (dim,) m/s², for the weight of every body.
        loads : (nb, dim) N, or (nb, dim + turns) with torques; added to the weight.
        v : velocities at the start, of the same shapes or (nv,); default rest.
        fixed : numbers or a mask of bodies that do not move; they have no degrees of freedom.
        phi : gaps, m, one number or (nc,); by default all contacts touch, overlaps included.
        tangents : (nc, dim − 1, dim) unit vectors of the tangential forces; default
            ``cdopt.collision.tangents(normals)``.
        more : arguments of ``ContactStep``, such as ``stiffness`` or ``contact_ids``.

        Raises
        ------
        InvalidInput : naming the argument, its value and what was expected.

        >>> import cdopt
        >>> step = cdopt.ContactStep.from_contacts(
        ...     points=[[-1, 0], [1, 0]], normals=[[0, 1], [0, 1]], bodies=[[-1, 0], [-1, 0]],
        ...     masses=[2.0], inertias=[1.0], centres=[[0, 1]], gravity=[0, -9.81], friction=0.5)
        >>> cdopt.FrictionalCD(step).solve("newton").f.sum().round(6)
        np.float64(19.62)
        """
        at = checks.real("points", points, "an array of shape (nc, 2) or (nc, 3)")
        at = checks.table("points", at, at.shape[0] if at.ndim else 0)
        nc, dim = at.shape
        n = checks.numbers("normals", normals, (nc, dim))
        who = ListedBodies.of(masses, inertias, centres, fixed, dim)
        nb = who.masses.size
        pairs = checks.integers("bodies", bodies, (nc, 2), at_least=-1, below=max(nb, 1))
        rough = None
        if friction is not None:
            t = tangents_of(n) if tangents is None else tangents
            t = checks.numbers("tangents", t, (nc, dim - 1, dim))
            rough = Friction(friction, who.rows(at, pairs, t), tangents=t)
        weight = np.zeros((nb, dim))
        if gravity is not None:
            weight = who.masses[:, None] * checks.vector("gravity", gravity, dim, "m/s²")
        gaps = np.full(nc, phi) if np.ndim(phi) == 0 else phi
        return cls(
            M=who.mass_matrix(),
            B=who.rows(at, pairs, n[:, None]),
            phi=gaps,
            v=who.gather("v", v),
            F_ext=who.gather("weight", weight) + who.gather("loads", loads),
            dt=dt,
            friction=rough,
            bodies=pairs,
            normals=n,
            points=at,
            dof_body=who.dof_body,
            **more,
        )

    def _rows(self, index: IntArray) -> dict[str, Any]:
        rows = {name: getattr(self, name)[index] for name in ("phi", "restitution", "gap_rate")}
        return {**super()._rows(index), **rows, "B": self.B[index]}

    @property
    def nv(self) -> int:
        return int(self.B.shape[1])

    @cached_property
    def mass(self) -> MassMatrix:
        """M, with its inverse as an operator."""
        return MassMatrix(self.M)

    @cached_property
    def v_star(self) -> FloatArray:
        """v* = v + Δt M⁻¹ F_ext (nv,), m/s: the velocity without contacts."""
        return read_only(self.v + self.dt * self.mass.solve(self.F_ext))

    @cached_property
    def impacting(self) -> BoolArray:
        """(nc,) contacts on which Newton restitution acts.

        Those with e > 0 that would end the step in penetration and approach faster than v_min.
        """
        if not self.restitution.any():
            return read_only(np.zeros(self.nc, dtype=bool))
        approach = self.B @ self.v + self.gap_rate
        end = self.phi + self.dt * (self.B @ self.v_star + self.gap_rate)
        return read_only((self.restitution > 0.0) & (end < 0.0) & (approach < -self.v_min))

    @cached_property
    def bias(self) -> FloatArray:
        """(nc,) m/s: the contact constraints of the step are B v⁺ + bias ≥ 0.

        bias = Φ/Δt + gap_rate; on impacting contacts e (B v + gap_rate) + gap_rate.
        """
        bias = self.phi / self.dt
        if self.restitution.any() and self.impacting.any():
            rebound = self.restitution * (self.B @ self.v + self.gap_rate)
            bias = np.where(self.impacting, rebound, bias)
        return read_only(bias + self.gap_rate)

    @cached_property
    def p_vec(self) -> FloatArray:
        """p of equation (20) (nc,), m/s: B v* + bias."""
        return read_only(np.asarray(self.B @ self.v_star + self.bias))

    @cached_property
    def N(self) -> sp.csr_array:
        """Delassus matrix of equation (20), Δt B M⁻¹ Bᵀ (nc, nc), m/(s·N)."""
        product = sp.csr_array(self.B @ self.mass.solve_sparse(sp.csr_array(self.B.T)))
        return freeze(sp.csr_array((product + product.T) * (0.5 * self.dt)))

    def __repr__(self) -> str:
        size = f"{self.nc:,} contacts, {self.nv:,} degrees of freedom"
        if self.joints is not None:
            size += f", {self.joints.count:,} joint rows"
        return f"ContactStep({size}, dt={self.dt:g} s)"


def with_matrices(step: Step, what: str) -> ContactStep:
    """The step, after a check that it has matrices, which ``what`` needs.

    Raises
    ------
    Unsupported : it is known by N and p alone.
    """
    if not isinstance(step, ContactStep):
        why = "the step is known by N and p alone"
        raise Unsupported(what, why, ("a ContactStep with its matrices",))
    return step
