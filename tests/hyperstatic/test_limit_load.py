"""Limit loads: hand calculations, both theorems, the dynamic step at 0.98 and 1.02 of them."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from command_line import refuses, run, run_json

import cdopt
from cdopt import scene
from cdopt.hyperstatic.limit_load import BalanceProgram
from cdopt.hyperstatic.strength import friction_alone

sys.path.insert(0, str(Path(__file__).parents[1] / "scene"))
from masonry_models import facade, write_obj

STRUCTURES = {
    "block that tips": lambda: scene.box_stack(1, dim=2, size=[0.4, 1.0]),
    "block that slides": lambda: scene.box_stack(1, dim=2, size=[1.0, 1.0]),
    "block in space": lambda: scene.box_stack(1, size=[0.4, 0.7, 1.0]),
    "stack": lambda: scene.box_stack(4, dim=2, size=[0.4, 0.3]),
    "leaning tower": lambda: scene.box_stack(8, dim=2, shift=0.04),
    "wall": lambda: scene.brick_wall(4, 3),
    "wall in space": lambda: scene.brick_wall(3, 2, dim=3),
    "arch": lambda: scene.arch(9),
    "arch of stone": lambda: scene.arch(7, density=2000.0),
    "buttress": lambda: scene.buttress(6),
}


def sideways(structure: scene.Scene) -> cdopt.LimitLoad:
    return cdopt.limit_load(structure, live=[1.0] + [0.0] * (structure.dim - 1))


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize(("mu", "width"), [(0.6, 0.4), (0.3, 0.4), (0.5, 0.5)])
def test_a_block_tips_or_slides_at_the_smaller_ratio(dim: int, mu: float, width: float) -> None:
    size = [width, 1.0] if dim == 2 else [width, 0.7, 1.0]
    limit = sideways(scene.box_stack(1, dim=dim, size=size).with_friction(mu))
    assert limit.ok
    assert abs(limit.value - min(mu, width)) <= 1e-8
    assert abs(limit.bound - limit.value) <= 1e-8


def test_a_leaning_tower_tips_about_its_worst_corner() -> None:
    """The k upper boxes lean by (k − 1) shift/2, their centre is k h/2 above the joint."""
    n, shift, b, h = 8, 0.04, 0.4, 0.2
    limit = sideways(scene.box_stack(n, dim=2, shift=shift).with_friction(2.0))
    above = np.arange(1, n + 1)  # of a joint; the lowest one is with the floor, at no shift
    arm = 0.5 * b - np.where(above < n, above + 1, n - 1) * shift / 2
    assert abs(limit.value - (arm / (0.5 * above * h)).min()) <= 1e-8


@pytest.mark.parametrize("name", STRUCTURES)
def test_the_dynamic_step_holds_below_and_moves_above(name: str) -> None:
    limit = sideways(STRUCTURES[name]().with_friction(0.6))
    assert limit.ok
    assert abs(limit.bound - limit.value) <= 1e-7 * limit.value
    forces = np.column_stack([limit.f, limit.f_t])
    assert limit.step.friction.cones.distance(forces.ravel()).max() <= 1e-12 * forces.max()
    assert limit.rates[:, 0].min() >= -1e-9  # no contact closes
    speeds = []
    for share in (0.98, 1.02):
        load = limit.dead + share * limit.value * limit.live
        step = limit.step.replace(F_ext=load, phi=np.zeros(limit.step.nc))
        answer = cdopt.FrictionalCD(step, "associated").solve("newton")
        free = np.abs(step.dt * load / step.M.diagonal()).max()
        speeds.append(np.abs(answer.v_next).max() / free)
    assert speeds[0] <= 1e-9
    assert speeds[1] >= 1e-4


def test_round_off_in_B_is_no_equation() -> None:
    """Fingers at angles 0 and π: the second turns the box about their line by sin π = 1.2e-16."""
    c, s = np.cos([0.0, np.pi]), np.sin([0.0, np.pi])
    push, zero, one = -np.eye(2), np.zeros(2), np.ones(2)  # each finger is pushed with 10 N
    inward = np.column_stack([-c, zero, zero, push])  # along x, along z, about x, fingers
    upward = np.column_stack([zero, one, 0.03 * s, 0 * push])
    load, friction = [0.0, -6.0, 0.0, 10.0, 10.0], cdopt.Friction(0.5, upward)
    step = cdopt.ContactStep(np.eye(5), inward, zero, np.zeros(5), load, 1e-3, friction=friction)
    limit = cdopt.limit_load(step, [0.0, -6.0, 0.0, 0.0, 0.0])
    assert limit.ok
    assert limit.value == pytest.approx(2 * 0.5 * 10.0 / 6.0 - 1.0, abs=1e-8)


def test_loads_of_bodies_steps_and_the_law_of_coulomb() -> None:
    arch = scene.arch(5, density=2000.0).with_friction(0.6)
    limit = cdopt.limit_load(arch, {"voussoir 1": [0.0, -100.0]})
    same = cdopt.limit_load(limit.step, limit.live, law="coulomb")
    other = cdopt.limit_load(arch, {2: [0.0, -200.0, 0.0]}, solver="clarabel")
    assert all(found.ok for found in (limit, same, other))
    np.testing.assert_allclose([same.value, 2.0 * other.value], limit.value, rtol=1e-8)
    assert "upper estimate" in same.summary
    assert "upper estimate" not in limit.summary
    half = limit.step.replace(phi=np.where(limit.step.bodies[:, 1] == 6, 1e-4, 0.0))
    with pytest.raises(cdopt.SolveFailed) as raised:  # without the right abutment it falls
        cdopt.limit_load(half, limit.live)
    proof = raised.value.proof
    assert proof.value < 0.0
    assert proof.violation <= 1e-9 * np.abs(proof.vector).max()
    assert abs(limit.live @ proof.vector) <= 1e-9 * abs(proof.value)


def test_what_nothing_limits_and_what_does_not_stand() -> None:
    block = scene.box_stack(1, dim=2).with_friction(0.5)
    endless = cdopt.limit_load(block, [0.1, -1.0])
    assert endless.ok
    assert endless.value == np.inf
    assert endless.mechanism is None
    force = endless.step.B.T @ endless.f + endless.step.friction.B_t.T @ endless.f_t.ravel()
    np.testing.assert_allclose(force, -endless.live, atol=1e-9 * np.abs(endless.live).max())
    tower = sideways(scene.box_stack(12, dim=2, shift=0.05).with_friction(0.6))
    assert tower.ok
    assert not tower.stands
    assert "does not stand" in str(tower)


def test_refusals() -> None:
    block = scene.box_stack(1, dim=2)
    rough = block.with_friction(0.5)
    for structure, live, words in (
        (block, [1.0, 0.0], "friction"),
        (rough, [1.0, 0.0, 0.0, 0.0], "live"),
        (rough, [0.0, 0.0], "no load"),
        (rough, {"roof": [1.0, 0.0]}, "roof"),
        (rough, {1: [1.0]}, "1 entries"),
    ):
        with pytest.raises(cdopt.InvalidInput, match=words):
            cdopt.limit_load(structure, live)
    with pytest.raises(cdopt.InvalidInput, match="solver"):
        cdopt.limit_load(rough, [1.0, 0.0], solver="abacus")


def test_the_command(tmp_path) -> None:
    picture = tmp_path / "arch.png"
    result = run("limit", "arch:density=2000", "--friction", 0.6, "--plot", picture, width=300)
    assert result.exit_code == 0, result.stderr
    assert "bears 1.370825 times" in result.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")
    block = ("limit", "box-stack:n=1,dim=2", "--friction", 0.5)
    pushed = run_json(*block, "--live", "box 0=0,-100", "--live", "1=50,0", "--law", "coulomb")
    assert pushed["value"] is None
    assert pushed["exact"] is False
    refuses("--live", *block, "--live", "up")
    refuses("friction", "limit", "box-stack:n=1,dim=2")
    fallen = run("limit", "sphere-on-floor:gap=0.1", "--friction", 0.5)
    assert fallen.exit_code == 2
    assert "Proven infeasible" in fallen.stdout


def tiles(masses: list[float], held: int) -> cdopt.ContactStep:
    """Blocks on three supports each, of which the first ``held`` have theirs."""
    place, many = np.array([-1.0, 0.3, 1.0]), len(masses)
    normal = np.kron(np.eye(many), np.column_stack([np.zeros(3), np.ones(3), place]))
    sliding = np.kron(np.eye(many), np.column_stack([np.ones(3), np.zeros((3, 2))]))
    rows, mass = slice(0, 3 * held), np.repeat(masses, 3)
    return cdopt.ContactStep(
        np.diag(mass), normal[rows], np.zeros(3 * held), np.zeros(3 * many),
        np.tile([0.0, -9.81, 0.0], many) * mass, 1e-3,
        friction=cdopt.Friction(0.5, sliding[rows]), dof_body=np.repeat(np.arange(many), 3),
    )  # fmt: skip


@pytest.mark.parametrize("heavy", [1.0, 1e4, 1e8])
def test_a_heavy_block_does_not_hold_a_tile_in_mid_air(heavy: float) -> None:
    live = np.array([heavy, 0, 0, 0, 0, 0])
    with pytest.raises(cdopt.SolveFailed, match="no multiple") as failure:
        cdopt.limit_load(tiles([heavy, 1.0], 1), live)
    assert failure.value.proof.vector[4] * 9.81 > 0.0 or failure.value.proof.value < 0.0
    for who, mass in ((0, heavy), (3, 1.0)):
        live = np.zeros(6)
        live[who] = mass
        limit = cdopt.limit_load(tiles([heavy, 1.0], 2), live)
        assert limit.ok
        assert limit.value == pytest.approx(0.5 * 9.81, rel=1e-6)


@pytest.mark.parametrize("connected", [False, True])
def test_a_heavy_block_that_sinks_makes_no_bound_of_a_tile(connected: bool) -> None:
    """It sinks by 1e-10 of the tile's speed: the power of its weight is a part of the bound."""
    heavy, live = 1e8, np.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0])
    step = tiles([heavy, 1.0], 2)
    if connected:  # the tile lies on the block
        B, B_t = step.B.toarray(), step.friction.B_t.toarray()
        B[3:, :3], B_t[3:, :3] = -B[3:, 3:], -B_t[3:, 3:]
        step = step.replace(B=B, friction=cdopt.Friction(0.5, B_t))
    limit = cdopt.limit_load(step, live)
    assert limit.ok
    assert limit.value == pytest.approx(4.905, rel=1e-9)
    moving = np.abs(limit.mechanism) > 1e-9
    np.testing.assert_array_equal(moving[:3], False)
    strength = friction_alone(step.friction.mu)
    program = BalanceProgram(step, "associated", live, None, False, strength)
    sinks = limit.mechanism - np.array([0.0, 1e-10, 0.0, 0.0, connected * 1e-10, 0.0])
    bound = program.power(sinks)
    assert bound < 4.82
    forces = np.column_stack([limit.f, limit.f_t * bound / limit.value])
    errors = program.residuals(bound, bound, forces, sinks)
    assert errors["balance"] < 1e-6
    assert errors["mechanism"] > 1e-3


@pytest.mark.parametrize("size", [1e-8, 1.0, 1e6])
def test_a_load_that_presses_is_never_called_infeasible(size: float) -> None:
    """Whatever its size, also on a light block next to a heavy one."""
    for who in (0, 3):
        live = np.zeros(6)
        live[who : who + 2] = [0.4 * size, -size]
        limit = cdopt.limit_load(tiles([1e6, 1.0], 2), live)
        assert limit.ok
        assert limit.value == np.inf


@pytest.mark.slow
def test_tall_piers_of_equal_blocks_are_certified(tmp_path) -> None:
    """Stacks of the same block again and again: a degenerate mechanism is found to 1e-8."""
    path = write_obj(tmp_path / "façade.obj", facade(6, 2, 6), 4)
    for live in ([1, 0, 0], [0, 1, 0]):
        limit = cdopt.limit_load(path, live, friction=0.7)
        assert max(limit.residuals.values()) <= 1e-8
        assert limit.bound == pytest.approx(limit.value, rel=1e-8)


def test_a_load_on_a_body_that_does_not_move() -> None:
    arch = scene.arch(5, density=2000.0).with_friction(0.6)
    with pytest.raises(cdopt.InvalidInput, match=r"right abutment.*does not move"):
        cdopt.limit_load(arch, {"right abutment": [0, -1000]})
