"""A no-tension truss solved by several processes: ``mpiexec -n N python petsc_process.py FOLDER``.

Nothing of cdopt is imported; Python needs numpy and petsc4py. FOLDER is as ``petsc.write`` makes
it: ``truss.json`` with ``contacts``, ``dofs``, ``block`` (dofs of each body, in a row), ``power``,
``accuracy`` and ``max_steps``; B by rows in ``indptr.npy``, ``indices.npy`` and ``data.npy``;
``load.npy``, ``opening.npy`` and ``stiffness.npy``; all in units that make them of order one. Each
process reads only its contacts and bodies, so that no process needs the whole network.

min Σ w(c) + F̃ᵀu over u, with c = −B u − opening, by a semismooth Newton method with exact line
searches. Systems Bᵀ D B are never assembled: PETSc's conjugate gradients take products with B and
Bᵀ, and the blocks of the bodies as preconditioner. The answer is ``u.npy`` and ``f.npy``;
``answer.json`` has iterations, seconds and the residuals of the certificate, computed in parallel.
"""

from __future__ import annotations

import importlib
import itertools
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

_SHIFT = 1e-10  # of the mean stiffness: bodies without contacts leave the tangent singular
_OPEN = 1e-3  # share of its stiffness that an open contact keeps in the tangent, at first
_LOOSE, _TIGHT = 0.1, 1e-4  # relative residuals to which systems are solved
_ITERATIONS = 5000  # of conjugate gradients in one Newton step
_HALVINGS, _SLOPE = 60, 1e-3  # of a line search, at most; slope where it ends, relative


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
        self.B = self._matrix(self.indptr, self.indices, self.data, self.block)
        self.u, self.row = self.B.createVecs()
        self.row.array[:] = self.k
        self.mean = self.row.sum() / nc
        self._pair_bodies()

    def _require_structure(self, dofs: int) -> None:
        """Refuse damaged rows, with which PETSc would read beyond its arrays."""
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

    def _matrix(self, indptr: Any, indices: Any, data: Any, width: int) -> Any:
        """Rows of this process, with ``width`` columns for each body."""
        integer = self.PETSc.IntType
        rows = (len(self.rows), int(self.stated["contacts"]))
        bodies = int(self.stated["dofs"]) // self.block
        columns = (len(self.bodies) * width, bodies * width)
        csr = (indptr.astype(integer), indices.astype(integer), data)
        return self.PETSc.Mat().createAIJ((rows, columns), csr=csr, comm=self.comm)

    def _pair_bodies(self) -> None:
        """Contacts with the bodies that they touch, and squares of B for the bodies' blocks."""
        row = np.repeat(np.arange(len(self.rows)), np.diff(self.indptr))
        body, place = np.divmod(self.indices, self.block)
        starts = np.flatnonzero(np.r_[True, (np.diff(row) != 0) | (np.diff(body) != 0)][: len(row)])
        pair = np.zeros(len(row), dtype=np.int64)
        pair[starts[1:]] = 1
        pair = np.cumsum(pair)
        gradient = np.zeros((starts.size, self.block))
        gradient[pair, place] = self.data
        self.pair_body = body[starts]
        self.pair_ptr = np.searchsorted(row[starts], np.arange(len(self.rows) + 1))
        self.squares = {
            (a, b): self._matrix(self.pair_ptr, self.pair_body, gradient[:, a] * gradient[:, b], 1)
            for a, b in itertools.combinations_with_replacement(range(self.block), 2)
        }
        self.of_bodies = self.squares[0, 0].createVecRight()

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

    # --- the tangent: PETSc calls mult and apply ---------------------------------------

    def set_tangent(self, c: Any, share: float) -> None:
        """Tangent at overlaps c; open contacts keep a share of their stiffness."""
        self.D = share * self.k
        closed = c > 0.0
        slope = self.exponent * c[closed] ** (self.exponent - 1.0)
        self.D[closed] = self.k[closed] * np.maximum(slope, share)
        blocks = np.zeros((len(self.bodies), self.block, self.block))
        for (a, b), square in self.squares.items():
            self.row.array[:] = self.D
            square.multTranspose(self.row, self.of_bodies)
            blocks[:, a, b] = blocks[:, b, a] = self.of_bodies.array
        blocks += _SHIFT * self.mean * np.eye(self.block)
        self.inverse = np.linalg.inv(blocks)

    def mult(self, _matrix: Any, x: Any, y: Any) -> None:
        """y = (Bᵀ D B + shift) x."""
        self.B.mult(x, self.row)
        self.row.array[:] = self.row.array * self.D
        self.B.multTranspose(self.row, y)
        y.axpy(_SHIFT * self.mean, x)

    def apply(self, _preconditioner: Any, x: Any, y: Any) -> None:
        """y = x, by the inverse block of each body."""
        rows = x.array_r.reshape(-1, self.block)
        y.array[:] = np.einsum("kij,kj->ki", self.inverse, rows).ravel()

    # --- Newton's method ---------------------------------------------------------------

    def solve(self) -> dict[str, Any]:
        """The displacement into ``u``; steps, iterations and whether the accuracy is reached."""
        accuracy, last = float(self.stated["accuracy"]), int(self.stated["max_steps"])
        solver, iterations, steps = self._conjugate_gradients(), 0, 0
        g, d = self.u.duplicate(), self.u.duplicate()
        c = -self.opening  # of u = 0, where every contact is a spring that can also pull
        self.gradient(self.k * c, g)
        self.set_tangent(c, 1.0)
        tolerance = _LOOSE
        while True:
            solver.setTolerances(rtol=tolerance, max_it=_ITERATIONS)
            solver.solve(-g, d)
            iterations += solver.getIterationNumber()
            self.u.axpy(1.0 if steps == 0 else self._line_search(c, d), d)
            steps += 1
            c = self.overlap(self.u)
            self.gradient(self.force(c), g)
            residual = float(g.norm(self.PETSc.NormType.INFINITY))
            if residual <= accuracy or steps >= last:
                break
            self.set_tangent(c, _OPEN * min(1.0, residual))
            tolerance = min(_LOOSE, max(residual**0.5, _TIGHT))
        met = residual <= accuracy
        return {"steps": steps, "iterations": iterations, "residual": residual, "met": met}

    def _conjugate_gradients(self) -> Any:
        """PETSc's, with the tangent and the blocks of this object."""
        solver, matrix = self.PETSc.KSP().create(self.comm), self.PETSc.Mat()
        matrix.createPython((self.u.getSizes(), self.u.getSizes()), self, self.comm)
        matrix.setUp()
        solver.setOperators(matrix)
        solver.setType("cg")
        solver.getPC().setType("python")
        solver.getPC().setPythonContext(self)
        return solver

    def _line_search(self, c: Any, d: Any) -> float:
        """The length along d at which the energy, which is convex, has no slope."""
        load = self.u.duplicate()
        load.array[:] = self.load
        work = load.dot(d)
        self.B.mult(d, self.row)
        closing = -self.row.array

        def slope(t: float) -> float:
            return float(work + self.total(self.force(c + t * closing) * closing))

        low, high, at_low = 0.0, 1.0, slope(0.0)
        at_high, enough = slope(high), _SLOPE * abs(at_low)
        while at_high < -enough and high < 1e6:
            low, high, at_low = high, 4.0 * high, at_high
            at_high = slope(high)
        t, here, halvings = high, at_high, 0
        while abs(here) > enough and halvings < _HALVINGS:
            halvings += 1
            margin = 0.05 * (high - low)
            t = low - at_low * (high - low) / (at_high - at_low)
            t = min(max(t, low + margin), high - margin)
            here = slope(t)
            if here < 0.0:
                low, at_low = t, here
            else:
                high, at_high = t, here
        return t

    # --- the certificate ---------------------------------------------------------------

    def certify(self) -> tuple[Any, dict[str, float]]:
        """Forces of this process, and the residuals of the whole network.

        Those of ``cdopt.certify``, for one independent part.
        """
        c, g = self.overlap(self.u), self.u.duplicate()
        f = self.force(c)
        absolute = self._matrix(self.indptr, self.indices, np.abs(self.data), self.block)
        self.row.array[:] = f
        absolute.multTranspose(self.row, g)
        acting = np.maximum(g.array, np.abs(self.load)).reshape(-1, self.block)
        self.of_bodies.array[:] = acting.max(axis=1)
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
        """Of each contact, the least value of its bodies."""
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
    """Read, solve, certify and write; every process its share."""
    petsc4py: Any = importlib.import_module("petsc4py")
    petsc4py.init([])
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
