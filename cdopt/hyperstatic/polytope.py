"""The polytope of admissible forces in coordinates of its self-stress states, and hit-and-run.

Each network of contacts whose forces can differ (``cdopt.hyperstatic.bounds``) is a polytope,
f = f₀ + Z z ≥ 0 with Z an orthonormal basis of null(Bᵀ); the admissible forces are the product of
these polytopes. At the analytic centre of a polytope, the curvature of the logarithmic barrier
gives its length in each direction.

With friction (``cdopt.hyperstatic.force_set``) the slacks S f are in half-lines and, in space, in
Lorentz cones; in the plane a cone is two half-lines, μ f_n ± f_t ≥ 0. The barrier of a cone is
½ log((μ f_n)² − ‖f_T‖²), that of Nesterov and Todd.

``walk`` is hit-and-run: from a point inside, draw a direction, and then a point uniformly on the
chord through it, which ends on a plane or a cone. The uniform distribution is stationary: Smith,
Operations Research 32 (1984); Lovász, Mathematical Programming 86 (1999). A sweep goes along each
axis, which costs one column each, and then along one direction from the sphere, which leads out of
corners.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from cdopt._util import checks
from cdopt._util.checks import FloatArray, IntArray, read_only
from cdopt._util.compiled import compiled
from cdopt._util.errors import InvalidInput, Unsupported
from cdopt._util.frozen import Frozen
from cdopt._util.linear_program import solved_program
from cdopt.formulations.friction_faces import SLIDING, Faces
from cdopt.hyperstatic import rank
from cdopt.hyperstatic.bounds import FreeNetwork
from cdopt.hyperstatic.force_set import RANK
from cdopt.hyperstatic.frictional import FrictionalIndeterminacy
from cdopt.hyperstatic.indeterminacy import Indeterminacy

_RAY = 1e-7  # a ray has a force above this share of its largest
_THIN = 1e-7  # radius of the largest ball inside, below which a polytope counts as flat: far
# above the tolerance of the linear program that finds it, and the round-off of the forces
_SHARP = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
_STEPS = 100  # of Newton's method to the analytic centre
_CENTRED = 1e-9  # residual of the centre, below which steps that gain nothing end the search
_START = 1e-3  # least force, over what acts, to start the search from
_DAMPING = 1e-14  # of the normal equations, whose rows may be redundant
_PASSES = 4  # of refinement, which takes the damping out again
_TINY = 1e-200  # a force of zero, to divide by
STILL = 1e-9  # of the largest: components that no state changes by more are determined
_FLIP = np.array([1.0, -1.0, -1.0])


class UnboundedForces(Unsupported):
    """Admissible forces can grow without bound: there is no uniform distribution over them.

    Attributes
    ----------
    ray : (nc,) forces ≥ 0 that load nothing, Bᵀ ray = 0, largest entry one: the proof. With
        friction (nc, d), in the friction cones.
    contacts : indices of the contacts that it loads.
    residual : largest entry of Bᵀ ray, the rows of B being of unit length.
    names : the contacts' names for the message, or None for their numbers.

    Raises
    ------
    InvalidInput : a ray of another shape.
    """

    def __init__(
        self, ray: FloatArray, residual: float, names: Sequence[str] | None = None
    ) -> None:
        self.ray, self.residual = read_only(np.array(ray)), residual
        if self.ray.ndim not in (1, 2) or 0 in self.ray.shape[1:]:
            raise InvalidInput("ray", checks.describe(ray), "a vector, or a row for each contact")
        normal = self.ray if self.ray.ndim == 1 else self.ray[:, 0]
        self.contacts: IntArray = read_only(np.flatnonzero(normal > _RAY))
        self.names = names
        first = self.contacts[:6].tolist()
        shown = ", ".join(str(i) if names is None else names[i] for i in first)
        shown += ", …" if self.contacts.size > 6 else ""
        who = f"the forces of contacts {shown} grow together"
        if self.contacts.size == 1:
            who = f"the force of contact {shown} grows"
        super().__init__("the force network ensemble", f"{who} without end, loading nothing")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.ray, self.residual, self.names)


@dataclass(frozen=True, eq=False)
class ForcePolytope(Frozen):
    """A bounded set with an inside: {z : S (centre + states z) in half-lines and Lorentz cones}.

    Attributes
    ----------
    rows : (n,) the step's contacts; with friction the components of their forces among nc d.
    unit : (n,) N, what the forces here are measured in.
    states : Z (n, k), orthonormal self-stress states, in these units.
    centre : (n,) the analytic centre, max Σ log f, in these units.
    rounding : (k, k) A with z = A y: in y the barrier's curvature at the centre is one in every
        direction, so that a polytope holds the unit ball and lies in the ball of radius n.
    slacks : S (m, n), or None for the forces themselves.
    lines : how many of the slacks, the first ones, are in half-lines; the others are in Lorentz
        cones of three.
    residual : of the centre, what is left of the barrier's gradient in its own curvature.
    """

    rows: IntArray
    unit: FloatArray
    states: FloatArray
    centre: FloatArray
    rounding: FloatArray
    slacks: sp.csr_array | None
    lines: int
    residual: float = 0.0

    @property
    def dimension(self) -> int:
        """k, number of its self-stress states."""
        return int(self.states.shape[1])

    def walk(
        self, shape: FloatArray, y: FloatArray, draws: int, thin: int, rng: np.random.Generator
    ) -> FloatArray:
        """Points y (draws, k) of a chain in coordinates z = shape y, as ``walk``."""
        columns = np.ascontiguousarray(self.slack(self.states @ shape).T)
        return walk(self.slack(self.centre), columns, self.lines, y, draws, thin, rng)

    def least_slack(self, forces: FloatArray) -> float:
        """N, the least slack of forces (n,): of a cone in space μ f_n − ‖f_T‖."""
        return _least(self.slack(forces), self.lines)

    def slack(self, forces: FloatArray) -> FloatArray:
        """S f (m, …) of forces or their changes (n, …)."""
        return forces if self.slacks is None else np.asarray(self.slacks @ forces)

    def corner(self, rng: np.random.Generator) -> FloatArray:
        """z (k,) of a vertex that is extreme in a random direction.

        With cones in space: of the end of the chord through the centre in a random direction.

        Raises
        ------
        SolveFailed : the linear program failed.
        """
        push = rng.standard_normal(self.dimension)
        s = self.slack(self.centre)
        if self.lines < s.size:
            push = self.rounding @ push
            return push / -_fall(s, self.slack(self.states @ push), self.lines)
        z = solved_program(
            push,
            "a corner of the admissible forces",
            A_ub=-self.slack(self.states),
            b_ub=s,
            bounds=(None, None),
            options=_SHARP,
        )
        return np.asarray(z)


def _fall(s: FloatArray, change: FloatArray, lines: int) -> float:
    """The fastest that a slack s (m,) falls along ``change``, relative to itself; at most 0."""
    fastest = float((change[:lines] / s[:lines]).min(initial=0.0))
    x, dx = s[lines:].reshape(-1, 3), change[lines:].reshape(-1, 3)
    inner, c = np.sum(_FLIP * x * dx, axis=1), _determinant(x)
    root = np.sqrt(np.maximum(inner**2 - _determinant(dx) * c, 0.0))
    return min(fastest, float(((inner - root) / c).min(initial=0.0)))


def _determinant(x: FloatArray) -> FloatArray:
    """x₀² − ‖x_T‖² of x (cones, 3)."""
    size = np.linalg.norm(x[:, 1:], axis=1)
    return np.asarray((x[:, 0] - size) * (x[:, 0] + size))


def polytopes(report: Indeterminacy | FrictionalIndeterminacy) -> list[ForcePolytope]:
    """The polytopes of a step's admissible forces, one for each independent network.

    With friction one set for all contacts, after facial reduction.

    Raises
    ------
    UnboundedForces : forces without upper bound.
    Unsupported : a network is too large for dense algebra, or its polytope too thin.
    SolveFailed : a linear program failed.
    """
    if isinstance(report, FrictionalIndeterminacy):
        return _frictional(report)
    return [_polytope(network, report) for network in report.free]


def _frictional(report: FrictionalIndeterminacy) -> list[ForcePolytope]:
    """The set of admissible forces with friction; none if it is a point.

    Raises
    ------
    UnboundedForces, Unsupported : as in ``polytopes``.
    """
    force_set, what = report.force_set(), "the force network ensemble"
    if report.unbounded.any():
        ray = report.direction / np.abs(report.direction).max()
        raise UnboundedForces(ray, force_set.off_balance(ray), report.names)
    B, length = rank.equilibrated(sp.csr_array(force_set.A.T))
    basis = rank.states(B, RANK)
    if basis is None:
        raise Unsupported(what, f"a network of {B.shape[0]} loose components of forces")
    if not basis.size:
        return []
    along = force_set.to_forces @ (basis / length[:, None])
    moves = np.abs(along).max(axis=1).reshape(-1, report.d).max(axis=1)
    loose = np.flatnonzero(moves > STILL * moves.max())
    rows = (loose[:, None] * report.d + np.arange(report.d)).ravel()
    unit = np.full(rows.size, force_set.unit)
    states, _ = np.linalg.qr(along[rows] / force_set.unit)
    f = (force_set.to_forces @ force_set.deep_point())[rows] / force_set.unit
    slacks, lines, weights = _slacks(report.reduced, loose)
    s, changes = slacks @ f, np.asarray(slacks @ states)
    if not _least(s, lines) > _THIN:
        raise Unsupported(what, f"its {states.shape[1]}-dimensional set is too thin")
    z, root, left = centred(s, changes, weights)
    rounding = scipy.linalg.solve_triangular(root, np.eye(root.shape[0]))
    return [ForcePolytope(rows, unit, states, f + states @ z, rounding, slacks, lines, left)]


def _slacks(faces: Faces, loose: IntArray) -> tuple[sp.csr_array, int, FloatArray]:
    """S of the forces of ``loose`` contacts, how many are in half-lines, and their weights."""
    mu, slides, d = faces.mu[loose], faces.status[loose] == SLIDING, faces.ray.shape[1]
    first = np.arange(loose.size) * d
    ray, cone = first[slides], first[~slides]
    rows = [sp.eye_array(loose.size * d, format="csr")[ray]]
    turned = np.ones((cone.size, d))
    turned[:, 0] = mu[~slides]
    weights, lines = np.ones(ray.size), ray.size
    for sign in (1.0, -1.0) if d == 2 else ():
        pick = (np.repeat(np.arange(cone.size), 2), (cone[:, None] + np.arange(2)).ravel())
        values = (turned * [1.0, sign]).ravel()
        rows.append(sp.csr_array((values, pick), shape=(cone.size, loose.size * d)))
        weights, lines = np.append(weights, np.full(cone.size, 0.5)), lines + cone.size
    if d == 3:
        columns = (cone[:, None] + np.arange(3)).ravel()
        size = (columns.size, loose.size * d)
        rows.append(sp.csr_array((turned.ravel(), (np.arange(size[0]), columns)), shape=size))
    return sp.csr_array(sp.vstack(rows)), lines, weights


def _least(s: FloatArray, lines: int) -> float:
    """The least slack: of a cone x₀ − ‖x_T‖."""
    x = s[lines:].reshape(-1, 3)
    inside = x[:, 0] - np.linalg.norm(x[:, 1:], axis=1)
    return float(min(s[:lines].min(initial=np.inf), inside.min(initial=np.inf)))


def centred(
    s: FloatArray, changes: FloatArray, weights: FloatArray
) -> tuple[FloatArray, FloatArray, float]:
    """z (k,) of the analytic centre of slacks s + changes z, R, and what is left of the gradient.

    max Σ weights log s over half-lines, the first slacks, plus Σ ½ log det over Lorentz cones of
    three, by Newton's method; RᵀR is the curvature there, R (k, k) upper triangular.
    """
    z, lines = np.zeros(changes.shape[1]), weights.size
    for _ in range(_STEPS):
        at = s + changes @ z
        x, linear = at[lines:].reshape(-1, 3), at[:lines]
        determinant = _determinant(x)[:, None]
        turned = _FLIP * x / determinant
        slope = np.append(weights / linear, turned.ravel()) @ changes
        curved = 2.0 * turned[:, :, None] * turned[:, None, :]
        curved -= np.diag(_FLIP)[None] / determinant[:, :, None]
        bent = np.linalg.cholesky(curved).transpose(0, 2, 1) @ changes[lines:].reshape(
            -1, 3, z.size
        )
        straight = (np.sqrt(weights) / linear)[:, None] * changes[:lines]
        _, root = np.linalg.qr(np.vstack([straight, bent.reshape(-1, z.size)]))
        half = scipy.linalg.solve_triangular(root, slope, trans="T")
        left = float(np.linalg.norm(half))
        if left <= _CENTRED:
            break
        step = scipy.linalg.solve_triangular(root, half)
        z = z + step / (1.0 + np.sqrt(2.0) * left if left > 0.2 else 1.0)
    return z, root, left


def _polytope(network: FreeNetwork, report: Indeterminacy) -> ForcePolytope:
    B, length = rank.equilibrated(network.B)
    _require_bounded(network, report.names, B, length)
    basis = rank.states(B, report.rank_tol)
    if basis is None:
        size = network.contacts.size
        raise Unsupported("the force network ensemble", f"a network of {size} loose contacts")
    states, _ = np.linalg.qr(basis / length[:, None])
    _require_inside(states, network.force)
    centre, left = analytic_centre_of(network)
    centre = network.force + states @ (states.T @ (centre - network.force))  # exactly balanced
    _, root = np.linalg.qr(states / centre[:, None])
    rounding = scipy.linalg.solve_triangular(root, np.eye(root.shape[0]))
    size = centre.size
    return ForcePolytope(network.contacts, network.unit, states, centre, rounding, None, size, left)


def _require_bounded(
    network: FreeNetwork, names: Sequence[str], B: sp.csr_array, length: FloatArray
) -> None:
    """Refuse networks with a ray: max Σ r subject to Bᵀr = 0, 0 ≤ r ≤ 1 is above zero.

    Raises
    ------
    UnboundedForces, SolveFailed : as in ``polytopes``.
    """
    n, m = B.shape
    equations = {"A_eq": B.T, "b_eq": np.zeros(m)} if m else {}
    ray = solved_program(-np.ones(n), "forces without bound", bounds=(0.0, 1.0), **equations)
    ray = np.maximum(ray, 0.0)
    if ray.max(initial=0.0) > _RAY:
        left = float(np.abs(B.T @ ray).max(initial=0.0)) / float(ray.max())
        everywhere = np.zeros(len(names))
        everywhere[network.contacts] = ray / length * network.unit
        raise UnboundedForces(everywhere / everywhere.max(), left, names)


def _require_inside(states: FloatArray, force: FloatArray) -> None:
    """Refuse polytopes f₀ + Z z ≥ 0 whose largest ball of z has no more than round-off as radius.

    Raises
    ------
    Unsupported, SolveFailed : as in ``polytopes``.
    """
    k = states.shape[1]
    *_, radius = solved_program(
        np.append(np.zeros(k), -1.0),
        "a point inside the admissible forces",
        A_ub=np.column_stack([-states, np.linalg.norm(states, axis=1)]),
        b_ub=force,
        bounds=(None, None),
        options=_SHARP,
    )
    if not radius > _THIN:
        raise Unsupported(
            "the force network ensemble",
            f"its {k}-dimensional polytope is too thin: it holds no ball of more than "
            f"{radius:.1e} times what acts on its contacts",
        )


def analytic_centre_of(network: FreeNetwork) -> tuple[FloatArray, float]:
    """argmax Σ log f (n,) over f ≥ 0 with Bᵀf = F, in the network's units, and its residual.

    Newton's method on the optimality conditions 1/f = B u, Bᵀf = F. The residual stays large where
    forces are unbounded.
    """
    B, load = network.B, network.load
    f = np.maximum(network.force, _START)
    best, least = f, np.inf if B.shape[1] else np.nan
    eye = sp.eye_array(B.shape[1], format="csc")
    for _ in range(_STEPS if B.shape[1] else 0):
        scaled = sp.csr_array(B * f[:, None])
        normal = sp.csc_matrix(scaled.T @ scaled)
        factors = splu(normal + _DAMPING * max(float(abs(normal).max()), _TINY) * eye)
        missed = load - B.T @ f
        right = B.T @ f - missed  # from Bᵀ(f + d) = F with d = f − f² B u
        u = np.zeros_like(right)
        for _ in range(_PASSES):
            u += factors.solve(right - normal @ u)
        gradient = f * np.asarray(B @ u) - 1.0
        residual = max(float(np.abs(gradient).max()), float(np.abs(missed).max()))
        if residual < least:
            best, least = f, residual
        elif least <= _CENTRED:
            break
        fastest = float(gradient.max(initial=0.0))  # the step is −f · gradient
        f = f - f * gradient * min(1.0, 0.9 / fastest if fastest > 0.0 else 1.0)
    return best, least


# --- hit-and-run -----------------------------------------------------------------------------


@compiled(allocates=True, fastmath={"nnan", "nsz"})
def walk(
    centre: FloatArray,
    columns: FloatArray,
    lines: int,
    y: FloatArray,
    draws: int,
    thin: int,
    rng: np.random.Generator,
) -> FloatArray:
    """Points y (draws, k) of one chain, slacks centre + columnsᵀ y in half-lines and cones.

    One loop without slices or calls of other loops, which compiles in a tenth of the time.

    Parameters
    ----------
    centre : (n,) slacks inside. columns : (k, n), how each coordinate changes them.
    lines : how many slacks, the first ones, are positive; the others are in Lorentz cones of three.
    y : (k,) where it starts, overwritten by where it ends.
    draws : points to store. thin : sweeps of k + 1 directions before each.
    """
    k, n = columns.shape
    points = np.empty((draws, k))
    f, along, turn = np.empty(n), np.empty(n), np.empty(k)
    for sweep in range(draws * thin):
        for i in range(n):  # computed anew to lose accumulated round-off
            f[i] = centre[i]
        for axis in range(k):
            for i in range(n):
                f[i] += y[axis] * columns[axis, i]
        for trial in range(k + 1):
            axis = -1
            if trial < k:
                axis = min(int(rng.random() * k), k - 1)
                for i in range(n):
                    along[i] = columns[axis, i]
            else:
                for i in range(n):
                    along[i] = 0.0
                for a in range(k):
                    turn[a] = rng.standard_normal()
                    for i in range(n):
                        along[i] += turn[a] * columns[a, i]
            up, down = 0.0, 0.0  # the fastest that a force grows and falls, relative to itself
            for i in range(lines):
                rate = along[i] / max(f[i], _TINY)
                up, down = max(up, rate), min(down, rate)
            for i in range(lines, n, 3):  # the roots of the determinant of f + t along
                size = np.sqrt(f[i + 1] * f[i + 1] + f[i + 2] * f[i + 2])
                c = max((f[i] - size) * (f[i] + size), _TINY)
                b = f[i] * along[i] - f[i + 1] * along[i + 1] - f[i + 2] * along[i + 2]
                square = along[i + 1] * along[i + 1] + along[i + 2] * along[i + 2]
                root = np.sqrt(max(b * b - c * (along[i] * along[i] - square), 0.0))
                up, down = max(up, (b + root) / c), min(down, (b - root) / c)
            share = rng.random()
            if up == 0.0 or down == 0.0:  # no chord
                continue
            t = -1.0 / up + share * (1.0 / up - 1.0 / down)
            for i in range(n):
                f[i] += t * along[i]
            if axis >= 0:
                y[axis] += t
            else:
                for a in range(k):
                    y[a] += t * turn[a]
        if sweep % thin == thin - 1:
            for a in range(k):
                points[sweep // thin, a] = y[a]
    return points
