"""What is not determined: self-stress states, unique forces, exact bounds of the others."""

from cdopt.hyperstatic.centres import Centre, analytic_centre, minimum_norm
from cdopt.hyperstatic.exact import ExactBounds, exact_bounds
from cdopt.hyperstatic.indeterminacy import indeterminacy
from cdopt.hyperstatic.report import Indeterminacy, Tolerances
from cdopt.hyperstatic.selection import Selected, Selection, which_force

__all__ = [
    "Centre",
    "ExactBounds",
    "Indeterminacy",
    "Selected",
    "Selection",
    "Tolerances",
    "analytic_centre",
    "exact_bounds",
    "indeterminacy",
    "minimum_norm",
    "which_force",
]
