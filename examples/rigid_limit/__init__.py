"""Elastic contacts made stiffer and stiffer: their forces tend to the compatible ones.

``bridge`` follows elastic contacts at rest to the limit of infinite stiffness, ``bridge_lines``
draws the distances of their forces from the limit. Run ``python -m examples.rigid_limit --help``.
"""

from .bridge import Bridge, Line, bridge
from .picture import bridge_lines

__all__ = ["Bridge", "Line", "bridge", "bridge_lines"]
