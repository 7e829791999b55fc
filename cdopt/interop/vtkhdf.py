"""VTKHDF: poly data that changes in time, in one HDF5 file that grows.

The layout is Kitware's "VTKHDF file format", version 2, type PolyData with a ``Steps`` group; VTK
from 9.3 and ParaView from 5.12 read it. A time step appends its part to flat arrays, and the
``Steps`` group has the offset of each step.

A step has points, the first ``bodies`` of which form one vertex cell, and lines of three points
each. Arrays on points have a row per point; arrays on cells a row for the vertex cell and one per
line. Constant data (offsets of lines, the vertex cell, arrays that are the same in every step) are
stored once, and all steps refer to them.
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
    """Time steps of poly data in the ``VTKHDF`` group of an open ``file``."""

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
        root.attrs["Bodies"] = bodies
        counted = ["NumberOfPoints", "Steps/PartOffsets", "Steps/NumberOfParts"]
        counted += ["Steps/PointOffsets"]
        counted += [f"Steps/PointDataOffsets/{name}" for name in (*point_data, *fixed_data)]
        counted += [f"Steps/CellDataOffsets/{name}" for name in cell_data]
        for name in _TOPOLOGIES:
            counted += [f"{name}/NumberOfCells", f"{name}/NumberOfConnectivityIds"]
            growing(root, f"{name}/Connectivity", "i8", ())
            append(growing(root, f"{name}/Offsets", "i8", ()), np.zeros(1, dtype=np.int64))
        for name in counted:
            growing(root, name, "i8", (), _FEW)
        growing(root, "Steps/Values", "f8", (), _FEW)
        for name in ("CellOffsets", "ConnectivityIdOffsets"):
            growing(root, f"Steps/{name}", "i8", (len(_TOPOLOGIES),), _FEW)
        growing(root, "Points", "f8", (3,))
        for name, width in point_data.items():
            growing(root, f"PointData/{name}", "f8", (width,)[: width > 0])
        for name, (kind, width) in cell_data.items():
            growing(root, f"CellData/{name}", kind, (width,)[: width > 0])
        for name, values in fixed_data.items():
            append(growing(root, f"PointData/{name}", values.dtype.str[1:], ()), values)
        append(root["Vertices/Connectivity"], np.arange(bodies))
        append(root["Vertices/Offsets"], np.array([bodies]))
        root["Steps"].attrs["NSteps"] = 0
        return cls(file)

    # --- writing -----------------------------------------------------------------------

    def append(
        self,
        times: FloatArray,
        numbers: IntArray,
        points: FloatArray,
        cells: IntArray,
        lines: IntArray,
        point_data: Mapping[str, FloatArray],
        cell_data: Mapping[str, NDArray[Any]],
    ) -> None:
        """Add steps; each array has the rows of all of them in sequence.

        Parameters
        ----------
        times : (n,) of the steps, s.
        numbers, cells : (n,) points and lines of each step.
        points : (np, 3) m. lines : (nl, 3) numbers of points within the step.
        point_data : arrays with np rows. cell_data : arrays with nl rows, one per line.
        """
        root, steps, count = self._root, self._steps, len(times)
        nodes, ones = NODES * cells, np.ones(count, dtype=np.int64)
        connected = np.zeros((count, len(_TOPOLOGIES)), dtype=np.int64)
        connected[:, _LINES] = _starts(root["Lines/Connectivity"], nodes)
        append(steps["Values"], times)
        append(steps["PartOffsets"], root["NumberOfPoints"].shape[0] + np.arange(count))
        append(steps["NumberOfParts"], ones)
        append(steps["PointOffsets"], _starts(root["Points"], numbers))
        append(steps["CellOffsets"], 0 * connected)
        append(steps["ConnectivityIdOffsets"], connected)
        for name, rows in point_data.items():
            data = root[f"PointData/{name}"]
            append(steps[f"PointDataOffsets/{name}"], _starts(data, numbers))
            append(data, rows)
        for name in set(root["PointData"]) - set(point_data):
            append(steps[f"PointDataOffsets/{name}"], 0 * ones)
            fixed = root[f"PointData/{name}"]  # zeros until every point has a row
            append(fixed, np.zeros(max(int(numbers.max()) - fixed.shape[0], 0)))
        begins = np.cumsum(cells) - cells
        for name, rows in cell_data.items():
            data = root[f"CellData/{name}"]
            append(steps[f"CellDataOffsets/{name}"], _starts(data, cells + 1))
            append(data, np.insert(rows, begins, 0, axis=0))
        append(root["NumberOfPoints"], numbers)
        append(root["Points"], points)
        append(root["Lines/Connectivity"], lines.ravel())
        offsets = root["Lines/Offsets"]
        append(offsets, NODES * np.arange(offsets.shape[0], int(cells.max()) + 1))
        bodies = int(root.attrs["Bodies"])
        counts = ((ones, bodies * ones), (cells, nodes), (0 * ones, 0 * ones), (0 * ones, 0 * ones))
        for name, (number, total) in zip(_TOPOLOGIES, counts, strict=True):
            append(root[f"{name}/NumberOfCells"], number)
            append(root[f"{name}/NumberOfConnectivityIds"], total)
        steps.attrs["NSteps"] = steps["Values"].shape[0]

    # --- reading -----------------------------------------------------------------------

    @property
    def times(self) -> FloatArray:
        """(steps,) s."""
        return np.asarray(self._steps["Values"][()])

    def lines(self, first: int, count: int) -> IntArray:
        """(count,) number of lines in each of ``count`` steps."""
        return np.asarray(self._root["Lines/NumberOfCells"][first : first + count])

    def points(self, first: int, count: int) -> FloatArray:
        """(np, 3) points of ``count`` steps, m."""
        numbers = self._root["NumberOfPoints"][first : first + count]
        return _rows(self._root["Points"], self._steps["PointOffsets"], first, numbers)

    def cell_data(self, name: str, first: int, count: int) -> NDArray[Any]:
        """An array on the lines of ``count`` steps, one row per line."""
        cells = self.lines(first, count) + 1
        offsets = self._steps[f"CellDataOffsets/{name}"]
        rows = _rows(self._root[f"CellData/{name}"], offsets, first, cells)
        return np.delete(rows, np.cumsum(cells) - cells, axis=0)


def _rows(
    dataset: h5py.Dataset, offsets: h5py.Dataset, first: int, lengths: IntArray
) -> NDArray[Any]:
    """Rows of a dataset for steps of these ``lengths``."""
    start = int(offsets[first]) if lengths.size else 0
    return np.asarray(dataset[start : start + int(lengths.sum())])


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


def _starts(dataset: h5py.Dataset, lengths: IntArray) -> IntArray:
    """First rows of parts of these lengths that are added to a dataset."""
    return dataset.shape[0] + np.cumsum(lengths) - lengths
