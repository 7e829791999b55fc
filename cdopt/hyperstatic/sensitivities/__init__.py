"""Derivatives of compatible forces, and stiffness recovered from forces by means of them."""

from cdopt.hyperstatic.sensitivities.recovery import RecoveredStiffness, recover_stiffness
from cdopt.hyperstatic.sensitivities.sensitivity import Gradient, Sensitivity, sensitivity

__all__ = ["Gradient", "RecoveredStiffness", "Sensitivity", "recover_stiffness", "sensitivity"]
