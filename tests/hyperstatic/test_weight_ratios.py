"""Light beside heavy: each contact is judged by what acts on it, not by the heaviest body."""

from __future__ import annotations

import numpy as np
import pytest
from judges import step_on

import cdopt

G = 9.81
CORNERS = np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]])


def tile_on_block(ratio: float, forces: tuple[float, ...] = (G / 4,) * 4) -> cdopt.ContactStep:
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
def test_four_legs_of_a_tile_are_never_determined(ratio: float) -> None:
    step = tile_on_block(ratio)
    order = np.array([5, 0, 7, 3, 1, 6, 2, 4])
    for mixed in (np.arange(8), order):
        one = step.replace(B=step.B[mixed])
        report = cdopt.indeterminacy(one)
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


@pytest.mark.parametrize("ratio", [1.0, 1e4, 1e8, 1e12])
def test_three_legs_of_a_tile_are_always_determined(ratio: float) -> None:
    forces = (4.0, 2.0, 3.81)
    report = cdopt.indeterminacy(tile_on_block(ratio, forces))
    assert report.ok
    assert report.unique.tolist() == [False] * 4 + [True] * 3
    for bound in (report.lower, report.force, report.upper):
        np.testing.assert_allclose(bound[4:], forces, rtol=1e-6)


@pytest.mark.parametrize("light", [1e-2, 1e-6, 1e-8, 5e-9, 1e-12])
def test_a_light_body_does_not_make_a_polytope_thin(light: float) -> None:
    """Three forces on each of two bodies, one a million times lighter: the same shape."""
    B = np.array([[1, 0], [1, 0], [1, light], [0, 1], [0, 1], [0, 1]], float)
    share = np.array([1, 1, 1, light, light, light])
    drawn = cdopt.ensemble(step_on(B, share), draws=400)
    assert drawn.dimension == 4
    assert drawn.converged
    np.testing.assert_allclose(drawn.mean[:3].sum(), 3.0, rtol=1e-9)
    np.testing.assert_allclose(drawn.forces @ B[:, 1] / light, 4.0, rtol=1e-6)
    np.testing.assert_allclose(drawn.mean[3:] / light, 1.1, atol=0.1)


def leaning(share: float) -> tuple[np.ndarray, np.ndarray]:
    """B and load of a table with two legs at one corner, loaded with 1 N nearly over them.

    Its forces may differ by 1 N along one state and by ``share`` along the other.
    """
    x, y = np.array([[1, 1, -1, -1, 1], [1, 1, 1, -1, -1]]) / 2
    B = np.column_stack([np.ones(5), y, -x])
    return B, np.array([1.0, 0.5 - share, share - 0.5])


@pytest.mark.parametrize("share", [1e-2, 1e-4, 1e-6])
def test_a_thin_polytope_is_sampled_right(share: float) -> None:
    B, load = leaning(share)
    step = cdopt.ContactStep(np.eye(3), B, np.zeros(5), np.zeros(3), -load, 1.0)
    drawn = cdopt.ensemble(step, draws=600)
    assert drawn.dimension == 2
    assert drawn.converged
    np.testing.assert_allclose(drawn.forces @ B, np.tile(load, (len(drawn.forces), 1)), atol=1e-9)
    np.testing.assert_allclose(drawn.mean[:2], 0.5, atol=0.05)
    np.testing.assert_allclose(drawn.mean[2:] / share, 0.5, atol=0.05)  # uniform on [0, share]
    assert drawn.forces.min() >= 0.0


@pytest.mark.parametrize("share", [3e-9, 1e-8])
def test_a_polytope_no_wider_than_tolerances_is_refused(share: float) -> None:
    """Ten times and more below the limit, where no arithmetic finds it otherwise."""
    B, load = leaning(share)
    step = cdopt.ContactStep(np.eye(3), B, np.zeros(5), np.zeros(3), -load, 1.0)
    with pytest.raises(cdopt.Unsupported, match="too thin"):
        cdopt.ensemble(step, draws=50)
