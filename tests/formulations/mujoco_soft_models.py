"""Five small MuJoCo models that have every kind of constraint row between them."""

from __future__ import annotations

import numpy as np
import pytest

engine = pytest.importorskip("mujoco", reason="pip install mujoco")

FLOOR = '<geom name="floor" type="plane" size="5 5 .1"/>'
EXACT = 'tolerance="0" iterations="500" ls_iterations="300" ls_tolerance="1e-10" jacobian="dense"'


def compiled(bodies: str, options: str, geom: str, more: str = ""):
    """A model whose own solver goes on until it makes no more progress."""
    return engine.MjModel.from_xml_string(f"""
        <mujoco>
          <option timestep="2e-3" solver="Newton" {EXACT} {options}/>
          <default><geom {geom}/><joint damping=".05" armature=".01"/></default>
          <worldbody>{FLOOR}{bodies}</worldbody>
          {more}
        </mujoco>""")


def leg(name: str, x: float, y: float) -> str:
    return f"""
        <body name="{name}" pos="{x} {y} 0">
          <joint name="hip{name}" axis="0 1 0" range="-35 35" frictionloss=".4"/>
          <geom type="capsule" fromto="0 0 0 0 0 -.15" size=".02" mass=".4"/>
          <body pos="0 0 -.15">
            <joint name="knee{name}" axis="0 1 0" range="-60 5" frictionloss=".2"/>
            <geom type="capsule" fromto="0 0 0 .05 0 -.15" size=".02" mass=".3"/>
          </body>
        </body>"""


def quadruped():
    """Four legs with limits and dry friction of the joints; pyramids of condim 3."""
    legs = "".join(leg(f"{i}{j}", 0.2 * i, 0.1 * j) for i in (-1, 1) for j in (-1, 1))
    body = f"""<body name="torso" pos="0 0 .31"><freejoint/>
        <geom type="box" size=".25 .1 .04" mass="4"/>{legs}</body>"""
    return compiled(body, 'cone="pyramidal" impratio="1"', 'condim="3" friction=".7 .01 .001"')


def linkage():
    """A loop, a weld and a tied joint; ellipses of condim 4, impratio 10."""
    bodies = """
        <body name="crank" pos="0 0 .4"><joint name="crank" axis="0 1 0"/>
          <geom type="capsule" fromto="0 0 0 .2 0 0" size=".02" mass=".5"/>
          <body name="rod" pos=".2 0 0"><joint name="rod" axis="0 1 0"/>
            <geom type="capsule" fromto="0 0 0 .2 0 -.1" size=".02" mass=".5"/></body></body>
        <body name="rocker" pos=".45 0 .3"><joint name="rocker" axis="0 1 0" range="-40 40"/>
          <geom type="capsule" fromto="0 0 0 -.05 0 .02" size=".02" mass=".5"/></body>
        <body name="slab" pos="-.5 0 .06"><freejoint/>
          <geom type="box" size=".1 .1 .05" mass="2"/></body>
        <body name="knob" pos="-.5 0 .16"><freejoint/>
          <geom type="sphere" size=".05" mass=".5"/></body>
        <body name="follower" pos="0 .5 .4"><joint name="follower" axis="0 1 0" limited="false"/>
          <geom type="capsule" fromto="0 0 0 .1 0 0" size=".02" mass=".3"/></body>"""
    more = """<equality>
          <connect body1="rod" body2="rocker" anchor=".2 0 -.1"/>
          <weld body1="slab" body2="knob" solref=".01 1.2"/>
          <joint joint1="follower" joint2="crank" polycoef="0 1.5 .2 0 0"/>
        </equality>"""
    return compiled(
        bodies, 'cone="elliptic" impratio="10"', 'condim="4" friction=".6 .02 .001"', more
    )


def strings():
    """Tendons with limits, dry friction and a tie; ellipses of condim 6, impratio 10."""
    bodies = """
        <body name="a" pos="0 0 .09"><freejoint/>
          <geom type="sphere" size=".1" mass="1"/><site name="a" pos="0 0 .05"/></body>
        <body name="b" pos=".3 0 .09"><freejoint/>
          <geom type="sphere" size=".1" mass="1"/><site name="b" pos="0 0 .05"/></body>
        <body name="c" pos="0 .5 .5"><joint name="c" axis="1 0 0"/>
          <geom type="capsule" fromto="0 0 0 0 .1 0" size=".02" mass=".3"/></body>
        <body name="d" pos="0 .8 .5"><joint name="d" axis="1 0 0"/>
          <geom type="capsule" fromto="0 0 0 0 .1 0" size=".02" mass=".3"/></body>
        <body name="e" pos="0 1.1 .5"><joint name="e" axis="1 0 0"/>
          <geom type="capsule" fromto="0 0 0 0 .1 0" size=".02" mass=".3"/></body>"""
    more = """<tendon>
          <spatial name="rope" limited="true" range="0 .3" frictionloss=".8">
            <site site="a"/><site site="b"/></spatial>
          <fixed name="pair" limited="true" range="-.3 .3" frictionloss=".1">
            <joint joint="c" coef="1"/><joint joint="d" coef="-.5"/></fixed>
          <fixed name="tie"><joint joint="d" coef="1"/><joint joint="e" coef="1"/></fixed>
        </tendon>
        <equality><tendon tendon1="tie"/></equality>"""
    return compiled(
        bodies, 'cone="elliptic" impratio="10"', 'condim="6" friction=".8 .02 .003"', more
    )


MIXED = """
    <body name="wheel" pos="0 0 .195" euler="90 0 0"><freejoint/>
      <geom type="cylinder" size=".2 .03" mass="2" condim="6" friction=".8 .01 .002"/></body>
    <body name="top" pos=".6 0 .095"><freejoint/>
      <geom type="sphere" size=".1" mass="1" condim="4" friction=".5 .02 .001"/></body>
    <body name="brick" pos="-.6 0 .058"><freejoint/>
      <geom name="brick" type="box" size=".1 .08 .06" mass="1.5" friction=".4 .01 .001"/></body>
    <body name="puck" pos="0 .6 .045"><freejoint/>
      <geom type="box" size=".1 .1 .05" mass="1" condim="1" priority="1"/></body>
    <body name="swing" pos="0 -.8 .6">
      <joint name="ball" type="ball" range="0 25" frictionloss=".1"/>
      <geom type="capsule" fromto="0 0 0 0 0 -.3" size=".03" mass="1"/>
      <body pos="0 0 -.3"><joint name="slide" type="slide" axis="0 0 1" range="-.05 .05"
          frictionloss=".5" solreffriction=".01 .8" solimplimit=".8 .95 .01"/>
        <geom type="sphere" size=".06" mass=".5"/></body></body>"""
UNEVEN = """<contact><pair geom1="floor" geom2="brick" condim="6"
    friction=".7 .3 .01 .004 .002" solimp=".9 .99 .002" solref=".01 1.5"/></contact>"""


def mixed_pyramids():
    """Pyramids of condim 1, 3, 4 and 6 in one model, impratio 10; limits of a ball joint."""
    return compiled(MIXED, 'cone="pyramidal" impratio="10"', 'condim="3"')


def mixed_ellipses():
    """Ellipses of condim 1, 4 and 6, friction that differs by direction, impratio 1."""
    return compiled(MIXED, 'cone="elliptic" impratio="1"', 'condim="3"', UNEVEN)


MODELS = {
    "quadruped": quadruped,
    "linkage": linkage,
    "strings": strings,
    "mixed pyramids": mixed_pyramids,
    "mixed ellipses": mixed_ellipses,
}


def random_state(model, seed: int):
    """Data near the model's own configuration, moving at random; constraints up to date."""
    rng = np.random.default_rng(seed)
    data = engine.MjData(model)
    engine.mj_integratePos(model, data.qpos, rng.normal(0.0, 1.0, model.nv), 0.02)
    for j in range(model.njnt):  # hinges and slides swing wide, so that limits are met
        if int(model.jnt_type[j]) not in (0, 1):
            data.qpos[model.jnt_qposadr[j]] += rng.uniform(-0.5, 0.5)
    data.qvel[:] = rng.normal(0.0, 0.5, model.nv)
    engine.mj_forward(model, data)
    return data
