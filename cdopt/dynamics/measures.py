"""Measures of grains in contact: stress, fabric, coordination, distributions.

Compression is positive, and forces act on the second body of a contact. Discs are 1 m deep, so
that a stress in the plane is in Pa too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from cdopt._util import checks, notebook
from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt._util.errors import InvalidInput, Unsupported
from cdopt._util.frozen import Frozen
from cdopt.dynamics.equilibrium import Equilibrium
from cdopt.dynamics.records import Frame
from cdopt.geometry.periodic import PeriodicBox
from cdopt.problem.contact_step import ContactStep
from cdopt.problem.solution import StepSolution
from cdopt.problem.step import Step
from cdopt.scene import Scene, State, placed

if TYPE_CHECKING:
    import pandas as pd

_MOST_BINS = 10**6
COMPONENTS = ("normal", "tangential")
CARRIES = 1e-6  # share of the mean force from which on a contact counts as carrying


class Coordination(NamedTuple):
    """Neighbours of free bodies that press on them, including fixed ones.

    Attributes
    ----------
    mean : neighbours per free body.
    without_rattlers : the same among the bodies that are no rattlers; not a number if all are.
    rattlers : (n,) numbers of free bodies with too few neighbours to be supported.
    neighbours : (nb,) of every body; 0 for fixed ones.
    """

    mean: float
    without_rattlers: float
    rattlers: IntArray
    neighbours: IntArray


class Distribution(NamedTuple):
    """A histogram: ``edges`` (n + 1,) and the ``density`` (n,) between them."""

    edges: FloatArray
    density: FloatArray

    def to_frame(self) -> pd.DataFrame:
        """A row for each bin as a pandas.DataFrame."""
        columns = {"from": self.edges[:-1], "to": self.edges[1:], "density": self.density}
        return notebook.data_frame(columns)


@dataclass(frozen=True, eq=False)
class Measures(Frozen):
    """Bodies in contact at one instant, with the forces between them; arrays are read-only.

    ``measures`` makes it of a step, ``Measures.of_frame`` of a frame of a run.

    Attributes
    ----------
    x : (nb, dim) centres, m. reach : (nb,) radii of bounding spheres, m.
    free : (nb,) bodies that move.
    bodies : (nc, 2) body numbers i, j; −1 is the fixed world.
    normals : (nc, dim) from i to j. points : (nc, dim) m.
    vectors : (nc, dim) forces on body j, N.
    mu : (nc,) friction coefficients, or None.
    loaded : whether gravity or another load acts on free bodies.
    box : the PeriodicBox at that instant, or None.

    Raises
    ------
    InvalidInput : arrays that do not fit together, or numbers that are not finite.
    """

    x: FloatArray
    reach: FloatArray
    free: BoolArray
    bodies: IntArray
    normals: FloatArray
    points: FloatArray
    vectors: FloatArray
    mu: FloatArray | None = None
    loaded: bool = False
    box: PeriodicBox | None = None

    def __post_init__(self) -> None:
        nb = len(checks.real("x", self.x, "centres (bodies, 2 or 3)", (None, None)))
        nc = len(checks.real("bodies", self.bodies, "pairs (contacts, 2)", (None, 2)))
        x = checks.table("x", self.x, nb)
        dim = x.shape[1]
        fields = {
            "x": x,
            "reach": np.array(checks.real("reach", self.reach, f"{nb} radii", (nb,)), float),
            "bodies": checks.integers("bodies", self.bodies, (nc, 2), at_least=-1, below=nb),
        }
        for name in ("normals", "points", "vectors"):
            fields[name] = checks.numbers(name, getattr(self, name), (nc, dim))
        if self.mu is not None:
            fields["mu"] = checks.per_contact("mu", self.mu, nc, at_least=0.0)
        fields["free"] = checks.flags("free", self.free, (nb,))
        object.__setattr__(self, "loaded", checks.flag("loaded", self.loaded))
        if self.box is not None:
            checks.instance("box", self.box, PeriodicBox)
        for name, value in fields.items():
            object.__setattr__(self, name, value)
        super().__post_init__()

    @classmethod
    def of_frame(
        cls, scene: Scene, frame: Frame, name: str = "f", friction: float | None = None
    ) -> Measures:
        """Measures of a ``frame`` of a run of the ``scene``; ``name`` is that of its normal forces.

        ``friction`` is the coefficient μ of a run if it differs from the scene's, such as
        ``run.friction``. Without any, all but ``mobilised`` is known.

        Raises
        ------
        InvalidInput : another scene, no such forces, or forces that a failed step left unknown.
        """
        checks.instance("scene", scene, Scene)
        vectors = checks.instance("frame", frame, Frame).contact_vectors(name)
        if friction is not None:
            friction = checks.not_negative("friction", friction)
        if not np.isfinite(vectors).all():
            raise InvalidInput("frame", "a failed step without forces", "a step with forces")
        mu: FloatArray | None = None
        if "f_t" in frame.forces:
            if friction is not None:
                mu = np.full(frame.nc, friction)
            elif scene.has_friction:
                mu = scene.contact_friction(frame.bodies)
        bodies, normals, points = frame.bodies, frame.normals, frame.points
        return cls._placed(scene, frame.state, bodies, normals, points, vectors, mu)

    @classmethod
    def of_rest(cls, scene: Scene, rest: Equilibrium) -> Measures:
        """Measures of an equilibrium ``rest`` of the ``scene``."""
        checks.instance("scene", scene, Scene)
        c = checks.instance("rest", rest, Equilibrium).contacts
        vectors = rest.forces[:, None] * c.normals
        return cls._placed(scene, rest.state, c.bodies, c.normals, c.points, vectors, None)

    @classmethod
    def _placed(
        cls,
        scene: Scene,
        state: State,
        bodies: IntArray,
        normals: FloatArray,
        points: FloatArray,
        vectors: FloatArray,
        mu: FloatArray | None,
    ) -> Measures:
        """Measures of the contacts of a scene in a state."""
        b = scene.bodies
        loaded = bool(np.any(scene.gravity) or np.any(b.force[~b.fixed]))
        x, reach = scene.check_state(state).position, b.reach
        box = None if scene.box is None else scene.box.at(state.t)
        return cls(x, reach, ~b.fixed, bodies, normals, points, vectors, mu, loaded, box)

    # --- forces of the contacts --------------------------------------------------------

    @property
    def dim(self) -> int:
        """2 in the plane, 3 in space."""
        return int(self.x.shape[1])

    @property
    def f(self) -> FloatArray:
        """(nc,) normal forces, N."""
        return np.asarray((self.vectors * self.normals).sum(axis=1))

    @property
    def f_t(self) -> FloatArray:
        """(nc,) sizes of the tangential forces, N."""
        sliding = self.vectors - self.f[:, None] * self.normals
        return np.asarray(np.linalg.norm(sliding, axis=1))

    @property
    def carrying(self) -> BoolArray:
        """(nc,) contacts with a force above a millionth of the mean of all forces."""
        size = np.linalg.norm(self.vectors, axis=1)
        return np.asarray(size > CARRIES * (size.mean() if size.size else 0.0))

    @property
    def mobilised(self) -> FloatArray:
        """(nc,) mobilised friction ‖f_T‖/(μ f_n); not a number where μ f_n is zero.

        Raises
        ------
        InvalidInput : contacts whose friction is not known.
        """
        if self.mu is None:
            expected = "a step or scene with friction, or friction= of the run"
            raise InvalidInput("mu", "no friction coefficients", expected)
        full = np.where(self.carrying, self.mu * self.f, 0.0)
        return np.asarray(np.where(full > 0.0, self.f_t / np.where(full > 0.0, full, 1.0), np.nan))

    def force_distribution(self, bins: int = 20, component: str = "normal") -> Distribution:
        """P(f/⟨f⟩) over the contacts that carry a force, with integral one, in ``bins`` bins.

        ``component`` is "normal" or "tangential".

        Raises
        ------
        InvalidInput : no contact carries a force.
        """
        bins = checks.count("bins", bins, _MOST_BINS)
        checks.choice("component", component, COMPONENTS)
        forces = (self.f if component == "normal" else self.f_t)[self.carrying]
        if not forces.size or not forces.mean() > 0.0:
            raise InvalidInput("component", f"no {component} forces", "contacts that carry some")
        density, edges = np.histogram(forces / forces.mean(), bins, density=True)
        return Distribution(edges, density)

    # --- stress and fabric -------------------------------------------------------------

    @property
    def enclosure(self) -> FloatArray:
        """(2, dim) lower and upper corner of the box around the bounding spheres of free bodies.

        Along the axes of a periodic box from 0 to the length of the cell.
        """
        return enclosure(self.x[self.free], self.reach[self.free], self.box)

    def stress(self, region: Any = None, volume: float | None = None) -> FloatArray:
        """Mean stress (dim, dim), Pa, compression positive.

        The formula of Love and Weber, σ = (1/V) Σ l ⊗ f over the contacts, f the force on body j
        and l the branch from the centre of body i over the contact point to that of body j, with a
        fixed body from the contact point. For bodies at rest without gravity it is the mean stress
        that the walls impose, Σ x ⊗ t over their tractions t. Weber, Bull. Liaison Ponts Chaussées
        20 (1966); Goldhirsch, Granular Matter 12, 239 (2010), a box coarse-graining.

        Parameters
        ----------
        region : (2, dim) lower and upper corner of a box, m. Each branch then counts by the share
            of its length inside, so that parts of a volume add up to the whole.
        volume : V, m³ (m² in the plane); default that of the region, or of ``enclosure``.

        Raises
        ------
        InvalidInput : a region without volume, or a bad argument.
        Unsupported : a region of a periodic box.
        """
        if region is not None and self.box is not None:
            raise Unsupported("the stress of a region", "the scene is in a periodic box")
        corners = self.enclosure if region is None else self._corners(region)
        size = float(np.prod(corners[1] - corners[0]))
        if volume is not None:
            size = checks.positive("volume", volume)
        total = np.zeros((self.dim, self.dim))
        for ends, arms, sign in self._branches():
            force = self.vectors[ends]
            start = self.points[ends] - arms
            share = 1.0 if region is None else _share_inside(start, arms, corners)[:, None]
            total -= sign * (share * arms).T @ force
        return total / checks.scalar("volume", size, above=0.0)

    def pressure(self, region: Any = None, volume: float | None = None) -> float:
        """A dim-th of the trace of ``stress``, Pa, with the same ``region`` and ``volume``."""
        return float(np.trace(self.stress(region, volume))) / self.dim

    def fabric(self) -> FloatArray:
        """(dim, dim) mean of n ⊗ n over the contacts that carry a force; its trace is one.

        Not a number where none does. Satake (1982).
        """
        n = self.normals[self.carrying]
        return n.T @ n / len(n) if len(n) else np.full((self.dim, self.dim), np.nan)

    def _branches(self) -> list[tuple[IntArray, FloatArray, float]]:
        """For either side: contacts whose body is free, arms from its centre, sign of its force."""
        parts = []
        for side, sign in ((0, -1.0), (1, 1.0)):
            body = self.bodies[:, side]
            k = np.flatnonzero((body >= 0) & self.free[body])
            arms = self.points[k] - self.x[body[k]]
            parts.append((k, arms if self.box is None else self.box.nearest(arms), sign))
        return parts

    def _corners(self, region: Any) -> FloatArray:
        """(2, dim) of a region that has a volume."""
        corners = checks.numbers("region", region, (2, self.dim), "m")
        if not (corners[1] > corners[0]).all():
            raise InvalidInput("region", "an upper corner not above the lower one", "a volume")
        return corners

    # --- neighbours --------------------------------------------------------------------

    def coordination(self, least: int | None = None) -> Coordination:
        """Neighbours that press on free bodies, with and without rattlers.

        Several contact points of two bodies count as one neighbour; walls count too.

        Parameters
        ----------
        least : a body with fewer neighbours is a rattler; bodies are counted again without the
            rattlers, until none is left. Default 1 where gravity or another load acts, which one
            contact can balance; else 2 with friction and dim + 1 without.
        """
        if least is None:
            without = 2 if self.mu is not None and self.mu.any() else self.dim + 1
            least = 1 if self.loaded else without
        least = checks.whole("least", least, 0)
        pairs = np.unique(np.sort(self.bodies[self.carrying], axis=1), axis=0)
        supported = self.free.copy()
        first = self._neighbours(pairs, self.free)
        count = first
        while (loose := supported & (count < least)).any():
            supported &= ~loose
            count = self._neighbours(pairs, supported)
        free, many = int(self.free.sum()), int(supported.sum())
        return Coordination(
            mean=float(first.sum()) / max(free, 1),
            without_rattlers=float(count[supported].sum()) / many if many else np.nan,
            rattlers=np.flatnonzero(self.free & ~supported),
            neighbours=first,
        )

    def _neighbours(self, pairs: IntArray, supported: BoolArray) -> IntArray:
        """(nb,) neighbours of bodies that are supported, among these and the fixed ones."""
        there = np.append(supported | ~self.free, True)  # the last is the world
        pairs = pairs[there[pairs].all(axis=1)]
        count = np.bincount(pairs[pairs >= 0], minlength=len(self.free))
        return np.where(supported, count, 0)

    def radial_distribution(
        self, reach: float | None = None, bins: int = 50, region: Any = None
    ) -> Distribution:
        """g(r) of the centres of free bodies, r in m; one for points placed at random.

        Ohser & Stoyan, Biometrical Journal 23, 523 (1981), with the set covariance of the box.

        Parameters
        ----------
        reach : largest r, m; default a third of the region's shortest side, and at most that side;
            in a periodic box at most half the cell.
        bins : number of bins.
        region : (2, dim) corners of the box whose centres count, m; default around all centres.
            Pairs are weighted for the part of their neighbourhood that lies outside.

        Raises
        ------
        InvalidInput : fewer than two centres, a region without volume, or a reach out of range.
        Unsupported : a box of which only some axes repeat.
        """
        x, box, bins = self.x[self.free], self.box, checks.count("bins", bins, _MOST_BINS)
        if box is None:
            corners = np.array([x.min(axis=0), x.max(axis=0)]) if region is None else region
            corners = self._corners(corners)
            x = x[((x >= corners[0]) & (x <= corners[1])).all(axis=1)]
            sides, most = corners[1] - corners[0], 1.0
        elif box.repeats.all():
            sides, most = box.size, 0.499
        else:
            raise Unsupported("radial_distribution", "only some axes of the box repeat")
        if len(x) < 2:
            raise InvalidInput("region", f"{len(x)} centres", "at least two free bodies")
        shortest = float(sides.min())
        furthest = shortest / 3.0 if reach is None else reach
        far = checks.scalar("reach", furthest, above=0.0, at_most=most * shortest)
        edges = np.linspace(0.0, far, bins + 1)
        images = x if box is None else box.copies(x, far)[0]  # the points themselves first
        everywhere, inside = cKDTree(images), cKDTree(images[: len(x)])
        counted = np.diff(inside.count_neighbors(everywhere, edges)) / 2.0  # from both ends
        share = _random_pairs(sides, edges, box is not None)
        expected = np.diff(share) * len(x) * (len(x) - 1) / 2.0
        return Distribution(edges, counted / expected)

    # --- tables ------------------------------------------------------------------------

    def to_frame(self) -> pd.DataFrame:
        """A row for each contact as a pandas.DataFrame: bodies, point, normal and forces, N."""
        axes = "xyz"[: self.dim]
        columns: dict[str, Any] = {"i": self.bodies[:, 0], "j": self.bodies[:, 1]}
        for name, table in (("point", self.points), ("normal", self.normals)):
            columns |= {f"{name}.{axis}": table[:, k] for k, axis in enumerate(axes)}
        columns |= {"f": self.f, "f_t": self.f_t}
        if self.mu is not None:
            columns |= {"mu": self.mu, "mobilised": self.mobilised}
        return notebook.data_frame(columns)

    def summary(self, volume: float | None = None) -> dict[str, Any]:
        """The numbers of one instant by name: stress, fabric, coordination, forces.

        ``volume`` is that of ``stress``. Forces are in N, stress in Pa.
        """
        neighbours, forces = self.coordination(), self.f[self.carrying]
        return {
            "contacts": int(self.carrying.sum()),
            "coordination": neighbours.mean,
            "coordination_without_rattlers": neighbours.without_rattlers,
            "rattlers": len(neighbours.rattlers),
            "mean_force": float(forces.mean()) if forces.size else 0.0,
            "largest_force": float(forces.max(initial=0.0)),
            "mobilised": _mean(self.mobilised) if self.mu is not None else np.nan,
            "stress": self.stress(volume=volume),
            "fabric": self.fabric(),
        }

    def __repr__(self) -> str:
        sizes = f"{len(self.bodies):,} contacts of {int(self.free.sum()):,} free bodies"
        return f"Measures({sizes}; .summary() and .to_frame() have the numbers)"


def measures(step: ContactStep, f: Any) -> Measures:
    """Measures of the contacts of a step: stress, fabric, coordination, distributions.

    Parameters
    ----------
    step : made by ``cdopt.collision.step`` from a scene.
    f : a solution of the step, with tangential forces where it has friction; or (nc,) normal
        forces, N.

    Returns
    -------
    Measures : methods ``stress``, ``fabric``, ``coordination`` and others.

    Raises
    ------
    InvalidInput : a step made from matrices, a solution without forces, or forces of another shape.

    >>> import cdopt
    >>> scene = cdopt.scene.crystal(4, 4)
    >>> contacts = cdopt.collision.detect(scene, scene.initial)
    >>> step = cdopt.collision.step(scene, scene.initial, contacts, dt=1e-3)
    >>> cdopt.measures(step, cdopt.CompatibleCD(step).solve()).coordination().mean.__round__(3)
    3.714
    """
    where = placed(checks.instance("step", step, Step))
    if where is None or step.bodies is None or step.normals is None or step.points is None:
        expected = "a step of cdopt.collision.step, which has the positions of the bodies"
        raise InvalidInput("step", "a step made from matrices", expected)
    normal, sliding = f, None
    if isinstance(f, StepSolution):
        normal, sliding = f.f, f.f_t
        if normal is None:
            raise InvalidInput("f", "a solution without forces", "one that is certified")
    vectors = step.contact_vectors(normal, sliding)
    mu = None if step.friction is None else step.friction.mu
    return Measures._placed(*where, step.bodies, step.normals, step.points, vectors, mu)


def stress(
    step: ContactStep, f: Any, region: Any = None, volume: float | None = None
) -> FloatArray:
    """Mean stress (dim, dim) of the contacts of a step, Pa; ``Measures.stress`` has the formula.

    ``step`` and ``f`` (nc,) are as in ``measures``, ``region`` (2, dim) m and ``volume`` as in
    ``Measures.stress``, and so are the errors raised: InvalidInput and Unsupported.
    """
    return measures(step, f).stress(region, volume)


def enclosure(x: FloatArray, reach: FloatArray, box: PeriodicBox | None) -> FloatArray:
    """(2, dim) of ``Measures.enclosure`` for centres (n, dim) and radii (n,), m."""
    corners = np.array([(x - reach[:, None]).min(axis=0), (x + reach[:, None]).max(axis=0)])
    if box is not None:
        corners[:, box.repeats] = 0.0
        corners[1, box.repeats] = box.size[box.repeats]
    return corners


def _share_inside(start: FloatArray, way: FloatArray, corners: FloatArray) -> FloatArray:
    """(n,) shares of the segments from ``start`` along ``way`` that lie in a box."""
    with np.errstate(divide="ignore", invalid="ignore"):
        times = (corners[:, None, :] - start) / way
    level = way == 0.0
    inside = (start >= corners[0]) & (start <= corners[1])
    enter = np.where(level, np.where(inside, 0.0, np.inf), times.min(axis=0))
    leave = np.where(level, np.where(inside, 1.0, -np.inf), times.max(axis=0))
    span = np.minimum(leave.min(axis=1), 1.0) - np.maximum(enter.max(axis=1), 0.0)
    return np.asarray(np.maximum(span, 0.0))


def _mean(values: FloatArray) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else np.nan


def _random_pairs(sides: FloatArray, r: FloatArray, repeats: bool) -> FloatArray:
    """Share of pairs of random points in a box, periodic or not, within r, at most a side."""
    volume = sides.prod()
    near = volume * (np.pi * r**2 if sides.size == 2 else 4.0 / 3.0 * np.pi * r**3)
    if repeats:
        return np.asarray(near / volume**2)
    if sides.size == 2:
        near += 0.5 * r**4 - 4.0 / 3.0 * sides.sum() * r**3
    else:
        area = (volume / sides).sum()
        near += 8.0 / 15.0 * sides.sum() * r**5 - 0.5 * np.pi * area * r**4 - r**6 / 6.0
    return np.asarray(near / volume**2)
