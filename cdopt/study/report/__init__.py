"""What the runs of a study say: statistics, tables, and their limits.

``statistics`` knows nothing of solvers; ``all_tables`` makes tables of records; ``text`` writes
them. Pictures and the page are in ``cdopt.plots`` and ``cdopt.plots.report``.
"""

from cdopt.study.report.all_tables import tables
from cdopt.study.report.chosen import Results, read
from cdopt.study.report.limits import limitations
from cdopt.study.report.statistics import (
    PowerFit,
    Profile,
    performance_profiles,
    power_fit,
    shifted_geometric_mean,
)
from cdopt.study.report.table import Table

__all__ = [
    "PowerFit",
    "Profile",
    "Results",
    "Table",
    "limitations",
    "performance_profiles",
    "power_fit",
    "read",
    "shifted_geometric_mean",
    "tables",
]
