"""The problem bank: contact problems as data, each with what is known of its answer.

One bank serves tests, studies, examples and the command line. Problems live in ``problems/``,
one folder each with a ``manifest.toml`` that says what the problem is for, what is unique in
its answer and why, and the reference values with their sources.

>>> import cdopt
>>> cdopt.bank.load("beam-stiff-middle").references["f_compatible"]
array([2., 6., 2.])
"""

from cdopt._util.arguments import guard
from cdopt._util.files import problems_folder
from cdopt.bank import frictional, generators, quantities
from cdopt.bank.family import Family, families
from cdopt.bank.manifests import Manifest, manifest, names
from cdopt.bank.problem import BankProblem, load

__all__ = [
    "BankProblem",
    "Family",
    "Manifest",
    "families",
    "frictional",
    "generators",
    "load",
    "manifest",
    "names",
    "problems_folder",
    "quantities",
]

guard(globals())
