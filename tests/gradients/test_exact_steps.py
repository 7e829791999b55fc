"""Derivatives of random steps against differences in forty digits, and both directions."""

from __future__ import annotations

from typing import Any

import exact
import numpy as np
import pytest
from exact import OPEN, SLIDE, STICK, mp
from steps import data_of, directions_of, exactly, pairing, random_step

import cdopt
from cdopt import gradients

KINDS = [
    ("classic", 1, 0), ("classic", 1, 2), ("coulomb", 2, 0), ("coulomb", 3, 1),
    ("associated", 2, 1), ("associated", 3, 0),
]  # fmt: skip


def formulation(step: Any, law: str) -> Any:
    return cdopt.ClassicCD(step) if law == "classic" else cdopt.FrictionalCD(step, law)


def states_of(step: Any, solution: Any, law: str) -> tuple[int, ...]:
    """Which contacts are open, at rest or sliding."""
    size = 1e-7 * (1.0 + solution.f.max())
    if law == "classic":
        return tuple(STICK if f > size else OPEN for f in solution.f)
    slips = np.linalg.norm(solution.slip, axis=1)
    return tuple(
        OPEN if f <= size else SLIDE if slip > 1e-7 else STICK
        for f, slip in zip(solution.f, slips, strict=True)
    )


def check(seed: int, law: str, d: int, joints: int) -> bool:
    """Whether the step of this seed was away from kinks; its derivatives are right if so."""
    rng = np.random.default_rng(seed)
    nc = int(rng.integers(1, 5 if d < 3 else 4))
    step = random_step(rng, nc, d * nc + joints + 1, d, joints)
    problem = formulation(step, law)
    try:
        solution = problem.solve("newton", accuracy=1e-13)
    except cdopt.SolveFailed:
        return False
    if not solution.ok:
        return False
    derivatives = gradients.of(problem, solution, tol=1e-4)
    if derivatives.kinks:
        return False
    directions = directions_of(step, rng)
    tangent = derivatives.jvp(**directions)

    with mp.workdps(exact.DIGITS):
        data, ways = exactly({**data_of(step), "dt": step.dt}), exactly(directions)
        rows = [solution.f[:, None], *([] if d == 1 else [solution.f_t])]
        forces = np.concatenate([np.hstack(rows).ravel(), solution.joint_forces] if joints else
                                [np.hstack(rows).ravel()])  # fmt: skip
        start = list(map(mp.mpf, solution.v_next)), list(map(mp.mpf, forces))
        states, h = states_of(step, solution, law), mp.mpf(10) ** -12

        v, f, slope = exact.solve(data, law, start, states)

        def at(t: Any) -> tuple[Any, Any]:
            return exact.solve(exact.shifted(data, ways, t), law, (v, f), states, slope)[:2]

        assert np.allclose(np.array(v, dtype=float), solution.v_next, rtol=1e-8, atol=1e-8)
        (vp, fp), (vm, fm) = at(h), at(-h)
        dv = np.array((vp - vm) / (2 * h), dtype=float)
        df = np.array((fp - fm) / (2 * h), dtype=float)
    assert np.abs(tangent["v_next"] - dv).max() <= 1e-8 * np.abs(dv).max()
    table = df[: nc * d].reshape(nc, d)
    assert np.abs(tangent["f"] - table[:, 0]).max() <= 1e-8 * max(np.abs(df).max(), 1e-9)
    if d > 1:
        assert np.abs(tangent["f_t"] - table[:, 1:]).max() <= 1e-8 * max(np.abs(df).max(), 1e-9)

    cotangents = {k: rng.standard_normal(shape) for k, shape in derivatives.outputs.items()}
    pull = derivatives.vjp(**cotangents)
    ahead = sum(float(np.sum(tangent[k] * w)) for k, w in cotangents.items())
    size = sum(float(np.sum(np.abs(tangent[k] * w))) for k, w in cotangents.items())
    assert abs(ahead - pairing(pull, directions)) <= 1e-10 * size
    return True


@pytest.mark.parametrize(("law", "d", "joints"), KINDS)
def test_a_few_random_steps(law: str, d: int, joints: int) -> None:
    assert sum(check(seed, law, d, joints) for seed in range(4)) >= 1


@pytest.mark.slow
@pytest.mark.parametrize(("law", "d", "joints"), KINDS)
def test_many_random_steps(law: str, d: int, joints: int) -> None:
    assert sum(check(1000 + seed, law, d, joints) for seed in range(60)) >= 54


def test_the_reference_tries_every_set_of_contacts() -> None:
    rng = np.random.default_rng(5)
    step = random_step(rng, 4, 6, 1, 0)
    with mp.workdps(exact.DIGITS):
        v, f = exact.enumerated(exactly({**data_of(step), "dt": step.dt}))
    solution = cdopt.ClassicCD(step).solve()
    np.testing.assert_allclose(np.array(v, dtype=float), solution.v_next, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(np.array(f, dtype=float), solution.f, rtol=1e-8, atol=1e-8)
