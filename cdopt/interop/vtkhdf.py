"""VTKHDF: poly data that changes in time, in one HDF5 file that grows.

The layout is Kitware's "VTKHDF file format", version 2, type PolyData with a ``Steps`` group; VTK
from 9.3 and ParaView from 5.12 read it. A time step appends its part to flat arrays, and the
``Steps`` group says where each step begins.

One step holds points, of which the first ``bodies`` make one vertex cell, and lines of three
points each. Arrays on points have a row per point; arrays on cells a row for the vertex cell and
one per line. What no step changes (how lines are counted, the vertex cell, arrays that are the
same in every step) is stored once and all steps refer to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from cdopt._util.checks import FloatArray, IntArray

NODES = 3  # points of a line
_VERSION = (2, 0)
_TOPOLOGIES = ("Vertices", "Lines", "Polygons", "Strips")  # the order of columns in Steps
_LINES = 1
_CHUNK = 32768  # bytes
_FEW = 512  # steps in a chunk of the bookkeeping


class PolyDataSeries:
    """Time steps of poly data in the ``VTKHDF`` group of an open file.

    Parameters
    ----------
    file : open to write, or to read.
    """

    def __init__(self, file: h5py.File) -> None:
        self._root = file["VTKHDF"]
        self._steps = self._root["Steps"]

    @classmethod
    def create(
        cls,
        file: h5py.File,
        bodies: int,
        *,
        point_data: Mapping[str, int],
        cell_data: Mapping[str, tuple[str, int]],
        fixed_data: Mapping[str, NDArray[Any]],
    ) -> PolyDataSeries:
        """An empty series.

        Parameters
        ----------
        bodies : number of points in the vertex cell.
        point_data : name and width of float arrays on points, 0 for one number per point.
        cell_data : name, numpy type and width of arrays on cells.
        fixed_data : arrays (bodies,) on the first points that no step changes; zero on others.
        """
        root = file.create_group("VTKHDF")
        root.attrs["Version"] = np.array(_VERSION, dtype=np.int64)
        root.attrs["Type"] = np.bytes_("PolyData")
        _growing(root, "NumberOfPoints", "i8", 0, _FEW)
        _growing(root, "Points", "f8", 3)
        for name in _TOPOLOGIES:
            group = root.create_group(name)
            for count in ("NumberOfCells", "NumberOfConnectivityIds"):
                _growing(group, count, "i8", 0, _FEW)
            _growing(group, "Connectivity", "i8")
            append(_growing(group, "Offsets", "i8"), np.zeros(1, dtype=np.int64))
        append(root["Vertices/Connectivity"], np.arange(bodies))
        append(root["Vertices/Offsets"], np.array([bodies]))
        steps = root.create_group("Steps")
        steps.attrs["NSteps"] = 0
        _growing(steps, "Values", "f8", 0, _FEW)
        for name in ("PartOffsets", "NumberOfParts", "PointOffsets"):
            _growing(steps, name, "i8", 0, _FEW)
        for name in ("CellOffsets", "ConnectivityIdOffsets"):
            _growing(steps, name, "i8", len(_TOPOLOGIES), _FEW)
        for name, width in point_data.items():
            _growing(root, f"PointData/{name}", "f8", width)
            _growing(steps, f"PointDataOffsets/{name}", "i8", 0, _FEW)
        for name, values in fixed_data.items():
            append(_growing(root, f"PointData/{name}", values.dtype.str[1:]), values)
            _growing(steps, f"PointDataOffsets/{name}", "i8", 0, _FEW)
        for name, (kind, width) in cell_data.items():
            _growing(root, f"CellData/{name}", kind, width)
            _growing(steps, f"CellDataOffsets/{name}", "i8", 0, _FEW)
        series = cls(file)
        series._root.attrs["Bodies"] = bodies
        return series

    # --- writing -----------------------------------------------------------------------

    def append(
        self,
        time: float,
        points: FloatArray,
        lines: IntArray,
        point_data: Mapping[str, FloatArray],
        cell_data: Mapping[str, NDArray[Any]],
    ) -> None:
        """Add a step.

        Parameters
        ----------
        time : s. points : (np, 3) m. lines : (nl, 3) numbers of points.
        point_data : arrays with np rows. cell_data : arrays with nl rows, one per line.
        """
        root, steps = self._root, self._steps
        bodies = int(root.attrs["Bodies"])
        count = lines.shape[0]
        ids = root["Lines/Connectivity"]
        first = np.array([0, ids.shape[0], 0, 0])
        append(steps["Values"], [time])
        append(steps["PartOffsets"], [root["NumberOfPoints"].shape[0]])
        append(steps["NumberOfParts"], [1])
        append(steps["PointOffsets"], [root["Points"].shape[0]])
        append(steps["CellOffsets"], np.zeros((1, len(_TOPOLOGIES)), dtype=np.int64))
        append(steps["ConnectivityIdOffsets"], first[None, :])
        for name, values in point_data.items():
            append(steps[f"PointDataOffsets/{name}"], [root[f"PointData/{name}"].shape[0]])
            append(root[f"PointData/{name}"], values)
        for name in set(root["PointData"]) - set(point_data):
            append(steps[f"PointDataOffsets/{name}"], [0])
            _lengthen(root[f"PointData/{name}"], points.shape[0])
        for name, values in cell_data.items():
            dataset = root[f"CellData/{name}"]
            append(steps[f"CellDataOffsets/{name}"], [dataset.shape[0]])
            append(dataset, np.concatenate([np.zeros_like(values, shape=(1, *values.shape[1:])),
                                            values]))  # fmt: skip
        append(root["NumberOfPoints"], [points.shape[0]])
        append(root["Points"], points)
        append(ids, lines.ravel())
        offsets = root["Lines/Offsets"]
        if offsets.shape[0] <= count:
            append(offsets, NODES * np.arange(offsets.shape[0], count + 1))
        cells = (1, count, 0, 0)
        nodes = (bodies, NODES * count, 0, 0)
        for name, number, total in zip(_TOPOLOGIES, cells, nodes, strict=True):
            append(root[f"{name}/NumberOfCells"], [number])
            append(root[f"{name}/NumberOfConnectivityIds"], [total])
        steps.attrs["NSteps"] = steps["Values"].shape[0]

    # --- reading -----------------------------------------------------------------------

    @property
    def times(self) -> FloatArray:
        """(steps,) s."""
        return np.asarray(self._steps["Values"][()])

    @property
    def lines(self) -> IntArray:
        """(steps,) number of lines in each step."""
        return np.asarray(self._root["Lines/NumberOfCells"][()])

    def points(self, k: int) -> FloatArray:
        """(np, 3) points of step k, m."""
        first = int(self._steps["PointOffsets"][k])
        count = int(self._root["NumberOfPoints"][k])
        return np.asarray(self._root["Points"][first : first + count])

    def cell_data(self, name: str, k: int) -> NDArray[Any]:
        """An array on the lines of step k."""
        first = int(self._steps[f"CellDataOffsets/{name}"][k]) + 1
        count = int(self._root["Lines/NumberOfCells"][k])
        return np.asarray(self._root[f"CellData/{name}"][first : first + count])


def append(dataset: h5py.Dataset, rows: Any) -> None:
    """Add rows at the end of a dataset that grows."""
    values = np.asarray(rows)
    first = dataset.shape[0]
    dataset.resize(first + values.shape[0], axis=0)
    if values.size:
        dataset[first:] = values


def growing(
    group: h5py.Group, name: str, kind: str, shape: tuple[int, ...], rows: int | None = None
) -> h5py.Dataset:
    """An empty dataset of rows of this shape; ``rows`` of them in a chunk."""
    width = int(np.prod(shape, dtype=np.int64)) * np.dtype(kind).itemsize
    length = max(_CHUNK // max(width, 1), 1) if rows is None else rows
    return group.create_dataset(
        name,
        shape=(0, *shape),
        maxshape=(None, *shape),
        dtype=kind,
        chunks=(length, *shape),
        fletcher32=True,
    )


def _growing(
    group: h5py.Group, name: str, kind: str, width: int = 0, rows: int | None = None
) -> h5py.Dataset:
    return growing(group, name, kind, (width,) if width else (), rows)


def _lengthen(dataset: h5py.Dataset, count: int) -> None:
    """Zeros at the end of a fixed array, until every point of the largest step has a row."""
    if dataset.shape[0] < count:
        append(dataset, np.zeros(count - dataset.shape[0], dtype=dataset.dtype))
