"""``python -m examples.rigid_limit``: follow a scene's contacts to infinite stiffness, draw it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from cdopt import plots, scene

from . import bridge, bridge_lines, friction_bridge, friction_lines
from .bridge import METHODS


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table and save the picture of the scene that the command line names."""
    parser = argparse.ArgumentParser("python -m examples.rigid_limit", description=__doc__)
    parser.add_argument("scene", nargs="?", default="pyramid:n=3,separation=0.0",
                        help="at rest, of bodies that exactly touch")  # fmt: skip
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS[:1])
    parser.add_argument("--friction", type=float, metavar="MU",
                        help="discrete elements with friction instead, on a pile")  # fmt: skip
    parser.add_argument("--n", type=int, default=3, help="spheres along the base of that pile")
    parser.add_argument("--out", type=Path, default=Path("rigid_limit.png"), help="the picture")
    options = parser.parse_args(arguments)
    if options.friction is not None:
        rough = friction_bridge(options.n, options.friction, progress=True)
        print(rough)
        plots.save(friction_lines(rough), options.out)
        print(f"\nThe picture is {options.out}")
        return
    result = bridge(scene.load(options.scene), methods=options.methods, progress=True)
    print(result)
    title = "Elastic contacts tend to compatible forces"
    plots.save(bridge_lines(result, title=title), options.out)
    print(f"\nThe picture is {options.out}")


if __name__ == "__main__":
    main()
