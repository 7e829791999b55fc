"""What a notebook shows: tables, formulas, pictures and a bar of progress, without any magic."""

from __future__ import annotations

import struct

import matplotlib
import numpy as np
import pytest
from conftest import beam
from matplotlib.figure import Figure

import cdopt
from cdopt import plots
from cdopt._util import notebook

CELLS = {  # the last line of each cell, and what its output must hold
    "cd": ("text/latex", r"\tfrac12 f^\mathsf{T} N f"),
    "cdopt.NoTensionTruss(step.B, [10.0, 0.0], power=2.5)": ("text/latex", "5/3"),
    "cdopt.compare(step, ['clarabel', 'osqp'])": ("text/html", "<td style="),
    "cd.solve().certificate": ("text/html", "complementarity"),
    "cd.solve()": ("text/html", "largest force"),
    "report": ("text/html", "[0, 10]"),
    "report.to_frame()": ("text/html", "undetermined"),
    "plots.force_bars([cd.solve()], report=report)": ("image/png", ""),
    "cdopt.simulate('beam', 1e-3, 0.02, progress=True)": ("text/html", "deepest overlap"),
    "cdopt.simulate('beam', 1e-3, 0.02).diagnostics": ("text/html", "kinetic"),
}
FIRST = """
import cdopt
from cdopt import plots
step = cdopt.bank.load("beam-uniform").step
cd, report = cdopt.ClassicCD(step), cdopt.indeterminacy(step)
"""


@pytest.mark.slow
def test_cells_of_a_notebook_show_their_last_line() -> None:
    import nbformat
    from nbclient import NotebookClient

    written = nbformat.v4.new_notebook()
    written.cells = [nbformat.v4.new_code_cell(text) for text in (FIRST, *CELLS)]
    NotebookClient(written, timeout=300, kernel_name="python3").execute()
    for cell, (kind, text) in zip(written.cells[1:], CELLS.values(), strict=True):
        shown = [output for output in cell.outputs if output.output_type != "stream"]
        assert kind in shown[-1].data, cell.source
        assert text in shown[-1].data[kind], cell.source
    bars = next(c for c in written.cells if "progress=True" in c.source).outputs
    assert "steps 20 of 20" in bars[0].data["text/html"]


def size_of(png: bytes) -> tuple[int, int]:
    assert png.startswith(b"\x89PNG")
    return struct.unpack(">II", png[16:24])


def test_a_picture_shows_itself_and_comes_apart() -> None:
    cd = cdopt.ClassicCD(beam())
    picture = plots.force_bars([cd.solve()])
    figure, axes = picture
    assert figure is picture
    assert axes == figure.axes
    width, height = figure.get_size_inches() * plots.canvas.NOTEBOOK_RESOLUTION
    assert np.allclose(size_of(picture._repr_png_()), (width, height), atol=1.0)


def drawn(ax) -> int:
    """How many artists were added to empty axes."""
    return len(ax.lines) + len(ax.collections) + len(ax.patches) + len(ax.images)


def test_one_picture_is_drawn_in_axes_of_the_callers() -> None:
    step = beam()
    cd, report = cdopt.ClassicCD(step), cdopt.indeterminacy(step)
    solution = cd.solve()
    draw = {
        "bars": lambda ax: plots.force_bars([solution], report=report, title="bars", ax=ax),
        "distribution": lambda ax: plots.force_distributions([solution], ax=ax),
        "histogram": lambda ax: plots.force_histograms([solution], ax=ax),
        "intervals": lambda ax: plots.force_intervals(report, [solution], ax=ax),
        "complementarity": lambda ax: plots.complementarity(step, [solution], ax=ax),
        "influence": lambda ax: plots.stiffness_influence(cdopt.sensitivity(step), ax=ax),
    }
    before = dict(matplotlib.rcParams)
    for name, function in draw.items():
        figure = Figure()
        ax, other = figure.subplots(1, 2)
        assert function(ax) is figure, name
        assert drawn(ax) > 0, name
        assert drawn(other) == 0, name
        assert tuple(figure.get_size_inches()) == (6.4, 4.8), name
    assert dict(matplotlib.rcParams) == before
    with pytest.raises(cdopt.InvalidInput, match="ax: found one, for 2 panels"):
        plots.force_histograms([solution, cd.solve("clarabel")], ax=ax)
    with pytest.raises(cdopt.InvalidInput, match="axes of matplotlib"):
        plots.force_histograms([solution], ax="left")


def test_tables_escape_all_text() -> None:
    text = notebook.table("<b>", ("<i>",), [("<script>",)], "a & b costs $1")
    assert not any(mark in text for mark in ("<script>", "<i>", "$"))
    assert "&lt;b&gt;" in text


def test_frames_of_pandas_hold_the_numbers() -> None:
    step = beam()
    compared, report = cdopt.compare(step, ["clarabel", "newton"]), cdopt.indeterminacy(step)
    frame = compared.to_frame()
    assert frame.index.tolist() == ["clarabel", "newton", "compatible"]
    assert frame.loc["newton", "largest"] == compared[1].f.max()
    np.testing.assert_array_equal(report.to_frame()["upper"], report.upper)
    run = cdopt.simulate("beam", 1e-3, 0.003)
    rows = run.diagnostics.to_frame()
    assert rows.index.tolist() == [0, 1, 2, 3]
    np.testing.assert_array_equal(rows["momentum.1"], run.diagnostics["momentum"][:, 1])
    named = cdopt.open_problem("beam-uniform")
    bounded = cdopt.study.bounds.BoundedProblem.of(named, report)
    np.testing.assert_array_equal(bounded.to_frame()["upper [N]"], report.upper)


def test_a_frame_as_meshes() -> None:
    run = cdopt.simulate("pyramid:n=3", 1e-3, 0.012)
    try:
        import pyvista
    except ImportError:
        with pytest.raises(cdopt.Unsupported, match="pip install pyvista"):
            run.final.to_pyvista()
        return
    meshes = run.final.to_pyvista(run.scene)
    assert isinstance(meshes, pyvista.MultiBlock)
    np.testing.assert_allclose(meshes["bodies"].points, run.final.state.position, rtol=1e-6)
    np.testing.assert_array_equal(meshes["contacts"]["f"], run.final.f)
    assert meshes["bodies"]["radius"].shape == (14,)
