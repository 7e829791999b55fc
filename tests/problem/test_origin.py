"""What a step keeps of its scene: exponent, names and bodies, also in files."""

from pathlib import Path

import numpy as np
import pytest

import cdopt
from cdopt._util.formatting import against


@pytest.fixture(scope="module")
def arch() -> cdopt.ContactStep:
    scene = cdopt.scene.arch(5, power=3.0)
    contacts = cdopt.collision.detect(scene, scene.initial)
    return cdopt.collision.step(scene, scene.initial, contacts, dt=1e-3)


def test_a_step_of_a_scene_has_the_scenes_exponent(arch: cdopt.ContactStep) -> None:
    assert cdopt.CompatibleCD(arch).power == cdopt.CompliantCD(arch).data.elastic_law.power == 3.0
    assert cdopt.CompatibleCD(arch, 2.0).power == 2.0
    assert cdopt.CompatibleCD(cdopt.bank.load("pyramid-hertz:n=3").step).power == 2.5
    assert arch.replace(power=2.0).B is arch.B


def test_files_keep_exponent_names_and_bodies(arch: cdopt.ContactStep, tmp_path: Path) -> None:
    arch.save(tmp_path / "arch.npz")
    again = cdopt.ContactStep.load(tmp_path / "arch.npz")
    assert again.power == 3.0
    assert again.contact_names == arch.contact_names
    assert again.contact_names[0].startswith("left abutment–voussoir 0")
    named = cdopt.open_problem(str(tmp_path / "arch.npz"))
    assert named.power == 3.0
    assert named.bodies is not None
    scene, state = named.bodies
    assert (scene.nb, scene.power) == (7, 3.0)
    assert arch.origin is not None
    assert np.array_equal(state.q, arch.origin.q)


def test_solutions_have_the_names_of_contacts(tmp_path: Path) -> None:
    solution = cdopt.CompatibleCD(cdopt.open_problem("beam").step).solve()
    assert solution.contact_names == ["left", "middle", "right"]
    assert "middle" in str(solution)
    assert list(solution.to_frame().index) == solution.contact_names
    solution.save(tmp_path / "solution.npz")
    restored = cdopt.StepSolution.load(tmp_path / "solution.npz")
    assert restored.contact_names == solution.contact_names


@pytest.mark.parametrize(
    ("tangent", "message"),
    [([0.0, 1.0], "0° from"), ([0.6, 0.8], "36.8699°"), ([2, 0], "length 2")],
)
def test_tangents_that_are_none_are_refused(tangent: list[float], message: str) -> None:
    friction = cdopt.Friction(0.5, [[1, 0]], tangents=[tangent])
    with pytest.raises(cdopt.InvalidInput, match=message):
        cdopt.ContactStep(
            np.eye(2), [[0, 1]], [0], [1, 0], [0, -1], 1e-3, normals=[[0, 1]], friction=friction
        )


def test_a_number_beside_its_limit_shows_on_which_side_it_is() -> None:
    assert against(1.0004e-6, 1e-6) == "1.0004e-06"
    assert against(0.9996e-6, 1e-6, 1) == "1.0e-06"  # at most the limit, as the number itself
    assert against(2e-5, 1e-6) == "2e-05"
