"""Compatible forces of rigid bodies against what one can work out without cdopt."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from rigid_bodies import POWERS, G, by_place, close, solved
from scipy.optimize import brentq, root

import cdopt
from cdopt import collision, scene


def plate(
    places: np.ndarray, k: np.ndarray, load: float, at: np.ndarray, power: float = 2.0
) -> np.ndarray:
    """Forces of one-sided springs under a rigid plate pressed down at one place.

    The sinking of spring i is z · (1, x_i, …). Hooke: the one set of pressed springs whose own
    linear solution presses them and frees the others. Else: the balance, by SciPy, from there.
    """
    A = np.column_stack([np.ones(len(k)), places])
    F = load * np.append(1.0, at)
    z = _pressed_set(A, k, F)
    if power == 2.0:
        return k * np.maximum(A @ z, 0.0)

    def unbalanced(z: np.ndarray) -> np.ndarray:
        return A.T @ (k * np.maximum(A @ z, 0.0) ** (power - 1.0)) - F

    def slope(z: np.ndarray) -> np.ndarray:
        steep = (power - 1.0) * k * np.maximum(A @ z, 0.0) ** (power - 2.0)
        return A.T @ (steep[:, None] * A)

    balance = root(unbalanced, z, jac=slope, tol=1e-14)
    assert np.abs(balance.fun).max() < 1e-12 * load
    return k * np.maximum(A @ balance.x, 0.0) ** (power - 1.0)


def _pressed_set(A: np.ndarray, k: np.ndarray, F: np.ndarray) -> np.ndarray:
    for count in range(len(k), A.shape[1] - 1, -1):
        for chosen in itertools.combinations(range(len(k)), count):
            pressed = list(chosen)
            K = A[pressed].T @ (k[pressed, None] * A[pressed])
            if np.linalg.matrix_rank(K) < A.shape[1]:
                continue
            z = np.linalg.solve(K, F)
            sinking = A @ z
            others = np.delete(sinking, pressed)
            if (sinking[pressed] > -1e-12).all() and (others < 1e-12).all():
                return z
    raise AssertionError("no set of springs holds the plate")


# --- rods --------------------------------------------------------------------------------


@pytest.mark.parametrize(("rod", "dim"), [("box", 2), ("box", 3), ("capsule", 2), ("capsule", 3)])
@pytest.mark.parametrize("power", POWERS)
def test_a_rod_on_two_supports_obeys_the_lever_rule(rod: str, dim: int, power: float) -> None:
    for place in (0.0, 0.13, 0.5, 0.9):
        made = scene.rod_on_supports(
            [0.0, 1.0], [1.0, 7.0], load=30.0, load_at=place, rod=rod, dim=dim, power=power
        )
        contacts, f = solved(made)
        each = [f[contacts.bodies[:, 1] == k].sum() for k in (1, 2)]
        close(np.array(each), np.array([5.0 + 30.0 * (1.0 - place), 5.0 + 30.0 * place]))


RODS = {
    "eccentric": ([0.0, 0.4, 1.0], [1.0, 2.0, 1.0], 10.0, 0.3),
    "five supports": ([0.0, 0.15, 0.5, 0.8, 1.0], [3.0, 1.0, 2.0, 5.0, 1.0], 20.0, 0.7),
    "left end lifted": ([0.0, 0.4, 1.0], [1.0, 10.0, 1.0], 100.0, 1.0),
}


@pytest.mark.parametrize("name", RODS)
@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("dim", [2, 3])
def test_a_rod_on_more_supports_is_a_beam_on_springs(name: str, power: float, dim: int) -> None:
    x, k, load, place = RODS[name]
    made = scene.rod_on_supports(x, k, load=load, load_at=place, dim=dim, power=power)
    at = (10.0 * 0.5 + load * place) / (10.0 + load)
    expected = plate(np.array(x)[:, None], np.array(k), 10.0 + load, np.array([at]), power)
    contacts, f = solved(made)
    close(np.array([f[contacts.bodies[:, 1] == i + 1].sum() for i in range(len(x))]), expected)
    assert (expected.min() == 0.0) == (name == "left end lifted")


# --- tables ------------------------------------------------------------------------------

TABLES = {
    "four legs": (4, [1.0, 2.0, 3.0, 4.0], 10.0, (0.2, 0.1)),
    "six legs": (6, [1.0, 2.0, 3.0, 1.0, 2.0, 3.0], 10.0, (0.2, 0.1)),
    "four legs, one lifted": (4, [1.0, 2.0, 3.0, 4.0], 100.0, (0.3, 0.1)),
    "six legs, some lifted": (6, [1.0, 2.0, 3.0, 1.0, 2.0, 3.0], 200.0, (0.3, 0.2)),
}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("power", POWERS)
def test_a_table_is_a_plate_on_springs(name: str, power: float) -> None:
    legs, k, load, place = TABLES[name]
    made = scene.table_with_legs(legs, k, load=load, load_at=place, power=power)
    angle = 2.0 * np.pi * np.arange(legs) / legs
    ends = 0.5 * np.column_stack([np.cos(angle), np.sin(angle)])
    at = load * np.array(place) / (10.0 + load)
    expected = plate(ends, np.array(k), 10.0 + load, at, power)
    contacts, f = solved(made)
    assert contacts.bodies[:, 1].tolist() == list(range(1, legs + 1))
    close(f, expected)
    assert (expected.min() == 0.0) == ("lifted" in name)


def test_a_lopsided_table_balances_about_its_own_middle() -> None:
    places = np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.2, 0.4], [0.1, 0.0]])
    k = np.array([1.0, 2.0, 1.0, 4.0, 0.5])
    made = scene.table_with_legs(places, stiffness=k, load=7.0, load_at=(-0.1, 0.2))
    top, leg = 1.08**2 * 0.04, 0.04**2 * 0.4
    middle = leg * places.sum(axis=0) / (top + 5 * leg)
    at = (10.0 * middle + 7.0 * np.array([-0.1, 0.2])) / 17.0
    close(solved(made)[1], plate(places, k, 17.0, at))


# --- blocks ------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("power", POWERS)
def test_a_box_on_a_step_presses_on_the_edge(dim: int, power: float) -> None:
    for share in (0.0, 0.1, 0.25, 0.4):
        contacts, f = solved(scene.box_on_step(share, dim=dim, power=power))
        edge = G / (2.0 - 2.0 * share)
        close(by_place(contacts, f), np.repeat([G - edge, edge], dim - 1) / (dim - 1))


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize(("ratio", "offset"), [(1.0, 0.0), (3.0, 0.0), (3.0, 0.02), (0.1, -0.03)])
def test_a_brick_on_two_bricks_is_a_plate_on_springs(
    dim: int, power: float, ratio: float, offset: float
) -> None:
    made = scene.brick_on_two_bricks(ratio, offset=offset, dim=dim, power=power)
    x = np.array([offset - 0.1, -0.04, 0.04, offset + 0.1])
    k = np.array([1.0, 1.0, ratio, ratio])
    places, at = x[:, None], np.array([offset])
    if dim == 3:
        places = np.column_stack([np.repeat(x, 2), np.tile([-0.05, 0.05], 4)])
        k, at = np.repeat(k, 2), np.array([offset, 0.0])
    close(by_place(*solved(made)), plate(places, k, 2.0 * G, at, power))


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("power", POWERS)
def test_a_leaning_stack_obeys_the_lever_rule(dim: int, power: float) -> None:
    n, shift = 4, 0.06
    made = scene.box_stack(n, dim=dim, shift=shift, power=power)
    weight = made.bodies.mass[1] * G
    contacts, f = solved(made)
    for k in range(n):  # under box k: all above it, from its left end to the right one below
        left = k * shift - 0.2
        right = left + 0.4 if k == 0 else (k - 1) * shift + 0.2
        middle = 0.5 * (k + n - 1) * shift
        above = (n - k) * weight
        under = np.flatnonzero((contacts.bodies == [k, k + 1]).all(axis=1))
        expected = above * np.array([right - middle, middle - left]) / (right - left)
        x = contacts.points[under, 0]
        ordered = f[under][np.argsort(x, kind="stable")]
        close(ordered, np.repeat(expected, dim - 1) / (dim - 1))


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("power", POWERS)
def test_an_even_wall_presses_evenly(dim: int, power: float) -> None:
    courses, bricks = 5, 4
    made = scene.brick_wall(courses, bricks, dim=dim, power=power)
    contacts, f = solved(made)
    brick = made.bodies.mass[1] * G
    bed = np.abs(contacts.normals[:, -1]) > 0.5
    close(f[~bed] + brick, np.full(np.count_nonzero(~bed), brick))  # head joints carry nothing
    course = np.rint(contacts.points[bed, -1] / 0.06)
    points = np.where(course == 0, 2.0, 4.0) * (dim - 1)
    close(f[bed], (courses - course) * brick / points)


# --- arches ------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize(("n", "angle"), [(3, 0.6), (9, 1.0), (14, 1.3)])
def test_an_arch_carries_its_thrust(dim: int, power: float, n: int, angle: float) -> None:
    """T = H / cos β in every joint; the one couple that statics leave open costs least energy."""
    made = scene.arch(n, angle=angle, thrust=1000.0, dim=dim, power=power)
    contacts, f = solved(made)
    middle = np.cos(angle / n) ** 2 * 2.0 / 3.0 * (1.25**3 - 1.0) / (1.25**2 - 1.0)
    share = (middle - 1.0) / 0.25
    T = 1000.0 / np.cos(np.linspace(-angle, angle, n + 1))

    def slope_of_energy(couple: float) -> float:
        outer, inner = share * T + couple, (1.0 - share) * T - couple
        rise = 1.0 / (power - 1.0)
        return float((outer**rise - inner**rise).sum())

    couple = brentq(slope_of_energy, -share * T.min(), (1.0 - share) * T.min(), xtol=1e-12)
    if power == 2.0:
        assert couple == pytest.approx((0.5 - share) * T.mean(), rel=1e-9)
    far = np.hypot(contacts.points[:, 0], contacts.points[:, -1]) > 1.1
    thrust = T[contacts.bodies[:, 0]]
    close(f, np.where(far, share * thrust + couple, (1.0 - share) * thrust - couple) / (dim - 1))
    push = f * contacts.normals[:, 0]
    for joint in range(n + 1):
        assert push[contacts.bodies[:, 0] == joint].sum() == pytest.approx(1000.0, rel=1e-9)


@pytest.mark.parametrize(
    ("made", "nullity"),
    [
        (lambda: scene.arch(9), 1),
        (lambda: scene.arch(4, angle=0.7), 1),
        (lambda: scene.rod_on_supports([0.0, 0.2, 0.5, 0.9, 1.0]), 3),
        (lambda: scene.table_with_legs(6), 3),
        (lambda: scene.box_on_step(dim=2), 0),
        (lambda: scene.box_on_step(dim=3), 1),
        (lambda: scene.brick_on_two_bricks(dim=2), 2),
        (lambda: scene.brick_on_two_bricks(dim=3), 5),
        (lambda: scene.box_stack(4), 4),
    ],
)
def test_how_many_forces_statics_leave_open(made, nullity: int) -> None:
    one = made()
    step = collision.step(
        one, one.initial, collision.detect(one, one.initial, margin=1e-9), dt=1e-3
    )
    assert cdopt.indeterminacy(step, contacts=0).nullity == nullity
