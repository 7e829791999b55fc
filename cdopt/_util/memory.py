"""Physical memory of the machine."""

from __future__ import annotations

import os

MB = 1024 * 1024


def physical_memory() -> float | None:
    """Memory of the machine, MB of 2²⁰ bytes; None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / MB
    except (AttributeError, OSError, ValueError):
        return None
