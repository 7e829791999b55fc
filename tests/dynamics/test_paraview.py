"""Trajectory files as VTK and ParaView read them.

With the ``vtk`` wheel installed its own reader is asked; without it, the layout is walked here as
the specification says: ``Steps`` tells where in the flat arrays each step begins.
"""

from __future__ import annotations

import h5py
import numpy as np
import pytest

import cdopt

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
            count = root["NumberOfPoints"][part]
            first = steps["PointOffsets"][k]
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
            on_points = {
                name: data[steps[f"PointDataOffsets/{name}"][k] :][:count]
                for name, data in root["PointData"].items()
            }
            on_cells = {
                name: data[steps[f"CellDataOffsets/{name}"][k] :][: frame.nc + 1]
                for name, data in root["CellData"].items()
            }
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
