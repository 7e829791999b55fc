"""The polytope of admissible forces in coordinates of its self-stress states.

Each network of contacts whose forces can differ (``cdopt.hyperstatic.bounds``) is a polytope of
its own, f = f₀ + Z z ≥ 0 with Z an orthonormal basis of null(Bᵀ); all admissible forces are the
product of these, beside the forces that cannot differ. The analytic centre of a polytope lies
inside, and the curvature of the logarithmic barrier there says how long it is in each direction.

``walk`` is hit-and-run: from a point inside, a direction is drawn, and then a point uniformly on
the chord through it. The uniform distribution over the polytope stays as it is: Smith, Operations
Research 32 (1984); Lovász, Mathematical Programming 86 (1999). Directions are the axes, which cost
one column each, and one from the sphere after as many as there are axes, which leads out of
corners.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from cdopt._util.checks import FloatArray, IntArray, read_only
from cdopt._util.compiled import compiled, part
from cdopt._util.errors import SolveFailed, Unsupported
from cdopt._util.frozen import Frozen
from cdopt._util.linear_program import linprog
from cdopt.hyperstatic import rank
from cdopt.hyperstatic.bounds import FreeNetwork
from cdopt.hyperstatic.indeterminacy import Indeterminacy

_RAY = 1e-7  # a ray has a force above this share of its largest
_THIN = 1e-7  # radius of the largest ball inside, below which a polytope counts as flat: far
# above the tolerance of the linear program that finds it, and the round-off of the forces
_SHARP = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
_STEPS = 200  # of Newton's method to the analytic centre
_CENTRED = 1e-10  # Newton decrement of the centre
_ARMIJO = 0.1
_TINY = 1e-200  # a force of zero, to divide by


class UnboundedForces(Unsupported):
    """Admissible forces can grow without end: there is no uniform distribution over them.

    Attributes
    ----------
    ray : (nc,) forces ≥ 0 that load nothing, Bᵀ ray = 0, largest entry one: the proof.
    contacts : indices of the contacts that it loads.
    residual : largest entry of Bᵀ ray, the rows of B being of unit length.
    """

    def __init__(self, ray: FloatArray, residual: float) -> None:
        self.ray, self.residual = read_only(np.array(ray)), residual
        self.contacts: IntArray = read_only(np.flatnonzero(ray > _RAY))
        names = ", ".join(map(str, self.contacts[:6].tolist()))
        names += ", …" if self.contacts.size > 6 else ""
        alone = self.contacts.size == 1
        who = f"the force of contact {names} grows" if alone else f"the forces of contacts {names}"
        who += "" if alone else " grow together"
        super().__init__("the force network ensemble", f"{who} without end, loading nothing")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.ray, self.residual)


@dataclass(frozen=True, eq=False)
class Polytope(Frozen):
    """A bounded polytope {z : centre + states z ≥ 0} with an inside.

    Attributes
    ----------
    contacts : (n,) the step's contacts.
    unit : (n,) N, what the forces here are measured in.
    states : Z (n, k), orthonormal self-stress states, in these units.
    centre : (n,) the analytic centre, max Σ log f, in these units.
    rounding : (k, k) A with z = A y: in y the barrier's curvature at the centre is one in every
        direction, so that the polytope holds the unit ball and lies in the ball of radius n.
    """

    contacts: IntArray
    unit: FloatArray
    states: FloatArray
    centre: FloatArray
    rounding: FloatArray

    @property
    def dimension(self) -> int:
        """k, number of its self-stress states."""
        return int(self.states.shape[1])

    def corner(self, rng: np.random.Generator) -> FloatArray:
        """z (k,) of a vertex that is extreme in a random direction.

        Raises
        ------
        SolveFailed : the linear program failed.
        """
        push = rng.standard_normal(self.dimension)
        z = _solved(
            push,
            "a corner of the admissible forces",
            A_ub=-self.states,
            b_ub=self.centre,
            bounds=(None, None),
            options=_SHARP,
        )
        return np.asarray(z)


def polytopes(report: Indeterminacy) -> list[Polytope]:
    """The polytopes of a step's admissible forces, one for each network of loose contacts.

    Raises
    ------
    UnboundedForces : forces without upper bound.
    Unsupported : a network is too large for dense algebra, or its polytope too thin.
    SolveFailed : a linear program failed.
    """
    return [_polytope(network, report) for network in report.free]


def _polytope(network: FreeNetwork, report: Indeterminacy) -> Polytope:
    B, length = rank.equilibrated(network.B)
    _require_bounded(network, report.nc, B, length)
    basis = rank.states(B, report.rank_tol)
    if basis is None:
        size = network.contacts.size
        raise Unsupported("the force network ensemble", f"a network of {size} loose contacts")
    states, _ = np.linalg.qr(basis / length[:, None])
    centre = _centred(states, _inside(states, network.force))
    _, root = np.linalg.qr(states / centre[:, None])
    rounding = scipy.linalg.solve_triangular(root, np.eye(root.shape[0]))
    return Polytope(network.contacts, network.unit, states, centre, rounding)


def _require_bounded(network: FreeNetwork, nc: int, B: sp.csr_array, length: FloatArray) -> None:
    """Refuse networks with a ray: max Σ r subject to Bᵀr = 0, 0 ≤ r ≤ 1 is above zero.

    Raises
    ------
    UnboundedForces, SolveFailed : as in ``polytopes``.
    """
    n, m = B.shape
    equations = {"A_eq": B.T, "b_eq": np.zeros(m)} if m else {}
    ray = _solved(-np.ones(n), "whether forces are bounded", bounds=(0.0, 1.0), **equations)
    ray = np.maximum(ray, 0.0)
    if ray.max(initial=0.0) > _RAY:
        left = float(np.abs(B.T @ ray).max(initial=0.0)) / float(ray.max())
        everywhere = np.zeros(nc)
        everywhere[network.contacts] = ray / length * network.unit
        raise UnboundedForces(everywhere / everywhere.max(), left)


def _inside(states: FloatArray, force: FloatArray) -> FloatArray:
    """Forces (n,) at the centre of the largest ball of z within f₀ + Z z ≥ 0.

    Raises
    ------
    Unsupported : its radius is no more than round-off.
    SolveFailed : the linear program failed.
    """
    k = states.shape[1]
    walls = np.column_stack([-states, np.linalg.norm(states, axis=1)])
    *z, radius = _solved(
        np.append(np.zeros(k), -1.0),
        "a point inside the admissible forces",
        A_ub=walls,
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
    return force + states @ np.array(z)


def _centred(states: FloatArray, f: FloatArray) -> FloatArray:
    """The analytic centre, by Newton's method with halved steps from a point inside."""
    for _ in range(_STEPS):
        scaled = states / f[:, None]
        gradient = scaled.sum(axis=0)  # of Σ log f
        Q, root = np.linalg.qr(scaled)  # of scaledᵀ scaled, half the digits would be lost
        step = scipy.linalg.solve_triangular(root, Q.sum(axis=0))
        decrement = float(gradient @ step)
        if not decrement > _CENTRED**2:
            break
        move = states @ step
        least = float(np.min(move / f))
        share = min(1.0, 0.9 / -least) if least < 0.0 else 1.0
        while share > 1e-12:
            gain = float(np.sum(np.log1p(share * move / f)))
            if gain >= _ARMIJO * share * decrement or decrement < 1e-8:
                break
            share *= 0.5
        f = f + share * move
    return f


def _solved(cost: FloatArray, what: str, **program: Any) -> FloatArray:
    """The solution of a linear program that decides ``what``."""
    answer = linprog(cost, **program)
    if answer.x is None or answer.status != 0:
        raise SolveFailed(f"no verdict on {what}", backend="highs", status=str(answer.message))
    return np.asarray(answer.x)


# --- hit-and-run -----------------------------------------------------------------------------


@compiled()
def walk(
    centre: FloatArray,
    columns: FloatArray,
    y: FloatArray,
    draws: int,
    thin: int,
    rng: np.random.Generator,
) -> FloatArray:
    """Points y (draws, k) of one chain in {y : centre + columnsᵀ y ≥ 0}.

    Parameters
    ----------
    centre : (n,) positive. columns : (k, n), how each coordinate changes the forces.
    y : (k,) where it starts, overwritten by where it ends.
    draws : points that are kept. thin : sweeps of k + 1 directions before each.
    """
    k, n = columns.shape
    kept = np.empty((draws, k))
    f, along, turn = np.empty(n), np.empty(n), np.empty(k)
    for draw in range(draws):
        for _ in range(thin):
            _combined(centre, columns, y, f)
            for _ in range(k):
                axis = min(int(rng.random() * k), k - 1)
                t = _chord(f, columns[axis], rng.random())
                y[axis] += t
                _add(f, t, columns[axis])
            for axis in range(k):
                turn[axis] = rng.standard_normal()
            _combined(np.zeros(n), columns, turn, along)
            _add(y, _chord(f, along, rng.random()), turn)
        kept[draw] = y
    return kept


@part()
def _combined(start: FloatArray, columns: FloatArray, y: FloatArray, f: FloatArray) -> None:
    """f = start + columnsᵀ y, anew, so that no round-off gathers."""
    f[:] = start
    for axis in range(y.size):
        _add(f, y[axis], columns[axis])


@part()
def _add(f: FloatArray, t: float, along: FloatArray) -> None:
    """f += t · along, in place."""
    for i in range(f.size):
        f[i] += t * along[i]


@part(fastmath={"nnan", "nsz", "reassoc"})
def _chord(f: FloatArray, along: FloatArray, place: float) -> float:
    """The step to ``place`` in [0, 1] of the chord f + t · along ≥ 0; none where it is no chord."""
    up, down = 0.0, 0.0  # the fastest that a force grows and falls, relative to itself
    for i in range(f.size):
        rate = along[i] / max(f[i], _TINY)
        up, down = max(up, rate), min(down, rate)
    if up == 0.0 or down == 0.0:
        return 0.0
    low, high = -1.0 / up, -1.0 / down
    return low + place * (high - low)
