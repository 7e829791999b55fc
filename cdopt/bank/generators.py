"""Functions that build the problems of the bank, named by ``generator.name`` in a manifest.

Most build a scene, detect its contacts and return their contact step. Bodies that only fixed
supports hold up lose the degrees of freedom that no contact acts on. Those of problems with
friction return the scene, from which ``pose`` makes the step; some problems have no scene.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from cdopt._util import archive, checks
from cdopt._util.checks import (
    FloatArray,
    integer,
    not_negative,
    number,
    positive,
    scalar,
    seed,
    share,
)
from cdopt._util.errors import InvalidInput
from cdopt._util.files import problems_folder
from cdopt._util.parameters import limits
from cdopt.bank.trusses import Truss, fan, fan_forces, unreachable_load
from cdopt.collision import detect
from cdopt.collision import step as contact_step
from cdopt.problem.contact_step import ContactStep
from cdopt.problem.delassus_step import DelassusStep
from cdopt.scene import (
    Body,
    Box,
    HalfSpace,
    Material,
    Polygon,
    Scene,
    Sphere,
    Spheres,
    arch,
    brick_wall,
    incline,
    ladder,
    load_blocks,
    sphere_on_floor,
)
from cdopt.scene import collision as two_spheres
from cdopt.scene.generators import floor, walls_at
from cdopt.scene.generators.packings import crystal_positions, pyramid_positions
from cdopt.scene.scene import GRAVITY

__all__ = [
    "Truss", "ball", "beam", "beam_on", "brick_pyramid", "chain", "crystal_2d",
    "duplicated_contacts", "fan", "fan_forces", "heavy_and_light", "impact", "incline", "ladder",
    "launched_box", "legs", "masonry", "nearly_parallel", "packing", "painleve_rod", "pose",
    "pyramid", "pyramid_falling", "rank_deficient", "rough_arch", "rough_pile", "rough_wall",
    "squeezed", "stack", "supports", "supports_delassus", "table", "ten_orders", "tripod", "uneven",
    "unreachable_load", "wedge", "zero_contacts",
]  # fmt: skip

_COUNT, _LAYERS = integer(1, 1000), integer(2, 150)  # layers of a pyramid
_RATIO, _SLOPE = number(at_least=1.0), number(above=0.0, at_most=60.0)  # slopes in degrees
_TWO_SUPPORTS = ("H", "A", "type-a", "type-c")
_MODEL = checks.one_of(
    (*_TWO_SUPPORTS, "shelf-stable", "shelf-s1", "concave-short", "concave-long")
)
_SPECIES = checks.one_of(("uniform", "species"))
DT = 1e-3  # s; in piles, where m = d = g = 1, in units of √(d/g)
WEIGHT = 10.0  # N, of platforms
_THIN = 1e-7  # thickness of platforms, m: their inertia is that of a rod or a plate
_SUPPORT = 0.05  # radius of supports, m
_REACH = 1e-6  # gap up to which a contact is detected, m
_FAR = 1e-3  # the same with friction, m
_ROUND_OFF = 1e-9  # gaps of bodies that were placed to touch, m
_BEAM_NAMES = ("left", "middle", "right")
_CORNERS = np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]])


def pose(scene: Scene, reach: float = _FAR, friction: bool = True) -> ContactStep:
    """The step of a scene as it is, of contacts with gaps up to ``reach`` m.

    With ``friction``, its contacts have that which the scene's materials state.

    Raises
    ------
    InvalidInput : a contact whose friction the scene does not state.
    """
    checks.instance("scene", scene, Scene)
    contacts = detect(scene, scene.initial, reach)
    step = contact_step(scene, scene.initial, contacts, DT, overlaps="resolve", friction=friction)
    return step.replace(phi=np.where(np.abs(contacts.phi) < _ROUND_OFF, 0.0, contacts.phi))


def _step(
    scene: Scene, reach: float = _REACH, columns: Sequence[int] = (), **changes: Any
) -> ContactStep:
    """The frictionless step without names, with only these degrees of freedom of each body."""
    step = pose(scene, reach, friction=False).replace(**{"contact_ids": None, **changes})
    if not columns:
        return step
    width = step.nv // np.count_nonzero(~scene.bodies.fixed)
    chosen = np.flatnonzero(np.isin(np.arange(step.nv) % width, columns))
    return step.replace(
        M=step.M[chosen][:, chosen],
        B=step.B[:, chosen],
        v=step.v[chosen],
        F_ext=step.F_ext[chosen],
        dof_body=np.asarray(step.dof_body)[chosen],
    )


# --- platforms on supports -----------------------------------------------------------------------


@limits(length=positive)
def beam_on(
    x: object,
    stiffness: object = 1.0,
    gaps: object = 0.0,
    contact_ids: object = None,
    length: float = 1.0,
) -> ContactStep:
    """A rigid platform of 10 N at rest on fixed supports at x (nc,) in m, from its middle.

    Degrees of freedom: height (m) and turn (rad) about the middle. The mass is 10 N / g, the
    moment of inertia that of a thin rod of ``length`` m, dt = 1 ms. ``stiffness`` is relative and
    ``gaps`` in m, each one number or (nc,); ``contact_ids`` (nc,) names the supports. Olsen &
    Kamrin (2018), section 8.1, at rest.

    Raises
    ------
    InvalidInput : a support beyond the platform.
    """
    places = checks.vector("x", x, None, "m")
    if not 2.0 * np.abs(places).max(initial=0.0) <= length:
        raise InvalidInput("x", f"{places.tolist()}", f"supports under a platform of {length:g} m")
    depth = checks.per_contact("gaps", gaps, places.size, at_least=0.0)
    supports = Spheres(
        centres=np.column_stack([places, -_SUPPORT - depth]), radius=_SUPPORT, fixed=True
    )
    platform = Body(Box([length, _THIN]), [0.0, 0.5 * _THIN], mass=WEIGHT / GRAVITY)
    scene, reach = Scene([supports, platform], dim=2), float(depth.max(initial=0.0)) + _REACH
    return _step(scene, reach, [1, 2], stiffness=stiffness, contact_ids=contact_ids)


@limits(middle_stiffness=positive, middle_gap=not_negative)
def beam(middle_stiffness: float = 1.0, middle_gap: float = 0.0) -> ContactStep:
    """A platform of 1 m and 10 N on three supports, the middle one stiffer or lower.

    ``middle_stiffness`` is relative to the others, ``middle_gap`` in m. Without a gap, Hooke
    contacts carry (1, k, 1) 10 N / (2 + k), since the platform sinks without turning; with a gap
    of more than the platform falls in a step, the outer supports carry 5 N each. nullity 1.
    Source: Olsen & Kamrin (2018), section 8.1.
    """
    k, gaps = [1.0, middle_stiffness, 1.0], [0.0, middle_gap, 0.0]
    return beam_on([-0.5, 0.0, 0.5], k, gaps, _BEAM_NAMES)


@limits(copies=_COUNT)
def duplicated_contacts(copies: int = 2) -> ContactStep:
    """The uniform beam with each support listed ``copies`` times, as collision code may do.

    Each copy counts as a strut: 10 N / (3 copies) each. nullity 3 copies − 2.
    """
    ids = [f"{name} {i}" for name in _BEAM_NAMES for i in range(copies)]
    return beam_on(np.repeat([-0.5, 0.0, 0.5], copies), contact_ids=ids)


@limits(n=integer(2, 10_000))
def supports(n: int = 5) -> ContactStep:
    """A platform of 1 m and 10 N on n evenly spaced supports of equal stiffness.

    nullity n − 2. By symmetry the platform sinks without turning, so that every support carries
    10 N / n, whatever the power of the contact law.
    """
    x = np.linspace(-0.5, 0.5, n)
    return beam_on(0.5 * (x - x[::-1]))


@limits(n=integer(2, 3000))
def supports_delassus(n: int = 5) -> DelassusStep:
    """``supports`` known only by its Delassus matrix N (n, n), m/(s·N), and p (n,), m/s.

    N has rank 2, so that the program (22) is bound-constrained with a singular Hessian.
    """
    full = supports(n)
    return DelassusStep(
        full.N, full.p_vec, full.dt, bodies=full.bodies, normals=full.normals, points=full.points
    )


@limits(mass=positive)
def table(mass: float = WEIGHT / GRAVITY) -> ContactStep:
    """A square table top of 1 m at rest on four legs at its corners, loaded in the middle.

    ``mass`` in kg. Degrees of freedom: height (m), turns about x and y (rad). nullity 1: the
    force that presses along one diagonal and lifts along the other does nothing.
    """
    return _tables(_CORNERS, [mass])


def tripod() -> ContactStep:
    """A square top of 1 m and 10 N on three legs: nullity 0, every force is determined."""
    return _tables(_circle(3, 0.5 * np.pi), [WEIGHT / GRAVITY])


@limits(n=integer(3, 10_000))
def legs(n: int = 8) -> ContactStep:
    """A square top of 1 m and 10 N on n ≥ 3 legs, evenly on a circle of 1 m.

    nullity n − 3. By symmetry each leg carries 10 N / n, whatever the power of the contact law.
    """
    return _tables(_circle(n, 0.0), [WEIGHT / GRAVITY])


@limits(lightest=positive, heaviest=positive, count=_COUNT)
def ten_orders(lightest: float = 1e-5, heaviest: float = 1e5, count: int = 11) -> ContactStep:
    """Independent four-legged tables whose masses (kg) span ten orders of magnitude.

    The ``count`` masses go from ``lightest`` to ``heaviest``, by equal ratios. Table k carries
    m_k g / 4 on each leg. A solver that measures its errors relative to the largest force
    ignores the light tables.
    """
    return _tables(_CORNERS, np.geomspace(lightest, heaviest, count))


def _circle(n: int, start: float) -> FloatArray:
    """(n, 2) places on a circle of 1 m."""
    angle = start + 2.0 * np.pi * np.arange(n) / n
    return 0.5 * np.column_stack([np.cos(angle), np.sin(angle)])


def _tables(feet: FloatArray, masses: Sequence[float] | FloatArray) -> ContactStep:
    """Square tops of 1 m side by side, one for each mass in kg, on legs at ``feet`` (nl, 2), m."""
    middles = 1.5 * np.arange(len(masses))
    places = (np.stack([middles, 0.0 * middles], axis=1)[:, None] + feet).reshape(-1, 2)
    centres = np.column_stack([places, np.full(len(places), -_SUPPORT)])
    top = Box([1.0, 1.0, _THIN])
    tops = [
        Body(top, [x, 0.0, 0.5 * _THIN], mass=float(mass))
        for x, mass in zip(middles, masses, strict=True)
    ]
    scene = Scene([Spheres(centres=centres, radius=_SUPPORT, fixed=True), *tops], dim=3)
    return _step(scene, columns=[2, 3, 4])


# --- one or two bodies ---------------------------------------------------------------------------


@limits(height=not_negative, speed=scalar, floor_speed=scalar)
def ball(height: float = 0.0, speed: float = 0.0, floor_speed: float = 0.0) -> ContactStep:
    """A ball of 1 kg and radius 0.1 m above or on a floor, falling at ``speed``.

    ``height`` (m) is the gap, ``speed`` (m/s) counts downwards, ``floor_speed`` (m/s) upwards.
    Degrees of freedom: the three translations. Unique in every respect: nullity 0.
    """
    scene = sphere_on_floor(gap=height, floor_speed=floor_speed, dim=3)
    return _step(scene, height + _REACH, v=[0.0, 0.0, -speed])


def zero_contacts() -> ContactStep:
    """A ball of 1 kg in free fall and no contact at all: B is (0, 3), every contact array empty."""
    return _step(Scene([Body(Sphere(0.1), np.zeros(3), mass=1.0)], dim=3))


@limits(restitution=share, speed=positive)
def impact(restitution: float = 0.5, speed: float = 1.0) -> ContactStep:
    """Two discs of 1 kg and diameter 1 m that meet head-on, each at ``speed`` (m/s).

    The gap is 0.6 of the way they close in the step, so that they touch within it. Degrees of
    freedom: two translations each. They part at restitution × their approach: each keeps
    −restitution × speed, and the contact force is (1 + restitution) × 1 kg × speed / dt.
    """
    gap, speeds = 0.6 * 2.0 * speed * DT, (speed, -speed)
    return _step(two_spheres(restitution, speeds=speeds, radius=0.5, gap=gap), gap + _REACH)


@limits(overlap=number(above=0.0, at_most=0.5))
def squeezed(overlap: float = 0.01) -> ContactStep:
    """A disc of 1 kg between two fixed walls, jammed: an ``overlap`` (m) with both.

    It cannot leave both walls at once: the multipliers g = (1, 1) have Bᵀg = 0 and gᵀΦ < 0, and
    no motion exists that (22) could choose. Degrees of freedom: two translations.
    """
    walls = walls_at(np.array([[overlap - 0.5, 0.5 - overlap]]), 2)
    disc = Body(Sphere(0.5), np.zeros(2), mass=1.0)
    return _step(Scene([*walls, disc], dim=2, overlap_tol=1.0))


@limits(speed=not_negative, mu=number(above=0.0, at_most=2.0))
def launched_box(speed: float = 6.0, mu: float = 0.5) -> Scene:
    """A box of 1 kg, 0.4 m long and 0.1 m high, that slides on a floor at ``speed`` m/s.

    The friction coefficient is ``mu``.

    Coulomb's law slows it by μ g Δt. The associated law throws it up at μ times the speed
    that is left, u = speed − μ (μ speed + g Δt)/(1 + μ²).
    """
    box = Body(Box([0.4, 0.1]), [0.0, 0.05], mass=1.0, velocity=[speed, 0.0])
    return Scene([floor(2), box], dim=2, friction=mu, name="launched-box")


@limits(
    gap=number(at_least=-_FAR, at_most=0.9 * _FAR), speed=not_negative, angle=_SLOPE, mu=positive
)
def wedge(gap: float = 1e-4, speed: float = 1.0, angle: float = 20.0, mu: float = 0.5) -> Scene:
    """A wedge of 1 kg that moves down at ``speed`` (m/s) between two fixed walls.

    Its flanks and the walls are at ``angle`` (degrees) from the upright, nearer than the friction
    angle, and ``gap`` (m) apart: above 0 the wedge is stopped; at 0 its forces have an unbounded
    direction, one wall against the other; below 0 the associated law has no solution. ``mu`` is the
    friction coefficient.
    """
    half, wide = np.radians(angle), 0.1 * float(np.tan(np.radians(angle)))
    stone = Polygon([[0.0, 0.0], [wide, 0.1], [-wide, 0.1]])
    normals = np.array([[np.cos(half), np.sin(half)], [-np.cos(half), np.sin(half)]])
    walls = [Body(HalfSpace(normal), -gap * normal) for normal in normals]
    body = Body(stone, stone.centre, mass=1.0, velocity=[0.0, -speed])
    return Scene([*walls, body], dim=2, friction=mu, name="wedge", overlap_tol=1.0)


@limits(angle=_SLOPE, mu=positive, lift=scalar, slide=not_negative)
def painleve_rod(
    angle: float = 30.0, mu: float = 3.0, lift: float = 0.1, slide: float = 10.0
) -> Scene:
    """Painlevé's rod: 1 kg and 2 m, its lower end slides on a floor of friction ``mu``.

    Its angle from the floor is ``angle`` (degrees). After free motion its end would leave the floor
    at ``lift`` m/s and slide at ``slide`` m/s, backwards. With the default numbers Coulomb's
    law has three solutions: the end flies, slides or sticks.
    """
    turn, thin = np.radians(angle), 4e-3
    middle = float(np.sin(turn) + 0.5 * thin * np.cos(turn))
    velocity = [-slide, lift + GRAVITY * DT]
    rod = Body(Box([2.0, thin]), [0.0, middle], angle=float(turn), mass=1.0, velocity=velocity)
    return Scene([floor(2), rod], dim=2, friction=mu, name="painleve-rod")


# --- piles: units m = d = g = 1, mass, length and gravity of one body ----------------------------


@limits(n=_LAYERS, material=_SPECIES, modulus_ratio=positive)
def pyramid(n: int = 5, material: str = "uniform", modulus_ratio: float = 5.0) -> ContactStep:
    """A cannonball pyramid at rest: n layers of spheres that exactly touch, base layer fixed.

    Degrees of freedom: the three translations of each free sphere, in order. Contacts in
    lexicographic order of their spheres, without those between base spheres. ``material`` is
    "uniform" or "species": spheres of even number (from 0) soft and of odd number
    ``modulus_ratio`` times as stiff, in series at each contact: E_i E_j / (E_i + E_j), for a ratio
    of five 1/5 : 1/3 : 1, the last one. Olsen & Kamrin (2018), section 8.2.
    """
    centres, layers = pyramid_positions(n)
    names = ["soft", "hard"] if material == "species" else ["hard"]
    pile = Spheres(
        centres=centres,
        radius=0.5,
        mass=1.0,
        fixed=layers == 0,
        material=[names[k % len(names)] for k in range(len(centres))],
    )
    stiffness = {"soft": 2.0 / modulus_ratio, "hard": 2.0}
    materials = [Material(name=name, stiffness=k) for name, k in stiffness.items()]
    return _step(Scene([pile], dim=3, gravity=[0.0, 0.0, -1.0], materials=materials))


@limits(n=_LAYERS, opened=share, seed=seed)
def pyramid_falling(n: int = 5, opened: float = 0.3, seed: int = 1805) -> ContactStep:
    """A pyramid of n layers in mid-fall: not at rest, and with some of its gaps open.

    A share ``opened`` of the contacts gets gaps drawn evenly from 0 to 0.3 of the fall of one
    step, g Δt²; the spheres move down at 0.25 to 0.75 of g Δt, and sideways at up to a tenth of
    it. The gaps fit no single arrangement of spheres, which the step does not require. ``seed`` is
    of the draw; the bank stores the default step, whatever the version of NumPy.
    """
    settled, random = pyramid(n), np.random.default_rng(seed)
    phi = np.zeros(settled.nc)
    chosen = random.permutation(settled.nc)[: round(opened * settled.nc)]
    phi[chosen] = random.uniform(0.0, 0.3 * DT**2, chosen.size)
    free = settled.nv // 3
    sideways = random.uniform(-0.1 * DT, 0.1 * DT, (free, 2))
    down = random.uniform(-0.75 * DT, -0.25 * DT, free)
    return settled.replace(phi=phi, v=np.column_stack([sideways, down]).ravel())


@limits(rows=_COUNT, columns=integer(2, 1000))
def crystal_2d(rows: int = 8, columns: int = 10) -> ContactStep:
    """A hexagonal crystal of discs at rest on a floor, between two side walls, in the plane.

    Rows of ``columns`` discs, which reach both walls, alternate with rows of one disc less.
    Degrees of freedom: the two translations of each disc, in order; bodies are floor, left and
    right wall, then the discs by row and x.
    """
    discs = Spheres(centres=crystal_positions(rows, columns), radius=0.5, mass=1.0)
    walls = walls_at(np.array([[0.0, float(columns)]]), 2)
    return _step(Scene([floor(2), *walls, discs], dim=2, gravity=[0.0, -1.0]))


@limits(n=integer(1, 100_000), mass_ratio=positive)
def chain(n: int = 10, mass_ratio: float = 1.0) -> ContactStep:
    """A column of n balls, one on another, on a floor.

    Degrees of freedom: the height of each. nullity 0: contact k carries all that lies above it.
    B's smallest singular value falls like 1/n. The balls' masses grow evenly in their logarithm
    from 1 at the bottom to ``mass_ratio`` at the top.
    """
    centres = np.column_stack([np.zeros(n), np.arange(n) + 0.5])
    balls = Spheres(centres=centres, radius=0.5, mass=np.geomspace(1.0, mass_ratio, n))
    return _step(Scene([floor(2), balls], dim=2, gravity=[0.0, -1.0]), columns=[1])


@limits(n=integer(1, 100_000))
def stack(n: int = 10) -> ContactStep:
    """n cubes, one on another, on a floor; four contacts at the corners of each joint.

    Degrees of freedom of each cube: height, turns about x and y. nullity n. By symmetry the four
    corners of joint k share the weight above it evenly.
    """
    cube = Box([1.0, 1.0, 1.0])
    cubes = [Body(cube, [0.0, 0.0, k + 0.5], mass=1.0) for k in range(n)]
    scene = Scene([floor(3), *cubes], dim=3, gravity=[0.0, 0.0, -1.0])
    return _step(scene, columns=[2, 3, 4])


@limits(courses=integer(1, 500))
def brick_pyramid(courses: int = 4) -> ContactStep:
    """A stepped brick wall in the plane, in running bond: each course one brick shorter.

    Bricks are 1 long and 0.3 high. Each lies half on either brick below, with two contacts on
    each; head joints do not count, as nothing presses them. Degrees of freedom: the two
    translations and the turn of each brick, from the left, course by course. nullity
    courses (courses − 1): four contacts for the two equations of a brick above the first course.
    """
    brick = Box([1.0, 0.3])
    bricks = [
        Body(brick, [k + 0.5 * j, 0.3 * (j + 0.5)], mass=1.0)
        for j in range(courses)
        for k in range(courses - j)
    ]
    step = _step(Scene([floor(2), *bricks], dim=2, gravity=[0.0, -1.0]))
    upright = np.asarray(step.normals)[:, 1] > 0.5
    return step.select(np.flatnonzero(upright))


@limits(n=integer(2, 10_000), angle=number(above=0.0, at_most=1.0))
def nearly_parallel(n: int = 6, angle: float = 1e-4) -> ContactStep:
    """A disc in a groove of n facets whose normals all lie within ±angle of the vertical.

    Degrees of freedom: its two translations; only the angles resist the sideways one, so that
    B's columns differ in size by about 1/angle. It rests under its weight, 1, and a sideways push
    of angle/4. nullity n − 2.
    """
    tilt = np.linspace(-angle, angle, n)
    normals = np.column_stack([np.sin(tilt), np.cos(tilt)])
    facets = [Body(HalfSpace(normal), -0.5 * normal) for normal in normals]
    disc = Body(Sphere(0.5), np.zeros(2), mass=1.0, force=[angle / 4.0, 0.0])
    return _step(Scene([*facets, disc], dim=2, gravity=[0.0, -1.0]))


@limits(
    n=integer(1, 10**6), tiles=integer(1, 100), layers=_COUNT, stiffness_ratio=_RATIO, seed=seed
)
def packing(
    n: int = 300, tiles: int = 1, layers: int = 6, stiffness_ratio: float = 1.0, seed: int = 0
) -> ContactStep:
    """Spheres of several sizes at rest under gravity, disordered, on a rough floor.

    A cell of n spheres repeats in x and y. It was settled once as soft spheres and is kept in
    ``problems/packings``; pairs that overlap there are the contacts, with about 1.1 contacts for
    each degree of freedom. The step takes them as rigid and just touching. The whole is
    tiles × tiles such cells, repeated again beyond its sides. Degrees of freedom: the three
    translations of each free sphere, tile by tile. Body 0 is the floor; a third of it is covered
    with fixed spheres. ``points`` of contacts across a side of the whole lie at the first sphere.

    Parameters
    ----------
    n, layers : spheres in a cell, and its depth in diameters, about. Radii are spread evenly over
        1/2 × (1 ± 0.2).
    tiles : cells along x and along y.
    stiffness_ratio, seed : as for ``uneven``. With equal stiffness all tiles carry the same forces.

    Raises
    ------
    InvalidInput : no such cell is stored.
    """
    folder = problems_folder() / "packings"
    path = folder / f"n{n}-layers{layers}.npz"
    if not path.is_file():
        cells = ", ".join(sorted(p.stem for p in folder.glob("*.npz")))
        raise InvalidInput("n", f"{n} in {layers} layers", f"one of the cells {cells}")
    cell = archive.read_arrays(path, "a settled cell")
    side = float(cell["side"])
    shift = side * np.stack(np.divmod(np.arange(tiles**2), tiles), axis=-1)
    centres = np.tile(cell["centres"], (tiles**2, 1))
    centres[:, :2] += np.repeat(shift, n, axis=0)
    radii, fixed = (np.tile(cell[name], tiles**2) for name in ("radii", "fixed"))
    spheres = Spheres(centres=centres, radius=radii, mass=(2.0 * radii) ** 3, fixed=fixed)
    box, weight = [tiles * side, tiles * side, np.inf], [0.0, 0.0, -1.0]
    scene = Scene([floor(3), spheres], dim=3, gravity=weight, overlap_tol=1.0, box=box)
    touching = detect(scene, scene.initial, 0.0)
    step = contact_step(scene, scene.initial, touching, DT, overlaps="touching")
    return uneven(step.replace(contact_ids=None), stiffness_ratio, seed)


@limits(courses=_COUNT, bricks=_COUNT, mu=positive)
def rough_wall(courses: int = 5, bricks: int = 4, mu: float = 0.6) -> Scene:
    """``cdopt.scene.brick_wall`` of ``courses`` and ``bricks`` at rest, all joints with ``mu``."""
    return brick_wall(courses, bricks).with_friction(mu)


@limits(voussoirs=_COUNT, mu=positive)
def rough_arch(voussoirs: int = 9, mu: float = 0.6) -> Scene:
    """``cdopt.scene.arch`` of ``voussoirs`` at rest, with friction ``mu`` in all joints."""
    return arch(voussoirs).with_friction(mu)


@limits(model=_MODEL, mu=positive)
def masonry(model: str = "type-c", mu: float = 0.84) -> ContactStep:
    """Blocks of compas_cra at rest, on their supports, with friction ``mu`` in all joints.

    ``model`` is H, A, type-a, type-c, shelf-stable, shelf-s1, concave-short or concave-long. Blocks
    need not be convex; contacts are the corners of the faces that they share. H and A are stable
    only if they are pressed together beforehand, and shelf-s1 falls: ``cdopt.stability``.
    """
    path = problems_folder() / "masonry" / f"{model}.json"
    supports = [0, 1] if model in _TWO_SUPPORTS else [0]
    return load_blocks(path, supports=supports).step(mu)


@limits(n=_LAYERS, mu=positive)
def rough_pile(n: int = 4, mu: float = 0.5) -> Scene:
    """A cannonball pyramid at rest, of spheres with friction ``mu``, ``n`` along the base."""
    centres, layers = pyramid_positions(n)
    pile = Spheres(centres=centres, radius=0.5, mass=1.0, fixed=layers == 0)
    return Scene([pile], dim=3, friction=mu, gravity=[0.0, 0.0, -1.0], name="rough-pile")


@limits(ratio=_RATIO, seed=seed)
def uneven(step: ContactStep, ratio: float = 1e6, seed: int = 0) -> ContactStep:
    """The same step with stiffness drawn at random, log-uniform, the most over the least ``ratio``.

    ``seed`` is of the draw.
    """
    checks.instance("step", step, ContactStep)
    if ratio == 1.0:
        return step
    random = np.random.default_rng(seed)
    return step.replace(stiffness=ratio ** random.uniform(-0.5, 0.5, step.nc))


@limits(ratio=_RATIO, seed=seed)
def heavy_and_light(step: ContactStep, ratio: float = 1e6, seed: int = 0) -> ContactStep:
    """The same step, its bodies' masses and loads multiplied at random over orders of magnitude.

    The factors are drawn log-uniform, the most over the least ``ratio``, one for each body that
    moves; ``seed`` is of the draw. Such a pile need not be at rest.

    Raises
    ------
    InvalidInput : the step has no ``dof_body``.
    """
    if checks.instance("step", step, ContactStep).dof_body is None:
        raise InvalidInput("step", "no dof_body", "a step that names the body of each dof")
    random = np.random.default_rng(seed)
    bodies, body = np.unique(step.dof_body, return_inverse=True)
    factor = (ratio ** random.uniform(-0.5, 0.5, bodies.size))[body]
    root = sp.diags_array(np.sqrt(factor))
    return step.replace(M=root @ step.M @ root, F_ext=step.F_ext * factor)


# --- without scenes: matrices with redundant rows and columns, and trusses under a given load -----


def rank_deficient() -> ContactStep:
    """Two balls of 1 kg stacked on a floor, with redundant rows and columns.

    B (5, 12) has six columns of zeros (the balls' rotations, which frictionless contact does not
    turn), the ball–ball contact twice, the floor contact twice with the second one scaled to
    half its speed (as a lever arm would), and a row of zeros (a contact between two fixed
    things). nullity 3.
    """
    B = np.zeros((5, 12))
    B[0, 2], B[1, 2] = 1.0, 0.5
    B[2:4, 2], B[2:4, 8] = -1.0, 1.0
    radius, inertia = 0.1, 0.4 * 0.1**2  # m, kg·m²
    load = np.zeros(12)
    load[[2, 8]] = -GRAVITY
    return ContactStep(
        M=np.diag(np.tile([1.0, 1.0, 1.0, inertia, inertia, inertia], 2)),
        B=B,
        phi=np.zeros(5),
        v=np.zeros(12),
        F_ext=load,
        dt=1e-3,
        points=[[0.0, 0.0, z * radius] for z in (0.0, 0.0, 2.0, 2.0, 0.0)],
        dof_body=np.repeat([0, 1], 6),
    )
