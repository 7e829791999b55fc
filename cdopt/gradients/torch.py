"""Contact steps as functions of PyTorch tensors (extra ``torch``).

A layer is a function of tensors whose solution and cotangents are those of ``solve_batch`` and
``Derivatives.vjp``::

    legs = cdopt.gradients.torch.layer(cdopt.CompatibleCD, step, "f")
    f = legs(F_ext=loads, stiffness=k)      # (n, nv) and (nc,) give (n, nc)
    ((f - measured) ** 2).sum().backward()  # k.grad
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from cdopt._util import checks
from cdopt._util.errors import InvalidInput
from cdopt.gradients.step_function import StepFunction, needed
from cdopt.problem import ContactStep

__all__ = ["layer"]


def layer(
    formulation: Callable[[Any], Any],
    step: ContactStep,
    outputs: Sequence[str] | str = "v_next",
    backend: Any = None,
) -> Callable[..., Any]:
    """A function of tensors: data of the step by name to results, with derivatives.

    Parameters
    ----------
    formulation : ``ClassicCD``, ``FrictionalCD`` or ``CompatibleCD``, or a function of the step.
    step : all data that a call does not give have its values.
    outputs : names of results, as in ``Derivatives.outputs``: one, or several.
    backend : that solves the steps; by default that of the formulation.

    Returns
    -------
    A function of keyword arguments by the names of ``Derivatives.inputs``: tensors of float64, with
    any leading axes, which are broadcast together; of a matrix its stored entries (nnz,), as
    ``step.B.data`` has them. It returns one tensor, or a tuple of several. Steps of a batch are
    solved side by side, and so are their derivatives; second derivatives are refused.

    Raises
    ------
    InvalidInput : a bad argument; of a call, data of another name, shape or type.
    Unsupported : PyTorch is not installed.
    SolveFailed : of a call, a step without a solution; of a backward pass, without a certified one.
    Unsupported : of a backward pass, a contact at a kink, or forces that are not determined.
    """
    torch, function = needed("torch"), StepFunction(formulation, step, outputs, backend)

    def call(**data: Any) -> Any:
        for name, value in data.items():
            if not torch.is_tensor(value) or value.dtype != torch.float64:
                dtype = getattr(value, "dtype", checks.describe(value))
                raise InvalidInput(name, str(dtype), "a tensor of torch.float64")
        results = _differentiable().apply(function, tuple(data), *data.values())
        return results[0] if isinstance(outputs, str) else results

    return call


@cache
def _differentiable() -> Any:
    """The solution of steps as a function that PyTorch differentiates."""
    torch = needed("torch")

    class OfTensors(torch.autograd.Function):  # type: ignore[misc,name-defined]
        """The solution of steps, and its cotangents."""

        @staticmethod
        def forward(ctx: Any, function: StepFunction, names: tuple[str, ...], *values: Any) -> Any:
            """The results, tensors in the order of ``function.outputs``."""
            arrays = {n: v.detach().cpu().numpy() for n, v in zip(names, values, strict=True)}
            rows, axes = function.batched(arrays)
            solved = function.solve(rows)
            ctx.solved, ctx.names, ctx.axes = solved, names, axes
            ctx.shapes = [value.shape for value in values]
            ctx.device = values[0].device if values else torch.device("cpu")
            return tuple(
                torch.as_tensor(result.reshape(axes + result.shape[1:]), device=ctx.device)
                for result in solved.results.values()
            )

        @staticmethod
        @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
        def backward(ctx: Any, *cotangents: Any) -> Any:
            """Cotangents of the data, summed over axes that were broadcast."""
            function = ctx.solved.function
            given = {
                name: np.asarray(w.detach().cpu().numpy()).reshape(-1, *function.results[name])
                for name, w in zip(function.outputs, cotangents, strict=True)
                if w is not None
            }
            wanted = [
                n for n, used in zip(ctx.names, ctx.needs_input_grad[2:], strict=True) if used
            ]
            pulled = ctx.solved.vjp(given, wanted)
            gradients: list[Any] = [None, None]
            for name, shape in zip(ctx.names, ctx.shapes, strict=True):
                if name not in pulled:
                    gradients.append(None)
                    continue
                rows = pulled[name].reshape(ctx.axes + function.shapes[name])
                tensor = torch.as_tensor(rows, device=ctx.device)
                gradients.append(tensor.sum_to_size(shape))
            return tuple(gradients)

    return OfTensors
