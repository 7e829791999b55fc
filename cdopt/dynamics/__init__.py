"""Dynamics: a scene in time, by classic or compatible contact dynamics.

``simulate`` detects contacts, takes steps by a method and records a Trajectory, in memory or in a
VTKHDF file. METHODS is the table of methods; another one is a settings object like those there.
"""

from cdopt.dynamics.contact_dynamics import ClassicSteps, CompatibleSteps
from cdopt.dynamics.frame import Frame
from cdopt.dynamics.method import Method, Run, Stage, StepTaken
from cdopt.dynamics.running import Interrupted, StepFailed
from cdopt.dynamics.simulate import METHODS, simulate
from cdopt.dynamics.trajectory import Diagnostics, Trajectory

__all__ = [
    "METHODS",
    "ClassicSteps",
    "CompatibleSteps",
    "Diagnostics",
    "Frame",
    "Interrupted",
    "Method",
    "Run",
    "Stage",
    "StepFailed",
    "StepTaken",
    "Trajectory",
    "simulate",
]
