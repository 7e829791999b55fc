"""Two papers reproduced: their figures and numbers from cdopt's own runs, on one page each.

``olsen_kamrin.reproduce`` makes figures 1 to 19 and Table 1 of Olsen & Kamrin (arXiv 1805.07437),
``de_klerk.reproduce`` figures 2 and 4 to 11 of De Klerk et al. (arXiv 2103.01757). Every run is
kept in a folder and read the next time. Run ``python -m examples.papers --help``.
"""

from . import de_klerk, olsen_kamrin

__all__ = ["de_klerk", "olsen_kamrin"]
