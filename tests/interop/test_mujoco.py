"""A MuJoCo state as a contact step: its rows, loads, gaps, limits and names; what is refused."""

from __future__ import annotations

import copy
import importlib.util
import logging

import numpy as np
import pytest
from mujoco_scenes import (
    FLOOR,
    GRAVITY,
    SCENES,
    arm,
    box_at,
    compiled,
    engine,
    loaded_box,
    mixed_state,
    settled,
    table,
    wall,
)

import cdopt
from cdopt._util.errors import InvalidInput, Unsupported
from cdopt._util.mujoco_state import why_unavailable
from cdopt.interop import mujoco as bridge

# --- rows and loads --------------------------------------------------------------------


def test_the_rows_of_b_are_the_rates_of_the_gaps():
    model, data = mixed_state()
    step = bridge.contact_step(model, data, keep_overlap=True)
    assert step.nc >= 8
    eps, rates = 1e-6, np.zeros((step.nc, model.nv))
    for j in range(model.nv):
        gaps = []
        for sign in (1.0, -1.0):
            moved = copy.copy(data)
            engine.mj_integratePos(model, moved.qpos, sign * np.eye(model.nv)[j], eps)
            there = bridge.contact_step(model, moved, keep_overlap=True)
            assert there.contact_ids.tolist() == step.contact_ids.tolist()
            gaps.append(there.phi)
        rates[:, j] = (gaps[0] - gaps[1]) / (2.0 * eps)
    np.testing.assert_allclose(step.B.toarray(), rates, atol=1e-8)
    assert np.all(np.abs(rates).max(axis=1) > 0.05)  # no row is empty


def mujocos_rows(model, data) -> np.ndarray:
    """J (nefc, nv) as MuJoCo has it."""
    engine.mj_forward(model, data)
    rows = np.zeros((data.nefc, model.nv))
    for i in range(data.nefc):
        engine.mj_mulJacTVec(model, data, rows[i], np.eye(data.nefc)[i])
    return rows


def test_rows_are_mujocos_own_and_in_its_order():
    model, data = mixed_state()
    step = bridge.contact_step(model, data, keep_overlap=True)
    rows = mujocos_rows(model, data)
    order = [*data.contact.efc_address, *range(data.nl)]  # limits stand before contacts there
    np.testing.assert_allclose(step.B.toarray(), rows[order], atol=1e-14)
    np.testing.assert_array_equal(step.phi, data.efc_pos[order])
    model.opt.cone = engine.mjtCone.mjCONE_ELLIPTIC
    model.geom_condim[:] = 3
    friction = bridge.contact_step(model, data, friction=True).friction
    rows = mujocos_rows(model, data)
    first = data.contact.efc_address
    tangential = np.stack([rows[first + 1], rows[first + 2]], axis=1).reshape(-1, model.nv)
    np.testing.assert_allclose(friction.B_t.toarray()[: 2 * first.size], tangential, atol=1e-14)
    np.testing.assert_array_equal(friction.mu[: first.size], data.contact.friction[:, 0])
    assert not np.any(friction.mu[first.size :])  # limits


@pytest.mark.parametrize("integrator", ["Euler", "implicit", "implicitfast", "RK4", "discrete"])
def test_mass_velocity_and_loads_give_the_acceleration_without_contacts(integrator):
    model, data = mixed_state()
    kinds = engine.mjtIntegrator.__members__
    if f"mjINT_{integrator.upper()}" not in kinds:
        pytest.skip("this MuJoCo does not know it")
    model.opt.integrator = int(kinds[f"mjINT_{integrator.upper()}"])
    step = bridge.contact_step(model, data, dt=0.5)
    engine.mj_forward(model, data)
    if integrator != "discrete":  # whose mass has damping and stiffness in it
        rate = (step.v_star - data.qvel) / 0.5
        np.testing.assert_allclose(rate, data.qacc_smooth, rtol=1e-10, atol=1e-10)
    np.testing.assert_array_equal(step.v, data.qvel)
    load = data.qfrc_applied + data.qfrc_actuator + data.qfrc_passive - data.qfrc_bias
    for body in range(1, model.nbody):
        force, torque = data.xfrc_applied[body, :3], data.xfrc_applied[body, 3:]
        engine.mj_applyFT(model, data, force, torque, data.xipos[body], body, load)
    np.testing.assert_allclose(step.F_ext, load, atol=1e-12)
    assert min(np.abs(data.qfrc_actuator).max(), np.abs(data.qfrc_passive).max()) > 1.0


@pytest.mark.parametrize("name", ["plank", "table"])
def test_contact_forces_of_mujoco_deliver_its_constraint_force(name):
    model = compiled(SCENES[name](1e5))
    data = settled(model)
    step = bridge.contact_step(model, data)
    np.testing.assert_allclose(step.B.T @ data.efc_force, data.qfrc_constraint, atol=1e-12)


def test_the_step_carries_points_normals_bodies_and_names():
    model = compiled(
        f"""{FLOOR}<body><geom name="shelf" type="box" size="1 1 .1" pos="3 0 0"/></body>
        <body name="cart" pos="3 0 .099"><freejoint/>
          <geom name="cart" type="sphere" size=".02" pos="0 0 .1"/>
          <body name="welded" pos="0 0 .1"><geom type="sphere" size=".1"/></body></body>
        <body name="top" pos="3 0 .378"><freejoint/>
          <geom name="top" type="sphere" size=".1"/></body>"""
    )
    step = bridge.contact_step(model, engine.MjData(model))
    cart, top = model.body("cart").id, model.body("top").id
    assert step.contact_ids.tolist() == ["#3/shelf/0", "#3/top/0"]  # in MuJoCo's order of shapes
    assert step.bodies.tolist() == [[cart, -1], [cart, top]]
    assert step.dof_body.tolist() == [cart] * 6 + [top] * 6
    np.testing.assert_allclose(step.normals, [[0, 0, -1], [0, 0, 1]], atol=1e-12)
    np.testing.assert_allclose(step.points, [[3, 0, 0.0995], [3, 0, 0.2885]], atol=1e-9)
    assert step.dt == model.opt.timestep


# --- gaps ------------------------------------------------------------------------------


def test_overlap_counts_as_touching_unless_it_is_kept():
    model = compiled(loaded_box(1e3), 1e3)
    data = settled(model)
    assert np.all(data.contact.dist < -1e-4)
    assert np.all(bridge.contact_step(model, data).phi == 0.0)
    kept = bridge.contact_step(model, data, keep_overlap=True)
    np.testing.assert_array_equal(kept.phi, data.contact.dist)
    pushed = cdopt.ClassicCD(kept).solve("newton")
    assert pushed.f.sum() > 5.0 * GRAVITY * model.body_mass.sum()
    model, data = box_at(0.09)
    assert data.ncon == 0  # MjData is born without contacts: those of the state count
    assert bridge.contact_step(model, data, keep_overlap=True).phi == pytest.approx([-0.01] * 4)


def test_gaps_count_from_the_margin_at_which_mujoco_acts():
    floor = FLOOR.replace("/>", ' margin=".01"/>')
    model = compiled(
        floor + '<body pos="0 0 .1"><freejoint/><geom type="sphere" size=".1"/></body>'
    )
    data = engine.MjData(model)
    assert bridge.contact_step(model, data, keep_overlap=True).phi == pytest.approx([-0.01])
    rest = settled(model)
    assert rest.contact.dist[0] > 0.009
    step = bridge.contact_step(model, rest)
    assert cdopt.ClassicCD(step).solve("newton").f == pytest.approx(rest.efc_force, rel=1e-6)


def test_contacts_that_wait_in_the_gap_are_rows_on_request():
    body = '<body pos="0 0 .13"><freejoint/><geom name="ball" type="sphere" size=".1"/></body>'
    model = compiled(FLOOR.replace("/>", ' gap=".05"/>') + body)
    data = engine.MjData(model)
    counts = [bridge.contact_step(model, data, margin=margin).nc for margin in (0.0, 0.02)]
    assert counts == [0, 0]
    step = bridge.contact_step(model, data, margin=0.04)
    assert step.phi == pytest.approx([0.03])
    assert step.contact_ids.tolist() == ["floor/ball/0"]
    assert list(step.names) == ["floor/ball/0"] == [step.names[0]]
    assert step.names.body(1) in step.body_names.tolist()


def test_states_without_contacts_move_freely():
    model, data = box_at(5.0)
    step = bridge.contact_step(model, data, dt=0.1)
    assert (step.nc, step.nv) == (0, 6)
    assert cdopt.ClassicCD(step).solve("clarabel").v_next[2] == pytest.approx(-0.1 * GRAVITY)
    assert bridge.stiffness(model, data).shape == (0,)
    rough = bridge.contact_step(model, data, friction=True)
    assert (rough.nc, rough.friction.d) == (0, 3)
    fall = cdopt.FrictionalCD(rough).solve("newton")
    np.testing.assert_allclose(fall.v_next[2], -GRAVITY * rough.dt, rtol=1e-12)
    for flag in ("contact", "constraint"):
        model, data = box_at(0.09, flags=f'{flag}="disable"')
        assert bridge.contact_step(model, data).nc == bridge.stiffness(model, data).size == 0


# --- limits ----------------------------------------------------------------------------


def test_a_limit_of_a_joint_is_a_row():
    model = compiled(
        """<body><joint name="hinge" type="hinge" axis="0 1 0" range="-1 .2" limited="true"
             solreflimit="-1e5 -700" solimplimit=".9 .9 .001"/>
           <geom type="capsule" fromto="0 0 0 1 0 0" size=".05" mass="2"/></body>"""
    )
    data = settled(model)
    step = bridge.contact_step(model, data, stiffness=bridge.stiffness(model, data))
    assert step.contact_ids.tolist() == ["limit/hinge/0"]
    assert (step.bodies, step.normals, step.points) == (None, None, None)
    assert step.B.toarray() == pytest.approx(np.array([[-1.0]]))
    torque = 2.0 * GRAVITY * 0.5 * np.cos(data.qpos[0])
    assert cdopt.CompatibleCD(step).solve("newton", classic="newton").f == pytest.approx([torque])
    assert data.efc_force == pytest.approx([torque])
    assert step.stiffness * -data.efc_pos == pytest.approx([torque])


def test_a_limit_shares_the_load_with_contacts():
    limited = 'name="shoulder" limited="true" range="-1 0" solreflimit="-3e5 -1100"'
    scene = arm(1e5).replace('name="shoulder"', limited + ' solimplimit=".9 .9 .001"')
    model = compiled(scene)
    data = settled(model)
    step = bridge.contact_step(model, data, stiffness=bridge.stiffness(model, data))
    assert step.nc == 5
    forces = np.append(data.efc_force[data.nl :], data.efc_force[: data.nl])
    assert np.all(forces > 0.1)
    solution = cdopt.CompatibleCD(step).solve("newton", classic="newton")
    np.testing.assert_allclose(solution.f, forces, atol=1e-6 * forces.max())


# --- what is read ----------------------------------------------------------------------


def test_nothing_is_written_to_the_callers_model_or_data():
    model, data = mixed_state(flags='sleep="enable"')
    for _ in range(3):
        engine.mj_step(model, data)
    names = [
        name for name in dir(data)
        if not name.startswith("_") and isinstance(getattr(data, name), np.ndarray)
    ]  # fmt: skip
    before = {name: np.array(getattr(data, name)) for name in names}
    flags, contacts = model.opt.enableflags, np.array(data.contact.dist)
    bridge.contact_step(model, data)
    bridge.stiffness(model, data)
    assert len(names) > 50
    for name in names:
        np.testing.assert_array_equal(getattr(data, name), before[name], err_msg=name)
    np.testing.assert_array_equal(data.contact.dist, contacts)
    assert model.opt.enableflags == flags


def test_sleeping_bodies_keep_their_contacts():
    model = compiled(loaded_box(1e4), flags='sleep="enable"')
    data = engine.MjData(model)
    for _ in range(20_000):
        engine.mj_step(model, data)
        if data.tree_asleep[0] >= 0 and data.ncon == 0:
            break
    else:
        pytest.fail("it does not fall asleep")
    step = bridge.contact_step(model, data)
    assert step.nc == 4
    weight = GRAVITY * model.body_mass.sum()
    assert cdopt.ClassicCD(step).solve("newton").f.sum() == pytest.approx(weight, rel=1e-6)


def test_speculative_contacts_whose_distances_are_no_gaps_are_not_taken():
    if "mjENBL_SPECULATIVE" not in engine.mjtEnableBit.__members__:
        pytest.skip("this MuJoCo does not know them")
    model = compiled(
        """<geom type="box" size="5 5 .01"/>
           <body pos="0 0 .3"><freejoint/><geom type="sphere" size=".1"/></body>""",
        flags='speculative="enable"',
        timestep=1e-2,
    )
    data = engine.MjData(model)
    data.qvel[2] = -50.0
    engine.mj_forward(model, data)
    assert data.ncon == 1
    assert bridge.contact_step(model, data).nc == 0


def test_friction_that_is_left_out_is_said_once(caplog):
    bridge._warn_once.cache_clear()
    smooth, rough, twisting = box_at(0.099), *(box_at(0.099, geom=f'condim="{n}"') for n in (3, 4))
    with caplog.at_level(logging.WARNING, logger="cdopt.interop.mujoco"):
        bridge.contact_step(*smooth)
        assert not caplog.records
        assert [bridge.contact_step(*rough).nc for _ in range(2)] == [4, 4]
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        assert bridge.contact_step(*twisting, friction=True).friction.mu.tolist() == [1.0] * 4
    assert "derived frictionless problem: normal rows only" in caplog.text
    assert "torsional" in caplog.text


# --- friction --------------------------------------------------------------------------


@pytest.mark.parametrize(("angle", "slides"), [(0.4, False), (0.7, True)])
def test_a_box_on_an_incline_sticks_or_slides(angle, slides):
    """μ = 0.6: tan 0.4 = 0.42 and tan 0.7 = 0.84."""
    model, data = box_at(0.099, geom='condim="3" friction="0.6 0 0"')
    model.opt.gravity[:] = 9.81 * np.array([np.sin(angle), 0.0, -np.cos(angle)])
    step = bridge.contact_step(model, data, friction=True, dt=1e-3)
    answer = cdopt.FrictionalCD(step).solve("newton")
    assert answer.ok
    speed = 9.81e-3 * (np.sin(angle) - 0.6 * np.cos(angle)) * slides
    np.testing.assert_allclose(answer.v_next[:3], [speed, 0.0, 0.0], atol=1e-9)


# --- equalities --------------------------------------------------------------------------

LINKAGE = """
    <body name="arm" pos="0 0 1"><joint type="hinge" axis="0 1 0"/>
      <geom type="capsule" fromto="0 0 0 1 0 0" size=".05" mass="1"/>
      <body name="rod" pos="1 0 0"><joint type="hinge" axis="0 1 0"/>
        <geom type="capsule" fromto="0 0 0 0 0 1" size=".05" mass="2"/>
        <body name="end" pos="0 0 1"><joint name="wrist" type="hinge" axis="0 1 0"/>
          <geom type="capsule" fromto="0 0 0 -1 0 0" size=".05" mass="1"/>
    </body></body></body>
    <body name="box" pos="3 0 1"><freejoint/><geom type="box" size=".1 .2 .3" mass="1"/></body>
    <body name="lid" pos="3.5 0 1"><freejoint/><geom type="box" size=".1 .1 .1" mass="2"/></body>"""
EQUALITIES = """<equality>
    <connect name="loop" body1="end" anchor="-1 0 0"/><weld name="glue" body1="box" body2="lid"/>
    </equality>"""


def hard(model, data):
    """The engine's next velocity, its equalities hard: R → 0."""
    copy = bridge_copy(model, data)
    for stage in ("Position", "Velocity", "Actuation", "Acceleration"):
        getattr(engine, f"mj_fwd{stage}")(model, copy)
    copy.efc_R[:] *= 1e-9
    copy.efc_D[:] = 1.0 / copy.efc_R
    engine.mj_fwdConstraint(model, copy)
    return copy.qvel + model.opt.timestep * copy.qacc


def bridge_copy(model, data):
    """Data in the same state."""
    other = engine.MjData(model)
    other.qpos[:], other.qvel[:] = data.qpos, data.qvel
    return other


def test_loops_and_welds_move_as_the_engine_with_hard_equalities():
    """At the start, and off by what steps leave. Islands would keep the engine from seeing R."""
    flags = 'island="disable"'
    model = compiled(LINKAGE, more=EQUALITIES, flags=flags, timestep=1e-3)
    rng, data = np.random.default_rng(0), engine.MjData(model)
    for _ in range(4):
        data.qvel[:] = rng.standard_normal(model.nv)
        engine.mj_step(model, data, 20)
        step = bridge.contact_step(model, data)
        expected = hard(model, data)
        change = np.abs(expected - data.qvel).max()
        assert change > 1e-3
        answer = cdopt.ClassicCD(step).solve()
        np.testing.assert_allclose(answer.v_next, expected, atol=1e-6 * change, rtol=0.0)
    assert step.joints.names[:3].tolist() == ["loop/0", "loop/1", "glue/0"]


def test_a_held_hinge_needs_no_contact():
    model = compiled(
        HINGE.format(""), more='<equality><joint name="hold" joint1="elbow"/></equality>'
    )
    step = bridge.contact_step(model, engine.MjData(model))
    assert step.nc == 0
    assert step.joints.names.tolist() == ["hold/0"]
    answer = cdopt.ClassicCD(step).solve()
    assert answer.ok
    np.testing.assert_allclose(answer.v_next[3], 0.0, atol=1e-15)


# --- what is refused -------------------------------------------------------------------

HINGE = (
    '<body pos="9 9 9"><joint type="ball"/><geom size=".1"/></body>'
    '<body><joint name="elbow" type="hinge"{}/><geom size=".1" mass="1"/></body>'
)
REFUSED = {
    "friction loss of joint elbow": (HINGE.format(' frictionloss="1"'), ""),
    "friction loss of tendon rope": (
        HINGE.format(""),
        '<tendon><fixed name="rope" frictionloss="1"><joint joint="elbow" coef="1"/></fixed>'
        "</tendon>",
    ),
    "adhesion of contact floor/gecko": (
        FLOOR + '<body pos="0 0 .09"><freejoint/>'
        '<geom name="gecko" size=".1" adhesion="3"/></body>', "",
    ),
    "contact of a flex": (
        FLOOR + '<flexcomp name="rag" type="grid" count="3 3 1" spacing=".1 .1 .1" pos="0 0 .001"'
        ' radius=".01" dim="2" mass="1"><edge equality="false"/>'
        '<contact selfcollide="none"/></flexcomp>', "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_constraints_that_pull_are_refused_by_name(what):
    bodies, more = REFUSED[what]
    try:
        model = compiled(bodies, more=more)
    except ValueError as error:
        pytest.skip(f"this MuJoCo does not know it: {error}")
    data = engine.MjData(model)
    for ask in (bridge.contact_step, bridge.stiffness):
        with pytest.raises(Unsupported, match=what):
            ask(model, data)


def test_bad_arguments_are_named():
    model, data = box_at(0.099)
    other = engine.MjData(compiled(table(1e5)))
    spoilt = copy.copy(data)
    spoilt.qpos[0] = np.nan
    loud = copy.copy(data)
    loud.xfrc_applied[1, 0] = np.inf
    fixed = compiled(FLOOR)
    cases = [
        ("model", (fixed, engine.MjData(fixed)), {}),
        ("model", (None, data), {}),
        ("data", (model, None), {}),
        ("data", (model, other), {}),
        ("data.qpos", (model, spoilt), {}),
        ("data.xfrc_applied", (model, loud), {}),
        ("dt", (model, data), {"dt": 0.0}),
        ("margin", (model, data), {"margin": -1.0}),
        ("stiffness", (model, data), {"stiffness": [1.0, 2.0]}),
    ]
    for argument, positional, named in cases:
        with pytest.raises(InvalidInput) as caught:
            bridge.contact_step(*positional, **named)
        assert caught.value.argument == argument


def test_contacts_that_do_not_fit_in_memory_are_not_passed_over():
    model = compiled(wall(1e5), more='<size memory="12K"/>')
    data = engine.MjData(model)
    with pytest.raises(InvalidInput, match="more contacts than fit"):
        bridge.contact_step(model, data)


def test_without_mujoco_the_remedy_is_named(monkeypatch):
    assert why_unavailable() is None
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "pip install mujoco" in why_unavailable()
    with pytest.raises(Unsupported, match="pip install mujoco"):
        bridge.contact_step(None, None)
