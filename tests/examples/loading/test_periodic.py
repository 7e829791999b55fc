"""Packings in a periodic cell: work, isotropy, and the fraction at which discs jam."""

from __future__ import annotations

import numpy as np
import pytest
from loading.periodic import bidisperse, deform, jamming_fraction, packing_fraction

import cdopt


@pytest.mark.parametrize(
    "total",
    [
        pytest.param([[-1e-4, 0.0], [0.0, -1e-4]], marks=pytest.mark.slow),
        [[0.0, 1e-4], [0.0, 0.0]],
    ],
)
def test_work_on_the_cell_is_the_energy_it_gains(total: list[list[float]]) -> None:
    """dE = −V σ : dε between equilibria without rearrangements."""
    run = deform(bidisperse(16, 1.1, seed=3), np.array(total), 2)
    sigma, volume = run.stress[1], run.scenes[1].box.size.prod()
    gained = run.energy[2] - run.energy[0]
    assert gained == pytest.approx(-volume * np.sum(sigma * total), rel=1e-3)
    assert all(rest.residual < 1e-8 for rest in run.equilibria)


def test_the_fraction_follows_the_cell() -> None:
    scene = bidisperse(16, 0.5)
    assert packing_fraction(scene) == pytest.approx(0.5)
    with pytest.raises(cdopt.InvalidInput, match="box"):
        packing_fraction(cdopt.scene.crystal(2, 2))


@pytest.mark.slow
def test_discs_of_two_sizes_jam_between_the_published_bounds() -> None:
    """0.842 for large systems, and 0.82 to 0.86 for small ones (O'Hern et al. 2003)."""
    found = np.array([jamming_fraction(40, seed=seed) for seed in range(5)])
    assert 0.82 < found.mean() < 0.86
    assert found.min() > 0.80
