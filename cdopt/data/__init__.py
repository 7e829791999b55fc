"""The plain data of each problem kind, its energies and its characteristic scales.

A structured solver consumes these; a formulation states them in CVXPY in units of their
scales; the certificate measures against the same scales.
"""

from cdopt.data.elastic_step import ElasticStepData
from cdopt.data.rigid_step import RigidStepData
from cdopt.data.truss import ScaledTruss, TrussData

ProblemData = RigidStepData | ElasticStepData | TrussData

__all__ = ["ElasticStepData", "ProblemData", "RigidStepData", "ScaledTruss", "TrussData"]
