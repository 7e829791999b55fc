from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import beam, random_step
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import cdopt
from cdopt.problem.active_set import first_step


@pytest.mark.parametrize(
    ("backend", "classic"), [("clarabel", "scs"), ("osqp", "clarabel"), ("newton", "osqp")]
)
def test_any_pair_of_backends_gives_the_same_forces(backend: str, classic: str) -> None:
    for stiffness, expected in ((1.0, [10 / 3] * 3), ([1, 3, 1], [2.0, 6.0, 2.0])):
        solution = cdopt.CompatibleCD(beam(stiffness)).solve(backend, classic=classic)
        np.testing.assert_allclose(solution.f, expected, rtol=2e-5)
        assert solution.classic.backend == classic
        assert solution.backend == backend
        assert set(solution.certificates) == {"classic", "forces"}


def test_open_contacts_carry_nothing() -> None:
    """Trap 1: (36) on all detected contacts would put 3.33 on the open support."""
    solution = cdopt.CompatibleCD(beam(phi=[0.0, 1e-3, 0.0])).solve("clarabel")
    np.testing.assert_allclose(solution.f, [5.0, 0.0, 5.0], atol=1e-6)
    assert solution.provenance["closed"]["contacts"] == 2
    assert solution.ok


def test_closed_contacts_without_classic_force_stay_in() -> None:
    """A vertex of the face, (5, 0, 5), must not keep the middle support from its share."""
    step = beam()
    compatible = cdopt.CompatibleCD(step)
    cd = cdopt.ClassicCD(step)
    vertex = cd.with_constraints(cd.forces[1] == 0).solve("clarabel")
    assert vertex.f[1] == pytest.approx(0.0, abs=1e-6)
    solution = compatible.solve("clarabel", classic=vertex)
    np.testing.assert_allclose(solution.f, 10 / 3, rtol=1e-6)


@pytest.mark.slow
@settings(max_examples=12)
@given(st.integers(0, 10_000), st.sampled_from([2.0, 2.5]))
def test_compatible_forces_are_admissible_and_cheapest(seed: int, power: float) -> None:
    """They deliver the classic load, and cost no more elastic energy than the classic forces."""
    step = random_step(seed)
    formulation = cdopt.CompatibleCD(step, power)
    sharp = cdopt.backends.Modelled("clarabel", accuracy=1e-9)
    solution = formulation.solve(sharp, check=False)
    assume(solution.f is not None)  # failures of Clarabel are not cdopt's
    network = formulation.network(solution.classic)
    load = network.contact_load
    scale = np.abs(load).max() + 1e-3
    np.testing.assert_allclose(step.B.T @ solution.f, load, atol=1e-6 * scale)
    again = cdopt.ClassicCD(step).solve("newton")  # Clarabel's first step is solved again as well
    np.testing.assert_allclose(load, step.B.T @ again.f, atol=1e-9 * scale)
    assert network.projected < 1e-4
    assert (solution.f >= -1e-7 * (1.0 + np.abs(solution.f).max())).all()
    truss, closed = formulation.truss(network).data, network.contacts
    ours = truss.force_objective(solution.f[closed]).sum()
    theirs = truss.force_objective(solution.classic.f[closed]).sum()
    assert ours <= theirs * (1 + 1e-6) + 1e-12


@pytest.mark.parametrize("power", [2.0, 2.5])
def test_n_and_p_alone_give_the_same_forces(power: float) -> None:
    """Trap 9."""
    step = beam(stiffness=[1, 3, 1])
    rows = cdopt.ContactStep.from_delassus(step.N, step.p_vec, dt=step.dt, stiffness=[1, 3, 1])
    solution = cdopt.CompatibleCD(rows, power).solve("clarabel", accuracy=1e-12)
    assert solution.ok
    assert solution.v_next is None
    np.testing.assert_allclose(solution.f, [2.0, 6.0, 2.0], rtol=1e-5)


def test_impulses_when_the_time_step_is_one() -> None:
    """FCLib's convention: W = N/Δt, r = Δt f."""
    step = beam()
    rows = cdopt.ContactStep.from_delassus(step.N / step.dt, step.p_vec)
    solution = cdopt.CompatibleCD(rows).solve("clarabel")
    np.testing.assert_allclose(solution.f, step.dt * 10 / 3, rtol=1e-6)


def test_the_projection_of_the_load_is_reported() -> None:
    solution = cdopt.CompatibleCD(beam()).solve("clarabel")
    closed = solution.provenance["closed"]
    assert 0.0 <= closed["projected"] < 1e-6
    assert closed["tol"] >= 1e-7
    first, second = solution.classic.provenance, solution.provenance
    assert first["settings"] == second["settings"]  # given once, for both steps
    tight = cdopt.CompatibleCD(beam(), closed_tol=1e-3).solve("clarabel")
    assert tight.provenance["closed"]["tol"] == 1e-3


@pytest.mark.parametrize("form", ["complementary", "potential"])
@pytest.mark.parametrize("classic_form", ["force", "velocity"])
def test_all_four_pairs_of_forms(form: str, classic_form: str) -> None:
    solution = cdopt.CompatibleCD(beam([1, 3, 1]), form=form, classic_form=classic_form).solve()
    np.testing.assert_allclose(solution.f, [2.0, 6.0, 2.0], rtol=1e-6)
    assert solution.ok


def test_a_jammed_step_fails_in_its_first_half() -> None:
    squeezed = cdopt.ContactStep([[1.0]], [[1.0], [-1.0]], [-0.01, -0.02], [0.0], [0.0], 1e-3)
    with pytest.raises(cdopt.SolveFailed, match="rigid step infeasible"):
        cdopt.CompatibleCD(squeezed).solve("clarabel")
    assert cdopt.CompatibleCD(squeezed).solve("clarabel", check=False).f is None


@pytest.mark.parametrize("sigma", [2.0**-10, 2.0**-17, 2.0**-23])
@pytest.mark.parametrize("classic", ["newton", "pgs", "apgd", "osqp", "clarabel"])
def test_supports_close_together_have_their_own_forces(sigma: float, classic: str) -> None:
    """Both are determined; errors of gaps change them by 1/σ², whoever solves the first step."""
    B, f, dt = np.array([[1, 0.5], [1, 0.5 + sigma]]), np.array([3072.0, 1024.0]), 2.0**-10
    step = cdopt.ContactStep(np.eye(2), B, [0, 0], -dt * (B.T @ f), [0, 0], dt, dof_body=[0, 0])
    solution = cdopt.CompatibleCD(step).solve("newton", classic=classic, check=False)
    assert solution.ok
    np.testing.assert_allclose(solution.f, f, rtol=1e-6)
    report = cdopt.indeterminacy(step, solution=solution.classic)
    assert report.unique.all()
    for values in (report.force, report.lower, report.upper):
        np.testing.assert_allclose(values, f, rtol=1e-6)


@pytest.mark.parametrize("sigma", [2.0**-10, 2.0**-14, 2.0**-17])
def test_supports_close_together_known_by_n_alone_have_wide_bounds(sigma: float) -> None:
    """Round-off of N f + p is magnified by 1/σ²: bounds contain it, and no such force is unique."""
    B, f, dt = np.array([[1, 0.5], [1, 0.5 + sigma]]), np.array([3072.0, 1024.0]), 2.0**-10
    N = dt * B @ B.T
    step = cdopt.ContactStep.from_delassus(N, -N @ f, dt)
    solution = cdopt.CompatibleCD(step).solve("newton", classic="newton", check=False)
    report = cdopt.indeterminacy(step, solution=solution.classic)
    assert np.all(report.lower <= f * (1 + 1e-9))
    assert np.all(report.upper >= f * (1 - 1e-9))
    known = sigma > 2.0**-12
    assert solution.ok == known
    assert report.unique.all() == known
    assert report.unique.any() == known
    if known:
        np.testing.assert_allclose(report.upper - report.lower, 0.0, atol=1e-3)


def test_what_a_truss_does_not_deliver_counts_magnified() -> None:
    """An imbalance of 1e-5 is the whole force where supports are 1e-5 apart."""
    B, f = sp.csr_array(np.array([[1, 0.5], [1, 0.5 + 1e-5]])), np.array([2.0, 2.0])
    data, error = cdopt.NoTensionTruss(B, B.T @ f).data, np.array([1.0, -1.0])
    assert np.abs(B.T @ error).max() < 1.1e-5
    at = np.zeros(2), f + error, np.zeros(2)
    made = first_step(data, *at, sp.eye_array(2, format="csr"))
    np.testing.assert_allclose(made.error, 1.0, rtol=1e-9)
    assert not first_step(data, *at, sp.csr_array((2, 0))).error.any()


@pytest.mark.parametrize("sigma", [2.0**-10, 2.0**-17])
@pytest.mark.parametrize("law", ["coulomb", "associated"])
@pytest.mark.parametrize("solver", ["newton", "apgd", "nsgs"])
@pytest.mark.parametrize("held", [False, True])
def test_the_same_with_friction(sigma: float, law: str, solver: str, held: bool) -> None:
    """Of the supports one may also slide under the motion: where it is not held."""
    B = np.array([[1, 0.5, 0], [1, 0.5 + sigma, 0]])
    f, dt, across = np.array([3072.0, 1024.0]), 2.0**-10, np.tile([0.0, 0.0, 1.0], (2, 1))
    drag = 0.0 if held else 0.25 * (law == "coulomb")
    moves = -dt * (B.T @ f + [0, 0, -drag * f.sum()]) + [0, 0, 0 if held else 1.0]
    step = cdopt.ContactStep(
        np.eye(3), B, [0, 0], moves, np.zeros(3), dt, dof_body=[0, 0, 0],
        friction=cdopt.Friction(0.25 if held or law == "coulomb" else 0.0, across),
    )  # fmt: skip
    rest = cdopt.FrictionalCD(step, law=law).solve(solver, check=False)
    assert rest.ok
    forces = cdopt.CompatibleFriction(step, law, flow="associated").solve(rest)
    assert forces.ok
    np.testing.assert_allclose(forces.f, f, rtol=1e-6)
    assert "first step" in str(forces.certificate)
    report = cdopt.indeterminacy(step, law=law, solution=rest)
    for values in (report.force, report.lower, report.upper):
        np.testing.assert_allclose(values, f, rtol=1e-6)


@pytest.mark.parametrize("sigma", [2.0**-4, 2.0**-10, 2.0**-17])
@pytest.mark.parametrize("law", ["coulomb", "associated"])
@pytest.mark.parametrize("solver", ["newton", "apgd"])
def test_the_same_with_friction_known_by_n_alone(sigma: float, law: str, solver: str) -> None:
    """Forces are solved again, and certificates and bounds contain the round-off of N f + p."""
    B = np.array([[1, 0.5, 0], [0, 0, 1], [1, 0.5 + sigma, 0], [0, 0, 1]])
    f, dt = np.array([3072.0, 0.0, 1024.0, 0.0]), 2.0**-10
    N = dt * B @ B.T
    step = cdopt.ContactStep.from_delassus(N, -N @ f, dt, friction=cdopt.Friction([0.25] * 2))
    rest = cdopt.FrictionalCD(step, law=law).solve(solver, check=False)
    assert rest.ok
    forces = cdopt.CompatibleFriction(step, law, flow="associated").solve(rest)
    np.testing.assert_allclose(forces.f, f[::2], rtol=1e-6)
    assert forces.ok == (sigma > 2.0**-8)
    report = cdopt.indeterminacy(step, law=law, solution=rest)
    assert not np.any(report.lower > f[::2] * (1 + 1e-6))
    assert not np.any(report.upper < f[::2] * (1 - 1e-6))


@pytest.mark.parametrize(
    ("law", "bodies"), [(None, 110), (None, 1600), ("coulomb", 300), ("associated", 300)]
)
def test_supports_close_together_below_a_tall_column(law: str | None, bodies: int) -> None:
    """More contacts than dense matrices take: sparse factors find the same forces."""
    (B, across), sigma = np.zeros((2, 2 + bodies, 3 + bodies)), 2.0**-17
    B[:2, :2], across[:2, 2] = [[1, 0.5], [1, 0.5 + sigma]], 1.0
    B[2:, 3:] = np.eye(bodies) - np.eye(bodies, k=-1)
    B[2, :2] = [-1.0, -0.5]
    f = np.append([3072.0, 1024.0], 16.0 * np.arange(bodies, 0.0, -1.0))
    step = cdopt.ContactStep(
        np.eye(3 + bodies), B, np.zeros(2 + bodies), np.zeros(3 + bodies), -(B.T @ f), 2.0**-10,
        dof_body=np.append([0, 0, 0], 1 + np.arange(bodies)),
        friction=None if law is None else cdopt.Friction(0.5, across),
    )  # fmt: skip
    if law is None:
        forces = cdopt.CompatibleCD(step).solve("newton", classic="newton")
    else:
        rest = cdopt.FrictionalCD(step, law=law).solve("newton")
        forces = cdopt.CompatibleFriction(step, law, flow="associated").solve(rest)
    assert forces.ok
    np.testing.assert_allclose(forces.f, f, rtol=0.0, atol=1e-6 * f.max())


def pile_on_a_table(law: str | None, layers: int) -> tuple[cdopt.ContactStep, np.ndarray]:
    """A large pile of spheres, one of them on a table on two supports 2⁻¹⁸ apart; their forces."""
    scene = cdopt.scene.pyramid(layers, separation=0.0)
    contacts = cdopt.collision.detect(scene, scene.initial)
    mu = None if law is None else 0.5
    pile = cdopt.collision.step(scene, scene.initial, contacts, dt=2.0**-10, friction=mu)
    (nc, nv), mass = pile.B.shape, pile.M.diagonal()[0]
    rows = np.array([[1.0, 0.5, 0.0, 0.0], [1.0, 0.5 + 2.0**-18, 0.0, 0.0], [-1.0, -0.5, 0.0, 0.0]])
    sphere = sp.csr_array(([1.0], ([2], [2])), shape=(3, nv))
    B = sp.block_array([[pile.B, None], [sphere, rows]], format="csr")
    f = mass * np.array([3072.0, 1024.0])
    friction = None
    if pile.friction is not None:
        held = np.kron([[1.0], [1.0], [0.0]], np.eye(2, 4, k=2))
        across = sp.block_diag([pile.friction.B_t, held], format="csr")
        friction = cdopt.Friction(np.append(np.full(nc, mu), [0.5, 0.5, 0.0]), across)
    M, v = np.append(pile.M.diagonal(), np.full(4, mass)), np.append(pile.v, [0.0] * 4)
    return cdopt.ContactStep(
        sp.diags_array(M), B, np.append(pile.phi, [0.0] * 3), v,
        np.append(pile.F_ext, -rows[:2].T @ f), pile.dt, friction=friction,
        dof_body=np.append(pile.dof_body, np.full(4, pile.dof_body.max() + 1)),
    ), f  # fmt: skip


@pytest.mark.parametrize("classic", ["apgd", pytest.param("newton", marks=pytest.mark.slow)])
def test_supports_close_together_below_a_large_pile(classic: str) -> None:
    """Forces of more than 3,000 dofs are solved again where errors of gaps are magnified."""
    step, f = pile_on_a_table(None, 15)
    forces = cdopt.CompatibleCD(step).solve("newton", classic=classic)
    assert forces.ok
    assert np.abs(forces.classic.f[-3:-1] / f - 1.0).max() > 0.1
    np.testing.assert_allclose(forces.f[-3:-1], f, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("law", ["coulomb", "associated"])
def test_supports_close_together_below_a_large_pile_with_friction(law: str) -> None:
    """Forces are solved again, or their uncertainty is stated: wrong ones are not certified."""
    step, f = pile_on_a_table(law, 13)
    rest = cdopt.FrictionalCD(step, law).solve("newton")
    forces = cdopt.CompatibleFriction(step, law, flow="associated").solve(rest)
    assert np.abs(rest.f[-3:-1] / f - 1.0).max() > 0.1
    np.testing.assert_allclose(forces.f[-3:-1], f, rtol=1e-6 if forces.ok else 1e-4)


def test_the_certificate_is_the_one_that_fails() -> None:
    """Forces that are sharp on a motion that is not: ``certificate`` and ``ok`` agree."""
    solution = cdopt.CompatibleCD(beam()).solve()
    wrong = dataclasses.replace(solution.certificates["classic"], tol=1e-300)
    residual = dataclasses.replace(wrong.residuals[0], value=0.5)
    wrong = dataclasses.replace(wrong, residuals=(residual,), tol=1e-6)
    known = {"classic": wrong, "forces": solution.certificates["forces"]}
    failed = dataclasses.replace(solution, certificates=known)
    assert not failed.ok
    assert failed.certificate.worst == 0.5
    assert solution.certificate is solution.certificates["forces"]
