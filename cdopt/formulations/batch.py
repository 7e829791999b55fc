"""Many independent steps at once: one block-diagonal problem, solved once, split into solutions.

A small step costs mostly Python, checks and set-up. Steps in one problem share this cost, and each
independent part keeps its scaling.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from cdopt._util import checks, notebook
from cdopt._util.errors import SolveFailed, Unsupported
from cdopt.backends.base import Backend
from cdopt.formulations.classic_cd import ClassicCD
from cdopt.formulations.compatible_cd import CompatibleCD
from cdopt.formulations.compliant_cd import CompliantCD
from cdopt.formulations.frictional_cd import FrictionalCD
from cdopt.formulations.soft_cd import SoftCD
from cdopt.problem import Step
from cdopt.problem.certificate import TOLERANCE
from cdopt.problem.solution import StepSolution
from cdopt.problem.stacking import Stack, likeness

if TYPE_CHECKING:
    import pandas as pd

_MOST = 20_000  # contacts of a stack: beyond, one more step saves nothing
_KINDS = (ClassicCD, FrictionalCD, CompatibleCD, CompliantCD, SoftCD)
Posed = ClassicCD | FrictionalCD | CompatibleCD | CompliantCD | SoftCD


class Batch:
    """The solutions of many steps, in their order; each has the certificate of its step.

    Attributes
    ----------
    solutions : one for each step.
    """

    def __init__(self, solutions: Sequence[StepSolution]) -> None:
        self.solutions = checks.instances("solutions", solutions, StepSolution)

    def __len__(self) -> int:
        return len(self.solutions)

    @overload
    def __getitem__(self, index: int) -> StepSolution: ...
    @overload
    def __getitem__(self, index: slice) -> Batch: ...
    def __getitem__(self, index: int | slice) -> StepSolution | Batch:
        if isinstance(index, slice):
            return Batch(self.solutions[index])
        count, k = len(self), checks.whole("index", index)
        if not -count <= k < count:
            raise IndexError(f"index: found {k}; expected a step from {-count} to {count - 1}")
        return self.solutions[k]

    def __iter__(self) -> Iterator[StepSolution]:
        return iter(self.solutions)

    @property
    def ok(self) -> bool:
        """Whether every solution is ok."""
        return all(solution.ok for solution in self.solutions)

    @property
    def worst(self) -> float:
        """The largest residual of all certificates; infinite where one has none."""
        each = (max((c.worst for c in s.certificates.values()), default=np.inf) for s in self)
        return float(max(each, default=0.0))

    def to_frame(self) -> pd.DataFrame:
        """A pandas.DataFrame with a row for each contact of each step.

        Columns as in ``StepSolution.to_frame``; steps without friction have no number in those of
        friction.

        Raises
        ------
        InvalidInput : a solution has no forces.
        """
        each = [solution.columns() for solution in self.solutions]
        sizes = [len(columns["contact"]) for columns in each]
        names = list(dict.fromkeys(name for columns in each for name in columns))
        table: dict[str, Any] = {"step": np.arange(len(each)).repeat(sizes)}
        for name in names or ["contact"]:
            pieces = [
                columns.get(name, np.full(size, np.nan))
                for columns, size in zip(each, sizes, strict=True)
            ]
            table[name] = np.concatenate(pieces) if pieces else np.zeros(0)
        return notebook.data_frame(table).set_index(["step", "contact"])

    def __repr__(self) -> str:
        good = sum(solution.ok for solution in self.solutions)
        contacts = sum(0 if s.f is None else s.f.size for s in self.solutions)
        count = f"{len(self):,} steps, {contacts:,} contacts"
        return f"Batch({count}: {good:,} ok, worst residual {self.worst:.1e})"


def solve_batch(
    steps: Any,
    formulation: Callable[[Any], Any] | None = None,
    backend: str | Backend | None = None,
    *,
    tol: float = TOLERANCE,
    check: bool = True,
    **options: Any,
) -> Batch:
    """Solve many independent steps at once.

    Similar steps (with the same Δt and dimension of friction, for instance) are stacked into one
    block-diagonal problem, which is solved once. Every solution has the certificate of its step,
    from that step's data. Steps whose certificate is not ok are stacked again in smaller numbers,
    and finally solved one by one: a step without a solution does not affect the others.

    Parameters
    ----------
    steps : n steps of any sizes, with friction or without.
    formulation : a function or class that makes a formulation of a step: ``ClassicCD``,
        ``FrictionalCD``, ``CompatibleCD``, ``CompliantCD`` or ``SoftCD``, or a function such as
        ``lambda step: cdopt.FrictionalCD(step, law="associated")``, which gets stacked steps. By
        default ``FrictionalCD`` of steps with friction, ``ClassicCD`` of others.
    backend, tol, check, options : as of ``Formulation.solve``.

    Returns
    -------
    Batch of n solutions in the order of the steps. ``provenance["stacked"]`` is the number of steps
    in the stack; timings are those of the stack divided by that number.

    Raises
    ------
    InvalidInput, BackendUnavailable : before solving.
    Unsupported : another formulation, or one with constraints added.
    SolveFailed : a step could not be solved even separately; the message has its number.

    Notes
    -----
    Motions, loads, compatible forces and other unique results are those of single solves. Forces
    that are not unique may differ.

    >>> import cdopt
    >>> beams = [cdopt.bank.load(name).step for name in ("beam-uniform", "beam-stiff-middle")]
    >>> batch = cdopt.solve_batch(beams, cdopt.CompatibleCD)
    >>> batch.ok, batch[1].f.round(6)
    (True, array([2., 6., 2.]))
    """
    steps = checks.instances("steps", steps, Step)
    formulation = None if formulation is None else checks.function("formulation", formulation)
    tol, check = checks.tolerance("tol", tol), checks.flag("check", check)
    settings = {"backend": backend, "tol": tol, **options}
    solutions: dict[int, StepSolution] = {}
    for numbers in _alike(steps):
        _solve_stack(steps, numbers, formulation or _usual, settings, solutions)
    for k in sorted(set(range(len(steps))) - set(solutions)):
        solutions[k] = _alone(k, (formulation or _usual)(steps[k]), {**settings, "check": check})
    return Batch([solutions[k] for k in range(len(steps))])


def _usual(step: Step) -> Posed:
    """The formulation of a step where none is stated."""
    return ClassicCD(step) if step.friction is None else FrictionalCD(step)


def _alike(steps: Sequence[Step]) -> Iterator[list[int]]:
    """Numbers of steps that can be in one stack, at least two each."""
    sets: dict[Hashable, list[int]] = {}
    for k, step in enumerate(steps):
        if step.joints is None or step.joints.rigid.size == step.joints.count:
            sets.setdefault(likeness(step), []).append(k)
    for numbers in sets.values():
        ends = np.cumsum([steps[k].nc for k in numbers]) // _MOST
        for part in range(int(ends[-1]) + 1):
            chosen = [k for k, end in zip(numbers, ends.tolist(), strict=True) if end == part]
            if len(chosen) > 1:
                yield chosen


def _solve_stack(
    steps: Sequence[Step],
    numbers: list[int],
    formulation: Callable[[Any], Any],
    settings: dict[str, Any],
    solutions: dict[int, StepSolution],
) -> None:
    """Add the solutions of a stack of the steps of these ``numbers`` to ``solutions``."""
    if len(numbers) < 2:
        return
    stack = Stack.of([steps[k] for k in numbers])
    try:
        each = _stackable(formulation(stack.step))._solve_each(stack, **settings)
        left = [k for k, solution in zip(numbers, each, strict=True) if not solution.ok]
        good = zip(numbers, each, strict=True)
        solutions.update((k, solution) for k, solution in good if solution.ok)
    except SolveFailed:
        left = numbers
    pieces = (
        [left] if len(left) < len(numbers) else [left[: len(left) // 2], left[len(left) // 2 :]]
    )
    for piece in pieces:
        _solve_stack(steps, piece, formulation, settings, solutions)


def _stackable(posed: Any) -> Posed:
    """The formulation, after a check that stacked steps are independent."""
    if not isinstance(posed, _KINDS):
        names = tuple(kind.__name__ for kind in _KINDS)
        raise Unsupported(
            "solve_batch", f"{checks.describe(posed)} is not one that it stacks", names
        )
    problem = getattr(posed, "compliant_cd", posed)
    if getattr(problem, "extended", False):
        why = "constraints were added, which may tie steps together"
        raise Unsupported("solve_batch", why, ("each step by itself",))
    return posed


def _alone(number: int, posed: Any, settings: dict[str, Any]) -> StepSolution:
    """The solution of one step by itself."""
    try:
        solution: StepSolution = _stackable(posed).solve(**settings)
    except SolveFailed as error:
        what = {name: getattr(error, name) for name in ("backend", "status", "problem", "proof")}
        raise SolveFailed(f"step {number}: {error}", **what, raw=error.raw) from error
    return solution
