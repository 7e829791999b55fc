"""General solvers called by their own interfaces, as their own users would call them.

CVXPY compiles the problem for the solver, and reads its answer back. In between, set-up and solve
are the solver's own, with its own defaults instead of those that CVXPY puts in their place.
"""

from __future__ import annotations

import importlib
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import cvxpy.settings as words
import numpy as np
import osqp
import scipy.sparse as sp
from cvxpy.reductions.solvers.conic_solvers import clarabel_conif, moreau_conif, scs_conif

from cdopt._util import checks
from cdopt._util.errors import Unsupported
from cdopt.backends.accuracy import options_for, time_limit_for
from cdopt.backends.base import Capability, Posed, RunResult
from cdopt.backends.modelled import (
    CLAIMS,
    FOREIGN_ERRORS,
    compiled_for,
    keeps_time,
    native_status,
    timed,
)
from cdopt.backends.registry import resolve
from cdopt.problem.warm_start import WarmStart

Data = Mapping[str, Any]
Solve = Callable[[], Any]
Setup = Callable[[Data, Mapping[str, Any]], Solve]  # set up, and hand back what solves


def _clarabel(data: Data, settings: Mapping[str, Any]) -> Solve:
    q = data[words.C]
    P = sp.triu(data.get(words.P, sp.csc_array((q.size, q.size)))).tocsc()
    clarabel = importlib.import_module("clarabel")
    asked = clarabel.DefaultSettings()
    asked.verbose = False
    for name, value in settings.items():
        setattr(asked, name, value)
    cones = clarabel_conif.dims_to_solver_cones(data["dims"])
    ready = clarabel.DefaultSolver(P, q, data[words.A], data[words.B], cones, asked)
    return lambda: ready.solve()


def _osqp(data: Data, settings: Mapping[str, Any]) -> Solve:
    P, A = (sp.csc_matrix(m) for m in (data[words.P], sp.vstack([data[words.A], data[words.F]])))
    upper = np.concatenate([data[words.B], data[words.G]])
    lower = np.concatenate([data[words.B], np.full(data[words.G].size, -np.inf)])
    ready = osqp.OSQP()
    ready.setup(P, data[words.Q], A, lower, upper, verbose=False, **settings)
    return lambda: ready.solve(raise_error=False)


def _scs(data: Data, settings: Mapping[str, Any]) -> Solve:
    given = {"A": data[words.A], "b": data[words.B], "c": data[words.C]}
    if words.P in data:
        given["P"] = data[words.P]
    cones = scs_conif.dims_to_solver_dict(data["dims"])
    ready = importlib.import_module("scs").SCS(given, cones, verbose=False, **settings)
    return lambda: ready.solve(warm_start=False)


def _piqp(data: Data, settings: Mapping[str, Any]) -> Solve:
    ready = importlib.import_module("piqp").SparseSolver()
    ready.settings.verbose = False
    for name, value in settings.items():
        setattr(ready.settings, name, value)
    bounds = {"x_l": data.get(words.LOWER_BOUNDS), "x_u": data.get(words.UPPER_BOUNDS)}
    given = {key: value for key, value in bounds.items() if value is not None}
    ready.setup(
        P=data[words.P], c=data[words.Q], A=data[words.A], b=data[words.B], G=data[words.F],
        h_u=data[words.G], **given,
    )  # fmt: skip

    def solve() -> Any:
        ready.solve()
        return ready.result

    return solve


def _qoco(data: Data, settings: Mapping[str, Any]) -> Solve:
    dims = data["dims"]
    cones = np.array(dims.soc, dtype=np.int32)
    positive = int(dims.nonneg)
    P, A, G = (_int32(data.get(key)) for key in (words.P, words.A, words.G))
    ready = importlib.import_module("qoco").QOCO()
    ready.setup(
        data[words.C].size, positive + int(cones.sum()), int(dims.zero), P, data[words.C], A,
        data[words.B], G, data[words.H], positive, cones.size, cones if cones.size else None,
        verbose=False, **settings,
    )  # fmt: skip
    return lambda: ready.solve()


def _moreau(data: Data, settings: Mapping[str, Any]) -> Solve:
    moreau = importlib.import_module("moreau")
    q, b = data[words.C], data[words.B]
    P = sp.csr_array(data.get(words.P, sp.csc_array((q.size, q.size))))
    A = sp.csr_array(data[words.A])
    cones = moreau_conif.dims_to_solver_cones(data["dims"])
    cones.dir_cones = [
        moreau.DirectConeSpec(kind=cone.kind, indices=cone.indices, **cone.extras)
        for cone in data["dir_cones"]
    ]
    asked = moreau.Settings(device="cpu", verbose=False, batch_size=1)
    if "ipm_settings" in settings:
        asked.ipm_settings = moreau.IPMSettings(**settings["ipm_settings"])
    ready = moreau.CompiledSolver(
        n=q.size, m=b.size, P_row_offsets=P.indptr, P_col_indices=P.indices,
        A_row_offsets=A.indptr, A_col_indices=A.indices, cones=cones, settings=asked,
        b_sparsity_pattern=(b != 0).tolist(),
    )  # fmt: skip
    ready.setup(P.data, A.data)

    def solve() -> Any:
        found = moreau_conif.MoreauSolution(ready.solve(q[None, :], b[None, :])[0], ready.info)
        found.dir_cone_duals = {}
        return found

    return solve


def _int32(matrix: Any) -> Any:
    if matrix is None:
        return None
    own = sp.csc_matrix(matrix)
    own.indices, own.indptr = own.indices.astype(np.int32), own.indptr.astype(np.int32)
    return own


# By name: what sets the solver up, and what CVXPY is told so that it hands back the last iterate.
SOLVERS: Mapping[str, tuple[Setup, Mapping[str, Any]]] = MappingProxyType({
    "clarabel": (_clarabel, {"accept_unknown": True}),
    "osqp": (_osqp, {}),
    "scs": (_scs, {}),
    "piqp": (_piqp, {}),
    "qoco": (_qoco, {}),
    "moreau": (_moreau, {"accept_unknown": True}),
})  # fmt: skip


@dataclass(frozen=True)
class Direct:
    """A general solver by its own interface, as a backend.

    Parameters
    ----------
    solver : one of ``SOLVERS``.
    accuracy : put into the solver's own words; None leaves its own defaults.

    Raises
    ------
    Unsupported : no such interface here.
    InvalidInput, BackendUnavailable : an unknown solver, one that is not to be had here, or an
        accuracy out of range.
    """

    solver: str
    accuracy: float | None = None

    def __post_init__(self) -> None:
        resolve(self.solver)
        if self.solver not in SOLVERS:
            raise Unsupported("call 'direct'", f"not known for {self.solver}", tuple(SOLVERS))
        if self.accuracy is not None:
            checks.scalar("accuracy", self.accuracy, above=0.0, at_most=1.0)

    @property
    def name(self) -> str:
        """The solver, and how it is called."""
        return f"{self.solver}, direct"

    @property
    def capability(self) -> Capability:
        """What the solver can take; it begins cold."""
        return Capability(classes=resolve(self.solver).capability.classes)

    @property
    def settings(self) -> dict[str, Any]:
        """What the solver is asked for; empty means its own defaults."""
        return {} if self.accuracy is None else dict(options_for(self.solver, self.accuracy) or {})

    def run(
        self,
        posed: Posed,
        warm_start: WarmStart | None,
        verbose: bool,
        time_limit: float | None = None,
    ) -> RunResult:
        """Compile with CVXPY, set up and solve by the solver's own interface, read back."""
        setup, told = SOLVERS[self.solver]
        problem, settings, clock = posed.problem, self.settings, [time.perf_counter()]
        asked, limited = settings, ""
        if time_limit is not None:
            asked = {**settings, **time_limit_for(self.solver, settings, time_limit)}
            limited = keeps_time(self.solver)
        try:
            data, chain, inverse = compiled_for(problem, self.solver, told)
            clock.append(time.perf_counter())
            raw = setup(data, asked)()
            clock.append(time.perf_counter())
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # CVXPY's, of answers that are not exact
                found = chain.invert(raw, inverse)
        except FOREIGN_ERRORS as error:
            timings = {"solve": time.perf_counter() - clock[0]}
            status = f"{type(error).__name__}: {error}"
            return RunResult(
                status, "failed", None, timings, raw=error, settings=settings, limited=limited
            )
        iterate = None
        if found.status in words.SOLUTION_PRESENT:
            problem.unpack(found)
            iterate = posed.iterate()
        claim = CLAIMS.get(found.status, "failed")
        count = found.attr.get(words.NUM_ITERS)
        return timed(
            RunResult(
                status=native_status(raw) or str(found.status),
                claim=claim if iterate is not None or claim != "solved" else "failed",
                iterate=iterate,
                timings={
                    "compile": clock[1] - clock[0],
                    "solve": clock[2] - clock[1],
                    "read": time.perf_counter() - clock[2],
                },
                iterations=None if count is None else int(count),
                raw=raw,
                settings=settings,
                limited=limited,
            )
        )
