"""Extremes of costs over a network with Lorentz cones: cone programs, with certificates.

A network is {x : A x = b, x in half-lines and Lorentz cones}, in units of its largest force. Bounds
are two cone programs each, as in S. McNamara & H. J. Herrmann, Phys. Rev. E 70, 061303 (2004), each
certified by its dual y, computed again from the data: where some y₀ has Aᵀy₀ − e_n inside the
cones, which is exactly where forces are bounded, y + ε y₀ is dual feasible without error and bounds
the cost strictly. Of a cost Aᵀy, which is the same for all forces, y and any answer are the
certificate, and no program is solved.

A cone's faces are {0}, a ray, or all of it. Dimensions are counted after facial reduction: cones
that no admissible force is inside of keep their ray, or nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from cdopt._util.cached import cached_property
from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt._util.cone_program import ConeProgram
from cdopt.hyperstatic import network
from cdopt.hyperstatic.centre import ConeTable
from cdopt.hyperstatic.cone_programs import ConePrograms
from cdopt.hyperstatic.extremes import Extreme, Extremes
from cdopt.hyperstatic.free_network import FreeNetwork
from cdopt.problem.scaling import column_scale

CERTIFIED = 1e-6  # of the largest force: bounds further from attained forces are failures
_ACCURACY = 1e-11  # of the cone programs
_POSITIVE = 1e-4  # of the largest force: facial reduction treats smaller slacks as 0,
_CAP = 0.03  # and rewards no larger ones
_DOUBT = 10.0  # slack over the root of a point's error, up to which it may be an error
RANK = 1e-9  # share of the largest singular value below which others are zero
_IDLE = 1e-8  # of the largest force: less in some answer proves a lower bound of zero
_ROUNDS = 8  # of facial reduction
_MANY = 100  # coordinates from which ``ConePrograms`` solves all bounds; below, Clarabel each one
_SHARP = 3e-7  # bounds further from attained forces are solved again by Clarabel
_EXACT = 1e-9  # of the largest force: a known bound this near to an answer needs no program


class ConeSet:
    """{x : Bᵀx = load, x in cones}; ``x`` (n,) is one of its points.

    Parameters
    ----------
    B : (n, m). load : (m,). sizes : of the cones, in turn; 1 is a half-line. x : (n,) admissible.
    """

    def __init__(self, B: sp.csr_array, load: FloatArray, sizes: IntArray, x: FloatArray) -> None:
        self.sizes, self.x = sizes, x
        self.heads = np.cumsum(sizes) - sizes  # of the normal components
        reach = column_scale(B)
        used = np.flatnonzero(reach > 0.0)
        self.A = sp.csr_array(sp.csr_array(B[:, used] * (1.0 / reach[used])[None, :]).T)
        self.b = load[used] / reach[used]
        rank = network.rank_of(network.equilibrated(sp.csr_array(self.A.T))[0], RANK)
        if 0 < rank < min(used.size, network.DENSE_LIMIT + 1):  # keep independent rows
            U, values, Vt = np.linalg.svd(self.A.toarray(), full_matrices=False)
            U, values, Vt = U[:, :rank], values[:rank], Vt[:rank]
            self.A, self.b = sp.csr_array(Vt), (self.b @ U) / values
        self.table = ConeTable(sizes)
        self.least = np.full(sizes.size, np.inf)  # normal forces of answers, and their error

    @staticmethod
    def of(net: FreeNetwork) -> ConeSet:
        """The set of a network."""
        return ConeSet(net.B, net.load, net.sizes, net.force)

    @property
    def columns(self) -> int:
        """Number of coordinates."""
        return int(self.A.shape[1])

    # --- programs --------------------------------------------------------------------------

    def _program(self, cost: FloatArray, A: Any, b: FloatArray, *extra: Any) -> ConeProgram:
        """min costᵀx, A x = b, x in the cones; ``extra``: rows, shifts and sizes of more cones."""
        own = sp.eye_array(self.columns, cost.size, format="csr")
        rows, shift, sizes = own, np.zeros(self.columns), self.sizes
        if extra:
            rows = sp.vstack([own, extra[0]])
            shift, sizes = np.append(shift, extra[1]), np.append(sizes, extra[2])
        return ConeProgram(cost, A, b, rows, shift, sizes, accuracy=_ACCURACY)

    def prepare(self) -> None:
        """Compute what threads share."""
        _ = self.programs, self.rays, self._projection

    def extremes(self, costs: sp.csr_array, witnesses: bool) -> Extremes:
        """The least and largest value of each cost (k, n); with ``witnesses`` where they are."""
        tables, programs = costs.toarray(), 0
        nearest = self._nearest(tables)
        ends: dict[float, list[Extreme]] = {-1.0: [], 1.0: []}
        normal = (tables != 0.0).sum(axis=1) == tables[:, self.heads].sum(axis=1)  # one, alone
        column = np.argmax(tables, axis=1)
        here = np.repeat(self.x[None], len(tables), axis=0)
        for sense, side in ends.items():
            side += [Extreme()] * len(tables)
            least = self.least[np.searchsorted(self.heads, column) % self.heads.size]
            pending, found = [], {}
            known = self._certified(sense * tables, here, -sense * nearest)
            for k, cost in enumerate(tables):
                if sense > 0.0 and normal[k] and least[k] <= _IDLE and not witnesses:
                    side[k] = Extreme(0.0, float(least[k]))
                elif known[k].residual <= _EXACT:
                    found[k] = known[k]
                elif self._endless(sense * cost, bool(normal[k]) and sense > 0.0):
                    side[k] = Extreme(-sense * np.inf, 0.0)
                else:
                    pending.append(k)
            programs += len(pending)
            answers = self._least_of(sense * tables[pending])
            found |= dict(zip(pending, answers, strict=True))
            for k, answer in found.items():
                value = sense * answer.value
                value = max(value, 0.0) if normal[k] and sense > 0.0 else value
                side[k] = answer._replace(value=value)
        return Extremes(ends[1.0], ends[-1.0], self.rays, programs)

    @cached_property
    def _projection(self) -> network.Projection | None:
        return network.Projection(sp.csr_array(self.A.T)) if self.A.nnz else None

    def _nearest(self, tables: FloatArray) -> FloatArray:
        """y (k, rows) with Aᵀy nearest to costs (k, n)."""
        if self._projection is None:
            return np.zeros((len(tables), self.b.size))
        return self._projection.split(tables.T)[0].T

    def _least_of(self, costs: FloatArray) -> list[Extreme]:
        """Certified lower bounds of costs (k, n), each x."""
        results = [Extreme()] * len(costs)
        if self.programs is not None and len(costs):
            xs, ys = self.programs.solve(np.stack([self.table.of(cost) for cost in costs]))
            results = self._certified(costs, np.stack([self.table.back(x) for x in xs]), ys)
        program = None
        for k, cost in enumerate(costs):
            if results[k].residual <= _SHARP:
                continue
            program = program or self._program(np.zeros(self.columns), self.A, self.b)
            answer = program.solve(cost)
            one = self._certified(cost[None], answer.x[None], answer.y[None])[0]
            results[k] = min(results[k], one, key=lambda end: end.residual)
        return results

    def _certified(self, costs: FloatArray, x: FloatArray, y: FloatArray) -> list[Extreme]:
        """Certified lower bounds of costs (k, n) from multipliers y (k, rows).

        And their distances from answers x (k, n).
        """
        error = self._violation(costs + (self.A.T @ y.T).T)
        total = float(np.abs(self.x[self.heads]).sum())
        if self._interior is not None:
            total = float(self.b @ self._interior)
        bound = -(y * self.b).sum(axis=1) - error * total
        missed = np.abs((self.A @ x.T).T - self.b).max(axis=1, initial=0.0) + self._violation(x)
        attained = np.maximum(x[:, self.heads], 0.0) + missed[:, None]
        self.least = np.minimum(self.least, attained.min(axis=0, initial=np.inf))
        residual = np.abs((costs * x).sum(axis=1) - bound) + missed
        changes = np.abs(y).sum(axis=1)
        ends = []
        for k, far in enumerate(residual.tolist()):
            failure = "" if far <= CERTIFIED else f"bounds are {far:.1e} from attained forces"
            ends.append(Extreme(float(bound[k]), far, failure, float(changes[k]), x[k]))
        return ends

    def _violation(self, x: FloatArray) -> FloatArray:
        """(…) the least ε ≥ 0 with x + ε e_n in the cones, of x (…, n)."""
        return np.maximum((self._sideways(x) - x[..., self.heads]).max(axis=-1, initial=0.0), 0.0)

    def _sideways(self, x: FloatArray) -> FloatArray:
        """(…, cones) ‖x_T‖ of x (…, n)."""
        squares = x * x
        squares[..., self.heads] = 0.0
        return np.sqrt(np.add.reduceat(squares, self.heads, axis=-1))

    @cached_property
    def programs(self) -> ConePrograms | None:
        """The programs of all bounds, for bounded sets with many columns; else None."""
        few = self.columns < _MANY or self.table.width > 3  # Clarabel takes cones of any size
        if few or self._interior is None:
            return None
        start = self.table.of(self.inside()[0])
        inside = (start[:, 0] > np.linalg.norm(start[:, 1:], axis=1)).all()
        return ConePrograms(self.table.matrix(self.A), self.b, start) if inside else None

    # --- forces without bound ------------------------------------------------------------------

    @cached_property
    def _interior(self) -> FloatArray | None:
        """y₀ with Aᵀy₀ − e_n in the cones, where all forces are bounded."""
        total = np.zeros(self.columns)
        total[self.heads] = -1.0
        y = self._program(total, self.A, self.b).solve().y
        error = self._violation(total + self.A.T @ y)
        return y / (1.0 - error) if np.isfinite(error) and error < 0.5 else None

    @cached_property
    def rays(self) -> list[FloatArray]:
        """Self-balanced forces (n,) that load every contact without an upper bound, if any."""
        if self._interior is not None:
            return []
        x, _, loaded = self._inside(0.0 * self.b)
        ray = np.where(np.repeat(loaded, self.sizes), x, 0.0)
        return [ray] if ray.any() else []

    def _endless(self, down: FloatArray, positive: bool) -> bool:
        """Whether self-balanced forces let a cost (n,) fall; not one that is ``positive``."""
        if not self.rays or positive or not self.rays[0][down != 0.0].any():
            return False
        sums = np.zeros(self.heads.size, int), self.heads
        total = sp.csr_array((np.ones(self.heads.size), sums), shape=(1, self.columns))
        rows = sp.csr_array(sp.vstack([self.A, total]))
        answer = self._program(down, rows, np.append(0.0 * self.b, 1.0)).solve()
        return bool(-(down @ answer.x) > _POSITIVE)

    # --- facial reduction ------------------------------------------------------------------

    def inside(self) -> tuple[FloatArray, BoolArray, BoolArray]:
        """A point deep inside the set, and which cones it is inside of, and loads."""
        return self._inside(self.b)

    def _inside(self, b: FloatArray) -> tuple[FloatArray, BoolArray, BoolArray]:
        """``inside`` of the set A x = b.

        It maximises Σ min(slack, cap) + Σ min(x_n, cap), again over the cones whose terms stayed
        zero until none of them grows; the mean of all maximisers is inside where any point is.
        """
        inside, loaded = np.zeros((2, self.sizes.size), dtype=bool)
        points: list[FloatArray] = []
        for _ in range(_ROUNDS):
            x = self._deepest(b, np.flatnonzero(~inside), np.flatnonzero(~loaded))
            missed = float(np.abs(self.A @ x - b).max(initial=0.0)) + self._violation(x)
            least = max(_POSITIVE, _DOUBT * np.sqrt(missed))
            slack, push = x[self.heads] - self._sideways(x), x[self.heads]
            moved = ((slack > least) & ~inside) | ((push > least) & ~loaded)
            points.append(x)
            inside |= slack > least
            loaded |= push > least
            if not moved.any() or (inside & loaded).all():
                break
        return np.mean(points, axis=0), inside, loaded

    def _deepest(self, b: FloatArray, left: IntArray, idle: IntArray) -> FloatArray:
        """max Σ t + Σ w, t the slack of cones ``left``, w normal forces of ``idle``, capped."""
        n, many = self.columns, left.size + idle.size
        cone = np.repeat(np.arange(self.sizes.size), self.sizes)
        columns = np.flatnonzero(np.isin(cone, left))
        heads = np.append(
            np.searchsorted(columns, self.heads[left]), columns.size + np.arange(idle.size)
        )
        picked = np.append(columns, self.heads[idle])
        ones = (-np.ones(many), (heads, np.arange(many)))
        above = [sp.eye_array(n, format="csr")[picked], sp.csr_array(ones, (picked.size, many))]
        rows = sp.block_array([above, [None, -sp.eye_array(many)]])
        shift = np.repeat([0.0, _CAP], [picked.size, many])
        sizes = np.concatenate([self.sizes[left], np.ones(idle.size + many, dtype=np.int64)])
        cost = np.concatenate([np.zeros(n), -np.ones(many)])
        wide = sp.hstack([self.A, sp.csr_array((self.A.shape[0], many))])
        return self._program(cost, wide, b, rows, shift, sizes).solve().x[:n]
