from __future__ import annotations

import numpy as np
import osqp
import pytest
import scipy.sparse as sp
from conftest import beam

import cdopt
from cdopt._util.errors import InvalidInput
from cdopt.backends import Direct, Modelled, available, resolve

STEPPERS = [
    name
    for name in available()
    if "QP" in resolve(name).capability.classes
    or "rigid step" in resolve(name).capability.structured
]


@pytest.fixture(scope="module")
def crystal() -> cdopt.ContactStep:
    return cdopt.bank.load("pyramid-hooke:n=6").step


@pytest.mark.parametrize("backend", STEPPERS)
def test_every_backend_solves_steps_and_takes_an_accuracy(
    backend: str, crystal: cdopt.ContactStep
) -> None:
    """Tighter must mean a smaller residual, or a solver that was exact already."""
    for form in ("force", "velocity"):
        solution = cdopt.ClassicCD(beam(), form).solve(backend, accuracy=1e-8)
        assert solution.ok, solution.certificate
        assert solution.claimed
        assert solution.backend == backend
        assert "solved" in solution.status.lower() or solution.status in ("kOptimal", "exit flag 1")
        assert set(solution.timings) == {"compile", "solve", "read", "certify"}
        assert solution.f.sum() == pytest.approx(10.0, rel=1e-5)
    cd = cdopt.ClassicCD(crystal, "velocity")
    loose = cd.solve(backend, accuracy=1e-2, check=False)
    tight = cd.solve(backend, accuracy=1e-9, check=False)
    assert tight.certificate.worst <= max(loose.certificate.worst, 1e-12)
    assert tight.certificate.worst < 1e-5
    asked = tight.provenance["settings"]
    assert any("1e-09" in str(v) or v == 1e-9 for v in asked.values())


def test_defaults_are_not_overridden_and_settings_go_wherever_a_name_goes() -> None:
    assert Modelled("clarabel").settings == {}
    assert cdopt.ClassicCD(beam()).solve("osqp").provenance["settings"] == {}
    mine = Modelled("osqp", accuracy=1e-7, options={"eps_abs": 1e-3})
    assert (mine.settings["eps_abs"], mine.settings["eps_rel"]) == (1e-3, 1e-7)
    by_name = cdopt.ClassicCD(beam()).solve("osqp", max_iter=3000)
    by_object = cdopt.ClassicCD(beam()).solve(Modelled("osqp", options={"max_iter": 3000}))
    np.testing.assert_array_equal(by_name.f, by_object.f)
    with pytest.raises(InvalidInput, match="options inside the object"):
        cdopt.ClassicCD(beam()).solve(Modelled("osqp"), max_iter=3000)


def test_osqp_gets_the_settings_asked_for_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    own = {"eps_abs": 1e-3, "eps_rel": 1e-3, "max_iter": 4000, "polishing": False}
    solver, eye = osqp.OSQP(), sp.csc_matrix(np.eye(1))
    solver.setup(eye, np.ones(1), eye, np.zeros(1), np.ones(1), verbose=False)
    assert own == {name: getattr(solver.settings, name) for name in own}
    received: list[dict[str, object]] = []
    setup = osqp.OSQP.setup

    def spy(solver: osqp.OSQP, *data: object, **given: object) -> object:
        received.append({key: value for key, value in given.items() if key not in "PqAlu"})
        return setup(solver, *data, **given)

    monkeypatch.setattr(osqp.OSQP, "setup", spy)
    cd = cdopt.ClassicCD(beam())
    silent = {"verbose": False, "polishing": True}
    usual = {**silent, "eps_abs": 1e-5, "eps_rel": 1e-5, "max_iter": 10_000}
    asked = {"eps_abs": 1e-7, "eps_rel": 1e-7, "max_iter": 200_000}
    for backend, options, expected in (
        ("osqp", {}, usual),  # CVXPY's own defaults
        ("osqp", {"rho": 0.2}, {**usual, "rho": 0.2}),
        ("osqp", {"accuracy": 1e-7}, {**usual, **asked}),
        ("osqp", {"warm_start": cd.solve("newton")}, usual),
        (Direct("osqp"), {}, {**silent, **own}),
        (Direct("osqp", 1e-7), {}, {**silent, **own, **asked}),
    ):
        cd.solve(backend, check=False, **options)
        assert received.pop() == expected
    assert not received


@pytest.mark.parametrize("backend", available())
def test_unknown_settings_never_pass_unnoticed(backend: str) -> None:
    """Some solvers drop settings they do not know; here every one says so."""
    with pytest.raises(InvalidInput, match="no_such"):
        cdopt.ClassicCD(beam()).solve(backend, no_such=3)


@pytest.mark.parametrize("backend", ["clarabel", "osqp", "scs", "piqp", "qoco", "moreau"])
def test_a_second_solve_equals_the_first(backend: str, crystal: cdopt.ContactStep) -> None:
    if backend not in available():
        pytest.skip(cdopt.backends.why_unavailable(backend))
    cd = cdopt.ClassicCD(crystal)
    first, second = cd.solve(backend), cd.solve(backend)
    np.testing.assert_array_equal(first.f, second.f)
    assert first.iterations == second.iterations


def test_warm_starts_are_matched_by_name(crystal: cdopt.ContactStep) -> None:
    """Today's contacts in another order, one new: forces follow their contacts."""
    named = crystal.replace(contact_ids=np.arange(crystal.nc))
    earlier = cdopt.ClassicCD(named).solve("osqp", accuracy=1e-6)
    order = np.random.default_rng(0).permutation(crystal.nc)
    today = cdopt.ClassicCD(named.select(order))
    warm = today.solve("osqp", accuracy=1e-6, warm_start=earlier)
    assert warm.iterations < today.solve("osqp", accuracy=1e-6).iterations
    fewer = cdopt.ClassicCD(crystal.select(order[1:]))
    with pytest.raises(InvalidInput, match="warm_start"):
        fewer.solve("osqp", warm_start=cdopt.ClassicCD(crystal).solve("osqp"))
    ignored = today.solve("clarabel", warm_start=earlier)
    assert ignored.provenance["warm_start"] == "not used by this backend"


def test_a_false_optimum_comes_out_not_ok() -> None:
    """HiGHS 1.15 calls f = 0 optimal on bound-only quadratic programs with a singular N."""
    lies = 0
    for n in range(3, 13):
        step = cdopt.bank.load("supports-delassus", n=n).step
        solution = cdopt.ClassicCD(step).solve("highs")
        if solution.claimed and not solution.f.any():
            lies += 1
            assert not solution.ok
            assert solution.certificate["penetration"] == pytest.approx(1.0)
        else:
            assert solution.ok
    assert lies > 0, "HiGHS solves these now: change its note in the registry"


def test_solutions_are_saved_and_read_back(tmp_path) -> None:
    solution = cdopt.CompatibleCD(beam([1, 3, 1])).solve("clarabel")
    solution.save(tmp_path / "solution.npz")
    again = cdopt.StepSolution.load(tmp_path / "solution.npz")
    for one, other in ((again, solution), (again.classic, solution.classic)):
        np.testing.assert_array_equal(one.f, other.f)
        np.testing.assert_array_equal(one.v_next, other.v_next)
        np.testing.assert_array_equal(one.iterate.forces, other.iterate.forces)
        assert one.certificates == other.certificates
        assert one.as_dict() == other.as_dict()
    assert again.ok
    with pytest.raises(InvalidInput):
        cdopt.StepSolution.load(tmp_path / "none.npz")


def test_a_backend_can_be_brought_along() -> None:
    """Anything with a name, a capability and a run: here one that lies."""

    class Liar:
        name = "liar"
        capability = cdopt.backends.Capability(structured=frozenset({"rigid step"}))

        def run(self, posed, warm_start, verbose):
            iterate = cdopt.problem.solution.Iterate(np.zeros(2), np.zeros(3))
            return cdopt.backends.RunResult("optimal, trust me", "solved", iterate, {})

    solution = cdopt.ClassicCD(beam()).solve(Liar())
    assert solution.claimed
    assert not solution.ok
    cd = cdopt.ClassicCD(beam())
    with pytest.raises(cdopt.Unsupported, match="no constraints beyond"):
        cd.with_constraints(cd.forces <= 4).solve(Liar())
    with pytest.raises(cdopt.Unsupported) as refusal:
        cdopt.NoTensionTruss(beam().B, [10.0, 0.0]).solve(Liar())
    assert "clarabel" in refusal.value.alternatives
