"""Pictures of the pressure on the floor."""

from __future__ import annotations

import numpy as np
import pytest
from pictures import by_gid, compared, legible, panels, wedged

import cdopt
from cdopt import bank, plots
from cdopt.plots.pressure import floor_of

# --- floor pressure --------------------------------------------------------------------


def test_floor_of_a_table_is_its_feet() -> None:
    floor = floor_of(bank.load("table").step)
    assert floor.positions.shape == (4, 3)
    np.testing.assert_allclose(floor.pressure(np.array([1.0, 2.0, 3.0, 4.0])), [1, 2, 3, 4])
    assert floor_of(wedged()).contacts.tolist() == [2]


def test_pressure_is_the_reaction_on_the_base_spheres() -> None:
    """Methods down, materials across, one scale; the weight above the base is that of 5 spheres."""
    problems = {name: bank.load(f"pyramid-{name}:n=3") for name in ("hooke", "species")}
    cells = {
        backend: [
            (n, p.step, cdopt.ClassicCD(p.step).solve(backend).f) for n, p in problems.items()
        ]
        for backend in ("pgs", "newton")
    }
    figure = plots.floor_pressure_grid(cells)
    shown = panels(figure)
    grid = [a.get_subplotspec() for a in shown]
    assert [(g.rowspan.start, g.colspan.start) for g in grid] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert [a.get_title(loc="left") for a in shown] == ["pgs"] * 2 + ["newton"] * 2
    assert [a.get_xlabel() for a in shown] == ["", "", "x [m]", ""]
    discs = [by_gid(axes, "pressure") for axes in shown]
    assert {(d.norm.vmin, d.norm.vmax) for d in discs} == {
        (0.0, max(d.get_array().max() for d in discs))
    }
    for drawn, (_, step, f) in zip(discs, [c for row in cells.values() for c in row], strict=True):
        np.testing.assert_allclose(drawn.get_array(), -step.body_forces(f)[:9, 2])
        assert drawn.get_array().sum() == pytest.approx(5.0)
        y, x = np.divmod(np.arange(9.0), 3.0)
        np.testing.assert_allclose(drawn.get_offsets(), np.column_stack([x, y]), atol=1e-12)
    legible(figure)
    with pytest.raises(cdopt.InvalidInput, match="same materials"):
        plots.floor_pressure_grid({"pgs": cells["pgs"], "newton": cells["newton"][:1]})


def test_pressure_in_the_plane_is_bars_and_walls_bear_nothing() -> None:
    solution = compared("crystal-2d", "clarabel")[0]
    step = compared("crystal-2d", "clarabel").step
    (axes,) = panels(plots.floor_pressure_grid({"clarabel": [("discs", step, solution.f)]}))
    bars = [p.get_height() for p in axes.patches if p.get_gid() == "pressure"]
    assert len(bars) == 10  # discs of the lowest row; the side walls are left out
    assert sum(bars) == pytest.approx(76.0, rel=1e-6)
    np.testing.assert_allclose(sorted(bars), sorted(solution.f[step.normals[:, 1] == 1.0]))


def test_pressure_needs_a_floor() -> None:
    step = bank.load("beam-stiff-middle").step
    for wrong, message in (
        (step.replace(bodies=None), "no bodies"),
        (wedged().select([0, 1]), "nothing fixed below"),
    ):
        with pytest.raises(cdopt.InvalidInput, match=message):
            floor_of(wrong)
