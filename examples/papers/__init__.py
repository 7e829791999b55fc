"""Papers reproduced: their figures and numbers from cdopt's own runs, on one page.

``olsen_kamrin`` runs what figures 1–19 and Table 1 of Olsen & Kamrin (arXiv 1805.07437) need,
keeps every run in a folder, and writes a summary page with the paper's numbers beside ours.
``de_klerk.reproduce`` does so for figures 4 and 6–11 of De Klerk et al. (arXiv 2103.01757).
"""

from . import de_klerk
from .olsen_kamrin.figures import FIGURES
from .olsen_kamrin.output import Report
from .olsen_kamrin.report import olsen_kamrin
from .olsen_kamrin.settings import Settings

__all__ = ["FIGURES", "Report", "Settings", "de_klerk", "olsen_kamrin"]
