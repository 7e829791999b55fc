"""FCLib files written: back as they were, and the same contact problem for another code."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
import scipy.sparse as sp

import cdopt
from cdopt.interop import fclib, fclib_writing

PUBLISHED = [name for name in cdopt.bank.names() if name.startswith("fclib-")]


def same(first: sp.csr_array, second: sp.csr_array) -> None:
    for part in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(first, part), getattr(second, part))


def published(name: str) -> fclib.FclibProblem:
    folder = cdopt.bank.problems_folder() / name
    return fclib.read(folder / cdopt.bank.manifest(name).fclib)


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_file_comes_back_to_the_last_digit(tmp_path: Path, name: str) -> None:
    first = published(name)
    fclib_writing.write(tmp_path / "again.hdf5", first)
    again = fclib.read(tmp_path / "again.hdf5")
    assert (again.kind, again.spacedim) == (first.kind, first.spacedim)
    for text in ("title", "description", "math_info"):
        assert getattr(again, text) == getattr(first, text)
    assert again.symmetrised == first.symmetrised
    np.testing.assert_array_equal(again.mu, first.mu)
    if first.kind == "local":
        same(again.W, first.W)
        np.testing.assert_array_equal(again.q, first.q)
        same(again.step.N, first.step.N)
    else:
        same(again.H, first.H)
        same(again.step.M, first.step.M)
        np.testing.assert_array_equal(again.w, first.w)
        np.testing.assert_array_equal(again.step.F_ext, first.step.F_ext)


def test_a_step_with_a_time_step_of_one_comes_back_as_it_was(tmp_path: Path) -> None:
    step = cdopt.bank.load("pyramid-hooke:n=3").step.replace(dt=1.0)
    fclib_writing.write(tmp_path / "a.hdf5", step, title="a pyramid")
    read = fclib.read(tmp_path / "a.hdf5")
    assert (read.kind, read.spacedim, read.title) == ("global", 3, "a pyramid")
    assert read.description == fclib_writing.DESCRIPTION
    same(read.step.M, step.M)
    same(read.step.B, step.B)
    for name in ("phi", "v", "F_ext"):
        np.testing.assert_array_equal(getattr(read.step, name), getattr(step, name))
    np.testing.assert_array_equal(read.mu, 0.0)


@pytest.mark.parametrize("name", ["pyramid-falling", "impact", "rising-floor", "beam-middle-open"])
def test_impulses_are_forces_times_the_time_step(tmp_path: Path, name: str) -> None:
    step = cdopt.bank.load(name).step
    fclib_writing.write(tmp_path / "a.hdf5", step)
    read = fclib.load_step(tmp_path / "a.hdf5")
    np.testing.assert_array_equal(read.bias, step.bias)
    ours = cdopt.ClassicCD(step).solve("newton")
    theirs = cdopt.ClassicCD(read).solve("newton")
    scale = np.abs(ours.v_next).max()
    np.testing.assert_allclose(theirs.v_next, ours.v_next, atol=1e-9 * scale)
    impulse = step.dt * (step.B.T @ ours.f)
    np.testing.assert_allclose(
        read.B.T @ theirs.f, impulse, atol=1e-9 * max(np.abs(impulse).max(), 1e-300)
    )


def test_a_delassus_step_is_a_local_problem(tmp_path: Path) -> None:
    step = cdopt.bank.load("supports-delassus").step
    fclib_writing.write(tmp_path / "a.hdf5", step)
    read = fclib.read(tmp_path / "a.hdf5")
    assert read.kind == "local"
    np.testing.assert_allclose((read.step.N * step.dt).toarray(), step.N.toarray(), rtol=1e-15)
    np.testing.assert_array_equal(read.step.p_vec, step.p_vec)
    whole = cdopt.ContactStep.from_delassus(step.N, step.p_vec, dt=1.0)
    fclib_writing.write(tmp_path / "b.hdf5", whole)
    same(fclib.load_step(tmp_path / "b.hdf5").N, whole.N)


def test_a_solution_solves_the_problem_in_the_file(tmp_path: Path) -> None:
    step = cdopt.bank.load("pyramid-falling").step
    solution = cdopt.ClassicCD(step).solve("newton")
    fclib_writing.write(tmp_path / "a.hdf5", step, solution)
    read = fclib.read(tmp_path / "a.hdf5")
    with h5py.File(tmp_path / "a.hdf5") as file:
        r, u, v = (file[f"solution/{name}"][()] for name in "ruv")
    M, f = read.step.M, read.step.F_ext
    np.testing.assert_allclose(M @ v, read.H @ r + f, atol=1e-12 * np.abs(f).max())
    np.testing.assert_allclose((read.H.T @ v + read.w)[::3], u[::3], atol=1e-15)
    assert np.all(r[::3] >= 0.0)
    assert np.abs(r[::3]).max() > 0.0
    assert not np.any(r.reshape(-1, 3)[:, 1:])


def test_what_is_refused(tmp_path: Path) -> None:
    beam = cdopt.bank.load("beam-uniform").step
    other = cdopt.ClassicCD(cdopt.bank.load("table").step).solve("newton")
    with pytest.raises(cdopt.InvalidInput, match="problem: found 3"):
        fclib_writing.write(tmp_path / "a.hdf5", 3)
    with pytest.raises(cdopt.InvalidInput, match="solution: found 4 forces"):
        fclib_writing.write(tmp_path / "a.hdf5", beam, other)
    with pytest.raises(cdopt.InvalidInput, match="solution: found 'x'"):
        fclib_writing.write(tmp_path / "a.hdf5", beam, "x")
    with pytest.raises(cdopt.InvalidInput, match="path: "):
        fclib_writing.write(tmp_path / "none" / "a.hdf5", beam)
    assert not list(tmp_path.iterdir())


def test_what_is_written_is_laid_out_as_the_published_files_are(tmp_path: Path) -> None:
    """Names, types and lengths of every number: a reader that takes those takes ours."""
    folder = cdopt.bank.problems_folder() / "fclib-boxes"
    original = folder / cdopt.bank.manifest("fclib-boxes").fclib
    fclib_writing.write(tmp_path / "again.hdf5", fclib.read(original))

    def layout(path: Path) -> dict:
        found: dict = {}
        with h5py.File(path) as file:
            file["fclib_local"].visititems(
                lambda name, item: (
                    found.update({name: (item.dtype.str, item.shape)})
                    if isinstance(item, h5py.Dataset) and not name.startswith("info")
                    else None
                )
            )
        return found

    ours, theirs = layout(tmp_path / "again.hdf5"), layout(original)
    assert set(ours) == set(theirs)
    scheme = {"W/nzmax", "W/i", "W/x"}  # stored zeros are left out
    assert {k: v for k, v in ours.items() if k not in scheme} == {
        k: v for k, v in theirs.items() if k not in scheme
    }
    assert all(ours[name][0] == theirs[name][0] for name in scheme)
