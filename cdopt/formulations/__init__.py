"""Formulations: each file states one convex problem, with its equation numbers in the docstring."""

from cdopt.formulations.base import Formulation
from cdopt.formulations.batch import Batch, solve_batch
from cdopt.formulations.classic_cd import ClassicCD
from cdopt.formulations.compatible_cd import ClosedNetwork, CompatibleCD
from cdopt.formulations.compatible_friction import CompatibleFriction
from cdopt.formulations.compliant_cd import CompliantCD
from cdopt.formulations.friction_network import FrictionNetwork, NetworkForces
from cdopt.formulations.frictional_cd import FrictionalCD
from cdopt.formulations.no_tension_truss import NoTensionTruss
from cdopt.formulations.parametrised import Parametrised
from cdopt.formulations.prepared import Prepared
from cdopt.formulations.quasi_static import QuasiStatic
from cdopt.formulations.reduced import ReducedTruss, Representatives, reduced
from cdopt.formulations.soft_cd import SoftCD, StiffnessSweep
from cdopt.formulations.variational_step import StepDamping, VariationalStep
from cdopt.problem.sliders import Sliders

__all__ = [
    "Batch",
    "ClassicCD",
    "ClosedNetwork",
    "CompatibleCD",
    "CompatibleFriction",
    "CompliantCD",
    "Formulation",
    "FrictionNetwork",
    "FrictionalCD",
    "NetworkForces",
    "NoTensionTruss",
    "Parametrised",
    "Prepared",
    "QuasiStatic",
    "ReducedTruss",
    "Representatives",
    "Sliders",
    "SoftCD",
    "StepDamping",
    "StiffnessSweep",
    "VariationalStep",
    "reduced",
    "solve_batch",
]
