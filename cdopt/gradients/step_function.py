"""The results of a formulation as a function of the data of a step, batched, with cotangents.

What ``cdopt.gradients.torch`` and ``cdopt.gradients.jax`` make a layer of. It is NumPy alone: many
steps are solved side by side (``solve_batch``), and so are their linear systems.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput, Unsupported
from cdopt.formulations.batch import solve_batch
from cdopt.formulations.stacked import joined
from cdopt.gradients.at import of
from cdopt.problem import ContactStep, StepSolution
from cdopt.problem.stacking import Stack, likeness

_OF_STEP = ("M", "B", "phi", "v", "F_ext", "dt", "restitution", "gap_rate", "stiffness", "power")
_OF_FRICTION = ("mu", "B_t", "rate", "B_r", "spin")
_OF_JOINTS = {"J": "J", "joint_rate": "rate"}
_MOVES = {"phi", "v", "F_ext"}  # what changes from step to step while matrices stay


def needed(name: str) -> Any:
    """The package of this name, "torch" or "jax"."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        reason = f"{name} is not installed: pip install {name}"
        raise Unsupported(f"cdopt.gradients.{name}", reason) from error


class StepFunction:
    """Results of a formulation as a function of data of a step.

    Parameters
    ----------
    formulation : ``ClassicCD``, ``FrictionalCD`` or ``CompatibleCD``, or a function of the step.
    step : all data that are not given have its values.
    outputs : names of results, as in ``Derivatives.outputs``.
    backend : that solves the steps; by default that of the formulation.

    Attributes
    ----------
    shapes : of the data by name; of a matrix that of its stored entries, (nnz,) in their order.
    results : shapes of the outputs by name.

    Raises
    ------
    InvalidInput : no step with matrices, or no such result.
    """

    def __init__(
        self,
        formulation: Callable[[Any], Any],
        step: ContactStep,
        outputs: Sequence[str] | str = ("v_next",),
        backend: Any = None,
    ) -> None:
        self.formulation = checks.function("formulation", formulation)
        self.step = checks.instance("step", step, ContactStep)
        self.backend = backend
        self.outputs = (
            (outputs,) if isinstance(outputs, str) else checks.sequence("outputs", outputs)
        )
        known = self._known_results()
        for name in self.outputs:
            if name not in known:
                raise InvalidInput("outputs", checks.describe(name), "one of " + ", ".join(known))
        self.results = {name: known[name] for name in self.outputs}
        self.shapes = {name: np.shape(value) for name, value in self.data.items()}

    @property
    def data(self) -> dict[str, FloatArray]:
        """The data of the step by name."""
        step, arrays = self.step, dict[str, Any]()
        arrays |= {name: getattr(step, name) for name in _OF_STEP}
        if step.friction is not None:
            arrays |= {name: getattr(step.friction, name) for name in _OF_FRICTION}
        if step.joints is not None:
            arrays |= {name: getattr(step.joints, own) for name, own in _OF_JOINTS.items()}
        return {
            name: np.asarray(value.data if sp.issparse(value) else value, dtype=np.float64)
            for name, value in arrays.items()
            if value is not None
        }

    def _known_results(self) -> dict[str, tuple[int, ...]]:
        step = self.step
        shapes: dict[str, tuple[int, ...]] = {"v_next": (step.nv,), "load": (step.nv,)}
        shapes["f"] = (step.nc,)
        if step.friction is not None:
            shapes["f_t"] = (step.nc, step.friction.d - 1)
            if step.friction.moments:
                shapes["f_r"] = (step.nc, step.friction.moments)
        if step.joints is not None:
            shapes["joint_forces"] = (step.joints.count,)
        return shapes

    # --- steps ---------------------------------------------------------------------------------

    def _at(self, values: Mapping[str, FloatArray]) -> ContactStep:
        """The step with other data."""
        step = self.step
        if set(values) <= _MOVES:
            return step.moved(**values)
        changes = {name: self._like(name, getattr(step, name), values[name])
                   for name in _OF_STEP if name in values}  # fmt: skip
        friction = {name: values[name] for name in _OF_FRICTION if name in values}
        if friction:
            rough: Any = step.friction
            own = {**vars(rough), **{
                name: self._like(name, getattr(rough, name), value)
                for name, value in friction.items()
            }}  # fmt: skip
            changes["friction"] = type(rough)(**own)
        joints = {own: values[name] for name, own in _OF_JOINTS.items() if name in values}
        if joints:
            held: Any = step.joints
            own = {**vars(held), **{
                name: self._like(name, getattr(held, name), value)
                for name, value in joints.items()
            }}  # fmt: skip
            changes["joints"] = type(held)(**own)
        return step.replace(**changes)

    @staticmethod
    def _like(name: str, kept: Any, value: FloatArray) -> Any:
        """A value in the form of the one of the step: a matrix of its entries, or one number."""
        if not sp.issparse(kept):
            return float(value) if np.ndim(kept) == 0 else value
        if not np.all(value):
            expected = "none: a matrix keeps the entries that the step has"
            raise InvalidInput(name, "entries that are zero", expected)
        matrix = sp.csr_array((value, kept.indices, kept.indptr), shape=kept.shape)
        return sp.csr_array((matrix + matrix.T) * 0.5) if name == "M" else matrix

    def batched(self, values: Mapping[str, Any]) -> tuple[dict[str, FloatArray], tuple[int, ...]]:
        """The data as (n, …) each, and their leading axes together, whose sizes multiply to n."""
        arrays = {name: np.asarray(value, np.float64) for name, value in values.items()}
        axes = dict[str, tuple[int, ...]]()
        for name, value in arrays.items():
            if name not in self.shapes:
                raise InvalidInput(name, "no such data", "one of " + ", ".join(self.shapes))
            own = self.shapes[name]
            axes[name] = value.shape[: value.ndim - len(own)]
            if value.shape != axes[name] + own:
                expected = f"shape {own}, after leading axes of a batch"
                raise InvalidInput(name, f"shape {value.shape}", expected)
        try:
            together = np.broadcast_shapes(*axes.values())
        except ValueError:
            found = ", ".join(f"{name} {shape}" for name, shape in axes.items())
            raise InvalidInput("batch", f"leading axes {found}", "axes that fit") from None
        return {
            name: np.broadcast_to(value, together + self.shapes[name]).reshape(
                -1, *self.shapes[name]
            )
            for name, value in arrays.items()
        }, together

    def solve(self, values: Mapping[str, FloatArray]) -> SolvedSteps:
        """The results at data (n, …) each, by name."""
        many = len(next(iter(values.values()))) if values else 1
        steps = [self._at({name: rows[k] for name, rows in values.items()}) for k in range(many)]
        return SolvedSteps(self, steps, solve_batch(steps, self.formulation, self.backend))


class SolvedSteps:
    """Steps at their solutions.

    Attributes
    ----------
    solutions : of each step. results : (n, …) by the names of the outputs.
    """

    def __init__(
        self, function: StepFunction, steps: Sequence[ContactStep], solutions: Any
    ) -> None:
        self.function, self.steps, self.solutions = function, steps, solutions
        shapes = function.results
        rows = {name: [self._result(name, k) for k in range(len(steps))] for name in shapes}
        self.results = {
            name: np.array(rows[name]).reshape(len(steps), *shape) for name, shape in shapes.items()
        }

    def _result(self, name: str, k: int) -> Any:
        solution: StepSolution = self.solutions[k]
        if name != "load":
            return getattr(solution, name)
        step = self.steps[k]
        return step.mass.times(np.asarray(solution.v_next) - step.v) / step.dt - step.F_ext

    def vjp(
        self, cotangents: Mapping[str, FloatArray], names: Sequence[str]
    ) -> dict[str, FloatArray]:
        """(n, …) cotangents of the data of these names, for those of the results (n, …)."""
        shapes, many = self.function.shapes, len(self.steps)
        gradients = {name: np.zeros((many, *shapes[name])) for name in names}
        shared = not {"dt", "power"}.isdisjoint(names)  # one number for all steps of a stack
        sets: dict[Hashable, list[int]] = {}
        for k, step in enumerate(self.steps):
            sets.setdefault(k if shared else likeness(step), []).append(k)
        for numbers in sets.values():
            stack = Stack.of([self.steps[k] for k in numbers])
            formulation = self.function.formulation(stack.step)
            given = {
                name: rows[numbers].reshape(-1, *rows.shape[2:])
                for name, rows in cotangents.items()
            }
            whole = joined([self.solutions[k] for k in numbers])
            pulled = of(formulation, whole).vjp(**given)
            for name in names:
                values = self._entries(name, pulled[name], stack.step)
                gradients[name][numbers] = np.reshape(values, (len(numbers), *shapes[name]))
        return gradients

    @staticmethod
    def _entries(name: str, value: Any, step: Any) -> FloatArray:
        """A cotangent as an array; of a matrix those of the entries that the ``step`` has."""
        if not sp.issparse(value):
            return np.asarray(value)
        of = step.friction if name in _OF_FRICTION else step.joints if name == "J" else step
        kept = getattr(of, name)
        if value.nnz == kept.nnz:
            return np.asarray(value.data)
        row = np.repeat(np.arange(kept.shape[0]), np.diff(kept.indptr))
        return np.asarray(value[row, kept.indices])
