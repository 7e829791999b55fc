"""Contact problems as data: steps and trusses, their solutions and certificates.

Each kind of problem computes its own residuals and scales. Native solvers read these data;
formulations state them in CVXPY.
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
from cdopt.problem.contact_step import ContactStep, DelassusStep, Origin, Step
from cdopt.problem.elastic import ElasticStepData, Sliders, SlidingStepData
from cdopt.problem.friction import Friction
from cdopt.problem.frictional import (
    LAWS,
    FrictionalData,
    FrictionalDelassusData,
    FrictionalStepData,
    Slater,
    frictional_data,
)
from cdopt.problem.rigid import DelassusStepData, RigidData, RigidStepData, StepData, rigid_data
from cdopt.problem.solution import StepSolution, WarmStart
from cdopt.problem.truss import TrussData

__all__ = [
    "LAWS",
    "BackendUnavailable",
    "CdoptError",
    "Certificate",
    "ContactStep",
    "DelassusStep",
    "DelassusStepData",
    "ElasticStepData",
    "Friction",
    "FrictionalData",
    "FrictionalDelassusData",
    "FrictionalStepData",
    "InvalidInput",
    "Origin",
    "ProblemData",
    "Residual",
    "RigidData",
    "RigidStepData",
    "SaveFailed",
    "Slater",
    "Sliders",
    "SlidingStepData",
    "SolveFailed",
    "Step",
    "StepData",
    "StepSolution",
    "TrussData",
    "Unsupported",
    "WarmStart",
    "certify",
    "frictional_data",
    "rigid_data",
]

guard(globals())
