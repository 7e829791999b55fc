"""Stack, arch and pile with friction in MuJoCo and in cdopt: the same events, admissible forces."""

from __future__ import annotations

import numpy as np
import pytest
from mujoco_scenes import GRAVITY, engine

import cdopt
from cdopt.interop import mujoco as bridge
from cdopt.scene import Body, Box, HalfSpace, Scene, Sphere
from cdopt.scene.generators.packings import pyramid_positions

DT, DURATION = 2e-3, 0.6  # s; in free fall 1.8 m
STANDS, FALLS = 0.01, 0.05  # m, of the farthest body
LATE = 0.01  # s
RADIUS, SPEED = 0.1, 2.0  # m, m/s

# hard contacts, and a friction cone that creeps little
OPTIONS = (
    'cone="elliptic" impratio="100" timestep="5e-4" tolerance="1e-12" iterations="200" '
    'integrator="implicitfast"'
)
GEOM = 'condim="3" solref=".004 1" solimp=".95 .99 .0005" friction="{mu} .005 .0001"'


def words(numbers) -> str:
    return " ".join(f"{x:.15g}" for x in np.ravel(numbers))


def model_of(scene: Scene, mu: float):
    """The same bodies in MuJoCo; polyhedra are convex meshes."""
    meshes, bodies = [], []
    start, table = scene.initial, scene.bodies
    for k in range(table.nb):
        shape, place = table.shape(k), f'pos="{words(start.position[k])}"'
        if isinstance(shape, HalfSpace):
            geom = f'type="plane" size="9 9 .1" zaxis="{words(shape.normal)}"'
        elif isinstance(shape, Sphere):
            geom = f'type="sphere" size="{shape.radius}"'
        elif isinstance(shape, Box):
            geom = f'type="box" size="{words(0.5 * np.array(shape.size))}"'
        else:
            vertices = np.array(shape.vertices) - shape.centre
            meshes.append(f'<mesh name="m{k}" vertex="{words(vertices)}"/>')
            geom = f'type="mesh" mesh="m{k}"'
        if not isinstance(shape, HalfSpace):
            place += f' quat="{words(start.orientation[k])}"'
        if table.fixed[k]:
            bodies.append(f'<geom name="{k}" {geom} {place}/>')
        else:
            geom += f' name="{k}" mass="{table.mass[k]}"'
            bodies.append(f"<body {place}><freejoint/><geom {geom}/></body>")
    return engine.MjModel.from_xml_string(f"""
        <mujoco>
          <option gravity="{words(scene.gravity)}" {OPTIONS}><flag multiccd="enable"/></option>
          <default><geom {GEOM.format(mu=mu)}/></default>
          <asset>{"".join(meshes)}</asset>
          <worldbody>{"".join(bodies)}</worldbody>
        </mujoco>""")


def floor() -> Body:
    return Body(HalfSpace([0.0, 0.0, 1.0]), [0.0, 0.0, 0.0])


def scene_of(bodies: list[Body], angle: float = 0.0) -> Scene:
    """On a floor that slopes by an angle."""
    gravity = GRAVITY * np.array([np.sin(angle), 0.0, -np.cos(angle)])
    return Scene([floor(), *bodies], dim=3, gravity=gravity, overlaps="touching")


def stack(overhang: float = 0.0, angle: float = 0.0, struck: float = 0.0) -> Scene:
    """Five bricks, the upper four shifted together, or the third one struck at a speed.

    The upper ones tip where more than half of them is in the air.
    """
    return scene_of(
        [
            Body(
                Box([0.4, 0.2, 0.1]), [0.4 * overhang * (k > 0), 0.0, 0.1 * k + 0.05], mass=2.0,
                velocity=[struck * (k == 2), 0.0, 0.0],
            )
            for k in range(5)
        ],
        angle,
    )  # fmt: skip


def pile() -> Scene:
    """A pyramid of 14 balls, whose forces balance from about μ = 0.6."""
    centres = 2.0 * RADIUS * pyramid_positions(3)[0] + [0.0, 0.0, RADIUS]
    return scene_of([Body(Sphere(RADIUS), centre, mass=1.0) for centre in centres])


def arch(keystone: bool = True) -> Scene:
    return cdopt.scene.arch_without_keystone(5, angle=0.8, keystone=keystone, dim=3)


CASES = {  # scene, μ, and what happens
    "stack that holds": (stack(overhang=0.4), 0.5, "stands"),
    "stack that tips": (stack(overhang=0.6), 0.5, "falls"),
    "stack on a slope that holds": (stack(angle=np.arctan(0.45)), 0.5, "stands"),
    "stack on a slope that slides": (stack(angle=np.arctan(0.6)), 0.5, "slides"),
    "stack with a brick struck": (stack(struck=SPEED), 0.5, "stops"),
    "arch of rough stones": (arch(), 0.7, "stands"),
    "arch of smooth stones": (arch(), 0.02, "falls"),
    "arch without its keystone": (arch(keystone=False), 0.7, "falls"),
    "pile on a rough floor": (pile(), 1.0, "stands"),
    "pile on a slippery floor": (pile(), 0.25, "falls"),
}
RESTING = [name for name, (_, _, end) in CASES.items() if end == "stands"]


def run_of_mujoco(scene: Scene, mu: float, duration: float = DURATION):
    """Model, data after the run, and where its free bodies are every 2 ms."""
    model = model_of(scene, mu)
    data = engine.MjData(model)
    data.qvel.reshape(-1, 6)[:] = scene.initial.v[~scene.bodies.fixed]
    path = [data.qpos.reshape(-1, 7)[:, :3].copy()]
    for _ in range(round(duration / DT)):
        engine.mj_step(model, data, round(DT / model.opt.timestep))
        path.append(data.qpos.reshape(-1, 7)[:, :3].copy())
    engine.mj_forward(model, data)
    return model, data, np.array(path)


def farthest(path) -> np.ndarray:
    """How far the farthest body is from its start, in each frame; m."""
    return np.linalg.norm(path - path[0], axis=2).max(axis=1)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_same_happens_at_the_same_time(name: str) -> None:
    """Stands, falls or stops in cdopt as in MuJoCo, at close positions until bodies have fallen.

    On a slope the centre of a sliding stack is compared: all its joints are at the limit of
    friction, and bricks that slide over each other in the least go on doing so.
    """
    scene, mu, end = CASES[name]
    rigid = cdopt.simulate(scene, DT, DURATION, "contact-dynamics", friction=mu)
    assert rigid.ok
    paths = [rigid.q[:, ~scene.bodies.fixed, :3], run_of_mujoco(scene, mu)[2]]
    if end == "slides":
        paths = [path.mean(axis=1, keepdims=True) for path in paths]
    if end == "stands":
        assert max(farthest(path).max() for path in paths) < STANDS
    elif end == "stops":
        moving = [
            np.abs(np.diff(path, axis=0)).max(axis=(1, 2)) > 0.01 * SPEED * DT for path in paths
        ]
        stops = [DT * np.flatnonzero(moves)[-1] for moves in moving]
        assert stops == pytest.approx([SPEED / (3.0 * mu * GRAVITY)] * 2, abs=LATE)
        assert np.linalg.norm(paths[0] - paths[1], axis=2).max() < STANDS
    else:
        falls = [int(np.argmax(farthest(path) > FALLS)) for path in paths]
        assert min(falls) > 0
        assert DT * abs(falls[0] - falls[1]) < LATE
        apart = np.linalg.norm(paths[0] - paths[1], axis=2)[: max(falls)].max()
        assert apart < STANDS


@pytest.mark.slow
@pytest.mark.parametrize("name", RESTING)
def test_forces_of_mujoco_at_rest_are_admissible(name: str) -> None:
    """Within the certified bounds, up to the forces that still accelerate MuJoCo's bodies.

    Bodies touch that must press on each other, and only those that touch in cdopt.
    """
    scene, mu, _ = CASES[name]
    model, data, _ = run_of_mujoco(scene, mu, 4.0)
    step = bridge.contact_step(model, data, friction=True).replace(v=np.zeros(model.nv))
    f, f_t = np.split(data.efc_force.reshape(-1, 3), [1], axis=1)
    report = cdopt.indeterminacy(step, "coulomb", solution="newton")  # units are of this answer
    load = step.B.T @ f.ravel() + step.friction.B_t.T @ f_t.ravel() + step.F_ext
    unbalanced = np.abs(load).max() / report.unit.max()
    assert unbalanced < 2e-3
    beyond = report.outside(f.ravel(), f_t).max() / report.unit.max()
    assert beyond <= 1e-6 + 2.0 * unbalanced
    assert report.dimension > 0
    contacts = cdopt.collision.detect(scene, scene.initial)
    rest = cdopt.collision.step(scene, scene.initial, contacts, DT, friction=mu)
    own = cdopt.indeterminacy(rest, "coulomb", solution="nsgs")
    pairs = [frozenset(pair) for pair in contacts.bodies.tolist()]
    loaded = {pairs[k] for k in np.flatnonzero(own.lower > 1e-6 * own.unit)}
    theirs = {frozenset(map(int, name.split("/")[:2])) for name in step.contact_ids}
    assert loaded <= theirs <= set(pairs)
