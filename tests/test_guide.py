"""The guide: its code runs and says what its text says; its build has no warning."""

from __future__ import annotations

import importlib
import itertools
import pkgutil
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import numpy as np
import pytest
import typer.main

import cdopt
from cdopt._util import archive, errors, files
from cdopt._util.files import problems_folder
from cdopt.cli.main import app
from cdopt.interop import hdf5, quadratic_programs
from cdopt.scene import assemblies, meshes
from cdopt.scene.files import _Contents
from cdopt.study import record
from cdopt.study.record import OUTCOMES

DOCS = Path(__file__).parents[1] / "docs"
BLOCK = re.compile(r"^```(?:python|\{code-cell\}[^\n]*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
OPTION = re.compile(r"^:[a-z]+:.*$", re.MULTILINE)
PASTED = re.compile(r"^:tags: \[remove-output\]\n.*?^```text\n(.*?)^```", re.DOTALL | re.MULTILINE)
SMALL = re.compile(r"\S*\de-\d\d\S*|\b0(\.0e\+00)?(?= )")  # round-off, not the same on all machines
PAGES = {page.stem: page for page in sorted(DOCS.glob("*.md")) if BLOCK.search(page.read_text())}

pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="the guide is not in this checkout")


def text(page: str) -> str:
    return (DOCS / f"{page}.md").read_text(encoding="utf-8")


@pytest.fixture
def said(
    request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
) -> tuple[str, dict[str, Any]]:  # fmt: skip
    """What the code of a page prints, in an empty folder, and the names it leaves."""
    monkeypatch.chdir(tmp_path)
    code = OPTION.sub("", "\n".join(BLOCK.findall(text(request.param))))
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(code, f"{request.param}.md", "exec"), names)
    printed = capsys.readouterr().out
    for output in PASTED.findall(text(request.param)):
        words, of_code = (SMALL.sub("", shown).split() for shown in (output, printed))
        assert words == of_code[: len(words)]  # the first block's
    return printed, names


def of(page: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("said", [page], indirect=True, ids=[page])


# --- pages whose text makes claims about what their code prints ------------------------

CHECKED = {
    "adding-a-backend", "audit", "certificates", "choose-formulation", "choose-solver", "comparing",
    "concepts", "cones", "explore", "friction", "friction-forces", "friction-in-time",
    "friction-solvers", "gradients", "grains", "joints", "limit_load", "masonry", "matrices",
    "measures", "notebooks", "quasicontinuum", "residuals", "scenes", "teaching", "trajectories",
    "which-law",
}  # fmt: skip


def test_every_page_with_code_has_a_test() -> None:
    assert set(PAGES) - {"commands"} == CHECKED


@of("concepts")
def test_concepts(said: Any) -> None:
    printed, _ = said
    assert "[[ 1.  -0.5]\n [ 1.   0. ]\n [ 1.   0.5]]" in printed
    assert "1 [[-0.5  1.  -0.5]]" in printed
    assert "middle: from 0 N to 10 N" in printed
    assert "[2. 6. 2.]" in printed


@of("audit")
def test_audit(said: Any) -> None:
    printed, names = said
    assert printed.startswith("Nothing is wrong with the forces")
    assert "An error of mechanics: on 1 body" in printed
    assert printed.rstrip().endswith("True")  # one answer, although forces differ
    assert names["verdict"].verdict == "error of mechanics"


@of("grains")
def test_grains(said: Any) -> None:
    printed, _ = said
    assert printed.startswith("ContactList(2 bodies, 3 contacts")
    assert "Nothing is wrong with the forces" in printed
    assert (
        "Quantity(pressure: [3.75, 3.75])" in printed
    )  # two floor contacts: 0.5 m · 30 N / 2 m² / 2
    assert "in the list 3.75" in printed


@of("masonry")
def test_masonry(said: Any) -> None:
    printed, names = said
    assert printed.startswith("The structure stands (")
    assert "The structure stands only if pressed beforehand (" in printed
    assert printed.rstrip().endswith("True")
    assert names["model"].contacts == 8
    right, left = (names["thrusts"].on_supports[f"{side} abutment"] for side in ("right", "left"))
    assert right[0] == pytest.approx(-left[0], rel=1e-6)
    assert right[0] > 0.0


@of("friction")
def test_friction(said: Any) -> None:
    printed, names = said
    assert "normal force [8.60908493] N, tangential [-3.44363397] N" in printed
    assert printed.count("ok: True") == 4 + 3  # backends of a pile, answers of a rod
    assert all(answer.ok for answer in names["answers"])
    largest = [answer.f.max() for answer in names["answers"]]
    assert max(largest) > 1.1 * min(largest)
    assert "associated rises by 293 mm\ncoulomb    rises by 0 mm" in printed
    assert names["pile"].friction.mu.tolist() == [0.5] * names["pile"].nc


@of("cones")
def test_cones(said: Any) -> None:
    printed, names = said
    assert "0.000000 m/s² (formula 0.000000), moment 0.3811 N·m" in printed
    assert "0.626418 m/s² (formula 0.626418)" in printed
    assert "DelassusStep(14 contacts, dt=1 s)" in printed
    assert "frictional step: ok" in printed
    f, y = names["cones"].project(names["y"]), names["y"]
    assert abs(f[1]) == pytest.approx(0.2 * f[0])
    assert f @ (f - y) == pytest.approx(0.0, abs=1e-15)


@of("joints")
def test_joints(said: Any) -> None:
    printed, names = said
    assert "supports [4.2857 5.7143 5.7143 4.2857] pin [0. 0.] True" in printed
    assert "2 joint rows, bound by 5 equations: 1 self-stress state" in printed
    assert "rank 5 nullity 2\neach  [  0. -inf -inf] [ 0. inf inf]" in printed
    assert "both  [-4.4444] [4.4444]" in printed
    off = [float(x) for x in re.findall(r"off by (\S+) N", printed)]
    assert off[0] / off[1] == pytest.approx(10.0, rel=0.1) == off[1] / off[2]
    assert "rigid step infeasible" in printed
    assert "[1. 1. 1.]" in printed
    assert np.abs(names["gap"]).max() < 1e-4


@of("gradients")
def test_gradients(said: Any) -> None:
    printed, names = said
    assert "not determined by the motion" in printed
    assert "constrain the same motion" in printed
    assert names["mu"] == pytest.approx(0.37, abs=1e-9)
    missed = [float(x) for x in re.findall(r"missed by (\S+) m", printed)]
    assert missed[0] > 0.01 > 1e-8 > missed[-1]
    truth = names["truth"] / names["truth"][0]
    np.testing.assert_allclose(names["k"], truth, atol=5 * names["noise"])
    assert "True Parametrised" in printed


@of("friction-forces")
def test_forces_with_friction(said: Any) -> None:
    printed, names = said
    assert "normal 930.9 to 1044.2 N" in printed
    spread = names["report"].width / np.sqrt(12.0)
    np.testing.assert_allclose(names["samples"].std, spread, rtol=0.1)  # of a segment
    assert printed.count("largest 0.") == 2  # with either micro-slip


@of("friction-in-time")
def test_friction_in_time(said: Any) -> None:
    stops, expected = map(float, re.search(r"after (\S+) m; v²/2μg = (\S+) m", said[0]).groups())
    assert stops == pytest.approx(expected, rel=0.01)


@of("friction-solvers")
def test_large_coefficients(said: Any) -> None:
    assert said[0].count("ok: True, f = [9.81], f_t = [-5000.]") == 4


@of("which-law")
def test_which_law(said: Any) -> None:
    printed, names = said
    assert "limit  [3.33333 1.66667 3.33333 1.66667] N" in printed
    errors = np.abs(names["sweep"].forces - names["sweep"].limit).max(axis=1)
    np.testing.assert_allclose(errors[1:-1] / errors[:-2], 0.1, rtol=0.1)


@of("limit_load")
def test_limit_load(said: Any) -> None:
    printed, names = said
    assert "bears 0.4 times the live load" in printed
    lines = [line.split() for line in printed.splitlines() if "corners open" in line]
    assert [line[2] for line in lines] == ["0.3:", "0.6:", "10:"]
    assert names["limit"].ok
    values = [float(line[3]) for line in lines]
    assert values == sorted(values)


@of("quasicontinuum")
def test_quasicontinuum(said: Any) -> None:
    printed, names = said
    errors = [float(x) for x in re.findall(r"error +([\d.]+) %", printed)]
    assert len(errors) == printed.count("certified: True") == 10
    assert errors[0] > 10.0 > 5.0 > errors[-1] > 0.0
    assert names["model"].P.shape[1] * 8 < np.count_nonzero(names["free"])


@of("residuals")
def test_the_definitions_are_what_the_code_does(said: Any) -> None:
    """Each residual of three answers, from the page's formulas and from certify."""
    lines = re.findall(r"^(\D+?) +([\d.]+) +formula +([\d.]+)$", said[0], re.MULTILINE)
    assert len(lines) == said[0].count("   formula ") >= 13
    for name, ours, formula in lines:
        assert float(ours) > 1e-3, f"{name} vanishes, and shows nothing"
        assert ours == formula, name


def test_the_definitions_name_every_residual() -> None:
    step = cdopt.bank.load("beam-uniform").step
    found = [
        *cdopt.ClassicCD(step).solve("newton").certificate,
        *cdopt.CompliantCD(step, kappa=1e6).solve("newton").certificate,
        *cdopt.CompatibleCD(step).solve("newton").certificate,
    ]
    for residual in found:
        assert f"| `{residual.name}` |" in text("residuals")


@of("choose-formulation")
def test_choose_formulation(said: Any) -> None:
    printed, names = said
    assert printed.count("worst residual") == 2
    away = [float(x) for x in re.findall(r"largest difference (\S+) N", printed)]
    for far, near in itertools.pairwise(away):
        assert far / near == pytest.approx(100.0, rel=0.1)
    assert names["capped"].solve("clarabel").f.max() < 4.0 + 1e-6


@of("choose-solver")
def test_choose_solver(said: Any) -> None:
    printed, names = said
    assert all(solution.ok for solution in names["result"])
    assert re.search(r"lcp +\[ 0\. 10\. +0\.\]", printed)
    assert "compatible [3.33 3.33 3.33]" in printed
    assert names["sharp"].certificate.worst < 1e-3 * names["rough"].certificate.worst


@of("certificates")
def test_certificates(said: Any) -> None:
    printed, names = said
    assert printed.startswith("Solved | True\nrigid step: ok at 1e-06")
    assert "classic | rigid step: ok" in printed
    assert "forces | truss: ok" in printed
    claimed = names["claimed"]
    assert claimed.claimed
    assert not claimed.ok
    for name in ("tension", "complementarity", "duality gap"):
        assert claimed.certificate[name] == 0.0
    assert claimed.certificate["penetration"] == pytest.approx(1.0)
    assert names["honest"].ok
    assert "rigid step infeasible" in printed
    assert "smallest entry: 1.0 | worst load: 0.0" in printed


@of("explore")
def test_explore(said: Any) -> None:
    assert "'leg" in said[0] or "support" in said[0]
    assert Path("table.html").read_text(encoding="utf-8").startswith("<!doctype html>")


@of("matrices")
def test_matrices(said: Any) -> None:
    printed, names = said
    assert "{'left': 2.0, 'middle': 6.0, 'right': 2.0}" in printed
    assert "phi: found an array of shape (2,)" in printed
    assert "[2. 6. 2.] None" in printed
    assert "2.0 N·m: [4. 6. 0.] N, anywhere in [4. 0. 0.] to [7. 6. 3.]" in printed
    assert printed.rstrip().endswith("[2. 6. 2.]")
    assert (names["step"].B.sum(), names["step"].nc) == (3.0, 3)


@of("scenes")
def test_scenes(said: Any) -> None:
    printed, names = said
    assert "Scene('plank': 4 bodies in 2D, 1 free, power 2)" in printed
    assert "plank.toml, line 20, bodies[0].mass: found -5.0" in printed
    assert names["step"].nc == 5
    for name in cdopt.scene.GENERATORS:
        assert re.search(rf"^{name} ", printed, re.MULTILINE)


@pytest.mark.slow
@of("trajectories")
def test_trajectories(said: Any) -> None:
    printed, names = said
    assert "Trajectory(compatible-cd: 21 frames, 20 steps to t=0.02 s, ok)" in printed
    assert "\nTrue\nlargest elastic energy" in printed
    assert names["hit"].diagnostics["elastic"].max() > 0.0
    assert re.search(r"[1-9]\d* self-stress states", printed)
    turning = names["turning"]  # of a box and a capsule that collide in space
    assert names["tumble"].diagnostics["elastic"].max() > 0.1
    assert abs(turning - turning[0]).max() < 1e-12 * np.linalg.norm(turning[0])
    assert names["flown"].diagnostics["met"].tolist() == [0.0, 0.0, 0.0, 1.0, 2.0]


@of("measures")
def test_measures(said: Any) -> None:
    printed, names = said
    assert "neighbours of a disc, mean: 4.711" in printed
    assert 0.1 < names["here"].summary()["mobilised"] < 1.0
    parts = [names["here"].stress(region=names[part])[1, 1] for part in ("bottom", "top")]
    assert parts[0] > parts[1] > 0.0
    assert sum(parts) / 2.0 == pytest.approx(names["here"].stress()[1, 1])
    assert names["table"]["coordination"].iloc[-1] > 4.0


@of("notebooks")
def test_notebooks(said: Any) -> None:
    _, names = said
    left, right = names["figure"].axes
    assert left.collections
    assert right.patches
    assert len(names["result"].to_frame()) == 4


def test_trajectories_names_every_method() -> None:
    for method in cdopt.dynamics.METHODS:
        assert f'| `"{method}"` |' in text("trajectories")


@of("comparing")
def test_comparing(said: Any) -> None:
    printed, names = said
    assert "the contact forces are not unique" in printed
    assert printed.rstrip().endswith("8 runs")
    assert names["result"].motion_spread < 1e-6 < 0.1 < names["result"].force_spread


def test_files_states_the_limits_of_the_code() -> None:
    told = text("files")
    for size in (files.TEXT, meshes._MESH, assemblies.LIST_SIZE, archive._ALWAYS, hdf5._ALWAYS,
                 quadratic_programs._LARGEST, record._LARGEST):  # fmt: skip
        assert f"{size // 2**20} MiB" in told
    for count in (files.NUMBERS, meshes._MOST, meshes._BLOCKS, assemblies._MOST,
                  record._DAMAGED, errors._QUOTED):  # fmt: skip
        assert f"{count:,}" in told
    assert archive._EXPANSION == hdf5._EXPANSION == 64
    for kind in files._SAVED:
        assert all(f"`{ending}`" in told for ending in kind.endings[:1]), kind


def test_comparing_names_every_outcome() -> None:
    for word in OUTCOMES:
        assert f"`{word}`" in text("comparing")


@of("adding-a-backend")
def test_adding_a_backend(said: Any) -> None:
    printed, names = said
    assert "by jacobi: ok" in printed
    assert re.search(r"^jacobi +solved +ok", printed, re.MULTILINE)
    assert "jacobi solves rigid step problems only" in printed
    sharper = names["factory"]()["jacobi"](1e-10)
    found = cdopt.ClassicCD(names["step"]).solve(sharper)
    assert found.certificate.worst < names["solution"].certificate.worst


@of("teaching")
def test_the_exercises_have_these_answers(said: Any) -> None:
    printed, names = said
    assert printed.startswith("nullity 2 | the new one: from 0.0 to 6.667 N")
    assert "nullity 1 | forces [10.  0.  0.] to [10.  0.  0.]" in printed
    assert printed.count("[2. 6. 2.] N") == 3
    assert "[ 0. 10.  0.] N, certified: True" in printed
    assert re.search(r"^sum +\[10\.0, 10\.0, 10\.0, 10\.0\]$", printed, re.MULTILINE)
    assert "nullity 1 | forces [ 0.  0. 10.  0.] to [ 0.  0. 10.  0.]" in printed
    assert (Path("crates.toml").exists(), Path("crates.npz").exists()) == (True, True)
    assert names["step"].nc == 20


def test_the_lecture_fills_two_hours() -> None:
    times = re.findall(r"^\| (\d+)–(\d+) \|", text("teaching").partition("## Part")[0], re.M)
    assert times[0][0] == "0"
    assert times[-1][1] == "120"
    assert all(one[1] == following[0] for one, following in itertools.pairwise(times))


# --- what stands in tables -------------------------------------------------------------


def test_every_key_of_a_scene_file_is_explained() -> None:
    page = text("scenes")
    tables = {
        "top": _Contents.__struct_fields__,
        "joints": cdopt.scene.Joint.__struct_fields__,
        "materials": cdopt.scene.Material.__struct_fields__,
        "bodies": cdopt.scene.Body.__struct_fields__,
        "spheres": cdopt.scene.Spheres.__struct_fields__,
        "parts": cdopt.scene.Part.__struct_fields__,
    }
    for table, keys in tables.items():
        assert not [key for key in keys if f"`{key}`" not in page], table
    for shape in cdopt.scene.SHAPES:
        (row,) = re.findall(rf'^\| `"{shape.kind}"` \|(.*)$', page, re.MULTILINE)
        assert all(f"`{field}`" in row for field in shape.__struct_fields__), shape.kind


def test_every_default_of_a_scene_is_stated() -> None:
    page = text("scenes")
    for field in msgspec.structs.fields(_Contents):
        if isinstance(field.default, float) and field.name != "damping":
            row = re.search(rf"^\| `{field.name}` \| (\S+) \|", page, re.MULTILINE)
            assert row, field.name
            assert float(row[1]) == field.default, field.name


def test_keys_of_the_scenes_that_ship_are_known() -> None:
    page = text("scenes")
    for path in problems_folder().glob("*.toml"):
        for key in re.findall(r"^(\w+) =", path.read_text(encoding="utf-8"), re.MULTILINE):
            assert f"`{key}`" in page, f"{path.name}: {key}"


def test_every_attribute_of_the_symbols_exists() -> None:
    step = cdopt.bank.load("beam-uniform").step
    solution = cdopt.ClassicCD(step).solve("newton")
    names = {"step": step, "solution": solution, "scene": cdopt.scene.beam()}
    found = re.findall(r"`(step|solution|scene)\.(\w+)`", text("symbols"))
    assert len(found) > 20
    for holder, attribute in found:
        assert hasattr(names[holder], attribute), f"{holder}.{attribute}"


@cache
def commands() -> dict[str, Any]:
    return typer.main.get_command(app).commands


@pytest.mark.parametrize("page", sorted(CHECKED | {"index", "symbols"}))
def test_every_command_and_option_exists(page: str) -> None:
    known = commands()
    blocks = re.findall(r"^```bash\n(.*?)^```", text(page), re.DOTALL | re.MULTILINE)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    for line in [*lines, *re.findall(r"`(cdopt [^`]*)`", text(page))]:
        _, command, *rest = line.split()
        options = {option for given in known[command].params for option in given.opts}
        assert {word for word in rest if word.startswith("--")} <= options, line


def test_every_room_with_public_names_has_a_page() -> None:
    rooms = {
        module.name
        for module in pkgutil.walk_packages(cdopt.__path__, "cdopt.")
        if hasattr(importlib.import_module(module.name), "__all__")
    }
    elsewhere = {  # documented with the rooms above them
        "cdopt.bank.manifests",
        "cdopt.dynamics.spheres.work",
        "cdopt.interop",
        "cdopt.scene.generators",
    }
    listed = (DOCS / "_ext" / "readable_docstrings.py").read_text(encoding="utf-8")
    assert [room for room in rooms - elsewhere if f'"{room}"' not in listed] == []


# --- the build -------------------------------------------------------------------------

LESSONS = sorted((DOCS.parent / "examples").glob("[0-9]*.py"))
RUN_BY_KERNEL = {"notebooks.md", "lessons/01_three_supports.ipynb"}
BUILD = """
import sys
from sphinx.application import Sphinx

source, out, *left_out = sys.argv[1:]
changes = {
    "nitpicky": True,
    "nb_execution_excludepatterns": left_out,
    "suppress_warnings": ["mystnb.mime_priority", "myst-nb.lexer"],  # known once a page has run
}
app = Sphinx(source, source, out, f"{out}/.doctrees", "html", changes, None, warningiserror=True)
app.build()
sys.exit(app.statuscode)
"""


@pytest.mark.slow
def test_the_guide_builds_without_a_warning_and_works_offline(tmp_path: Path) -> None:
    """Every page is built; one page and one lesson are run as notebooks.

    The code of all others is run by the tests above and by those of the lessons, in processes that
    need not start a kernel each.
    """
    for needed in ("sphinx", "furo", "myst_nb", "latex2mathml", "jupytext"):
        pytest.importorskip(needed, reason="the guide needs the extra 'docs'")
    cells = {*(f"{page}.md" for page in CHECKED), *(f"lessons/{x.stem}.ipynb" for x in LESSONS)}
    left_out = sorted(cells - RUN_BY_KERNEL)
    command = [sys.executable, "-c", BUILD, str(DOCS), str(tmp_path), *left_out]
    run = subprocess.run(command, capture_output=True, text=True, timeout=1500, check=False)
    assert run.returncode == 0, run.stderr[-4000:]
    pages = {
        str(page.relative_to(tmp_path)): page.read_text(encoding="utf-8")
        for page in tmp_path.rglob("*.html")
    }
    assert {"index.html", *(f"{page}.html" for page in CHECKED)} < set(pages)
    assert {f"lessons/{path.stem}.html" for path in LESSONS} < set(pages)
    lesson = pages["lessons/01_three_supports.html"]
    assert "<img" in lesson
    assert "The picture is in" in lesson
    assert "<img" in pages["notebooks.html"]
    assert pages["notebooks.html"].count("<table") == 3
    check_offline(tmp_path, pages)
    assert pages["residuals.html"].count("<math") > 40  # formulas are drawn by the browser
    assert "\\begin" not in pages["residuals.html"]
    assert "MathJax" not in pages["residuals.html"]
    html = "".join(html for page, html in pages.items() if page.startswith("api/"))
    last = {anchor.rpartition(".")[2] for anchor in re.findall(r'id="(cdopt\.[\w.]+)"', html)}
    modules = {name for name in cdopt.__all__ if isinstance(getattr(cdopt, name), ModuleType)}
    assert set(cdopt.__all__) - modules <= last


def check_offline(folder: Path, pages: dict[str, str]) -> None:
    """Nothing is fetched from elsewhere, and the search knows the words of the field."""
    for page, html in pages.items():
        for tag in re.findall(r"<(?:script|link|img|iframe|source|object)\b[^>]*>", html):
            assert not re.search(r'(?:src|href|data)="(?:https?:)?//', tag), f"{page}: {tag}"
    for sheet in folder.rglob("*.css"):
        style = sheet.read_text(encoding="utf-8")
        assert not re.search(r"(?:url\(\s*['\"]?|@import\s+['\"])(?:https?:)?//", style), sheet.name
    index = (folder / "searchindex.js").read_text(encoding="utf-8").lower()
    for word in ("hyperstatic", "gauss", "seidel", "hertz", "jupyter", "pandas", "stress"):
        assert re.search(rf'"?\b{word[:7]}\w*"?:', index), word
