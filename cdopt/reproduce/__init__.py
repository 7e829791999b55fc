"""Papers reproduced: their figures and numbers from cdopt's own runs, on one page.

``olsen_kamrin`` runs what figures 1–19 and Table 1 of Olsen & Kamrin (arXiv 1805.07437) need,
keeps every run in a folder, and writes a summary page with the paper's numbers beside ours.
"""

from cdopt.reproduce.figures import FIGURES
from cdopt.reproduce.report import Report, olsen_kamrin
from cdopt.reproduce.settings import Settings

__all__ = ["FIGURES", "Report", "Settings", "olsen_kamrin"]
