"""Static indeterminacy: self-stress states, unique forces and exact bounds of the others.

Also uniform samples of the admissible forces, and derivatives of the compatible forces with respect
to stiffness and load.
"""

from cdopt.hyperstatic.audit import Audit, audit
from cdopt.hyperstatic.ensemble import Ensemble, Place, ensemble
from cdopt.hyperstatic.given import same_answer
from cdopt.hyperstatic.indeterminacy import indeterminacy
from cdopt.hyperstatic.limit_load import LimitLoad, limit_load
from cdopt.hyperstatic.placement import (
    Placement,
    PlacementRow,
    ReferenceForces,
    analytic_centre,
    minimum_norm,
    place_solutions,
)
from cdopt.hyperstatic.polytope import UnboundedForces
from cdopt.hyperstatic.quantities import Quantity, wrench
from cdopt.hyperstatic.recovery import RecoveredStiffness, recover_stiffness
from cdopt.hyperstatic.report import Indeterminacy
from cdopt.hyperstatic.sensitivity import Gradient, Sensitivity, sensitivity
from cdopt.hyperstatic.settlement import Settlement, settlement
from cdopt.hyperstatic.stability import StabilityVerdict, stability
from cdopt.hyperstatic.strength import Strength
from cdopt.hyperstatic.structures import touching_step
from cdopt.hyperstatic.thrusts import Thrusts, thrusts

__all__ = [
    "Audit",
    "Ensemble",
    "Gradient",
    "Indeterminacy",
    "LimitLoad",
    "Place",
    "Placement",
    "PlacementRow",
    "Quantity",
    "RecoveredStiffness",
    "ReferenceForces",
    "Sensitivity",
    "Settlement",
    "StabilityVerdict",
    "Strength",
    "Thrusts",
    "UnboundedForces",
    "analytic_centre",
    "audit",
    "ensemble",
    "indeterminacy",
    "limit_load",
    "minimum_norm",
    "place_solutions",
    "recover_stiffness",
    "same_answer",
    "sensitivity",
    "settlement",
    "stability",
    "thrusts",
    "touching_step",
    "wrench",
]
