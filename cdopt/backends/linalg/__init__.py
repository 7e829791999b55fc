"""Linear systems of contact networks: (S + Bᵀ D B) x = r, with inertia S and stiffness D ≥ 0.

``network`` puts B in order and ``ContactNetwork.system`` gives the system for one D; conjugate
gradients in compiled, threaded loops or a factorisation solve it.
"""

from cdopt.backends.linalg.block_systems import DelassusNetwork
from cdopt.backends.linalg.network import ContactNetwork, network

__all__ = ["ContactNetwork", "DelassusNetwork", "network"]
