"""Pictures of contact forces. The only room that imports plotting libraries.

Every function that draws returns a ``matplotlib.figure.Figure``. A notebook shows it when it is the
last line of a cell, and ``figure, axes = ...`` unpacks it. Pictures with one panel can be drawn
in existing axes, ``ax=``. matplotlib is imported when a figure is made.
"""

import lazy_loader

from cdopt.plots.admissible import admissible_region, force_ensemble, stiffness_influence
from cdopt.plots.audited import audited_forces
from cdopt.plots.canvas import check_path, save
from cdopt.plots.chains import force_chains, friction_forces, run_overview
from cdopt.plots.forces import (
    bounds_story,
    force_bars,
    force_distributions,
    force_histograms,
    force_intervals,
    story,
)
from cdopt.plots.palette import PALETTE, Look, look
from cdopt.plots.pressure import floor_pressure_grid
from cdopt.plots.solvers import complementarity, convergence
from cdopt.plots.structures import collapse, structure
from cdopt.plots.surfaces import save_surfaces

__all__ = [
    "PALETTE",
    "Look",
    "admissible_region",
    "audited_forces",
    "bounds_story",
    "check_path",
    "collapse",
    "complementarity",
    "convergence",
    "floor_pressure_grid",
    "force_bars",
    "force_chains",
    "force_distributions",
    "force_ensemble",
    "force_histograms",
    "force_intervals",
    "friction_forces",
    "look",
    "run_overview",
    "save",
    "save_surfaces",
    "stiffness_influence",
    "story",
    "structure",
]

# imported when first used
__getattr__, _, _ = lazy_loader.attach(__name__, submodules=["explore", "page", "report"])
