"""What indeterminacy() finds: which forces are determined, and how far the others may range."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.checks import BoolArray, FloatArray, IntArray, freeze, read_only
from cdopt._util.frozen import Frozen
from cdopt.formulations.compatible_cd import ClosedNetwork
from cdopt.hyperstatic.admissible import Block, Verdict
from cdopt.hyperstatic.bounds import Bounds, Free
from cdopt.hyperstatic.self_stress import self_stress_states
from cdopt.problem.contact_step import ContactStep
from cdopt.problem.solution import StepSolution

_WIDE = 1e-7  # an interval wider than this share of what acts on its contact is one
_ROWS = 12  # contacts that printing a report shows


@dataclass(frozen=True)
class Tolerances:
    """The verdict at one pair of tolerances.

    Attributes
    ----------
    closed_tol : a contact is closed when its gap speed is within this share of its network's.
    rank_tol : share of the largest singular value below which others are zero.
    closed, rank, nullity, dimension : as in ``Indeterminacy``.
    unique : number of closed contacts with a unique force.
    """

    closed_tol: float
    rank_tol: float
    closed: int
    rank: int
    nullity: int
    dimension: int
    unique: int


@dataclass(frozen=True, eq=False)
class Indeterminacy(Frozen):
    """Which contact forces of a step are determined, and the exact range of the others.

    The admissible forces are {f ≥ 0, Bᵀf = F̃, f = 0 on open contacts}, the set of all answers
    to the classic contact dynamics step; F̃ is what one certified answer delivers.

    Attributes
    ----------
    step : the step. classic : the certified classic solution behind F̃.
    network : the closed contacts, with their tolerances.
    force : (nc,) N, an admissible answer: the compatible force for Hooke contacts.
    verdict : rank, loadable contacts and looseness. intervals : the bounds and their evidence.
    tol : share of what acts on a contact below which its force is zero, and the rank's tolerance.
    contacts : (n,) indices of the contacts whose bounds were asked for.
    floor : (nc,) N, below which a force is zero.
    blocks, free : the independent networks, and what is not determined in them.
    weigh : gives the verdict at other tolerances.
    seconds : time of each stage.

    Notes
    -----
    Three words for a contact: *closed*, its gap is zero at the end of the step; *loaded*, it
    carries force in ``force``; *loadable*, it carries force in some admissible answer.
    """

    step: ContactStep
    classic: StepSolution
    network: ClosedNetwork
    force: FloatArray
    verdict: Verdict
    intervals: Bounds
    tol: float
    contacts: IntArray
    floor: FloatArray
    blocks: tuple[Block, ...]
    free: tuple[Free, ...]
    weigh: Callable[[float, float], Tolerances] = field(repr=False)
    seconds: Mapping[str, float] = field(default_factory=dict)

    # --- counting ----------------------------------------------------------------------

    @property
    def nc(self) -> int:
        """Number of contacts."""
        return self.step.nc

    @property
    def rank(self) -> int:
        """Rank of the closed network's B: the equations that bind its forces."""
        return self.verdict.rank

    @property
    def nullity(self) -> int:
        """Number of independent self-stress states of the closed network, dim null(Bᵀ)."""
        return self.verdict.nullity

    @property
    def dimension(self) -> int:
        """Dimension of the set of admissible forces, at most the nullity."""
        return self.verdict.dimension

    @property
    def closed_count(self) -> int:
        """Number of closed contacts: rank + nullity."""
        return int(np.count_nonzero(self.closed))

    # --- contact by contact ------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        """The contacts' names: their ids, or their numbers."""
        ids = self.step.contact_ids
        return [str(name) for name in (range(self.nc) if ids is None else ids.tolist())]

    @property
    def closed(self) -> BoolArray:
        """(nc,) gap zero at the end of the step, within ``network.tol``."""
        return self.verdict.closed

    @property
    def loaded(self) -> BoolArray:
        """(nc,) carries force in ``force``."""
        return self.force > self.floor

    @property
    def loadable(self) -> BoolArray:
        """(nc,) carries force in some admissible answer."""
        return self.verdict.loadable

    @property
    def unique(self) -> BoolArray:
        """(nc,) same force in every admissible answer; open contacts, with none, included.

        Where the bounds are known, because they are less than 1e-7 of what acts on the contact
        (``unit``) apart (or 100 times the classic step's residual); elsewhere by linear algebra: no
        self-stress state involves the contact by more than 1e-7 of its other forces.
        """
        held = self.classic.certificate
        blur = _WIDE if held is None else max(_WIDE, 100.0 * held.worst)
        with np.errstate(invalid="ignore"):
            narrow = self.width <= blur * self.unit
        return read_only(np.where(self.bounded & self.verdict.moving, narrow, self.verdict.tight))

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
        along = np.isposinf(self.intervals.upper)
        return along if not self.rays else along | (np.max(self.rays, axis=0) > 1e-3)

    @property
    def rays(self) -> tuple[FloatArray, ...]:
        """Forces (nc,) ≥ 0 that load nothing, Bᵀf = 0: along them the admissible ones grow."""
        return self.intervals.rays

    @property
    def looseness(self) -> FloatArray:
        """(nc,) in [0, 1], length of a unit force's projection onto the self-stress states.

        Zero where the force is unique; estimated for large networks
        (``cdopt.hyperstatic.rank``).
        """
        return self.verdict.looseness

    @property
    def lower(self) -> FloatArray:
        """(nc,) N, least admissible force; the force where it cannot differ at all; otherwise
        not-a-number where not asked for."""
        return self.intervals.lower

    @property
    def upper(self) -> FloatArray:
        """(nc,) N, largest admissible force, infinite when unbounded."""
        return self.intervals.upper

    @property
    def width(self) -> FloatArray:
        """(nc,) N, upper minus lower."""
        return self.upper - self.lower

    @property
    def bounded(self) -> BoolArray:
        """(nc,) whether both bounds are known; the upper one may be infinite."""
        return ~np.isnan(self.lower)

    @property
    def residual(self) -> FloatArray:
        """(nc,) certificate of the bounds, in units of what acts on their network's contacts."""
        return self.intervals.residual

    @property
    def failures(self) -> dict[int, str]:
        """Contacts whose bounds were asked for and not certified, and why."""
        return self.intervals.failures

    @property
    def ok(self) -> bool:
        """Whether every bound that was asked for is certified."""
        return not self.failures

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
        forces = checks.vector("f", f, self.nc, "N")
        return np.maximum(np.maximum(self.lower - forces, forces - self.upper), 0.0)

    def slack(self, f: Any) -> FloatArray:
        """(nc,) N, how far f (nc,) may be outside because it is admissible only so nearly.

        By duality a force exceeds its bound by at most Σ|u| times the largest error of load,
        tension included. Not-a-number for contacts that no self-stress state involves: what
        their forces miss of F̃ is not known contact by contact.
        """
        forces = checks.vector("f", f, self.nc, "N")
        result = np.full(self.nc, np.nan)
        for network in self.free:
            own = forces[network.contacts] / network.unit
            missed = float(np.abs(network.B.T @ own - network.load).max(initial=0.0))
            missed += float(np.maximum(-own, 0.0).sum())
            pull = self.intervals.pull[network.contacts] + 1.0
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
        return freeze(self_stress_states(self.blocks, self.nc, self.verdict.rank_tol))

    @cached_property
    def by_tolerance(self) -> tuple[Tolerances, ...]:
        """The verdict at tolerances a hundred times smaller and larger than those used."""
        closed, rank = self.network.tol, self.verdict.rank_tol
        pairs = [(closed * c, rank) for c in (0.01, 1.0, 100.0)]
        pairs += [(closed, rank * r) for r in (0.01, 100.0)]
        return tuple(self.weigh(min(c, 1.0), min(r, 0.1)) for c, r in pairs)

    # --- words -------------------------------------------------------------------------

    @property
    def summary(self) -> str:
        """What is determined and what is not, in plain words."""
        shut = self.closed_count
        text = f"{_count(self.nc, 'contact')}, {shut:,} closed, bound by "
        text += f"{_count(self.rank, 'equation')}: {_count(self.nullity, 'self-stress state')}. "
        apart = int(np.count_nonzero(self.closed & ~self.unique))
        if not apart:
            return text + "Every force is determined."
        text += f"{shut - apart:,} of {_count(shut, 'force')} determined, {apart:,} not"
        widest = self._widest()
        if widest is not None:
            low, high = self.lower[widest], self.upper[widest]
            where = f"[{low:.4g}, {high:.4g}] N, at contact {self.names[widest]}"
            text += f"; the widest interval is {where}"
        endless = int(np.count_nonzero(self.unbounded))
        if endless:
            text += f"; {_count(endless, 'force')} without upper bound"
        failed = len(self.failures)
        return text + (f". The bounds of {_count(failed, 'contact')} failed." if failed else ".")

    def _widest(self) -> int | None:
        width = np.where(np.isfinite(self.width) & ~self.unique, self.width, -1.0)
        most = float(width.max(initial=-1.0))
        return int(np.argmax(width >= most * (1.0 - 1e-6))) if most > 0.0 else None

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
            "rank_tol": self.verdict.rank_tol,
            "nullity": self.nullity,
            "dimension": self.dimension,
            "unique": int(np.count_nonzero(self.closed & self.unique)),
            "linear_programs": self.intervals.programs,
            "failures": {self.names[i]: why for i, why in self.failures.items()},
            "classic": self.classic.backend,
            "seconds": dict(self.seconds),
            "summary": self.summary,
        }
        if contacts:
            content["forces"] = [self._record(i) for i in range(self.nc)]
        return content

    def _record(self, i: int) -> dict[str, Any]:
        numbers = {"lower": self.lower[i], "upper": self.upper[i], "force": self.force[i]}
        return {
            "contact": self.names[i],
            "verdict": self.verdict_of(i),
            **{name: float(x) if np.isfinite(x) else None for name, x in numbers.items()},
            "looseness": float(self.looseness[i]),
            "residual": float(self.residual[i]),
        }

    def __str__(self) -> str:
        shown = np.flatnonzero(self.bounded | ~self.unique)
        width = np.where(np.isnan(self.width[shown]), -1.0, self.width[shown])
        first = np.sort(shown[np.argsort(-width, kind="stable")[:_ROWS]])
        lines = [self.summary, "", f"{'contact':<14}{'lower':>12}{'upper':>12}  [N]"]
        for i in first.tolist():
            ends = "".join(f"{x:>12.5g}" for x in (self.lower[i], self.upper[i]))
            lines.append(f"{self.names[i]:<14}{ends}  {self.verdict_of(i)}")
        if shown.size > first.size:
            lines.append(f"and {shown.size - first.size} more")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Indeterminacy({self.summary})"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
