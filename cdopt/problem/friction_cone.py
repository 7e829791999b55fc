"""Coulomb's cone of contact forces: projection, its derivative, dual cone, de Saxcé's shift.

The cone of a contact is K_μ = {(f_n, f_T) : ‖f_T‖ ≤ μ f_n}. Its dual, the cone of contact rates, is
K*_μ = {(g_n, g_T) : g_n ≥ μ ‖g_T‖}. With μ = 0 both are those of frictionless contacts. Arrays
hold one contact a row, normal component first: (nc, 2) in the plane, (nc, 3) in space.

The law of Coulomb is K_μ ∋ f ⟂ g + μ ‖g_T‖ e_n ∈ K*_μ (G. de Saxcé & Z.-Q. Feng, Mathematical and
Computer Modelling 28, 1998). Without the shift μ ‖g_T‖ it is the associated law.
"""

from __future__ import annotations

import numpy as np

from cdopt._util.checks import FloatArray


def project(y: FloatArray, mu: FloatArray) -> FloatArray:
    """The nearest points of K_μ to y (nc, d), for friction coefficients mu (nc,)."""
    normal, size = y[:, 0], _sizes(y)
    inside, polar = size <= mu * normal, mu * size <= -normal
    edge = np.where(polar, 0.0, (normal + mu * size) / (1.0 + mu * mu))
    with np.errstate(divide="ignore", invalid="ignore"):
        shrink = np.where(size > 0.0, mu * edge / size, 0.0)
    result = np.empty_like(y)
    result[:, 0] = np.where(inside, normal, edge)
    result[:, 1:] = np.where(inside, 1.0, shrink)[:, None] * y[:, 1:]
    return result


def projection_derivative(y: FloatArray, mu: FloatArray) -> FloatArray:
    """An element (nc, d, d) of the generalised derivative of ``project`` at y (nc, d).

    Each block is symmetric with eigenvalues between 0 and 1.
    """
    nc, d = y.shape
    normal, size = y[:, 0], _sizes(y)
    inside, polar = size <= mu * normal, mu * size <= -normal
    result = np.zeros((nc, d, d))
    result[inside] = np.eye(d)
    k = np.flatnonzero(~inside & ~polar)
    if k.size:
        m, along = mu[k], np.zeros((k.size, d))
        along[:, 0] = 1.0
        with np.errstate(divide="ignore", invalid="ignore"):
            direction = np.where(size[k, None] > 0.0, y[k, 1:] / size[k, None], 0.0)
            turn = np.where(size[k] > 0.0, m * (normal[k] + m * size[k]) / size[k], 0.0)
        along[:, 1:] = m[:, None] * direction
        block = along[:, :, None] * along[:, None, :]
        across = np.eye(d - 1) - direction[:, :, None] * direction[:, None, :]
        block[:, 1:, 1:] += turn[:, None, None] * across
        result[k] = block / (1.0 + m * m)[:, None, None]
    return result


def distance(y: FloatArray, mu: FloatArray) -> FloatArray:
    """(nc,) distance of y (nc, d) from K_μ."""
    return np.asarray(np.linalg.norm(y - project(y, mu), axis=1))


def shifted(g: FloatArray, mu: FloatArray) -> FloatArray:
    """g + μ ‖g_T‖ e_n (nc, d), de Saxcé's shift of the contact rates g."""
    result = g.copy()
    result[:, 0] += mu * _sizes(g)
    return result


def shift_derivative(g: FloatArray, mu: FloatArray) -> FloatArray:
    """(nc, d, d) derivative of ``shifted``; where a contact does not slip, the identity."""
    nc, d = g.shape
    size = _sizes(g)
    result = np.broadcast_to(np.eye(d), (nc, d, d)).copy()
    with np.errstate(divide="ignore", invalid="ignore"):
        direction = np.where(size[:, None] > 0.0, g[:, 1:] / size[:, None], 0.0)
    result[:, 0, 1:] = mu[:, None] * direction
    return result


def natural_map(f: FloatArray, g: FloatArray, mu: FloatArray, mobility: FloatArray) -> FloatArray:
    """w f − P_K(w f − g) (nc, d), m/s: zero exactly where K_μ ∋ f ⟂ g ∈ K*_μ.

    Parameters
    ----------
    f : (nc, d) forces, N.
    g : (nc, d) contact rates, m/s; for the law of Coulomb the ``shifted`` ones.
    mobility : (nc,) w > 0, m/(s·N).
    """
    push = mobility[:, None] * f
    return push - project(push - g, mu)


def _sizes(y: FloatArray) -> FloatArray:
    """‖y_T‖ (nc,)."""
    return np.abs(y[:, 1]) if y.shape[1] == 2 else np.linalg.norm(y[:, 1:], axis=1)
