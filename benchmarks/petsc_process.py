"""PETSc on one problem: ``python petsc_process.py IN.npz OUT.npz``; nothing of cdopt is imported.

IN holds B or N by rows (``indptr``, ``indices``, ``data``, ``shape``) in scaled units, ``solver``,
``accuracy``, ``repeats`` and ``block``; a truss also ``load``, ``opening``, ``stiffness`` and
``power``, a rigid step ``p``. OUT holds ``x``, the ``seconds`` of each repeat, ``iterations`` and
PETSc's ``reason``.
"""

import sys
import time

import numpy as np
import petsc4py

petsc4py.init(["petsc", "-ksp_type", "cg", "-pc_type", "pbjacobi", "-snes_ksp_ew"])
from petsc4py import PETSc  # noqa: E402

_SHIFT = 1e-8  # of the mean stiffness: bodies without contacts leave the Hessian singular


def matrix(given):
    """B or N as PETSc's own matrix."""
    rows = (given[name].astype(PETSc.IntType) for name in ("indptr", "indices"))
    return PETSc.Mat().createAIJ(tuple(given["shape"]), csr=(*rows, given["data"]))


class Truss:
    """E(u) = Σ w(c) + F̃ᵀ u, c = −B u − opening, by SNES or TAO."""

    def __init__(self, given):
        self.given, self.B = given, matrix(given)
        self.k, self.exponent = given["stiffness"], float(given["power"]) - 1.0
        self.u, self.c = self.B.createVecs()
        self.rows, self.g = self.B.copy(), self.u.duplicate()
        self.H = self.rows.transposeMatMult(self.rows)
        self.H.setBlockSize(int(given["block"]))

    def overlap(self, u):
        """The overlap of each contact, no less than zero."""
        self.B.mult(u, self.c)
        return np.maximum(-self.c.array - self.given["opening"], 0.0)

    def gradient(self, _solver, u, g):
        """F̃ − Bᵀ f."""
        self.c.array[:] = self.k * self.overlap(u) ** self.exponent
        self.B.multTranspose(self.c, g)
        g.array[:] = self.given["load"] - g.array

    def objective(self, solver, u, g):
        """E, and its gradient."""
        c = self.overlap(u)
        self.gradient(solver, u, g)
        energy = np.sum(self.k * c ** (self.exponent + 1.0)) / (self.exponent + 1.0)
        return float(energy + self.given["load"] @ u.array)

    def hessian(self, _solver, u, H, _P):
        """Bᵀ D B with a small shift."""
        c = self.overlap(u)
        D = np.zeros_like(c)
        closed = c > 0.0
        D[closed] = self.exponent * self.k[closed] * c[closed] ** (self.exponent - 1.0)
        self.assemble(D, H)

    def assemble(self, D, H):
        """H = Bᵀ D B + a small shift, for D (nc,)."""
        self.B.copy(self.rows)
        self.c.array[:] = np.sqrt(D)
        self.rows.diagonalScale(L=self.c)
        self.rows.transposeMatMult(self.rows, result=H)
        H.shift(_SHIFT * float(self.k.mean()))

    def start(self):
        """The displacement of a linear network that can also pull: at zero no contact is closed."""
        self.assemble(self.k, self.H)
        self.c.array[:] = self.k * self.given["opening"]
        self.B.multTranspose(self.c, self.g)
        self.g.array[:] = -self.given["load"] - self.g.array
        solver = PETSc.KSP().create()
        solver.setOperators(self.H)
        solver.setTolerances(rtol=1e-2)
        solver.setFromOptions()
        solver.solve(self.g, self.u)
        return self.u


def truss(given):
    """One solution of a truss."""
    problem, accuracy = Truss(given), float(given["accuracy"])
    u = problem.start()
    if given["solver"] == "snes":
        solver = PETSc.SNES().create()
        solver.setFunction(problem.gradient, problem.g)
        solver.setJacobian(problem.hessian, problem.H)
        solver.setTolerances(atol=accuracy, rtol=0.0, stol=0.0, max_it=500)
        solver.setFromOptions()
        solver.solve(None, u)
    else:
        solver = tao(given, problem.objective, problem.g, problem.hessian, problem.H)
        solver.solve(u)
    return u.array.copy(), solver


def rigid(given):
    """One solution of a rigid step: min ½ fᵀN f + pᵀ f, f ≥ 0."""
    N = matrix(given)
    N.setBlockSize(1)
    x, g = N.createVecs()
    lower, upper = x.duplicate(), x.duplicate()
    lower.set(0.0)
    upper.set(PETSc.INFINITY)

    def objective(_solver, x, g):
        N.mult(x, g)
        value = float(0.5 * x.array @ g.array + given["p"] @ x.array)
        g.array[:] += given["p"]
        return value

    solver = tao(given, objective, g, lambda _solver, _x, _H, _P: None, N)
    solver.setVariableBounds((lower, upper))
    x.set(0.0)
    solver.solve(x)
    return x.array.copy(), solver


def tao(given, objective, gradient, hessian, H):
    """A solver of TAO with its own settings, but for the accuracy and the preconditioner."""
    solver = PETSc.TAO().create()
    solver.setType(str(given["solver"]))
    solver.setObjectiveGradient(objective, gradient)
    solver.setHessian(hessian, H)
    solver.setTolerances(gatol=float(given["accuracy"]), grtol=0.0, gttol=0.0)
    solver.setMaximumIterations(500)
    solver.setFromOptions()
    return solver


def main(source, target):
    """Solve, time, and write the answer."""
    with np.load(source, allow_pickle=False) as stored:
        given = {name: stored[name] for name in stored.files}
    solve, seconds = truss if "load" in given else rigid, []
    for _ in range(int(given["repeats"]) + 1):
        begun = time.perf_counter()
        x, solver = solve(given)
        seconds.append(time.perf_counter() - begun)
        if sum(seconds) + seconds[-1] > float(given["budget"]):
            break
    np.savez(
        target,
        x=x,
        seconds=seconds[1:] or seconds,
        iterations=solver.getIterationNumber(),
        reason=solver.getConvergedReason(),
        version=".".join(map(str, PETSc.Sys.getVersion())),
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
