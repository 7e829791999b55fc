"""Backends by name: strings look up, frozen settings objects configure."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

from cdopt._util import checks
from cdopt._util.errors import InvalidInput, Unsupported
from cdopt._util.parameters import one_of_these
from cdopt.backends.base import Backend, Problem
from cdopt.backends.foreign import Foreign, is_solver, of_function, takes_matrices
from cdopt.backends.modelled import Modelled
from cdopt.backends.native import NATIVE, NativeBackend
from cdopt.backends.registry import SOLVERS, Solver, capability, known_names, options_for, why_not

_UNKNOWN = Solver("", "")  # record of a solver that only CVXPY knows
_NEEDS = {
    "QP": "a quadratic program",
    "SOCP": "second-order cones (of friction, or of a power p other than 2)",
}


def available() -> list[str]:
    """Names of the backends that can run here, in order of preference.

    Each can solve at least one problem of cdopt; ``why_unavailable`` explains the others.
    """
    return [name for name in known_names() if not why_not(name)]


def why_unavailable(name: str) -> str:
    """Why a backend cannot run here, and the remedy; empty if it can.

    Raises
    ------
    InvalidInput : no backend has this name.
    """
    _require_known(name)
    return why_not(name)


def resolve(backend: str | Backend | Callable[..., Any], **options: Any) -> Backend:
    """The settings object behind a name, or the given one.

    Parameters
    ----------
    backend : a name, also in capitals; a settings object such as ``Modelled("osqp")``; an object of
        a solver class of CVXPY; or a function of (P, q, G, h, A, b, lb, ub), as in qpsolvers.
    options : ``accuracy`` and the solver's own settings; only with a name.

    Raises
    ------
    InvalidInput : unknown name or setting, or settings together with a settings object.
    BackendUnavailable : known, but not available here.
    """
    if "solver" in options:
        expected = "the solver's name as backend, the first argument"
        raise InvalidInput("solver", checks.describe(options["solver"]), expected)
    if isinstance(backend, str):
        if backend.isupper() and backend.lower() in known_names():  # as CVXPY writes it
            backend = backend.lower()
        if backend in NATIVE:
            return _native(backend, options)
        _require_known(backend)
        accuracy = options.pop("accuracy", None)
        return Modelled(backend, accuracy=accuracy, options=options)
    if is_solver(backend):
        return Foreign(backend, options)
    if takes_matrices(backend):
        return of_function(backend, **options)
    if not isinstance(backend, (NativeBackend, Modelled, Backend)):  # a protocol takes long
        raise InvalidInput(
            "backend",
            checks.describe(backend),
            "a name, a settings object of cdopt.backends, a solver object of CVXPY, or a function "
            "of (P, q, G, h, A, b, lb, ub)",
        )
    if options:
        raise InvalidInput(
            ", ".join(options),
            "options together with a settings object",
            "options inside the object",
        )
    return backend


@functools.cache
def _default(name: str) -> Backend:
    """A native backend with its defaults, made once, as it is immutable."""
    return NATIVE[name]()


def _native(name: str, options: dict[str, Any]) -> Backend:
    """A native backend with these settings; ``accuracy`` None means its default."""
    if options.get("accuracy", 0.0) is None:
        del options["accuracy"]
    if not options:
        return _default(name)
    fields = [f.name for f in dataclasses.fields(NATIVE[name]) if f.init]  # type: ignore[arg-type]
    for unknown in sorted(set(options) - set(fields)):
        raise InvalidInput(unknown, f"no setting of {name}", "one of " + ", ".join(fields))
    return NATIVE[name](**options)


def usual(formulation: Problem) -> str:
    """The name of the backend that solves a formulation where none is named."""
    if formulation.extended:
        return "clarabel"
    return "auto" if formulation.data.kind == "frictional step" else "newton"


def require_capable(backend: Backend, formulation: Problem, what: str) -> None:
    """Raise Unsupported, before solving, if the backend cannot solve the formulation."""
    if _takes(backend, formulation):
        return
    if backend.capability.classes:
        reason = (
            f"{what} needs {_NEEDS[formulation.problem_class]}, which {backend.name} cannot take"
        )
    else:
        takes, data = backend.capability, formulation.data
        reason = f"{backend.name} solves {' and '.join(sorted(takes.structured))}"
        reason += " problems only, and takes no constraints beyond those of the formulation"
        if data.kind in takes.structured and not formulation.extended:
            reason = f"{backend.name} does not take {takes.lacks(data)}"
    able = tuple(name for name in available() if _takes(resolve(name), formulation))
    raise Unsupported(f"{backend.name} for {what}", reason, able)


def _takes(backend: Backend, formulation: Problem) -> bool:
    takes = backend.capability
    plain = not formulation.extended and takes.consumes(formulation.data)
    return plain or formulation.problem_class in takes.classes


def _require_known(name: object) -> None:
    known = known_names()
    if not isinstance(name, str) or name not in known:
        asked = name.lower() if isinstance(name, str) else name
        expected = one_of_these(asked, known, available())
        raise InvalidInput("backend", checks.describe(name), expected)


# --- for tables and JSON -----------------------------------------------------------------


def describe(name: str) -> dict[str, Any]:
    """The record of a backend, installed or not.

    Returns
    -------
    name, available, why_not, takes (kinds of plain data, or classes of programs), licence, note,
    accuracy_options, accuracy_meaning, cvxpy_rewrites.

    Raises
    ------
    InvalidInput : no backend has this name.
    """
    reason, known = why_unavailable(name), SOLVERS.get(name, _UNKNOWN)
    licence, meaning, options = known.licence, known.meaning, ["accuracy"]
    if name in NATIVE:
        licence, meaning = "cdopt's own", "its own stopping test, in units of the problem's scales"
        takes = resolve(name).capability.structured
    else:
        takes = capability(name).classes
        options = [".".join(filter(None, [known.nested, key])) for key in known.accuracy]
    return {
        "name": name,
        "available": not reason,
        "why_not": reason,
        "takes": sorted(takes),
        "licence": licence,
        "note": known.note,
        "accuracy_options": options,
        "accuracy_meaning": meaning,
        "cvxpy_rewrites": known.rewritten,
    }


def settings_for(name: str, accuracy: float) -> dict[str, Any]:
    """The settings of the backend ``name`` for an accuracy; empty if unknown.

    Nested settings have both names, separated by a dot.

    Raises
    ------
    InvalidInput : an accuracy out of range.
    """
    checks.text("name", name)
    accuracy = checks.scalar("accuracy", accuracy, above=0.0, at_most=1.0)
    if name in NATIVE:
        return {"accuracy": accuracy}
    flat: dict[str, Any] = {}
    for key, value in (options_for(name, accuracy) or {}).items():
        inner = value.items() if isinstance(value, dict) else ()
        flat |= {f"{key}.{name}": v for name, v in inner} or {key: value}
    return flat
