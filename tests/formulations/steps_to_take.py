"""Random steps of the variational integrator, and its problem written out a second time."""

from __future__ import annotations

from dataclasses import dataclass

import cvxpy as cp
import numpy as np

import cdopt
from cdopt.formulations import StepDamping


@dataclass
class Case:
    """The data of one step; ``bonds`` marks two-sided contacts, ``drive`` pushes through C."""

    M: np.ndarray
    B: np.ndarray
    phi: np.ndarray
    F: np.ndarray
    mom: np.ndarray
    C: np.ndarray
    k: np.ndarray
    bonds: np.ndarray
    drive: np.ndarray
    h: float = 0.1
    alpha: float = 0.5
    power: float = 2.0
    split: str = "forced"

    def step(self, **changes):
        step = cdopt.ContactStep(
            self.M, self.B, self.phi, np.zeros(len(self.M)), self.F, self.h, stiffness=self.k
        )
        return step.replace(**changes)

    def pose(self, form="velocity", alpha=None, **damping):
        """The variational step; ``damping`` replaces arguments of its StepDamping."""
        return cdopt.VariationalStep(
            self.step(),
            self.mom,
            alpha=self.alpha if alpha is None else alpha,
            power=self.power,
            damping=self.damping(**damping),
            two_sided=self.bonds,
            form=form,
        )

    def damping(self, **changes):
        return StepDamping(
            **{"matrix": self.C, "drive": self.drive, "split": self.split, **changes}
        )

    def past(self):
        """Qᵖ of the paper's split; zero in the forced one."""
        v = np.linalg.solve(self.M, self.mom)
        return 0.5 * self.h * (self.drive - self.C @ v) * (self.split == "paper")

    def b(self):
        mid = 0.5 * self.h * self.drive
        return self.mom + self.past() + self.h * (1.0 - self.alpha) * self.F + mid

    def primal(self):
        """Ψ as a CVXPY problem in Δq, straight from its definition, bonds as squares."""
        u = cp.Variable(len(self.M))
        overlap = -self.phi - self.alpha * self.B @ u
        one, two = ~self.bonds, self.bonds
        raised = cp.power(cp.pos(overlap[one]), self.power, approx=False)
        stored = cp.sum(cp.multiply(self.k[one] / self.power, raised))
        stored += 0.5 * cp.sum(cp.multiply(self.k[two], cp.square(overlap[two])))
        psi = 0.5 * cp.quad_form(u, self.M) - self.h * self.b() @ u
        psi += 0.25 * self.h * cp.quad_form(u, cp.psd_wrap(self.C))
        psi += self.h**2 * (1.0 - self.alpha) / self.alpha * stored
        return u, cp.Problem(cp.Minimize(psi))

    def dual(self):
        """(N_α, p_α) of the dual, dense; without bonds."""
        A = self.M + 0.5 * self.h * self.C
        N = self.h * (1.0 - self.alpha) * self.B @ np.linalg.solve(A, self.B.T)
        p = self.phi / (self.alpha * self.h) + self.B @ np.linalg.solve(A, self.b())
        return N, p


def random_case(seed, nc=7, nv=5, bonds=0, **changes):
    """Coupled masses, contacts open and closed, rank-deficient damping."""
    rng = np.random.default_rng(seed)
    root, drag = rng.standard_normal((nv, nv)), rng.standard_normal((2, nv))
    return Case(
        M=root @ root.T + nv * np.eye(nv),
        B=rng.standard_normal((nc, nv)),
        phi=rng.uniform(-0.1, 0.1, nc),
        F=rng.standard_normal(nv),
        mom=3.0 * rng.standard_normal(nv),
        C=drag.T @ drag,
        k=rng.uniform(100.0, 400.0, nc),
        bonds=np.arange(nc) < bonds,
        drive=rng.standard_normal(nv),
        **changes,
    )
