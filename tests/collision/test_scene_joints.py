"""Joints of scenes: their rows, their files, and how contact dynamics holds them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import cdopt
from cdopt.collision import joints
from cdopt.scene import Body, Box, HalfSpace, Joint, Scene, Sphere


def block(name: str, position: tuple[float, ...], **more: object) -> Body:
    """A box of 2 kg, of unequal sides."""
    size = (0.4, 0.2) if len(position) == 2 else (0.4, 0.3, 0.2)
    return Body(Box(size), position, mass=2.0, name=name, **more)


JOINTS = {
    "pin in the plane": (2, Joint(kind="pin", bodies=("a", "b"), point=(0.5, 0.1)), 2),
    "hinge in the plane": (2, Joint(kind="hinge", bodies=("a", "world"), point=(0.5, 0.1)), 2),
    "slider in the plane": (2, Joint(kind="slider", bodies=("a", "b"), axis=(1.0, 2.0)), 2),
    "weld in the plane": (2, Joint(kind="weld", bodies=("b", "a")), 3),
    "pin": (3, Joint(kind="pin", bodies=("world", "b"), point=(0.5, 0.1, 0.0)), 3),
    "hinge": (3, Joint(kind="hinge", bodies=(0, 1), point=(0.5, 0.1, 0.2), axis=(1, 2, 3)), 5),
    "slider": (3, Joint(kind="slider", bodies=("a", "b"), axis=(0, 1, 1)), 5),
    "weld": (3, Joint(kind="weld", bodies=("a", "b"), point=(0.0, 1.0, 0.0)), 6),
}


def scene_of(dim: int, joint: Joint) -> Scene:
    """Two boxes apart, turned."""
    turned = {"angle": 0.3} if dim == 2 else {"orientation": (0.5, 0.5, -0.5, 0.5)}
    bodies = [block("a", (0.0, 0.0, 0.0)[:dim], **turned), block("b", (1.0, 0.2, 0.1)[:dim])]
    return Scene(bodies, dim=dim, joints=[joint])


def moved(scene: Scene, state: cdopt.scene.State, v: np.ndarray, t: float) -> cdopt.scene.State:
    """The state after a time t at velocities v (nv,)."""
    table = scene.dofs.scatter(v, np.zeros_like(state.v))
    return cdopt.scene.State(state.t, cdopt.collision.move(state, table, t), state.v)


@pytest.mark.parametrize("what", JOINTS)
def test_rows_are_the_rates_of_gaps_where_joints_hold(what: str) -> None:
    """By central differences along random motions, at the start and at a state that keeps them."""
    dim, joint, rows = JOINTS[what]
    scene, eps = scene_of(dim, joint), 1e-6
    rng, state = np.random.default_rng(2), scene.initial
    for _ in range(2):
        J = joints(scene, state, 1.0).J
        assert J.shape == (rows, scene.dofs.nv)
        assert np.linalg.matrix_rank(J.toarray()) == rows
        for _ in range(3):
            v = rng.standard_normal(scene.dofs.nv)
            ends = [moved(scene, state, v, s * eps) for s in (1.0, -1.0)]
            gaps = [joints(scene, end, 1.0).rate for end in ends]
            np.testing.assert_allclose((gaps[0] - gaps[1]) / (2.0 * eps), J @ v, atol=1e-7)
        step = cdopt.collision.step(scene, state, cdopt.collision.detect(scene, state), dt=1e-4)
        assert np.abs(step.joints.rate).max() < 1e-9
        v = cdopt.ClassicCD(step.replace(v=v, F_ext=0.0 * v)).solve().v_next
        state = moved(scene, state, v, 1e-4)
        for _ in range(3):  # the gaps of second order, corrected
            there = joints(scene, state, 1.0)
            off = np.linalg.lstsq(there.J.toarray(), -there.rate, rcond=None)[0]
            state = moved(scene, state, off, 1.0)


def test_scene_files_keep_joints() -> None:
    for dim, joint, _ in JOINTS.values():
        scene = scene_of(dim, joint)
        again = cdopt.scene.loads(scene.to_toml())
        one, other = (joints(s, s.initial, 1.0) for s in (scene, again))
        assert np.array_equal(one.J.toarray(), other.J.toarray())
        assert one.names.tolist() == other.names.tolist()
        assert again.to_toml() == scene.to_toml()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('kind = "rope"', "joints[0].kind"),
        ('kind = "pin"', "point: found None; expected the point of the pin"),
        ('kind = "slider"', "axis: found None; expected the direction of the slider"),
        ('kind = "weld"\naxis = [1.0, 0.0]', "expected None: a weld has none"),
        ('kind = "pin"\npoint = [0.0, 0.0, 0.0]', "joints[0].point"),
        ('kind = "hinge"\npoint = [0.0, 0.0]\naxis = [0.0, 1.0]', "in the plane a hinge"),
        ('kind = "slider"\naxis = [0.0, 0.0]', "a vector of length zero"),
    ],
)
def test_malformed_joints_are_named_by_file_and_field(text: str, expected: str) -> None:
    toml = scene_of(2, JOINTS["weld in the plane"][1]).to_toml()
    head, _, _ = toml.partition("[[joints]]")
    stated = head + f'[[joints]]\nbodies = ["a", "b"]\n{text}\n'
    with pytest.raises(cdopt.InvalidInput) as caught:
        cdopt.scene.loads(stated)
    assert expected in str(caught.value)
    assert "line " in str(caught.value)


@pytest.mark.parametrize(
    ("bodies", "expected"),
    [
        (("a", "c"), "bodies"),
        (("a", 7), "bodies"),
        (("a", 0), "two bodies, of which one moves"),
        (("ground", "world"), "two bodies, of which one moves"),
    ],
)
def test_joints_of_no_bodies_are_refused(bodies: tuple[object, object], expected: str) -> None:
    ground = Body(HalfSpace((0.0, 1.0)), (0.0, -1.0), name="ground")
    with pytest.raises(cdopt.InvalidInput) as caught:
        Scene([block("a", (0.0, 0.0)), ground], dim=2, joints=[Joint(kind="weld", bodies=bodies)])
    assert "joints[0].bodies" in str(caught.value)
    assert expected in str(caught.value)


def test_bodies_with_a_joint_between_them_do_not_collide() -> None:
    bodies = [block("a", (0.0, 0.0)), block("b", (0.3, 0.0))]  # they overlap
    pin = Joint(kind="pin", bodies=("a", "b"), point=(0.15, 0.0))
    scene = Scene(bodies, dim=2, joints=[pin])
    assert cdopt.collision.detect(scene, scene.initial).nc == 0
    with pytest.raises(cdopt.InvalidInput, match="inside"):
        Scene(bodies, dim=2)


@pytest.mark.slow
def test_a_pendulum_swings_and_its_pin_does_not_drift() -> None:
    """The gap is of second order in Δt, the angle of first; a sphere turns with its rod."""
    pin = Joint(kind="pin", bodies=("bob", "world"), point=(0.0, 0.0))
    bob = Body(Sphere(0.1), (1.0, 0.0), mass=1.0, name="bob")
    scene = Scene([bob], dim=2, joints=[pin])
    worst, speeds = [], []
    for dt in (8e-3, 4e-3):
        run = cdopt.simulate(scene, dt, 0.16, "classic-cd")
        worst.append(max(np.abs(joints(scene, f.state, 1.0).rate).max() for f in run))
        speeds.append(float(run.final.state.angular_velocity[0]))
    assert worst[0] / worst[1] == pytest.approx(4.0, rel=0.1)
    assert worst[1] < 5e-5
    inertia = 0.5 * 0.1**2 + 1.0
    exact = solve_ivp(
        lambda t, y: [y[1], -9.81 * np.cos(y[0]) / inertia], (0, 0.16), [0, 0], rtol=1e-10
    ).y[1, -1]
    errors = np.abs(np.array(speeds) - exact)
    assert errors[1] < 0.6 * errors[0] < 6e-3


def test_a_table_with_a_welded_leg_stands_on_its_feet() -> None:
    """Friction and compatible forces in time, with a weld: the table's weight is on both feet."""
    floor = Body(HalfSpace((0.0, 1.0)), (0.0, 0.0), name="floor")
    top = Body(Box((1.0, 0.1)), (0.5, 0.55), mass=2.0, name="top")
    legs = [Body(Box((0.1, 0.5)), (x, 0.25), mass=1.0, name=n) for n, x in (("l", 0.1), ("r", 0.9))]
    welds = [Joint(kind="weld", bodies=("top", leg)) for leg in ("l", "r")]
    scene = Scene([floor, top, *legs], dim=2, friction=0.5, joints=welds)
    for method in ("compatible-cd", "contact-dynamics", "compatible-friction"):
        smooth = method == "compatible-cd"
        run = cdopt.simulate(scene, 1e-3, 3e-3, method, frictionless=smooth)
        final = run.final
        assert np.abs(final.state.v).max() < 1e-9
        assert final.forces["f"].sum() == pytest.approx(4.0 * 9.81, rel=1e-9)
    assert np.abs(joints(scene, final.state, 1.0).rate).max() < 1e-12
    limit = cdopt.limit_load(scene, live=[1.0, 0.0])
    assert limit.value == pytest.approx(0.5, rel=1e-6)  # it slides as a whole


def test_methods_that_hold_no_joints_say_so() -> None:
    steel = cdopt.scene.Material(name="steel", stiffness=1e4)
    ball = Body(Sphere(0.1), (1.0, 0.0), mass=1.0, name="bob", material="steel")
    pin = Joint(kind="pin", bodies=("bob", "world"), point=(0.0, 0.0))
    scene = Scene([ball], dim=2, joints=[pin], materials=[steel])
    native = cdopt.dynamics.VariationalSteps(path="native")
    for method in (native, "velocity-verlet", "quasi-static"):
        with pytest.raises(cdopt.Unsupported, match="the scene has joints, such as bob–world"):
            cdopt.simulate(scene, 1e-4, 1e-3, method)
