"""What is not determined: self-stress states, unique forces, exact bounds of the others.

And what the forces that are not determined do: their uniform ensemble, and how compatible ones
answer changes of stiffness and load.
"""

from cdopt._util.arguments import guard
from cdopt.hyperstatic.centres import Centre, analytic_centre, minimum_norm
from cdopt.hyperstatic.exact import ExactBounds, exact_bounds
from cdopt.hyperstatic.indeterminacy import indeterminacy
from cdopt.hyperstatic.report import Indeterminacy, Tolerances
from cdopt.hyperstatic.sampling import Ensemble, Place, UnboundedForces, ensemble
from cdopt.hyperstatic.selection import Selected, Selection, which_force
from cdopt.hyperstatic.sensitivities import (
    Gradient,
    RecoveredStiffness,
    Sensitivity,
    recover_stiffness,
    sensitivity,
)

__all__ = [
    "Centre",
    "Ensemble",
    "ExactBounds",
    "Gradient",
    "Indeterminacy",
    "Place",
    "RecoveredStiffness",
    "Selected",
    "Selection",
    "Sensitivity",
    "Tolerances",
    "UnboundedForces",
    "analytic_centre",
    "ensemble",
    "exact_bounds",
    "indeterminacy",
    "minimum_norm",
    "recover_stiffness",
    "sensitivity",
    "which_force",
]

guard(globals())
