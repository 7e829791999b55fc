"""Files of runs: killed at any moment, a run ends as if nothing had happened; ParaView reads it.

With the ``vtk`` wheel installed its own reader is asked; without it, the layout is walked here as
the specification says: ``Steps`` tells where in the flat arrays each step begins.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import h5py
import numpy as np
import pytest
from dynamic_scenes import disc_pile, mixture, rolling_ball, rough_box

import cdopt
from cdopt._util import files

SCRIPT = Path(__file__).with_name("killed_run.py")


def check_same(one: cdopt.Trajectory, two: cdopt.Trajectory) -> None:
    """The same arrays, bit for bit; only the clock may differ."""
    for name in ("t", "steps", "q", "v"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    for a, b in zip(one, two, strict=True):
        for name in ("contact_ids", "bodies", "phi", "normals", "points", "f", "f_t", "f_classic"):
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    for name, values in one.diagnostics.items():
        if not name.startswith("seconds_"):
            np.testing.assert_array_equal(values, two.diagnostics[name], err_msg=name)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forked processes")
@pytest.mark.parametrize(("kills", "warm"), [(20, False), (6, True)])
def test_kills_leave_no_trace(tmp_path: Path, kills: int, warm: bool) -> None:
    path = tmp_path / "run.vtkhdf"
    word = "warm" if warm else "cold"
    command = [sys.executable, str(SCRIPT), str(path), str(kills), "1805", word]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    whole = cdopt.simulate(cdopt.scene.pyramid(3), 1e-3, 0.4, every=3, warm_start=warm)
    check_same(cdopt.Trajectory.load(path), whole)
    assert [p.name for p in tmp_path.iterdir()] == ["run.vtkhdf"]


def pyramid() -> cdopt.scene.Scene:
    return cdopt.scene.pyramid(2)


def rolling() -> cdopt.scene.Scene:
    return rolling_ball(1.0, 0.0, 3)


RUNS = {  # scene, time step, steps, and options of simulate
    "compatible-cd": (pyramid, 1e-3, 9, {"warm_start": False}),
    "warm": (pyramid, 1e-3, 9, {"every": 4, "warm_start": True}),
    "rough": (pyramid, 1e-3, 9, {"method": "contact-dynamics", "friction": 0.3}),
    "history": (pyramid, 1e-3, 9, {"every": 4, "method": "compatible-friction", "friction": 0.3}),
    "variational": (mixture, 2e-4, 202, {"every": 20, "method": "variational"}),
    "velocity-verlet": (mixture, 2e-4, 202, {"every": 20, "method": "velocity-verlet"}),
    "springs": (
        partial(rough_box, rolling_friction=0.05, spinning_friction=0.02), 2e-4, 5000,
        {"every": 250, "method": "velocity-verlet"},
    ),
    "native friction": (rolling, 1e-3, 6, {"method": "variational", "path": "native"}),
    "posed friction": (rolling, 1e-3, 6, {"method": "variational", "path": "cvxpy"}),
    "quasi-static": (partial(disc_pile, 1e4), 0.1, 6, {"method": "quasi-static"}),
}  # fmt: skip
QUICK = {"rough", "velocity-verlet"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name not in QUICK)) for name in RUNS]
)
def test_stopped_runs_go_on_bit_for_bit(tmp_path: Path, name: str) -> None:
    make, dt, steps, options = RUNS[name]
    scene, duration, path = make(), steps * dt, tmp_path / "run.vtkhdf"

    def stop(share: float, done: int, total: int, text: str = "") -> None:
        if total and done >= share * total:
            raise KeyboardInterrupt

    whole = cdopt.simulate(scene, dt, duration, **options)
    assert whole.diagnostics["contacts"].max() > 0
    for share in (0.3, 0.45, 0.8):
        how = {"out": path, "resume": True, "progress": partial(stop, share)}
        with pytest.raises(cdopt.dynamics.Interrupted) as caught:
            cdopt.simulate(scene, dt, duration, **how, **options)
        last = caught.value.trajectory.diagnostics["step"][-1]
        assert share * steps <= last < steps
    for _ in range(2):
        check_same(cdopt.simulate(scene, dt, duration, out=path, resume=True, **options), whole)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name not in QUICK)) for name in RUNS]
)
def test_saved_copies_go_on_bit_for_bit(tmp_path: Path, name: str) -> None:
    make, dt, steps, options = RUNS[name]
    scene, every = make(), options.get("every", 1)
    half = max(steps // (2 * every), 1) * every
    whole = cdopt.simulate(scene, dt, steps * dt, **options)
    begun = cdopt.simulate(scene, dt, half * dt, **options)
    begun.save(tmp_path / "copy.vtkhdf")
    cdopt.Trajectory.load(tmp_path / "copy.vtkhdf").save(tmp_path / "second.vtkhdf")
    for copy in sorted(tmp_path.iterdir()):
        check_same(cdopt.Trajectory.load(copy), begun)
        how = {"out": copy, "resume": True}
        check_same(cdopt.simulate(scene, dt, steps * dt, **how, **options), whole)


@pytest.mark.parametrize("name", ["rough", "history", "springs", "native friction"])
def test_copies_by_earlier_versions_are_not_resumed(tmp_path: Path, name: str) -> None:
    make, dt, _, options = RUNS[name]
    copy, options = tmp_path / "copy.vtkhdf", options | {"every": 1}
    cdopt.simulate(make(), dt, 3 * dt, **options).save(copy)
    with h5py.File(copy, "r+") as file:
        del file["cdopt/checkpoint/memory"]
    before = copy.read_bytes()
    with pytest.raises(cdopt.InvalidInput, match="a copy of a run"):
        cdopt.simulate(make(), dt, 6 * dt, out=copy, resume=True, **options)
    assert copy.read_bytes() == before
    assert len(cdopt.Trajectory.load(copy)) == 4


# --- damage, and what is not of a run -----------------------------------------


def test_texts_of_variable_length_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.vtkhdf"
    cdopt.simulate(pyramid(), 1e-3, 1e-3, out=path)
    with h5py.File(path, "r+") as file:
        file["VTKHDF"].attrs["Bodies"] = "many"
    with pytest.raises(cdopt.InvalidInput, match="variable length"):
        cdopt.Trajectory.load(path)


def test_what_is_not_a_part_of_the_run_stays(tmp_path: Path) -> None:
    path = tmp_path / "run.vtkhdf"
    notes = [tmp_path / f"run.vtkhdf.part-{name}" for name in ("notes.txt", "1.bak", "01", "")]
    for note in notes:
        note.write_text("mine")
    (tmp_path / "run.vtkhdf.part-12").write_text("of a run that is gone")
    cdopt.simulate(pyramid(), 1e-3, 2e-3, out=path)
    assert sorted(tmp_path.iterdir()) == sorted([path, *notes])
    assert {note.read_text() for note in notes} == {"mine"}


def test_a_copy_leaves_what_was_there_whether_it_fails_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, note = cdopt.simulate(pyramid(), 1e-3, 2e-3), tmp_path / "copy.vtkhdf.copy"
    note.write_text("mine")
    with monkeypatch.context() as patch:
        patch.setattr(files, "write_into", full_disk)
        with pytest.raises(cdopt.SaveFailed):
            run.save(tmp_path / "copy.vtkhdf")
    assert list(tmp_path.iterdir()) == [note]
    run.save(tmp_path / "copy.vtkhdf")
    assert sorted(tmp_path.iterdir()) == [tmp_path / "copy.vtkhdf", note]
    assert note.read_text() == "mine"


def full_disk(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFO here")
def test_a_pipe_where_a_part_belongs_is_refused_at_once(tmp_path: Path) -> None:
    path, pipe = tmp_path / "run.vtkhdf", tmp_path / "run.vtkhdf.part-2"
    os.mkfifo(pipe)
    with pytest.raises(cdopt.InvalidInput, match=r"part-2: no regular file"):
        cdopt.simulate(pyramid(), 1e-3, 2e-3, out=path)
    assert list(tmp_path.iterdir()) == [pipe]
    pipe.unlink()
    cdopt.simulate(pyramid(), 1e-3, 2e-3, out=path)
    with h5py.File(path) as file:
        pipe = tmp_path / f"run.vtkhdf.part-{file['cdopt'].attrs['commit'] + 1}"
    os.mkfifo(pipe)
    with pytest.raises(cdopt.InvalidInput, match="no regular file"):
        cdopt.Trajectory.load(path)
    with pytest.raises(cdopt.InvalidInput, match="no regular file"):
        cdopt.simulate(pyramid(), 1e-3, 4e-3, out=path, resume=True)
    assert sorted(tmp_path.iterdir()) == [path, pipe]


# --- ParaView ------------------------------------------------------------------------------

SCENES = {
    "pyramid": cdopt.scene.pyramid(3),
    "beam": cdopt.scene.beam(),
    "ball": cdopt.scene.sphere_on_floor(gap=1e-4),
}


@pytest.fixture(
    params=[pytest.param(x, marks=[pytest.mark.slow] * (x != "pyramid")) for x in SCENES],
    scope="module",
)
def run(request, tmp_path_factory: pytest.TempPathFactory) -> cdopt.Trajectory:
    path = tmp_path_factory.mktemp("run") / "run.vtkhdf"
    cdopt.simulate(SCENES[request.param], 1e-3, 3e-3, out=path)
    return cdopt.simulate(SCENES[request.param], 1e-3, 6e-3, out=path, resume=True)


def space(table: np.ndarray) -> np.ndarray:
    return np.pad(table, ((0, 0), (0, 3 - table.shape[1])))


def check_step(frame: cdopt.dynamics.Frame, scene, points, lines, on_points, on_cells) -> None:
    """Points, lines (nl, 3) and arrays of a step, against the frame that they show."""
    nb, dim = scene.nb, scene.dim
    np.testing.assert_array_equal(points[:nb], space(frame.q[:, :dim]))
    np.testing.assert_array_equal(points[nb:], space(frame.points))
    np.testing.assert_array_equal(on_points["velocity"][:nb], space(frame.v[:, :dim]))
    balls = scene.bodies.table(cdopt.scene.Sphere)
    np.testing.assert_array_equal(on_points["radius"][balls.body], balls.columns["radius"])
    assert not on_points["radius"][nb:].any()
    np.testing.assert_array_equal(on_points["fixed"][:nb], scene.bodies.fixed)
    contact = nb + np.arange(frame.nc)
    bounded = np.isfinite(scene.bodies.reach)[frame.bodies]
    ends = np.where(bounded, frame.bodies, contact[:, None])
    np.testing.assert_array_equal(lines, np.column_stack([ends[:, 0], contact, ends[:, 1]]))
    for name, values in (
        ("force", frame.f),
        ("force_classic", frame.f_classic),
        ("gap", frame.phi),
        ("contact", frame.contact_ids),
        ("normal", space(frame.normals)),
    ):
        np.testing.assert_array_equal(on_cells[name][1:], values)


def test_the_layout_is_that_of_the_specification(run) -> None:
    with h5py.File(run.path) as file:
        root, steps = file["VTKHDF"], file["VTKHDF/Steps"]
        assert root.attrs["Type"] == b"PolyData"
        assert tuple(root.attrs["Version"]) == (2, 0)
        assert steps.attrs["NSteps"] == len(run)
        np.testing.assert_array_equal(steps["Values"][()], run.t)
        for k, frame in enumerate(run):
            part = steps["PartOffsets"][k]
            assert steps["NumberOfParts"][k] == 1
            count, first = root["NumberOfPoints"][part], steps["PointOffsets"][k]
            nodes = []
            for column, name in enumerate(("Vertices", "Lines", "Polygons", "Strips")):
                cells = root[name]["NumberOfCells"][part]
                ids = root[name]["NumberOfConnectivityIds"][part]
                start = steps["ConnectivityIdOffsets"][k, column]
                at = steps["CellOffsets"][k, column]
                offsets = root[name]["Offsets"][at : at + cells + 1]
                assert offsets.size == cells + 1
                assert offsets[-1] == ids
                nodes.append(root[name]["Connectivity"][start : start + ids])
            np.testing.assert_array_equal(nodes[0], np.arange(run.scene.nb))
            on_points, on_cells = (
                {
                    name: data[steps[f"{kind}Offsets/{name}"][k] :][:rows]
                    for name, data in root[kind].items()
                }
                for kind, rows in (("PointData", count), ("CellData", frame.nc + 1))
            )
            points = root["Points"][first : first + count]
            check_step(frame, run.scene, points, nodes[1].reshape(-1, 3), on_points, on_cells)


def test_vtk_reads_every_step(run) -> None:
    vtk = pytest.importorskip("vtk")
    from vtk.util.numpy_support import vtk_to_numpy

    reader = vtk.vtkHDFReader()
    reader.SetFileName(str(run.path))
    reader.UpdateInformation()
    assert reader.GetNumberOfSteps() == len(run)
    for k, frame in enumerate(run):
        reader.SetStep(k)
        reader.Update()
        seen = reader.GetOutputDataObject(0)
        assert seen.GetNumberOfVerts() == 1
        assert seen.GetNumberOfLines() == frame.nc
        nodes = vtk_to_numpy(seen.GetLines().GetConnectivityArray()) if frame.nc else np.empty(0)
        arrays = [
            {data.GetArrayName(i): vtk_to_numpy(data.GetArray(i))
             for i in range(data.GetNumberOfArrays())}
            for data in (seen.GetPointData(), seen.GetCellData())
        ]  # fmt: skip
        points = vtk_to_numpy(seen.GetPoints().GetData())
        check_step(frame, run.scene, points, nodes.reshape(-1, 3), *arrays)
