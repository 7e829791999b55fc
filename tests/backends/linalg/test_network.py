"""Networks: B, Bᵀ and S on any arrangement of dofs are what dense algebra says."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from made_networks import chain, contacts, copied, inertia, shuffled

from cdopt.backends.linalg import Network, network
from cdopt.backends.linalg.block_pairs import block_order
from cdopt.backends.threads import threads_for

MIXED = [6, 3, 1, 2]


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    with threads_for(0):
        yield


def check_products(net: Network, B: sp.csr_array, mass: sp.csr_array | None) -> None:
    random = np.random.default_rng(3)
    x, f = random.standard_normal(B.shape[1]), random.standard_normal(B.shape[0])
    full = B.toarray()
    scale = np.abs(full).sum(axis=1).max(initial=1.0) * 1e-13
    gap = net.in_given_order(net.gap(net.arranged(x)))
    np.testing.assert_allclose(gap, full @ x, atol=scale)
    load = net.load(net.in_rows(f))[net.position]
    np.testing.assert_allclose(load, full.T @ f, atol=1e2 * scale)
    if mass is None:
        np.testing.assert_array_equal(net.inertia(net.arranged(x))[net.position], 0.0)
        return
    pushed = mass @ x
    np.testing.assert_allclose(net.inertia(net.arranged(x))[net.position], pushed, atol=1e-12)
    np.testing.assert_allclose(net.motion(net.arranged(pushed))[net.position], x, atol=1e-10)
    np.testing.assert_array_equal(net.mass_diagonal[net.position], mass.diagonal())


@pytest.mark.parametrize("kind", ["none", "diagonal", "block", "pairs", "row"])
@pytest.mark.parametrize("mixed_up", [False, True])
@pytest.mark.parametrize("three", [False, True])
@pytest.mark.parametrize("size", [1, 2, 3, 6, 0])
def test_products_are_those_of_dense_matrices(
    size: int, three: bool, mixed_up: bool, kind: str
) -> None:
    """Blocks of one size and of mixed ones, contacts on none to three bodies."""
    sizes = {1: [1] * 250, 2: [2] * 130, 3: [3] * 90, 6: [6] * 45, 0: MIXED * 22}[size]
    B, body = chain(sizes, three=three)
    mass = inertia(kind, body)
    if mixed_up:
        B, body = shuffled(B, body)
        mass = inertia(kind, np.unique(body, return_inverse=True)[1])
    net = copied(B, body, mass)
    assert not net.small
    if kind in ("none", "diagonal", "block"):
        assert net.size == (size or 6)
        assert (net.pairs is None) == three
    check_products(net, B, mass)


@pytest.mark.parametrize("mixed_up", [False, True])
def test_contacts_between_chunks(mixed_up: bool) -> None:
    """More than 512 blocks make two chunks; in disorder they are put in a better order."""
    B, body = chain([3] * 520)
    mass = inertia("diagonal", body)
    if mixed_up:
        B, body = shuffled(B, body)
    net = copied(B, body, mass)
    assert net.pairs is not None
    assert net.pairs.layout.start.size == 3
    left, right = (np.asarray(b, dtype=int) for b in (net.pairs.first, net.pairs.second))
    inner = right < net.pairs.count
    assert np.abs(left - right)[inner].mean() < 30  # 173 where bodies stand at random
    check_products(net, B, mass)


def test_one_body_that_nearly_all_contacts_touch() -> None:
    """It has a chunk to itself, and another chunk is left empty."""
    n = 600
    for hub in (0, 300, n - 1):
        others = [i for i in range(n) if i != hub]
        B, body = contacts([3] * n, [(hub, i) for i in others] * 3)
        net = copied(B, body, inertia("diagonal", body))
        assert net.pairs is not None
        assert np.all(np.diff(net.pairs.layout.start.astype(int)) >= 0)
        check_products(net, B, net_mass(net))


def test_no_chunk_begins_after_the_last_block() -> None:
    """A heavy last body: more than half of all contacts are its own."""
    who = [(i, i + 1) for i in range(599)] + [(599,)] * 3000
    net = copied(*contacts([3] * 600, who))
    assert net.pairs is not None
    assert net.pairs.layout.start[-2] < net.pairs.count


def net_mass(net: Network) -> sp.csr_array:
    """The inertia of a network on the given dofs."""
    assert net.mass is not None
    return sp.csr_array(net.mass[net.position][:, net.position])


def test_a_thousand_contacts_between_two_bodies() -> None:
    """More than the small integers of a graph count."""
    who = [(i, (7 * i + 1) % 600) for i in range(600) if (7 * i + 1) % 600 != i]
    B, body = contacts([3] * 600, who + [(0, 599)] * 1024)
    net = copied(B, body)
    assert net.pairs is not None
    check_products(net, B, None)


def test_without_bodies_every_dof_stands_alone() -> None:
    B, _ = chain([1] * 260)
    net = copied(B, None)
    assert (net.size, net.m, net.mass) == (1, 260, None)
    np.testing.assert_array_equal(np.sort(net.position), np.arange(260))
    check_products(net, B, None)


def test_a_body_of_more_than_six_dofs_stands_apart() -> None:
    B, body = chain([3] * 80 + [9])
    net = copied(B, body, inertia("block", body))
    assert net.size == 1
    assert net.blocks is None
    check_products(net, B, inertia("block", body))


def test_a_body_of_many_dofs_takes_memory_in_proportion() -> None:
    """A flexible body, say, of two thousand dofs: 16 kB for a vector, 32 MB for a full matrix."""
    B, body = chain([1] * 2000)
    mass = sp.csr_array(sp.diags_array([-1.0, 2.5, -1.0], offsets=[-1, 0, 1], shape=(2000, 2000)))
    tracemalloc.start()
    try:
        network(B, np.zeros_like(body), mass)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 10e6


def test_small_networks_and_nearly_dense_ones_are_dense() -> None:
    for nc, m in ((30, 20), (300, 260), (1, 1), (0, 5), (1, 4)):
        B = sp.csr_array(np.random.default_rng(1).uniform(0.5, 1.0, (nc, m)))
        net = copied(B, None, sp.csr_array(sp.eye_array(m)))
        assert net.small
        check_products(net, B, net_mass(net))


@pytest.mark.parametrize("nc", [0, 1])
def test_next_to_no_contacts(nc: int) -> None:
    B, body = contacts([3] * 100, [(4, 50)] * nc + [()])
    B = sp.csr_array(B[:nc])
    net = copied(B, body, inertia("diagonal", body))
    check_products(net, B, inertia("diagonal", body))


@pytest.mark.parametrize("who", [[], [(i,) for i in range(600)]])
def test_many_bodies_that_do_not_touch_each_other(who: list[tuple[int]]) -> None:
    """Each on the floor alone, or in free flight."""
    B, body = contacts([3] * 600, [*who, ()])
    check_products(copied(B, body), B, None)


def test_entries_that_are_zero() -> None:
    """Kept as entries, they change no product; nor do contacts that stand there twice."""
    B, body = chain([3] * 90)
    B.data[::5] = 0.0
    B = sp.csr_array(sp.vstack([B, B, B[:7]]))
    assert np.count_nonzero(B.data == 0.0) > 100
    check_products(copied(B, body), B, None)
    B, body = chain([3] * 90, three=True)
    B.data[::5] = 0.0
    check_products(copied(B, body), B, None)


def test_entries_that_are_zero_in_the_inertia() -> None:
    B, body = chain([3] * 90)
    mass = sp.csr_array(inertia("block", body))
    mass.data[np.flatnonzero(sp.coo_array(mass).row != sp.coo_array(mass).col)] = 0.0
    check_products(copied(B, body, mass), B, mass)


@pytest.mark.parametrize("many", [False, True])
def test_nothing_is_written_into_what_was_given(many: bool) -> None:
    """Dofs in disorder, or bodies that are put in a better order."""
    B, body = shuffled(*chain([3] * (600 if many else 90)))
    before = B.toarray()
    network(B, body, inertia("diagonal", body))
    np.testing.assert_array_equal(B.toarray(), before)


@pytest.mark.parametrize("mixed_up", [False, True])
def test_blocks_filled_up_do_not_give_a_truss_inertia(mixed_up: bool) -> None:
    """What fills up a block stands still under any load, which it never gets."""
    B, body = chain(MIXED * 22)
    if mixed_up:
        B, body = shuffled(B, body)
    net = copied(B, body)
    assert net.m > B.shape[1]
    x = np.random.default_rng(0).standard_normal(B.shape[1])
    np.testing.assert_array_equal(net.inertia(net.arranged(x)), 0.0)


def test_an_order_is_sought_only_for_many_scattered_bodies() -> None:
    first = np.arange(599)
    assert block_order(first, first + 1, 600) is None
    assert block_order(first[:99], np.random.default_rng(0).permutation(99), 100) is None
    order = np.random.default_rng(0).permutation(600)
    better = block_order(order[:-1], order[1:], 600)
    assert better is not None
    np.testing.assert_array_equal(np.sort(better), np.arange(600))


@settings(max_examples=40)
@given(
    st.lists(st.integers(1, 3), min_size=90, max_size=120),
    st.integers(0, 10_000),
    st.booleans(),
    st.sampled_from(["none", "diagonal", "block", "pairs"]),
)
def test_any_small_network(sizes: list[int], seed: int, mixed_up: bool, kind: str) -> None:
    """Contacts of none to three bodies anywhere; on both sides of where dense matrices end."""
    random = np.random.default_rng(seed)
    most = random.integers(2, 4)
    who = [
        tuple(random.choice(len(sizes), random.integers(0, most + 1), replace=False).tolist())
        for _ in range(random.integers(1, 200))
    ]
    B, body = contacts(sizes, [*who, (0,)], seed)
    mass = inertia(kind, body, seed)
    if mixed_up:
        order = random.permutation(B.shape[1])
        B, body = sp.csr_array(sp.csc_array(B)[:, order]), body[order]
        B.sort_indices()
        mass = None if mass is None else sp.csr_array(mass[order][:, order])
    check_products(copied(B, body, mass), B, mass)


def test_rows_stand_in_the_order_of_their_bodies() -> None:
    """However contacts are given; where they stand so already, nothing is moved."""
    B, body = chain([3] * 150, seed=4)
    mixed = sp.csr_array(B[np.random.default_rng(0).permutation(B.shape[0])])
    for one_way in (B, mixed):
        net = network(one_way, body)
        assert net.pairs is not None
        assert net.contact is not None
        one, two = (np.asarray(blocks, dtype=int) for blocks in (net.pairs.first, net.pairs.second))
        assert np.all(np.diff(one * (net.pairs.count + 1) + two) >= 0)
        x = np.random.default_rng(1).standard_normal(one_way.shape[0])
        np.testing.assert_array_equal(net.in_given_order(net.in_rows(x)), x)
        check_products(net, one_way, None)
        again = network(sp.csr_array(one_way[net.contact]), body)
        assert again.contact is None
        assert again.in_rows(x) is again.in_given_order(x) is x
