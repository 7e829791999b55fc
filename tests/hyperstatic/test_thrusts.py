"""thrusts(): what supports bear, by name, and wrenches on blocks by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import cdopt

ARCH = Path(__file__).parents[2] / "examples" / "professions" / "arch.obj"


@pytest.fixture(scope="module")
def found() -> cdopt.hyperstatic.StabilityVerdict:
    return cdopt.stability(ARCH, friction=0.6, density=2400.0, limits=False)


def test_supports_bear_the_weight_and_push_against_each_other(found) -> None:
    thrusts = cdopt.thrusts(found.step, *found.forces)
    assert set(thrusts.on_supports) == {"fixed_springer_0", "fixed_springer_1"}
    right, left = thrusts.on_supports["fixed_springer_0"], thrusts.on_supports["fixed_springer_1"]
    weight = float(found.model.weights.sum())
    np.testing.assert_allclose(right + left, [0.0, 0.0, -weight], atol=1e-6 * weight)
    assert right[0] > 0.1 * weight  # the springer at x > 0 is pushed outward
    largest = int(np.linalg.norm(thrusts.forces, axis=1).argmax())
    assert thrusts.names[largest] in repr(thrusts)


def test_wrenches_on_blocks_by_name(found, tmp_path) -> None:
    step, names = found.step, [block.name for block in found.model.blocks]
    forces = np.column_stack([found.forces[0], found.forces[1]]).ravel()
    there = found.model.blocks[0].centre
    on_support = cdopt.wrench(step, "fixed_springer_0", about=there) @ forces
    expected = cdopt.thrusts(step, *found.forces).on_supports["fixed_springer_0"]
    np.testing.assert_allclose(on_support[:3], expected, rtol=1e-9, atol=1e-6)
    number = names.index("voussoir_3")
    for one in (step, step.replace(dt=0.5)):
        by_name, by_number = cdopt.wrench(one, "voussoir_3"), cdopt.wrench(one, number)
        assert (by_name != by_number).nnz == 0
    step.save(tmp_path / "step.npz")
    kept = cdopt.ContactStep.load(tmp_path / "step.npz")
    assert kept.body_names.tolist() == names
    with pytest.raises(cdopt.InvalidInput, match="one of: fixed_springer_0, voussoir_1"):
        cdopt.wrench(step, "keystone")
    with pytest.raises(cdopt.InvalidInput, match="names no bodies"):
        cdopt.wrench(step.replace(body_names=None), "voussoir_3")
