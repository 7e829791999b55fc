"""Contact problems of FCLib, the Frictional Contact Library, and their frictionless part.

A file holds one step of a frictional problem, r the impulses and u the relative velocities at
its contacts, the normal component first in each contact's block of ``spacedim``:

- local: u = W r + q, with W the Delassus matrix of impulses;
- global: M v = H r + f, u = Hᵀ v + w.

cdopt is frictionless. What is read here is a problem derived from the stored one: the normal rows
alone, ``label`` says so, while friction coefficients and tangential rows are kept and not used.
With a time step of one, forces are impulses:

- local: N = W and p = q on the normal rows;
- global: B = Hᵀ and Φ = w on the normal rows, F_ext = f, v = 0, so that v* = M⁻¹f.

Four things to know of published files. Triplets have columns in ``p`` and rows in ``i``, against
what fclib.h says. ``/solution/r`` is all zeros, a placeholder: neither it nor ``/guesses`` is
read. Some W are unsymmetric by 1e-3: they are made symmetric, and ``symmetrised`` says by how
much. Contact stiffness is not stored: it must be stated, and is one unless you state another.

``write`` writes what was read back without loss: all its rows, friction coefficients and texts. A
ContactStep is written as the frictionless problem that it is, in impulses and with a time step of
one, its friction coefficients zero and its tangential rows empty:

- with matrices (global): M as it stands, H the columns of Bᵀ, f = M v + Δt F_ext, w the bias
  Φ/Δt of each contact, restitution and moving walls included. Then M v⁺ = H r + f;
- by N and p alone (local): W = N/Δt and q = p.

The file does not keep Δt, stiffness, names, bodies and points. So M, B, the bias and the motion are
the same when it is read again, and a step with Δt = 1, v = 0 and no restitution comes back as it
was. Matrices are written in compressed rows, as fclib.h allows.

V. Acary, M. Brémond, T. Koziara, F. Pérignon, *FCLIB: a collection of discrete 3D Frictional
Contact problems*, technical report RT-0444, Inria, 2014; fclib.h of the same library.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from cdopt._util import checks, files
from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.errors import InvalidInput
from cdopt.interop.hdf5 import Hdf5Reader, opened
from cdopt.problem.contact_step import ContactStep, DelassusStep, Step
from cdopt.problem.solution import StepSolution

LABEL = (
    "derived frictionless problem: normal rows only; "
    "friction coefficients and tangential rows kept but not used"
)
DESCRIPTION = "frictionless contact step: friction coefficients are zero, tangential rows empty"
SUFFIXES = (".hdf5", ".h5")

_TEXTS = ("title", "description", "math_info")
_EXPECTED = "an FCLib file (HDF5 with fclib_local or fclib_global)"
_COMPRESSED_COLUMNS, _COMPRESSED_ROWS = -1, -2
_LARGEST = 10_000_000  # contacts' components and degrees of freedom
_ASYMMETRY_TOL = 1e-2  # beyond this share of its largest entry, W is no Delassus matrix


@dataclass(frozen=True, eq=False)
class FclibProblem:
    """What an FCLib file says, and the frictionless step derived from it.

    Attributes
    ----------
    step : the derived frictionless step, with Δt = 1; its forces are impulses, N s.
    kind : "local" (N and p) or "global" (M and B).
    spacedim : components of each contact, 2 or 3, the normal one first.
    mu : (nc,) friction coefficients; kept and not used.
    symmetrised : largest |W − Wᵀ| relative to the largest |W|, which was averaged away; of M in
        a global problem, where no more than round-off is accepted.
    W, q : (m, m) 1/kg and (m,) m/s of a local problem with all its m = nc · spacedim rows, as
        stored; otherwise None.
    H, w : (nv, m) and (m,) m/s of a global problem, likewise.
    title, description, math_info : what the file tells of itself; empty where it does not.
    """

    step: Step
    kind: str
    spacedim: int
    mu: FloatArray
    symmetrised: float
    W: sp.csr_array | None = None
    q: FloatArray | None = None
    H: sp.csr_array | None = None
    w: FloatArray | None = None
    title: str = ""
    description: str = ""
    math_info: str = ""

    @property
    def label(self) -> str:
        """What the step is, in one sentence, to stand beside every result from it."""
        return LABEL

    def __repr__(self) -> str:
        return f"FclibProblem({self.kind}, {self.spacedim}D, {self.step!r}; {self.label})"


def read(path: str | Path, stiffness: Any = 1.0) -> FclibProblem:
    """Read an FCLib file.

    Parameters
    ----------
    path : the HDF5 file.
    stiffness : relative contact stiffness k̃, one number or (nc,), positive: no file stores it.

    Raises
    ------
    InvalidInput : of "path", when the file is missing, damaged, not of this format or beyond its
        limits; when it has equality constraints (V and R, or G), which a ContactStep has not; or
        when W or M is not what it should be. Of "stiffness", when that is.
    """
    with opened(path, _EXPECTED) as file:
        kinds = [kind for kind in ("local", "global") if file.has(f"fclib_{kind}")]
        if len(kinds) != 1:
            raise file.fault("both kinds at once" if kinds else "neither kind of problem")
        root = f"fclib_{kinds[0]}"
        spacedim = file.integer(f"{root}/spacedim")
        if spacedim not in (2, 3):
            raise file.fault(f"{root}/spacedim: {spacedim}", "2 or 3")
        texts: dict[str, Any] = {name: file.text(f"{root}/info/{name}") for name in _TEXTS}
        try:
            parts = (_local if kinds[0] == "local" else _global)(file, root, spacedim, stiffness)
        except InvalidInput as error:
            if error.argument in ("path", "stiffness"):
                raise
            raise file.fault(f"{error.argument}: {error.found}", error.expected) from error
    return FclibProblem(kind=kinds[0], spacedim=spacedim, **parts, **texts)


def load_step(path: str | Path, stiffness: Any = 1.0) -> Step:
    """The derived frictionless step of an FCLib file; parameters and errors as in ``read``."""
    return read(path, stiffness).step


def _local(file: Hdf5Reader, root: str, spacedim: int, stiffness: Any) -> dict[str, Any]:
    """W and q: N = W and p = q on the normal rows."""
    _refuse_equalities(file, root, ("V", "R"))
    size = _size(file, f"{root}/W/m")
    q, mu = _vectors(file, root, "q", size, spacedim)
    W = _matrix(file, f"{root}/W", size, size)
    asymmetry = _asymmetry(W)
    if asymmetry > _ASYMMETRY_TOL:
        raise file.fault(
            f"{root}/W: asymmetry of {asymmetry:.3g} of its largest entry",
            f"a symmetric matrix (to {_ASYMMETRY_TOL:g})",
        )
    N = sp.csr_array(W[::spacedim][:, ::spacedim])
    N = sp.csr_array((N + N.T) * 0.5)
    step = DelassusStep(N, q[::spacedim], dt=1.0, stiffness=stiffness)
    return {"step": step, "mu": mu, "symmetrised": asymmetry, "W": W, "q": q}


def _global(file: Hdf5Reader, root: str, spacedim: int, stiffness: Any) -> dict[str, Any]:
    """M, H, f and w: B = Hᵀ and Φ = w on the normal rows, F_ext = f, v = 0."""
    _refuse_equalities(file, root, ("G",))
    nv, size = _size(file, f"{root}/H/m"), _size(file, f"{root}/H/n")
    w, mu = _vectors(file, root, "w", size, spacedim)
    f = checks.vector("f", file.floats(f"{root}/vectors/f", nv, nv), nv, "N s")
    M, H = _matrix(file, f"{root}/M", nv, nv), _matrix(file, f"{root}/H", nv, size)
    B = sp.csr_array(H.T)[::spacedim]
    step = ContactStep(M, B, w[::spacedim], np.zeros(nv), f, dt=1.0, stiffness=stiffness)
    return {"step": step, "mu": mu, "symmetrised": _asymmetry(M), "H": H, "w": w}


def _vectors(
    file: Hdf5Reader, root: str, name: str, size: int, spacedim: int
) -> tuple[FloatArray, FloatArray]:
    """The free velocity q or w (size,), and the friction coefficients (size / spacedim,)."""
    if size % spacedim:
        raise file.fault(f"{root}: {size} rows of contacts", f"a multiple of spacedim {spacedim}")
    nc = size // spacedim
    velocity = file.floats(f"{root}/vectors/{name}", size, size)
    mu = file.floats(f"{root}/vectors/mu", nc, nc)
    return (
        checks.vector(name, velocity, size, "m/s"),
        checks.per_contact("mu", mu, nc, at_least=0.0),
    )


def _refuse_equalities(file: Hdf5Reader, root: str, names: tuple[str, ...]) -> None:
    """Refuse equality constraints, unless there are none of them (no columns)."""
    for name in names:
        if file.has(f"{root}/{name}") and (columns := file.integer(f"{root}/{name}/n")) != 0:
            raise file.fault(
                f"{root}/{name}: {columns} equality constraints",
                "contacts only: a ContactStep has no equality constraints",
            )


def _asymmetry(matrix: sp.csr_array) -> float:
    """Largest |A − Aᵀ| relative to the largest |A|."""
    scale = float(np.abs(matrix.data).max(initial=0.0))
    worst = float(np.abs((matrix - matrix.T).tocsr().data).max(initial=0.0))
    return worst / scale if scale > 0.0 else 0.0


# --- matrices --------------------------------------------------------------------------


def _matrix(file: Hdf5Reader, where: str, m: int, n: int) -> sp.csr_array:
    """One (m, n) matrix in any of the three storage schemes, as canonical CSR.

    The shape is known from vectors of that length, which bounds what is allocated for it.
    nz is −2 for compressed rows, −1 for compressed columns, and the number of entries of
    triplets. i of compressed lines, and x, may be longer than their entries, up to nzmax.
    """
    shape = tuple(file.integer(f"{where}/{name}") for name in ("m", "n"))
    if shape != (m, n):
        raise file.fault(f"{where}: shape {shape}", f"shape {(m, n)}, as the sizes beside it say")
    nz, nzmax = file.integer(f"{where}/nz"), file.integer(f"{where}/nzmax")
    if nz < _COMPRESSED_ROWS:
        raise file.fault(f"{where}/nz: {nz}", "-2 (rows), -1 (columns), or the number of triplets")
    parts: Any
    if nz > nzmax:
        raise file.fault(f"{where}/nz: {nz}", f"at most nzmax, {nzmax}")
    if nz >= 0:
        cols = _indices(file, f"{where}/p", nz, nz, n)
        rows = _indices(file, f"{where}/i", nz, nz, m)
        parts = sp.coo_array((_entries(file, where, nz, nzmax), (rows, cols)), shape=(m, n))
    else:
        by_rows = nz == _COMPRESSED_ROWS
        lines, across = (m, n) if by_rows else (n, m)
        starts = _pointers(file, f"{where}/p", lines)
        count = int(starts[-1])
        if count > nzmax:
            raise file.fault(f"{where}/p: {count} entries", f"at most nzmax, {nzmax}")
        index = _indices(file, f"{where}/i", count, nzmax, across)
        compressed = sp.csr_array if by_rows else sp.csc_array
        entries = _entries(file, where, count, nzmax)
        parts = compressed((entries, index, starts.astype(np.int32)), shape=(m, n))
    return checks.matrix(where, parts, m, n)


def _size(file: Hdf5Reader, name: str) -> int:
    size = file.integer(name)
    if not 0 <= size <= _LARGEST:
        raise file.fault(f"{name}: {size}", f"0 to {_LARGEST}")
    return size


def _pointers(file: Hdf5Reader, name: str, lines: int) -> IntArray:
    """Where each of so many rows or columns starts, and the last one ends."""
    starts = file.integers(name, lines + 1, lines + 1)
    if starts[0] != 0 or bool(np.any(starts[1:] < starts[:-1])):
        raise file.fault(f"{name}: pointers that go back", "pointers from 0 that never decrease")
    return starts


def _indices(
    file: Hdf5Reader, name: str, count: int, at_most: int, below: int
) -> NDArray[np.int32]:
    """The first ``count`` indices, each from 0 to ``below`` − 1."""
    index = file.integers(name, count, at_most)[:count]
    if index.size and not (int(index.min()) >= 0 and int(index.max()) < below):
        raise file.fault(
            f"{name}: indices from {int(index.min())} to {int(index.max())}",
            f"0 to {below - 1} (triplets: rows in i, columns in p)",
        )
    return index.astype(np.int32)  # the width that solvers take; sizes are far below its range


def _entries(file: Hdf5Reader, where: str, count: int, nzmax: int) -> FloatArray:
    return file.floats(f"{where}/x", count, nzmax)[:count]


# --- writing ---------------------------------------------------------------------------


def write(
    path: str | Path,
    problem: Step | FclibProblem,
    solution: StepSolution | None = None,
    *,
    title: str = "",
    description: str = "",
) -> None:
    """Write an FCLib file; one that is there already is replaced.

    Parameters
    ----------
    path : the HDF5 file.
    problem : a contact step, or what ``read`` returned.
    solution : forces of the same contacts; stored as impulses r = Δt f and velocities u, and v
        of a global problem, where FCLib keeps its solutions. Tangential parts are zero.
    title, description : texts of the file; empty keeps those of the problem.

    Raises
    ------
    InvalidInput : of "problem" or "solution", when it is something else or does not fit; of
        "path", when no file can have it.
    SaveFailed : the disk is full or cannot be written.
    """
    if not isinstance(problem, Step | FclibProblem):
        raise InvalidInput("problem", checks.describe(problem), "a ContactStep or FclibProblem")
    step = problem if isinstance(problem, Step) else problem.step
    stored = _in_impulses(problem) if isinstance(problem, Step) else problem
    answer = {} if solution is None else _solution(stored, step, solution)
    matrices: dict[str, Any]
    vectors: dict[str, Any]
    if isinstance(stored.step, ContactStep):
        matrices = {"M": stored.step.M, "H": stored.H}
        vectors = {"f": stored.step.F_ext, "w": stored.w, "mu": stored.mu}
    else:
        matrices, vectors = {"W": stored.W}, {"q": stored.q, "mu": stored.mu}
    texts = {"title": title or stored.title, "description": description or stored.description,
             "math_info": stored.math_info}  # fmt: skip
    image = io.BytesIO()
    with h5py.File(image, "w") as file:
        root = file.create_group(f"fclib_{stored.kind}")
        root["spacedim"] = np.array([stored.spacedim], dtype=np.int32)
        for name, matrix in matrices.items():
            _put_matrix(root.create_group(name), matrix)
        for name, values in vectors.items():
            root[f"vectors/{name}"] = values
        for name, text in texts.items():
            root[f"info/{name}"] = np.bytes_(text.encode() + b"\x00")
        for name, values in answer.items():
            file[f"solution/{name}"] = values
    files.write_bytes(path, image.getvalue())


def _in_impulses(step: Step) -> FclibProblem:
    """A contact step as FCLib states it, in impulses, its normals first in blocks of 2 or 3."""
    d = 3 if step.normals is None else int(step.normals.shape[1])
    mu = np.zeros(step.nc)
    if not isinstance(step, ContactStep):
        W = _spread(sp.csr_array(step.N / step.dt), step.nc * d, d, d)
        q = _blocks(step.p_vec, d)
        return FclibProblem(step, "local", d, mu, 0.0, W=W, q=q, description=DESCRIPTION)
    load = step.mass.M @ step.v + step.dt * step.F_ext
    impulses = ContactStep(step.M, step.B, step.bias, np.zeros(step.v.size), load, dt=1.0)
    H, w = _spread(sp.csr_array(step.B.T), step.v.size, 1, d), _blocks(step.bias, d)
    return FclibProblem(impulses, "global", d, mu, 0.0, H=H, w=w, description=DESCRIPTION)


def _spread(matrix: sp.csr_array, m: int, by_rows: int, by_columns: int) -> sp.csr_array:
    """The matrix with m rows, each row and column first in a block of so many."""
    entries = matrix.tocoo()
    row, col = entries.row.astype(np.int64) * by_rows, entries.col.astype(np.int64) * by_columns
    return sp.csr_array((entries.data, (row, col)), shape=(m, matrix.shape[1] * by_columns))


def _blocks(normal: FloatArray, d: int) -> FloatArray:
    """(nc · d,): each normal component followed by zeros."""
    full = np.zeros((normal.size, d))
    full[:, 0] = normal
    return full.ravel()


def _solution(stored: FclibProblem, step: Step, solution: StepSolution) -> dict[str, FloatArray]:
    """Impulses r, relative velocities u, and the velocity v of a global problem."""
    if not isinstance(solution, StepSolution) or solution.f is None:
        raise InvalidInput("solution", checks.describe(solution), "a StepSolution with forces")
    if solution.f.shape != (step.nc,):
        raise InvalidInput("solution", f"{solution.f.size} forces", f"{step.nc}, one per contact")
    d = stored.spacedim
    gap = step.N @ solution.f + step.p_vec if solution.gap is None else solution.gap
    answer = {"r": _blocks(step.dt * solution.f, d), "u": _blocks(np.asarray(gap), d)}
    if stored.kind == "global" and solution.v_next is not None:
        answer["v"] = solution.v_next
    return answer


def _put_matrix(group: h5py.Group, matrix: sp.csr_array) -> None:
    numbers = (*matrix.shape, _COMPRESSED_ROWS, matrix.nnz)
    for name, number in zip(("m", "n", "nz", "nzmax"), numbers, strict=True):
        group[name] = np.array([number], dtype=np.int32)
    group["p"] = matrix.indptr.astype(np.int32)
    group["i"] = matrix.indices.astype(np.int32)
    group["x"] = matrix.data
