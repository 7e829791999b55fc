"""De Klerk et al. (2021), A variational integrator for the discrete element method, reproduced.

``reproduce`` draws figures 4 and 6 to 11 and writes a page with numbers beside their references:
a high-order solution (``ode``), the closed form of a head-on impact (``analytic``), and LAMMPS
(``peer``), or the series that are stored in ``data`` where it is not installed.
"""

from .figures import FIGURES
from .report import reproduce
from .settings import Settings

__all__ = ["FIGURES", "Settings", "reproduce"]
