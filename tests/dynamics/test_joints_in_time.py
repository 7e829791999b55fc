"""Joints in time: of the variational integrator, and their reactions in trajectories."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import cdopt
from cdopt.backends.selection import resolve
from cdopt.collision import joint_gaps, joints
from cdopt.dynamics import VariationalSteps
from cdopt.dynamics.variational import VariationalPasses
from cdopt.scene import Body, Box, HalfSpace, Joint, Material, Scene, Sphere

STEEL = Material(name="steel", stiffness=1e4)


def block(name: str, position: tuple[float, ...], mass: float = 1.0, **more: object) -> Body:
    size = (0.4, 0.2, 0.3)[: len(position)]
    return Body(Box(size), position, mass=mass, name=name, material="steel", **more)


def pendulum(dim: int) -> Scene:
    """Two boxes: a pin with the world, and one between them, in space a hinge."""
    bodies = [block("a", (0.5, 0.0, 0.0)[:dim], 2.0), block("b", (1.3, 0.0, 0.0)[:dim])]
    first = Joint(kind="pin", bodies=("a", "world"), point=(0.0,) * dim)
    axis = {"kind": "hinge", "axis": (1.0, 0.0, 1.0)} if dim == 3 else {"kind": "pin"}
    second = Joint(bodies=("a", "b"), point=(0.9, 0.0, 0.0)[:dim], **axis)
    return Scene(bodies, dim=dim, joints=[first, second], materials=[STEEL])


def linkage(dim: int) -> Scene:
    """Two boxes in free flight with a joint that their first velocities do not keep."""
    spin = {"angular_velocity": 3.0 if dim == 2 else (1.0, 2.0, 3.0)}
    bodies = [
        block("a", (0.5, 0.0, 0.0)[:dim], 2.0, velocity=(0.3, 1.0, 0.2)[:dim], **spin),
        block("b", (1.3, 0.1, 0.0)[:dim]),
    ]
    axis = (1.0, 0.2, 0.3)[:dim]
    kind = "slider" if dim == 2 else "hinge"
    joint = Joint(kind=kind, bodies=("a", "b"), point=(0.9, 0.1, 0.2)[:dim], axis=axis)
    still = (0.0,) * dim
    return Scene(bodies, dim=dim, gravity=still, joints=[joint], materials=[STEEL])


@pytest.mark.slow
@pytest.mark.parametrize("dim", [2, 3])
def test_the_integrator_is_of_second_order_with_joints(dim: int) -> None:
    """Joints and their velocities hold to round-off; the energy's error is all the scheme's."""
    scene, ends = pendulum(dim), []
    for dt in (3e-3, 1.5e-3, 7.5e-4):
        run = cdopt.simulate(scene, dt, 0.03, "variational")
        ends.append(run.final.state.q)
        energy = run.diagnostics
        assert np.abs(energy["balance"] - energy["scheme_error"]).max() < 1e-12
        assert np.abs(joint_gaps(scene, run.final.state)).max() < 1e-13
        rows = joints(scene, run.final.state, 1.0)
        speed = rows.J @ scene.full_dofs.gather(run.final.state.v)
        assert np.abs(speed).max() < 1e-12
    first, second = (np.abs(a - b).max() for a, b in pairwise(ends))
    assert np.log2(first / second) == pytest.approx(2.0, abs=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.3, 0.7])
def test_other_weights_keep_joints_too(alpha: float) -> None:
    run = cdopt.simulate(pendulum(2), 2e-3, 0.03, VariationalSteps(alpha=alpha))
    assert run.ok
    assert np.abs(joint_gaps(run.scene, run.final.state)).max() < 1e-13
    plain = cdopt.simulate(pendulum(2), 2e-3, 0.03, "variational")
    assert np.abs(run.joint_forces[-1] - plain.joint_forces[-1]).max() < 0.05


@pytest.mark.parametrize("dim", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_a_linkage_in_free_flight_keeps_its_momentum_and_returns(dim: int) -> None:
    """The first step takes what breaks the joint, once; then a run backwards is the same run."""
    scene = linkage(dim)
    run = cdopt.simulate(scene, 2e-3, 0.024, "variational")
    rows = run.diagnostics
    assert np.ptp(rows["momentum"], axis=0).max() < 1e-13
    assert np.ptp(rows["kinetic"][1:]) < 1e-4 * rows["kinetic"][1] < 0.9 * rows["kinetic"][0]
    assert np.ptp(rows["angular_momentum"][1:], axis=0).max() < 1e-4
    steps = VariationalPasses(scene, 2e-3, 0.5, "forced", resolve("newton"), 1e-12)
    last, there = run.final.state, run[1].state
    home = cdopt.scene.State(0.0, last.q, -last.v)
    for _ in range(11):
        home = steps.step(home, None).state
    assert np.abs(home.q - there.q).max() < 1e-9
    assert np.abs(home.v + there.v).max() < 1e-8


def test_a_motor_starts_a_body_with_twice_its_energy() -> None:
    """A crank at constant speed takes a welded body along: half of its work is lost at once."""
    crank = Body(
        Box((0.4, 0.2)),
        (0.0, 0.0),
        name="crank",
        material="steel",
        fixed=True,
        angular_velocity=3.0,
    )
    weld = Joint(kind="weld", bodies=("crank", "b"), point=(0.3, 0.0))
    bodies = [crank, block("b", (0.6, 0.0))]
    scene = Scene(bodies, dim=2, joints=[weld], materials=[STEEL], gravity=(0.0, 0.0))
    rows = cdopt.simulate(scene, 2e-3, 0.02, "variational").diagnostics
    energy = 0.5 * (0.6**2 + (0.4**2 + 0.2**2) / 12.0) * 3.0**2
    assert rows["kinetic"][-1] == pytest.approx(energy, rel=1e-4)
    assert rows["work"][-1] == pytest.approx(2.0 * energy, rel=1e-4)


def test_linked_boxes_come_down_on_a_floor_with_friction() -> None:
    floor = Body(HalfSpace((0.0, 1.0)), (0.0, 0.0), name="floor", material="steel")
    bodies = [floor, block("a", (0.0, 0.155), 2.0, angle=0.3), block("b", (0.6, 0.3))]
    pin = Joint(kind="pin", bodies=("a", "b"), point=(0.3, 0.3))
    scene = Scene(bodies, dim=2, joints=[pin], materials=[STEEL], friction=0.4)
    run = cdopt.simulate(scene, 1e-3, 0.02, "variational")
    rows = run.diagnostics
    assert run.ok
    assert run.final.nc or any(frame.nc for frame in run)
    assert np.abs(rows["balance"] - rows["scheme_error"]).max() < 1e-12


@pytest.mark.parametrize("method", ["classic-cd", "compatible-cd", "variational"])
def test_trajectories_hold_the_reactions_of_joints(method: str, tmp_path: Path) -> None:
    """A bob that is let go: the pin takes what gravity and its own turning leave, by hand.

    Files have the same numbers, runs that were resumed too.
    """
    bob = Body(Sphere(0.1), (1.0, 0.0), mass=1.0, name="bob", material="steel")
    pin = Joint(kind="pin", bodies=("bob", "world"), point=(0.0, 0.0))
    scene = Scene([bob], dim=2, joints=[pin], materials=[STEEL])
    run = cdopt.simulate(scene, 2e-3, 0.02, method)
    assert run.joint_forces.shape == (11, 2)
    assert not run.joint_forces[0].any()
    share = 0.5 * 0.1**2 / (1.0 + 0.5 * 0.1**2)  # of the weight, by the inertia of the bob alone
    assert run.joint_forces[1, 1] == pytest.approx(-9.81 * share, rel=1e-3)
    path = tmp_path / "run.vtkhdf"
    cdopt.simulate(scene, 2e-3, 0.01, method, out=path)
    resumed = cdopt.simulate(scene, 2e-3, 0.02, method, out=path, resume=True)
    assert np.array_equal(resumed.joint_forces, run.joint_forces)
    run.save(tmp_path / "copy.vtkhdf")
    loaded = cdopt.dynamics.Trajectory.load(tmp_path / "copy.vtkhdf")
    assert np.array_equal(loaded.joint_forces, run.joint_forces)
    assert np.array_equal(loaded.final.joint_forces, run.final.joint_forces)
    table = run.joints_to_frame()
    assert list(table.columns) == ["bob–world x", "bob–world y"]
    assert np.array_equal(table.to_numpy(), run.joint_forces)


@pytest.mark.parametrize("dim", [2, 3])
def test_trajectories_hold_the_moments_of_contacts(dim: int, tmp_path: Path) -> None:
    """A ball that rolls and spins: the change of its spin is that of f_t and of the moments."""
    up = (0.0,) * (dim - 1) + (1.0,)
    spins = {"spinning_friction": 0.1} if dim == 3 else {}
    rough = Material(name="rough", friction=0.5, rolling_friction=0.05, **spins)
    floor = Body(HalfSpace(up), (0.0,) * dim, name="floor", material="rough")
    turning = {"angular_velocity": -10.0 if dim == 2 else (0.0, 10.0, 3.0)}
    start = {"velocity": (1.0, 0.0, 0.0)[:dim], **turning}
    centre = tuple(0.1 * np.array(up))
    ball = Body(Sphere(0.1), centre, mass=1.0, name="ball", material="rough", **start)
    scene = Scene([floor, ball], dim=dim, materials=[rough])
    run = cdopt.simulate(scene, 1e-3, 2e-3, "contact-dynamics")
    frame, before = run.final, run[1].state
    moment = frame.forces["f_r"][0]
    arm = -0.1 * np.array(up)
    turned = np.cross(np.pad(arm, (0, 3 - dim)), np.pad(frame.f_t[0], (0, 3 - dim)))
    torque = moment + (turned[2] if dim == 2 else turned)
    inertia = scene.bodies.inertia[1]
    gained = (frame.state.angular_velocity[1] - before.angular_velocity[1]) * inertia
    assert np.allclose(gained, 1e-3 * torque, atol=1e-12)
    limit = 0.05 * 0.1 * 9.81
    rolling = abs(moment) if dim == 2 else float(np.hypot(*moment[:2]))
    assert rolling == pytest.approx(limit, rel=1e-9)
    run.save(tmp_path / "run.vtkhdf")
    loaded = cdopt.dynamics.Trajectory.load(tmp_path / "run.vtkhdf").final
    assert np.array_equal(loaded.forces["f_r"], frame.forces["f_r"])
    columns = list(loaded.to_frame().columns)
    assert columns[-1] == ("f_r" if dim == 2 else "f_r.2")
    assert "f_r" not in cdopt.dynamics.records.largest_forces(frame.forces)


def test_runs_without_joints_keep_nothing_of_them(tmp_path: Path) -> None:
    import h5py

    run = cdopt.simulate(cdopt.scene.beam(), 1e-3, 2e-3, "classic-cd")
    assert run.joint_forces.shape == (3, 0)
    assert list(run.joints_to_frame().columns) == []
    run.save(tmp_path / "run.vtkhdf")
    with h5py.File(tmp_path / "run.vtkhdf") as file:
        assert "joint_forces" not in file["cdopt"]
