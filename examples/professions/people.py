"""The three pictures at the top of the README: a robot's feet, an arch, a pile of grains."""

from __future__ import annotations

from pathlib import Path

import cdopt
from cdopt.plots import force_chains, friction_forces

from . import engines


def run(out: Path) -> None:
    """Draw them side by side in a folder."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12.0, 3.8), facecolor="white")
    feet, arch, grains = (
        figure.add_axes((x, y, wide, tall))
        for x, y, wide, tall in (
            (0.05, 0.28, 0.24, 0.58),
            (0.36, 0.14, 0.3, 0.74),
            (0.7, 0.14, 0.29, 0.74),
        )
    )
    quadruped = engines.judged(engines.quadruped())
    engines.draw(feet, quadruped)
    feet.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2, frameon=False, fontsize=7)
    feet.set_title("")
    step = cdopt.bank.load("rough-arch").step
    solution = cdopt.FrictionalCD(step).solve()
    friction_forces(step, [solution], bodies=cdopt.scene.files.placed(step), ax=arch)
    scene = cdopt.scene.load("grain-column:n=60")
    falling = cdopt.simulate(scene, dt=5e-3, duration=0.15).final.state
    touching = cdopt.collision.detect(scene, falling)
    pile = cdopt.collision.step(scene, falling, touching, dt=1e-3, friction=0.5)
    rough = cdopt.FrictionalCD(pile).solve("nsgs")
    force_chains(pile.without_friction(), [rough], bodies=(scene, falling), ax=grains)
    for axes, title in ((feet, "Robots: what a foot may carry, and four engines"),
                        (arch, "Masonry: forces in an arch with friction"),
                        (grains, "Grains: forces in a collapsing column")):  # fmt: skip
        for text in list(axes.texts):
            text.remove()
        axes.set_title(title, fontsize=10, loc="left")
    for bar, label in zip(figure.axes[3:], ("mobilised friction", "normal force [N]"), strict=True):
        bar.set_xlabel(label, fontsize=8)
    figure.savefig(out / "people.png", dpi=110)
