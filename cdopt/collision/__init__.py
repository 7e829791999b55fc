"""Contacts: which bodies touch, how gaps change with motion, and the contact step.

Scene → Contacts → ContactStep: ``detect`` finds gaps, normals and points, ``step`` adds B, M and
the loads, ``advance`` takes the solution's velocities to the next state. ``TURNINGS`` names the two
updates of orientations. ``damping_matrix`` and ``damping_drive`` are those of the dashpots of
elastic contacts.
"""

from cdopt.collision.contact_step import (
    applied_loads,
    external_forces,
    friction,
    mass_matrix,
    step,
    tangents,
)
from cdopt.collision.contacts import (
    Contacts,
    VerletList,
    default_margin,
    detect,
    effective_mass,
    gap_gradient,
    safe_margin,
    safe_margins,
)
from cdopt.collision.dissipation import damping_drive, damping_matrix
from cdopt.collision.joints import joint_gaps, joints
from cdopt.collision.motion import TURNINGS, advance, move
from cdopt.collision.pair_friction import PairFriction

__all__ = [
    "TURNINGS",
    "Contacts",
    "PairFriction",
    "VerletList",
    "advance",
    "applied_loads",
    "damping_drive",
    "damping_matrix",
    "default_margin",
    "detect",
    "effective_mass",
    "external_forces",
    "friction",
    "gap_gradient",
    "joint_gaps",
    "joints",
    "mass_matrix",
    "move",
    "safe_margin",
    "safe_margins",
    "step",
    "tangents",
]
