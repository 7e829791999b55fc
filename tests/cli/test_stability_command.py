"""``cdopt stability``: verdicts, exit codes, errors in one line."""

from __future__ import annotations

import dataclasses

import pytest
from command_line import refuses, run, run_json

import cdopt
from cdopt._util.files import problems_folder
from cdopt.cli.limit import in_words

FOLDER = problems_folder() / "masonry"


def test_models_that_stand_and_that_do_not(tmp_path) -> None:
    stated = ("stability", FOLDER / "type-c.json", "--friction", 0.84, "--supports", "0,1")
    result = run(*stated, "--plot", tmp_path / "forces.svg", "--view", "side")
    assert (tmp_path / "forces.svg").read_text().startswith("<?xml")
    assert result.exit_code == 0
    assert "The structure stands (" in result.stdout
    assert "-y" in result.stdout
    found = run_json(
        "stability", FOLDER / "H.json", "--friction", 0.84, "--supports", "0,1", code=1
    )
    assert found["verdict"] == "stands only if pressed beforehand"
    assert found["limits"]["+x"] is None


def test_supports_that_settle(tmp_path) -> None:
    picture = tmp_path / "cracks.svg"
    stated = ("stability", FOLDER / "type-c.json", "--friction", 0.84, "--supports", "0,1")
    result = run(*stated, "--settle", "0=0,0,-0.01", "--plot", picture)
    assert result.exit_code == 0, result.stderr
    assert "certified" in result.stdout
    assert picture.read_text().startswith("<?xml")
    assert run_json(*stated, "--settle", "0=0,0,-0.01")["ok"]
    refuses("settle", *stated, "--settle", "0=down")


def test_refusals() -> None:
    refuses("supports", "stability", FOLDER / "H.json", "--friction", 0.84)
    refuses("friction", "stability", FOLDER / "H.json", "--supports", "0,1")
    seen = ("--plot", "never.png", "--view", "above", "--supports", "0,1")
    refuses("view", "stability", FOLDER / "type-c.json", "--friction", 1, *seen)
    refuses("no such file", "stability", FOLDER / "I.json", "--friction", 0.84)


def test_the_limit_load_of_a_block_model(tmp_path) -> None:
    """The command takes the interfaces of the file, whose blocks need not be convex."""
    stated = ("--friction", 0.84, "--supports", "0,1", "--live", "0,1,0")
    picture = tmp_path / "collapse.svg"
    result = run("limit", FOLDER / "type-c.json", *stated, "--plot", picture)
    assert result.exit_code == 0, result.stderr
    assert "BlockModel(type-c" in result.stdout
    assert "live load: each body's weight along +y" in result.stdout
    assert picture.read_text().startswith("<?xml")
    concave = run_json("limit", FOLDER / "concave-short.json", *stated[:3], "0", *stated[4:])
    found = run_json("stability", FOLDER / "concave-short.json", *stated[:3], "0")
    assert concave["value"] == found["limits"]["+y"]
    refuses("friction", "limit", FOLDER / "type-c.json", *stated[2:])


@pytest.mark.parametrize(
    ("direction", "words"),
    [
        ([0.0, -1.0], "along -y"),
        ([0.0, 0.0, 2.5], "times 2.5 along +z"),
        ([1.0, 0.0, 0.5], "along 1,0,0.5"),
        ([0.0, 0.0], "along 0,0"),
    ],
)
def test_a_direction_in_words(direction: list[float], words: str) -> None:
    assert in_words(direction) == words


def test_joints_with_a_strength_of_their_own() -> None:
    stated = ("--friction", 0.84, "--supports", "0,1", "--strength")
    path, heavy = FOLDER / "type-c.json", ("--density", 1.0)
    weak = run_json("stability", path, *stated, "compression=1e-3", *heavy, code=1)
    assert weak["verdict"] == "falls"
    plain = run_json("limit", path, *stated[:-1], "--live", "0,1,0")["value"]
    glued = run_json("limit", path, *stated, "cohesion=1e3", *heavy, "--live", "0,1,0")["value"]
    assert glued > plain
    refuses("--strength", "limit", path, *stated, "cohesion=much")
    refuses("--strength", "stability", path, *stated, "glue=1")


def test_loads_in_newtons_need_a_density() -> None:
    path, stated = FOLDER / "type-c.json", ("--friction", 0.84, "--supports", "0,1")
    name = cdopt.scene.load_blocks(path, supports=[0, 1]).blocks[2].name
    live = ("--live", f"{name}=0,0,-1000")
    refuses("density", "limit", path, *stated, *live)
    refuses("density", "stability", path, *stated, "--strength", "compression=1e6")
    assert run("limit", path, *stated, *live, "--density", 2400).exit_code == 0
    for command in ("limit", "stability"):
        assert "density 1 kg/m³ assumed" in run(command, path, *stated).stdout
        assert "assumed" not in run(command, path, *stated, "--density", 1).stdout


def test_what_is_not_decided_has_a_reason_and_a_code(monkeypatch) -> None:
    found = cdopt.stability(FOLDER / "type-c.json", 0.84, supports=[0, 1], limits=False)
    open_ = dataclasses.replace(found, elastic=None)
    limit = cdopt.limit_load(f"{FOLDER / 'type-c.json'}:fixed=0+1", [1, 0, 0], friction=0.84)
    loose = dataclasses.replace(limit, tol=1e-300)
    rough = dataclasses.replace(found, limits={"+x": loose})
    lost = dataclasses.replace(found, unsolved=("-y",))
    stated = ("stability", FOLDER / "type-c.json", "--friction", 0.84)
    for shown, text in ((open_, "not decided: no elastic forces were certified"),
                        (rough, "NOT certified: the limit load +x (residual"),
                        (lost, "NOT certified: the limit load -y (the solver")):  # fmt: skip
        monkeypatch.setattr(cdopt, "stability", lambda *_, shown=shown, **__: shown)
        result = run(*stated)
        assert text in " ".join(result.stdout.split())
        assert result.exit_code == 3
