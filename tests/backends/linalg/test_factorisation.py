"""Factorisations: every library gives one solution; the pattern made once serves all D."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from networks import MIXED, chain, energy_error, inertia, matrix, shuffled

from cdopt.backends.linalg import ContactNetwork, factorisation, network
from cdopt.backends.linalg.factorisation import IteratedSystem, UpperPattern
from cdopt.backends.linalg.network import widest_level

LIBRARIES = ["PARDISO", "SuperLU in METIS's order", "SuperLU"]


@pytest.fixture(params=LIBRARIES)
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Each library in turn as the best that is installed."""
    missing = ["pypardiso", "pymetis"][: LIBRARIES.index(request.param)]
    installed = [factorisation._pardiso() is not None, bool(importlib.util.find_spec("pymetis")), 1]
    if not installed[LIBRARIES.index(request.param)]:
        pytest.skip("not installed")
    real = importlib.import_module

    def load(name: str) -> object:
        if name in missing:
            raise ImportError(name)
        return real(name)

    monkeypatch.setattr(factorisation.importlib, "import_module", load)
    factorisation._pardiso.cache_clear()
    yield request.param
    factorisation._pardiso.cache_clear()


def chain_network(kind: str, mixed: bool = False, three: bool = False) -> ContactNetwork:
    B, body = shuffled(*chain(MIXED * 22 if mixed else [3] * 90, three=three))
    return network(B, body, inertia(kind, body))


def check(net: ContactNetwork, D: np.ndarray, shift: float, soft: bool = False) -> None:
    """Against a random solution, or one in which ``soft`` motions are the largest."""
    H = matrix(net.B, net.mass, D, shift)
    exact = net.arranged(np.random.default_rng(2).standard_normal(net.position.size))
    if soft:
        exact = np.linalg.solve(H.toarray(), exact)
    system = net.factored(D, shift)
    assert isinstance(system, IteratedSystem)
    assert energy_error(H, system.solve(H @ exact, 1e-12), exact) <= 1e-9
    assert not system.gave_up


@pytest.mark.parametrize(("three", "mixed"), [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("kind", ["none", "diagonal", "block", "pairs", "row"])
def test_every_library_gives_the_solution(
    library: str, kind: str, three: bool, mixed: bool
) -> None:
    """Blocks of unlike size are filled up."""
    net = chain_network(kind, mixed, three)
    random = np.random.default_rng(0)
    for shift in (0.1,) if kind == "none" else (0.0, 1.0, 1e-6):  # one analysis for all
        D = np.where(random.random(net.rows) < 0.3, 0.0, random.random(net.rows))
        check(net, D, shift)
    assert net.factorised_by == library
    assert net.factorisations == (1 if kind == "none" else 3)


@pytest.mark.parametrize("kind", ["diagonal", "block", "row"])
def test_stiffness_over_twelve_powers_of_ten(library: str, kind: str) -> None:
    """Contacts too faint to be factorised are left to the refinement."""
    net = chain_network(kind)
    check(net, 10.0 ** np.random.default_rng(1).uniform(-6.0, 6.0, net.rows), 0.0, soft=True)


def test_an_earlier_system_still_solves_or_reports_failure(library: str) -> None:
    """PARDISO holds one set of factors for each network."""
    net = chain_network("diagonal")
    random = np.random.default_rng(0)
    D = random.random(net.rows)
    H = matrix(net.B, net.mass, D)
    earlier = net.factored(D)
    later = net.factored(10.0 ** random.uniform(-3.0, 5.0, net.rows))
    x = random.standard_normal(net.m)
    y = earlier.solve(H @ x, 1e-12)
    assert earlier.gave_up or energy_error(H, y, x) <= 1e-9
    later.solve(x, 1e-12)
    assert not later.gave_up


def test_two_networks_at_once(library: str) -> None:
    """Neither touches the other's factors; the memory of one given back leaves the other's."""
    one, two = chain_network("diagonal"), chain_network("row")
    D, E = np.ones(one.rows), 2.0 * np.ones(two.rows)
    first, second = one.factored(D), two.factored(E)
    x = np.random.default_rng(0).standard_normal(one.m)
    H, K = matrix(one.B, one.mass, D), matrix(two.B, two.mass, E)
    assert energy_error(H, first.solve(H @ x, 1e-12), x) <= 1e-9
    del first, one
    assert energy_error(K, second.solve(K @ x, 1e-12), x) <= 1e-9


def test_a_singular_matrix_is_an_error_or_no_success(library: str) -> None:
    """A dof without inertia that nothing touches."""
    net = chain_network("none")
    try:
        system = net.factored(np.zeros(net.rows), 0.0)
        x = system.solve(np.ones(net.m), 1e-12)
    except ArithmeticError:
        return
    assert system.gave_up
    assert np.all(np.isfinite(x))


@pytest.mark.slow
@settings(max_examples=40)
@given(
    st.integers(0, 10_000),
    st.integers(0, 12),
    st.integers(1, 9),
    st.sampled_from(["none", "diagonal", "block", "row"]),
)
def test_the_upper_triangle(seed: int, nc: int, m: int, kind: str) -> None:
    """Against SciPy, with rows that are empty, out of order or twice there, and stored zeros."""
    random = np.random.default_rng(seed)
    B = random.standard_normal((nc, m)) * (random.random((nc, m)) < 0.4)
    B = sp.csr_array(np.concatenate([B, B[:2]]))
    B.data[::4] = 0.0
    order = random.permutation(m)
    B = sp.csr_array((B.data, order[B.indices], B.indptr), shape=B.shape)
    mass = inertia(kind, random.integers(0, 3, m), seed)
    pattern = UpperPattern(B, mass)
    for shift in (0.0, 0.7):  # the second matrix overwrites the first
        D = np.where(random.random(B.shape[0]) < 0.3, 0.0, random.random(B.shape[0]))
        upper = pattern.filled(D, shift)
        expected = np.triu(matrix(B, mass, D, shift).toarray())
        np.testing.assert_allclose(upper.toarray(), expected, atol=1e-13)
        assert upper.has_canonical_format
        assert np.all(np.isin(np.arange(m) * (m + 1), sp.coo_array(upper).row * m + upper.indices))


def test_the_widest_level_of_a_grid_is_its_shorter_side() -> None:
    """Next to a smaller part that shares nothing with it."""
    grid = sp.csr_array((77, 77), dtype=float).tolil()
    for i in range(7 * 10):
        for j in (i + 7, i + 1 if i % 7 < 6 else i):
            if j < 70 and j != i:
                grid[i, j] = grid[j, i] = 1.0
    assert widest_level(sp.csr_array(grid)) == 7


@pytest.mark.parametrize(("rows", "share"), [(50, 0.1), (400, 0.01), (400, 0.5)])
def test_sparse_and_dense_factors_solve_alike_and_know_the_sign(rows: int, share: float) -> None:
    rng = np.random.default_rng(rows)
    pattern = sp.random_array((rows, rows), density=share, rng=rng, format="csr")
    J = sp.csr_array(pattern + pattern.T * 0.5 + sp.diags_array(rng.choice([-9.0, 9.0], rows)))
    x = rng.standard_normal(rows)
    factors = factorisation.sparse_solve(J)
    np.testing.assert_allclose(factors(J @ x), x, atol=1e-9)
    assert factors.sign == np.linalg.slogdet(J.toarray())[0]
    full = J.nnz > 0.12 * rows**2 or rows <= 160
    assert isinstance(factors, factorisation.DenseFactors) is full
