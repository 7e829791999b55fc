"""Pictures of block models: every edge once, forces in joints, red blocks that fall."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pictures import all_by_gid, by_gid

import cdopt
from cdopt import plots
from cdopt._util.files import problems_folder

FOLDER = problems_folder() / "masonry"


@pytest.mark.slow
def test_forces_in_the_joints_of_a_structure_that_stands() -> None:
    path = FOLDER / "H.json"
    found = cdopt.stability(path, friction=0.84, supports=[0, 1], limits=False)
    axes = plots.structure(found, view="side").axes[0]
    assert [len(c.get_segments()) for c in all_by_gid(axes, "block")] == [12, 12, 12]
    lines = np.array(by_gid(axes, "forces").get_segments())
    along = lines[:, 1] - lines[:, 0]
    assert len(lines) == 2
    # the two joints carry the weight, half each, and push against each other
    np.testing.assert_allclose(along[0], along[1] * [-1.0, 1.0], atol=1e-4)
    assert not all_by_gid(axes, "falls")


def test_blocks_that_fall_are_red_and_no_forces_are_drawn() -> None:
    found = cdopt.stability(FOLDER / "shelf-s1.json", friction=0.84, supports=0, limits=False)
    axes = plots.structure(found).axes[0]
    assert len(all_by_gid(axes, "falls")) == int(found.falling.sum()) >= 1
    assert not all_by_gid(axes, "forces")
    arch = cdopt.stability(cdopt.scene.arch(5, density=2000.0), friction=0.6, limits=False)
    with pytest.raises(cdopt.InvalidInput, match="block model"):
        plots.structure(arch)


def test_an_arch_has_one_thrust_line_through_all_its_joints() -> None:
    """The resultants balance the weights: their horizontal part is the thrust, the same in all."""
    arch = cdopt.scene.arch(9, density=2000.0).with_friction(0.6)
    limit = cdopt.limit_load(arch, {"voussoir 2": [0, -1000]})
    found = cdopt.thrusts(limit.step, limit.f, limit.f_t)
    (line,) = found.lines()
    assert len(line) == len(found.bodies) == 10
    across = np.abs(found.forces[:, 0])
    np.testing.assert_allclose(across, across[0], rtol=1e-7)
    axes = plots.collapse(limit).axes[0]
    assert len(by_gid(axes, "thrust line").get_segments()) == 9
    assert len(by_gid(axes, "forces").get_segments()) == 10


def test_the_mechanism_of_a_block_model_moves_the_blocks_that_it_moves() -> None:
    path = FOLDER / "type-c.json"
    limit = cdopt.limit_load(f"{path}:fixed=0+1", [0, 1, 0], friction=0.84)
    axes = plots.collapse(limit).axes
    assert len(all_by_gid(axes[1], "falls")) == limit.moving_count
    assert not all_by_gid(axes[0], "falls")


def texts_of(figure) -> list[str]:
    """Title, subtitle and the headings of the panels."""
    panels = [axes.get_title(loc="left") for axes in figure.axes]
    return [text.get_text().replace("\n", " ") for text in figure.texts] + panels


def test_pictures_tell_the_load_the_motion_and_the_scale_of_forces() -> None:
    arch = cdopt.scene.arch(9, density=2000.0).with_friction(0.6)
    limit = cdopt.limit_load(arch, {"voussoir 2": [0, -1000]})
    title, forces, motion = texts_of(plots.collapse(limit))
    assert title == f"{limit.value:.5g} times the live load on voussoir 2"
    largest = np.linalg.norm(cdopt.thrusts(limit.step, limit.f, limit.f_t).forces, axis=1).max()
    assert forces.endswith(f"longest {largest / 1e3:.3g} kN")
    assert motion == "mechanism, of any size"
    spread = cdopt.settlement(arch, {"right abutment": [0.01, 0]})
    title, _, motion = texts_of(plots.collapse(spread))
    assert title == "right abutment moves by 0.01 m"
    factor = float(motion.removeprefix("motion, ").removesuffix(" times larger"))
    twice = cdopt.settlement(arch, {"right abutment": [0.02, 0]})
    half = texts_of(plots.collapse(twice))[-1]
    assert float(half.removeprefix("motion, ").split()[0]) == pytest.approx(factor / 2, rel=0.01)


def test_structures_with_all_joints_across_a_plane_are_seen_from_the_side() -> None:
    path = Path(__file__).parents[2] / "examples" / "professions" / "arch.obj"
    found = cdopt.stability(path, friction=0.6, density=2400.0, limits=False)
    pictures = [plots.structure(found, **view) for view in ({}, {"view": "side"})]
    lines = [np.array(by_gid(p.axes[0], "forces").get_segments()) for p in pictures]
    np.testing.assert_array_equal(*lines)
    axes = plots.structure(found, view="isometric").axes[0]
    other = np.array(by_gid(axes, "forces").get_segments())
    assert np.abs(other - lines[0]).max() > 0.01
    assert any("The longest line is a force of " in text for text in texts_of(pictures[0]))
