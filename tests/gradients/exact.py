"""A small solver of contact steps in forty digits, by trying every set of contacts that press.

It shares nothing with cdopt: data are dictionaries of mpmath matrices. Steps are
M (v⁺ − v) = Δt (F + Gᵀ f), with each contact open, held, or sliding.
"""

from __future__ import annotations

import itertools
from typing import Any

import mpmath as mp
import numpy as np

DIGITS = 40
OPEN, STICK, SLIDE = range(3)


def matrix(values: Any) -> Any:
    """An mpmath matrix of NumPy numbers, exactly."""
    rows = np.atleast_2d(np.asarray(values, dtype=float))
    return mp.matrix(rows.tolist())


def column(values: Any) -> Any:
    return mp.matrix(np.ravel(np.asarray(values, dtype=float)).tolist())


def shifted(data: dict[str, Any], directions: dict[str, Any], t: Any) -> dict[str, Any]:
    """The data, moved by t along ``directions``."""
    return {k: v + t * directions[k] if k in directions else v for k, v in data.items()}


def bias(data: dict[str, Any]) -> list[Any]:
    """Rates of the normal rows that do not depend on v⁺, with Newton's restitution."""
    dt, B, v = data["dt"], data["B"], data["v"]
    free = v + dt * mp.lu_solve(data["M"], data["F_ext"])
    result = []
    for i in range(B.rows):
        before = sum(B[i, j] * v[j] for j in range(B.cols)) + data["gap_rate"][i]
        after = sum(B[i, j] * free[j] for j in range(B.cols)) + data["gap_rate"][i]
        hits = data["restitution"][i] > 0 and data["phi"][i] + dt * after < 0 and before < 0
        rest = data["restitution"][i] * before if hits else data["phi"][i] / dt
        result.append(rest + data["gap_rate"][i])
    return result


def rows_of(data: dict[str, Any]) -> tuple[Any, list[Any], int]:
    """G and b of all rows, contacts first, each normal and then its tangents; and d."""
    B, normal = data["B"], bias(data)
    many = data["B_t"].rows // B.rows if "B_t" in data else 0
    G = mp.matrix(B.rows * (1 + many), B.cols)
    b: list[Any] = []
    for i in range(B.rows):
        for j in range(B.cols):
            G[i * (1 + many), j] = B[i, j]
            for k in range(many):
                G[i * (1 + many) + 1 + k, j] = data["B_t"][i * many + k, j]
        b += [normal[i], *(data["rate"][i * many + k] for k in range(many))]
    return G, b, 1 + many


def solve(
    data: dict[str, Any], law: str, start: Any, states: tuple[int, ...], slope: Any = None
) -> tuple[Any, Any, Any]:
    """v⁺ and f (with the joints' reactions last) for contacts in these states, by Newton's method.

    ``start`` is a pair close to the answer, needed where contacts slide; ``slope`` that of the
    equations there. The third result is the slope.
    """
    G, b, d = rows_of(data)
    nv, nc, dt = G.cols, G.rows // d, data["dt"]
    J = data.get("J")
    joints = 0 if J is None else J.rows
    v, f = start

    def equations(z: Any) -> list[Any]:
        v = [z[j] for j in range(nv)]
        f = [z[nv + i] for i in range(G.rows + joints)]
        g = [sum(G[i, j] * v[j] for j in range(nv)) + b[i] for i in range(G.rows)]
        out = []
        for j in range(nv):
            change = sum(data["M"][j, k] * (v[k] - data["v"][k]) for k in range(nv))
            load = sum(G[i, j] * f[i] for i in range(G.rows))
            load += sum(J[i, j] * f[G.rows + i] for i in range(joints)) if joints else 0
            out.append(change - dt * (data["F_ext"][j] + load))
        for i in range(nc):
            at = i * d
            if states[i] == OPEN:
                out += [f[at + k] for k in range(d)]
            elif states[i] == STICK:
                out += [g[at + k] for k in range(d)]
            else:
                size, mu = mp.sqrt(sum(g[at + k] ** 2 for k in range(1, d))), data["mu"][i]
                out.append(g[at] - (mu * size if law == "associated" else 0))
                out += [f[at + k] * size + mu * f[at] * g[at + k] for k in range(1, d)]
        for i in range(joints):
            out.append(sum(J[i, j] * v[j] for j in range(nv)) + data["joint_rate"][i])
        return out

    z, slope = newton(equations, mp.matrix([*v, *f]), slope)
    return z[:nv], z[nv:], slope


def newton(equations: Any, z: Any, slope: Any = None) -> tuple[Any, Any]:
    """A zero of ``equations`` near z, and their slope there; a given ``slope`` is kept."""
    known, h = slope, mp.mpf(10) ** (-(mp.mp.dps // 2))
    for _ in range(60):
        value = mp.matrix(equations(z))
        if known is None:
            slope = mp.matrix(len(z), len(z))
            for k in range(len(z)):
                moved = z.copy()
                moved[k] += h
                slope[:, k] = (mp.matrix(equations(moved)) - value) / h
        change = mp.lu_solve(slope, value)
        z = z - change
        if mp.norm(change) <= mp.mpf(10) ** (5 - mp.mp.dps) * (1 + mp.norm(z)):
            return z, slope
    raise AssertionError("Newton's method on the reference did not converge")


def slope_along(equations: Any, z: Any, t: Any) -> tuple[Any, Any]:
    """A zero of ``equations(z, 0)`` near z, and the central difference of those at ±t."""
    at, slope = newton(lambda x: equations(x, mp.mpf(0)), mp.matrix(z))
    ahead = newton(lambda x: equations(x, t), at, slope)[0]
    behind = newton(lambda x: equations(x, -t), at, slope)[0]
    return at, (ahead - behind) / (2 * t)


def enumerated(data: dict[str, Any]) -> tuple[Any, Any]:
    """v⁺ and f of a step without friction, by trying every set of contacts."""
    G, b, _ = rows_of(data)
    nothing = [mp.mpf(0)] * G.cols, [mp.mpf(0)] * (G.rows + (data["J"].rows if "J" in data else 0))
    for states in itertools.product((OPEN, STICK), repeat=G.rows):
        v, f, _ = solve(data, "", nothing, states)
        g = G * mp.matrix(v) + mp.matrix(b)
        if all(f[i] >= 0 for i in range(G.rows)) and all(g[i] > -1e-25 for i in range(G.rows)):
            return v, f
    raise AssertionError("no set of contacts meets the conditions")
