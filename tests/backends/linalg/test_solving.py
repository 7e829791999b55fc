"""Systems S + shift I + Bᵀ D B: iterated, factorised and dense ones give one solution."""

from __future__ import annotations

from collections.abc import Iterator

import numba
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from made_networks import chain, contacts, copied, energy_error, inertia, matrix, shuffled

from cdopt.backends.linalg import Network
from cdopt.backends.linalg.block_pairs import PairSystem
from cdopt.backends.linalg.factorisation import DenseSystem
from cdopt.backends.linalg.iteration import IteratedSystem
from cdopt.backends.threads import threads_for

MIXED = [6, 3, 1, 2]


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    with threads_for(0):
        yield


def stiffness(nc: int, seed: int = 0, decades: float = 0.0) -> np.ndarray:
    """A third of it zero, the rest over so many powers of ten."""
    random = np.random.default_rng(seed)
    D = 10.0 ** random.uniform(-decades / 2, decades / 2, nc) * random.uniform(0.5, 1.5, nc)
    return np.where(random.random(nc) < 1 / 3, 0.0, D)


def check_solution(
    net: Network, B: sp.csr_array, mass: sp.csr_array | None, D: np.ndarray, shift: float,
    tol: float = 1e-12, close: float = 1e-9,
) -> None:  # fmt: skip
    H = matrix(B, mass, D, shift)
    exact = np.random.default_rng(7).standard_normal(B.shape[1])
    rhs = net.arranged(H @ exact)
    before = rhs.copy()
    rows = net.in_rows(D)
    for system in (net.system(rows, shift), net.factored(rows, shift)):
        x = system.solve(rhs, tol)
        np.testing.assert_array_equal(rhs, before)
        assert not system.gave_up
        assert energy_error(H, x[net.position], exact) <= close
        spare = np.ones(net.m, dtype=bool)
        spare[net.position] = False
        np.testing.assert_array_equal(x[spare], 0.0)


@pytest.mark.parametrize("kind", ["none", "diagonal", "block", "pairs", "row"])
@pytest.mark.parametrize("three", [False, True])
@pytest.mark.parametrize("size", [1, 2, 3, 6, 0])
def test_solutions_are_those_of_dense_matrices(size: int, three: bool, kind: str) -> None:
    sizes = {1: [1] * 250, 2: [2] * 130, 3: [3] * 90, 6: [6] * 45, 0: MIXED * 22}[size]
    B, body = shuffled(*chain(sizes, three=three))
    mass = inertia(kind, np.unique(body, return_inverse=True)[1])
    net = copied(B, body, mass)
    expected = IteratedSystem if three else PairSystem
    D = stiffness(net.nc)
    if kind not in ("pairs", "row"):
        assert isinstance(net.system(D, 1.0), expected)
    elif net.blocks is None:
        net.system(D, 1.0)
        assert net.statistics.factorisations == 1
    check_solution(net, B, mass, D, 0.1 if kind == "none" else 0.0)
    check_solution(net, B, mass, np.zeros(net.nc), 0.3)


@pytest.mark.parametrize("three", [False, True])
def test_a_shift_comes_on_top_of_any_inertia(three: bool) -> None:
    for kind in ("none", "diagonal", "block"):
        B, body = chain([3] * 90, three=three)
        mass = inertia(kind, body)
        check_solution(copied(B, body, mass), B, mass, stiffness(B.shape[0]), 7.0)


@pytest.mark.parametrize("mixed_up", [False, True])
def test_couples_across_chunks(mixed_up: bool) -> None:
    B, body = chain([1] * 700)
    if mixed_up:
        B, body = shuffled(B, body)
    mass = inertia("diagonal", body)
    net = copied(B, body, mass)
    assert net.pairs is not None
    assert net.pairs.layout.start.size == 3
    check_solution(net, B, mass, stiffness(net.nc), 0.0)


def test_a_hub_that_nearly_all_contacts_touch() -> None:
    B, body = contacts([1] * 600, [(599, i) for i in range(599)] * 2)
    mass = inertia("diagonal", body)
    check_solution(copied(B, body, mass), B, mass, stiffness(B.shape[0]), 0.0)


@pytest.mark.parametrize("three", [False, True])
@pytest.mark.parametrize("kind", ["diagonal", "block", "row"])
def test_stiffness_over_twelve_powers_of_ten(kind: str, three: bool) -> None:
    B, body = chain([3] * 90, three=three)
    mass = inertia(kind, body)
    net = copied(B, body, mass)
    D = stiffness(net.nc, decades=12.0)
    H = matrix(B, mass, D)
    exact = np.linalg.solve(H, np.random.default_rng(2).standard_normal(B.shape[1]))
    rhs = net.arranged(H @ exact)
    rows = net.in_rows(D)
    for system in (net.system(rows), net.factored(rows)):
        x = system.solve(rhs, 1e-13)
        assert energy_error(H, x[net.position], exact) <= 1e-9


def test_a_limit_of_iterations_is_told() -> None:
    for three in (False, True):
        B, body = chain([3] * 90, three=three)
        net = copied(B, body, inertia("diagonal", body))
        rhs = np.random.default_rng(0).standard_normal(net.m)
        system = net.system(100.0 * np.ones(net.nc))
        system.solve(rhs, 1e-12, 3)
        assert system.gave_up
        assert net.statistics.iterations == 3
        system.solve(rhs, 1e-12)
        assert not system.gave_up
        assert net.statistics.iterations > 3


@pytest.mark.parametrize("three", [False, True])
def test_nothing_asked_is_nothing_moved(three: bool) -> None:
    B, body = chain([3] * 90, three=three)
    net = copied(B, body, inertia("diagonal", body))
    for system in (net.system(np.ones(net.nc)), net.factored(np.ones(net.nc))):
        np.testing.assert_array_equal(system.solve(np.zeros(net.m), 1e-10), 0.0)
        assert not system.gave_up


def test_small_and_nearly_dense_systems_are_dense() -> None:
    for nc, m in ((30, 20), (280, 260), (1, 1), (0, 5), (3, 9)):
        B = sp.csr_array(np.random.default_rng(1).uniform(0.5, 1.0, (nc, m)))
        for kind in ("diagonal", "row"):
            mass = inertia(kind, np.arange(m))
            net = copied(B, None, mass)
            assert isinstance(net.system(np.ones(nc)), DenseSystem)
            check_solution(net, B, mass, stiffness(nc), 0.5)


def test_a_singular_dense_system_takes_the_least_squares() -> None:
    B = sp.csr_array(np.array([[1.0, -1.0, 0.0]]))
    net = copied(B, None)
    x = net.system(np.array([2.0])).solve(np.array([4.0, -4.0, 0.0]), 1e-12)
    np.testing.assert_allclose(x, [1.0, -1.0, 0.0], atol=1e-14)


def test_numbers_that_are_none_are_refused() -> None:
    net = copied(sp.csr_array(np.eye(2)), None)
    with pytest.raises(ArithmeticError, match="beyond what a double"):
        net.system(np.array([np.nan, 1.0])).solve(np.ones(2), 1e-12)
    with pytest.raises(ArithmeticError, match="beyond what a double"):
        net.system(np.ones(2)).solve(np.array([np.inf, 1.0]), 1e-12)


@settings(max_examples=30)
@given(
    st.lists(st.integers(1, 3), min_size=100, max_size=130),
    st.integers(0, 10_000),
    st.sampled_from(["none", "diagonal", "block", "pairs"]),
    st.sampled_from([0.0, 3.0]),
)
def test_any_small_network(sizes: list[int], seed: int, kind: str, decades: float) -> None:
    random = np.random.default_rng(seed)
    most = random.integers(2, 4)
    who = [
        tuple(random.choice(len(sizes), random.integers(0, most + 1), replace=False).tolist())
        for _ in range(random.integers(1, 200))
    ]
    B, body = contacts(sizes, [*who, (0,), (0, 1)], seed)
    mass = inertia(kind, body, seed)
    net = copied(B, body, mass)
    check_solution(net, B, mass, stiffness(net.nc, seed, decades), 0.1, close=1e-8)


# --- threads -------------------------------------------------------------------------------


def answers(net: Network, threads: int) -> list[np.ndarray]:
    """Gap, load and a solution on so many threads."""
    random = np.random.default_rng(4)
    x, f = random.standard_normal(net.m), random.standard_normal(net.nc)
    numba.set_num_threads(threads)
    system = net.system(stiffness(net.nc), 0.1)
    return [net.gap(x), net.load(f), system.solve(x, 1e-10)]


def two_threads_agree(net: Network) -> None:
    if numba.config.NUMBA_NUM_THREADS < 2:
        pytest.skip("one thread is all there is")
    try:
        both = answers(net, 1), answers(net, 2)
    finally:
        numba.set_num_threads(1)
    for one, two in zip(*both, strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("kind", ["none", "diagonal", "block"])
@pytest.mark.parametrize("size", [1, 3])
def test_results_do_not_depend_on_the_number_of_threads(size: int, kind: str) -> None:
    """Couples; chunks of uneven size, contacts across them."""
    B, body = chain([size] * 613)
    net = copied(B, body, inertia(kind, body))
    assert net.pairs is not None
    two_threads_agree(net)


def test_results_on_rows_do_not_depend_on_the_number_of_threads() -> None:
    B, body = chain([3] * 211, three=True)
    net = copied(B, body, inertia("diagonal", body))
    assert net.pairs is None
    two_threads_agree(net)
