"""The force network ensemble: admissible forces drawn uniformly, and whether they suffice."""

from cdopt.hyperstatic.sampling.ensemble import ensemble
from cdopt.hyperstatic.sampling.polytope import UnboundedForces
from cdopt.hyperstatic.sampling.result import Ensemble, Place

__all__ = ["Ensemble", "Place", "UnboundedForces", "ensemble"]
