"""Elastic contacts made stiffer and stiffer: their forces tend to the compatible ones.

``bridge`` follows elastic contacts at rest to the limit of infinite stiffness, ``bridge_lines``
draws the distances of their forces from the limit. ``friction_bridge`` and ``friction_lines`` do
the same for discrete elements with friction. Run ``python -m examples.rigid_limit --help``.
"""

from .bridge import Bridge, Line, bridge
from .friction import FrictionBridge, friction_bridge
from .picture import bridge_lines, friction_lines

__all__ = [
    "Bridge",
    "FrictionBridge",
    "Line",
    "bridge",
    "bridge_lines",
    "friction_bridge",
    "friction_lines",
]
