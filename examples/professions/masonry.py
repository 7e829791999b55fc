"""An arch as CAD wrote it (``arch.obj``): does it stand, how far may it be pushed?"""

from __future__ import annotations

from pathlib import Path

import cdopt
from cdopt.hyperstatic import StabilityVerdict

FILE = Path(__file__).with_name("arch.obj")
DENSITY, MU = 2400.0, 0.6
LESS = (0.2, 0.1, 0.05)  # friction


def run(out: Path) -> dict[float, StabilityVerdict]:
    """Print the verdicts by friction, and save a picture of the thrust and of what moves."""
    verdicts = {MU: cdopt.stability(FILE, friction=MU, density=DENSITY)}
    print(f"friction {MU}: {verdicts[MU].summary}")
    for mu in LESS:
        verdicts[mu] = cdopt.stability(FILE, friction=mu, density=DENSITY, limits=False)
        print(f"friction {mu}: {verdicts[mu].verdict}")
    cdopt.plots.structure(verdicts[MU], view="side").savefig(out / "masonry.png", dpi=120)
    return verdicts
