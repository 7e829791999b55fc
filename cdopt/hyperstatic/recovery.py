"""recover_stiffness(): relative stiffness of contacts from measured forces.

Forces do not depend on a common factor of all stiffness, and one load determines at most as many
ratios as the network has self-stress states. What is not determined is reported and left at its
starting value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from scipy.optimize import OptimizeResult, least_squares

from cdopt._util import checks
from cdopt._util.checks import FloatArray, read_only
from cdopt._util.errors import InvalidInput
from cdopt._util.frozen import Frozen
from cdopt.formulations import NoTensionTruss
from cdopt.hyperstatic.sensitivity import Sensitivity, require_certified
from cdopt.hyperstatic.truss_tangent import TrussTangent
from cdopt.problem import truss_data
from cdopt.problem.contact_law import HOOKE, PowerLaw

_ZERO = 1e-7  # singular values below this are zero; forces are over their root mean square
_OUTSIDE = 1e-6  # part of a ratio outside the determined combinations of log k
_START_WEIGHT = 1e-9  # weight of a combination's distance from the start
_SHARP = 1e-14  # of least_squares


@dataclass(frozen=True, eq=False)
class RecoveredStiffness(Frozen):
    """Relative stiffness from measured forces.

    Attributes
    ----------
    stiffness : (nc,) relative, geometric mean one.
    forces : (loads, nc) N, the compatible forces of that stiffness.
    measured : (loads, nc) N, as given; not-a-number where not measured.
    singular_values : (nc − 1,) of the derivative of the forces by log k, over the root mean
        square of the measured forces; zeros are combinations that the forces do not depend on.
    determined : (rank, nc) orthonormal combinations of log k that the forces determine, best first.
    undetermined : (nc − rank, nc) orthonormal combinations that they do not, the common factor
        first.
    misfit : root mean square of forces minus measured, N.
    converged, message : of the least-squares solver.
    """

    stiffness: FloatArray
    forces: FloatArray
    measured: FloatArray
    singular_values: FloatArray
    determined: FloatArray
    undetermined: FloatArray
    misfit: float
    converged: bool
    message: str

    @property
    def rank(self) -> int:
        """Number of combinations of log k that the forces determine, at most nc − 1."""
        return int(self.determined.shape[0])

    def ratio(self, first: int, second: int) -> tuple[float, float]:
        """k of one contact over another's, and the standard error of its logarithm.

        ``first`` and ``second`` are numbers of contacts. The error follows from the misfit and the
        derivative; infinite if the ratio is not determined, NaN if there are too few measurements
        to estimate the misfit.

        Raises
        ------
        InvalidInput : no such contact.
        """
        nc = self.stiffness.size
        one, other = checks.index("first", first, nc), checks.index("second", second, nc)
        ratio = float(self.stiffness[one] / self.stiffness[other])
        direction = np.eye(nc)[one] - np.eye(nc)[other]
        share = self.determined @ direction
        count = int(np.isfinite(self.measured).sum())
        left = count - self.rank
        outside = np.linalg.norm(direction - self.determined.T @ share) > _OUTSIDE
        if outside or left <= 0:
            return ratio, np.inf if outside else np.nan
        size = float(np.sqrt(np.nanmean(self.measured**2)))
        noise = self.misfit * np.sqrt(count / left) / size
        return ratio, float(noise * np.linalg.norm(share / self.singular_values[: self.rank]))

    def __repr__(self) -> str:
        nc = self.stiffness.size
        how = "" if self.converged else "NOT converged, "
        return (
            f"RecoveredStiffness({how}{nc:,} contacts, {self.rank} of {nc - 1} ratios determined "
            f"by {self.forces.shape[0]} loads; misfit {self.misfit:.2e} N)"
        )


def recover_stiffness(
    B: Any, contact_loads: Any, forces: Any, power: float = HOOKE, start: Any = 1.0
) -> RecoveredStiffness:
    """Relative stiffness from measured forces, by least squares.

    Least squares over log k, by SciPy's trust region with the analytic derivative
    (``sensitivity``). A weight of 1e-9 on the distance from the start fixes combinations that the
    forces do not determine.

    Parameters
    ----------
    B : (nc, nv) gap gradient of the closed contacts.
    contact_loads : (loads, nv) or (nv,) F̃ of each measurement, N and N·m.
    forces : (loads, nc) or (nc,) N, measured; not-a-number where there is no measurement.
    power : p > 1 of the contact energy.
    start : one number or (nc,), positive: relative stiffness to start from.

    Returns
    -------
    RecoveredStiffness : ``stiffness`` (nc,), with geometric mean one; ``determined``, the
        combinations that the forces determine.

    Raises
    ------
    InvalidInput : a bad argument, or no force measured at all.
    SolveFailed : some intermediate compatible forces are not certified, or the contacts cannot
        balance a load.

    Notes
    -----
    The compatible forces are those of equation (36) of Olsen & Kamrin (2018). If contacts open and
    close with k, the least-squares problem is not convex: use a good ``start``.

    >>> import numpy as np
    >>> import cdopt
    >>> B, loads = [[1, -1], [1, 0], [1, 1]], [[10, 0], [10, 2]]
    >>> true = [1.0, 3.0, 0.5]
    >>> measured = [cdopt.NoTensionTruss(B, F, true).solve("newton").f for F in loads]
    >>> recovered = cdopt.recover_stiffness(B, loads, measured)
    >>> recovered.rank, (recovered.stiffness / recovered.stiffness[0]).round(6)
    (2, array([1. , 3. , 0.5]))
    """
    model = _Model(B, contact_loads, forces, power)
    nc = model.B.shape[0]
    first = np.log(checks.per_contact("start", start, nc, positive=True))
    ratios = scipy.linalg.helmert(nc).T if nc > 1 else np.zeros((1, 0))
    begin, weight = ratios.T @ first, _START_WEIGHT * np.eye(nc - 1)
    answer = OptimizeResult(x=begin, success=True, message="one contact has no ratio")
    if nc > 1:
        answer = least_squares(
            lambda a: np.append(model.residual(ratios @ a), weight @ (a - begin)),
            begin,
            jac=lambda a: np.vstack([model.jacobian(ratios @ a) @ ratios, weight]),
            ftol=_SHARP,
            xtol=_SHARP,
            gtol=_SHARP,
        )
    theta = ratios @ answer.x
    _, values, Vt = np.linalg.svd(model.jacobian(theta) @ ratios)
    values = np.append(values, np.zeros(max(nc - 1 - values.size, 0)))
    rank = int(np.count_nonzero(values > _ZERO))
    left = float(np.linalg.norm(model.residual(theta)) / np.sqrt(model.known.sum()))
    return RecoveredStiffness(
        stiffness=np.exp(theta),
        forces=model.forces(theta),
        measured=model.measured,
        singular_values=values,
        determined=Vt[:rank] @ ratios.T,
        undetermined=np.vstack([np.full((1, nc), 1.0 / np.sqrt(nc)), Vt[rank:] @ ratios.T]),
        misfit=left * model.size,
        converged=bool(answer.success),
        message=str(answer.message),
    )


class _Model:
    """Forces as a function of θ = log k, compared with measurements; the last θ is cached.

    Attributes
    ----------
    B, loads, measured, power : as in ``recover_stiffness``.
    known : (loads, nc) which forces are measured. size : N, their root mean square.
    """

    def __init__(self, B: Any, contact_loads: Any, forces: Any, power: float) -> None:
        self.B, self.power = checks.gap_gradient(B), checks.power("power", power)
        nc, nv = self.B.shape
        if nc == 0:
            raise InvalidInput("B", "no contacts", "at least one")
        rows = np.atleast_2d(checks.real("contact_loads", contact_loads, "loads (loads, nv)"))
        self.loads = checks.matrix("contact_loads", rows, None, nv).toarray()
        measured = np.atleast_2d(checks.real("forces", forces, "numbers in N")).astype(np.float64)
        if measured.shape != (len(self.loads), nc):
            expected = f"{len(self.loads)} by {nc}: a row for each load"
            raise InvalidInput("forces", f"shape {measured.shape}", expected)
        self.measured, self.known = measured, np.isfinite(measured)
        if not self.known.any() or np.isinf(measured).any():
            expected = "finite forces, or NaN where none was measured"
            raise InvalidInput("forces", "infinite, or NaN only", expected)
        self.size = float(np.sqrt(np.mean(measured[self.known] ** 2))) or 1.0
        self._last: tuple[bytes, list[Sensitivity]] = (b"", [])

    def forces(self, theta: FloatArray) -> FloatArray:
        """(loads, nc) N."""
        return np.stack([at.f for at in self._at(theta)])

    def residual(self, theta: FloatArray) -> FloatArray:
        """Forces minus measured ones over ``size``, those that were measured."""
        return (self.forces(theta) - self.measured)[self.known] / self.size

    def jacobian(self, theta: FloatArray) -> FloatArray:
        """The derivative of ``residual``, on the active set of each solution."""
        return np.stack([at.on_active_set for at in self._at(theta)])[self.known] / self.size

    def _at(self, theta: FloatArray) -> list[Sensitivity]:
        if self._last[0] != theta.tobytes():
            law = PowerLaw(read_only(np.exp(theta)), self.power)
            self._last = theta.tobytes(), [self._solved(load, law) for load in self.loads]
        return self._last[1]

    def _solved(self, load: FloatArray, law: PowerLaw) -> Sensitivity:
        nc = self.B.shape[0]
        truss = NoTensionTruss.of(truss_data(self.B, read_only(np.array(load)), law))
        solution = require_certified(truss.solve("newton"))
        return Sensitivity(TrussTangent(truss, solution, np.arange(nc), nc))
