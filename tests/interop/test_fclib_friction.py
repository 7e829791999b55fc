"""FCLib files with friction: what is stored, and its solution under both laws."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

import cdopt
from cdopt._util.files import problems_folder
from cdopt.interop import fclib


def problem(name: str) -> fclib.FclibProblem:
    (path,) = (problems_folder() / name).glob("*.hdf5")
    return fclib.read(path)


def test_the_frictional_step_is_what_the_file_stores() -> None:
    local, stored = problem("fclib-capsules"), problem("fclib-box-stacks")
    rows = local.frictional_step
    assert isinstance(rows, cdopt.DelassusStep)
    assert np.array_equal(rows.p_rows, local.q)
    assert np.array_equal(rows.p_vec, local.step.p_vec)
    assert local.symmetrised > 1e-4  # Siconos wrote an unsymmetric W
    assert np.allclose(rows.N_rows.toarray(), 0.5 * (local.W + local.W.T).toarray())
    matrices = stored.frictional_step
    assert np.array_equal(matrices.friction.mu, stored.mu)
    rates = np.column_stack([matrices.phi, matrices.friction.rate]).ravel()
    assert np.array_equal(rates, stored.w)
    v = np.random.default_rng(0).standard_normal(matrices.nv)
    sliding = (matrices.friction.B_t @ v).reshape(-1, stored.spacedim - 1)
    assert np.allclose(np.column_stack([matrices.B @ v, sliding]).ravel(), stored.H.T @ v)


def test_asymmetry_of_the_source_stands_in_every_result(tmp_path: Path) -> None:
    """Of files and of saved steps, with friction, without it and for some of the contacts."""
    stored = problem("fclib-capsules")
    step = stored.frictional_step.select(np.arange(4))
    assert step.symmetrised == stored.step.symmetrised == stored.symmetrised
    step.save(tmp_path / "step.npz")
    again = cdopt.DelassusStep.load(tmp_path / "step.npz")
    for solution in (
        cdopt.FrictionalCD(again).solve("newton"),
        cdopt.ClassicCD(again.without_friction()).solve("newton"),
    ):
        assert solution.provenance["symmetrised"] == stored.symmetrised
    rover = cdopt.bank.load("siconos-rover1039").step
    assert rover.symmetrised == pytest.approx(9.2e-6, rel=0.01)
    round_off = problem("fclib-boxes").frictional_step.select([0])
    assert "symmetrised" not in cdopt.FrictionalCD(round_off).solve("newton").provenance
    with pytest.raises(cdopt.InvalidInput, match="symmetrised"):
        again.replace(symmetrised=-1.0)


@pytest.mark.parametrize("name", ["rough-arch", "siconos-rover1039"])
def test_steps_with_friction_come_back(tmp_path: Path, name: str) -> None:
    """What is written, global or local, is read as the same problem, in impulses."""
    step = cdopt.bank.load(name).step
    solution = cdopt.FrictionalCD(step).solve("newton")
    fclib.write(tmp_path / "step.hdf5", step, solution)
    again = fclib.read(tmp_path / "step.hdf5")
    rows, other = (
        cdopt.problem.frictional_data(s, "coulomb").step for s in (step, again.frictional_step)
    )
    assert np.array_equal(again.mu, step.friction.mu)
    assert np.abs(rows.p_vec - other.p_vec).max() <= 1e-15 * max(np.abs(rows.p_vec).max(), 1.0)
    assert abs(rows.N - step.dt * other.N).max() <= 1e-15 * abs(rows.N).max()
    impulses = cdopt.FrictionalCD(again.frictional_step).solve("newton")
    assert impulses.ok
    with h5py.File(tmp_path / "step.hdf5") as file:
        stored = file["solution/r"][()].reshape(-1, step.friction.d)
    assert np.array_equal(stored[:, 1:], step.dt * solution.f_t)
