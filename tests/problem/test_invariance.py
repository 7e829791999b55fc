"""What may not change an answer does not: numbering, units, common stiffness, mirrors."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import random_step
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import cdopt

CHOSEN = cdopt.backends.Modelled("clarabel")
seeds = st.integers(0, 10_000)
powers = st.sampled_from([2.0, 2.5])
QUICK = settings(max_examples=20)


def loaded_truss(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """B, a load that contacts can carry, stiffness."""
    rng = np.random.default_rng(seed)
    B = rng.standard_normal((9, 5))
    return B, B.T @ rng.random(9), rng.uniform(0.5, 2.0, 9)


def solve(B, load, k, power, form="complementary"):
    f = cdopt.NoTensionTruss(B, load, k, power, form).solve(CHOSEN, check=False).f
    assume(f is not None)  # Clarabel's own failures are no claim of ours
    return f


def close(f: np.ndarray, expected: np.ndarray, power: float) -> None:
    """Solver accuracy: the square root of its gap through cones, or where contacts just touch."""
    scale = np.abs(expected).max()
    np.testing.assert_allclose(f / scale, expected / scale, atol=3e-4 if power == 2 else 3e-3)


@QUICK
@given(seeds, powers)
def test_the_order_of_contacts(seed: int, power: float) -> None:
    B, load, k = loaded_truss(seed)
    order = np.random.default_rng(seed).permutation(9)
    close(solve(B[order], load, k[order], power), solve(B, load, k, power)[order], power)


@QUICK
@given(seeds, powers)
def test_the_numbering_of_bodies(seed: int, power: float) -> None:
    B, load, k = loaded_truss(seed)
    order = np.random.default_rng(seed).permutation(5)
    close(solve(B[:, order], load[order], k, power), solve(B, load, k, power), power)


@QUICK
@given(seeds, powers, st.sampled_from([1e-9, 1e9]), st.sampled_from([1e-6, 1e6]))
def test_units_of_force_and_length(seed: int, power: float, force: float, length: float) -> None:
    """Dofs 0–2 are translations, 3–4 rotations, whose levers are lengths."""
    B, load, k = loaded_truss(seed)
    lever = np.where(np.arange(5) < 3, 1.0, length)
    unit = force / length ** (power - 1.0)
    scaled = solve(B * lever, load * force * lever, k * unit, power)
    close(scaled / force, solve(B, load, k, power), power)


@QUICK
@given(seeds, st.sampled_from([1e-9, 1e9]), st.sampled_from([1e-6, 1e6]))
def test_units_of_a_step(seed: int, force: float, length: float) -> None:
    """Time stays in seconds, so mass scales as force / length."""
    step = random_step(seed)
    mass = force / length
    other = cdopt.ContactStep(
        M=step.M * mass, B=step.B, phi=step.phi * length, v=step.v * length,
        F_ext=step.F_ext * force, dt=step.dt, stiffness=step.stiffness,
    )  # fmt: skip
    for form in ("force", "velocity"):
        one = cdopt.ClassicCD(step, form).solve(CHOSEN, check=False)
        two = cdopt.ClassicCD(other, form).solve(CHOSEN, check=False)
        assert (one.f is None) == (two.f is None)  # Clarabel fails in any units, or in none
        assume(one.f is not None)
        speed = np.abs(step.v_star).max()
        np.testing.assert_allclose(two.v_next / length, one.v_next, atol=1e-6 * speed)
        assert two.certificate.worst == pytest.approx(one.certificate.worst, abs=1e-6)


@QUICK
@given(seeds, powers, st.floats(1e-6, 1e6))
def test_a_common_factor_of_stiffness(seed: int, power: float, factor: float) -> None:
    B, load, k = loaded_truss(seed)
    close(solve(B, load, factor * k, power), solve(B, load, k, power), power)


@QUICK
@given(seeds, powers)
def test_loads_and_forces_are_proportional(seed: int, power: float) -> None:
    """The limit of infinite stiffness has no other scale of force."""
    B, load, k = loaded_truss(seed)
    close(solve(B, 7.0 * load, k, power) / 7.0, solve(B, load, k, power), power)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("material", ["hooke", "hertz"])
def test_a_mirrored_scene_has_mirrored_forces(axis: int, material: str) -> None:
    """The pyramid reflected in x or y is the same pyramid: forces map contact by contact."""
    problem = cdopt.bank.load(f"pyramid-{material}:n=4")
    step = problem.step
    f = cdopt.CompatibleCD(step, problem.power).solve(CHOSEN, classic="clarabel").f
    mirrored_points = step.points.copy()
    centre = 0.5 * (step.points[:, axis].max() + step.points[:, axis].min())
    mirrored_points[:, axis] = 2.0 * centre - mirrored_points[:, axis]
    partner = [int(np.argmin(np.linalg.norm(step.points - x, axis=1))) for x in mirrored_points]
    assert sorted(partner) == list(range(step.nc))
    np.testing.assert_allclose(f[partner], f, atol=1e-3 * f.max())


def test_a_step_seen_in_the_plane_or_in_space_is_the_same() -> None:
    """Matrices do not know their dimension: a planar chain embedded in three."""
    plane = np.array([[1.0, 0.0], [-0.6, 0.8], [0.6, 0.8]])
    space = np.zeros((3, 3))
    space[:, [0, 2]] = plane
    load = plane.T @ np.array([1.0, 2.0, 2.5])
    flat = cdopt.NoTensionTruss(plane, load).solve("newton").f
    deep = cdopt.NoTensionTruss(space, [load[0], 0.0, load[1]]).solve("newton").f
    np.testing.assert_allclose(flat, deep, atol=1e-9)


NUMBERED = (
    "beam-stiff-middle", "table", "tripod", "supports", "duplicated-contacts", "rank-deficient",
    "stiffness-ratio", "ten-orders", "crystal-2d", "pyramid-hertz", "pyramid-falling",
)  # fmt: skip


def renumbered(step: cdopt.ContactStep, order: np.ndarray, dofs: np.ndarray) -> cdopt.ContactStep:
    """The same step with contacts and degrees of freedom in another order."""
    return cdopt.ContactStep(
        step.M[dofs][:, dofs], step.B[order][:, dofs], step.phi[order], step.v[dofs],
        step.F_ext[dofs], step.dt, stiffness=step.stiffness[order],
        restitution=step.restitution[order], gap_rate=step.gap_rate[order], v_min=step.v_min,
    )  # fmt: skip


@pytest.mark.parametrize("name", NUMBERED)
def test_verdicts_do_not_depend_on_numbering(name: str) -> None:
    """Motion, compatible forces, what is unique and its bounds move along with the contacts."""
    problem = cdopt.bank.load(name)
    step = problem.step
    rng = np.random.default_rng(5)
    order, dofs = rng.permutation(step.nc), rng.permutation(step.nv)
    asked = rng.permutation(step.nc)[:12]
    other = renumbered(step, order, dofs)
    speed = max(np.abs(step.v).max(), np.abs(step.v_star).max())
    one, two = (
        cdopt.CompatibleCD(s, problem.power).solve("newton", check=False) for s in (step, other)
    )
    assert (one.ok, one.classic.ok) == (two.ok, two.classic.ok)
    np.testing.assert_allclose(two.v_next, one.v_next[dofs], atol=1e-8 * speed)
    np.testing.assert_allclose(two.f, one.f[order], atol=1e-6 * np.abs(one.f).max())
    before = cdopt.indeterminacy(step, contacts=asked)
    after = cdopt.indeterminacy(other, contacts=np.flatnonzero(np.isin(order, asked)))
    assert after.ok == before.ok
    for mark in ("rank", "nullity", "dimension"):
        assert getattr(after, mark) == getattr(before, mark), mark
    for mark in ("closed", "loadable", "unique", "unbounded"):
        np.testing.assert_array_equal(getattr(after, mark), getattr(before, mark)[order], mark)
    for bound in ("lower", "upper"):
        found, expected = getattr(after, bound), getattr(before, bound)[order]
        np.testing.assert_allclose(found, expected, atol=1e-6 * np.abs(before.force).max())
