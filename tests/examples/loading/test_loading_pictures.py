"""Pictures of loading experiments: what they show, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from boxes import cube, lattice
from loading import biaxial, compress, disc_pile, press
from loading.__main__ import main
from loading.pictures import loading_path
from matplotlib.text import Annotation
from pictures import by_gid, legible

import cdopt


def axes_of(figure, name: str):
    return next(axes for axes in figure.axes if axes.get_title(loc="left") == name)


@pytest.mark.slow
def test_a_compression():
    run = compress(lattice(3, 2), "top", 0.02, 4)
    figure = loading_path(run, title="A lattice", subtitle="of six discs")
    legible(figure)
    line = by_gid(axes_of(figure, "Stress"), "curve")
    np.testing.assert_allclose(line.get_xdata(), 100 * run.strain)
    np.testing.assert_allclose(line.get_ydata(), run.stress, atol=1e-9)  # Pa
    end = axes_of(figure, "Strain 2 %")
    assert len(by_gid(end, "bodies").get_offsets()) == 6
    forces = by_gid(end, "forces")
    assert len(forces.get_segments()) == run.contacts[-1] == 8
    np.testing.assert_allclose(np.sort(forces.get_array()), np.sort(run.forces(-1)))
    assert len(by_gid(axes_of(figure, "Strain 0 %"), "bodies").get_offsets()) == 6
    assert len([a for a in end.get_children() if a.get_gid() == "wall"]) == 4


@pytest.mark.slow
def test_a_biaxial_test():
    run = biaxial(lattice(3, 2), 500.0, 0.02, 4)
    figure = loading_path(run)
    legible(figure)
    volume = by_gid(axes_of(figure, "Volume"), "curve")
    np.testing.assert_allclose(volume.get_ydata(), 100 * run.volumetric_strain)
    assert axes_of(figure, "Axial strain 2 %")


@pytest.mark.slow
def test_a_pile_and_its_collapse():
    run = press(disc_pile(3), [10.0, 200.0, 400.0], refine=1)
    figure = loading_path(run, frames=(0, -1), title="A pile")
    legible(figure)
    notes = [t.get_text() for t in figure.findobj(Annotation)]
    assert any("collapse" in note for note in notes)
    assert any("no equilibrium" in note for note in notes)
    assert not any(axes.get_title(loc="left") == "Network" for axes in figure.axes)  # no change


@pytest.mark.slow
def test_the_command_writes_a_table_and_a_picture(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(main.__globals__, "disc_pile", lambda rows: disc_pile(2))  # a smaller one
    main(["pile", "--out", str(tmp_path / "made")])
    table = (tmp_path / "made" / "pile.csv").read_text(encoding="utf-8").splitlines()
    assert table[0].startswith("load [N],settlement [m],largest force [N],contacts")
    assert table[1].startswith("0.0,0.0,")
    assert (tmp_path / "made" / "pile.png").read_bytes().startswith(b"\x89PNG")
    said = capsys.readouterr().out
    assert "pile.png" in said
    assert "largest force [N]" in said


@pytest.mark.slow
def test_in_space_there_are_curves_alone():
    figure = loading_path(compress(cube(), "high z", 0.02, 2))
    legible(figure)
    assert len(figure.axes) == 3


def test_refusals():
    run = compress(lattice(1, 1), "top", 0.02, 2)
    with pytest.raises(cdopt.InvalidInput, match="record"):
        loading_path("run")
    with pytest.raises(cdopt.InvalidInput, match="frames"):
        loading_path(run, frames=(0, 3))
    short = press(disc_pile(2), [1e9], refine=0)
    with pytest.raises(cdopt.InvalidInput, match="one equilibrium"):
        loading_path(short)
