"""Quadratic programs as matrices: from a formulation, or in QPS files.

A QPS file is an MPS file with a quadratic objective, which most solvers of such programs read.
The program is the one CVXPY passes to solvers: in units of the formulation's scales, the
objective of each independent part in a separate unit. Its unknowns are CVXPY's, in CVXPY's order;
the formulation's ``iterate`` converts them to newtons and metres.

HiGHS writes and reads the files, with fifteen digits for a number. The quadratic section has
the lower triangle of P, and the objective is ½ xᵀPx + qᵀx + constant (Maros & Mészáros, *A
repository of convex quadratic programming problems*, Optimization Methods and Software 11, 1999).
"""

from __future__ import annotations

import contextlib
import math
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cvxpy as cp
import highspy
import numpy as np
import scipy.sparse as sp

from cdopt._util import checks, files, sparse
from cdopt._util.checks import FloatArray
from cdopt._util.errors import CdoptError, InvalidInput, SaveFailed, Unsupported
from cdopt._util.formatting import one_line
from cdopt._util.frozen import Frozen
from cdopt.formulations.base import Formulation

SUFFIXES = (".mps", ".qps")
_SYMMETRY_TOL = 1e-12
_LARGEST = 2**28  # bytes of a file
_LONG = re.compile(rb"(?<!\S)[+-]?(?:[\d.]{300,}|[\d.]+[eEdD]\+?\d{3,})(?!\S)")  # may be too large


@dataclass(frozen=True, eq=False)
class QuadraticProgram(Frozen):
    """min ½ xᵀPx + qᵀx + constant, subject to A x = b, G x ≤ h and lower ≤ x ≤ upper.

    Attributes
    ----------
    P : (n, n) symmetric. q : (n,). constant : of the objective.
    A, b : (me, n) and (me,) equalities. G, h : (mi, n) and (mi,) inequalities.
    lower, upper : (n,) bounds; infinite without a bound.
    name : what it is.
    """

    P: sp.csr_array
    q: FloatArray
    A: sp.csr_array
    b: FloatArray
    G: sp.csr_array
    h: FloatArray
    lower: FloatArray
    upper: FloatArray
    constant: float = 0.0
    name: str = ""

    @property
    def n(self) -> int:
        """Number of unknowns."""
        return self.q.size

    def objective(self, x: FloatArray) -> float:
        """½ xᵀPx + qᵀx + constant, of x (n,)."""
        x = checks.vector("x", x, self.n)
        return float(0.5 * x @ (self.P @ x) + self.q @ x + self.constant)

    def __repr__(self) -> str:
        size = f"{self.n:,} unknowns, {self.b.size:,} equalities, {self.h.size:,} inequalities"
        return f"QuadraticProgram({self.name or 'unnamed'}: {size})"


def program(problem: Formulation | cp.Problem, name: str = "") -> QuadraticProgram:
    """The quadratic program that CVXPY passes to solvers.

    Parameters
    ----------
    problem : a formulation, or a CVXPY problem.
    name : of the program; by default that of the formulation.

    Raises
    ------
    InvalidInput : another object.
    Unsupported : it is not a quadratic program, but needs cones or integers.
    """
    checks.instance("problem", problem, Formulation, cp.Problem)
    name = checks.text("name", name)
    stated = problem.problem if isinstance(problem, Formulation) else problem
    label = name or (problem.name if isinstance(problem, Formulation) else "")
    if not stated.is_qp() or stated.is_mixed_integer():
        raise Unsupported(label or "this problem", "it is no quadratic program")
    data, _, _ = stated.get_problem_data("OSQP")
    constant = float(data["param_prob"].apply_parameters(quad_obj=True)[2])
    n, ends = int(data["n_var"]), {"lower": -np.inf, "upper": np.inf}
    bounds = {side: data[f"{side}_bounds"] for side in ends}
    bounds = {s: np.full(n, ends[s]) if x is None else np.array(x) for s, x in bounds.items()}
    return QuadraticProgram(
        P=checks.symmetric("P", checks.matrix("P", data["P"], n, n), _SYMMETRY_TOL),
        q=checks.vector("q", data["q"], n),
        A=checks.matrix("A", data["A"], None, n),
        b=checks.vector("b", data["b"], None),
        G=checks.matrix("G", data["F"], None, n),
        h=checks.vector("h", data["G"], None),
        lower=checks.read_only(bounds["lower"].astype(np.float64)),
        upper=checks.read_only(bounds["upper"].astype(np.float64)),
        constant=constant * (-1.0 if isinstance(stated.objective, cp.Maximize) else 1.0),
        name=label,
    )


def write(path: str | Path, problem: QuadraticProgram | Formulation | cp.Problem) -> None:
    """Write a program as a QPS file; an existing one is replaced.

    Raises
    ------
    InvalidInput : for "path", if its ending is neither .mps nor .qps, or no file can have it.
    SaveFailed : the disk is full or cannot be written.
    InvalidInput, Unsupported : as in ``program``.
    """
    target = _checked(path)
    checks.instance("problem", problem, QuadraticProgram, Formulation, cp.Problem)
    stated = problem if isinstance(problem, QuadraticProgram) else program(problem)
    solver = loaded(stated)
    with _aside() as place:
        if solver.writeModel(str(place)) == highspy.HighsStatus.kError or not place.is_file():
            raise SaveFailed(str(target), "HiGHS could not write its temporary file")
        files.write_bytes(target, place.read_bytes(), kind=files.PROGRAMS)


def read(path: str | Path) -> QuadraticProgram:
    """Read a QPS file. Rows with two sides become two inequalities, equalities first.

    Raises
    ------
    InvalidInput : for "path", if it is missing, not a QPS file, larger than 256 MiB, or has a
        number beyond double precision.
    """
    source = _checked(path)
    content = files.read_bytes(source, "a QPS file", at_most=_LARGEST)
    _require_doubles(content, source)
    solver = _quiet()
    with _aside() as place:
        place.write_bytes(content)
        status = solver.readModel(str(place))
    if status == highspy.HighsStatus.kError:
        raise InvalidInput("path", f"{source}: HiGHS cannot read it", "a QPS file")
    try:
        return _from_model(solver.getModel(), source.stem)
    except ValueError as error:  # InvalidInput is one
        raise InvalidInput("path", f"{source}: {error}"[:300], "a QPS file") from error


def _require_doubles(content: bytes, source: Path) -> None:
    """Raise an error for numbers that HiGHS would read as infinite."""
    for number in _LONG.finditer(content):
        text = number[0].lower().replace(b"d", b"e")
        if text.count(b".") < 2 and math.isinf(float(text)):
            line = content.count(b"\n", 0, number.start()) + 1
            found = f"{source}, line {line}: {one_line(text.decode(), 40)}"
            raise InvalidInput("path", found, "numbers of at most 1.8e308")


@contextlib.contextmanager
def _aside() -> Iterator[Path]:
    """A path in a private folder with the ending that HiGHS requires."""
    with files.named(tempfile.gettempdir()), tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "program.mps"


def loaded(stated: QuadraticProgram) -> Any:
    """A HiGHS instance with the program, silent, ready to run.

    Raises
    ------
    CdoptError : HiGHS refuses the program.
    """
    checks.instance("stated", stated, QuadraticProgram)
    rows = sp.csr_array(sp.vstack([stated.A, stated.G]))
    model = highspy.HighsModel()
    lp = model.lp_
    lp.num_col_, lp.num_row_ = stated.n, rows.shape[0]
    lp.col_cost_, lp.offset_ = stated.q, stated.constant
    lp.col_lower_, lp.col_upper_ = stated.lower, stated.upper
    lp.row_lower_ = np.concatenate([stated.b, np.full(stated.h.size, -np.inf)])
    lp.row_upper_ = np.concatenate([stated.b, stated.h])
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.num_col_, lp.a_matrix_.num_row_ = stated.n, rows.shape[0]
    lp.a_matrix_.start_, lp.a_matrix_.index_ = rows.indptr, rows.indices
    lp.a_matrix_.value_ = rows.data
    lp.col_names_ = [f"x{i}" for i in range(stated.n)]
    numbered = (("e", stated.b.size), ("i", stated.h.size))
    lp.row_names_ = [f"{kind}{i}" for kind, size in numbered for i in range(size)]
    lower = sp.csc_array(sp.tril(stated.P))
    lower.sort_indices()
    if lower.nnz:
        model.hessian_.dim_ = stated.n
        model.hessian_.format_ = highspy.HessianFormat.kTriangular
        model.hessian_.start_, model.hessian_.index_ = lower.indptr, lower.indices
        model.hessian_.value_ = lower.data
    solver = _quiet()
    if solver.passModel(model) == highspy.HighsStatus.kError:
        raise CdoptError(f"HiGHS refuses {stated!r}")
    return solver


def _from_model(model: Any, name: str) -> QuadraticProgram:
    lp, n = model.lp_, int(model.lp_.num_col_)
    by_rows = lp.a_matrix_.format_ != highspy.MatrixFormat.kColwise
    parts = (np.array(lp.a_matrix_.value_), lp.a_matrix_.index_, lp.a_matrix_.start_)
    kept = sparse.compressed(*parts, *((lp.num_row_, n) if by_rows else (n, lp.num_row_)))
    rows = sp.csr_array((sp.csr_array if by_rows else sp.csc_array)(kept, (lp.num_row_, n)))
    low, high = np.array(lp.row_lower_), np.array(lp.row_upper_)
    equal = np.flatnonzero(low == high)
    above = np.flatnonzero((low != high) & np.isfinite(high))
    below = np.flatnonzero((low != high) & np.isfinite(low))
    sign = 1.0 if lp.sense_ == highspy.ObjSense.kMinimize else -1.0
    P, hessian = sp.csc_array((n, n)), model.hessian_  # which may be its lower triangle, or nothing
    if hessian.dim_:
        kept = sparse.compressed(np.array(hessian.value_), hessian.index_, hessian.start_, n, n)
        P = sp.csc_array(kept, (n, n))
        if hessian.format_ == highspy.HessianFormat.kTriangular:
            P = P + sp.tril(P, -1).T
    G = sp.vstack([rows[above], -rows[below]])
    matrices = {"P": sp.csr_array(sign * P), "A": sp.csr_array(rows[equal]), "G": sp.csr_array(G)}
    vectors = {"q": sign * np.array(lp.col_cost_), "b": low[equal]}
    vectors |= {"h": np.concatenate([high[above], -low[below]])}
    vectors |= {"lower": np.array(lp.col_lower_), "upper": np.array(lp.col_upper_)}
    checked = {**{key: matrix.data for key, matrix in matrices.items()}, **vectors}
    for key, values in checked.items():
        wrong = np.isnan(values) if key in ("lower", "upper") else ~np.isfinite(values)
        if wrong.any():
            raise InvalidInput(key, str(values[wrong][0]), "finite numbers")
    return QuadraticProgram(
        **{key: checks.freeze(matrix) for key, matrix in matrices.items()},
        **{key: checks.read_only(vector) for key, vector in vectors.items()},
        constant=sign * float(lp.offset_),
        name=name,
    )


def _quiet() -> Any:
    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.setOptionValue("output_flag", False)
    return solver


def _checked(path: str | Path) -> Path:
    target = checks.path("path", path)
    if target.suffix not in SUFFIXES:
        raise InvalidInput("path", checks.describe(path), "a file that ends in .mps or .qps")
    return target
