"""Indeterminacy with friction: hand calculations, dimensions, every backend inside the bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from command_line import run, run_json
from scipy.optimize import linprog

import cdopt
from cdopt.hyperstatic import cone_bounds, linear_bounds
from cdopt.problem import frictional_data


def components(report: cdopt.hyperstatic.Indeterminacy) -> tuple[np.ndarray, np.ndarray]:
    """(nc, d) lower and upper bounds."""
    lower, upper = report.intervals
    np.testing.assert_array_equal(lower, np.column_stack([report.lower, report.lower_t]))
    np.testing.assert_array_equal(upper, np.column_stack([report.upper, report.upper_t]))
    return lower, upper


def test_the_ladder_by_hand() -> None:
    """One state of self-stress: f = f₀ + s n; the cones are four inequalities in s."""
    step = cdopt.bank.load("ladder").step
    report = cdopt.indeterminacy(step, law="coulomb")
    assert (report.rank, report.nullity, report.dimension) == (3, 1, 1)
    B = frictional_data(step, "coulomb").B.toarray()
    start, state = -np.linalg.lstsq(B.T, step.F_ext, rcond=None)[0], np.linalg.svd(B.T)[2][-1]
    mu, ends = step.friction.mu, []
    for i in (0, 1):
        for sign in (1.0, -1.0):  # μ f_n ± f_t = a + b s ≥ 0
            row = np.zeros(4)
            row[2 * i : 2 * i + 2] = mu[i], sign
            ends.append((-(row @ start) / (row @ state), row @ state > 0.0))
    low = max(s for s, rising in ends if rising)
    high = min(s for s, rising in ends if not rising)
    corners = np.array([start + low * state, start + high * state]).reshape(2, 2, 2)
    least, largest = components(report)
    np.testing.assert_allclose(least, corners.min(axis=0), rtol=1e-8)
    np.testing.assert_allclose(largest, corners.max(axis=0), rtol=1e-8)
    ratios = np.sort(corners[:, :, 1] / (mu * corners[:, :, 0]), axis=0)
    for i in (0, 1):
        np.testing.assert_allclose(report.mobilised(i), ratios[:, i], atol=1e-8)
    assert report.ok
    assert not report.unique.any()


@pytest.mark.parametrize("law", ["coulomb", "associated"])
@pytest.mark.parametrize("name", ["rough-arch", "rough-wall:courses=3,bricks=2"])
def test_bounds_in_the_plane_are_those_of_plain_linear_programs(name: str, law: str) -> None:
    """Cones as inequalities |f_t| ≤ μ f_n, by SciPy; the residual is that of linear programs."""
    step = cdopt.bank.load(name).step
    report = cdopt.indeterminacy(step, law)
    assert report.residual.max() <= linear_bounds.CERTIFIED
    assert (report.faces.status != 1).all()  # no contact slides: each is in its cone, or open
    B, n = frictional_data(step, law).B, 2 * step.nc
    cones = np.zeros((n, n))
    for i, mu in enumerate(step.friction.mu):
        cones[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = [[-mu, 1.0], [-mu, -1.0]]
    free = np.repeat(report.closed, 2)
    lower, upper = (side.ravel() for side in report.intervals)
    for k in np.flatnonzero(free)[::5]:
        for sign, bound in ((1.0, lower[k]), (-1.0, upper[k])):
            answer = linprog(
                sign * np.eye(n)[k], cones, np.zeros(n), B.T.toarray(), report.faces.load,
                bounds=[(None, None) if one else (0.0, 0.0) for one in free],
            )  # fmt: skip
            assert answer.status == 0
            assert bound == pytest.approx(sign * answer.fun, abs=1e-7 * report.unit.max())


def test_a_table_with_friction_by_hand() -> None:
    """Four legs on a circle, weight W: N = s, W/2 − s, s, W/2 − s for s from 0 to W/2.

    Towards the middle a leg's friction is at most μ W/2, with the opposite one alone. Along the
    circle it turns the table: F at the leg, F/2 the other way and F/2 outward at each neighbour
    balance, where F = μ s = √2 μ (W/2 − s).
    """
    weight, mu, height = 80.0, 0.3, 0.7
    normal, tangential = [], []
    for angle in np.pi * np.arange(4) / 2:
        out, round_ = np.array(
            [[np.cos(angle), np.sin(angle), 0], [-np.sin(angle), np.cos(angle), 0]]
        )
        arm = 1.3 * out - [0.0, 0.0, height]
        rows = [np.append(n, np.cross(arm, n)) for n in ([0.0, 0.0, 1.0], out, round_)]
        normal.append(rows[0])
        tangential += rows[1:]
    table = cdopt.ContactStep(
        np.diag([8.0] * 3 + [2.0] * 3), normal, np.zeros(4), np.zeros(6),
        [0, 0, -weight, 0, 0, 0], 1e-3, friction=cdopt.Friction(mu, tangential),
    )  # fmt: skip
    report = cdopt.indeterminacy(table, law="coulomb")
    assert (report.rank, report.dimension) == (6, 6)
    most = [weight / 2, mu * weight / 2, mu * weight * (1.0 - np.sqrt(0.5))]
    least = [0.0, -most[1], -most[2]]
    lower, upper = components(report)
    np.testing.assert_allclose(upper, np.tile(most, (4, 1)), rtol=1e-7)
    np.testing.assert_allclose(lower, np.tile(least, (4, 1)), rtol=1e-7, atol=1e-7)


def test_the_region_of_a_contact_holds_every_answer() -> None:
    """The ladder's is the segment between its two corners."""
    report = cdopt.indeterminacy(cdopt.bank.load("ladder").step, law="coulomb")
    corners = report.region(1)
    ends = np.array(components(report))[:, 1]
    np.testing.assert_allclose([corners.min(axis=0), corners.max(axis=0)], ends, rtol=1e-7)
    along = np.diff(ends, axis=0)[0]
    off = (corners - ends[0]) @ [along[1], -along[0]]
    assert np.abs(off).max() <= 1e-7 * along @ along
    wedge = cdopt.bank.load("wedge:gap=0,speed=0").step
    endless = cdopt.indeterminacy(wedge, law="coulomb", contacts=[])
    with pytest.raises(cdopt.InvalidInput, match="without an upper bound"):
        endless.region(0)


@pytest.mark.parametrize(
    "name", ["rough-pile:n=3", pytest.param("rough-pile", marks=pytest.mark.slow)]
)
def test_all_bounds_at_once_are_those_of_clarabel(name: str, monkeypatch: Any) -> None:
    step = cdopt.bank.load(name).step
    answer = cdopt.FrictionalCD(step, "coulomb").solve("newton")
    monkeypatch.setattr(cone_bounds, "_MANY", 10**9)
    one_by_one = cdopt.indeterminacy(step, "coulomb", solution=answer)
    monkeypatch.setattr(cone_bounds, "_MANY", 0)
    monkeypatch.setattr(cone_bounds, "_SHARP", 1.0)  # nothing is left to Clarabel
    at_once = cdopt.indeterminacy(step, "coulomb", solution=answer, jobs=2)
    assert at_once.ok
    assert at_once.dimension == one_by_one.dimension > 0
    for one, other in zip(components(at_once), components(one_by_one), strict=True):
        assert np.abs(one - other).max() <= 1e-6 * at_once.unit.max()


@pytest.mark.parametrize("law", ["coulomb", "associated"])
@pytest.mark.parametrize(
    ("name", "dimension"),
    [
        ("rough-pile:n=3", 3 * 24 - 6 * 5),  # rows less equations of the spheres, bricks and bodies
        pytest.param("rough-pile", 3 * 72 - 6 * 14, marks=pytest.mark.slow),
        pytest.param("rough-wall", 2 * 106 - 3 * 22, marks=pytest.mark.slow),
        # three of its 60 contacts open
        pytest.param("fclib-periodic-box-friction", 3 * 57 - 6 * 12, marks=pytest.mark.slow),
    ],
)
def test_every_backend_lies_inside_the_bounds(name: str, dimension: int, law: str) -> None:
    """All that take cones; and a point inside all cones, which proves the dimension."""
    step = cdopt.bank.load(name).step
    report = cdopt.indeterminacy(step, law=law, jobs=2)
    assert report.ok
    assert report.dimension == dimension
    centre = cdopt.hyperstatic.analytic_centre(report)
    inside = step.friction.mu * centre.f - np.linalg.norm(centre.f_t, axis=1)
    assert inside[report.closed].min() > 1e-3 * report.unit.max()
    largest = []
    for backend in ("newton", "nsgs", "admm", "clarabel", "scs", "qoco", "moreau"):
        if backend not in cdopt.backends.available():
            continue
        answer = cdopt.FrictionalCD(step, law).solve(backend)
        if answer.ok:
            assert report.outside(answer.f, answer.f_t).max() <= 1e-6 * report.unit.max(), backend
            largest.append(answer.f.max())
    assert len(largest) >= 4
    assert max(largest) > (1.01 if step.nc < 60 else 1.3) * min(largest)


def test_facial_reduction_and_a_wedge_without_bound() -> None:
    """At the friction angle the block's force is on its cone: a ray, no freedom is left."""
    step = cdopt.ContactStep(
        np.eye(2), [[0.0, 1.0], [0.0, 1.0]], [0.0, 0.0], [0.0, 0.0], [5.0, -10.0], 1e-3,
        friction=cdopt.Friction(0.5, [[1.0, 0.0], [1.0, 0.0]]),
    )  # fmt: skip
    report = cdopt.indeterminacy(step, law="associated")
    assert (report.nullity, report.dimension) == (2, 1)  # of the normal forces alone
    np.testing.assert_allclose(report.lower, 0.0, atol=1e-6)
    np.testing.assert_allclose(report.upper, 10.0, rtol=1e-6)
    np.testing.assert_allclose(report.lower_t, -5.0, rtol=1e-6)
    endless = cdopt.indeterminacy(cdopt.bank.load("wedge:gap=0,speed=0").step, law="coulomb")
    assert endless.unbounded.all()
    assert np.isinf(endless.upper).all()
    balance = frictional_data(endless.step, "coulomb").B.T @ np.sum(endless.rays, axis=0)
    np.testing.assert_allclose(balance, 0.0, atol=1e-7)


def test_a_slope_whose_block_slides_on_either_corner() -> None:
    slope = cdopt.indeterminacy(cdopt.bank.load("incline:ratio=1.5").step, law="coulomb")
    assert set(slope.faces.status) == {1}  # on a ray
    assert (slope.nullity, slope.dimension) == (0, 0)
    assert slope.unique.all()


def test_refusals_tables_and_the_command() -> None:
    step = cdopt.bank.load("ladder").step
    report = cdopt.indeterminacy(step, law="coulomb")
    table, answer = report.to_frame(), report.solution
    assert list(table.index) == list(report.names)
    np.testing.assert_array_equal(table["lower"], report.lower)
    np.testing.assert_array_equal(table["upper_t1"], report.upper_t[:, 0])
    assert table["status"].iloc[0] == report.status_of(0)
    with pytest.raises(cdopt.Unsupported):
        cdopt.indeterminacy(step)
    late = cdopt.indeterminacy(step, "coulomb", time_limit=0.0, solution=answer)
    assert set(late.failures.values()) == {"time limit"}
    assert np.isnan(late.lower).all()
    with pytest.raises(cdopt.InvalidInput, match="law"):
        cdopt.indeterminacy(step, law="viscous")
    rows = run_json("bounds", "ladder", "--law", "coulomb")["forces"]
    np.testing.assert_allclose(
        [rows[0]["lower"], rows[0]["upper"]], [930.858142, 1044.233290], rtol=1e-8
    )
    said = run("bounds", "ladder", "--law", "associated").stdout
    assert "1 dimension" in " ".join(said.split())
