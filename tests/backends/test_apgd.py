"""Accelerated projected gradients: forces of least norm, and the proximal operator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from population import friction_population

import cdopt
from cdopt._util.sparse_rows import factor_parts
from cdopt.backends import apgd, native, proximal_gradient
from cdopt.backends.network_problem import NetworkProblem, network_problem
from cdopt.problem import cone_rules
from cdopt.problem.solution import WarmStart


@pytest.mark.parametrize("name", ["beam-uniform", "beam-stiff-middle", "supports", "table"])
def test_from_zero_it_finds_the_forces_of_least_norm(name: str) -> None:
    """As long as none is held at zero: the beam gets 10/3 each, however stiff its middle."""
    cd = cdopt.ClassicCD(cdopt.bank.load(name).step)
    solution = cd.solve("apgd", accuracy=1e-12)
    least = np.linalg.pinv(cd.step.B.toarray().T) @ (cd.step.B.T @ solution.f)
    np.testing.assert_allclose(solution.f, least, atol=1e-9)
    if name.startswith("beam"):
        np.testing.assert_allclose(solution.f, 10 / 3, atol=1e-9)


def test_the_start_selects_among_indeterminate_forces() -> None:
    cd = cdopt.ClassicCD(cdopt.bank.load("beam-uniform").step)
    middle = cd.solve("pgs", order=(1, 0, 2))
    warm = cd.solve("apgd", warm_start=middle)
    np.testing.assert_allclose(warm.f, [0.0, 10.0, 0.0], atol=1e-9)
    assert warm.iterations == 0


@pytest.mark.parametrize("s", [1.0, 2 / 3, 1.0 / 3.0, 1.0 / 0.7, 4.0])
@pytest.mark.parametrize("a", [1e-8, 1.0, 1e8])
def test_the_proximal_operator_of_the_contact_energy(s: float, a: float) -> None:
    proximal = proximal_gradient._proximal.py_func
    for z in (1e-12, 1e-3, 1.0, 1e6):
        x = proximal(z, a, s)
        assert x > 0.0
        assert x + a * x**s == pytest.approx(z, rel=1e-12)
    assert proximal(-1.0, a, s) == proximal(0.0, a, s) == 0.0
    assert proximal(3.0, 0.0, s) == 3.0


def test_a_small_step_runs_in_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its loops are made for the threads of the run, not for those of the machine."""
    threads, minimise = [], proximal_gradient.ProximalGradient.minimise

    def recorded(self: proximal_gradient.ProximalGradient, *arguments: Any) -> bool:
        threads.append(self._threads)
        return minimise(self, *arguments)

    monkeypatch.setattr(proximal_gradient.ProximalGradient, "minimise", recorded)
    assert cdopt.ClassicCD(cdopt.bank.load("pyramid-hooke:n=8").step).solve("apgd").ok
    assert set(threads) == {None}


def test_with_friction_it_goes_on_as_long_as_it_promises_to_end() -> None:
    arch = cdopt.FrictionalCD(cdopt.bank.load("rough-arch").step)
    first = arch.solve(cdopt.backends.APGD(100, 1e-13), check=False)
    assert first.iterations == 100
    assert first.certificate.worst > 1e-8
    more = arch.solve(cdopt.backends.APGD(100, 1e-13, further=2_000), tol=1e-8)
    assert 100 < more.iterations < 2_000
    assert more.ok


@pytest.mark.parametrize(("index", "law"), [(77, "coulomb"), (89, "coulomb"), (89, "associated")])
def test_two_runs_are_one_where_the_second_resumes_the_first(index: int, law: str) -> None:
    """Also where Coulomb's shift has been slowed; their forces alone are another start."""
    problem = network_problem(cdopt.FrictionalCD(friction_population.member(index)[1], law).data)

    def steps(start: WarmStart | None, count: int, resume: bool) -> native.Run:
        run = native.Run("not ended", "failed", None, start=start)
        return cdopt.backends.APGD(count, 1e-13, resume=resume)._solve(problem, run)

    whole = steps(None, 800, False)
    near = WarmStart(steps(None, 400, False).forces, None, problem.contact_ids)
    second = steps(near, 400, True)
    assert np.array_equal(second.forces, whole.forces)
    steps(None, 400, False)
    assert not np.array_equal(steps(near, 400, False).forces, whole.forces)


def test_a_start_that_is_the_answer_needs_no_iteration() -> None:
    """No network is made ready for it."""
    _, step = friction_population.member(9)
    problem = cdopt.FrictionalCD(step)
    first = problem.solve("apgd", tol=1e-8)
    assert first.iterations == 0
    assert not np.any(first.f)
    posed = network_problem(problem.data)
    run = native.Run("not ended", "failed", None)
    assert cdopt.backends.APGD()._solve(posed, run).iterations == 0
    assert not any("apgd" in str(key) for key in posed.cache)


def test_certificates_missed_narrowly_end_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """After several, further steps go on to a share of the accuracy."""
    problem = network_problem(cdopt.FrictionalCD(cdopt.bank.load("rough-arch").step).data)
    asked = list[float]()

    def stricter(self: NetworkProblem, f: np.ndarray, doubt: float = np.inf) -> float:
        asked.append(doubt)
        return 1.01 * doubt if len(asked) <= 6 else 0.5 * doubt

    monkeypatch.setattr(NetworkProblem, "worst", stricter)
    monkeypatch.setattr(apgd, "_AHEAD", 0.0)
    monkeypatch.setattr(apgd, "promising", lambda *rates: True)
    run = native.Run("not ended", "failed", None)
    ended = cdopt.backends.APGD(20, 1e-2, further=20_000)._solve(problem, run)
    assert len(asked) == 7
    assert min(ended.residuals) <= 1e-2


@pytest.mark.parametrize(
    ("least", "goes_on"),
    [([1.0, 0.1, 1e-2, 1e-3], True), ([1.0, 0.9, 0.8, 0.7], False), ([1.0, 1e-11], True)],
)
def test_the_promise_is_the_rate_of_the_later_half(least: list[float], goes_on: bool) -> None:
    assert native.promising(least, 1e-10, 12) is goes_on
    assert not goes_on or native.promising([*least[:-1], 1e-11], 1e-10, len(least))


def test_it_goes_on_until_the_certificate_meets_the_accuracy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In one run, with its momentum: the residual of some steps of a fall is met long before."""
    tests, minimise = [], proximal_gradient.ProximalGradient.minimise

    def recorded(self: proximal_gradient.ProximalGradient, *arguments: Any) -> bool:
        tests.append((self.steps, arguments[0]))
        return minimise(self, *arguments)

    monkeypatch.setattr(proximal_gradient.ProximalGradient, "minimise", recorded)
    monkeypatch.setattr(apgd, "_AHEAD", 1.0)  # so that certificates come before more steps
    fall = cdopt.simulate(cdopt.scene.pyramid(5), 1e-3, 0.015, "classic-cd")
    assert fall.diagnostics["residual_classic"].max() <= 1e-8
    assert any(steps > 0 and tolerance < 1e-8 for steps, tolerance in tests)
    count = len(tests)
    monkeypatch.undo()
    monkeypatch.setattr(proximal_gradient.ProximalGradient, "minimise", recorded)
    cdopt.simulate(cdopt.scene.pyramid(5), 1e-3, 0.015, "classic-cd")
    assert len(tests) - count < count  # these steps spare certificates


@pytest.mark.parametrize(
    ("count", "dofs"), [(50, 6), (900, 2), pytest.param(900, 3, marks=pytest.mark.slow), (900, 6)]
)
def test_products_by_threes_of_columns_are_those_of_the_matrices(count: int, dofs: int) -> None:
    """Large matrices of bodies with three or six degrees of freedom are stored so, others not."""
    random = np.random.default_rng(count + dofs)
    pairs = random.integers(0, count, (4 * count, 2)) * dofs
    columns = (pairs[:, :, None] + np.arange(dofs)).reshape(4 * count, -1)
    rows = np.repeat(np.arange(4 * count), 2 * dofs)
    R, S = (
        sp.csr_array((random.standard_normal(rows.size), (rows, columns.ravel()))) for _ in range(2)
    )
    f, h, diagonal = random.random(4 * count), random.random(4 * count), np.ones(4 * count)
    for spread in (S, R):
        parts, transposed = factor_parts(R, spread)
        descent = proximal_gradient.ProximalGradient(
            proximal_gradient.Terms(*parts, diagonal, h), transposed, f
        )
        descent.refresh()
        np.testing.assert_allclose(descent.rates, R @ (spread.T @ f) + h, rtol=1e-9, atol=1e-9)
        assert (transposed[2].ndim == 3) is (count == 900 and dofs != 2)


def test_units_of_rows_leave_what_is_in_a_cone_there() -> None:
    """Of all cones: forces on the boundary of K, in units of each row, are in the steeper cone."""
    random = np.random.default_rng(1)
    step = cdopt.bank.load("rough-pile:n=3").step
    spin = step.friction.B_t[: step.nc] * 0.3
    mu = random.uniform(0.1, 2.0, step.nc)
    for cone in ("product", "elliptic"):
        friction = cdopt.Friction(mu, step.friction.B_t, torsion=0.5 * mu, B_r=spin, cone=cone)
        problem = network_problem(cdopt.FrictionalCD(step.replace(friction=friction)).data)
        root, _, descent = apgd._in_root_units(problem)
        terms = descent.terms
        assert np.ptp(root, axis=1).min() > 0.0
        f = problem.project(random.normal(size=root.shape))
        forces = root * f
        assert cone_rules.project(forces, terms.rules, terms.coefficients) == pytest.approx(forces)
        outside = forces.copy()
        outside[:, 1:] = 1.1 * outside[:, 1:] + 0.1
        assert (cone_rules.project(outside, terms.rules, terms.coefficients) != outside).any()


@pytest.mark.parametrize("law", [pytest.param("associated", marks=pytest.mark.slow), "coulomb"])
def test_units_of_rows_spare_steps_of_spheres(law: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sphere gives way 3.5 times as far to friction as to a normal force; checks by twenties."""
    pile = cdopt.FrictionalCD(cdopt.bank.load("rough-pile:n=12").step, law)
    own = pile.solve("apgd", tol=1e-8)

    def of_contacts(problem: NetworkProblem, *cones: Any) -> Any:
        return np.repeat(problem.weight[:, None], problem.d, axis=1)

    monkeypatch.setattr(apgd, "_units", of_contacts)
    other = cdopt.FrictionalCD(cdopt.bank.load("rough-pile:n=12").step, law).solve("apgd", tol=1e-8)
    assert own.ok
    assert other.ok
    assert own.iterations < 0.85 * other.iterations


def test_a_large_pile_at_rest_takes_the_steps_of_the_associated_law(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its rates are zero in the end, and with them the shift."""
    step = cdopt.bank.load("rough-pile:n=12").step
    steps = [cdopt.FrictionalCD(step, "associated").solve("apgd", accuracy=1e-6).iterations]
    for many in (step.nc, step.nc + 1):
        monkeypatch.setattr(apgd, "_MANY", many)
        steps.append(cdopt.FrictionalCD(step).solve("apgd", accuracy=1e-6).iterations)
    assert steps[0] == steps[1] < steps[2]
