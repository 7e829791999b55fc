"""The Slater number of a step with friction, and whether forces stay bounded without one.

For some motion v let every contact open faster than x S along its normal, with S the speed of its
part: B v + b − x S e_n ∈ K*_μ. The *Slater number* is the largest such x. By duality it is

    minimise bᵀf    subject to    f ∈ K_μ,  Bᵀf = 0,  Σ S f_n = 1,

infinite where no forces balance themselves. Its sign says what may be expected.

- Positive: the associated law has forces, and they are bounded; so has the law of Coulomb (A.
  Klarbring & J.-S. Pang, SIAM J. Optim. 8, 1998; V. Acary, F. Cadoux, C. Lemaréchal & J. Malick,
  ZAMM 91, 2011).
- Zero: forces are unbounded along the f that attains it, or the infimum is not attained: the set
  Bᵀ K_μ need not be closed (G. Pataki, Math. Oper. Res. 32, 2007), and forces then grow without
  limit as the accuracy increases.
- Negative: the associated law has no solution, and f proves it by two products.

The cone programs are solved by Clarabel. Whatever it says, f is projected onto the cones, and its
products are computed again from the data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import clarabel
import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import FloatArray, IntArray, read_only
from cdopt._util.frozen import Frozen
from cdopt.problem import friction_cone as cone
from cdopt.problem.scaling import column_scale

MARGIN = 1e-7  # a Slater number is zero within this; products of a proof are, relative to it
_ACCURACY = 1e-12  # asked of the cone programs
_SMALL = 1e-6  # an error of forces, relative to what acts,
_LARGER = 1e-4, 0.3  # and bounds of another, which must not matter much
_SOLVED = ("Solved", "AlmostSolved", "InsufficientProgress", "MaxIterations")


@dataclass(frozen=True, eq=False)
class Slater(Frozen):
    """How far the feasible set of a step with friction is from having no interior.

    Attributes
    ----------
    value : the largest x with g − x S e_n ∈ K*_μ for some motion, without unit; infinite where no
        forces balance themselves; NaN where the cone program was not solved.
    forces : (nc, d) N, self-balanced forces that attain it, with Σ S f_n = 1; None where it is
        infinite or NaN. Where ``value`` is zero, they may be added to the forces of any answer.
    violation : the largest entry of Bᵀf, relative to its terms.
    """

    value: float
    forces: FloatArray | None
    violation: float

    @property
    def bounded(self) -> bool:
        """Whether the feasible set has an interior, so that forces exist and are bounded."""
        return self.value > MARGIN

    @property
    def infeasible(self) -> bool:
        """Whether the forces prove that the associated law has no solution."""
        return self.value < -MARGIN and self.violation <= MARGIN * -self.value

    def __str__(self) -> str:
        if np.isnan(self.value):
            return "Slater number not known: the cone program was not solved"
        if self.bounded:
            return f"Slater number {self.value:.3g}: forces exist and are bounded"
        if self.infeasible:
            return f"Slater number {self.value:.3g}: the associated law has no solution"
        return "Slater number 0: forces are unbounded, or there are none"


def slater_number(data: Any, contacts: IntArray) -> Slater:
    """The Slater number of these contacts of a frictional step ``data``."""
    d, mu = data.d, data.friction.mu[contacts]
    columns = (contacts[:, None] * d + np.arange(d)).ravel()
    speed = data.speed[columns]
    rows = sp.csr_array(data.products[:, columns] * (1.0 / speed)[None, :])
    reach = column_scale(sp.csr_array(rows.T))
    used = np.flatnonzero(reach > 0.0)
    balance = sp.csr_array(rows[used] * (1.0 / reach[used])[:, None])
    cost, stretch = data.rate_bias[columns] / speed, _stretch(mu, d)
    total = np.zeros((1, columns.size))
    total[0, ::d] = 1.0
    equal = sp.vstack([balance * stretch[None, :], sp.csr_array(total)])
    z, status = _cone_program(
        cost * stretch,
        equal,
        np.append(np.zeros(used.size), 1.0),
        sp.eye_array(columns.size),
        np.zeros(columns.size),
        [d] * contacts.size,
    )
    if status == "PrimalInfeasible":
        return Slater(np.inf, None, 0.0)
    if z is None or not np.isfinite(z).all():
        return Slater(np.nan, None, np.inf)
    power = cone.project((stretch * z).reshape(-1, d), mu)
    power /= power[:, 0].sum() or 1.0
    missed = np.abs(balance @ power.ravel())
    value, violation = float(cost @ power.ravel()), float(missed.max(initial=0.0))
    value = 0.0 if abs(value) <= MARGIN else value
    if violation > MARGIN:  # no self-balanced forces
        return Slater(np.nan, None, np.inf)
    return Slater(value, read_only(power / speed.reshape(-1, d)), violation)


def forces_shrink(
    data: Any, motion: FloatArray | None, f: FloatArray, contacts: IntArray, worst: float
) -> float:
    """By which factor the least forces for the motion shrink when they may be less accurate.

    The forces f (nc,) of an answer are replaced by the least ones that have the same effect on
    the bodies and do the same work, but for a small error, and for a larger one, which exceeds
    that of motions with this ``worst`` residual. Of an attained answer the two differ little.
    Where an infimum is not attained, nothing but the accuracy bounds the forces that approach it.
    """
    larger = float(np.clip(10.0 * np.sqrt(worst), *_LARGER))
    sizes = [_least_size(data, motion, f, contacts, slack) for slack in (_SMALL, larger)]
    return sizes[0] / sizes[1] if sizes[1] > 0.0 else 1.0


def _least_size(
    data: Any, motion: FloatArray | None, f: FloatArray, contacts: IntArray, slack: float
) -> float:
    """Σ w ‖f‖², the root of it, in units of what acts; infinite without an answer."""
    d, mu = data.d, data.friction.mu[contacts]
    columns = (contacts[:, None] * d + np.arange(d)).ravel()
    stretch, root = _stretch(mu, d), np.sqrt(data.mobility[columns])
    rates = data.shifted(data.table(data.gap(motion, f)))[contacts]
    rates = -cone.project(-rates, mu) + rates  # Moreau: the nearest point of K*
    forces = cone.project(data.table(f)[contacts], mu)
    effect = sp.csr_array(data.effect[:, columns] * (1.0 / root)[None, :])
    effect = sp.csr_array(effect[np.diff(effect.indptr) > 0])
    y = root * forces.ravel()
    unit = np.linalg.norm(effect @ y) or 1.0
    target, work = effect @ (y / unit), rates.ravel() / root / unit
    n, m = columns.size, target.size
    column = sp.csr_array((n, 1))
    blocks = [
        sp.hstack([sp.eye_array(n), column]),
        sp.csr_array(([1.0], ([0], [n])), shape=(1, n + 1)),
        sp.hstack([sp.diags_array(stretch), column]),
        sp.csr_array((1, n + 1)),
        sp.hstack([effect * stretch[None, :], sp.csr_array((m, 1))]),
        sp.hstack([sp.csr_array((-work * stretch)[None, :]), sp.csr_array((1, 1))]),
    ]
    shift = np.concatenate(
        [np.zeros(2 * n + 1), [slack], -target, [max(work @ (y / unit), 0.0) + slack]]
    )
    cost = np.append(np.zeros(n), 1.0)
    none = sp.csr_array((0, n + 1))
    dims = [d] * contacts.size + [n + 1, m + 1, 1]
    z, _ = _cone_program(cost, none, np.zeros(0), sp.vstack(blocks), shift, dims)
    return np.inf if z is None else float(z[-1])


def _stretch(mu: FloatArray, d: int) -> FloatArray:
    """(nc d,) from the Lorentz cone to K_μ: 1 for normal forces, μ for tangential ones."""
    factors = np.repeat(mu[:, None], d, axis=1)
    factors[:, 0] = 1.0
    return np.asarray(factors.ravel())


def _cone_program(
    cost: FloatArray,
    equal: Any,
    right: FloatArray,
    cones: Any,
    shift: FloatArray,
    dims: list[int],
) -> tuple[FloatArray | None, str]:
    """min costᵀz with equal z = right and cones z + shift in second-order cones of these sizes."""
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = _ACCURACY
    settings.time_limit = 60.0
    n = cost.size
    A, b = sp.csc_matrix(sp.vstack([equal, -cones])), np.concatenate([right, shift])
    kinds = [clarabel.ZeroConeT(right.size)] if right.size else []
    kinds += [clarabel.SecondOrderConeT(size) for size in dims]
    if not (np.isfinite(A.data).all() and np.isfinite(b).all() and np.isfinite(cost).all()):
        return None, "not finite"
    solver = clarabel.DefaultSolver(sp.csc_matrix((n, n)), cost, A, b, kinds, settings)
    solution = solver.solve()
    status = str(solution.status)
    return (np.array(solution.x) if status in _SOLVED else None), status
