"""Coulomb's cone of contact forces: projection, its derivative, dual cone, de Saxcé's shift.

The cone of a contact is K_μ = {(f_n, f_T) : ‖f_T‖ ≤ μ f_n}. Its dual, the cone of contact rates, is
K*_μ = {(g_n, g_T) : g_n ≥ μ ‖g_T‖}. With μ = 0 both are those of frictionless contacts. Arrays
have one contact a row, normal component first: (nc, 2) in the plane, (nc, 3) in space.

Coulomb's law is K_μ ∋ f ⟂ g + μ ‖g_T‖ e_n ∈ K*_μ (G. de Saxcé & Z.-Q. Feng, Mathematical and
Computer Modelling 28, 1998). Without the shift μ ‖g_T‖ it is the associated law.
"""

from __future__ import annotations

import numpy as np

from cdopt._util.checks import FloatArray
from cdopt._util.compiled import compiled, part


def project(y: FloatArray, mu: FloatArray) -> FloatArray:
    """The nearest points of K_μ to y (nc, d), for friction coefficients mu (nc,)."""
    result = np.array(y, dtype=np.float64, order="C")
    _project(result, np.array(mu, dtype=np.float64))
    return result


def projection_derivative(y: FloatArray, mu: FloatArray) -> FloatArray:
    """An element (nc, d, d) of the generalised derivative of ``project`` at y (nc, d)."""
    root = projection_root(y, mu)
    return np.asarray(root.transpose(0, 2, 1) @ root)


def margin(normal: FloatArray, size: FloatArray, mu: FloatArray) -> FloatArray:
    """(nc,) distance of y = (normal, y_T), ‖y_T‖ = ``size``, from where ``project`` has a kink."""
    length = np.sqrt(1.0 + mu * mu)
    of_polar = np.abs(normal + mu * size) / length
    of_cone = np.hypot(np.minimum(normal, 0.0), (mu * np.maximum(normal, 0.0) - size) / length)
    return np.where(mu > 0.0, np.minimum(of_polar, of_cone), of_polar)


def projection_root(y: FloatArray, mu: FloatArray) -> FloatArray:
    """F (nc, d, d) with FᵀF = ``projection_derivative`` at y (nc, d); unused rows are zero."""
    result = np.zeros((*y.shape, y.shape[1]))
    _project_root(np.array(y, order="C"), np.array(mu), result)
    return result


def projected_work(y: FloatArray, change: FloatArray, t: float, mu: FloatArray) -> float:
    """Σ P_K(y + t change)ᵀ change over the contacts, y and ``change`` (nc, d)."""
    return _projected_work(y, change, t, mu, np.empty(y.shape[1]))


def largest_map(
    pair: tuple[FloatArray, FloatArray], shift: FloatArray | None, mu: FloatArray, w: FloatArray
) -> float:
    """The largest ‖w f − P_K(w f − g − s e_n)‖ of f and g, a ``pair`` (nc, d).

    ``shift`` is s (nc,), or None for μ ‖g_T‖.
    """
    f, g = pair
    s = _LAW if shift is None else shift
    return float(_largest_map(f, g, s, mu, w, np.empty((2, f.shape[1]))))


_LAW = np.zeros(0)


@compiled()
def _largest_map(
    f: FloatArray,
    g: FloatArray,
    shift: FloatArray,
    mu: FloatArray,
    w: FloatArray,
    room: FloatArray,
) -> float:
    result, push, near = 0.0, room[0], room[1]
    for i in range(mu.size):
        for k in range(push.size):
            push[k] = w[i] * f[i, k]
            near[k] = push[k] - g[i, k]
        near[0] -= shift[i] if shift.size else mu[i] * tangential_size(g[i])
        project_contact(near, mu[i])
        square = 0.0
        for k in range(push.size):
            square += (push[k] - near[k]) ** 2
        if not square <= result:  # not-a-number counts as largest
            result = square
            if square != square:
                break
    return np.sqrt(result)


def law_terms(
    rows: FloatArray, w: FloatArray, mu: FloatArray, coulomb: bool
) -> tuple[FloatArray, FloatArray]:
    """The terms of ``Cones.law_terms``, all but the natural map as (6, nc), and that (nc, d).

    ``rows`` (3, nc, d) are forces, rates and the round-off of rates.
    """
    found, natural = np.empty((8, mu.size)), np.empty(rows.shape[1:])
    found[6], found[7] = w, mu
    _law_terms(rows, coulomb, found, natural)
    return found, natural


@compiled()
def _law_terms(rows: FloatArray, coulomb: bool, found: FloatArray, natural: FloatArray) -> None:
    for i in range(natural.shape[0]):
        f, g, blur, near = rows[0, i], rows[1, i], rows[2, i], natural[i]
        w, mu = found[6, i], found[7, i]
        shift = mu * tangential_size(g) if coulomb else 0.0
        work, force, round_off, square = f[0] * (g[0] + shift), 0.0, 0.0, 0.0
        for k in range(1, f.size):
            work += f[k] * g[k]
        for k in range(f.size):
            near[k] = f[k]
        project_contact(near, mu)
        for k in range(f.size):
            force += f[k] * f[k]
            round_off += blur[k] * blur[k]
            square += (f[k] - near[k]) ** 2
        found[1, i], found[3, i] = np.sqrt(square), work
        found[4, i], found[5, i] = np.sqrt(force), np.sqrt(round_off)
        if coulomb:
            found[0, i] = max(-g[0], 0.0) if g[0] == g[0] else g[0]
            for k in range(f.size):
                near[k] = w * f[k] - g[k]
            size, push = tangential_size(near), w * f[0]
            share, most = 1.0, mu * max(push, 0.0)
            if size > most:
                share = most / size
            near[0] = push if push < g[0] or push != push else g[0]
            for k in range(1, f.size):
                near[k] = w * f[k] - share * near[k]
        else:
            for k in range(f.size):
                near[k] = -g[k]
            project_contact(near, mu)
            found[0, i] = _size(near)
            for k in range(f.size):
                near[k] = w * f[k] - g[k]
            project_contact(near, mu)
            for k in range(f.size):
                near[k] = w * f[k] - near[k]
        found[2, i] = _size(near)


@part()
def _size(y: FloatArray) -> float:
    """‖y‖ of one contact (d,)."""
    square = 0.0
    for k in range(y.size):
        square += y[k] * y[k]
    return np.sqrt(square)


@compiled()
def _projected_work(
    y: FloatArray, change: FloatArray, t: float, mu: FloatArray, room: FloatArray
) -> float:
    total = 0.0
    for i in range(mu.size):
        for k in range(room.size):
            room[k] = y[i, k] + t * change[i, k]
        project_contact(room, mu[i])
        for k in range(room.size):
            total += room[k] * change[i, k]
    return total


@compiled()
def _project(y: FloatArray, mu: FloatArray) -> None:
    for i in range(mu.size):
        project_contact(y[i], mu[i])


@part()
def project_contact(y: FloatArray, mu: float) -> None:
    """Move y (d,) to the nearest point of K_μ."""
    size = tangential_size(y)
    normal, scale = y[0], 1.0
    if mu * size <= -normal:
        normal, scale = 0.0, 0.0
    elif size > mu * normal:
        normal = (normal + mu * size) / (1.0 + mu * mu)
        scale = mu * normal / size
    y[0] = normal
    for k in range(1, y.size):
        y[k] *= scale


@part()
def tangential_size(y: FloatArray) -> float:
    """‖y_T‖ of one contact (d,)."""
    if y.size == 2:
        return abs(y[1])
    square = 0.0
    for k in range(1, y.size):
        square += y[k] * y[k]
    return np.sqrt(square)


@compiled()
def _project_root(y: FloatArray, mu: FloatArray, out: FloatArray) -> None:
    d = y.shape[1]
    for i in range(mu.size):
        size, normal = tangential_size(y[i]), y[i, 0]
        if normal >= 0.0 and size <= mu[i] * normal:
            for k in range(d):
                out[i, k, k] = 1.0
        elif mu[i] * size > -normal:
            along = 1.0 / np.sqrt(1.0 + mu[i] * mu[i])
            out[i, 0, 0] = along
            for k in range(1, d):
                out[i, 0, k] = along * mu[i] * y[i, k] / size
            if d == 3:
                across = along * np.sqrt(mu[i] * (normal + mu[i] * size) / size) / size
                out[i, 1, 1], out[i, 1, 2] = -across * y[i, 2], across * y[i, 1]


def shift(g: FloatArray, mu: FloatArray) -> FloatArray:
    """(nc,) μ ‖g_T‖ of contact rates g (nc, d)."""
    return mu * norms(g[:, 1:])


def shift_gradient(g: FloatArray, mu: FloatArray) -> FloatArray:
    """(nc, d) derivative of ``shift`` at g (nc, d); zero where a contact does not slip."""
    size, result = norms(g[:, 1:]), np.zeros(g.shape)
    result[:, 1:] = (mu / np.where(size > 0.0, size, np.inf))[:, None] * g[:, 1:]
    return result


def norms(rows: FloatArray) -> FloatArray:
    """(n,) Euclidean norm of each of the ``rows`` (n, k)."""
    return np.sqrt(np.vecdot(rows, rows))
