"""simulate() and its Trajectory: arguments, files, failures, progress."""

from __future__ import annotations

import dataclasses
import json
import signal
from dataclasses import dataclass
from typing import ClassVar

import h5py
import numpy as np
import pytest
from test_run_files import check_same

import cdopt
from cdopt.backends import Modelled
from cdopt.dynamics import (
    METHODS,
    Advance,
    Snapshot,
    StepContext,
    StepFailed,
    StepRecord,
    contact_dynamics,
)
from cdopt.dynamics.records import Checkpoint
from cdopt.dynamics.run import Interrupts

DT = 1e-3


@pytest.fixture
def beam() -> cdopt.scene.Scene:
    return cdopt.scene.beam(3.0)


@pytest.fixture
def squeezed() -> cdopt.scene.Scene:
    """A ball on the floor under a ceiling that comes down on it."""
    half, ball = cdopt.scene.HalfSpace, cdopt.scene.Sphere(0.1)
    bodies = [
        cdopt.scene.Body(half([0.0, 1.0]), [0.0, 0.0], name="floor"),
        cdopt.scene.Body(half([0.0, -1.0]), [0.0, 0.2055], velocity=[0.0, -1.0], name="ceiling"),
        cdopt.scene.Body(ball, [0.0, 0.101], mass=1.0),
    ]
    return cdopt.scene.Scene(bodies, dim=2)


# --- what comes out ------------------------------------------------------------------------


def test_frames_and_diagnostics_of_a_drop(beam) -> None:
    done = cdopt.simulate(beam, DT, 0.02)
    assert len(done) == 21
    assert done.q.shape == (21, 4, 3)
    assert done.v.shape == (21, 4, 3)
    np.testing.assert_array_equal(done.t, np.arange(21) * DT)
    np.testing.assert_array_equal(done.steps, np.arange(21))
    assert done[0].nc == 0
    np.testing.assert_array_equal(done[0].q, beam.initial.q)
    end = done.final
    assert (end.step, end.t) == (20, 0.02)
    assert done[-1].step == end.step
    np.testing.assert_array_equal(end.bodies, [[0, 1], [0, 2], [0, 3]])
    assert end.f_classic.sum() == pytest.approx(10.0)
    for array in (end.f, end.phi, end.q, done.q, done.diagnostics["kinetic"]):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0.0
    seen = done.diagnostics
    assert seen["momentum"].shape == (21, 2)
    assert seen["ok"].dtype == bool
    assert seen["contacts"].dtype == np.int64
    assert seen["closed"][-1] == 3
    assert seen["potential"][0] == pytest.approx(10.0 * beam.initial.q[0, 1])
    assert seen["residual_forces"].max() < 1e-6
    assert repr(done).endswith("20 steps to t=0.02 s, ok)")
    with pytest.raises(IndexError):
        done[21]
    with pytest.raises(cdopt.InvalidInput, match="kinetic"):
        seen["kinetik"]


def test_classic_dynamics_moves_alike_and_keeps_its_own_forces(beam) -> None:
    compatible = cdopt.simulate(beam, DT, 0.02)
    classic = cdopt.simulate(beam, DT, 0.02, method="classic-cd", backend="apgd")
    np.testing.assert_array_equal(classic.q, compatible.q)
    np.testing.assert_array_equal(classic.final.f, compatible.final.f_classic)
    np.testing.assert_array_equal(classic.final.f_classic, classic.final.f)
    assert "residual_forces" not in classic.diagnostics


def test_every_nth_frame_and_the_last(beam) -> None:
    whole = cdopt.simulate(beam, DT, 0.011)
    some = cdopt.simulate(beam, DT, 0.011, every=4)
    np.testing.assert_array_equal(some.steps, [0, 4, 8, 11])
    np.testing.assert_array_equal(some.q, whole.q[[0, 4, 8, 11]])
    assert len(some.diagnostics["time"]) == 12


def test_a_duration_takes_whole_steps(beam) -> None:
    assert cdopt.simulate(beam, 0.1, 0.3).steps[-1] == 3
    assert cdopt.simulate(beam, DT, 0.0025).steps[-1] == 3
    assert cdopt.simulate(beam, DT, 1e-9).steps[-1] == 1


# --- files ---------------------------------------------------------------------------------


def test_a_file_holds_what_memory_holds(tmp_path) -> None:
    scene = cdopt.scene.pyramid(2)
    scene.save(tmp_path / "scene.toml")
    kept = cdopt.simulate(tmp_path / "scene.toml", DT, 0.005)
    path = tmp_path / "run.vtkhdf"
    streamed = cdopt.simulate(scene, DT, 0.005, out=path)
    assert streamed.path == path
    check_same(streamed, kept)
    check_same(cdopt.Trajectory.load(path), kept)
    assert streamed.scene.to_toml() == scene.to_toml()
    assert streamed.settings == kept.settings
    assert json.loads(json.dumps(dict(kept.settings))) == kept.settings
    kept.save(tmp_path / "copy.vtkhdf")
    check_same(cdopt.Trajectory.load(tmp_path / "copy.vtkhdf"), kept)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["copy.vtkhdf", "run.vtkhdf", "scene.toml"]


def test_an_existing_file_is_not_touched(tmp_path, beam) -> None:
    path = tmp_path / "notes"
    path.write_text("precious")
    with pytest.raises(cdopt.InvalidInput, match=r"out.*exists.*resume"):
        cdopt.simulate(beam, DT, 3e-3, out=path)
    with pytest.raises(cdopt.InvalidInput, match="notes"):
        cdopt.simulate(beam, DT, 3e-3, out=path, resume=True)
    assert path.read_text() == "precious"


def test_another_run_is_not_resumed(tmp_path, beam) -> None:
    path = tmp_path / "run.vtkhdf"
    cdopt.simulate(beam, DT, 3e-3, out=path)
    before = path.read_bytes()
    for change in (
        {"scene": cdopt.scene.beam(2.0)},
        {"dt": 2e-3},
        {"method": "classic-cd"},
        {"every": 2},
        {"classic_backend": cdopt.backends.APGD(accuracy=1e-9)},
    ):
        wanted = {"scene": beam, "dt": DT, "duration": 6e-3, **change}
        with pytest.raises(cdopt.InvalidInput) as caught:
            cdopt.simulate(**wanted, out=path, resume=True)
        assert caught.value.argument == next(iter(change))
        assert path.read_bytes() == before


def test_damaged_files_are_named(tmp_path, beam) -> None:
    path = tmp_path / "run.vtkhdf"
    cdopt.simulate(beam, DT, 3e-3, out=path)
    whole = path.read_bytes()
    bad = tmp_path / "bad.vtkhdf"
    for content in (b"", b"\x89HDF\r\n\x1a\n", whole[:500], whole[: len(whole) // 2]):
        bad.write_bytes(content)
        with pytest.raises(cdopt.InvalidInput, match=r"bad\.vtkhdf"):
            cdopt.Trajectory.load(bad)
    with pytest.raises(cdopt.InvalidInput, match="no such file"):
        cdopt.Trajectory.load(tmp_path / "none")
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file.create_group("cdopt")
    with pytest.raises(cdopt.InvalidInput, match=r"other\.h5"):
        cdopt.Trajectory.load(tmp_path / "other.h5")


# --- failures ------------------------------------------------------------------------------


def test_a_squeezed_ball_ends_the_run_with_the_proof(squeezed, tmp_path) -> None:
    path = tmp_path / "run.vtkhdf"
    with pytest.raises(StepFailed, match=r"t = 0\.00\d s") as caught:
        cdopt.simulate(squeezed, DT, 0.02, out=path)
    error = caught.value
    assert isinstance(error, cdopt.SolveFailed)
    assert error.proof is not None
    kept = error.trajectory
    assert kept.t[-1] == pytest.approx(error.t - DT)
    seen = cdopt.Trajectory.load(path).diagnostics
    assert seen["ok"][:-1].all()
    assert not seen["ok"][-1]
    assert seen["time"][-1] == pytest.approx(error.t)
    assert not kept.ok
    with pytest.raises(StepFailed):  # resumed, it meets the same step
        cdopt.simulate(squeezed, DT, 0.02, out=path, resume=True)


def test_a_step_beyond_its_tolerance_stops_or_goes_on(beam) -> None:
    rough = {"classic_backend": "scs", "tol": 1e-12}
    with pytest.raises(StepFailed, match="residual") as caught:
        cdopt.simulate(beam, DT, 0.02, **rough)
    assert caught.value.solution is not None
    assert len(caught.value.trajectory) >= 1
    done = cdopt.simulate(beam, DT, 0.02, on_failure="continue", **rough)
    assert len(done) == 21
    assert not done.ok
    assert "not ok" in repr(done)
    np.testing.assert_allclose(done.final.f, [2.0, 6.0, 2.0], atol=1e-4)


def test_forces_that_a_solver_does_not_find_are_not_a_number() -> None:
    scene = cdopt.scene.pyramid(3, separation=0.0)
    lame = cdopt.backends.AugmentedLagrangian(max_outer=1)
    done = cdopt.simulate(scene, DT, 2e-3, backend=lame, on_failure="continue")
    assert np.isnan(done.final.f).all()
    assert np.isfinite(done.final.f_classic).all()
    assert not done.diagnostics["ok"][1:].any()


def test_an_interrupt_keeps_what_was_done(beam) -> None:
    def stop(done: int, total: int) -> None:
        if done == 7:
            raise KeyboardInterrupt

    with pytest.raises(cdopt.dynamics.Interrupted) as caught:
        cdopt.simulate(beam, DT, 0.02, progress=stop)
    assert len(caught.value.trajectory) == 8


def test_ctrl_c_waits_while_a_file_is_written() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # nohup has it ignored
    reached, interrupts = [], Interrupts()

    def write() -> None:
        with interrupts.handled():
            with interrupts.delayed():
                signal.raise_signal(signal.SIGINT)
                reached.append("written")
            reached.append("beyond")

    try:
        with pytest.raises(KeyboardInterrupt):
            write()
    finally:
        restored = signal.signal(signal.SIGINT, before)
    assert (reached, restored) == (["written"], signal.default_int_handler)


# --- arguments -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"scene": 3}, "scene"),
        ({"scene": "no/such/scene.toml"}, "no/such/scene.toml"),
        ({"dt": 0.0}, "dt"),
        ({"dt": float("nan")}, "dt"),
        ({"duration": -1.0}, "duration"),
        ({"duration": 1e30}, "duration"),
        ({"method": "newmark"}, "method"),
        ({"method": 3}, "method"),
        ({"every": 0}, "every"),
        ({"every": 1.5}, "every"),
        ({"resume": True}, "resume"),
        ({"resume": "yes", "out": "x"}, "resume"),
        ({"out": 3}, "out"),
        ({"out": "no/such/folder/run.vtkhdf"}, "out"),
        ({"out": "run.vtk"}, "out"),
        ({"on_failure": "hope"}, "on_failure"),
        ({"progress": "loud"}, "progress"),
        ({"backend": "newtown"}, "backend"),
        ({"classic_backend": 3}, "classic_backend"),
        ({"warm_start": 1}, "warm_start"),
        ({"tol": 0.0}, "tol"),
        ({"v_min": -1.0}, "v_min"),
        ({"closed_tol": 2.0}, "closed_tol"),
        ({"alpha": 0.5}, "alpha"),
        ({"method": "classic-cd", "closed_tol": 1e-3}, "closed_tol"),
        ({"method": "classic-cd", "backend": "pgs", "classic_backend": "apgd"}, "backend"),
        ({"method": cdopt.dynamics.CompatibleSteps(), "tol": 1e-3}, "tol"),
    ],
)
def test_bad_arguments_are_named(beam, change: dict, name: str) -> None:
    with pytest.raises(cdopt.InvalidInput) as caught:
        cdopt.simulate(**{"scene": beam, "dt": DT, "duration": 1e-2, **change})
    assert caught.value.argument == name


def test_a_backend_that_cannot_take_the_problem_is_refused(beam) -> None:
    with pytest.raises(cdopt.Unsupported, match="pgs"):
        cdopt.simulate(beam, DT, 2e-3, backend="pgs")


# --- progress and methods ------------------------------------------------------------------


def test_progress_tells_time_contacts_and_residual(beam, capfd) -> None:
    told: list[tuple[int, int, str]] = []
    cdopt.simulate(beam, DT, 3e-3, progress=lambda *words: told.append(words))
    assert [entry[:2] for entry in told] == [(1, 3), (2, 3), (3, 3)]
    assert told[-1][2].startswith("t = 0.003 s, 3 contacts, residual ")
    cdopt.simulate(beam, DT, 3e-3, progress=True)
    assert capfd.readouterr().out == ""


@dataclass(frozen=True)
class Drift:
    """A method of our own: bodies keep their velocities, whatever they meet."""

    factor: float = 1.0

    name: ClassVar[str] = "drift"

    def start(self, context: StepContext) -> Drifting:
        return Drifting(context, self)


@dataclass(frozen=True)
class Met(Snapshot):
    """How many contacts a run of ``Drift`` has met so far."""

    count: int

    def stored(self) -> dict[str, np.ndarray]:
        return {"count": np.array(self.count)}


class Drifting:
    name, forces, stages, measures = "drift", ("f",), (), ("met",)
    each_step = True

    def __init__(self, context: StepContext, drift: Drift) -> None:
        self.context, self.factor = context, drift.factor
        self.settings = dataclasses.asdict(drift)

    def record(self, state: cdopt.scene.State, count: int) -> StepRecord:
        contacts = cdopt.collision.detect(self.context.scene, state)
        return StepRecord(contacts, {"f": np.zeros(contacts.nc)}, {}, {"met": count})

    def begin(self, state: cdopt.scene.State) -> Advance[Met]:
        return Advance(Met(0, state, 0), self.record(state, 0))

    def restore(self, saved: Checkpoint) -> Met:
        return Met(saved.step, saved.state, int(saved.memory["count"]))

    def advance(self, snapshot: Met, steps: int) -> Advance[Met]:
        state, step = snapshot.state, snapshot.step + 1
        q = cdopt.collision.move(state, state.v, self.factor * self.context.dt)
        after = cdopt.scene.State(step * self.context.dt, q, state.v)
        record = self.record(after, snapshot.count + 1)
        return Advance(Met(step, after, snapshot.count + 1), record)


def test_another_method_joins_through_the_table(tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(METHODS, "drift", Drift)
    scene = cdopt.scene.collision(gap=0.1, speeds=(1.0, 0.0))
    done = cdopt.simulate(scene, DT, 4e-3, method="drift", factor=2.0, out=tmp_path / "run")
    assert done.method == "drift"
    assert done.q[-1, 0, 0] - done.q[0, 0, 0] == pytest.approx(8e-3)
    assert done.diagnostics["met"].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    longer = cdopt.simulate(
        scene, DT, 6e-3, method=Drift(factor=2.0), out=tmp_path / "run", resume=True
    )
    assert longer.diagnostics["met"].tolist() == list(range(7))


# --- OSQP, whose set-up is kept from step to step when asked ---------------------------------

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
