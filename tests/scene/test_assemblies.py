"""Blocks from OBJ, STL and JSON: units, weights, what is fixed, and what is refused."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest
from command_line import run_json
from masonry_models import dome, write_obj

import cdopt

QUADS = ((0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3))
BOXES = {  # x, y and z from and to, m
    "base": ((-1, 1), (-1, 1), (-0.5, 0)),
    "one": ((-0.2, 0.2), (-0.3, 0.3), (0, 0.5)),
    "two": ((-0.2, 0.2), (-0.3, 0.3), (0.5, 1)),
}


def corners(name: str) -> np.ndarray:
    return np.array(
        [(x, y, z) for x in BOXES[name][0] for y in BOXES[name][1] for z in BOXES[name][2]]
    )


def obj(path: Path, quads: tuple = QUADS, scale: float = 1000.0) -> Path:
    """The boxes in mm."""
    lines, first = [], 1
    for name in BOXES:
        lines += [f"o {name}", *("v " + " ".join(map(str, scale * p)) for p in corners(name))]
        lines += ["f " + " ".join(f"{first + k}/1" for k in quad) for quad in quads]
        first += 8
    path.write_text("\n".join(lines))
    return path


def triangles_of(name: str) -> list[np.ndarray]:
    p = corners(name)
    return [p[[q[0], q[k], q[k + 1]]] for q in QUADS for k in (1, 2)]


def stl(path: Path) -> Path:
    """The same as three solids of triangles, in text."""
    lines = []
    for name in BOXES:
        lines.append(f"solid {name}")
        for triangle in triangles_of(name):
            lines += ["facet normal 0 0 0", "outer loop"]
            lines += ["vertex " + " ".join(map(str, p)) for p in triangle]
            lines += ["endloop", "endfacet"]
        lines.append(f"endsolid {name}")
    path.write_text("\n".join(lines))
    return path


def binary(path: Path, *names: str) -> Path:
    """Some of them as one binary mesh."""
    triangles = [triangle for name in names for triangle in triangles_of(name)]
    facets = b"".join(struct.pack("<12fH", 0, 0, 0, *t.ravel(), 0) for t in triangles)
    path.write_bytes(bytes(80) + struct.pack("<I", len(triangles)) + facets)
    return path


def test_a_stack_tips_at_its_slenderness_from_every_kind_of_file(tmp_path: Path) -> None:
    """Two blocks of 0.4 by 0.6 m, 1 m high together: they tip at b/h = 0.4, of any weight."""
    blocks = [{"name": n, "vertices": corners(n).tolist(), "fixed": n == "base"} for n in BOXES]
    listed = tmp_path / "stack.json"
    listed.write_text(json.dumps({"blocks": blocks, "density": 2000, "friction": 0.6}))
    mesh, solid = obj(tmp_path / "stack.obj"), stl(tmp_path / "stack.stl")
    scenes = [
        cdopt.scene.load(listed),
        cdopt.scene.load(f"{mesh}:unit=0.001,density=2000,friction=0.6,fixed=base"),
        cdopt.scene.load_assembly(solid, 2000.0, 0.6, fixed="base"),
    ]
    for scene in scenes:
        np.testing.assert_allclose(scene.bodies.mass[1:], 2000 * 0.4 * 0.6 * 0.5, rtol=1e-6)
        assert scene.bodies.fixed.tolist() == [True, False, False]
        limit = cdopt.limit_load(scene, [1, 0, 0])
        assert limit.ok
        assert limit.value == pytest.approx(0.4, abs=1e-6)
    parts = cdopt.scene.load_assembly(
        binary(tmp_path / "two.stl", "base", "one"), 2000.0, 0.6, fixed="two 0"
    )
    assert parts.bodies.names == ("two 0", "two 1")
    found = run_json("limit", f"{mesh}:unit=0.001,density=2000,friction=0.3,fixed=base")
    assert found["value"] == pytest.approx(0.3, abs=1e-8)  # it slides


def test_what_is_missing_or_not_convex_is_named(tmp_path: Path) -> None:
    mesh = obj(tmp_path / "stack.obj")
    for text, message in (
        (f"{mesh}:density=2000", "no fixed block"),
        (f"{mesh}:fixed=base", "density"),
        (f"{mesh}:density=2000,fixed=floor", "floor"),
        (f"{mesh}:colour=red", "colour"),
        (
            f"{obj(tmp_path / 'open.obj', QUADS[1:])}:fixed=base,density=1",
            "base: found face 1 has an edge without a neighbour",
        ),
        (str(binary(tmp_path / "touching.stl", "one", "two")), "common edges"),
        (str(tmp_path / "none.obj"), "none.obj"),
    ):
        with pytest.raises(cdopt.InvalidInput, match=message):
            cdopt.scene.load(text)
    bad = tmp_path / "bad.json"
    bad.write_text(json.dumps({"blocks": [{"vertices": [[0, 0], [1, 0], [0, 1], [0.1, 0.1]]}]}))
    with pytest.raises(cdopt.InvalidInput, match="density"):
        cdopt.scene.load(bad)
    with pytest.raises(cdopt.InvalidInput, match="inside the hull"):
        cdopt.scene.load(f"{bad}:density=1")


@pytest.mark.parametrize("digits", [4, pytest.param(15, marks=pytest.mark.slow)])
def test_lists_of_blocks_with_few_digits(tmp_path: Path, digits: int) -> None:
    """Corners alone, rounded: the same contacts and limit load as of the mesh."""
    model = dome(3, 8, 3.0, 0.5, 20.0)
    rounded = [
        {"name": name, "vertices": x.round(digits).tolist(), "fixed": name.startswith("fixed")}
        for name, x in model.items()
    ]
    path = tmp_path / "dome.json"
    path.write_text(json.dumps({"blocks": rounded, "density": 1.0, "friction": 0.6}))
    mesh = write_obj(tmp_path / "dome.obj", model, 9)
    exact = cdopt.limit_load(mesh, [1, 0, 0], friction=0.6)
    scene = cdopt.scene.load(path)
    assert ("corners moved by up to" in scene.title) == (digits == 4)
    found = cdopt.limit_load(scene, [1, 0, 0])
    assert found.step.nc == exact.step.nc == 192
    assert found.value == pytest.approx(exact.value, rel=1e-3)
