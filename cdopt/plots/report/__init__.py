"""Reports of solver studies: one page that needs nothing else, tables and pictures beside it."""

from cdopt.plots.report.pictures import pictures
from cdopt.plots.report.writing import check_into, write, write_into

__all__ = ["check_into", "pictures", "write", "write_into"]
