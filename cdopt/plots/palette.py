"""One colour, one marker and one printed name per backend, the same in every picture.

Colours are those of Okabe and Ito and, for the rarer backends, of Paul Tol, which colour-blind
readers can distinguish; colours alike in grey have different markers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cdopt._util import checks
from cdopt.backends.registry import SOLVERS


@dataclass(frozen=True)
class Look:
    """How one backend is drawn: its ``name``, ``colour`` (hexadecimal), and a filled ``marker``."""

    name: str
    colour: str
    marker: Any


INK = "#1a1a1a"  # text and the compatible answer
QUIET = "#6b6b6b"  # secondary text
RULE = "#d9d9d9"  # grids, contacts without force
BODY = "#f1f1ef"  # bodies
FIXED = "#dcdcd8"  # fixed bodies
BAND = "#cfe0f0"  # admissible intervals
FRICTION = "#0072B2"  # tangential forces; contacts that stick
SLIDING = "#D55E00"  # contacts with friction at its limit
EDGE = "#6f8fb0"  # their edges, unique forces, arrows without end

COMPATIBLE = Look("Compatible", INK, "_")

PALETTE: dict[str, Look] = {
    **{name: Look(s.title, s.colour, s.marker) for name, s in SOLVERS.items() if s.colour},
    "siconos-lemke": Look("Siconos Lemke", "#777777", (5, 0, 180)),
    "siconos-pgs": Look("Siconos PGS", "#AAAA00", (7, 0, 0)),
    "siconos-newtonmin": Look("Siconos Newton-min", "#555577", (6, 1, 0)),
    "siconos-friction-nsgs": Look("Siconos NSGS", "#8899CC", (11, 1, 0)),
    "siconos-friction-nsn-ac": Look("Siconos NSN-AC", "#663333", (12, 1, 0)),
    "siconos-friction-admm": Look("Siconos ADMM", "#66AA88", (7, 1, 180)),
    "siconos-friction-prox": Look("Siconos PROX", "#885522", (10, 1, 0)),
    "siconos-friction-soclcp": Look("Siconos SOCLCP", "#BB7799", (9, 0, 0)),
}

RESERVE = tuple(  # of solvers that are not in the palette, if several are drawn
    Look("", colour, marker)
    for colour, marker in (
        (QUIET, "*"), ("#CC3311", "P"), ("#0077BB", "X"), ("#117733", "d"), ("#AA3377", "h"),
        (INK, "p"),
    )
)  # fmt: skip


def look(backend: str) -> Look:
    """How a backend is drawn; those that are not in the palette are grey stars."""
    return PALETTE.get(checks.text("backend", backend), Look(backend, QUIET, "*"))


def force_colours() -> Any:
    """Colour map of forces, light to dark, monotone in grey."""
    from matplotlib import colormaps
    from matplotlib.colors import LinearSegmentedColormap

    ramp = colormaps["inferno_r"]
    shades = [ramp(0.18 + 0.76 * i / 63.0) for i in range(64)]
    return LinearSegmentedColormap.from_list("cdopt force", shades)
