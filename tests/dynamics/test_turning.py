"""Turning in space: contact dynamics with both updates, and the variational integrator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from dynamic_scenes import (
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
    order,
    rotation,
    solved,
    times,
    turn,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

import cdopt
from cdopt import collision
from cdopt.collision.motion import TURNINGS
from cdopt.dynamics.records import FreeBodies
from cdopt.scene import (
    Body,
    Box,
    Capsule,
    Compound,
    HalfSpace,
    Material,
    Part,
    Polyhedron,
    Scene,
    Sphere,
    State,
)

SLOW = pytest.mark.slow
INERTIA = (SIZE @ SIZE - SIZE**2) / 12.0  # of the box of 1 kg, kg·m²
EDGE = turn(0.5, 0.0, 0.0)
CORNER = times(turn(0.0, 0.4, 0.0), EDGE)
LEANING = turn(0.3, -0.2, 0.7)


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
    sizes, turns = rng.uniform(0.1, 1.0, (10, 3)), rng.standard_normal((10, 3))
    scene = floating(*(
        box(spin, 5.0 * k, sizes[k], orientation=turn(*turns[k])) for k, spin in enumerate(spins)
    ))  # fmt: skip
    state, _ = free_flight(scene, 1e-2, 30, "momentum")
    assert drift(scene, state) < 1e-11
    np.testing.assert_allclose(np.linalg.norm(state.orientation, axis=1), 1.0, atol=1e-14)


@pytest.mark.parametrize(
    ("turning", "expected"), [("momentum", 2.0), pytest.param("plain", 1.0, marks=SLOW)]
)
def test_the_order_of_a_free_top(turning: str, expected: float) -> None:
    """Fitted 2.00 (momentum), and 1.01 to 1.03 (plain), tumbling and anyhow."""
    scene = floating(box(TUMBLING, orientation=LEANING), box(ANYHOW, 5.0, orientation=LEANING))
    exact = [euler(INERTIA, LEANING, omega, 0.6) for omega in (TUMBLING, ANYHOW)]
    sizes, misses = [3e-2, 1.5e-2], []
    for dt in sizes:
        state, _ = free_flight(scene, dt, round(0.6 / dt), turning)
        found = zip(state.orientation, state.angular_velocity, exact, strict=True)
        misses.append([
            np.linalg.norm(miss)
            for q, omega, (q_exact, omega_exact) in found
            for miss in (rotation(q) - rotation(q_exact), omega - omega_exact)
        ])  # fmt: skip
    fitted = np.polyfit(np.log(sizes), np.log(misses), 1)[0]
    np.testing.assert_allclose(fitted, expected, atol=0.1)


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
    assert min(exact) < -7.0 < 7.0 < max(exact)
    np.testing.assert_allclose(along, exact, atol=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("turning", TURNINGS)
def test_only_the_momentum_update_goes_back_the_way_it_came(turning: str) -> None:
    """Its own inverse under Δt → −Δt, so that the energy swings and does not drift."""
    scene = floating(box(TUMBLING), box(ANYHOW, 5.0))
    there, energy = free_flight(scene, 2e-2, 60, turning)
    back, _ = free_flight(scene, 2e-2, 60, turning, State(0.0, there.q, -there.v))
    miss = np.linalg.norm(back.angular_velocity + scene.initial.angular_velocity)
    swing = np.abs(energy / kinetic_energy(scene, scene.initial) - 1.0).max()
    exact = turning == "momentum"
    assert miss < 1e-9 if exact else miss > 1e-2
    assert swing < 5e-4 if exact else swing > 1e-2


def test_a_constant_torque_adds_to_the_angular_momentum_exactly() -> None:
    torque, misses = np.array([0.03, -0.02, 0.05]), {}
    scene = floating(box(ANYHOW, torque=torque))
    for turning in TURNINGS:
        state, _ = free_flight(scene, 5e-2, 20, turning)
        gained = angular_momentum(scene, state) - angular_momentum(scene, scene.initial)
        misses[turning] = np.abs(gained[0] - torque).max()
    assert misses["momentum"] < 1e-14
    assert misses["plain"] > 1e-4


@pytest.mark.parametrize("turning", TURNINGS)
def test_a_turned_scene_has_the_turned_answer(turning: str) -> None:
    by, torque = turn(*np.random.default_rng(4).standard_normal(3)), np.array([0.03, 0.1, 0])
    R = rotation(by)
    own = floating(box(ANYHOW, orientation=LEANING, torque=torque))
    other = floating(box(R @ ANYHOW, orientation=times(by, LEANING), torque=R @ torque))
    one, two = (free_flight(scene, 2e-2, 10, turning)[0] for scene in (own, other))
    np.testing.assert_allclose(two.angular_velocity[0], R @ one.angular_velocity[0], atol=1e-12)
    expected = R @ rotation(one.orientation[0])
    np.testing.assert_allclose(rotation(two.orientation[0]), expected, atol=1e-12)


@pytest.mark.parametrize("turning", TURNINGS)
def test_a_planar_spin_is_the_same_in_the_plane_and_in_space(turning: str) -> None:
    disc = Body(Box(list(SIZE[:2])), [0.0, 0.0], mass=1.0, angle=0.3, angular_velocity=2.0,
                torque=0.05)  # fmt: skip
    solid = box(np.array([0, 0, 2.0]), orientation=turn(0, 0, 0.3), torque=[0.0, 0.0, 0.05])
    scenes = Scene([disc], dim=2, gravity=[0.0, 0.0]), floating(solid)
    one, two = (free_flight(scene, 2e-2, 10, turning)[0] for scene in scenes)
    expected = turn(0.0, 0.0, float(one.orientation[0]))
    np.testing.assert_allclose(two.orientation[0], expected, atol=1e-13)
    np.testing.assert_allclose(two.angular_velocity[0], [0.0, 0.0, *one.v[0, 2:]], atol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("dim", [2, 3])
def test_updates_tell_only_uneven_bodies_in_space_apart(dim: int) -> None:
    """Bit for bit alike, through collisions with the floor."""
    up = np.eye(dim)[-1]
    lean = {"angle": 0.3} if dim == 2 else {"orientation": turn(0.3, 0.2, 0.1)}
    spin = {"angular_velocity": 1.0 if dim == 2 else ANYHOW}
    size = [0.4, 0.2] if dim == 2 else [0.2] * 3
    bodies = [
        Body(HalfSpace(list(up)), list(0.0 * up)),
        Body(Box(size), list(0.16 * up), mass=1.0, **spin, **lean),
        Body(Sphere(0.1), [1.0, *(0.11 * up)[1:]], mass=1.0, **spin),
    ]
    if dim == 3:
        bodies.append(Body(Box(list(SIZE)), [9.0, 0.0, 2.0], mass=1.0, **spin))
    scene = Scene(bodies, dim=dim)
    one, two = (cdopt.simulate(scene, 2e-3, 0.06, turning=turning) for turning in TURNINGS)
    assert one.diagnostics["contacts"].max() > 1
    np.testing.assert_array_equal(one.q[:, :3], two.q[:, :3])
    np.testing.assert_array_equal(one.v[:, :3], two.v[:, :3])
    assert dim == 2 or np.abs(one.v[-1, 3] - two.v[-1, 3]).max() > 1e-3


@pytest.mark.parametrize("turning", TURNINGS)
def test_a_box_drawn_aslant_turns_like_the_box(turning: str) -> None:
    """A polyhedron whose principal axes are not its own axes."""
    aslant = turn(0.4, 0.9, -0.3)
    corners = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]) * SIZE / 2.0
    drawn = Polyhedron((corners @ rotation(aslant).T).tolist())
    back = times(LEANING, aslant * [1.0, -1.0, -1.0, -1.0])
    other = Body(drawn, [0.0] * 3, mass=1.0, orientation=back, angular_velocity=ANYHOW)
    scenes = floating(box(ANYHOW, orientation=LEANING)), floating(other)
    R = rotation(LEANING)
    for scene in scenes:
        M = collision.mass_matrix(scene, scene.initial).toarray()[3:, 3:]
        np.testing.assert_allclose(M, R @ np.diag(INERTIA) @ R.T, atol=1e-15)
    one, two = (free_flight(scene, 2e-2, 10, turning)[0] for scene in scenes)
    np.testing.assert_allclose(two.angular_velocity, one.angular_velocity, atol=1e-12)
    turned = rotation(two.orientation[0]) @ rotation(aslant)
    np.testing.assert_allclose(turned, rotation(one.orientation[0]), atol=1e-12)
    totals = FreeBodies(scenes[1]).totals(two), FreeBodies(scenes[0]).totals(one)
    for name in ("kinetic", *(f"angular_momentum.{axis}" for axis in "xyz")):
        np.testing.assert_allclose(*(t[name] for t in totals), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("turning", TURNINGS)
def test_a_fixed_body_turns_as_prescribed_and_one_at_rest_not_at_all(turning: str) -> None:
    resting = box(np.zeros(3), 5.0, orientation=LEANING)
    scene = floating(box(ANYHOW, fixed=True), resting, box(ANYHOW, 10.0))
    state, _ = free_flight(scene, 5e-2, 20, turning)
    np.testing.assert_array_equal(state.angular_velocity[0], ANYHOW)
    np.testing.assert_allclose(rotation(state.orientation[0]), rotation(turn(*ANYHOW)), atol=1e-13)
    np.testing.assert_array_equal(state.q[1], scene.initial.q[1])
    np.testing.assert_array_equal(state.v[1], 0.0)


# --- contacts ------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("turning", TURNINGS)
@pytest.mark.parametrize("begun", [EDGE, CORNER], ids=["edge", "corner"])
def test_a_box_dropped_on_an_edge_or_a_corner_comes_to_lie_flat(begun, turning: str) -> None:
    """Nothing turns it about the vertical; the plain update leaves a spin of the order of Δt."""
    scene = above_floor(begun)
    state, energies = scene.initial, []
    for _ in range(100):  # it lies flat after 40 to 60
        step, solution = solved(scene, state, 4e-3, turning)
        state = collision.advance(scene, state, solution.v_next, 4e-3, turning=turning)
        kinetic = kinetic_energy(scene, state)
        energies.append(kinetic + FreeBodies(scene).totals(state)["potential"])
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
        step, solution = solved(scene, state, dt)
        torque = (step.B.T @ solution.f)[3:]
        expected = angular_momentum(scene, state)[0] + dt * torque
        state = collision.advance(scene, state, solution.v_next, dt)
        np.testing.assert_allclose(angular_momentum(scene, state)[0], expected, atol=1e-13)
        pushed += bool(np.abs(torque).max() > 1e-3)
    assert pushed > 5


@pytest.mark.parametrize("turning", TURNINGS)
def test_the_gap_closes_by_what_the_step_says(turning: str) -> None:
    """B at the start sees the turn Δt v⁺ to second order in it."""
    misses, scene = [], above_floor(CORNER, ANYHOW)
    found = collision.detect(scene, scene.initial, margin=1.0)
    for dt in (2e-3, 1e-3, 5e-4):
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
        step, solution = solved(scene, state, dt)
        hit = np.flatnonzero(step.impacting)
        if hit.size == 1 and np.count_nonzero(solution.f > 1e-9) == 1:
            break
        state = collision.advance(scene, state, solution.v_next, dt)
    assert hit.size == 1
    before, after, approach = step.v_star, solution.v_next, (step.B @ step.v)[hit]
    np.testing.assert_allclose((step.B @ after)[hit], -approach, rtol=1e-9)
    gained = after @ step.M @ after - before @ step.M @ before
    rate = (step.B @ before)[hit] - approach  # gravity of the step under way
    np.testing.assert_allclose(gained, dt * float((solution.f[hit] * rate)[0]), rtol=1e-6)


def moved(scene: Scene, dt: float, steps: int) -> State:
    """The state after steps of classic contact dynamics."""
    state = scene.initial
    for _ in range(steps):
        state = collision.advance(scene, state, solved(scene, state, dt)[1].v_next, dt)
    return state


@pytest.mark.parametrize("beyond", [0.0, 4e-8])
def test_a_box_on_the_edge_of_another_turns_about_that_edge_alone(beyond: float) -> None:
    """Its own lowest edge passes the other's by a hair."""
    tilt, cube = -np.pi / 6.0, Box([1.0, 1.0, 1.0])
    c, s = np.cos(tilt), np.sin(tilt)
    middle = [0.0, 0.5 + beyond - 0.5 * (c + s), 0.5 - beyond - 0.5 * (s - c)]
    upper = Body(cube, middle, mass=1.0, orientation=turn(tilt, 0.0, 0.0))
    state = moved(
        Scene([Body(cube, [0.0] * 3, fixed=True), upper], dim=3, overlap_tol=1.0), 1e-3, 1
    )
    np.testing.assert_allclose(state.angular_velocity[1, 1:], 0.0, atol=1e-6)
    np.testing.assert_allclose(state.velocity[1, 0], 0.0, atol=1e-6)


def test_capsules_in_a_row_slide_on_until_they_meet() -> None:
    """In the plane, on a floor, one behind the other along their axes, 0.05 m apart."""
    rods = [
        Body(Capsule(0.1, 0.6), [x, 0.1], mass=1.0, velocity=[v, 0.0])
        for x, v in ((0.0, 1.0), (0.85, 0.0))
    ]
    scene = Scene([Body(HalfSpace([0.0, 1.0]), [0.0, 0.0]), *rods], dim=2)
    for steps, speeds, within in ((8, (1.0, 0.0), 1e-9), (15, (0.5, 0.5), 1e-6)):
        state = moved(scene, 5e-3, steps)
        np.testing.assert_allclose(state.velocity[1:], [[v, 0.0] for v in speeds], atol=within)


@pytest.mark.parametrize("method", ["compatible-cd", pytest.param("classic-cd", marks=SLOW)])
def test_the_update_is_a_setting_of_both_methods(method: str, tmp_path) -> None:
    scene, out = floating(box(ANYHOW)), tmp_path / "run.vtkhdf"
    assert cdopt.dynamics.METHODS[method]().settings()["turning"] == "momentum"
    run: dict[str, Any] = {"dt": 1e-2, "method": method, "out": out, "turning": "plain"}
    cdopt.simulate(scene, duration=0.02, **run)
    for wrong in ("momentum", "exact"):
        with pytest.raises(cdopt.InvalidInput, match="turning"):
            cdopt.simulate(scene, duration=0.04, resume=True, **run | {"turning": wrong})
    resumed = cdopt.simulate(scene, duration=0.04, resume=True, **run)
    expected, _ = free_flight(scene, 1e-2, 4, "plain")
    np.testing.assert_allclose(resumed.v[-1], expected.v, rtol=1e-12)
    none = collision.detect(scene, scene.initial)
    for call in (
        lambda: collision.step(scene, scene.initial, none, 1e-2, turning="exact"),
        lambda: collision.advance(scene, scene.initial, np.zeros(6), 1e-2, turning="exact"),
    ):
        with pytest.raises(cdopt.InvalidInput, match=r"turning.*momentum"):
            call()


# --- the variational integrator ------------------------------------------------------------

STEEL = Material(name="steel", stiffness=2e3)  # of half a contact with a steel wall: k = 1e3 N/m
TILTED = times(turn(0.3, 0.2, 0.1), turn(0.0, 0.6, 0.5))
FORCE, TORQUE, SPIN = np.array([0.5, 0.2, 0.0]), np.array([0.02, 0.01, -0.03]), [1.0, -2.0, 3.0]
SPEED = [0.1, 0.2, -0.05]


def solid(shape: Any, place: Any, **fields: Any) -> Body:
    """A steel body of 1 kg."""
    return Body(shape, place, **{"mass": 1.0, "material": "steel", **fields})


def steel_floor() -> Body:
    return Body(HalfSpace([0.0, 0.0, 1.0]), [0.0, 0.0, 0.0], material="steel")


def corner_in_floor(gamma: float) -> tuple[Scene, np.ndarray]:
    """A box of 1 kg with one corner 4 mm in a floor, and that corner in the box's frame."""
    R = rotation(TILTED)
    signs = np.stack(np.meshgrid(*[[-1.0, 1.0]] * 3), -1).reshape(-1, 3)
    corner = min(signs * SIZE / 2.0, key=lambda c: float((R @ c)[2]))
    crate = solid(
        Box(list(SIZE)), [0.0, 0.0, -float((R @ corner)[2]) - 0.004], orientation=list(TILTED),
        velocity=SPEED, angular_velocity=SPIN, force=list(FORCE), torque=list(TORQUE),
    )  # fmt: skip
    more = {"materials": [STEEL], "overlap_tol": 0.1, "damping": gamma}
    return Scene([steel_floor(), crate], dim=3, gravity=[0.0, 0.0, -9.8], **more), corner


def exact(scene: Scene, corner: np.ndarray, duration: float) -> np.ndarray:
    """Position, velocity and angular velocity in the body's frame, by Euler's equations."""
    moments, up = scene.bodies.inertia[1], np.array([0.0, 0.0, 1.0])

    def rate(_: float, y: np.ndarray) -> np.ndarray:
        R = rotation(y[6:10] / np.linalg.norm(y[6:10]))
        arm = R @ corner
        gap = min(y[2] + arm[2], 0.0)
        point, push = arm - 0.5 * gap * up, -1e3 * gap * up
        if gap < 0.0:
            slip = y[3:6] + np.cross(R @ y[10:], point)
            push = push - scene.damping * slip[2] * up - scene.gamma_t * (slip - slip[2] * up)
        torque = R.T @ (np.cross(point, push) + TORQUE)
        spin = (torque - np.cross(y[10:], moments * y[10:])) / moments
        pull = push + FORCE - [0.0, 0.0, 9.8]
        return np.concatenate([y[3:6], pull, 0.5 * times(y[6:10], np.array([0.0, *y[10:]])), spin])

    start = [*scene.initial.position[1], *SPEED, *TILTED, *(rotation(TILTED).T @ SPIN)]
    ended = solve_ivp(rate, (0.0, duration), start, method="DOP853", rtol=1e-12, atol=1e-13)
    return np.delete(ended.y[:, -1], np.s_[6:10])


@pytest.mark.parametrize(
    ("gamma", "counts"),
    [(5.0, [6, 12]), *(pytest.param(g, [6, 12, 24], marks=SLOW) for g in (0.0, 5.0))],
)
def test_order_two_with_forces_torques_and_damping(gamma: float, counts: list[int]) -> None:
    scene, corner = corner_in_floor(gamma)
    reference, errors = exact(scene, corner, 0.02), []
    for n in counts:
        run = cdopt.simulate(scene, 0.02 / n, 0.02, "variational", every=int(n))
        state = run.final.state
        spin = rotation(state.orientation[1]).T @ state.angular_velocity[1]
        ended = np.concatenate([state.position[1], state.velocity[1], spin])
        errors.append(np.abs(ended - reference)[[2, 5, 6, 7]])  # height, its rate, turns about x, y
    slopes = np.polyfit(-np.log(counts), np.log(errors), 1)[0]
    np.testing.assert_allclose(slopes, 2.0, atol=0.1)
    assert run.diagnostics["contacts"].min() == 1
    with pytest.raises(cdopt.Unsupported, match="turns in space"):
        cdopt.simulate(corner_in_floor(5.0)[0], 1e-3, 1e-3, "variational", damping="paper")


@pytest.mark.slow
def test_a_tumbling_box_keeps_its_momentum_and_follows_euler() -> None:
    """Large turns, 0.2 rad a step; the error falls with Δt². The energy does not drift."""
    crate = box(TUMBLING, material="steel")
    scene = Scene([crate], dim=3, gravity=[0.0] * 3, materials=[STEEL])
    errors, steps = [], (1.0 / 40, 1.0 / 80)
    _, exact_spin = euler(scene.bodies.inertia[0], scene.initial.orientation[0], TUMBLING, 1.0)
    for h in steps:
        run = cdopt.simulate(scene, h, 1.0, "variational", every=80)
        errors.append(np.abs(run.final.state.angular_velocity[0] - exact_spin).max())
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.05)
    assert np.abs(run.final.state.angular_velocity[0] - TUMBLING).max() > 0.1
    # 10,000 steps keep the momentum to 1.2e-14 and take three minutes
    seen = cdopt.simulate(scene, 1e-2, 30.0, "variational", every=50).diagnostics
    momentum, energy = seen["angular_momentum"], seen["kinetic"] / seen["kinetic"][0] - 1.0
    assert np.abs(momentum - momentum[0]).max() <= 1e-13 * np.linalg.norm(momentum[0])
    assert np.abs(energy[30:]).max() <= 1.1 * np.abs(energy[:30]).max() <= 1e-3


@pytest.mark.slow
def test_a_box_and_a_capsule_that_collide_keep_their_momenta() -> None:
    """Skew, in space."""
    crate = solid(Box([0.4, 0.3, 0.2]), [0.0] * 3, orientation=list(TILTED),
                  velocity=[1.0, 0.0, 0.0], angular_velocity=SPIN)  # fmt: skip
    rod = solid(
        Capsule(0.4, 0.08), [0.7, 0.05, 0.02], orientation=list(turn(0.1, 0.2, 0.3)), mass=0.5,
        velocity=[-1.0, 0.0, 0.0], angular_velocity=[0.5, 1.0, -1.0],
    )  # fmt: skip
    scene = Scene([crate, rod], dim=3, gravity=[0.0] * 3, materials=[STEEL])
    run = cdopt.simulate(scene, 2e-3, 0.3, "variational")
    seen = run.diagnostics
    assert seen["elastic"].max() > 0.05 * seen["kinetic"][0]
    assert seen["contacts"][-1] == 0
    assert np.abs(run.v[-1, :, 3:] - run.v[0, :, 3:]).max() > 1.0
    for name in ("momentum", "angular_momentum"):
        off = np.abs(seen[name] - seen[name][0]).max()
        assert off <= 1e-12 * np.linalg.norm(seen[name][0])
    assert abs(seen["kinetic"][-1] / seen["kinetic"][0] - 1.0) < 5e-3


def top(stiffness: float = np.inf) -> Scene:
    """A short, tilted capsule of 1 kg that spins on a floor, at first as deep as its weight asks.

    Damping grows with √k, so that it hardly swings; infinite stiffness is rigid.
    """
    rigid = np.isinf(stiffness)
    material = {} if rigid else {"material": "elastic"}
    capsule = Body(
        Capsule(radius=0.1, length=0.1), [0.0, 0.0, 0.1 + 0.05 * np.sin(0.6) - 9.8 / stiffness],
        orientation=list(turn(0.0, 0.6, 0.0)), angular_velocity=[0.0, 0.0, 10.0], mass=1.0,
        **material,
    )  # fmt: skip
    floor = Body(HalfSpace([0.0, 0.0, 1.0]), [0.0, 0.0, 0.0], **material)
    more = {"gravity": [0.0, 0.0, -9.8], "overlap_tol": 0.5, "tangential_damping": 0.0}
    if not rigid:
        more["materials"] = [Material(name="elastic", stiffness=2.0 * stiffness)]
        more["damping"] = 1.4 * np.sqrt(stiffness)
    return Scene([floor, capsule], dim=3, **more)


@pytest.mark.slow
def test_stiff_solids_that_turn_tend_to_contact_dynamics() -> None:
    """The height differs by 1/k: it falls 2 mm, and contact dynamics is extrapolated to dt = 0."""
    coarse, fine = (
        cdopt.simulate(top(), dt, 0.04, "classic-cd").final.state.position[1, 2]
        for dt in (2.5e-4, 1.25e-4)
    )
    stiffness, apart = np.array([1e4, 3e4]), []
    for k in stiffness:
        run = cdopt.simulate(top(k), 1e-3, 0.04, "variational", every=40)
        apart.append(run.final.state.position[1, 2] - (2.0 * fine - coarse))
    assert np.abs(apart).max() < 1e-3
    assert order(stiffness, apart) == pytest.approx(-1.0, abs=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["polyhedron", "compound"])
def test_other_solids_tumble_onto_a_floor(kind: str) -> None:
    points = np.random.default_rng(1).normal(size=(12, 3))
    points *= 0.2 / np.linalg.norm(points, axis=1)[:, None]
    ends = [Part(Sphere(0.1), [x, 0.0, 0.0]) for x in (-0.15, 0.15)]
    bar = Compound([*ends, Part(Box([0.3, 0.1, 0.1]), [0.0, 0.0, 0.0])])
    body = solid(
        Polyhedron(points) if kind == "polyhedron" else bar, [0.0, 0.0, 0.25],
        velocity=[0.3, 0.0, -1.0], angular_velocity=[3.0, -2.0, 1.0],
    )  # fmt: skip
    harder = Material(name="steel", stiffness=2e4)
    scene = Scene([steel_floor(), body], dim=3, gravity=[0.0, 0.0, -9.8], materials=[harder])
    seen = cdopt.simulate(scene, 2e-3, 0.16, "variational").diagnostics
    assert seen["elastic"].max() > 0.5
    assert np.abs(seen["balance"]).max() < 0.05
    np.testing.assert_allclose(seen["balance"], seen["scheme_error"], atol=1e-13)
