"""FCLib files with friction: what is stored, and its solution under both laws."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import cdopt
from cdopt._util.files import problems_folder
from cdopt.interop import fclib

REFERENCES = Path(__file__).parents[1] / "data" / "friction" / "fclib.npz"
QUICK = ("fclib-box-stacks", "fclib-periodic-box")
LONG = ("fclib-boxes", "fclib-capsules", "fclib-spheres")


def problem(name: str) -> fclib.FclibProblem:
    (path,) = (problems_folder() / name).glob("*.hdf5")
    return fclib.read(path)


@pytest.mark.parametrize(
    "name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in LONG)]
)
def test_files_of_the_bank_are_solved_with_friction(name: str) -> None:
    step = problem(name).frictional_step
    associated = cdopt.FrictionalCD(step, "associated").solve("newton")
    rates = np.column_stack([associated.gap, associated.slip]).ravel()
    exact = np.load(REFERENCES)[name]
    assert np.abs(rates - exact).max() <= 1e-6 * np.abs(exact).max()
    for solution in (associated, cdopt.FrictionalCD(step, "coulomb").solve("newton")):
        assert solution.ok
        assert solution.certificate.worst <= 1e-9


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
