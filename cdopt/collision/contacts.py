"""Contacts: the gaps of a scene in a state, and their gradient B = ∂Φ/∂q, dΦ/dt = B v.

Pairs that may touch are in a Verlet list, searched again when a body has moved too far.

A contact with normal n from body i to body j opens at n · (u_j − u_i), where u is the velocity
of each body's point of contact: n on the translation of body j and r × n on its turn, r from
its centre to the point; the opposite on body i.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.linalg import qr

from cdopt._util import checks
from cdopt._util.cached import cached_property
from cdopt._util.checks import BoolArray, FloatArray, IntArray, read_only
from cdopt._util.errors import InvalidInput
from cdopt._util.frozen import Frozen
from cdopt.geometry.broad_phase import ROUND_OFF, near_pairs, unbounded_pairs
from cdopt.geometry.periodic import PeriodicBox
from cdopt.geometry.polytope import FEATURES, cross
from cdopt.problem.contact_law import HERTZ
from cdopt.scene import Dofs, Scene, State
from cdopt.scene.pairs import gaps, is_among, ordered

_RANK = 1e-6  # relative: points of one face differ in direction by less


@dataclass(frozen=True, eq=False)
class Contacts(Frozen):
    """Contact points between bodies, by body numbers i < j and feature; arrays are read-only.

    Attributes
    ----------
    bodies : (nc, 2) numbers i, j.
    phi : (nc,) gaps Φ, m; negative is penetration.
    normals : (nc, dim) unit vectors from body i towards body j.
    points : (nc, dim) m, halfway across the gap.
    contact_ids : (nc,) ascending numbers; a contact keeps its number from step to step.
    stiffness : (nc,) N/m^(p−1), of which compatible contact dynamics uses the ratios; of a bond
        k_B in N/m.
    restitution : (nc,) Newton's e, the smaller of the two bodies'.
    gap_rate : (nc,) rate of the gap from the prescribed motion of fixed bodies, m/s.
    bonded : (nc,) bonds: two-sided springs, which act at any distance.
    redundant : (nc,) points of a face contact whose unit force on the pair is a combination of
        those of the pair's other points: one of four, five of eight. How the pair shares its load
        among its points is not determined by the pair alone; which points of a face count as
        redundant is a choice.

    Raises
    ------
    InvalidInput : arrays of other shapes.
    """

    bodies: IntArray
    phi: FloatArray
    normals: FloatArray
    points: FloatArray
    contact_ids: IntArray
    stiffness: FloatArray
    restitution: FloatArray
    gap_rate: FloatArray
    bonded: BoolArray

    def __post_init__(self) -> None:
        for name, value in self.__dict__.items():
            checks.instance(name, value, np.ndarray)
        super().__post_init__()
        nc, dim = self.phi.size, self.normals.shape[-1] if self.normals.ndim else 0
        wide = {"bodies": (nc, 2), "normals": (nc, dim), "points": (nc, dim)}
        for name, value in self.__dict__.items():
            if value.shape != wide.get(name, (nc,)) or dim not in (2, 3):
                raise InvalidInput(name, checks.describe(value), f"one row for each of {nc} gaps")

    def check_scene(self, scene: Scene) -> None:
        """Refuse contacts of another scene.

        Raises
        ------
        InvalidInput : bodies that the scene does not have, or another dimension.
        """
        checks.instance("scene", scene, Scene)
        among_them = self.bodies.max(initial=-1) < scene.nb and self.bodies.min(initial=0) >= 0
        if self.normals.shape[1] != scene.dim or not among_them:
            raise InvalidInput("contacts", "those of another scene", "contacts of this scene")

    def _at_gaps(self, phi: FloatArray) -> Contacts:
        """The same contacts with other gaps (nc,), m."""
        return Contacts._of(**{**self.__dict__, "phi": phi})

    def those(self, chosen: BoolArray) -> Contacts:
        """The contacts for which ``chosen`` (nc,) is true."""
        kept = checks.flags("chosen", chosen, (self.nc,))
        return Contacts._of(**{name: value[kept] for name, value in self.__dict__.items()
                               if name != "redundant"})  # fmt: skip

    def closed(self) -> Contacts:
        """The same contacts without gaps and overlaps."""
        return self._at_gaps(read_only(np.zeros(self.nc)))

    @property
    def nc(self) -> int:
        """Number of contacts."""
        return int(self.phi.size)

    @cached_property
    def redundant(self) -> BoolArray:
        """(nc,) points that add no force which the others of their pair cannot give."""
        return read_only(_redundant_points(self.bodies, self.normals, self.points))

    def __repr__(self) -> str:
        return f"Contacts({self.nc})"


def detect(
    scene: Scene,
    state: State,
    margin: float | FloatArray | None = None,
    neighbours: VerletList | None = None,
) -> Contacts:
    """Contacts of a scene: every contact point with a gap up to ``margin``, and every bond.

    Parameters
    ----------
    margin : m; default ``default_margin(scene)``. For a time step take ``safe_margin``. Or (nb,)
        the share of each body, as ``safe_margins`` gives it: a pair has the sum of both.
    neighbours : a VerletList of the scene, whose search is reused between steps.

    Raises
    ------
    InvalidInput : a state or a VerletList of another scene, or a negative margin.
    """
    checks.instance("scene", scene, Scene)
    near = VerletList(scene) if neighbours is None else neighbours
    if checks.instance("neighbours", near, VerletList).scene is not scene:
        raise InvalidInput("neighbours", "those of another scene", "VerletList(scene)")
    width = default_margin(scene) if margin is None else margin
    pairs = near.pairs(state, width)
    if scene.apart.size:
        pairs = pairs[~is_among(pairs, scene.apart)]
    if scene.bonds.size:
        loose = gaps(scene.bodies, state, pairs[~is_among(pairs, scene.bonds)], width)
        points = ordered([loose, gaps(scene.bodies, state, scene.bonds, np.inf)], scene.nb)
    else:
        points = gaps(scene.bodies, state, pairs, width, scene.box)
    return Contacts._of(
        bodies=points.bodies,
        phi=points.phi,
        normals=points.normals,
        points=points.points,
        contact_ids=points.numbers(scene.nb),
        stiffness=contact_stiffness(scene, points.bodies),
        restitution=np.minimum(*scene.body_restitution[points.bodies.T]),
        gap_rate=prescribed_rate(scene, state, points.bodies, points.normals, points.points),
        bonded=is_among(points.bodies, scene.bonds),
    )


def from_start(scene: Scene, contacts: Contacts) -> Contacts:
    """The contacts, those that overlap no more than at the start of the scene with gap zero.

    Deeper ones have the overlap that came since. A new contact point of two bodies that overlap at
    the start has the deepest overlap of the two. Scenes whose ``overlaps`` are "resolve" leave the
    contacts as they are.
    """
    start = scene.start_overlaps
    if scene.overlaps == "resolve" or not (start.phi.size and contacts.nc):
        return contacts
    known, pairs = start.numbers(scene.nb), start.bodies @ np.array([scene.nb, 1])
    numbers, same = np.unique(pairs, return_inverse=True)
    depth = np.zeros(numbers.size)
    np.maximum.at(depth, same, -start.phi)
    pair = contacts.contact_ids // FEATURES
    place = np.minimum(np.searchsorted(numbers, pair), numbers.size - 1)
    raised = np.where(numbers[place] == pair, depth[place], 0.0)
    place = np.minimum(np.searchsorted(known, contacts.contact_ids), known.size - 1)
    raised = np.where(known[place] == contacts.contact_ids, -start.phi[place], raised)
    beyond = np.minimum(contacts.phi + raised, 0.0)
    return contacts._at_gaps(np.where(contacts.phi < 0.0, beyond, contacts.phi))


def contact_stiffness(scene: Scene, pairs: IntArray) -> FloatArray:
    """Stiffness k (nc,) of contacts between pairs (nc, 2) of bodies, N/m^(p−1).

    The two halves act in series, 1/s = 1/s_i + 1/s_j, where a rigid body is infinitely stiff.
    Hertz (p = 5/2) combines moduli and radii, k = (4/3) E* √R* with 1/E* = Σ (1−ν²)/E and
    1/R* = 1/R_i + 1/R_j, flat sides and corners without curvature; two of them count as R* = 1 m.
    Hooke, and every power but 5/2, uses s itself: E times a length of 1 m, or the materials'
    ``stiffness``. Contacts of two rigid bodies have stiffness 1. Compatible contact dynamics
    uses only ratios. Bonds have the scene's ``bond_stiffness``, N/m.

    Notes
    -----
    Olsen & Kamrin (2018), section 8.2; for an E ratio of five the pairs are 1/5 : 1/3 : 1.
    """
    with np.errstate(divide="ignore"):
        series = 1.0 / (1.0 / scene.half_stiffness[pairs]).sum(axis=1)
    rigid = ~np.isfinite(series)
    if scene.power == HERTZ:
        curvature = scene.bodies.curvature[pairs].sum(axis=1)
        series *= 4.0 / 3.0 / np.sqrt(np.where(curvature > 0.0, curvature, 1.0))
    series[rigid] = 1.0
    if scene.bond_stiffness is not None:
        series[is_among(pairs, scene.bonds)] = scene.bond_stiffness
    return np.asarray(series)


def effective_mass(scene: Scene, pairs: IntArray) -> FloatArray:
    """m_eff (nc,) of pairs (nc, 2) of bodies, 1/m_eff = 1/m_i + 1/m_j, kg.

    A fixed body counts as infinitely heavy, whatever mass it states; against one, m_eff is the
    mass of the other, and infinite for two.

    Raises
    ------
    InvalidInput : no pairs of numbers of bodies.

    Notes
    -----
    De Klerk et al. (2021), (20)–(25).
    """
    checks.instance("scene", scene, Scene)
    numbers = checks.integers("pairs", pairs, (None, 2), at_least=0, below=scene.nb)
    inverse = np.where(scene.bodies.fixed, 0.0, 1.0 / scene.bodies.mass)
    with np.errstate(divide="ignore"):
        return np.asarray(1.0 / inverse[numbers].sum(axis=1))


def gap_gradient(
    scene: Scene, state: State, contacts: Contacts, dofs: Dofs | None = None
) -> sp.csr_array:
    """B (nc, nv) sparse, of contacts in this state; ``B @ v`` is the rate of the gaps, m/s.

    The prescribed motion of fixed bodies is in ``contacts.gap_rate``. No gap depends on the turn
    of a sphere: on ``scene.full_dofs`` those columns have no entries.

    Parameters
    ----------
    dofs : the degrees of freedom, by default ``scene.dofs``.

    Raises
    ------
    InvalidInput : a state, contacts or degrees of freedom of another scene.

    Notes
    -----
    Olsen & Kamrin (2018), section 3.
    """
    checks.instance("scene", scene, Scene).check_state(state)
    checks.instance("contacts", contacts, Contacts).check_scene(scene)
    chosen = scene.check_dofs(scene.dofs if dofs is None else dofs)
    rows = gap_rows(scene, state, contacts, chosen)
    return sp.csr_array(rows, shape=(contacts.nc, chosen.nv))


def gap_rows(
    scene: Scene, state: State, contacts: Contacts, dofs: Dofs
) -> tuple[FloatArray, IntArray, IntArray]:
    """The rows of ``gap_gradient``, as ``approach_rows`` gives them."""
    number = without_idle_turns(scene, dofs.number)
    ends = contacts.bodies, contacts.normals, contacts.points
    return approach_rows(state, *ends, number, scene.box)


def without_idle_turns(scene: Scene, number: IntArray) -> IntArray:
    """Numbers of degrees of freedom, as in ``Dofs``, −1 at turns that change no gap: of spheres."""
    idle = ~scene.bodies.turns[:, None] & (np.arange(number.shape[1]) >= scene.dim)
    return np.where(idle, -1, number)


def approach_rows(
    state: State,
    pairs: IntArray,
    directions: FloatArray,
    points: FloatArray,
    number: IntArray,
    box: PeriodicBox | None = None,
) -> tuple[FloatArray, IntArray, IntArray]:
    """Rows of a CSR matrix that take velocities to direction · (u_j − u_i), u those at points.

    ``pairs`` (n, 2); ``directions``, ``points`` (n, dim); ``number`` is the column of each entry
    of State.v, −1 for none, as in ``Dofs``, ascending from i to j.
    """
    cols, data, dim = [], [], directions.shape[1]
    if (number[:, dim:] < 0).all():
        number = number[:, :dim]
    for side, sign in ((0, -1.0), (1, 1.0)):
        body = pairs[:, side]
        cols.append(number[body])
        if number.shape[1] == dim:  # none that turns
            data.append(sign * directions)
            continue
        arm = points - state.position[body]
        data.append(sign * _wrenches(directions, arm if box is None else box.nearest(arm, state.t)))
    columns, entries = np.hstack(cols), np.hstack(data)
    used = (columns >= 0) & (entries != 0.0)
    indptr = np.append(0, np.cumsum(np.count_nonzero(used, axis=1)))
    return entries[used], columns[used], indptr


def prescribed_rate(
    scene: Scene, state: State, pairs: IntArray, normals: FloatArray, points: FloatArray
) -> FloatArray:
    """Rate (nc,) of the gaps from fixed bodies and images of a box that move, m/s."""
    rate, box = np.zeros(pairs.shape[0]), scene.box
    if box is not None and box.moves:
        arm = state.position[pairs[:, 1]] - state.position[pairs[:, 0]]
        bounded = np.isfinite(scene.bodies.reach[pairs]).all(axis=1)
        rate += np.where(bounded, (box.velocities(arm, state.t) * normals).sum(axis=1), 0.0)
    moving = scene.bodies.fixed & state.v.any(axis=1)
    if not moving.any():
        return rate
    for side, sign in ((0, -1.0), (1, 1.0)):
        k = np.flatnonzero(moving[pairs[:, side]])
        body = pairs[k, side]
        arm = points[k] - state.position[body]
        wrenches = _wrenches(normals[k], arm if box is None else box.nearest(arm, state.t))
        rate[k] += sign * (wrenches * state.v[body]).sum(axis=1)
    return rate


def _wrenches(forces: FloatArray, arm: FloatArray) -> FloatArray:
    """Force n and torque r × n (n, 3 or 6) of forces with levers (n, dim)."""
    return np.column_stack([forces, cross(arm, forces)])


def _redundant_points(bodies: IntArray, normals: FloatArray, points: FloatArray) -> BoolArray:
    """Contacts (nc,) beyond the rank of their pair's wrenches, chosen by pivoted QR."""
    flags = np.zeros(len(bodies), dtype=bool)
    _, first, count = np.unique(bodies, axis=0, return_index=True, return_counts=True)
    for start, many in zip(first[count > 1], count[count > 1], strict=True):
        of_pair = slice(start, start + many)  # contacts of a pair follow each other
        arm = points[of_pair] - points[of_pair].mean(axis=0)  # in units of their spread
        arm /= np.abs(arm).max() or 1.0
        wrenches = _wrenches(normals[of_pair], arm)
        _, R, order = qr(wrenches.T, mode="economic", pivoting=True)
        size = np.abs(np.diag(R))
        rank = int(np.count_nonzero(size > _RANK * size[0]))
        flags[start + order[rank:]] = True
    return flags


# --- neighbours ----------------------------------------------------------------------------

_SHARE = 0.1  # of the smallest half-width


def default_margin(scene: Scene) -> float:
    """A tenth of the smallest half-width of a bounded body, m."""
    core = checks.instance("scene", scene, Scene).bodies.core
    bounded = core[np.isfinite(core)]
    return _SHARE * float(bounded.min())


def safe_margin(scene: Scene, state: State, dt: float) -> float:
    """A margin that includes every contact that free motion can close in a step ``dt``, m.

    Twice the distance of the fastest surface in a step, at the velocities of ``state`` and under
    gravity and applied loads, and no less than ``default_margin``. Contacts of
    bodies that an impact makes faster are detected one step later.
    """
    return 2.0 * float(safe_margins(scene, state, dt).max())


def safe_margins(scene: Scene, state: State, dt: float) -> FloatArray:
    """(nb,) share of each body in a margin that includes what free motion can close in ``dt``, m.

    The distance that its fastest surface moves in a step, as in ``safe_margin``, and no less than
    half of ``default_margin``: a fast body does not widen the search between two bodies at rest.
    """
    checks.instance("scene", scene, Scene).check_state(state)
    dt, b = checks.positive("dt", dt), scene.bodies
    turning = np.array(np.abs(state.angular_velocity).reshape(b.nb, -1).sum(axis=1))
    turning *= np.where(b.turns & np.isfinite(b.reach), b.reach, 0.0)
    load = np.where(b.fixed, 0.0, np.linalg.norm(b.force, axis=1) / b.mass)
    fall = np.where(b.fixed, 0.0, np.linalg.norm(scene.gravity))
    speed = np.linalg.norm(state.velocity, axis=1) + turning + dt * (fall + load)
    if scene.box is not None and scene.box.moves:  # images move past each other
        speed = speed + 0.5 * float(np.abs(scene.box.rate @ scene.box.cell(state.t)).sum())
    return np.maximum(0.5 * default_margin(scene), dt * speed)


class VerletList:
    """The neighbour list of a scene, searched again when bodies have moved apart by the skin.

    The list only limits which pairs are examined; it does not change the contacts.

    Parameters
    ----------
    scene : the bodies.
    skin : extra distance of the search, m; default twice ``default_margin``.

    Attributes
    ----------
    searches : how often the tree was searched so far.
    """

    def __init__(self, scene: Scene, skin: float | None = None) -> None:
        self.scene = checks.instance("scene", scene, Scene)
        usual = 2.0 * default_margin(scene)
        self.skin = usual if skin is None else checks.not_negative("skin", skin)
        self.searches = 0
        self._walls = unbounded_pairs(scene.bodies.reach, scene.bodies.fixed)
        self._bounded = np.isfinite(scene.bodies.reach)
        self._near: IntArray | None = None
        self._searched: FloatArray = np.empty(0)
        self._reach = self._time = 0.0

    def pairs(self, state: State, margin: float | FloatArray) -> IntArray:
        """Pairs (np, 2), i < j, including all that can be within ``margin`` m of each other.

        ``margin`` is one number, or (nb,) shares, which add up for a pair.

        Raises
        ------
        InvalidInput : a state of another scene, or a negative margin.
        """
        self.scene.check_state(state)
        b, box = self.scene.bodies, self.scene.box
        each = checks.real("margin", margin, "one number, or one for each body").ndim > 0
        shares = checks.vector("margin", margin, b.nb, "m") if each else np.empty(0)
        if each and shares.min() < 0.0:
            raise InvalidInput("margin", f"{shares.min():g} m", "at least 0 m for each body")
        widest = 2.0 * shares.max() if each else checks.scalar("margin", margin, at_least=0.0)
        position = state.position[self._bounded]
        near = self._near
        if near is None or self._outdated(state.t, position, widest):
            self._reach, self._time, self._searched = widest + self.skin, state.t, position
            x = state.position
            near = near_pairs(x, b.reach, b.fixed, self._reach, box, state.t)
            near = np.concatenate([near, self._walls])
            near = self._near = near[np.lexsort(near.T[::-1])]  # contacts are then nearly in order
            self.searches += 1
        if each:
            i, j = near.T
            arm = state.position[j] - state.position[i]
            apart = np.linalg.norm(arm if box is None else box.nearest(arm, state.t), axis=1)
            reach = b.reach * (1.0 + ROUND_OFF) + shares
            near = near[apart <= reach[i] + reach[j]]
        return near

    def _outdated(self, t: float, position: FloatArray, widest: float) -> bool:
        """Whether bodies, or a cell that deforms, are no longer where the list was made."""
        way = position - self._searched
        if way.size:  # as seen from the middle: bodies that fall together stay near each other
            way -= 0.5 * (way.min(axis=0) + way.max(axis=0))
        moved = np.sqrt((way**2).sum(axis=1).max(initial=0.0))
        moves = self.scene.box is not None and self.scene.box.moves
        return bool(widest + 2.0 * moved > self._reach) or (moves and t != self._time)
