"""Scene: bodies, materials and gravity, validated and frozen."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from cdopt._util import checks, files
from cdopt._util.cached import cached_property
from cdopt._util.checks import FloatArray, IntArray, read_only
from cdopt._util.errors import InvalidInput, Unsupported
from cdopt._util.frozen import Frozen
from cdopt.geometry.broad_phase import near_pairs, unbounded_pairs
from cdopt.geometry.periodic import PeriodicBox
from cdopt.problem.contact_law import HERTZ
from cdopt.scene.bodies import Bodies, Item, assemble
from cdopt.scene.joint import Joint, PlacedJoint, placed_joints
from cdopt.scene.material import Material, MaterialPair, checked, pair_frictions, stiffer
from cdopt.scene.pairs import BOND_REACH, Gaps, bonded_pairs, gaps, is_among, outward
from cdopt.scene.state import Dofs, State
from cdopt.scene.writing import to_toml

GRAVITY = 9.81  # m/s²
OVERLAP_TOL = 1e-6  # of the smaller body: touching lattices are out by round-off alone
OVERLAPS = ("refuse", "touching", "resolve")


_OPTIONAL = {  # fields of a scene that may be None
    "friction": checks.not_negative,
    "tangential_damping": checks.not_negative,
    "bond_stiffness": checks.positive,
}


class Scene(Frozen):
    """Rigid bodies, their materials and gravity, in SI units.

    Parameters
    ----------
    bodies : Body and Spheres in the order in which bodies are numbered, from 0.
    dim : 2 in the plane or 3 in space.
    gravity : (dim,) m/s²; default 9.81 down the last axis.
    power : exponent p of the contact law, one for the scene: 2 Hooke, 2.5 Hertz.
    restitution : Newton's e of contacts whose materials state none.
    friction : coefficient μ of contacts whose materials state none, for steps with friction;
        None states none.
    materials : what bodies name; a body that names none is rigid.
    pairs : friction coefficients of pairs of materials, which override those of the materials.
    overlap_tol : overlap that "refuse" lets pass, as a share of the smaller one's half-width.
    overlaps : treatment of bodies that overlap at the start. "refuse" raises for more than
        ``overlap_tol``; smaller overlaps count as touching. "touching": in contact dynamics,
        bodies that overlap no more than at the start are just touching, so that the
        overlap causes no force. "resolve": the first step pushes them apart, which takes the
        force m Φ/Δt². Overlaps of at most 1e-6 of the smaller half-width are round-off and
        stay as they are. An overlap always compresses elastic contacts.
    damping : γ_n of contacts, 1/s. Times the pair's effective mass it is the coefficient of the
        normal dashpot, which methods with finite stiffness use.
    tangential_damping : γ_t, 1/s, of the tangential dashpot; None is half of γ_n.
    bond_stiffness : k_B of bonds, N/m; None for no bonds.
    box : PeriodicBox in which spheres repeat, or (dim,) its lengths, m; None for none. Bodies are
        then spheres, and half-spaces across axes that do not repeat.
    bond_reach : spheres with |δ| < bond_reach · d at the start are bonded, δ = r_i + r_j −
        |x_i − x_j| and d the mean diameter of the two. F = k_B δ, two-sided, then replaces
        the pair's contact law, whatever ``power``; such pairs may start overlapping.
    name, title : a short and a longer name.
    joints : ``Joint`` objects, pins, hinges, sliders and welds; bodies with a joint between them
        do not collide. Contact dynamics and steps made of the scene include them.

    Attributes
    ----------
    bodies : Bodies, columns of everything that is known of them.
    dofs : Dofs, the map between State.v and the step's v.
    full_dofs : Dofs with the turns of free spheres too, which tangential damping drives.
    initial : State at t = 0.
    bonds : (n, 2) bonded pairs i < j of spheres, at least one free, in lexicographic order.
    placed_joints : the joints in the frames of their bodies.
    gamma_t : the γ_t in force, 1/s.

    Raises
    ------
    InvalidInput : naming the field, for a body as ``bodies[k].field``; among them bodies that
        overlap at the start, the deepest pair named.

    Notes
    -----
    Damping: De Klerk et al. (2021), (20)–(25); bonds: section 3.3.
    """

    bodies: Bodies
    dim: int
    gravity: FloatArray
    power: float
    restitution: float
    friction: float | None
    materials: tuple[Material, ...]
    pairs: tuple[MaterialPair, ...]
    overlap_tol: float
    overlaps: str
    damping: float
    tangential_damping: float | None
    bond_stiffness: float | None
    bond_reach: float
    box: PeriodicBox | None
    name: str
    title: str
    joints: tuple[Joint, ...]
    placed_joints: tuple[PlacedJoint, ...]

    def __init__(
        self,
        bodies: Sequence[Item],
        *,
        dim: int,
        gravity: Any = None,
        power: float = 2.0,
        restitution: float = 0.0,
        friction: float | None = None,
        materials: Sequence[Material] = (),
        pairs: Sequence[MaterialPair] = (),
        overlap_tol: float = OVERLAP_TOL,
        overlaps: str = OVERLAPS[0],
        damping: float = 0.0,
        tangential_damping: float | None = None,
        bond_stiffness: float | None = None,
        bond_reach: float = BOND_REACH,
        box: Any = None,
        name: str = "",
        title: str = "",
        joints: Sequence[Joint] = (),
    ) -> None:
        dim = checks.dimension("dim", dim)
        down = np.append(np.zeros(dim - 1), -GRAVITY) if gravity is None else gravity
        fields = {
            "dim": dim,
            "gravity": checks.vector("gravity", down, dim, "m/s²"),
            "power": checks.power("power", power),
            "restitution": checks.share("restitution", restitution),
            "friction": friction,
            "materials": checked(checks.instances("materials", materials, Material)),
            "pairs": checks.instances("pairs", pairs, MaterialPair),
            "overlap_tol": checks.not_negative("overlap_tol", overlap_tol),
            "overlaps": checks.choice("overlaps", overlaps, OVERLAPS),
            "damping": checks.not_negative("damping", damping),
            "tangential_damping": tangential_damping,
            "bond_stiffness": bond_stiffness,
            "bond_reach": checks.tolerance("bond_reach", bond_reach),
            "box": box if box is None or isinstance(box, PeriodicBox) else PeriodicBox(box),
            "name": checks.text("name", name),
            "title": checks.text("title", title),
            "joints": checks.instances("joints", joints, Joint),
        }
        for field, check in _OPTIONAL.items():
            if fields[field] is not None:
                fields[field] = check(field, fields[field])
        self.__setstate__(fields)
        _ = self._pair_friction
        self.__dict__["bodies"] = assemble(
            checks.sequence("bodies", bodies), self.dim, [m.name for m in self.materials]
        )
        if self.bodies.fixed.all():
            raise InvalidInput("bodies", "fixed ones alone", "at least one free body")
        self.__dict__["placed_joints"] = placed_joints(self.joints, self.bodies)
        _require_stiffness(self.bodies, self.materials)
        if self.power == HERTZ:
            _require_one_curvature(self.bodies)
        if self.box is not None:
            _require_suited(self.box, self.bodies, self.bond_stiffness)
            if self.joints:
                raise InvalidInput("joints", "joints in a periodic box", "none there")
        self._require_apart()

    @property
    def nb(self) -> int:
        """Number of bodies."""
        return self.bodies.nb

    @cached_property
    def initial(self) -> State:
        """The State at t = 0."""
        b = self.bodies
        q = np.column_stack([b.position, b.orientation])
        return State(0.0, q, np.column_stack([b.velocity, b.angular_velocity]))

    @cached_property
    def dofs(self) -> Dofs:
        """The degrees of freedom of a contact step: joints turn spheres, too."""
        turns = self.bodies.turns
        if self.joints:
            turns = turns | np.isin(np.arange(self.nb), self._jointed)
        return Dofs.of(~self.bodies.fixed, turns, self.dim)

    @property
    def _jointed(self) -> IntArray:
        """(n, 2) bodies of the joints, −1 for the world."""
        return np.array([joint.bodies for joint in self.placed_joints]).reshape(-1, 2)

    @cached_property
    def apart(self) -> IntArray:
        """(n, 2) pairs i < j of bodies with a joint between them, which do not collide."""
        pairs = np.unique(np.sort(self._jointed, axis=1), axis=0)
        return read_only(pairs[pairs[:, 0] >= 0].astype(np.int64).reshape(-1, 2))

    @cached_property
    def full_dofs(self) -> Dofs:
        """The degrees of freedom where contacts are damped: spheres turn too."""
        free = ~self.bodies.fixed
        return Dofs.of(free, np.ones_like(free), self.dim)

    @cached_property
    def bonds(self) -> IntArray:
        """(n, 2) bonded pairs i < j, in lexicographic order."""
        if self.bond_stiffness is None:
            return read_only(np.empty((0, 2), dtype=np.int64))
        return read_only(bonded_pairs(self.bodies, self.bodies.position, self.bond_reach))

    @cached_property
    def start_overlaps(self) -> Gaps:
        """The contact points at which bodies overlap at the start by more than round-off.

        Bonded pairs are not among them.
        """
        bodies, bonds = self.bodies, self.bonds
        x, reach, fixed = self.initial.position, bodies.reach, bodies.fixed
        near = near_pairs(x, reach, fixed, 0.0, self.box)
        pairs = np.concatenate([near, unbounded_pairs(bodies.reach, bodies.fixed)])
        pairs = pairs[~is_among(pairs, bonds)] if bonds.size else pairs
        pairs = pairs[~is_among(pairs, self.apart)] if self.apart.size else pairs
        points = gaps(bodies, self.initial, pairs, 0.0, self.box)
        tolerance = min(OVERLAP_TOL, self.overlap_tol)
        return points.select(overlapping(bodies, points.bodies, points.phi, tolerance))

    def _require_apart(self) -> None:
        """Refuse bodies that overlap by more than the scene lets pass."""
        points = self.start_overlaps
        if self.overlaps != OVERLAPS[0] or not points.phi.size:
            return
        deep = points.select(overlapping(self.bodies, points.bodies, points.phi, self.overlap_tol))
        if deep.phi.size:
            (i, j), depth = deepest(deep.bodies, deep.phi)
            many = f", the deepest of {deep.phi.size:,} overlaps" if deep.phi.size > 1 else ""
            raise InvalidInput(
                f"bodies[{j}].position",
                f"{depth:.6g} m inside {self.bodies.label(i)}{many}",
                "bodies that start apart, or overlaps='touching' (they count as touching) or "
                "'resolve' (they are pushed apart)",
            )

    def _with(self, forget: Sequence[str] = (), **fields: Any) -> Scene:
        """The same scene with other fields; cached values to ``forget`` are computed again."""
        kept = {name: value for name, value in self.__dict__.items() if name not in forget}
        scene = object.__new__(Scene)
        scene.__setstate__(kept | fields)
        return scene

    def with_overlaps(self, overlaps: str) -> Scene:
        """The same scene with another policy of ``overlaps``: "touching", "resolve" or "refuse".

        Raises
        ------
        InvalidInput : "refuse" and bodies that overlap.
        """
        scene = self._with(overlaps=checks.choice("overlaps", overlaps, OVERLAPS))
        scene._require_apart()
        return scene

    def require_no_box(self, what: str) -> None:
        """Refuse a periodic box, which ``what`` does not support.

        Raises
        ------
        Unsupported : the scene has one.
        """
        if self.box is not None:
            instead = ("contact dynamics", "cdopt.dynamics.equilibrium")
            raise Unsupported(what, "the scene is in a periodic box", instead)

    def require_no_joints(self, what: str) -> None:
        """Refuse joints, which ``what`` does not support.

        Raises
        ------
        Unsupported : the scene has some.
        """
        if self.joints:
            why = f"the scene has joints, such as {self.placed_joints[0].name}"
            raise Unsupported(what, why, ("contact dynamics", 'VariationalSteps(path="cvxpy")'))

    def with_box(self, box: PeriodicBox | None, state: State | None = None) -> Scene:
        """The same scene in another ``box``, with the bodies where a ``state`` has them.

        Raises
        ------
        InvalidInput : a box that does not suit the bodies, or a state of another scene.
        """
        fields: dict[str, Any] = {"box": box}
        if box is not None:
            checks.instance("box", box, PeriodicBox)
        if state is not None:
            self.check_state(state)
            moved: dict[str, Any] = {"position": state.position, "orientation": state.orientation}
            moved |= {"velocity": state.velocity, "angular_velocity": state.angular_velocity}
            fields["bodies"] = replace(self.bodies, **moved)
        scene = self._with(("initial", "start_overlaps"), **fields)
        if box is not None:
            _require_suited(box, scene.bodies, scene.bond_stiffness)
        scene._require_apart()
        return scene

    def with_friction(self, mu: float | None) -> Scene:
        """The same scene with ``mu`` as the friction of contacts whose materials state none."""
        return self._with(friction=None if mu is None else checks.not_negative("mu", mu))

    @property
    def gamma_t(self) -> float:
        """γ_t, 1/s: ``tangential_damping``, or half of ``damping``."""
        return 0.5 * self.damping if self.tangential_damping is None else self.tangential_damping

    @cached_property
    def half_stiffness(self) -> FloatArray:
        """(nb,) stiffness of each body's side of a contact; infinite for rigid bodies."""
        known = [material.half_stiffness(self.power) for material in self.materials]
        return self._of_materials(known, np.inf)

    @cached_property
    def body_restitution(self) -> FloatArray:
        """(nb,) Newton's e of each body's material, or the scene's."""
        return self._of_materials([m.restitution for m in self.materials], self.restitution)

    def _of_materials(self, stated: Sequence[Any], default: Any) -> FloatArray:
        """(nb,) the value of each body's material, or the default."""
        values = [default if value is None else value for value in stated]
        return read_only(np.array([*values, default])[self.bodies.material])

    @property
    def has_friction(self) -> bool:
        """Whether it states a coefficient of friction above zero, for whatever contact."""
        stated = [self.friction, *(material.friction for material in self.materials)]
        stated += [pair.friction for pair in self.pairs]
        return any(mu is not None and mu > 0.0 for mu in stated)

    @cached_property
    def _pair_friction(self) -> dict[tuple[int, int], float]:
        """μ of the stated pairs, by the numbers of their materials, the smaller first."""
        return pair_frictions(self.pairs, self.materials)

    def contact_friction(self, bodies: IntArray) -> FloatArray:
        """(nc,) friction coefficients of contacts.

        That of the pair of materials if ``pairs`` states it. Else the smaller of the two
        materials', where the scene's replaces a missing one; or the only one that is stated.

        Parameters
        ----------
        bodies : (nc, 2) numbers of the two bodies of each.

        Raises
        ------
        InvalidInput : a contact without a coefficient, or numbers of no bodies.
        """
        numbers = checks.integers("bodies", bodies, (None, 2), at_least=0, below=self.nb)
        default = np.nan if self.friction is None else self.friction
        stated = self._of_materials([m.friction for m in self.materials], default)
        mu = np.fmin.reduce(stated[numbers], axis=1)
        kinds = np.sort(self.bodies.material[numbers], axis=1)
        for pair, value in self._pair_friction.items():
            mu[(kinds == pair).all(axis=1)] = value
        if np.isnan(mu).any():
            i, j = (self.bodies.label(k) for k in numbers[np.flatnonzero(np.isnan(mu))[0]])
            expected = "friction of a material, of a pair of materials or of the scene"
            raise InvalidInput("friction", f"none stated for {i} and {j}", expected)
        return read_only(mu)

    def contact_resistance(self, bodies: IntArray) -> FloatArray:
        """(2, nc) coefficients of rolling and spinning friction of contacts, zero if not stated.

        The smaller of the two materials', or the only stated one.

        Parameters
        ----------
        bodies : (nc, 2) numbers of the two bodies of each.
        """
        numbers = checks.integers("bodies", bodies, (None, 2), at_least=0, below=self.nb)
        rolling = self._of_materials([m.rolling_friction for m in self.materials], np.nan)
        spinning = self._of_materials([m.spinning_friction for m in self.materials], np.nan)
        smaller = [np.fmin.reduce(of[numbers], axis=1) for of in (rolling, spinning)]
        return read_only(np.nan_to_num(np.array(smaller)))

    def check_state(self, state: State, name: str = "state") -> State:
        """The same state, after a check that it fits this scene; ``name`` is that of the argument.

        Raises
        ------
        InvalidInput : other bodies, or in another dimension.
        """
        if checks.instance(name, state, State).q.shape != self.initial.q.shape:
            found, expected = f"q of shape {state.q.shape}", f"shape {self.initial.q.shape}"
            raise InvalidInput(name, found, expected)
        return state

    def check_dofs(self, dofs: Dofs) -> Dofs:
        """The same degrees of freedom, after a check that they fit this scene.

        Raises
        ------
        InvalidInput : other bodies, or in another dimension.
        """
        shape = self.initial.v.shape
        if checks.instance("dofs", dofs, Dofs).number.shape != shape:
            raise InvalidInput("dofs", f"number of shape {dofs.number.shape}", f"shape {shape}")
        return dofs

    def stiffened(self, kappa: float, *, damping: float | None = None) -> Scene:
        """The same scene with κ times the stiffness of its materials, and of its bonds.

        Ratios of stiffness stay as they are, and with them the compatible forces, for Hooke and
        Hertz alike. In a scene that states no stiffness every contact gets κ.

        Parameters
        ----------
        kappa : κ, a factor, or N/m^(p−1) where the scene states no stiffness.
        damping : γ_n instead of the scene's, 1/s; critical damping grows as √κ.

        Raises
        ------
        InvalidInput : Hertz contacts between bodies of several curvatures, to which no one modulus
            would give one stiffness, in a scene that states none.

        >>> import cdopt
        >>> hard = cdopt.scene.crystal(2, 3).stiffened(1e6)
        >>> cdopt.collision.detect(hard, hard.initial).stiffness[:3]
        array([1000000., 1000000., 1000000.])
        """
        kappa = checks.positive("kappa", kappa)
        materials, bodies = stiffer(self.materials, self.bodies, self.power, kappa)
        fields: dict[str, Any] = {"materials": materials, "bodies": bodies}
        if self.bond_stiffness is not None:
            fields["bond_stiffness"] = kappa * self.bond_stiffness
        if damping is not None:
            fields["damping"] = checks.not_negative("damping", damping)
        return self._with(("half_stiffness", "body_restitution"), **fields)

    def to_toml(self) -> str:
        """The scene as the text of a scene file; ``cdopt.scene.load`` reads it without loss."""
        options = inspect.signature(Scene.__init__).parameters
        always = ("dim", "gravity", "power", "restitution", "overlap_tol")
        apart = ("self", "bodies", "materials", "pairs", "box", "joints")
        names = ("name", "title", *(name for name in options if name not in apart))
        stated = {name: getattr(self, name) for name in names}
        head = {
            name: value
            for name, value in (stated | {"gravity": self.gravity.tolist()}).items()
            if name in always or value != options[name].default
        }
        if self.box is not None:
            head["box"] = self.box.size.tolist()
            head["box_shear"] = self.box.shear or None
            head["box_rate"] = self.box.rate.tolist() if self.box.moves else None
        return to_toml(head, self.materials, self.pairs, self.bodies, self.joints)

    def save(self, path: str | Path) -> None:
        """Write the scene to a TOML file, without loss.

        Raises
        ------
        InvalidInput : a path that no file can have, a file of another kind, or more numbers than
            ``load`` reads.
        SaveFailed : the disk is full or cannot be written.
        """
        text = self.to_toml()
        files.require_size(text, "scene")
        files.write_text(path, text, kind=files.SCENES)

    def __repr__(self) -> str:
        free = int(np.count_nonzero(~self.bodies.fixed))
        name = f"Scene({self.name!r}: " if self.name else "Scene("
        return f"{name}{self.nb:,} bodies in {self.dim}D, {free:,} free, power {self.power:g})"


def _require_stiffness(bodies: Bodies, materials: Sequence[Material]) -> None:
    """Refuse contacts of two rigid bodies where others are elastic."""
    soft = np.array([not material.rigid for material in materials] + [False])
    rigid = np.flatnonzero(~soft[bodies.material])
    free = rigid[~bodies.fixed[rigid]]
    if rigid.size < bodies.nb and free.size and rigid.size > 1:
        other = next(int(k) for k in rigid if k != free[0])
        raise InvalidInput(
            f"bodies[{free[0]}].material",
            f"no stiffness, nor any in {bodies.label(other)}, while others have one",
            "a stiffness on one side of every contact, or nowhere",
        )


def _require_suited(box: PeriodicBox, bodies: Bodies, bonds: float | None) -> None:
    """Refuse a box of another dimension, and bodies that it cannot repeat."""
    if box.dim != bodies.dim:
        raise InvalidInput("box", f"{box.dim} axes", f"{bodies.dim} axes")
    if bonds is not None:
        raise InvalidInput("bond_stiffness", "bonds in a periodic box", "None")
    walls = np.flatnonzero(~np.isfinite(bodies.reach))
    solid = np.flatnonzero(bodies.turns & np.isfinite(bodies.reach))
    if solid.size:
        where = f"bodies[{solid[0]}].shape"
        raise InvalidInput(where, "a solid in a periodic box", "spheres and half-spaces")
    across = outward(bodies, bodies.orientation, walls)[:, box.repeats].any(axis=1)
    if across.any():
        where = f"bodies[{walls[across][0]}].normal"
        raise InvalidInput(where, "a wall across a repeating axis", "an axis without walls")


def _require_one_curvature(bodies: Bodies) -> None:
    """Refuse bodies of several curvatures, on which Hertz contacts would have no one stiffness."""
    mixed = np.flatnonzero(np.isnan(bodies.curvature))
    if mixed.size:
        found, expected = "parts of several radii in Hertz contacts", "parts alike, another power"
        raise InvalidInput(f"bodies[{mixed[0]}].shape", found, expected)


def overlapping(
    bodies: Bodies, pairs: IntArray, phi: FloatArray, tolerance: float = OVERLAP_TOL
) -> IntArray:
    """Which contacts of pairs (nc, 2) overlap by more than a share of the smaller half-width."""
    return np.flatnonzero(-phi > tolerance * bodies.core[pairs].min(axis=1))


def deepest(pairs: IntArray, phi: FloatArray) -> tuple[list[int], float]:
    """The pair among ``pairs`` (nc, 2) with the smallest gap ``phi`` (nc,), and its overlap, m."""
    worst = int(np.argmin(phi))
    return pairs[worst].tolist(), -float(phi[worst])
