"""The set of admissible forces in coordinates of its self-stress states, and hit-and-run.

Each network of contacts whose forces can differ (``free_network``) is a convex set, x = x₀ + Z y in
half-lines and Lorentz cones with Z an orthonormal basis of null(Bᵀ); the admissible forces are the
product of these sets. At the analytic centre, the curvature of the logarithmic barrier gives the
set's length in each direction.

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

from cdopt._util import checks
from cdopt._util.cached import cached_property
from cdopt._util.checks import FloatArray, IntArray, read_only
from cdopt._util.compiled import compiled
from cdopt._util.errors import InvalidInput, Unsupported
from cdopt._util.frozen import Frozen
from cdopt._util.linear_program import solved_program
from cdopt.hyperstatic.admissible import contacts_of
from cdopt.hyperstatic.centre import ConeTable, analytic_centre, curvature, fall
from cdopt.hyperstatic.cone_bounds import ConeSet
from cdopt.hyperstatic.free_network import FreeNetwork
from cdopt.hyperstatic.network import equilibrated, null_states
from cdopt.hyperstatic.report import Indeterminacy
from cdopt.problem.cones import RESTING

_WHAT = "the force network ensemble"
_RAY = 1e-7  # a ray has a force above this share of its largest
_THIN = 1e-7  # radius of the largest ball inside, below which a polytope counts as flat: far
# above the tolerance of the linear program that finds it, and the round-off of the forces
_SHARP = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
_START = 1e-3  # least force, over the local load, to start the search of the centre from
_TINY = 1e-200  # a force of zero, to divide by
STILL = 1e-9  # of the largest: components that no state changes by more are determined


class UnboundedForces(Unsupported):
    """Admissible forces can grow without bound: there is no uniform distribution over them.

    Attributes
    ----------
    ray : (nc,) the proof: self-balanced forces ≥ 0, Bᵀ ray = 0, largest entry one. With friction
        (nc, d), in the friction cones.
    contacts : indices of its nonzero entries.
    residual : largest entry of Bᵀ ray, the rows of B being of unit length.
    names : the contacts' names for the message, or None for their numbers.

    Raises
    ------
    InvalidInput : a ray of another shape, or names of other contacts.
    """

    def __init__(
        self, ray: FloatArray, residual: float, names: Sequence[str] | None = None
    ) -> None:
        expected = "a vector, or a row for each contact"
        self.ray = read_only(np.array(checks.real("ray", ray, expected)))
        self.residual, self.names = residual, names
        if self.ray.ndim not in (1, 2) or 0 in self.ray.shape[1:]:
            raise InvalidInput("ray", checks.describe(ray), expected)
        if names is not None:
            self.names = names = checks.instances("names", names, str)
            if len(names) != len(self.ray):
                raise InvalidInput("names", f"{len(names)}", f"{len(self.ray)}, one per contact")
        normal = self.ray if self.ray.ndim == 1 else self.ray[:, 0]
        self.contacts: IntArray = read_only(np.flatnonzero(normal > _RAY))
        first = self.contacts[:6].tolist()
        shown = ", ".join(str(i) if names is None else names[i] for i in first)
        shown += ", …" if self.contacts.size > 6 else ""
        super().__init__(_WHAT, f"the forces of {shown} can grow without end, loading nothing")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.ray, self.residual, self.names)


@dataclass(frozen=True, eq=False)
class ForcePolytope(Frozen):
    """A bounded set with an inside: {y : S (centre + states y) in half-lines and Lorentz cones}."""

    G: sp.csr_array  # (nc d, n) forces of the step are G (unit x), x = centre + states y (n,)
    unit: FloatArray  # (n,) N, what the coordinates x are measured in
    states: FloatArray  # Z (n, k), orthonormal self-stress states
    centre: FloatArray  # (n,) the analytic centre
    slacks: sp.csr_array | None  # S (m, n), or None for x itself
    # how many of the slacks, the first ones, are in half-lines; the others are in Lorentz cones of
    # three
    lines: int

    def forces(self, x: FloatArray) -> FloatArray:
        """(…, nc d) N, of coordinates x (…, n) alone."""
        return np.asarray((self.G @ (self.unit * x).T).T)

    @cached_property
    def varying(self) -> IntArray:
        """The components of forces that the states change."""
        moves = np.abs(self.states).max(axis=1)
        columns = sp.csc_array(self.G)[:, np.flatnonzero(moves > STILL * moves.max())]
        return np.unique(columns.indices).astype(np.int64)

    @property
    def dimension(self) -> int:
        """k, number of its self-stress states."""
        return int(self.states.shape[1])

    @cached_property
    def rounding(self) -> FloatArray:
        """(k, k) A with z = A y: in y the barrier's curvature at the centre is one."""
        roots = np.linalg.cholesky(curvature(self._table(self.slack(self.centre))))
        bent = roots.transpose(0, 2, 1) @ self._table(self.slack(self.states))
        _, root = np.linalg.qr(bent.reshape(-1, self.dimension))
        return np.asarray(scipy.linalg.solve_triangular(root, np.eye(root.shape[0])))

    def walk(
        self, shape: FloatArray, y: FloatArray, draws: int, thin: int, rng: np.random.Generator
    ) -> FloatArray:
        """Points y (draws, k) of a chain in coordinates z = shape y, as ``walk``."""
        columns = np.ascontiguousarray(self.slack(self.states @ shape).T)
        return walk(self.slack(self.centre), columns, self.lines, y, draws, thin, rng)

    def least_slack(self, x: FloatArray) -> float:
        """N, the least slack of coordinates x (n,): of a cone in space f_n − ‖f_T‖/μ."""
        table = self._table(self.slack(x))
        unit = self._table(self.slack(self.unit))[:, 0]
        left = (table[:, 0] - np.linalg.norm(table[:, 1:], axis=1)) * unit
        return float(left.min(initial=np.inf))

    def slack(self, forces: FloatArray) -> FloatArray:
        """S f (m, …) of forces or their changes (n, …)."""
        return forces if self.slacks is None else np.asarray(self.slacks @ forces)

    def _table(self, slacks: FloatArray) -> FloatArray:
        """Slacks (m, …) as (cones, 3, …), half-lines padded with zeros."""
        more = slacks.shape[1:]
        line = np.zeros((self.lines, 3, *more))
        line[:, 0] = slacks[: self.lines]
        return np.concatenate([line, slacks[self.lines :].reshape(-1, 3, *more)])

    def corner(self, rng: np.random.Generator) -> FloatArray:
        """z (k,) of a vertex in a random direction; of cones the end of a chord from the centre."""
        direction, s = rng.standard_normal(self.dimension), self.slack(self.centre)
        if self.lines < s.size:
            direction = self.rounding @ direction
            along = self.slack(self.states @ direction)
            return direction / float(fall(self._table(s).T, self._table(along).T))
        return solved_program(
            direction,
            "a corner of the admissible forces",
            A_ub=-self.slack(self.states),
            b_ub=s,
            bounds=(None, None),
            options=_SHARP,
        )


def polytopes(report: Indeterminacy) -> list[ForcePolytope]:
    """The polytopes of a step's admissible forces, one for each independent network."""
    return [_polytope(network, report) for network in report.free]


def _polytope(network: FreeNetwork, report: Indeterminacy) -> ForcePolytope:
    """The polytope of one network."""
    B, length = equilibrated(network.B)
    _require_bounded(network, report, B, length)
    basis = null_states(B, report.rank_tol)
    if basis is None:
        raise Unsupported(_WHAT, f"a network of {network.force.size} loose coordinates of forces")
    states, _ = np.linalg.qr(basis / length[:, None])
    if network.polyhedral:
        _require_inside(states, network.force)
    centre, _ = centre_of(network, report)
    if centre is None:
        raise Unsupported(_WHAT, "the set of admissible forces is too thin")
    centre = network.force + states @ (states.T @ (centre - network.force))  # exactly balanced
    return ForcePolytope(network.G, network.unit, states, centre, *_slacks(network.sizes))


def _slacks(sizes: IntArray) -> tuple[sp.csr_array | None, int]:
    """S, None for half-lines alone, and how many of its rows are in half-lines."""
    if (sizes == 1).all():
        return None, sizes.size
    first, single = np.cumsum(sizes) - sizes, sizes == 1
    cones = (first[~single][:, None] + np.arange(3)).ravel()
    return sp.eye_array(int(sizes.sum()), format="csr")[np.append(first[single], cones)], int(
        single.sum()
    )


def centre_of(network: FreeNetwork, report: Indeterminacy) -> tuple[FloatArray | None, float]:
    """The analytic centre (n,) of a network, in its units, and its residual.

    The barrier is log x of a half-line, ½ log (x_n² − ‖x_T‖²) of a cone; that of a cone in the
    plane is shared by its edges. None where the set has no inside; the residual stays large where
    forces are unbounded.
    """
    table, contact = ConeTable(network.sizes), contacts_of(network.G, report.d)
    start = table.of(network.force)
    if network.polyhedral:
        start[:, 0] = np.maximum(network.force, _START)
    else:
        start = table.of(ConeSet.of(network).inside()[0])
        if not (start[:, 0] - np.linalg.norm(start[:, 1:], axis=1)).min() > _THIN:
            return None, np.inf
    edges = (report.d == 2) & (report.reduced[contact] == RESTING)
    weight = np.where(edges, 0.5, 1.0) if network.polyhedral else 1.0
    A = table.matrix(sp.csr_array(network.B.T))
    x, _, residual = analytic_centre(A, network.load, start, weight)
    return table.back(x), residual


def _require_bounded(
    network: FreeNetwork, report: Indeterminacy, B: sp.csr_array, length: FloatArray
) -> None:
    """Refuse networks with a ray: max Σ r subject to Bᵀr = 0, 0 ≤ r ≤ 1 is above zero."""
    if network.polyhedral:
        n, m = B.shape
        equations = {"A_eq": B.T, "b_eq": np.zeros(m)} if m else {}
        ray = solved_program(-np.ones(n), "forces without bound", bounds=(0.0, 1.0), **equations)
        ray = np.maximum(ray, 0.0) / length
    else:
        rays = ConeSet.of(network).rays
        ray = rays[0] if rays else np.zeros(length.size)
    if (ray * length).max(initial=0.0) > _RAY:
        scaled = ray * length
        left = float(np.abs(B.T @ scaled).max(initial=0.0)) / float(np.abs(scaled).max())
        forces = network.forces(ray)
        forces = forces / np.abs(forces).max()
        shaped = forces if report.law is None else forces.reshape(report.nc, report.d)
        raise UnboundedForces(shaped, left, report.names)


def _require_inside(states: FloatArray, force: FloatArray) -> None:
    """Refuse polytopes f₀ + Z z ≥ 0 whose largest ball of z is no more than round-off."""
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
            _WHAT,
            f"its {k}-dimensional polytope is too thin: it holds no ball of more than "
            f"{radius:.1e} times the local loads",
        )


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

    ``lines`` of them are positive, the others in Lorentz cones of three; ``thin`` are the sweeps of
    k + 1 directions before each point. One loop without calls: it compiles in a tenth of the time.
    """
    k, n = columns.shape
    points = np.empty((draws, k))
    f, along, turn = np.empty(n), np.empty(n), np.empty(k)
    for sweep in range(draws * thin):
        for i in range(n):  # computed again to lose accumulated round-off
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
