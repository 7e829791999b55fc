"""Turning in space: angular momentum, order, and rest on a floor, with both updates."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from turning_tops import (
    ANYHOW,
    SIZE,
    TUMBLING,
    UPRIGHT,
    above_floor,
    box,
    euler,
    floating,
    free_flight,
    kinetic_energy,
    rotation,
    solved,
    times,
    turn,
)

import cdopt
from cdopt import collision
from cdopt.collision.motion import TURNINGS
from cdopt.dynamics import analysis
from cdopt.dynamics.analysis import Motion
from cdopt.scene import Body, Box, Capsule, HalfSpace, Polyhedron, Scene, Sphere, State

INERTIA = (SIZE @ SIZE - SIZE**2) / 12.0  # of the box of 1 kg, kg·m²
EDGE = turn(0.5, 0.0, 0.0)
CORNER = times(turn(0.0, 0.4, 0.0), EDGE)


def angular_momentum(scene: Scene, state: State) -> np.ndarray:
    """Of each free body about its own centre, (n, 3), N m s, written out."""
    free = np.flatnonzero(~scene.bodies.fixed)
    axes = [rotation(q) for q in state.orientation[free]]
    own = zip(axes, scene.bodies.inertia[free], state.angular_velocity[free], strict=True)
    return np.array([R @ (J * (R.T @ omega)) for R, J, omega in own])


def drift(scene: Scene, state: State) -> float:
    """Largest change of a body's angular momentum since the start, as a share of it."""
    begun = angular_momentum(scene, scene.initial)
    change = np.linalg.norm(angular_momentum(scene, state) - begun, axis=1)
    return float((change / np.linalg.norm(begun, axis=1)).max())


# --- free bodies ---------------------------------------------------------------------------


@pytest.mark.slow
def test_angular_momentum_and_energy_are_kept_over_two_thousand_steps() -> None:
    plate, rod = np.array([0.4, 0.3, 0.02]), np.array([1.0, 0.1, 0.07])
    scene = floating(
        box(TUMBLING), box(ANYHOW, 2.0), box(ANYHOW, 4.0, plate), box(ANYHOW, 6.0, rod)
    )
    state, energy = free_flight(scene, 1e-2, 2_000, "momentum")
    assert drift(scene, state) < 1e-10
    swing = np.abs(energy / kinetic_energy(scene, scene.initial) - 1.0)
    assert swing[:500].max() < 1e-3
    assert swing[-500:].max() < 1.1 * swing[:500].max()
    np.testing.assert_allclose(np.linalg.norm(state.orientation, axis=1), 1.0, atol=1e-14)
    assert np.abs(state.angular_velocity - scene.initial.angular_velocity).max() > 0.1


@pytest.mark.slow
@given(seed=st.integers(0, 2**32 - 1), reach=st.floats(1e-3, 3.0))
@settings(max_examples=2, deadline=None)
def test_any_boxes_with_any_spins_keep_their_angular_momentum(seed: int, reach: float) -> None:
    """Also where they turn by ``reach`` rad in a step."""
    rng = np.random.default_rng(seed)
    spins = rng.standard_normal((10, 3))
    spins *= reach / 1e-2 / np.linalg.norm(spins, axis=1).max()
    scene = floating(*(
        box(spin, 5.0 * k, rng.uniform(0.1, 1.0, 3), orientation=turn(*rng.standard_normal(3)))
        for k, spin in enumerate(spins)
    ))  # fmt: skip
    state, _ = free_flight(scene, 1e-2, 30, "momentum")
    assert drift(scene, state) < 1e-11
    np.testing.assert_allclose(np.linalg.norm(state.orientation, axis=1), 1.0, atol=1e-14)
    assert scene.bodies.inertia.min(axis=0) @ spins[0] ** 2 > 0.0


@pytest.mark.parametrize(
    ("turning", "order"), [("momentum", 2.0), pytest.param("plain", 1.0, marks=pytest.mark.slow)]
)
def test_the_order_of_a_free_top(turning: str, order: float) -> None:
    """Fitted 2.00 (momentum), and 1.01 to 1.03 (plain), tumbling and anyhow."""
    begun = turn(0.3, -0.2, 0.7)
    scene = floating(box(TUMBLING, orientation=begun), box(ANYHOW, 5.0, orientation=begun))
    exact = [euler(INERTIA, begun, omega, 0.6) for omega in (TUMBLING, ANYHOW)]
    sizes, misses = [3e-2, 1.5e-2], []
    for dt in sizes:
        state, _ = free_flight(scene, dt, round(0.6 / dt), turning)
        found = zip(state.orientation, state.angular_velocity, exact, strict=True)
        misses.append([
            error
            for q, omega, (q_exact, omega_exact) in found
            for error in (
                np.linalg.norm(rotation(q) - rotation(q_exact)),
                np.linalg.norm(omega - omega_exact),
            )
        ])  # fmt: skip
    fitted = np.polyfit(np.log(sizes), np.log(misses), 1)[0]
    np.testing.assert_allclose(fitted, order, atol=0.1)


@pytest.mark.slow
def test_a_box_spun_near_its_middle_axis_turns_over_when_it_should() -> None:
    """The spin along that axis changes its sign, again and again."""
    scene, along, exact = floating(box(TUMBLING)), [], []
    state = scene.initial
    for k in range(1, 9):
        state, _ = free_flight(scene, 1e-2, 50, "momentum", state)
        q, omega = euler(INERTIA, UPRIGHT, TUMBLING, 0.5 * k)
        along.append(float(rotation(state.orientation[0])[:, 1] @ state.angular_velocity[0]))
        exact.append(float(rotation(q)[:, 1] @ omega))
    assert min(exact) < -7.0
    assert max(exact) > 7.0
    np.testing.assert_allclose(along, exact, atol=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("turning", TURNINGS)
def test_only_the_momentum_update_goes_back_the_way_it_came(turning: str) -> None:
    """Its own inverse under Δt → −Δt, so that the energy swings and does not drift."""
    scene = floating(box(TUMBLING), box(ANYHOW, 5.0))
    there, energy = free_flight(scene, 2e-2, 60, turning)
    turned_about = State(0.0, there.q, -there.v)
    back, _ = free_flight(scene, 2e-2, 60, turning, turned_about)
    begun = kinetic_energy(scene, scene.initial)
    miss = np.linalg.norm(back.angular_velocity + scene.initial.angular_velocity)
    swing = np.abs(energy / begun - 1.0).max()
    if turning == "momentum":
        assert miss < 1e-9
        assert swing < 5e-4
    else:
        assert miss > 1e-2
        assert swing > 1e-2


def test_a_constant_torque_adds_to_the_angular_momentum_exactly() -> None:
    torque = np.array([0.03, -0.02, 0.05])
    scene = floating(box(ANYHOW, torque=torque))
    misses = {}
    for turning in TURNINGS:
        state, _ = free_flight(scene, 5e-2, 20, turning)
        gained = angular_momentum(scene, state) - angular_momentum(scene, scene.initial)
        misses[turning] = np.abs(gained[0] - torque).max()
    assert misses["momentum"] < 1e-14
    assert misses["plain"] > 1e-4


@pytest.mark.parametrize("turning", TURNINGS)
def test_a_turned_scene_has_the_turned_answer(turning: str) -> None:
    rng = np.random.default_rng(4)
    by, begun, torque = (
        turn(*rng.standard_normal(3)),
        turn(0.3, -0.2, 0.7),
        np.array([0.03, 0.1, 0]),
    )
    R = rotation(by)
    own = floating(box(ANYHOW, orientation=begun, torque=torque))
    other = floating(box(R @ ANYHOW, orientation=times(by, begun), torque=R @ torque))
    one, two = (free_flight(scene, 2e-2, 10, turning)[0] for scene in (own, other))
    np.testing.assert_allclose(two.angular_velocity[0], R @ one.angular_velocity[0], atol=1e-12)
    np.testing.assert_allclose(
        rotation(two.orientation[0]), R @ rotation(one.orientation[0]), atol=1e-12
    )


@pytest.mark.parametrize("turning", TURNINGS)
def test_a_planar_spin_is_the_same_in_the_plane_and_in_space(turning: str) -> None:
    flat = Scene(
        [Body(Box(list(SIZE[:2])), [0.0, 0.0], mass=1.0, angle=0.3, angular_velocity=2.0,
              torque=0.05)], dim=2, gravity=[0.0, 0.0],
    )  # fmt: skip
    solid = floating(
        box(np.array([0.0, 0.0, 2.0]), orientation=turn(0.0, 0.0, 0.3), torque=[0.0, 0.0, 0.05])
    )
    one, two = (free_flight(scene, 2e-2, 10, turning)[0] for scene in (flat, solid))
    angle = float(one.orientation[0])
    np.testing.assert_allclose(two.orientation[0], turn(0.0, 0.0, angle), atol=1e-13)
    np.testing.assert_allclose(two.angular_velocity[0], [0.0, 0.0, *one.v[0, 2:]], atol=1e-13)


# --- what the two updates share ------------------------------------------------------------


def both(scene: Scene, steps: int = 30) -> list[cdopt.Trajectory]:
    return [cdopt.simulate(scene, 2e-3, steps * 2e-3, turning=turning) for turning in TURNINGS]


@pytest.mark.slow
@pytest.mark.parametrize("dim", [2, 3])
def test_bodies_alike_about_all_axes_and_the_plane_do_not_tell_updates_apart(dim: int) -> None:
    """Bit for bit, through collisions with the floor."""
    up = np.eye(dim)[-1]
    lean = {"angle": 0.3} if dim == 2 else {"orientation": turn(0.3, 0.2, 0.1)}
    spin = 1.0 if dim == 2 else ANYHOW
    size = [0.4, 0.2] if dim == 2 else [0.2] * 3
    bodies = [
        Body(HalfSpace(list(up)), list(0.0 * up)),
        Body(Box(size), list(0.16 * up), mass=1.0, angular_velocity=spin, **lean),
        Body(Sphere(0.1), [1.0, *(0.11 * up)[1:]], mass=1.0, angular_velocity=spin),
    ]
    one, two = both(Scene(bodies, dim=dim))
    assert one.diagnostics["contacts"].max() > 1
    np.testing.assert_array_equal(one.q, two.q)
    np.testing.assert_array_equal(one.v, two.v)


@pytest.mark.slow
def test_uneven_boxes_tell_updates_apart_and_leave_others_alone() -> None:
    scene = floating(box(ANYHOW), box(ANYHOW, 5.0, np.full(3, 0.2)))
    one, two = both(scene)
    assert np.abs(one.v[-1, 0] - two.v[-1, 0]).max() > 1e-3
    np.testing.assert_array_equal(one.q[:, 1], two.q[:, 1])
    np.testing.assert_array_equal(one.v[:, 1], two.v[:, 1])


@pytest.mark.parametrize("turning", TURNINGS)
def test_a_box_drawn_aslant_turns_like_the_box(turning: str) -> None:
    """A polyhedron whose principal axes are not its own axes."""
    aslant, begun = turn(0.4, 0.9, -0.3), turn(0.3, -0.2, 0.7)
    corners = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]) * SIZE / 2.0
    drawn = Polyhedron((corners @ rotation(aslant).T).tolist())
    back = times(begun, aslant * [1.0, -1.0, -1.0, -1.0])
    other = Body(drawn, [0.0] * 3, mass=1.0, orientation=back, angular_velocity=ANYHOW)
    scenes = floating(box(ANYHOW, orientation=begun)), floating(other)
    for scene in scenes:
        M = collision.mass_matrix(scene, scene.initial).toarray()[3:, 3:]
        R = rotation(begun)
        np.testing.assert_allclose(M, R @ np.diag(INERTIA) @ R.T, atol=1e-15)
    one, two = (free_flight(scene, 2e-2, 10, turning)[0] for scene in scenes)
    np.testing.assert_allclose(two.angular_velocity, one.angular_velocity, atol=1e-12)
    np.testing.assert_allclose(
        rotation(two.orientation[0]) @ rotation(aslant), rotation(one.orientation[0]), atol=1e-12
    )
    motions = Motion.of_state(scenes[1], two), Motion.of_state(scenes[0], one)
    for measure in (analysis.kinetic_energy, analysis.angular_momentum):
        np.testing.assert_allclose(*map(measure, motions), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("turning", TURNINGS)
def test_a_fixed_body_turns_as_prescribed_and_one_at_rest_not_at_all(turning: str) -> None:
    resting = box(np.zeros(3), 5.0, orientation=turn(0.3, -0.2, 0.7))
    scene = floating(box(ANYHOW, fixed=True), resting, box(ANYHOW, 10.0))
    state, _ = free_flight(scene, 5e-2, 20, turning)
    np.testing.assert_array_equal(state.angular_velocity[0], ANYHOW)
    np.testing.assert_allclose(rotation(state.orientation[0]), rotation(turn(*ANYHOW)), atol=1e-13)
    np.testing.assert_array_equal(state.q[1], scene.initial.q[1])
    np.testing.assert_array_equal(state.v[1], 0.0)


# --- contacts ------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("begun", "turning"),
    [
        pytest.param(EDGE, "momentum", id="edge-momentum"),
        pytest.param(EDGE, "plain", id="edge-plain"),
        pytest.param(CORNER, "momentum", id="corner-momentum"),
        pytest.param(CORNER, "plain", id="corner-plain"),
    ],
)
def test_a_box_dropped_on_an_edge_or_a_corner_comes_to_lie_flat(begun, turning: str) -> None:
    """Nothing turns it about the vertical; the plain update leaves a spin of the order of Δt."""
    scene = above_floor(begun)
    state, energies = scene.initial, []
    for _ in range(100):  # it lies flat after 40 to 60
        step, solution = solved(scene, state, 4e-3, turning)
        state = collision.advance(scene, state, solution.v_next, 4e-3, turning=turning)
        kinetic = kinetic_energy(scene, state)
        energies.append(kinetic + analysis.potential_energy(scene, state))
    drifted = turning == "plain" and begun is CORNER
    assert kinetic < (1e-7 if drifted else 1e-20)
    assert np.diff(energies).max() < 1e-12
    np.testing.assert_allclose(np.abs(rotation(state.orientation[1])[2]), [0, 0, 1], atol=1e-9)
    np.testing.assert_allclose(state.position[1, 2], SIZE[2] / 2.0, atol=1e-10)
    assert step.nc == 4
    np.testing.assert_allclose(step.phi, 0.0, atol=1e-10)
    vertical = abs(state.angular_velocity[1, 2])
    assert 1e-6 < vertical < 1e-3 if drifted else vertical < 1e-12


@pytest.mark.slow
def test_contacts_only_turn_a_box_about_what_they_push() -> None:
    """Its angular momentum changes by the torque of the contacts, step by step, exactly."""
    dt, scene = 2e-3, above_floor(CORNER, ANYHOW)
    state, pushed = scene.initial, 0
    for _ in range(60):
        step, solution = solved(scene, state, dt, "momentum")
        torque = (step.B.T @ solution.f)[3:]
        begun = angular_momentum(scene, state)[0]
        state = collision.advance(scene, state, solution.v_next, dt)
        np.testing.assert_allclose(
            angular_momentum(scene, state)[0], begun + dt * torque, atol=1e-13
        )
        pushed += bool(np.abs(torque).max() > 1e-3)
    assert pushed > 5


@pytest.mark.parametrize("turning", TURNINGS)
def test_the_gap_closes_by_what_the_step_says(turning: str) -> None:
    """B at the start sees the turn Δt v⁺ to second order in it."""
    misses = []
    for dt in (2e-3, 1e-3, 5e-4):
        scene = above_floor(CORNER, ANYHOW)
        found = collision.detect(scene, scene.initial, margin=1.0)
        step = collision.step(scene, scene.initial, found, dt, turning=turning)
        ended = collision.advance(scene, scene.initial, step.v_star, dt, turning=turning)
        gaps = collision.detect(scene, ended, margin=1.0)
        np.testing.assert_array_equal(gaps.contact_ids, found.contact_ids)
        misses.append(np.abs(gaps.phi - step.phi - dt * (step.B @ step.v_star)).max())
    assert misses[0] > 1e-9
    np.testing.assert_allclose(misses, np.array([16.0, 4.0, 1.0]) * misses[2], rtol=0.05)


@pytest.mark.slow
def test_a_bounce_gives_back_the_energy_that_the_step_sees() -> None:
    """With e = 1 a corner's blow keeps ½ v·M v and turns B v round, v being the step's."""
    scene = above_floor(CORNER, ANYHOW, restitution=1.0)
    state, dt = scene.initial, 1e-3
    for _ in range(100):
        step, solution = solved(scene, state, dt, "momentum")
        hit = np.flatnonzero(step.impacting)
        if hit.size == 1 and np.count_nonzero(solution.f > 1e-9) == 1:
            break
        state = collision.advance(scene, state, solution.v_next, dt)
    assert hit.size == 1
    before, after, approach = step.v_star, solution.v_next, (step.B @ step.v)[hit]
    np.testing.assert_allclose((step.B @ after)[hit], -approach, rtol=1e-9)
    gained = after @ step.M @ after - before @ step.M @ before
    rate = (step.B @ before)[hit] - approach  # gravity of the step under way
    expected = step.dt * float((solution.f[hit] * rate)[0])
    np.testing.assert_allclose(gained, expected, rtol=1e-6)


# --- even scenes move evenly ---------------------------------------------------------------


def moved(scene: Scene, dt: float, steps: int) -> State:
    """The state after steps of classic contact dynamics."""
    state = scene.initial
    for _ in range(steps):
        _, solution = solved(scene, state, dt, "momentum")
        state = collision.advance(scene, state, solution.v_next, dt)
    return state


@pytest.mark.parametrize("beyond", [0.0, 4e-8])
def test_a_box_on_the_edge_of_another_turns_about_that_edge_alone(beyond: float) -> None:
    """Its own lowest edge passes the other's by a hair."""
    tilt = -np.pi / 6.0
    c, s = np.cos(tilt), np.sin(tilt)
    lowest = np.array([0.0, 0.5 + beyond, 0.5 - beyond])
    middle = lowest - [0.0, 0.5 * c + 0.5 * s, 0.5 * s - 0.5 * c]
    cube = Box([1.0, 1.0, 1.0])
    bodies = [
        Body(cube, [0.0] * 3, fixed=True),
        Body(cube, middle, mass=1.0, orientation=turn(tilt, 0.0, 0.0)),
    ]
    state = moved(Scene(bodies, dim=3, overlap_tol=1.0), 1e-3, 1)
    np.testing.assert_allclose(state.angular_velocity[1, 1:], 0.0, atol=1e-6)
    np.testing.assert_allclose(state.velocity[1, 0], 0.0, atol=1e-6)


def test_capsules_in_a_row_slide_on_until_they_meet() -> None:
    """In the plane, on a floor, one behind the other along their axes."""
    rods = [
        Body(Capsule(0.1, 0.6), [x, 0.1], mass=1.0, velocity=[v, 0.0])
        for x, v in ((0.0, 1.0), (0.85, 0.0))
    ]
    scene = Scene([Body(HalfSpace([0.0, 1.0]), [0.0, 0.0]), *rods], dim=2)
    state = moved(scene, 5e-3, 8)  # 0.04 m of the 0.05 between them
    np.testing.assert_allclose(state.velocity[1:], [[1.0, 0.0], [0.0, 0.0]], atol=1e-9)
    state = moved(scene, 5e-3, 15)
    np.testing.assert_allclose(state.velocity[1:], [[0.5, 0.0], [0.5, 0.0]], atol=1e-6)


# --- a setting -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "method", ["compatible-cd", pytest.param("classic-cd", marks=pytest.mark.slow)]
)
def test_the_update_is_a_setting_of_both_methods(method: str, tmp_path) -> None:
    scene, out = floating(box(ANYHOW)), tmp_path / "run.vtkhdf"
    assert cdopt.dynamics.METHODS[method]().settings()["turning"] == "momentum"
    run = {"dt": 1e-2, "method": method, "out": out, "turning": "plain"}
    cdopt.simulate(scene, duration=0.02, **run)
    with pytest.raises(cdopt.InvalidInput, match="turning"):
        cdopt.simulate(scene, duration=0.04, resume=True, **run | {"turning": "momentum"})
    resumed = cdopt.simulate(scene, duration=0.04, resume=True, **run)
    expected, _ = free_flight(scene, 1e-2, 4, "plain")
    np.testing.assert_allclose(resumed.v[-1], expected.v, rtol=1e-12)


def test_another_word_for_it_is_refused() -> None:
    scene = floating(box(ANYHOW))
    none = collision.detect(scene, scene.initial)
    for call in (
        lambda: collision.step(scene, scene.initial, none, 1e-2, turning="exact"),
        lambda: collision.advance(scene, scene.initial, np.zeros(6), 1e-2, turning="exact"),
        lambda: cdopt.dynamics.ClassicSteps(turning="exact"),
        lambda: cdopt.simulate(scene, 1e-2, 1.0, turning="exact"),
    ):
        with pytest.raises(cdopt.InvalidInput, match="momentum") as caught:
            call()
        assert caught.value.argument == "turning"
