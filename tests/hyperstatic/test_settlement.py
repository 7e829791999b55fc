"""settlement(): thrusts at their least and greatest, a beam by hand, rigid motions, jamming."""

from __future__ import annotations

import sys
from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest

import cdopt
from cdopt._util.files import problems_folder

sys.path.insert(0, str(Path(__file__).parents[1] / "scene"))
from masonry_models import box, write_obj


def arch(mu: float) -> tuple[cdopt.scene.Scene, int]:
    """An arch and the number of its right abutment."""
    scene = cdopt.scene.arch(9, density=2000.0).with_friction(mu)
    return scene, int(scene.bodies.names.index("right abutment"))


def thrust_by_hand(step: cdopt.ContactStep, body: int, sense: float) -> float:
    """The least (sense 1) or greatest (−1) horizontal force on a body, a linear program."""
    f, f_t = cp.Variable(step.nc, nonneg=True), cp.Variable(step.nc)
    balance = step.B.T @ f + step.friction.B_t.T @ f_t + step.F_ext == 0
    here = step.bodies[:, 1] == body
    normal, tangent = (step.contact_vectors(*pair)[:, 0] for pair in
                       ((np.ones(step.nc), np.zeros((step.nc, 1))),
                        (np.zeros(step.nc), np.ones((step.nc, 1)))))  # fmt: skip
    force = normal[here] @ f[here] + tangent[here] @ f_t[here]
    rough = cp.abs(f_t) <= cp.multiply(step.friction.mu, f)
    problem = cp.Problem(cp.Minimize(sense * force), [balance, rough])
    return sense * float(problem.solve(solver="HIGHS"))


@pytest.mark.parametrize("mu", [0.6, 10.0])
@pytest.mark.parametrize("sense", [1.0, -1.0])
def test_an_arch_whose_abutment_moves_has_its_least_or_greatest_thrust(mu, sense) -> None:
    scene, right = arch(mu)
    found = cdopt.settlement(scene, {"right abutment": [0.01 * sense, 0.0]})
    assert found.ok
    thrust = thrust_by_hand(found.step, right, sense)
    forces = cdopt.thrusts(found.step, found.f, found.f_t)
    last = forces.bodies[:, 1] == right
    assert forces.forces[last, 0].sum() == pytest.approx(thrust, rel=1e-7)
    assert found.energy == pytest.approx(0.01 * sense * thrust, rel=1e-7)
    twice = cdopt.settlement(scene, {right: [0.02 * sense, 0.0]})
    assert twice.energy == pytest.approx(2.0 * found.energy, rel=1e-7)
    if mu == 10.0:  # nothing slides, hinges alone
        assert np.abs(found.rates[:, 1]).max() <= 1e-9


def beam(tmp_path: Path) -> cdopt.scene.BlockModel:
    """A beam from −4 to 3 m on piers at −3 to −2, 0 to 1 and 2 to 3 m; its centre is at −0.5."""
    piers = {f"fixed {k}": box((x, 0, -2), (x + 1, 1, 0)) for k, x in enumerate((-3, 0, 2))}
    model = {**piers, "beam": box((-4, 0, 0), (3, 1, 1))}
    return cdopt.scene.load_blocks(write_obj(tmp_path / "beam.obj", model, 4), density=1000.0)


def test_a_beam_that_turns_with_its_pier_by_hand(tmp_path) -> None:
    """The left pier sinks: the beam turns about the edge of the middle one, W/6 stays on it."""
    model, sink = beam(tmp_path), 0.012
    weight = 7000.0 * 9.81
    found = cdopt.settlement(model, {"fixed 0": [0, 0, -sink]}, friction=0.5)
    assert found.ok
    left = found.step.bodies[:, 0] == 0
    assert found.f[left].sum() == pytest.approx(weight / 6.0, rel=1e-6)
    assert found.energy == pytest.approx(weight * 0.5 * sink / 3.0, rel=1e-6)
    middle = cdopt.settlement(model, {1: [0, 0, -sink]}, friction=0.5)
    assert middle.f[middle.step.bodies[:, 0] == 1].sum() == pytest.approx(0.0, abs=1e-6 * weight)
    assert "open" in str(middle)
    assert middle.as_dict()["ok"]


def test_supports_that_move_as_one_body_carry_the_structure_along() -> None:
    """All supports moved and turned together: the weights release F·u of that motion."""
    model = cdopt.scene.load_blocks(problems_folder() / "masonry" / "type-c.json", supports=[0, 1])
    move, turn = np.array([0.01, -0.02, 0.03]), np.array([1e-3, 2e-3, -1e-3])
    moves = {k: [*(move + np.cross(turn, model.blocks[k].centre)), *turn] for k in (0, 1)}
    found = cdopt.settlement(model, moves, friction=0.84)
    assert found.ok
    assert not found.cracks.any()
    free = np.flatnonzero(~model.fixed)
    carried = [[*(move + np.cross(turn, model.blocks[k].centre)), *turn] for k in free]
    assert found.energy == pytest.approx(float(found.step.F_ext @ np.ravel(carried)), rel=1e-6)


def test_what_jams_and_what_does_not_stand(tmp_path) -> None:
    path = f"{problems_folder() / 'masonry' / 'H.json'}:fixed=0+1"
    model = cdopt.scene.load_blocks(problems_folder() / "masonry" / "H.json", supports=[0, 1])
    inward = model.blocks[0].centre - model.blocks[1].centre
    with pytest.raises(cdopt.SolveFailed, match="jam"):
        cdopt.settlement(path, {1: 0.01 * inward}, friction=0.84)
    with pytest.raises(cdopt.SolveFailed, match="does not stand"):
        cdopt.settlement(path, {1: -0.01 * inward}, friction=0.0)
    scene, _ = arch(0.6)
    for moves, words in (
        ({"roof": [1, 0]}, "roof"),
        ({"voussoir 2": [0.1, 0]}, "free"),
        ({"right abutment": [0.1]}, "entries"),
        ({"right abutment": [0.0, 0.0]}, "no motion"),
    ):
        with pytest.raises(cdopt.InvalidInput, match=words):
            cdopt.settlement(scene, moves)


def test_a_springer_of_a_file_that_sinks_as_in_the_guide() -> None:
    """The summary that the page on masonry prints, up to the residual."""
    root = Path(__file__).parents[2]
    path = f"{root / 'examples' / 'professions' / 'arch.obj'}:density=2400"
    sunk = cdopt.settlement(path, {"fixed_springer_0": [0, 0, -0.02]}, friction=0.6)
    assert sunk.ok
    text = (root / "docs" / "masonry.md").read_text(encoding="utf-8")
    assert f"# {sunk.summary.partition(' It is certified')[0]}" in text
