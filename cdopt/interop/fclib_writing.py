"""Contact problems written as FCLib files, for other codes to read.

What ``cdopt.interop.fclib`` has read is written back without loss: all its rows, friction
coefficients and texts. A ContactStep is written as the frictionless problem that it is, in
impulses and with a time step of one:

- with matrices (global): M as it stands, H the columns of Bᵀ, f = M v + Δt F_ext, w the bias
  Φ/Δt of each contact, restitution and moving walls included. Then M v⁺ = H r + f;
- by N and p alone (local): W = N/Δt and q = p.

Friction coefficients are zero and tangential rows and columns empty. The file does not keep Δt,
stiffness, names, bodies and points. So M, B, the bias and the motion are the same when it is read
again, and a step with Δt = 1, v = 0 and no restitution comes back as it was.

Matrices stand in compressed rows, as fclib.h allows. V. Acary, M. Brémond, T. Koziara,
F. Pérignon, *FCLIB*, technical report RT-0444, Inria, 2014; fclib.c of the same library.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import scipy.sparse as sp

from cdopt._util import checks, files
from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput
from cdopt.interop.fclib import FclibProblem
from cdopt.problem.contact_step import ContactStep, Step
from cdopt.problem.solution import StepSolution

DESCRIPTION = "frictionless contact step: friction coefficients are zero, tangential rows empty"
_ROWS = -2  # compressed rows, in FCLib's words


@dataclass(frozen=True, eq=False)
class _Content:
    """Everything that goes into a file: the kind, its matrices and vectors by FCLib's names."""

    kind: str
    spacedim: int
    dt: float
    matrices: dict[str, sp.csr_array]
    vectors: dict[str, FloatArray]
    texts: dict[str, str]


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
    problem : a contact step, or what ``cdopt.interop.fclib.read`` returned.
    solution : forces of the same contacts; stored as impulses r = Δt f and velocities u, and v
        of a global problem, where FCLib keeps its solutions. Tangential parts are zero.
    title, description : texts of the file; empty keeps those of the problem.

    Raises
    ------
    InvalidInput : of "problem" or "solution", when it is something else or does not fit; of
        "path", when no file can have it.
    SaveFailed : the disk is full or cannot be written.
    """
    if isinstance(problem, FclibProblem):
        content, step = _stored(problem), problem.step
    elif isinstance(problem, Step):
        content, step = _of_step(problem), problem
    else:
        raise InvalidInput("problem", checks.describe(problem), "a ContactStep or FclibProblem")
    answer = {} if solution is None else _solution(content, step, solution)
    texts = {**content.texts, **{k: v for k, v in
             (("title", title), ("description", description)) if v}}  # fmt: skip
    image = io.BytesIO()
    with h5py.File(image, "w") as file:
        _put(file.create_group(f"fclib_{content.kind}"), content, texts)
        for name, values in answer.items():
            file[f"solution/{name}"] = values
    files.write_bytes(path, image.getvalue())


def _stored(problem: FclibProblem) -> _Content:
    """What was read, as it stood in its file."""
    step = problem.step
    texts = {name: getattr(problem, name) for name in ("title", "description", "math_info")}
    vectors: dict[str, Any] = {"mu": problem.mu}
    matrices: dict[str, Any]
    if problem.kind == "local":
        matrices = {"W": problem.W}
        vectors["q"] = problem.q
    elif isinstance(step, ContactStep):
        matrices = {"M": step.M, "H": problem.H}
        vectors.update(f=step.F_ext, w=problem.w)
    return _Content(problem.kind, problem.spacedim, step.dt, matrices, vectors, texts)


def _of_step(step: Step) -> _Content:
    """A contact step in FCLib's words, its normals first in blocks of two or three."""
    d = 3 if step.normals is None else int(step.normals.shape[1])
    vectors = {"mu": np.zeros(step.nc)}
    texts = {"title": "", "description": DESCRIPTION, "math_info": ""}
    if not isinstance(step, ContactStep):
        matrices = {"W": _spread(sp.csr_array(step.N / step.dt), step.nc * d, d)}
        vectors["q"] = _blocks(step.p_vec, d)
        return _Content("local", d, step.dt, matrices, vectors, texts)
    H = _spread(sp.csr_array(step.B.T), step.B.shape[1], d, rows=1)
    vectors.update(f=step.mass.M @ step.v + step.dt * step.F_ext, w=_blocks(step.bias, d))
    return _Content("global", d, step.dt, {"M": step.mass.M, "H": H}, vectors, texts)


def _spread(matrix: sp.csr_array, m: int, d: int, rows: int | None = None) -> sp.csr_array:
    """The matrix with each column, and each row unless ``rows`` is one, first in a block of d."""
    entries = matrix.tocoo()
    row = entries.row.astype(np.int64) * (d if rows is None else rows)
    col = entries.col.astype(np.int64) * d
    return sp.csr_array((entries.data, (row, col)), shape=(m, matrix.shape[1] * d))


def _blocks(normal: FloatArray, d: int) -> FloatArray:
    """(nc · d,): each normal component followed by zeros."""
    full = np.zeros((normal.size, d))
    full[:, 0] = normal
    return full.ravel()


def _solution(content: _Content, step: Step, solution: StepSolution) -> dict[str, FloatArray]:
    """Impulses r, relative velocities u, and the velocity v of a global problem."""
    if not isinstance(solution, StepSolution) or solution.f is None:
        raise InvalidInput("solution", checks.describe(solution), "a StepSolution with forces")
    if solution.f.shape != (step.nc,):
        raise InvalidInput("solution", f"{solution.f.size} forces", f"{step.nc}, one per contact")
    d = content.spacedim
    gap = step.N @ solution.f + step.p_vec if solution.gap is None else solution.gap
    found = {"r": _blocks(step.dt * solution.f, d), "u": _blocks(np.asarray(gap), d)}
    if content.kind == "global" and solution.v_next is not None:
        found["v"] = solution.v_next
    return found


def _put(root: h5py.Group, content: _Content, texts: dict[str, str]) -> None:
    root["spacedim"] = np.array([content.spacedim], dtype=np.int32)
    for name, matrix in content.matrices.items():
        _put_matrix(root.create_group(name), matrix)
    for name, values in content.vectors.items():
        root[f"vectors/{name}"] = values
    for name, text in texts.items():
        root[f"info/{name}"] = np.bytes_(text.encode() + b"\x00")


def _put_matrix(group: h5py.Group, matrix: sp.csr_array) -> None:
    numbers = (matrix.shape[0], matrix.shape[1], _ROWS, matrix.nnz)
    for name, number in zip(("m", "n", "nz", "nzmax"), numbers, strict=True):
        group[name] = np.array([number], dtype=np.int32)
    group["p"] = matrix.indptr.astype(np.int32)
    group["i"] = matrix.indices.astype(np.int32)
    group["x"] = matrix.data
