"""Factorisations: every library gives one solution; the pattern made once serves all D."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from made_networks import chain, copied, energy_error, inertia, matrix, shuffled

from cdopt.backends.linalg import Network, factorisation
from cdopt.backends.linalg.factorisation import UpperPattern
from cdopt.backends.linalg.iteration import IteratedSystem

LIBRARIES = ["PARDISO", "SuperLU in METIS's order", "SuperLU"]


@pytest.fixture(params=LIBRARIES)
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each library in turn as the best at hand."""
    if request.param == "PARDISO":
        pytest.importorskip("pypardiso", exc_type=ImportError)
        return request.param
    monkeypatch.setattr(factorisation, "_pardiso", lambda: None)
    if request.param == "SuperLU":
        monkeypatch.setattr(factorisation, "_dissection", lambda B, size: None)
    else:
        pytest.importorskip("pymetis")
    return request.param


def made(kind: str, mixed: bool = False, three: bool = False) -> tuple[Network, sp.csr_array]:
    B, body = shuffled(*chain([6, 3, 1, 2] * 22 if mixed else [3] * 90, three=three))
    mass = inertia(kind, np.unique(body, return_inverse=True)[1])
    return copied(B, body, mass), B


def dense_of(net: Network, D: np.ndarray, shift: float) -> np.ndarray:
    """The matrix in the network's own order."""
    return matrix(net.B, net.mass, D, shift)


def check(net: Network, D: np.ndarray, shift: float, soft: bool = False) -> None:
    """Against a random solution, or one in which ``soft`` motions are the largest."""
    H = dense_of(net, D, shift)
    exact = net.arranged(np.random.default_rng(2).standard_normal(net.position.size))
    if soft:
        exact = np.linalg.solve(H, exact)
    system = net.factored(D, shift)
    assert isinstance(system, IteratedSystem)
    x = system.solve(H @ exact, 1e-12)
    assert energy_error(H, x, exact) <= 1e-9
    assert not system.gave_up


@pytest.mark.parametrize("three", [False, True])
@pytest.mark.parametrize("kind", ["none", "diagonal", "block", "pairs", "row"])
def test_every_library_gives_the_solution(library: str, kind: str, three: bool) -> None:
    net, _ = made(kind, three=three)
    random = np.random.default_rng(0)
    D = np.where(random.random(net.nc) < 0.3, 0.0, random.random(net.nc))
    check(net, D, 0.1 if kind == "none" else 0.0)
    assert net.statistics.library == library


def test_an_earlier_system_still_solves_or_tells(library: str) -> None:
    """PARDISO holds one set of factors for each network."""
    net, _ = made("diagonal")
    random = np.random.default_rng(0)
    D = random.random(net.nc)
    earlier = net.factored(D)
    later = net.factored(10.0 ** random.uniform(-3.0, 5.0, net.nc))
    x = random.standard_normal(net.m)
    y = earlier.solve(dense_of(net, D, 0.0) @ x, 1e-12)
    assert earlier.gave_up or energy_error(dense_of(net, D, 0.0), y, x) <= 1e-9
    later.solve(x, 1e-12)
    assert not later.gave_up


@pytest.mark.parametrize("kind", ["diagonal", "block", "row"])
def test_stiffness_over_twelve_powers_of_ten(library: str, kind: str) -> None:
    """Contacts too faint to be factorised are left to the refinement."""
    net, _ = made(kind)
    check(net, 10.0 ** np.random.default_rng(1).uniform(-6.0, 6.0, net.nc), 0.0, soft=True)


def test_blocks_that_were_filled_up(library: str) -> None:
    net, _ = made("diagonal", mixed=True)
    check(net, np.random.default_rng(1).random(net.nc), 0.0)


def test_a_truss_whose_blocks_were_filled_up(library: str) -> None:
    """Free dofs without inertia beside the ones that fill up."""
    net, _ = made("none", mixed=True)
    check(net, np.random.default_rng(1).random(net.nc), 0.1)


def test_matrices_one_after_the_other(library: str) -> None:
    """The analysis is made once, for any D and any shift."""
    net, _ = made("diagonal")
    random = np.random.default_rng(3)
    for shift in (0.0, 1.0, 1e-6):
        check(net, np.where(random.random(net.nc) < 0.5, 0.0, random.random(net.nc)), shift)
    assert net.statistics.factorisations == 3


def test_two_networks_at_once(library: str) -> None:
    """Neither touches the other's factors; the memory of one given back leaves the other's."""
    (one, _), (two, _) = made("diagonal"), made("row")
    D, E = np.ones(one.nc), 2.0 * np.ones(two.nc)
    first, second = one.factored(D), two.factored(E)
    x = np.random.default_rng(0).standard_normal(one.m)
    H, K = dense_of(one, D, 0.0), dense_of(two, E, 0.0)
    assert energy_error(H, first.solve(H @ x, 1e-12), x) <= 1e-9
    del first, one
    assert energy_error(K, second.solve(K @ x, 1e-12), x) <= 1e-9


def test_a_singular_matrix_is_told_or_seen(library: str) -> None:
    """A dof without inertia that nothing touches: an error, or no solution and no success."""
    net, _ = made("none")
    D = np.zeros(net.nc)
    rhs = np.ones(net.m)
    try:
        system = net.factored(D, 0.0)
        x = system.solve(rhs, 1e-12)
    except ArithmeticError:
        return
    assert system.gave_up
    assert np.all(np.isfinite(x))


def test_what_is_at_hand_depends_on_what_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = factorisation.importlib.import_module

    def without(name: str) -> object:
        if name in ("pypardiso", "pymetis"):
            raise ImportError(name)
        return real(name)

    monkeypatch.setattr(factorisation.importlib, "import_module", without)
    factorisation._pardiso.cache_clear()
    try:
        net, _ = made("diagonal")
        check(net, np.ones(net.nc), 0.0)
        assert net.statistics.library == "SuperLU"
    finally:
        factorisation._pardiso.cache_clear()


# --- the pattern ---------------------------------------------------------------------------


@settings(max_examples=40)
@given(
    st.integers(0, 10_000),
    st.integers(0, 12),
    st.integers(1, 9),
    st.sampled_from(["none", "diagonal", "block", "row"]),
)
def test_the_upper_triangle(seed: int, nc: int, m: int, kind: str) -> None:
    """Against SciPy, with rows that are empty or twice there, and zeros among the entries."""
    random = np.random.default_rng(seed)
    B = random.standard_normal((nc, m)) * (random.random((nc, m)) < 0.4)
    B = sp.csr_array(np.concatenate([B, B[:2]]))
    B.data[::4] = 0.0
    mass = inertia(kind, random.integers(0, 3, m), seed)
    pattern = UpperPattern(B, mass)
    for shift in (0.0, 0.7):  # the second matrix overwrites the first
        D = np.where(random.random(B.shape[0]) < 0.3, 0.0, random.random(B.shape[0]))
        upper = pattern.filled(D, shift)
        expected = np.triu(matrix(B, mass, D, shift))
        np.testing.assert_allclose(upper.toarray(), expected, atol=1e-13)
        assert upper.has_canonical_format
        assert np.all(np.isin(np.arange(m) * (m + 1), sp.coo_array(upper).row * m + upper.indices))


def test_columns_out_of_order_are_put_in_order() -> None:
    B = sp.csr_array((np.array([1.0, 2.0, 3.0]), np.array([2, 0, 1]), np.array([0, 2, 3])))
    full = B.toarray()
    upper = UpperPattern(B, None).filled(np.array([2.0, 5.0]), 0.0)
    np.testing.assert_allclose(upper.toarray(), np.triu(full.T @ np.diag([2.0, 5.0]) @ full))
