"""Contact dynamics with friction in time, against analytic motion."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dynamic_scenes import mechanical, order
from scipy.integrate import solve_ivp
from studies.energy import growth, settle

import cdopt
from cdopt._util.checks import FloatArray
from cdopt.dynamics import StepFailed
from cdopt.dynamics.contact_dynamics import RigidSnapshot, StepProblems
from cdopt.scene import Body, Box, Capsule, HalfSpace, Material, Scene, Sphere, State

G, DT = 9.81, 1e-3
SLOW = pytest.mark.slow


def on_a_floor(body: Body, angle: float = 0.0, phase: float = 0.0) -> Scene:
    """A body on a floor; gravity leans by ``angle`` to the direction ``phase`` of the floor."""
    dim = len(body.position)
    lean = np.sin(angle) * np.array([np.cos(phase), np.sin(phase)])[: dim - 1]
    floor = Body(HalfSpace([0.0] * (dim - 1) + [1.0]), [0.0] * dim, fixed=True)
    return Scene([body, floor], dim=dim, gravity=G * np.array([*lean, -np.cos(angle)]))


def brick(dim: int, **motion: object) -> Body:
    size = [0.4, 0.2] if dim == 2 else [0.4, 0.4, 0.2]
    return Body(Box(size), [0.0] * (dim - 1) + [0.1], mass=2.0, **motion)


def ball(height: float, dim: int = 3, **motion: object) -> Body:
    return Body(Sphere(0.1), [0.0] * (dim - 1) + [height], mass=1.0, **motion)


# --- one body on a floor -------------------------------------------------------------------


@pytest.mark.parametrize(("dim", "phase"), [(2, 0.0), (3, 0.7)])
@pytest.mark.parametrize("angle", [0.3, 0.6])
def test_a_block_on_an_incline_sticks_or_slides_as_the_scheme_says(
    dim: int, phase: float, angle: float
) -> None:
    mu, steps = 0.4, 10
    run = cdopt.simulate(on_a_floor(brick(dim), angle, phase), DT, steps * DT, friction=mu)
    assert run.ok
    pull = max(0.0, np.sin(angle) - mu * np.cos(angle))
    way = G * pull * DT**2 * steps * (steps + 1) / 2.0
    along = np.array([np.cos(phase), np.sin(phase)])[: dim - 1]
    assert np.allclose(run.q[-1, 0, : dim - 1], way * along, rtol=1e-10, atol=1e-15)
    push = run.final.body_forces()[0] / (2.0 * G)  # over the weight
    assert push[-1] == pytest.approx(np.cos(angle), rel=1e-10)
    assert push[: dim - 1] == pytest.approx(-(np.sin(angle) - pull) * along, abs=1e-10)
    slides = run.diagnostics["sliding"][-1] == run.diagnostics["carrying"][-1] > 0
    assert slides == (pull > 0.0)


def test_the_floor_is_dragged_along_by_a_ball_that_slides(tmp_path: Path) -> None:
    scene, path = on_a_floor(ball(0.1, velocity=[1, 0.5, 0])), tmp_path / "run.vtkhdf"
    frame = cdopt.simulate(scene, DT, 0.004, friction=0.3, out=path).final
    assert np.linalg.norm(frame.f_t[0]) == pytest.approx(0.3 * frame.f[0])
    assert frame.f_t[0] @ frame.v[0, :3] > 0.0  # the floor is the second body
    with pytest.raises(cdopt.InvalidInput, match="friction"):
        cdopt.simulate(scene, DT, 0.01, friction=0.4, out=path, resume=True)


@pytest.mark.slow
def test_a_sliding_block_stops_after_its_way_with_an_error_of_first_order() -> None:
    exact, steps, errors = 1.0 / (2.0 * 0.3 * G), [0.04, 0.02, 0.01], []
    for dt in steps:
        run = cdopt.simulate(on_a_floor(brick(2, velocity=[1.0, 0.0])), dt, 0.4, friction=0.3)
        assert run.ok
        assert abs(run.v[-1, 0]).max() < 1e-12
        errors.append(run.q[-1, 0, 0] - exact)
    assert order(steps, errors) == pytest.approx(1.0, abs=0.05)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dim", "speed", "spin"), [(3, 0.5, -20.0), (2, 1, 0), (3, 1, 0), (3, 0, 20)]
)
def test_a_ball_slides_and_then_rolls(dim: int, speed: float, spin: float) -> None:
    """At 5/7 of its speed without spin (Coriolis 1835); a disc at 2/3."""
    mu, radius, shape = 0.4, 0.1, 0.5 if dim == 2 else 0.4
    v0, turn = [speed] + [0.0] * (dim - 1), -spin if dim == 2 else [0.0, spin, 0.0]
    rolling = (speed + shape * radius * spin) / (1.0 + shape)
    until = abs(speed - rolling) / (mu * G)
    slip, end = np.sign(speed - radius * spin), 0.2
    exact = speed * until - slip * mu * G * until**2 / 2.0 + rolling * (end - until)
    steps, errors = [0.008, 0.004], []
    for dt in steps:
        scene = on_a_floor(ball(radius, dim, velocity=v0, angular_velocity=turn))
        run = cdopt.simulate(scene, dt, end, friction=mu, every=100)
        assert run.ok
        assert run.v[-1, 0, 0] == pytest.approx(rolling, rel=1e-10)
        errors.append(run.q[-1, 0, 0] - exact)
    assert order(steps, errors) == pytest.approx(1.0, abs=0.1)


def test_a_ball_that_spins_about_the_normal_goes_on() -> None:
    spinning = on_a_floor(ball(0.1, angular_velocity=[0, 0, 20.0]))
    run = cdopt.simulate(spinning, 1e-2, 0.1, friction=0.5)
    assert np.allclose(run.v[-1, 0], [0, 0, 0, 0, 0, 20.0], atol=1e-10)


@pytest.mark.parametrize(("dim", "method"), [(2, "contact-dynamics"), (3, "compatible-friction")])
def test_a_body_falls_freely_and_lands(dim: int, method: str) -> None:
    run = cdopt.simulate(on_a_floor(ball(0.15, dim)), 1e-2, 0.15, method, friction=0.5)
    assert run.ok
    assert run[1].nc == 0
    assert run.v[5, 0, dim - 1] == pytest.approx(-G * run.t[5])
    assert run.final.body_forces()[0, -1] == pytest.approx(G)


# --- impacts -------------------------------------------------------------------------------


@pytest.mark.parametrize("e", [0.0, 0.7])
@pytest.mark.parametrize(("across", "spin"), [(0.1, 0.0), (2.0, 0.0), (-0.3, 4.0), (0.2, -30.0)])
def test_two_discs_collide_with_friction(e: float, across: float, spin: float) -> None:
    """Newton's law along the normal; across it they stick or slide (Coulomb)."""
    mu, (r1, r2), (m1, m2) = 0.25, (0.1, 0.2), (1.0, 3.0)
    first = Body(Sphere(r1), [-r1, 0], mass=m1, velocity=[1.0, across], angular_velocity=spin)
    second = Body(Sphere(r2), [r2, 0], mass=m2)
    scene = Scene([first, second], dim=2, gravity=[0, 0], restitution=e)
    run = cdopt.simulate(scene, DT, DT, friction=mu)
    inertia = scene.bodies.inertia
    m_n = 1.0 / (1.0 / m1 + 1.0 / m2)
    m_t = 1.0 / (1.0 / m_n + r1**2 / inertia[0] + r2**2 / inertia[1])
    slip = -(across + r1 * spin)  # of the second body over the first
    normal = (1.0 + e) * m_n
    tangential = -np.clip(m_t * slip, -mu * normal, mu * normal)  # on the second body
    assert run.final.f[0] * DT == pytest.approx(normal, rel=1e-9)
    assert run.final.f_t[0] * DT == pytest.approx([0.0, tangential], rel=1e-9)
    turned = -r1 * tangential / inertia[0], -r2 * tangential / inertia[1]
    after = [1.0 - normal / m1, across - tangential / m1, spin + turned[0]]
    assert run.v[-1, 0] == pytest.approx(after)
    assert run.v[-1, 1] == pytest.approx([normal / m2, tangential / m2, turned[1]])


def test_restitution_with_friction_keeps_impacts_that_follow_one_another() -> None:
    """Two balls that fly at a wall, head on: friction has nothing to do, and K returns."""
    balls = [Body(Sphere(0.1), [x, 0], mass=1.0, velocity=[1.0, 0]) for x in (-0.301, -0.1005)]
    wall = Body(HalfSpace([-1, 0]), [0, 0], fixed=True)
    scene = Scene([*balls, wall], dim=2, gravity=[0, 0], restitution=1.0)
    run = cdopt.simulate(scene, DT, 5 * DT, friction=0.5)
    kinetic = run.diagnostics["kinetic"]
    assert kinetic[-1] == pytest.approx(kinetic[0], rel=1e-9)
    assert run.v[-1, :2, 0] == pytest.approx([-1.0, -1.0], rel=1e-9)
    assert run.diagnostics["impacts"].max() > 1


@pytest.mark.parametrize(("mu", "gains"), [(0.6, True), (0.02, False)])
def test_an_impact_that_gains_energy_is_reported(
    mu: float, gains: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A thin rod that hits the floor aslant, whose end would slip back: Kane's paradox."""
    height = 0.5 * np.sin(1.0) + 0.01 * np.cos(1.0) + 1e-6
    rod = Body(Box([1.0, 0.02]), [0.0, height], mass=1.0, angle=1.0, velocity=[0.6, -1.0])
    floor = Body(HalfSpace([0.0, 1.0]), np.zeros(2))
    scene = Scene([floor, rod], dim=2, gravity=np.zeros(2), restitution=0.9, friction=mu)
    kinetic = cdopt.simulate(scene, 1e-4, 1e-4, "contact-dynamics").diagnostics["kinetic"]
    assert (kinetic[-1] > 1.01 * kinetic[0]) == gains
    assert ("impacts add" in caplog.text) == gains


# --- methods -------------------------------------------------------------------------------


def test_which_method_a_scene_with_friction_takes() -> None:
    scene = on_a_floor(brick(2))
    rough = scene.with_friction(0.3)
    assert cdopt.simulate(scene, DT, DT).method == "compatible-cd"
    assert cdopt.simulate(rough, DT, DT).method == "contact-dynamics"
    assert cdopt.simulate(rough, DT, DT, frictionless=True).method == "compatible-cd"
    with pytest.raises(cdopt.Unsupported, match="contact-dynamics"):
        cdopt.simulate(rough, DT, DT, "compatible-cd")
    with pytest.raises(cdopt.InvalidInput, match="friction"):
        cdopt.simulate(rough, DT, DT, friction=0.3, frictionless=True)
    smooth, classic = (
        cdopt.simulate(scene, DT, 5 * DT, method) for method in ("contact-dynamics", "classic-cd")
    )
    assert (smooth.final.q == classic.final.q).all()
    assert (smooth.final.f == classic.final.f).all()


ROUGH = ("contact-dynamics", "compatible-friction", "variational", "quasi-static")


@pytest.mark.parametrize("method", ROUGH[1:])
@pytest.mark.parametrize("kind", ["rolling_friction", "spinning_friction"])
def test_friction_of_rolling_is_refused(method: str, kind: str) -> None:
    grain = Material(name="grain", stiffness=1e3, friction=0.3, **{kind: 0.1})
    alone = Body(Sphere(0.1), [0.0, 0.1], mass=1.0, material="grain")
    able = "method='contact-dynamics', method='velocity-verlet'"
    with pytest.raises(cdopt.Unsupported, match=f"{method}.*{able}"):
        cdopt.simulate(Scene([alone], dim=2, materials=[grain]), DT, DT, method)


def resisting(dim: int, velocity: list[float], turn: Any, **material: float) -> Scene:
    """A ball or a disc of 0.1 m on a floor, of a material that resists rolling or spinning."""
    rubber, up = Material(name="rubber", friction=0.5, **material), np.eye(dim)[-1]
    grain = Body(
        Sphere(0.1), 0.1 * up, mass=2.0, material="rubber", velocity=velocity,
        angular_velocity=turn,
    )  # fmt: skip
    floor = Body(HalfSpace(up), np.zeros(dim))
    return Scene([floor, grain], dim=dim, gravity=-G * up, materials=[rubber])


@pytest.mark.parametrize("dim", [2, 3])
def test_a_wheel_rolls_to_a_stop(dim: int) -> None:
    """v̇ = −μ_r g/(1 + I/mr²), to round-off in every step; then it stays where it is."""
    speed, mu_r, inertia, dt = 0.5, 0.05, 0.5 if dim == 2 else 0.4, 0.1
    way = [speed] + [0.0] * (dim - 1)
    turn = -speed / 0.1 if dim == 2 else [0.0, speed / 0.1, 0.0]
    slower = mu_r * G / (1.0 + inertia)
    scene = resisting(dim, way, turn, rolling_friction=mu_r)
    run = cdopt.simulate(scene, dt, 2.0)
    assert run.ok
    np.testing.assert_allclose(
        run.v[:, 1, 0], np.maximum(speed - slower * run.t, 0.0), atol=1e-9 * speed
    )
    assert np.abs(run.v[-1, 1]).max() <= 1e-12
    expected = speed**2 / (2.0 * slower)
    assert run.q[-1, 1, 0] == pytest.approx(expected, rel=dt * slower / speed)


def test_a_spinning_ball_stops_and_a_rolling_one_goes_on() -> None:
    """ω̇ = −(5/2) μ_s g/r by spinning friction, which does not slow what rolls."""
    spin, mu_s, dt = 3.0, 0.01, 0.1
    slower = 2.5 * mu_s * G / 0.1
    scene = resisting(3, [0.2, 0.0, 0.0], [0.0, 2.0, spin], spinning_friction=mu_s)
    run = cdopt.simulate(scene, dt, 1.5)
    assert run.ok
    np.testing.assert_allclose(
        run.v[:, 1, 5], np.maximum(spin - slower * run.t, 0.0), atol=1e-9 * spin
    )
    np.testing.assert_allclose(run.v[:, 1, 0], 0.2, atol=1e-9)


def test_a_driven_plate_turns_the_ball_on_it() -> None:
    """Spinning friction takes the ball along with a turntable until both turn alike."""
    scene = resisting(3, [0.0] * 3, [0.0] * 3, spinning_friction=0.1)
    v = scene.initial.v.copy()
    v[0, 5] = 2.0
    turning = State(0.0, scene.initial.q, v)
    contacts = cdopt.collision.detect(scene, turning)
    step = cdopt.collision.step(scene, turning, contacts, 1e-3, friction=True)
    assert abs(step.friction.spin[0, 0]) == 2.0
    found = cdopt.FrictionalCD(step).solve()
    expected = min(2.5 * 0.1 * G / 0.1 * 1e-3, 2.0)
    assert found.v_next[5] == pytest.approx(expected, rel=1e-9)


def test_a_step_without_an_answer_is_taken_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = on_a_floor(brick(2, velocity=[1.0, 0.0]))
    fine = cdopt.simulate(scene, DT / 4, 5 * DT, friction=0.3)
    solve = StepProblems.solve

    def only_short(self: StepProblems, step: cdopt.ContactStep, before: RigidSnapshot) -> Any:
        if step.dt > 0.3 * DT:
            raise cdopt.SolveFailed("too long", backend="newton", status="failed")
        return solve(self, step, before)

    monkeypatch.setattr(StepProblems, "solve", only_short)
    split = cdopt.simulate(scene, DT, 5 * DT, friction=0.3)
    assert split.diagnostics["substeps"].tolist() == [0, 4, 4, 4, 4, 4]
    assert np.allclose(split.q[-1], fine.q[-1], rtol=1e-12)
    assert np.allclose(split.v[-1], fine.v[-1], rtol=1e-12)
    assert np.allclose(split.final.f_t, fine.final.f_t, rtol=1e-9)
    summary = cdopt.dynamics.RunSummary.of(split)
    assert (summary.split, summary.parts, summary.not_ok) == (5, 4, 0)
    with pytest.raises(StepFailed):
        cdopt.simulate(scene, DT, DT, "contact-dynamics", friction=0.3, substeps=2)


def test_a_wide_tolerance_is_the_accuracy_of_the_default() -> None:
    """Which keeps its own for compatible forces, and a backend that is named its own."""
    for method, chosen, accuracy in (
        ("contact-dynamics", {}, 1e-3),
        ("contact-dynamics", {"backend": "auto"}, 1e-12),
        ("compatible-friction", {}, 1e-12),
    ):
        run = cdopt.simulate(
            *(cdopt.scene.beam(), DT, 3 * DT, method), friction=0.3, tol=1e-3, **chosen
        )
        assert run.ok
        assert f"accuracy={accuracy}" in run.settings["backend"], method


def test_compatible_friction_remembers_the_slide_before_the_rest() -> None:
    """A block slides with more weight in front, and rests: its feet stay braced."""
    mu, mass, height, half = 0.3, 2.0, 0.1, 0.2
    scene = on_a_floor(brick(2, velocity=[0.05, 0.0]))
    run = cdopt.simulate(scene, 2e-3, 0.03, "compatible-friction", friction=mu)
    assert run.ok
    braced = mu**2 * mass * G * height / (2.0 * half)
    assert np.sort(run.final.f_t[:, 0]) == pytest.approx([-braced, braced], rel=1e-9)
    state = run.final.state
    contacts = cdopt.collision.detect(scene, state)
    step = cdopt.collision.step(scene, state, contacts, 2e-3, friction=mu)
    assert abs(cdopt.CompatibleFriction(step).solve().f_t).max() < 1e-9


# --- energy --------------------------------------------------------------------------------


@pytest.mark.slow
def test_energy_of_a_heap_never_grows() -> None:
    """Discs and boxes fall onto each other, slide and come to rest."""
    bodies = [
        Body(Sphere(0.1), [0.0, 0.12], mass=1.0),
        Body(Box([0.3, 0.1]), [0.05, 0.32], mass=1.0, angle=0.2, angular_velocity=-1.0),
        Body(Sphere(0.08), [0.12, 0.5], mass=0.5, velocity=[-0.5, 0]),
        Body(Box([0.2, 0.2]), [-0.3, 0.12], mass=1.0, velocity=[1.0, 0]),
        Body(HalfSpace([0, 1]), [0, 0], fixed=True),
    ]
    run = cdopt.simulate(Scene(bodies, dim=2, friction=0.4), 1e-2, 0.5, push_overlaps=False)
    assert run.ok
    assert np.diff(mechanical(run)).max() <= 1e-10 * np.ptp(mechanical(run))


@pytest.mark.slow
def test_energy_of_discs_in_a_corner_never_grows() -> None:
    """They fall, roll, slide and come to rest; ``examples.studies.energy`` takes 100,000 steps."""
    run = settle(10_000)
    assert run.ok
    assert growth(run) <= 0.0


def ladder_forces(angle: float, rate: float, a: float, mass: float, mu: float) -> FloatArray:
    """Angular acceleration, and the forces of floor and wall on a ladder 2a that slides at both."""
    c, s, inertia = np.cos(angle), np.sin(angle), mass * a * a / 3.0
    rows = [
        [-mass * a * s, mu, -1.0],
        [mass * a * c, -1.0, -mu],
        [inertia, a * (c - mu * s), -a * (s + mu * c)],
    ]
    loads = [mass * a * c * rate**2, mass * a * s * rate**2 - mass * G, 0.0]
    return np.linalg.solve(rows, loads)


@pytest.mark.slow
def test_a_falling_ladder_leaves_the_wall() -> None:
    a, mass, mu, lean, radius = 0.5, 2.0, 0.1, np.pi / 3, 1e-6

    def wall(t: float, y: FloatArray) -> float:
        return float(ladder_forces(*y, a, mass, mu)[2])

    wall.terminal = True  # type: ignore[attr-defined]
    fall = solve_ivp(
        lambda t, y: [y[1], ladder_forces(*y, a, mass, mu)[0]], (0.0, 1.0), [lean, 0.0],
        events=wall, rtol=1e-10, atol=1e-12, dense_output=True,
    )  # fmt: skip
    leaves, at = fall.t_events[0][0], 0.3
    place = [a * np.cos(lean) + radius, a * np.sin(lean) + radius]
    ladder = Body(Capsule(radius=radius, length=2.0 * a), place, mass=mass, angle=np.pi - lean)
    walls = [Body(HalfSpace(n), [0, 0], fixed=True) for n in ([0, 1], [1, 0])]
    steps, errors = [0.01, 0.005, 0.0025], []
    for dt in steps:
        run = cdopt.simulate(Scene([ladder, *walls], dim=2), dt, leaves + 3.0 * dt, friction=mu)
        assert run.ok
        errors.append(np.pi - run.q[round(at / dt), 0, 2] - fall.sol(at)[0])
        pushes = np.array([frame.f[frame.bodies[:, 1] == 2].sum() for frame in run])
        assert abs(run.t[np.flatnonzero(pushes > 1e-6)[-1]] - leaves) < dt
        assert pushes[-1] == 0.0
    assert order(steps, errors) == pytest.approx(1.0, abs=0.1)


def dominoes(count: int, share: float) -> Scene:
    """Slabs in a row; the first turns about its edge with ``share`` of the speed that tips it."""
    width, height, mass = 0.02, 0.1, 0.1
    half = 0.5 * np.hypot(width, height)
    about_edge = mass * (width**2 + height**2) / 12.0 + mass * half**2
    turn = share * np.sqrt(2.0 * mass * G * (half - 0.5 * height) / about_edge)
    push = {"velocity": [0.5 * turn * height, 0.5 * turn * width], "angular_velocity": -turn}
    slabs = [
        Body(Box([width, height]), [0.05 * k, 0.5 * height], mass=mass, **(push if k == 0 else {}))
        for k in range(count)
    ]
    return Scene([*slabs, Body(HalfSpace([0, 1]), [0, 0], fixed=True)], dim=2, friction=0.6)


@pytest.mark.slow
def test_a_domino_tips_above_its_energy_and_falls_back_below_and_three_fall_in_turn() -> None:
    for share in (0.95, 1.05):
        run = cdopt.simulate(dominoes(1, share), 2e-3, 0.5)
        assert run.ok
        tilt = -run.q[-1, 0, 2]
        assert (tilt > 1.0) if share > 1.0 else (abs(tilt) < 0.05)
    run = cdopt.simulate(dominoes(3, 1.3), 2e-3, 0.6, push_overlaps=False)
    assert run.ok
    assert np.diff(mechanical(run)).max() <= 1e-10 * np.ptp(mechanical(run))
    begun = [int(np.argmax(-run.q[:, k, 2] > 0.1)) for k in range(3)]
    assert begun == sorted(begun)
    assert 0 < begun[0] < begun[-1]
