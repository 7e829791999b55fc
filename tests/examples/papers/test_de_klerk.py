"""De Klerk et al. reproduced: the page, its numbers, and the command, with stored peers."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from papers import de_klerk
from papers.__main__ import main
from papers.de_klerk import FIGURES, Settings, lammps
from papers.de_klerk.numbers import at, settled
from papers.de_klerk.parameters import FINE, PAPER
from papers.de_klerk.runs import (
    EXACT,
    FIRST,
    PEER,
    SECOND,
    Runs,
    Way,
    bond_series,
    impact_series,
    wall_series,
)
from papers.de_klerk.scenes import impact, walls
from papers.report import Report, Store

import cdopt
from cdopt.dynamics.analysis import Motion

SMALL = Settings(peer="stored", collisions=3, box_time=0.06)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return de_klerk.reproduce(tmp_path_factory.mktemp("reproduced"), SMALL)


@pytest.fixture(scope="module")
def runs(made: Report) -> Runs:
    return Runs(SMALL, Store(made.folder / "runs"))


def named(made: Report, *words: str) -> list:
    return [row for row in made.numbers if all(w in f"{row.group} {row.quantity}" for w in words)]


# --- the page --------------------------------------------------------------------------


@pytest.mark.slow
def test_the_page_has_every_figure_and_says_where_things_come_from(made: Report) -> None:
    """What all pages share is tested with those of Olsen & Kamrin."""
    assert made.page is not None
    text = made.page.read_text(encoding="utf-8")
    assert all(f'id="figure-{number}"' in text for number in FIGURES)
    assert text.count("data:image/png;base64,") == len(FIGURES) == 11
    for words in ("the series stored with cdopt", "Reference and ours", "collisions = 3"):
        assert words in text
    with (made.folder / "table.csv").open(encoding="utf-8") as stream:
        sheet = list(csv.DictReader(stream))
    assert [float(row["reference"]) for row in sheet] == [row.reference for row in made.numbers]


# --- the numbers -----------------------------------------------------------------------


@pytest.mark.slow
def test_small_steps_are_accurate(made: Report) -> None:
    rows = named(made, "Figure 6: restitution")
    assert len(rows) == 9
    for row in rows:
        assert row.ours == pytest.approx(row.reference, abs=2e-3), row.quantity
    for row in named(made, "Figure 8", "restitution"):
        assert row.ours == pytest.approx(row.reference, abs=2e-3), row.quantity
    for row in named(made, "Figure 6: rotation"):
        assert row.ours == pytest.approx(row.reference, rel=2e-2), row.quantity


@pytest.mark.slow
def test_first_order_is_worse_during_contact(runs: Runs) -> None:
    exact = runs.impact(EXACT, 0.0, 0.3, FINE)
    off = {
        way: np.abs(runs.impact(way, 0.0, 0.3, FINE)["linear"] - exact["linear"]).max()
        for way in (FIRST, SECOND, PEER)
    }
    assert off[SECOND] < 2e-4
    assert off[PEER] < 2e-4
    assert 5e-3 < off[FIRST] < 2e-2


@pytest.mark.slow
def test_walls_keep_the_energy(made: Report, runs: Runs) -> None:
    for dt, most in ((1e-5, 1e-4), (5e-5, 2e-3)):
        for way in (PEER, SECOND):
            flights = runs.walls(way, dt)["flights"]
            assert flights.shape == (4,)
            assert flights[0] == 0.0
            assert 0.0 < np.abs(flights).max() < most
    assert len(named(made, "Figure 9")) == 6


@pytest.mark.slow
def test_velocity_verlet_is_that_of_lammps(runs: Runs) -> None:
    """cdopt's velocity-Verlet compared with the stored series: undamped, they are one method."""
    own, known = (runs.walls(way, 5e-5)["flights"] for way in (Way("velocity-verlet"), PEER))
    np.testing.assert_allclose(own, known, atol=1e-9)
    own, known = (runs.impact(way, 0.0, 0.3, FINE) for way in (Way("velocity-verlet"), PEER))
    np.testing.assert_allclose(own["linear"], known["linear"], atol=1e-6)


@pytest.mark.slow
def test_bonds_meet_the_reference(made: Report) -> None:
    rows = named(made, "Figure 10(c)")
    assert len(rows) == 12
    for row in rows:
        assert row.ours == pytest.approx(row.reference, rel=5e-3), row.quantity


@pytest.mark.slow
def test_the_box_begins_as_the_stored_one(runs: Runs) -> None:
    ours, known = runs.box(SECOND), runs.box(PEER)
    for name in ("K", "dv", "rotational", "com"):
        assert ours[name][0] == pytest.approx(known[name][0], rel=1e-6)
        assert at(ours, name, 0.06) == pytest.approx(at(known, name, 0.06), rel=0.03)


def test_settling_is_for_good() -> None:
    series = {"t": np.arange(5.0), "K": np.array([3.0, 0.5, 2.0, 0.5, 0.1])}
    assert settled(series, 1.0) == 3.0
    assert settled(series, 5.0) == 0.0
    assert settled(series, 0.01) == 4.0


# --- series ----------------------------------------------------------------------------


def test_impact_series_are_shares_of_the_first_sphere() -> None:
    t = np.array([0.0, 1.0, 2.0]) * PAPER.contact_time
    x = np.zeros((3, 2, 3))
    x[:, 1, 0] = [1.0, 0.9, 1.0]
    v = np.zeros((3, 2, 3))
    v[:, 0, 0], v[:, 1, 0] = [1.0, 0.0, -0.5], [-1.0, 0.0, 0.5]
    w = np.zeros((3, 2, 3))
    w[2, :, 2] = 2.0
    run = Motion.of_spheres(t, x, v, w, [PAPER.mass] * 2, [0.5, 0.5])
    found = impact_series(run, PAPER.contact_time)
    np.testing.assert_allclose(found["t"], [-1.0, 0.0, 1.0])
    np.testing.assert_allclose(found["linear"], [1.0, 0.0, 0.25])
    np.testing.assert_allclose(found["rotational"], [0.0, 0.0, 0.4 * 0.25 * 4.0])
    assert found["restitution"] == pytest.approx(0.5)


def test_wall_series_count_flights() -> None:
    x = np.array([0.0, 0.004, 0.006, 0.004, -0.004, -0.006, -0.004, 0.0])
    v = np.array([1.0, 1.0, 0.5, -1.1, -1.1, -0.5, 0.9, 0.9])
    place, speed = np.zeros((2, 8, 1, 3))
    place[:, 0, 0], speed[:, 0, 0] = x, v
    run = Motion.of_spheres(np.arange(8.0), place, speed, 0.0 * speed, [PAPER.mass], [0.5])
    found = wall_series(walls(), run, 2.0)
    np.testing.assert_allclose(found["flights"], [0.0, 0.21, -0.19])
    assert found["t"].size == 3
    elastic = 0.5 * PAPER.stiffness * 0.001**2
    wanted = (elastic + 0.5 * PAPER.mass * 0.25) / (0.5 * PAPER.mass) - 1.0
    np.testing.assert_allclose(found["energy"][0], wanted)


def test_bond_series_are_signed() -> None:
    x = np.zeros((2, 3, 3))
    x[:, 1, 0], x[:, 2, 0] = [-0.99, -1.02], [0.98, 1.5]
    run = Motion.of_spheres([0.0, 1.0], x, 0.0 * x, 0.0 * x, [PAPER.mass] * 3, [0.5] * 3)
    found = bond_series(run, 10.0, 0.0)
    np.testing.assert_allclose(found["bond"], [0.1, -0.2])
    np.testing.assert_allclose(found["contact"], [0.02, 0.0], atol=1e-15)


# --- sources and settings --------------------------------------------------------------


def test_a_missing_lammps_is_told_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lammps, "why_unavailable", lambda: "lammps is not installed")
    with pytest.raises(cdopt.BackendUnavailable, match="not installed"):
        de_klerk.reproduce(tmp_path / "x", Settings(peer="lammps"))
    assert not (tmp_path / "x").exists()
    assert not Runs(Settings(), Store(tmp_path, print)).uses_lammps()
    with pytest.raises(cdopt.BackendUnavailable):
        lammps.run(impact(), 1e-5, 1)


@pytest.mark.parametrize(
    ("field", "wrong"),
    [("peer", "dice"), ("damping", "none"), ("collisions", 1), ("box_time", 17), ("box_step", "3")],
)
def test_settings_are_checked(field: str, wrong: object) -> None:
    with pytest.raises(cdopt.InvalidInput, match=field):
        Settings(**{field: wrong})


@pytest.mark.slow
def test_the_split_is_not_read_from_the_other_run(made: Report) -> None:
    said: list[str] = []
    other = Settings(peer="stored", damping="forced", collisions=3, box_time=0.06)
    store = Store(made.folder / "runs", said.append)
    forced = Runs(other, store).impact(SECOND, 30.0, 0.1, FINE)
    assert len(said) == 1
    paper = Runs(SMALL, store).impact(SECOND, 30.0, 0.1, FINE)
    assert len(said) == 1
    assert forced["restitution"] != paper["restitution"]


# --- the command -----------------------------------------------------------------------


@pytest.mark.slow
def test_the_command_draws_one_figure(made: Report, capsys) -> None:
    main(["de-klerk", "--out", str(made.folder), "--peer", "stored", "--figure", "8"])
    assert "figure-08.png" in capsys.readouterr().out
