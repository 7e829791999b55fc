"""cdopt: contact mechanics posed as convex optimisation, declaratively, with CVXPY.

Scene → Contacts → ContactStep → Formulation (cvxpy.Problem) → Backend → StepSolution +
Certificate → Trajectory → analysis, study, plots

Data of a contact step goes in, a convex problem is stated, any solver solves it, and a
certificate says what the answer is worth.
"""

from cdopt import backends, bank, contact, dynamics, hyperstatic, interop, loading, scene
from cdopt.arguments import guard
from cdopt.certificate import Certificate, Residual, certify
from cdopt.dynamics import Trajectory, simulate
from cdopt.errors import (
    BackendUnavailable,
    CdoptError,
    InvalidInput,
    SaveFailed,
    SolveFailed,
    Unsupported,
)
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
from cdopt.solution import StepSolution
from cdopt.step import ContactStep
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
    "compare",
    "contact",
    "dynamics",
    "ensemble",
    "hyperstatic",
    "indeterminacy",
    "interop",
    "loading",
    "recover_stiffness",
    "scene",
    "sensitivity",
    "simulate",
]

guard(globals())
