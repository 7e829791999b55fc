"""The solvers that CVXPY can reach, as data: what each can take and how to get it.

Capability is read from CVXPY's own solver classes, so a solver that CVXPY learns of tomorrow
is a backend tomorrow. The table adds only what CVXPY does not know: the package to install,
and settings of solvers that swallow unknown ones without a word.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from cvxpy.constraints import SOC
from cvxpy.reductions.solvers.defines import SOLVER_MAP_CONIC, SOLVER_MAP_QP

from cdopt.backends.base import Capability


@dataclass(frozen=True)
class Entry:
    """What the table knows of one solver.

    Attributes
    ----------
    package : the package that brings it.
    bundled : whether cdopt's own dependencies bring it.
    licence : its licence; empty for those that need a paid one.
    settings : all setting names it knows, for solvers that ignore unknown ones silently.
    warm_start : whether a start given through CVXPY's data path helps it.
    note : what a user should know.
    """

    package: str
    bundled: bool = False
    licence: str = ""
    settings: frozenset[str] | None = None
    warm_start: bool = False
    note: str = ""


_DAQP = """primal_tol dual_tol zero_tol pivot_tol progress_tol cycle_tol iter_limit fval_bound
eps_prox eta_prox"""
_PROXQP = "backend eps_abs eps_rel max_iter rho mu_eq mu_in"
_QOCO = """abstol abstol_inacc ir_tol kkt_dynamic_reg kkt_static_reg_A kkt_static_reg_G
kkt_static_reg_P max_ir_iters max_iters reltol reltol_inacc ruiz_iters algebra"""

TABLE: dict[str, Entry] = {
    "clarabel": Entry("clarabel", True, "Apache-2.0", note="interior point; quadratic and conic"),
    "osqp": Entry("osqp", True, "Apache-2.0", warm_start=True, note="operator splitting, polished"),
    "scs": Entry("scs", True, "MIT", warm_start=True, note="operator splitting; conic"),
    "highs": Entry("highspy", True, "MIT", note="active set; may claim false optima on singular N"),
    "piqp": Entry("piqp", licence="BSD-2-Clause", note="proximal interior point"),
    "qoco": Entry("qoco", licence="BSD-3-Clause", settings=frozenset(_QOCO.split()),
                  note="interior point; second-order cones"),
    "moreau": Entry("moreau", licence="Apache-2.0", note="interior point; conic"),
    "proxqp": Entry("proxsuite", licence="BSD-2-Clause", settings=frozenset(_PROXQP.split()),
                    note="proximal augmented Lagrangian; dense by CVXPY's default"),
    "daqp": Entry("daqp", licence="MIT", settings=frozenset(_DAQP.split()),
                  note="dual active set; dense, for small problems"),
    "qpalm": Entry("qpalm", licence="LGPL-3.0", note="proximal augmented Lagrangian"),
    "ecos": Entry("ecos", licence="GPL-3.0", note="interior point; second-order cones"),
    "cvxopt": Entry("cvxopt", licence="GPL-3.0", note="interior point; conic"),
}  # fmt: skip


@cache
def cvxpy_solvers() -> tuple[str, ...]:
    """Lower-case names of every solver that CVXPY knows, installed or not.

    Not diffcp, which differentiates what SCS solved and solves nothing itself.
    """
    names = dict.fromkeys(name.lower() for name in (*SOLVER_MAP_QP, *SOLVER_MAP_CONIC))
    return tuple(name for name in names if name != "diffcp")


def installed(name: str) -> bool:
    """Whether CVXPY finds the solver installed.

    Only this one is looked for: ``cvxpy.installed_solvers()`` tries to import them all, every time.
    """
    solver = SOLVER_MAP_QP.get(name.upper()) or SOLVER_MAP_CONIC.get(name.upper())
    return solver is not None and bool(solver.is_installed())


@cache
def capability(name: str) -> Capability:
    """What the solver can take, as CVXPY's interface to it declares."""
    quadratic = name.upper() in SOLVER_MAP_QP
    conic = SOLVER_MAP_CONIC.get(name.upper())
    cones = conic is not None and SOC in conic.SUPPORTED_CONSTRAINTS
    if conic is not None and conic.supports_quad_obj():
        quadratic = True
    classes = {"QP"} if quadratic or cones else set()
    if cones:
        classes.add("SOCP")
    entry = TABLE.get(name)
    return Capability(frozenset(classes), warm_start=bool(entry and entry.warm_start))


def why_not(name: str) -> str:
    """Why a CVXPY solver cannot serve here, with the remedy; empty when it can."""
    if not installed(name):
        entry = TABLE.get(name)
        package = entry.package if entry else name
        paid = "" if entry else " (CVXPY knows it; it may need a licence)"
        return f"not installed; try: pip install {package}{paid}"
    if not capability(name).classes:
        return "installed, but it takes neither quadratic objectives nor second-order cones"
    return ""
