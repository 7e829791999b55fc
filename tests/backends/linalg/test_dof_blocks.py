"""Blocks of dofs are found from B and the mass alone, and are always a partition of use."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import renumbered
from hypothesis import given, settings
from hypothesis import strategies as st
from networks import contacts, shuffled

import cdopt
from cdopt.backends.linalg.block_pairs import LARGEST_BLOCK
from cdopt.backends.linalg.dof_blocks import dof_blocks


def found(B: sp.csr_array, tied: np.ndarray | None = None) -> np.ndarray:
    index = np.arange(B.shape[1])
    return dof_blocks(B, index if tied is None else tied, index, LARGEST_BLOCK)


def most_a_row(B: sp.csr_array, label: np.ndarray) -> int:
    return max((np.unique(label[row.nonzero()[0]]).size for row in B.toarray()), default=0)


def same(first: np.ndarray, second: np.ndarray) -> bool:
    """Whether two labellings are one partition."""
    pairs = np.unique(np.stack([first, second]), axis=1).shape[1]
    return bool(pairs == np.unique(first).size == np.unique(second).size)


def ring(n: int) -> list[tuple[int, ...]]:
    return [(i, (i + 1) % n) for i in range(n)] + [(i,) for i in range(0, n, 3)]


@pytest.mark.parametrize("size", [2, 3, 6])
@pytest.mark.parametrize("mixed_up", [False, True])
def test_bodies_of_one_size_are_found(size: int, mixed_up: bool) -> None:
    B, body = contacts([size] * 30, ring(30))
    if mixed_up:
        B, body = shuffled(B, body)
    assert same(found(B), body)


@settings(deadline=None, max_examples=60)
@given(
    sizes=st.lists(st.integers(1, 6), min_size=5, max_size=25),
    zeros=st.sampled_from([0.0, 0.1, 0.4]),
    untouched=st.integers(0, 9),
    three=st.booleans(),
    seed=st.integers(0, 99),
)
def test_any_partition_found_is_of_use(
    sizes: list[int], zeros: float, untouched: int, three: bool, seed: int
) -> None:
    """Bodies of unlike size, entries that vanish, idle dofs, rows with three bodies, disorder."""
    touched = ring(len(sizes)) + ([(0, 1, 2), (1, 2, 4)] if three else [])
    B, body = contacts([*sizes, *[1] * untouched], touched, seed)
    B.data[np.random.default_rng(seed).random(B.nnz) < zeros] = 0.0
    B.eliminate_zeros()
    B, body = shuffled(B, body, seed)
    label = found(B)
    alone = same(label, np.arange(body.size))
    assert np.bincount(label).max() <= LARGEST_BLOCK
    assert np.bincount(label).min() >= 1
    assert alone or most_a_row(B, label) <= 2
    if zeros == 0.0 and not three:  # the bodies are one such partition
        assert most_a_row(B, label) <= 2


def test_dofs_that_the_mass_couples_stay_together() -> None:
    B, body = contacts([3] * 40, ring(40))
    B.data[np.random.default_rng(1).random(B.nnz) < 0.3] = 0.0
    B.eliminate_zeros()
    B, body = shuffled(B, body)
    label = found(B, np.unique(body, return_inverse=True)[1])
    assert same(label, body)


def test_rows_on_three_bodies() -> None:
    """Two of the bodies are joined where that makes a partition of use; else each dof is alone."""
    B, _ = contacts([3] * 30, [*ring(30), (0, 10, 20)])
    assert most_a_row(B, found(B)) == 2
    B, _ = contacts([3] * 30, [(i, (i + 1) % 30, (i + k) % 30) for i in range(30) for k in (2, 5)])
    assert same(found(B), np.arange(90))


@pytest.mark.parametrize("mixed_up", [False, True])
def test_a_step_without_bodies_has_the_same_forces(mixed_up: bool) -> None:
    step = cdopt.open_problem("crystal-2d:rows=12,columns=14").step
    assert isinstance(step, cdopt.ContactStep)
    order = np.arange(step.nv)
    if mixed_up:
        order = np.random.default_rng(2).permutation(step.nv)
    plain = renumbered(step, np.arange(step.nc), order).replace(dof_body=None)
    f = [cdopt.CompatibleCD(s).solve("newton") for s in (step, plain)]
    assert all(solution.ok for solution in f)
    np.testing.assert_allclose(f[1].f, f[0].f, rtol=0, atol=1e-9 * f[0].f.max())
