"""Rigid bodies: plane and space, other backends, time, and the limit of stiff contacts."""

from __future__ import annotations

import numpy as np
import pytest
from rigid_bodies import AT_REST, BRICKS, POWERS, G, close, solved

import cdopt
from cdopt import collision, scene
from cdopt.scene import Body, Scene


@pytest.mark.parametrize(
    ("name", "power"), [(name, POWERS[i % 2]) for i, name in enumerate(AT_REST)]
)
def test_space_shares_out_what_the_plane_carries(name: str, power: float) -> None:
    """Per weight, the forces of the front and of the back sum to that in the plane."""
    sums = []
    for dim in (2, 3):
        made = AT_REST[name](dim=dim, power=power)
        contacts, f = solved(made)
        free = ~made.bodies.fixed
        load = made.bodies.mass[free].sum() * G
        shares: dict[tuple, float] = {}
        for (i, j), x, force in zip(contacts.bodies, contacts.points, f / load, strict=True):
            key = (int(i), int(j), *(np.round(x[[0, -1]], 7) + 0.0))
            shares[key] = shares.get(key, 0.0) + force
        sums.append(shares)
    assert sums[0].keys() == sums[1].keys()
    for key, share in sums[0].items():
        assert sums[1][key] == pytest.approx(share, abs=2e-9 * max(sums[0].values()))


@pytest.mark.parametrize(
    ("name", "dim"), [("table", 3), *((name, 2 + i % 2) for i, name in enumerate(AT_REST))]
)
def test_what_stands_stays(name: str, dim: int) -> None:
    if name == "table":
        made = scene.table_with_legs(
            6, [1.0, 2.0, 3.0, 1.0, 2.0, 3.0], load=9.0, load_at=[0.2, 0.1]
        )
    else:
        made = AT_REST[name](dim=dim)
    run = cdopt.simulate(made, 1e-3, 5e-3, backend="newton", classic_backend="newton")
    moved = np.abs(run.final.state.q - made.initial.q).max()
    assert moved < 1e-13
    assert np.abs(run.final.state.v).max() < 1e-11
    contacts, f = solved(made)
    last = run.final
    carried = last.f > 1e-6 * f.max()
    ids = contacts.contact_ids
    known = np.isin(last.contact_ids[carried], ids)
    assert known.all()
    at = np.searchsorted(ids, last.contact_ids[carried])
    close(last.f[carried], f[at], 1e-6)
    assert last.f.sum() == pytest.approx(f.sum(), rel=1e-6)


# --- the limit of stiff contacts ---------------------------------------------------------


def slope_of_compliance(step: cdopt.ContactStep, power: float) -> float:
    """How the distance of forces of stiff contacts from the compatible ones falls with κ."""
    f = cdopt.CompatibleCD(step, power).solve("newton").f
    inertia = step.M.diagonal().max() / step.dt**2  # N/m
    size = float(np.abs(f).max())
    kappas = size * (inertia / size * np.logspace(3.0, 4.5, 4)) ** (power - 1.0)
    errors = []
    for kappa in kappas:
        stiff = cdopt.CompliantCD(step, power, kappa=float(kappa)).solve("newton")
        assert stiff.ok
        errors.append(np.linalg.norm(stiff.f - f) / np.linalg.norm(f))
    assert 1e-6 < min(errors) < max(errors) < 3e-2, errors
    return float(np.polyfit(np.log(kappas), np.log(errors), 1)[0])


@pytest.mark.parametrize("power", POWERS)
def test_elastic_walls_tend_to_compatible_forces_in_exact_geometry(power: float) -> None:
    """Between walls, where no brick can creep. A flush corner may change its name: by place."""
    made = scene.brick_wall(3, 2, materials=BRICKS, walls=True, power=power)
    contacts, f = solved(made)
    kappas = np.array({2.0: [1e7, 1e8, 1e9], 2.5: [1e8, 1e9, 1e10]}[power])
    errors = []
    for kappa in kappas:
        rest = cdopt.dynamics.equilibrium(made.stiffened(float(kappa)))
        seen = np.zeros(f.size)
        for k in np.flatnonzero(rest.contacts.phi < 0.0):
            off = np.abs(contacts.points - rest.contacts.points[k]).max(axis=1)
            off[(contacts.bodies != rest.contacts.bodies[k]).any(axis=1)] = np.inf
            off[contacts.normals @ rest.contacts.normals[k] < 0.9] = np.inf
            assert off.min() < 1e-2 * 0.06
            seen[np.argmin(off)] += rest.forces[k]
        errors.append(np.linalg.norm(seen - f) / np.linalg.norm(f))
    assert errors[0] < 1e-2
    slope = np.polyfit(np.log(kappas), np.log(errors), 1)[0]
    assert slope == pytest.approx(-1.0 / (power - 1.0), rel=0.03)


def frusta(power: float) -> Scene:
    """Twelve polyhedra in rows of five, four and three, each over two below, a little apart."""
    foot = np.array([[-0.1, -0.05], [0.1, -0.05], [0.1, 0.05], [-0.1, 0.05]])
    corners = np.concatenate(
        [np.column_stack([s * foot, np.full(4, z)]) for s, z in ((1.0, 0.0), (0.9, 0.08))]
    )
    shape = scene.Polyhedron(corners)
    stones = [
        Body(
            shape,
            np.add([0.21 * (i + 0.5 * j), 0.0, j * 0.08 + (j + 1) * 1e-4], shape.centre),
            density=2000.0,
            material="abc"[(i + j) % 3],
        )
        for j, row in enumerate((5, 4, 3))
        for i in range(row)
    ]
    floor = Body(scene.HalfSpace([0.0, 0.0, 1.0]), [0.0, 0.0, 0.0], name="floor")
    return Scene([floor, *stones], dim=3, power=power, materials=BRICKS)


@pytest.mark.slow
@pytest.mark.parametrize("power", [2.0, 2.5])
def test_polyhedra_that_came_to_rest_tend_to_compatible_forces(power: float) -> None:
    made = frusta(power)
    state = cdopt.simulate(made, 1e-3, 0.04, "classic-cd", backend="newton").final.state
    assert np.abs(state.v).max() < 1e-9
    still = scene.State(0.0, state.q, np.zeros_like(state.v))
    contacts = collision.detect(made, still, margin=1e-6)
    assert contacts.nc == 4 * (5 + 8 + 6)
    step = collision.step(made, still, contacts, dt=1e-3)
    assert cdopt.indeterminacy(step, contacts=0).nullity == 4 * 19 - 3 * 12
    answer = cdopt.CompatibleCD(step, power).solve("newton")
    weight = made.bodies.mass[1:].sum() * G
    assert answer.f[contacts.bodies[:, 0] == 0].sum() == pytest.approx(weight, rel=1e-9)
    slope = slope_of_compliance(step, power)
    assert slope == pytest.approx(-1.0 / (power - 1.0), rel=0.03)
