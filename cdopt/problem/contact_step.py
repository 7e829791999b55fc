"""The data of one time step in contact, validated and frozen; where it comes from; names.

``ContactStep`` holds the matrices of the bodies, ``DelassusStep`` only N and p of the contacts.
Neither holds shapes: bodies may live in the plane or in space. Equation numbers are those of
Olsen & Kamrin (2018).
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackError, eigsh

from cdopt._util import archive, checks
from cdopt._util.cached import cached_property
from cdopt._util.checks import BoolArray, FloatArray, IntArray, freeze, read_only
from cdopt._util.errors import InvalidInput, Unsupported
from cdopt._util.formatting import numbered
from cdopt._util.frozen import Frozen
from cdopt._util.parameters import well_spelt
from cdopt.problem.contact_law import HOOKE
from cdopt.problem.contact_list import ListedBodies, tangents_of
from cdopt.problem.friction import Friction, check_directions
from cdopt.problem.joints import Joints
from cdopt.problem.mass import MassMatrix

_DELASSUS_SYMMETRY_TOL = 1e-8
_DELASSUS_PSD_TOL = 1e-9
_FRICTION_PSD_TOL = 1e-6  # files of steps with friction hold gyroscopic terms and rounded numbers
ROUND_OFF = 1e-12  # relative, of forming N and of its eigenvalues
_DENSE_LIMIT = 3000  # up to here the eigenvalues of N are computed in full


# --- where a step comes from -------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Origin(Frozen):
    """The scene and the state that a step was made of, for pictures and names.

    Attributes
    ----------
    scene : the ``Scene``; of a step that was read from a file its text, TOML. ``scene.placed``
        gives the scene and the state of either.
    t : time, s.
    q, v : positions and velocities of all bodies, as in ``State``.
    names : (nb,) names of the bodies, "" for none.
    """

    scene: Any
    t: float
    q: FloatArray
    v: FloatArray
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class ContactNames(Frozen):
    """What contacts are called; the texts are made when they are first asked for."""

    nc: int
    ids: NDArray[Any] | None  # (nc,)
    bodies: IntArray | None = None  # (nc, 2) numbers of their bodies
    body_names: tuple[str, ...] = ()  # (nb,)
    dof_body: IntArray | None = None  # (nv,) the body of each degree of freedom

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """(nc,) texts: ids that are texts; else both bodies, or what the one free body touches."""
        if self.ids is None:
            return tuple(map(str, range(self.nc)))
        if self.bodies is None or self.ids.dtype.kind not in "iu":
            return tuple(map(str, self.ids.tolist()))
        free = set() if self.dof_body is None else set(self.dof_body.tolist())
        alone = len(free) == 1 and bool(self.body_names)
        pairs = [[k for k in pair if not (alone and k in free)] for pair in self.bodies.tolist()]
        labels = numbered(["–".join(map(self._body, pair)) for pair in pairs])
        return tuple(f"support {text}" if alone and text.isdigit() else text for text in labels)

    def _body(self, k: int) -> str:
        """A body's name, or its number."""
        if k < 0:
            return "world"
        return (self.body_names[k] if k < len(self.body_names) else "") or str(k)


_OBJECTS: dict[str, Any] = {  # in files by these prefixes
    "friction": Friction,
    "origin": Origin,
    "joints": Joints,
}


def _restored(kind: Any, values: dict[str, Any]) -> Any:
    """An object of a file; what an older file does not have takes its default."""
    return kind(**{name: value for name, value in values.items() if value is not None})


# --- steps -------------------------------------------------------------------------------


class _Declared(Frozen):
    """What each kind of step has in its own way."""

    dt: Any
    N: Any
    p_vec: Any
    dof_body: Any = None
    joints: Any = None


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Step(_Declared):
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
    joints : Joints between the bodies of a ``ContactStep``, or None.
    origin : the scene and the state that the step was made of, or None.
    symmetrised : largest |A − Aᵀ| over the largest |A| of the matrix, N or M, as its source had it;
        whoever built the step took the mean of A and Aᵀ instead.
    negative : size of the negative eigenvalue of N of a ``DelassusStep`` over its norm; 0 up to
        round-off. Numbers rounded in a file leave one; then no energy belongs to N.
    N : Delassus matrix of equation (20), Δt B M⁻¹ Bᵀ (nc, nc), m/(s·N).
    p_vec : p of equation (20) (nc,), m/s: the value of each contact's constraint in free motion.
    """

    stiffness: Any = 1.0
    bodies: Any = None
    normals: Any = None
    points: Any = None
    contact_ids: Any = None
    friction: Friction | None = None
    power: float = HOOKE
    origin: Origin | None = None
    symmetrised: float = 0.0
    negative: float = field(default=0.0, init=False)

    expected: ClassVar[str] = "a ContactStep or a DelassusStep"  # in messages
    by_name: ClassVar[str] = "cdopt.open_problem(name).step"
    _KIND: ClassVar[str]  # in files

    def _check_friction(self) -> Friction | None:
        """The friction as given, after a check that it is one or None."""
        return (
            None if self.friction is None else checks.instance("friction", self.friction, Friction)
        )

    def _check_contacts(self, nc: int, friction: Friction | None) -> None:
        """Validate what both kinds of step know of each contact."""
        if self.origin is not None:
            checks.instance("origin", self.origin, Origin)
        self.__dict__.update(
            dt=checks.positive("dt", self.dt),
            power=checks.power("power", self.power),
            symmetrised=checks.not_negative("symmetrised", self.symmetrised),
            stiffness=checks.per_contact("stiffness", self.stiffness, nc, positive=True),
            friction=friction,
        )
        for name, check in (
            ("bodies", lambda value: checks.integers("bodies", value, (nc, 2), at_least=-1)),
            ("normals", lambda value: checks.table("normals", value, nc)),
            ("points", lambda value: checks.table("points", value, nc)),
            ("contact_ids", lambda value: checks.labels("contact_ids", value, nc)),
        ):
            value = getattr(self, name)
            self.__dict__[name] = None if value is None else check(value)
        if self.normals is None:
            return
        length = np.linalg.norm(self.normals, axis=1)
        if (bad := np.flatnonzero(np.abs(length - 1.0) > 1e-6)).size:
            where = f"length {length[bad[0]]:.6g} at contact {int(bad[0])}"
            raise InvalidInput("normals", where, "unit vectors")
        if friction is not None and friction.tangents is not None:
            check_directions(friction.tangents, self.normals)

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
        total = np.zeros((int(self.bodies.max(initial=-1)) + 1, vectors.shape[1]))
        for index, sign in zip(self.bodies.T, (-1.0, 1.0), strict=True):
            np.add.at(total, index[index >= 0], sign * vectors[index >= 0])
        return total

    # --- other steps from this one -----------------------------------------------------

    def require_frictionless(self, what: str) -> None:
        """Refuse friction, some μ above zero, for ``what`` has none, such as "ClassicCD".

        Raises
        ------
        Unsupported : the step has friction.
        """
        if self.friction is not None and self.friction.acts:
            instead = ("FrictionalCD(step)", "without it, step.without_friction()")
            raise Unsupported(what, "the step has friction, which it would leave out", instead)

    def require_no_moments(self, what: str) -> None:
        """Refuse torsion and rolling, for ``what`` has none, such as "FrictionNetwork".

        Raises
        ------
        Unsupported : contacts of the step resist torsion or rolling.
        """
        if self.friction is not None and self.friction.moments:
            why = "contacts resist torsion or rolling, which it would leave out"
            raise Unsupported(what, why, ("FrictionalCD(step)",))

    def without_friction(self) -> Self:
        """The step of the normal rows alone; the same step where it has no friction."""
        return self if self.friction is None else self.replace(friction=None)

    def without_joints(self) -> Self:
        """The step whose bodies move apart from each other; the same step where it has no joints.

        ``without_friction`` leaves friction out.
        """
        return self if self.joints is None else self.replace(joints=None)

    def replace(self, **changes: Any) -> Self:
        """A copy with some constructor arguments changed, ``changes`` by name, validated again.

        Raises
        ------
        InvalidInput : no such argument, or a value that it does not take.
        """
        arguments = self._arguments()
        unknown = ", ".join(sorted(set(changes) - set(arguments)))
        if unknown:
            raise InvalidInput(unknown, "no such argument", "one of " + ", ".join(arguments))
        if set(changes) == {"power"}:  # no matrix is checked again
            changes["power"] = checks.power("power", changes["power"])
            return self._of(**{**self.__getstate__(), **changes})
        return type(self)(**{**arguments, **changes})

    def select(self, contacts: Any) -> Self:
        """The same step with only these contacts, in this order.

        ``contacts`` are indices (n,) or a mask (nc,).

        Raises
        ------
        InvalidInput : neither, or an index out of range.
        """
        return self.replace(**self._rows(checks.positions("contacts", contacts, self.nc)))

    def _rows(self, index: IntArray) -> dict[str, Any]:
        """The arguments that differ between contacts, for these contacts."""
        names = ("stiffness", "bodies", "normals", "points", "contact_ids")
        known = {name: getattr(self, name) for name in names}
        rows = {name: value[index] for name, value in known.items() if value is not None}
        return rows if self.friction is None else {**rows, "friction": self.friction.rows(index)}

    def _arguments(self) -> dict[str, Any]:
        """Of the constructor, by name."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.init}

    def __getstate__(self) -> dict[str, Any]:
        """All that is not computed when it is asked for."""
        kind = type(self)
        return {
            name: value
            for name, value in self.__dict__.items()
            if not isinstance(getattr(kind, name, None), cached_property)
        }

    # --- files -------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the step to an ``.npz`` file, without loss; a file of another kind stays."""
        content = self._arguments()
        path = checks.path("path", path)
        for prefix in _OBJECTS:
            one = content.pop(prefix, None)
            if one is not None:
                content |= {f"{prefix}_{f.name}": getattr(one, f.name) for f in fields(one)}
        if self.origin is not None:
            scene = self.origin.scene
            text = scene if isinstance(scene, str) else scene.to_toml()
            content["origin_scene"] = np.frombuffer(text.encode(), "u1")
        archive.save(path, self._KIND, content)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a step that ``save`` wrote: of this class, or by ``Step.load`` of either.

        Raises
        ------
        InvalidInput : the file is missing, damaged, or holds something else.
        """
        kinds = {k._KIND: k for k in (ContactStep, DelassusStep) if issubclass(k, cls)}
        name, content = archive.load(checks.path("path", path), tuple(kinds))
        kind: Any = kinds[name]
        try:
            known = {f.name for f in fields(kind)}
            objects = {name: of for name, of in _OBJECTS.items() if name in known}
            for prefix, of in objects.items():
                value = {f.name: content.pop(f"{prefix}_{f.name}", None) for f in fields(of)}
                content[prefix] = None if value[fields(of)[0].name] is None else value
            if content["origin"] is not None:
                content["origin"]["scene"] = bytes(content["origin"]["scene"]).decode()
                content["origin"]["names"] = tuple(map(str, content["origin"]["names"]))
            given = {p: content[p] and _restored(of, content[p]) for p, of in objects.items()}
            step: Self = kind(**{**content, **given})
        except (TypeError, ValueError) as error:
            listed = ", ".join(f.name for f in fields(kind) if f.init)
            raise InvalidInput("path", str(error), f"a {name} with {listed}") from error
        return step


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
    v_min : approach speed below which restitution does not act, m/s.
    bodies : (nc, 2) body numbers i, j of each contact; −1 is the fixed world.
    normals : (nc, 2) or (nc, 3) unit vectors from body i towards body j.
    points : (nc, 2) or (nc, 3) contact points, m.
    contact_ids : (nc,) distinct names of the contacts, integers or strings.
    dof_body : (nv,) the body that each degree of freedom belongs to.
    friction : coefficients and tangential rows, for ``FrictionalCD``.
    joints : bilateral rows J v⁺ + rate = 0 between the bodies; every formulation holds them.
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
        if nc != nv and getattr(self.M, "shape", None) == (nc, nc):
            found = f"shape {B.shape}, and M of shape {(nc, nc)}"
            raise InvalidInput("B", found, "shape (nc, nv), a row for each contact: transposed?")
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
        """The step of arguments that cdopt made itself: complete, sound, and not copied.

        Arrays become read-only. Every array with a row per contact is there, or None.
        """
        mass = arguments["M"]
        if isinstance(mass, MassMatrix):
            arguments |= {"mass": mass, "M": mass.M}
        return super()._of(**arguments)

    def moved(self, phi: Any = None, v: Any = None, F_ext: Any = None) -> Self:
        """The same step with other ``phi``, ``v`` and ``F_ext``; nothing else is validated again.

        Raises
        ------
        InvalidInput : one of them is no finite vector of its length.
        """
        new = {
            "phi": self.phi if phi is None else checks.vector("phi", phi, self.nc, "m"),
            "v": self.v if v is None else checks.vector("v", v, self.nv, "m/s"),
            "F_ext": self.F_ext if F_ext is None else checks.vector("F_ext", F_ext, self.nv, "N"),
        }
        return self._of(**{**self.__getstate__(), "M": self.mass, **new})

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
        """The step of a contact list, as discrete-element and masonry codes print it.

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
        loads : (nb, dim) N, or (nb, dim + turns) with torques; on top of the weight.
        v : velocities at the start, of the same shapes or (nv,); default rest.
        fixed : numbers or a mask of bodies that do not move; they have no degrees of freedom.
        phi : gaps, m, one number or (nc,); by default all contacts touch, overlaps included.
        tangents : (nc, dim − 1, dim) unit vectors that tangential forces go by; default
            ``cdopt.collision.tangents(normals)``.
        more : arguments of ``ContactStep``, such as ``stiffness`` or ``contact_ids``.

        Raises
        ------
        InvalidInput : naming the argument, what was found and what was expected.

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
        """Number of free degrees of freedom."""
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
        return freeze(sp.csr_array((product + product.T) * (0.5 * self.dt)))

    def __repr__(self) -> str:
        size = f"{self.nc:,} contacts, {self.nv:,} degrees of freedom"
        if self.joints is not None:
            size += f", {self.joints.count:,} joint rows"
        return f"ContactStep({size}, dt={self.dt:g} s)"


@well_spelt
@dataclass(frozen=True, eq=False, repr=False)
class DelassusStep(Step):
    """One time step of which only N and p of equation (20) are known.

    Parameters
    ----------
    N : (nc, nc) Delassus matrix Δt B M⁻¹ Bᵀ, m/(s·N), symmetric positive semidefinite. With
        friction (nc d, nc d): the normal row of a contact, then its tangential rows, and the rows
        of its moments where ``friction`` has torsion or rolling.
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

    N: Any
    p_vec: Any
    dt: float = 1.0
    N_rows: Any = field(init=False)
    p_rows: Any = field(init=False)

    _KIND = "delassus step"

    def __post_init__(self) -> None:
        matrix = checks.matrix("N", self.N, None, None)
        nc = rows = matrix.shape[0]
        matrix = checks.symmetric("N", matrix, _DELASSUS_SYMMETRY_TOL)
        given = self._check_friction()
        negative = _negative_eigenvalue(
            matrix, _DELASSUS_PSD_TOL if not given else _FRICTION_PSD_TOL
        )
        vector = checks.vector("p_vec", self.p_vec, rows, "m/s")
        friction = None
        if given is not None:
            nc = given.contacts(rows)
            friction = given.on(nc, None, rows)
        self.__dict__.update(N_rows=matrix, p_rows=vector, negative=negative, friction=friction)
        self.__dict__.update(self._normal_rows())
        self._check_contacts(nc, friction)

    @property
    def _d(self) -> int:
        """Rows a contact."""
        return 1 if self.friction is None else self.friction.d + self.friction.moments

    def _normal_rows(self) -> dict[str, Any]:
        d, N = self._d, self.N_rows
        N = N if d == 1 else freeze(sp.csr_array(N[::d][:, ::d]))
        return {"N": N, "p_vec": read_only(self.p_rows[::d])}

    def without_friction(self) -> Self:
        """The step of the normal rows alone; the same step where it has no friction."""
        if self.friction is None:
            return self
        return self.replace(friction=None, N=self.N, p_vec=self.p_vec)

    def _arguments(self) -> dict[str, Any]:
        return {**super()._arguments(), "N": self.N_rows, "p_vec": self.p_rows}

    def _rows(self, index: IntArray) -> dict[str, Any]:
        rows = (index[:, None] * self._d + np.arange(self._d)).ravel()
        matrix = self.N_rows[rows][:, rows]
        return {**super()._rows(index), "N": matrix, "p_vec": self.p_rows[rows]}

    def __repr__(self) -> str:
        return f"DelassusStep({self.nc:,} contacts, dt={self.dt:g} s)"


def _negative_eigenvalue(N: sp.csr_array, tol: float) -> float:
    """Size of the most negative eigenvalue over ‖N‖, 0 if of round-off; refused above ``tol``."""
    nc = N.shape[0]
    scale = float(np.abs(N).sum(axis=1).max()) if nc else 0.0
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
            lowest = eigsh(N / scale, k=1, which="SA", tol=1e-4, return_eigenvectors=False)
        except ArpackError as error:
            raise InvalidInput("N", "eigenvalues not computed", "a Delassus matrix") from error
        smallest = float(lowest[0])
    if smallest < -tol:
        found = f"an eigenvalue of {smallest * scale:.3g} where the norm is {scale:.3g}"
        raise InvalidInput("N", found, "a positive semidefinite matrix")
    return -smallest if smallest < -ROUND_OFF else 0.0
