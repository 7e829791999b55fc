"""Records of a run: frames, contacts of a state, checkpoints, energies and momenta."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cdopt._util import checks, notebook
from cdopt._util.checks import FloatArray, IntArray, read_only
from cdopt._util.errors import Unsupported
from cdopt._util.frozen import Frozen
from cdopt.collision.motion import spins
from cdopt.geometry.polytope import FEATURES
from cdopt.scene import Scene, State

if TYPE_CHECKING:
    import pandas as pd

# (a × b)_k = a_i b_j − a_j b_i: where these are among the entries of a bᵀ − b aᵀ
_CROSSED = {2: np.array([1]), 3: np.array([5, 6, 1])}
_TOGETHER = 64  # states whose totals are computed together
_ACROSS = ("_t", "_r")  # ends of the names of tangential forces and of moments


@dataclass(frozen=True, eq=False)
class Frame(Frozen):
    """One recorded state; arrays are read-only.

    With rigid contacts, the contacts are those at the start of the step that led to this state,
    with the forces of that step; the first frame, the initial state, has none.
    With elastic contacts, they are overlaps and bonds of this state, with their elastic forces.

    Attributes
    ----------
    step : number of steps so far.
    state : State, with t, q and v of all bodies.
    contact_ids : (nc,) numbers that a contact keeps from step to step.
    phi : (nc,) their gaps, m.
    normals : (nc, dim) from the first body to the second. points : (nc, dim) m.
    forces : by name, in N, (nc,): "f" of the method, and "f_classic" of the first problem of
        compatible contact dynamics. With friction (nc, dim) "f_t", tangential forces on the second
        body as vectors; of rigid contacts that resist turns "f_r", moments on the second body in
        N·m, vectors (nc, 3) in space and numbers (nc,) in the plane. Not a number where a failed
        step gave none.
    joint_forces : (nj,) N and N·m, reactions of the scene's joints in the step that led here, by
        its rows (``cdopt.collision.joints``); zero of the initial state.
    """

    step: int
    state: State
    contact_ids: IntArray
    phi: FloatArray
    normals: FloatArray
    points: FloatArray
    forces: Mapping[str, FloatArray]
    joint_forces: FloatArray = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        checks.whole("step", self.step, 0)
        checks.instance("state", self.state, State)
        phi = checks.real("phi", self.phi, "an array of numbers (nc,)", (None,))
        nc, dim = phi.size, self.state.dim
        shapes: dict[str, tuple[int, ...]] = {"contact_ids": (nc,), "phi": (nc,)}
        shapes |= {"normals": (nc, dim), "points": (nc, dim)}
        for name, shape in shapes.items():
            value = checks.real(name, getattr(self, name), f"an array of shape {shape}", shape)
            object.__setattr__(self, name, value)
        for name, f in checks.mapping("forces", self.forces).items():
            shape = shape_of(checks.text("forces", name), nc, dim)
            checks.real(f"forces[{name!r}]", f, f"an array of shape {shape}", shape)
        joints = checks.real("joint_forces", self.joint_forces, "numbers (nj,)", (None,))
        object.__setattr__(self, "joint_forces", joints)
        super().__post_init__()
        for values in self.forces.values():
            read_only(values)

    @property
    def t(self) -> float:
        """Time, s."""
        return self.state.t

    @property
    def q(self) -> FloatArray:
        """Positions (nb, 3 or 7), as in State."""
        return self.state.q

    @property
    def v(self) -> FloatArray:
        """Velocities (nb, 3 or 6), as in State."""
        return self.state.v

    @property
    def nc(self) -> int:
        """Number of contacts."""
        return int(self.phi.size)

    @property
    def bodies(self) -> IntArray:
        """(nc, 2) numbers i < j of the bodies in contact."""
        return np.stack(np.divmod(self.contact_ids // FEATURES, self.state.nb), axis=1)

    @property
    def f(self) -> FloatArray:
        """Contact forces (nc,) of the method, N; with friction the normal ones."""
        return self.forces["f"]

    @property
    def f_t(self) -> FloatArray:
        """Tangential contact forces (nc, dim) on the second body, N; zero without friction."""
        return self.forces.get("f_t", np.zeros_like(self.normals))

    @property
    def f_classic(self) -> FloatArray:
        """Contact forces (nc,) of classic contact dynamics, N: not unique in general."""
        return self.forces.get("f_classic", self.forces["f"])

    @property
    def normal_forces(self) -> dict[str, FloatArray]:
        """Normal forces (nc,) by name, N; zero where a failed step gave none."""
        return {n: np.nan_to_num(f) for n, f in self.forces.items() if not n.endswith(_ACROSS)}

    def contact_vectors(self, name: str = "f") -> FloatArray:
        """Contact forces (nc, dim) on the second bodies, N: along normals, and tangential."""
        chosen = checks.choice("name", name, self.normal_forces)
        vectors = self.forces[chosen][:, None] * self.normals
        return vectors + self.forces.get(f"{name}_t", 0.0)

    def body_forces(self, name: str = "f") -> FloatArray:
        """Total contact force (nb, dim) on every body, N; minus the reactions of fixed bodies."""
        vectors = self.contact_vectors(name)
        total = np.zeros((self.state.nb, self.state.dim))
        for column, sign in ((0, -1.0), (1, 1.0)):
            np.add.at(total, self.bodies[:, column], sign * vectors)
        return total

    def to_frame(self) -> pd.DataFrame:
        """The contacts as a pandas.DataFrame: bodies ``i`` and ``j``, ``gap`` (m), and forces."""
        columns = {"contact": self.contact_ids, "i": self.bodies[:, 0], "j": self.bodies[:, 1]}
        table: dict[str, NDArray[Any]] = {**columns, "gap": self.phi}
        for name, f in self.forces.items():
            each = {name: f} if f.ndim == 1 else {f"{name}.{k}": x for k, x in enumerate(f.T)}
            table |= each
        return notebook.data_frame(table, index="contact")

    def to_pyvista(self, scene: Scene | None = None) -> Any:
        """The frame as a ``pyvista.MultiBlock`` of the points "bodies" and "contacts".

        Bodies have their ``velocity``, m/s, and ``contact_force``, N, and with the ``scene`` also
        ``radius``, m, infinite for half-spaces, and ``fixed``; contacts have ``gap``, m,
        ``normals``, ``bodies`` and the forces by name, N. Points in the plane have z = 0.

        Raises
        ------
        Unsupported : pyvista is not installed.
        InvalidInput : another scene.
        """
        try:
            import pyvista
        except ImportError as error:
            reason = "pyvista is not installed: pip install pyvista"
            raise Unsupported("to_pyvista", reason) from error
        bodies = pyvista.PolyData(in_space(self.state.position))
        bodies["velocity"] = in_space(self.state.velocity)
        bodies["contact_force"] = in_space(self.body_forces(next(iter(self.forces))))
        if scene is not None:
            scene.check_state(self.state, "scene")
            bodies["radius"], bodies["fixed"] = scene.bodies.reach, scene.bodies.fixed
        contacts = pyvista.PolyData()
        if self.nc:
            contacts = pyvista.PolyData(in_space(self.points))
            contacts["gap"], contacts["bodies"] = self.phi, self.bodies
            contacts["normals"] = in_space(self.normals)
            for name, f in self.forces.items():
                contacts[name] = f if f.ndim == 1 else in_space(f)
        return pyvista.MultiBlock({"bodies": bodies, "contacts": contacts})

    def __repr__(self) -> str:
        return f"Frame(step {self.step}, t={self.t:g} s, {self.nc:,} contacts)"


def components(name: str, dim: int) -> int:
    """Components of forces of this name in ``dim`` dimensions; 0 of numbers (nc,)."""
    if name.endswith("_r"):
        return 3 if dim == 3 else 0
    return dim if name.endswith("_t") else 0


def shape_of(name: str, nc: int, dim: int) -> tuple[int, ...]:
    """The shape of forces of this name on nc contacts in ``dim`` dimensions."""
    many = components(name, dim)
    return (nc, many) if many else (nc,)


def largest_forces(forces: Mapping[str, FloatArray]) -> dict[str, float]:
    """The largest of the ``forces`` of a frame, N, by name, without moments."""
    known = {name: f for name, f in forces.items() if not name.endswith("_r")}
    return {name: float(np.nan_to_num(sizes(f)).max(initial=0.0)) for name, f in known.items()}


def sizes(forces: FloatArray) -> FloatArray:
    """Forces (nc,) as they are, and the lengths (nc,) of vectors (nc, dim)."""
    return forces if forces.ndim == 1 else np.linalg.norm(forces, axis=1)


def deepest(phi: FloatArray) -> float:
    """The deepest overlap of gaps (nc,), m."""
    return max(0.0, -float(phi[phi.argmin()])) if phi.size else 0.0


def in_space(points: FloatArray) -> FloatArray:
    """(…, 3) from (…, 2) or (…, 3); points in the plane are at z = 0."""
    return np.pad(points, [(0, 0)] * (points.ndim - 1) + [(0, 3 - points.shape[-1])])


@dataclass(frozen=True, eq=False)
class ContactState(Frozen):
    """Overlaps and bonds of a state; arrays are read-only."""

    contact_ids: IntArray  # (nc,) ascending, as in Contacts
    phi: FloatArray  # (nc,) gaps, m
    normals: FloatArray  # (nc, dim) from the first body to the second
    points: FloatArray  # (nc, dim) m
    forces: FloatArray  # (nc,) elastic forces w′(−Φ), of bonds k_B times the overlap, N
    energy: float  # stored in all of them, and in the springs of friction, J
    tangential: FloatArray | None = None  # (nc, dim) on the second bodies, N, with friction
    energy_t: float = 0.0  # stored in the springs of friction, J

    @property
    def nc(self) -> int:
        """Number of contacts."""
        return int(self.phi.size)


@dataclass(frozen=True)
class Header:
    """Scene and settings of a run; a resumed run must have the same."""

    scene: Scene
    settings: Mapping[str, Any]  # method, dt, backends and so on, as plain values
    forces: tuple[str, ...]  # names of the forces in each frame
    columns: tuple[str, ...]  # names of the diagnostics


@dataclass(frozen=True)
class Checkpoint:
    """The state after ``step`` steps, and the arrays that the next step needs."""

    step: int
    state: State
    memory: Mapping[str, NDArray[Any]]


class MemoryStore:
    """Frames and diagnostics in memory."""

    def __init__(self, header: Header) -> None:
        self.header = header
        self._frames: list[Frame] = []
        self._rows: list[list[float]] = []
        self._bodies = FreeBodies(header.scene)
        self._late: list[tuple[list[float], State]] = []  # rows without totals, and their states
        self._checkpoint = Checkpoint(0, header.scene.initial, {})

    def array(self, name: str) -> NDArray[Any]:
        """An array of all frames: "t", "step", "q", "v", "joint_forces"; or "diagnostics"."""
        if name == "diagnostics":
            self._complete()
            return np.array(self._rows).reshape(len(self._rows), len(self.header.columns))
        return np.array([getattr(frame, name) for frame in self._frames])

    def frame(self, k: int) -> Frame:
        """Frame k ≥ 0."""
        return self._frames[k]

    def add(self, row: list[float], frame: Frame | None = None, state: State | None = None) -> None:
        """Keep the diagnostics of a step and, where it is recorded, its frame.

        With the ``state`` the totals of ``FreeBodies`` are entered into the row, later: those of
        many rows together take little longer than those of one.
        """
        self._rows.append(row)
        if frame is not None:
            self._frames.append(frame)
        if state is not None:
            self._late.append((row, state))
            if len(self._late) == _TOGETHER:
                self._complete()

    def _complete(self) -> None:
        """Enter the totals that rows lack."""
        if self._late:
            at = self.header.columns.index(self._bodies.names[0])
            totals = self._bodies.table([state for _, state in self._late]).tolist()
            for (row, _), values in zip(self._late, totals, strict=True):
                row[at : at + len(values)] = values
            self._late = []

    def commit(self, checkpoint: Checkpoint, final: bool = False) -> None:
        """Keep the checkpoint, in memory only."""
        self._checkpoint = checkpoint

    def checkpoint(self) -> Checkpoint:
        """The last one that was committed."""
        return self._checkpoint


# --- energies and momenta ------------------------------------------------------------------


class FreeBodies:
    """The free bodies of a scene, of masses ``mass`` (n,), kg."""

    def __init__(self, scene: Scene) -> None:
        self.scene, self.index = scene, np.flatnonzero(~scene.bodies.fixed)
        self.mass = read_only(scene.bodies.mass[self.index])
        inertia = scene.bodies.inertia[self.index]
        self.inertia = inertia[:, None] if scene.dim == 2 else inertia
        self.uneven = np.flatnonzero((self.inertia != self.inertia[:, :1]).any(axis=1))
        momentum = [f"momentum.{axis}" for axis in "xyz"[: scene.dim]]
        turning = [f"angular_momentum.{axis}" for axis in ("z" if scene.dim == 2 else "xyz")]
        self.names = ("kinetic", "potential", *momentum, *turning)

    def motion(
        self, q: FloatArray, v: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Positions, velocities, turning and angular momenta (frames, n, ...) of q and v."""
        dim, uneven = self.scene.dim, self.uneven
        q, v = q.take(self.index, axis=1), v.take(self.index, axis=1)  # sums depend on strides
        w = v[:, :, dim:]
        spin = self.inertia * w
        if uneven.size:
            frames = q.shape[0]
            body = np.tile(self.index[uneven], frames)
            turn, omega = q[:, uneven, 3:].reshape(-1, 4), w[:, uneven].reshape(-1, 3)
            spin[:, uneven] = spins(self.scene.bodies, body, turn, omega).reshape(frames, -1, 3)
        return q[:, :, :dim], v[:, :, :dim], w, spin

    def table(self, states: Sequence[State]) -> FloatArray:
        """(frames, n) kinetic and potential energy, J, momentum and angular momentum: ``names``."""
        q, v = np.array([state.q for state in states]), np.array([state.v for state in states])
        x, v, w, spin = self.motion(q, v)
        turns = np.vecdot(spin.reshape(len(q), -1), w.reshape(len(q), -1))
        kinetic = 0.5 * (np.vecdot(np.vecdot(v, v), self.mass) + turns)
        potential = -np.vecdot(self.mass @ x, self.scene.gravity)
        turning = angular_momentum(self.mass, x, v, spin)
        return np.column_stack([kinetic, potential, self.mass @ v, turning])

    def totals(self, state: State) -> dict[str, float]:
        """The ``table`` of a state, by name."""
        return dict(zip(self.names, self.table([state])[0].tolist(), strict=True))


def angular_momentum(
    mass: FloatArray, x: FloatArray, v: FloatArray, spin: FloatArray
) -> FloatArray:
    """(frames, 1 or 3) Σ x × m v + J w about the origin."""
    moments = np.swapaxes(x, 1, 2) @ (mass[:, None] * v)
    turned = (moments - np.swapaxes(moments, 1, 2)).reshape(len(moments), -1)
    return np.asarray(turned[:, _CROSSED[x.shape[2]]] + spin.sum(axis=1))
