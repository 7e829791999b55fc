"""Energies, momenta and statistics of bodies in motion, measures of contacts, summaries of runs.

Energies and momenta are computed from a Motion, the arrays of bodies in time, made from a
Trajectory or from the output of another code. ``measures`` and ``contact_lifetimes`` need the
contacts of a Trajectory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cdopt._util import checks, notebook
from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt._util.errors import InvalidInput
from cdopt._util.frozen import Frozen
from cdopt.dynamics.measures import Measures, enclosure
from cdopt.dynamics.records import FreeBodies, largest_forces
from cdopt.dynamics.records import angular_momentum as _angular_momentum
from cdopt.dynamics.trajectory import Trajectory

if TYPE_CHECKING:
    import pandas as pd

_STILL = 1e-9  # of the approach: bodies that part no faster stay together
_AT_REST = 1e-6  # share of a kinetic energy that counts as none


@dataclass(frozen=True, eq=False)
class Motion:
    """Free bodies in time; arrays are read-only.

    Attributes
    ----------
    t : (frames,) s.
    x, v : (frames, n, dim) positions of the centres, m, and velocities, m/s.
    w : (frames, n, 1 or 3) angular velocities in the global frame, rad/s.
    mass : (n,) kg.
    spin : (frames, n, 1 or 3) angular momenta J w about the centres, N m s.

    Raises
    ------
    InvalidInput : arrays that do not fit together, or numbers that are not finite.
    """

    t: FloatArray
    x: FloatArray
    v: FloatArray
    w: FloatArray
    mass: FloatArray
    spin: FloatArray

    __setstate__ = Frozen.__setstate__  # arrays of copies are read-only too

    def __post_init__(self) -> None:
        expected = "an array of shape (frames, bodies, 2 or 3)"
        shape = checks.real("x", self.x, expected, (None, None, None)).shape
        if shape[2] not in (2, 3) or 0 in shape:
            raise InvalidInput("x", f"an array of shape {shape}", expected)
        turning = (*shape[:2], 3 if shape[2] == 3 else 1)
        shapes = {"t": shape[:1], "x": shape, "v": shape, "w": turning}
        shapes |= {"mass": shape[1:2], "spin": turning}
        for name, size in shapes.items():
            object.__setattr__(self, name, checks.numbers(name, getattr(self, name), size))

    @classmethod
    def of(cls, run: Trajectory | Motion) -> Motion:
        """The free bodies of a trajectory, in all its frames."""
        if isinstance(run, Motion):
            return run
        checks.instance("run", run, Trajectory, Motion)
        bodies = FreeBodies(run.scene)
        x, v, w, spin = bodies.motion(run.q, run.v)
        return cls(run.t, x, v, w, bodies.mass, spin)

    @classmethod
    def of_spheres(cls, t: Any, x: Any, v: Any, w: Any, mass: Any, radius: Any) -> Motion:
        """Homogeneous spheres in space, of masses (n,) kg and radii (n,) m: J = (2/5) m R².

        Raises
        ------
        InvalidInput : arrays that do not fit together.
        """
        heavy = checks.vector("mass", mass, None, "kg")
        inertia = 0.4 * heavy * checks.vector("radius", radius, heavy.size, "m") ** 2
        turning = checks.numbers("w", w, (None, heavy.size, 3), "rad/s")
        return cls(t, x, v, turning, heavy, inertia[:, None] * turning)


History = Trajectory | Motion


def translational_energy(run: History) -> FloatArray:
    """(frames,) ½ Σ m |v|² of the free bodies, J."""
    motion = Motion.of(run)
    return np.asarray(0.5 * np.einsum("n,fni,fni->f", motion.mass, motion.v, motion.v))


def rotational_energy(run: History) -> FloatArray:
    """(frames,) ½ Σ w · J w of the free bodies, J."""
    motion = Motion.of(run)
    return np.asarray(0.5 * np.einsum("fni,fni->f", motion.w, motion.spin))


def kinetic_energy(run: History) -> FloatArray:
    """(frames,) ½ Σ m |v|² + ½ Σ w · J w of the free bodies, J."""
    motion = Motion.of(run)
    return translational_energy(motion) + rotational_energy(motion)


def momentum(run: History) -> FloatArray:
    """(frames, dim) Σ m v of the free bodies, N s."""
    motion = Motion.of(run)
    return np.asarray(np.einsum("n,fni->fi", motion.mass, motion.v))


def angular_momentum(run: History) -> FloatArray:
    """(frames, 1 or 3) Σ x × m v + J w of the free bodies about the origin, N m s."""
    motion = Motion.of(run)
    return _angular_momentum(motion.mass, motion.x, motion.v, motion.spin)


def total_energy(run: Trajectory) -> FloatArray:
    """(frames,) kinetic, potential and, of elastic contacts, elastic energy, J."""
    known, step = checks.instance("run", run, Trajectory).diagnostics, run.steps
    rows = np.searchsorted(known["step"], step)
    parts = [known[name] for name in ("kinetic", "potential", "elastic") if name in known]
    return np.asarray(np.sum(parts, axis=0)[rows])


def restitution(run: History, pair: tuple[int, int] = (0, 1)) -> float:
    """Coefficient of restitution of a collision of two bodies.

    The normal speed at which they part in the last frame over that at which they meet in the
    first. The normal is the line of centres where they are closest, between the two frames around
    that moment; an undamped collision is symmetric about it, so that e = 1 at any offset.

    Parameters
    ----------
    run : from before the collision to after it; its frames resolve the contact.
    pair : numbers of the two bodies among the free ones.

    Raises
    ------
    InvalidInput : no such bodies, or they do not meet and part.
    """
    motion = Motion.of(run)
    n = motion.mass.size
    i, j = (int(k) for k in checks.integers("pair", pair, (2,), at_least=0))
    if i == j or max(i, j) >= n:
        raise InvalidInput("pair", f"({i}, {j})", f"two of {n:,} free bodies")
    arm, relative = motion.x[:, j] - motion.x[:, i], motion.v[:, j] - motion.v[:, i]
    closing = np.einsum("fi,fi->f", arm, relative)
    still = _STILL * abs(float(closing[0]))
    if not (closing[0] < 0.0 and closing[-1] >= -still):
        found = f"d|r|²/dt of {2 * closing[0]:.3g} at first and {2 * closing[-1]:.3g} m²/s at last"
        raise InvalidInput("run", found, "bodies that collide during the run")
    after = int(np.argmax(closing >= -still))
    share = closing[after - 1] / (closing[after - 1] - max(float(closing[after]), 0.0))
    normal = (1.0 - share) * arm[after - 1] + share * arm[after]
    before, later = (float(relative[frame] @ normal) for frame in (0, -1))
    return -later / before


def mean_kinetic_energy(run: History) -> FloatArray:
    """(frames,) kinetic energy per free body, translation and rotation, J.

    De Klerk et al. (2021), equation (35).
    """
    motion = Motion.of(run)
    return kinetic_energy(motion) / motion.mass.size


def velocity_fluctuation(run: History) -> FloatArray:
    """(frames,) mean square deviation of velocities from their mean, per axis, m²/s².

    (1/dim) Σ |v − v̄|² / n, with v̄ the mean over all free bodies: a granular temperature
    without rotation. De Klerk et al. (2021), equation (36).
    """
    off = Motion.of(run).v
    off = off - off.mean(axis=1, keepdims=True)
    return np.asarray((off**2).mean(axis=(1, 2)))


def centre_of_mass(run: History) -> FloatArray:
    """(frames, dim) Σ m x / Σ m of the free bodies, m."""
    motion = Motion.of(run)
    return np.asarray(np.einsum("n,fni->fi", motion.mass, motion.x) / motion.mass.sum())


def kinetic_stress(run: History, volume: float | None = None) -> FloatArray:
    """(frames, dim, dim) stress of momentum, Σ m v′ ⊗ v′ / V, Pa, compression positive.

    v′ is the velocity of a free body less that of the centre of mass. With the stress of the
    contacts (``measures``) it is the whole stress of moving grains; of an ideal gas it is
    the pressure. It does not include spins.

    Parameters
    ----------
    volume : V, m³ (m² in the plane); default that around the bodies of each frame.

    Raises
    ------
    InvalidInput : no volume for a Motion, which has no sizes.

    Notes
    -----
    Goldhirsch, Granular Matter 12, 239 (2010), equation (13).
    """
    motion, mass = Motion.of(run), Motion.of(run).mass
    if volume is not None:
        size = np.full(motion.t.size, checks.positive("volume", volume))
    elif isinstance(run, Trajectory):
        size = _volumes(run)
    else:
        raise InvalidInput("run", "a Motion without a volume", "a Trajectory, or a volume in m³")
    drift = momentum(motion)[:, None] / mass.sum()
    off = motion.v - drift
    return np.asarray(np.einsum("n,fni,fnj->fij", mass, off, off) / size[:, None, None])


def _volumes(run: Trajectory) -> FloatArray:
    """(frames,) of the boxes around the bodies, m³ (m² in the plane)."""
    scene, free = run.scene, ~run.scene.bodies.fixed
    reach, sizes = scene.bodies.reach[free], []
    for t, q in zip(run.t, run.q, strict=True):
        box = None if scene.box is None else scene.box.at(float(t))
        lower, upper = enclosure(q[free, : scene.dim], reach, box)
        sizes.append(float(np.prod(upper - lower)))
    return np.array(sizes)


@dataclass(frozen=True, eq=False)
class RunMeasures(Frozen):
    """Measures of the contacts of a run, frame by frame; arrays are read-only.

    Attributes
    ----------
    t : (frames,) s.
    contacts : (frames,) contacts that carry a force, and
    rattlers : (frames,) free bodies with too few of them.
    coordination, coordination_without_rattlers : (frames,) neighbours per free body.
    mean_force, largest_force : (frames,) normal forces, N.
    mobilised : (frames,) mean of ‖f_T‖/(μ f_n), not a number without friction.
    stress : (frames, dim, dim) of the contacts, Pa, compression positive, and
    kinetic_stress : the same of momentum: the stress of moving grains is their sum.
    fabric : (frames, dim, dim).
    """

    t: FloatArray
    contacts: FloatArray
    rattlers: FloatArray
    coordination: FloatArray
    coordination_without_rattlers: FloatArray
    mean_force: FloatArray
    largest_force: FloatArray
    mobilised: FloatArray
    stress: FloatArray
    kinetic_stress: FloatArray
    fabric: FloatArray

    def to_frame(self) -> pd.DataFrame:
        """A row for each frame as a pandas.DataFrame, with the components of tensors as columns."""
        columns = dict(self.__dict__)
        for name in ("stress", "kinetic_stress", "fabric"):
            tensors, axes = columns.pop(name), "xyz"[: self.stress.shape[1]]
            columns |= {
                f"{name}.{a}{b}": tensors[:, i, j]
                for i, a in enumerate(axes)
                for j, b in enumerate(axes)
            }
        return notebook.data_frame(columns, index="t")


def measures(run: Trajectory, volume: float | None = None) -> RunMeasures:
    """Stress, fabric, coordination and forces of every frame of a run.

    The first frame of rigid contacts has none. If a failed step left forces unknown, all are
    not-a-number.

    Parameters
    ----------
    volume : of the stress, as in ``Measures.stress``; default that around the bodies of each frame.
    """
    checks.instance("run", run, Trajectory)
    if volume is not None:
        volume = checks.positive("volume", volume)
    scene, rows, unknown = run.scene, [], np.full(2 * (run.scene.dim,), np.nan)
    for frame in run:
        if np.isfinite(frame.f).all():
            measured = Measures.of_frame(scene, frame, friction=run.friction)
            rows.append(measured.summary(volume))
        else:
            rows.append(dict.fromkeys(rows[0], np.nan) | {"stress": unknown, "fabric": unknown})
    columns = {name: np.array([row[name] for row in rows], dtype=float) for name in rows[0]}
    kinetic = kinetic_stress(run, volume)
    return RunMeasures(t=np.array(run.t), kinetic_stress=kinetic, **columns)


@dataclass(frozen=True, eq=False)
class ContactLifetimes(Frozen):
    """From when to when contacts carried a force; arrays are read-only.

    Attributes
    ----------
    bodies : (n, 2) numbers of the two bodies; a contact that opens and closes has several rows.
    begin, end : (n,) times of the first and of the last frame of each, s.
    cut : (n,) lives that the start or the end of the run truncates.
    """

    bodies: IntArray
    begin: FloatArray
    end: FloatArray
    cut: BoolArray

    @property
    def duration(self) -> FloatArray:
        """(n,) s, from the first frame to the last one; 0 where it was in one frame only."""
        return self.end - self.begin

    def to_frame(self) -> pd.DataFrame:
        """A row for each life as a pandas.DataFrame."""
        columns: dict[str, Any] = {"i": self.bodies[:, 0], "j": self.bodies[:, 1]}
        columns |= {"begin": self.begin, "end": self.end, "duration": self.duration}
        columns |= {"cut": self.cut}
        return notebook.data_frame(columns)


def contact_lifetimes(run: Trajectory) -> ContactLifetimes:
    """How long pairs of bodies press on each other without a break, by the frames of a run.

    Times are resolved to the interval between frames; record every step (``every=1``) for those of
    the steps.
    """
    nb, times = checks.instance("run", run, Trajectory).scene.nb, run.t
    alive: dict[int, float] = {}  # beginnings, by the number of the pair
    lives: list[tuple[float, float, float]] = []
    before = float(times[0])
    for k, frame in enumerate(run):
        carrying = np.nan_to_num(frame.f) > 0.0
        pairs = set((frame.bodies[carrying] @ [nb, 1]).tolist())
        lives += [(pair, alive.pop(pair), before) for pair in set(alive) - pairs]
        for pair in pairs.difference(alive):
            alive[pair] = frame.t
        before = float(times[k])
    lives += [(pair, begin, before) for pair, begin in alive.items()]
    numbers, begin, end = np.array(sorted(lives)).reshape(-1, 3).T
    first = float(times[min(1, len(times) - 1)]) if len(run) and not run[0].nc else float(times[0])
    return ContactLifetimes(
        bodies=np.stack(np.divmod(numbers.astype(np.int64), nb), axis=1),
        begin=begin,
        end=end,
        cut=(begin <= first) | (end >= times[-1]),
    )


@dataclass(frozen=True)
class RunSummary:
    """Summary of a run.

    Attributes
    ----------
    t : s, the end. steps, frames, not_ok : counts; the last of steps that are not certified.
    split, parts : with friction, number of steps that were split because they had no certified
        answer, and the largest number of parts; else 0 and 1.
    residual : the worst of all certificates, of stage ``residual_of`` in step ``residual_at``.
    overlap, overlap_final : m, the deepest of all steps and that of the last one.
    kinetic, kinetic_peak : J, at the end, and the largest.
    at_rest : whether the final kinetic energy is below a millionth of the largest, or of the gain
        in a free fall of one step.
    dissipated, work, balance : J, energy lost in damping, external work, and the largest
        error of the energy balance (``Diagnostics``); not a number if a method has none.
    coordination, rattlers : neighbours per free body in the last frame, and bodies that too few
        hold (``Measures.coordination``); not a number and −1 where its step failed.
    largest : N, largest force of the last frame, by name of the force.
    reaction : N, the force on fixed bodies along gravity.
    weight, load : N, the weight of free bodies, and their constant loads along gravity.
    seconds : time by stage.
    """

    t: float
    steps: int
    frames: int
    not_ok: int
    split: int
    parts: int
    residual: float
    residual_of: str
    residual_at: int
    overlap: float
    overlap_final: float
    kinetic: float
    kinetic_peak: float
    at_rest: bool
    dissipated: float
    work: float
    balance: float
    coordination: float
    rattlers: int
    largest: dict[str, float]
    reaction: float
    weight: float
    load: float
    seconds: dict[str, float]

    @classmethod
    def of(cls, run: Trajectory) -> RunSummary:
        """The summary of a run."""
        checks.instance("run", run, Trajectory)
        table, final, bodies = run.diagnostics, run.final, run.scene.bodies
        residual, residual_of, row = 0.0, "", 0
        if table.stages:
            size = np.array([table[f"residual_{name}"] for name in table.stages])
            size = np.where(np.isnan(size), np.inf, size)
            stage, row = map(int, np.unravel_index(size.argmax(), size.shape))
            residual, residual_of = float(size[stage, row]), table.stages[stage]
        overlap = table["overlap"][np.isfinite(table["overlap"])]
        free, gravity = ~bodies.fixed, float(np.linalg.norm(run.scene.gravity))
        weight, reaction, load = gravity * float(bodies.mass[free].sum()), np.nan, 0.0
        if gravity:
            down = run.scene.gravity / gravity
            reaction = float(final.body_forces()[~free].sum(axis=0) @ down)
            load = float(bodies.force[free].sum(axis=0) @ down)
        substeps = table["substeps"] if "substeps" in table else np.ones(1)
        kinetic, peak = float(table["kinetic"][-1]), float(np.nanmax(table["kinetic"]))
        of_a_step = 0.5 * weight * gravity * run.dt**2
        coordination, rattlers = np.nan, -1
        if np.isfinite(final.f).all():
            neighbours = Measures.of_frame(run.scene, final, friction=run.friction).coordination()
            coordination, rattlers = neighbours.mean, len(neighbours.rattlers)
        balanced = "balance" in table
        return cls(
            t=float(table["time"][-1]),
            steps=int(table["step"][-1]),
            frames=len(run),
            not_ok=int(np.count_nonzero(~table["ok"])),
            split=int(np.count_nonzero(substeps > 1)),
            parts=int(substeps.max(initial=1)),
            residual=residual,
            residual_of=residual_of,
            residual_at=int(table["step"][row]),
            overlap=float(overlap.max(initial=0.0)),
            overlap_final=float(overlap[-1]) if overlap.size else np.nan,
            kinetic=kinetic,
            kinetic_peak=peak,
            at_rest=kinetic <= _AT_REST * peak or kinetic < _AT_REST * of_a_step,
            dissipated=float(table["dissipated"][-1]) if balanced else np.nan,
            work=float(table["work"][-1]) if balanced else np.nan,
            balance=float(np.abs(table["balance"]).max()) if balanced else np.nan,
            coordination=coordination,
            rattlers=rattlers,
            largest=largest_forces(final.forces),
            reaction=reaction,
            weight=weight,
            load=load,
            seconds={
                name.removeprefix("seconds_"): float(table[name].sum())
                for name in table
                if name.startswith("seconds_")
            },
        )
