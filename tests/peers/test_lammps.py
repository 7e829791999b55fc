"""LAMMPS as a peer: the elastic reference, by a drop in another code."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from papers import lammps
from papers.olsen_kamrin.dem import damping_effect, dem
from papers.olsen_kamrin.pile import MATERIALS, Pile, Settings
from papers.report import Store

import cdopt
from cdopt.scene.generators.packings import pyramid_positions

REASON = lammps.why_unavailable()
needs_lammps = pytest.mark.skipif(REASON is not None, reason=f"LAMMPS: {REASON}")
N = 5


@pytest.fixture(scope="module")
def pile(tmp_path_factory: pytest.TempPathFactory) -> Pile:
    store = Store(tmp_path_factory.mktemp("lammps"), lambda text: None)
    return Pile(Settings(n=N, dem="lammps"), store)


@needs_lammps
@pytest.mark.parametrize("material", MATERIALS, ids=lambda m: m.name)
def test_lammps_settles_into_the_elastic_reference(pile: Pile, material) -> None:
    run, reference = dem(pile, material), pile.reference(material)
    assert run.source.startswith("the drop by LAMMPS 2")
    assert np.abs(run.f - reference).max() / reference.max() < 5e-8
    # another code's contacts: the same are loaded
    assert np.array_equal(run.f > 1e-6, reference > 1e-6)


@needs_lammps
def test_viscous_damping_leaves_static_forces_alone(pile: Pile) -> None:
    effect = damping_effect(pile)
    assert effect is not None
    assert effect < 1e-8


@needs_lammps
def test_one_stiffness_is_off_by_its_inverse(pile: Pile) -> None:
    material, (centres, layers) = MATERIALS[0], pyramid_positions(N)
    reference = pile.reference(material)
    off = []
    for k in (1e4, 1e5):
        run = lammps.settle(
            centres, layers == 0, pile.settled(material).bodies, [[1.0]],
            np.zeros(layers.size, int), stiffness=k,
        )  # fmt: skip
        assert run.elsewhere == 0.0
        off.append(np.abs(run.forces - reference).max())
    assert off[0] / off[1] == pytest.approx(10.0, rel=0.02)


@needs_lammps
def test_a_run_that_is_not_at_rest_is_no_answer() -> None:
    centres, layers = pyramid_positions(N)
    with pytest.raises(cdopt.SolveFailed, match="not at rest after 2,000 steps"):
        lammps.settle(
            centres, layers == 0, [[0, 25]], [[1.0]], np.zeros(layers.size, int), most=1,
            damping=0.01,
        )  # fmt: skip


@needs_lammps
def test_bad_arguments() -> None:
    centres, layers = pyramid_positions(3)
    kinds, pairs = np.zeros(layers.size, int), [[0, 9]]
    with pytest.raises(cdopt.InvalidInput, match="power"):
        lammps.settle(centres, layers == 0, pairs, [[1.0]], kinds, power=3.0)
    with pytest.raises(cdopt.InvalidInput, match="fixed"):
        lammps.settle(centres, layers == 1, pairs, [[1.0]], kinds)


def test_without_lammps_asking_for_it_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lammps, "why_unavailable", lambda: "lammps is not installed")
    alone = Pile(Settings(n=N, dem="lammps"), Store(tmp_path, lambda text: None))
    with pytest.raises(cdopt.BackendUnavailable, match="not installed"):
        dem(alone, MATERIALS[0])
    with pytest.raises(cdopt.BackendUnavailable, match="not installed"):
        lammps.settle(np.zeros((1, 3)), [True], [[0, 0]], [[1.0]], [0])


def test_the_rigid_limit_wants_the_stiffer_run_second() -> None:
    soft, stiff = np.array([1.0 + 1e-4]), np.array([1.0 + 5e-5])
    np.testing.assert_allclose(lammps.rigid_limit(soft, stiff, 2.0, 2.0), [1.0], atol=1e-12)
    with pytest.raises(cdopt.InvalidInput, match="ratio"):
        lammps.rigid_limit(stiff, soft, 0.5, 2.0)
