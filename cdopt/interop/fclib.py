"""Contact problems of FCLib, the Frictional Contact Library, and their frictionless part.

A file contains one step of a frictional problem, r the impulses and u the relative velocities at
its contacts, the normal component first in each contact's block of ``spacedim``:

- local: u = W r + q, with W the Delassus matrix of impulses;
- global: M v = H r + G l + f, u = Hᵀ v + w, and Gᵀ v + b = 0 where there are joints.

Files with rolling friction have the rows of moments as well, ``spacedim`` 5 in space, n, t₁, t₂,
r₁, r₂, or 3 in the plane, and the coefficients ``mu_r`` in m; the cone is the product cone. They
are ``fclib_global_rolling`` of fclib.h, and ``fclib_local_rolling``, the same by W and q, which
fclib.h does not define.

``FclibProblem.frictional_step`` is the stored problem, for ``FrictionalCD``; ``step`` has only its
normal rows, for frictionless formulations. With a time step of one, forces are impulses: N = W and
p = q of a local problem; B = Hᵀ, Φ = w, F_ext = f and v = 0 of a global one, so that v* = M⁻¹f, and
joints with J = Gᵀ and rate b.

Published files differ in four points. Triplets have columns in ``p`` and rows in ``i``, unlike
fclib.h. ``/solution/r`` is a placeholder of zeros; neither it nor ``/guesses`` is read. Some W are
unsymmetric by 1e-3, some M by 1e-7: up to 1e-2 they are replaced by their symmetric part, and
``symmetrised`` is the asymmetry. Contact stiffness is not stored; the default is one.

``write`` writes a file that was read without loss. A ContactStep is written in impulses and with a
time step of one; without friction its coefficients are zero and its tangential rows empty:

- with matrices (global): M as it is, H the columns of Bᵀ, f = M v + Δt F_ext, w the bias
  Φ/Δt of each contact, restitution and moving walls included, G the columns of Jᵀ and b the rates
  of joints. Then M v⁺ = H r + G l + f;
- by N and p alone (local): W = N/Δt and q = p.

The file does not store Δt, stiffness of contacts and joints, names, bodies and points. M, B, J,
the bias and the motion are the same when it is read again, and a step with Δt = 1, v = 0 and no
restitution is unchanged. Matrices are written in compressed rows, as fclib.h allows.

V. Acary, M. Brémond, T. Koziara, F. Pérignon, *FCLIB: a collection of discrete 3D Frictional
Contact problems*, technical report RT-0444, Inria, 2014; fclib.h of the same library.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from cdopt._util import checks, files, sparse
from cdopt._util.cached import cached_property
from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput, Unsupported
from cdopt._util.frozen import Frozen
from cdopt.interop.hdf5 import read_arrays
from cdopt.problem.contact_step import ContactStep
from cdopt.problem.delassus_step import DelassusStep
from cdopt.problem.friction import Friction
from cdopt.problem.joints import Joints
from cdopt.problem.solution import StepSolution
from cdopt.problem.step import Step
from cdopt.problem.step_problems import interleaved

LABEL = (
    "derived frictionless problem: normal rows only; "
    "friction coefficients and tangential rows kept but not used"
)
ROUGH_DESCRIPTION = "contact step with friction"
DESCRIPTION = "frictionless contact step: friction coefficients are zero, tangential rows empty"
SUFFIXES = (".hdf5", ".h5")

_TEXTS = ("title", "description", "math_info")
_EXPECTED = "an FCLib file (HDF5 with fclib_local or fclib_global)"
_ROLLING = "_rolling"  # end of the names of problems with rolling friction
_KINDS = {f"fclib_{kind}{end}" for kind in ("local", "global") for end in ("", _ROLLING)}
_PLANE = {2: True, 3: False}  # rows a contact: whether in the plane
_PLANE_ROLLING = {3: True, 5: False}  # with the rows of rolling
_COMPRESSED_COLUMNS, _COMPRESSED_ROWS = -1, -2
_LARGEST = 10_000_000  # contacts' components and degrees of freedom
_MOST_ENTRIES = 2**31 - 1  # of a matrix
_ASYMMETRY_TOL = 1e-2  # beyond this share of its largest entry, W or M is another matrix
_Arrays = Mapping[str, NDArray[Any]]  # of a file, by their paths


@dataclass(frozen=True, eq=False)
class FclibProblem:
    """The content of an FCLib file, and the frictionless step derived from it.

    Attributes
    ----------
    step : the derived frictionless step, with Δt = 1; its forces are impulses, N s.
    frictional_step : the step with friction as it is stored, W or M made symmetric.
    kind : "local" (N and p) or "global" (M and B).
    spacedim : components of each contact, 2 or 3, the normal one first; with rolling 3 or 5.
    mu : (nc,) friction coefficients.
    symmetrised : largest |W − Wᵀ| of the file, relative to the largest |W|; of M in a global
        problem.
    W, q : (m, m) 1/kg and (m,) m/s of a local problem with all its m = nc · spacedim rows, as
        stored; otherwise None.
    H, w : (nv, m) and (m,) m/s of a global problem.
    title, description, math_info : texts of the file, perhaps empty.
    mu_r : (nc,) m, coefficients of rolling; None of a problem without rolling friction.
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
    mu_r: FloatArray | None = None

    __setstate__ = Frozen.__setstate__  # arrays of copies are read-only too

    @property
    def label(self) -> str:
        """A sentence that describes the step, to accompany every result from it."""
        return LABEL + self._made_symmetric

    @property
    def frictional_label(self) -> str:
        """A sentence that describes ``frictional_step``."""
        return "stored with friction" + self._made_symmetric

    @property
    def _made_symmetric(self) -> str:
        name = "W" if self.kind == "local" else "M"
        size = f"{self.symmetrised:.1g} of its largest entry"
        return f"; {name} made symmetric, {size}" if self.symmetrised else ""

    @cached_property
    def frictional_step(self) -> Step:
        """The step with friction, Δt = 1, its forces impulses.

        Raises
        ------
        InvalidInput : W is not positive semidefinite, up to 1e-6.
        """
        d, k, moments = self.spacedim, self.step.stiffness, 0
        more: dict[str, Any] = {}
        if self.mu_r is not None:
            moments = 1 if _PLANE_ROLLING[d] else 2
            more = {"rolling": self.mu_r, "spin": np.zeros((self.mu.size, moments))}
        place = np.arange(self.mu.size * d) % d
        if self.W is not None:
            W, friction = sp.csr_array((self.W + self.W.T) * 0.5), Friction(self.mu, **more)
            how: dict[str, Any] = {"friction": friction, "symmetrised": self.symmetrised}
            return DelassusStep(W, self.q, dt=1.0, stiffness=k, **how)
        if self.H is None or self.w is None or not isinstance(self.step, ContactStep):
            raise InvalidInput("problem", "neither W nor H", "what read returned")
        sliding, rolling, rows = (place > 0) & (place < d - moments), place >= d - moments, self.H.T
        rate, rows = self.w[sliding].reshape(-1, d - moments - 1), sp.csr_array(rows)
        if moments:
            spin = self.w[rolling].reshape(-1, moments)
            more = {"rolling": self.mu_r, "B_r": rows[rolling], "spin": spin}
        return self.step.replace(friction=Friction(self.mu, rows[sliding], rate, **more))

    def __repr__(self) -> str:
        return f"FclibProblem({self.kind}, {self.spacedim}D, {self.step!r}; {self.label})"


def read(path: str | Path, stiffness: Any = 1.0) -> FclibProblem:
    """Read an FCLib file.

    Parameters
    ----------
    path : the HDF5 file.
    stiffness : relative contact stiffness k̃, one number or (nc,), positive; files do not store it.

    Raises
    ------
    InvalidInput : for "path", if the file is missing, damaged, of another format or too large; if
        it is local and has equality constraints (V and R), which a DelassusStep does not support;
        or if W or M is invalid. For "stiffness", if it is invalid.
    """
    arrays = read_arrays(checks.path("path", path), _EXPECTED)
    try:
        kinds = {name.partition("/")[0] for name in arrays} & _KINDS
        if len(kinds) != 1:
            found = "both kinds at once" if kinds else "neither kind of problem"
            raise InvalidInput("problem", found, _EXPECTED)
        (root,) = kinds
        dimensions = _PLANE_ROLLING if root.endswith(_ROLLING) else _PLANE
        spacedim = _integer(arrays, f"{root}/spacedim", min(dimensions), max(dimensions))
        if spacedim not in dimensions:
            raise InvalidInput(f"{root}/spacedim", str(spacedim), "3 or 5 with rolling friction")
        texts: dict[str, Any] = {name: _text(arrays, f"{root}/info/{name}") for name in _TEXTS}
        stated = _local if root.startswith("fclib_local") else _global
        parts = stated(arrays, root, spacedim, stiffness)
        if root.endswith(_ROLLING):
            name = f"{root}/vectors/mu_r"
            rolling = _entry(arrays, name)
            parts["mu_r"] = checks.per_contact(name, rolling, parts["mu"].size, at_least=0.0)
    except InvalidInput as error:
        if error.argument == "stiffness":
            raise
        found = f"{path}: {error.argument}: {error.found}"[:300]
        raise InvalidInput("path", found, error.expected) from error
    kind = root.removeprefix("fclib_").removesuffix(_ROLLING)
    return FclibProblem(kind=kind, spacedim=spacedim, **parts, **texts)


def _local(arrays: _Arrays, root: str, spacedim: int, stiffness: Any) -> dict[str, Any]:
    """W and q: N = W and p = q on the normal rows."""
    _refuse_equalities(arrays, root, ("V", "R"))
    size = _integer(arrays, f"{root}/W/m", 0, _LARGEST)
    q, mu = _vectors(arrays, root, "q", size, spacedim)
    W = _matrix(arrays, f"{root}/W", size, size)
    asymmetry = _asymmetry(f"{root}/W", W)
    N = sp.csr_array(W[::spacedim][:, ::spacedim])
    N = sp.csr_array((N + N.T) * 0.5)
    step = DelassusStep(N, q[::spacedim], dt=1.0, stiffness=stiffness, symmetrised=asymmetry)
    return {"step": step, "mu": mu, "symmetrised": asymmetry, "W": W, "q": q}


def _global(arrays: _Arrays, root: str, spacedim: int, stiffness: Any) -> dict[str, Any]:
    """M, H, f and w: B = Hᵀ and Φ = w on the normal rows, F_ext = f, v = 0."""
    nv = _integer(arrays, f"{root}/H/m", 0, _LARGEST)
    size = _integer(arrays, f"{root}/H/n", 0, _LARGEST)
    w, mu = _vectors(arrays, root, "w", size, spacedim)
    f = checks.vector("vectors/f", _entry(arrays, f"{root}/vectors/f"), nv)
    M, H = _matrix(arrays, f"{root}/M", nv, nv), _matrix(arrays, f"{root}/H", nv, size)
    asymmetry = _asymmetry(f"{root}/M", M)
    if asymmetry > 0.0:
        M = sp.csr_array((M + M.T) * 0.5)
    B = sp.csr_array(H.T)[::spacedim]
    more: dict[str, Any] = {"stiffness": stiffness, "symmetrised": asymmetry}
    more |= {"joints": _joints(arrays, root, nv)}
    step = ContactStep(M, B, w[::spacedim], np.zeros(nv), f, 1.0, **more)
    return {"step": step, "mu": mu, "symmetrised": asymmetry, "H": H, "w": w}


def _joints(arrays: _Arrays, root: str, nv: int) -> Joints | None:
    """J = Gᵀ and the rate b of a global problem; None without joints."""
    name = f"{root}/G"
    if (many := _columns(arrays, name)) == 0:
        return None
    G, b = _matrix(arrays, name, nv, many), f"{root}/vectors/b"
    return Joints(sp.csr_array(G.T), checks.vector(b, _entry(arrays, b), many))


def _columns(arrays: _Arrays, name: str) -> int:
    """Number of columns of a matrix; zero if the file does not have it."""
    present = any(key == name or key.startswith(f"{name}/") for key in arrays)
    return _integer(arrays, f"{name}/n", 0, _LARGEST) if present else 0


def _vectors(
    arrays: _Arrays, root: str, name: str, size: int, spacedim: int
) -> tuple[FloatArray, FloatArray]:
    """The free velocity q or w (size,), and the friction coefficients (size / spacedim,)."""
    if size % spacedim:
        raise InvalidInput(root, f"{size} rows of contacts", f"a multiple of spacedim {spacedim}")
    free, mu = (_entry(arrays, f"{root}/vectors/{key}") for key in (name, "mu"))
    return (
        checks.vector(f"{root}/vectors/{name}", free, size),
        checks.per_contact(f"{root}/vectors/mu", mu, size // spacedim, at_least=0.0),
    )


def _refuse_equalities(arrays: _Arrays, root: str, names: tuple[str, ...]) -> None:
    """Raise an error for equality constraints, unless their matrix has no columns."""
    for name in (f"{root}/{name}" for name in names):
        if (columns := _columns(arrays, name)) != 0:
            expected = "contacts only: a step known by N and p has no equality constraints"
            raise InvalidInput(name, f"{columns} equality constraints", expected)


def _asymmetry(name: str, matrix: sp.csr_array) -> float:
    """Largest |A − Aᵀ| relative to the largest |A|; refused beyond a limit."""
    scale = float(np.abs(matrix.data).max(initial=0.0))
    worst = float(np.abs((matrix - matrix.T).tocsr().data).max(initial=0.0))
    asymmetry = worst / scale if scale > 0.0 else 0.0
    if asymmetry > _ASYMMETRY_TOL:
        found = f"asymmetry of {asymmetry:.3g} of its largest entry"
        raise InvalidInput(name, found, f"a symmetric matrix (to {_ASYMMETRY_TOL:g})")
    return asymmetry


# --- entries of a file -----------------------------------------------------------------


def _entry(arrays: _Arrays, name: str) -> NDArray[Any]:
    if name not in arrays:
        raise InvalidInput(name, "nothing", "an array of this name")
    return arrays[name]


def _integer(arrays: _Arrays, name: str, at_least: int, at_most: int) -> int:
    """One integer, stored as a scalar or as an array of one."""
    value = np.atleast_1d(_entry(arrays, name))
    return int(checks.integers(name, value, (1,), at_least=at_least, below=at_most + 1)[0])


def _text(arrays: _Arrays, name: str) -> str:
    """A text of fixed length, as written by the C functions of HDF5; empty if missing."""
    stored = arrays.get(name, np.bytes_())
    if stored.dtype.kind != "S" or stored.shape not in ((), (1,)):
        return ""
    return stored.reshape(-1)[0].decode("utf-8", errors="replace").strip("\x00 \n\r\t")


def _matrix(arrays: _Arrays, name: str, m: int, n: int) -> sp.csr_array:
    """One (m, n) matrix in any of FCLib's three storage schemes (``nz``), as canonical CSR."""
    shape = tuple(_integer(arrays, f"{name}/{key}", 0, _LARGEST) for key in "mn")
    if shape != (m, n):
        raise InvalidInput(name, f"shape {shape}", f"shape {(m, n)}, as the sizes in the file")
    nz = _integer(arrays, f"{name}/nz", _COMPRESSED_ROWS, _MOST_ENTRIES)
    lines = {_COMPRESSED_ROWS: m, _COMPRESSED_COLUMNS: n}.get(nz)
    size = nz if lines is None else lines + 1
    p = checks.integers(f"{name}/p", _entry(arrays, f"{name}/p"), (size,), at_least=0)
    i = checks.integers(f"{name}/i", _entry(arrays, f"{name}/i"), (None,), at_least=0)
    x = checks.real(f"{name}/x", _entry(arrays, f"{name}/x"), "a vector of numbers", (None,))
    parts: Any
    try:
        if lines is None:
            parts = sp.coo_array((x[:nz], (i[:nz], p)), shape=shape)  # columns in p, rows in i
        else:
            by_rows = nz == _COMPRESSED_ROWS
            kept = sparse.compressed(x, i[: p[-1]], p, lines, n if by_rows else m)
            parts = (sp.csr_array if by_rows else sp.csc_array)(kept, shape=shape)
    except ValueError as error:
        raise InvalidInput(name, str(error), "indices within its shape") from error
    return checks.matrix(name, parts, m, n)


# --- writing ---------------------------------------------------------------------------


def write(
    path: str | Path,
    problem: Step | FclibProblem,
    solution: StepSolution | None = None,
    *,
    title: str = "",
    description: str = "",
) -> None:
    """Write an FCLib file; an existing one is replaced.

    Parameters
    ----------
    path : the HDF5 file.
    problem : a contact step, or the result of ``read``.
    solution : forces of the same contacts; stored as impulses r = Δt f and velocities u, and v
        of a global problem, in the format of FCLib. Tangential parts are zero without
        friction.
    title, description : texts of the file; empty keeps those of the problem.

    Raises
    ------
    InvalidInput : for "problem" or "solution", if it has another type or size; for "path", if no
        file can have it.
    SaveFailed : the disk is full or cannot be written.
    """
    path = checks.path("path", path)
    checks.instance("problem", problem, Step, FclibProblem)
    if solution is not None:
        checks.instance("solution", solution, StepSolution)
    title, description = checks.text("title", title), checks.text("description", description)
    step = problem if isinstance(problem, Step) else problem.step
    stored = _in_impulses(problem) if isinstance(problem, Step) else problem
    answer = {} if solution is None else _solution(stored, step, solution)
    parts: dict[str, Any] = {"W": stored.W, "vectors/q": stored.q, "vectors/mu": stored.mu}
    if isinstance(stored.step, ContactStep):
        parts = {"M": stored.step.M, "H": stored.H, "vectors/f": stored.step.F_ext}
        parts |= {"vectors/w": stored.w, "vectors/mu": stored.mu}
        if stored.step.joints is not None:
            joints = stored.step.joints
            parts |= {"G": sp.csr_array(joints.J.T), "vectors/b": joints.rate}
    name = f"fclib_{stored.kind}"
    if stored.mu_r is not None:
        parts["vectors/mu_r"], name = stored.mu_r, f"{name}{_ROLLING}"
    texts = {
        "title": checks.text("title", title) or stored.title,
        "description": checks.text("description", description) or stored.description,
        "math_info": stored.math_info,
    }
    image = io.BytesIO()
    with h5py.File(image, "w") as file:
        root = file.create_group(name)
        root["spacedim"] = np.array([stored.spacedim], dtype=np.int32)
        for key, values in parts.items():
            if sp.issparse(values):
                _put_matrix(root.create_group(key), values)
            else:
                root[key] = values
        for key, text in texts.items():
            root[f"info/{key}"] = np.bytes_(text.encode() + b"\x00")
        for key, values in answer.items():
            file[f"solution/{key}"] = values
    files.write_bytes(path, image.getvalue(), kind=files.CONTACT_PROBLEMS)


def _in_impulses(step: Step) -> FclibProblem:
    """A contact step in the form of FCLib, in impulses, in blocks of 2 or 3 rows, normal first."""
    friction, d, mu, about = step.friction, 3, np.zeros(step.nc), DESCRIPTION
    more: dict[str, Any] = {}
    if friction is not None:
        d, mu, about = friction.d + friction.moments, friction.mu, ROUGH_DESCRIPTION
    if friction is not None and friction.moments:
        if d not in _PLANE_ROLLING or friction.moments != friction.d - 1:
            raise Unsupported("a file of FCLib", "it has no rows for torsion")
        if friction.cone != "product":
            raise Unsupported("a file of FCLib", "its cone of rolling is the product cone")
        more["mu_r"] = friction.rolling
    elif step.normals is not None:
        d = int(step.normals.shape[1])
    first = np.eye(1, d)  # a row or column for the normal, and empty ones
    if not isinstance(step, ContactStep):
        W, q = sp.kron(step.N, first.T @ first), np.kron(step.p_vec, first[0])
        if isinstance(step, DelassusStep) and friction is not None:
            W, q = step.N_rows, step.p_rows
        plain, W = step.without_friction(), sp.csr_array(W / step.dt)
        return FclibProblem(plain, "local", d, mu, 0.0, W=W, q=q, description=about, **more)
    load = step.mass.M @ step.v + step.dt * step.F_ext
    impulses = ContactStep(
        step.M, step.B, step.bias, np.zeros(step.v.size), load, dt=1.0, joints=step.joints
    )
    H, w = sp.kron(step.B.T, first), np.kron(step.bias, first[0])
    if friction is not None:
        turning = () if friction.B_r is None else (friction.B_r,)
        H = interleaved(step.B, friction.B_t, *turning).T
        w = np.column_stack([step.bias, friction.rate, friction.spin]).ravel()
    H = sp.csr_array(H)
    return FclibProblem(impulses, "global", d, mu, 0.0, H=H, w=w, description=about, **more)


def _solution(stored: FclibProblem, step: Step, solution: StepSolution) -> dict[str, FloatArray]:
    """Impulses r, relative velocities u, and the velocity v of a global problem."""
    if solution.f is None:
        raise InvalidInput("solution", checks.describe(solution), "a StepSolution with forces")
    if solution.f.shape != (step.nc,):
        raise InvalidInput("solution", f"{solution.f.size} forces", f"{step.nc}, one per contact")
    r, u = np.zeros((2, step.nc, stored.spacedim))
    r[:, 0] = step.dt * solution.f
    u[:, 0] = step.N @ solution.f + step.p_vec if solution.gap is None else solution.gap
    if solution.f_t is not None and solution.slip is not None:
        last = 1 + solution.f_t.shape[1]
        r[:, 1:last], u[:, 1:last] = step.dt * solution.f_t, solution.slip
        if solution.f_r is not None and solution.spin is not None:
            r[:, last:], u[:, last:] = step.dt * solution.f_r, solution.spin
    answer = {"r": r.ravel(), "u": u.ravel()}
    if stored.kind == "global" and solution.v_next is not None:
        answer["v"] = solution.v_next
    if solution.joint_forces is not None:
        answer["l"] = step.dt * solution.joint_forces
    return answer


def _put_matrix(group: h5py.Group, matrix: sp.csr_array) -> None:
    numbers = (*matrix.shape, _COMPRESSED_ROWS, matrix.nnz)
    for name, number in zip(("m", "n", "nz", "nzmax"), numbers, strict=True):
        group[name] = np.array([number], dtype=np.int32)
    group["p"] = matrix.indptr.astype(np.int32)
    group["i"] = matrix.indices.astype(np.int32)
    group["x"] = matrix.data
