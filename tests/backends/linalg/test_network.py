"""Networks: products and solutions on any arrangement of dofs are those of dense algebra."""

from __future__ import annotations

import tracemalloc

import numba
import numpy as np
import pytest
import scipy.sparse as sp
from conftest import renumbered
from hypothesis import given, settings
from hypothesis import strategies as st
from networks import MIXED, chain, contacts, energy_error, inertia, matrix, shuffled

import cdopt
from cdopt.backends.linalg import ContactNetwork, DelassusNetwork, network
from cdopt.backends.linalg.block_pairs import PairSystem, block_order
from cdopt.backends.linalg.factorisation import DenseSystem, IteratedSystem

SIZES = {3: [3] * 90, 0: MIXED * 22}

pytestmark = pytest.mark.usefixtures("one_thread")


def stiffness(nc: int, seed: int = 0, decades: float = 0.0) -> np.ndarray:
    """D: a third of it zero, the others over this many powers of ten."""
    random = np.random.default_rng(seed)
    D = 10.0 ** random.uniform(-decades / 2, decades / 2, nc) * random.uniform(0.5, 1.5, nc)
    return np.where(random.random(nc) < 1 / 3, 0.0, D)


def check_solutions(
    net: ContactNetwork, B: sp.csr_array, mass: sp.csr_array | None, D: np.ndarray, shift: float,
    tol: float = 1e-12, close: float = 1e-9, soft: bool = False,
) -> None:  # fmt: skip
    """Iterated and factorised; a ``soft`` solution has its largest motions where H is weakest."""
    H = matrix(B, mass, D, shift)
    exact = np.random.default_rng(7).standard_normal(B.shape[1])
    if soft:
        exact = np.linalg.solve(H.toarray(), exact)
    rhs = net.arranged(H @ exact)
    before = rhs.copy()
    filled_up = np.ones(net.m, dtype=bool)
    filled_up[net.position] = False
    for system in (net.system(D, shift), net.factored(D, shift)):
        x = system.solve(rhs, tol)
        np.testing.assert_array_equal(rhs, before)
        assert soft or not system.gave_up
        assert energy_error(H, x[net.position], exact) <= close
        np.testing.assert_array_equal(x[filled_up], 0.0)


def check_network(
    B: sp.csr_array, body: np.ndarray | None, kind: str = "diagonal", seed: int = 0,
    decades: float = 0.0, close: float = 1e-9,
) -> ContactNetwork:  # fmt: skip
    """Products and solutions of the network with this inertia; B is not written into."""
    mass = None if body is None else inertia(kind, body, seed)
    given_B, random = B.toarray(), np.random.default_rng(3)
    net = network(B, body, mass)
    x, f = random.standard_normal(B.shape[1]), random.standard_normal(B.shape[0])
    scale = abs(B).sum(axis=1).max(initial=1.0) * 1e-13
    np.testing.assert_allclose(net.gap(net.arranged(x)), B @ x, atol=scale)
    np.testing.assert_allclose(net.load(f)[net.position], B.T @ f, atol=1e2 * scale)
    pushed = 0.0 * x if mass is None else mass @ x
    np.testing.assert_allclose(net.inertia(net.arranged(x))[net.position], pushed, atol=1e-12)
    if mass is not None:
        np.testing.assert_allclose(net.motion(net.arranged(pushed))[net.position], x, atol=1e-10)
        np.testing.assert_array_equal(net.mass_diagonal[net.position], mass.diagonal())
    shift = 0.1 if mass is None else 0.0
    check_solutions(net, B, mass, stiffness(net.rows, seed, decades), shift, close=close)
    check_solutions(net, B, mass, np.zeros(net.rows), 7.0)
    np.testing.assert_array_equal(B.toarray(), given_B)
    return net


# --- arrangements --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "mixed_up"),
    [("none", True), ("diagonal", False), ("block", True), ("pairs", False), ("row", True)],
)
@pytest.mark.parametrize("three", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_networks_are_those_of_dense_matrices(
    size: int, three: bool, mixed_up: bool, kind: str
) -> None:
    """Blocks of one size and of mixed ones, contacts on none to three bodies."""
    B, body = chain(SIZES[size], three=three)
    if mixed_up:
        B, body = shuffled(B, body)
    net = check_network(B, body, kind)
    assert not net.small
    if kind in ("none", "diagonal", "block"):
        assert net.size == (size or 6)
        assert (net.pairs is None) == three
        system = net.system(np.ones(net.rows), 1.0)
        assert isinstance(system, IteratedSystem if three else PairSystem)
    elif net.blocks is None:
        assert net.iterations == 0  # factorised at once


@pytest.mark.parametrize("mixed_up", [False, True])
def test_contacts_between_chunks(mixed_up: bool) -> None:
    """More than 512 blocks make two chunks; in disorder they are put in a better order."""
    B, body = chain([3] * 520)
    net = check_network(*(shuffled(B, body) if mixed_up else (B, body)))
    assert net.pairs is not None
    assert net.pairs.start.size == 3
    assert net.pairs.contact.size < 1.1 * net.rows  # few contacts are stored twice


@pytest.mark.parametrize(
    "touched",
    [
        [(300, i) for i in range(600) if i != 300] * 3,  # on one body, which has a chunk to itself
        [(599, i) for i in range(599)] * 3,
        [(i, (7 * i + 1) % 600) for i in range(600) if i != 100] + [(0, 599)] * 1024,
        [()],  # free flight
        [(i,) for i in range(600)],  # each on the floor alone
    ],
    ids=["middle", "last", "thousand", "free", "floor"],
)
def test_unusual_contacts_of_many_bodies(touched: list[tuple[int, ...]]) -> None:
    net = check_network(*contacts([3] * 600, touched))
    assert net.pairs is None or np.all(np.diff(net.pairs.start.astype(int)) >= 0)


def test_a_body_of_many_dofs_takes_memory_in_proportion() -> None:
    """A flexible body, say, of two thousand dofs: 16 kB for a vector, 32 MB for a full matrix."""
    net = check_network(*chain([3] * 80 + [9]), "block")
    assert (net.size, net.blocks) == (1, None)
    B, body = chain([1] * 2000)
    mass = inertia("row", body)
    tracemalloc.start()
    try:
        network(B, np.zeros_like(body), mass)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 10e6


def test_bodies_are_reordered_only_if_many_and_scattered() -> None:
    first = np.arange(599)
    assert block_order(first, first + 1, 600) is None
    assert block_order(first[:99], np.random.default_rng(0).permutation(99), 100) is None
    order = np.random.default_rng(0).permutation(600)
    better = block_order(order[:-1], order[1:], 600)
    assert better is not None
    np.testing.assert_array_equal(np.sort(better), np.arange(600))


@settings(max_examples=40)
@given(
    st.lists(st.integers(1, 3), min_size=90, max_size=130),
    st.integers(0, 10_000),
    st.booleans(),
    st.sampled_from(["none", "diagonal", "block", "pairs"]),
    st.sampled_from([0.0, 3.0]),
    st.booleans(),
)
def test_any_network(
    sizes: list[int], seed: int, mixed_up: bool, kind: str, decades: float, zeros: bool
) -> None:
    """Contacts of none to three bodies anywhere; on both sides of where dense matrices end."""
    random = np.random.default_rng(seed)
    most = random.integers(2, 4)
    touched = [
        tuple(random.choice(len(sizes), random.integers(0, most + 1), replace=False).tolist())
        for _ in range(random.integers(1, 200))
    ]
    B, body = contacts(sizes, [*touched, (0,), (0, 1)], seed)
    if zeros:  # stored ones change nothing; nor do contacts that stand there twice
        B.data[::5] = 0.0
        B = sp.csr_array(sp.vstack([B, B[:7]]))
    if mixed_up:
        B, body = shuffled(B, body)
    check_network(B, body, kind, seed, decades, close=1e-8)


# --- blocks of dofs that nobody has named --------------------------------------------------


def ring(n: int) -> list[tuple[int, ...]]:
    return [(i, (i + 1) % n) for i in range(n)] + [(i,) for i in range(0, n, 3)]


@pytest.mark.parametrize("size", [3, 6])
@pytest.mark.parametrize("order", ["bodies", "directions"])
def test_bodies_of_one_size_are_blocks(size: int, order: str) -> None:
    count = 300 // size
    B, body = contacts([size] * count, ring(count))
    B.data[np.random.default_rng(1).random(B.nnz) < 0.2] = 0.0
    B.eliminate_zeros()
    if order == "directions":
        turned = np.arange(count * size).reshape(count, size).T.ravel()
        B, body = sp.csr_array(sp.csc_array(B)[:, turned]), body[turned]
    net = check_network(B, None)
    assert (net.size, net.pairs is None) == (size, False)
    assert np.unique(np.stack([net.position // size, body]), axis=1).shape[1] == count


def test_rows_on_three_bodies_have_no_blocks() -> None:
    three = [(i, (i + 1) % 90, (i + k) % 90) for i in range(90) for k in (2, 5)]
    net = check_network(contacts([3] * 90, three)[0], None)
    assert (net.size, net.pairs) == (1, None)


@pytest.mark.parametrize("mixed_up", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_step_without_bodies_has_the_same_forces(mixed_up: bool) -> None:
    step = cdopt.open_problem("crystal-2d:rows=12,columns=14").step
    assert isinstance(step, cdopt.ContactStep)
    order = np.random.default_rng(2).permutation(step.nv) if mixed_up else np.arange(step.nv)
    plain = renumbered(step, np.arange(step.nc), order).replace(dof_body=None)
    f = [cdopt.CompatibleCD(s).solve("newton") for s in (step, plain)]
    assert all(solution.ok for solution in f)
    np.testing.assert_allclose(f[1].f, f[0].f, rtol=0, atol=1e-9 * f[0].f.max())


# --- systems -------------------------------------------------------------------------------


@pytest.mark.parametrize("three", [False, True])
@pytest.mark.parametrize("kind", ["diagonal", "block", "row"])
def test_stiffness_over_twelve_powers_of_ten(kind: str, three: bool) -> None:
    B, body = chain([3] * 90, three=three)
    mass = inertia(kind, body)
    D = stiffness(B.shape[0], decades=12.0)
    check_solutions(network(B, body, mass), B, mass, D, 0.0, tol=1e-13, soft=True)


@pytest.mark.parametrize("three", [False, True])
def test_a_limit_of_iterations_is_reported_and_zero_stays_zero(three: bool) -> None:
    B, body = chain([3] * 90, three=three)
    net = network(B, body, inertia("diagonal", body))
    rhs = np.random.default_rng(0).standard_normal(net.m)
    system = net.system(100.0 * np.ones(net.rows))
    system.solve(rhs, 1e-12, 3)
    assert system.gave_up
    assert net.iterations == 3
    system.solve(rhs, 1e-12)
    assert not system.gave_up
    assert net.iterations > 3
    for either in (system, net.factored(np.ones(net.rows))):
        np.testing.assert_array_equal(either.solve(np.zeros(net.m), 1e-10), 0.0)
        assert not either.gave_up


def test_small_and_nearly_dense_networks_are_dense() -> None:
    for nc, m in ((30, 20), (280, 260), (1, 1), (0, 5), (3, 9)):
        for kind in ("diagonal", "row"):
            B = sp.csr_array(np.random.default_rng(1).uniform(0.5, 1.0, (nc, m)))
            net = check_network(B, np.arange(m), kind)
            assert net.small
            assert isinstance(net.system(np.ones(nc)), DenseSystem)


def test_dense_systems_that_are_singular_or_no_numbers() -> None:
    """The first are solved by least squares."""
    net = network(sp.csr_array(np.array([[1.0, -1.0, 0.0]])), None)
    x = net.system(np.array([2.0])).solve(np.array([4.0, -4.0, 0.0]), 1e-12)
    np.testing.assert_allclose(x, [1.0, -1.0, 0.0], atol=1e-14)
    net = network(sp.csr_array(np.eye(2)), None)
    for D, rhs in (([np.nan, 1.0], [1.0, 1.0]), ([1.0, 1.0], [np.inf, 1.0])):
        with pytest.raises(ArithmeticError, match="beyond what a double"):
            net.system(np.array(D)).solve(np.array(rhs), 1e-12)


@pytest.mark.slow
@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="numba has one thread here")
@pytest.mark.parametrize("kind", ["none", "diagonal", "block"])
def test_results_do_not_depend_on_the_number_of_threads(kind: str) -> None:
    """Chunks of uneven size, contacts across them."""
    B, body = chain([3] * 613)
    net = network(B, body, inertia(kind, body))
    rhs = np.random.default_rng(4).standard_normal(net.m)
    solutions = []
    try:
        for threads in (1, 2):
            numba.set_num_threads(threads)
            system = net.system(stiffness(net.rows), 0.1)
            assert system.threads == (threads > 1)
            solutions.append(system.solve(rhs, 1e-10))
    finally:
        numba.set_num_threads(1)
    np.testing.assert_array_equal(*solutions)


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_contacts_with_several_rows(size: int, direct: bool) -> None:
    """Blocks between the rows of a contact, symmetric and not, against dense matrices."""
    rng = np.random.default_rng(5)
    one, body = chain(SIZES[size])
    rows = [one, *(one.multiply(rng.standard_normal(one.shape)) for _ in range(2))]
    order = np.arange(3 * one.shape[0]).reshape(3, -1).T.ravel()
    B, mass = sp.csr_array(sp.vstack(rows).tocsr()[order]), inertia("block", body)
    net = network(B, body, mass, d=3)
    left = rng.standard_normal((B.shape[0] // 3, 3, 3))
    left[::2, 1] = 0.0  # sliding contacts have fewer rows
    left[::5] = 0.0
    right = left @ (np.eye(3) + 0.3 * np.triu(rng.standard_normal((3, 3)), 1))
    exact = rng.standard_normal(B.shape[1])
    for other in (left, right):
        system = net.block_system(left, other, direct)
        blocks = sp.block_diag([sp.coo_array(b) for b in left.transpose(0, 2, 1) @ other])
        H = mass + B.T @ blocks @ B
        x = system.solve(net.arranged(H @ exact), 1e-12, 2000)
        assert not system.gave_up
        np.testing.assert_allclose(x[net.position], exact, atol=1e-7)


@pytest.mark.parametrize("nc", [20, 300])
def test_contacts_by_their_reactions(nc: int) -> None:
    """I + H N, with a full N and with one of few entries."""
    rng, d = np.random.default_rng(6), 3
    N = sp.csr_array(sp.kron(chain([1] * nc)[0][:nc], np.ones((d, d))))
    N = sp.csr_array(N @ N.T + sp.eye_array(nc * d))
    left, right = rng.standard_normal((2, nc, d, d))
    left[::5] = 0.0
    exact = rng.standard_normal(nc * d)
    blocks = sp.block_diag([sp.coo_array(b) for b in left.transpose(0, 2, 1) @ right])
    x = DelassusNetwork(N, d).block_system(left, right).solve(exact + blocks @ (N @ exact), 1e-12)
    np.testing.assert_allclose(x, exact, atol=1e-8)


@pytest.mark.parametrize("kind", ["diagonal", "block"])
def test_few_contacts_are_solved_in_their_forces(kind: str) -> None:
    rng = np.random.default_rng(7)
    B = sp.csr_array(rng.normal(size=(20, 300)) * (rng.random((20, 300)) < 0.1))
    D = np.where(rng.random(20) < 0.7, 10.0 ** rng.uniform(-3.0, 6.0, 20), 0.0)
    mass, body = inertia(kind, np.arange(300) // 3), np.arange(300) // 3
    net = network(B, body, mass)
    assert net.few
    H = mass.toarray() + B.T.toarray() @ (D[:, None] * B.toarray())
    rhs = rng.normal(size=300)
    x = net.of_forces(D).solve(net.arranged(rhs), 1e-12)[net.position]
    np.testing.assert_allclose(x, np.linalg.solve(H, rhs), atol=1e-9)
    assert not network(sp.csr_array(sp.vstack([B] * 10)), body, mass).few  # 200 contacts
