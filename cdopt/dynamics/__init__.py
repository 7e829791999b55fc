"""Dynamics: a scene in time, by contact dynamics or with elastic contacts.

``simulate`` detects contacts, takes steps by a method and records a Trajectory, in memory or in a
VTKHDF file. METHODS is the table of methods; another one is a settings object like those there.
``equilibrium`` finds rest on elastic contacts, and ``analysis`` reads energies, momenta and
restitution off a run.
"""

from cdopt._util.arguments import guard
from cdopt.dynamics import analysis
from cdopt.dynamics.contact_dynamics import ClassicSteps, CompatibleSteps
from cdopt.dynamics.elastic import VariationalSteps, VelocityVerletSteps
from cdopt.dynamics.equilibrium import Equilibrium, equilibrium
from cdopt.dynamics.frame import Frame
from cdopt.dynamics.method import MarchingMethod, Method, Run, Stage, StepTaken
from cdopt.dynamics.quasi_static import QuasiStaticSteps
from cdopt.dynamics.running import Interrupted, StepFailed
from cdopt.dynamics.simulate import METHODS, simulate
from cdopt.dynamics.summary import RunSummary
from cdopt.dynamics.trajectory import Diagnostics, Trajectory

__all__ = [
    "METHODS",
    "ClassicSteps",
    "CompatibleSteps",
    "Diagnostics",
    "Equilibrium",
    "Frame",
    "Interrupted",
    "MarchingMethod",
    "Method",
    "QuasiStaticSteps",
    "Run",
    "RunSummary",
    "Stage",
    "StepFailed",
    "StepTaken",
    "Trajectory",
    "VariationalSteps",
    "VelocityVerletSteps",
    "analysis",
    "equilibrium",
    "simulate",
]

guard(globals())
