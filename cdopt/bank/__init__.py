"""The problem bank: contact problems as data, each with what is known of its answer.

One bank serves tests, studies, examples and the command line. Problems live in ``problems/``,
one folder each with a ``manifest.toml`` that states what the problem is for, what is unique in
its answer and why, and the reference values with their sources.

>>> import cdopt
>>> cdopt.bank.load("beam-stiff-middle").references["f_compatible"]
array([2., 6., 2.])

Public names are listed in ``__init__.pyi`` and imported when they are first used: manifests are
read without what solves problems.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
