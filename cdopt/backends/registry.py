"""Every solver that cdopt knows, one record each: to add one that CVXPY reaches, add its record.

What a solver behind CVXPY can take is read from CVXPY's own solver classes, so that a solver which
CVXPY learns of tomorrow is a backend tomorrow. A record adds what CVXPY does not know.

Nothing here acts unless an ``accuracy`` or a time limit is asked for: solver defaults are not
overridden.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import metadata
from types import SimpleNamespace
from typing import Any

import cvxpy.settings as keys
import numpy as np
import scipy.sparse as sp
from cvxpy.constraints import SOC
from cvxpy.reductions.solvers.conic_solvers import clarabel_conif, moreau_conif, scs_conif
from cvxpy.reductions.solvers.defines import SOLVER_MAP_CONIC, SOLVER_MAP_QP

from cdopt._util.checks import FloatArray
from cdopt.backends.admm import ADMM
from cdopt.backends.apgd import APGD
from cdopt.backends.augmented_lagrangian import AugmentedLagrangian
from cdopt.backends.base import Backend, Capability
from cdopt.backends.lemke import LCP
from cdopt.backends.newton import Auto, InteriorPoint, Newton
from cdopt.backends.nsgs import NSGS
from cdopt.backends.pgs import PGS

Data = Mapping[str, Any]  # a problem as CVXPY compiles it for one solver
Point = tuple[FloatArray, FloatArray]  # x and multipliers y
Setup = Callable[[Data, Mapping[str, Any], "Point | None"], Callable[[], Any]]

_CVXPY_PAGE = "https://www.cvxpy.org/install/"
_PAGES = {  # of solvers that no extra of CVXPY brings
    "cplex": "https://www.ibm.com/products/ilog-cplex-optimization-studio",
    "nag": "https://nag.com/nag-library/",
    "sdpa": "https://sdpa-python.github.io",
    "mpax": "https://github.com/MIT-Lu-Lab/MPAX",
    "cuclarabel": "https://github.com/oxfordcontrol/Clarabel.jl",
    "cuopt": "https://docs.nvidia.com/cuopt/",
    "cosmo": "https://github.com/oxfordcontrol/COSMO.jl",
}
_LEAST_SECONDS = 1e-6  # some solvers take zero for no limit


@dataclass(frozen=True)
class AccuracyWords:
    """How one solver spells accuracy and a time limit.

    Attributes
    ----------
    options : names of the settings that all receive the requested number.
    meaning : what the solver promises when it meets them.
    rewritten : defaults that CVXPY changes, so that "OSQP through CVXPY" is not mistaken for OSQP
        as its authors ship it.
    extra : settings that must change with it for the request to make sense.
    nested : the setting that holds these options as a dictionary, when they are not at the top.
    seconds : name of the setting that limits the time, beside ``options``; empty for none.
    """

    options: tuple[str, ...]
    meaning: str
    rewritten: str = ""
    extra: tuple[tuple[str, object], ...] = ()
    nested: str = ""
    seconds: str = ""


@dataclass(frozen=True)
class Solver:
    """What cdopt knows of one solver.

    Attributes
    ----------
    title : its name as its authors write it.
    colour, marker : in pictures; markers of matplotlib that are filled.
    note : what a user should know.
    native : the settings class of a solver of cdopt; None for those behind CVXPY.
    package : the package that brings it; ``bundled`` if cdopt depends on it.
    licence : of the package.
    most_contacts : the largest problem it is offered when no backend is named, with the reason.
    most_unknowns : the same, counting contacts and degrees of freedom together.
    settings : all setting names it knows, for solvers that ignore unknown ones silently.
    accuracy : its settings for a requested accuracy; None where they are not known.
    direct : sets it up by its own interface and returns what solves; None without one here.
    direct_options : what CVXPY is given so that it hands back the last iterate of a direct call.
    cvxpy_defaults : settings in which CVXPY's interface differs from the solver's own defaults.
        Where they are given, a warm start is handed over by the solver's own interface.
    answer : a result of the solver with given x and y.
    """

    title: str
    colour: str
    marker: Any
    note: str
    native: Callable[..., Backend] | None = None
    package: str = ""
    bundled: bool = False
    licence: str = ""
    most_contacts: tuple[int, str] | None = None
    most_unknowns: tuple[int, str] | None = None
    settings: frozenset[str] | None = None
    accuracy: AccuracyWords | None = None
    direct: Setup | None = None
    direct_options: Mapping[str, Any] = field(default_factory=dict)
    cvxpy_defaults: Mapping[str, Any] | None = None
    answer: Callable[[FloatArray, FloatArray], Any] | None = None


# --- solvers by their own interfaces -----------------------------------------------------


def _clarabel(data: Data, settings: Mapping[str, Any], start: Point | None) -> Callable[[], Any]:
    q = data[keys.C]
    P = sp.triu(data.get(keys.P, sp.csc_array((q.size, q.size)))).tocsc()
    clarabel = importlib.import_module("clarabel")
    options = clarabel.DefaultSettings()
    for name, value in {"verbose": False, **settings}.items():
        setattr(options, name, value)
    cones = clarabel_conif.dims_to_solver_cones(data["dims"])
    solver = clarabel.DefaultSolver(P, q, data[keys.A], data[keys.B], cones, options)
    return lambda: solver.solve()


def osqp_data(data: Data) -> dict[str, Any]:
    """CVXPY's data as OSQP takes them: min ½ xᵀP x + qᵀx subject to l ≤ A x ≤ u."""
    lower = np.concatenate([data[keys.B], np.full(data[keys.G].size, -np.inf)])
    return {
        "P": sp.csc_matrix(sp.triu(data[keys.P])),
        "q": np.asarray(data[keys.Q], dtype=np.float64),
        "A": sp.csc_matrix(sp.vstack([data[keys.A], data[keys.F]])),
        "l": lower,
        "u": np.concatenate([data[keys.B], data[keys.G]]),
    }


def _osqp(data: Data, settings: Mapping[str, Any], start: Point | None) -> Callable[[], Any]:
    solver = importlib.import_module("osqp").OSQP()
    solver.setup(**osqp_data(data), **{"verbose": False, **settings})
    if start is not None:
        solver.warm_start(*start)
    return lambda: solver.solve(raise_error=False)


def _osqp_answer(x: FloatArray, y: FloatArray) -> Any:
    info = SimpleNamespace(status_val=1, run_time=0.0, obj_val=0.0, iter=0)
    return SimpleNamespace(x=x, y=y, info=info)


def _scs(data: Data, settings: Mapping[str, Any], start: Point | None) -> Callable[[], Any]:
    problem = {"A": data[keys.A], "b": data[keys.B], "c": data[keys.C]}
    if keys.P in data:
        problem["P"] = data[keys.P]
    cones = scs_conif.dims_to_solver_dict(data["dims"])
    solver = importlib.import_module("scs").SCS(problem, cones, **{"verbose": False, **settings})
    if start is None:
        return lambda: solver.solve(warm_start=False)
    x, y = start
    slack = np.maximum(data[keys.B] - data[keys.A] @ x, 0.0)
    return lambda: solver.solve(warm_start=True, x=x, y=y, s=slack)


def _scs_answer(x: FloatArray, y: FloatArray) -> Any:
    info = {"status_val": 1, "solve_time": 0.0, "setup_time": 0.0, "iter": 0, "pobj": 0.0}
    return {"x": x, "y": y, "info": info}


def _piqp(data: Data, settings: Mapping[str, Any], start: Point | None) -> Callable[[], Any]:
    solver = importlib.import_module("piqp").SparseSolver()
    for name, value in {"verbose": False, **settings}.items():
        setattr(solver.settings, name, value)
    bounds = {"x_l": data.get(keys.LOWER_BOUNDS), "x_u": data.get(keys.UPPER_BOUNDS)}
    solver.setup(
        P=data[keys.P], c=data[keys.Q], A=data[keys.A], b=data[keys.B], G=data[keys.F],
        h_u=data[keys.G], **{key: value for key, value in bounds.items() if value is not None},
    )  # fmt: skip

    def solve() -> Any:
        solver.solve()
        return solver.result

    return solve


def _qoco(data: Data, settings: Mapping[str, Any], start: Point | None) -> Callable[[], Any]:
    dims = data["dims"]
    cones = np.array(dims.soc, dtype=np.int32)
    positive = int(dims.nonneg)
    P, A, G = (_with_int32(data.get(key)) for key in (keys.P, keys.A, keys.G))
    solver = importlib.import_module("qoco").QOCO()
    solver.setup(
        data[keys.C].size, positive + int(cones.sum()), int(dims.zero), P, data[keys.C], A,
        data[keys.B], G, data[keys.H], positive, cones.size, cones if cones.size else None,
        **{"verbose": False, **settings},
    )  # fmt: skip
    return lambda: solver.solve()


def _moreau(data: Data, settings: Mapping[str, Any], start: Point | None) -> Callable[[], Any]:
    moreau = importlib.import_module("moreau")
    q, b = data[keys.C], data[keys.B]
    P = sp.csr_array(data.get(keys.P, sp.csc_array((q.size, q.size))))
    A = sp.csr_array(data[keys.A])
    cones = moreau_conif.dims_to_solver_cones(data["dims"])
    cones.dir_cones = [
        moreau.DirectConeSpec(kind=cone.kind, indices=cone.indices, **cone.extras)
        for cone in data["dir_cones"]
    ]
    options = moreau.Settings(device="cpu", verbose=False, batch_size=1)
    if "ipm_settings" in settings:
        options.ipm_settings = moreau.IPMSettings(**settings["ipm_settings"])
    solver = moreau.CompiledSolver(
        n=q.size, m=b.size, P_row_offsets=P.indptr, P_col_indices=P.indices,
        A_row_offsets=A.indptr, A_col_indices=A.indices, cones=cones, settings=options,
        b_sparsity_pattern=(b != 0).tolist(),
    )  # fmt: skip
    solver.setup(P.data, A.data)

    def solve() -> Any:
        result = moreau_conif.MoreauSolution(solver.solve(q[None, :], b[None, :])[0], solver.info)
        result.dir_cone_duals = {}
        return result

    return solve


def _with_int32(matrix: Any) -> Any:
    if matrix is None:
        return None
    copy = sp.csc_matrix(matrix)
    copy.indices, copy.indptr = copy.indices.astype(np.int32), copy.indptr.astype(np.int32)
    return copy


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# --- the records -------------------------------------------------------------------------

SOLVERS: dict[str, Solver] = {
    "newton": Solver(
        "Newton", "#DC267F", "H",
        "semismooth Newton for trusses and elastic steps; rigid steps as auto", Newton,
    ),
    "pgs": Solver(
        "PGS", "#AA4499", "d",
        "projected Gauss–Seidel: its forces depend on the order of the contacts", PGS,
    ),
    "nsgs": Solver(
        "NSGS", "#993366", (5, 1, 36),
        "block Gauss–Seidel for friction: its forces depend on the order of the contacts", NSGS,
    ),
    "admm": Solver(
        "ADMM", "#117799", (9, 1, 0),
        "operator splitting for friction: one factorisation, cheap iterations", ADMM,
    ),
    "apgd": Solver(
        "APGD", "#117733", "8",
        "accelerated projected gradient: from zero, the forces of least norm", APGD,
    ),
    "lcp": Solver(
        "Lemke", "#BB5566", (4, 1, 45),
        "Lemke's method on the complementarity problem, up to 500 contacts", LCP,
        most_contacts=(500, "a dense tableau"),
    ),
    "augmented-lagrangian": Solver(
        "Aug. Lagrangian", "#888844", (3, 0, 180),
        "outer multipliers; inside, APGD for trusses and Newton for rigid steps",
        AugmentedLagrangian,
    ),
    "interior-point": Solver(
        "Interior point", "#225555", (8, 1, 0),
        "proximal interior point for steps and trusses of every power", InteriorPoint,
    ),
    "auto": Solver(
        "Auto", "#AA7744", (8, 0, 0),
        "Newton, augmented Lagrangian or interior point, by kind and size", Auto,
    ),
    "clarabel": Solver(
        "Clarabel", "#0072B2", "o", "interior point; quadratic and conic",
        package="clarabel", bundled=True, licence="Apache-2.0",
        accuracy=AccuracyWords(
            ("tol_gap_abs", "tol_gap_rel", "tol_feas"), "duality gap and relative infeasibility",
            seconds="time_limit",
        ),
        direct=_clarabel, direct_options={"accept_unknown": True},
    ),
    "osqp": Solver(
        "OSQP", "#D55E00", "s", "operator splitting, polished",
        package="osqp", bundled=True, licence="Apache-2.0",
        accuracy=AccuracyWords(
            ("eps_abs", "eps_rel"),
            "largest primal and dual residual, absolute plus relative; no duality gap by default",
            "eps_abs and eps_rel 1e-3 to 1e-5, max_iter 4,000 to 10,000, polishing on",
            (("max_iter", 200_000),),
            seconds="time_limit",
        ),
        direct=_osqp,
        cvxpy_defaults={"eps_abs": 1e-5, "eps_rel": 1e-5, "max_iter": 10_000, "polishing": True},
        answer=_osqp_answer,
    ),
    "scs": Solver(
        "SCS", "#009E73", "^", "operator splitting; conic",
        package="scs", bundled=True, licence="MIT",
        accuracy=AccuracyWords(
            ("eps_abs", "eps_rel"),
            "largest primal and dual residual and duality gap, absolute plus relative",
            "eps_abs and eps_rel 1e-4 to 1e-5",
            (("max_iters", 500_000),),
            seconds="time_limit_secs",
        ),
        direct=_scs, cvxpy_defaults={"eps_abs": 1e-5, "eps_rel": 1e-5}, answer=_scs_answer,
    ),
    "highs": Solver(
        "HiGHS", "#E69F00", "D", "active set; may claim false optima on singular N",
        package="highspy", bundled=True, licence="MIT",
        most_contacts=(4000, "an active set of this size takes from minutes to hours"),
        accuracy=AccuracyWords(
            ("primal_feasibility_tolerance", "dual_feasibility_tolerance"),
            "absolute feasibility of an active set; its regularised Hessian is not part of it",
            seconds="time_limit",
        ),
    ),
    "piqp": Solver(
        "PIQP", "#CC79A7", "v", "proximal interior point",
        package="piqp", licence="BSD-2-Clause",
        accuracy=AccuracyWords(
            ("eps_abs", "eps_rel", "eps_duality_gap_abs", "eps_duality_gap_rel"),
            "infeasibility and duality gap, absolute plus relative",
        ),
        direct=_piqp,
    ),
    "qoco": Solver(
        "QOCO", "#56B4E9", "P", "interior point; second-order cones",
        package="qoco", licence="BSD-3-Clause",
        settings=_names(
            "abstol abstol_inacc ir_tol kkt_dynamic_reg kkt_static_reg_A "
            "kkt_static_reg_G kkt_static_reg_P max_ir_iters max_iters reltol "
            "reltol_inacc ruiz_iters algebra"
        ),
        accuracy=AccuracyWords(
            ("abstol", "reltol"), "residuals and duality gap, absolute plus relative"
        ),
        direct=_qoco,
    ),
    "moreau": Solver(
        "Moreau", "#332288", "X", "interior point; conic", package="moreau", licence="Apache-2.0",
        accuracy=AccuracyWords(
            ("tol_gap_abs", "tol_gap_rel", "tol_feas"), "duality gap and relative infeasibility",
            nested="ipm_settings", seconds="time_limit",
        ),
        direct=_moreau, direct_options={"accept_unknown": True},
    ),
    "proxqp": Solver(
        "ProxQP", "#882255", "<", "proximal augmented Lagrangian; dense by CVXPY's default",
        package="proxsuite", licence="BSD-2-Clause", most_unknowns=(3000, "dense matrices"),
        settings=_names(
            "backend eps_abs eps_rel max_iter rho mu_eq mu_in"
        ),
        accuracy=AccuracyWords(
            ("eps_abs", "eps_rel"), "largest primal and dual residual, absolute plus relative",
            "dense matrices, eps_abs 1e-8, eps_rel 0, mu_eq 1e-3, mu_in 1e-1",
        ),
    ),
    "daqp": Solver(
        "DAQP", "#999933", ">", "dual active set; dense, for small problems",
        package="daqp", licence="MIT", most_unknowns=(3000, "dense matrices"),
        settings=_names(
            "primal_tol dual_tol zero_tol pivot_tol progress_tol cycle_tol "
            "iter_limit fval_bound eps_prox eta_prox"
        ),
        accuracy=AccuracyWords(
            ("primal_tol", "dual_tol"), "absolute feasibility of an active set; exact otherwise",
            "eps_prox 0 to 1e-5 where the Hessian is singular: a proximal iteration",
        ),
    ),
    "qpalm": Solver(
        "QPALM", "#44AA99", "p", "proximal augmented Lagrangian",
        package="qpalm", licence="LGPL-3.0",
        settings=_names(
            "delta dual_objective_limit enable_dual_termination eps_abs eps_abs_in eps_dual_inf "
            "eps_prim_inf eps_rel eps_rel_in factorization_method gamma_init gamma_max gamma_upd "
            "inner_max_iter max_iter max_rank_update max_rank_update_fraction nonconvex ordering "
            "print_iter proximal reset_newton_iter rho scaling sigma_init sigma_max theta "
            "time_limit"
        ),
        accuracy=AccuracyWords(
            ("eps_abs", "eps_rel"),
            "largest primal and dual residual, absolute plus relative",
            "eps_abs 1e-4 to 1e-8, eps_rel 1e-4 to 1e-9, eps_prim_inf and eps_dual_inf to 1e-8",
            seconds="time_limit",
        ),
    ),
    "ecos": Solver(
        "ECOS", "#661100", "h", "interior point; second-order cones",
        package="ecos", licence="GPL-3.0",
    ),
    "cvxopt": Solver(
        "CVXOPT", "#6699CC", (7, 1, 0), "interior point; conic",
        package="cvxopt", licence="GPL-3.0",
    ),
}  # fmt: skip

NATIVE: dict[str, Callable[..., Backend]] = {
    name: solver.native for name, solver in SOLVERS.items() if solver.native is not None
}
ACCURACY: dict[str, AccuracyWords] = {
    name: solver.accuracy for name, solver in SOLVERS.items() if solver.accuracy is not None
}


# --- what can run here -------------------------------------------------------------------


@cache
def cvxpy_solvers() -> tuple[str, ...]:
    """Lower-case names of every solver that CVXPY knows, installed or not.

    Not diffcp, which differentiates what SCS solved and solves nothing itself.
    """
    names = dict.fromkeys(name.lower() for name in (*SOLVER_MAP_QP, *SOLVER_MAP_CONIC))
    return tuple(name for name in names if name != "diffcp")


def known_names() -> list[str]:
    """Names of all backends, installed or not, in order of preference."""
    return list(dict.fromkeys([*SOLVERS, *cvxpy_solvers()]))


def installed(name: str) -> bool:
    """Whether CVXPY finds the solver installed.

    Only this one is looked for: ``cvxpy.installed_solvers()`` tries to import them all, every time.
    """
    solver = SOLVER_MAP_QP.get(name.upper()) or SOLVER_MAP_CONIC.get(name.upper())
    return solver is not None and bool(solver.is_installed())


@cache
def capability(name: str) -> Capability:
    """What a solver behind CVXPY can take, as CVXPY's interface to it declares."""
    quadratic = name.upper() in SOLVER_MAP_QP
    conic = SOLVER_MAP_CONIC.get(name.upper())
    cones = conic is not None and SOC in conic.SUPPORTED_CONSTRAINTS
    if conic is not None and conic.supports_quad_obj():
        quadratic = True
    classes = {"QP"} if quadratic or cones else set()
    if cones:
        classes.add("SOCP")
    warm = name in SOLVERS and SOLVERS[name].cvxpy_defaults is not None
    return Capability(frozenset(classes), warm_start=warm)


@cache
def _cvxpy_extras() -> frozenset[str]:
    """The extras that the installed CVXPY declares, each of which brings one solver."""
    return frozenset(metadata("cvxpy").get_all("Provides-Extra") or ())


def _how_to_install(name: str) -> str:
    """Where a solver comes from: a package, an extra of CVXPY, or the page of who makes it."""
    if name in SOLVERS:
        return f"try: pip install {SOLVERS[name].package}"
    extra = name.replace("_", "-")
    if extra in _cvxpy_extras():
        return f"try: pip install 'cvxpy[{extra}]' (it may need a licence)"
    return f"see {_PAGES.get(name, _CVXPY_PAGE)}"


def why_not(name: str) -> str:
    """Why a known backend cannot run here, with the remedy; empty when it can."""
    if name in NATIVE:
        return ""
    if not installed(name):
        return f"not installed; {_how_to_install(name)}"
    if not capability(name).classes:
        return "installed, but it takes neither quadratic objectives nor second-order cones"
    return ""


# --- accuracy and time limits in each solver's own settings ------------------------------


def options_for(name: str, accuracy: float) -> dict[str, object] | None:
    """The solver's settings for a requested accuracy; None when no translation is known."""
    spelling = ACCURACY.get(name)
    if spelling is None:
        return None
    options: dict[str, object] = dict.fromkeys(spelling.options, accuracy)
    if spelling.nested:
        options = {spelling.nested: options}
    return {**options, **dict(spelling.extra)}


def time_limit_for(name: str, settings: Mapping[str, object], seconds: float) -> dict[str, object]:
    """The solver's setting for a time limit, the smaller where ``settings`` have one of their own.

    Empty for a solver that knows no time limit.
    """
    spelling = ACCURACY.get(name)
    if spelling is None or not spelling.seconds:
        return {}
    limit = settings.get(spelling.seconds)
    if isinstance(limit, (int, float)) and 0.0 < limit < seconds:
        return {}
    return {spelling.seconds: max(seconds, _LEAST_SECONDS)}


def limited_by(name: str) -> str:
    """What keeps a solver behind CVXPY to a time limit."""
    setting = ACCURACY[name].seconds if name in ACCURACY else ""
    if setting:
        return f"{name}'s own {setting}"
    return f"only until {name} begins, which has no time limit"
