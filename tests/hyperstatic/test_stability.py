"""stability(): structures by hand and by a program, wedged blocks, files of few digits."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import cdopt
from cdopt._util.files import problems_folder
from cdopt.hyperstatic.stability import FALLS, PRESSED, STANDS

sys.path.insert(0, str(Path(__file__).parents[1] / "scene"))
from masonry_models import box, cross_vault, dome, facade, leaning_wall, write_obj

MODELS = {
    "H": ([0, 1], PRESSED), "A": ([0, 1], PRESSED), "type-a": ([0, 1], STANDS),
    "type-c": ([0, 1], STANDS), "concave-short": (0, STANDS), "concave-long": (0, STANDS),
    "shelf-stable": (0, STANDS), "shelf-s1": (0, FALLS),
}  # fmt: skip


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] if n == "A" else []) for n in MODELS]
)
def test_models_of_compas_cra(name) -> None:
    """H and A fall unless they are pressed beforehand, as coupled rigid-block analysis says."""
    supports, verdict = MODELS[name]
    path = problems_folder() / "masonry" / f"{name}.json"
    found = cdopt.stability(path, friction=0.84, supports=supports, limits=False)
    assert cdopt.bank.load("masonry", model=name).step.nc == found.step.nc
    assert found.verdict == verdict
    assert found.associated.ok
    if verdict == STANDS:
        assert found.elastic.certificate.ok
    if verdict == PRESSED:  # a free fall, certified
        assert found.coulomb.ok
        np.testing.assert_allclose(found.coulomb.v_next, found.step.v_star, atol=1e-9)
    if verdict == FALLS:  # the motion proves it: rates in the dual cone, and the loads drive it
        v = found.associated.v_next
        rates = np.column_stack([found.step.B @ v, (found.step.friction.B_t @ v).reshape(-1, 2)])
        slack = rates[:, 0] - 0.84 * np.linalg.norm(rates[:, 1:], axis=1)
        assert slack.min() >= -1e-9 * np.abs(rates).max()
        assert found.step.F_ext @ v > 0.0


@pytest.mark.parametrize(
    ("mu", "verdict"),
    [
        (0.29, FALLS),
        (0.25 + 13 * 0.01, PRESSED),
        (0.5, STANDS),
        pytest.param(0.495, STANDS, marks=pytest.mark.slow),
    ],
)
def test_a_shelf_is_decided_at_every_friction(mu, verdict) -> None:
    """Near the friction from which elastic contacts carry it, no start of one method does."""
    path = problems_folder() / "masonry" / "shelf-stable.json"
    found = cdopt.stability(path, friction=mu, supports=0, limits=False)
    assert found.verdict == verdict
    if verdict == STANDS:
        assert found.elastic.certificate.ok
    if verdict == PRESSED:
        assert found.coulomb.ok
        assert np.abs(found.coulomb.v_next).max() > 0.1 * np.abs(found.step.v_star).max()


@pytest.mark.parametrize("lean", [0.0, 0.05, 0.099, 0.101, 0.11])
def test_a_leaning_wall_by_hand(tmp_path, lean) -> None:
    """Ten blocks of 1 m × 0.5 m: the upper m turn about the edge of the one below.

    Their weight is w/2 − s − (m − 1)s/2 behind the edge, m h/2 above it; on the ground there is
    no edge but their own, w/2 − (m − 1)s/2.
    """
    path = write_obj(tmp_path / "wall.obj", leaning_wall(lean), 4)
    found = cdopt.stability(path, friction=2.0)
    over = [(1.0 - (m + 1) * lean) / (0.5 * m) for m in range(1, 10)]
    expected = min([*over, (1.0 - 9 * lean) / 5.0])
    assert found.verdict == (STANDS if expected > 0.0 else FALLS)
    assert found.limits["+x"].value == pytest.approx(expected, abs=1e-6)
    assert found.limits["+x"].stands == (expected > 0.0)
    assert found.limit.value == pytest.approx(min(x.value for x in found.limits.values()), abs=1e-6)
    if lean == 0.0:
        assert found.limits["+y"].value == pytest.approx(0.2, abs=1e-6)
        assert found.limits["-x"].value == pytest.approx(0.2, abs=1e-6)
        assert found.limit is found.limits["+x"]  # the first of four that differ by round-off


@pytest.mark.parametrize(
    ("mu", "verdict"), [pytest.param(0.6, PRESSED, marks=pytest.mark.slow), (0.0, FALLS)]
)
def test_a_block_held_between_two_walls_by_friction(tmp_path, mu, verdict) -> None:
    model = {
        "fixed left": box((-1, 0, 0), (0, 1, 1)), "fixed right": box((1, 0, 0), (2, 1, 1)),
        "held": box((0, 0, 0), (1, 1, 1)),
    }  # fmt: skip
    path = write_obj(tmp_path / "slot.obj", model, 4)
    found = cdopt.stability(path, friction=mu, limits=False)
    assert found.verdict == verdict
    assert ("normal force develops" in found.summary) == (verdict == PRESSED)


def test_a_live_load_that_is_needed_does_not_let_a_structure_stand() -> None:
    """A block on a slope of 45° with μ = 0.5 is held by a push of between 1/3 and 3 weights."""
    n = np.array([-1.0, 1.0]) / np.sqrt(2.0)
    step = cdopt.ContactStep.from_contacts(
        [[0, 0]], [n], [[-1, 0]], [1.0], gravity=[0, -10], friction=0.5
    )
    limit = cdopt.limit_load(step, [10.0, 0.0])
    assert limit.value == pytest.approx(3.0, abs=1e-7)
    assert not limit.stands
    assert "only with a part of it" in limit.summary
    assert cdopt.stability(step).verdict == FALLS


MADE = {
    "small dome": lambda: dome(3, 8, 3.0, 0.5, 20.0),
    "hemisphere": lambda: dome(5, 12, 3.0, 0.4, 15.0, 0.03, crown=True),
    "pointed dome": lambda: dome(8, 16, 4.0, 0.4, 12.0, 0.2, offset=1.5),
    "dome with oculus": lambda: dome(12, 16, 5.0, 0.5, 12.0),
    "large dome": lambda: dome(8, 24),
    "cross vault": cross_vault,
    "façade": facade,
}


@pytest.mark.parametrize(
    "name",
    ["small dome", *(pytest.param(n, marks=pytest.mark.slow) for n in list(MADE)[1:])],
)
def test_the_digits_of_a_file_do_not_matter(tmp_path, name) -> None:
    """As many contacts, limit loads within 1e-3, one verdict, from 4 to 15 digits.

    As a block model and as a scene; ``stands``, elastic contacts and the step from rest agree.
    """
    contacts, loads = set(), []
    for digits in (4, 15) if name == "small dome" else (4, 6, 15):
        path = write_obj(tmp_path / "model.obj", MADE[name](), digits)
        found = cdopt.stability(path, friction=0.6)
        assert found.verdict == STANDS
        assert all(limit.ok and limit.stands for limit in found.limits.values())
        scene = cdopt.scene.load(f"{path}:density=1,friction=0.6")
        by_scene = cdopt.limit_load(scene, [1, 0, 0])
        assert by_scene.value == pytest.approx(found.limits["+x"].value, rel=1e-6)
        for step in (found.step, by_scene.step):
            solution = cdopt.FrictionalCD(step).solve()
            assert solution.certificate.worst <= 1e-8
            assert np.abs(solution.v_next).max() <= 1e-7 * np.abs(step.v_star).max()
        contacts |= {found.step.nc, by_scene.step.nc}
        loads.append(found.limit.value)
    assert len(contacts) == 1
    assert np.ptp(loads) <= 1e-3 * min(loads)


def test_scenes_steps_and_refusals(tmp_path) -> None:
    arch = cdopt.stability(cdopt.scene.arch(9, density=2000.0), friction=0.6)
    assert arch.verdict == STANDS
    assert list(arch.limits) == ["+x", "-x"]
    by_step = cdopt.stability(arch.step, limits=False)
    assert by_step.verdict == STANDS
    assert cdopt.stability(arch.step, friction=0.01).verdict == FALLS
    assert "stands" in repr(arch)
    assert "<table>" in arch._repr_html_()
    assert arch.as_dict()["verdict"] == STANDS
    with pytest.raises(cdopt.InvalidInput, match="friction"):
        cdopt.stability(cdopt.scene.arch(9, density=2000.0))
    path = problems_folder() / "masonry" / "H.json"
    with pytest.raises(cdopt.InvalidInput, match="supports"):
        cdopt.stability(path, friction=0.84)
