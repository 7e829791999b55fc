"""Small contact problems as interactive pages: sliders for stiffness, load, power and order.

A page needs no network and solves the problem itself whenever a slider moves.

>>> import cdopt.plots.explore
>>> posed = cdopt.plots.explore.of_scene(cdopt.scene.beam())
>>> posed.names, posed.load.start
(('left', 'middle', 'right'), (10.0, 0.5))
"""

from cdopt._util.arguments import guard
from cdopt._util.documents import check_page
from cdopt.plots.explore.exploration import (
    MOST,
    Exploration,
    check_bodies,
    of_problem,
    of_scene,
    of_step,
)
from cdopt.plots.explore.friction import FrictionalExploration, of_friction
from cdopt.plots.explore.loads import Load
from cdopt.plots.explore.pages import page, save_page

__all__ = [
    "MOST",
    "Exploration",
    "FrictionalExploration",
    "Load",
    "check_bodies",
    "check_page",
    "of_friction",
    "of_problem",
    "of_scene",
    "of_step",
    "page",
    "save_page",
]

guard(globals())
