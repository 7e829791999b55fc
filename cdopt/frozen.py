"""Frozen records of arrays: what is stored is read-only, in copies and pickles too."""

from __future__ import annotations

from typing import Any

import numpy as np

from cdopt.checks import read_only


class Frozen:
    """Base of frozen dataclasses whose arrays nobody writes to.

    The arrays are frozen in place: hand over copies of what the caller keeps.
    """

    def __post_init__(self) -> None:
        self.__setstate__(self.__dict__)

    def __getstate__(self) -> dict[str, Any]:
        return dict(self.__dict__)

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in list(state.items()):
            if isinstance(value, np.ndarray):
                read_only(value)
            self.__dict__[name] = value
