from __future__ import annotations

import logging

import numpy as np
import pytest
from conftest import beam, random_step

import cdopt
from cdopt._util.errors import InvalidInput, SolveFailed
from cdopt.backends import PGS, Modelled

STEPS = [
    name
    for name in cdopt.bank.names()
    if cdopt.bank.manifest(name).kind == "step" and cdopt.bank.manifest(name).feasible
]
CRAWLS = {"fclib-capsules", "fclib-spheres"}  # singular values of N over nine orders and more


def uniform() -> cdopt.ClassicCD:
    return cdopt.ClassicCD(cdopt.bank.load("beam-uniform").step)


@pytest.fixture(scope="module")
def crystal() -> cdopt.ClassicCD:
    return cdopt.ClassicCD(cdopt.bank.load("pyramid-falling").step)


@pytest.mark.parametrize("name", sorted(set(STEPS) - CRAWLS))
def test_the_bank_is_solved_with_the_motion_and_load_of_an_interior_point(name: str) -> None:
    step = cdopt.bank.load(name).step
    ours = cdopt.ClassicCD(step).solve("pgs")
    assert ours.claimed
    assert ours.status == "solved"
    assert ours.certificate.worst < 1e-6, ours.certificate
    form = "force" if isinstance(step, cdopt.DelassusStep) else "velocity"
    theirs = cdopt.ClassicCD(step, form).solve(Modelled("clarabel", accuracy=1e-11), check=False)
    data = cdopt.ClassicCD(step).data
    if isinstance(step, cdopt.DelassusStep):
        np.testing.assert_allclose(ours.gap / data.speed, theirs.gap / data.speed, atol=1e-5)
    else:
        unit = data.dof_speed
        np.testing.assert_allclose(ours.v_next / unit, theirs.v_next / unit, atol=1e-5)
        momentum = data.mass.diagonal * unit / step.dt
        load, expected = step.B.T @ ours.f, step.B.T @ theirs.f
        np.testing.assert_allclose(load / momentum, expected / momentum, atol=1e-5)


@pytest.mark.parametrize("name", sorted(CRAWLS & set(STEPS)))
def test_where_it_crawls_it_says_so(name: str) -> None:
    crawled = cdopt.ClassicCD(cdopt.bank.load(name).step).solve("pgs", max_sweeps=20_000)
    assert not crawled.claimed
    assert not crawled.ok
    assert crawled.certificate.worst < 1e-2


@pytest.mark.parametrize(
    ("order", "forces"),
    [
        ("given", (5 / 3, 20 / 3, 5 / 3)),
        ("reversed", (5 / 3, 20 / 3, 5 / 3)),
        ((0, 2, 1), (10 / 3, 10 / 3, 10 / 3)),
        ((1, 0, 2), (0.0, 10.0, 0.0)),
        (np.array([1, 2, 0]), (0.0, 10.0, 0.0)),
    ],
)
def test_the_order_of_visits_selects_the_forces_of_the_beam(order, forces) -> None:
    """Visiting the middle first gives it all the weight: section 8.1 of Olsen & Kamrin."""
    solution = uniform().solve("pgs", order=order, accuracy=1e-12)
    assert solution.ok
    np.testing.assert_allclose(solution.f, forces, atol=1e-10)


@pytest.mark.parametrize("inertia", [0.5, 2.0])
def test_the_inertia_of_the_platform_selects_too(inertia: float) -> None:
    step = cdopt.bank.load("beam-uniform").step
    other = cdopt.ClassicCD(step.replace(M=step.M.toarray() * np.diag([1.0, inertia])))
    solution = other.solve("pgs")
    assert solution.ok
    assert abs(solution.f[1] - 20 / 3) > 0.5
    assert solution.f.sum() == pytest.approx(10.0)


@pytest.mark.parametrize("seed", range(4))
def test_coupled_masses_and_matrices_known_by_products_agree(seed: int) -> None:
    """A full M, and N with p alone, take the same sweeps to the same forces."""
    step = random_step(seed)
    full = cdopt.ClassicCD(step).solve("pgs", accuracy=1e-11)
    alone = cdopt.ContactStep.from_delassus(step.N, step.p_vec, step.dt)
    known = cdopt.ClassicCD(alone).solve("pgs", accuracy=1e-11)
    assert full.ok
    assert known.ok
    scale = cdopt.ClassicCD(step).data.force
    np.testing.assert_allclose(full.f / scale, known.f / scale, atol=1e-6)


def test_over_relaxation_saves_sweeps(crystal: cdopt.ClassicCD) -> None:
    plain = crystal.solve("pgs")
    faster = crystal.solve("pgs", relaxation=1.5)
    assert faster.ok
    assert faster.iterations < 0.7 * plain.iterations


@pytest.mark.parametrize("settings", [{}, {"order": "shuffled", "seed": 3}])
def test_two_runs_are_equal(settings, crystal: cdopt.ClassicCD) -> None:
    first, second = crystal.solve("pgs", **settings), crystal.solve("pgs", **settings)
    np.testing.assert_array_equal(first.f, second.f)
    assert first.iterations == second.iterations


def test_shuffles_differ_by_seed(crystal: cdopt.ClassicCD) -> None:
    answers = [crystal.solve("pgs", order="shuffled", seed=seed) for seed in (0, 1)]
    assert all(answer.ok for answer in answers)
    assert not np.array_equal(answers[0].f, answers[1].f)


def test_a_warm_start_saves_sweeps_and_follows_names() -> None:
    step = cdopt.bank.load("pyramid-falling").step
    named = step.replace(contact_ids=np.arange(step.nc))
    earlier = cdopt.ClassicCD(named).solve("pgs")
    order = np.random.default_rng(0).permutation(step.nc)
    today = cdopt.ClassicCD(named.select(order))
    warm = today.solve("pgs", warm_start=earlier)
    assert warm.iterations < 0.1 * today.solve("pgs").iterations
    assert warm.provenance["warm_start"] == "used"


def test_history_is_kept_when_asked(crystal: cdopt.ClassicCD) -> None:
    kept = crystal.solve("pgs", history=True)
    residuals = kept.raw.residuals
    assert residuals.shape == (kept.iterations,)
    assert residuals[-1] <= 1e-8 < residuals[0]
    assert not residuals.flags.writeable
    assert crystal.solve("pgs").raw is None


def test_progress_goes_to_the_log(crystal: cdopt.ClassicCD, caplog, capsys) -> None:
    with caplog.at_level(logging.INFO, logger="cdopt.backends.pgs"):
        solution = crystal.solve("pgs")
    lines = [record.message for record in caplog.records]
    assert any(line.startswith("sweep 1000: residual") for line in lines)
    assert lines[-1].startswith(f"solved after {solution.iterations} sweeps")
    assert capsys.readouterr().out == ""
    crystal.solve("pgs", verbose=True)
    assert "solved after" in capsys.readouterr().out


def test_the_limit_leaves_an_iterate_and_no_answer(crystal: cdopt.ClassicCD) -> None:
    stopped = crystal.solve("pgs", max_sweeps=3)
    assert not stopped.claimed
    assert stopped.status == "iteration limit"
    assert stopped.iterations == 3
    assert stopped.f is None
    assert stopped.iterate.forces.any()


def test_an_unmet_accuracy_beyond_round_off_is_no_claim() -> None:
    solution = cdopt.ClassicCD(cdopt.bank.load("pyramid-hooke").step).solve("pgs", accuracy=1e-20)
    assert not solution.claimed
    assert solution.ok


def test_a_jammed_body_is_proven_so() -> None:
    with pytest.raises(SolveFailed, match="iteration limit") as failure:
        cdopt.ClassicCD(cdopt.bank.load("squeezed").step).solve("pgs")
    assert failure.value.certificate is not None


def test_only_rigid_steps_as_they_are() -> None:
    with pytest.raises(cdopt.Unsupported) as refusal:
        cdopt.NoTensionTruss(beam().B, [10.0, 0.0]).solve("pgs")
    assert "clarabel" in refusal.value.alternatives
    cd = uniform()
    with pytest.raises(cdopt.Unsupported, match="no constraints beyond"):
        cd.with_constraints(cd.forces <= 4).solve("pgs")


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"order": "backwards"}, "order"),
        ({"order": (0, 0, 1)}, "order"),
        ({"order": 1.5}, "order"),
        ({"order": [0.0, 1.0, 2.0]}, "order"),
        ({"seed": -1}, "seed"),
        ({"seed": True}, "seed"),
        ({"relaxation": 0.0}, "relaxation"),
        ({"relaxation": 2.0}, "relaxation"),
        ({"max_sweeps": 0}, "max_sweeps"),
        ({"max_sweeps": 10.0}, "max_sweeps"),
        ({"accuracy": 0.0}, "accuracy"),
        ({"accuracy": "tight"}, "accuracy"),
        ({"history": "yes"}, "history"),
        ({"sweeps": 10}, "sweeps"),
    ],
)
def test_bad_settings_are_refused_by_name(settings, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        uniform().solve("pgs", **settings)
    assert caught.value.argument == field


def test_a_permutation_must_fit_the_step() -> None:
    with pytest.raises(InvalidInput, match="one of 3 contacts"):
        uniform().solve("pgs", order=(1, 0))


def test_settings_are_told() -> None:
    solution = uniform().solve(PGS(order=(1, 0, 2), relaxation=1.2))
    assert solution.provenance["settings"] == {
        "order": "(1, 0, 2)", "relaxation": 1.2, "accuracy": 1e-8
    }  # fmt: skip
