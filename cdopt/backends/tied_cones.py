"""Cones that share their normal force as Lorentz cones, each with a copy of it.

The product cone of sliding and rolling friction is no symmetric cone, but an intersection of them:
‖f_k‖ ≤ μ_k f_n for each group k. With a copy of f_n for each group, and ties between the copies
(``linalg.tied_blocks``), it is a problem in symmetric cones. De Saxcé's shift Σ μ_k ‖g_k‖ is the
sum of those of the groups.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cdopt._util.cached import cached_property
from cdopt._util.checks import FloatArray
from cdopt.backends.linalg.tied_blocks import TiedNetwork
from cdopt.backends.network_problem import NetworkProblem
from cdopt.problem.cone_rules import ELLIPSE
from cdopt.problem.cones import SYMMETRIC
from cdopt.problem.rolling_cones import EllipticCones


@dataclass(frozen=True, eq=False, kw_only=True)
class TiedProblem(NetworkProblem):
    """A problem in copies of the normal forces."""

    base: NetworkProblem  # the problem of the forces themselves
    tied: TiedNetwork  # its network in copies

    @cached_property
    def operator(self) -> TiedNetwork:  # type: ignore[override]
        return self.tied

    def residual(self, error: float, gap: FloatArray, f: FloatArray) -> float:
        rates = self.base.table(self.tied.forces(gap))
        rates[:, 0] *= self.tied.copies
        return self.base.residual(error, rates.ravel(), self.tied.forces(f))


def tied(problem: NetworkProblem) -> TiedProblem | None:
    """The problem in copies of its normal forces; None where no contact needs any."""
    if all(SYMMETRIC in traits for traits in problem.K.kinds.values()):
        return None
    rules, mu = problem.K.rules
    group = np.where(rules == ELLIPSE, 1, np.maximum(rules, 0))  # 0 of normal and empty rows
    copies = int(group.max(initial=0))
    if copies < 2:
        return None
    nc, d = group.shape
    many = np.array([(group == j + 1).sum(axis=1) for j in range(copies)])
    D = 1 + int(many.max())
    E = np.zeros((nc, d, copies, D))
    E[:, 0, :, 0] = 1.0 / copies
    coefficients = np.zeros((nc, copies, D - 1))
    for j in range(copies):
        inside = group == j + 1
        contact, row = np.nonzero(inside)
        place = (np.cumsum(inside, axis=1) - 1)[contact, row]
        E[contact, row, j, 1 + place] = 1.0
        coefficients[contact, j, place] = mu[contact, row]
    T = np.zeros((copies - 1, copies, D))
    T[:, 0, 0] = 1.0
    T[np.arange(copies - 1), np.arange(1, copies), 0] = -1.0
    net = TiedNetwork(
        problem.operator, E.reshape(nc, d, -1), T.reshape(copies - 1, -1), problem.weight
    )
    lines = problem.K.bilateral
    return TiedProblem(
        net.spread(problem.p),
        problem.weight.repeat(copies * D),
        S=problem.S,
        N=problem.N,
        d=D,
        cones=EllipticCones(coefficients.reshape(nc * copies, -1), D - 1),
        lines=lines.repeat(copies) if lines.any() else None,
        coulomb=problem.coulomb,
        base=problem,
        tied=net,
    )


def copied(net: TiedNetwork, f: FloatArray) -> FloatArray:
    """Forces (nc d,) with equal copies of the normal ones."""
    table = f.reshape(net.nc, -1).copy()
    table[:, 0] *= net.copies
    return net.spread(table.ravel())
