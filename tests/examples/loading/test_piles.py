"""Piles: the load at which an arch of discs snaps through, who falls, and what is refused."""

from __future__ import annotations

import loading
import numpy as np
import pytest
from loading import LoadingFailed, disc_pile, press

import cdopt
from cdopt.scene import Body, HalfSpace, Material, Scene, Sphere, Spheres

D = 0.02  # m
HALF = 1e6  # N/m


def weight(scene: Scene) -> float:
    return float(scene.bodies.mass[-1] * 9.81)


@pytest.mark.slow
def test_a_disc_on_two_fixed_ones_follows_its_closed_form_until_it_snaps_through():
    """F(h) = 2 k (d/ρ − 1) h at height h, ρ² = h² + d²/4, is largest where ρ³ = d³/4."""
    scene, k = disc_pile(2), HALF / 2.0
    w = weight(scene)
    limit = 2.0 * k * (4.0 ** (1.0 / 3.0) - 1.0) * D * np.sqrt(4.0 ** (-2.0 / 3.0) - 0.25)
    run = press(scene, np.linspace(0.1, 1.2, 12) * limit, refine=12)
    assert run.collapse is not None
    held, lost = run.collapse
    assert lost - held == pytest.approx(0.1 * limit / 2**12, rel=1e-6)
    assert held <= limit - w <= lost * (1 + 1e-3)
    h = np.array([one.state.position[2, 1] for one in run.equilibria])
    rho = np.hypot(h, 0.5 * D)
    np.testing.assert_allclose(2.0 * k * (D / rho - 1.0) * h, run.load + w, rtol=1e-8)
    np.testing.assert_allclose(run.settlement, h[0] - h, atol=1e-15)
    np.testing.assert_allclose(run.largest, k * (D - rho), rtol=1e-9)
    assert "bodies" in run.failure
    assert all(one.stable for one in run.equilibria)


@pytest.mark.slow
def test_weight_and_stiffness_together_hold_a_pile():
    """Forces run along straight rows, which weight alone keeps from bending out: P ~ √(W k d)."""
    borne, scale = [], []
    for half in (1e6, 1e10):
        scene = disc_pile(3, stiffness=half)
        w = weight(scene)
        guess = np.sqrt(w * half * D)
        run = press(scene, np.linspace(0.3, 1.5, 4) * guess, refine=3)
        assert run.collapse is not None
        assert "bodies" in run.failure
        borne.append(np.mean(run.collapse))
        scale.append(w * half * D)
    exponent = np.polyfit(np.log(scale), np.log(borne), 1)[0]
    assert exponent == pytest.approx(0.5, abs=0.01)


def test_contacts_open_and_close_in_a_crystal_between_walls():
    """A load on one disc of the top row spreads, and lifts what it does not press."""
    plain = cdopt.scene.crystal(5, 6)
    b = plain.bodies
    grain = Material(name="grain", stiffness=1e5)
    walls = [
        Body(HalfSpace(n), x)
        for n, x in zip(b.table(HalfSpace).columns["normal"], b.position[:3], strict=True)
    ]
    discs = Spheres(b.position[3:], 0.005, density=2000.0, material="grain")
    scene = Scene([*walls, discs], dim=2, materials=[grain])
    w = weight(scene)
    top = scene.nb - 4
    run = press(scene, np.array([1.0, 5.0, 10.0, 15.0]) * w, bodies=[top])
    assert run.ok
    assert run.collapse is None
    assert run.gained.sum() + run.lost.sum() > 0
    floor = [one.forces[(one.contacts.bodies == 0).any(axis=1)].sum() for one in run.equilibria]
    total = scene.bodies.mass[~scene.bodies.fixed].sum() * 9.81
    np.testing.assert_allclose(floor, run.load + total, rtol=1e-9)
    assert np.all(np.diff(run.settlement) > 0.0)


@pytest.mark.slow
def test_what_nothing_holds_is_named():
    """A disc on the edge of a fixed one is pushed off."""
    grain = Material(name="grain", stiffness=HALF)
    bodies = [
        Spheres([[0.0, 0.0], [0.02, 0.0]], 0.01, fixed=True, material="grain"),
        Body(Sphere(0.01), [0.01, 0.0174], mass=1.0, material="grain", name="cap"),
    ]
    scene = Scene(bodies, dim=2, materials=[grain])
    way = {"bodies": [2], "direction": [1.0, 0.3], "refine": 2}
    run = press(scene, [1e3, 2e3], **way)
    assert run.collapse is not None
    assert run.collapse[0] < 1e3
    assert "'cap'" in run.failure
    with pytest.raises(LoadingFailed, match="collapse between") as caught:
        press(scene, [1e3, 2e3], **way, on_failure="stop")
    assert caught.value.record.load[0] == 0.0


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"load": [2.0, 1.0]}, "load"),
        ({"load": [-1.0]}, "load"),
        ({"bodies": [0]}, "bodies"),
        ({"bodies": [99]}, "bodies"),
        ({"direction": [0.0, 0.0]}, "direction"),
        ({"on_failure": "wait"}, "on_failure"),
    ],
)
def test_bad_arguments_are_named(changes, name):
    given = {"load": [1.0], **changes}
    with pytest.raises(cdopt.InvalidInput, match=name):
        press(disc_pile(3), given.pop("load"), **given)


def test_samples():
    pile = disc_pile(4)
    assert pile.nb == 10
    assert list(np.flatnonzero(pile.bodies.fixed)) == [0, 1, 2, 3]
    run = press(pile, [1.0])
    assert list(run.loaded) == [9]
    np.testing.assert_allclose(run.direction, [0.0, -1.0])
    for bad in ({"rows": 1}, {"diameter": 0.0}, {"stiffness": -1.0}):
        with pytest.raises(cdopt.InvalidInput):
            disc_pile(**bad)
    with pytest.raises(cdopt.InvalidInput, match="n"):
        loading.disc_box(0)
