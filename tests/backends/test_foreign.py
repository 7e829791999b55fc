"""Solvers that users bring: objects of CVXPY, functions as in qpsolvers, names in capitals."""

from __future__ import annotations

from types import SimpleNamespace

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from cvxpy.reductions.solvers.conic_solvers.clarabel_conif import CLARABEL
from cvxpy.reductions.solvers.qp_solvers.osqp_qpif import OSQP

import cdopt
from cdopt import bank
from cdopt.study.measure import makers


class MyQp(OSQP):
    """OSQP under another name."""

    def name(self) -> str:
        return "MyQp"


class MyCones(CLARABEL):
    def name(self) -> str:
        return "MyCones"


class Broken(MyQp):
    class NoLicence(Exception):
        """Of no kind that Python has."""

    def name(self) -> str:
        return "Broken"

    def solve_via_data(self, *arguments, **settings):
        raise self.NoLicence("no licence on this machine")


def by_cvxpy(P, q, G, h, A, b, lb, ub, accuracy=1e-9):
    """The program as it is handed over, solved through CVXPY; answers as qpsolvers gives them."""
    x = cp.Variable(q.size)
    rows = [] if G is None else [G @ x <= h]
    rows += [] if A is None else [A @ x == b]
    bounds = [] if lb is None else [x[np.isfinite(lb)] >= lb[np.isfinite(lb)]]
    bounds += [] if ub is None else [x[np.isfinite(ub)] <= ub[np.isfinite(ub)]]
    problem = cp.Problem(cp.Minimize(0.5 * cp.quad_form(x, P, True) + q @ x), rows + bounds)
    problem.solve("CLARABEL", tol_gap_abs=accuracy, tol_gap_rel=accuracy, tol_feas=accuracy)
    assert sp.issparse(P)
    values = [row.dual_value for row in rows]
    z = None if G is None else values[0]
    y = None if A is None else values[-1]
    return SimpleNamespace(x=x.value, y=y, z=z)


def x_alone(P, q, G=None, h=None, A=None, b=None, lb=None, ub=None):
    return by_cvxpy(P, q, G, h, A, b, lb, ub).x


def nothing(P, q, G, h, A, b, lb, ub):
    return None


BEAM = bank.load("beam-stiff-middle").step
OBJECT, CONES = MyQp(), MyCones()


@pytest.mark.parametrize("form", ["force", "velocity"])
@pytest.mark.parametrize("backend", [OBJECT, CONES, by_cvxpy], ids=["qp", "cones", "function"])
def test_what_users_bring_is_certified(backend, form: str) -> None:
    cd = cdopt.ClassicCD(BEAM, form=form)
    settings = {"eps_abs": 1e-9, "eps_rel": 1e-9} if backend is OBJECT else {}
    solution = cd.solve(backend, **settings)
    assert solution.ok, solution.certificate
    np.testing.assert_allclose(solution.v_next, cd.solve("newton").v_next, atol=1e-7)


def test_functions_may_return_x_alone_in_force_form() -> None:
    solution = cdopt.ClassicCD(BEAM).solve(x_alone)
    assert solution.ok
    assert solution.backend == "x_alone"
    with pytest.raises(cdopt.SolveFailed, match="without the multipliers"):
        cdopt.ClassicCD(BEAM, form="velocity").solve(x_alone)
    with pytest.raises(cdopt.SolveFailed, match="nothing"):
        cdopt.ClassicCD(BEAM).solve(nothing)


def test_accuracy_reaches_functions_that_take_it() -> None:
    solution = cdopt.ClassicCD(BEAM).solve(by_cvxpy, accuracy=1e-4)
    assert solution.provenance["settings"] == {"accuracy": 1e-4}
    assert cdopt.ClassicCD(BEAM).solve(x_alone, accuracy=1e-4).provenance["settings"] == {}


def test_names_as_cvxpy_writes_them() -> None:
    assert cdopt.ClassicCD(BEAM).solve("CLARABEL").backend == "clarabel"
    assert cdopt.backends.resolve(cp.OSQP).name == "osqp"


def test_they_stand_in_tables_beside_others() -> None:
    table = cdopt.compare(BEAM, [by_cvxpy, OBJECT, "newton"])
    assert table.labels == ["by_cvxpy", "myqp", "newton"]
    assert len(cdopt.compare(BEAM, by_cvxpy)) == 1


def test_cones_are_refused_to_quadratic_solvers() -> None:
    rough = cdopt.FrictionalCD(bank.load("incline").step, law="associated")
    assert rough.solve(CONES).ok
    for backend in (OBJECT, by_cvxpy):
        with pytest.raises(cdopt.Unsupported, match="second-order cones"):
            rough.solve(backend)


def test_whatever_a_solver_raises_is_its_failure() -> None:
    with pytest.raises(cdopt.SolveFailed, match="NoLicence: no licence") as failed:
        cdopt.ClassicCD(BEAM).solve(Broken())
    assert isinstance(failed.value.raw, Broken.NoLicence)


@pytest.mark.parametrize("wrong", [OSQP, len, lambda P, q: q, 3, object()])
def test_what_is_no_solver_is_refused(wrong) -> None:
    with pytest.raises(cdopt.InvalidInput, match="backend"):
        cdopt.ClassicCD(BEAM).solve(wrong)


def test_a_function_is_a_plugin(tmp_path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("def mine(P, q, G, h, A, b, lb, ub):\n    return None\n")
    (maker,) = makers([f"{path}:mine"]).values()
    assert maker(1e-6).name == "mine"
