"""Compiled loops over the rows of a sparse matrix, for the scales and residuals of a problem."""

from __future__ import annotations

import numpy as np

from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt._util.compiled import compiled


@compiled()
def mobilities(
    ptr: IntArray, idx: IntArray, val: FloatArray, mass: FloatArray, idle: float
) -> tuple[FloatArray, BoolArray]:
    """Σ_j B_ij²/m_j (nc,), and which dofs (nv,) make more than the share ``idle`` of one of them.

    B (nc, nv) comes as its CSR parts, m (nv,) as ``mass``.
    """
    own = np.zeros(ptr.size - 1)
    moving = np.zeros(mass.size, dtype=np.bool_)
    for i in range(own.size):
        for k in range(ptr[i], ptr[i + 1]):
            own[i] += val[k] * val[k] / mass[idx[k]]
        for k in range(ptr[i], ptr[i + 1]):
            share = val[k] * val[k] / mass[idx[k]]
            if share > 0.0 and not share / own[i] <= idle:
                moving[idx[k]] = True
    return own, moving


@compiled()
def closing_speeds(
    ptr: IntArray, idx: IntArray, val: FloatArray, v_star: FloatArray, p: FloatArray,
    bias: FloatArray, part: IntArray, count: int, negligible: float, round_off: float,
) -> FloatArray:  # fmt: skip
    """(count,) m/s, of each part's contacts the largest −p; zero where there is no motion at all.

    Where it is a ``negligible`` share of the largest |p|, the largest |B v*|; where that is one
    too, the largest |p|. At least the share ``round_off`` of the terms of p = B v* + bias (nc,).
    """
    closing, rate = np.zeros(count), np.zeros(count)
    largest, terms = np.zeros(count), np.zeros(count)
    for i in range(p.size):
        at, term = part[i], abs(bias[i])
        for k in range(ptr[i], ptr[i + 1]):
            term += abs(val[k]) * abs(v_star[idx[k]])
        closing[at] = np.maximum(closing[at], -p[i])  # not-a-number spreads
        rate[at] = np.maximum(rate[at], abs(p[i] - bias[i]))
        largest[at] = np.maximum(largest[at], abs(p[i]))
        terms[at] = np.maximum(terms[at], term)
    for at in range(count):
        speed = closing[at]
        if not speed > negligible * largest[at]:
            speed = rate[at] if rate[at] > negligible * largest[at] else largest[at]
        closing[at] = np.maximum(speed, round_off * terms[at])
    return closing


@compiled()
def times(ptr: IntArray, idx: IntArray, val: FloatArray, x: FloatArray) -> FloatArray:
    """B x (n,) for B as its CSR parts."""
    out = np.zeros(ptr.size - 1)
    for i in range(out.size):
        for k in range(ptr[i], ptr[i + 1]):
            out[i] += val[k] * x[idx[k]]
    return out


@compiled()
def times_size(ptr: IntArray, idx: IntArray, val: FloatArray, x: FloatArray) -> FloatArray:
    """|B| |x| (n,) for B as its CSR parts."""
    out = np.zeros(ptr.size - 1)
    for i in range(out.size):
        for k in range(ptr[i], ptr[i + 1]):
            out[i] += abs(val[k]) * abs(x[idx[k]])
    return out


@compiled()
def transposed_times(
    ptr: IntArray, idx: IntArray, val: FloatArray, f: FloatArray, size: int
) -> FloatArray:
    """Bᵀ f (size,) for B as its CSR parts."""
    out = np.zeros(size)
    for i in range(f.size):
        for k in range(ptr[i], ptr[i + 1]):
            out[idx[k]] += val[k] * f[i]
    return out


@compiled()
def worst(
    error: FloatArray, scale: FloatArray, round_off: FloatArray, nothing: float
) -> tuple[float, float, float]:
    """The largest (error − round_off)₊ / scale, that scale, and the largest round_off / scale.

    Where the scale is at most ``nothing`` times the round-off, an error of that size is zero. All
    is not-a-number where something is not finite.
    """
    value, of, resolution = 0.0, scale[0], 0.0
    for i in range(error.size):
        floor = nothing * round_off[i]
        if not (np.isfinite(error[i]) and np.isfinite(scale[i]) and np.isfinite(floor)):
            return np.nan, scale[i], np.nan
        if scale[i] > floor:
            resolution = np.maximum(resolution, round_off[i] / scale[i])
            ratio = np.maximum(error[i] - round_off[i], 0.0) / scale[i]
        elif error[i] <= floor:
            ratio = 0.0
        else:
            ratio = error[i] / scale[i] if scale[i] > 0.0 else np.inf
        if ratio > value or i == 0:
            value, of = ratio, scale[i]
    return value, of, resolution


@compiled()
def dofs_in_play(
    beta: FloatArray, load: FloatArray, free: BoolArray, no_lever: float, no_load: float
) -> tuple[FloatArray, BoolArray, BoolArray]:
    """The lever of each dof (nv,), whether contacts act on it, and if it takes part.

    Parameters
    ----------
    beta : (nv,) largest gap per unit of each dof, zero where it touches nothing; there the
        lever is the largest of all.
    load : (nv,) F̃. free : (nv,) dofs that are not prescribed.
    no_lever, no_load : shares of the largest lever and of the largest free load; a dof below both
        takes no part.
    """
    most, top = 0.0, 0.0
    for j in range(beta.size):
        most = np.maximum(most, beta[j])
        if free[j]:
            top = np.maximum(top, abs(load[j]))
    lever = np.empty(beta.size)
    reached, played = np.zeros(beta.size, np.bool_), np.zeros(beta.size, np.bool_)
    for j in range(beta.size):
        touched = beta[j] > 0.0
        lever[j] = beta[j] if touched else most if most != 0.0 else 1.0
        noise = beta[j] <= no_lever * most and abs(load[j]) <= no_load * top
        reached[j] = free[j] and touched and not noise
        played[j] = free[j] and (reached[j] or (load[j] != 0.0 and not (touched and noise)))
    return lever, reached, played
