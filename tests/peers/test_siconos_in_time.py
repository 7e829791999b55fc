"""Siconos' time stepping with friction compared with cdopt's: the same events, admissible forces.

Both are first-order schemes with velocities constrained at the end of the step, cdopt by the gaps
as well. Where contacts only stick or slide on planes they are one scheme, else they differ by the
error of the time step.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

import cdopt
from cdopt.interop import siconos
from cdopt.scene import Body, Box, HalfSpace, Scene, Sphere

PROGRAM = Path(__file__).with_name("siconos_in_time.py")
G, RADIUS, SIZE = 9.81, 0.1, (0.4, 0.1)
MOVES = 0.05  # m of the farthest body: the event
ROUND = 1e-9  # m


def slope(angle: float) -> np.ndarray:
    return G * np.array([np.sin(angle), -np.cos(angle)])


def boxes(count: int, **motion: object) -> list[Body]:
    places = [[0.0, SIZE[1] * (k + 0.5)] for k in range(count)]
    return [Body(Box(SIZE), place, mass=2.0, **motion) for place in places]


def pile(rows: int) -> list[Body]:
    """Discs in a triangle.

    Forces balance it with μ = 0.5, not with 0.4, but up to 1 its discs may roll apart as well: the
    Coulomb law has two answers there, and round-off decides. So μ is 1.5 where it is to rest.
    """
    places = [
        [RADIUS * (2 * k + row), RADIUS * (1.0 + np.sqrt(3.0) * row)]
        for row in range(rows)
        for k in range(rows - row)
    ]
    return [Body(Sphere(RADIUS), place, mass=1.0) for place in places]


BALL = [Body(Sphere(RADIUS), [0.0, RADIUS], mass=1.0, velocity=[1.0, 0.0])]
CASES = {  # bodies, μ, angle of the floor, whether they move by 5 cm, and the band, m
    "block that slides to rest": (boxes(1, velocity=[1.0, 0.0]), 0.4, 0.0, True, ROUND),
    "ball that slides, then rolls": (BALL, 0.4, 0.0, True, ROUND),
    "stack on a slope that holds": (boxes(5), 0.4, np.arctan(0.36), False, ROUND),
    "stack on a slope that slides": (boxes(5), 0.4, np.arctan(0.6), True, ROUND),
    "pile that stands": (pile(5), 1.5, 0.0, False, ROUND),
    "pile that spreads": (pile(5), 0.15, 0.0, True, 5e-3),
}
DT, STEPS = 1e-3, 300


@pytest.fixture(scope="module")
def interpreter() -> str:
    missing = siconos.why_unavailable()
    if missing is not None:
        pytest.skip(missing)
    return str(siconos.python())


def both(interpreter: str, folder: Path, name: str):
    """The trajectory of cdopt, and the arrays of Siconos."""
    bodies, mu, angle, *_ = CASES[name]
    floor = Body(HalfSpace([0.0, 1.0]), [0.0, 0.0], fixed=True)
    scene = Scene([*bodies, floor], dim=2, gravity=slope(angle))
    ours = cdopt.simulate(scene, DT, DT * STEPS, "contact-dynamics", friction=mu)
    start, free = scene.initial, slice(len(bodies))
    shape = (
        {"size": SIZE} if isinstance(bodies[0].shape, Box) else {"radius": scene.bodies.reach[free]}
    )
    np.savez(
        folder / "in.npz", mass=scene.bodies.mass[free], q=start.q[free], v=start.v[free],
        gravity=slope(angle), mu=mu, dt=DT, steps=STEPS, **shape,
    )  # fmt: skip
    command = [interpreter, str(PROGRAM), str(folder / "in.npz"), str(folder / "out.npz")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    with np.load(folder / "out.npz") as stored:
        return ours, dict(stored)


def way(q: np.ndarray) -> np.ndarray:
    """How far the farthest body is from its start, in each frame; m."""
    return np.linalg.norm(q[..., :2] - q[0, :, :2], axis=2).max(axis=1)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_bodies_move_as_in_siconos(interpreter: str, tmp_path: Path, name: str) -> None:
    bodies, *_, moves, band = CASES[name]
    ours, theirs = both(interpreter, tmp_path, name)
    assert ours.ok
    q = ours.q[:, : len(bodies)]
    event = [np.flatnonzero(way(path) > MOVES)[:1] for path in (q, theirs["q"])]
    assert [found.size for found in event] == [moves, moves]
    assert abs(event[0] - event[1]).max(initial=0) <= (2 if band > ROUND else 0)
    assert np.linalg.norm(q - theirs["q"], axis=2).max() < band


@pytest.mark.slow
def test_forces_of_siconos_at_rest_are_admissible(interpreter: str, tmp_path: Path) -> None:
    """Of the pile that stands, in whose bounds they lie, contact by contact."""
    ours, theirs = both(interpreter, tmp_path, "pile that stands")
    scene, state = ours.scene, ours.final.state
    contacts = cdopt.collision.detect(scene, state)
    step = cdopt.collision.step(scene, state, contacts, DT, friction=CASES["pile that stands"][1])
    report = cdopt.indeterminacy(step, "coulomb", solution="nsgs")  # of an answer at rest
    assert np.abs(report.solution.v_next).max() < 1e-9
    number = {frozenset(pair): k for k, pair in enumerate(step.bodies.tolist())}
    vectors = np.zeros((step.nc, 2))  # on the second body
    for (i, j), force in zip(theirs["pairs"].tolist(), theirs["forces"], strict=True):
        k = number[frozenset((i, j if j >= 0 else len(scene.bodies.mass) - 1))]
        vectors[k] = force if step.bodies[k, 1] == i else -force
    f = np.einsum("ix,ix->i", vectors, step.normals)
    f_t = np.einsum("ikx,ix->ik", step.friction.tangents, vectors)
    must = report.lower > 1e-6 * report.unit
    assert np.all(f[must] > 0.0)
    assert report.dimension > 0
    assert report.outside(f, f_t).max() < 1e-6 * report.unit.max()
