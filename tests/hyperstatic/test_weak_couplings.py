"""Weak couplings, light bodies next to heavy ones, decaying chains, thin polytopes."""

from __future__ import annotations

import numpy as np
import pytest
from judges import exact_error, step_of, step_on

import cdopt

G = 9.81
CORNERS = np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]])


@pytest.mark.parametrize(
    ("B", "forces"),
    [
        ([[1, 0, 0], [1, 1e-7, 0], [0, 1e-6, 0], [0, 1, 1]], [1, 1, 0.03, 1]),
        ([[1, 0, 0], [1, 1e-7, 0], [0, 1, 0], [0, 0, 1]], [1, 1, 0, 0]),
    ],
)
def test_a_barely_coupled_contact_still_binds(B, forces):
    """A force that the states move by 1e-7 of the others stops them where it reaches zero."""
    report = cdopt.indeterminacy(step_on(B, np.array(forces, float)))
    assert report.ok
    assert exact_error(report) < 1e-6
    assert not report.unique[:3].any()
    assert report.unique[3]


@pytest.mark.parametrize(("n", "ratio"), [(20, 0.3), (40, 0.5)])
def test_states_of_chains_that_decay(n, ratio):
    """One state runs through the whole chain, each force a fraction of the one before."""
    B = np.zeros((n + 1, n))
    B[0, 0] = 1.0
    B[np.arange(1, n + 1), np.arange(n)] = 1.0
    B[np.arange(1, n), np.arange(1, n)] = ratio
    states = cdopt.indeterminacy(step_on(B, np.ones(n + 1)), contacts=[]).self_stress
    assert states.shape == (1, n + 1)
    assert np.abs(B.T @ states.toarray().T).max() < 1e-7


def test_n_alone_knows_what_b_knows():
    """Short levers and heavy neighbours: N holds their equations in its small eigenvalues."""
    for B, forces in (
        (np.array([[1e-4, 1], [1e-4, -1]]), np.array([1.0, 2.0])),
        (np.array([[1.0, 0], [-1e4, 1e4]]), np.array([1.0, 1e-4])),
    ):
        N = B @ B.T
        report = cdopt.indeterminacy(cdopt.ContactStep.from_delassus(N, -N @ forces))
        assert report.nullity == 0
        assert report.unique.all()
        np.testing.assert_allclose(report.upper, forces, rtol=1e-3)


# --- light next to heavy: each contact is judged by its load -------------------------


def tile_on_block(ratio, forces=(G / 4,) * 4):
    """A tile on a block ``ratio`` times its 1 kg, which stands on four legs.

    The load on the tile is what ``forces`` on its legs, the first few corners, balance.
    """
    legs = np.column_stack([np.ones(4), CORNERS[:, 1], -CORNERS[:, 0]])
    upper = legs[: len(forces)]
    B = np.block([[legs, np.zeros((4, 3))], [-upper, upper]])
    load = np.append([-G * ratio, 0.0, 0.0], -upper.T @ forces)
    M = np.diag([ratio, ratio / 6, ratio / 6, 1.0, 1 / 6, 1 / 6])
    return cdopt.ContactStep(M, B, np.zeros(len(B)), np.zeros(6), load, 1e-3)


@pytest.mark.parametrize("ratio", [1.0, 1e4, 1e8, 1e12])
def test_a_tile_on_four_legs_and_on_three(ratio):
    step = tile_on_block(ratio)
    for mixed in (np.arange(8), np.array([5, 0, 7, 3, 1, 6, 2, 4])):
        report = cdopt.indeterminacy(step.replace(B=step.B[mixed]))
        assert report.ok
        assert (report.rank, report.nullity, report.dimension) == (6, 2, 2)
        assert not report.unique.any()
        assert report.loadable.all()
        half = np.where(mixed < 4, (1.0 + ratio) * G / 2, G / 2)
        np.testing.assert_allclose(report.upper / half, 1.0, rtol=1e-7)
        np.testing.assert_allclose(report.lower / half, 0.0, atol=1e-7)
        np.testing.assert_allclose(report.force @ (mixed >= 4), G, rtol=1e-7)
        drawn = cdopt.ensemble(report, draws=50)
        np.testing.assert_allclose(drawn.forces @ (mixed >= 4), G, rtol=1e-7)
    forces = (4.0, 2.0, 3.81)
    report = cdopt.indeterminacy(tile_on_block(ratio, forces))
    assert report.ok
    assert report.unique.tolist() == [False] * 4 + [True] * 3
    for bound in (report.lower, report.force, report.upper):
        np.testing.assert_allclose(bound[4:], forces, rtol=1e-6)


@pytest.mark.parametrize("light", [1e-2, 1e-6, 5e-9, 1e-12])
def test_a_light_body_does_not_make_a_polytope_thin(light):
    """Three forces on each of two bodies, one much lighter: the same shape."""
    B = np.array([[1, 0], [1, 0], [1, light], [0, 1], [0, 1], [0, 1]], float)
    share = np.array([1, 1, 1, light, light, light])
    drawn = cdopt.ensemble(step_on(B, share), draws=400)
    assert drawn.dimension == 4
    assert drawn.converged
    np.testing.assert_allclose(drawn.forces @ B / [3.0, 4.0 * light], 1.0, rtol=1e-6)
    np.testing.assert_allclose(drawn.mean[3:] / light, 1.1, atol=0.1)


def leaning(share):
    """B and load of a table with two legs at one corner, loaded with 1 N nearly over them.

    Its forces may differ by 1 N along one state and by ``share`` along the other.
    """
    x, y = np.array([[1, 1, -1, -1, 1], [1, 1, 1, -1, -1]]) / 2
    return np.column_stack([np.ones(5), y, -x]), np.array([1.0, 0.5 - share, share - 0.5])


@pytest.mark.parametrize("share", [1e-2, 1e-4, 1e-6])
def test_a_thin_polytope_is_sampled_right(share):
    B, load = leaning(share)
    drawn = cdopt.ensemble(step_of(B, load), draws=600)
    assert drawn.dimension == 2
    assert drawn.converged
    np.testing.assert_allclose(drawn.forces @ B - load, 0.0, atol=1e-9)
    middle = drawn.mean / [1.0, 1.0, share, share, share]
    np.testing.assert_allclose(middle, 0.5, atol=0.05)  # uniform on [0, share]
    assert drawn.forces.min() >= 0.0


@pytest.mark.parametrize("share", [3e-9, 1e-8])
def test_a_polytope_no_wider_than_tolerances_is_refused(share):
    """Ten times and more below the limit, where no arithmetic finds it otherwise."""
    with pytest.raises(cdopt.Unsupported, match="too thin"):
        cdopt.ensemble(step_of(*leaning(share)), draws=50)
