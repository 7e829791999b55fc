"""What a review of the general shapes found: places where a contact should be another, or none."""

from __future__ import annotations

import numpy as np
import pytest

import cdopt
from cdopt import collision
from cdopt.collision import detect
from cdopt.scene import Body, Box, Capsule, Compound, Part, Polygon, Polyhedron, Scene, Sphere

TETRAHEDRON = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
FACES = [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]


@pytest.mark.parametrize("other", [Sphere(0.2), Capsule(0.2, 1.0)])
@pytest.mark.parametrize("gap", [0.01, 0.05])
@pytest.mark.parametrize("angle", [0.0, 0.5 * np.pi])
def test_in_the_plane_a_capsule_meets_what_lies_ahead_with_its_end(other, gap, angle) -> None:
    reach = 0.7 + (0.2 if isinstance(other, Sphere) else 0.7)
    along = np.round([np.cos(angle), np.sin(angle)])
    scene = Scene(
        [Body(Capsule(0.2, 1.0), [0.0, 0.0], mass=1.0, angle=angle),
         Body(other, (reach + gap) * along, mass=1.0, angle=angle)],
        dim=2,
    )  # fmt: skip
    found = detect(scene, scene.initial, margin=0.1)
    np.testing.assert_allclose(found.phi, [gap], atol=1e-12)
    np.testing.assert_allclose(found.normals, [along], atol=1e-12)


def test_capsules_in_the_plane_that_point_at_each_other_may_start_apart() -> None:
    """Their bounding circles overlap the corner of a box; what the start looks at is the pair."""
    rods = Compound([Part(Capsule(0.1, 1.0), [0.0, 0.0]), Part(Box([0.2, 1.0]), [-0.7, 0.5])])
    scene = Scene([Body(rods, rods.centre, mass=1.0), Body(Sphere(0.1), [0.71, 0.0], mass=1.0)],
                  dim=2)  # fmt: skip
    np.testing.assert_allclose(detect(scene, scene.initial, margin=0.02).phi, [0.01], atol=1e-12)


@pytest.mark.parametrize("speed", [0.77, 1.87, 2.0])
@pytest.mark.parametrize("dim", [2, 3])
def test_a_box_slides_over_the_seam_of_two_flush_boxes(dim: int, speed: float) -> None:
    """Without friction nothing slows it; the seam is no step."""
    flat = [0.0] * (dim - 1)
    tiles = [Body(Box([1.0] * dim), [k, *flat], fixed=True) for k in (0.0, 1.0)]
    slider = Body(Box([0.6] * dim), [*flat, 0.8], mass=1.0, velocity=[speed, *flat])
    scene, dt = Scene([*tiles, slider], dim=dim), 5e-3
    state = scene.initial
    for _ in range(int(0.4 / speed / dt)):
        found = detect(scene, state, collision.safe_margin(scene, state, dt))
        solution = cdopt.ClassicCD(collision.step(scene, state, found, dt)).solve("newton")
        state = collision.advance(scene, state, solution.v_next, dt)
    assert state.position[2, 0] > 0.3  # past the seam with its leading corner
    np.testing.assert_allclose(state.velocity[2], [speed, *flat], atol=1e-9)


MALFORMED = {
    "a number beyond floats in a polygon": lambda: Polygon([[0, 0], [10**400, 0], [0, 1]]),
    "a number beyond floats in a polyhedron": lambda: Polyhedron(
        [[0, 0, 0], [10**400, 0, 0], [0, 1, 0], [0, 0, 1]]
    ),
    "an infinite corner number": lambda: Polyhedron(TETRAHEDRON, [[0, 2, np.inf], *FACES[1:]]),
    "a ragged position of a part": lambda: Compound([Part(Sphere(1.0), [[0.0], [0.0, 1.0]])]),
    "a generator of parts": lambda: Compound(p for p in [Part(Sphere(1.0), [0.0, 0.0])]),
    "a set of parts": lambda: Compound({Part(Sphere(1.0), (0.0, 0.0))}),
    "complex corners": lambda: Polygon(np.array([[0, 0], [1, 0], [0, 1 + 2j]])),
    "corners that are dates": lambda: Polygon(
        np.array([[0, 0], [1, 0], [0, 1]], dtype="timedelta64[s]")
    ),
    "a capsule too large for its inertia": lambda: Scene(
        [Body(Capsule(1e120, 1e120), [0.0] * 3, mass=1.0)], dim=3
    ),
    "a capsule too small for its inertia": lambda: Scene(
        [Body(Capsule(1e-120, 1e-120), [0.0] * 3, mass=1.0)], dim=3
    ),
    "a polyhedron too large for its volume": lambda: Polyhedron(np.array(TETRAHEDRON) * 1e120),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_no_shape_is_refused_as_an_input(name: str) -> None:
    with pytest.raises(cdopt.InvalidInput):
        MALFORMED[name]()


def test_a_corner_number_is_a_whole_real_number_even_after_the_same_solid_was_made() -> None:
    Polyhedron(TETRAHEDRON, FACES)
    with pytest.raises(cdopt.InvalidInput, match="faces"):
        Polyhedron(TETRAHEDRON, [[0j, 2, 1], *FACES[1:]])


def test_faces_that_can_be_read_only_once_are_refused() -> None:
    with pytest.raises(cdopt.InvalidInput, match="faces"):
        Polyhedron(TETRAHEDRON, (face for face in FACES))


def test_a_needle_is_a_solid_whichever_shape_it_is_made_of() -> None:
    width = 1e-5
    corners = [[x, y, z] for z in (0.0, 1.0) for y in (0.0, width) for x in (0.0, width)]
    box = Box([width, width, 1.0])
    assert Polyhedron(corners).mass_properties(3).volume == pytest.approx(
        box.mass_properties(3).volume
    )


@pytest.mark.parametrize("beyond", [0.0, 4e-9, 4e-8, 4e-7])
@pytest.mark.parametrize("width", [1.0, 3.0])
def test_an_edge_just_beyond_another_touches_it_where_the_two_run_side_by_side(
    beyond: float, width: float
) -> None:
    """A box leans over the edge of another with its own lowest edge, which passes it by a hair."""
    tilt = -np.pi / 6.0
    lowest = np.array([0.0, 0.5 + beyond, 0.5 - beyond])
    c, s = np.cos(tilt), np.sin(tilt)
    middle = lowest - [0.0, 0.5 * c + 0.5 * s, 0.5 * s - 0.5 * c]
    turn = [np.cos(0.5 * tilt), np.sin(0.5 * tilt), 0.0, 0.0]
    scene = Scene(
        [Body(Box([1.0, 1.0, 1.0]), [0.0] * 3, fixed=True),
         Body(Box([width, 1.0, 1.0]), middle, mass=1.0, orientation=turn)],
        dim=3, overlap_tol=1.0,
    )  # fmt: skip
    found = detect(scene, scene.initial, margin=1e-4)
    np.testing.assert_allclose(np.sort(found.points[:, 0])[[0, -1]], [-0.5, 0.5], atol=1e-5)
    np.testing.assert_allclose(found.phi, 0.0, atol=2.0 * beyond + 1e-15)


@pytest.mark.parametrize("angle", [1e-6, 3e-6, 1e-5])
def test_every_contact_of_capsules_almost_side_by_side_has_a_name_of_its_own(angle: float) -> None:
    turn = [np.cos(0.5 * angle), 0.0, 0.0, np.sin(0.5 * angle)]
    for shift in (0.0, 0.1, 0.2):
        scene = Scene(
            [Body(Capsule(0.2, 1.0), [0.0] * 3, fixed=True),
             Body(Capsule(0.2, 1.0), [shift, 0.1 * angle, 0.401], mass=1.0, orientation=turn)],
            dim=3,
        )  # fmt: skip
        found = detect(scene, scene.initial, margin=0.01)
        assert len(set(found.contact_ids.tolist())) == found.nc
