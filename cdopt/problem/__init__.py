"""Contact problems as data, and certificates of their answers.

``ContactStep`` is one time step with the data that other programs provide. ``ContactProblem`` has
the conditions common to all problems of cdopt: cdopt's solvers solve it, formulations state it in
CVXPY, and ``certify`` checks answers.
"""

from cdopt._util.errors import (
    BackendUnavailable,
    CdoptError,
    InvalidInput,
    SaveFailed,
    SolveFailed,
    Unsupported,
)
from cdopt.problem.certificate import Certificate, certify, check
from cdopt.problem.cone_step import ConeStep
from cdopt.problem.cones import Cones, FrictionCones, HalfLines
from cdopt.problem.contact_problem import ContactProblem
from cdopt.problem.contact_step import ContactStep, with_matrices
from cdopt.problem.delassus_step import DelassusStep
from cdopt.problem.existence import Slater, prove_infeasible
from cdopt.problem.friction import Friction
from cdopt.problem.joints import Joints
from cdopt.problem.residual import Residual
from cdopt.problem.sliders import Sliders
from cdopt.problem.solution import StepSolution, WarmStart
from cdopt.problem.step import Origin, Step
from cdopt.problem.step_problems import (
    LAWS,
    elastic_data,
    frictional_data,
    rigid_data,
    soft_data,
    truss_data,
)

__all__ = [
    "LAWS",
    "BackendUnavailable",
    "CdoptError",
    "Certificate",
    "ConeStep",
    "Cones",
    "ContactProblem",
    "ContactStep",
    "DelassusStep",
    "Friction",
    "FrictionCones",
    "HalfLines",
    "InvalidInput",
    "Joints",
    "Origin",
    "Residual",
    "SaveFailed",
    "Slater",
    "Sliders",
    "SolveFailed",
    "Step",
    "StepSolution",
    "Unsupported",
    "WarmStart",
    "certify",
    "check",
    "elastic_data",
    "frictional_data",
    "prove_infeasible",
    "rigid_data",
    "soft_data",
    "truss_data",
    "with_matrices",
]
