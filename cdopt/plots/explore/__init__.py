"""Small contact problems as pages to play with: sliders for stiffness, load, power and order.

A page needs no network and solves in itself, so that no table of stored answers limits a slider.

>>> import cdopt.plots.explore
>>> posed = cdopt.plots.explore.of_scene(cdopt.scene.beam())
>>> posed.names, posed.load.start
(('left', 'middle', 'right'), (10.0, 0.5))
"""

from cdopt.plots.explore.exploration import MOST, Exploration, of_problem, of_scene, of_step
from cdopt.plots.explore.loads import Load
from cdopt.plots.explore.page import check_page, page, save_page

__all__ = [
    "MOST",
    "Exploration",
    "Load",
    "check_page",
    "of_problem",
    "of_scene",
    "of_step",
    "page",
    "save_page",
]
