"""Trusses on several processes with PETSc: the same forces, and the certificate in parallel."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import cdopt
from cdopt.interop import petsc

MISSING = petsc.why_unavailable()
needed = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))


def truss(name: str) -> cdopt.NoTensionTruss:
    problem = cdopt.bank.load(name)
    if problem.step is None:
        return problem.formulation("truss")
    cd = cdopt.CompatibleCD(problem.step, problem.power)
    return cd.truss(cd.network(cd.classic_cd.solve("newton")))


@pytest.mark.parametrize("name", ["pyramid-hertz:n=4", "beam-stiff-middle"])
def test_a_written_truss_is_the_truss_in_another_order(name: str, tmp_path: Path) -> None:
    posed = truss(name)
    scaled, order = posed.data.scales, petsc.write(posed, tmp_path, accuracy=1e-8)
    stated = json.loads((tmp_path / "truss.json").read_text())
    arrays = {path.stem: np.load(path) for path in tmp_path.glob("*.npy")}
    shape = (stated["contacts"], stated["dofs"])
    B = sp.csr_array((arrays["data"], arrays["indices"], arrays["indptr"]), shape=shape)
    back = np.zeros(shape)
    back[np.ix_(order.contact, order.dof)] = B.toarray()
    np.testing.assert_array_equal(back, scaled.B.toarray())
    np.testing.assert_array_equal(arrays["load"], scaled.load[order.dof])
    np.testing.assert_array_equal(arrays["stiffness"], scaled.elastic_law.stiffness[order.contact])
    assert stated["block"] == (3 if "pyramid" in name else 2)
    bodies = order.dof.reshape(-1, stated["block"])
    assert np.all(np.diff(bodies, axis=1) == 1)
    assert stated["accuracy"] == 1e-8
    assert stated["power"] == posed.data.elastic_law.power


def test_bad_settings_and_a_missing_installation(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(petsc, "why_unavailable", lambda: None)
    for name in ("processes", "accuracy", "max_steps"):
        with pytest.raises(cdopt.InvalidInput, match=name):
            petsc.PETSc(**{name: 0})
    with pytest.raises(cdopt.InvalidInput, match="accuracy"):
        petsc.write(truss("beam-uniform"), tmp_path, accuracy=2.0)
    with pytest.raises(cdopt.InvalidInput, match=r"folder: .*none: no such file"):
        petsc.write(truss("beam-uniform"), tmp_path / "none")
    monkeypatch.setattr(petsc, "why_unavailable", lambda: "not installed")
    for call in (petsc.PETSc, lambda: petsc.solve_folder(tmp_path, 2)):
        with pytest.raises(cdopt.BackendUnavailable, match="not installed"):
            call()


@needed
@pytest.mark.slow
@pytest.mark.parametrize("name", ["pyramid-hertz:n=6", "pyramid-species", "crystal-2d"])
@pytest.mark.parametrize("processes", [1, 3])
def test_forces_are_those_of_newton_on_any_number_of_processes(name: str, processes: int) -> None:
    posed = truss(name)
    newton, parallel = posed.solve("newton"), posed.solve(petsc.PETSc(processes))
    assert parallel.ok, str(parallel.certificate)
    np.testing.assert_allclose(parallel.f, newton.f, rtol=0, atol=1e-9 * newton.f.max())
    assert f"on {processes} processes" in parallel.provenance["how"]
    there = float(re.search(r"there (\S+)$", parallel.provenance["how"])[1])
    assert there < 1e-9
    assert parallel.certificate.worst <= 1.1 * there


@needed
@pytest.mark.slow
def test_a_truss_that_ends_early_or_does_not_start_says_so(tmp_path: Path) -> None:
    posed = truss("pyramid-hertz:n=4")
    early = posed.solve(petsc.PETSc(max_steps=1), check=False)
    assert not early.ok
    assert early.status == "iteration limit"
    assert "json" in str(petsc.solve_folder(tmp_path, 1))
    assert petsc.solve_folder(tmp_path, 1, 0.01) == "time limit"


def test_processes_that_share_nothing_are_a_failure(monkeypatch, tmp_path: Path) -> None:
    """As another MPI's mpiexec starts them."""
    launcher = tmp_path / "mpiexec"
    launcher.write_text("#!/bin/sh\nexit 0\n")
    launcher.chmod(0o755)
    (tmp_path / "answer.json").write_text(json.dumps({"processes": 1}))
    monkeypatch.setattr(petsc, "python", lambda: str(tmp_path / "python3"))
    assert "another MPI" in str(petsc.solve_folder(tmp_path, 2))
    assert petsc.solve_folder(tmp_path, 1) is None
