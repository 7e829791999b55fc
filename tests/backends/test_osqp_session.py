"""One OSQP for successive steps: set up once, updated after."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import beam

import cdopt
from cdopt._util.errors import InvalidInput, SolveFailed
from cdopt.backends import Modelled, OSQPSession, osqp_session
from cdopt.backends.modelled import at_work

ACCURACY = 1e-9


@pytest.fixture
def session() -> OSQPSession:
    return osqp_session(ACCURACY)


def settled(n: int, steps: int) -> list[cdopt.ContactStep]:
    """The pyramid's step again and again: other loads, and normals off their axes by round-off."""
    rng = np.random.default_rng(0)
    step = cdopt.bank.load("pyramid-hooke", n=n).step
    step = step.replace(contact_ids=np.arange(step.nc))
    dense = step.B.toarray()
    near = (dense == 0.0) & (rng.random(dense.shape) < 0.1)
    tilts = [np.where(near, 1e-16 * rng.standard_normal(dense.shape), 0.0) for _ in range(steps)]
    return [step.replace(B=dense + t, F_ext=step.F_ext * rng.uniform(0.9, 1.1)) for t in tilts]


def check_motion(cd: cdopt.ClassicCD, ours: cdopt.StepSolution) -> None:
    """Certified, and the motion and the load on the bodies are those of Newton's method."""
    assert ours.ok, ours.certificate
    exact, unit, step = cd.solve("newton"), cd.data.dof_speed, cd.step
    np.testing.assert_allclose(ours.v_next / unit, exact.v_next / unit, atol=1e-6)
    load = np.abs(step.B.T @ exact.f).max(initial=1e-300)
    np.testing.assert_allclose(step.B.T @ ours.f / load, step.B.T @ exact.f / load, atol=1e-6)


@pytest.mark.parametrize("form", ["force", "velocity"])
def test_updated_solves_are_those_of_fresh_solvers(form: str, session: OSQPSession) -> None:
    for k, step in enumerate(settled(4, 6)):
        cd = cdopt.ClassicCD(step, form)
        ours = cd.solve(session)
        check_motion(cd, ours)
        assert ours.backend == "osqp"
        assert ours.provenance["settings"]["session"] == ("updated" if k else "set up")
        assert ours.iterations <= cd.solve("osqp", accuracy=ACCURACY).iterations
    assert (session.setups, session.updates) == (1, 5)


def test_it_survives_contacts_that_come_and_go(session: OSQPSession) -> None:
    steps, rng = settled(4, 6), np.random.default_rng(1)
    nc = steps[0].nc
    for step, left in zip(steps, (nc, nc, nc - 1, nc - 1, nc - 20, 0), strict=True):
        contacts = np.sort(rng.permutation(nc)[:left])
        cd = cdopt.ClassicCD(step.select(contacts), "velocity")
        check_motion(cd, cd.solve(session))
    assert (session.setups, session.updates) == (5, 1)


def test_contacts_of_other_names_are_never_taken_for_the_last_ones(session: OSQPSession) -> None:
    """The same pattern and size: the beam's supports in another order."""
    named = beam().replace(contact_ids=np.array([10, 20, 30]))
    pressed = cdopt.ClassicCD(named.replace(phi=[0.0, 1e-3, 0.0])).solve(session)
    other = cdopt.ClassicCD(beam(contact_ids=np.array([20, 10, 30]), phi=(1e-3, 0.0, 0.0)))
    check_motion(other, other.solve(session))
    assert (session.setups, session.updates) == (2, 0)
    np.testing.assert_allclose(pressed.f, [5.0, 0.0, 5.0], atol=1e-5)


def test_units_that_change_from_step_to_step_do_no_harm(session: OSQPSession) -> None:
    for load in (10.0, 1e-3, 1e4):
        solution = cdopt.ClassicCD(beam(F_ext=[-load, 0.0])).solve(session)
        assert solution.ok, solution.certificate
        assert solution.f.sum() == pytest.approx(load, rel=1e-6)
    assert (session.setups, session.updates) == (1, 2)


def test_a_step_without_an_answer_is_forgotten(session: OSQPSession) -> None:
    good, stopped = cdopt.ClassicCD(beam()), osqp_session(ACCURACY, max_iter=1)
    left, again = (good.solve(stopped, check=False) for _ in range(2))
    assert not left.claimed
    assert stopped.setups == 2
    np.testing.assert_array_equal(left.iterate.forces, again.iterate.forces)
    good.solve(session)
    with pytest.raises(SolveFailed) as failure:
        cdopt.ClassicCD(cdopt.bank.load("squeezed").step).solve(session)
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


def test_an_entry_where_there_was_none_is_given_a_place(session: OSQPSession) -> None:
    """The middle support gets a lever; its place is kept."""
    for lever in (0.0, 0.1, 0.0, -0.2):
        step = beam(B=[[1.0, -0.5], [1.0, lever], [1.0, 0.5]], phi=(1e-3, 0.0, 0.0))
        cd = cdopt.ClassicCD(step)
        check_motion(cd, cd.solve(session))
    assert (session.setups, session.updates) == (2, 2)


def test_a_given_start_is_used_and_wrong_ones_are_refused(session: OSQPSession) -> None:
    cd = cdopt.ClassicCD(settled(4, 1)[0])
    warm = cd.solve(session, warm_start=cd.solve("newton"))
    assert warm.iterations < cd.solve("osqp", accuracy=ACCURACY).iterations
    nameless = cdopt.ClassicCD(beam()).solve("newton")
    with pytest.raises(InvalidInput, match="warm_start"):
        cd.solve(session, warm_start=nameless)
    assert cd.solve(session).ok


def test_settings_are_those_of_osqp_and_only_osqp_has_a_session() -> None:
    with pytest.raises(InvalidInput, match="no_such"):
        cdopt.ClassicCD(beam()).solve(osqp_session(no_such=3))
    with pytest.raises(InvalidInput, match="settings"):
        OSQPSession(Modelled("clarabel"))
    with pytest.raises(InvalidInput, match="accuracy"):
        osqp_session(2.0)
    other = cdopt.backends.resolve("newton")
    assert at_work(other) is other
    assert isinstance(at_work(Modelled("osqp")), OSQPSession)
