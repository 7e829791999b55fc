"""The report of a study: a page that needs nothing else, and files that hold the same numbers."""

from __future__ import annotations

import base64
import csv
import re
from pathlib import Path

import pytest
from made_records import record

import cdopt
from cdopt.plots import report
from cdopt.study.record import Forces
from cdopt.study.results import Results
from cdopt.study.table import Table


@pytest.fixture(scope="module")
def study() -> Results:
    made = [
        record(
            f"supports:n={n}", backend, seconds=slow * n * 1e-3, contacts=n, tolerance=tolerance,
            worst=0.1 * tolerance, forces=Forces(largest=1.0, distance=0.1 * slow, ratio=slow),
        )
        for backend, slow in (("osqp", 1.0), ("clarabel", 2.0), ("mine", 3.0))
        for tolerance in (1e-3, 1e-6)
        for n in (4, 8, 16)
    ]  # fmt: skip
    return Results.of(
        [*made, record("table", "osqp", "crash", message="<script>alert(1)</script>")]
    )


@pytest.fixture(scope="module")
def folder(study: Results, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("report") / "made" / "here"
    assert report.write(study, place, "Three solvers") == place / "index.html"
    return place


@pytest.mark.slow
def test_the_page_needs_no_network(folder: Path) -> None:
    text = (folder / "index.html").read_text()
    assert not re.findall(r"""(?:src|href)=["']?(?!data:|#)[^"'>]+""", text)
    assert "@import" not in text
    assert "<script>alert" not in text
    assert "&lt;script&gt;" in text
    for picture in re.findall(r"base64,([^\"]+)", text):
        drawn = base64.b64decode(picture)
        assert b"<svg" in drawn
        assert not re.findall(rb"xlink:href=\"http", drawn)


def test_every_picture_and_table_is_a_file(folder: Path) -> None:
    for name in ("profiles-classic-force", "accuracy", "growth-supports"):
        assert (folder / f"{name}.svg").stat().st_size > 1000
        assert (folder / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
    with (folder / "exponents.csv").open() as file:
        found = list(csv.DictReader(file))
    assert len(found) == 6
    assert all(float(row["exponent"]) == pytest.approx(1.0, abs=1e-9) for row in found)
    text = (folder / "report.md").read_text()
    picture = "![profiles-classic-force](profiles-classic-force.svg)"
    for words in ("# Three solvers", "Limitations", picture, "a processor"):
        assert words in text
    limits = (folder / "limitations.md").read_text()
    assert "CVXPY changes some defaults" in limits


def test_pictures_show_every_solver_and_its_numbers(study: Results) -> None:
    drawn = {picture.name: picture.draw() for picture in report.pictures(study)}
    assert list(drawn) == ["profiles-classic-force", "accuracy", "growth-supports"]
    panel = drawn["growth-supports"].axes[0]
    assert [text.get_text() for text in panel.get_legend().get_texts()] == [
        "OSQP, ∝ n^1.00", "Clarabel, ∝ n^1.00", "mine, ∝ n^1.00"
    ]  # fmt: skip
    accuracy = drawn["accuracy"].axes[0].lines[0]
    assert accuracy.get_ydata().tolist() == pytest.approx([1e-4, 1e-7])  # loose to tight
    assert accuracy.get_xdata().tolist() == pytest.approx([8e-3, 8e-3])  # medians of 4, 8, 16
    best = drawn["profiles-classic-force"].axes[0].lines[0]
    assert best.get_ydata().tolist()[-1] == pytest.approx(100.0)


def test_new_solvers_are_told_apart() -> None:
    """Two of one plugin, also in grey, and in every panel alike."""
    made = [record(p, name, tolerance=tolerance) for p in ("table", "fan")
            for name in ("mine", "other", "newton") for tolerance in (1e-3, 1e-6)]  # fmt: skip
    (picture, *_) = report.pictures(Results.of(made))
    figure = picture.draw()
    drawn = [axes for axes in figure.axes if axes.lines]
    titles = [axes.get_title(loc="left") for axes in drawn]
    assert titles[-1].startswith("to a certificate")
    looks = [
        [(line.get_label(), line.get_color(), line.get_marker()) for line in axes.lines]
        for axes in drawn
    ]
    assert all(panel == looks[0] for panel in looks)
    mine, other, newton = looks[0]
    assert mine[0] == "mine"
    assert len({mine[1], other[1], newton[1]}) == len({mine[2], other[2], newton[2]}) == 3


def test_a_study_of_one_failure_has_a_page_without_pictures_and_further_tables(
    tmp_path: Path,
) -> None:
    path, out = tmp_path / "study.jsonl", tmp_path / "out"
    path.write_bytes(record("table", "osqp", "crash").line())
    more = Table("mine", "My <table>", "about", ("a",), ((1.5,),))
    text = report.write(path, out, more=[more]).read_text()
    assert "<figure" not in text
    assert not list(out.glob("*.svg"))
    assert "My &lt;table&gt;" in text
    assert (out / "mine.csv").read_text() == "a\n1.5\n"


def test_what_is_refused(tmp_path: Path, study: Results) -> None:
    with pytest.raises(cdopt.InvalidInput, match="study: "):
        report.write(Results.of([]), tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(cdopt.InvalidInput, match="a folder that can be written"):
        report.write(study, tmp_path / "file")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"no mark", "no mark"),
        (b"<!-- table: nothing --><!-- end -->", "nothing"),
        (b"<!-- table: success -->\nmine\n<!-- table: forces --><!-- end -->", "without an end"),
        (b"<!-- table: success --> \xff <!-- end -->", "decode"),
    ],
)
def test_marks_are_checked(tmp_path: Path, content: bytes, said: str) -> None:
    text = tmp_path / "text.md"
    text.write_bytes(content)
    with pytest.raises(cdopt.InvalidInput, match=said):
        report.write_into(text, Results.of([record("table", "osqp")]))
    assert text.read_bytes() == content


def test_the_rest_of_a_text_stays_as_it_is(tmp_path: Path) -> None:
    text = tmp_path / "windows.md"
    text.write_bytes(b"one\r\n<!-- table: success -->\r\nold\r\n<!-- end -->\r\ntwo\r\n")
    report.write_into(text, Results.of([record("table", "osqp")]))
    assert text.read_bytes().startswith(b"one\r\n<!-- table")
    assert text.read_bytes().endswith(b"<!-- end -->\r\ntwo\r\n")
    assert b"old" not in text.read_bytes()


def test_logarithmic_axes_of_less_than_a_decade_have_numbers() -> None:
    points = {"classic": {"newton": [(0.0118, 1e-14)], "clarabel": [(0.0507, 1e-10)]}}
    axis = report.accuracy_against_time(points).axes[0].xaxis
    low, high = axis.get_view_interval()
    shown = [label for label in axis.get_majorticklocs() if low <= label <= high]
    assert [axis.get_major_formatter()(x) for x in shown] == ["0.02", "0.05"]
