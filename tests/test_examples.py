"""The lessons: their numbers, the answers to their questions, their pictures and notebooks."""

from __future__ import annotations

import importlib.util
import itertools
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from lessons import EXAMPLES, LESSONS, PNG, check_picture, drawn, lesson, ran, what_if

import cdopt

NAMES = [path.stem for path in LESSONS]


def imported(path: Path) -> ModuleType:
    """A file of the folder as a module, by its path."""
    spec = importlib.util.spec_from_file_location(f"lesson_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def near(found: Any, expected: Any, tol: float = 1e-6) -> None:
    np.testing.assert_allclose(found, expected, atol=tol)


# --- 1: three supports -----------------------------------------------------------------


def test_three_supports() -> None:
    it = lesson(1)
    assert it.report.nullity == 1
    near(it.report.lower, [0, 0, 0])
    near(it.report.upper, [5, 10, 5])
    near(it.compatible.f, [10 / 3] * 3)
    near(it.springs, [10 / 3] * 3)
    assert it.f.value == pytest.approx([10 / 3] * 3, abs=1e-4)  # by CVXPY alone
    balanced = [name for name, f in it.candidates.items() if it.balances(f)]
    assert len(balanced) == 4
    pattern = it.report.self_stress.toarray()[0]
    near(pattern / pattern[1], [-0.5, 1, -0.5])


SUPPORTS = '{"left": -0.5, "middle": 0.0, "right": 0.5}'


MOVED = {
    "two": ('{"left": -0.5, "right": 0.5}', 0, [5, 5], [5, 5]),
    "four": ('{"l": -0.5, "m": 0.0, "n": 0.25, "r": 0.5}', 2, [0] * 4, [5, 10, 20 / 3, 5]),
    "moved": ('{"left": -0.5, "middle": 0.25, "right": 0.5}', 1, [10 / 3, 0, 0], [5, 20 / 3, 5]),
    "all on one": ('{"left": 0.0, "middle": 0.25, "right": 0.5}', 1, [10, 0, 0], [10, 0, 0]),
}


@pytest.mark.parametrize("case", MOVED)
def test_three_supports_what_if(case: str) -> None:
    instead, nullity, lower, upper = MOVED[case]
    names = what_if(1, SUPPORTS, instead)
    assert names["report"].nullity == nullity
    near(names["report"].lower, lower)
    near(names["report"].upper, upper)
    if case == "all on one":
        assert names["springs"].min() < -1.0  # a spring that pulls


# --- 2: the order of Gauss–Seidel ------------------------------------------------------


def test_order_of_gauss_seidel() -> None:
    it = lesson(2)
    middle_visited = {0: [0, 10, 0], 1: [5 / 3, 20 / 3, 5 / 3], 2: [10 / 3] * 3}
    for order, answer in it.by_order.items():
        assert answer.ok
        assert np.abs(answer.v_next).max() < 1e-9
        near(answer.f, middle_visited[order.index(1)])
        near(it.sweeps(order)[-1], answer.f)  # the lesson's ten lines and cdopt agree
        assert not np.any(it.report.outside(answer.f) > 1e-6)
    near(it.others["apgd"].f, [10 / 3] * 3)
    near(it.others["lcp"].f, [0, 10, 0])
    assert all(answer.ok for answer in it.others.values())


@pytest.mark.slow
def test_order_of_gauss_seidel_what_if() -> None:
    longer = what_if(2, "LENGTH = 1.0", "LENGTH = 2.0")
    near(longer["by_order"][0, 2, 1].f, [5, 0, 5])
    near(longer["by_order"][0, 1, 2].f, [8 / 3, 14 / 3, 8 / 3])
    near(longer["report"].upper, [5, 10, 5])
    halfway = what_if(2, "PGS(order=order)", "PGS(order=order, relaxation=0.5)")
    near(halfway["by_order"][1, 0, 2].f, [10 / 9, 70 / 9, 10 / 9])
    held = what_if(2, "START = None", 'START = cdopt.ClassicCD(beam).solve("lcp")')
    for answer in held["by_order"].values():
        near(answer.f, [0, 10, 0])


# --- 3: a table on four legs -----------------------------------------------------------


def test_table_on_four_legs() -> None:
    it = lesson(3)
    near(it.report.lower, [0] * 4)
    near(it.report.upper, [5] * 4)
    stated = {
        "weight in the middle": (1, [2.5] * 4),
        "weight off centre": (1, [1, 3, 4, 2]),
        "a soft leg, back left": (1, [3, 2, 3, 2]),
        "a short leg, back right": (0, [0, 5, 0, 5]),
        "a stool on three legs": (0, [10 / 3] * 3),
    }
    assert list(it.cases) == list(stated)
    for name, (nullity, forces) in stated.items():
        assert it.reports[name].nullity == nullity
        near(it.forces[name], forces)
        assert it.reports[name].unique.all() == (nullity == 0)
    near(it.reports["weight off centre"].width, [3] * 4)
    for soft in ("weight in the middle", "a soft leg, back left"):
        near(it.reports[soft].upper, [5] * 4)


@pytest.mark.slow
def test_table_on_four_legs_what_if() -> None:
    out = what_if(3, "loaded_at(0.2, 0.1)", "loaded_at(0.3, 0.3)")
    near(out["forces"]["weight off centre"], [0, 2, 6, 2])
    near(out["reports"]["weight off centre"].upper, [2, 2, 8, 2])
    above = what_if(3, "loaded_at(0.2, 0.1)", "loaded_at(0.5, 0.5)")["reports"]["weight off centre"]
    assert above.nullity == 1
    assert above.unique.all()
    near(above.force, [0, 0, 10, 0])
    hair = what_if(3, "short = 1e-3", "short = 1e-6")
    near(hair["forces"]["a short leg, back right"], [0, 5, 0, 5])
    soft = what_if(3, ": stool,", ": stool.replace(stiffness=[1.0, 1.0, 0.1]),")
    near(soft["forces"]["a stool on three legs"], [10 / 3] * 3)


# --- 4: mixed stiffness ----------------------------------------------------------------


@pytest.mark.slow
def test_mixed_stiffness() -> None:
    it = drawn(4)
    near(it.forces, [2, 6, 2])
    near(it.swept[:, 1], 10 * it.ratios / (2 + it.ratios), 1e-5)
    near(it.swept[0], [5, 0, 5], 1e-3)
    near(it.swept[-1], [0, 10, 0], 3e-3)
    near(it.without_middle.force, [5, 5])
    near(it.only_middle.force, [10])
    assert it.without_middle.nullity == it.only_middle.nullity == 0
    near(it.hooke_forces, [4 / 3, 10 / 3, 16 / 3])
    near(it.hertz_forces, [1.4049, 3.1902, 5.4049], 1e-4)
    near(it.free.lower, [0, 0, 4])
    near(it.free.upper, [3, 6, 7])


@pytest.mark.slow
def test_mixed_stiffness_what_if() -> None:
    stiffness = "stiffness = [1.0, 3.0, 1.0]"
    left = what_if(4, stiffness, "stiffness = [3.0, 1.0, 1.0]", "HERTZ = 2.5", "HERTZ = 10.0")
    near(left["forces"], [3.75, 2.5, 3.75])
    stiffer = what_if(4, stiffness, "stiffness = [1e3, 3e3, 1e3]", "HERTZ = 2.5", "HERTZ = 1.5")
    near(stiffer["forces"], [2, 6, 2])
    assert left["hertz_forces"][1] < 3.1902 < 10 / 3 < stiffer["hertz_forces"][1]
    far = what_if(4, "load_place = 0.2", "load_place = 0.4")
    near(far["hooke_forces"], [0, 2, 8])
    near(far["hertz_forces"], [0, 2, 8])


# --- 5: six solvers, six answers -------------------------------------------------------


@pytest.mark.slow
def test_six_solvers_six_answers() -> None:
    it = drawn(5)
    assert len(it.result) == len(it.result.certified) == 6
    assert it.result.motion_spread < 1e-6
    near(it.floor, 30, 1e-5)
    assert it.report.nullity == 70
    assert not it.report.unique.any()
    assert not it.report.failures
    assert it.report.upper.max() == pytest.approx(9 / np.sqrt(2))  # 6.36 N
    near(it.report.lower, 0)
    assert it.result.compatible.f.max() == pytest.approx(1.0446, abs=1e-3)
    for answer in it.result:
        assert it.report.outside(answer.f).max() < 1e-5
    assert it.spread.max() > 1.0  # N
    for one, other in itertools.combinations(it.answers, 2):
        assert np.abs(one - other).max() > 1e-3  # N: six answers
    assert it.chosen.minimum_norm is not None
    near(it.chosen.minimum_norm.f, it.result.compatible.f, 1e-5)  # equal springs
    rows = {row.label: row for row in it.chosen.rows()}
    assert rows["clarabel"].to_analytic_centre < 0.02
    assert rows["lcp"].at_lower >= 70  # a corner: at most as many forces as equations
    solvers = [rows[name] for name in it.result.labels]
    assert min(solvers, key=lambda row: row.to_compatible).label == "apgd"


@pytest.mark.slow
def test_six_solvers_six_answers_what_if() -> None:
    two = what_if(5, "n = 5  #", "n = 2  #")
    assert two["report"].nullity == 1
    species = what_if(5, "generators.pyramid(n)", 'generators.pyramid(n, "species")')
    near(species["answers"], ran(5).names.answers, 1e-9)  # solvers do not see stiffness
    far = np.abs(species["result"].compatible.f - species["chosen"].minimum_norm.f).max()
    assert far > 0.1  # N


# --- 6: your own matrices --------------------------------------------------------------


def test_your_own_matrices() -> None:
    it = lesson(6)
    assert it.error < 1e-9
    assert it.classic.ok
    assert it.report.nullity == 1
    assert it.report.rank == 5
    near(it.report.lower, [0, 0, 0, 5, 5, 5])
    near(it.report.upper, [10, 20, 10, 15, 25, 15])
    near(it.compatible.f, [20 / 3] * 3 + [35 / 3] * 3)
    assert all(answer.ok for answer in it.answers)
    assert it.slipped.ok  # a wrong problem, rightly solved
    near(it.slipped.f, [0, 20, 0, 5, 25, 5])
    assert np.abs(it.wrong_B - it.measured(it.q)).max() == pytest.approx(1.0)


@pytest.mark.slow
def test_your_own_matrices_what_if() -> None:
    thin = what_if(6, "[0.10, 0.10, 0.10]", "[0.10, 0.0995, 0.10]")
    assert thin["report"].nullity == 0
    assert thin["touching"] == 5
    near(thin["compatible"].f, [10, 0, 10, 15, 5, 15])
    stiff = what_if(6, "log_stiffness = [1.0, 1.0, 1.0]", "log_stiffness = [1.0, 3.0, 1.0]")
    near(stiff["compatible"].f, [3, 14, 3, 8, 19, 8])
    loaded = what_if(6, "20.0, 5.0, 0.0  # N", "20.0, 5.0, 10.0  # N")
    near(loaded["report"].lower, [0, 0, 6, 5, 5, 11])
    closer = what_if(6, "np.array([-0.5, 0.0, 0.5])", "np.array([-0.5, 0.0, 0.25])")
    assert closer["error"] < 1e-9
    near(closer["report"].upper[:3], [20 / 3, 20, 40 / 3])


# --- 7: the cannonball pyramid ---------------------------------------------------------


@pytest.mark.slow
def test_cannonball_pyramid() -> None:
    it = drawn(7)
    assert all(run.ok for run in it.runs.values())
    assert it.apart < 1e-8 * it.scene.bodies.reach[0]  # one motion
    assert it.deepest < 1e-6 * it.scene.bodies.reach[0]
    assert it.speeds[7] == it.speeds.max()
    assert it.speeds[10] < 1e-6 * it.speeds.max()
    for table in it.floors.values():
        near(table.sum(), 55)
    near(it.largest["compatible"], 1.277647)
    assert 1.28 < it.largest["APGD"] < 1.4
    assert it.largest["PGS"] > 1.15 * it.largest["compatible"]  # its value is its order's
    assert 0.005 < it.off["APGD"] < it.off["PGS"] < 0.1
    assert it.lopsided(it.floors["PGS"]) > 0.1
    assert it.lopsided(it.floors["APGD"]) < 1e-6
    assert it.lopsided(it.exact) < 1e-9
    assert it.forgotten < 1e-6


@pytest.mark.slow
def test_cannonball_pyramid_what_if() -> None:
    larger = what_if(7, "n = 6  #", "n = 10  #")
    near(larger["exact"].sum(), 285)
    near(larger["largest"]["compatible"], 2.1637, 1e-4)
    for name in ("PGS", "APGD"):
        assert larger["off"][name] > 0.01
        assert larger["largest"][name] > larger["largest"]["compatible"]
    slower = what_if(7, "dt, duration = 1e-3, 0.02", "dt, duration = 2e-3, 0.02")
    near(slower["largest"]["compatible"], 1.277647)
    higher = what_if(7, "lift = 0.05", "lift = 0.5", "1e-3, 0.02", "1e-3, 0.06")
    near(higher["largest"]["compatible"], 1.277647)
    assert higher["forgotten"] < 1e-6


# --- 8: Hooke against Hertz ------------------------------------------------------------


@pytest.mark.slow
def test_hooke_against_hertz() -> None:
    it = drawn(8)
    near(it.hooke.f.max() / it.ball, 1.277647)
    near(it.hertz.f.max() / it.ball, 1.307842)
    near(it.swept, [1.1797, 1.2026, 1.2776, 1.3078, 1.3367, 1.3544], 1e-4)
    near(it.apart, 0.048, 1e-3)
    assert it.motion == 0.0
    assert it.sums < 1e-9
    near(it.feet[0], it.feet[1], 1e-9)
    assert it.unmoved < 1e-8
    near(it.mixed["Hooke"].f.max() / it.ball, 1.88807, 1e-5)
    near(it.mixed["Hertz"].f.max() / it.ball, 1.80590, 1e-5)
    assert 0.02 < it.between < 0.03
    assert it.change == pytest.approx(0.296, abs=1e-3)  # of Hertz, the last line
    assert it.change > 10 * it.between


@pytest.mark.slow
def test_hooke_against_hertz_what_if() -> None:
    steep = what_if(8, "law = HERTZ  #", "law = 10.0  #")
    near(steep["hertz"].f.max() / steep["ball"], 1.3544, 1e-4)
    assert steep["change"] < ran(8).names.change  # a milder contrast still
    strong = what_if(8, '"species")[0]', '"species", modulus_ratio=100.0)[0]')
    assert 1.9 < strong["mixed"]["Hooke"].f.max() / strong["ball"] < 3.0
    small = what_if(8, "n, HOOKE, HERTZ = 6,", "n, HOOKE, HERTZ = 2,")
    near(small["hertz"].f, small["hooke"].f, 1e-12)  # four equal legs under one ball


# --- 9: random packings hide it --------------------------------------------------------


@pytest.mark.slow
def test_random_packings_hide_it() -> None:
    it = drawn(9)
    found = {name: (r.closed_count, r.rank, r.nullity) for name, r in it.reports.items()}
    assert found == {
        "random heap": (80, 80, 0),
        "crystal": (123, 90, 33),
        "equal to 0.01": (90, 90, 0),
        "equal to 1e-05": (90, 90, 0),
    }
    assert it.reports["random heap"].unique.all()
    assert not it.reports["crystal"].unique[it.reports["crystal"].closed].any()
    assert it.differ > 10.0
    near(it.curves["equal to 1e-05"][-1], 33 / 123)
    assert it.curves["equal to 1e-05"][0] == 0.0
    assert max(it.curves["random heap"]) < 0.1


@pytest.mark.slow
def test_random_packings_hide_it_what_if() -> None:
    it = ran(9).names
    larger = it.count("larger", it.at_rest(cdopt.scene.crystal(10, 12), 1e-3, 5e-3))
    assert larger.nullity / larger.closed_count > 33 / 123
    equal = cdopt.scene.random_packing(40, dim=2, across=6, spread=0.0)
    fallen = it.count("equal discs", it.at_rest(equal))
    assert 0 < fallen.nullity < 10  # falling at random is nearly, not quite, enough
    finer = it.at_rest(it.disordered(1e-9), 1e-3, 0.1)
    assert it.free_numbers(finer, 1e-9) == pytest.approx(33 / 123)


# --- every lesson ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "number",
    [pytest.param(k, marks=[pytest.mark.slow] * (k not in (1, 6))) for k in (1, 2, 3, 6, 18, 19)],
)
def test_it_runs_in_an_empty_folder_and_draws_its_picture(number: int) -> None:
    """Those of the other lessons are checked with their numbers."""
    check_picture(number)


@pytest.mark.slow
def test_a_lesson_is_a_script_of_its_own(tmp_path: Path) -> None:
    """In a fresh process, where no warning is let pass."""
    run = subprocess.run(
        [sys.executable, "-W", "error", str(LESSONS[1])],
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        timeout=600,
    )
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    assert run.stdout == ran(1).said
    (picture,) = tmp_path.iterdir()
    assert picture.name == f"{NAMES[1]}.png"
    assert picture.read_bytes()[:8] == PNG


@pytest.mark.parametrize("path", LESSONS, ids=NAMES)
def test_it_reads_as_prose(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    assert max(map(len, lines)) <= 100
    assert lines[0] == "# %% [markdown]"
    assert lines[1].startswith("# # ")
    assert "# ## What happens if…" in lines
    cells = [cell for cell in re.split(r"^# %%", text, flags=re.MULTILINE) if cell.strip()]
    prose = sum(len(cell.split()) for cell in cells if cell.startswith(" [markdown]"))
    assert 300 < prose < 1100, "ten minutes at 150 words a minute, code included"
    code = [cell for cell in cells if not cell.startswith(" [markdown]")]
    assert max(len(cell.splitlines()) for cell in code if "def draw" not in cell) <= 30
    assert f"({path.name})" in (EXAMPLES / "README.md").read_text(encoding="utf-8")


def test_the_lessons_follow_one_another() -> None:
    for path, following in itertools.pairwise(LESSONS):
        assert f"Next: `{following.name}`" in path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def notebooks() -> dict[str, Any]:
    """All lessons as notebooks, written and read again."""
    pytest.importorskip("jupytext", reason="notebooks need the extra 'lessons'")
    import nbformat

    make = imported(EXAMPLES / "make_notebooks.py").notebook
    return {p.stem: nbformat.reads(nbformat.writes(make(p)), as_version=4) for p in LESSONS}


def code_of(notebook: Any) -> list[str]:
    return [cell.source for cell in notebook.cells if cell.cell_type == "code"]


def test_lessons_become_valid_notebooks(notebooks: dict[str, Any]) -> None:
    import nbformat

    for name, notebook in notebooks.items():
        nbformat.validate(notebook)
        assert notebook.cells[0].cell_type == "markdown"
        assert notebook.cells[-1].source.endswith(f'Image("{name}.png", width=800)')


def test_a_notebook_runs_cell_by_cell(notebooks: dict[str, Any]) -> None:
    names: dict[str, Any] = {"__name__": "notebook"}
    for cell in code_of(notebooks[NAMES[1]])[:-1]:
        exec(compile(cell, NAMES[1], "exec"), names)
    near(names["compatible"].f, [10 / 3] * 3)


@pytest.mark.slow
def test_a_notebook_finds_the_experiments_from_anywhere(
    notebooks: dict[str, Any], tmp_path: Path
) -> None:
    first, second = code_of(notebooks[NAMES[11]])[:2]
    code = f"{first}\n{second}\nprint(loading.press)"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)


def test_notebooks_are_written_where_asked(tmp_path: Path) -> None:
    pytest.importorskip("jupytext", reason="notebooks need the extra 'lessons'")
    imported(EXAMPLES / "make_notebooks.py").main(str(tmp_path / "made"))
    made = sorted(file.stem for file in (tmp_path / "made").iterdir())
    assert made == NAMES


# --- 15: the ladder --------------------------------------------------------------------


@pytest.mark.slow
def test_ladder() -> None:
    it = drawn(15)
    assert it.limit == pytest.approx(it.by_hand, abs=0.01)  # of a ladder without thickness
    assert it.limit == pytest.approx(it.thick, abs=2e-4)
    assert all(answer.ok for answer in it.answers.values())
    foot = {name: answer.f[0] for name, answer in it.answers.items()}
    assert foot["clarabel"] > 1.02 * foot["newton"]
    assert it.heights["a smooth wall"] < it.limit < it.heights["a rough wall"] < 0.85
    assert it.heights["a rough floor"] == it.heights["70° steep"] == 1.0
    assert it.highest(climber=40.0) > it.limit > it.highest(climber=160.0)


# --- 17: the grasp ---------------------------------------------------------------------


@pytest.mark.slow
def test_grasp() -> None:
    """μ = 0.5, 10 N a finger, 30 mm: friction of 5 N a finger, and its moments."""
    it = drawn(17)
    near([it.heaviest[2], it.heaviest[3]], [10.0, 15.0])
    near([it.twists[2, axis] for axis in "xyz"], [0.0, 0.3, 0.3])
    near([it.twists[3, axis] for axis in "xyz"], [0.15 * np.sqrt(3.0), 0.225, 0.45])
    assert [r.dimension for r in it.reports.values()] == [0, 1, 0, 3]
    near([it.reports[n, True].lower[0] for n in (2, 3)], [6.0, 4.0])
    assert it.reports[2, True].unbounded.all()


# --- 18: the arch ----------------------------------------------------------------------


def test_arch() -> None:
    it = lesson(18)
    assert it.report.nullity == 11 + 3
    near([it.thrusts["least"], it.thrusts["greatest"]], it.by_hand, 1e-4)
    near(it.thrusts["elastic"], 2169.659, 1e-2)  # N
    for name in ("newton", "nsgs", "clarabel", "elastic"):
        assert it.by_hand[0] < it.thrusts[name] < it.by_hand[1]
    for line in it.lines.values():  # between the inner and the outer corners
        radii = np.linalg.norm(line, axis=1)
        assert it.INNER - 1e-6 < radii.min() < radii.max() < it.OUTER + 1e-6
    assert it.thin == {0.106: False, 0.109: True}  # Milankovitch: 0.1075
    assert it.loaded.value == pytest.approx(it.multiple, rel=1e-7)


@pytest.mark.slow
def test_arch_what_if() -> None:
    smoother = what_if(18, "MU = 2000.0, 0.7", "MU = 2000.0, 0.3")
    assert smoother["loaded"].value == pytest.approx(3.6755, abs=1e-4)
    assert np.abs(smoother["loaded"].rates[:, 1]).max() > 1e-3  # it slides
    thicker = what_if(18, "OUTER, ANGLE, STONES = 1.0, 1.15", "OUTER, ANGLE, STONES = 1.0, 1.3")
    near([thicker["thrusts"]["least"], thicker["thrusts"]["greatest"]], thicker["by_hand"], 1e-3)
    assert thicker["loaded"].value == pytest.approx(thicker["multiple"], rel=1e-7)
    crown = what_if(18, "stone = 2  #", "stone = 4  #")
    assert crown["loaded"].value == pytest.approx(crown["multiple"], rel=1e-7)
    assert crown["loaded"].value > 1.5 * lesson(18).loaded.value


# --- 19: four legs with friction -------------------------------------------------------


def test_four_legs_with_friction() -> None:
    it = lesson(19)
    assert (it.smooth.nullity, it.rough.nullity, it.rough.dimension) == (1, 6, 6)
    near(it.rough.upper_t[:, 0], 2.5 * (np.sqrt(3.0) - 1.0), 1e-5)
    near(np.stack([it.report.lower, it.report.upper], 1), it.by_hand, 1e-5)
    for answer in it.answers.values():
        assert answer.ok
        assert it.report.outside(answer.f, answer.f_t).max() < 1e-6
    near(it.limit.value, 5.0)
    assert [report.dimension for report in it.reports] == [6] * 5 + [1]
    for push, forces in zip(it.pushes, it.elastic, strict=False):
        back = min(push / 4, it.MU * (2.5 - push * it.HEIGHT / 2))  # by hand
        near(forces, [-back, back - push / 2])
    near(it.shares["all soft"], [[-0.5, 0.0]] * 4)
    near(it.shares["all stiff"], [[-0.5, 0.0]] * 4)
    rubber = it.shares["one rubber"][:, 0]
    near([rubber.sum(), rubber[2]], [-2.0, rubber[0] / 10])


@pytest.mark.slow
def test_four_legs_with_friction_what_if() -> None:
    rougher = what_if(19, "0.8, 0.5  # N", "0.8, 0.7  # N")
    near(rougher["limit"].value, 6.25)  # it tips
    lower = what_if(19, "HEIGHT, MU = 10.0, 0.8", "HEIGHT, MU = 10.0, 0.2")
    near(lower["slip_push"], 25 / 6)
    stool = what_if(19, '    "back left": (-0.5, 0.5),\n', "")
    assert (stool["smooth"].nullity, stool["rough"].nullity) == (0, 3)


# --- 20: a table with a bolted leg -----------------------------------------------------


def test_bolted_leg() -> None:
    """By hand: forces 2.5 + 10 (x x_i + y y_i) ± s on both diagonals, −8.5 ≤ s ≤ 2.5."""
    it = lesson(20)
    assert it.tips.v_next[0] > 1e-3
    assert (it.report.nullity, it.fake.nullity, it.safe.nullity) == (1, 2, 2)
    near([it.report.joints.lower[0], it.report.joints.upper[0]], [-12.0, -1.0])
    near(it.report.upper, [11.0] * 3)
    assert np.isinf(it.fake.upper[:2]).all()
    assert np.isinf(it.safe.joints.upper).all()
    near([it.both.lower[0], it.both.upper[0]], [-12.0, -1.0])
    near(it.pulls[2], -3.5)
    near(it.pulls[-1], -14.0 / 3.0)
    k = it.stiffness[:-1]  # by hand: least Σ f² of three legs and f²/k of the bolt
    near(it.pulls[:-1], -3.5 - (7.0 - 7.0 / k) / (6.0 + 2.0 / k))
    assert np.all(np.diff(it.pulls) < 0.0)


def test_bolted_leg_what_if() -> None:
    edge = what_if(20, "x = y = 0.6  # m", "x = y = 0.5  # m")
    near(edge["report"].joints.upper, [0.0])
    middle = what_if(20, "x = y = 0.6  # m", "x = y = 0.0  # m")
    near(middle["report"].joints.lower, [0.0])
    near(middle["report"].joints.upper, [5.0])


# --- 21: a wheel on a slope ------------------------------------------------------------


def test_wheel_on_a_slope() -> None:
    """A disc holds up to tan θ = μ_r/r, and starts with 2/3 g (sin θ − μ_r/r cos θ) beyond."""
    it = lesson(21)
    near(it.free.v_next[0] / it.dt, 2.0 / 3.0 * it.g * np.sin(it.slope))
    assert abs(it.held.v_next[0]) < 1e-12
    near(it.held.f_r[0, 0], it.held.f_t[0, 0] * it.r)
    near(it.accelerations, it.by_hand)
    assert np.count_nonzero(np.abs(it.accelerations) > 1e-9) == 14  # beyond tan θ = 0.03
    near(it.power, it.mu_r * it.rolling.spin[0, 0] * it.m * it.g)
    near(0.5 / it.brake, it.energy / (it.mu_r / it.r * it.m * it.g))


def test_wheel_on_a_slope_what_if() -> None:
    ice = what_if(21, "cdopt.Friction(0.8, ", "cdopt.Friction(0.01, ")
    assert ice["held"].v_next[0] > 1e-6  # it slides, and does not turn
    assert abs(ice["held"].spin[0, 0]) < 1e-9
    large = what_if(21, "r, m, g = 0.3, 10.0, 9.81", "r, m, g = 0.6, 10.0, 9.81")
    assert large["held"].v_next[0] > 1e-6
    heavy = what_if(21, "r, m, g = 0.3, 10.0, 9.81", "r, m, g = 0.3, 20.0, 9.81")
    near(heavy["accelerations"], heavy["by_hand"])
