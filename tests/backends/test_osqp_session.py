"""One OSQP for successive steps: set up once, updated after."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import beam

import cdopt
from cdopt._util.errors import InvalidInput, SolveFailed
from cdopt.backends import Modelled, OSQPSession, osqp_session
from cdopt.backends.osqp_session import at_work

ACCURACY = 1e-9


def settled(n: int, steps: int, seed: int = 0) -> list[cdopt.ContactStep]:
    """The pyramid's step again and again: other loads, and normals off their axes by round-off."""
    rng = np.random.default_rng(seed)
    step = cdopt.bank.load("pyramid-hooke", n=n).step
    step = step.replace(contact_ids=np.arange(step.nc))
    dense = step.B.toarray()
    body = (dense != 0.0) @ (step.dof_body[:, None] == np.unique(step.dof_body)[None, :]) > 0
    touched = body[:, np.searchsorted(np.unique(step.dof_body), step.dof_body)]
    moves = np.abs(dense).max(axis=0) > 0.0
    out = []
    for _ in range(steps):
        near = touched & moves & (rng.random(dense.shape) < 0.5)
        tilted = dense + np.where(near, 1e-16 * rng.standard_normal(dense.shape), 0.0)
        out.append(step.replace(B=tilted, F_ext=step.F_ext * rng.uniform(0.9, 1.1)))
    return out


@pytest.mark.parametrize("form", ["force", "velocity"])
def test_updated_solves_are_those_of_fresh_solvers(form: str) -> None:
    session = osqp_session(ACCURACY)
    for k, step in enumerate(settled(4, 6)):
        cd = cdopt.ClassicCD(step, form)
        ours, fresh = cd.solve(session), cd.solve("osqp", accuracy=ACCURACY)
        assert ours.ok, ours.certificate
        assert ours.claimed
        assert ours.backend == "osqp"
        assert ours.provenance["settings"]["session"] == ("updated" if k else "set up")
        unit = cd.data.dof_speed
        np.testing.assert_allclose(ours.v_next / unit, fresh.v_next / unit, atol=1e-6)
        load = np.abs(step.B.T @ fresh.f).max()
        np.testing.assert_allclose(step.B.T @ ours.f / load, step.B.T @ fresh.f / load, atol=1e-6)
        assert ours.iterations <= fresh.iterations
    assert (session.setups, session.updates) == (1, 5)


def test_it_survives_contacts_that_come_and_go() -> None:
    session, rng = osqp_session(ACCURACY), np.random.default_rng(1)
    steps = settled(4, 6)
    chosen = [np.arange(steps[0].nc)] * 2
    chosen += [np.sort(rng.permutation(steps[0].nc)[: steps[0].nc - drop]) for drop in (1, 1, 20)]
    chosen.append(np.arange(0))
    for step, contacts in zip(steps, chosen, strict=True):
        cd = cdopt.ClassicCD(step.select(contacts), "velocity")
        ours, exact = cd.solve(session), cd.solve("newton")
        assert ours.ok, ours.certificate
        unit = cd.data.dof_speed
        np.testing.assert_allclose(ours.v_next / unit, exact.v_next / unit, atol=1e-6)
    assert session.updates == 1
    assert session.setups == 5


def test_contacts_of_other_names_are_never_taken_for_the_last_ones() -> None:
    """The same pattern and size: the beam's supports in another order."""
    session = osqp_session(ACCURACY)
    named = beam().replace(contact_ids=np.array([10, 20, 30]))
    pressed = cdopt.ClassicCD(named.replace(phi=[0.0, 1e-3, 0.0])).solve(session)
    other = cdopt.ClassicCD(beam(contact_ids=np.array([20, 10, 30]), phi=(1e-3, 0.0, 0.0)))
    turned = other.solve(session)
    assert (session.setups, session.updates) == (2, 0)
    assert pressed.ok
    assert turned.ok
    np.testing.assert_allclose(pressed.f, [5.0, 0.0, 5.0], atol=1e-5)
    np.testing.assert_allclose(turned.f, other.solve("newton").f, atol=1e-5)


def test_units_that_change_from_step_to_step_do_no_harm() -> None:
    session = osqp_session(ACCURACY)
    for load in (10.0, 1e-3, 1e4):
        solution = cdopt.ClassicCD(beam(F_ext=[-load, 0.0])).solve(session)
        assert solution.ok, solution.certificate
        assert solution.f.sum() == pytest.approx(load, rel=1e-6)
    assert (session.setups, session.updates) == (1, 2)


def test_a_step_without_an_answer_is_forgotten() -> None:
    session = osqp_session(ACCURACY)
    good = cdopt.ClassicCD(beam())
    good.solve(session)
    stopped = osqp_session(ACCURACY, max_iter=1)
    left = good.solve(stopped, check=False)
    assert not left.claimed
    again = good.solve(stopped, check=False)
    assert stopped.setups == 2
    np.testing.assert_array_equal(left.iterate.forces, again.iterate.forces)
    squeezed = cdopt.bank.load("squeezed").step
    with pytest.raises(SolveFailed) as failure:
        cdopt.ClassicCD(squeezed).solve(session)
    assert failure.value.certificate is not None
    assert good.solve(session).ok


def test_both_problems_of_compatible_dynamics_may_share_one() -> None:
    """They are of two kinds, and never start from each other."""
    session = osqp_session(ACCURACY, polishing=False)
    cd = cdopt.CompatibleCD(beam([1.0, 3.0, 1.0]))
    fresh = cd.solve("osqp", accuracy=ACCURACY, polishing=False)
    for _ in range(2):
        solution = cd.solve(session)
        assert solution.ok
        np.testing.assert_allclose(solution.f, [2.0, 6.0, 2.0], atol=1e-6)
        np.testing.assert_array_equal(solution.iterate.forces, fresh.iterate.forces)
    assert (session.setups, session.updates) == (4, 0)


def test_an_entry_where_there_was_none_is_given_a_place() -> None:
    """Without bodies the pattern is that of the steps met: the middle support gets a lever."""
    session = osqp_session(ACCURACY)
    for lever in (0.0, 0.1, 0.0, -0.2):
        step = beam(B=[[1.0, -0.5], [1.0, lever], [1.0, 0.5]], phi=(1e-3, 0.0, 0.0))
        cd = cdopt.ClassicCD(step)
        solution, exact = cd.solve(session), cd.solve("newton")
        assert solution.ok, solution.certificate
        np.testing.assert_allclose(solution.v_next, exact.v_next, atol=1e-8)
        load = np.abs(step.B.T @ exact.f).max()
        np.testing.assert_allclose(step.B.T @ solution.f, step.B.T @ exact.f, atol=1e-6 * load)
    assert (session.setups, session.updates) == (2, 2)


def test_a_given_start_is_used_and_wrong_ones_are_refused() -> None:
    step = settled(4, 1)[0]
    cd = cdopt.ClassicCD(step)
    answer = cd.solve("newton")
    session = osqp_session(ACCURACY)
    warm = cd.solve(session, warm_start=answer)
    assert warm.iterations < cd.solve("osqp", accuracy=ACCURACY).iterations
    nameless = cdopt.ClassicCD(beam()).solve("newton")
    with pytest.raises(InvalidInput, match="warm_start"):
        cd.solve(session, warm_start=nameless)
    assert cd.solve(session).ok


def test_unknown_settings_never_pass_unnoticed() -> None:
    with pytest.raises(InvalidInput, match="no_such"):
        cdopt.ClassicCD(beam()).solve(osqp_session(no_such=3))


def test_only_osqp_has_one() -> None:
    with pytest.raises(InvalidInput) as caught:
        OSQPSession(Modelled("clarabel"))
    assert caught.value.argument == "settings"
    with pytest.raises(InvalidInput, match="accuracy"):
        osqp_session(2.0)
    other = cdopt.backends.resolve("newton")
    assert at_work(other) is other
    assert isinstance(at_work(Modelled("osqp")), OSQPSession)
