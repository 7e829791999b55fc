"""Factorisations: every library gives one solution; the pattern made once serves all D."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from networks import MIXED, chain, copied, energy_error, inertia, matrix, shuffled

from cdopt.backends.linalg import ContactNetwork, factorisation
from cdopt.backends.linalg.factorisation import UpperPattern
from cdopt.backends.linalg.iteration import IteratedSystem

LIBRARIES = ["PARDISO", "SuperLU in METIS's order", "SuperLU"]


@pytest.fixture(params=LIBRARIES)
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each library in turn as the best at hand."""
    if request.param == "PARDISO":
        if factorisation._pardiso() is None:
            pytest.skip("no PARDISO here")
        return request.param
    monkeypatch.setattr(factorisation, "_pardiso", lambda: None)
    if request.param == "SuperLU":
        monkeypatch.setattr(factorisation, "_dissection", lambda graph: None)
    else:
        pytest.importorskip("pymetis")
    return request.param


def chain_network(kind: str, mixed: bool = False, three: bool = False) -> ContactNetwork:
    B, body = shuffled(*chain(MIXED * 22 if mixed else [3] * 90, three=three))
    return copied(B, body, inertia(kind, body))


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


@pytest.mark.parametrize("three", [False, True])
@pytest.mark.parametrize("kind", ["none", "diagonal", "block", "pairs", "row"])
def test_every_library_gives_the_solution(library: str, kind: str, three: bool) -> None:
    net = chain_network(kind, three=three)
    random = np.random.default_rng(0)
    for shift in (0.1,) if kind == "none" else (0.0, 1.0, 1e-6):  # one analysis for all
        D = np.where(random.random(net.nc) < 0.3, 0.0, random.random(net.nc))
        check(net, D, shift)
    assert net.statistics.library == library
    assert net.statistics.factorisations == (1 if kind == "none" else 3)


@pytest.mark.parametrize("kind", ["none", "diagonal"])
def test_blocks_that_were_filled_up(library: str, kind: str) -> None:
    """Without inertia, free dofs stand beside the ones that fill up."""
    net = chain_network(kind, mixed=True)
    check(net, np.random.default_rng(1).random(net.nc), 0.1 if kind == "none" else 0.0)


@pytest.mark.parametrize("kind", ["diagonal", "block", "row"])
def test_stiffness_over_twelve_powers_of_ten(library: str, kind: str) -> None:
    """Contacts too faint to be factorised are left to the refinement."""
    net = chain_network(kind)
    check(net, 10.0 ** np.random.default_rng(1).uniform(-6.0, 6.0, net.nc), 0.0, soft=True)


def test_an_earlier_system_still_solves_or_reports_failure(library: str) -> None:
    """PARDISO holds one set of factors for each network."""
    net = chain_network("diagonal")
    random = np.random.default_rng(0)
    D = random.random(net.nc)
    H = matrix(net.B, net.mass, D)
    earlier = net.factored(D)
    later = net.factored(10.0 ** random.uniform(-3.0, 5.0, net.nc))
    x = random.standard_normal(net.m)
    y = earlier.solve(H @ x, 1e-12)
    assert earlier.gave_up or energy_error(H, y, x) <= 1e-9
    later.solve(x, 1e-12)
    assert not later.gave_up


def test_two_networks_at_once(library: str) -> None:
    """Neither touches the other's factors; the memory of one given back leaves the other's."""
    one, two = chain_network("diagonal"), chain_network("row")
    D, E = np.ones(one.nc), 2.0 * np.ones(two.nc)
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
        system = net.factored(np.zeros(net.nc), 0.0)
        x = system.solve(np.ones(net.m), 1e-12)
    except ArithmeticError:
        return
    assert system.gave_up
    assert np.all(np.isfinite(x))


def test_without_the_extras_superlu_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    real = factorisation.importlib.import_module

    def without(name: str) -> object:
        if name in ("pypardiso", "pymetis"):
            raise ImportError(name)
        return real(name)

    monkeypatch.setattr(factorisation.importlib, "import_module", without)
    factorisation._pardiso.cache_clear()
    try:
        net = chain_network("diagonal")
        check(net, np.ones(net.nc), 0.0)
        assert net.statistics.library == "SuperLU"
    finally:
        factorisation._pardiso.cache_clear()


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


def test_operations_counted_are_those_of_the_cholesky_factor() -> None:
    pattern = sp.random_array((60, 60), density=0.04, rng=np.random.default_rng(3))
    graph = sp.csr_array(abs(pattern) + abs(pattern).T)
    graph.setdiag(0.0)
    graph.eliminate_zeros()
    factor = np.linalg.cholesky(graph.toarray() + 10.0 * np.eye(60))
    operations = ((factor != 0.0).sum(axis=0) ** 2).sum()
    counted = factorisation.operations(*factorisation.structure(graph), np.inf)
    assert counted == operations > 60
    assert 50.0 < factorisation.operations(*factorisation.structure(graph), 50.0) < counted


def test_the_widest_level_of_a_grid_is_its_side() -> None:
    path = sp.diags_array([np.ones(6)], offsets=[1], shape=(7, 7))
    grid = sp.kron(path + path.T, sp.eye_array(7)) + sp.kron(sp.eye_array(7), path + path.T)
    grid = sp.csr_array(grid)
    assert factorisation.widest_level(*factorisation.structure(grid)) == 7
    twice = sp.csr_array(sp.block_diag([path + path.T, grid]))
    assert factorisation.widest_level(*factorisation.structure(twice)) == 7
