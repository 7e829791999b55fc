"""Olsen & Kamrin reproduced: what the numbers must be, and that the page stands alone."""

from __future__ import annotations

import csv
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from papers import olsen_kamrin
from papers.__main__ import main
from papers.olsen_kamrin import FIGURES, Settings
from papers.olsen_kamrin.beam import beam
from papers.olsen_kamrin.classic import answers, column
from papers.olsen_kamrin.dem import dem
from papers.olsen_kamrin.numbers import TABLE_1, asymmetry, relative_error
from papers.olsen_kamrin.pile import HOOKE, MATERIALS, Pile, matched
from papers.report import Number, Report, Store, formatted

import cdopt

N = 4
SMALL = Settings(n=N, dem="elastic")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return olsen_kamrin.reproduce(tmp_path_factory.mktemp("reproduced"), SMALL)


@pytest.fixture(scope="module")
def pile(made: Report) -> Pile:
    return Pile(SMALL, Store(made.folder / f"runs-n{N}"))


def rows_of(made: Report, words: str) -> list[Number]:
    return [row for row in made.numbers if words in (row.group, row.quantity)]


# --- the page --------------------------------------------------------------------------


class Assets(HTMLParser):
    """What a page would fetch, and the pictures in it."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.pictures: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            within = value is None or value == "data:," or value.startswith("#")  # no icon
            if name in ("src", "href") and not within:
                kept = self.pictures if value.startswith("data:image/png;base64,") else self.fetched
                kept.append(value)
        assert tag != "iframe"
        assert tag != "link" or ("href", "data:,") in attrs


@pytest.mark.slow
def test_the_page_is_one_file_with_every_figure(made: Report) -> None:
    assert made.page is not None
    text = made.page.read_text(encoding="utf-8")
    assets = Assets()
    assets.feed(text)
    assert assets.fetched == []
    assert len(assets.pictures) == len(FIGURES) == 19
    assert not re.search(r"url\(|@import|https?://", text)
    for number, (path, caption) in made.figures.items():
        assert f'id="figure-{number}"' in text
        assert f"<b>Figure {number}.</b>" in text
        assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
        assert caption.endswith(".")
    for word in ("settings", "versions", "n = 4", "seed = 0", "cvxpy", "PGS(order="):
        assert word in text


@pytest.mark.slow
def test_all_tables_hold_the_same_rows(made: Report) -> None:
    with (made.folder / "table.csv").open(encoding="utf-8") as stream:
        sheet = list(csv.DictReader(stream))
    assert [row["quantity"] for row in sheet] == [row.quantity for row in made.numbers]
    assert [float(row["ours"]) for row in sheet] == [row.ours for row in made.numbers]
    for row in sheet:  # a small pile has no differences from numbers of the paper's pile
        compared = row["group"] not in ("Table 1", "Largest force") and row["paper"] != ""
        assert compared == (row["difference"] != "")
    lines = (made.folder / "table.md").read_text(encoding="utf-8").splitlines()
    assert sum(line.startswith("| ") for line in lines) == len(made.numbers) + 1
    stored = json.loads((made.folder / "table.json").read_text(encoding="utf-8"))
    assert [row["ours"] for row in stored["numbers"]] == [row.ours for row in made.numbers]


# --- the numbers -----------------------------------------------------------------------


@pytest.mark.slow
def test_table_1_stands_beside_the_papers(made: Report) -> None:
    rows = rows_of(made, "Table 1")
    paper = [*TABLE_1["hooke"], *TABLE_1["hertz"], *TABLE_1["species"]]
    assert [row.reference for row in rows] == paper
    for row in rows:
        if "compatible" in row.quantity:
            assert row.ours <= 1e-6
        else:
            assert 0.01 < row.ours < 1.0
            assert "from zero" in row.note
            assert "runs" in row.note


@pytest.mark.slow
@pytest.mark.parametrize("material", MATERIALS, ids=lambda m: m.name)
def test_compatible_forces_are_those_of_the_settled_elastic_pile(pile: Pile, material) -> None:
    first, second = pile.certificates(material)
    assert max(first, second) <= 1e-6
    assert pile.reference_certificate(material) <= 1e-12
    reference = pile.reference(material)
    off = np.abs(pile.compatible(material) - reference).max() / reference.max()
    assert off <= max(1e-6, 10.0 * first)
    for backend, (error, residual, _) in pile.first_steps(material).items():
        assert error <= max(1e-6, 10.0 * residual), backend
    again = cdopt.CompatibleCD(pile.settled(material), material.power).solve("newton").f
    np.testing.assert_allclose(reference, again, atol=1e-10)


@pytest.mark.slow
def test_classic_forces_depend_on_order_and_start_and_break_the_symmetry(pile: Pile) -> None:
    found = answers(pile)
    apgd, pgs = column(pile, "apgd").case.description, column(pile, "pgs").case.description
    assert all(answer.certified for answer in found)
    step, top = pile.settled(HOOKE), pile.reference(HOOKE).max()
    above = {answer.case.description: answer.f.max() / top - 1.0 for answer in found}
    assert 0.0 < above[apgd] < 1.0 / 6.0
    assert above[pgs] > 0.1
    assert max(above.values()) - min(above.values()) > 0.5
    for answer in found[1:]:  # one motion, many forces
        np.testing.assert_allclose(step.B.T @ answer.f, step.B.T @ found[0].f, atol=1e-6)
    skew = {a.case.description: asymmetry(pile.floor_forces(a.f)) for a in found}
    assert skew[apgd] < 1e-9
    assert skew[pgs] > 0.01


@pytest.mark.slow
def test_the_beam_on_the_page(made: Report) -> None:
    rows = rows_of(made, "Beam")
    assert len(rows) == 8
    for row in rows:
        assert row.reference is not None
        assert row.ours == pytest.approx(row.reference, abs=1e-6), row.quantity


@pytest.mark.slow
def test_all_answers_for_the_beam_carry_the_same_load() -> None:
    found = beam(SMALL, 1.0)
    load = -np.asarray(found.step.F_ext)
    for f in (*found.classic.values(), found.f, found.dem):
        np.testing.assert_allclose(found.step.B.T @ f, load, atol=1e-6)
        assert (f >= 0.0).all()
    assert len({tuple(f.round(3)) for f in found.classic.values()}) == 4
    stiff = beam(SMALL, 3.0)  # discrete elements, on their own, tend to the compatible forces
    np.testing.assert_allclose(stiff.dem, [2.0, 6.0, 2.0], atol=1e-6)


def test_discrete_elements_drop_the_pile_and_share_no_solver(tmp_path) -> None:
    """By velocity-Verlet, the compatible forces to the size of the overlaps."""
    small = Settings(n=3, dem="verlet")
    pile = Pile(small, Store(tmp_path))
    column = dem(pile, HOOKE)
    reference = pile.reference(HOOKE)
    assert "velocity-Verlet" in column.source
    off = np.abs(column.f - reference).max() / reference.max()
    assert 1e-9 < off < 1e-5


@pytest.mark.slow
def test_the_floor_carries_the_pile(made: Report) -> None:
    (row,) = rows_of(made, "weight on the floor [m g]")
    free = sum(k * k for k in range(1, N))
    assert row.ours == pytest.approx(free, rel=1e-8)  # at rest to the first step's accuracy, 1e-8
    assert rows_of(made, "spheres")[0].ours == free + N * N


@pytest.mark.slow
def test_without_lammps_the_columns_are_the_reference(pile: Pile, made: Report) -> None:
    found = dem(pile, HOOKE)
    assert "Newton" in found.source
    assert found.steps == 0
    assert made.page is not None
    assert "settled elastic network" in made.page.read_text(encoding="utf-8")
    assert not rows_of(made, "DEM")


@pytest.mark.slow
def test_the_papers_pile(tmp_path: Path) -> None:
    made = olsen_kamrin.reproduce(tmp_path, Settings(dem="elastic"))
    by_name = {row.quantity: row.ours for row in made.numbers}
    assert by_name["spheres"] == 2870
    assert by_name["contacts at rest"] == 14440
    paper = {"Hooke": (4.3970, 9784), "Hertz": (4.5213, 9840), "two species": (7.1747, 10253)}
    for title, (largest, count) in paper.items():
        assert by_name[f"largest force [m g], {title}"] == pytest.approx(largest, abs=5e-5)
        assert by_name[f"contacts that carry force, {title}"] == count
        words = f"compatible forces, worst of 14,440, against the elastic reference, {title}"
        assert by_name[words] <= 1e-6
    assert 0.1 < by_name["largest force of APGD above DEM's, Hooke"] < 1.0 / 6.0
    assert by_name["largest force of PGS above DEM's, Hooke"] > 0.2
    assert float(made.facts["seconds of this call"]) > 0.0


# --- runs that are kept ----------------------------------------------------------------


@pytest.mark.slow
def test_the_command_draws_a_figure_of_kept_runs(made: Report, capsys) -> None:
    command = ["olsen-kamrin", "--n", str(N), "--out", str(made.folder), "--dem", "elastic"]
    main([*command, "--figure", "11"])
    shown = capsys.readouterr()
    assert "figure-11.png" in shown.out
    assert shown.err.split("\n") == ["figure 11", ""]  # nothing is computed again
    main(command)
    shown = capsys.readouterr()
    assert "largest force [m g], Hooke" in shown.out
    assert "index.html" in shown.out


def test_results_of_other_settings_or_half_a_file_are_computed_again(tmp_path: Path) -> None:
    calls: list[int] = []

    def compute() -> dict[str, np.ndarray]:
        calls.append(1)
        return {"x": np.arange(3.0)}

    for settings, count in (({"n": 1}, 1), ({"n": 1}, 1), ({"n": 2}, 2)):
        found = Store(tmp_path).get("thing", settings, compute)
        np.testing.assert_array_equal(found["x"], np.arange(3.0))
        assert len(calls) == count
    (tmp_path / "thing.npz").write_bytes(b"half a file")
    Store(tmp_path).get("thing", {"n": 2}, compute)
    assert len(calls) == 3


@pytest.mark.slow
def test_an_interrupted_run_keeps_what_is_done(tmp_path: Path) -> None:
    def stop_at_pgs(text: str) -> None:
        if text.startswith("classic-pgs"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        olsen_kamrin.reproduce(tmp_path, SMALL, figure="10", progress=stop_at_pgs)
    said: list[str] = []
    olsen_kamrin.reproduce(tmp_path, SMALL, figure="10", progress=said.append)
    assert not [text for text in said if text.startswith(("drop", "classic-apgd-zero"))]
    assert [text for text in said if text.startswith("classic-pgs")]


# --- pieces ----------------------------------------------------------------------------


def test_numbers_as_they_are_written() -> None:
    assert formatted(None, "number") == "—"
    assert formatted(0.144, "percent", "+") == "+14.4 %"
    assert formatted(2870.0, "count") == "2,870"
    assert formatted(-1.9e-5, "number") == "−1.90e−05"
    assert Number("group", "a", 1.0, 2.0).cells() == ("a", "1", "2", "+1", "")


def test_errors_and_asymmetry_of_forces() -> None:
    square = np.add.outer(np.arange(3.0), np.arange(3.0))
    assert asymmetry(np.ones(9)) == 0.0
    assert asymmetry(square.ravel()) > 0.1
    assert relative_error(np.array([1.1]), np.array([1.0])) == pytest.approx(0.1)
    pairs, wanted = np.array([[1, 2], [0, 1]]), np.array([[0, 1], [0, 2], [1, 2]])
    np.testing.assert_array_equal(matched(pairs, np.array([5.0, 7.0]), wanted), [7.0, 0.0, 5.0])


@pytest.mark.parametrize(
    ("field", "wrong"),
    [("n", 2), ("n", 61), ("dem", "dice"), ("dt", 0.0), ("duration", 0.001), ("seed", -1)],
)
def test_settings_are_checked(field: str, wrong: object) -> None:
    with pytest.raises(cdopt.InvalidInput, match=field):
        Settings(**{field: wrong})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["olsen-kamrin", "--figure", "20"], "figure: found '20'"),
        (["olsen-kamrin", "--n", "1"], "n: found 1"),
        (["olsen-kamrin", "--dem", "dice"], "dem: found 'dice'"),
        (["de-klerk", "--figure", "3"], "figure: found '3'"),
        (["de-klerk", "--peer", "dice"], "peer: found 'dice'"),
        (["de-klerk", "--box-time", "20"], "box_time: found 20"),
    ],
)
def test_the_command_names_what_is_wrong(arguments, words, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=re.escape(words)):
        main([*arguments, "--out", str(tmp_path / "x")])
    assert not (tmp_path / "x").exists()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit, match="out: "):
        main(["olsen-kamrin", "--n", "4", "--out", str(tmp_path / "file"), "--dem", "elastic"])
