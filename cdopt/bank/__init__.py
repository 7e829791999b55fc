"""The problem bank: contact problems as data, with known values of their answers.

Tests, studies, examples and the command line share it. Problems are in ``problems/``,
one folder each with a ``manifest.toml`` that states what the problem is for, what is unique in
its answer and why, and the reference values with their sources.

>>> import cdopt
>>> cdopt.bank.load("beam-stiff-middle").references["f_compatible"]
array([2., 6., 2.])

Public names are listed in ``__init__.pyi`` and imported on first use, so that manifests can be
read without importing solvers.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
