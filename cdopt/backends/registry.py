"""Backends by name: strings look up, frozen settings objects configure.

Structured backends consume the plain data of a problem; each is a frozen dataclass whose fields
are its settings. Every other name is a solver that CVXPY reaches.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
from collections.abc import Callable
from typing import Any

from cdopt._util import checks
from cdopt._util.errors import InvalidInput, Unsupported
from cdopt.backends import catalogue
from cdopt.backends.apgd import APGD
from cdopt.backends.augmented_lagrangian import AugmentedLagrangian
from cdopt.backends.base import Backend, Posed
from cdopt.backends.lcp import LCP
from cdopt.backends.modelled import Modelled
from cdopt.backends.newton import Newton
from cdopt.backends.pgs import PGS

STRUCTURED: dict[str, Callable[..., Backend]] = {
    "newton": Newton,
    "pgs": PGS,
    "apgd": APGD,
    "lcp": LCP,
    "augmented-lagrangian": AugmentedLagrangian,
}

_OURS = (Modelled, Newton, PGS, APGD, LCP, AugmentedLagrangian)

NOTES: dict[str, str] = {
    "newton": "semismooth Newton; augmented Lagrangian over it for rigid steps",
    "pgs": "projected Gauss–Seidel: its forces depend on the order of the contacts",
    "apgd": "accelerated projected gradient: from zero, the forces of least norm",
    "lcp": "Lemke's method on the complementarity problem, up to 500 contacts",
    "augmented-lagrangian": "outer multipliers, accelerated projected gradient inside",
}


def known_names() -> list[str]:
    """Names of all backends, installed or not, in order of preference."""
    return list(dict.fromkeys([*STRUCTURED, *catalogue.TABLE, *catalogue.cvxpy_solvers()]))


def available() -> list[str]:
    """Names of the backends that can run here, in order of preference.

    Each takes at least one problem of cdopt; ``why_unavailable`` explains the others.
    """
    return [name for name in known_names() if not why_unavailable(name)]


def why_unavailable(name: str) -> str:
    """Why a backend cannot run here, and the remedy; empty when it can.

    Raises
    ------
    InvalidInput : no backend has this name.
    """
    _require_known(name)
    return "" if name in STRUCTURED else catalogue.why_not(name)


def resolve(backend: str | Backend, **options: Any) -> Backend:
    """The settings object behind a name, or the given one.

    Parameters
    ----------
    backend : a name, or a settings object such as ``cdopt.backends.Modelled("osqp")``.
    options : ``accuracy`` and the solver's own settings; only beside a name.

    Raises
    ------
    InvalidInput : unknown name or setting, or settings beside a settings object.
    BackendUnavailable : known, but not to be had here.
    """
    if isinstance(backend, str):
        if backend in STRUCTURED:
            return _structured(backend, options)
        _require_known(backend)
        accuracy = options.pop("accuracy", None)
        return Modelled(backend, accuracy=accuracy, options=options)
    if not isinstance(backend, (*_OURS, Backend)):  # in this order: a protocol takes long
        raise InvalidInput(
            "backend", checks.describe(backend), "a name or a settings object of cdopt.backends"
        )
    if options:
        raise InvalidInput(
            ", ".join(options), "options beside a settings object", "options inside the object"
        )
    return backend


@functools.cache
def _default(name: str) -> Backend:
    """A structured backend with its defaults, made once: nobody can change it."""
    return STRUCTURED[name]()


def _structured(name: str, options: dict[str, Any]) -> Backend:
    """A structured backend with these settings; ``accuracy`` None means its default."""
    if options.get("accuracy", 0.0) is None:
        del options["accuracy"]
    if not options:
        return _default(name)
    maker = STRUCTURED[name]
    fields = [f.name for f in dataclasses.fields(maker) if f.init]  # type: ignore[arg-type]
    unknown = sorted(set(options) - set(fields))
    if unknown:
        raise InvalidInput(unknown[0], f"no setting of {name}", "one of " + ", ".join(fields))
    return maker(**options)


def require_capable(backend: Backend, posed: Posed, what: str) -> None:
    """Refuse, before solving, a backend that cannot take the posed problem.

    Raises
    ------
    Unsupported : with the reason and the names of installed backends that can.
    """
    if _takes(backend, posed):
        return
    if not backend.capability.classes:
        reason = f"{backend.name} solves {' and '.join(sorted(backend.capability.structured))}"
        reason += " problems only, and takes no constraints beyond those of the formulation"
    else:
        need = {"QP": "a quadratic program", "SOCP": "second-order cones (power p is not 2)"}
        reason = f"{what} needs {need[posed.problem_class]}, which {backend.name} cannot take"
    able = tuple(name for name in available() if _takes(resolve(name), posed))
    raise Unsupported(f"{backend.name} for {what}", reason, able)


def _takes(backend: Backend, posed: Posed) -> bool:
    capability = backend.capability
    if not posed.extended and posed.data.kind in capability.structured:
        return True
    return posed.problem_class in capability.classes


def _require_known(name: object) -> None:
    known = known_names()
    if isinstance(name, str) and name in known:
        return
    close = difflib.get_close_matches(name, known, n=1) if isinstance(name, str) else []
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    names = ", ".join(available())
    raise InvalidInput("backend", checks.describe(name), f"one of these{hint}: {names}")
