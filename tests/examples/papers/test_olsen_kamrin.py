"""Olsen & Kamrin reproduced: what the numbers must be, and that the page stands alone."""

from __future__ import annotations

import csv
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from papers import FIGURES, Report, Settings, olsen_kamrin
from papers import __main__ as cli_reproduce
from papers.olsen_kamrin.beam import beam
from papers.olsen_kamrin.classic import CARRIED, COLD, Case, answers, column
from papers.olsen_kamrin.dem import dem
from papers.olsen_kamrin.measures import asymmetry, floor_forces, relative_error
from papers.olsen_kamrin.numbers import TABLE_1, Number
from papers.olsen_kamrin.page import markdown, written
from papers.olsen_kamrin.pile import Pile, matched
from papers.olsen_kamrin.settings import MATERIALS
from papers.olsen_kamrin.store import Store
from typer.testing import CliRunner, Result

import cdopt
from cdopt.cli.main import app

pytestmark = pytest.mark.slow  # many processes, or the whole page

N = 4
SMALL = Settings(n=N, dem="elastic")


@pytest.fixture(scope="module")
def commanded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Report]:
    """What the command said, and the report it was made from."""
    reports: list[Report] = []

    def kept(*given: object) -> Report:
        reports.append(olsen_kamrin(*given))
        return reports[-1]

    folder = str(tmp_path_factory.mktemp("reproduced"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cli_reproduce, "olsen_kamrin", kept)
        result = CliRunner().invoke(
            app, ["reproduce", "olsen-kamrin", "--n", str(N), "--out", folder, "--dem", "elastic"]
        )
    (report,) = reports
    return result, report


@pytest.fixture(scope="module")
def made(commanded: tuple[Result, Report]) -> Report:
    return commanded[1]


@pytest.fixture(scope="module")
def pile(made: Report) -> Pile:
    return Pile(SMALL, Store(made.folder / f"runs-n{N}", lambda text: None))


def named(made: Report, words: str) -> list[Number]:
    return [row for row in made.rows if words in row.quantity]


# --- the page --------------------------------------------------------------------------


class Assets(HTMLParser):
    """What a page would fetch, and the pictures it brings."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.pictures: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("src", "href") and value is not None and value != "data:,":  # no icon
                kept = self.pictures if value.startswith("data:image/png;base64,") else self.fetched
                kept.append(value)
        assert tag not in ("script", "iframe")
        assert tag != "link" or ("href", "data:,") in attrs


def test_the_page_is_one_file_with_every_figure(made: Report) -> None:
    assert made.page is not None
    text = made.page.read_text(encoding="utf-8")
    found = Assets()
    found.feed(text)
    assert found.fetched == []
    assert len(found.pictures) == len(FIGURES) == 19
    assert not re.search(r"url\(|@import|https?://", text)
    for number in range(1, 20):
        assert f'id="figure-{number}"' in text
        assert f"<b>Figure {number}.</b>" in text
    for word in ("settings", "versions", "n = 4", "seed = 0", "cvxpy", "PGS(order="):
        assert word in text


def test_all_tables_hold_the_same_rows(made: Report) -> None:
    with (made.folder / "table.csv").open(encoding="utf-8") as stream:
        sheet = list(csv.DictReader(stream))
    assert [row["quantity"] for row in sheet] == [row.quantity for row in made.rows]
    assert [float(row["ours"]) for row in sheet] == [row.ours for row in made.rows]
    for row in sheet:
        assert (row["paper"] == "") == (row["difference"] == "")
    lines = (made.folder / "table.md").read_text(encoding="utf-8").splitlines()
    assert sum(line.startswith("| ") for line in lines) == len(made.rows) + 1
    stored = json.loads((made.folder / "table.json").read_text(encoding="utf-8"))
    assert [row["ours"] for row in stored["numbers"]] == [row.ours for row in made.rows]


def test_every_figure_is_a_picture_and_says_what_it_shows(made: Report) -> None:
    for path, words in made.figures.values():
        assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
        assert len(words) > 20
    for number in range(1, 6):
        assert made.figures[number][1].startswith("Our figure for")


# --- the numbers -----------------------------------------------------------------------


def test_table_1_stands_beside_the_papers(made: Report) -> None:
    rows = [row for row in made.rows if row.group == "Table 1"]
    assert [row.paper for row in rows] == [*TABLE_1["hooke"], *TABLE_1["hertz"],
                                           *TABLE_1["species"]]  # fmt: skip
    for row in rows:
        if "compatible" in row.quantity:
            assert row.ours <= 1e-6
        else:
            assert 0.01 < row.ours < 1.0
            assert "from zero" in row.note
            assert "runs" in row.note


@pytest.mark.parametrize("material", MATERIALS, ids=lambda m: m.name)
def test_compatible_forces_are_those_of_the_settled_elastic_pile(pile: Pile, material) -> None:
    first, second = pile.certificates(material)
    assert max(first, second) <= 1e-6
    assert pile.reference_certificate(material) <= 1e-12
    wanted = pile.reference(material)
    off = np.abs(pile.compatible(material) - wanted).max() / wanted.max()
    assert off <= max(1e-6, 10.0 * first)
    for backend, (error, residual, _) in pile.first_steps(material).items():
        assert error <= max(1e-6, 10.0 * residual), backend


def test_the_reference_is_that_of_the_bank(pile: Pile) -> None:
    for material in MATERIALS:
        known = cdopt.bank.load(f"pyramid-{material.name}:n={N}")
        again = cdopt.CompatibleCD(known.step, known.power).solve("newton").f
        np.testing.assert_allclose(pile.reference(material), again, atol=1e-10)


def test_classic_forces_depend_on_order_and_start_and_break_the_symmetry(pile: Pile) -> None:
    found = answers(pile)
    material = MATERIALS[0]
    assert all(answer.certified for answer in found)
    step, top = pile.settled(material), pile.reference(material).max()
    above = {answer.words: answer.f.max() / top - 1.0 for answer in found}
    assert 0.0 < above[column(found, "apgd").words] < 1.0 / 6.0
    assert above[column(found, "pgs").words] > 0.1
    assert max(above.values()) - min(above.values()) > 0.5
    reached = [step.B.T @ answer.f for answer in found]
    for other in reached[1:]:
        np.testing.assert_allclose(other, reached[0], atol=1e-6)  # one motion, many forces
    skew = {a.words: asymmetry(floor_forces(step, a.f, pile.base)) for a in found}
    assert skew[column(found, "apgd").words] < 1e-9
    assert skew[column(found, "pgs").words] > 0.01


def test_the_beam(made: Report) -> None:
    rows = [row for row in made.rows if row.group == "Beam"]
    assert len(rows) == 8
    for row in rows:
        assert row.paper is not None
        assert row.ours == pytest.approx(row.paper, abs=1e-6), row.quantity


def test_all_answers_for_the_beam_carry_the_same_load() -> None:
    found = beam(SMALL, 1.0)
    load = found.step.B.T @ found.elastic
    for f in (*found.classic.values(), found.f):
        np.testing.assert_allclose(found.step.B.T @ f, load, atol=1e-6)
        assert (f >= 0.0).all()
    assert len({tuple(f.round(3)) for f in found.classic.values()}) == 4


def test_the_floor_carries_the_pile(made: Report) -> None:
    (row,) = named(made, "weight on the floor")
    free = sum(k * k for k in range(1, N))
    assert row.ours == pytest.approx(free, rel=1e-9)
    assert named(made, "spheres")[0].ours == free + N * N


def test_without_lammps_the_columns_are_the_reference(pile: Pile, made: Report) -> None:
    found = dem(pile, MATERIALS[0])
    assert "Newton" in found.source
    assert found.steps == 0
    assert made.page is not None
    assert "settled elastic network" in made.page.read_text(encoding="utf-8")
    assert not [row for row in made.rows if row.group == "DEM"]


# --- runs that are kept ----------------------------------------------------------------


def test_a_figure_after_a_full_run_computes_nothing(made: Report) -> None:
    said: list[str] = []
    report = olsen_kamrin(made.folder, SMALL, figure=11, tell=said.append)
    assert list(report.figures) == [11]
    assert report.page is None
    assert [text for text in said if not text.startswith("figure")] == []


def test_other_settings_are_not_read_from_the_old_run(tmp_path: Path) -> None:
    calls: list[int] = []

    def make() -> dict[str, np.ndarray]:
        calls.append(1)
        return {"x": np.arange(3.0)}

    for k, settings in enumerate(({"n": 1}, {"n": 1}, {"n": 2})):
        found = Store(tmp_path, lambda text: None).get("thing", settings, make)
        np.testing.assert_array_equal(found["x"], np.arange(3.0))
        assert len(calls) == (1, 1, 2)[k]
    (tmp_path / "thing.npz").write_bytes(b"half a file")
    Store(tmp_path, lambda text: None).get("thing", {"n": 2}, make)
    assert len(calls) == 3


def test_an_interrupted_run_keeps_what_is_done(tmp_path: Path) -> None:
    class Stopped(Exception):
        pass

    def stop_at_pgs(text: str) -> None:
        if text.startswith("classic-pgs"):
            raise Stopped

    with pytest.raises(Stopped):
        olsen_kamrin(tmp_path, SMALL, figure=10, tell=stop_at_pgs)
    said: list[str] = []
    olsen_kamrin(tmp_path, SMALL, figure=10, tell=said.append)
    assert not [text for text in said if text.startswith(("drop", "classic-apgd-zero"))]
    assert [text for text in said if text.startswith("classic-pgs")]


# --- pieces ----------------------------------------------------------------------------


def test_pieces() -> None:
    assert written(None, "number") == "—"
    assert written(0.144, "percent", signed=True) == "+14.4 %"
    assert written(2870.0, "count") == "2,870"
    assert written(-1.9e-5, "number") == "−1.90e−05"
    square = np.add.outer(np.arange(3.0), np.arange(3.0))
    assert asymmetry(np.ones(9)) == 0.0
    assert asymmetry(square.ravel()) > 0.1
    assert relative_error(np.array([1.1]), np.array([1.0])) == pytest.approx(0.1)
    own, wanted = np.array([[1, 2], [0, 1]]), np.array([[0, 1], [0, 2], [1, 2]])
    np.testing.assert_array_equal(matched(own, np.array([5.0, 7.0]), wanted, 3), [7.0, 0.0, 5.0])
    assert {Case("pgs", "given").name, Case("pgs", "given", start=CARRIED).name} == {
        "classic-pgs-given-zero", "classic-pgs-given-carried",
    }  # fmt: skip
    assert Case("apgd").start == COLD
    row = Number("group", "a | b", 1.0, 2.0)
    assert "a \\| b | 1 | 2 | +1" in markdown([row], "heading", ["remark"])


@pytest.mark.parametrize(
    ("wrong", "field"),
    [({"n": 2}, "n"), ({"n": 61}, "n"), ({"dem": "dice"}, "dem"), ({"dt": 0.0}, "dt"),
     ({"duration": 0.001}, "duration"), ({"seed": -1}, "seed")],
)  # fmt: skip
def test_settings_are_checked(wrong: dict, field: str) -> None:
    with pytest.raises(cdopt.InvalidInput, match=field):
        Settings(**wrong)


# --- the command -----------------------------------------------------------------------


def test_the_command_draws_one_figure(made: Report) -> None:
    arguments = ["reproduce", "olsen-kamrin", "--n", str(N), "--out", str(made.folder),
                 "--dem", "elastic"]  # fmt: skip
    result = CliRunner().invoke(app, [*arguments, "--figure", "12"])
    assert result.exit_code == 0
    assert "figure-12.png" in result.stdout
    result = CliRunner().invoke(app, [*arguments, "--figure", "4", "--json"])
    content = json.loads(result.stdout)
    assert list(content["figures"]) == ["4"]
    assert content["page"] is None


def test_the_command_names_what_is_wrong(tmp_path: Path) -> None:
    arguments = ["reproduce", "olsen-kamrin", "--out", str(tmp_path / "x")]
    for more, words in (
        (["--figure", "20"], "figure: found 20"),
        (["--n", "1"], "n: found 1"),
        (["--dem", "dice"], "dem: found 'dice'"),
    ):
        result = CliRunner().invoke(app, [*arguments, *more])
        assert result.exit_code == 1
        assert words in result.stderr
    assert not (tmp_path / "x").exists()
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(
        app, ["reproduce", "olsen-kamrin", "--n", "4", "--out", str(tmp_path / "file")]
    )
    assert result.exit_code == 1
    assert "out: " in result.stderr


def test_the_command_prints_the_table(commanded: tuple[Result, Report]) -> None:
    result, _ = commanded
    assert result.exit_code == 0
    assert "largest force [mg], Hooke" in result.stdout
    assert "index.html" in result.stdout


@pytest.mark.slow
def test_the_papers_pile(tmp_path: Path) -> None:
    made = olsen_kamrin(tmp_path, Settings(dem="elastic"))
    by_name = {row.quantity: row.ours for row in made.rows}
    assert by_name["spheres"] == 2870
    assert by_name["contacts at rest"] == 14440
    for title, largest, count in (
        ("Hooke", 4.3970, 9784), ("Hertz", 4.5213, 9840), ("two species", 7.1747, 10253),
    ):  # fmt: skip
        assert by_name[f"largest force [mg], {title}"] == pytest.approx(largest, abs=5e-5)
        assert by_name[f"contacts that carry force, {title}"] == count
        words = f"compatible forces, worst of 14,440, against the elastic reference, {title}"
        assert by_name[words] <= 1e-6
    assert 0.1 < by_name["largest force of APGD above DEM's, Hooke"] < 1.0 / 6.0
    assert by_name["largest force of PGS above DEM's, Hooke"] > 0.2
    assert float(made.facts["seconds of this call"]) > 0.0
