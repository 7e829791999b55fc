"""The plain data of each problem kind, its energies and its characteristic scales.

A structured solver consumes these; a formulation states them in CVXPY in units of their
scales; the certificate measures against the same scales.
"""

from cdopt.problem.elastic import ElasticStepData
from cdopt.problem.rigid import RigidStepData
from cdopt.problem.truss import ScaledTruss, TrussData

ProblemData = RigidStepData | ElasticStepData | TrussData

__all__ = ["ElasticStepData", "ProblemData", "RigidStepData", "ScaledTruss", "TrussData"]
