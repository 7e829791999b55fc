"""A run as one self-contained page: bodies, force chains, a slider over time.

A run in the plane draws itself (``flat_page``). In space k3d draws, and is imported when a page is
made. The page stores meshes once, and for every frame the positions and rotations of bodies, as
16-bit numbers, and the forces.
"""

from __future__ import annotations

import base64
import importlib
import math
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from cdopt._util import checks, documents
from cdopt._util.checks import FloatArray
from cdopt._util.errors import Unsupported
from cdopt.dynamics import Frame, Trajectory
from cdopt.dynamics.records import in_space
from cdopt.plots import flat_page
from cdopt.plots.bodies import Solids
from cdopt.plots.canvas import IDLE
from cdopt.plots.palette import force_colours
from cdopt.scene import Scene

EXTRA = "pip install k3d"
BUDGET = 16 << 20  # bytes of frames, before they are compressed; a longer run is thinned out

_GRID = 65535  # places along the longest side of the scene
_SHADES = 24  # of the colour scale
_TURNS = 32767  # one, of the numbers of a unit quaternion
_BALL_SIZE = 45  # per cent of their size at which spheres are first shown, so that chains are
_OPACITY = 35  # per cent, at which other bodies are first shown, for the same reason
_BALL, _FIXED, _SOLID, _EDGE, _WALL = 0xC9D3DF, 0x9A9A94, 0xD9D2C4, 0x8C8474, 0xE4E4E0
_VIEW = 30.0  # degrees from the lower to the upper edge
_FROM, _UP = [0.46, -0.80, 0.37], [0.0, 0.0, 1.0]


def run_page(trajectory: Trajectory, frame: int = -1, *, title: str = "") -> str:
    """The text of a self-contained HTML page that begins with a ``frame``.

    In the plane discs show how they turn, and lines are blue where contacts stick and red where
    they slide, that is where ‖f_T‖ is within 0.1 % of μ f_n.
    """
    checks.instance("trajectory", trajectory, Trajectory)
    scene, count = trajectory.scene, len(trajectory)
    title = checks.text("title", title) or scene.title or scene.name or "A run"
    begin = checks.index("frame", frame, count) % count
    called = {"f": trajectory.method.removesuffix("-cd"), "f_classic": "classic"}
    labels = {name: called.get(name, name) for name in trajectory.final.normal_forces}
    draw = flat_page.render if scene.dim == 2 else _in_space
    return draw(trajectory, begin, title, labels)


def _in_space(trajectory: Trajectory, begin: int, title: str, labels: dict[str, str]) -> str:
    """The page of a run in space, by k3d."""
    from matplotlib.colors import to_hex

    k3d, scene, first, last = _k3d(), trajectory.scene, trajectory[0], trajectory.final
    solids = Solids.of(scene, trajectory.q[..., : scene.dim])
    size = 6 * solids.balls.size + 14 * solids.others.size + 48 * solids.walls.size
    size += (12 + 4 * len(last.forces)) * max(last.nc, first.nc)
    shown, about = flat_page.thinned(trajectory, begin, size, BUDGET)
    store = _Store(solids)
    row = np.searchsorted(solids.others, solids.owner)
    content = {
        "solids": {"corners": store.add(solids.corners, "f4"), "row": store.add(row, "u4")},
        "frames": [store.frame(trajectory[k]) for k in shown],
        "data": base64.b64encode(zlib.compress(store.block, 9)).decode(),
        "low": solids.low.tolist(),
        "high": solids.high.tolist(),
        "from": _FROM,
        "up": _UP,
        "away": 0.46 / math.tan(math.radians(0.5 * _VIEW)),
        "step": store.step,
        "thick": solids.thick,
        "idle": IDLE,
        "top": store.top,
        "radii": solids.radii.tolist(),
    }
    script = documents.render("run_script.js", content=content)
    library, program = _parts(_plot(k3d, solids, first).get_snapshot(9, [], script))
    return documents.render(
        "run.html",
        title=title,
        subtitle=about,
        library=library,
        program=program,
        last=len(shown) - 1,
        shown=shown.index(begin),
        forces=labels,
        size=_BALL_SIZE,
        opacity=_OPACITY,
        balls=solids.balls.size,
        solids=solids.others.size,
        colours=[to_hex(shade) for shade in _shades()],
    )


def save_page(
    trajectory: Trajectory, path: str | Path, frame: int = -1, *, title: str = ""
) -> Path:
    """Write the page of a run to a file."""
    checks.instance("trajectory", trajectory, Trajectory)
    target = check_page(path, trajectory.scene)
    return documents.save_page(run_page(trajectory, frame, title=title), target)


def check_page(path: str | Path, scene: Scene) -> Path:
    """The path of a page of a run of a scene, if it can be written and what draws it is there."""
    target = documents.check_page(path)
    if checks.instance("scene", scene, Scene).dim == 3:
        _k3d()
    return target


def _k3d() -> Any:
    try:
        return importlib.import_module("k3d")
    except ModuleNotFoundError as error:
        raise Unsupported("a page", f"{error.name} is not installed; {EXTRA}") from error


class _Store:
    """Arrays in one block of bytes, each described by where it begins; ``step`` of the grid, m."""

    def __init__(self, solids: Solids) -> None:
        self._solids, self.block, self.top = solids, bytearray(), 0.0
        self.step = max(float((solids.high - solids.low).max()), 1e-300) * 1.2 / _GRID

    def frame(self, frame: Frame) -> dict[str, Any]:
        solids, state, x = self._solids, frame.state, in_space(frame.state.position)
        forces = frame.normal_forces
        peak = np.max([np.zeros(frame.nc), *forces.values()], axis=0)
        top = float(peak.max(initial=0.0))
        self.top = max(self.top, top)
        loaded = peak > IDLE * top
        return {
            "t": state.t,
            "step": frame.step,
            "contacts": frame.nc,
            "balls": self._positions(x[solids.balls]),
            "places": self._positions(x[solids.others]),
            "turns": self.add(np.rint(_TURNS * solids.quaternions(state)), "i2"),
            "walls": self.add(solids.patches(state), "f4"),
            "lines": self._positions(solids.lines(frame)[loaded]),
            "forces": {name: self.add(f[loaded], "f4") for name, f in forces.items()},
        }

    def _positions(self, points: FloatArray) -> dict[str, Any]:
        raw = np.rint((points.reshape(-1, 3) - self._solids.low) / self.step)
        return self.add(np.clip(raw, 0, _GRID), "u2")

    def add(self, array: NDArray[Any], kind: str) -> dict[str, Any]:
        """Store an array; returns where it is."""
        raw = array.astype(f"<{kind}").tobytes()
        where = {"start": len(self.block), "bytes": len(raw), "kind": kind}
        self.block += raw
        return where


def _plot(k3d: Any, solids: Solids, frame: Frame) -> Any:
    """The objects of the page in one frame."""
    plot = k3d.plot(
        camera_auto_fit=False,
        grid_visible=False,
        menu_visibility=False,
        axes_helper=0.0,
        camera_fov=_VIEW,
        camera_mode="orbit",
        camera_up_axis="z",
    )
    state, fixed = frame.state, solids.scene.bodies.fixed
    if solids.balls.size:
        colours = np.where(fixed[solids.balls], _FIXED, _BALL).astype(np.uint32)
        centres = in_space(state.position[solids.balls]).astype(np.float32)
        sizes = (2.0 * solids.radii).astype(np.float32)
        plot += k3d.points(centres, name="balls", point_sizes=sizes, colors=colours, shader="3d")
    if solids.others.size:
        corners = solids.placed(state).astype(np.float32)
        colours = np.where(fixed[solids.owner], _FIXED, _SOLID).astype(np.uint32)
        style = {"colors": colours, "opacity": _OPACITY / 100.0, "flat_shading": False}
        faces = solids.triangles.astype(np.uint32)
        plot += k3d.mesh(corners, faces, name="solids", side="front", **style)
        edges = np.array([pair for p in solids.pieces for pair in p.edges], np.uint32)
        style = {"indices_type": "segment", "shader": "simple", "color": _EDGE}
        plot += k3d.lines(corners, edges.reshape(-1, 2), name="edges", **style)
    if solids.walls.size:
        corners = solids.patches(state).reshape(-1, 3).astype(np.float32)
        first = 4 * np.arange(solids.walls.size)[:, None, None]
        faces = (first + np.array([[0, 1, 2], [0, 2, 3]])).reshape(-1, 3).astype(np.uint32)
        style = {"color": _WALL, "opacity": 0.35, "side": "double"}
        plot += k3d.mesh(corners, faces, name="walls", **style)
    scale = np.column_stack([np.linspace(0.0, 1.0, _SHADES), _shades()]).ravel().tolist()
    none, one_face = np.zeros((3, 3), np.float32), np.array([[0, 1, 2]], np.uint32)
    style = {"attribute": none[0], "color_map": scale, "color_range": [0.0, 1.0]}
    style |= {"flat_shading": False, "side": "double"}
    plot += k3d.mesh(none, one_face, name="chains", **style)
    plot.colorbar_object_id = 0  # the page draws the scale
    return plot


def _shades() -> FloatArray:
    """(shades, 3) the colour scale of forces, red, green and blue from 0 to 1."""
    return np.asarray(force_colours()(np.linspace(0.0, 1.0, _SHADES)))[:, :3]


def _parts(page: str) -> tuple[Markup, Markup]:
    """The scripts in the head and in the body of a page by k3d."""
    library, end, rest = page.partition("</style>")[2].partition("</head>")
    program, close, _ = rest.partition('<div id="canvasTarget"></div>')[2].rpartition("</body>")
    if not (library and end and program and close):
        raise Unsupported("a page", "the pages of this version of k3d have another form")
    return Markup(library), Markup(program)
