"""Projection and shift of one contact by rules for its rows, for compiled loops.

A contact has forces (f_n, f_1, …). The rules give the norms of its rows: the first row is
``NORMAL``, or ``FREE`` of a line; of every other row the rule is the number of its norm, 1, 2 or 3,
or ``ELLIPSE``. With ``CUT`` the result is not the nearest point, but ``Cones.frictional_cut``.
With the coefficient μ of each row K is

    ‖f_k‖ ≤ μ_k f_n for each norm k,    or  Σ (f_j/μ_j)² ≤ f_n²  of an ellipse.

With one norm it is Coulomb's cone; with two or three the product of sliding, torsional and rolling
friction of V. Acary & F. Bourrier, European Journal of Mechanics A/Solids 85 (2021), with an
ellipse the cone of E. Todorov's engine MuJoCo. The dual cones are g_n ≥ Σ μ_k ‖g_k‖ and
g_n ≥ ‖(μ_j g_j)‖.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cdopt._util.checks import FloatArray
from cdopt._util.compiled import compiled, part

NORMAL, FREE, ELLIPSE, CUT = 0, -1, -2, -3
_NORMS = 3
_ROUNDS = 100  # of the search of an ellipse's multiplier, which takes about ten

Rules = NDArray[np.int8]


def project(y: FloatArray, rules: Rules, mu: FloatArray) -> FloatArray:
    """The nearest points of K to y (nc, d), for rules and coefficients (nc, d)."""
    result = np.array(y, dtype=np.float64, order="C")
    _project(result, rules, mu)
    return result


@compiled()
def _project(y: FloatArray, rules: Rules, mu: FloatArray) -> None:
    for i in range(y.shape[0]):
        project_rows(y[i], rules[i], mu[i])


@part()
def shift_of_rows(g: FloatArray, rule: Rules, mu: FloatArray) -> float:
    """Σ μ_k ‖g_k‖ of one contact (d,), or the norm of the μ_j g_j of an ellipse."""
    total = 0.0
    if g.size > 1 and rule[1] == ELLIPSE:
        for k in range(1, g.size):
            total += (mu[k] * g[k]) ** 2
        return np.sqrt(total)
    for norm in range(1, _NORMS + 1):
        square, coefficient = 0.0, 0.0
        for k in range(1, g.size):
            if rule[k] == norm:
                square += g[k] * g[k]
                coefficient = mu[k]
        total += coefficient * np.sqrt(square)
    return total


@part()
def project_rows(y: FloatArray, rule: Rules, mu: FloatArray) -> None:
    """Move y (d,) of one contact to the nearest point of K."""
    if rule[0] == FREE:
        return
    if y.size > 1 and rule[1] == ELLIPSE:
        _project_on_ellipse(y, mu)
    elif y.size > 1 and rule[1] == CUT:
        _cut(y, mu[1])
    else:
        _project_on_norms(y, rule, mu)


@part()
def _cut(y: FloatArray, mu: float) -> None:
    """f_n = (y_n)₊, and f_T cut to μ f_n."""
    y[0] = max(y[0], 0.0)
    square = 0.0
    for k in range(1, y.size):
        square += y[k] * y[k]
    size, most = np.sqrt(square), mu * y[0]
    if size > most:
        for k in range(1, y.size):
            y[k] *= most / size


@part()
def _project_on_norms(y: FloatArray, rule: Rules, mu: FloatArray) -> None:
    """f_n minimises (f_n − y_n)² + Σ (‖y_k‖ − μ_k f_n)₊², a convex function of one variable."""
    s1, s2, s3, m1, m2, m3 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for k in range(1, y.size):
        if rule[k] == 1:
            s1 += y[k] * y[k]
            m1 = mu[k]
        elif rule[k] == 2:
            s2 += y[k] * y[k]
            m2 = mu[k]
        elif rule[k] == 3:
            s3 += y[k] * y[k]
            m3 = mu[k]
    s1, s2, s3 = np.sqrt(s1), np.sqrt(s2), np.sqrt(s3)
    if y[0] + m1 * s1 + m2 * s2 + m3 * s3 <= 0.0:
        for k in range(y.size):
            y[k] = 0.0
        return
    cut1, cut2, cut3, normal = True, True, True, 0.0
    for _ in range(_NORMS + 1):
        top, bottom = y[0], 1.0
        if cut1:
            top, bottom = top + m1 * s1, bottom + m1 * m1
        if cut2:
            top, bottom = top + m2 * s2, bottom + m2 * m2
        if cut3:
            top, bottom = top + m3 * s3, bottom + m3 * m3
        normal = top / bottom
        keep1 = cut1 and s1 > m1 * normal
        keep2 = cut2 and s2 > m2 * normal
        keep3 = cut3 and s3 > m3 * normal
        if keep1 == cut1 and keep2 == cut2 and keep3 == cut3:
            break
        cut1, cut2, cut3 = keep1, keep2, keep3
    c1 = m1 * normal / s1 if cut1 else 1.0
    c2 = m2 * normal / s2 if cut2 else 1.0
    c3 = m3 * normal / s3 if cut3 else 1.0
    y[0] = normal
    for k in range(1, y.size):
        if rule[k] == 1:
            y[k] *= c1
        elif rule[k] == 2:
            y[k] *= c2
        elif rule[k] == 3:
            y[k] *= c3


@part()
def _project_on_ellipse(y: FloatArray, mu: FloatArray) -> None:
    """By the multiplier λ ≥ 0 of Σ (f_j/μ_j)² ≤ f_n², as x = λ/(1 + λ).

    f_j = y_j/(1 + λ/μ_j²) and (1 − λ) f_n = y_n, so that x is the root of the decreasing
    (1 − 2x) ‖(μ_j y_j/(μ_j² (1 − x) + x))‖ − y_n on [0, 1].
    """
    normal, outside, polar = y[0], 0.0, 0.0
    for k in range(1, y.size):
        if mu[k] > 0.0:
            outside += (y[k] / mu[k]) ** 2
            polar += (mu[k] * y[k]) ** 2
        else:
            y[k] = 0.0
    if normal + np.sqrt(polar) <= 0.0:
        for k in range(y.size):
            y[k] = 0.0
        return
    if np.sqrt(outside) <= normal:
        return
    low, high, x = 0.0, 1.0, 0.5
    for _ in range(_ROUNDS):
        square, slope = 0.0, 0.0
        for k in range(1, y.size):
            if mu[k] > 0.0:
                bottom = mu[k] * mu[k] * (1.0 - x) + x
                part_of = mu[k] * y[k] / bottom
                square += part_of * part_of
                slope -= part_of * part_of * (1.0 - mu[k] * mu[k]) / bottom
        size = np.sqrt(square)
        value = (1.0 - 2.0 * x) * size - normal
        if value > 0.0:
            low = x
        else:
            high = x
        rate = (1.0 - 2.0 * x) * slope / size - 2.0 * size
        following = x - value / rate if rate < 0.0 else -1.0
        if not low < following < high:
            following = 0.5 * (low + high)
        if following == x or high - low <= 1e-16 * high:
            break
        x = following
    square = 0.0
    for k in range(1, y.size):
        if mu[k] > 0.0:
            y[k] *= mu[k] * mu[k] * (1.0 - x) / (mu[k] * mu[k] * (1.0 - x) + x)
            square += (y[k] / mu[k]) ** 2
    y[0] = np.sqrt(square)
