"""What a step with friction leaves undetermined: dimension, and certified intervals of forces.

Given the motion v⁺, the forces are a convex set A(v⁺) (``formulations.friction_network``): cones at
resting contacts, rays at sliding ones, and Bᵀf = F̃. Bounds of a component are two cone programs, as
in S. McNamara & H. J. Herrmann, Phys. Rev. E 70, 061303 (2004). Each is certified by its dual y,
computed again from the data: where some y₀ has Bᵀ-rows inside all dual cones, which is exactly
where A is bounded, y + ε y₀ is dual feasible without error and bounds the component strictly.

A cone's faces are {0}, a ray, or all of it. The dimension of A is counted after facial reduction:
contacts that no admissible force takes inside their cone keep their ray, or nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any

import clarabel
import numpy as np
import scipy.sparse as sp

from cdopt._util import checks, notebook
from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt._util.compiled import clock
from cdopt._util.errors import InvalidInput, SolveFailed, Unsupported
from cdopt._util.formatting import count, plain
from cdopt._util.progress import ProgressCallback, progress_bar
from cdopt.backends.base import Backend
from cdopt.backends.deadline import TIME_LIMIT, Deadline
from cdopt.backends.threads import threads_for
from cdopt.formulations import FrictionalCD
from cdopt.formulations.friction_network import OPEN, RESTING, SLIDING, Faces, solved_faces
from cdopt.hyperstatic import network
from cdopt.hyperstatic.bounds import NARROW, Intervals
from cdopt.hyperstatic.cone_programs import ConePrograms, analytic_centre
from cdopt.problem.contact_step import Step
from cdopt.problem.scaling import column_scale, network_parts
from cdopt.problem.solution import StepSolution

if TYPE_CHECKING:
    import pandas as pd

CERTIFIED = 1e-6  # of the largest force: bounds further from attained forces are failures
_WORDS = {RESTING: "resting", SLIDING: "sliding", OPEN: "open"}

_ACCURACY = 1e-11  # asked of the cone programs
_POSITIVE = 1e-4  # of the largest force: what facial reduction counts as inside a cone,
_CAP = 0.03  # and how far inside it looks
_DOUBT = 10.0  # times the root of what a point misses: slack that may be an error
RANK = 1e-9  # share of the largest singular value below which others are zero
_IDLE = 1e-8  # of the largest force: less in some answer proves a lower bound of zero
_BATCH = 4000  # contacts bounded side by side, times contacts
_ROUNDS = 8  # of facial reduction
_THIN = 1e-7  # least slack, below which a set has no inside
_MANY = 300  # columns, from which all bounds are one set of programs instead of Clarabel's,
_SHARP = 3e-7  # which bounds further from attained forces are left to


@dataclass(frozen=True, eq=False)
class FrictionalIndeterminacy(Intervals):
    """Which forces with friction are determined, given the motion, and the range of the others.

    Attributes
    ----------
    step : the step. law : "coulomb" or "associated", of the motion.
    solution : the certified answer whose motion fixes the faces.
    faces : open, sliding and resting contacts, and the load F̃.
    reduced : the faces after facial reduction: sliding, for those whose admissible forces are all
        on one ray, and open, for those that never carry any.
    rank : of the matrix from forces on the faces to F̃.
    nullity : d times the resting contacts, plus the sliding ones, minus the rank.
    dimension : of the set of admissible forces, after facial reduction; at most the nullity.
    lower, upper : (nc, d) N, certified bounds of the normal and the tangential components, zero at
        open contacts; infinite where unbounded, not-a-number where not asked for.
    residual : (nc, d) distance of the bounds from forces that attain them, over the largest force
        among those that balance one another.
    direction : (nc, d) self-balanced admissible forces, Bᵀf = 0, along which the forces grow
        without bound; zero where all are bounded.
    unit : the largest force of the answer, N.
    failures : contacts whose bounds are further than 1e-6 from attained forces, and by how much.
    seconds : time of each stage.
    """

    step: Step
    law: str
    solution: StepSolution
    faces: Faces
    reduced: Faces
    rank: int
    nullity: int
    dimension: int
    lower: FloatArray
    upper: FloatArray
    residual: FloatArray
    direction: FloatArray
    unit: float
    failures: Mapping[int, str]
    seconds: Mapping[str, float]

    @property
    def d(self) -> int:
        """Components of a force: 2 in the plane, 3 in space."""
        return int(self.lower.shape[1])

    def status_of(self, contact: int) -> str:
        """One word for a contact: resting, sliding or open.

        Raises
        ------
        InvalidInput : no such contact.
        """
        return _WORDS[int(self.faces.status[checks.index("contact", contact, self.nc)])]

    def widest(self, number: Annotated[int, checks.integer(0)]) -> IntArray:
        """The contacts with the widest known intervals of normal forces, at most so many."""
        known = np.flatnonzero(~np.isnan(self.lower[:, 0]))
        order = np.argsort(-self.width[known, 0], kind="stable")
        return np.sort(known[order[:number]])

    @property
    def closed(self) -> BoolArray:
        """(nc,) contacts that touch at the end of the step."""
        return np.asarray(self.faces.status != OPEN)

    @property
    def unique(self) -> BoolArray:
        """(nc,) all components known to be within 1e-7 of the largest force."""
        return np.asarray((self.width <= NARROW * self.unit).all(axis=1))

    @property
    def unbounded(self) -> BoolArray:
        """(nc,) forces without an upper bound: those that ``direction`` loads."""
        return np.asarray(self.direction[:, 0] > 0.0)

    def outside(self, f: Any, f_t: Any) -> FloatArray:
        """(nc, d) N, how far forces f (nc,) and f_t (nc, d − 1) are outside; NaN if unknown."""
        return self._beyond(self.table(f, f_t))

    def position(self, f: Any, f_t: Any) -> FloatArray:
        """(nc, d) where forces f (nc,) and f_t (nc, d − 1) lie, from 0 to 1.

        0 at the lower bound, 1 at the upper one. Not-a-number where a component cannot
        differ, its bounds are unknown or infinite.
        """
        width = np.where(np.isfinite(self.width), self.width, np.nan)
        width = np.where(width > NARROW * self.unit, width, np.nan)
        return np.asarray((self.table(f, f_t) - self.lower) / width)

    def table(self, f: Any, f_t: Any) -> FloatArray:
        """(nc, d) N of forces f (nc,) and f_t (nc, d − 1).

        Raises
        ------
        InvalidInput : forces of other contacts.
        """
        normal = checks.vector("f", f, self.nc, "N")
        return np.column_stack([normal, checks.numbers("f_t", f_t, (self.nc, self.d - 1), "N")])

    def force_set(self) -> ForceSet:
        """The admissible forces in conic form."""
        return ForceSet(FrictionalCD(self.step, self.law).data.products, self.reduced)

    def mobilised(self, contact: int) -> tuple[float, float]:
        """The range of ‖f_T‖/(μ f_n) at a contact, from 0 to 1; in the plane of f_t/(μ f_n).

        A linear-fractional program becomes a cone program at f_n = 1 (A. Charnes & W. W. Cooper
        1962). In space the greatest value maximises a convex function, which is no cone program:
        the number returned is 1 where that is attained, else a bound from eight directions, at
        most 8.3 % above it.

        Raises
        ------
        InvalidInput : no such contact, or one that can carry no force.
        """
        contact = checks.index("contact", contact, self.nc)
        return self.force_set().mobilised(contact)

    def region(
        self, contact: int, directions: Annotated[int, checks.integer(4)] = 72
    ) -> FloatArray:
        """(n, 2) N: corners of the region of the normal and first tangential force of a contact.

        Each is attained by admissible forces and extreme in one of the directions, in turn; where
        the region is a segment or a point, corners coincide.

        Raises
        ------
        InvalidInput : no such contact, fewer than 4 directions, or forces without upper bound.
        """
        number = checks.index("contact", contact, self.nc)
        angles = 2.0 * np.pi * np.arange(directions) / directions
        if self.unbounded.any():
            raise InvalidInput("contact", "forces without upper bound", "bounded ones")
        return self.force_set().region(number, angles)

    @property
    def summary(self) -> str:
        """What is determined and what is not, in plain words."""
        status = self.faces.status
        parts = [f"{int((status == s).sum()):,} {w}" for s, w in _WORDS.items()]
        text = f"{count(self.nc, 'contact')}: {', '.join(parts)}. The admissible forces have "
        text += f"{count(self.dimension, 'dimension')} (nullity {self.nullity:,})"
        width = np.where(np.isfinite(self.width[:, 0]), self.width[:, 0], 0.0)
        width = np.where(width > NARROW * self.unit, width, 0.0)
        return text + self._ranges(width, np.full(self.nc, self.unit))

    def as_dict(self, contacts: bool = True) -> dict[str, Any]:
        """Plain values for JSON, infinite and unknown ones None; ``contacts``: with a list."""
        names = ("law", "nc", "rank", "nullity", "dimension", "ok", "summary", "seconds")
        content: dict[str, Any] = {name: getattr(self, name) for name in names}
        content["failures"] = {self.names[i]: why for i, why in self.failures.items()}
        if contacts:
            words = [_WORDS[status] for status in self.faces.status.tolist()]
            rows = zip(self.names, words, np.stack([self.lower, self.upper], axis=2), strict=True)
            columns = ("contact", "status", "intervals")
            content["forces"] = [dict(zip(columns, row, strict=True)) for row in rows]
        return dict(plain(content))

    def to_frame(self) -> pd.DataFrame:
        """A row for each contact as a pandas.DataFrame, its name the index.

        Columns: ``status`` (as ``status_of``), then ``lower`` and ``upper`` in N of each component,
        ``normal`` and ``tangential``, two tangential ones in space.
        """
        sliding = ["tangential"] if self.d == 2 else ["tangential.1", "tangential.2"]
        words = [_WORDS[status] for status in self.faces.status.tolist()]
        columns: dict[str, Any] = {"contact": self.names, "status": words}
        for k, name in enumerate(["normal", *sliding]):
            columns |= {f"lower.{name}": self.lower[:, k], f"upper.{name}": self.upper[:, k]}
        return notebook.data_frame(columns, index="contact")


def frictional_indeterminacy(
    step: Step,
    law: str,
    solution: str | Backend | StepSolution | None,
    contacts: IntArray,
    progress: bool | ProgressCallback,
    closed_tol: float | None,
    jobs: int,
    deadline: Deadline,
) -> FrictionalIndeterminacy:
    """What a motion with friction leaves undetermined; arguments as of ``indeterminacy``."""
    times = [clock()]
    problem = FrictionalCD(step, law)
    answer, faces = solved_faces(problem, solution, closed_tol, deadline.time_limit)
    times.append(clock())
    products = problem.data.products
    every = ForceSet(products, faces)
    admissible = ForceSet(products, every.reduced())
    times.append(clock())
    direction = admissible.direction
    with progress_bar(progress, "forces bounded") as update:
        bounds = admissible.intervals(contacts, jobs, deadline, update)
    failures = {}
    for i, worst in zip(contacts.tolist(), bounds[2][contacts].max(axis=1), strict=True):
        if np.isnan(worst):
            failures[i] = TIME_LIMIT
        elif worst > CERTIFIED:
            failures[i] = f"bounds are {worst:.1e} from attained forces"
    times.append(clock())
    return FrictionalIndeterminacy(
        step, law, answer, faces, admissible.faces, every.rank, every.columns - every.rank,
        admissible.columns - admissible.rank, *bounds, direction,
        admissible.unit, failures,
        dict(zip(("solve", "dimension", "bounds"), np.diff(times).tolist(), strict=True)),
    )  # fmt: skip


# --- the set in conic form ------------------------------------------------------------------


class ForceSet:
    """A(v⁺) in the form A x = b, x in Lorentz cones and half-lines, in units of each part."""

    def __init__(self, products: sp.csr_array, faces: Faces) -> None:
        self.faces, d = faces, faces.ray.shape[1]
        self.unit = float(np.linalg.norm(faces.forces, axis=1).max(initial=0.0)) or 1.0
        G = faces.generators
        rests, slides = faces.status == RESTING, faces.status == SLIDING
        size = np.where(rests, d, np.where(slides, 1, 0))
        self.size, self.first = size, np.cumsum(size) - size
        stretch = np.ones(G.shape[1])  # from the Lorentz cone to K_μ
        for k in range(1, d):
            stretch[self.first[rests] + k] = faces.mu[rests]
        self.stretch = stretch
        full = sp.csr_array(sp.csr_array(products @ G) * stretch[None, :])
        self.units = self._units(full)
        reach = column_scale(sp.csr_array(full.T))
        used = np.flatnonzero(reach > 0.0)
        self.A = sp.csr_array(full[used] * (1.0 / reach[used])[:, None])
        of = self.A.indices[np.minimum(self.A.indptr[:-1], max(self.A.nnz - 1, 0))]
        self.b = faces.load[used] / reach[used] / self.units[of]
        if 0 < self.rank < min(used.size, network.DENSE_LIMIT + 1):  # of N: keep independent rows
            U, values, Vt = np.linalg.svd(self.A.toarray(), full_matrices=False)
            U, values, Vt = U[:, : self.rank], values[: self.rank], Vt[: self.rank]
            self.A, self.b = sp.csr_array(Vt), (self.b @ U) / values
        self.closed = np.flatnonzero(size > 0)
        self.heads = self.first[self.closed]  # of the normal components
        self.to_forces = sp.csr_array(G * (stretch * self.units)[None, :])  # (nc d, columns)
        self.x = self._coordinates(faces.forces)
        self.least = np.full(self.closed.size, np.inf)  # normal forces of answers, and their error
        self._lock = Lock()  # of Clarabel's one solver

    @property
    def columns(self) -> int:
        """Number of coordinates of forces on the faces."""
        return int(self.A.shape[1])

    def _units(self, full: sp.csr_array) -> FloatArray:
        """(columns,) N: the largest force of the part that a contact belongs to, or of all."""
        contact = np.repeat(np.arange(self.size.size), self.size)
        of_contact = sp.csr_array(
            (np.ones(contact.size), (np.arange(contact.size), contact)),
            shape=(contact.size, self.size.size),
        )
        parts = network_parts(sp.csr_array((abs(full) @ of_contact).T))
        size = np.linalg.norm(self.faces.forces, axis=1)
        largest = parts.largest(parts.contact, size)[parts.contact[contact]]
        return np.where(largest > 0.0, largest, self.unit)

    def _coordinates(self, forces: FloatArray) -> FloatArray:
        """Forces (nc, d) on the faces as x."""
        norm = np.asarray(self.to_forces.multiply(self.to_forces).sum(axis=0)).ravel()
        return np.asarray(self.to_forces.T @ forces.ravel()) / norm

    def off_balance(self, forces: FloatArray) -> float:
        """The largest entry of A x of forces (nc, d) on the faces, over the largest of x."""
        x = self._coordinates(forces)
        return float(np.abs(self.A @ x).max(initial=0.0)) / float(np.abs(x).max())

    def deep_point(self) -> FloatArray:
        """x of admissible forces that are inside all cones, if any are."""
        return self._inside(self.b)[0]

    # --- cone programs ---------------------------------------------------------------

    def _solver(self, cost: FloatArray, A: Any, b: FloatArray, extra: Any = None) -> Any:
        """Clarabel's answer to min costᵀx, A x = b, x in the cones, and more rows in cones.

        ``extra`` are rows, their right sides and cones: right − rows x lies in them.
        """
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.presolve_enable = False
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = _ACCURACY
        n = cost.size
        identity = sp.csr_array(-sp.eye_array(self.columns, n))
        rows, right = [A, identity], [b, np.zeros(self.columns)]
        kinds = [clarabel.ZeroConeT(b.size), *map(_cone, self.size[self.closed])]
        if extra is not None:
            rows, right, kinds = [*rows, extra[0]], [*right, extra[1]], [*kinds, *extra[2]]
        stacked = sp.csc_matrix(sp.vstack(rows))
        zero = sp.csc_matrix((n, n))
        return clarabel.DefaultSolver(zero, cost, stacked, np.concatenate(right), kinds, settings)

    @cached_property
    def _fixed(self) -> Any:
        """The solver of bounds, whose cost alone changes."""
        return self._solver(np.zeros(self.columns), self.A, self.b)

    def _least(self, cost: FloatArray) -> tuple[float, float]:
        """A certified lower bound of costᵀx, and its distance from an attained value."""
        self._fixed.update(q=cost)
        answer = self._fixed.solve()
        return self._certified(cost, np.array(answer.x), np.array(answer.z)[: self.b.size])

    def _certified(self, cost: FloatArray, x: FloatArray, y: FloatArray) -> tuple[float, float]:
        """The same of an answer x and its multipliers y."""
        error = self._violation(cost + self.A.T @ y)
        total = float(np.abs(self.x[self.heads]).sum())
        if self._interior is not None:
            total = float(self.b @ self._interior)
        bound = -float(self.b @ y) - error * total
        missed = float(np.abs(self.A @ x - self.b).max(initial=0.0)) + self._violation(x)
        self.least = np.minimum(self.least, np.maximum(x[self.heads], 0.0) + missed)
        return bound, abs(float(cost @ x) - bound) + missed

    def _violation(self, x: FloatArray) -> float:
        """The least ε ≥ 0 with x + ε e_n in the cones."""
        return max(float((self._sideways(x) - x[self.heads]).max(initial=0.0)), 0.0)

    @cached_property
    def _interior(self) -> FloatArray | None:
        """y₀ with Aᵀy₀ − e_n in the cones, where all forces are bounded."""
        total = np.zeros(self.columns)
        total[self.heads] = -1.0
        answer = self._solver(total, self.A, self.b).solve()
        y = np.array(answer.z)[: self.b.size]
        error = self._violation(total + self.A.T @ y)
        return y / (1.0 - error) if np.isfinite(error) and error < 0.5 else None

    @cached_property
    def direction(self) -> FloatArray:
        """(nc, d) self-balanced forces that load every contact without an upper bound."""
        if self._interior is not None:
            return np.zeros(self.faces.ray.shape)
        x, _, loaded = self._inside(0.0 * self.b)
        result = (self.to_forces @ x).reshape(self.faces.ray.shape)
        result[self.closed[~loaded]] = 0.0
        return np.asarray(result)

    # --- intervals -----------------------------------------------------------------------

    def intervals(
        self, asked: IntArray, jobs: int, deadline: Deadline, update: Callable[[int, int], None]
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Lower and upper bounds (nc, d) of the components of forces, N, and residuals (nc, d).

        Open contacts have zeros, those not asked for not-a-number, and so have those that
        ``jobs`` threads did not come to before the deadline.
        """
        lower, upper, residual = (np.full(self.faces.ray.shape, np.nan) for _ in range(3))
        for table in (lower, upper, residual):
            table[self.size == 0] = 0.0
        asked = asked[self.size[asked] > 0]
        _ = self.programs, self.direction  # computed before threads ask for them
        with threads_for(asked.size), ThreadPoolExecutor(jobs) as pool:
            step = max(1, min(_BATCH // max(self.closed.size, 1), -(-asked.size // (4 * jobs))))
            chunks = [asked[k : k + step] for k in range(0, asked.size, step)]
            ends = pool.map(lambda chunk: None if deadline.passed else self._ends(chunk), chunks)
            for done, (chunk, result) in enumerate(zip(chunks, ends, strict=True), 1):
                if result is not None:
                    lower[chunk], upper[chunk], residual[chunk] = result
                update(min(done * step, asked.size), asked.size)
        return lower, upper, residual

    def _ends(self, chunk: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Bounds and residuals (many, d) of some closed contacts."""
        idle = self.least[np.searchsorted(self.closed, chunk)]  # in answers found earlier
        ends, errors = np.zeros((2, chunk.size, self.faces.ray.shape[1])), self.faces.ray[chunk] * 0
        errors[:, 0] = np.where(idle <= _IDLE, idle, 0.0)
        pairs = [
            (m, side, k)
            for m, i in enumerate(chunk)
            for side, k in np.ndindex(2, int(self.size[i]))
            if side > 0 or k > 0 or idle[m] > _IDLE
        ]
        table = np.array(pairs)
        columns = self.first[chunk[table[:, 0]]] + table[:, 2]
        bounds = self._least_of(columns, 1.0 - 2.0 * table[:, 1])
        for (m, side, k), column, (bound, error) in zip(pairs, columns, bounds, strict=True):
            i, sign = int(chunk[m]), 1.0 - 2.0 * side
            endless = self.direction[i, 0] > 0.0 and (k > 0 or side == 1)
            if endless and self._grows(i, k, -sign):
                ends[side, m, k] = -sign * np.inf
            else:
                ends[side, m, k] = sign * bound * self.units[column] * self.stretch[column]
                errors[m, k] = max(errors[m, k], error)
        for m in np.flatnonzero(self.size[chunk] == 1).tolist():  # it slides
            along = self.faces.ray[chunk[m]]
            normal = np.broadcast_to(ends[:, m, :1], ends[:, m].shape)  # may be infinite
            zeros = np.zeros_like(normal)
            ends[:, m] = np.sort(np.multiply(normal, along, where=along != 0.0, out=zeros), axis=0)
        ends[0, :, 0] = np.maximum(ends[0, :, 0], 0.0)
        return *ends, errors

    def _least_of(self, columns: IntArray, signs: FloatArray) -> list[tuple[float, float]]:
        """Certified lower bounds of sign · x at columns, with distances as in ``_least``."""
        costs = np.zeros((columns.size, self.columns))
        costs[np.arange(columns.size), columns] = signs
        results = [(np.nan, np.inf)] * columns.size
        if self.programs is not None:
            tables = np.stack([self.padded(cost).T for cost in costs], axis=2)
            xs, ys = self.programs.solve(tables)
            answers = zip(costs, xs.T, ys.T, strict=True)
            results = [self._certified(c, x.ravel()[self._places], y) for c, x, y in answers]
        for k, cost in enumerate(costs):
            if not results[k][1] <= _SHARP:
                with self._lock:
                    results[k] = min(results[k], self._least(cost), key=lambda pair: pair[1])
        return results

    @cached_property
    def _places(self) -> IntArray:
        """(columns,) where the coordinates are in a table (closed, 3) of cones."""
        cone = np.repeat(np.arange(self.closed.size), self.size[self.closed])
        return np.asarray(3 * cone + np.arange(cone.size) - self.heads[cone])

    def padded(self, x: FloatArray) -> FloatArray:
        """Coordinates as a table (closed, 3)."""
        table = np.zeros((self.closed.size, 3))
        table.flat[self._places] = x
        return table

    @property
    def padded_A(self) -> sp.csr_array:
        """A (rows, 3 closed) of such tables."""
        A = (self.A.data, self._places[self.A.indices], self.A.indptr)
        return sp.csr_array(A, shape=(self.b.size, 3 * self.closed.size))

    def centre(self) -> tuple[FloatArray, float]:
        """Forces (nc, d) N of the analytic centre, and its residual.

        Raises
        ------
        Unsupported : the set is too thin.
        """
        start = self.padded(self.deep_point())
        if not (start[:, 0] - np.linalg.norm(start[:, 1:], axis=1)).min() > _THIN:
            raise Unsupported("the centre of the admissible forces", "their set is too thin")
        x, _, residual = analytic_centre(self.padded_A, self.b, start)
        forces = self.to_forces @ x.flat[self._places]
        return forces.reshape(self.faces.ray.shape), residual

    @cached_property
    def programs(self) -> ConePrograms | None:
        """Of bounded sets with many columns, the programs of all bounds."""
        if self.columns < _MANY or self._interior is None:
            return None
        start = self.padded(self.deep_point())
        inside = (start[:, 0] > np.linalg.norm(start[:, 1:], axis=1)).all()
        return ConePrograms(self.padded_A, self.b, start) if inside else None

    def region(self, i: int, angles: FloatArray) -> FloatArray:
        """As ``FrictionalIndeterminacy.region``, for directions at angles, rad."""
        columns = self.first[i] + np.arange(min(int(self.size[i]), 2))
        if not columns.size:
            return np.zeros((1, 2))
        scale, cost = self.units[columns] * self.stretch[columns], np.zeros(self.columns)
        ray = np.eye(2) if columns.size == 2 else self.faces.ray[i : i + 1, :2]
        corners = []
        for way in np.column_stack([np.cos(angles), np.sin(angles)]):
            cost[columns] = -(ray @ way) * scale / scale.max()
            self._fixed.update(q=cost)
            corners.append(scale * np.array(self._fixed.solve().x)[columns] @ ray)
        return np.array(corners)

    def _grows(self, i: int, k: int, sign: float) -> bool:
        """Whether self-balanced forces let component k of a contact grow towards ``sign``."""
        cost = np.zeros(self.columns)
        cost[self.first[i] + k] = -sign
        sums = (np.zeros(self.heads.size, dtype=int), self.heads)
        total = sp.csr_array((np.ones(self.heads.size), sums), shape=(1, self.columns))
        rows = sp.csr_array(sp.vstack([self.A, total]))
        answer = self._solver(cost, rows, np.append(0.0 * self.b, 1.0)).solve()
        return bool(-(cost @ np.array(answer.x)) > _POSITIVE)

    def mobilised(self, i: int) -> tuple[float, float]:
        """As ``FrictionalIndeterminacy.mobilised``."""
        if self.size[i] <= 1:
            if self.size[i] == 0:
                raise InvalidInput("contact", f"{i}, which is open", "a closed contact")
            full = float(self.faces.mu[i] > 0.0)
            return full, full
        d, n = self.faces.ray.shape[1], self.columns + 2  # x, its scale, and t from ‖x_T‖ to 1
        at = int(self.first[i]) + np.arange(d)
        balance = sp.hstack([self.A, -self.b[:, None], sp.csr_array((self.b.size, 1))])
        rows = sp.csr_array(sp.vstack([balance, sp.csr_array(np.eye(1, n, at[0]))]))
        right, identity = np.append(0.0 * self.b, 1.0), sp.eye_array(n, format="csr")
        limits = sp.vstack([-identity[[n - 2]], identity[[n - 1]], -identity[[n - 1, *at[1:]]]])
        kinds = [clarabel.NonnegativeConeT(2), clarabel.SecondOrderConeT(d)]

        def most(*push: float) -> float:  # of push · (t, x_T)
            cost = np.zeros(n)
            cost[[n - 1, *at[1:]]] = np.negative(push)
            answer = self._solver(cost, rows, right, (limits, np.eye(d + 2)[1], kinds)).solve()
            status = str(answer.status)
            if "Solved" not in status:
                message = f"mobilised friction of contact {i}: {status}"
                raise SolveFailed(message, backend="clarabel", status=status)
            return float(-(cost @ np.array(answer.x)))

        if d == 2:
            return max(-most(0.0, -1.0), -1.0), min(most(0.0, 1.0), 1.0)
        angles = (np.arange(8) * np.pi / 4.0).tolist()
        largest = max(most(0.0, np.cos(angle), np.sin(angle)) for angle in angles)
        largest = 1.0 if largest >= 1.0 - _POSITIVE else min(largest / np.cos(np.pi / 8.0), 1.0)
        return max(-most(-1.0, 0.0, 0.0), 0.0), largest

    # --- facial reduction ------------------------------------------------------------------

    @cached_property
    def rank(self) -> int:
        """Of A, its columns of unit length."""
        if not self.columns:
            return 0
        return network.rank_of(network.equilibrated(sp.csr_array(self.A.T))[0], RANK)

    def reduced(self) -> Faces:
        """The least faces that hold all admissible forces."""
        x, inside, loaded = self._inside(self.b)
        status, ray = self.faces.status.copy(), self.faces.ray.copy()
        status[self.closed[~loaded]] = OPEN
        on_ray = self.closed[loaded & ~inside & (self.size[self.closed] > 1)]
        status[on_ray] = SLIDING
        forces = (self.to_forces @ x).reshape(ray.shape)[on_ray]
        answer = self.faces.forces[on_ray]  # on the same ray, and more accurate
        clear = answer[:, 0] > _POSITIVE * self.units[self.first[on_ray]]
        forces[clear] = answer[clear]
        ray[on_ray] = forces / forces[:, :1]
        carried = np.where(status[:, None] == OPEN, 0.0, self.faces.forces)
        return dataclasses.replace(self.faces, status=status, ray=ray, forces=carried)

    def _inside(self, b: FloatArray) -> tuple[FloatArray, BoolArray, BoolArray]:
        """A point of A x = b deep inside the set, and which contacts are inside cones, and loaded.

        It maximises Σ min(slack, cap) + Σ min(x_n, cap); contacts at zero are maximised again
        without the others, until none of them moves; the mean is inside wherever any point is.
        """
        inside, loaded = np.zeros((2, self.closed.size), dtype=bool)
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

    def _sideways(self, x: FloatArray) -> FloatArray:
        """(closed,) ‖x_T‖."""
        return np.asarray(np.linalg.norm(self.padded(x)[:, 1:], axis=1))

    def _deepest(self, b: FloatArray, left: IntArray, idle: IntArray) -> FloatArray:
        """max Σ t + Σ w, t the slack of contacts ``left``, w normal forces of ``idle``, capped."""
        n, many, size = self.columns, left.size + idle.size, self.size[self.closed]
        columns = np.flatnonzero(np.isin(np.repeat(np.arange(size.size), size), left))
        heads = np.append(
            np.searchsorted(columns, self.heads[left]), columns.size + np.arange(idle.size)
        )
        picked = np.append(columns, self.heads[idle])
        ones = (np.ones(many), (heads, np.arange(many)))
        above = [-sp.eye_array(n, format="csr")[picked], sp.csr_array(ones, (picked.size, many))]
        rows = sp.block_array([above, [None, sp.eye_array(many)]])
        right = np.repeat([0.0, _CAP], [picked.size, many])
        kinds = [_cone(k) for k in size[left].tolist()]
        kinds += [clarabel.NonnegativeConeT(k) for k in (idle.size, many) if k]
        cost = np.concatenate([np.zeros(n), -np.ones(many)])
        wide = sp.hstack([self.A, sp.csr_array((self.A.shape[0], many))])
        answer = self._solver(cost, wide, b, (rows, right, kinds)).solve()
        return np.array(answer.x)[:n]


def _cone(size: int) -> Any:
    """A half-line, or a Lorentz cone."""
    return clarabel.NonnegativeConeT(1) if size == 1 else clarabel.SecondOrderConeT(int(size))
