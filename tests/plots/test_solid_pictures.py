"""Pictures and pages of boxes, capsules, polygons, polyhedra and compounds: where all is drawn."""

from __future__ import annotations

import base64
import io
import json
import re
import zlib

import numpy as np
import pytest
import shapes
from browser import PROGRAM, browser
from pictures import by_gid, legible
from shapes import ran

import cdopt
from cdopt._util import documents
from cdopt.collision import detect
from cdopt.collision import step as contact_step
from cdopt.dynamics.records import in_space
from cdopt.geometry.rotations import matrices
from cdopt.plots import force_chains, page, run_overview, save_surfaces
from cdopt.plots.bodies import AROUND, Camera, Solids, contact_segments, painted
from cdopt.plots.page import run_page, save_page
from cdopt.scene import Body, Box, Capsule, Compound, Scene, Sphere

FACETS = np.sin(2.0 * np.pi / AROUND) / (2.0 * np.pi / AROUND)  # of a circle's area, inscribed


def drawn(scene: Scene) -> Solids:
    return Solids.of(scene, scene.initial.position)


# --- meshes ----------------------------------------------------------------------------


@pytest.mark.parametrize("make", [shapes.flat, shapes.solid, shapes.stack])
def test_meshes_hold_as_much_as_their_bodies(make) -> None:
    """In place, in the plane plates of some depth. What is round holds a little less."""
    scene = make()
    solids = drawn(scene)
    corners = solids.placed(scene.initial)[solids.triangles]
    owner = solids.owner[solids.triangles[:, 0]]
    found = np.bincount(owner, np.linalg.det(corners) / 6.0, minlength=scene.nb)
    depth = 2.0 * solids.thick if scene.dim == 2 else 1.0
    for body in solids.others:
        shape = scene.bodies.shape(body)
        volume = depth * shape.measures(scene.dim).volume
        if isinstance(shape, Capsule | Compound):
            assert FACETS**2 * volume < found[body] < volume
        else:
            assert found[body] == pytest.approx(volume, rel=1e-9)
    bounded = set(np.flatnonzero(np.isfinite(scene.bodies.reach)))
    assert set(solids.others) == bounded - set(solids.balls)


@pytest.mark.parametrize("make", [shapes.flat, shapes.solid])
def test_meshes_close(make) -> None:
    """Every edge of a face is run along once each way, corners in one place taken as one."""
    solids = drawn(make())
    for piece in solids.pieces:
        corners = solids.corners[np.concatenate(piece.faces)]
        label = np.unique(np.round(corners, 9), axis=0, return_inverse=True)[1].ravel()
        loops = np.split(label, np.cumsum([len(face) for face in piece.faces])[:-1])
        ends = [
            pair for x in loops for pair in zip(x.tolist(), np.roll(x, -1).tolist(), strict=True)
        ]
        assert len(set(ends)) == len(ends)
        assert set(ends) == {(b, a) for a, b in ends}


@pytest.mark.parametrize("make", [shapes.flat, shapes.solid, shapes.stack])
def test_corners_are_drawn_where_the_body_has_them(make) -> None:
    """Corners of a piece without roundness are those of its hull, in place, and no others."""
    scene = make()
    state, hulls = ran(make).final.state, scene.bodies.hulls
    solids, net = drawn(scene), hulls.topology
    corners = solids.placed(state)[:, : scene.dim]
    true, _ = hulls.placed(state.position, matrices(state.orientation))
    pieces = np.flatnonzero(~np.isin(hulls.body, solids.balls))
    for mine, piece in zip(solids.pieces, pieces, strict=True):
        here = corners[np.concatenate(mine.faces)]
        wanted = true[net.first_vertex[piece] : net.first_vertex[piece + 1]]
        apart = np.linalg.norm(here[:, None] - wanted, axis=2)
        np.testing.assert_allclose(apart.min(axis=0), net.radius[piece], atol=1e-12)
        if net.radius[piece] == 0.0:
            np.testing.assert_allclose(apart.min(axis=1), 0.0, atol=1e-12)
    assert (net.radius[pieces] == 0.0).sum() >= 3


def test_a_capsule_is_round_all_about_its_axis() -> None:
    scene = Scene([Body(Capsule(0.2, 0.7), [1.0, 2.0, 3.0], orientation=shapes.turned(3),
                        density=1.0)], dim=3)  # fmt: skip
    axis = matrices(scene.initial.orientation)[0, :, 0]
    arm = drawn(scene).placed(scene.initial) - scene.initial.position
    beside = arm - np.clip(arm @ axis, -0.35, 0.35)[:, None] * axis
    np.testing.assert_allclose(np.linalg.norm(beside, axis=1), 0.2, atol=1e-12)
    assert (arm @ axis).max() == pytest.approx(0.55)


def test_a_scene_of_spheres_has_no_meshes() -> None:
    scene = cdopt.scene.pyramid(2)
    solids = drawn(scene)
    assert solids.others.size == solids.triangles.size == solids.corners.size == 0


# --- lines of forces -------------------------------------------------------------------


def test_forces_between_bricks_run_through_their_points_along_normals() -> None:
    run = ran(shapes.wall)
    frame = run.final
    lines = Solids.of(run.scene, frame.state.position).lines(frame)
    down, up = (lines[:, k] - in_space(frame.points) for k in (0, 1))
    normals = in_space(frame.normals)
    np.testing.assert_allclose(up, 0.25 * normals, atol=1e-12)  # to half the height of a brick
    on_floor = frame.bodies[:, 0] == 0
    assert on_floor.sum() == 8  # four bricks, two points each
    np.testing.assert_allclose(down[on_floor], 0.0, atol=1e-12)
    np.testing.assert_allclose(down[~on_floor], -0.25 * normals[~on_floor], atol=1e-12)


def test_a_step_of_a_wall_shows_no_discs_and_forces_that_join() -> None:
    """From the step alone: the lines of a brick's forces from below and above meet inside it."""
    scene = shapes.wall()
    contacts = detect(scene, scene.initial)
    step = contact_step(scene, scene.initial, contacts, 1e-3)
    net = contact_segments(step)
    assert net.radii.size == 0
    level = (np.abs(contacts.normals[:, 1]) > 0.5) & (contacts.bodies[:, 0] > 0)
    low, high = net.start[level, 1], net.end[level, 1]
    np.testing.assert_allclose(np.sort(np.unique(np.round(low, 9))), [0.25, 0.75])
    np.testing.assert_allclose(np.sort(np.unique(np.round(high, 9))), [0.75, 1.25])
    force_chains(step, [cdopt.ClassicCD(step).solve("newton")]).savefig(io.BytesIO())


def test_a_step_of_bricks_side_by_side_has_lines_of_a_sensible_length() -> None:
    """Every point has another in its place, nearly, and heights are level, nearly."""
    x = [[0.0, 1e-7], [0.3, 0.0], [0.3 + 1e-6, 0.0], [0.6, 1e-7], [1e-6, 0.0], [0.6 + 1e-6, 1e-7]]
    body = [0, 0, 1, 1, 2, 2]  # the third spans both
    B = np.zeros((6, 6))
    for row, (k, (place, _)) in enumerate(zip(body, x, strict=True)):
        B[row, 2 * k : 2 * k + 2] = 1.0, place
    step = cdopt.ContactStep(
        M=np.eye(6), B=B, phi=np.zeros(6), v=np.zeros(6), F_ext=[0, -1] * 3, dt=1e-3,
        points=x, normals=[[0, 1]] * 6, bodies=[[-1, k] for k in body],
    )  # fmt: skip
    net = contact_segments(step)
    np.testing.assert_allclose(net.start, x, atol=1e-12)
    np.testing.assert_allclose(net.end - net.start, [[0.0, 0.15]] * 6, atol=1e-5)


# --- on paper --------------------------------------------------------------------------


@pytest.mark.parametrize("make", [shapes.flat, pytest.param(shapes.stack, marks=pytest.mark.slow)])
def test_an_overview_of_solids_is_legible(make) -> None:
    legible(run_overview(ran(make)))


def test_the_outlines_of_a_wall_are_its_bricks() -> None:
    run = ran(shapes.wall)
    axes = run_overview(run).axes[0]
    paths = by_gid(axes, "solids").get_paths()
    place = run.final.state.position[1:]
    assert len(paths) == len(place)
    for path, middle in zip(paths, place, strict=True):
        np.testing.assert_allclose(
            path.get_extents().min, middle - np.array([0.5, 0.25]), atol=1e-9
        )
        np.testing.assert_allclose(
            path.get_extents().max, middle + np.array([0.5, 0.25]), atol=1e-9
        )


def seen_bodies(scene: Scene) -> list[int]:
    """The bodies of the faces that are painted, farthest first."""
    position = scene.initial.position
    camera = Camera.facing(np.concatenate([position - 1.0, position + 1.0]), "perspective")
    return [face.body for face in painted(drawn(scene), scene.initial, camera)]


def test_what_stands_on_a_plate_is_painted_over_it_and_what_is_below_before() -> None:
    """Though the plate is nearer in the mean than what stands at its far end."""
    plate = Body(Box([2.0, 6.0, 0.1]), [0.0, 0.0, 1.0], density=1.0)
    above = Body(Box([0.3, 0.3, 0.3]), [0.0, 2.8, 1.2], density=1.0)
    under = Body(Box([0.3, 0.3, 0.3]), [0.0, -2.8, 0.5], density=1.0)
    order = seen_bodies(Scene([plate, above, under], dim=3))
    assert max(k for k, body in enumerate(order) if body == 0) < order.index(1)
    assert max(k for k, body in enumerate(order) if body == 2) < order.index(0)
    assert order.count(0) == order.count(1) == order.count(2) == 3  # of six sides


def test_a_capsule_on_paper_is_its_silhouette() -> None:
    scene = Scene([Body(Capsule(0.2, 0.7), [0.0, 0.0, 0.0], density=1.0)], dim=3)
    camera = Camera("side", np.zeros(3), 10.0)
    (face,) = painted(drawn(scene), scene.initial, camera)
    np.testing.assert_allclose(np.ptp(face.ring, axis=0), [1.1, 0.4], rtol=1e-2)


# --- pages -----------------------------------------------------------------------------

needs_k3d = pytest.mark.usefixtures("k3d")


@pytest.fixture
def k3d() -> None:
    pytest.importorskip("k3d", reason="pages need the extra 'pages'")


class StoredPage:
    """What a page holds, as its program reads it."""

    def __init__(self, script: str) -> None:
        text = re.search(r"const CDOPT = (\{.*\});\n", script).group(1)
        self.content = json.loads(text)
        self.block = zlib.decompress(base64.b64decode(self.content["data"]))

    def table(self, part: dict) -> np.ndarray:
        raw = self.block[part["start"] : part["start"] + part["bytes"]]
        return np.frombuffer(raw, f"<{part['kind']}").astype(float)

    def corners(self, k: int) -> np.ndarray:
        frame, solids = self.content["frames"][k], self.content["solids"]
        place = self.table(frame["places"]).reshape(-1, 3) * self.content["step"]
        turn = self.table(frame["turns"]).reshape(-1, 4)
        turn = matrices(turn / np.linalg.norm(turn, axis=1, keepdims=True))
        row = self.table(solids["row"]).astype(int)
        own = self.table(solids["corners"]).reshape(-1, 3)
        return place[row] + self.content["low"] + np.einsum("nij,nj->ni", turn[row], own)


def stored_page(monkeypatch, run: cdopt.Trajectory) -> StoredPage:
    scripts = []
    render = documents.render
    monkeypatch.setattr(
        documents, "render", lambda name, **content: scripts.append(render(name, **content)) or ""
    )
    monkeypatch.setattr(page, "_parts", lambda snapshot: ("", ""))
    page.run_page(run)
    return StoredPage(scripts[0])


@needs_k3d
def test_a_page_keeps_where_solids_are(monkeypatch) -> None:
    """Within the steps of its 16-bit numbers: half of one of the grid, and of a turn."""
    run = ran(shapes.solid)
    page_data = stored_page(monkeypatch, run)
    solids = Solids.of(run.scene, run.q[..., : run.scene.dim])
    reach = np.linalg.norm(solids.corners, axis=1).max()
    close = page_data.content["step"] + 4.0 * reach / 32767
    for k, frame in enumerate(run):
        off = np.abs(page_data.corners(k) - solids.placed(frame.state)).max()
        assert off < close
    moved = np.abs(page_data.corners(len(run) - 1) - page_data.corners(0)).max()
    assert moved > 10.0 * close


# what the graphics card is given for an object of this name
GIVEN = """(() => {
  const world = window.plot.getWorld();
  const own = Object.values(world.ObjectsListJson).find((o) => o.name === '%s');
  const drawn = world.K3DObjects.children.find((o) => o.K3DIdentifier === own.id);
  return [Array.from(drawn.geometry.attributes.position.array), drawn.material.opacity];
})()"""


@pytest.mark.skipif(PROGRAM is None, reason="no chromium here to open a page with")
@needs_k3d
@pytest.mark.slow
def test_a_page_of_solids_in_a_browser(tmp_path) -> None:
    """The program turns corners as they are; edges go along; faces let chains be seen."""
    run = ran(shapes.solid)
    solids = Solids.of(run.scene, run.q[..., :3])
    edges = np.array([end for piece in solids.pieces for pair in piece.edges for end in pair])
    file = save_page(run, tmp_path / "solid.html")
    with browser(tmp_path / "profile") as view:
        view.open(file, 800, 600)
        view.until("document.body && document.body.dataset.frame === '5'")
        for k in (5, 0, 3):
            move = f"const s = document.getElementById('frame'); s.value = {k}; s.oninput();"
            view.run(f"(() => {{ {move} }})()")
            view.until(f"document.body.dataset.frame === '{k}'")
            corners = solids.placed(run[k].state)
            ends = corners[edges]
            for name, true, opacity in (("solids", corners, 0.35), ("edges", ends, 1.0)):
                found, seen = view.run(GIVEN % name)
                np.testing.assert_allclose(np.reshape(found, (-1, 3)), true, atol=1e-3)
                assert seen == pytest.approx(opacity)
        fade = "const s = document.getElementById('opacity'); s.value = 80; s.oninput();"
        view.run(f"(() => {{ {fade} }})()")
        view.until(f"({GIVEN % 'solids'})[1] === 0.8")
        assert view.silent


@needs_k3d
def test_a_page_offers_sizes_of_spheres_and_opacity_of_solids_where_there_are_some() -> None:
    scenes = cdopt.scene.pyramid(2), cdopt.scene.box_stack(2)
    balls, bricks = (run_page(cdopt.simulate(scene, 1e-3, 2e-3)) for scene in scenes)
    assert "<label hidden>solids" in balls
    assert "<label hidden>spheres" in bricks
    assert "<label >spheres" in balls
    assert "<label >solids" in bricks


# --- ParaView --------------------------------------------------------------------------


@pytest.mark.parametrize("make", [shapes.flat, shapes.solid, shapes.stack])
def test_vtk_reads_surfaces_that_hold_as_much_as_the_bodies(make, tmp_path) -> None:
    vtk = pytest.importorskip("vtk")
    from vtk.util.numpy_support import vtk_to_numpy

    run = ran(make)
    solids = Solids.of(run.scene, run.q[..., : run.scene.dim])
    faces, count = [face for piece in solids.pieces for face in piece.faces], len(solids.corners)
    path = save_surfaces(run, tmp_path / "surfaces.vtkhdf")
    reader = vtk.vtkHDFReader()
    reader.SetFileName(str(path))
    reader.UpdateInformation()
    assert reader.GetNumberOfSteps() == len(run)
    before = np.empty(0)
    for k, frame in enumerate(run):
        reader.SetStep(k)
        reader.Update()
        seen = reader.GetOutputDataObject(0)
        points = vtk_to_numpy(seen.GetPoints().GetData())
        np.testing.assert_allclose(points[:count], solids.placed(frame.state), atol=1e-5)
        np.testing.assert_allclose(points[count:].reshape(-1, 4, 3), solids.patches(frame.state),
                                   atol=1e-5)  # fmt: skip
        body = vtk_to_numpy(seen.GetCellData().GetArray("body"))
        owners = [piece.body for piece in solids.pieces for _ in piece.faces]
        np.testing.assert_array_equal(body[: len(faces)], owners)
        assert seen.GetNumberOfPolys() == len(faces) + solids.walls.size
        corners = [count + 4 * k + np.arange(4) for k in range(solids.walls.size)]
        for number in (0, len(faces) - 1, len(faces)):  # the last of these is a wall
            ids = seen.GetCell(number).GetPointIds()
            drawn_face = [ids.GetId(n) for n in range(ids.GetNumberOfIds())]
            assert drawn_face == [*faces, *corners][number].tolist()
        if k:
            velocity = vtk_to_numpy(seen.GetPointData().GetArray("velocity"))[:count]
            speed = np.abs(velocity - (points - before)[:count] / (frame.t - run[k - 1].t))
            assert speed.max() < 0.05
        before = points


def test_surfaces_go_to_a_new_file_and_of_solids_only(tmp_path) -> None:
    run = ran(shapes.wall)
    path = save_surfaces(run, tmp_path / "wall.vtkhdf")
    for bad in (path, tmp_path / "no" / "such.vtkhdf", tmp_path / "wall.vtk", 5):
        with pytest.raises(cdopt.InvalidInput, match="path"):
            save_surfaces(run, bad)
    lonely = Scene([Body(Sphere(0.1), [0.0, 0.0], density=1.0)], dim=2)
    with pytest.raises(cdopt.InvalidInput, match="spheres only"):
        save_surfaces(cdopt.simulate(lonely, 1e-3, 2e-3), tmp_path / "balls.vtkhdf")
