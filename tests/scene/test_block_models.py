"""Block models: mass properties, shared faces, files of COMPAS, what is refused and repaired."""

from __future__ import annotations

import json

import numpy as np
import pytest
from masonry_models import BOX, box, dome, leaning_wall, write_obj

import cdopt
from cdopt._util.files import problems_folder
from cdopt.geometry.blocks import Block, shared_faces
from cdopt.scene import BlockModel, load_blocks
from cdopt.scene.meshes import last_digit

L_SHAPE = [(0, 0), (2, 0), (2, 1), (1, 1), (1, 2), (0, 2)]


def prism(outline, low: float, high: float) -> tuple[np.ndarray, list[list[int]]]:
    """A prism of a polygon in x, y, whose ends are not convex."""
    n = len(outline)
    x = np.array([(*p, z) for z in (low, high) for p in outline], dtype=float)
    sides = [[k, (k + 1) % n, n + (k + 1) % n, n + k] for k in range(n)]
    return x, [list(range(n))[::-1], list(range(n, 2 * n)), *sides]


def test_mass_properties_of_a_box_and_of_an_l() -> None:
    block = Block.of("box", box((1, 2, 3), (3, 3, 3.5)), BOX, 1e-9)
    assert block.volume == pytest.approx(1.0)
    np.testing.assert_allclose(block.centre, [2.0, 2.5, 3.25])
    moments = [(1 + 0.25) / 12, (4 + 0.25) / 12, (4 + 1) / 12]
    np.testing.assert_allclose(block.inertia, np.diag(moments), atol=1e-12)
    corner = Block.of("L", *prism(L_SHAPE, 0.0, 1.0), 1e-9)
    assert corner.volume == pytest.approx(3.0)
    np.testing.assert_allclose(corner.centre, [5 / 6, 5 / 6, 0.5])
    inward = Block.of("box", box((0, 0, 0), (1, 1, 1)), [f[::-1] for f in BOX], 1e-9)
    assert inward.volume == pytest.approx(1.0)


def test_shared_faces_of_blocks_that_are_not_convex() -> None:
    """An L on an L turned about: they share what both have, also in part."""
    lower = Block.of("lower", *prism(L_SHAPE, 0.0, 1.0), 1e-9)
    upper = Block.of("upper", *prism([(x + 0.5, y) for x, y in L_SHAPE], 1.0, 2.0), 1e-9)
    (face,) = shared_faces([lower, upper], 1e-9)
    np.testing.assert_allclose(face.normal, [0, 0, 1], atol=1e-12)
    corners = {tuple(p) for p in face.points.round(9).tolist()}
    assert corners == {(0.5, 0, 1), (2, 0, 1), (2, 1, 1), (1, 2, 1), (0.5, 2, 1)}
    aside = Block.of("aside", *prism([(x + 2.5, y) for x, y in L_SHAPE], 1.0, 2.0), 1e-9)
    assert shared_faces([lower, aside], 1e-9) == []
    above = Block.of("above", box((0, 0, 1 + 1e-6), (1, 1, 2)), BOX, 1e-9)
    assert shared_faces([lower, above], 1e-9) == []
    assert len(shared_faces([lower, above], 1e-5)) == 1


def test_an_l_that_hooks_another_has_two_interfaces() -> None:
    hook = Block.of("hook", *prism(L_SHAPE, 0.0, 1.0), 1e-9)
    inside = Block.of("inside", box((1, 1, 0), (2, 2, 1)), BOX, 1e-9)
    normals = sorted(face.normal.round(9).tolist() for face in shared_faces([hook, inside], 1e-9))
    assert normals == [[0, 1, 0], [1, 0, 0]]


def test_stated_interfaces_are_those_that_lie_on_each_other() -> None:
    """The files of compas_cra with interfaces: found ones give the same wrenches."""
    path = problems_folder() / "masonry" / "concave-short.json"
    stated = load_blocks(path, supports=0)
    content = json.loads(path.read_text())
    for others in content["data"]["graph"]["data"]["edge"].values():
        others.clear()
    found = load_blocks_of(content, path.name)
    assert stated.stated
    assert not found.stated
    assert stated.contacts == found.contacts
    for push in (np.eye(6)[0], -np.eye(6)[2]):
        live = np.array([0.0, 0.1, 0.0, 0.0, 0.0, 0.1]) + push
        loads = [cdopt.limit_load(m.step(0.3), live).value for m in (stated, found)]
        assert loads[0] == pytest.approx(loads[1], rel=1e-5)


def load_blocks_of(content, name: str):
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / name
        place.write_text(json.dumps(content))
        return load_blocks(place, supports=0)


@pytest.fixture(scope="module")
def fine(tmp_path_factory) -> BlockModel:
    """A dome by 15 digits."""
    return load_blocks(write_obj(tmp_path_factory.mktemp("dome") / "dome.obj", dome(3, 8), 15))


def test_what_is_repaired_is_reported(tmp_path, fine) -> None:
    coarse = load_blocks(write_obj(tmp_path / "dome.obj", dome(3, 8), 4))
    assert "corners were moved by up to" in coarse.repairs[0]
    assert 1e-5 < coarse.moved < 1e-4  # half a unit of the last digit along each axis
    assert coarse.tol == pytest.approx(4e-4)
    assert max(block.unevenness.max() for block in coarse.blocks) < 1e-11
    assert not fine.repairs
    assert coarse.contacts == fine.contacts


def test_what_cannot_be_read_is_named(tmp_path) -> None:
    path = write_obj(tmp_path / "wall.obj", leaning_wall(0.01, 2), 9)
    text = path.read_text()
    path.write_text(text.replace("v 0.010000000 0.000000000 1.000000000",
                                 "v 0.010000000 0.000000000 1.070000000"))  # fmt: skip
    with pytest.raises(cdopt.InvalidInput, match=r"block 1: found face \d is 0\.0\d+ m off"):
        load_blocks(path)
    path.write_text("\n".join(text.splitlines()[:-1]))
    with pytest.raises(cdopt.InvalidInput, match="without a neighbour"):
        load_blocks(path)
    path.write_text(text.replace("o fixed", "o base"))
    with pytest.raises(cdopt.InvalidInput, match="supports"):
        load_blocks(path)
    assert load_blocks(path, supports="base").fixed.tolist() == [True, False, False]
    path = tmp_path / "odd.json"
    for odd in ("{", '{"vertex": {"0": {"x": 1}}, "face": {"0": [0]}}', "[1, 2]", '{"node": {}}'):
        path.write_text(odd)
        with pytest.raises(cdopt.InvalidInput):
            load_blocks(path, supports=0)


def test_a_corner_on_an_edge_of_another_face_is_no_hole() -> None:
    """A box whose top has a corner in the middle of an edge, which the side next to it has not."""
    x = np.vstack([box((0, 0, 0), (1, 1, 1)), [[0.5, 0.0, 1.0]]])
    faces = [list(face) for face in BOX]
    top = next(face for face in faces if all(x[k, 2] == 1.0 for k in face))
    first = next(k for k in range(4) if x[top[k - 1], 1] == x[top[k], 1] == 0.0)
    top.insert(first, 8)
    block = Block.of("box", x, faces, 1e-9)
    assert block.volume == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("texts", "unit"),
    [
        (["0.0000", "-12.3456", "3.1000"], 1e-4),
        (["12.5", "3.1416", "0.25"], 1e-4),  # zeros left out
        (["12.3457", "3.14159", "0.0271828"], 1e-4),  # six significant digits
        (["1.23457e+01", "2.71828e-02"], 1e-4),
        (["1000", "250", "-3"], 1.0),
        ([repr(x) for x in (np.pi, 10 * np.e, 1 / 30)], 1e-14),
    ],
)
def test_the_last_digit_of_numbers_as_they_are_written(texts, unit) -> None:
    assert last_digit(texts) == pytest.approx(unit, rel=1e-9)


def test_levelled_blocks_are_flat_and_meet(tmp_path, fine) -> None:
    """Corners move by no more than digits are off, to where all faces are flat and shared."""
    coarse = load_blocks(write_obj(tmp_path / "coarse.obj", dome(3, 8), 3))
    assert coarse.moved < 1e-3
    for one, other in zip(fine.blocks, coarse.blocks, strict=True):
        assert other.unevenness.max() < 1e-11
        np.testing.assert_allclose(one.vertices, other.vertices, atol=2e-3)
    faces = shared_faces(coarse.blocks, 1e-10)
    assert len(faces) == len(shared_faces(fine.blocks, 1e-8)) == 3 * 8 + 8 * 3 + 8


def test_blocks_that_are_not_convex_make_no_scene(tmp_path) -> None:
    """The message names the block, the face and how far off; limit loads take the file itself."""
    lower, upper = prism(L_SHAPE, 0.0, 1.0), box((0, 0, 1), (1, 1, 2))
    text, first = [], 1
    for name, (x, faces) in {"fixed L": lower, "block": (upper, BOX)}.items():
        text.append(f"o {name}")
        text += ["v " + " ".join(map(str, p)) for p in x]
        text += ["f " + " ".join(str(first + k) for k in face) for face in faces]
        first += len(x)
    path = tmp_path / "hook.obj"
    path.write_text("\n".join(text))
    with pytest.raises(cdopt.InvalidInput, match=r"fixed L: found corners 1 m in front of face \d"):
        cdopt.scene.load(f"{path}:density=1")
    assert cdopt.limit_load(path, [1, 0, 0], friction=0.3).value == pytest.approx(0.3, abs=1e-8)
    stated = cdopt.limit_load(f"{path}:friction=0.3,density=1", {"block": [0, 1, 0]})
    assert stated.value == pytest.approx(0.3 * 9.81, abs=1e-6)


def test_a_message_tells_how_many_blocks_it_leaves_out(tmp_path) -> None:
    tower = {f"b{k}": box((0, 0, k), (1, 1, k + 1)) for k in range(23)}
    with pytest.raises(cdopt.InvalidInput, match=r"some of: b0, b1, .*, b19 and 3 more$"):
        load_blocks(write_obj(tmp_path / "tower.obj", tower, 4))


def test_two_blocks_fall_and_one_falls(tmp_path) -> None:
    """Blocks on a ledge whose centres are beyond its edge."""
    for n, text in ((1, "b0 falls."), (2, "b0, b1 fall.")):
        over = {f"b{k}": box((0.9, 3 * k, 0), (2, 3 * k + 1, 1)) for k in range(n)}
        model = {"fixed": box((-1, -1, -1), (1, 9, 0)), **over}
        path = write_obj(tmp_path / f"{n}.obj", model, 4)
        assert text in cdopt.stability(path, friction=0.5, limits=False).summary
