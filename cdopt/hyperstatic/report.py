"""Indeterminacy: what a contact step leaves undetermined, and the range of its forces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from cdopt._util import checks, notebook
from cdopt._util.cached import cached_property
from cdopt._util.checks import BoolArray, FloatArray, IntArray, freeze, read_only
from cdopt._util.errors import InvalidInput, Unsupported
from cdopt._util.formatting import count, plain, short
from cdopt._util.frozen import Frozen
from cdopt.backends.deadline import NEVER
from cdopt.formulations.faces import Faces
from cdopt.hyperstatic.admissible import ForcePart, contacts_of, coordinates
from cdopt.hyperstatic.bounds import bounds_of
from cdopt.hyperstatic.free_network import FreeNetwork
from cdopt.hyperstatic.joint_reactions import JointReactions
from cdopt.hyperstatic.mobilised import mobilised
from cdopt.hyperstatic.network import SILENT, STIFF, self_stress_states
from cdopt.hyperstatic.quantities import Quantity
from cdopt.problem.cones import OPEN, RESTING, SLIDING
from cdopt.problem.solution import StepSolution
from cdopt.problem.step import Step

if TYPE_CHECKING:
    import pandas as pd

NARROW = 1e-7  # a narrower interval, over the local load, is one force
_UNSURE = 100.0  # intervals below this many residuals of the answer are one force, too
_GROWS = 1e-4  # contacts above this share of a ray's largest force have no upper bound
_ROWS = 12  # contacts that printing a report shows
_WORDS = {RESTING: "resting", SLIDING: "sliding", OPEN: "open"}


@dataclass(frozen=True, eq=False)
class Indeterminacy(Frozen):
    """Which contact forces of a step are determined, and the exact range of the others.

    The admissible forces are all that cause the motion of the step: {f on the faces of the friction
    cones that the motion selects, Bᵀf = F̃}. Without friction these are all answers of classic
    contact dynamics, {f ≥ 0, Bᵀf = F̃, f = 0 on open contacts}. A force has d components: 1 without
    friction, 2 in the plane, 3 in space. Rows are all components, contact by contact, the normal
    one first: nc d of them.

    Attributes
    ----------
    step : the step. law : of its friction, "coulomb" or "associated"; None without friction.
    solution : the certified answer whose motion fixes the faces, and the load F̃.
    faces : open, sliding and resting contacts, with the load and the tolerance.
    rank : number of independent equations of balance for the forces on the faces.
    nullity : number of independent self-stress states on the faces.
    dimension : of the set of admissible forces. It is at most the nullity, and less if some
        contacts cannot carry a force, or only a force on the surface of the cone.
    reduced : (nc,) what each contact can carry: 0 no force, 1 a force on a ray, 2 in its cone.
    looseness : (nc,) in [0, 1], length of the projection of a unit force onto the self-stress
        states; zero if the force is unique, estimated for networks of over 500 dofs.
    rank_tol : singular values below this share of the largest count as zero.
    force, force_t : (nc,) and (nc, d − 1) N, an admissible answer: without friction the compatible
        forces of Hooke contacts. ``force_t`` is None without friction; so are the others.
    lower, upper : (nc,) N, smallest and largest admissible normal force; infinite if unbounded, NaN
        if not requested.
    lower_t, upper_t : (nc, d − 1) N, the same of the tangential components, then N·m of moments of
        contacts that resist rolling and spinning; d includes these.
    residual : (nc d,) certificate of the bounds, in units of their network's local loads.
    load_sensitivity : (nc d,) largest change of the bounds, N per N or N·m of load on every dof.
    rays : self-balanced forces (nc d,), Bᵀf = 0, largest entry one, along which admissible forces
        grow without bound. Without requested bounds, those of half-lines are not computed.
    failures : contacts whose requested bounds are not certified, and why.
    quantities : those requested, by name.
    programs : number of linear and cone programs that were solved.
    tol : forces below this share of the local load count as zero.
    contacts : (n,) indices of the contacts with requested bounds.
    floor : (nc,) N, forces below it count as zero.
    uncertain : (nc,) N, error of determined forces due to round-off of the data or errors of the
        solution, if it is above 1e-6 of the local load; the bounds include it.
    parts : the independent parts of the forces on the faces.
    free : the independent networks whose forces are not unique.
    determined : (nc d,) N, the forces outside them.
    joints : bounds of the reactions of joints, infinite if dependent rows of J leave them
        undetermined; None without joints.
    reactions : of joints, as functions of the contact forces; None without joints.
    seconds : time of each stage.

    Notes
    -----
    Three terms for a contact: *closed*, its gap is zero at the end of the step; *loaded*, it
    carries force in ``force``; *loadable*, it carries force in some admissible answer.
    """

    step: Step
    law: str | None
    solution: StepSolution
    faces: Faces
    rank: int
    nullity: int
    dimension: int
    reduced: IntArray
    looseness: FloatArray
    rank_tol: float
    force: FloatArray
    force_t: FloatArray | None
    lower: FloatArray
    upper: FloatArray
    lower_t: FloatArray | None
    upper_t: FloatArray | None
    residual: FloatArray
    load_sensitivity: FloatArray
    rays: tuple[FloatArray, ...]
    failures: Mapping[int, str]
    quantities: Mapping[str, Quantity]
    programs: int
    tol: float
    contacts: IntArray
    floor: FloatArray
    uncertain: FloatArray
    parts: tuple[ForcePart, ...]
    free: tuple[FreeNetwork, ...]
    determined: FloatArray
    joints: Quantity | None = None
    reactions: JointReactions | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)

    # --- counting ----------------------------------------------------------------------

    @property
    def nc(self) -> int:
        """Number of contacts."""
        return self.step.nc

    @property
    def d(self) -> int:
        """Components of a force: 1 without friction, 2 in the plane, 3 in space."""
        return int(self.faces.ray.shape[1])

    @property
    def closed_count(self) -> int:
        """Number of closed contacts; without friction rank + nullity."""
        return int(np.count_nonzero(self.closed))

    # --- contact by contact ------------------------------------------------------------

    @cached_property
    def names(self) -> list[str]:
        """The contacts' names, as ``step.contact_names``."""
        return self.step.contact_names

    @property
    def closed(self) -> BoolArray:
        """(nc,) gap zero at the end of the step, within ``faces.tol``."""
        return read_only(self.faces.status != OPEN)

    @property
    def loaded(self) -> BoolArray:
        """(nc,) carries force in ``force``."""
        return np.asarray(self.force > self.floor)

    @property
    def loadable(self) -> BoolArray:
        """(nc,) carries force in some admissible answer."""
        return read_only(self.reduced != OPEN)

    @property
    def in_self_stress(self) -> BoolArray:
        """(nc,) contacts with a nonzero entry in a self-stress state."""
        return read_only(self.looseness > SILENT)

    @property
    def unique(self) -> BoolArray:
        """(nc,) same force in every admissible answer; open contacts, with none, included.

        If bounds are known, those of all components differ by less than 1e-7 of the local load
        ``unit`` (or 100 times the residual of the solution); otherwise no self-stress state has an
        entry at the contact above 1e-7 of its largest. An ``uncertain`` force is not unique.
        """
        with np.errstate(invalid="ignore"):
            narrow = (self._width <= self._narrow[:, None]).all(axis=1)
        same = np.where(self.bounded & self.in_self_stress, narrow, self.looseness <= STIFF)
        return read_only(same & (self.uncertain == 0.0))

    @property
    def _narrow(self) -> FloatArray:
        """(nc,) N, width of an interval that is one force."""
        certificate = self.solution.certificate
        worst = 0.0 if certificate is None or self.law is not None else certificate.worst
        return max(NARROW, _UNSURE * worst) * self.unit

    @cached_property
    def unit(self) -> FloatArray:
        """(nc,) N, the local load of each contact, at most the largest force of its network."""
        result = np.zeros(self.nc)
        for network in self.free:
            np.maximum.at(result, contacts_of(network.G, self.d), network.unit)
        return read_only(np.where(result > 0.0, result, 1.0))

    @property
    def width(self) -> FloatArray:
        """(nc,) N, upper minus lower, of the normal forces."""
        return self._width[:, 0]

    @property
    def width_t(self) -> FloatArray | None:
        """(nc, d − 1) N, the same of the tangential components; None without friction."""
        return None if self.law is None else self._width[:, 1:]

    @property
    def _width(self) -> FloatArray:
        """(nc, d) N."""
        lower, upper = self.intervals
        with np.errstate(invalid="ignore"):
            return np.asarray(upper - lower)

    @property
    def intervals(self) -> tuple[FloatArray, FloatArray]:
        """(nc, d) and (nc, d) N, lower and upper bounds of all components, the normal one first."""
        lower, upper = [self.lower], [self.upper]
        if self.lower_t is not None and self.upper_t is not None:
            lower, upper = [*lower, *self.lower_t.T], [*upper, *self.upper_t.T]
        return np.column_stack(lower), np.column_stack(upper)

    @property
    def unbounded(self) -> BoolArray:
        """(nc,) known to have no upper bound."""
        along: BoolArray = np.isposinf(self.upper)
        for ray in self.rays:
            along |= ray[:: self.d] > _GROWS
        return along

    @property
    def bounded(self) -> BoolArray:
        """(nc,) whether the bounds are known; they may be infinite."""
        return np.asarray(~np.isnan(self.intervals[0]).any(axis=1))

    @property
    def ok(self) -> bool:
        """Whether every requested bound is certified."""
        joints = [] if self.joints is None else [self.joints]
        return not self.failures and all(q.ok for q in [*self.quantities.values(), *joints])

    # --- answers against the bounds ----------------------------------------------------

    def components(self, f: Any, f_t: Any = None) -> FloatArray:
        """(nc, d) N of normal forces f (nc,), and with friction tangential ones f_t (nc, d − 1).

        Raises
        ------
        InvalidInput : forces of other contacts, or of another number of components.
        """
        normal = checks.vector("f", f, self.nc, "N")
        if self.law is None:
            return normal[:, None]
        return np.column_stack([normal, checks.numbers("f_t", f_t, (self.nc, self.d - 1), "N")])

    def position(self, f: Any, f_t: Any = None) -> FloatArray:
        """(nc d,) position of each component of forces: 0 at the lower bound, 1 at the upper one.

        Not-a-number where the component is unique, its bounds unknown, or one of them infinite.

        Parameters
        ----------
        f, f_t : as in ``components``, with its errors.
        """
        forces, (lower, _), width = self.components(f, f_t), self.intervals, self._width
        differs = np.isfinite(width) & ~self.unique[:, None]
        if self.law is not None:
            differs &= width > self._narrow[:, None]
        width = np.where(differs, width, np.nan)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(width > 0.0, (forces - lower) / width, np.nan).ravel()

    def outside(self, f: Any, f_t: Any = None) -> FloatArray:
        """(nc d,) N, how far each component is outside its bounds; not-a-number if unknown.

        Parameters
        ----------
        f, f_t : as in ``components``, with its errors.
        """
        forces, (lower, upper) = self.components(f, f_t), self.intervals
        return np.maximum(np.maximum(lower - forces, forces - upper), 0.0).ravel()

    def slack(self, f: Any) -> FloatArray:
        """(nc,) N, how far f (nc,) may be outside its bounds due to its errors of load.

        By duality a force exceeds its bound by at most Σ|u| times the largest error of load,
        including tension. NaN for contacts in no self-stress state.

        Raises
        ------
        Unsupported : a report with friction.
        """
        if self.law is not None:
            raise Unsupported("slack", "the report is of forces with friction", ("outside",))
        forces = checks.vector("f", f, self.nc, "N")
        result = np.full(self.nc, np.nan)
        for network in self.free:
            contact = contacts_of(network.G, 1)
            scaled = forces[contact] / network.unit
            missed = float(np.abs(network.B.T @ scaled - network.load).max(initial=0.0))
            missed += float(np.maximum(-scaled, 0.0).sum())
            result[contact] = missed * (self.load_sensitivity[contact] + 1.0) * network.unit
        return result

    # --- on demand ---------------------------------------------------------------------

    def quantity(self, name: str) -> Quantity:
        """The bounds of a quantity requested from ``indeterminacy``.

        Raises
        ------
        InvalidInput : no such quantity.
        """
        known = checks.choice("name", name, self.quantities)
        return self.quantities[known]

    @cached_property
    def self_stress(self) -> sp.csr_array:
        """(nullity, nc d) local self-stress states: forces s with Bᵀs = 0, largest entry one.

        With joints (nullity, nc d + nj): their reactions come last. Rows are linearly independent;
        each has few neighbouring contacts, and none contains a smaller self-stress state.

        Raises
        ------
        Unsupported : the number of states differs from the nullity.
        """
        G, _, _ = coordinates(self.faces)
        pieces = [(part.index, part.B, part.length) for part in self.parts]
        states = self_stress_states(pieces, G.shape[1], self.rank_tol)
        if self.reactions is not None:
            return freeze(self.reactions.states(sp.csr_array(states @ G.T)))
        if self.d == 1:
            return freeze(sp.csr_array(states @ G.T))
        forces = sp.csr_array(states @ G.T)
        largest = abs(forces).max(axis=1).toarray().ravel()
        return freeze(sp.csr_array(forces * (1.0 / np.where(largest > 0.0, largest, 1.0))[:, None]))

    def mobilised(self, contact: int) -> tuple[float, float] | None:
        """The range of ‖f_T‖/(μ f_n) at a contact, from 0 to 1; in the plane of f_t/(μ f_n).

        None without friction. The linear-fractional program is solved as a cone program with f_n =
        1 (A. Charnes & W. W. Cooper 1962). In space the largest value maximises a convex function,
        which is not a convex problem: the result is 1 if that is attained, otherwise a bound from
        eight directions, at most 8.3 % above it.

        Raises
        ------
        InvalidInput : no such contact, or one that can carry no force.
        """
        i = checks.index("contact", contact, self.nc) % self.nc
        if self.law is None:
            return None
        self.step.require_no_moments("the share of friction that is mobilised")
        if self.reduced[i] == OPEN:
            raise InvalidInput("contact", f"{i}, which can carry no force", "another contact")
        if self.reduced[i] == SLIDING:
            full = float(self.faces.mu[i] > 0.0)
            if self.faces.status[i] == SLIDING or self.d == 3:
                return full, full
        return mobilised(self.free, self.determined, i, self.d, float(self.faces.mu[i]))

    def region(self, contact: int, directions: int = 72) -> FloatArray:
        """(n, 2) N: corners of the region of the normal and first tangential force of a contact.

        Each is attained by admissible forces and extreme in one of the directions; if the region is
        a segment or a point, corners coincide.

        Raises
        ------
        InvalidInput : no such contact, fewer than 4 directions, or forces without upper bound.
        Unsupported : a report without friction.
        """
        i = checks.index("contact", contact, self.nc) % self.nc
        number = checks.whole("directions", directions, 4, 100_000)
        if self.law is None:
            raise Unsupported("region", "the report is of forces without friction", ("lower",))
        angles = 2.0 * np.pi * np.arange(number) / number
        ways = np.column_stack([np.cos(angles), np.sin(angles)])
        C = np.zeros((number, self.nc * self.d))
        C[:, [i * self.d, i * self.d + 1]] = ways
        bounds = bounds_of(
            self.free, sp.csr_array(C), self.determined, 1, lambda *_: None, NEVER, True
        )
        if self.unbounded.any() or bounds.rays:
            raise InvalidInput(
                "contact", f"{i}: forces without an upper bound", "a report of bounded forces"
            )
        corners = bounds.witnesses[:, 1, [i * self.d, i * self.d + 1]]
        return np.asarray(corners)

    # --- text --------------------------------------------------------------------------

    @property
    def summary(self) -> str:
        """The determined and the undetermined forces, as text."""
        closed, free = self.closed_count, int(np.count_nonzero(self.closed & ~self.unique))
        text = f"{count(self.nc, 'contact')}, {closed:,} closed"
        if self.law is not None and closed:
            numbers = [(int((self.faces.status == s).sum()), _WORDS[s]) for s in (RESTING, SLIDING)]
            text += " (" + ", ".join(f"{n:,} {word}" for n, word in numbers if n) + ")"
        if self.joints is not None:
            text += f", {count(self.joints.lower.size, 'joint row')}"
        text += f", bound by {count(self.rank, 'equation')}: "
        text += f"{count(self.nullity, 'self-stress state')}. "
        if not free:
            return text + "Every force is determined." + self._joint_words()
        if self.law is not None:
            text += f"The admissible forces have {count(self.dimension, 'dimension')}; "
        text += f"{closed - free:,} of {count(closed, 'force')} determined, {free:,} not"
        return text + self._ranges() + self._joint_words()

    def _joint_words(self) -> str:
        """The number of determined reactions of joints, as text."""
        if self.joints is None or self.joints.unique.all():
            return "" if self.joints is None else " So are the reactions of the joints."
        known = int(np.count_nonzero(self.joints.unique))
        text = f" {known:,} of {count(self.joints.unique.size, 'reaction')} of joints determined"
        endless = int(np.count_nonzero(np.isinf(self.joints.upper)))
        return text + (f", {endless:,} without bounds." if endless else ".")

    def _ranges(self) -> str:
        """The widest interval of a normal force, missing ends, and failures, as text."""
        width = np.where(np.isfinite(self.width) & ~self.unique, self.width, 0.0)
        text, most = "", float(width.max(initial=0.0))
        if most > 0.0:
            i = int(np.argmax(width >= most * (1.0 - 1e-6)))
            low, high = self._shown_ends(i)
            text = f"; the widest interval is [{short(low)}, {short(high)}] N, "
            text += f"at contact {self.names[i]}"
        if endless := int(np.count_nonzero(self.unbounded)):
            text += f"; {count(endless, 'force')} without upper bound"
        failed = f" The bounds of {count(len(self.failures), 'contact')} failed."
        return text + "." + (failed if self.failures else "")

    def _shown_ends(self, contact: int) -> tuple[float, float]:
        """Bounds of a normal force for people, N: 0 where they are below ``NARROW`` of the unit."""
        low, high, least = self.lower[contact], self.upper[contact], NARROW * self.unit[contact]
        return (float(low) if abs(low) > least else 0.0, float(high) if high > least else 0.0)

    def status_of(self, contact: int) -> str:
        """The status of a contact: open, resting or sliding; without friction open or closed.

        Raises
        ------
        InvalidInput : no such contact.
        """
        status = int(self.faces.status[checks.index("contact", contact, self.nc)])
        return "closed" if self.law is None and status != OPEN else _WORDS[status]

    def verdict_of(self, contact: int) -> str:
        """The verdict on a contact: open, unique, unbounded, undetermined or failed.

        Raises
        ------
        InvalidInput : no such contact.
        """
        contact = checks.index("contact", contact, self.nc)
        if not self.closed[contact]:
            return "open"
        if self.unique[contact]:
            return "unique"
        if contact % self.nc in self.failures:
            return "failed"
        return "unbounded" if self.unbounded[contact] else "undetermined"

    def as_dict(self, contacts: bool = True) -> dict[str, Any]:
        """Plain values for JSON; what is unknown or infinite is None.

        Parameters
        ----------
        contacts : whether to include one record per contact.
        """
        listed = checks.flag("contacts", contacts)
        content: dict[str, Any] = {
            "contacts": self.nc,
            "law": self.law,
            "closed": self.closed_count,
            "closed_tol": self.faces.tol,
            "rank": self.rank,
            "rank_tol": self.rank_tol,
            "nullity": self.nullity,
            "dimension": self.dimension,
            "unique": int(np.count_nonzero(self.closed & self.unique)),
            "ok": self.ok,
            "programs": self.programs,
            "failures": {self.names[i]: why for i, why in self.failures.items()},
            "solution": self.solution.backend,
            "seconds": self.seconds,
            "summary": self.summary,
            "quantities": {name: q.as_dict() for name, q in self.quantities.items()},
        }
        if self.joints is not None:
            content["joints"] = self.joints.as_dict()
        if listed:
            columns = self._columns()
            rows = zip(*columns.values(), strict=True)
            content["forces"] = [dict(zip(columns, row, strict=True)) for row in rows]
        return dict(plain(content))

    def to_frame(self) -> pd.DataFrame:
        """A row for each contact as a pandas.DataFrame, its name the index.

        Columns: ``verdict`` (as ``verdict_of``), ``status`` (as ``status_of``), ``lower``,
        ``upper`` and ``force`` in N, with friction the same of the tangential components, such as
        ``lower_t1``; ``looseness`` and ``residual``, the worst of the components; not-a-number
        where unknown.
        """
        return notebook.data_frame(self._columns(), index="contact")

    def _columns(self) -> dict[str, Any]:
        each = range(self.nc)
        columns: dict[str, Any] = {"contact": self.names}
        columns["verdict"] = [self.verdict_of(i) for i in each]
        columns["status"] = [self.status_of(i) for i in each]
        columns |= {name: getattr(self, name) for name in ("lower", "upper", "force")}
        for k in range(self.d - 1):
            tables = {"lower": self.lower_t, "upper": self.upper_t, "force": self.force_t}
            columns |= {f"{n}_t{k + 1}": t[:, k] for n, t in tables.items() if t is not None}
        worst = self.residual.reshape(self.nc, self.d).max(axis=1, initial=0.0)
        return {**columns, "looseness": self.looseness, "residual": worst}

    def _shown(self) -> tuple[list[tuple[str, str, str, str]], str]:
        """Contact, verdict and bounds of the loosest contacts, and how many more there are."""
        shown = np.flatnonzero(self.bounded | ~self.unique)
        width = np.where(np.isnan(self.width[shown]), -1.0, self.width[shown])
        rows = []
        for i in np.sort(shown[np.argsort(-width, kind="stable")[:_ROWS]]).tolist():
            low, high = (f"{x:,.5g}" for x in self._shown_ends(i))
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

    def __repr__(self) -> str:
        return f"Indeterminacy({self.summary})"
