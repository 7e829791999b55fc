"""What a contact problem is: its data, its scales, its solution and the certificate of that.

A native solver reads the plain data of a problem kind; a formulation states them in CVXPY in
units of their scales; the certificate measures against the same scales.
"""

from cdopt._util.arguments import guard
from cdopt._util.errors import (
    BackendUnavailable,
    CdoptError,
    InvalidInput,
    SaveFailed,
    SolveFailed,
    Unsupported,
)
from cdopt.problem.certificate import Certificate, ProblemData, Residual, certify
from cdopt.problem.contact_step import ContactStep
from cdopt.problem.elastic import ElasticStepData
from cdopt.problem.rigid import RigidStepData
from cdopt.problem.solution import StepSolution
from cdopt.problem.truss import ScaledTruss, TrussData

__all__ = [
    "BackendUnavailable",
    "CdoptError",
    "Certificate",
    "ContactStep",
    "ElasticStepData",
    "InvalidInput",
    "ProblemData",
    "Residual",
    "RigidStepData",
    "SaveFailed",
    "ScaledTruss",
    "SolveFailed",
    "StepSolution",
    "TrussData",
    "Unsupported",
    "certify",
]

guard(globals())
