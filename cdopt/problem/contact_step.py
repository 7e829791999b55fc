"""The data of one time step in contact, validated and frozen.

``ContactStep`` holds the matrices of the bodies, ``DelassusStep`` only N and p of the contacts.
Neither holds shapes: bodies may live in the plane or in space. Equation numbers are those of
Olsen & Kamrin (2018).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackError, eigsh

from cdopt._util import archive, checks
from cdopt._util.checks import BoolArray, FloatArray, IntArray, read_only
from cdopt._util.errors import InvalidInput, Unsupported
from cdopt.problem.contact_law import HOOKE
from cdopt.problem.friction import Friction, check_directions
from cdopt.problem.mass import MassMatrix
from cdopt.problem.origin import ContactNames, Origin

_DELASSUS_SYMMETRY_TOL = 1e-8
_DELASSUS_PSD_TOL = 1e-9
_FRICTION_PSD_TOL = 1e-6  # files of steps with friction hold gyroscopic terms and rounded numbers
ROUND_OFF = 1e-12  # relative, of forming N and of its eigenvalues
_DENSE_LIMIT = 3000  # up to here the eigenvalues of N are computed in full
_ROWS = ("stiffness", "bodies", "normals", "points", "contact_ids")  # of both kinds of step
_SHARED = (*_ROWS, "power")
_OBJECTS: dict[str, type[Friction] | type[Origin]] = {"friction": Friction, "origin": Origin}

AnyStep = TypeVar("AnyStep", bound="Step")


class Step(ABC):
    """A ``ContactStep`` or a ``DelassusStep``.

    Attributes
    ----------
    dt : time step Δt, s.
    stiffness : (nc,) relative contact stiffness k̃.
    bodies : (nc, 2) body numbers of each contact, or None.
    normals, points : (nc, 2) or (nc, 3) unit vectors, and contact points in m; or None.
    contact_ids : (nc,) names of the contacts, or None.
    power : p > 1 of the contact energy, which formulations with elastic contacts take by default.
    dof_body : (nv,) the body of each degree of freedom, or None.
    friction : Friction of the contacts, or None; the frictionless formulations refuse it.
    origin : the scene and the state that the step was made of, or None.
    symmetrised : largest |A − Aᵀ| over the largest |A| of the matrix, N or M, as its source had it;
        whoever built the step took the mean of A and Aᵀ instead.
    negative : size of the negative eigenvalue of N of a ``DelassusStep`` over its norm; 0 up to
        round-off. Numbers rounded in a file leave one; then no energy belongs to N.
    """

    expected: ClassVar[str] = "a ContactStep or a DelassusStep"  # in messages
    by_name: ClassVar[str] = "cdopt.open_problem(name).step"
    dt: float
    stiffness: FloatArray
    bodies: IntArray | None
    normals: FloatArray | None
    points: FloatArray | None
    contact_ids: NDArray[Any] | None
    power: float
    dof_body: IntArray | None = None
    friction: Friction | None = None
    origin: Origin | None = None
    symmetrised: float = 0.0
    negative: float = 0.0

    _KIND: ClassVar[str]  # in files
    _ARGUMENTS: ClassVar[tuple[str, ...]]  # of the constructor
    _PER_CONTACT: ClassVar[tuple[str, ...]]  # those with one row per contact

    def _set_contact_data(
        self,
        nc: int,
        stiffness: Any,
        bodies: Any,
        normals: Any,
        points: Any,
        contact_ids: Any,
        power: float,
        origin: Origin | None,
        symmetrised: float,
    ) -> None:
        self.symmetrised, self.power, self.origin = symmetrised, power, origin
        self.stiffness = checks.per_contact("stiffness", stiffness, nc, positive=True)
        self.bodies = self.normals = self.points = self.contact_ids = None
        if bodies is not None:
            self.bodies = checks.integers("bodies", bodies, (nc, 2), at_least=-1)
        if normals is not None:
            self.normals = checks.table("normals", normals, nc)
            length = np.linalg.norm(self.normals, axis=1)
            bad = np.flatnonzero(np.abs(length - 1.0) > 1e-6)
            if bad.size:
                where = f"length {length[bad[0]]:.6g} at contact {int(bad[0])}"
                raise InvalidInput("normals", where, "unit vectors")
            if self.friction is not None and self.friction.tangents is not None:
                check_directions(self.friction.tangents, self.normals)
        if points is not None:
            self.points = checks.table("points", points, nc)
        if contact_ids is not None:
            self.contact_ids = checks.labels("contact_ids", contact_ids, nc)
        self._sealed = True

    def __setattr__(self, name: str, value: Any) -> None:
        if "_sealed" in self.__dict__:
            kind = type(self).__name__
            raise AttributeError(f"{kind} is frozen: use step.replace({name}=...)")
        super().__setattr__(name, value)

    @property
    def nc(self) -> int:
        """Number of contacts."""
        return int(self.stiffness.shape[0])

    @cached_property
    def names(self) -> ContactNames:
        """What the contacts are called."""
        known = () if self.origin is None else self.origin.names
        return ContactNames(self.nc, self.contact_ids, self.bodies, known, self.dof_body)

    @property
    def contact_names(self) -> list[str]:
        """Names of the contacts (nc,) for people: their ids, or the names of both bodies.

        Ids of detected contacts are long numbers: such a contact is called by its bodies, by name
        where the scene names them, "3–7", and the second one of a pair "3–7 (2)". A contact of the
        one body that is free is called by what it touches. Contacts without ids have their number
        as a name.
        """
        return list(self.names.texts)

    @property
    @abstractmethod
    def N(self) -> sp.csr_array:
        """Delassus matrix of equation (20), Δt B M⁻¹ Bᵀ (nc, nc), m/(s·N)."""

    @property
    @abstractmethod
    def p_vec(self) -> FloatArray:
        """p of equation (20) (nc,), m/s: the value of each contact's constraint in free motion."""

    def contact_vectors(self, f: Any, f_t: Any = None) -> FloatArray:
        """Contact forces on body j as vectors of the plane or of space, N.

        Parameters
        ----------
        f : (nc,) normal forces, N.
        f_t : (nc, d − 1) tangential forces along the tangents of ``friction``, N; None for none.

        Returns
        -------
        (nc, 2) or (nc, 3).

        Raises
        ------
        InvalidInput : a step without normals, f_t without tangents, or forces of another shape.
        """
        if self.normals is None:
            raise InvalidInput("step", "no normals", "a step built with normals")
        vectors: FloatArray = checks.vector("f", f, self.nc, "N")[:, None] * self.normals
        if f_t is None:
            return vectors
        tangents = None if self.friction is None else self.friction.tangents
        if tangents is None:
            raise InvalidInput("step", "no tangents", "friction built with tangents")
        sliding = checks.numbers("f_t", f_t, tangents.shape[:2], "N")
        return np.asarray(vectors + np.einsum("ik,ikx->ix", sliding, tangents))

    def body_forces(self, f: Any, f_t: Any = None) -> FloatArray:
        """Total contact force on every body, fixed ones included.

        Parameters
        ----------
        f, f_t : forces as in ``contact_vectors``, N.

        Returns
        -------
        (number of bodies, 2 or 3) forces in N; body numbers are those of ``bodies``.

        Raises
        ------
        InvalidInput : a step without bodies, or as in ``contact_vectors``.
        """
        if self.bodies is None or self.normals is None:
            raise InvalidInput("step", "no bodies or normals", "a step built with both")
        vectors = self.contact_vectors(f, f_t)
        count = int(self.bodies.max(initial=-1)) + 1
        total = np.zeros((count, self.normals.shape[1]))
        for column, sign in ((0, -1.0), (1, 1.0)):
            index = self.bodies[:, column]
            np.add.at(total, index[index >= 0], sign * vectors[index >= 0])
        return total

    # --- other steps from this one -----------------------------------------------------

    def require_frictionless(self, what: str) -> None:
        """Refuse friction: some μ above zero.

        Parameters
        ----------
        what : what has no friction, such as "ClassicCD".

        Raises
        ------
        Unsupported : the step has friction.
        """
        if self.friction is not None and np.any(self.friction.mu > 0.0):
            instead = ("FrictionalCD(step)", "without it, step.without_friction()")
            raise Unsupported(what, "the step has friction, which it would leave out", instead)

    def without_friction(self: AnyStep) -> AnyStep:
        """The step of the normal rows alone; the same step where it has no friction."""
        return self if self.friction is None else self.replace(**self._normal_rows())

    def _normal_rows(self) -> dict[str, Any]:
        """Constructor arguments that differ without friction."""
        return {"friction": None}

    def replace(self: AnyStep, **changes: Any) -> AnyStep:
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
        if set(changes) == {"power"}:  # no matrix is checked again
            same = object.__new__(type(self))
            same.__dict__.update(self.__dict__, power=checks.power("power", changes["power"]))
            return same
        return type(self)(**{**arguments, **changes})

    def select(self: AnyStep, contacts: Any) -> AnyStep:
        """The same step with only these contacts, in this order.

        ``contacts`` are indices (n,) or a mask (nc,).

        Raises
        ------
        InvalidInput : neither, or an index out of range.
        """
        return self.replace(**self._rows(checks.positions("contacts", contacts, self.nc)))

    def _rows(self, index: NDArray[np.intp]) -> dict[str, Any]:
        """The arguments that differ between contacts, for these contacts."""
        values = {name: getattr(self, name) for name in (*self._PER_CONTACT, *_ROWS)}
        rows = {name: value[index] for name, value in values.items() if value is not None}
        return rows if self.friction is None else {**rows, "friction": self.friction.rows(index)}

    def _arguments(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in (*self._ARGUMENTS, *_SHARED, *_OBJECTS)}

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self._arguments())

    # --- files -------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the step to an ``.npz`` file, without loss."""
        content = self._arguments()
        for value in [content.pop(name) for name in _OBJECTS]:
            content |= {} if value is None else value.stored()
        archive.save(path, self._KIND, content)

    @classmethod
    def load(cls: type[AnyStep], path: str | Path) -> AnyStep:
        """Read a step that ``save`` wrote: of this class, or by ``Step.load`` of either.

        Raises
        ------
        InvalidInput : the file is missing, damaged, or holds something else.
        """
        kinds: dict[str, Any] = {
            kind._KIND: kind for kind in (ContactStep, DelassusStep) if issubclass(kind, cls)
        }
        name, content = archive.load(path, tuple(kinds))
        kind = kinds[name]
        objects = {name: of.restored(content) for name, of in _OBJECTS.items()}
        known = (*kind._ARGUMENTS, *_SHARED)
        missing = [key for key in known[:3] if key not in content]
        unknown = sorted(set(content) - set(known))
        if missing or unknown:
            raise InvalidInput(
                "path",
                f"a file without {missing}" if missing else f"unknown entries {unknown}",
                f"a {name} with " + ", ".join(known),
            )
        try:
            return kind(**content, **objects)
        except TypeError as error:
            raise InvalidInput("path", str(error), f"a complete {name}") from error


def _rebuild(kind: type[AnyStep], arguments: dict[str, Any]) -> AnyStep:
    """The step with these arguments, validated again and read-only."""
    return kind(**arguments)


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
    v_min : approach speed below which restitution does not act, m/s.
    bodies : (nc, 2) body numbers i, j of each contact; −1 is the fixed world.
    normals : (nc, 2) or (nc, 3) unit vectors from body i towards body j.
    points : (nc, 2) or (nc, 3) contact points, m.
    contact_ids : (nc,) distinct names of the contacts, integers or strings.
    dof_body : (nv,) the body that each degree of freedom belongs to.
    friction : coefficients and tangential rows, for ``FrictionalCD``.
    power : p > 1 of the contact energy that ``CompatibleCD`` and others take where none is stated:
        2 Hooke, 5/2 Hertz.
    origin : of a step made of a scene, what pictures and names need; ``collision.step`` gives it.
    symmetrised : asymmetry that M had before, as in ``Step``; solutions report it.

    Raises
    ------
    InvalidInput : naming the argument, what was found and what was expected.

    Notes
    -----
    The arrays are copies and read-only. Olsen & Kamrin (2018), section 3.
    """

    _KIND = "contact step"
    _ARGUMENTS = (
        "M",
        "B",
        "phi",
        "v",
        "F_ext",
        "dt",
        "restitution",
        "gap_rate",
        "v_min",
        "dof_body",
        "symmetrised",
    )
    _PER_CONTACT = ("B", "phi", "restitution", "gap_rate")

    def __init__(
        self,
        M: Any,
        B: Any,
        phi: Any,
        v: Any,
        F_ext: Any,
        dt: checks.Positive,
        *,
        stiffness: Any = 1.0,
        restitution: Any = 0.0,
        gap_rate: Any = 0.0,
        v_min: checks.NotNegative = 0.0,
        bodies: Any = None,
        normals: Any = None,
        points: Any = None,
        contact_ids: Any = None,
        dof_body: Any = None,
        friction: Friction | None = None,
        power: checks.Power = HOOKE,
        origin: Origin | None = None,
        symmetrised: checks.NotNegative = 0.0,
    ) -> None:
        gap_gradient = checks.gap_gradient(B)
        nc, nv = gap_gradient.shape
        shared = isinstance(M, MassMatrix) and M.diagonal.size == nv  # of another step, checked
        self.mass = M if shared else MassMatrix(checks.matrix("M", M, nv, nv))
        self.M: sp.csr_array = self.mass.M
        self.B: sp.csr_array = gap_gradient
        self.phi = checks.vector("phi", phi, nc, "m")
        self.v = checks.vector("v", v, nv, "m/s")
        self.F_ext = checks.vector("F_ext", F_ext, nv, "N")
        self.dt = dt
        self.restitution = checks.per_contact(
            "restitution", restitution, nc, at_least=0.0, at_most=1.0
        )
        self.gap_rate = checks.per_contact("gap_rate", gap_rate, nc)
        self.v_min = v_min
        if dof_body is not None:
            self.dof_body = checks.integers("dof_body", dof_body, (nv,), at_least=0)
        if friction is not None:
            self.friction = friction.on(nc, nv)
        self._set_contact_data(
            nc, stiffness, bodies, normals, points, contact_ids, power, origin, symmetrised
        )

    @classmethod
    def _of(cls, M: MassMatrix, **arguments: Any) -> ContactStep:
        """The step of arguments that cdopt made itself: complete, sound, and not copied.

        Arrays become read-only. Every array with a row per contact is there, or None.
        """
        step = object.__new__(cls)
        for value in arguments.values():
            if isinstance(value, np.ndarray):
                read_only(value)
        step.__dict__.update(arguments, mass=M, M=M.M, _sealed=True)
        return step

    @staticmethod
    def from_delassus(N: Any, p_vec: Any, dt: Any = 1.0, **contacts: Any) -> DelassusStep:
        """The same as ``DelassusStep(N, p_vec, dt, **contacts)``.

        Raises
        ------
        InvalidInput : as there.
        """
        return DelassusStep(N, p_vec, dt, **contacts)

    @property
    def nv(self) -> int:
        """Number of free degrees of freedom."""
        return int(self.B.shape[1])

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
        if self.impacting.any():
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
        return checks.freeze(sp.csr_array((product + product.T) * (0.5 * self.dt)))

    def __repr__(self) -> str:
        size = f"{self.nc:,} contacts, {self.nv:,} degrees of freedom"
        return f"ContactStep({size}, dt={self.dt:g} s)"


class DelassusStep(Step):
    """One time step of which only N and p of equation (20) are known.

    Parameters
    ----------
    N : (nc, nc) Delassus matrix Δt B M⁻¹ Bᵀ, m/(s·N), symmetric positive semidefinite. With
        friction (nc d, nc d): the normal row of a contact, then its tangential rows.
    p_vec : (nc,) gap rate of the free motion, m/s; with friction (nc d,).
    dt : time step Δt, s. With the default of one, forces are impulses.
    stiffness, bodies, normals, points, contact_ids, power, origin : as in ``ContactStep``.
    friction : coefficients, without tangential rows: N holds them.
    symmetrised : asymmetry that N had before, as in ``Step``; solutions report it.

    Attributes
    ----------
    N, p_vec : of the normal rows alone; ``N_rows`` and ``p_rows`` hold all d rows a contact.

    Raises
    ------
    InvalidInput : N is asymmetric beyond round-off or has a negative eigenvalue; or naming
        another argument.
    """

    _KIND = "delassus step"
    _ARGUMENTS = ("N", "p_vec", "dt", "symmetrised")
    _PER_CONTACT = ("p_vec",)

    def __init__(
        self,
        N: Any,
        p_vec: Any,
        dt: checks.Positive = 1.0,
        *,
        stiffness: Any = 1.0,
        bodies: Any = None,
        normals: Any = None,
        points: Any = None,
        contact_ids: Any = None,
        friction: Friction | None = None,
        power: checks.Power = HOOKE,
        origin: Origin | None = None,
        symmetrised: checks.NotNegative = 0.0,
    ) -> None:
        matrix = checks.matrix("N", N, None, None)
        rows = matrix.shape[0]
        matrix = checks.symmetric("N", matrix, _DELASSUS_SYMMETRY_TOL)
        tol = _DELASSUS_PSD_TOL if friction is None else _FRICTION_PSD_TOL
        self.negative = _negative_eigenvalue(matrix, tol)
        self.dt = dt
        self.N_rows, self.p_rows = matrix, checks.vector("p_vec", p_vec, rows, "m/s")
        nc, self._d = rows, 1
        if friction is not None:
            nc = friction.contacts(rows)
            self.friction = friction.on(nc, None, rows)
            self._d = self.friction.d
        self._set_contact_data(
            nc, stiffness, bodies, normals, points, contact_ids, power, origin, symmetrised
        )

    @cached_property
    def N(self) -> sp.csr_array:
        """Delassus matrix of the normal rows (nc, nc), m/(s·N)."""
        d = self._d
        return self.N_rows if d == 1 else checks.freeze(sp.csr_array(self.N_rows[::d][:, ::d]))

    @cached_property
    def p_vec(self) -> FloatArray:
        """p of the normal rows (nc,), m/s: gap rate of the free motion."""
        return read_only(self.p_rows[:: self._d])

    def _arguments(self) -> dict[str, Any]:
        return {**super()._arguments(), "N": self.N_rows, "p_vec": self.p_rows}

    def _normal_rows(self) -> dict[str, Any]:
        return {**super()._normal_rows(), "N": self.N, "p_vec": self.p_vec}

    def _rows(self, index: NDArray[np.intp]) -> dict[str, Any]:
        rows = (index[:, None] * self._d + np.arange(self._d)).ravel()
        matrix = self.N_rows[rows][:, rows]
        return {**super()._rows(index), "N": matrix, "p_vec": self.p_rows[rows]}

    def __repr__(self) -> str:
        return f"DelassusStep({self.nc:,} contacts, dt={self.dt:g} s)"


def _negative_eigenvalue(N: sp.csr_array, tol: float) -> float:
    """Size of the most negative eigenvalue over ‖N‖, 0 if of round-off; refused above ``tol``."""
    nc = N.shape[0]
    if nc == 0:
        return 0.0
    scale = float(np.abs(N).sum(axis=1).max())
    if scale == 0.0:
        return 0.0
    if nc <= _DENSE_LIMIT:
        dense = N.toarray() / scale
        try:  # a factorisation takes a twentieth of the time of the eigenvalues
            np.linalg.cholesky(dense + ROUND_OFF * np.eye(nc))
            return 0.0
        except np.linalg.LinAlgError:
            smallest = float(np.linalg.eigvalsh(dense)[0])
    else:
        try:
            smallest = float(
                eigsh(N / scale, k=1, which="SA", tol=1e-4, return_eigenvectors=False)[0]
            )
        except ArpackError as error:
            raise InvalidInput("N", "eigenvalues that cannot be found", "a Delassus matrix") from (
                error
            )
    if smallest < -tol:
        raise InvalidInput(
            "N",
            f"an eigenvalue of {smallest * scale:.3g} beside a norm of {scale:.3g}",
            "a positive semidefinite matrix",
        )
    return -smallest if smallest < -ROUND_OFF else 0.0
