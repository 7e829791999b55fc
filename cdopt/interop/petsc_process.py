"""A no-tension truss solved by several processes: ``mpiexec -n N python petsc_process.py FOLDER``.

Nothing of cdopt is imported; Python needs numpy and petsc4py. FOLDER is as ``petsc.write`` makes
it: ``truss.json`` with ``contacts``, ``dofs``, ``block`` (dofs of each body, in a row), ``power``,
``accuracy`` and ``max_steps``; B by rows in ``indptr.npy``, ``indices.npy`` and ``data.npy``;
``load.npy``, ``opening.npy`` and ``stiffness.npy``; all in units that make them of order one. Each
process reads only its contacts and bodies, so that no process needs the whole network.

min Σ w(c) + F̃ᵀu over u, with c = −B u − opening, by PETSc's Newton method (SNES), with a line
search for the zero of the gradient along a step. The systems Bᵀ D B are assembled and solved by
conjugate gradients, preconditioned by the blocks of the bodies. The answer is ``u.npy`` and
``f.npy``; ``answer.json`` has iterations, seconds and the residuals of the certificate, computed in
parallel.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

_SHIFT = 1e-8  # of the mean stiffness: bodies without contacts leave the tangent singular
_OPEN = 1e-3  # share of its stiffness that an open contact keeps in the tangent, at first
_FIRST = 1e-2  # relative residual to which the network that can also pull is solved
_OPTIONS = {  # of PETSc; Eisenstat & Walker decide how sharply systems are solved
    "ksp_type": "cg",
    "pc_type": "pbjacobi",
    "snes_ksp_ew": "true",
    "snes_ksp_ew_rtol0": "0.1",
    "snes_ksp_ew_rtolmax": "0.01",
    "snes_linesearch_type": "cp",
    "snes_linesearch_max_it": "20",
}


class DistributedTruss:
    """The share of one process: its contacts and bodies, and their PETSc objects."""

    def __init__(self, folder: Path, PETSc: Any) -> None:
        self.stated = json.loads((folder / "truss.json").read_text())
        self.PETSc, self.comm = PETSc, PETSc.COMM_WORLD
        self.block = int(self.stated["block"])
        nc, bodies = int(self.stated["contacts"]), int(self.stated["dofs"]) // self.block
        self.rows, self.bodies = self._share(nc), self._share(bodies)
        stored = {p.stem: np.load(p, mmap_mode="r") for p in folder.glob("*.npy")}
        indptr = np.array(stored["indptr"][self.rows.start : self.rows.stop + 1])
        entries = slice(int(indptr[0]), int(indptr[-1]))
        self.indptr = indptr - indptr[0]
        self.indices, self.data = (np.array(stored[name][entries]) for name in ("indices", "data"))
        self._require_structure(int(self.stated["dofs"]))
        mine = slice(self.bodies.start * self.block, self.bodies.stop * self.block)
        self.load = np.array(stored["load"][mine])
        self.k, self.opening = (
            np.array(stored[name][self.rows.start : self.rows.stop])
            for name in ("stiffness", "opening")
        )
        self.exponent = float(self.stated["power"]) - 1.0
        self.B = self._matrix(self.indptr, self.indices, self.data)
        self.u, self.row = self.B.createVecs()
        self.row.array[:] = self.k
        self.mean = self.row.sum() / nc
        self._pair_bodies()

    def _require_structure(self, dofs: int) -> None:
        """Raise an error for damaged rows, with which PETSc would read beyond its arrays."""
        ends, size = self.indptr, self.indices.size
        sound = ends.size == len(self.rows) + 1 and not (ends[1:] < ends[:-1]).any()
        sound = sound and ends[-1] == size == self.data.size
        inside = size == 0 or 0 <= self.indices.min() <= self.indices.max() < dofs
        if not (sound and inside):
            raise ValueError("a damaged matrix: its rows lead out of its arrays")

    def _share(self, count: int) -> range:
        """The numbers of this process, of ``count``."""
        size, rank = self.comm.getSize(), self.comm.getRank()
        return range(count * rank // size, count * (rank + 1) // size)

    def _matrix(self, indptr: Any, indices: Any, data: Any) -> Any:
        """B's rows of this process, with other values."""
        integer = self.PETSc.IntType
        rows = (len(self.rows), int(self.stated["contacts"]))
        columns = (len(self.bodies) * self.block, int(self.stated["dofs"]))
        csr = (indptr.astype(integer), indices.astype(integer), data)
        return self.PETSc.Mat().createAIJ((rows, columns), csr=csr, comm=self.comm)

    def _pair_bodies(self) -> None:
        """Contacts with the bodies that they touch."""
        row = np.repeat(np.arange(len(self.rows)), np.diff(self.indptr))
        body = self.indices // self.block
        starts = np.flatnonzero(np.r_[True, (np.diff(row) != 0) | (np.diff(body) != 0)][: len(row)])
        self.pair_body = body[starts]
        self.pair_ptr = np.searchsorted(row[starts], np.arange(len(self.rows) + 1))
        shared = len(self.bodies), int(self.stated["dofs"]) // self.block
        self.of_bodies = self.PETSc.Vec().createMPI(shared, comm=self.comm)

    # --- loads -------------------------------------------------------------------------

    def overlap(self, u: Any) -> Any:
        """c = −B u − opening of this process's contacts, m over its unit."""
        self.B.mult(u, self.row)
        return -self.row.array - self.opening

    def force(self, c: Any) -> Any:
        """w′(c)."""
        return self.k * np.maximum(c, 0.0) ** self.exponent

    def gradient(self, f: Any, g: Any) -> None:
        """g = F̃ − Bᵀ f."""
        self.row.array[:] = f
        self.B.multTranspose(self.row, g)
        g.array[:] = self.load - g.array

    def total(self, values: Any) -> float:
        """Sum over the contacts of all processes."""
        self.row.array[:] = values
        return float(self.row.sum())

    # --- Newton's method ---------------------------------------------------------------

    def assemble(self, D: Any, tangent: Any) -> None:
        """The tangent Bᵀ D B with a small shift, for D of this process's contacts."""
        self.B.copy(self.weighted)
        self.row.array[:] = np.sqrt(D)
        self.weighted.diagonalScale(L=self.row)
        self.weighted.transposeMatMult(self.weighted, result=tangent)
        tangent.shift(_SHIFT * self.mean)

    def solve(self) -> dict[str, Any]:
        """The displacement into ``u``; steps, iterations and whether the accuracy is reached."""
        self.weighted = self.B.copy()
        tangent, g = self.B.transposeMatMult(self.B), self.u.duplicate()
        tangent.setBlockSize(self.block)
        self.assemble(self.k, tangent)  # of u = 0, where every contact is a spring that can pull
        self.gradient(-self.k * self.opening, g)
        linear = self.PETSc.KSP().create(self.comm)
        linear.setOperators(tangent)
        linear.setTolerances(rtol=_FIRST)
        linear.setFromOptions()
        linear.solve(-g, self.u)
        solver, accuracy = self.PETSc.SNES().create(self.comm), float(self.stated["accuracy"])
        solver.setFunction(self._slope, g)
        solver.setJacobian(self._tangent, tangent)
        most = int(self.stated["max_steps"])
        solver.setTolerances(atol=accuracy, rtol=0.0, stol=0.0, max_it=most)
        solver.setFromOptions()
        solver.solve(None, self.u)
        self._slope(solver, self.u, g)
        residual = float(g.norm(self.PETSc.NormType.INFINITY))
        iterations = linear.getIterationNumber() + solver.getLinearSolveIterations()
        steps = {"steps": solver.getIterationNumber(), "iterations": iterations}
        return steps | {"residual": residual, "met": residual <= accuracy}

    def _slope(self, _solver: Any, u: Any, g: Any) -> None:
        """PETSc asks for the gradient at u."""
        self.gradient(self.force(self.overlap(u)), g)

    def _tangent(self, solver: Any, u: Any, tangent: Any, _preconditioner: Any) -> None:
        """PETSc asks for the tangent at u, in which open contacts keep some of their stiffness."""
        c, share = self.overlap(u), _OPEN * min(1.0, solver.getFunctionNorm())
        slope, closed = np.full(c.size, share), c > 0.0
        slope[closed] = np.maximum(self.exponent * c[closed] ** (self.exponent - 1.0), share)
        self.assemble(self.k * slope, tangent)

    # --- the certificate ---------------------------------------------------------------

    def certify(self) -> tuple[Any, dict[str, float]]:
        """Forces of this process, and the residuals of ``cdopt.certify`` of the whole network."""
        c, g = self.overlap(self.u), self.u.duplicate()
        f = self.force(c)
        absolute = self._matrix(self.indptr, self.indices, np.abs(self.data))
        self.row.array[:] = f
        absolute.multTranspose(self.row, g)
        local_load = np.maximum(g.array, np.abs(self.load)).reshape(-1, self.block)
        self.of_bodies.array[:] = local_load.max(axis=1)
        least = self._least_of_bodies()
        self.gradient(f, g)
        work = float(g.dot(self.u))
        scale = np.repeat(self.of_bodies.array, self.block)
        g.array[:] = np.abs(g.array) / np.where(scale > 0.0, scale, 1.0)
        p = self.exponent + 1.0
        stored = self.k * np.maximum(c, 0.0) ** p / p
        dual = f ** (p / self.exponent) * self.k ** (-1.0 / self.exponent) * self.exponent / p
        self.row.array[:] = np.maximum(-f, 0.0) / least
        tension = self.row.max()[1]
        self.row.array[:] = np.abs(f - self.force(c)) / least
        law = self.row.max()[1]
        energy = self.total(stored + dual)
        gap = self.total(stored + dual - f * c) + work
        return f, {
            "equilibrium": float(g.norm(self.PETSc.NormType.INFINITY)),
            "tension": float(tension),
            "law": float(law),
            "duality gap": abs(gap) / energy if energy > 0.0 else abs(gap),
        }

    def _least_of_bodies(self) -> Any:
        """For each contact, the smallest value of its bodies."""
        PETSc = self.PETSc
        needed, place = np.unique(self.pair_body, return_inverse=True)
        local = PETSc.Vec().createSeq(needed.size)
        indices = PETSc.IS().createGeneral(needed.astype(PETSc.IntType), comm=PETSc.COMM_SELF)
        scatter = PETSc.Scatter().create(self.of_bodies, indices, local, None)
        scatter.scatter(self.of_bodies, local)
        values = np.append(local.array[place.ravel()], np.inf)
        least = np.minimum.reduceat(values, self.pair_ptr[:-1]) if len(self.rows) else np.zeros(0)
        least[np.diff(self.pair_ptr) == 0] = 1.0
        return np.where(least > 0.0, least, 1.0)


def main(folder: Path) -> None:
    """Read, solve, certify and write, each process its share."""
    petsc4py: Any = importlib.import_module("petsc4py")
    petsc4py.init(["truss", *(part for k, v in _OPTIONS.items() for part in (f"-{k}", v))])
    PETSc: Any = importlib.import_module("petsc4py.PETSc")
    times = [time.perf_counter()]
    truss = DistributedTruss(folder, PETSc)
    times.append(time.perf_counter())
    answer = truss.solve()
    times.append(time.perf_counter())
    f, residuals = truss.certify()
    times.append(time.perf_counter())
    shares = {"u": (truss.u.array, truss.bodies, truss.block), "f": (f, truss.rows, 1)}
    sizes = {"u": int(truss.stated["dofs"]), "f": int(truss.stated["contacts"])}
    first = truss.comm.getRank() == 0
    if first:
        for name, size in sizes.items():
            np.lib.format.open_memmap(folder / f"{name}.npy", "w+", np.float64, (size,)).flush()
    truss.comm.barrier()
    for name, (values, numbers, width) in shares.items():
        whole = np.lib.format.open_memmap(folder / f"{name}.npy", "r+")
        whole[numbers.start * width : numbers.stop * width] = values
        whole.flush()
    truss.comm.barrier()
    if first:
        seconds = dict(zip(("read", "solve", "certify"), np.diff(times).tolist(), strict=True))
        version = ".".join(map(str, PETSc.Sys.getVersion()))
        answer |= {"processes": truss.comm.getSize(), "seconds": seconds, "version": version}
        (folder / "answer.json").write_text(json.dumps(answer | {"residuals": residuals}))


if __name__ == "__main__":
    if len(sys.argv) == 1:  # does it work with this Python and its numpy?
        importlib.import_module("petsc4py.PETSc")
    else:
        main(Path(sys.argv[1]))
