"""Exact lower and upper bounds of contact forces over the admissible ones, with certificates.

max f_i subject to Bᵀf = F, f ≥ 0 has the dual min Fᵀu subject to B u ≥ e_i: a motion that opens
contact i by one and closes none. The pair (f, u) certifies the bound and is checked here from
the data, whatever the solver says. HiGHS solves the programs by primal simplex, each from the
last one's vertex, which stays feasible because only the objective changes.

Only contacts that take part in a self-stress state enter the programs. Those that take part by
1e-7 or less (for example the points of a face contact in another code's file) are measured in
units of the change that the states allow them, which would else be below a linear program's
tolerances.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import highspy
import numpy as np
import scipy.linalg
import scipy.sparse as sp

from cdopt._util.checks import BoolArray, FloatArray, IntArray, freeze, read_only
from cdopt._util.formatting import beside, count, short
from cdopt._util.frozen import Frozen
from cdopt.backends.deadline import NEVER, TIME_LIMIT, Deadline
from cdopt.hyperstatic.network import Block, Verdict, null_states
from cdopt.problem.contact_step import Step
from cdopt.problem.scaling import column_scale, network_parts

CERTIFIED = 1e-8  # worst residual of a bound that counts, in units of its network's largest force
NARROW = 1e-7  # a narrower interval, over what acts on its contact, is one force
_FEASIBLE = 1e-10  # HiGHS's own tolerances, the sharpest it takes
_SECONDS = 300.0  # of one linear program
_ZERO = 1e-9  # a force of at most this share of its network's largest is idle
_ALONG = 1e-3  # a ray grows the forces whose entries are above this share of its largest
_FAR = 1e6  # a tight contact farther from zero than so many times its reach is left out
_CHUNK = 200  # contacts of one task of a thread

# Tried until a bound is certified: strategy (4 primal, 1 dual), solver and presolve of HiGHS, and
# whether to start from nothing.
_ATTEMPTS = (
    (4, "simplex", "off", False),
    (4, "simplex", "off", True),
    (1, "simplex", "on", True),
    (1, "simplex", "off", True),
    (1, "ipm", "off", True),
)


class Intervals(Frozen):
    """Bounds of the contact forces of a step, with friction or without."""

    step: Step
    lower: FloatArray
    upper: FloatArray
    failures: Mapping[int, str]

    @property
    @abstractmethod
    def unbounded(self) -> BoolArray:
        """(nc,) known to have no upper bound."""

    @property
    @abstractmethod
    def summary(self) -> str:
        """What is determined and what is not, in plain words."""

    @property
    def nc(self) -> int:
        """Number of contacts."""
        return self.step.nc

    @cached_property
    def names(self) -> list[str]:
        """The contacts' names, as ``step.contact_names``."""
        return self.step.contact_names

    @property
    def width(self) -> FloatArray:
        """(nc,) or (nc, d) N, upper minus lower."""
        with np.errstate(invalid="ignore"):
            return self.upper - self.lower

    @property
    def ok(self) -> bool:
        """Whether every bound that was asked for is certified."""
        return not self.failures

    def _ends(self, contact: int, unit: float) -> tuple[float, float]:
        """Bounds of a normal force for people, N: 0 where they are below ``NARROW`` of a unit."""
        low, high = (float(np.ravel(side[contact])[0]) for side in (self.lower, self.upper))
        return (low if abs(low) > NARROW * unit else 0.0, high if high > NARROW * unit else 0.0)

    def _beyond(self, forces: FloatArray) -> FloatArray:
        """N, how far forces of the shape of the bounds are outside; not-a-number if unknown."""
        return np.maximum(np.maximum(self.lower - forces, forces - self.upper), 0.0)

    def _ranges(self, width: FloatArray, unit: FloatArray) -> str:
        """The widest interval of a normal force, ends that are missing, and failures, in words."""
        text, most = "", float(width.max(initial=0.0))
        if most > 0.0:
            i = int(np.argmax(width >= most * (1.0 - 1e-6)))
            low, high = self._ends(i, unit[i])
            text = f"; the widest interval is [{short(low)}, {short(high)}] N, "
            text += f"at contact {self.names[i]}"
        if endless := int(np.count_nonzero(self.unbounded)):
            text += f"; {count(endless, 'force')} without upper bound"
        failed = f" The bounds of {count(len(self.failures), 'contact')} failed."
        return text + "." + (failed if self.failures else "")

    def __str__(self) -> str:
        return self.summary

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.summary})"


@dataclass(frozen=True, eq=False)
class Bounds(Frozen):
    """Bounds of the forces asked for, with the attributes of ``Indeterminacy``."""

    lower: FloatArray
    upper: FloatArray
    residual: FloatArray
    pull: FloatArray
    rays: tuple[FloatArray, ...]
    failures: dict[int, str]
    programs: int


# --- the networks ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class FreeNetwork(Frozen):
    """A network of contacts whose forces can differ, in units of what acts on it.

    Attributes
    ----------
    contacts : (n,) the step's contacts.
    B : (n, m) in these units, each equation divided by its largest entry.
    load : (m,) what the forces deliver. force : (n,) admissible.
    unit : (n,) N, what acts on each contact, at most the network's largest force.
    """

    contacts: IntArray
    B: sp.csr_array
    load: FloatArray
    force: FloatArray
    unit: FloatArray


def free_networks(
    parts: Sequence[Block], verdict: Verdict, forces: FloatArray, acting: FloatArray
) -> list[FreeNetwork]:
    """The independent networks of contacts whose forces can differ.

    Parameters
    ----------
    parts : of the closed network. verdict : says which forces can differ, however little.
    forces : (nc,) N, admissible.
    acting : (nc,) N, what acts on each contact: the unit of its force, unless all forces of its
        network are smaller.
    """
    networks = []
    for part in parts:
        rows = np.flatnonzero(verdict.moving[part.contacts])
        if not rows.size:
            continue
        rows, gradient, ratio = _equations(part, rows, verdict, forces)
        label = network_parts(gradient).contact
        for k in np.unique(label):
            i = np.flatnonzero(label == k)
            contacts = part.contacts[rows[i]]
            force, most, plain = forces[contacts], acting[contacts], ratio[i] == 1.0
            top = float(force[plain].max(initial=0.0))  # the other rows have a unit already
            unit = np.minimum(most, top) if top > 0.0 else most
            unit = np.where(plain, unit, top or float(most.max()))
            B = sp.csr_array(gradient[i])
            B = sp.csr_array(B[:, np.unique(B.indices)] * unit[:, None])
            B = sp.csr_array(B * (1.0 / column_scale(B))[None, :])
            scaled, unit = force / (unit * ratio[i]), unit * ratio[i]
            networks.append(FreeNetwork(contacts, freeze(B), B.T @ scaled, scaled, unit))
    return networks


def _equations(
    part: Block, rows: IntArray, verdict: Verdict, forces: FloatArray
) -> tuple[IntArray, sp.csr_array, FloatArray]:
    """Rows of a part to bound, what their forces must keep, and each one's share of the unit.

    Where some take part in the states by very little, other equations replace those of B: the loose
    forces change along the states alone, and each tight force is a linear function of them.
    """
    tight = verdict.tight[part.contacts[rows]]
    can = np.flatnonzero(verdict.loadable[part.contacts])
    basis = null_states(sp.csr_array(part.B[can]), verdict.rank_tol) if tight.any() else None
    if basis is None or tight.all():
        return rows, sp.csr_array(part.B[rows] * part.length[rows][:, None]), np.ones(rows.size)
    loose, stiff = rows[~tight], rows[tight]
    of_loose, of_stiff = (basis[np.searchsorted(can, chosen)] for chosen in (loose, stiff))
    follow = of_stiff @ np.linalg.pinv(of_loose)
    size = np.linalg.norm(follow, axis=1)
    ratio = size / part.length[stiff]
    top = float(forces[part.contacts[loose]].max(initial=0.0))
    near = (size > 0.0) & (forces[part.contacts[stiff]] <= _FAR * top * ratio)
    stiff, follow, size, ratio = stiff[near], follow[near], size[near], ratio[near]
    length = part.length[loose][:, None]
    upper = [sp.csr_array(scipy.linalg.null_space(of_loose.T) * length)]
    upper.append(sp.csr_array((follow / size[:, None]).T * length))
    lower = [sp.csr_array((stiff.size, upper[0].shape[1])), -sp.eye_array(stiff.size)]
    gradient = sp.csr_array(sp.block_array([upper, lower]))
    return np.append(loose, stiff), gradient, np.append(np.ones(loose.size), ratio)


# --- the bounds ------------------------------------------------------------------------------


def bounds_of(
    networks: Sequence[FreeNetwork],
    forces: FloatArray,
    asked: BoolArray,
    jobs: int,
    progress: Callable[[int, int], None],
    deadline: Deadline = NEVER,
) -> Bounds:
    """Bounds of the contacts asked for.

    Parameters
    ----------
    networks : from ``free_networks``. forces : (nc,) N, admissible.
    asked : (nc,) which bounds to compute.
    jobs : threads, each with linear programs of its own.
    progress : called with the number of contacts done and in all.
    deadline : when the linear programs must end; bounds not found by then are failures.
    """
    lower, upper, residual, pull = forces.copy(), forces.copy(), *np.zeros((2, forces.size))
    tasks = []  # chunks that keep the threads busy and progress moving
    for network in networks:
        lower[network.contacts] = upper[network.contacts] = np.nan
        columns = np.flatnonzero(asked[network.contacts])
        pieces = max(4 * jobs if jobs > 1 else 1, -(-columns.size // _CHUNK))
        chunks = np.array_split(columns, min(pieces, max(columns.size, 1)))
        tasks += [(network, chunk) for chunk in chunks if chunk.size]
    rays: list[FloatArray] = []
    failures: dict[int, str] = {}
    total, done, programs = sum(columns.size for _, columns in tasks), 0, 0
    with ThreadPoolExecutor(jobs) as pool:
        searches = pool.map(lambda task: _Search(task[0], task[1], deadline), tasks)
        for (network, columns), search in zip(tasks, searches, strict=True):
            for column, low, high in zip(columns, search.least, search.largest, strict=True):
                i, unit = int(network.contacts[column]), network.unit[column]
                worst = max(low, high, key=lambda extreme: extreme.residual)
                if worst.residual <= CERTIFIED:
                    lower[i], upper[i] = low.value * unit, high.value * unit
                    residual[i], pull[i] = worst.residual, max(low.pull, high.pull)
                else:
                    failures[i] = worst.failure
            for ray in search.rays:
                everywhere = np.zeros(forces.size)
                everywhere[network.contacts] = ray * network.unit
                rays.append(read_only(everywhere / everywhere.max()))
            programs += search.programs
            done += columns.size
            progress(done, total)
    return Bounds(lower, upper, residual, pull, tuple(rays), failures, programs)


class _Extreme(NamedTuple):
    """One bound.

    Attributes
    ----------
    value : the least or largest force, infinite when unbounded.
    residual : the worst of f's and u's infeasibility and their gap, or of the ray's.
    status : HiGHS's words for the run that the bound is from.
    pull : Σ|u|: how far the bound moves, at most, with one unit of load on every dof.
    """

    value: float = np.nan
    residual: float = np.inf
    status: str = ""
    pull: float = 0.0

    @property
    def failure(self) -> str:
        """Why it is not certified."""
        if self.status == TIME_LIMIT:
            return TIME_LIMIT
        residual = beside(self.residual, CERTIFIED, 1)
        return f"HiGHS: {self.status}; certificate {residual}, above {CERTIFIED:g}"


class _Search:
    """Bounds of some contacts of one network {f ≥ 0, Bᵀf = F}.

    A contact that is idle in an admissible answer found earlier has the lower bound zero; one that
    a ray found earlier loads has no upper bound. The largest forces come first: their vertices
    settle most of the least ones.
    """

    def __init__(self, network: FreeNetwork, columns: IntArray, deadline: Deadline) -> None:
        self.B, self.load, self.deadline = network.B, network.load, deadline
        self.rays: list[FloatArray] = []
        self.programs = 0
        self._highs = _program(network.B, network.load)
        # residuals of the proofs that the least force is zero, and that there is no largest one
        self._idle, self._endless = np.full((2, network.contacts.size), np.inf)
        self._remember(network.force, 0.0)
        self.largest = [self._extreme(int(column), -1.0) for column in columns]
        self.least = [self._extreme(int(column), 1.0) for column in columns]

    def _remember(self, forces: FloatArray, residual: float) -> None:
        idle = forces <= _ZERO
        proof = np.maximum(residual, np.abs(forces[idle]))
        self._idle[idle] = np.minimum(self._idle[idle], proof)

    def _remember_ray(self, ray: FloatArray, residual: float) -> None:
        self.rays.append(ray)
        share = ray / ray.max()
        along = share > _ALONG
        proof = residual / np.minimum(share[along], 1.0)
        self._endless[along] = np.minimum(self._endless[along], proof)

    def _extreme(self, column: int, sense: float) -> _Extreme:
        """The least (sense 1) or largest (sense −1) force of a contact."""
        proof = float((self._idle if sense > 0.0 else self._endless)[column])
        if proof <= CERTIFIED:
            return _Extreme(0.0 if sense > 0.0 else np.inf, proof)
        self.programs += 1
        if sense < 0.0 and self.B.indptr[column] == self.B.indptr[column + 1]:
            self._remember_ray(np.eye(1, self.B.shape[0], column)[0], 0.0)
            return _Extreme(np.inf, 0.0, "no motion opens or closes it")
        best = _Extreme(status=TIME_LIMIT)
        self._highs.changeColCost(column, sense)
        for attempt in _ATTEMPTS:
            if best.residual <= CERTIFIED or self.deadline.passed:
                break
            result = self._run(column, sense, *attempt)
            best = best if best.residual < result.residual else result
        self._highs.changeColCost(column, 0.0)
        return best

    def _run(
        self, column: int, sense: float, strategy: int, solver: str, presolve: str, afresh: bool
    ) -> _Extreme:
        """A bound with its residual: feasibility of f and of its dual, and the gap."""
        highs = self._highs
        highs.setOptionValue("simplex_strategy", strategy)
        highs.setOptionValue("solver", solver)
        highs.setOptionValue("presolve", presolve)
        if afresh:
            highs.clearSolver()
        seconds = min(_SECONDS, self.deadline.left)
        highs.setOptionValue("time_limit", highs.getRunTime() + seconds)  # its clock runs on
        highs.run()
        status = str(highs.modelStatusToString(highs.getModelStatus()))
        if highs.getModelStatus() == highspy.HighsModelStatus.kUnbounded and sense < 0.0:
            return self._ray(column, status)
        solution = highs.getSolution()
        f, y = np.asarray(solution.col_value), np.asarray(solution.row_dual)
        if f.shape != (self.B.shape[0],) or y.shape != (self.B.shape[1],):
            return _Extreme(status=status)
        reduced = -(self.B @ y)
        reduced[column] += sense
        value = float(f[column])
        gap = abs(sense * value - float(self.load @ y)) / max(1.0, abs(value))
        unbalanced = float(np.abs(self.B.T @ f - self.load).max(initial=0.0))
        worst = max(unbalanced, -float(min(f.min(), reduced.min())), gap)
        worst = worst if np.isfinite(worst) else np.inf
        if worst <= CERTIFIED:
            self._remember(f, worst)
        return _Extreme(max(value, 0.0), worst, status, float(np.abs(y).sum()))

    def _ray(self, column: int, status: str) -> _Extreme:
        """A direction of forces that load nothing, along which the contact's force grows."""
        _, exists, values = self._highs.getPrimalRay()
        ray = np.asarray(values, dtype=np.float64)
        if not exists or ray.shape != (self.B.shape[0],) or not ray[column] > 0.0:
            return _Extreme(np.inf, status=status)
        ray = ray / ray[column]
        unbalanced = float(np.abs(self.B.T @ ray).max(initial=0.0))
        worst = max(unbalanced, -float(ray.min())) / max(1.0, float(ray.max()))
        if worst <= CERTIFIED:
            self._remember_ray(ray, worst)
        return _Extreme(np.inf, worst, status)


def _program(B: sp.csr_array, load: FloatArray) -> Any:
    """HiGHS with the rows Bᵀf = F, f ≥ 0: the rows of B are the columns of Bᵀ."""
    n, m = B.shape
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = n, m
    model.col_cost_ = np.zeros(n)
    model.col_lower_, model.col_upper_ = np.zeros(n), np.full(n, highspy.kHighsInf)
    model.row_lower_ = model.row_upper_ = np.asarray(load, dtype=np.float64)
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_, model.a_matrix_.index_ = B.indptr, B.indices
    model.a_matrix_.value_ = B.data
    highs: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    options = {"output_flag": False, "small_matrix_value": 1e-12, "threads": 1}
    options |= dict.fromkeys(
        ("primal_feasibility_tolerance", "dual_feasibility_tolerance"), _FEASIBLE
    )
    for name, value in options.items():
        highs.setOptionValue(name, value)
    highs.passModel(model)
    return highs
