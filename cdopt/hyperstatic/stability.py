"""stability(): whether blocks stand, stand only if they were pressed together, or fall.

Three statements are kept apart, which agree for most structures and not for all:

1. *Admissible forces exist*: some f in the friction cones balance the loads. That is the verdict of
   limit analysis and of rigid-block equilibrium. The associated step from rest decides it: it stays
   at rest exactly if they exist, and its motion v⁺ proves the contrary otherwise, B v⁺ ∈ K* and
   Fᵀv⁺ > 0.
2. *Elastic contacts loaded from rest reach them*: springs without a history, whose micro-slip
   follows Coulomb's law, balance the loads. A block held between two walls by friction alone has
   admissible forces, but nothing presses it against the walls while it sinks.
3. *How far a live load may grow*, and the mechanism of the collapse: ``limit_load``, a statement of
   the first kind.

The second is also what coupled rigid-block analysis asks (G. T.-C. Kao, A. Iannuzzo, B.
Thomaszewski, S. Coros, T. Van Mele & P. Block, Computer-Aided Design 146, 2022), by a nonconvex
program.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from cdopt._util import checks, notebook
from cdopt._util.checks import FloatArray
from cdopt._util.errors import SolveFailed
from cdopt._util.formatting import count, listed, plain, short
from cdopt._util.frozen import Frozen
from cdopt.formulations import FrictionalCD, FrictionNetwork
from cdopt.formulations.friction_network import NetworkForces
from cdopt.hyperstatic.limit_load import LimitLoad, limit_of
from cdopt.hyperstatic.strength import JointStrength, ResistingCones, Strength
from cdopt.hyperstatic.structures import Structure
from cdopt.problem.contact_step import ContactStep
from cdopt.problem.solution import StepSolution
from cdopt.scene import Scene
from cdopt.scene.block_model import BlockModel

STANDS, PRESSED, FALLS = "stands", "stands only if pressed beforehand", "falls"
UNKNOWN = "not decided"
_TOL = 1e-6  # of limit loads, and of strengths
_MOVES = 1e-5  # of its free fall: a body slower than this stays
_SHOWN = 6  # names of bodies that fall
_SOLVERS = ("newton", "interior-point", "homotopy")  # from which a motion by Coulomb's law may come


@dataclass(frozen=True, eq=False)
class StabilityVerdict(Frozen):
    """Whether a structure stands, and the evidence for it.

    Attributes
    ----------
    step : the structure at rest. model : the blocks of a block model, otherwise None.
    associated : the step under the associated law, which decides whether admissible forces exist.
    coulomb : a motion by Coulomb's law from rest; None if elastic contacts balance the loads.
    elastic : certified forces of elastic contacts loaded from rest; None if they do not balance the
        loads.
    limits : limit loads by the name of the live load: each body's weight along "+x", "-x", "+y",
        "-y", or "live".
    bears : if joints have a ``strength``, the multiple of its loads that the structure bears, which
        decides whether admissible forces exist; None otherwise.
    unsolved : names of the live loads for which the solver found neither a limit nor a proof.
    """

    step: ContactStep
    model: BlockModel | None
    associated: StepSolution
    coulomb: StepSolution | None
    elastic: NetworkForces | None
    limits: Mapping[str, LimitLoad]
    bears: LimitLoad | None = None
    unsolved: tuple[str, ...] = ()

    @property
    def admissible(self) -> bool | None:
        """Whether admissible forces balance the loads; None if that is not certified."""
        if self.bears is not None:
            return self.bears.value >= 1.0 - self.bears.tol if self.bears.ok else None
        return not self.falling.any() if self.associated.ok else None

    @property
    def forces(self) -> tuple[FloatArray, FloatArray] | None:
        """f (nc,) and f_t (nc, d − 1) N, admissible forces that balance the loads; or None."""
        if not self.admissible:
            return None
        if self.bears is None:
            f, f_t = self.associated.f, self.associated.f_t
            return None if f is None or f_t is None else (f, f_t)
        share = 1.0 / self.bears.value if np.isfinite(self.bears.value) else 1.0
        return share * self.bears.f, share * self.bears.f_t

    @property
    def reached(self) -> bool | None:
        """Whether elastic contacts loaded from rest balance the loads; None if not decided."""
        if self.elastic is not None:
            return True
        if self.admissible is False:
            return False
        if self.bears is not None:
            return None
        falls = self.coulomb is not None and self.coulomb.ok
        return False if falls and _moves(self.step, self.coulomb).any() else None

    @property
    def verdict(self) -> str:
        """One of "stands", "stands only if pressed beforehand", "falls", and "not decided".

        ``reason`` is why it is not decided.
        """
        if self.admissible is False:
            return FALLS
        if self.admissible is None or self.reached is None:
            return UNKNOWN
        return STANDS if self.reached else PRESSED

    @property
    def falling(self) -> FloatArray:
        """(nb,) bodies that fall, of those that can move: where no admissible forces exist."""
        if self.bears is None:
            return _moves(self.step, self.associated)
        motion = self.bears.mechanism if not self.admissible else None
        speed = _speeds(self.step, np.zeros(self.step.nv) if motion is None else motion)
        return speed > _MOVES * speed.max(initial=0.0)

    @property
    def limit(self) -> LimitLoad | None:
        """The smallest of the limit loads, the first of equal ones; None without one."""
        least = min((one.value for one in self.limits.values()), default=0.0)
        near = least + _TOL * abs(least)  # a limit load may be negative
        return next((one for one in self.limits.values() if one.value <= near), None)

    @property
    def summary(self) -> str:
        """The verdict in a few sentences."""
        bodies = count(self.falling.size, "body") if self.falling.size != 1 else "one body"
        text = f"The structure {self.verdict}" if self.verdict != UNKNOWN else "Not decided"
        text += f" ({bodies} that can move, {count(self.step.nc, 'contact')})."
        if self.bears is not None and self.bears.ok and np.isfinite(self.bears.value):
            text += f" It bears {short(self.bears.value, 5)} times its loads."
        if self.admissible is None:
            text += f" {self.reason}"
        elif self.admissible:
            text += " Admissible forces exist."
        else:
            numbers = np.unique(np.asarray(self.step.dof_body))[self.falling]
            fall = "falls" if numbers.size == 1 else "fall"
            text += f" No admissible forces exist: {self._named(numbers.tolist())} {fall}."
        if self.admissible and self.reached:
            text += " Elastic contacts loaded from rest reach such forces."
        elif self.admissible and self.reached is False:
            text += " Elastic contacts loaded from rest do not reach such forces: too little normal"
            text += " force develops in the joints during loading, and Coulomb's law has a motion."
        elif self.admissible:
            text += f" {self.reason}"
        text += self._limits_in_words()
        return text if self.model is None else text + self.model.assumption

    @property
    def reason(self) -> str:
        """Why the verdict is "not decided", and what to try."""
        if self.verdict != UNKNOWN:
            return ""
        if self.bears is not None and not self.bears.ok:
            worst, error = max(self.bears.residuals.items(), key=lambda pair: pair[1])
            text = "Whether admissible forces exist is not certified: the multiple of the loads"
            text += f" that joints bear has the residual {error:.1e} ({worst}), more than"
            return f"{text} {self.bears.tol:.0e}. Try a strength that differs a little."
        if self.bears is not None:
            text = "Whether elastic contacts loaded from rest reach them is not decided: those have"
            text += " friction alone, and forces that balance the loads by friction alone within"
            return f"{text} the strength were not found. Try without strength."
        text = "Whether elastic contacts loaded from rest reach them is not decided: no elastic"
        if self.coulomb is not None and self.coulomb.ok:
            text += " forces were certified, and a step by Coulomb's law from rest does not move,"
            text += " which proves neither"
        else:
            text += " forces were certified, nor was a motion by Coulomb's law from rest"
        return f"{text}. Try friction that is a little smaller or larger."

    def _named(self, bodies: list[int]) -> str:
        return listed([self.step.names.body(k) for k in bodies], _SHOWN)

    def _limits_in_words(self) -> str:
        """The limit load in a sentence, if there is one to report."""
        limit = self.limit
        if not self.admissible:
            return ""
        if limit is None:
            return self._uncertified_in_words()
        name = next(key for key, one in self.limits.items() if one is limit)
        what = "the live load" if name == "live" else f"each body's weight along {name}"
        if not np.isfinite(limit.value):
            text = f" Admissible forces balance every multiple of {what}."
            return text + self._uncertified_in_words()
        text = f" The structure bears {short(limit.value, 5)} times {what}; beyond that a mechanism"
        return f"{text} of {count(limit.moving_count, 'body')} moves.{self._uncertified_in_words()}"

    @property
    def uncertified(self) -> list[str]:
        """Names of the live loads whose limit is not certified, those without an answer last."""
        return [*(name for name, one in self.limits.items() if not one.ok), *self.unsolved]

    def _uncertified_in_words(self) -> str:
        loose = {n: max(one.residuals.values()) for n, one in self.limits.items() if not one.ok}
        texts = [f"{name} (residual {error:.1e})" for name, error in loose.items()]
        texts += [f"{name} (the solver failed)" for name in self.unsolved]
        return f" NOT certified: the limit load {', '.join(texts)}." if texts else ""

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return dict(
            plain(
                {
                    "verdict": self.verdict,
                    "reason": self.reason,
                    "admissible": self.admissible,
                    "elastic": self.reached,
                    "limits": {name: one.value for name, one in self.limits.items()},
                    "certified": not self.uncertified and self.associated.ok,
                    "contacts": self.step.nc,
                    "repairs": [] if self.model is None else self.model.repairs,
                    "tol": None if self.model is None else self.model.tol,
                    "summary": self.summary,
                }
            )
        )

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        rows: list[tuple[str, str]] = [("admissible forces exist", _word(self.admissible))]
        rows.append(("elastic contacts loaded from rest reach such forces", _word(self.reached)))
        rows += [(f"limit load, {name}", short(one.value, 5)) for name, one in self.limits.items()]
        return notebook.table(self.verdict, ("statement", ""), rows, self.summary)

    def __str__(self) -> str:
        return self.summary

    def __repr__(self) -> str:
        return f"StabilityVerdict({self.verdict}, {self.step.nc:,} contacts)"


def _word(answer: bool | None) -> str:
    return "not decided" if answer is None else "yes" if answer else "no"


def stability(
    structure: str | Path | Scene | BlockModel | ContactStep,
    friction: float | None = None,
    *,
    supports: Any = None,
    density: float | None = None,
    unit: float | None = None,
    live: Any = None,
    strength: Strength | None = None,
    limits: bool = True,
) -> StabilityVerdict:
    """Whether a structure of blocks stands, stands only if pressed beforehand, or falls.

    Parameters
    ----------
    structure : the path of a block model (``cdopt.scene.load_blocks``: meshes, COMPAS) or of a
        scene; a scene, a block model, or a step with friction at rest.
    friction : μ of all contacts; required if the structure has none.
    supports, density, unit : of a block model, as in ``cdopt.scene.load_blocks``.
    live : (nv,) a live load, or of a scene as in ``limit_load``; by default each body's weight
        along ±x and, in space, ±y.
    strength : cohesion, tension and crushing of the joints, for the first statement and limit
        loads; by default only friction. Elastic contacts have only friction: if their forces exceed
        the strength, or there are none, this question is not decided.
    limits : whether to compute limit loads.

    Returns
    -------
    StabilityVerdict : ``verdict`` is "stands", "stands only if pressed beforehand", "falls" or
        "not decided"; ``limit`` is the smallest limit load.

    Raises
    ------
    InvalidInput : a bad argument, no friction, no supports, or a file that is not of its kind.
    SolveFailed : the associated step has no certified answer.

    >>> import cdopt
    >>> block = cdopt.scene.box_stack(1, dim=2, size=[0.4, 1.0])
    >>> verdict = cdopt.stability(block, friction=0.6)
    >>> verdict.verdict, round(verdict.limit.value, 6)
    ('stands', 0.4)
    """
    limits = checks.flag("limits", limits)
    stated = Structure.of(structure, friction, supports=supports, density=density, unit=unit)
    step = stated.step
    step.require_no_moments("stability")
    loads = stated.sideways() if live is None else {"live": stated.live(live)}
    associated = FrictionalCD(step, "associated").solve("newton", check=False)
    if not associated.ok:
        associated = FrictionalCD(step, "associated").solve("auto", check=False)
    if not associated.ok and strength is None:
        message = f"the associated step is not certified: {associated.certificate}"
        raise SolveFailed(
            message, backend=associated.backend, status=associated.status, raw=associated
        )
    strong, bears = stated.strength(strength), None
    if strength is not None:
        alone = replace(stated, step=step.replace(F_ext=np.zeros(step.nv)))
        bears = limit_of(alone, step.F_ext, "associated", strong, None, _TOL)
    verdict = StabilityVerdict(step, stated.model, associated, None, None, {}, bears)
    elastic, coulomb = None, None
    if verdict.admissible:
        elastic = _elastic(step)
        if elastic is None and strength is None:
            coulomb = _motion(step)
        if elastic is not None and not _bears(strong, elastic):
            elastic = None
    limits_found: dict[str, LimitLoad] = {}
    unsolved: list[str] = []
    for name, load in loads.items() if limits else ():
        try:
            limits_found[name] = limit_of(stated, load, "associated", strong, None, _TOL)
        except SolveFailed as error:
            if error.proof is None and elastic is not None:
                raise
            if error.proof is None:
                unsolved.append(name)
    verdict = replace(verdict, limits=limits_found, unsolved=tuple(unsolved))
    return replace(verdict, coulomb=coulomb, elastic=elastic)


def _bears(strength: JointStrength | ResistingCones, elastic: NetworkForces) -> bool:
    """Whether joints bear the forces of elastic contacts."""
    forces = np.column_stack([elastic.f, elastic.f_t])
    return strength.outside(forces) <= _TOL * float(np.abs(forces).max(initial=0.0))


def _motion(step: ContactStep) -> StepSolution:
    """A step by Coulomb's law from rest that moves, certified; else that of the last solver."""
    problem = FrictionalCD(step)
    for solver in _SOLVERS:
        found = problem.solve(solver, check=False)
        if found.ok and _moves(step, found).any():
            break
    return found


def _moves(step: ContactStep, solution: StepSolution | None) -> Any:
    """(nb,) bodies whose speed is more than a small share of what their load gives them."""
    if solution is None or solution.v_next is None:
        return np.zeros(0, dtype=bool)
    moved, free = (_speeds(step, motion) for motion in (solution.v_next, step.v_star))
    return moved > _MOVES * np.maximum(free, 1e-2 * float(free.max(initial=0.0)))


def _speeds(step: ContactStep, motion: FloatArray) -> Any:
    """(nb,) m/s √kg, the root of twice the kinetic energy of each body in a ``motion`` (nv,)."""
    body = np.arange(step.nv) if step.dof_body is None else step.dof_body
    _, label = np.unique(body, return_inverse=True)
    return np.sqrt(np.bincount(label, step.mass.diagonal * motion**2))


def _elastic(step: ContactStep) -> NetworkForces | None:
    """Forces of springs without a history that balance the loads, certified; None if none do."""
    friction = step.friction
    if friction is None:
        raise TypeError("a step without friction")
    network = FrictionNetwork(
        step.B,
        friction.B_t,
        -np.asarray(step.F_ext),
        friction.mu,
        step.stiffness,
        friction.stiffness_ratio,
        flow="coulomb",
        dof_body=step.dof_body,
    )
    try:
        forces = network.solve()
    except SolveFailed:
        return None
    return forces if forces.ok else None
