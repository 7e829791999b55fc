"""The bridge: elastic contacts at rest tend to compatible forces, at the rates of the theory."""

from __future__ import annotations

import functools
import pickle

import numpy as np
import pytest
from rigid_limit import bridge
from rigid_limit.bridge import METHODS, fitted
from rigid_limit.resting import SHARE, Point
from scipy.optimize import brentq

import cdopt
from cdopt.hyperstatic import minimum_norm
from cdopt.scene import Body, HalfSpace, Material, Scene, Sphere, Spheres, State

STILL = ["quasi-static"]
KAPPAS = {2.0: [4e3, 4e4, 4e5], 2.5: [4e4, 1.3e6, 4e7]}  # overlaps 1e-2, 1e-3, 1e-4
G = 9.81


def pile(power=2.0, material="uniform", n=5, **more) -> Scene:
    """A pyramid of spheres of 1 kg and 1 m that touch exactly."""
    return cdopt.scene.pyramid(
        n, power, material, separation=0.0, diameter=1.0, density=6.0 / np.pi, young=1.0, **more
    )


def crystal(power=2.0, rows=4, columns=5, hard=None) -> Scene:
    """Discs of 1 kg between rigid walls, some five times as stiff: the left half, or ``hard``."""
    plain = cdopt.scene.crystal(rows, columns, diameter=1.0).bodies
    walls, discs = plain.table(HalfSpace), plain.table(Sphere)
    places = plain.position[discs.body]
    stiff = places[:, 0] < 0.48 * columns if hard is None else hard(np.arange(len(places)))
    return Scene(
        [
            *(Body(HalfSpace(n), plain.position[i])
              for i, n in zip(walls.body, walls.columns["normal"], strict=True)),
            Spheres(places, 0.5, mass=1.0, material=["hard" if h else "soft" for h in stiff]),
        ],
        dim=2, power=power,
        materials=[Material(name="soft", stiffness=2.0), Material(name="hard", stiffness=10.0)],
    )  # fmt: skip


SCENES = {
    "pile": lambda power: pile(power),
    "pile of two species": lambda power: pile(power, "species"),
    "crystal of two halves": crystal,
}
MIXED = ["pile of two species", "crystal of two halves"]


@functools.cache
def crossed(name: str, power: float, *methods: str):
    return bridge(SCENES[name](power), KAPPAS[power], methods=methods)


def notch(below: float, kappa_power: float = 2.0) -> Scene:
    """A disc in the notch of two fixed discs; a third fixed one a little lower than it."""
    high = np.sqrt(1.0 - 0.6**2)
    fixed = [[-0.6, 0.0], [0.6, 0.0], [0.0, high - 1.0 - below]]
    return Scene(
        [Spheres(fixed, 0.5, fixed=True, material="s"),
         Body(Sphere(0.5), [0.0, high], mass=1.0, material="s")],
        dim=2, power=kappa_power, materials=[Material(name="s", stiffness=2.0)],
    )  # fmt: skip


# --- the rates -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "power"),
    [
        pytest.param("pile of two species", 2.0, marks=pytest.mark.slow),
        pytest.param("crystal of two halves", 2.5, marks=pytest.mark.slow),
        pytest.param("pile", 2.0, marks=pytest.mark.slow),
        pytest.param("pile", 2.5, marks=pytest.mark.slow),
        pytest.param("pile of two species", 2.5, marks=pytest.mark.slow),
        pytest.param("crystal of two halves", 2.0, marks=pytest.mark.slow),
    ],
)
def test_slopes_in_kappa_and_agreement(name: str, power: float) -> None:
    """Three methods to the same rest, at the rates of the theory; both laws, both lattices."""
    result = crossed(name, power, *METHODS)
    assert result.expected == pytest.approx({2.0: -1.0, 2.5: -2.0 / 3.0}[power])
    assert [line.name for line in result.lines] == list(METHODS)
    for line in result.lines:
        assert line.used.all(), line.excluded
        assert line.slope == pytest.approx(result.expected, abs=0.05)
        assert np.all(np.diff(line.error) < 0.0)
    still, *moving = result.lines
    for line in moving:
        apart = np.linalg.norm(line.forces - still.forces, axis=1) / np.linalg.norm(result.forces)
        np.testing.assert_array_less(apart, 5.0 * SHARE * still.error)
        np.testing.assert_array_less(apart, 3.0 * np.maximum(line.unrest, still.unrest))
    assert "not fitted" not in str(result)


@pytest.mark.parametrize(("power", "slope"), [(1.7, -1.0 / 0.7), (4.0, -1.0 / 3.0)])
@pytest.mark.slow
def test_other_powers(power: float, slope: float) -> None:
    result = bridge(crystal(power), methods=STILL)
    assert result.lines[0].slope == pytest.approx(slope, abs=0.05)


@pytest.mark.parametrize("power", [2.0, pytest.param(2.5, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", SCENES)
def test_one_step_tends_to_the_limit_and_a_uniform_ridge_to_the_least_force(
    name: str, power: float
) -> None:
    result = crossed(name, power)
    line = result.one_step
    assert line.used.all()
    assert line.slope == pytest.approx(1.0, abs=0.05)
    assert line.error[-1] < 2e-5
    least = minimum_norm(cdopt.indeterminacy(result.step, contacts=0))
    np.testing.assert_allclose(result.minimum_norm, least.f, atol=1e-8 * result.forces.max())
    if name in MIXED:
        assert result.minimum_norm_error > 0.15
        assert np.all(result.uniform.error > 0.9 * result.minimum_norm_error)
        left = np.linalg.norm(result.uniform.forces - result.minimum_norm, axis=1)
        slope = np.polyfit(np.log(result.uniform.parameter), np.log(left), 1)[0]
        assert slope == pytest.approx(1.0, abs=0.05)
    elif power == 2.0:  # equal springs
        assert result.minimum_norm_error < 1e-9
    else:  # equal Hertz contacts are no equal springs
        assert 0.01 < result.minimum_norm_error < 0.05


def test_the_limit_is_that_of_the_references() -> None:
    for name, power, key in (("pile", 2.0, "hooke"), ("pile", 2.5, "hertz")):
        step = cdopt.bank.load(f"pyramid-{key}").step
        known = cdopt.CompatibleCD(step, power).solve("clarabel", accuracy=1e-12)
        np.testing.assert_allclose(crossed(name, power).forces / G, known.f, atol=2e-7)
        assert crossed(name, power).nullity == 70


# --- where it ends ---------------------------------------------------------------------


@pytest.mark.slow
def test_round_off_is_measured_and_left_out() -> None:
    result = bridge(pile(n=4), [4e3, 4e4, 4e5, 4e8, 4e11], methods=STILL)
    line = result.lines[0]
    assert line.excluded[:3] == ("", "", "")
    assert all(why.startswith(("round-off", "not at rest", "failed")) for why in line.excluded[3:])
    assert line.slope == pytest.approx(-1.0, abs=0.01)
    noise = line.noise[:3]
    assert np.polyfit(np.log([4e3, 4e4, 4e5]), np.log(noise), 1)[0] == pytest.approx(1.0, abs=0.1)
    assert 1e-14 < noise[0] < 1e-11  # a last digit of 1 m, of overlaps of millimetres


@pytest.mark.slow
def test_a_run_that_is_cut_short_is_left_out() -> None:
    result = bridge(pile(n=3), KAPPAS[2.0], methods=["velocity-verlet"], limit=50)
    line = result.lines[0]
    assert all(why.startswith("not at rest: within") for why in line.excluded)
    assert np.all(line.unrest > 0.05 * line.error)
    assert np.isnan(line.slope)
    assert "* not fitted: not at rest" in str(result)


@pytest.mark.slow
def test_discs_that_creep_away_are_left_out() -> None:
    """Two discs bridge a gap like a keystone: rigid contacts hold them just so."""
    scene = crystal(rows=6, columns=8, hard=lambda k: k % 2 == 1)
    result = bridge(scene, [5e3, 5e4], methods=["quasi-static", "velocity-verlet"])
    still, moving = result.lines
    assert still.used.all()
    assert all(why.startswith("not at rest: comes no nearer") for why in moving.excluded)
    assert np.all(moving.unrest > 0.05 * moving.error)


@pytest.mark.slow
def test_gaps_that_close_are_left_out() -> None:
    result = bridge(notch(1e-3), methods=["quasi-static", "velocity-verlet"])
    np.testing.assert_allclose(result.forces[:2], 0.5 * G / np.sqrt(1.0 - 0.6**2))
    assert result.forces[2] == pytest.approx(0.0, abs=1e-9)
    for line in result.lines:
        assert line.excluded[0] == "closed gaps: 1 open in the limit"
        assert line.error[0] > 0.5  # the third disc carries, and the limit does not
        assert line.error[1] < 1e-3
        assert line.slope == pytest.approx(-1.0, abs=0.01)


@pytest.mark.parametrize("power", [2.5, pytest.param(2.0, marks=pytest.mark.slow)])
def test_the_notch_in_closed_form(power: float) -> None:
    """Two equal forces along lines that turn as the disc sinks."""
    kappas = np.array([1e4, 1e5, 1e6])
    result = bridge(notch(0.05, power), kappas, methods=STILL)
    stiffness = kappas * result.step.stiffness[0]
    for k, forces in zip(stiffness, result.lines[0].forces, strict=True):

        def unbalanced(c, k=k):
            return 2.0 * k * c ** (power - 1.0) * np.sqrt((1 - c) ** 2 - 0.36) / (1 - c) - G

        c = brentq(unbalanced, 1e-12, 0.1, xtol=1e-16)
        np.testing.assert_allclose(forces[:2], k * c ** (power - 1.0), rtol=1e-8)


def test_nothing_to_fit_where_forces_do_not_depend_on_stiffness() -> None:
    ball = Scene(
        [Body(HalfSpace([0.0, 1.0]), [0.0, 0.0]), Body(Sphere(0.5), [0.0, 0.5], mass=2.0)], dim=2
    )
    result = bridge(ball, methods=STILL)
    assert result.nullity == 0
    np.testing.assert_allclose(result.lines[0].forces, 2.0 * G)
    assert np.isnan(result.lines[0].slope)
    assert not result.lines[0].used.any()


@pytest.mark.slow
def test_failed_points_are_named() -> None:
    result = bridge(crystal(), [1e-3, *KAPPAS[2.0]], methods=STILL)
    line = result.lines[0]
    assert line.excluded[0].startswith("failed: ")
    assert np.isnan(line.error[0])
    assert line.slope == pytest.approx(-1.0, abs=0.05)
    assert "–*" in str(result)


# --- what it takes ---------------------------------------------------------------------


def test_bodies_at_rest_in_a_state() -> None:
    lifted = cdopt.scene.pyramid(3, separation=0.05, diameter=1.0, young=1.0)
    place = cdopt.scene.pyramid(3, separation=0.0, diameter=1.0, young=1.0).initial
    moving = State(0.0, place.q, np.ones_like(place.v))  # its velocities are not asked for
    kappas = np.array([1e6, 1e7, 1e8, 1e9]) * lifted.bodies.mass[-1] / 100
    result = bridge(lifted, kappas, state=moving, methods=STILL)
    assert result.lines[0].slope == pytest.approx(-1.0, abs=0.05)
    with pytest.raises(cdopt.InvalidInput, match="moves at"):
        bridge(lifted)


@pytest.mark.slow
def test_boxes_have_an_equilibrium_too() -> None:
    scene = cdopt.scene.beam(3.0, drop=0.0)
    result = bridge(scene, [1e3, 1e4], methods=STILL)
    np.testing.assert_allclose(result.forces, [2.0, 6.0, 2.0])
    np.testing.assert_allclose(result.lines[0].forces, [[2.0, 6.0, 2.0]] * 2, rtol=1e-6)
    with pytest.raises(cdopt.Unsupported):
        bridge(scene, methods=["velocity-verlet"])


@pytest.mark.slow
def test_default_stiffness_follows_from_overlaps_in_any_units() -> None:
    small = bridge(cdopt.scene.pyramid(3, 2.5, separation=0.0), methods=STILL)
    large = bridge(pile(2.5, n=3), methods=STILL)
    np.testing.assert_allclose(small.overlap, [1e-2, 1e-3, 1e-4, 1e-5, 1e-6])
    assert small.lines[0].slope == pytest.approx(-2.0 / 3.0, abs=0.05)
    for first, second in ((small.lines[0], large.lines[0]), (small.one_step, large.one_step)):
        np.testing.assert_allclose(first.error[:4], second.error[:4], rtol=1e-3)
        assert first.excluded == second.excluded


def test_progress_and_costs() -> None:
    calls = []
    result = bridge(
        pile(n=2), KAPPAS[2.0][:2], methods=["velocity-verlet", "quasi-static"],
        progress=lambda *what: calls.append(what),
    )  # fmt: skip
    assert [done for done, _, _ in calls] == [0, 1, 2, 3, 4]
    assert {total for _, total, _ in calls} == {4}
    assert "velocity-verlet, κ = 4e+03" in calls[0][2]
    assert np.all(result.line("velocity-verlet").steps >= 400)
    assert np.all(result.line("velocity-verlet").seconds > 0.0)
    assert result.seconds_one_step > 0.0
    assert result.seconds_two_steps > 0.0
    with pytest.raises(cdopt.InvalidInput, match="name"):
        result.line("one step")


def test_the_table_and_pickles() -> None:
    result = crossed("crystal of two halves", 2.0, *STILL)
    again = pickle.loads(pickle.dumps(result))
    assert str(again) == str(result)
    for text in ("power 2, 47 contacts, nullity 11", "-1.00", "minimum norm: 0.236"):
        assert text in str(result)
    assert "not fitted" not in str(result)
    for array in (result.forces, result.lines[0].error, again.one_step.forces, again.overlap):
        assert not array.flags.writeable


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"scene": "pyramid"}, "scene"),
        ({"kappas": [1e3, -1.0]}, "kappas"),
        ({"kappas": []}, "kappas"),
        ({"kappas": [1e3, 1e3]}, "kappas"),
        ({"epsilons": [0.0]}, "epsilons"),
        ({"methods": "quasi-static"}, "methods"),
        ({"methods": ["newton"]}, "methods"),
        ({"limit": 0}, "limit"),
        ({"progress": 1}, "progress"),
    ],
)
def test_bad_arguments(changes, named: str) -> None:
    arguments = {"scene": pile(n=2), "methods": [], **changes}
    with pytest.raises(cdopt.InvalidInput, match=named):
        bridge(**arguments)


def test_scenes_without_a_limit() -> None:
    floor, ball = Body(HalfSpace([0.0, 1.0]), [0.0, 0.0]), Sphere(0.5)
    with pytest.raises(cdopt.InvalidInput, match="no contacts"):
        bridge(Scene([floor, Body(ball, [0.0, 9.0], mass=1.0)], dim=2))
    weightless = Scene([floor, Body(ball, [0.0, 0.5], mass=1.0)], dim=2, gravity=[0.0, 0.0])
    with pytest.raises(cdopt.InvalidInput, match="no loads"):
        bridge(weightless)
    sliding = Scene([floor, Body(ball, [0.0, 0.5], mass=1.0)], dim=2, gravity=[1.0, -9.81])
    with pytest.raises(cdopt.InvalidInput, match=r"bodies\[1\] moves at"):
        bridge(sliding)


# --- fits ------------------------------------------------------------------------------


def line(error, noise=0.0, unrest=0.0, trouble=""):
    points = [Point(np.zeros(1), e, noise, unrest, trouble, 0.0, 0.0) for e in error]
    return fitted("made up", np.logspace(0, len(error) - 1, len(error)), points)


def test_only_errors_above_noise_and_unrest_are_fitted() -> None:
    exact = 10.0 ** (-0.5 * np.arange(6))
    assert line(exact).slope == pytest.approx(-0.5)
    spoilt = np.where(exact < 0.05, 0.05, exact)
    assert line(spoilt).slope != pytest.approx(-0.5, abs=0.01)
    cleaned = line(spoilt, noise=0.004)
    assert cleaned.excluded == ("", "", "", "round-off", "round-off", "round-off")
    assert cleaned.slope == pytest.approx(-0.5)
    assert line(spoilt, unrest=0.004).excluded[3:] == ("not at rest",) * 3
    assert np.isnan(line(exact[:2]).slope)
    assert np.isnan(line(exact, trouble="failed: lost").slope)
    near = line(exact, unrest=1e-6, trouble="not at rest: within 3 steps")
    assert near.slope == pytest.approx(-0.5)  # near enough
