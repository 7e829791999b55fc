"""A run as one page that needs no network: bodies in space, force chains, a slider over time.

k3d draws; it is imported when a page is made. The page holds its program, the places of all
bodies as 16-bit numbers, and the forces of every frame.
"""

from __future__ import annotations

import base64
import html
import importlib
import json
import math
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdopt import checks
from cdopt.checks import FloatArray
from cdopt.dynamics import Frame, Trajectory
from cdopt.errors import InvalidInput, Unsupported
from cdopt.plots.canvas import IDLE
from cdopt.plots.palette import force_colours
from cdopt.plots.solids import Solids

EXTRA = "pip install 'cdopt[pages]'"
BUDGET = 16 << 20  # bytes of frames, before they are compressed; a longer run is thinned out

_GRID = 65535  # places along the longest side of the scene
_SHADES = 24  # of the colour scale
_BALL_SIZE = 45  # per cent of their size at which spheres are first shown, so that chains are
_BALL, _FIXED, _BOX, _WALL = 0xC9D3DF, 0x9A9A94, 0xD9D2C4, 0xE4E4E0
_BOX_FACES = np.array([
    [0, 1, 3], [0, 3, 2], [4, 6, 7], [4, 7, 5], [0, 4, 5], [0, 5, 1],
    [2, 3, 7], [2, 7, 6], [0, 2, 6], [0, 6, 4], [1, 5, 7], [1, 7, 3],
])  # fmt: skip
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
    count = len(trajectory)
    if isinstance(frame, bool) or not isinstance(frame, int) or not -count <= frame < count:
        raise InvalidInput(
            "frame", checks.describe(frame), f"a number from {-count} to {count - 1}"
        )
    scene = trajectory.scene
    first, last = trajectory[0], trajectory.final
    solids = Solids.of(scene, trajectory.q[..., : scene.dim])
    size = 6 * (solids.balls.size + 8 * solids.boxes.size + 4 * solids.walls.size)
    size += (12 + 4 * len(last.forces)) * max(last.nc, first.nc)
    every = max(1, -(-count * size // BUDGET))
    shown = sorted({*range(0, count, every), count - 1, frame % count})
    store = _Store(solids)
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
        "frames": frames,
    }
    heading = title or scene.title or scene.name or "A run"
    rows = f"{count} frames" + (f", {len(shown)} of them shown" if len(shown) < count else "")
    subtitle = f"{trajectory.method}, Δt = {trajectory.dt:g} s, {scene.nb} bodies, {rows}"
    page = _plot(k3d, solids, first).get_snapshot(9, [], _script(content))
    fields = {
        "LAST": str(len(shown) - 1),
        "SHOWN": str(shown.index(frame % count)),
        "FORCES": _choices(trajectory.method, list(last.forces)),
        "SIZE": str(_BALL_SIZE),
        "COLOURS": ", ".join(_hex(shade) for shade in _shades()),
    }
    return _dressed(page, heading, subtitle, fields)


def save_page(
    trajectory: Trajectory, path: str | Path, frame: int = -1, *, title: str = ""
) -> Path:
    """Write the page of a run to a file.

    Raises
    ------
    Unsupported, InvalidInput : as in ``run_page``; a name that does not end in .html, or a file
        that cannot be written.
    """
    target = check_page(path)
    text = run_page(trajectory, frame, title=title)
    try:
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidInput("path", f"{path}: {error.strerror}", "a file to write to") from error
    return target


def check_page(path: str | Path) -> Path:
    """The path of a page, if it can be written and k3d is there to make it.

    Raises
    ------
    Unsupported : k3d is not installed.
    InvalidInput : another extension, or no such folder.
    """
    if not isinstance(path, str | Path):
        raise InvalidInput("path", checks.describe(path), "a path")
    target = Path(path)
    if target.suffix.lower() != ".html":
        raise InvalidInput("path", repr(str(path)), "a name ending in .html")
    if not target.parent.is_dir():
        raise InvalidInput("path", f"no folder {str(target.parent)!r}", "an existing folder")
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
            "boxes": self._places(solids.corners(state)),
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
    data = json.dumps(content, allow_nan=False).replace("<", "\\u003c")
    program = Path(__file__).with_name("page.js").read_text(encoding="utf-8")
    return f"const CDOPT = {data};\n{program}"


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
    for name, corners, faces, colour, opacity in (
        ("boxes", solids.corners(state), _BOX_FACES, _BOX, 0.45),
        ("walls", solids.patches(state), _PATCH_FACES, _WALL, 0.35),
    ):
        if corners.size:
            first = np.arange(corners.shape[0])[:, None, None] * corners.shape[1]
            plot += k3d.mesh(
                corners.reshape(-1, 3).astype(np.float32),
                (first + faces).reshape(-1, 3).astype(np.uint32),
                name=name, color=colour, opacity=opacity, side="double",
            )  # fmt: skip
    scale = np.column_stack([np.linspace(0.0, 1.0, _SHADES), _shades()])
    plot += k3d.mesh(
        np.zeros((3, 3), np.float32), np.array([[0, 1, 2]], np.uint32), name="chains",
        attribute=np.zeros(3, np.float32), color_map=scale.ravel().tolist(),
        color_range=[0.0, 1.0], flat_shading=False, side="double",
    )  # fmt: skip
    plot.colorbar_object_id = 0  # the page has a scale of its own
    return plot


def _shades() -> FloatArray:
    """(shades, 3) the colour scale of forces, red, green and blue from 0 to 1."""
    return np.asarray(force_colours()(np.linspace(0.0, 1.0, _SHADES)))[:, :3]


def _hex(shade: FloatArray) -> str:
    return "#" + "".join(f"{round(255.0 * float(part)):02x}" for part in shade)


def _choices(method: str, names: list[str]) -> str:
    """What forces may be looked at, as options of a menu."""
    words = {"f": method.removesuffix("-cd"), "f_classic": "classic"}
    return "".join(f'<option value="{name}">{words.get(name, name)}</option>' for name in names)


def _dressed(page: str, title: str, subtitle: str, fields: Mapping[str, str]) -> str:
    """A page of k3d with a title, controls and a layout for all widths."""
    head, _, rest = page.partition("<title>")
    rest = rest.partition("</title>")[2]
    style = _part("page.html")
    name = html.escape(title)
    words = f"<title>{name}</title>"
    icon = '<link rel="icon" href="data:,">'
    wide = '<meta name="viewport" content="width=device-width, initial-scale=1">'
    controls = _part("page_controls.html")
    for field, value in {"TITLE": name, "SUBTITLE": html.escape(subtitle), **fields}.items():
        controls = controls.replace(f"[{field}]", value)
    text = head + wide + icon + words + rest.replace("</head>", style + "</head>", 1)
    return text.replace('<div id="canvasTarget"></div>', controls, 1)


def _part(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")
