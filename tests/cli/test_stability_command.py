"""``cdopt stability``: verdicts, exit codes, errors in one line."""

from __future__ import annotations

from command_line import refuses, run, run_json

from cdopt._util.files import problems_folder

FOLDER = problems_folder() / "masonry"


def test_models_that_stand_and_that_do_not(tmp_path) -> None:
    stated = ("stability", FOLDER / "type-c.json", "--friction", 0.84, "--supports", "0,1")
    result = run(*stated, "--plot", tmp_path / "forces.svg")
    assert (tmp_path / "forces.svg").read_text().startswith("<?xml")
    assert result.exit_code == 0
    assert "The structure stands (" in result.stdout
    assert "-y" in result.stdout
    found = run_json(
        "stability", FOLDER / "H.json", "--friction", 0.84, "--supports", "0,1", code=1
    )
    assert found["verdict"] == "stands only if pressed beforehand"
    assert found["limits"]["+x"] is None


def test_refusals() -> None:
    refuses("supports", "stability", FOLDER / "H.json", "--friction", 0.84)
    refuses("friction", "stability", FOLDER / "H.json", "--supports", "0,1")
    refuses("no such file", "stability", FOLDER / "I.json", "--friction", 0.84)


def test_the_limit_load_of_a_block_model(tmp_path) -> None:
    """The command takes the interfaces of the file, whose blocks need not be convex."""
    stated = ("--friction", 0.84, "--supports", "0,1", "--live", "0,1,0")
    picture = tmp_path / "collapse.svg"
    result = run("limit", FOLDER / "type-c.json", *stated, "--plot", picture)
    assert result.exit_code == 0, result.stderr
    assert "BlockModel(type-c" in result.stdout
    assert picture.read_text().startswith("<?xml")
    concave = run_json("limit", FOLDER / "concave-short.json", *stated[:3], "0", *stated[4:])
    found = run_json("stability", FOLDER / "concave-short.json", *stated[:3], "0")
    assert concave["value"] == found["limits"]["+y"]
    refuses("friction", "limit", FOLDER / "type-c.json", *stated[2:])


def test_joints_with_a_strength_of_their_own() -> None:
    stated = ("--friction", 0.84, "--supports", "0,1", "--strength")
    path = FOLDER / "type-c.json"
    weak = run_json("stability", path, *stated, "compression=1e-3", code=1)
    assert weak["verdict"] == "falls"
    plain = run_json("limit", path, *stated[:-1], "--live", "0,1,0")["value"]
    glued = run_json("limit", path, *stated, "cohesion=1e3", "--live", "0,1,0")["value"]
    assert glued > plain
    refuses("--strength", "limit", path, *stated, "cohesion=much")
    refuses("--strength", "stability", path, *stated, "glue=1")
