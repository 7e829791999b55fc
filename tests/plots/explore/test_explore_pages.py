"""Pages to explore: what they hold, and that they work in a browser, offline, at any slider."""

from __future__ import annotations

import functools
import itertools
import json
import math

import numpy as np
import pytest
from browser import browser
from chromium import evaluate, needs_browser
from command_line import refuses, run

import cdopt
from cdopt._util.errors import InvalidInput
from cdopt.dynamics.simulate import at_rest
from cdopt.hyperstatic import indeterminacy
from cdopt.plots import explore
from cdopt.plots.explore import page

SCENES = ("beam", "table", "table-six-legs", "pyramid:n=3", "crystal:rows=3,columns=4", "arch")
PROBLEMS = ("beam-uniform", "table", "tripod", "fan", "crystal-2d:rows=2,columns=3",
            "supports-delassus")  # fmt: skip


@functools.cache
def exploration(name: str) -> explore.Exploration:
    """Of a scene; of a bank problem if the name begins with "bank/"."""
    if name.startswith("bank/"):
        return explore.of_problem(cdopt.open_problem(name.removeprefix("bank/")))
    return explore.of_scene(cdopt.scene.load(name))


EVERY = [*SCENES, *(f"bank/{name}" for name in PROBLEMS)]
QUICK = ("beam", "bank/fan", "bank/supports-delassus")
QUICK_AND_SLOW = [
    pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in EVERY
]


@pytest.fixture(scope="module")
def view(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


def visit(view, folder, posed, width=1280, height=900) -> dict:
    """Open a page; returns its results."""
    path = folder / "page.html"
    explore.save_page(posed, path)
    view.open(path, width, height)
    view.until("document.body && document.body.dataset.shown")
    return evaluate(view, "cdopt.found")


def move(view, **state) -> dict:
    """Change the state by the address, as a copied link does; returns the page's results."""
    lists = {name: ",".join(map(str, np.atleast_1d(value))) for name, value in state.items()}
    query = "&".join(f"{name}={values}" for name, values in lists.items())
    before = view.run("document.body.dataset.shown")
    view.run(f"window.location.hash = {json.dumps('#' + query)}; 0")
    view.until(f"document.body.dataset.shown !== {json.dumps(before)}")
    return evaluate(view, "cdopt.found")


def rest(posed: explore.Exploration, load) -> cdopt.ContactStep:
    """Unit masses at rest under a load."""
    nc, nv = posed.B.shape
    return cdopt.ContactStep(np.eye(nv), posed.B, np.zeros(nc), np.zeros(nv), -load, 1e-3)


def swept_by_cdopt(posed: explore.Exploration, load, order) -> np.ndarray:
    """What the backend pgs gives on the same Delassus matrix."""
    N = posed.response @ posed.B.T
    step = cdopt.ContactStep.from_delassus(0.5 * (N + N.T), -posed.response @ load, 1e-3)
    backend = cdopt.backends.PGS(order=order, accuracy=1e-12)
    return cdopt.ClassicCD(step).solve(backend).f


# --- what is posed ----------------------------------------------------------------------


def test_the_beam_is_posed_at_rest_with_a_weight_that_moves() -> None:
    posed = exploration("beam")
    assert posed.names == ("left", "middle", "right")
    assert posed.load.kind == "weight"
    assert posed.load.start == (10.0, 0.5)
    np.testing.assert_allclose(posed.stiffness, [1.0, 3.0, 1.0])
    forces = cdopt.NoTensionTruss(posed.B, posed.load.at((10.0, 0.5)), posed.stiffness).solve()
    np.testing.assert_allclose(forces.f, [2.0, 6.0, 2.0], atol=1e-6)
    edge = cdopt.NoTensionTruss(posed.B, posed.load.at((20.0, 1.0)), posed.stiffness).solve()
    np.testing.assert_allclose(edge.f, [0.0, 0.0, 20.0], atol=1e-4)


def test_the_load_at_the_start_is_that_of_the_scene() -> None:
    for name in ("pyramid:n=3", "arch"):
        posed, scene = exploration(name), cdopt.scene.load(name)
        assert posed.load.kind == "gravity"
        weight = -cdopt.collision.applied_loads(scene)
        np.testing.assert_allclose(posed.load.at(posed.load.start), weight, atol=1e-12)
    beside = exploration("arch").load.at((2.0, 90.0))  # gravity to the right
    np.testing.assert_allclose(beside[1::3], 0.0, atol=1e-9)
    total = 2.0 * 9.81 * cdopt.scene.load("arch").bodies.mass[1:-1].sum()
    assert beside[0::3].sum() == pytest.approx(-total)


def test_a_bank_table_takes_its_load_anywhere() -> None:
    posed = exploration("bank/table")
    forces = cdopt.NoTensionTruss(posed.B, posed.load.at((8.0, 0.5, -0.5))).solve("newton").f
    np.testing.assert_allclose(forces, [0.0, 8.0, 0.0, 0.0], atol=1e-6)


def test_own_matrices_are_drawn_and_stiffness_stays_as_stated() -> None:
    """A disc in a groove with a block on it, known by matrices, points, normals and bodies."""
    n, r = np.array([[0.6, 0.8], [-0.6, 0.8], [0.0, 1.0]]), 0.1
    x = np.array([-r * n[0], -r * n[1], [0.0, r]])
    B = np.zeros((3, 4))
    B[:2, :2], B[2, :2], B[2, 2:] = n[:2], -n[2], n[2]
    step = cdopt.ContactStep(
        np.eye(4), B, np.zeros(3), np.zeros(4), [0.0, -9.81, 0.0, -9.81], 1e-3,
        stiffness=[1e3, 3e3, 2e3], points=x, normals=n, bodies=[[-1, 0], [-1, 0], [0, 1]],
        dof_body=[0, 0, 1, 1],
    )  # fmt: skip
    posed = explore.of_step(step)
    np.testing.assert_array_equal(posed.stiffness, [1e3, 3e3, 2e3])
    disc, block = posed.picture["shapes"]
    np.testing.assert_allclose(disc["centre"], 0.0, atol=1e-12)
    assert disc["radius"] == pytest.approx(r)
    assert min(y for _, y in block["outline"]) == pytest.approx(r)
    assert [contact["inside"] for contact in posed.picture["contacts"]] == [False, False, True]
    without = explore.of_step(step.replace(bodies=None, dof_body=None))
    assert without.picture["shapes"] == []  # which contacts belong to a body is not known


@pytest.mark.parametrize("name", ["brick_wall:courses=2,bricks=2", "pyramid:n=2", "box-stack:n=2"])
def test_bodies_of_steps_without_their_scene(name: str) -> None:
    """Every contact point is on the surface of the drawn bodies it belongs to."""
    scene = cdopt.scene.load(name)
    posed = at_rest(scene)[1]
    shapes = explore.of_step(posed).picture["shapes"]
    assert len(shapes) == len(np.unique(posed.bodies[posed.bodies >= 0]))
    assert sum(not shape["fixed"] for shape in shapes) == (~scene.bodies.fixed).sum()
    for shape in shapes:
        if "radius" in shape:
            far = np.linalg.norm(posed.points - shape["centre"], axis=1)
            assert far.min() == pytest.approx(shape["radius"])


def test_open_contacts_stay_out() -> None:
    assert explore.of_problem(cdopt.open_problem("beam-middle-open")).names == ("left", "right")


@pytest.mark.slow
def test_scenes_that_no_page_can_show_are_refused() -> None:
    for name, message in (("bouncing-ball", "comes to rest"), ("bonded-pair", "bonds")):
        with pytest.raises(InvalidInput, match=message):
            explore.of_scene(cdopt.scene.load(name))
    with pytest.raises(InvalidInput, match=r"power: found 4; expected 1\.2 to 3"):
        explore.of_step(cdopt.bank.load("beam-uniform").step, 4.0)
    with pytest.raises(InvalidInput, match="no closed contacts"):
        explore.of_problem(cdopt.open_problem("zero-contacts"))


def test_a_page_stands_alone() -> None:
    posed = exploration("beam")
    text = page(type(posed)(**{**vars(posed), "title": "<script>alert(1)</script>[SCRIPT]"}))
    assert "<script>alert" not in text
    assert "src=" not in text
    assert "@import" not in text
    assert text.count("http") == 1  # the name of SVG's name space


def test_pages_are_html_files_in_folders_that_exist(tmp_path) -> None:
    with pytest.raises(InvalidInput, match=r"\.html"):
        explore.check_page(tmp_path / "page.htm")
    with pytest.raises(InvalidInput, match="no folder"):
        explore.check_page(tmp_path / "none" / "page.html")
    with pytest.raises(InvalidInput, match="a path"):
        explore.check_page(3)


# --- the command ------------------------------------------------------------------------


def test_the_command_writes_a_page(tmp_path) -> None:
    step = tmp_path / "step.npz"
    cdopt.bank.load("beam-uniform").step.save(step)
    for name in ("tripod", step):
        target = tmp_path / "page.html"
        result = run("explore", name, "--out", target)
        assert result.exit_code == 0, result.output
        assert "3 contacts" in result.output
        assert target.read_text().startswith("<!doctype html>")


def test_the_command_refuses_in_one_line(tmp_path) -> None:
    refuses("at most 100;", "explore", "pyramid-5", "--out", tmp_path / "a.html")
    refuses("150 bodies that move; expected at most 100", "explore", "silo")
    refuses("no contact in silo:n=12", "explore", "silo:n=12", "--out", tmp_path / "a.html")
    refuses(".html", "explore", "beam", "--out", tmp_path / "a.png")
    refuses("did you mean 'beam'", "explore", "baem", "--out", tmp_path / "a.html")


# --- in a browser -----------------------------------------------------------------------


@needs_browser
@pytest.mark.parametrize("name", QUICK_AND_SLOW)
def test_a_page_finds_what_cdopt_finds(view, tmp_path, name) -> None:
    """At the start, and with other stiffness, load, power and order."""
    posed = exploration(name)
    rng = np.random.default_rng(len(name))
    nc = len(posed.names)
    visit(view, tmp_path, posed)
    load = np.array(posed.load.start)
    load[0] *= 1.5
    if posed.load.kind == "weight":
        load[1:] += 0.1 * (np.array(posed.load.high[1:]) - load[1:])
    k = np.log10(posed.stiffness) + rng.uniform(-1.0, 1.0, nc)
    moved = {"k": k, "load": load, "p": 2.5, "order": rng.permutation(nc)}
    start = {"k": np.log10(posed.stiffness), "load": posed.load.start, "p": posed.power,
             "order": np.arange(nc)}  # fmt: skip
    for state in (start, {key: np.round(value, 6) for key, value in moved.items()}):
        result = move(view, **state)
        F = posed.load.at(state["load"])
        assert result["feasible"]
        relative = 10.0 ** (state["k"] - state["k"].mean())
        truss = cdopt.NoTensionTruss(posed.B, F, relative, float(state["p"]))
        known = truss.solve("newton")
        assert known.ok
        close = {"rtol": 0.0, "atol": 1e-6 * known.f.max()}
        np.testing.assert_allclose(result["f"], known.f, **close)
        report = indeterminacy(rest(posed, F))
        assert (result["rank"], result["nullity"]) == (report.rank, report.nullity)
        np.testing.assert_allclose(result["known"]["lower"], report.lower, **close)
        np.testing.assert_allclose(result["known"]["upper"], report.upper, **close)
        assert result["swept"]["met"]
        pgs = swept_by_cdopt(posed, F, state["order"].astype(int))
        np.testing.assert_allclose(result["swept"]["f"], pgs, **close)


@needs_browser
@pytest.mark.parametrize("name", QUICK_AND_SLOW)
def test_no_slider_leads_to_something_that_is_no_number(view, tmp_path, name) -> None:
    posed = exploration(name)
    nc = len(posed.names)
    visit(view, tmp_path, posed)
    ends = [np.full(nc, -3.0), np.full(nc, 3.0), np.where(np.arange(nc) % 2, 3.0, -3.0)]
    loads = list(itertools.product(*zip(posed.load.low, posed.load.high, strict=True)))
    states = ((ends[0], 1.2), (ends[2], 3.0), (ends[2], 1.2), (ends[1], 3.0))
    for n, load in enumerate([*loads, posed.load.start]):
        for k, power in states[2 * (n % 2) :][:2]:
            result = move(view, k=k, load=load, p=power, order=np.arange(nc)[::-1], start=1.0)
            text = view.run("document.body.innerText")
            assert not any(word in text for word in ("NaN", "undefined", "Infinity"))
            assert "NaN" not in view.run("document.querySelector('main').innerHTML")
            if not result["feasible"]:
                assert "No admissible forces" in text
                continue
            lists = (result["f"], result["least"], result["swept"]["f"], result["known"]["lower"])
            assert all(math.isfinite(x) and x >= 0.0 for values in lists for x in values)
            assert result["residual"] < 1e-6


@needs_browser
def test_a_page_answers_to_the_mouse_and_keys(view, tmp_path) -> None:
    """Sliders, buttons, keys, the address; no error and no request."""
    view.said.clear()
    view.asked.clear()
    first = visit(view, tmp_path, exploration("beam"))
    np.testing.assert_allclose(first["f"], [2.0, 6.0, 2.0], atol=1e-7)
    shown = "document.querySelector('#contacts strong').textContent"
    assert view.run(shown) == "2 N"
    view.run(
        "(() => { const s = document.getElementById('load1'); s.value = 0.25;"
        " s.dispatchEvent(new Event('input')); })()"
    )
    view.until(f"{shown} !== '2 N'")
    assert evaluate(view, "cdopt.state.load") == [10.0, 0.25]
    view.run("document.getElementById('reset').click()")
    view.until(f"{shown} === '2 N'")
    view.run("document.querySelectorAll('#contacts li')[1].querySelector('button').click()")
    view.until("document.getElementById('order').value === 'middle'")
    assert evaluate(view, "cdopt.state.order") == [1, 0, 2]
    np.testing.assert_allclose(evaluate(view, "cdopt.found.swept.f"), [0.0, 10.0, 0.0], atol=1e-9)
    address = view.run("window.location.hash")
    assert "order=1,0,2" in address
    for _ in range(2):
        _press(view, "Tab")
    assert view.run("document.activeElement.id") in ("load0", "load1")
    before = view.run("JSON.stringify(cdopt.state.load)")
    _press(view, "ArrowRight")
    view.until(f"JSON.stringify(cdopt.state.load) !== {json.dumps(before)}")
    reached = set()
    for _ in range(40):
        _press(view, "Tab")
        reached.add(view.run("document.activeElement.id || document.activeElement.ariaLabel"))
    expected = {"power", "hooke", "hertz", "order", "start", "k0", "k2", "reset", "link"}
    assert expected | {"visit left later", "visit right earlier"} <= reached
    move(view, load=[20.0, 1.05])
    view.until("document.getElementById('summary').textContent.includes('tips the platform')")
    assert view.silent


@needs_browser
def test_gauss_seidel_goes_visit_by_visit_and_loads_and_views_are_dragged(view, tmp_path) -> None:
    visit(view, tmp_path, exploration("bank/beam-uniform"))
    B, W, load = (
        np.array(evaluate(view, what)) for what in ("CDOPT.B", "CDOPT.response", "[10, 0]")
    )
    f, N, p = np.zeros(3), W @ B.T, -W @ load
    forces = []
    for i in range(3):
        f[i] = max(0.0, f[i] - (p[i] + N[i] @ f) / N[i, i])
        forces.append(f.copy())
    for count, expected in enumerate(forces, 1):
        view.run("document.getElementById('visit').click()")
        view.until(f"cdopt.state.visits === {count} && cdopt.found.swept.done === {count}")
        np.testing.assert_allclose(evaluate(view, "cdopt.found.swept.f"), expected, atol=1e-9)
    assert "Visit 3, to right" in view.run("document.getElementById('visited').textContent")
    _drag(view, ".grip", 40)
    view.until("cdopt.state.load[1] > 0.01")
    move(view, load=[10.0, 0.6])
    assert not evaluate(view, "cdopt.found.feasible")
    left, right = view.run(
        "(() => { const p = [...document.querySelector('svg .free').points];"
        " p.sort((a, b) => a.x - b.x);"
        " return [p[0].y, p[3].y]; })()"
    )
    assert right - left > 0.05  # it tips to the right, and its three supports stay
    assert view.run("document.querySelectorAll('svg .fixed').length") == 3
    visit(view, tmp_path, exploration("table"))
    _drag(view, "svg .free", 50)
    view.until("cdopt.state.angles[0] < 34")
    assert evaluate(view, "cdopt.state.load") == list(exploration("table").load.start)


@needs_browser
@pytest.mark.parametrize(
    "name",
    ["beam", *(pytest.param(x, marks=pytest.mark.slow) for x in ("bank/fan", "table-six-legs"))],
)
def test_pages_fit_wide_and_narrow_windows(view, tmp_path, name: str) -> None:
    for width, height in ((1280, 900), (400, 800)):
        visit(view, tmp_path, exploration(name), width, height)
        assert view.run("document.documentElement.scrollWidth") <= width
        for kinds, fault in (
            ("button, select, input", "e.getBoundingClientRect().height < 24"),
            ("input, select", "!e.labels.length && !e.ariaLabel"),
        ):
            faults = f"[...document.querySelectorAll('{kinds}')].filter((e) => {fault}).length"
            assert view.run(faults) == 0
        drawn = view.run("document.querySelectorAll('#picture .force').length")
        assert (drawn > 0) == (name != "bank/fan")


def _drag(view, selector: str, by: float) -> None:
    x, y = view.run(
        f"(() => {{ const r = document.querySelector('{selector}').getBoundingClientRect();"
        " return [r.x + r.width / 2, r.y + r.height / 2]; })()"
    )
    for kind, at in (("mousePressed", x), ("mouseMoved", x + by), ("mouseReleased", x + by)):
        view.call("Input.dispatchMouseEvent", type=kind, x=at, y=y, button="left", buttons=1,
                  clickCount=1)  # fmt: skip


def _press(view, key: str) -> None:
    code = {"Tab": 9, "ArrowRight": 39}[key]
    for kind in ("rawKeyDown", "keyUp"):
        view.call(
            "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code
        )
