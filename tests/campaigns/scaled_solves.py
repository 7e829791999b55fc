"""Valid data scaled as badly as doubles allow: every native solver returns, or raises by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

import cdopt

FORBIDDEN = ("escape",)
LIMITS: dict[str, dict[str, Any]] = {
    "newton": {}, "pgs": {"max_sweeps": 2000}, "apgd": {"max_iterations": 2000}, "lcp": {},
    "augmented-lagrangian": {"max_iterations": 2000}, "interior-point": {}, "auto": {},
}  # fmt: skip


def spoilt(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """A small gap gradient with rows and columns scaled, zero, repeated, opposed or denormal."""
    A = rng.integers(-2, 3, shape).astype(float)
    for _ in range(rng.integers(1, 4)):
        i, j, row = rng.integers(shape[0]), rng.integers(shape[1]), rng.integers(shape[0])
        factor = 10.0 ** float(rng.choice([5, 10, 50, 100, 200, 300]) * rng.choice([-1, 1]))
        way = rng.integers(0, 7)
        if way == 0:
            A[i] *= factor
        elif way == 1:
            A[:, j] *= factor
        elif way == 2:
            A *= factor
        elif way == 3:
            A[i] = 0.0
        elif way == 4:
            A[i, j] = 5e-324 * rng.integers(1, 100)
        else:
            A[i] = A[row] if way == 5 else -A[row]
    return A


def numbers(rng: np.random.Generator, n: int, positive: bool = False) -> np.ndarray:
    """Normal ones, half of the time each scaled on its own, at times one of them denormal."""
    x = rng.standard_normal(n)
    if rng.random() < 0.5:
        x = x * 10.0 ** rng.choice([-300, -100, -10, 10, 100, 300], size=n)
    if rng.random() < 0.2:
        x[rng.integers(n)] = 5e-324
    return np.maximum(np.abs(x), 5e-324) if positive else x


def problems(rng: np.random.Generator) -> list[Callable[[], Any]]:
    """One problem of each kind on the same contacts."""
    nc, nv = int(rng.integers(1, 7)), int(rng.integers(1, 5))
    B, m, k = spoilt(rng, (nc, nv)), numbers(rng, nv, True), numbers(rng, nc, True)
    phi, v, load, mom = (numbers(rng, n) for n in (nc, nv, nv, nv))
    dt, p = float(rng.choice([1e-10, 1e-3, 1.0, 1e5])), float(rng.choice([1.5, 2.0, 2.5, 4.0]))

    def step() -> cdopt.ContactStep:
        return cdopt.ContactStep(np.diag(m), B, phi, v, load, dt, stiffness=k)

    return [
        lambda: cdopt.ClassicCD(step()),
        lambda: cdopt.ClassicCD(step(), form="velocity"),
        lambda: cdopt.CompliantCD(step(), power=p),
        lambda: cdopt.CompatibleCD(step(), power=p),
        lambda: cdopt.VariationalStep(step(), mom=mom, power=p),
        lambda: cdopt.NoTensionTruss(B, load, k, p),
        lambda: cdopt.QuasiStatic(B, phi, load, k, p),
    ]


def run(count: int, seed: int) -> dict[str, int]:
    """``count`` networks, seven problems each, every native solver."""
    found: Counter[str] = Counter(dict.fromkeys(FORBIDDEN, 0))
    rng = np.random.default_rng(seed)
    with np.errstate(all="ignore"):
        for _ in range(count):
            for pose in problems(rng):
                try:
                    problem = pose()
                except cdopt.CdoptError as error:
                    found[f"posing: {type(error).__name__}"] += 1
                    continue
                for name, limits in LIMITS.items():
                    found[_outcome(problem, name, limits)] += 1
    return dict(found)


def _outcome(problem: Any, name: str, limits: dict[str, Any]) -> str:
    try:
        solution = problem.solve(name, **limits)
    except cdopt.CdoptError as error:
        return type(error).__name__
    except Exception as error:  # counted, whatever it is
        print(name, problem, repr(error))
        return "escape"
    return "ok" if solution.ok else "not ok"
