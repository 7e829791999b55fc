"""General solvers called by their own interfaces on the data that CVXPY compiles for them.

Compiling is done beforehand and not counted; what is timed is the solver's set-up and solve, as
its own user would call it. The answer is read back through the formulation, so that it gets the
same certificate as every other. Where a solver stops short of its tolerances, its last iterate is
judged.
"""

from __future__ import annotations

import importlib
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import clarabel
import cvxpy.settings as words
import numpy as np
import osqp
import scipy.sparse as sp
import scs
from cvxpy.reductions.solvers.conic_solvers import clarabel_conif, moreau_conif, scs_conif

import cdopt
from benchmarks.record import Row, counts, timed
from cdopt.backends.modelled import native_status
from cdopt.formulations.base import Formulation


def _optional(name: str) -> Any:
    """A package, or None: its rows then say that it is missing."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


moreau, piqp, qoco = (_optional(name) for name in ("moreau", "piqp", "qoco"))
ACCURACY = 1e-10  # asked of every solver, in its own words
Data = Mapping[str, Any]
Run = Callable[[], Any]


def _clarabel(data: Data, accuracy: float | None, method: str) -> Run:
    P, q = _quadratic(data)
    upper = sp.triu(P).tocsc()
    cones = clarabel_conif.dims_to_solver_cones(data["dims"])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.direct_solve_method = method
    if accuracy is not None:
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = accuracy
    A, b = data[words.A], data[words.B]
    return lambda: clarabel.DefaultSolver(upper, q, A, b, cones, settings).solve()


def _faer(data: Data, accuracy: float | None) -> Run:
    return _clarabel(data, accuracy, "faer")


def _qdldl(data: Data, accuracy: float | None) -> Run:
    return _clarabel(data, accuracy, "qdldl")


def _piqp(data: Data, accuracy: float | None) -> Run:
    bounds = {"x_l": data.get(words.LOWER_BOUNDS), "x_u": data.get(words.UPPER_BOUNDS)}
    given = {key: value for key, value in bounds.items() if value is not None}
    P, q, A, b = data[words.P], data[words.Q], data[words.A], data[words.B]
    G, h = data[words.F], data[words.G]

    def run() -> Any:
        solver = piqp.SparseSolver()
        solver.settings.verbose = False
        if accuracy is not None:
            solver.settings.eps_abs = solver.settings.eps_rel = accuracy
            solver.settings.eps_duality_gap_abs = accuracy
            solver.settings.eps_duality_gap_rel = accuracy
        solver.setup(P=P, c=q, A=A, b=b, G=G, h_u=h, **given)
        solver.solve()
        return solver.result

    return run


def _osqp(data: Data, accuracy: float | None) -> Run:
    P, A = (sp.csc_matrix(m) for m in (data[words.P], sp.vstack([data[words.A], data[words.F]])))
    upper = np.concatenate([data[words.B], data[words.G]])
    lower = np.concatenate([data[words.B], np.full(data[words.G].size, -np.inf)])
    settings: dict[str, Any] = {"verbose": False, "polishing": True}
    if accuracy is not None:
        settings |= {"eps_abs": accuracy, "eps_rel": accuracy, "max_iter": 200_000}

    def run() -> Any:
        solver = osqp.OSQP()
        solver.setup(P, data[words.Q], A, lower, upper, **settings)
        return solver.solve(raise_error=False)

    return run


def _scs(data: Data, accuracy: float | None) -> Run:
    given = {"A": data[words.A], "b": data[words.B], "c": data[words.C]}
    if words.P in data:
        given["P"] = data[words.P]
    cones = scs_conif.dims_to_solver_dict(data["dims"])
    settings: dict[str, Any] = {"verbose": False}
    if accuracy is not None:
        settings |= {"eps_abs": accuracy, "eps_rel": accuracy, "max_iters": 500_000}
    return lambda: scs.solve(given, cones, **settings)


def _qoco(data: Data, accuracy: float | None) -> Run:
    dims = data["dims"]
    second = np.array(dims.soc, dtype=np.int32)
    p, positive = int(dims.zero), int(dims.nonneg)
    m = positive + int(second.sum())
    P, A, G = (_int32(data.get(key)) for key in (words.P, words.A, words.G))
    settings = {} if accuracy is None else {"abstol": accuracy, "reltol": accuracy}

    def run() -> Any:
        solver = qoco.QOCO()
        solver.setup(
            data[words.C].size, m, p, P, data[words.C], A, data[words.B], G, data[words.H],
            positive, second.size, second if second.size else None, verbose=False, **settings,
        )  # fmt: skip
        return solver.solve()

    return run


def _moreau(data: Data, accuracy: float | None) -> Run:
    P, q = _quadratic(data)
    P, A, b = sp.csr_array(P), sp.csr_array(data[words.A]), data[words.B]
    cones = moreau_conif.dims_to_solver_cones(data["dims"])
    cones.dir_cones = [
        moreau.DirectConeSpec(kind=cone.kind, indices=cone.indices, **cone.extras)
        for cone in data["dir_cones"]
    ]
    settings = moreau.Settings(device="cpu", verbose=False, batch_size=1)
    if accuracy is not None:
        settings.ipm_settings = moreau.IPMSettings(
            tol_gap_abs=accuracy, tol_gap_rel=accuracy, tol_feas=accuracy
        )

    def run() -> Any:
        solver = moreau.CompiledSolver(
            n=q.size, m=b.size, P_row_offsets=P.indptr, P_col_indices=P.indices,
            A_row_offsets=A.indptr, A_col_indices=A.indices, cones=cones,
            settings=settings.model_copy(deep=True), b_sparsity_pattern=(b != 0).tolist(),
        )  # fmt: skip
        solver.setup(P.data, A.data)
        found = moreau_conif.MoreauSolution(solver.solve(q[None, :], b[None, :])[0], solver.info)
        found.dir_cone_duals = {}
        return found

    return run


@dataclass(frozen=True)
class General:
    """A general solver: CVXPY's name for it, its package, and what it takes."""

    cvxpy: str
    package: object
    cones: bool
    prepare: Callable[[Data, float | None], Run]
    compile_with: tuple[tuple[str, Any], ...] = ()


_LAST = (("accept_unknown", True),)  # the last iterate, whatever it says of it
SOLVERS: Mapping[str, General] = {
    "Clarabel faer": General("CLARABEL", clarabel, True, _faer, _LAST),
    "Clarabel QDLDL": General("CLARABEL", clarabel, True, _qdldl, _LAST),
    "PIQP": General("PIQP", piqp, False, _piqp),
    "OSQP": General("OSQP", osqp, False, _osqp),
    "SCS": General("SCS", scs, True, _scs),
    "QOCO": General("QOCO", qoco, True, _qoco),
    "Moreau": General("MOREAU", moreau, True, _moreau, _LAST),
}


def measure(
    posed: Formulation, solver: str, accuracy: float | None, repeats: int, budget: float
) -> Row:
    """One general solver on one problem: seconds, its own words, and our certificate."""
    general = SOLVERS[solver]
    if general.package is None:
        return {"failed": "not installed"}
    if posed.problem_class == "SOCP" and not general.cones:
        return {"refused": "takes quadratic programs only"}
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data, chain, inverse = posed.problem.get_problem_data(
            general.cvxpy, solver_opts=dict(general.compile_with)
        )
    compiled = time.perf_counter() - started
    run = general.prepare(data, accuracy)
    row, raw = timed(run, 0, budget)
    judged = _judged(posed, chain, inverse, raw[-1])
    if counts(row | judged):  # what does not count is not repeated
        row, raw = timed(run, repeats, budget)
        judged = _judged(posed, chain, inverse, raw[-1])
    return row | {"status": native_status(raw[-1]), "compile_seconds": compiled} | judged


def _judged(posed: Formulation, chain: Any, inverse: Any, raw: Any) -> Row:
    """The certificate of a raw answer, or why there is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = chain.invert(raw, inverse)
    except (KeyError, ValueError) as error:
        return {"failed": f"no answer that CVXPY can read: {error!r}"}
    if found.status not in words.SOLUTION_PRESENT:
        return {"failed": "no iterate"}
    posed.problem.unpack(found)
    iterate = posed.iterate()
    if iterate is None:
        return {"failed": "no iterate"}
    held = cdopt.certify(posed.data, iterate.motion, iterate.forces)
    return {"worst": held.worst, "iterations": found.attr.get(words.NUM_ITERS)}


def _quadratic(data: Data) -> tuple[Any, Any]:
    q = data[words.C]
    return data.get(words.P, sp.csc_array((q.size, q.size))), q


def _int32(matrix: Any) -> Any:
    if matrix is None:
        return None
    own = sp.csc_matrix(matrix)
    own.indices, own.indptr = own.indices.astype(np.int32), own.indptr.astype(np.int32)
    return own
