"""A run as one page that needs no network: bodies in space, force chains, a slider over time.

k3d draws; it is imported when a page is made. The page holds its program, the meshes of bodies
that are no spheres once, and for every frame where bodies are, how they are turned, as 16-bit
numbers, and the forces.
"""

from __future__ import annotations

import base64
import importlib
import math
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from cdopt._util import documents
from cdopt._util.checks import FloatArray
from cdopt._util.errors import Unsupported
from cdopt.dynamics import Frame, Trajectory
from cdopt.plots.canvas import IDLE
from cdopt.plots.palette import force_colours
from cdopt.plots.run import frame_number
from cdopt.plots.solids import Solids, in_space

EXTRA = "pip install 'cdopt[pages]'"
BUDGET = 16 << 20  # bytes of frames, before they are compressed; a longer run is thinned out

_GRID = 65535  # places along the longest side of the scene
_SHADES = 24  # of the colour scale
_TURNS = 32767  # one, of the numbers of a unit quaternion
_BALL_SIZE = 45  # per cent of their size at which spheres are first shown, so that chains are
_OPACITY = 35  # per cent, at which other bodies are first shown, for the same reason
_BALL, _FIXED, _SOLID, _EDGE, _WALL = 0xC9D3DF, 0x9A9A94, 0xD9D2C4, 0x8C8474, 0xE4E4E0
_PATCH_FACES = np.array([[0, 1, 2], [0, 2, 3]])
_VIEW = 30.0  # degrees from the lower to the upper edge
_LOOK = {2: ([0.0, 0.0, 1.0], [0.0, 1.0, 0.0]), 3: ([0.46, -0.80, 0.37], [0.0, 0.0, 1.0])}


def run_page(trajectory: Trajectory, frame: int = -1, *, title: str = "") -> str:
    """The text of a self-contained HTML page.

    Parameters
    ----------
    trajectory : at least one frame; of long runs every second, third, … frame is shown.
    frame : number of the frame to begin with, negative from the end.
    title : by default the scene's.

    Raises
    ------
    Unsupported : k3d is not installed.
    InvalidInput : no such frame.
    """
    k3d = _k3d()
    count, begin = len(trajectory), frame_number(trajectory, frame)
    scene = trajectory.scene
    first, last = trajectory[0], trajectory.final
    solids = Solids.of(scene, trajectory.q[..., : scene.dim])
    size = 6 * solids.balls.size + 14 * solids.meshes.body.size + 48 * solids.walls.size
    size += (12 + 4 * len(last.forces)) * max(last.nc, first.nc)
    every = max(1, -(-count * size // BUDGET))
    shown = sorted({*range(0, count, every), count - 1, begin})
    store = _Store(solids)
    solid = store.solids()
    frames = [store.frame(trajectory[k]) for k in shown]
    content = {
        "data": base64.b64encode(zlib.compress(store.bytes(), 9)).decode(),
        "low": solids.low.tolist(),
        "high": solids.high.tolist(),
        "from": _LOOK[scene.dim][0],
        "up": _LOOK[scene.dim][1],
        "away": 0.46 / math.tan(math.radians(0.5 * _VIEW)),
        "step": store.step,
        "thick": solids.thick,
        "idle": IDLE,
        "top": store.top,
        "radii": solids.radii.tolist(),
        "solids": solid,
        "frames": frames,
    }
    heading = title or scene.title or scene.name or "A run"
    rows = f"{count} frames" + (f", {len(shown)} of them shown" if len(shown) < count else "")
    subtitle = f"{trajectory.method}, Δt = {trajectory.dt:g} s, {scene.nb} bodies, {rows}"
    library, program = _parts(_plot(k3d, solids, first).get_snapshot(9, [], _script(content)))
    words = {"f": trajectory.method.removesuffix("-cd"), "f_classic": "classic"}
    return documents.render(
        "run.html", title=heading, subtitle=subtitle, library=library, program=program,
        last=len(shown) - 1, shown=shown.index(begin),
        forces={name: words.get(name, name) for name in last.forces},
        size=_BALL_SIZE, opacity=_OPACITY, balls=solids.balls.size,
        solids=solids.meshes.body.size, colours=[_hex(shade) for shade in _shades()],
    )  # fmt: skip


def save_page(
    trajectory: Trajectory, path: str | Path, frame: int = -1, *, title: str = ""
) -> Path:
    """Write the page of a run to a file.

    Raises
    ------
    Unsupported, InvalidInput : as in ``run_page`` and ``check_page``, or a file that cannot be
        written.
    """
    target = check_page(path)
    return documents.save_page(run_page(trajectory, frame, title=title), target)


def check_page(path: str | Path) -> Path:
    """The path of a page, if it can be written and k3d is there to make it.

    Raises
    ------
    Unsupported : k3d is not installed.
    InvalidInput : another extension, no such folder, or a file that is no page of cdopt.
    """
    target = documents.check_page(path)
    _k3d()
    return target


def _k3d() -> Any:
    """The package that draws."""
    try:
        return importlib.import_module("k3d")
    except ModuleNotFoundError as error:
        raise Unsupported("a page", f"{error.name} is not installed; {EXTRA}") from error


class _Store:
    """Frames as parts of one block of bytes.

    Attributes
    ----------
    step : m, of the grid of places. top : N, the largest force of all frames.
    """

    def __init__(self, solids: Solids) -> None:
        self._solids = solids
        self._parts: list[bytes] = []
        self._size = 0
        self.step = max(float((solids.high - solids.low).max()), 1e-300) * 1.2 / _GRID
        self.top = 0.0

    def solids(self) -> dict[str, Any]:
        """Where in the block the meshes are: corners in their bodies' frames, and their rows."""
        meshes = self._solids.meshes
        row = np.searchsorted(meshes.body, meshes.owner)
        return {
            "corners": self._reals(meshes.vertices),
            "row": self._add(row.astype("<u4"), "u4"),
        }

    def frame(self, frame: Frame) -> dict[str, Any]:
        """Where in the block the numbers of a frame are."""
        solids, state = self._solids, frame.state
        forces = {name: np.nan_to_num(f) for name, f in frame.forces.items()}
        top = max((float(f.max(initial=0.0)) for f in forces.values()), default=0.0)
        self.top = max(self.top, top)
        peak = np.max([np.zeros(frame.nc), *forces.values()], axis=0)
        loaded = peak > IDLE * top
        return {
            "t": state.t,
            "step": frame.step,
            "contacts": frame.nc,
            "balls": self._places(solids.centres(state)),
            "places": self._places(in_space(state.position[solids.meshes.body])),
            "turns": self._turns(solids.meshes.quaternions(state)),
            "walls": self._reals(solids.patches(state)),
            "lines": self._places(solids.lines(frame)[loaded]),
            "forces": {name: self._reals(f[loaded]) for name, f in forces.items()},
        }

    def bytes(self) -> bytes:
        """The block."""
        return b"".join(self._parts)

    def _places(self, points: FloatArray) -> dict[str, Any]:
        raw = np.rint((points.reshape(-1, 3) - self._solids.low) / self.step)
        return self._add(np.clip(raw, 0, _GRID).astype("<u2"), "u2")

    def _turns(self, quaternions: FloatArray) -> dict[str, Any]:
        return self._add(np.rint(_TURNS * quaternions).astype("<i2"), "i2")

    def _reals(self, values: FloatArray) -> dict[str, Any]:
        return self._add(values.astype("<f4"), "f4")

    def _add(self, array: NDArray[Any], kind: str) -> dict[str, Any]:
        raw = array.tobytes()
        where = {"start": self._size, "bytes": len(raw), "kind": kind}
        self._parts.append(raw)
        self._size += len(raw)
        return where


def _script(content: Mapping[str, Any]) -> str:
    """The program of the page and what it shows."""
    return documents.render("run_script.js", content=content)


def _plot(k3d: Any, solids: Solids, frame: Frame) -> Any:
    """The objects of the page as they stand in one frame."""
    flat = solids.scene.dim == 2
    plot = k3d.plot(
        camera_auto_fit=False, grid_visible=False, menu_visibility=False, axes_helper=0.0,
        camera_fov=_VIEW, camera_mode="trackball" if flat else "orbit",
        camera_up_axis="y" if flat else "z",
    )  # fmt: skip
    state, fixed = frame.state, solids.scene.bodies.fixed
    if solids.balls.size:
        plot += k3d.points(
            solids.centres(state).astype(np.float32), name="balls", shader="3d",
            point_sizes=(2.0 * solids.radii).astype(np.float32),
            colors=np.where(fixed[solids.balls], _FIXED, _BALL).astype(np.uint32),
        )  # fmt: skip
    if solids.meshes.body.size:
        for part in _meshes(k3d, solids, frame):
            plot += part
    if solids.walls.size:
        corners = solids.patches(state)
        first = 4 * np.arange(solids.walls.size)[:, None, None]
        plot += k3d.mesh(
            corners.reshape(-1, 3).astype(np.float32),
            (first + _PATCH_FACES).reshape(-1, 3).astype(np.uint32),
            name="walls", color=_WALL, opacity=0.35, side="double",
        )  # fmt: skip
    scale = np.column_stack([np.linspace(0.0, 1.0, _SHADES), _shades()])
    plot += k3d.mesh(
        np.zeros((3, 3), np.float32), np.array([[0, 1, 2]], np.uint32), name="chains",
        attribute=np.zeros(3, np.float32), color_map=scale.ravel().tolist(),
        color_range=[0.0, 1.0], flat_shading=False, side="double",
    )  # fmt: skip
    plot.colorbar_object_id = 0  # the page has a scale of its own
    return plot


def _meshes(k3d: Any, solids: Solids, frame: Frame) -> tuple[Any, Any]:
    """The bodies that are no spheres: their faces, and their edges as lines."""
    meshes, fixed = solids.meshes, solids.scene.bodies.fixed
    corners = meshes.placed(frame.state).astype(np.float32)
    faces = k3d.mesh(
        corners, meshes.triangles.astype(np.uint32), name="solids", flat_shading=False,
        colors=np.where(fixed[meshes.owner], _FIXED, _SOLID).astype(np.uint32),
        opacity=_OPACITY / 100.0, side="front",
    )  # fmt: skip
    edges = k3d.lines(
        corners, meshes.edges.astype(np.uint32), indices_type="segment", name="edges",
        shader="simple", color=_EDGE,
    )  # fmt: skip
    return faces, edges


def _shades() -> FloatArray:
    """(shades, 3) the colour scale of forces, red, green and blue from 0 to 1."""
    return np.asarray(force_colours()(np.linspace(0.0, 1.0, _SHADES)))[:, :3]


def _hex(shade: FloatArray) -> str:
    return "#" + "".join(f"{round(255.0 * float(part)):02x}" for part in shade)


def _parts(page: str) -> tuple[Markup, Markup]:
    """Of a page by k3d: the scripts of its head, and those of its body, which hold no foreign text.

    Raises
    ------
    Unsupported : a version of k3d whose pages look otherwise.
    """
    library, end, rest = page.partition("</style>")[2].partition("</head>")
    program, close, _ = rest.partition('<div id="canvasTarget"></div>')[2].rpartition("</body>")
    if not (library and end and program and close):
        raise Unsupported("a page", "k3d of this version makes pages that are not known here")
    return Markup(library), Markup(program)
