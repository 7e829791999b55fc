"""The stored series: what the figures are compared with where LAMMPS is not installed.

Their source, units and columns stand in ``data/README.md``, beside them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import FloatArray, read_only

FOLDER = Path(__file__).with_name("data")
KINDS = ("impact", "walls", "box")


@cache
def stored(kind: str) -> Mapping[str, FloatArray]:
    """All arrays of "impact", "walls" or "box", by key, in double precision and read-only.

    Raises
    ------
    InvalidInput : no such kind.
    """
    name = checks.choice("kind", kind, KINDS)
    with np.load(FOLDER / f"{name}.npz", allow_pickle=False) as held:
        found = {key: read_only(held[key].astype(np.float64)) for key in held.files}
    return MappingProxyType(found)


def box_start(tangential: bool = True) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Positions, velocities and angular velocities (218, 3) of the box at t = 0, m = d = g = 1.

    ``tangential`` chooses the start made with tangential damping, or the one without spins.
    """
    held, name = stored("box"), "ic" if tangential else "ic0"
    return held[f"{name}_x"], held[f"{name}_v"], held[f"{name}_w"]
