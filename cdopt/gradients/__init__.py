"""Derivatives of contact steps that know what is unique.

``of`` differentiates the conditions of one answer once; ``jvp`` and ``vjp`` of it are the two
directions, in NumPy.
"""

from cdopt.gradients.at import jvp, of, vjp
from cdopt.gradients.derivatives import Derivatives, Kink

__all__ = ["Derivatives", "Kink", "jvp", "of", "vjp"]
