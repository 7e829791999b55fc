"""Steps side by side in one problem have the answers and the certificates that each has alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jointed import bars
from wedges import wedge

import cdopt
from cdopt.formulations import Formulation
from cdopt.problem import Step, certify
from cdopt.problem.certificate import certify_each
from cdopt.problem.stacking import Stack, likeness

Make = Callable[[Any], Any]
SMOOTH = ["beam-uniform", "table", "rank-deficient", "pyramid-hooke", "ten-orders", "crystal-2d"]
ROUGH = ["incline", "ladder", "rough-arch", "launched-box", "masonry"]
MADE: dict[str, tuple[Make, list[str]]] = {
    "classic": (cdopt.ClassicCD, SMOOTH),
    "classic, velocity": (lambda step: cdopt.ClassicCD(step, form="velocity"), SMOOTH),
    "compatible": (lambda step: cdopt.CompatibleCD(step, 2.0), SMOOTH),
    "compatible, complementary": (
        lambda step: cdopt.CompatibleCD(step, 2.0, form="complementary"),
        SMOOTH,
    ),
    "compliant": (lambda step: cdopt.CompliantCD(step, 2.0, kappa=1e6), SMOOTH),
    "coulomb": (cdopt.FrictionalCD, ROUGH),
    "associated": (lambda step: cdopt.FrictionalCD(step, "associated"), ROUGH),
    "soft": (lambda step: cdopt.SoftCD(step, 1e-6), SMOOTH),
    "Delassus": (cdopt.ClassicCD, ["supports-delassus", "fclib-boxes", "fclib-periodic-box"]),
    "compatible, Delassus": (cdopt.CompatibleCD, ["supports-delassus", "fclib-boxes"]),
}


def in_other_units(step: Step, mass: float, force: float) -> Step:
    """The step with masses times ``mass``, and with forces so much larger again."""
    if not isinstance(step, cdopt.ContactStep):
        return step.replace(N=step.N / mass, p_vec=step.p_vec * force)
    scaled = {"M": step.M * mass, "F_ext": step.F_ext * mass * force, "v": step.v * force}
    return step.replace(**scaled, phi=step.phi * force)


@cache
def of_bank(problem: str) -> Step:
    """Its step, made once."""
    return cdopt.bank.load(problem).step


def some_steps(name: str, spread: float) -> list[Step]:
    """Each step of a kind, and once more with masses and loads ``spread`` apart."""
    bank = [of_bank(problem) for problem in MADE[name][1]]
    more = [in_other_units(step, spread, 1.0 / spread) for step in bank]
    steps = [step for pair in zip(bank, more, strict=True) for step in pair]
    return [step for step in steps if likeness(step) == likeness(steps[0])]


def same_residuals(one: cdopt.Certificate, other: cdopt.Certificate, at: float = 1e-13) -> None:
    """Equal but for the order of sums, or but for ``at`` of round-off."""
    assert [r.name for r in one] == [r.name for r in other]
    for a, b in zip(one, other, strict=True):
        assert a.unit == b.unit
        assert a.value == pytest.approx(b.value, rel=1e6 * at, abs=at), a.name
        assert a.resolution == pytest.approx(b.resolution, rel=1e6 * at, abs=at), a.name
        if a.value > 10.0 * at:
            assert a.scale == pytest.approx(b.scale, rel=1e4 * at), a.name
    assert (one.motion_error is None) == (other.motion_error is None)
    if one.motion_error is not None and other.motion_error is not None:
        assert one.motion_error == pytest.approx(other.motion_error, rel=1e-6, abs=1e-30)
    assert one.no_motion_error == other.no_motion_error
    assert (one.slater is None) == (other.slater is None)


@pytest.mark.parametrize("spread", [1.0, 1e-9, 1e9])
@pytest.mark.parametrize("name", [n for n in MADE if not n.startswith("compatible")])
def test_residuals_of_answers_with_errors_are_those_of_each_step(name: str, spread: float) -> None:
    """Of right answers, and of forces that are off by 1e-9, 1e-5 and half of their size."""
    make, steps = MADE[name][0], some_steps(name, spread)
    stack, rng = Stack.of(steps), np.random.default_rng(3)
    data, singles = make(stack.step).data, [make(step).data for step in steps]
    solved = [make(step).solve(check=False) for step in steps]
    for error in (0.0, 1e-9, 1e-5, 0.5):
        forces = [
            s.iterate.forces * (1.0 + error * rng.standard_normal(s.iterate.forces.size))
            for s in solved
        ]
        motions = [d.velocity(f) for d, f in zip(singles, forces, strict=True)]
        motion = None if motions[0] is None else np.concatenate(motions)
        groups = stack.groups(data.parts, stack.dof)
        each = certify_each(data, motion, np.concatenate(forces), groups)
        for one, single, v, f in zip(each, singles, motions, forces, strict=True):
            same_residuals(one, certify(single, v, f))


@pytest.mark.parametrize("spread", [1.0, 1e6])
@pytest.mark.parametrize("name", MADE)
def test_answers_are_those_of_the_steps_one_by_one(name: str, spread: float) -> None:
    """Motions and loads; compatible, compliant and soft forces, which are unique, too."""
    make, steps = MADE[name][0], some_steps(name, spread)
    batch = cdopt.solve_batch(steps, make)
    assert batch.ok
    assert len(batch) == len(steps) > 1
    for solution, step in zip(batch, steps, strict=True):
        assert solution.provenance["stacked"] == len(steps)
        alone = make(step).solve()
        assert set(solution.certificates) == set(alone.certificates)
        assert solution.contact_names == alone.contact_names
        if solution.v_next is not None:
            speeds = alone.v_next, step.v, step.v_star
            at = 1e-7 * max(np.abs(speed).max() for speed in speeds)
            np.testing.assert_allclose(solution.v_next, alone.v_next, rtol=0.0, atol=at)
        assert solution.objective == pytest.approx(alone.objective, rel=1e-6, abs=1e-9 * spread)
        for field in ("f", "gap", "dual", "u", "f_t", "slip", "iterate"):
            mine, other = getattr(solution, field), getattr(alone, field)
            assert (mine is None) == (other is None), field
            assert np.shape(mine) == np.shape(other), field
        if name.split(",")[0] in ("compatible", "compliant", "soft"):
            at = 1e-6 * np.abs(alone.f).max(initial=0.0)
            np.testing.assert_allclose(solution.f, alone.f, rtol=0.0, atol=at)


@settings(max_examples=20)
@given(
    st.lists(st.sampled_from([*SMOOTH[:3], *ROUGH[:2], "zero-contacts"]), max_size=7),
    st.integers(0, 99),
)
def test_any_steps_in_any_order(names: list[str], seed: int) -> None:
    """Steps with friction and without, and of several Δt, each at its place."""
    rng = np.random.default_rng(seed)
    steps = [of_bank(name).replace(dt=float(rng.choice([1e-3, 2e-3]))) for name in names]
    batch = cdopt.solve_batch(steps)
    assert len(batch) == len(steps)
    assert batch.ok
    for solution, step in zip(batch, steps, strict=True):
        f = solution.f if solution.f_t is None else np.column_stack([solution.f, solution.f_t])
        usual: Make = cdopt.ClassicCD if step.friction is None else cdopt.FrictionalCD
        assert certify(usual(step).data, solution.v_next, f.ravel()).ok


def test_residuals_name_the_step_that_is_wrong() -> None:
    """An error in one of three steps is in its certificate alone."""
    steps = [cdopt.bank.load("beam-uniform").step] * 3
    stack = Stack.of(steps)
    data = cdopt.ClassicCD(stack.step).data
    f = np.array([2.5, 5.0, 2.5] * 3)
    f[4] *= 1.001
    each = certify_each(data, data.velocity(f), f, stack.groups(data.parts, stack.dof))
    assert [c.ok for c in each] == [True, False, True]
    nan = np.where(np.arange(9) == 8, np.nan, f)
    each = certify_each(data, data.velocity(nan), nan, stack.groups(data.parts, stack.dof))
    assert [c.ok for c in each] == [True, False, False]


def test_joints_and_their_reactions() -> None:
    steps = [bars(), bars().replace(F_ext=[0.0, -20.0, 0.0, 1.0, -10.0, 0.0])]
    for make in (cdopt.ClassicCD, cdopt.CompatibleCD):
        for solution, step in zip(cdopt.solve_batch(steps, make), steps, strict=True):
            alone = make(step).solve()
            assert solution.provenance["stacked"] == 2
            np.testing.assert_allclose(solution.v_next, alone.v_next, atol=1e-9)
            if make is cdopt.CompatibleCD:
                np.testing.assert_allclose(solution.f, alone.f, atol=1e-7)
                np.testing.assert_allclose(solution.joint_forces, alone.joint_forces, atol=1e-7)
            load = step.B.T @ solution.f + step.joints.J.T @ solution.joint_forces
            needed = step.M @ (solution.v_next - step.v) / step.dt - step.F_ext
            np.testing.assert_allclose(load, needed, atol=1e-6)


def test_a_step_without_a_solution_harms_no_other() -> None:
    """A body between walls that close in: a proof for it, certified answers for the others."""
    closing = cdopt.ContactStep(
        np.eye(2), [[1.0, 0.0], [-1.0, 0.0]], [-1e-3, -1e-3], [0.0, 0.0], [0.0, 0.0], 1e-3
    )
    beam = cdopt.bank.load("beam-uniform").step
    steps = [beam, beam, closing, beam, beam, beam]
    with pytest.raises(cdopt.SolveFailed, match=r"^step 2: ") as failed:
        cdopt.solve_batch(steps)
    assert failed.value.proof is not None
    batch = cdopt.solve_batch(steps, check=False)
    assert [solution.ok for solution in batch] == [True, True, False, True, True, True]
    assert not batch.ok
    assert batch[2].f is None
    for solution in batch[:2]:
        assert solution.f.sum() == pytest.approx(10.0)


def test_large_forces_get_the_slater_number_of_their_own_step() -> None:
    """A closed wedge in space, pressed apart from inside a thousand times its weight."""
    step = wedge(3, 0.5, 0.0, [0.0, 0.0, -9.81])
    single = cdopt.FrictionalCD(step, "associated")
    solution, along = single.solve(), single.slater().forces
    wedged = solution.iterate.forces + 1e4 * (along / along.max()).ravel()
    alone = certify(single.data, solution.v_next, wedged)
    assert alone.slater == 0.0
    stack = Stack.of([step] * 3)
    data = cdopt.FrictionalCD(stack.step, "associated").data
    f = np.concatenate([solution.iterate.forces, wedged, solution.iterate.forces])
    groups, motion = stack.groups(data.parts, stack.dof), np.tile(solution.v_next, 3)
    each = certify_each(data, motion, f, groups)
    same_residuals(each[1], alone)
    assert [c.slater for c in each] == [None, 0.0, None]


def test_residuals_of_trusses_are_those_of_each_step() -> None:
    """The second problem of compatible forces, with loads a million apart, right and wrong."""
    steps, rng = some_steps("compatible", 1e6), np.random.default_rng(4)
    stack, singles = Stack.of(steps), list[Any]()
    for step, classic in zip(steps, cdopt.solve_batch(steps, cdopt.ClassicCD), strict=True):
        cd = cdopt.CompatibleCD(step, 2.0)
        singles.append(cd.truss(cd.network(classic)))
    cd = cdopt.CompatibleCD(stack.step, 2.0)
    network = cd.network(cd.classic_cd.solve())
    data = cd.truss(network).data
    groups = stack.groups(data.parts, stack.dof, network.contacts)
    answers = [truss.solve().iterate for truss in singles]
    for error in (0.0, 1e-7, 0.3):
        pairs = [
            (a.motion, a.forces * (1.0 + error * rng.standard_normal(a.forces.size)))
            for a in answers
        ]
        motion, forces = (np.concatenate(values) for values in zip(*pairs, strict=True))
        each = certify_each(data, motion, forces, groups)
        for one, truss, (u, f) in zip(each, singles, pairs, strict=True):
            same_residuals(one, certify(truss.data, u, f), 1e-11)  # loads have round-off


def test_one_frame_of_all_steps() -> None:
    steps = [cdopt.bank.load(name).step for name in ("table", "ladder", "tripod")]
    batch = cdopt.solve_batch(steps)
    frame = batch.to_frame()
    assert frame.index.names == ["step", "contact"]
    assert list(frame.columns) == ["f", "gap", "f_t", "slip"]
    assert frame.loc[0, "f_t"].isna().all()
    for k, solution in enumerate(batch):
        np.testing.assert_array_equal(frame.loc[k, "f"], solution.f)
        assert list(frame.loc[k].index) == solution.contact_names
    assert cdopt.solve_batch([]).to_frame().empty
    assert repr(batch).startswith("Batch(3 steps, 9 contacts: 3 ok, worst residual ")
    assert batch[1:].solutions == batch.solutions[1:]


def test_what_it_does_not_stack() -> None:
    beams = [cdopt.bank.load("beam-uniform").step] * 2
    with pytest.raises(cdopt.InvalidInput, match="steps"):
        cdopt.solve_batch(beams[0])
    with pytest.raises(cdopt.InvalidInput, match="formulation"):
        cdopt.solve_batch(beams, "classic")  # type: ignore[arg-type]
    with pytest.raises(cdopt.Unsupported, match="not one that it stacks"):
        cdopt.solve_batch(beams, lambda step: step)

    def capped(step: Step) -> Formulation:
        cd = cdopt.ClassicCD(step)
        return cd.with_constraints(cd.forces[0] <= 2.0)

    with pytest.raises(cdopt.Unsupported, match="constraints"):
        cdopt.solve_batch(beams, capped)


def test_other_backends_stack_too() -> None:
    beams = [cdopt.bank.load(name).step for name in ("beam-uniform", "beam-stiff-middle", "table")]
    for backend in ("clarabel", "osqp"):
        options = {"accuracy": 1e-9}
        batch = cdopt.solve_batch(beams[:2], cdopt.CompatibleCD, backend, **options)
        assert batch.ok
        np.testing.assert_allclose(batch[1].f, [2.0, 6.0, 2.0], atol=1e-5)
        assert batch[0].backend == backend
