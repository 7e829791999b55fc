"""Distinguished answers among the admissible forces: minimum norm, and the analytic centre.

Neither has a physical claim. The minimum norm is what a Krylov or gradient method from zero
tends to, and what equal linear springs would carry; the analytic centre, max Σ log f, is where
an interior point method that stops at no particular objective comes to rest.
"""

from __future__ import annotations

from dataclasses import dataclass

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import spsolve

from cdopt._util.checks import FloatArray, read_only
from cdopt._util.frozen import Frozen
from cdopt.formulations import CompatibleCD
from cdopt.hyperstatic.bounds import Free
from cdopt.hyperstatic.report import Indeterminacy
from cdopt.problem.contact_law import HOOKE

TOL = 1e-6  # what a centre's optimality conditions are held to
_STEPS = 30
_DAMPING = 1e-14  # of the normal equations, whose rows may be redundant


@dataclass(frozen=True, eq=False)
class Centre(Frozen):
    """A distinguished admissible force vector.

    Attributes
    ----------
    name : which one. f : (nc,) N.
    residual : worst of its optimality conditions, relative, computed from the data.
    """

    name: str
    f: FloatArray
    residual: float

    @property
    def ok(self) -> bool:
        """Whether the optimality conditions hold."""
        return self.residual <= TOL


def minimum_norm(report: Indeterminacy) -> Centre | None:
    """min Σ f² over the admissible forces; None when it was not found.

    Those of a ``report``: the no-tension truss of equal linear springs, solved by Newton.
    """
    problem = CompatibleCD(report.step.replace(stiffness=1.0), HOOKE, closed_tol=report.network.tol)
    found = problem.solve("newton", classic=report.classic, check=False)
    if found.f is None or found.certificate is None:
        return None
    return Centre("minimum norm", found.f, found.certificate.worst)


def analytic_centre(report: Indeterminacy) -> Centre | None:
    """max Σ log f over the forces that are not unique; None when they have no bound, or no centre.

    Those of a ``report``. Posed in CVXPY with logarithms, solved by Clarabel, and finished by
    Newton's method on the optimality conditions 1/f = B u, Bᵀf = F.
    """
    if report.rays:
        return None
    f, worst = np.array(report.force), 0.0
    for network in report.free:
        start = _posed(network)
        if start is None:
            return None
        own, residual = _finished(network, start)
        if not residual <= TOL:  # the barrier runs away along unbounded forces
            return None
        f[network.contacts] = own * network.unit
        worst = max(worst, residual)
    return Centre("analytic centre", read_only(f), worst)


def _posed(network: Free) -> FloatArray | None:
    f = cp.Variable(network.contacts.size, name="f")
    problem = cp.Problem(cp.Maximize(cp.sum(cp.log(f))), [network.B.T @ f == network.load])
    try:
        problem.solve(solver=cp.CLARABEL)
    except cp.SolverError:
        return None
    if f.value is None or problem.status not in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE):
        return None
    value = np.asarray(f.value, dtype=np.float64)
    return value if float(value.min()) > 0.0 else None


def _finished(network: Free, f: FloatArray) -> tuple[FloatArray, float]:
    """Newton's method from a point near the centre; the best point met, with its residual."""
    B, load = network.B, network.load
    best, least = f, np.inf
    eye = sp.eye_array(B.shape[1], format="csc")
    for _ in range(_STEPS):
        weighted = sp.csr_array(B * (f**2)[:, None])
        normal = sp.csc_matrix(B.T @ weighted)
        normal = normal + _DAMPING * max(float(abs(normal).max()), 1e-300) * eye
        missed = load - B.T @ f
        u = np.atleast_1d(spsolve(normal, B.T @ f - missed))  # from f + d with d = f − f² B u
        gradient = f * np.asarray(B @ u) - 1.0
        residual = max(float(np.abs(gradient).max()), float(np.abs(missed).max(initial=0.0)))
        if not residual < least:
            break
        best, least = f, residual
        step = -f * gradient
        shrink = float(np.max(-step / f, initial=0.0))
        f = f + step * min(1.0, 0.9 / shrink if shrink > 0.0 else 1.0)
    return best, least
