"""Equilibria in exact geometry, alone and one after the other: closed forms, stability, walls."""

from __future__ import annotations

import loading
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loading import compress

import cdopt
from cdopt.dynamics import QuasiStaticSteps, equilibrium
from cdopt.dynamics.configuration import Configuration, Unknowns
from cdopt.scene import Body, Box, HalfSpace, Material, Scene, Sphere, Spheres, State

K = 2e4  # N/m, of a half-contact
GRAIN = Material(name="grain", stiffness=K)


def ball(place, **options) -> Body:
    return Body(Sphere(0.1), place, **{"mass": 1.0, "material": "grain", **options})


def floor(height=0.0) -> Body:
    return Body(HalfSpace([0.0, 1.0]), [0.0, height], name="floor")


def plane(*bodies, gravity=10.0, **options) -> Scene:
    return Scene([*bodies], dim=2, gravity=[0, -gravity], materials=[GRAIN], **options)


def gas(n=40, power=2.0, seed=0) -> Scene:
    stiffness = 1e6 if power == 2.0 else 1e8
    return loading.disc_box(n, stiffness=stiffness, power=power, seed=seed)


def squeezed(scene: Scene, factor: float) -> State:
    q = scene.initial.q.copy()
    q[:, :2] *= factor
    return State(0.0, q, np.zeros_like(q))


# --- closed forms ----------------------------------------------------------------------


@pytest.mark.parametrize("power", [2.0, 2.5])
@pytest.mark.parametrize("gap", [0.0, 0.05, -0.004])
def test_a_ball_on_a_floor_sinks_by_its_weight(power, gap):
    found = equilibrium(plane(floor(), ball([0.0, 0.1 + max(gap, 0)]), power=power))
    k = K if power == 2.0 else 4 / 3 * K * np.sqrt(0.1)
    assert found.contacts.phi[0] == pytest.approx(-((10.0 / k) ** (1 / (power - 1))), rel=1e-9)
    assert found.energy == pytest.approx(k / power * abs(found.contacts.phi[0]) ** power, rel=1e-8)
    assert found.stable


def test_loads_and_pushed_walls_share_the_balance():
    """A lid pushed by 30 N on a ball of 10 N, held by 5 N: the floor bears 35."""
    lid = Body(HalfSpace([0.0, -1.0]), [0.0, 0.25], name="lid")
    scene = plane(floor(), lid, ball([0.0, 0.1]))
    found = equilibrium(scene, load=[0.0, 5.0], pushed={1: 30.0})
    force = dict(zip(found.contacts.bodies[:, 0].tolist(), found.forces.tolist(), strict=True))
    assert force == pytest.approx({0: 35.0, 1: 30.0}, rel=1e-9)
    assert found.state.position[1, 1] == pytest.approx(0.2 - 35 / K - 30 / K, rel=1e-12)
    assert found.load.size == scene.dofs.nv


def test_a_tilted_wall_gives_way_along_its_normal():
    n = np.array([0.6, -0.8])
    walls = Body(HalfSpace(n), -0.15 * n, name="lid"), Body(HalfSpace(-n), 0.1 * n, name="under")
    found = equilibrium(plane(*walls, ball([0.0, 0.0]), gravity=0.0), pushed={0: 12.0})
    np.testing.assert_allclose(found.forces, 12.0, rtol=1e-9)
    np.testing.assert_allclose(found.state.position[0], (-0.1 + 24 / K) * n, atol=1e-12)


def test_a_box_on_a_floor_rests_on_its_corners():
    box = Body(Box([0.4, 0.2]), [0.0, 0.1], mass=1.0, material="grain")
    found = equilibrium(plane(floor(), box), load=[0.0, 0.0, 0.5])
    corners = found.forces[found.forces > 0]
    np.testing.assert_allclose(np.sort(corners), [5.0 - 1.25, 5.0 + 1.25], rtol=1e-3)
    assert found.residual < 1e-9
    assert found.stable is None


def test_a_chain_of_bonds_hangs():
    chain = [ball([0.0, 1.0], fixed=True), *(ball([0.0, 1.0 - 0.2 * k]) for k in (1, 2, 3))]
    found = equilibrium(plane(*chain, bond_stiffness=1e3))
    np.testing.assert_allclose(found.forces, [-30.0, -20.0, -10.0], rtol=1e-9)
    assert found.stable


# --- packings --------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("power", "seed"), [(2.0, 0), (2.5, 1), (2.0, 2)])
def test_a_loose_packing_squeezed_at_once_comes_to_rest(power, seed):
    """By a quarter in one go, far beyond what linear gaps know."""
    scene = gas(24, power=power, seed=seed)
    found = equilibrium(scene, squeezed(scene, 0.74), travel=np.inf)
    assert found.residual < 1e-9
    assert found.stable
    assert found.passes < 120
    assert np.count_nonzero(found.forces > 1e-6 * found.forces.max()) >= 36


def test_grains_that_do_not_touch_are_at_rest():
    scene = gas()
    found = equilibrium(scene)
    assert (found.residual, found.energy, found.passes, found.stable) == (0.0, 0.0, 0, True)
    found = equilibrium(scene, squeezed(scene, 0.93), travel=np.inf)
    assert found.residual < 1e-6
    assert found.energy < 1e-12


@pytest.mark.slow
def test_grains_fall_and_rest_however_far():
    """Without a limit of travel a loose heap falls onto its floor; its weight arrives there."""
    plain = gas(16)
    discs = plain.bodies
    walls = loading.samples.box_walls(*plain.bodies.position[[2, 3], [0, 1]])
    group = Spheres(discs.position[4:], discs.reach[4:], density=2000.0, material="grain")
    scene = Scene([*walls[:3], group], dim=2, materials=plain.materials)
    found = equilibrium(scene, travel=np.inf, limit=400)
    onto = (found.contacts.bodies == 0).any(axis=1)
    assert found.forces[onto].sum() == pytest.approx(scene.bodies.mass[3:].sum() * 9.81, rel=1e-8)
    assert found.stable


@pytest.mark.parametrize("stiffness", [1e9, 1e12])
def test_stiff_contacts_end_at_the_round_off_of_places(stiffness):
    scene = loading.disc_pile(4, stiffness=stiffness)
    found = equilibrium(scene)
    i, j = found.contacts.bodies.T
    outer = (i < 4) & (j >= 4)
    total = found.forces[outer] @ found.contacts.normals[outer]
    weight = scene.bodies.mass[4:].sum() * 9.81
    np.testing.assert_allclose(total, [0.0, weight], atol=1e-16 * stiffness + 1e-8 * weight)


# --- curvature and stability -----------------------------------------------------------


@settings(max_examples=15)
@given(st.integers(0, 1000), st.sampled_from([2.0, 2.5]), st.sampled_from([2, 3]))
def test_curvature_against_finite_differences(seed, power, dim):
    random = np.random.default_rng(seed)
    group = Spheres(random.uniform(0.0, 0.25, (5, dim)), 0.1, mass=1.0, material="grain")
    bottom = Body(HalfSpace(np.eye(dim)[-1]), np.zeros(dim), name="floor")
    scene = Scene([bottom, group], dim=dim, power=power, materials=[GRAIN], overlap_tol=10.0)
    unknowns = Unknowns(scene, {0: 1.0})
    here = Configuration(unknowns, scene.initial, 0.05)
    bent = here.curvature()
    assert bent is not None
    way, h = random.normal(size=here.B.shape[1]), 1e-7
    ahead, behind = (
        Configuration(unknowns, unknowns.moved(here.state, step * way), 0.05).contact_load
        for step in (h, -h)
    )
    close = np.abs(here.contacts.phi) < 1e-6  # contacts that open or close on the way have no slope
    if not close.any():
        expected = (behind - ahead) / (2 * h)
        np.testing.assert_allclose(bent.matrix @ way, expected, atol=1e-3 * bent.stiffest)
    values = np.linalg.eigvalsh(bent.matrix.toarray())
    assert bent.softest()[0] == pytest.approx(values[0], abs=1e-9 * bent.stiffest)
    if abs(values[0]) > 1e-6 * bent.stiffest:
        assert bent.stable == (values[0] > 0.0)


def test_the_softest_motion_of_many_is_that_of_few():
    """250 balls in a column stand as unstably as the sparse search says."""
    column = [ball([0.0, 0.1 + 0.1999 * k]) for k in range(250)]
    scene = plane(floor(), *column, gravity=0.0, overlap_tol=1.0)
    bent = Configuration(Unknowns(scene), scene.initial, 0.01).curvature()
    assert bent is not None
    assert not bent.stable
    value, way = bent.softest()
    assert value == pytest.approx(np.linalg.eigvalsh(bent.matrix.toarray())[0], rel=1e-2)
    assert way @ bent.matrix @ way == pytest.approx(value, rel=1e-2)


@pytest.mark.slow
@pytest.mark.parametrize("power", [2.0, 2.5])
def test_a_ball_upon_a_ball_is_in_balance_and_not_at_rest(power):
    scene = plane(floor(), ball([0.0, 0.1]), ball([0.0, 0.3], name="upper"), power=power)
    with pytest.raises(cdopt.SolveFailed, match="upper"):
        equilibrium(scene)
    balanced = equilibrium(scene, escape=False)
    assert balanced.stable is False
    assert balanced.residual < 1e-9
    fallen = equilibrium(scene, travel=np.inf)
    assert fallen.stable
    assert fallen.state.position[1:, 1].max() < 0.1


def chain(power: float, *, lid: bool) -> tuple[Scene, State]:
    """Five balls in a row between two walls, on a floor, pushed together by a tenth of one."""
    walls = [Body(HalfSpace([1.0, 0.0]), [0.0, 0.0]), Body(HalfSpace([-1.0, 0.0]), [1.0, 0.0])]
    lids = [Body(HalfSpace([0.0, -1.0]), [0.0, 0.2])] if lid else []
    row = [ball([0.1 + 0.2 * k, 0.1]) for k in range(5)]
    scene = plane(floor(), *walls, *lids, *row, gravity=0.0, power=power)
    q = scene.initial.q.copy()
    q[2, 0] -= 0.01
    return scene, State(0.0, q, np.zeros_like(q))


@pytest.mark.parametrize("power", [2.0, 2.5])
def test_a_row_on_a_floor_buckles_upwards(power):
    """The floor holds it against one half of the motion; it leaves by the other."""
    scene, state = chain(power, lid=False)
    assert equilibrium(scene, state).energy < 1e-12
    assert equilibrium(scene, state, escape=False).energy > 1e-4


def test_a_row_between_floor_and_lid_stays_straight():
    """Both touch without force, and hold all the same."""
    found = equilibrium(*chain(2.0, lid=True))
    assert found.stable
    along = found.forces[found.forces > 1e-9]
    np.testing.assert_allclose(along, 0.01 / (2 / K + 4 / (K / 2)), rtol=1e-9)


# --- one after the other ---------------------------------------------------------------


def column(speed: float, count: int = 3, **options) -> Scene:
    """Discs upon each other between floor, lid and sides; the lid comes down at ``speed`` m/s."""
    height = 0.2 * count
    walls = [
        floor(),
        Body(HalfSpace([0.0, -1.0]), [0.0, height], velocity=[0.0, -speed], name="lid"),
        Body(HalfSpace([1.0, 0.0]), [0.0, 0.0], name="left"),
        Body(HalfSpace([-1.0, 0.0]), [0.2, 0.0], name="right"),
    ]
    discs = [ball([0.1, 0.1 + 0.2 * k]) for k in range(count)]
    return plane(*walls, *discs, gravity=0.0, **options)


@pytest.mark.slow
@pytest.mark.parametrize("power", [2.0, 2.5])
def test_a_moving_lid_is_the_experiment_of_a_moving_lid(power):
    run = cdopt.simulate(column(0.01, power=power), 0.1, 0.5, "quasi-static")
    same = compress(column(0.0, power=power), "lid", 0.001 * np.arange(1, 6) / 0.6)
    stored = run.diagnostics["elastic"]
    np.testing.assert_allclose(stored, same.energy[[0, *range(1, 6)]], rtol=1e-6, atol=1e-14)
    assert run.final.state.position[1, 1] == pytest.approx(0.6 - 0.005, abs=1e-15)
    assert np.all(run.v[:, 4:] == 0.0)
    assert run.v[-1, 1, 1] == -0.01


@pytest.mark.slow
def test_steps_of_another_length_end_in_the_same_place():
    ends = [cdopt.simulate(column(0.01), dt, 0.5, "quasi-static").final.q for dt in (0.5, 0.1)]
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-12)


# --- what has no rest, and what is refused ---------------------------------------------


def test_what_falls_is_named():
    stone = plane(floor(), ball([0.0, 1.0], name="stone"))
    with pytest.raises(cdopt.SolveFailed, match=r"bodies\[1\] 'stone' moved too far"):
        equilibrium(stone)
    with pytest.raises(cdopt.dynamics.StepFailed, match="stone") as caught:
        cdopt.simulate(stone, 1.0, 3.0, "quasi-static")
    assert len(caught.value.trajectory) == 1
    lonely = plane(floor(), ball([0.0, 0.1]), ball([5.0, -0.5 + 0.6]), gravity=0.0)
    with pytest.raises(cdopt.SolveFailed, match=r"no contacts hold bodies\[2\] against"):
        equilibrium(lonely, load=[0.0, -1.0, 3.0, 0.0])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("pushed", value) for value in ({2: 1.0}, {9: 1.0}, {"lid": 1.0}, {0: np.nan}, [0])),
        *(("travel", value) for value in (0.0, -1.0, np.nan)),
    ],
)
def test_arguments_are_checked(name, value):
    with pytest.raises(cdopt.InvalidInput, match=name):
        equilibrium(plane(floor(), floor(-1.0), ball([0.0, 0.1])), **{name: value})


@pytest.mark.parametrize(
    ("setting", "value"),
    [("tol", 0.0), ("tol", 0.1), ("limit", 0), ("travel", 0.0), ("backend", "nobody")],
)
def test_settings_are_checked(setting, value):
    with pytest.raises(cdopt.InvalidInput, match=setting):
        QuasiStaticSteps(**{setting: value})


def test_bonds_are_linear():
    scene = plane(ball([0.0, 0.0], fixed=True), ball([0.0, -0.2]), bond_stiffness=1.0, power=2.5)
    with pytest.raises(cdopt.Unsupported, match="bonds are linear"):
        equilibrium(scene)
