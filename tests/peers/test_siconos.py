"""Siconos' solvers judged by our certificate, what they say apart from what it is worth."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import cdopt
from cdopt.interop import siconos
from cdopt.interop.siconos import FRICTION_SOLVERS, SOLVERS, Siconos, SiconosFriction

needed = pytest.mark.usefixtures("installed")
PIVOTING = ("LEMKE", "PIVOT", "PIVOT_LUMOD", "PATHSEARCH", "BARD", "MURTY", "AVI_CAOFERRIS", "ENUM")
ITERATING = ("PGS", "RPGS", "PSOR", "CPG", "CONVEXQP_PG", "LATIN", "NEWTON_FB_FBLSA")
QUICK = ("LEMKE", "ENUM", "PGS", "LATIN")  # each starts a process; the others are slow tests
ABSENT = ("NSGS_SBM", "NSQP", "QP", "GAMS")  # in Debian's build, or for dense matrices


@pytest.fixture
def installed() -> None:
    """Asked when a test runs: it takes processes."""
    missing = siconos.why_unavailable()
    if missing is not None:
        pytest.skip(missing)


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], object]:
    """Puts another program in the place of Siconos, in this Python."""
    path = tmp_path / "program.py"
    monkeypatch.setattr(siconos, "python", lambda: sys.executable)
    monkeypatch.setattr(siconos, "_PROGRAM", path)
    names = [f"LCP_{name}" for name in SOLVERS]
    names += [f"FRICTION_{d}D_{name}" for d in (2, 3) for name in FRICTION_SOLVERS]
    monkeypatch.setattr(siconos, "working", lambda: frozenset(names))
    given = "import sys, numpy as np\ngiven = np.load(sys.argv[1])\n"
    return lambda program: path.write_text(given + program)


ANSWER = (
    "np.savez(sys.argv[2], z={z}, w=given['q'], info={info}, iterations=3, error=0.0, tol=1e-6,"
    " seconds=0.5)\n"
)


NUMERICS = """
import sys
from types import SimpleNamespace
SICONOS_LCP_LEMKE, SICONOS_LCP_QP, SICONOS_FRICTION_3D_NSGS = 1, 2, 3
def LCP(M, q):
    return q
def FrictionContactProblem(d, contacts, M, q, mu):
    assert (d, contacts, M.shape, mu.shape) == (3, 2, (6, 6), (2,))
def fc3d_driver(problem, r, u, options):
    return 0
def SolverOptions(number):
    return SimpleNamespace(number=number, iparam=[0, 0], dparam=[0.0, 0.0])
def linearComplementarity_driver(problem, z, w, options):
    if options.number == SICONOS_LCP_QP:
        sys.exit("no such solver")
    return 0
"""


# --- with Siconos ----------------------------------------------------------------------


@needed
@pytest.mark.parametrize(
    "solver",
    [
        pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow])
        for name in PIVOTING + ITERATING
    ],
)
def test_solvers_find_the_beams_motion(solver: str) -> None:
    step = cdopt.bank.load("beam-stiff-middle").step
    accuracy = 1e-9 if solver in ITERATING else None
    solution = cdopt.ClassicCD(step).solve(Siconos(solver, accuracy=accuracy))
    assert solution.claimed
    assert solution.ok
    assert solution.provenance["settings"] == ({"tolerance": accuracy} if accuracy else {})
    np.testing.assert_allclose(step.B.T @ solution.f, [10.0, 0.0], atol=1e-5)
    assert solution.backend == "siconos-" + solver.lower().replace("_", "-")


@pytest.mark.slow
@needed
def test_each_selects_a_force_of_its_own_and_units_change_no_word() -> None:
    """Siconos' tolerances are absolute; our units make them relative."""
    step = cdopt.bank.load("beam-stiff-middle").step
    middle = {s: cdopt.ClassicCD(step).solve(Siconos(s)).f[1] for s in ("LEMKE", "BARD", "CPG")}
    assert middle["LEMKE"] == pytest.approx(10.0)
    assert middle["CPG"] == pytest.approx(10.0 / 3.0)
    assert middle["CPG"] + 0.5 < middle["BARD"] < middle["LEMKE"] + 1e-9  # by version
    step = cdopt.bank.load("table").step
    small = step.replace(M=step.M * 1e-9, F_ext=step.F_ext * 1e-9)
    for solver in ("PGS", "LATIN"):
        one = cdopt.ClassicCD(step).solve(Siconos(solver), check=False)
        other = cdopt.ClassicCD(small).solve(Siconos(solver), check=False)
        assert other.iterations == one.iterations
        np.testing.assert_allclose(other.f * 1e9, one.f, rtol=1e-9)


@needed
@pytest.mark.parametrize("solver", ABSENT)
def test_solvers_that_are_not_there_are_not_offered(solver: str) -> None:
    assert solver not in siconos.solvers()
    with pytest.raises(cdopt.BackendUnavailable, match=f"has no {solver}; it has .*LEMKE"):
        Siconos(solver)


def test_only_solvers_of_this_build_are_offered(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "siconos").mkdir()
    (tmp_path / "siconos" / "__init__.py").touch()
    (tmp_path / "siconos" / "numerics.py").write_text(NUMERICS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(siconos, "python", lambda: sys.executable)
    siconos.working.cache_clear()
    try:
        assert siconos.solvers() == ("LEMKE",)
        assert siconos.friction_solvers() == siconos.friction_solvers(3) == ("NSGS",)
        assert siconos.friction_solvers(2) == ()
        assert list(siconos.makers()) == ["siconos-lemke", "siconos-friction-nsgs"]
        with pytest.raises(cdopt.BackendUnavailable, match="has no QP; it has LEMKE"):
            Siconos("QP")
    finally:
        siconos.working.cache_clear()


@needed
@pytest.mark.parametrize(
    ("problem", "solver", "law"),
    [
        ("incline", "NSGS", "coulomb"),
        ("siconos-rover1039", "NSN_AC", "coulomb"),
        ("rough-pile:n=3", "ADMM", "coulomb"),
        ("rough-pile:n=3", "SOCLCP", "associated"),
    ],
)
def test_solvers_with_friction_find_the_motion(problem: str, solver: str, law: str) -> None:
    step = cdopt.bank.load(problem).step
    cd = cdopt.FrictionalCD(step, law)
    solution = cd.solve(SiconosFriction(solver, accuracy=1e-9))
    assert solution.claimed
    assert solution.ok
    assert solution.backend == "siconos-friction-" + solver.lower().replace("_", "-")
    rates = cd.data.gap(solution.iterate.motion, solution.iterate.forces)
    exact = cd.solve("newton").iterate
    np.testing.assert_allclose(
        rates, cd.data.gap(exact.motion, exact.forces), atol=1e-5 * cd.data.speed.max()
    )


def test_laws_and_dimensions_that_a_solver_has_not_are_refused(pretend, monkeypatch) -> None:
    pretend("")
    plane, space = (cdopt.bank.load(name).step for name in ("incline", "incline:dim=3"))
    with pytest.raises(cdopt.Unsupported, match="coulomb"):
        cdopt.FrictionalCD(plane, "associated").solve(SiconosFriction("NSGS"))
    with pytest.raises(cdopt.Unsupported, match="associated"):
        cdopt.FrictionalCD(space).solve(SiconosFriction("SOCLCP"))
    with pytest.raises(cdopt.Unsupported, match="friction"):
        cdopt.ClassicCD(plane.without_friction()).solve(SiconosFriction("NSGS"))
    with pytest.raises(cdopt.Unsupported, match="rigid"):
        cdopt.FrictionalCD(space).solve(Siconos("PGS"))
    monkeypatch.setattr(siconos, "working", lambda: frozenset({"FRICTION_3D_PROX"}))
    with pytest.raises(cdopt.Unsupported, match="in the plane"):
        cdopt.FrictionalCD(plane).solve(SiconosFriction("PROX"))
    with pytest.raises(cdopt.InvalidInput, match="solver"):
        SiconosFriction("LCP_PGS")


def test_as_many_contacts_as_enumeration_takes(pretend) -> None:
    pretend("")
    with pytest.raises(cdopt.Unsupported, match="at most 16"):
        cdopt.ClassicCD(cdopt.bank.load("supports:n=20").step).solve(Siconos("ENUM"))
    with pytest.raises(cdopt.Unsupported):
        cdopt.NoTensionTruss(np.ones((2, 1)), np.ones(1)).solve(Siconos("LEMKE"))


# --- without it ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("z", "info", "claimed", "ok"),
    [
        ("np.full(given['q'].size, np.nan)", 0, True, False),
        ("0.0 * given['q']", 0, True, False),
        ("np.linalg.lstsq(given['M'], -given['q'])[0]", 1, False, True),
    ],
)
def test_claims_and_certificates_are_reported_apart(
    pretend, z: str, info: int, claimed: bool, ok: bool
) -> None:
    pretend(ANSWER.format(z=z, info=info))
    solution = cdopt.ClassicCD(cdopt.bank.load("table").step).solve(Siconos("PGS"))
    assert (solution.claimed, solution.ok) == (claimed, ok)
    assert solution.timings["solve"] == 0.5
    assert ("not a number" in solution.status) == ("nan" in z)


def test_a_solver_that_fails_raises(pretend) -> None:
    pretend(ANSWER.format(z="0.0 * given['q']", info=1))
    with pytest.raises(cdopt.SolveFailed, match="solver status 'info 1'"):
        cdopt.ClassicCD(cdopt.bank.load("table").step).solve(Siconos("PGS"))


@pytest.mark.parametrize(
    ("program", "limit", "expected"),
    [
        ("raise RuntimeError('broken')", 600.0, "code 1: RuntimeError: broken"),
        ("import os; os.kill(os.getpid(), 11)", 600.0, "code -11: without a message"),
        # it waits until it is ended: however slow the machine, the limit is reached
        ("import threading; threading.Event().wait()", 0.1, "no answer within 0.1 s"),
    ],
)
def test_processes_that_end_badly_or_never(pretend, program, limit, expected) -> None:
    pretend(program + "\n")
    step = cdopt.bank.load("table").step
    failed = cdopt.ClassicCD(step).solve(Siconos("PGS", time_limit=limit), check=False)
    assert failed.status.removeprefix("the process ended with ") == expected
    assert not failed.claimed
    assert failed.iterate is None


def test_what_the_process_is_given(pretend, tmp_path: Path) -> None:
    kept = tmp_path / "kept.npz"
    program = f"np.savez({str(kept)!r}, **given)\nsys.exit(3)\n"
    pretend(program)
    step = cdopt.bank.load("pyramid-falling").step
    cdopt.ClassicCD(step).solve(Siconos("PATH", accuracy=1e-4), check=False)
    with np.load(kept) as given:
        assert (str(given["solver"]), float(given["tolerance"])) == ("LCP_PATH", 1e-4)
        M, q = given["M"], given["q"]
    np.testing.assert_array_equal(M, M.T)
    data = cdopt.problem.rigid_data(step)
    N = step.N.toarray()
    np.testing.assert_allclose(M, N * data.force[None, :] / data.speed[:, None], rtol=1e-9,
                               atol=1e-12)  # fmt: skip
    np.testing.assert_allclose(q, step.p_vec / data.speed, rtol=1e-12)


def test_absence_is_told_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(siconos, "python", lambda: None)
    assert "apt-get install python3-siconos" in siconos.why_unavailable()
    with pytest.raises(cdopt.BackendUnavailable, match=r"siconos-lemke.*python3-siconos"):
        Siconos("LEMKE")
    for solver, accuracy, argument in (("SIMPLEX", None, "solver"), ("LEMKE", 0.0, "accuracy")):
        with pytest.raises(cdopt.InvalidInput, match=argument):
            Siconos(solver, accuracy)


def test_every_solver_is_a_plugin_of_studies(pretend) -> None:
    pretend("")
    makers = siconos.makers()
    assert len(makers) == len(SOLVERS) + len(FRICTION_SOLVERS) == 23 + 18
    for name, maker in makers.items():
        backend = maker(1e-6)
        assert isinstance(backend, cdopt.backends.Backend)
        assert (backend.name, backend.accuracy) == (name, 1e-6)
