"""Elastic methods in other units and frames, with other lists of links: the same motion."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from dynamic_scenes import T_C, apart, ball, both_paths, mechanical, mixture, order, scene, wall

import cdopt
from cdopt._util.checks import FloatArray
from cdopt.dynamics.spheres import FORCED, PAPER, Scheme, SphereStepper
from cdopt.scene import Material, Scene, Spheres

SLOW = pytest.mark.slow
WAYS: list[tuple[str, dict[str, Any]]] = [
    ("variational", {}),
    ("variational", {"damping": "paper", "alpha": 0.3}),
    ("variational", {"solver": "direct"}),
    ("velocity-verlet", {}),
]
FORCED_SPLIT: dict[str, Any] = {"alpha": 0.3}
PAPER_SPLIT: dict[str, Any] = {"alpha": 0.8, "damping": "paper"}
DURATION = 0.03  # s, with contacts at 10 ms and at 22 to 30 ms


# --- units, frames, numbering --------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dim", "power", "units"), [(2, 2.0, (1e3, 1e-3, 1e3)), (3, 2.5, (1e-9, 1e-20, 1.0))]
)
def test_other_units_give_the_same_trajectory(
    dim: int, power: float, units: tuple[float, float, float]
) -> None:
    """Millimetres and tonnes, and units far from any in use."""
    h, (metre, _, second) = 2e-4, units
    for method, settings in WAYS:
        plain, other = (
            cdopt.simulate(place, h * s, DURATION * s, method, every=10, **settings)
            for place, s in ((mixture(dim, power), 1.0), (mixture(dim, power, units), second))
        )
        assert plain.diagnostics["contacts"].max() >= 1
        q, v = other.q.copy(), other.v.copy()
        q[..., :dim] /= metre
        v[..., :dim] *= second / metre
        v[..., dim:] *= second
        assert np.abs(q - plain.q).max() <= 1e-9
        assert np.abs(v - plain.v).max() <= 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("dim", [2, 3])
def test_frame_and_numbering_change_nothing(dim: int) -> None:
    rng = np.random.default_rng(5)
    turn = np.linalg.qr(rng.normal(size=(dim, dim)))[0]
    turn[:, 0] *= np.linalg.det(turn)
    shift, numbers = np.array([17.0, -5.0, 3.0])[:dim], rng.permutation(11)
    for method, settings in WAYS:
        plain, mixed, moved = (
            cdopt.simulate(mixture(dim, 2.5, **how), 2e-4, DURATION, method, every=10, **settings)
            for how in ({}, {"order": numbers}, {"turn": turn, "shift": shift})
        )
        assert np.count_nonzero(plain.diagnostics["contacts"]) >= 5
        np.testing.assert_allclose(mixed.q, plain.q[:, numbers], rtol=0, atol=1e-12)
        np.testing.assert_allclose(mixed.v, plain.v[:, numbers], rtol=0, atol=1e-12)
        place, speed = plain.q[..., :dim] @ turn.T + shift, plain.v[..., :dim] @ turn.T
        spin = plain.v[..., dim:] @ turn.T if dim == 3 else plain.v[..., dim:]
        np.testing.assert_allclose(moved.q[..., :dim], place, rtol=0, atol=1e-9)
        np.testing.assert_allclose(moved.v[..., :dim], speed, rtol=0, atol=1e-9)
        np.testing.assert_allclose(moved.v[..., dim:], spin, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("path", "settings"),
    [
        ("native", FORCED_SPLIT),
        ("native", PAPER_SPLIT),
        pytest.param("cvxpy", PAPER_SPLIT, marks=SLOW),
    ],
)
def test_steady_motion_of_everything_changes_nothing(path: str, settings: dict[str, Any]) -> None:
    """A sphere that slides past a fixed one, seen by who moves along and by who does not."""
    runs = []
    for u in (np.zeros(3), np.array([2.0, 1.0, -1.0])):
        anvil = ball([0.0] * 3, u, 0.7, fixed=True)
        sliding = ball([1.06, 0.58, 0.0], u + np.array([-3.0, -0.8, 0.2]))
        place = scene([anvil, sliding], damping=100.0)
        made = cdopt.simulate(place, 4e-4, 4e-3, "variational", path=path, **settings)
        runs.append(made.q[:, 1, :3] - made.t[:, None] * u)
        assert made.diagnostics["contacts"].max() == 1
    assert np.abs(runs[0] - runs[1]).max() <= 1e-12


# --- both paths, whatever moves and damps --------------------------------------------------


@pytest.mark.parametrize("settings", [FORCED_SPLIT, pytest.param(PAPER_SPLIT, marks=SLOW)])
@pytest.mark.parametrize("moving", [pytest.param(False, marks=SLOW), True])
def test_paths_agree_where_partners_move_and_where_they_do_not(
    moving: bool, settings: dict[str, Any]
) -> None:
    place = mixture(2, moving=moving, fall=30.0)
    native, posed = both_paths(place, 5e-4, 0.01, **settings)
    assert np.count_nonzero(native.diagnostics["contacts"]) >= 5
    assert apart(native, posed) <= 1e-9


@pytest.mark.parametrize("settings", [{}, {"damping": "paper"}])
def test_contacts_foreseen_damp_for_the_whole_step(settings: dict[str, Any]) -> None:
    """A bond holds a sphere back that was to hit its neighbour: both paths damp them alike."""
    row = [ball([-1.0, 0.0], fixed=True), ball([0.0, 0.0], [400.0, 0.0]), ball([1.1, 0.0])]
    place = scene(row, 2, damping=100.0, bond_stiffness=1e8)
    native, posed = both_paths(place, 1e-3, 1e-3, allow_long_steps=True, **settings)
    assert abs(native.v[-1, 2, 0]) > 1e-6
    assert apart(native, posed) <= 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("power", [1.5, 3.0])
def test_paths_agree_for_powers_that_are_neither_hookes_nor_hertzs(power: float) -> None:
    bodies = [
        ball([-0.31, 0.0], [1.0, 0.0], 0.3, mass=0.2),
        ball([0.71, 0.2], [-0.5, 0.0], 0.7, mass=2.0),
        wall([0.0, 1.0], [0.0, -0.52], velocity=[0.0, 0.3]),
    ]
    k = Material(name="grain", stiffness=1e6 * 100.0 ** max(0.0, power - 2.0))
    place = scene(bodies, 2, [0.0, -1.0], power=power, damping=20.0, materials=[k])
    native, posed = both_paths(place, 1e-3, 0.03)
    assert native.diagnostics["contacts"].max() >= 1
    assert apart(native, posed) <= 1e-9


@pytest.mark.slow
def test_energy_is_kept_to_second_order_whatever_the_power() -> None:
    """Kinetic, potential and stored energy of one hit by Hertz' law and by a cubic one."""
    for power, k in ((2.5, 1e7), (3.0, 1e8)):
        bodies = [wall([0.0, 1.0], [0.0, 0.0]), ball([0.0, 0.51], [0.3, -1.0])]
        grain = [Material(name="grain", stiffness=k)]
        place = scene(bodies, 2, [0.0, -9.8], power=power, materials=grain)
        steps, error = (4e-4, 2e-4, 1e-4), []
        for h in steps:
            run = cdopt.simulate(place, h, 0.03, "variational")
            error.append(np.abs(mechanical(run) - mechanical(run)[0]).max())
            assert run.diagnostics["elastic"].max() > 0.5 * run.diagnostics["kinetic"].max()
        assert order(steps, error) > 1.7


# --- which contacts are seen ---------------------------------------------------------------


def crowd(seed: int, n: int = 100) -> Scene:
    """Close spheres of sizes 1 : 3 at speeds of up to 100 m/s in a box whose walls move."""
    rng = np.random.default_rng(seed)
    radius = 0.2 * 3.0 ** rng.uniform(0.0, 1.0, n)
    places: list[FloatArray] = []
    while len(places) < n:
        x, own = rng.uniform(-2.2, 2.2, 3), radius[len(places)]
        if all(np.linalg.norm(x - y) > own + radius[k] + 1e-3 for k, y in enumerate(places)):
            places.append(x)
    sides = [s * e for e in np.eye(3) for s in (1.0, -1.0)]
    walls = [wall(e, -2.8 * e, velocity=rng.normal(size=3)) for e in sides]
    velocity = 10.0 ** rng.uniform(0.0, 1.5, (n, 1)) * rng.normal(size=(n, 3))
    loose = Spheres(
        centres=np.array(places), radius=radius, velocities=velocity, mass=4.0 * radius**3,
        fixed=rng.random(n) < 0.1, material="grain",
    )  # fmt: skip
    grain = Material(name="grain", stiffness=2e7)
    return scene([*walls, loose], materials=[grain], damping=20.0)


class Lists(SphereStepper):
    """Counts how often the list is made; of ``all`` pairs, at any distance, if asked to."""

    made, all = 0, False

    def _list(self, m: Any, skin: float) -> Any:
        self.made += 1
        return super()._list(m, 1e3 if self.all else skin)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=SLOW)])
def test_no_contact_is_missed_by_the_list(seed: int) -> None:
    """Bit for bit what a list of all pairs gives, however fast bodies meet and leave."""
    place = crowd(seed)
    for split, alpha in ((FORCED, 0.5), (PAPER, 0.3)):
        scheme = Scheme(2e-5, alpha, split, 1e-12, 60)
        short, full = Lists(place), Lists(place)
        full.all = True
        one = two = place.initial
        touched = set()
        for _ in range(10):
            ended = [
                who.variational(state, 90, scheme) for who, state in ((short, one), (full, two))
            ]
            assert [each.outcome for each in ended] == [0, 0]
            one, two = (each.state for each in ended)
            np.testing.assert_array_equal(one.q, two.q)
            np.testing.assert_array_equal(one.v, two.v)
            touched |= set(full.contacts(two).contact_ids.tolist())
        ids = [who.contacts(state).contact_ids for who, state in ((short, one), (full, two))]
        np.testing.assert_array_equal(*ids)
        assert len(touched) >= 4
        assert short.made > 5


@pytest.mark.slow
def test_a_bond_is_seen_at_any_distance() -> None:
    """Weak bonds stretched to many diameters, with Hertz contacts of others."""
    bodies = [
        ball([0.0, 0.0, 1.0], [-100.0, 15.0, 25.0]),
        ball([1.0, 0.0, 1.0], [100.0, -5.0, -30.0], mass=2.0),
        wall([0.0, 0.0, 1.0], [0.0] * 3),
    ]
    place = scene(bodies, power=2.5, damping=3.0, bond_stiffness=50.0, gravity=[0.0, 0.0, -9.8])
    native, posed = both_paths(place, 1e-3, 0.025)
    assert np.linalg.norm(native.q[:, 0, :3] - native.q[:, 1, :3], axis=1).max() > 3.5
    assert native.diagnostics["contacts"].max() == 2
    assert apart(native, posed) <= 1e-9


@pytest.mark.slow
def test_a_bystander_however_small_ends_no_run() -> None:
    """Ten thousandths of their radius is no deep overlap of two spheres, whoever is near."""
    hit = [ball([-0.501, 0.0], [10.0, 0.0]), ball([0.501, 0.0], [-10.0, 0.0])]
    tiny = ball([50.0, 0.0], radius=1e-3)
    for run in both_paths(scene([*hit, tiny], 2), T_C / 16, 1.5 * T_C):
        assert run.diagnostics["overlap"].max() > 2e-3
        assert run.v[-1, 0, 0] == pytest.approx(-10.0, rel=1e-2)
