"""cdopt: contact mechanics posed as convex optimisation, declaratively, with CVXPY.

Scene → Contacts → ContactStep → Formulation (cvxpy.Problem) → Backend → StepSolution +
Certificate → Trajectory → analysis, study, plots

Data of a contact step goes in, a convex problem is stated, any solver solves it, and a
certificate says what the answer is worth.
"""

from cdopt import backends, bank, collision, dynamics, hyperstatic, interop, scene
from cdopt._util.arguments import guard
from cdopt._util.errors import (
    BackendUnavailable,
    CdoptError,
    InvalidInput,
    SaveFailed,
    SolveFailed,
    Unsupported,
)
from cdopt.dynamics import Trajectory, simulate
from cdopt.formulations import (
    ClassicCD,
    CompatibleCD,
    CompliantCD,
    NoTensionTruss,
    QuasiStatic,
    VariationalStep,
)
from cdopt.hyperstatic import (
    Ensemble,
    Indeterminacy,
    Sensitivity,
    ensemble,
    indeterminacy,
    recover_stiffness,
    sensitivity,
)
from cdopt.problem.certificate import Certificate, Residual, certify
from cdopt.problem.contact_step import ContactStep
from cdopt.problem.solution import StepSolution
from cdopt.study import compare
from cdopt.study.bridge import bridge

__version__ = "0.1.0"

__all__ = [
    "BackendUnavailable",
    "CdoptError",
    "Certificate",
    "ClassicCD",
    "CompatibleCD",
    "CompliantCD",
    "ContactStep",
    "Ensemble",
    "Indeterminacy",
    "InvalidInput",
    "NoTensionTruss",
    "QuasiStatic",
    "Residual",
    "SaveFailed",
    "Sensitivity",
    "SolveFailed",
    "StepSolution",
    "Trajectory",
    "Unsupported",
    "VariationalStep",
    "backends",
    "bank",
    "bridge",
    "certify",
    "collision",
    "compare",
    "dynamics",
    "ensemble",
    "hyperstatic",
    "indeterminacy",
    "interop",
    "recover_stiffness",
    "scene",
    "sensitivity",
    "simulate",
]

guard(globals())
