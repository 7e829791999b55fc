"""Pictures of the pressure on the floor."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from matplotlib.figure import Figure
from pictures import by_gid, compared, legible, panels, wedged

import cdopt
from cdopt import StepSolution, bank, plots
from cdopt.plots.pressure import floor_of
from cdopt.problem import Step


def floors(step: Step, solutions: Sequence[StepSolution]) -> Figure:
    """A panel for each solution."""
    return plots.floor_pressure_grid({"one step": [(s.backend, step, s.f) for s in solutions]})


@pytest.mark.slow
def test_pressure_is_the_reaction_on_the_base_spheres() -> None:
    comparison = compared("pyramid-hooke")
    step = comparison.step
    shown = [*comparison, comparison.compatible]
    figure = floors(step, shown)
    top = max(by_gid(axes, "pressure").get_array().max() for axes in panels(figure))
    for axes, solution in zip(panels(figure), shown, strict=True):
        discs = by_gid(axes, "pressure")
        expected = -step.body_forces(solution.f)[:25, 2]
        np.testing.assert_allclose(discs.get_array(), expected)
        assert discs.get_array().sum() == pytest.approx(30.0)  # the weight above the base
        side = np.arange(5.0)
        y, x = np.meshgrid(side, side, indexing="ij")
        np.testing.assert_allclose(
            discs.get_offsets(), np.column_stack([x.ravel(), y.ravel()]), atol=1e-12
        )
        assert (discs.norm.vmin, discs.norm.vmax) == (0.0, top)
    labels = {axes.get_xlabel() for axes in panels(figure)}
    assert labels == {"", "x [m]"}
    legible(figure)


def test_pressure_in_the_plane_is_bars_and_walls_bear_nothing() -> None:
    comparison = compared("crystal-2d", "clarabel")
    shown = [*comparison, comparison.compatible]
    figure = floors(comparison.step, shown)
    for axes, solution in zip(panels(figure), shown, strict=True):
        bars = [p for p in axes.patches if p.get_gid() == "pressure"]
        assert len(bars) == 10  # discs of the lowest row; the side walls are left out
        assert sum(b.get_height() for b in bars) == pytest.approx(76.0, rel=1e-6)
        up = comparison.step.normals[:, 1] == 1.0
        np.testing.assert_allclose(sorted(b.get_height() for b in bars), sorted(solution.f[up]))
    legible(figure)


def test_floor_of_a_table_is_its_feet() -> None:
    floor = floor_of(bank.load("table").step)
    assert floor.positions.shape == (4, 3)
    np.testing.assert_allclose(floor.pressure(np.array([1.0, 2.0, 3.0, 4.0])), [1, 2, 3, 4])
    assert floor_of(wedged()).contacts.tolist() == [2]


def test_pressure_needs_a_floor() -> None:
    step = compared("beam-stiff-middle").step
    with pytest.raises(cdopt.InvalidInput, match="no bodies"):
        floors(step.replace(bodies=None), compared("beam-stiff-middle"))
    sideways = wedged().select([0, 1])
    with pytest.raises(cdopt.InvalidInput, match="nothing fixed below"):
        floor_of(sideways)


@pytest.mark.slow
def test_pressure_grid_has_methods_down_and_materials_across() -> None:
    methods: dict[str, list] = {"PGS": [], "Compatible": []}
    for material in ("hooke", "species"):
        problem = bank.load(f"pyramid-{material}:n=3")
        classic = cdopt.ClassicCD(problem.step).solve("pgs")
        sharp = cdopt.CompatibleCD(problem.step, problem.power).solve("newton")
        methods["PGS"].append((material, problem.step, classic.f))
        methods["Compatible"].append((material, problem.step, sharp.f))
    figure = plots.floor_pressure_grid(methods)
    grid = [a.get_subplotspec() for a in panels(figure)]
    assert [(g.rowspan.start, g.colspan.start) for g in grid] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert [a.get_title(loc="left") for a in panels(figure)] == ["PGS"] * 2 + ["Compatible"] * 2
    norms = {(d.norm.vmin, d.norm.vmax) for d in (by_gid(a, "pressure") for a in panels(figure))}
    assert len(norms) == 1
    legible(figure)
    with pytest.raises(cdopt.InvalidInput, match="same materials"):
        plots.floor_pressure_grid({"PGS": methods["PGS"], "Compatible": methods["Compatible"][:1]})
    with pytest.raises(cdopt.InvalidInput, match="methods"):
        plots.floor_pressure_grid({})
