"""Contact steps as functions of JAX arrays (extra ``jax``).

JAX calls back to NumPy on the host (``jax.pure_callback``), also from compiled and mapped
functions. Numbers must have 64 bits: ``jax.config.update("jax_enable_x64", True)``.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cdopt._util.errors import InvalidInput
from cdopt.gradients.step_function import SolvedSteps, StepFunction, needed
from cdopt.problem import ContactStep

__all__ = ["layer"]

_KEPT = 16  # batches whose solutions are kept for the backward pass


def layer(
    formulation: Callable[[Any], Any],
    step: ContactStep,
    outputs: Sequence[str] | str = "v_next",
    backend: Any = None,
) -> Callable[..., Any]:
    """A function of arrays: data of the step by name to results, with derivatives (reverse mode).

    ``formulation``, ``step``, ``outputs``, ``backend`` and what a call takes are those of
    ``cdopt.gradients.torch.layer``, with arrays of float64 in place of tensors. ``jax.jit``,
    ``jax.vmap`` and ``jax.grad`` may be applied to it; a mapped axis is solved side by side.

    Raises
    ------
    InvalidInput : a bad argument; of a call, data of another name, shape or type.
    Unsupported : JAX is not installed.
    jax.errors.JaxRuntimeError : of a call, a step without a certified solution; of a backward pass,
        a contact at a kink, or forces that are not determined. Its message has that of cdopt.
    """
    jax, host = needed("jax"), _Host(StepFunction(formulation, step, outputs, backend))

    def call(**data: Any) -> Any:
        names = tuple(sorted(data))
        values = tuple(jax.numpy.asarray(data[name]) for name in names)
        for name, value in zip(names, values, strict=True):
            if value.dtype != np.float64:
                expected = "float64: jax.config.update('jax_enable_x64', True)"
                raise InvalidInput(name, str(value.dtype), expected)
        results = host.differentiable(names)(values)
        return results[0] if isinstance(outputs, str) else results

    return call


class _Host:
    """The host's side: solutions, and those of the last batches for their cotangents."""

    def __init__(self, function: StepFunction) -> None:
        self.function = function
        self._kept: OrderedDict[tuple[Any, ...], SolvedSteps] = OrderedDict()

    def differentiable(self, names: tuple[str, ...]) -> Any:
        """The results as a function of the data of these names, which JAX differentiates."""
        jax, function = needed("jax"), self.function

        def wide(values: Sequence[Any]) -> tuple[tuple[int, ...], list[Any]]:
            """Leading axes of all values together, and the values with these."""
            empty = {n: np.empty(v.shape) for n, v in zip(names, values, strict=True)}
            axes = function.batched(empty)[1]
            pairs = zip(names, values, strict=True)
            return axes, [jax.numpy.broadcast_to(v, axes + function.shapes[n]) for n, v in pairs]

        @jax.custom_vjp  # type: ignore[untyped-decorator]
        def results(values: tuple[Any, ...]) -> Any:
            axes, arrays = wide(values)
            shapes = tuple(
                jax.ShapeDtypeStruct(axes + own, np.float64) for own in function.results.values()
            )
            return jax.pure_callback(
                lambda *given: self._solved(names, given)[0],
                shapes,
                *arrays,
                vmap_method="broadcast_all",
            )

        def forward(values: tuple[Any, ...]) -> Any:
            return results(values), values

        def backward(values: tuple[Any, ...], cotangents: Any) -> Any:
            axes, arrays = wide(values)
            shapes = tuple(
                jax.ShapeDtypeStruct(axes + function.shapes[name], np.float64) for name in names
            )
            pulled = jax.pure_callback(
                lambda *given: self._vjp(names, given),
                shapes,
                *arrays,
                *cotangents,
                vmap_method="broadcast_all",
            )
            return (tuple(_summed(x, v.shape) for x, v in zip(pulled, values, strict=True)),)

        results.defvjp(forward, backward)
        return results

    def _solved(self, names: tuple[str, ...], arrays: Sequence[Any]) -> tuple[Any, SolvedSteps]:
        """The results of arrays with leading axes; the steps of the last batches are kept."""
        values = {n: np.asarray(a) for n, a in zip(names, arrays, strict=True)}
        rows, axes = self.function.batched(values)
        key = names, *((value.shape, value.tobytes()) for value in rows.values())
        solved = self._kept.pop(key, None) or self.function.solve(rows)
        self._kept[key] = solved
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return tuple(r.reshape(axes + r.shape[1:]) for r in solved.results.values()), solved

    def _vjp(self, names: tuple[str, ...], arrays: Sequence[Any]) -> Any:
        """Cotangents of the data, from the data and the cotangents of the results."""
        values, cotangents = arrays[: len(names)], arrays[len(names) :]
        results, solved = self._solved(names, values)
        of_results = self.function.results
        axes = results[0].shape[: results[0].ndim - len(next(iter(of_results.values())))]
        given = {
            name: np.asarray(w).reshape(-1, *own)
            for (name, own), w in zip(of_results.items(), cotangents, strict=True)
        }
        pulled = solved.vjp(given, names)
        return tuple(pulled[name].reshape(axes + self.function.shapes[name]) for name in names)


def _summed(value: Any, shape: tuple[int, ...]) -> Any:
    """The sum over axes that were broadcast from an array of this shape."""
    lead = value.ndim - len(shape)
    value = value.sum(axis=tuple(range(lead)))
    narrow = tuple(k for k, n in enumerate(shape) if n == 1 and value.shape[k] != 1)
    return value.sum(axis=narrow, keepdims=True) if narrow else value
