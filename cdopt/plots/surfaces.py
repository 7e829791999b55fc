"""Solids of a run for ParaView: their faces as polygons that move, in a file next to the run's.

A trajectory file has bodies only as points, which suits spheres. This one has the
faces of all other bodies and of walls, in the same layout: VTKHDF version 2, type PolyData.
Constant data is stored once; each step has the corners and their velocities in single precision.
"""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput
from cdopt.dynamics import Frame, Trajectory
from cdopt.dynamics.records import in_space
from cdopt.plots.bodies import Solids

_TOPOLOGIES = ("Vertices", "Lines", "Polygons", "Strips")  # the order of columns in Steps


def save_surfaces(trajectory: Trajectory, path: str | Path) -> Path:
    """Write the faces of solids and walls, frame by frame; opened in ParaView with the trajectory.

    Cells carry ``body`` and ``fixed``, points ``velocity`` in m/s.

    Raises
    ------
    InvalidInput : only spheres, a name that does not end in .vtkhdf, or a file that exists or
        cannot be written.
    """
    target = checks.path("path", path)
    if target.suffix.lower() != ".vtkhdf":
        raise InvalidInput("path", repr(str(path)), "a name ending in .vtkhdf")
    scene = checks.instance("trajectory", trajectory, Trajectory).scene
    solids = Solids.of(scene, trajectory.q[..., : scene.dim])
    if not solids.pieces and not solids.walls.size:
        raise InvalidInput("trajectory", "spheres only", "a run with other bodies or walls")
    try:
        with h5py.File(target, "x") as file:
            root = file.create_group("VTKHDF")
            steps = root.create_group("Steps")
            count = _layout(root, solids)
            _steps(steps, trajectory.t, count)
            shape = (len(trajectory) * count, 3)
            points = root.create_dataset("Points", shape, "f4")
            velocity = root.create_dataset("PointData/velocity", shape, "f4")
            for k, frame in enumerate(trajectory):
                rows = slice(k * count, (k + 1) * count)
                points[rows], velocity[rows] = _corners(solids, frame)
    except OSError as error:
        found = f"{path}: {error.strerror or error}"
        raise InvalidInput("path", found, "a new file to write to") from error
    return target


def _layout(root: h5py.Group, solids: Solids) -> int:
    """Write the constant data; returns the number of points of a step."""
    corners, walls = len(solids.corners), solids.walls
    faces = [(piece.body, face) for piece in solids.pieces for face in piece.faces]
    faces += [(wall, corners + 4 * k + np.arange(4)) for k, wall in enumerate(walls.tolist())]
    body = np.array([number for number, _ in faces])
    ids = np.concatenate([face for _, face in faces])
    ends = np.cumsum([0, *(len(face) for _, face in faces)])
    count = corners + 4 * walls.size
    root.attrs["Version"] = np.array((2, 0), dtype=np.int64)
    root.attrs["Type"] = np.bytes_("PolyData")
    root["NumberOfPoints"] = np.array([count])
    for name in _TOPOLOGIES:
        solid = name == "Polygons"
        group = root.create_group(name)
        group["Connectivity"] = ids if solid else np.empty(0, dtype=np.int64)
        group["Offsets"] = ends if solid else np.zeros(1, dtype=np.int64)
        group["NumberOfCells"] = np.array([len(faces) if solid else 0])
        group["NumberOfConnectivityIds"] = np.array([ids.size if solid else 0])
    root["CellData/body"] = body
    root["CellData/fixed"] = solids.scene.bodies.fixed[body].astype(np.int8)
    return count


def _steps(steps: h5py.Group, times: FloatArray, count: int) -> None:
    n = len(times)
    still = np.zeros(n, dtype=np.int64)
    steps.attrs["NSteps"] = n
    steps["Values"] = times
    steps["PartOffsets"], steps["NumberOfParts"] = still, still + 1
    steps["PointOffsets"] = count * np.arange(n)
    for name in ("CellOffsets", "ConnectivityIdOffsets"):
        steps[name] = np.zeros((n, len(_TOPOLOGIES)), dtype=np.int64)
    steps["PointDataOffsets/velocity"] = count * np.arange(n)
    steps["CellDataOffsets/body"], steps["CellDataOffsets/fixed"] = still, still


def _corners(solids: Solids, frame: Frame) -> tuple[FloatArray, FloatArray]:
    """Corners (count, 3) m of solids and walls, and their velocities, m/s."""
    state = frame.state
    corners = np.concatenate([solids.placed(state), solids.patches(state).reshape(-1, 3)])
    body = np.concatenate([solids.owner, np.repeat(solids.walls, 4)])
    spin = state.angular_velocity
    if state.dim == 2:
        spin = np.column_stack([np.zeros((spin.size, 2)), spin])
    arm = corners - in_space(state.position[body])
    return corners, in_space(state.velocity[body]) + np.cross(spin[body], arm)
