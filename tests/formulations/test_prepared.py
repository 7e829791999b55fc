"""Rigid steps compiled once and solved again at other gaps, velocities and loads."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import cvxpy as cp
import numpy as np
import pytest

import cdopt
from cdopt.formulations import Formulation, kept

BEAM = cdopt.bank.load("beam-stiff-middle").step
BOX = cdopt.bank.load("launched-box").step
MADE: dict[str, Callable[[cdopt.problem.Step], Formulation]] = {
    "force": cdopt.ClassicCD,
    "velocity": lambda step: cdopt.ClassicCD(step, form="velocity"),
    "associated": lambda step: cdopt.FrictionalCD(step, "associated"),
    "associated, force": lambda step: cdopt.FrictionalCD(step, "associated", form="force"),
    "coulomb": cdopt.FrictionalCD,
}


@pytest.mark.parametrize("name", MADE)
def test_formulations_of_a_step_share_its_problem_and_no_answer(name: str) -> None:
    """What follows from its data is kept; a copy of the step is another one."""
    make, step = MADE[name], BEAM if name in ("force", "velocity") else BOX
    first = make(step)
    solution = first.solve("newton")
    again, copy = make(step), make(pickle.loads(pickle.dumps(step)))
    assert again.data is first.data
    assert copy.data is not first.data
    assert "_residuals" not in vars(again.data)
    assert again.data.scales._last is None
    for other in (again.solve("newton"), copy.solve("newton")):
        np.testing.assert_array_equal(other.f, solution.f)
        assert other.certificate == solution.certificate
    laws = {cdopt.FrictionalCD(BOX, law).data.law for law in ("coulomb", "associated")}
    assert len(laws) == 2


def test_threads_share_no_factorisations_and_find_the_same_forces() -> None:
    step = cdopt.bank.load("pyramid-falling").step
    data, alone = cdopt.ClassicCD(step).data, cdopt.ClassicCD(step).solve("newton")
    with ThreadPoolExecutor(2) as pool:
        assert pool.submit(lambda: data.cache).result() is not data.cache
        for answer in pool.map(lambda _: cdopt.ClassicCD(step).solve("newton"), range(4)):
            np.testing.assert_array_equal(answer.f, alone.f)
            assert answer.certificate == alone.certificate
    assert data.cache is data.cache


@pytest.mark.parametrize("backend", ["clarabel", "newton"])
@pytest.mark.parametrize("name", MADE)
def test_each_answer_is_that_of_the_step_by_itself(name: str, backend: str) -> None:
    """Speeds and loads differ by factors from 1e-3 to 1e3: units follow the step."""
    make, step = MADE[name], BEAM if name in ("force", "velocity") else BOX
    prepared, rng = make(step).prepare(), np.random.default_rng(7)
    for size in (1.0, 1e-3, 1e3):
        changes = {
            "phi": step.phi + 1e-3 * size * step.dt * rng.random(step.nc),
            "v": size * (step.v + 0.1 * rng.standard_normal(step.nv)),
            "F_ext": size * step.F_ext,
        }
        answer = prepared.solve(backend, accuracy=1e-11, **changes)
        alone = make(step.replace(**changes)).solve(backend, accuracy=1e-11)
        assert answer.ok
        assert alone.ok
        assert answer.v_next is not None
        assert alone.v_next is not None
        at = 1e-5 * np.abs(alone.v_next).max() + 1e-12
        np.testing.assert_allclose(answer.v_next, alone.v_next, rtol=0.0, atol=at)
        assert answer.objective == pytest.approx(alone.objective, rel=1e-5, abs=1e-12)


@pytest.mark.parametrize("backend", ["newton", "interior-point", "apgd", "nsgs", "auto"])
def test_what_is_kept_of_the_network_serves_every_step(backend: str) -> None:
    """Of an inertia that ties the dofs; the scales of a certificate are those of its own step."""
    root = np.sqrt(BOX.M.diagonal())
    tied = root[:, None] * (np.eye(BOX.nv) + 0.2) * root
    step = BOX.replace(M=tied)
    prepared = cdopt.FrictionalCD(step).prepare()
    for size in (1.0, 30.0, 0.1, 1.0):
        changes = {"v": size * step.v, "F_ext": size * step.F_ext}
        answer = prepared.solve(backend, **changes)
        alone = cdopt.FrictionalCD(step.replace(**changes)).solve(backend)
        assert answer.ok
        assert alone.ok
        at = 1e-7 * np.abs(alone.v_next).max()
        np.testing.assert_allclose(answer.v_next, alone.v_next, rtol=0.0, atol=at)
        of = zip(answer.certificate, alone.certificate, strict=True)
        assert all(one.scale == pytest.approx(other.scale, rel=1e-4) for one, other in of)


def test_restitution_follows_the_velocity() -> None:
    """A ball of 1 kg, e = 1/2: approaching at 2 m/s it leaves with 1 m/s, leaving it is free."""
    step = cdopt.ContactStep([[1.0]], [[1.0]], [0.0], [0.0], [0.0], 1e-3, restitution=0.5)
    prepared = cdopt.ClassicCD(step).prepare()
    speeds = [prepared.solve("clarabel", v=[v]).v_next for v in (3.0, -2.0)]
    np.testing.assert_allclose(np.ravel(speeds), [3.0, 1.0], atol=1e-6)


@pytest.mark.parametrize("form", ["force", "velocity"])
def test_cvxpy_compiles_once(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[int] = []
    chain = cp.Problem._construct_chain

    def counted(problem: cp.Problem, *args: object, **more: object) -> object:
        built.append(1)
        return chain(problem, *args, **more)

    monkeypatch.setattr(cp.Problem, "_construct_chain", counted)
    monkeypatch.setattr(kept, "_kept", OrderedDict())
    prepared = cdopt.ClassicCD(BEAM, form=form).prepare()
    loads = [prepared.solve("clarabel", F_ext=k * BEAM.F_ext).f.sum() for k in (1.0, 2.0, 3.0)]
    np.testing.assert_allclose(loads, 10.0 * np.arange(1, 4), rtol=1e-6)
    assert len(built) == 1
    assert cdopt.FrictionalCD(BOX).solve("clarabel").provenance["how"].endswith("convex problems")
    assert len(built) == 2  # the passes of Coulomb's law share one too


def test_the_formulation_stays_as_it_was() -> None:
    cd = cdopt.ClassicCD(BEAM)
    before = cd.solve("clarabel")
    cd.prepare().solve("clarabel", F_ext=[-1.0, 0.0])
    np.testing.assert_array_equal(cd.solve("clarabel").f, before.f)
    assert not cd.problem.parameters()


def test_what_cannot_be_prepared_is_refused() -> None:
    rows = cdopt.ContactStep.from_delassus(BEAM.N, BEAM.p_vec, BEAM.dt)
    cd = cdopt.ClassicCD(BEAM, form="velocity")
    for other in (cdopt.ClassicCD(rows), cdopt.CompliantCD(BEAM)):
        with pytest.raises(cdopt.problem.Unsupported, match="no rigid step with matrices"):
            other.prepare()
    with pytest.raises(cdopt.problem.Unsupported, match="constraints were added"):
        cd.with_constraints(cd.velocity[0] <= 0.0).prepare()
    with pytest.raises(cdopt.problem.InvalidInput, match="phi"):
        cd.prepare().solve(phi=[0.0])
    eye, none = np.eye(800), np.zeros(800)
    large = cdopt.ClassicCD(cdopt.ContactStep(eye, eye, none, none, none, 1e-3))
    with pytest.raises(cdopt.problem.Unsupported, match="form='velocity'"):
        large.prepare()
