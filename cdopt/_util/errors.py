"""The exceptions of cdopt. Each carries the evidence of what went wrong."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdopt._util.formatting import shortened, visible

_QUOTED, _MESSAGE = 1000, 5000  # characters of what a message quotes, and of a message


def _words(part: object) -> str:
    """A text; of other objects the kind, since printing a damaged sparse matrix may crash."""
    return part if isinstance(part, str) else f"a {type(part).__name__}"


def portable(value: Any) -> Any:
    """An object of a solver, or None if it cannot be pickled."""
    try:
        pickle.dumps(value)
    except (TypeError, ValueError, AttributeError, RuntimeError, pickle.PicklingError):
        return None
    return value


class CdoptError(Exception):
    """Base class of every exception that cdopt raises on purpose.

    Control characters in the message are escaped, and a very long message is shortened. Pickles and
    copies keep the attributes, except a ``raw`` object that cannot be pickled.
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(visible(shortened(_words(message), _MESSAGE)))

    def __reduce__(self) -> tuple[Any, ...]:
        state = dict(self.__dict__)
        if "raw" in state:
            state["raw"] = portable(state["raw"])
        return _restored, (type(self), self.args, state)


def _restored(kind: type[CdoptError], args: tuple[Any, ...], state: dict[str, Any]) -> CdoptError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class InvalidInput(CdoptError, ValueError):
    """An argument cannot be used.

    Attributes
    ----------
    argument : the argument's name, as the caller wrote it.
    found : a description of what was passed.
    expected : a description of what is accepted.

    Long texts are shortened in the middle.
    """

    def __init__(self, argument: str, found: str, expected: str) -> None:
        self.argument, self.found = (shortened(_words(p), _QUOTED) for p in (argument, found))
        self.expected = shortened(_words(expected), 2 * _QUOTED)
        super().__init__(f"{self.argument}: found {self.found}; expected {self.expected}")


class SaveFailed(CdoptError):
    """A file could not be saved: the disk is full, or cannot be written.

    An earlier file is unchanged, and a run in this file can be resumed. ``path`` names the file,
    ``reason`` is the system's message.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{_words(path)} could not be saved: {_words(reason)}")
        self.path = path
        self.reason = reason


class BackendUnavailable(CdoptError):
    """A backend is known but cannot run here; ``reason`` includes the remedy."""

    def __init__(self, backend: str, reason: str) -> None:
        super().__init__(f"backend {_words(backend)!r} is not available: {_words(reason)}")
        self.backend = backend
        self.reason = reason


class Unsupported(CdoptError):
    """A backend or a formulation does not support this problem; raised before any solve.

    ``what`` is not supported, for a ``reason``; ``alternatives`` are installed ones that support
    it.
    """

    def __init__(self, what: str, reason: str, alternatives: tuple[str, ...] = ()) -> None:
        known = alternatives if isinstance(alternatives, tuple | list) else (alternatives,)
        can = f"; use instead: {', '.join(map(_words, known))}" if known else ""
        super().__init__(f"{_words(what)} refused: {_words(reason)}{can}")
        self.what = what
        self.reason = reason
        self.alternatives = alternatives


@dataclass(frozen=True, eq=False)
class InfeasibilityProof:
    """A certificate of infeasibility.

    Attributes
    ----------
    kind : "truss", "rigid step", "frictional step", "joints", "limit load" or "added constraints".
    vector : u (nv,) with B u ≥ 0 for a truss; g (nc,) ≥ 0 with Bᵀg = 0 for a rigid step; with
        friction g (nc d,) in the friction cones; v (nv,) with B v in their duals for a limit load.
        Of a step with joints g has their multipliers last, of any sign, (nc d + nj,) in all; those
        of joints alone are (nj,), with Jᵀr = 0. Of added constraints, rates or forces without
        dimensions: the effect of the multipliers of the constraints on the forces or motions.
    value : F̃ᵀu in J, or gᵀ bias (gᵀp for a step known by N and p) in m/s, or −F_deadᵀv; negative.
        Of added constraints the least violation, relative to the size of their terms; positive.
    violation : largest relative violation of the conditions on the vector; round-off if sound.
    """

    kind: str
    vector: NDArray[np.float64]
    value: float
    violation: float

    def __str__(self) -> str:
        used = np.flatnonzero(np.abs(self.vector) > 1e-9 * np.abs(self.vector).max(initial=0.0))
        entries = ", ".join(f"{i}: {self.vector[i]:,.4g}" for i in used[:_LISTED])
        more = f" and {used.size - _LISTED} more" if used.size > _LISTED else ""
        shown = _PROOFS.get(self.kind, _PROOFS["frictional step"]).format(self.value)
        off = abs(self.violation)
        return f"{self.kind} infeasible: {shown} (to {off:.1e}; nonzero entries {entries}{more})"


_LISTED = 8  # entries of a proof that are written out
_PROOFS = {
    "added constraints": "the contact conditions leave no answer that meets the added constraints; "
    "the least sum of their violations, over the size of their terms, is {:.3g}",
    "truss": "no pushing contact forces deliver this load, as the motion u closes no contact "
    "(B u >= 0), and contact_load @ u = {:.3g} J",
    "rigid step": "no velocity keeps all contacts from penetrating, as the multipliers g (>= 0 at "
    "contacts) have no resultant, g @ B = 0, and g @ bias = {:.3g} m/s",
    "frictional step": "no velocity keeps all contacts from penetrating, as the forces g in the "
    "friction cones have no resultant, g @ B = 0, and g @ bias = {:.3g} m/s",
    "joints": "no velocity has the rates of the joints, whose rows depend on each other, as the "
    "multipliers r have r @ J = 0, and r @ rate = {:.3g} m/s",
    "limit load": "no forces in the friction cones balance the dead load, as the motion v needs no "
    "work of the contacts or of the live load, and -dead @ v = {:.3g} W",
}


class SolveFailed(CdoptError):
    """No answer: the solver returned no iterate, or the problem is proven infeasible.

    The message states which of the two.

    Attributes
    ----------
    backend : name of the backend that ran.
    status : of the solver.
    problem : its data, a ``ContactProblem``.
    proof : an InfeasibilityProof, or None when infeasibility is not proven.
    raw : the result object of the solver.
    """

    def __init__(
        self,
        message: str,
        *,
        backend: str,
        status: str,
        problem: Any = None,
        proof: InfeasibilityProof | None = None,
        raw: Any = None,
    ) -> None:
        super().__init__(message)
        self.backend = backend
        self.status = status
        self.problem = problem
        self.proof = proof
        self.raw = raw

    @property
    def certificate(self) -> InfeasibilityProof | None:
        """The certificate of infeasibility, when there is one."""
        return self.proof
