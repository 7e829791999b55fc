"""Stack, arch and pile with friction in MuJoCo and in cdopt: the same events, admissible forces."""

from __future__ import annotations

import numpy as np
import pytest
from mujoco_scenes import GRAVITY, engine

import cdopt
from cdopt.interop import mujoco as bridge
from cdopt.scene import Body, Box, HalfSpace, Scene, Sphere

DURATION = 0.6  # s; in free fall 1.8 m
STANDS, FALLS = 0.01, 0.05  # m, of the farthest body

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
            bodies.append(f"<geom {geom} {place}/>")
        else:
            geom += f' mass="{table.mass[k]}"'
            bodies.append(f"<body {place}><freejoint/><geom {geom}/></body>")
    return engine.MjModel.from_xml_string(f"""
        <mujoco>
          <option gravity="0 0 {-GRAVITY}" {OPTIONS}><flag multiccd="enable"/></option>
          <default><geom {GEOM.format(mu=mu)}/></default>
          <asset>{"".join(meshes)}</asset>
          <worldbody>{"".join(bodies)}</worldbody>
        </mujoco>""")


def floor() -> Body:
    return Body(HalfSpace([0.0, 0.0, 1.0]), [0.0, 0.0, 0.0])


def scene_of(bodies: list[Body]) -> Scene:
    return Scene(bodies, dim=3, gravity=[0.0, 0.0, -GRAVITY], overlaps="touching")


def stack(overhang: float) -> Scene:
    """Three bricks, the upper two shifted together: they tip where more than half is in the air."""
    size = [0.4, 0.2, 0.1]
    at = [[0.0, 0.0, 0.05], [0.4 * overhang, 0.0, 0.15], [0.4 * overhang, 0.0, 0.25]]
    return scene_of([floor(), *(Body(Box(size), place, mass=2.0) for place in at)])


def arch() -> Scene:
    """A segmental arch of one stone."""
    return cdopt.scene.arch(5, angle=0.8, density=2000.0, dim=3)


def pile() -> Scene:
    """Three balls on a floor and a fourth one on them: it needs tan(α/2) = 0.318, sin α = 1/√3."""
    r = 0.1
    turn = 2.0 * np.pi / 3.0 * np.arange(3)
    reach = 2.0 * r / np.sqrt(3.0)
    feet = np.column_stack([reach * np.cos(turn), reach * np.sin(turn), np.full(3, r)])
    places = [*feet, [0.0, 0.0, r + 2.0 * r * np.sqrt(2.0 / 3.0)]]
    return scene_of([floor(), *(Body(Sphere(r), place, mass=1.0) for place in places)])


CASES = {
    "stack that holds": (stack(0.4), 0.5, True),
    "stack that tips": (stack(0.6), 0.5, False),
    "arch of rough stones": (arch(), 0.7, True),
    "arch of smooth stones": (arch(), 0.02, False),
    "pile on a rough floor": (pile(), 0.4, True),
    "pile on a slippery floor": (pile(), 0.25, False),
}


def run_of_mujoco(scene: Scene, mu: float, duration: float = DURATION):
    """Model, data after the run, and where its free bodies are."""
    model = model_of(scene, mu)
    data = engine.MjData(model)
    while data.time < duration:
        engine.mj_step(model, data)
    engine.mj_forward(model, data)
    return model, data, data.qpos.reshape(-1, 7)[:, :3]


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_what_stands_and_what_falls_is_the_same(name: str) -> None:
    scene, mu, stands = CASES[name]
    free = ~scene.bodies.fixed
    start = scene.initial.position[free]
    rigid = cdopt.simulate(scene, 5e-3, DURATION, "contact-dynamics", friction=mu, every=120)
    assert rigid.ok
    *_, soft = run_of_mujoco(scene, mu)
    for ended in (rigid.final.state.position[free], soft):
        way = float(np.linalg.norm(ended - start, axis=1).max())
        assert way < STANDS if stands else way > FALLS


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, (_, _, stands) in CASES.items() if stands])
def test_forces_of_mujoco_at_rest_are_admissible(name: str) -> None:
    """Within the certified bounds, up to the forces that still accelerate MuJoCo's bodies."""
    scene, mu, _ = CASES[name]
    model, data, _ = run_of_mujoco(scene, mu, 4.0)
    step = bridge.contact_step(model, data, friction=True).replace(v=np.zeros(model.nv))
    f, f_t = np.split(data.efc_force.reshape(-1, 3), [1], axis=1)
    report = cdopt.indeterminacy(step, law="coulomb")
    load = step.B.T @ f.ravel() + step.friction.B_t.T @ f_t.ravel() + step.F_ext
    unbalanced = np.abs(load).max() / report.unit
    assert unbalanced < 2e-3
    beyond = report.outside(f.ravel(), f_t).max() / report.unit
    assert beyond <= 1e-6 + 2.0 * unbalanced
    assert (report.dimension > 0) == ("pile" not in name)
