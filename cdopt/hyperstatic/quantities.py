"""Linear quantities of contact forces: a wrench on a body, the force of one foot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.checks import BoolArray, FloatArray
from cdopt._util.errors import InvalidInput
from cdopt._util.frozen import Frozen


@dataclass(frozen=True, eq=False)
class Quantity(Frozen):
    """Least and largest values of m numbers C f over the admissible forces.

    Attributes
    ----------
    name : what it was called. C : (m, nc d).
    lower, upper : (m,) in units of C times N; infinite where unbounded, not-a-number where unknown.
    unique : (m,) the same in every admissible answer.
    residual : (m,) certificate, as ``Indeterminacy.residual``.
    witnesses : (m, 2, nc d) N, admissible forces that attain lower and upper, component by
        component; not-a-number where the bound is infinite or unknown.
    failures : numbers whose bounds are not certified, and why.
    """

    name: str
    C: sp.csr_array
    lower: FloatArray
    upper: FloatArray
    unique: BoolArray
    residual: FloatArray
    witnesses: FloatArray
    failures: Mapping[int, str]

    @property
    def ok(self) -> bool:
        """Whether every bound is certified."""
        return not self.failures

    @property
    def width(self) -> FloatArray:
        """(m,) upper minus lower."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self.upper - self.lower)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        names = ("lower", "upper", "unique", "residual")
        return {**{name: getattr(self, name) for name in names}, "failures": dict(self.failures)}

    def __repr__(self) -> str:
        ends = zip(self.lower.tolist(), self.upper.tolist(), strict=True)
        return f"Quantity({self.name}: " + ", ".join(f"[{a:.5g}, {b:.5g}]" for a, b in ends) + ")"


def stated_quantities(quantities: Any, nc: int, d: int, rows: int) -> dict[str, sp.csr_array]:
    """Matrices C (m, nc d) by name, of a step whose forces have ``rows`` components in all.

    Raises
    ------
    InvalidInput : no mapping from names to matrices with a column for each component.
    """
    if quantities is None:
        return {}
    if not isinstance(quantities, Mapping):
        found = checks.describe(quantities)
        raise InvalidInput("quantities", found, "a mapping from names to rows C of C f")
    result = {}
    for name, value in quantities.items():
        if not isinstance(name, str):
            raise InvalidInput("quantities", checks.describe(name), "names that are strings")
        table = value if sp.issparse(value) else np.atleast_2d(value)
        C = checks.matrix(f"quantities[{name!r}]", table, None, None)
        if C.shape[1] == rows and d == 1:
            C = sp.csr_array(C[:, :: rows // max(nc, 1)]) if rows != nc else C
        if C.shape[1] != nc * d:
            expected = f"{nc * d} columns, one for each component of a force"
            raise InvalidInput(f"quantities[{name!r}]", f"{C.shape[1]} columns", expected)
        result[name] = C
    return result
