# The public names. Each is imported when it is first used: see __init__.py.
from . import frictional, generators, quantities
from .family import Family, families
from .manifests import Manifest, manifest, names, problems_folder
from .problem import BankProblem, load

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
