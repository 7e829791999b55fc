"""MuJoCo scenes for tests: their geoms are frictionless unless a test says else."""

from __future__ import annotations

import numpy as np
import pytest

engine = pytest.importorskip("mujoco", reason="pip install mujoco")

GRAVITY = 9.81
REST = 1e-9  # m/s and m/s²: slower than this is at rest
FLOOR = '<geom name="floor" type="plane" size="5 5 .1"/>'


def spring(k: float) -> str:
    """solref of a critically damped spring of stiffness k, 1/s²."""
    return f'solref="{-k} {-2.0 * np.sqrt(k)}"'


def compiled(bodies: str, k: float = 1e5, *, geom="", options="", more="", flags="", timestep=2e-4):
    """A model of frictionless geoms with impedance 0.9 everywhere, unless ``geom`` says else."""
    shape = geom or f'condim="1" solimp=".9 .9 .001" {spring(k)}'
    return engine.MjModel.from_xml_string(f"""
        <mujoco>
          <option timestep="{timestep}" {options}
              tolerance="1e-14" iterations="200" jacobian="dense"><flag {flags}/></option>
          <default><geom {shape}/></default>
          <worldbody>{bodies}</worldbody>
          {more}
        </mujoco>""")


def settled(model, most: int = 20_000):
    """The data of a model that has come to rest."""
    data = engine.MjData(model)
    for k in range(most):
        engine.mj_step(model, data)
        if k % 50 == 0 and max(np.abs(data.qacc).max(), np.abs(data.qvel).max()) < REST:
            engine.mj_forward(model, data)
            return data
    raise AssertionError(f"not at rest after {most} steps: {np.abs(data.qacc).max():.1e} m/s²")


def loaded_box(k: float) -> str:
    """A box on the floor, a weight near one of its corners: four contacts, one too many."""
    return f"""{FLOOR}
        <body pos="0 0 .1"><freejoint/>
          <geom name="box" type="box" size=".2 .3 .1" mass="2"/>
          <geom name="load" type="sphere" size=".02" pos=".1 .1 .15" mass="1"/>
        </body>"""


def box_at(height: float, **options):
    """Model and data of the loaded box with its centre at this height, m."""
    model = compiled(loaded_box(1e5), **options)
    data = engine.MjData(model)
    data.qpos[2] = height
    return model, data


def plank(k: float) -> str:
    """A plank on three balls, the middle one three times as stiff; it rises and tilts."""
    balls = "".join(
        f'<geom name="ball{i}" type="sphere" size=".05" pos="{x} 0 0"'
        f' {spring(s * k)} priority="1"/>'
        for i, (x, s) in enumerate(((-0.5, 1.0), (0.0, 3.0), (0.5, 1.0)))
    )
    return f"""{balls}
        <body pos="0 0 .1">
          <joint type="slide" axis="0 0 1"/><joint type="hinge" axis="0 1 0"/>
          <geom name="plank" type="box" size=".6 .05 .05" mass="2"/>
        </body>"""


def table(k: float) -> str:
    """A table with an uneven load on four legs of four stiffnesses."""
    places = ((-0.4, -0.3, 1.0), (0.4, -0.3, 2.0), (-0.4, 0.3, 3.0), (0.4, 0.3, 0.5))
    legs = "".join(
        f'<geom name="leg{i}" type="sphere" size=".02" pos="{x} {y} -.3" mass=".1"'
        f' {spring(s * k)} priority="1"/>'
        for i, (x, y, s) in enumerate(places)
    )
    return f"""{FLOOR}
        <body pos="0 0 .32"><freejoint/>
          <geom name="top" type="box" size=".5 .4 .02" mass="3"/>
          <geom name="load" type="box" size=".05 .05 .05" pos=".2 .1 .1" mass="2"/>{legs}
        </body>"""


def arm(k: float) -> str:
    """Two links on the floor, the first hinged to the world: two dofs, four contacts."""
    return f"""{FLOOR}
        <body name="upper" pos="0 0 .05"><joint name="shoulder" type="hinge" axis="0 1 0"/>
          <geom name="upper" type="capsule" fromto=".1 0 0 .5 0 0" size=".05" mass="1"/>
          <body name="lower" pos=".5 0 0"><joint name="elbow" type="hinge" axis="0 1 0"/>
            <geom name="lower" type="capsule" fromto=".1 0 0 .4 0 0" size=".05" mass="1"/>
          </body>
        </body>"""


def wall(k: float) -> str:
    """Three, two and one brick; each rises and tilts, none slides: 18 dofs, 36 contacts."""
    return FLOOR + "".join(
        f"""<body pos="{0.4 * j + 0.2 * (row - 2)} 0 {0.05 + 0.1 * row}">
              <joint type="slide" axis="0 0 1"/>
              <joint type="hinge" axis="1 0 0"/><joint type="hinge" axis="0 1 0"/>
              <geom name="brick{row}{j}" type="box" size=".19 .1 .05" mass="1"/>
            </body>"""
        for row in range(3)
        for j in range(3 - row)
    )


def mixed() -> str:
    """Joints of all kinds, overlapping: a box, a ball-jointed arm, a hinged one, a sliding post."""
    return f"""{FLOOR}
        <body pos="0 0 .12" euler="4 3 20"><freejoint/>
          <geom name="box" type="box" size=".3 .2 .15" mass="2"/></body>
        <body pos=".2 0 .5"><joint type="ball"/>
          <geom type="capsule" fromto="0 0 0 -.1 .05 -.15" size=".02" contype="0" conaffinity="0"/>
          <geom name="fist" type="sphere" size=".06" pos="-.1 .05 -.18" mass=".5"/></body>
        <body pos="-.8 0 .2"><joint name="swing" type="hinge" axis="0 1 .2" range="-1 .05"
            limited="true"/>
          <geom name="rod" type="capsule" fromto=".1 .05 0 .3 .1 -.16" size=".05" mass="1"/></body>
        <body pos=".2 .1 .36"><joint name="post" type="slide" axis="0 .3 1"
            stiffness="300" springref=".02" damping="3"/>
          <geom name="post" type="sphere" size=".1" mass="1"/></body>"""


MIXED_EXTRAS = """
    <tendon><fixed name="rope" limited="true" range="-1 .15">
      <joint joint="swing" coef="2"/><joint joint="post" coef=".5"/></fixed></tendon>
    <actuator><motor joint="swing" gear="3"/></actuator>"""


def mixed_state(seed: int = 0, flags: str = ""):
    """A model with contacts and limits of all kinds in a moving state, everything loaded."""
    rng = np.random.default_rng(seed)
    model = compiled(mixed(), more=MIXED_EXTRAS, flags=flags)
    data = engine.MjData(model)
    data.qpos[model.jnt_qposadr[2]] = 0.1  # the hinge, beyond its limit; so is the tendon
    data.qvel[:] = rng.standard_normal(model.nv)
    data.ctrl[:] = 0.7
    data.qfrc_applied[:] = rng.standard_normal(model.nv)
    data.xfrc_applied[1:] = rng.standard_normal((model.nbody - 1, 6))
    return model, data


SCENES = {"box": loaded_box, "plank": plank, "table": table, "arm": arm}
