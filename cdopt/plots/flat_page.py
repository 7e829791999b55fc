"""A run in the plane as one self-contained page: bodies, force chains, sliding contacts.

The page draws by itself, on a canvas. It stores outlines once, and for every frame whole numbers:
places on a grid, angles, and forces as shares of the frame's largest.
"""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdopt._util import documents
from cdopt._util.checks import FloatArray
from cdopt.collision import PairFriction
from cdopt.dynamics import Frame, Trajectory
from cdopt.dynamics.records import in_space
from cdopt.plots import canvas
from cdopt.plots.bodies import Solids
from cdopt.plots.palette import BODY, EDGE, FIXED, FRICTION, SLIDING

BUDGET = 12 << 20  # bytes of frames, before they are compressed; a longer run is thinned out

_GRID = 10000  # places along the longest side of the scene
_TURN = 1000.0  # of angles: parts of a radian
_SHARES = 1000.0  # of the largest force of a frame
_NUMBER = 4  # bytes of a usual one as text
_COLOURS = {"body": BODY, "fixed": FIXED, "edge": EDGE, "sticks": FRICTION, "slides": SLIDING}
_LIMIT = 1e-3  # of μ f_n: nearer to it a contact counts as sliding


def render(trajectory: Trajectory, begin: int, title: str, labels: dict[str, str]) -> str:
    """The text of the page of a run in the plane that shows frame ``begin`` first."""
    content, about = _content(trajectory, begin)
    block = zlib.compress(json.dumps(content, separators=(",", ":")).encode(), 9)
    return documents.render(
        "flat_run.html",
        title=title,
        subtitle=about,
        last=len(content["frames"]) - 1,
        shown=content["begin"],
        forces=labels,
        rough=content["rough"],
        colours=_COLOURS,
        data=base64.b64encode(block).decode(),
    )


def thinned(trajectory: Trajectory, begin: int, size: int, budget: int) -> tuple[list[int], str]:
    """Numbers of the frames shown, ``size`` bytes each, and what the page is of, in words."""
    count = len(trajectory)
    every = max(1, -(-count * size // budget))
    shown = sorted({*range(0, count, every), count - 1, begin})
    rows = f"{count:,} frames" + (f", {len(shown):,} of them shown" if len(shown) < count else "")
    what = f"{trajectory.method}, Δt = {trajectory.dt:g} s, {trajectory.scene.nb:,} bodies"
    return shown, f"{what}, {rows}"


def _content(trajectory: Trajectory, begin: int) -> tuple[dict[str, Any], str]:
    """The data that the page's program reads, as plain values, and the title."""
    scene, last = trajectory.scene, trajectory.final
    solids = Solids.of(scene, trajectory.q[..., : scene.dim])
    most = max(last.nc, trajectory[len(trajectory) // 2].nc)
    size = _NUMBER * (3 * scene.nb + 8 * solids.walls.size + (7 + len(last.forces)) * most)
    shown, about = thinned(trajectory, begin, size, BUDGET)
    grid = _Grid(solids)
    outlines = [
        {"body": piece.body, "ring": grid.lengths(solids.corners[piece.faces[0], :2])}
        for piece in solids.pieces
    ]
    rough = "f_t" in last.forces
    friction = PairFriction(trajectory.friction) if rough else None
    content = {
        "size": grid.lengths(solids.high - solids.low)[:2],
        "thick": grid.lengths(solids.thick),
        "fixed": np.flatnonzero(scene.bodies.fixed).tolist(),
        "balls": solids.balls.tolist(),
        "radii": grid.lengths(solids.radii),
        "outlines": outlines,
        "turn": _TURN,
        "shares": _SHARES,
        "rough": rough,
        "begin": shown.index(begin),
        "frames": [_frame(trajectory[k], grid, friction) for k in shown],
    }
    return content, about


class _Grid:
    """Metres as whole numbers of a grid from the lowest corner of the scene."""

    def __init__(self, solids: Solids) -> None:
        self.solids, self.low = solids, solids.low[:2]
        self.step = max(float((solids.high - solids.low).max()), 1e-300) / _GRID

    def places(self, points: FloatArray) -> list[int]:
        """Points (..., 2 or 3) m, one coordinate after another."""
        return self.lengths((points[..., :2] - self.low).ravel())

    def lengths(self, metres: Any) -> Any:
        """Lengths in steps of the grid."""
        return _whole(np.asarray(metres) / self.step)


def _frame(frame: Frame, grid: _Grid, friction: PairFriction | None) -> dict[str, Any]:
    """A frame: bodies, walls, and the lines, sliding and forces of the loaded contacts."""
    solids, state = grid.solids, frame.state
    forces = frame.normal_forces
    peak = np.max([np.zeros(frame.nc), *forces.values()], axis=0)
    top = float(peak.max(initial=0.0))
    loaded = peak > canvas.IDLE * top
    slides = np.zeros(frame.nc, dtype=bool)
    if friction is not None and frame.nc:
        most = friction.coefficients(solids.scene, frame.bodies) * forces["f"]
        used = np.linalg.norm(np.nan_to_num(frame.f_t), axis=1)
        slides = loaded & (used >= (1.0 - _LIMIT) * most)
    lines = solids.lines(frame)[loaded]
    return {
        "t": float(f"{state.t:.6g}"),
        "step": frame.step,
        "contacts": frame.nc,
        "x": grid.places(state.position),
        "a": _whole(_TURN * state.orientation),
        "walls": grid.places(solids.patches(state)[:, :2]),
        "lines": grid.places(np.insert(lines, 1, in_space(frame.points[loaded]), axis=1)),
        "slides": slides[loaded].astype(int).tolist(),
        "top": {n: float(f"{f.max(initial=0.0):.6g}") for n, f in forces.items()},
        "f": {n: _whole(_SHARES * f[loaded] / (top or 1.0)) for n, f in forces.items()},
        "unit": top,
    }


def _whole(values: NDArray[Any]) -> Any:
    return np.rint(values).astype(np.int64).tolist()
