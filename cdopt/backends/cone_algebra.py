"""Products, scalings and distances in half-lines and second-order cones, for interior points.

Inside a symmetric cone the forces f and the rates s of a contact have a product f ∘ s, which takes
the place of f s: it is the multiple μ e of the cone's identity e on the central path. The scaling
of Nesterov and Todd (Math. Oper. Res. 22, 1997) is the symmetric W with W f = W⁻¹ s = λ; for a
half-line W² = s/f.

Coulomb's cone K and its dual K* are one second-order cone L = {x₀ ≥ ‖x_T‖} in other units: with
a = (1/μ, 1, 1), forces are a f̂ and rates are ĝ/a, both f̂ and ĝ in L. Where μ = 0 tangential rows
have no part: a = (1, 0, 0).

Of bilateral rows f is free and s is zero: they have no products, and W = 0.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from cdopt._util.cached import cached_property
from cdopt._util.checks import BoolArray, FloatArray
from cdopt._util.compiled import compiled
from cdopt.problem.friction_cone import norms, tangential_size

_DOUBLE = 1e-8  # of the discriminant of a double root, that of a way to the tip of a cone
_CENTRAL = 1e-2  # least eigenvalue of a product, of the mean product
_TRIALS, _SHORTER = 30, 0.8  # of lengths that keep it
_GIVE = 1e-8  # of lines, without which systems of dependent forces are singular
_TINY = float(np.finfo(float).tiny)


class Scaling(ABC):
    """Forces f and rates s inside their cones, and the scaling of both."""

    products: FloatArray  # f ∘ s, or λ ∘ λ
    degree: int  # number of its values on the central path

    @abstractmethod
    def soften(self, give: FloatArray) -> None:
        """State what is added to W²."""

    @abstractmethod
    def stiff(self, x: FloatArray) -> FloatArray:
        """(W² + give)⁻¹ x (rows,)."""

    @abstractmethod
    def aimed(self, target: FloatArray) -> FloatArray:
        """W (λ \\ target) (rows,): what changes the products by ``target``."""

    @abstractmethod
    def second(self, df: FloatArray, ds: FloatArray) -> FloatArray:
        """(W df) ∘ (W⁻¹ ds) (rows,)."""

    @abstractmethod
    def identity(self, value: float) -> FloatArray | float:
        """``value`` times e, (rows,) or one number for all."""

    @abstractmethod
    def length(self, df: FloatArray, ds: FloatArray) -> float:
        """How far f and s go along df and ds before one meets its boundary."""

    def central(self, df: FloatArray, ds: FloatArray, length: float) -> float:
        """At most ``length``: not so far that some product falls far below the mean of all."""
        return length


class HalfLineScaling(Scaling):
    """Half-lines, and ``lines`` (rows,) if there are any."""

    def __init__(self, f: FloatArray, s: FloatArray, lines: BoolArray | None = None) -> None:
        self.products, self.degree = f * s, max(f.size, 1)
        if lines is not None:  # s/f is zero
            f, s = np.where(lines, 1.0, f), np.where(lines, 0.0, s)
            self.degree = max(int(np.count_nonzero(~lines)), 1)
        self.f, self.s, self.lines = f, s, lines
        self.D = np.zeros(0)

    def soften(self, give: FloatArray) -> None:
        self.D = self.f / (self.s + self.f * give)

    def stiff(self, x: FloatArray) -> FloatArray:
        return self.D * x

    def aimed(self, target: FloatArray) -> FloatArray:
        return target / self.f

    def second(self, df: FloatArray, ds: FloatArray) -> FloatArray:
        return df * ds

    def identity(self, value: float) -> FloatArray | float:
        return value if self.lines is None else np.where(self.lines, 0.0, value)

    def length(self, df: FloatArray, ds: FloatArray) -> float:
        if self.lines is None:
            return min(to_zero(self.f, df), to_zero(self.s, ds))
        at = ~self.lines
        return min(to_zero(self.f[at], df[at]), to_zero(self.s[at], ds[at]))


class ConeScaling(Scaling):
    """Second-order cones of d rows each, f and s (rows,); ``give`` is one number for all.

    W has the eigenvalues η ρ and η/ρ along (1, ±u), and η across. ``lines`` (nc,) are contacts
    with one bilateral row, the first.
    """

    def __init__(
        self, f: FloatArray, s: FloatArray, d: int, lines: BoolArray | None = None
    ) -> None:
        self.f, self.s, self.lines = f.reshape(-1, d), s.reshape(-1, d), lines
        if lines is not None:  # any point inside the cones
            self.f, self.s = self.f.copy(), self.s.copy()
            self.f[lines], self.s[lines] = np.eye(1, d), np.eye(1, d)
        size_f, size_s = np.sqrt(_determinant(self.f)), np.sqrt(_determinant(self.s))
        unit_f, unit_s = self.f / size_f[:, None], self.s / size_s[:, None]
        middle = np.sqrt(0.5 * (1.0 + np.sum(unit_f * unit_s, axis=1)))
        point = 0.5 * (unit_s + _reflected(unit_f)) / middle[:, None]
        size = norms(point[:, 1:])
        self.along = _directions(point[:, 1:], size)
        self.eta, self.rho = np.sqrt(size_s / size_f), point[:, 0] + size
        self.scaled = self._times(self.f)
        self.products = self._on_cones(_product(self.scaled, self.scaled))
        count = len(self.f) if lines is None else int(np.count_nonzero(~lines))
        self.degree = max(count, 1)
        self.soft = self.eta, self.eta, self.eta

    def _on_cones(self, table: FloatArray) -> FloatArray:
        """(rows,) of a table (nc, d), zero on lines."""
        if self.lines is not None:
            table[self.lines] = 0.0
        return table.ravel()

    def _times(self, x: FloatArray) -> FloatArray:
        """W x."""
        return _mapped(self.along, x, self.eta * self.rho, self.eta / self.rho, self.eta)

    def _over(self, x: FloatArray) -> FloatArray:
        """W⁻¹ x."""
        eta, rho = self.eta, self.rho
        return _mapped(self.along, x, 1.0 / (eta * rho), rho / eta, 1.0 / eta)

    def soften(self, give: FloatArray) -> None:
        """The eigenvalues of (W² + give)⁻¹ (nc,)."""
        square, rho = self.eta**2, self.rho**2
        most = float(np.max(give, initial=0.0))
        self.soft = 1.0 / (square * rho + most), 1.0 / (square / rho + most), 1.0 / (square + most)
        if self.lines is not None:
            for eigenvalue, on_lines in zip(self.soft, (1.0, 1.0, 0.0), strict=True):
                eigenvalue[self.lines] = on_lines / most

    def stiff(self, x: FloatArray) -> FloatArray:
        return _mapped(self.along, x.reshape(self.f.shape), *self.soft).ravel()

    def root(self) -> FloatArray:
        """F (nc, d, d) with FᵀF = (W² + give)⁻¹."""
        return _root(self.along, *self.soft)

    def aimed(self, target: FloatArray) -> FloatArray:
        x, t = self.scaled, target.reshape(self.f.shape)
        out = np.empty_like(t)
        out[:, 0] = np.sum(_reflected(x) * t, axis=1) / _determinant(x)
        out[:, 1:] = (t[:, 1:] - out[:, :1] * x[:, 1:]) / x[:, :1]
        return self._on_cones(self._times(out))

    def second(self, df: FloatArray, ds: FloatArray) -> FloatArray:
        shape = self.f.shape
        products = _product(self._times(df.reshape(shape)), self._over(ds.reshape(shape)))
        return self._on_cones(products)

    def identity(self, value: float) -> FloatArray:
        out = np.zeros(self.f.shape)
        out[:, 0] = value
        return self._on_cones(out)

    def length(self, df: FloatArray, ds: FloatArray) -> float:
        if self.lines is not None:
            df, ds = (self._on_cones(x.reshape(self.f.shape).copy()) for x in (df, ds))
        return min(_to_boundary(self.f, df), _to_boundary(self.s, ds))

    def central(self, df: FloatArray, ds: FloatArray, length: float) -> float:
        """As far as the lesser eigenvalue of f ∘ s stays above a share of the mean, or zero."""
        at = slice(None) if self.lines is None else ~self.lines
        df, ds = df.reshape(self.f.shape)[at], ds.reshape(self.f.shape)[at]
        for _ in range(_TRIALS):
            f, s = self.f[at] + length * df, self.s[at] + length * ds
            size_f, size_s, product = _determinant(f), _determinant(s), np.sum(f * s, axis=1)
            root = np.sqrt(np.maximum(product * product - size_f * size_s, 0.0))
            least = size_f * size_s / np.maximum(product + root, _TINY)
            inside = min(size_f.min(initial=np.inf), size_s.min(initial=np.inf)) > _TINY
            if inside and least.min(initial=np.inf) >= _CENTRAL * product.sum() / self.degree:
                return length
            length *= _SHORTER
        return 0.0


class SmoothProjection:
    """P(z) = ½ (z + √(z ∘ z + 4 t e)) of z (nc, d), inside the cones, and its derivatives.

    The derivative D by z has the eigenvectors of z, and eigenvalues between 0 and 1. Of ``lines``
    (nc,) P is the first row, with a small give, and zero on the other rows.

    Attributes
    ----------
    value, by_t : (nc, d) P, and its derivative by t.
    """

    def __init__(self, z: FloatArray, t: float, lines: BoolArray | None = None) -> None:
        size = norms(z[:, 1:])
        self.along = _directions(z[:, 1:], size)
        values = np.stack([z[:, 0] + size, z[:, 0] - size])
        roots = np.hypot(values, 2.0 * np.sqrt(t))
        more = roots + np.abs(values)
        less = 4.0 * t / more  # the difference of both, without cancellation
        up, down = np.where(values > 0.0, (more, less), (less, more))
        self.value = self._points(*(0.5 * up))
        self.by_t = self._points(*(1.0 / roots))
        both = roots.sum(axis=0)
        self.slopes = *(0.5 * up / roots), 0.5 * up.sum(axis=0) / both
        self.rest = *(0.5 * down / roots), 0.5 * down.sum(axis=0) / both  # 1 − slopes
        if lines is not None:
            self.value[lines], self.by_t[lines] = 0.0, 0.0
            self.value[lines, 0] = z[lines, 0]
            for slope, on in zip(self.slopes, (1.0, 1.0, 0.0), strict=True):
                slope[lines] = on
            for rest, on in zip(self.rest, (_GIVE, _GIVE, 1.0), strict=True):
                rest[lines] = on

    def _points(self, plus: FloatArray, minus: FloatArray) -> FloatArray:
        """The points (nc, d) with these eigenvalues (nc,)."""
        normal, tangential = 0.5 * (plus + minus), 0.5 * (plus - minus)
        return np.hstack([normal[:, None], tangential[:, None] * self.along])

    def times(self, x: FloatArray) -> FloatArray:
        """D x (nc, d)."""
        return _mapped(self.along, x, *self.slopes)

    def magnified(self, x: FloatArray) -> FloatArray:
        """(1 − D)⁻¹ x (nc, d)."""
        return _mapped(self.along, x, *(1.0 / rest for rest in self.rest))

    @cached_property
    def odds(self) -> tuple[FloatArray, ...]:
        """The eigenvalues of D (1 − D)⁻¹."""
        return tuple(s / r for s, r in zip(self.slopes, self.rest, strict=True))

    def raised(self, x: FloatArray) -> FloatArray:
        """D (1 − D)⁻¹ x (nc, d)."""
        return _mapped(self.along, x, *self.odds)

    def root(self) -> FloatArray:
        """F (nc, d, d) with FᵀF = D (1 − D)⁻¹."""
        return _root(self.along, *self.odds)

    def slope(self) -> FloatArray:
        """D (nc, d, d)."""
        root = _root(self.along, *self.slopes)
        return np.asarray(root.transpose(0, 2, 1) @ root)


def _directions(x: FloatArray, size: FloatArray) -> FloatArray:
    """x over its size (nc, d − 1), the first axis where that is zero."""
    along = np.zeros(x.shape)
    along[:, 0] = 1.0
    turned = size > 0.0
    along[turned] = x[turned] / size[turned, None]
    return along


def _root(along: FloatArray, plus: FloatArray, minus: FloatArray, across: FloatArray) -> FloatArray:
    """F (nc, d, d) with FᵀF of these eigenvalues (nc,) along (1, u) and (1, −u), and across."""
    (plus, minus, across), d = map(np.sqrt, (plus, minus, across)), along.shape[1] + 1
    out, half = np.zeros((len(along), d, d)), np.sqrt(0.5)
    out[:, 0, 0], out[:, 1, 0] = half * plus, half * minus
    out[:, 0, 1:] = half * plus[:, None] * along
    out[:, 1, 1:] = -half * minus[:, None] * along
    if d > 2:  # the rows of a reflection that leads to ``along``, but for the first
        v = along.copy()
        v[:, 0] += np.copysign(1.0, v[:, 0])
        mirror = np.eye(d - 1) - v[:, :, None] * v[:, None, :] / np.abs(v[:, :1, None])
        out[:, 2:, 1:] = across[:, None, None] * mirror[:, 1:]
    return out


def _mapped(
    along: FloatArray, x: FloatArray, plus: FloatArray, minus: FloatArray, across: FloatArray
) -> FloatArray:
    """x (nc, d) by a matrix with these eigenvalues (nc,) along (1, u) and (1, −u), across."""
    out = np.empty(x.shape)
    _map(along, x, plus, minus, across, out)
    return out


@compiled()
def _map(
    along: FloatArray,
    x: FloatArray,
    plus: FloatArray,
    minus: FloatArray,
    across: FloatArray,
    out: FloatArray,
) -> None:
    for i in range(along.shape[0]):
        part = 0.0
        for k in range(along.shape[1]):
            part += along[i, k] * x[i, k + 1]
        first, second = 0.5 * plus[i] * (x[i, 0] + part), 0.5 * minus[i] * (x[i, 0] - part)
        out[i, 0] = first + second
        for k in range(along.shape[1]):
            rest = across[i] * (x[i, k + 1] - part * along[i, k])
            out[i, k + 1] = rest + (first - second) * along[i, k]


def to_zero(x: FloatArray, dx: FloatArray) -> float:
    """How far x > 0 goes along dx before it meets zero."""
    steepest = float((dx / x).min(initial=0.0))
    return -1.0 / steepest if steepest < 0.0 else np.inf


def _to_boundary(x: FloatArray, dx: FloatArray) -> float:
    """How far x (nc, d) inside its cones goes along dx (rows,): the least root of a quadratic."""
    return float(_reach(x, dx.reshape(x.shape)))


@compiled()
def _reach(x: FloatArray, y: FloatArray) -> float:
    result = np.inf
    for i in range(x.shape[0]):
        size, size_y = tangential_size(x[i]), tangential_size(y[i])
        c = (x[i, 0] - size) * (x[i, 0] + size)
        a = (y[i, 0] - size_y) * (y[i, 0] + size_y)
        b = x[i, 0] * y[i, 0]
        for k in range(1, x.shape[1]):
            b -= x[i, k] * y[i, k]
        least = -b + np.sqrt(max(b * b - a * c, 0.0))  # roots are c / least; the other leads away
        falls = a < 0.0 or (b < 0.0 and b * b >= (1.0 - _DOUBLE) * a * c)  # or to the tip
        if falls and least > _TINY:
            result = min(result, c / least)
    return result


def _determinant(x: FloatArray) -> FloatArray:
    """(nc,) x₀² − ‖x_T‖², by factors that do not cancel."""
    size = norms(x[:, 1:])
    return np.asarray((x[:, 0] - size) * (x[:, 0] + size))


def _reflected(x: FloatArray) -> FloatArray:
    """J x = (x₀, −x_T)."""
    out = -x
    out[:, 0] = x[:, 0]
    return out


def _product(x: FloatArray, y: FloatArray) -> FloatArray:
    """x ∘ y = (xᵀy, x₀ y_T + y₀ x_T)."""
    out = x[:, :1] * y + y[:, :1] * x
    out[:, 0] = np.sum(x * y, axis=1)
    return np.asarray(out)
