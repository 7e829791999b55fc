"""Cones of contacts, d = 1, 2, 3 and fixed faces: what holds for every closed convex cone."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

import cdopt
from cdopt.problem import Cones, FrictionCones, HalfLines, cone_rules, frictional_data, rigid_data
from cdopt.problem.cone_products import Filled, Product
from cdopt.problem.cones import RULED, FixedFaces, Lines
from cdopt.problem.rolling_cones import EllipticCones, RollingCones

NC = 60


def cones_of(kind: str, seed: int = 0) -> Cones:
    rng = np.random.default_rng(seed)
    mu = np.where(rng.random(NC) < 0.2, 0.0, rng.uniform(0.05, 2.0, NC))
    if kind == "half-lines":
        return HalfLines(NC)
    if kind == "lines":
        return Lines(NC)
    if kind in ("product", "filled"):
        product = Product(FrictionCones(mu[:20], 3), HalfLines(25), Lines(15))
        return Filled(product) if kind == "filled" else product
    d = int(kind[-1])
    if kind.startswith(("rolling", "elliptic")):
        widths = {3: (1, 1), 4: (2, 1), 5: (2, 2), 6: (2, 1, 2)}[d]
        limits = rng.uniform(0.05, 2.0, (NC, len(widths)))
        limits[rng.random(limits.shape) < 0.1] = 0.0
        if kind.startswith("rolling"):
            return RollingCones(limits, widths)
        return EllipticCones(np.repeat(limits, widths, axis=1), 2)
    if kind.startswith("cones"):
        return FrictionCones(mu, d)
    way = rng.standard_normal((NC, d - 1))
    way *= (mu / np.linalg.norm(way, axis=1))[:, None]
    return FixedFaces(mu, d, rng.integers(0, 3, NC), np.column_stack([np.ones(NC), way]))


KINDS = ["half-lines", "cones 2", "cones 3", "faces 2", "faces 3", "lines", "product", "filled"]
KINDS += ["rolling 3", "rolling 5", "rolling 6", "elliptic 4", "elliptic 6"]
every = pytest.mark.parametrize("kind", KINDS)


@every
def test_moreaus_decomposition(kind: str) -> None:
    """y = P_K(y) − P_K*(−y), at right angles at every contact; P_K is a projection."""
    cones, rng = cones_of(kind), np.random.default_rng(1)
    y = rng.standard_normal(cones.rows)
    inside = cones.project(y)
    outside = inside - y  # the nearest point of K* to −y
    assert np.abs(cones.total(inside * outside)).max() <= 1e-14
    assert cones.distance(inside).max() <= 1e-14
    assert cones.dual_distance(outside).max() <= 1e-14
    np.testing.assert_allclose(cones.project(3.0 * y), 3.0 * inside, atol=1e-14)
    np.testing.assert_allclose(cones.distance(y), cones.norms(y - inside))


@every
def test_the_derivative_is_that_of_the_projection(kind: str) -> None:
    cones, rng = cones_of(kind), np.random.default_rng(2)
    y, change = rng.standard_normal((2, cones.rows))
    h = 1e-7
    slope = np.einsum("ikl,il->ik", cones.projection_derivative(y), cones.table(change))
    moved = (cones.project(y + h * change) - cones.project(y - h * change)) / (2.0 * h)
    np.testing.assert_allclose(slope, cones.table(moved), atol=1e-6)


@every
def test_the_natural_map_vanishes_at_complementary_pairs_alone(kind: str) -> None:
    cones, rng = cones_of(kind), np.random.default_rng(3)
    y, w = rng.standard_normal(cones.rows), rng.uniform(0.1, 10.0, NC)
    push = cones.project(y)
    f, g = push / cones.on_rows(w), push - y
    assert np.abs(cones.natural_map(f, g, w)).max() <= 1e-14
    for other in (f + 0.1, f - 0.1) if kind != "lines" else ():
        assert cones.norms(cones.natural_map(other, g, w)).max() > 0.01
        shift = cones.shift(g)
        expected = cones.norms(cones.natural_map(other, cones.shifted(g), w)).max()
        np.testing.assert_allclose(cones.largest_map(other, g, shift, w), expected, rtol=1e-13)


@pytest.mark.parametrize("kind", [*KINDS[:3], *KINDS[-5:]])
def test_the_shift_is_the_least_normal_rate_in_the_dual_cone(kind: str) -> None:
    cones, rng = cones_of(kind), np.random.default_rng(4)
    g = rng.standard_normal(cones.rows)
    edge = g.copy()
    edge[:: cones.d] = cones.shift(g)
    assert cones.dual_distance(edge).max() <= 1e-14
    edge[:: cones.d] -= 1e-6
    assert cones.dual_distance(edge).min() > 1e-7
    np.testing.assert_allclose(cones.normal(cones.shifted(g)), cones.normal(g) + cones.shift(g))


@every
def test_the_map_of_coulombs_law_vanishes_at_its_pairs_alone(kind: str) -> None:
    cones, rng = cones_of(kind), np.random.default_rng(10)
    if kind.startswith("faces"):
        pytest.skip("faces belong to a motion: they have no law of their own")
    y, w = rng.standard_normal(cones.rows), rng.uniform(0.1, 10.0, NC)
    push = cones.project(y)
    f, g = push / cones.on_rows(w), push - y
    g[cones.ends[:-1]] -= cones.shift(g)  # whose shifted rates are push − y
    assert np.abs(cones.coulomb_map(f, g, w)).max() <= 1e-13
    for other in (f + 0.1, f - 0.1) if kind != "lines" else ():
        assert cones.norms(cones.coulomb_map(other, g, w)).max() > 0.01


def test_the_cut_of_an_ellipse_is_the_nearest_point() -> None:
    cones, rng = cones_of("elliptic 6"), np.random.default_rng(11)
    y = rng.standard_normal(cones.rows)
    cut, tried, mu = cones.table(cones.frictional_cut(y)), cones.table(y), cones.coefficients
    safe = np.where(mu > 0.0, mu, np.inf)
    assert np.all(np.linalg.norm(cut[:, 1:] / safe, axis=1) <= cut[:, 0] * (1.0 + 1e-13))
    np.testing.assert_array_equal(cut[:, 0], np.maximum(tried[:, 0], 0.0))
    for _ in range(50):
        way = rng.standard_normal((NC, 5))
        other = cut[:, :1] * mu * way / np.linalg.norm(way, axis=1)[:, None]
        towards = np.sum((tried - cut)[:, 1:] * (other - cut[:, 1:]), axis=1)
        assert np.all(towards <= 1e-13)


@every
def test_roots_and_line_searches_follow_from_the_projection(kind: str) -> None:
    cones, rng = cones_of(kind), np.random.default_rng(6)
    y, change = rng.standard_normal((2, cones.rows))
    root = cones.projection_root(y)
    slope = cones.projection_derivative(y)
    np.testing.assert_allclose(root.transpose(0, 2, 1) @ root, slope, atol=1e-14)
    work = float(cones.project(y + 0.3 * change) @ change)
    assert cones.projected_work(y, change, 0.3) == pytest.approx(work, rel=1e-12)


@every
def test_the_gradient_of_the_shift_is_its_derivative(kind: str) -> None:
    cones, rng, h = cones_of(kind), np.random.default_rng(7), 1e-7
    g, change = rng.standard_normal((2, cones.rows))
    slope = np.sum(cones.shift_gradient(g) * cones.table(change), axis=1)
    moved = (cones.shift(g + h * change) - cones.shift(g - h * change)) / (2.0 * h)
    np.testing.assert_allclose(slope, moved, atol=1e-6)


@every
def test_compiled_loops_project_and_shift_by_rules(kind: str) -> None:
    cones, rng = cones_of(kind), np.random.default_rng(8)
    if kind == "filled" or not all(RULED in traits for traits in cones.kinds.values()):
        pytest.skip("no rules: apgd and nsgs refuse these cones")
    y = cones.table(rng.standard_normal(cones.rows))
    filled = Filled(cones)
    rules, mu = cones.rules
    np.testing.assert_allclose(
        cone_rules.project(y, rules, mu).ravel(), filled.project(y.ravel()), atol=1e-14
    )
    expected = cones.shift(y.ravel()[filled.rows_there])
    shifts = [cone_rules.shift_of_rows.py_func(*rows) for rows in zip(y, rules, mu, strict=True)]
    np.testing.assert_allclose(shifts, expected, rtol=1e-14)


@every
def test_lorentz_cones_describe_the_cones(kind: str) -> None:
    """f = stretch x with R x in Lorentz cones: true of projections, not beyond the boundary."""
    cones, rng = cones_of(kind), np.random.default_rng(9)
    if kind.startswith("faces") or kind == "filled":
        pytest.skip("proofs are not sought of these")
    inside, stretch = cones.project(rng.standard_normal(cones.rows)), cones.stretch
    R, sizes = cones.lorentz
    begins = np.cumsum([0, *sizes])
    contact = cones.contact[np.asarray(abs(R).argmax(axis=1)).ravel()[begins[:-1]]]

    def slack(f: np.ndarray) -> np.ndarray:
        """(nc,) the least x₀ − ‖x_T‖ of each contact, infinite without any."""
        x = R @ np.where(stretch > 0.0, f / np.where(stretch > 0.0, stretch, 1.0), 0.0)
        least = np.full(cones.nc, np.inf)
        parts = [x[a:b] for a, b in itertools.pairwise(begins.tolist())]
        np.minimum.at(least, contact, [part[0] - np.linalg.norm(part[1:]) for part in parts])
        return least

    assert np.all(slack(inside) >= -1e-14)
    lower = inside.copy()
    lower[cones.ends[:-1]] -= 0.2
    outside = cones.distance(lower) > 0.0
    np.testing.assert_array_equal(slack(lower) < 0.0, outside)
    assert outside.any() == (not cones.bilateral.all())


@every
def test_units_and_parts_of_cones(kind: str) -> None:
    """Forces in other units are in the cones of those; some contacts have their own cones."""
    cones, rng = cones_of(kind), np.random.default_rng(5)
    unit = cones.on_rows(rng.uniform(0.1, 10.0, NC)).copy()
    if cones.d > 1:
        unit[cones.ends[:-1]] = rng.uniform(0.1, 10.0, NC)
    f = cones.project(rng.standard_normal(cones.rows))
    assert cones.in_units(unit).distance(f / unit).max() <= 1e-14
    contacts = np.sort(rng.permutation(NC)[:20])
    rows = cones.rows_of(contacts)
    assert np.isin(cones.contact[rows], contacts).all()
    some, y = cones.take(contacts), rng.standard_normal(cones.rows)
    np.testing.assert_array_equal(some.project(y[rows]), cones.project(y)[rows])


@pytest.mark.parametrize("d", [2, 3])
def test_the_derivative_of_a_frictional_cut(d: int) -> None:
    """Against finite differences: sticking, slipping and open contacts, and faces."""
    rng = np.random.default_rng(d)
    nc, h = 60, 1e-7
    status, mu = rng.integers(0, 3, nc), rng.uniform(0.1, 1.5, nc)
    faces = FixedFaces(mu, d, status, np.ones((nc, d)))
    for cones in (FrictionCones(mu, d), faces):
        y, change = rng.standard_normal((2, nc * d))
        moved = cones.frictional_cut(y + h * change) - cones.frictional_cut(y - h * change)
        expected = np.einsum("ikl,il->ik", cones.cut_derivative(y), change.reshape(nc, d))
        np.testing.assert_allclose(moved.reshape(nc, d) / (2.0 * h), expected, atol=1e-6)


def test_without_friction_cones_of_every_dimension_judge_alike() -> None:
    """μ = 0: normal forces, gaps, and the energies of the certificate are those of half-lines."""
    step = cdopt.bank.load("beam-stiff-middle").step
    flat = step.replace(friction=cdopt.Friction(0.0, np.ones((step.nc, step.nv))))
    plain, rough = rigid_data(step), frictional_data(flat, "associated")
    assert (plain.nc, plain.rows, rough.nc, rough.rows) == (3, 3, 3, 6)
    v, f = np.array([0.1, -0.2]), np.array([1.0, 4.0, -0.5])
    forces = np.column_stack([f, np.zeros(3)]).ravel()
    np.testing.assert_allclose(rough.gap(v, forces)[::2], plain.gap(v, f))
    np.testing.assert_allclose(plain.force_objective(f), rough.force_objective(forces))
    np.testing.assert_allclose(plain.velocity(f), rough.velocity(forces))
    np.testing.assert_allclose(plain.scales.local(v, f).speed, rough.scales.local(v, forces).speed)


@pytest.mark.parametrize("name", ["classic", "associated", "compliant", "truss", "quasi-static"])
def test_the_two_objectives_of_every_problem_cancel_at_the_answer(name: str) -> None:
    """Primal = −Δt · dual, part by part."""
    rough = cdopt.bank.load("rough-pile:n=3").step
    beam = cdopt.bank.load("beam-stiff-middle").step
    posed = {
        "classic": lambda: cdopt.ClassicCD(rough.without_friction()),
        "associated": lambda: cdopt.FrictionalCD(rough, "associated"),
        "compliant": lambda: cdopt.CompliantCD(beam, 2.5, 1e5),
        "truss": lambda: cdopt.NoTensionTruss(beam.B, [10.0, 0.0], power=1.7),
        "quasi-static": lambda: cdopt.QuasiStatic(beam.B, [0.0, 0.1, -0.1], [-10.0, 1.0], 20.0),
    }[name]()
    data, answer = posed.data, posed.solve("newton").iterate
    primal = data.motion_objective(answer.motion, answer.forces)
    dual = data.force_objective(answer.forces)
    size = np.abs(primal).max()
    assert size > 0.0
    np.testing.assert_allclose(primal + data.dt * dual, 0.0, atol=1e-8 * size)


def test_a_line_holds_both_ways_and_contacts_next_to_it_one() -> None:
    """A hinge bears ±10 N of a body; a half-line in its place certifies the push alone."""
    for pull in (10.0, -10.0):
        step = cdopt.ContactStep(
            M=np.diag([2.0, 2.0, 3.0]), B=[[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], phi=[0.0, 0.0],
            v=np.zeros(3), F_ext=[0.0, -pull, -5.0], dt=1e-2, dof_body=[0, 0, 1],
        )  # fmt: skip
        contacts = rigid_data(step)
        hinged = dataclasses.replace(contacts, cones=Product(Lines(1), HalfLines(1)))
        rest, f = np.zeros(3), np.array([pull, 5.0])
        assert cdopt.certify(hinged, rest, f, 1e-12).ok
        assert cdopt.certify(contacts, rest, f, 1e-12).ok is (pull > 0.0)
        for wrong in (0.99 * f, f * [1.0, -1.0], f * [0.0, 1.0]):
            assert not cdopt.certify(hinged, rest, wrong).ok
        for drift in (1e-3, -1e-3):  # a joint may neither open nor close
            moved = cdopt.certify(hinged, np.array([0.0, drift, 0.0]), f)
            assert moved["penetration"] > 1e-3
        np.testing.assert_allclose(hinged.velocity(f), rest, atol=1e-15)


def test_contacts_with_friction_and_without_share_a_problem() -> None:
    """A product of cones of three rows and of one judges each contact as a problem of its kind."""
    pile = cdopt.bank.load("rough-pile:n=3").step
    cd = cdopt.FrictionalCD(pile, "associated")
    answer = cd.solve("newton").iterate
    nc, data = pile.nc, cd.data
    split = Product(data.cones.take(np.arange(5)), data.cones.take(np.arange(5, nc)))
    same = dataclasses.replace(data, cones=split)
    for f in (answer.forces, 1.1 * answer.forces + 0.1):
        one, two = (cdopt.certify(each, answer.motion, f) for each in (data, same))
        for r, s in zip(one, two, strict=True):
            assert (r.name, r.unit) == (s.name, s.unit)
            assert s.value == pytest.approx(r.value, rel=1e-9, abs=1e-14)
