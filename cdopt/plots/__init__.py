"""Pictures of contact forces. The only room that imports plotting libraries.

Every function returns a ``matplotlib.figure.Figure``; matplotlib is imported when one is made.
"""

from cdopt.plots.bars import force_bars
from cdopt.plots.canvas import check_path, save
from cdopt.plots.chains import force_chains
from cdopt.plots.distributions import force_distributions
from cdopt.plots.palette import PALETTE, Look, look
from cdopt.plots.story import story

__all__ = [
    "PALETTE",
    "Look",
    "check_path",
    "force_bars",
    "force_chains",
    "force_distributions",
    "look",
    "save",
    "story",
]
