"""The papers' pyramids on every way through newton: each gives the reference forces."""

from __future__ import annotations

import functools

import numba
import numpy as np
import pytest
import scipy.sparse as sp

import cdopt
from cdopt.backends import threads
from cdopt.backends.linalg import ContactNetwork, factorisation, network

PATHS = ["dense", "iterated", "threaded", "rows", "PARDISO", "METIS", "SuperLU"]
TOLD = {"PARDISO": "by PARDISO", "METIS": "in METIS's order", "SuperLU": "by SuperLU"}


@pytest.fixture(params=PATHS)
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Sends every system one way."""
    name = request.param
    monkeypatch.setattr(ContactNetwork, "patience", 0 if name in TOLD else 10**9)
    if name == "dense":
        monkeypatch.setattr(ContactNetwork, "small", True)
    if name == "threaded":
        if numba.config.NUMBA_NUM_THREADS == 1:
            pytest.skip("one core")
        monkeypatch.setattr(threads, "SERIAL", 0)
        monkeypatch.setattr(threads, "idle_cores", lambda: 64)
    if name == "PARDISO":
        pytest.importorskip("pypardiso", exc_type=ImportError)
    elif name in TOLD:
        monkeypatch.setattr(factorisation, "_pardiso", lambda: None)
    if name == "METIS":
        pytest.importorskip("pymetis")
    if name == "SuperLU":
        monkeypatch.setattr(factorisation, "_dissection", lambda graph: None)
    return name


@pytest.mark.parametrize(
    "material", ["hertz", *(pytest.param(m, marks=pytest.mark.slow) for m in ("hooke", "species"))]
)
def test_the_forces_of_the_settled_pyramid(path: str, material: str) -> None:
    problem = cdopt.bank.load(f"pyramid-{material}", n=10)
    step = problem.step
    body = None if path == "rows" else step.dof_body
    truss = cdopt.NoTensionTruss(
        step.B, -step.F_ext, step.stiffness, problem.power, "potential", dof_body=body
    )
    solution = truss.solve("newton")
    assert solution.certificate.worst <= 1e-10
    known = problem.references["f_compatible"]
    assert np.abs(solution.f - known).max() <= 1e-8 * solution.f.max()
    check_told(path, solution)


@functools.cache
def judge() -> cdopt.StepSolution:
    step = cdopt.bank.generators.pyramid_falling(n=8)
    return cdopt.ClassicCD(step, "velocity").solve("clarabel", accuracy=1e-12)


def test_the_motion_of_a_falling_pyramid(path: str) -> None:
    """v⁺ is unique: every way gives that of the bank, found with another solver."""
    step = cdopt.bank.generators.pyramid_falling(n=8)
    scale = np.abs(step.v_star).max()
    if path == "rows":
        step = step.replace(dof_body=None)
    solution = cdopt.ClassicCD(step).solve("newton")
    assert solution.certificate.worst <= 1e-10
    assert np.abs(solution.v_next - judge().v_next).max() <= 1e-6 * scale
    check_told(path, solution)


def check_told(path: str, solution: cdopt.StepSolution) -> None:
    """The way was really taken."""
    how = solution.provenance["how"]
    if path in TOLD:
        assert TOLD[path] in how
    elif path == "dense":
        assert "dense matrices" in how
    else:
        assert "conjugate gradient" in how
        assert "factorisations" not in how


def test_rows_are_pairs_of_blocks_where_each_touches_two_at_most() -> None:
    step = cdopt.bank.load("pyramid-hooke", n=10).step
    assert network(step.B, step.dof_body).pairs is not None
    assert network(step.B, None).pairs is not None  # found from B
    ring = sp.csr_array(sp.random_array((400, 200), density=0.05, rng=np.random.default_rng(0)))
    assert network(ring, None).pairs is None  # rows of ten dofs each
