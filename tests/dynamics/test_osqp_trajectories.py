"""OSQP as the classic backend of a run: its set-up kept from step to step when asked."""

from __future__ import annotations

import numpy as np
import pytest

import cdopt
from cdopt.backends import Modelled
from cdopt.dynamics import contact_dynamics

DT = 1e-3
OSQP = Modelled("osqp", accuracy=1e-9)


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> list:
    """The sessions that runs open."""
    made = []

    def watched(backend):
        made.append(cdopt.backends.OSQPSession(backend))
        return made[-1]

    monkeypatch.setattr(contact_dynamics, "at_work", watched)
    return made


@pytest.mark.slow
@pytest.mark.parametrize("method", ["classic-cd", "compatible-cd"])
def test_a_pile_that_falls_and_rests_moves_as_with_fresh_solves(method: str, sessions) -> None:
    """Through contacts that appear and a pile at rest; every step is certified."""
    scene = cdopt.scene.pyramid(3)
    fresh, kept = (
        cdopt.simulate(scene, DT, 0.03, method, classic_backend=OSQP, warm_start=warm)
        for warm in (False, True)
    )
    assert fresh.ok
    assert kept.ok
    assert kept.diagnostics["residual_classic"].max() < 1e-6
    np.testing.assert_allclose(kept.q, fresh.q, atol=1e-9)
    assert (
        kept.diagnostics["iterations_classic"].sum() < fresh.diagnostics["iterations_classic"].sum()
    )
    used = sessions[0]
    assert used.setups + used.updates == 30
    assert used.updates > 20


def test_without_warm_starts_each_step_stands_alone(sessions) -> None:
    cdopt.simulate(cdopt.scene.beam(3.0), DT, 5e-3, classic_backend=OSQP)
    assert not sessions


@pytest.mark.slow
def test_two_runs_share_nothing() -> None:
    run = {"classic_backend": OSQP, "warm_start": True}
    first, second = (cdopt.simulate(cdopt.scene.beam(3.0), DT, 0.01, **run) for _ in range(2))
    np.testing.assert_array_equal(first.q, second.q)
    np.testing.assert_array_equal(first.final.f_classic, second.final.f_classic)


@pytest.mark.slow
def test_a_resumed_run_agrees_within_the_solver_s_accuracy(tmp_path) -> None:
    """The solver's own memory is not saved; the forces it starts from are."""
    scene = cdopt.scene.pyramid(3)
    run = {"classic_backend": OSQP, "warm_start": True}
    whole = cdopt.simulate(scene, DT, 0.02, **run)
    cdopt.simulate(scene, DT, 0.008, out=tmp_path / "run", **run)
    resumed = cdopt.simulate(scene, DT, 0.02, out=tmp_path / "run", resume=True, **run)
    assert resumed.ok
    np.testing.assert_allclose(resumed.q, whole.q, atol=1e-9)
