"""ContactStep: the data of one contact-dynamics time step, validated and frozen.

A step knows matrices, not shapes: bodies may live in the plane or in space. Equation numbers
are those of Olsen & Kamrin (2018).
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackError, eigsh

from cdopt._util import archive, checks
from cdopt._util.checks import BoolArray, FloatArray, IntArray, read_only
from cdopt._util.errors import InvalidInput
from cdopt.problem.mass import MassMatrix

_DELASSUS_SYMMETRY_TOL = 1e-8
_DELASSUS_PSD_TOL = 1e-9
_DENSE_LIMIT = 3000  # up to here the eigenvalues of N are computed in full


class ContactStep:
    """One time step of rigid bodies in frictionless contact.

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
    v_min : approach speed below which restitution does not act, m/s.
    bodies : (nc, 2) body numbers i, j of each contact; −1 is the fixed world.
    normals : (nc, 2) or (nc, 3) unit vectors from body i towards body j.
    points : (nc, 2) or (nc, 3) contact points, m.
    contact_ids : (nc,) distinct names of the contacts, integers or strings.
    dof_body : (nv,) the body that each degree of freedom belongs to.

    Raises
    ------
    InvalidInput : naming the argument, what was found and what was expected.

    Notes
    -----
    The arrays are copies and read-only. Olsen & Kamrin (2018), section 3.
    """

    M: sp.csr_array | None
    B: sp.csr_array | None
    v: FloatArray | None
    F_ext: FloatArray | None
    phi: FloatArray | None

    def __init__(
        self,
        M: Any,
        B: Any,
        phi: Any,
        v: Any,
        F_ext: Any,
        dt: Any,
        *,
        stiffness: Any = 1.0,
        restitution: Any = 0.0,
        gap_rate: Any = 0.0,
        v_min: Any = 0.0,
        bodies: Any = None,
        normals: Any = None,
        points: Any = None,
        contact_ids: Any = None,
        dof_body: Any = None,
    ) -> None:
        gap_gradient = checks.gap_gradient(B)
        nc, nv = gap_gradient.shape
        self.mass: MassMatrix | None = MassMatrix(checks.matrix("M", M, nv, nv))
        self.M = self.mass.M
        self.B = gap_gradient
        self.phi = checks.vector("phi", phi, nc, "m")
        self.v = checks.vector("v", v, nv, "m/s")
        self.F_ext = checks.vector("F_ext", F_ext, nv, "N")
        self.dt = checks.scalar("dt", dt, above=0.0)
        self.restitution = checks.per_contact(
            "restitution", restitution, nc, at_least=0.0, at_most=1.0
        )
        self.gap_rate = checks.per_contact("gap_rate", gap_rate, nc)
        self.v_min = checks.scalar("v_min", v_min, at_least=0.0)
        self._delassus: tuple[sp.csr_array, FloatArray] | None = None
        self._set_contact_data(nc, nv, stiffness, bodies, normals, points, contact_ids, dof_body)

    @classmethod
    def from_delassus(
        cls,
        N: Any,
        p_vec: Any,
        dt: Any = 1.0,
        *,
        stiffness: Any = 1.0,
        bodies: Any = None,
        normals: Any = None,
        points: Any = None,
        contact_ids: Any = None,
    ) -> ContactStep:
        """A step known only by N and p of equation (20); its M, B, v, F_ext and phi are None.

        Parameters
        ----------
        N : (nc, nc) Delassus matrix Δt B M⁻¹ Bᵀ, m/(s·N), symmetric positive semidefinite.
        p_vec : (nc,) gap rate of the free motion, m/s.
        dt : time step Δt, s. With the default of one, forces are impulses.

        Raises
        ------
        InvalidInput : N is asymmetric beyond round-off or has a negative eigenvalue.
        """
        self = cls.__new__(cls)
        matrix = checks.matrix("N", N, None, None)
        nc = matrix.shape[0]
        matrix = checks.symmetric("N", matrix, _DELASSUS_SYMMETRY_TOL)
        _require_semidefinite(matrix)
        self.dt = checks.scalar("dt", dt, above=0.0)
        self._delassus = (matrix, checks.vector("p_vec", p_vec, nc, "m/s"))
        self.mass = self.M = self.B = self.phi = self.v = self.F_ext = None
        self.restitution = checks.per_contact("restitution", 0.0, nc)
        self.gap_rate = checks.per_contact("gap_rate", 0.0, nc)
        self.v_min = 0.0
        self._set_contact_data(nc, None, stiffness, bodies, normals, points, contact_ids, None)
        return self

    def _set_contact_data(
        self,
        nc: int,
        nv: int | None,
        stiffness: Any,
        bodies: Any,
        normals: Any,
        points: Any,
        contact_ids: Any,
        dof_body: Any,
    ) -> None:
        self.stiffness = checks.per_contact("stiffness", stiffness, nc, positive=True)
        self.bodies: IntArray | None = None
        self.normals: FloatArray | None = None
        self.points: FloatArray | None = None
        self.contact_ids: NDArray[Any] | None = None
        self.dof_body: IntArray | None = None
        if bodies is not None:
            self.bodies = checks.integers("bodies", bodies, (nc, 2), at_least=-1)
        if normals is not None:
            self.normals = checks.table("normals", normals, nc)
            length = np.linalg.norm(self.normals, axis=1)
            bad = np.flatnonzero(np.abs(length - 1.0) > 1e-6)
            if bad.size:
                found = f"length {length[bad[0]]:.6g} at contact {int(bad[0])}"
                raise InvalidInput("normals", found, "unit vectors")
        if points is not None:
            self.points = checks.table("points", points, nc)
        if contact_ids is not None:
            self.contact_ids = checks.labels("contact_ids", contact_ids, nc)
        if dof_body is not None and nv is not None:
            self.dof_body = checks.integers("dof_body", dof_body, (nv,), at_least=0)
        self._sealed = True

    def __setattr__(self, name: str, value: Any) -> None:
        if "_sealed" in self.__dict__:
            raise AttributeError(f"ContactStep is frozen: use step.replace({name}=...)")
        super().__setattr__(name, value)

    # --- sizes -------------------------------------------------------------------------

    @property
    def nc(self) -> int:
        """Number of contacts."""
        return int(self.stiffness.shape[0])

    @property
    def nv(self) -> int | None:
        """Number of free degrees of freedom; None for a Delassus-only step."""
        return None if self.B is None else int(self.B.shape[1])

    @property
    def delassus_only(self) -> bool:
        """Whether only N and p are known."""
        return self._delassus is not None

    # --- what follows from the data ----------------------------------------------------

    @cached_property
    def v_star(self) -> FloatArray | None:
        """v* = v + Δt M⁻¹ F_ext (nv,), m/s: the velocity without contacts."""
        if self.mass is None or self.v is None or self.F_ext is None:
            return None
        return read_only(self.v + self.dt * self.mass.solve(self.F_ext))

    @cached_property
    def impacting(self) -> BoolArray:
        """(nc,) contacts on which Newton restitution acts.

        Those with e > 0 that would end the step in penetration and approach faster than v_min.
        """
        if self.B is None or self.phi is None or self.v_star is None:
            return read_only(np.zeros(self.nc, dtype=bool))
        approach = self.B @ self.v + self.gap_rate
        end = self.phi + self.dt * (self.B @ self.v_star + self.gap_rate)
        return read_only((self.restitution > 0.0) & (end < 0.0) & (approach < -self.v_min))

    @cached_property
    def bias(self) -> FloatArray | None:
        """(nc,) m/s: the contact constraints of the step are B v⁺ + bias ≥ 0.

        bias = Φ/Δt + gap_rate; on impacting contacts e (B v + gap_rate) + gap_rate.
        """
        if self.B is None or self.phi is None:
            return None
        rigid = self.phi / self.dt
        rebound = self.restitution * (self.B @ self.v + self.gap_rate)
        return read_only(np.where(self.impacting, rebound, rigid) + self.gap_rate)

    @cached_property
    def p_vec(self) -> FloatArray:
        """p of equation (20) (nc,), m/s: the constraint's value in free motion, B v* + bias.

        Raises
        ------
        InvalidInput : a step that no constructor made.
        """
        if self._delassus is not None:
            return self._delassus[1]
        if self.B is None or self.v_star is None or self.bias is None:
            raise InvalidInput("step", "neither matrices nor p_vec", "a step by a constructor")
        return read_only(np.asarray(self.B @ self.v_star + self.bias))

    @cached_property
    def N(self) -> sp.csr_array:
        """Delassus matrix of equation (20), Δt B M⁻¹ Bᵀ (nc, nc), m/(s·N).

        Raises
        ------
        InvalidInput : a step that no constructor made.
        """
        if self._delassus is not None:
            return self._delassus[0]
        if self.mass is None or self.B is None:
            raise InvalidInput("step", "neither matrices nor N", "a step built by a constructor")
        product = sp.csr_array(self.B @ self.mass.solve_sparse(sp.csr_array(self.B.T)))
        return checks.freeze(sp.csr_array((product + product.T) * (0.5 * self.dt)))

    def body_forces(self, f: Any) -> FloatArray:
        """Total contact force on every body, fixed ones included.

        Parameters
        ----------
        f : (nc,) contact forces, N.

        Returns
        -------
        (number of bodies, 2 or 3) forces in N; body numbers are those of ``bodies``.

        Raises
        ------
        InvalidInput : a step without bodies or normals, or forces of another length.
        """
        if self.bodies is None or self.normals is None:
            raise InvalidInput("step", "no bodies or normals", "a step built with both")
        forces = checks.vector("f", f, self.nc, "N")
        vectors = forces[:, None] * self.normals
        count = int(self.bodies.max(initial=-1)) + 1
        total = np.zeros((count, self.normals.shape[1]))
        for column, sign in ((0, -1.0), (1, 1.0)):
            index = self.bodies[:, column]
            np.add.at(total, index[index >= 0], sign * vectors[index >= 0])
        return total

    # --- other steps from this one -----------------------------------------------------

    def replace(self, **changes: Any) -> ContactStep:
        """A copy with some constructor arguments changed, ``changes`` by name, validated anew.

        Raises
        ------
        InvalidInput : no such argument, or a value that it does not take.
        """
        arguments = self._arguments()
        unknown = set(changes) - set(arguments)
        if unknown:
            raise InvalidInput(
                ", ".join(sorted(unknown)), "no such argument", "one of " + ", ".join(arguments)
            )
        arguments.update(changes)
        return _rebuild(self.delassus_only, arguments)

    def select(self, contacts: Any) -> ContactStep:
        """The same step with only these contacts, in this order.

        ``contacts`` are indices (n,) or a mask (nc,).

        Raises
        ------
        InvalidInput : neither, or an index out of range.
        """
        index = checks.array("contacts", contacts, "indices or a boolean mask")
        if index.ndim != 1 or (index.size and index.dtype.kind not in "iub"):
            raise InvalidInput("contacts", checks.describe(index), "indices or a boolean mask")
        if index.dtype.kind == "b":
            if index.size != self.nc:
                raise InvalidInput("contacts", f"{index.size} flags", f"{self.nc} flags")
            index = np.flatnonzero(index)
        index = index.astype(np.intp)
        if index.size and not (index.min() >= 0 and index.max() < self.nc):
            raise InvalidInput("contacts", "an index out of range", f"0 to {self.nc - 1}")
        rows = {
            name: value[index]
            for name, value in self._arguments().items()
            if name in _PER_CONTACT and value is not None
        }
        if self.delassus_only:
            rows["N"] = self.N[index][:, index]
        return self.replace(**rows)

    def _arguments(self) -> dict[str, Any]:
        names = _DELASSUS_ARGUMENTS if self.delassus_only else _ARGUMENTS
        return {name: getattr(self, name) for name in names}

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.delassus_only, self._arguments())

    # --- files -------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the step to an ``.npz`` file, without loss."""
        kind = "delassus step" if self.delassus_only else "contact step"
        archive.save(path, kind, self._arguments())

    @staticmethod
    def load(path: str | Path) -> ContactStep:
        """Read a step that ``save`` wrote.

        Raises
        ------
        InvalidInput : the file is missing, damaged, or holds something else.
        """
        kind, content = archive.load(path, ("contact step", "delassus step"))
        known = _DELASSUS_ARGUMENTS if kind == "delassus step" else _ARGUMENTS
        missing = [name for name in known[:3] if name not in content]
        unknown = sorted(set(content) - set(known))
        if missing or unknown:
            raise InvalidInput(
                "path",
                f"a file without {missing}" if missing else f"unknown entries {unknown}",
                f"a {kind} with " + ", ".join(known),
            )
        try:
            return _rebuild(kind == "delassus step", content)
        except TypeError as error:
            raise InvalidInput("path", str(error), f"a complete {kind}") from error

    def __repr__(self) -> str:
        size = f"{self.nc} contacts"
        if self.nv is None:
            return f"ContactStep({size}, N and p only, dt={self.dt:g} s)"
        return f"ContactStep({size}, {self.nv} degrees of freedom, dt={self.dt:g} s)"


_PER_CONTACT = (
    "B", "phi", "p_vec", "stiffness", "restitution", "gap_rate",
    "bodies", "normals", "points", "contact_ids",
)  # fmt: skip
_SHARED = ("stiffness", "bodies", "normals", "points", "contact_ids")
_DELASSUS_ARGUMENTS = ("N", "p_vec", "dt", *_SHARED)
_ARGUMENTS = (
    "M", "B", "phi", "v", "F_ext", "dt", "restitution", "gap_rate", "v_min", *_SHARED, "dof_body",
)  # fmt: skip


def _rebuild(delassus_only: bool, arguments: dict[str, Any]) -> ContactStep:
    """The step that these arguments describe; copies and pickles are made anew, read-only."""
    return (ContactStep.from_delassus if delassus_only else ContactStep)(**arguments)


def _require_semidefinite(N: sp.csr_array) -> None:
    """Refuse an N with an eigenvalue below −tol ‖N‖."""
    nc = N.shape[0]
    if nc == 0:
        return
    scale = float(np.abs(N).sum(axis=1).max())
    if scale == 0.0:
        return
    if nc <= _DENSE_LIMIT:
        smallest = float(np.linalg.eigvalsh(N.toarray() / scale)[0])
    else:
        try:
            smallest = float(
                eigsh(N / scale, k=1, which="SA", tol=1e-4, return_eigenvectors=False)[0]
            )
        except ArpackError as error:
            raise InvalidInput("N", "eigenvalues that cannot be found", "a Delassus matrix") from (
                error
            )
    if smallest < -_DELASSUS_PSD_TOL:
        raise InvalidInput(
            "N",
            f"an eigenvalue of {smallest * scale:.3g} beside a norm of {scale:.3g}",
            "a positive semidefinite matrix",
        )
