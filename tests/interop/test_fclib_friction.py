"""FCLib files with friction: what is stored, and its solution under both laws."""

from __future__ import annotations

import numpy as np

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
