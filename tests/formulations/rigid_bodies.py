"""Rigid bodies at rest, their compatible forces, and how these are compared."""

from __future__ import annotations

import numpy as np

import cdopt
from cdopt import collision, scene
from cdopt.scene import Material, Scene

G = 9.81
SHARP = 1e-9  # of the largest force
POWERS = [2.0, 2.5]
BRICKS = [Material(name=name, stiffness=k) for name, k in (("a", 1.0), ("b", 3.0), ("c", 2.0))]


def solved(
    built: Scene, backend: str = "newton", **settings: float
) -> tuple[collision.Contacts, np.ndarray]:
    """Contacts of a scene at rest, and their compatible forces, N."""
    contacts = collision.detect(built, built.initial, margin=1e-9)
    step = collision.step(built, built.initial, contacts, dt=1e-3)
    answer = cdopt.CompatibleCD(step, built.power).solve(backend, **settings)
    assert answer.ok, answer.certificates
    return contacts, answer.f


def by_place(contacts: collision.Contacts, f: np.ndarray) -> np.ndarray:
    """Forces from left to right, then from front to back."""
    x = contacts.points.round(9) + 0.0
    return f[np.lexsort((contacts.bodies[:, 0], *x.T[:0:-1], x[:, 0]))]


def close(f: np.ndarray, expected: np.ndarray, tol: float = SHARP) -> None:
    np.testing.assert_allclose(f, expected, atol=tol * np.abs(expected).max(), rtol=0.0)


AT_REST = {
    "rod": lambda **more: scene.rod_on_supports(stiffness=[1.0, 2.0, 1.0], **more),
    "box on step": lambda **more: scene.box_on_step(**more),
    "brick on two": lambda **more: scene.brick_on_two_bricks(3.0, offset=0.02, **more),
    "bricks on floor": lambda **more: scene.brick_on_two_bricks(3.0, fixed=False, **more),
    "leaning stack": lambda **more: scene.box_stack(4, shift=0.05, **more),
    "wall": lambda **more: scene.brick_wall(3, 2, materials=BRICKS, **more),
    "wall between walls": lambda **more: scene.brick_wall(
        3, 2, materials=BRICKS, walls=True, **more
    ),
    "open wall": lambda **more: scene.brick_wall(3, 2, materials=BRICKS, head_joint=0.01, **more),
    "stepped wall": lambda **more: scene.brick_wall(3, 3, ends="stepped", **more),
    "arch": lambda **more: scene.arch(5, materials=BRICKS, **more),
}
