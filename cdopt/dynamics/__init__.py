"""Dynamics: simulate a scene by contact dynamics or with elastic contacts.

``simulate`` detects contacts, takes steps by a method and records a Trajectory, in memory or in a
VTKHDF file. METHODS is the table of methods; another one is a settings object like those there.
``equilibrium`` finds the state at rest on elastic contacts. ``measures`` gives stress, fabric and
coordination of a step, and ``analysis`` those of a run, with its energies and momenta.
"""

from cdopt.dynamics import analysis
from cdopt.dynamics.analysis import RunSummary
from cdopt.dynamics.contact_methods import (
    ClassicSteps,
    CompatibleFrictionSteps,
    CompatibleSteps,
    FrictionalSteps,
)
from cdopt.dynamics.elastic import QuasiStaticSteps, VariationalSteps, VelocityVerletSteps
from cdopt.dynamics.equilibrium import Equilibrium, equilibrium
from cdopt.dynamics.measures import Coordination, Distribution, Measures, measures, stress
from cdopt.dynamics.method import (
    Advance,
    Failure,
    Method,
    Snapshot,
    Stage,
    StepContext,
    Stepper,
    StepRecord,
)
from cdopt.dynamics.records import Frame
from cdopt.dynamics.run import Interrupted, StepFailed
from cdopt.dynamics.simulate import METHODS, simulate
from cdopt.dynamics.trajectory import Diagnostics, Trajectory

__all__ = [
    "METHODS",
    "Advance",
    "ClassicSteps",
    "CompatibleFrictionSteps",
    "CompatibleSteps",
    "Coordination",
    "Diagnostics",
    "Distribution",
    "Equilibrium",
    "Failure",
    "Frame",
    "FrictionalSteps",
    "Interrupted",
    "Measures",
    "Method",
    "QuasiStaticSteps",
    "RunSummary",
    "Snapshot",
    "Stage",
    "StepContext",
    "StepFailed",
    "StepRecord",
    "Stepper",
    "Trajectory",
    "VariationalSteps",
    "VelocityVerletSteps",
    "analysis",
    "equilibrium",
    "measures",
    "simulate",
    "stress",
]
