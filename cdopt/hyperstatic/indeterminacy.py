"""indeterminacy(): which forces of a contact step are unique, and the range of the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, overload

import numpy as np
import scipy.sparse as sp

from cdopt._util import checks, notebook
from cdopt._util.checks import BoolArray, FloatArray, IntArray, freeze, read_only
from cdopt._util.compiled import clock
from cdopt._util.errors import InvalidInput, SolveFailed, Unsupported
from cdopt._util.formatting import count, plain
from cdopt._util.progress import ProgressCallback, progress_bar
from cdopt.backends.base import Backend
from cdopt.backends.deadline import TIME_LIMIT, Deadline
from cdopt.formulations import CompatibleCD
from cdopt.formulations.compatible_cd import ClosedNetwork
from cdopt.hyperstatic.bounds import (
    NARROW,
    Bounds,
    FreeNetwork,
    Intervals,
    bounds_of,
    free_networks,
)
from cdopt.hyperstatic.frictional import FrictionalIndeterminacy, frictional_indeterminacy
from cdopt.hyperstatic.network import Block, Verdict, blocks, judge, self_stress_states
from cdopt.problem.contact_step import ContactStep, Step
from cdopt.problem.scales import step_scales
from cdopt.problem.solution import StepSolution
from cdopt.problem.step_problems import Law

if TYPE_CHECKING:
    import pandas as pd

_BLUR = 10.0  # forces below so many of the classic step's residuals may be zero
_DELIVERED = 1e-8  # share of what acts on a dof that forces may miss there, to be of use
_NOISE = 1e9  # errors of the classic answer, below which it cannot measure what acts
_SOLVER = "newton"  # the most accurate of cdopt's backends
_STAGES = ("classic", "compatible", "rank", "bounds")
_ROWS = 12  # contacts that printing a report shows


@dataclass(frozen=True, eq=False)
class Indeterminacy(Verdict, Bounds, Intervals):
    """Which contact forces of a step are determined, and the exact range of the others.

    The admissible forces are {f ≥ 0, Bᵀf = F̃, f = 0 on open contacts}, the set of all answers
    to the classic contact dynamics step; F̃ is what one certified answer delivers.

    Attributes
    ----------
    step : the step. classic : the certified classic solution behind F̃.
    network : the closed contacts, with their tolerances.
    rank : of the closed network's B, the number of equations that bind its forces.
    nullity : number of independent self-stress states of the closed network, dim null(Bᵀ).
    dimension : of the set of admissible forces, at most the nullity.
    closed : (nc,) gap zero at the end of the step, within ``network.tol``.
    loadable : (nc,) carries force in some admissible answer.
    looseness : (nc,) in [0, 1], length of a unit force's projection onto the self-stress states;
        zero where the force is unique, estimated for networks of over 500 dofs.
    rank_tol : share of the largest singular value below which others are zero.
    force : (nc,) N, an admissible answer: the compatible force for Hooke contacts.
    lower, upper : (nc,) N, least and largest admissible force, infinite when unbounded; the force
        where it cannot differ at all; otherwise not-a-number where not asked for.
    residual : (nc,) certificate of the bounds, in units of what acts on their network's contacts.
    pull : (nc,) how far the bounds move, at most, with one unit of load on every dof.
    rays : forces (nc,) ≥ 0 that load nothing, Bᵀf = 0, largest entry one: along them the
        admissible ones grow.
    failures : contacts whose bounds were asked for and not certified, and why.
    programs : number of linear programs that were solved.
    tol : share of what acts on a contact below which its force is zero, and the rank's tolerance.
    contacts : (n,) indices of the contacts whose bounds were asked for.
    floor : (nc,) N, below which a force is zero.
    blocks, free : the independent networks, and what is not determined in them.
    seconds : time of each stage.

    Notes
    -----
    Three words for a contact: *closed*, its gap is zero at the end of the step; *loaded*, it
    carries force in ``force``; *loadable*, it carries force in some admissible answer.
    """

    step: Step
    classic: StepSolution
    network: ClosedNetwork
    force: FloatArray
    tol: float
    contacts: IntArray
    floor: FloatArray
    blocks: tuple[Block, ...]
    free: tuple[FreeNetwork, ...]
    seconds: Mapping[str, float] = field(default_factory=dict)

    # --- counting ----------------------------------------------------------------------

    @property
    def closed_count(self) -> int:
        """Number of closed contacts: rank + nullity."""
        return int(np.count_nonzero(self.closed))

    # --- contact by contact ------------------------------------------------------------

    @property
    def loaded(self) -> BoolArray:
        """(nc,) carries force in ``force``."""
        return self.force > self.floor

    @property
    def unique(self) -> BoolArray:
        """(nc,) same force in every admissible answer; open contacts, with none, included.

        Where the bounds are known, because they are less than 1e-7 of what acts on the contact
        (``unit``) apart (or 100 times the classic step's residual); elsewhere by linear algebra: no
        self-stress state involves the contact by more than 1e-7 of its other forces.
        """
        certificate = self.classic.certificate
        share = NARROW if certificate is None else max(NARROW, 100.0 * certificate.worst)
        with np.errstate(invalid="ignore"):
            narrow = self.width <= share * self.unit
        return read_only(np.where(self.bounded & self.moving, narrow, self.tight))

    @cached_property
    def unit(self) -> FloatArray:
        """(nc,) N, what acts on each contact, at most the largest force of its network."""
        result = np.ones(self.nc)
        for network in self.free:
            result[network.contacts] = network.unit
        return read_only(result)

    @property
    def unbounded(self) -> BoolArray:
        """(nc,) known to have no upper bound."""
        along = np.isposinf(self.upper)
        return along if not self.rays else along | (np.max(self.rays, axis=0) > 1e-3)

    @property
    def bounded(self) -> BoolArray:
        """(nc,) whether both bounds are known; the upper one may be infinite."""
        return ~np.isnan(self.lower)

    # --- answers against the bounds ----------------------------------------------------

    def position(self, f: Any) -> FloatArray:
        """(nc,) where forces f (nc,) lie: 0 at the lower bound, 1 at the upper one.

        Not-a-number where the force is unique, the bounds unknown, or the upper one infinite.
        """
        forces = checks.vector("f", f, self.nc, "N")
        width = np.where(np.isfinite(self.width) & ~self.unique, self.width, np.nan)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(width > 0.0, (forces - self.lower) / width, np.nan)

    def outside(self, f: Any) -> FloatArray:
        """(nc,) N, how far forces f (nc,) are outside their bounds; not-a-number if unknown."""
        return self._beyond(checks.vector("f", f, self.nc, "N"))

    def slack(self, f: Any) -> FloatArray:
        """(nc,) N, how far f (nc,) may be outside because it is admissible only so nearly.

        By duality a force exceeds its bound by at most Σ|u| times the largest error of load,
        tension included. Not-a-number for contacts that no self-stress state involves: what
        their forces miss of F̃ is not known contact by contact.
        """
        forces = checks.vector("f", f, self.nc, "N")
        result = np.full(self.nc, np.nan)
        for network in self.free:
            scaled = forces[network.contacts] / network.unit
            missed = float(np.abs(network.B.T @ scaled - network.load).max(initial=0.0))
            missed += float(np.maximum(-scaled, 0.0).sum())
            pull = self.pull[network.contacts] + 1.0
            result[network.contacts] = missed * pull * network.unit
        return result

    # --- lazily ------------------------------------------------------------------------

    @cached_property
    def self_stress(self) -> sp.csr_array:
        """(nullity, nc) local self-stress states: forces s with Bᵀs = 0, largest entry one.

        Linearly independent rows, each of few neighbouring contacts, none with a part that is a
        self-stress state itself.

        Raises
        ------
        Unsupported : the states found do not come to the nullity.
        """
        return freeze(self_stress_states(self.blocks, self.nc, self.rank_tol))

    # --- text --------------------------------------------------------------------------

    @property
    def summary(self) -> str:
        """What is determined and what is not, in plain words."""
        closed, free = self.closed_count, int(np.count_nonzero(self.closed & ~self.unique))
        text = (
            f"{count(self.nc, 'contact')}, {closed:,} closed, bound by "
            f"{count(self.rank, 'equation')}: {count(self.nullity, 'self-stress state')}. "
        )
        if not free:
            return text + "Every force is determined."
        text += f"{closed - free:,} of {count(closed, 'force')} determined, {free:,} not"
        width = np.where(np.isfinite(self.width) & ~self.unique, self.width, 0.0)
        return text + self._ranges(width, self.unit)

    def verdict_of(self, contact: int) -> str:
        """One word for a contact: open, unique, unbounded, undetermined or failed."""
        contact = checks.index("contact", contact, self.nc)
        if not self.closed[contact]:
            return "open"
        if self.unique[contact]:
            return "unique"
        if contact in self.failures:
            return "failed"
        return "unbounded" if self.unbounded[contact] else "undetermined"

    def as_dict(self, contacts: bool = True) -> dict[str, Any]:
        """Plain values for JSON; what is unknown or infinite is None.

        Parameters
        ----------
        contacts : whether to include one record per contact.
        """
        content: dict[str, Any] = {
            "contacts": self.nc,
            "closed": self.closed_count,
            "closed_tol": self.network.tol,
            "rank": self.rank,
            "rank_tol": self.rank_tol,
            "nullity": self.nullity,
            "dimension": self.dimension,
            "unique": int(np.count_nonzero(self.closed & self.unique)),
            "linear_programs": self.programs,
            "failures": {self.names[i]: why for i, why in self.failures.items()},
            "classic": self.classic.backend,
            "seconds": self.seconds,
            "summary": self.summary,
        }
        if contacts:
            columns = self._columns()
            rows = zip(*columns.values(), strict=True)
            content["forces"] = [dict(zip(columns, row, strict=True)) for row in rows]
        return dict(plain(content))

    def to_frame(self) -> pd.DataFrame:
        """A row for each contact as a pandas.DataFrame, its name the index.

        Columns: ``verdict`` (as ``verdict_of``), ``lower``, ``upper`` and ``force`` in N,
        ``looseness`` and ``residual``; not-a-number where unknown.
        """
        return notebook.data_frame(self._columns(), index="contact")

    def _columns(self) -> dict[str, Any]:
        names = ("lower", "upper", "force", "looseness", "residual")
        verdicts = [self.verdict_of(i) for i in range(self.nc)]
        numbers = {name: getattr(self, name) for name in names}
        return {"contact": self.names, "verdict": verdicts, **numbers}

    def _shown(self) -> tuple[list[tuple[str, str, str, str]], str]:
        """Contact, verdict and bounds of the loosest contacts, and how many more there are."""
        shown = np.flatnonzero(self.bounded | ~self.unique)
        width = np.where(np.isnan(self.width[shown]), -1.0, self.width[shown])
        rows = []
        for i in np.sort(shown[np.argsort(-width, kind="stable")[:_ROWS]]).tolist():
            low, high = (f"{x:,.5g}" for x in self._ends(i, self.unit[i]))
            rows.append((self.names[i], self.verdict_of(i), low, high))
        more = f"and {shown.size - _ROWS:,} more" if shown.size > _ROWS else ""
        return rows, more

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        rows, more = self._shown()
        header = ("contact", "verdict", "lower [N]", "upper [N]")
        return notebook.table("Indeterminacy", header, rows, more, self.summary, left=2)

    def __str__(self) -> str:
        rows, more = self._shown()
        lines = [self.summary, "", f"{'contact':<14}{'lower':>12}{'upper':>12}  [N]"]
        lines += [f"{name:<14}{low:>12}{high:>12}  {word}" for name, word, low, high in rows]
        return "\n".join([*lines, more] if more else lines)


# --- the analysis ----------------------------------------------------------------------------


@overload
def indeterminacy(
    step: Step,
    classic: str | Backend | StepSolution | None = None,
    contacts: Any = None,
    tol: float = 1e-9,
    jobs: int = 1,
    progress: bool | ProgressCallback = False,
    *,
    closed_tol: float | None = None,
    time_limit: float | None = None,
    law: None = None,
) -> Indeterminacy: ...
@overload
def indeterminacy(
    step: Step,
    classic: str | Backend | StepSolution | None = None,
    contacts: Any = None,
    tol: float = 1e-9,
    jobs: int = 1,
    progress: bool | ProgressCallback = False,
    *,
    closed_tol: float | None = None,
    time_limit: float | None = None,
    law: str,
) -> FrictionalIndeterminacy: ...
def indeterminacy(
    step: Step,
    classic: str | Backend | StepSolution | None = None,
    contacts: Any = None,
    tol: Annotated[float, checks.number(above=0.0, at_most=1e-3)] = 1e-9,
    jobs: Annotated[int, checks.integer(1, 1024)] = 1,
    progress: bool | ProgressCallback = False,
    *,
    closed_tol: checks.Tolerance | None = None,
    time_limit: checks.NotNegative | None = None,
    law: Law | None = None,
) -> Indeterminacy | FrictionalIndeterminacy:
    """What classic contact dynamics leaves undetermined, exactly.

    Parameters
    ----------
    step : the contact step.
    classic : a certified classic solution of it, or the backend that finds one; default newton.
    contacts : whose bounds to compute: indices or a mask (nc,); a number k for k contacts evenly
        spread over those whose force is not unique; an empty list for none; default all.
    tol : share of what acts on a contact below which its force is zero, and of the largest singular
        value below which others are zero (at least 1e-7 for networks of over 500 dofs). Results at
        other ``tol`` and ``closed_tol`` show how far they depend on these.
    jobs : threads for the linear or cone programs.
    progress : True for a bar on stderr, or a function of (done, total).
    closed_tol : which contacts are closed, as in ``CompatibleCD``.
    time_limit : seconds for all of it; None for none. Bounds not certified by then are
        not-a-number and listed in ``failures`` as "time limit". The linear algebra of the rank is
        not interrupted.
    law : of a step with friction, "coulomb" or "associated": the report is then that of cone
        programs, ``cdopt.hyperstatic.FrictionalIndeterminacy``, and ``classic`` an answer of
        ``FrictionalCD`` or the backend that finds one. ``contacts`` are by default all.

    Returns
    -------
    Indeterminacy : rank, self-stress states, unique forces, and the bounds of the others.

    Raises
    ------
    InvalidInput : a bad argument, or a classic solution that is not certified.
    SolveFailed : the classic step has no certified answer, or no time was left for the rank after
        it; infeasible ones carry a proof.
    Unsupported : a network too large and too ill-conditioned for its rank; ``tol`` with
        friction.

    Notes
    -----
    Only null(Bᵀ) matters for counting, Olsen & Kamrin (2018), section 4; bounds are linear
    programs over the set of answers, certified by their duals. The load F̃ is that of the classic
    answer. The bounds inherit what its certificate leaves open (the force on a body beside one
    1e10 times as heavy, or on a lever of 1e-5), so that a sharp classic answer is worth its time.

    >>> import cdopt
    >>> report = cdopt.indeterminacy(cdopt.bank.load("beam-uniform").step)
    >>> report.nullity, report.lower.round(6), report.upper.round(6)
    (1, array([0., 0., 0.]), array([ 5., 10.,  5.]))
    """
    deadline = Deadline.after(time_limit)
    if law is not None:
        if tol != 1e-9:
            raise Unsupported("indeterminacy", "tol is without friction")
        asked = _asked(contacts, np.ones(step.nc, dtype=bool))
        return frictional_indeterminacy(
            step, law, classic, asked, progress, closed_tol, jobs, deadline
        )
    if step.friction is not None and np.any(step.friction.mu > 0.0):
        instead = ('law="coulomb"', "without it, step.without_friction()")
        raise Unsupported("indeterminacy without law", "the step has friction", instead)
    problem = CompatibleCD(step, closed_tol=closed_tol)
    times = [clock()]
    first = _certified(problem, classic, deadline)
    times.append(clock())
    closed = problem.network(first)
    forces = _admissible(problem, first, closed, deadline)
    times.append(clock())
    parts, unit, floor = _parts_of(problem, first, closed, tol)
    forces = np.where(forces > floor, forces, 0.0)
    verdict = judge(parts, forces, floor, tol)
    times.append(clock())
    networks = free_networks(parts, verdict, forces, unit)
    asked = _asked(contacts, ~verdict.tight)
    mask = np.zeros(step.nc, dtype=bool)
    mask[asked] = True
    with progress_bar(progress, "forces bounded") as update:
        bounds = bounds_of(networks, forces, mask, jobs, update, deadline)
    times.append(clock())
    return Indeterminacy(
        **vars(verdict),
        **vars(bounds),
        step=step,
        classic=first,
        network=closed,
        force=forces,
        tol=tol,
        contacts=asked,
        floor=floor,
        blocks=tuple(parts),
        free=tuple(networks),
        seconds=dict(zip(_STAGES, np.diff(times).tolist(), strict=True)),
    )


def _certified(
    problem: CompatibleCD, classic: str | Backend | StepSolution | None, deadline: Deadline
) -> StepSolution:
    """A classic solution whose certificate holds."""
    if isinstance(classic, StepSolution):
        first = problem.certified_here(classic.classic or classic)
    else:
        first = problem.classic_cd.solve(classic or _SOLVER, time_limit=deadline.time_limit)
    if first.ok:
        return first
    worst = first.certificate.shown if first.certificate else "nan"
    outcome = f"{first.backend} left a residual of {worst}, {first.status}"
    if isinstance(classic, StepSolution):
        raise InvalidInput("classic", outcome, "a certified classic solution of this step")
    message = f"the classic step is not certified: {outcome}; its admissible forces are not known"
    data, backend = problem.classic_cd.data, first.backend
    raise SolveFailed(message, backend=backend, status=first.status, problem=data, raw=first.raw)


def _admissible(
    problem: CompatibleCD, first: StepSolution, network: ClosedNetwork, deadline: Deadline
) -> FloatArray:
    """Compatible forces (nc,) where they are certified and deliver F̃; else the classic ones.

    Compatible forces load as many contacts as can be, so that less is left to linear programs. They
    must deliver F̃ on every dof as measured by what acts there, contact forces, its load and its
    momentum over Δt, at least ``_NOISE`` times its imbalance. Beside a body 1e8 times as heavy,
    forces right to 1e-13 of its weight are not enough.
    """
    compatible = problem.solve(_SOLVER, classic=first, time_limit=deadline.time_limit)
    if deadline.passed:
        raise SolveFailed(
            "time limit: it passed before the rank of the network; the classic forces are in raw",
            backend=first.backend,
            status=TIME_LIMIT,
            problem=problem.classic_cd.data,
            raw=first,
        )
    step, f, after = problem.step, first.f, first.v_next
    if not compatible.ok or compatible.f is None:
        return network.forces
    if not isinstance(step, ContactStep) or f is None or after is None:
        return compatible.f
    M, B, v, load = step.M, step.B, step.v, step.F_ext
    acting = abs(B).T @ np.abs(f) + np.abs(load) + abs(M) @ np.abs(v) / step.dt
    imbalance = M @ (after - v) / step.dt - load - B.T @ f
    acting = np.maximum(acting, _NOISE * np.abs(imbalance))
    missed = np.abs(B.T @ compatible.f - network.contact_load)
    return compatible.f if np.all(missed <= _DELIVERED * acting) else network.forces


def _parts_of(
    problem: CompatibleCD, first: StepSolution, network: ClosedNetwork, tol: float
) -> tuple[list[Block], FloatArray, FloatArray]:
    """The parts of the closed network, (nc,) what acts on each contact, and what is no force, N.

    Closed contacts that no motion opens or closes, which compatibility leaves unloaded, are added.
    """
    data, index = problem.classic_cd.data, network.contacts
    largest = np.full(problem.step.nc, np.inf)
    worst = first.certificate.worst if first.certificate else 0.0
    gradient = sp.csr_array((0, 1))
    if index.size:
        truss = problem.truss(network).data
        largest[index] = truss.force
        gradient = truss.scaled().B
    rows = data.B if data.N is None else data.N
    gap = np.full(problem.step.nc, np.inf) if first.gap is None else first.gap
    stuck = np.flatnonzero((np.diff(rows.indptr) == 0) & (gap <= network.gap_tol))
    largest[stuck] = data.force[stuck]
    local = data.scales.local(first.v_next, np.asarray(first.f))
    acting = step_scales(data).acting_force(local)
    unit = np.where(acting > 0.0, np.minimum(acting, largest), largest)
    uncertain = _BLUR * worst * np.minimum(local.speed / data.mobility, largest)
    nothing = sp.csr_array((stuck.size, gradient.shape[1]))
    parts = blocks(sp.csr_array(sp.vstack([gradient, nothing])), np.append(index, stuck))
    return parts, unit, np.maximum(max(tol, _BLUR * worst) * unit, uncertain)


def _asked(contacts: Any, free: Any) -> IntArray:
    """The contacts whose bounds were asked for, ascending."""
    nc = free.size
    if contacts is None:
        return np.arange(nc)
    if isinstance(contacts, int | np.integer) and not isinstance(contacts, bool):
        if contacts < 0:
            raise InvalidInput("contacts", str(contacts), "a number of contacts, or indices")
        loose = np.flatnonzero(free)
        spread = np.linspace(0, max(loose.size - 1, 0), min(int(contacts), loose.size))
        return loose[np.unique(np.round(spread).astype(np.int64))]
    return np.unique(checks.positions("contacts", contacts, nc))
