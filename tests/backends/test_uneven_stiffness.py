"""Stiffness that spans six orders of magnitude: forces against those of extended precision."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import splu

import cdopt
from cdopt.backends import potential_newton
from cdopt.backends.network_problem import NetworkProblem
from cdopt.backends.semismooth import Point
from cdopt.bank.generators import crystal_2d, uneven
from cdopt.problem.contact_law import PowerLaw

RATIO = 1e6
extended = np.finfo(np.longdouble).eps < 1e-18


@pytest.fixture(scope="module")
def truss() -> cdopt.NoTensionTruss:
    step = uneven(crystal_2d(20, 22), RATIO)
    return cdopt.NoTensionTruss(
        step.B, -step.F_ext, step.stiffness, 2.0, "potential", dof_body=step.dof_body
    )


@pytest.fixture(scope="module")
def answer(truss: cdopt.NoTensionTruss) -> cdopt.StepSolution:
    return truss.solve("newton")


def refined(truss: cdopt.NoTensionTruss, closed: np.ndarray) -> np.ndarray:
    """Forces of these contacts if they alone act, solved again and again in extended precision."""
    data = truss.data
    B, k = data.B[closed], data.elastic_law.stiffness[closed]
    rows, long = sp.coo_array(B), np.longdouble
    K = B.T @ sp.diags_array(k) @ B
    shift = 1e-8 * float(k.min())  # for what no closed contact moves; refinement takes it out
    factors = splu(sp.csc_matrix(K + shift * sp.eye_array(K.shape[0])))
    u, load = np.zeros(B.shape[1], dtype=long), data.contact_load.astype(long)

    def forces() -> np.ndarray:
        c = np.zeros(B.shape[0], dtype=long)
        np.add.at(c, rows.row, -rows.data.astype(long) * u[rows.col])
        return k.astype(long) * c

    for _ in range(40):
        f = forces()
        carried = np.zeros(B.shape[1], dtype=long)
        np.add.at(carried, rows.col, rows.data.astype(long) * f[rows.row])
        u -= factors.solve((load - carried).astype(float)).astype(long)
    out = np.zeros(closed.size)
    out[closed] = forces().astype(float)
    return out


@pytest.mark.skipif(not extended, reason="no extended precision here")
@pytest.mark.slow
def test_forces_are_those_of_extended_precision(
    truss: cdopt.NoTensionTruss, answer: cdopt.StepSolution
) -> None:
    closed = answer.f > 0.0
    exact = refined(truss, closed)
    assert exact[closed].min() > 0.0  # the same contacts are closed
    assert np.abs(answer.f - exact).max() < 1e-9 * exact.max()


def test_round_off_hides_no_wrong_force(
    truss: cdopt.NoTensionTruss, answer: cdopt.StepSolution
) -> None:
    assert answer.certificate.worst < 1e-11
    wrong = answer.f.copy()
    wrong[np.argmax(wrong)] *= 1.0 + 1e-6
    held = cdopt.certify(truss.data, answer.u, wrong)
    assert held["law"] > 1e-8
    u = answer.u.copy()
    stiff = np.argmax(truss.data.elastic_law.stiffness * (answer.f > 0.0))
    u[truss.data.B[[stiff]].indices[0]] *= 1.0 + 1e-9
    assert cdopt.certify(truss.data, u, answer.f)["law"] > 1e-9


def test_refining_moves_no_loose_body_away() -> None:
    """Forces stay those of the overlaps: a ball on a floor, and one above it in a breath."""
    law = PowerLaw(np.ones(2), 2.0)
    load, opening = np.array([1.0, 1e-10]), np.array([0.0, 0.5])
    B = sp.csr_array(np.eye(2))
    posed = NetworkProblem(opening, np.ones(2), B, F=load, compliance=law)
    u = np.array([-1.0 - 1e-9, 0.0])
    f = law.force(posed.overlap(u))
    residual = float(np.abs(posed.balance(u, f)).max())
    run = Point(u, f, residual, 1, [residual], False)
    found = potential_newton.refined(posed, run, 1e-12)
    assert found.error <= residual
    assert np.abs(found.f - law.force(posed.overlap(found.w))).max() <= 1e-8
