"""What MuJoCo's contacts carry, and what cdopt finds for them.

MuJoCo's contacts are springs. At rest, over-braced ones share the load as compatible contact
dynamics with those springs says they do; one step tends to a rigid one as they get hard.
"""

from __future__ import annotations

import numpy as np
import pytest
from mujoco_scenes import FLOOR, SCENES, compiled, engine, loaded_box, settled, table, wall

import cdopt
from cdopt.interop import mujoco as bridge

# --- MuJoCo's springs ------------------------------------------------------------------

LAWS = {
    "direct": 'condim="1" solimp=".9 .9 .001" solref="-1e4 -200"',
    "impedance and its width differ": 'condim="1" solimp=".8 .97 1e-4" solref="-1e4 -200"',
    "time constant": 'condim="1" solimp=".95 .95 .001" solref=".02 1"',
    "defaults": 'condim="1"',
    "damping ratio": 'condim="1" solimp=".7 .98 .002 .3 3" solref=".01 2.5"',
    "with friction": 'condim="3" solimp=".9 .95 .001" solref=".02 1"',
    "with torsion": 'condim="4" friction=".4 .01"',
    "rolling": 'condim="6" friction=".4 .01 .001"',
}


@pytest.mark.parametrize(
    ("law", "cone"),
    [*((law, "pyramidal") for law in LAWS), ("with friction", "elliptic"), ("rolling", "elliptic")],
)
def test_at_rest_a_contact_of_mujoco_is_a_spring(law, cone):
    model = compiled(loaded_box(1e4), geom=LAWS[law], options=f'cone="{cone}"', timestep=1e-3)
    data = settled(model)
    springs = bridge.stiffness(model, data)
    forces, six = np.zeros(data.ncon), np.zeros(6)
    for i in range(data.ncon):
        engine.mj_contactForce(model, data, i, six)
        forces[i] = six[0]
    assert forces.min() > 1.0
    assert np.ptp(forces) > 1.0
    np.testing.assert_allclose(springs * -data.contact.dist, forces, rtol=1e-7)


@pytest.mark.parametrize("cone", ["pyramidal", "elliptic"])
def test_forces_in_the_rows_of_the_step_are_those_that_the_engine_has(cone):
    """Bᵀf + B_tᵀf_t is MuJoCo's own sum of constraint forces on the dofs."""
    geom = 'condim="3" friction=".6 .005 1e-4"'
    model = compiled(loaded_box(1e4), geom=geom, options=f'cone="{cone}"', timestep=1e-3)
    data = settled(model)
    data.qfrc_applied[0] = 3.0
    engine.mj_forward(model, data)
    step = bridge.contact_step(model, data, friction=True)
    f, f_t = bridge.contact_forces(model, data)
    assert np.abs(f_t).max() > 0.01
    load = step.B.T @ f + step.friction.B_t.T @ f_t.ravel()
    np.testing.assert_allclose(load, data.qfrc_constraint, atol=1e-9 * np.abs(load).max())


def test_springs_follow_an_override_of_all_contacts():
    more = 'o_solref="-3e4 -350" o_solimp=".8 .8 .001" o_friction="1 1 1 1 1"'
    model = compiled(loaded_box(1e4), options=more, flags='override="enable"')
    plain = compiled(loaded_box(1e4), 1e4)
    ratio = bridge.stiffness(model, settled(model)) / bridge.stiffness(plain, settled(plain))
    expected = 3.0 * 0.1 / 0.2  # K goes with k / (1 − d)
    np.testing.assert_allclose(ratio, expected, rtol=1e-9)


# --- forces that classic contact dynamics leaves open ----------------------------------


def both(model, data):
    """MuJoCo's forces, the compatible ones with its springs, and the classic ones of Clarabel."""
    springs = bridge.stiffness(model, data)
    step = bridge.contact_step(model, data, stiffness=springs / springs.max())
    compatible = cdopt.CompatibleCD(step, power=2.0).solve("newton", classic="newton")
    classic = cdopt.ClassicCD(step).solve("clarabel")
    assert compatible.ok
    assert classic.ok
    return data.efc_force, compatible.f, classic.f


@pytest.mark.parametrize("name", SCENES)
def test_forces_of_mujoco_at_rest_are_the_compatible_ones(name):
    model = compiled(SCENES[name](1e5))
    mujocos, compatible, classic = both(model, settled(model))
    np.testing.assert_allclose(compatible, mujocos, atol=1e-7 * mujocos.max())
    assert np.abs(classic - mujocos).max() > 0.02 * mujocos.max()


def test_forces_of_a_wall_tend_to_the_compatible_ones_as_contacts_get_hard():
    hard, errors = np.array([1e4, 1e5, 1e6]), []
    for k in hard:
        model = compiled(wall(k), k)
        mujocos, compatible, classic = both(model, settled(model))
        errors.append(np.abs(compatible - mujocos).max() / mujocos.max())
        assert np.abs(classic - mujocos).max() > 0.02 * mujocos.max()
    assert np.polyfit(np.log(hard), np.log(errors), 1)[0] == pytest.approx(-1.0, abs=0.02)
    assert errors[-1] < 1e-7


def test_stiffness_of_the_legs_decides_what_a_table_carries():
    model = compiled(table(1e5))
    data = settled(model)
    mujocos, compatible, _ = both(model, data)
    uniform = cdopt.CompatibleCD(bridge.contact_step(model, data)).solve("newton", classic="newton")
    assert np.abs(uniform.f - mujocos).max() > 0.1 * mujocos.max()
    np.testing.assert_allclose(compatible, mujocos, atol=1e-7 * mujocos.max())
    report = cdopt.indeterminacy(bridge.contact_step(model, data))
    assert (report.closed_count, report.rank, report.nullity) == (4, 3, 1)
    assert report.names == [f"floor/leg{i}/0" for i in range(4)]
    assert np.all((report.lower < mujocos) & (mujocos < report.upper))


def test_one_step_of_mujoco_tends_to_a_classic_step_as_contacts_get_hard():
    step_size, softness, errors = 1e-3, np.array([1e-2, 1e-3, 1e-4]), []
    for soft in softness:
        stop = f"-1e-12 {-(1.0 - soft) / step_size}"  # a_ref = −v/Δt: contacts end at rest
        model = compiled(
            f"""{FLOOR}<body pos="0 0 .099" euler="2 1 0"><freejoint/>
              <geom type="box" size=".2 .3 .1" pos=".01 0 0" mass="2"/></body>
            <body pos=".05 .07 .25"><freejoint/><geom type="sphere" size=".06" mass="1"/></body>""",
            geom=f'condim="1" solimp="{1.0 - soft} {1.0 - soft} .001" solref="{stop}"',
            timestep=step_size,
        )
        data = engine.MjData(model)
        data.qvel[:] = [0.1, 0.2, -0.3, 0.5, 1.0, 0.1, 0.2, -0.1, -2.0, 1.0, 2.0, 3.0]
        rigid = cdopt.ClassicCD(bridge.contact_step(model, data)).solve("newton")
        assert sorted(rigid.f > 1.0) == [False, True, True]
        assert rigid.f.min() < 1e-6
        engine.mj_step(model, data)
        errors.append(np.abs(data.qvel - rigid.v_next).max())
    assert np.polyfit(np.log(softness), np.log(errors), 1)[0] == pytest.approx(1.0, abs=0.01)
    assert errors[-1] < 1e-3
