"""Linear systems of contact networks: (S + Bᵀ D B) x = r, with inertia S and stiffness D ≥ 0.

``network`` puts B in order, ``Network.system`` gives the system for one D; conjugate gradients
in compiled, threaded loops or a factorisation solve it.
"""

from cdopt.backends.linalg.network import Network, network

__all__ = ["Network", "network"]
