# The public names. Each is imported when it is first used: see __init__.py.
from . import generators, quantities
from .family import Family, families
from .manifests import Manifest, manifest, names, problems_folder
from .problem import BankProblem, load

__all__ = [
    "BankProblem",
    "Family",
    "Manifest",
    "families",
    "generators",
    "load",
    "manifest",
    "names",
    "problems_folder",
    "quantities",
]
