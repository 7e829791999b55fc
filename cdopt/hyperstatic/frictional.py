"""What a step with friction leaves undetermined: dimension, and certified intervals of forces.

The set of admissible forces and its cone programs are in ``force_set``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from cdopt._util import checks, notebook
from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt._util.compiled import clock
from cdopt._util.errors import InvalidInput
from cdopt._util.formatting import count, plain
from cdopt._util.progress import ProgressCallback, progress_bar
from cdopt.backends.base import Backend
from cdopt.backends.deadline import TIME_LIMIT, Deadline
from cdopt.formulations import FrictionalCD
from cdopt.formulations.friction_network import OPEN, RESTING, SLIDING, Faces, solved_faces
from cdopt.hyperstatic.bounds import NARROW, Intervals
from cdopt.hyperstatic.force_set import ForceSet
from cdopt.problem.contact_step import Step
from cdopt.problem.solution import StepSolution

if TYPE_CHECKING:
    import pandas as pd

CERTIFIED = 1e-6  # of the largest force: bounds further from attained forces are failures


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


_WORDS = {RESTING: "resting", SLIDING: "sliding", OPEN: "open"}


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
