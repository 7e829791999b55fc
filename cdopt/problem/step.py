"""The base of all time steps in contact: contacts, names, origin, and files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from cdopt._util import archive, checks
from cdopt._util.cached import cached_property
from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.errors import InvalidInput, Unsupported
from cdopt._util.formatting import numbered
from cdopt._util.frozen import Frozen
from cdopt.problem.contact_law import HOOKE
from cdopt.problem.friction import Friction, check_directions
from cdopt.problem.joints import Joints

# --- where a step comes from -------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Origin(Frozen):
    """The scene and the state from which a step was made, for pictures and names.

    Attributes
    ----------
    scene : the ``Scene``, or for a step from a file its TOML text; ``scene.placed`` returns the
        scene and the state of either.
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
    """Labels of contacts, made on first use."""

    nc: int
    ids: NDArray[Any] | None  # (nc,)
    bodies: IntArray | None = None  # (nc, 2) numbers of their bodies
    body_names: tuple[str, ...] = ()  # (nb,)
    dof_body: IntArray | None = None  # (nv,) the body of each degree of freedom

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """(nc,) texts: ids that are texts; else both bodies, or the other if just one is free."""
        if self.ids is None:
            return tuple(map(str, range(self.nc)))
        if self.bodies is None or self.ids.dtype.kind not in "iu":
            return tuple(map(str, self.ids.tolist()))
        free = set() if self.dof_body is None else set(self.dof_body.tolist())
        alone = len(free) == 1 and bool(self.body_names)
        pairs = [[k for k in pair if not (alone and k in free)] for pair in self.bodies.tolist()]
        labels = numbered(["–".join(map(self.body, pair)) for pair in pairs])
        return tuple(f"support {text}" if alone and text.isdigit() else text for text in labels)

    def __len__(self) -> int:
        return self.nc

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts)

    def __getitem__(self, k: Any) -> Any:
        return self.texts[k]

    def body(self, k: int) -> str:
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
    """An object of a file; fields missing in an older file have their defaults."""
    return kind(**{name: value for name, value in values.items() if value is not None})


# --- steps -------------------------------------------------------------------------------


class _Declared(Frozen):
    """The attributes that each kind of step implements."""

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
    body_names : (nb,) distinct names of the bodies, by their numbers, or None: of ``origin`` then.
    power : p > 1 of the contact energy, which formulations with elastic contacts take by default.
    dof_body : (nv,) the body of each degree of freedom, or None.
    friction : Friction of the contacts, or None; the frictionless formulations refuse it.
    joints : Joints between the bodies of a ``ContactStep``, or None.
    origin : the scene and the state that the step was made of, or None.
    symmetrised : largest |A − Aᵀ| of the original matrix, N or M, relative to the largest |A|; the
        step has its symmetric part.
    negative : size of the most negative eigenvalue of N of a ``DelassusStep``, relative to its
        norm; 0 up to round-off. Rounded numbers in a file can cause one; N then has no energy.
    N : Delassus matrix of equation (20), Δt B M⁻¹ Bᵀ (nc, nc), m/(s·N).
    p_vec : p of equation (20) (nc,), m/s: the value of each contact's constraint in free motion.
    """

    stiffness: Any = 1.0
    bodies: Any = None
    normals: Any = None
    points: Any = None
    contact_ids: Any = None
    body_names: Any = None
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
        if self.body_names is not None:
            names = checks.labels("body_names", self.body_names, np.size(self.body_names))
            self.__dict__["body_names"] = names
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
        """Labels of the contacts."""
        known = () if self.origin is None else self.origin.names
        if self.body_names is not None:
            known = tuple(map(str, self.body_names.tolist()))
        return ContactNames(self.nc, self.contact_ids, self.bodies, known, self.dof_body)

    @property
    def contact_names(self) -> list[str]:
        """Readable names of the contacts (nc,): their ids, or the names of both bodies.

        Ids of detected contacts are long numbers, so that their names are made from the names or
        numbers of both bodies: "3–7", and for the second contact of the pair "3–7 (2)". A contact
        of the only free body has the name of the other body. Contacts without ids have their number
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
        """Total contact force on every body, also fixed ones.

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
        """Raise an error if some μ is above zero, which ``what`` ("ClassicCD") does not support.

        Raises
        ------
        Unsupported : the step has friction.
        """
        if self.friction is not None and self.friction.acts:
            instead = ("FrictionalCD(step)", "step.without_friction() to ignore it")
            raise Unsupported(what, "the step has friction, which it would leave out", instead)

    def require_no_moments(self, what: str) -> None:
        """Raise an error for torsion and rolling, which ``what`` does not support.

        Raises
        ------
        Unsupported : contacts of the step resist torsion or rolling.
        """
        if self.friction is not None and self.friction.moments:
            why = "contacts resist torsion or rolling, which it would leave out"
            raise Unsupported(what, why, ("FrictionalCD(step)",))

    @property
    def nv(self) -> int:
        """Number of free degrees of freedom; zero of a step known by N and p alone."""
        return 0

    def without_friction(self) -> Self:
        """The step with only its normal rows; the same step if it has no friction."""
        return self if self.friction is None else self.replace(friction=None)

    def without_joints(self) -> Self:
        """The step without its joints; the same step if it has none.

        ``without_friction`` leaves friction out.
        """
        return self if self.joints is None else self.replace(joints=None)

    def replace(self, **changes: Any) -> Self:
        """A copy with some constructor arguments changed, ``changes`` by name, validated again.

        Raises
        ------
        InvalidInput : no such argument, or an invalid value.
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
        """The arguments of the constructor, by name."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.init}

    def __getstate__(self) -> dict[str, Any]:
        """All fields that are not computed on demand."""
        kind = type(self)
        return {
            name: value
            for name, value in self.__dict__.items()
            if not isinstance(getattr(kind, name, None), cached_property)
        }

    # --- files -------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the step exactly to an ``.npz`` file; a file of another kind is not replaced."""
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
        InvalidInput : the file is missing, damaged, or of another kind.
        """
        kinds = {k._KIND: k for k in (Step.__subclasses__() if cls is Step else [cls])}
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
