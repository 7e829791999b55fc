"""StepSolution: an answer, what the solver said of it, and what it is worth."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdopt._util import archive
from cdopt._util.checks import FloatArray, read_only
from cdopt._util.errors import InvalidInput, portable
from cdopt._util.frozen import Frozen
from cdopt.problem.certificate import Certificate

_EMPTY: Mapping[str, Any] = MappingProxyType({})
_ARRAYS = ("f", "v_next", "u", "mom", "gap", "dual")


@dataclass(frozen=True, eq=False)
class Iterate(Frozen):
    """A primal–dual pair as a backend left it.

    Attributes
    ----------
    motion : v⁺ (nv,) of a step, m/s and rad/s (Δq/h of a variational step); u (nv,) of a truss,
        m; or None.
    forces : f (nc,), N.
    """

    motion: FloatArray | None
    forces: FloatArray

    def __post_init__(self) -> None:
        for name in ("motion", "forces"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, read_only(np.array(value, dtype=np.float64)))


@dataclass(frozen=True, eq=False)
class StepSolution(Frozen):
    """What a solve returns.

    Attributes
    ----------
    f : (nc,) contact forces, N, compression positive; None when the solver reported failure
        and its iterate fails our certificate (see ``iterate``).
    v_next : (nv,) velocity v⁺ at the end of the step, m/s; None for trusses and for steps
        known by N and p alone.
    u : (nv,) micro-displacement of a truss, Δq of a variational step, m; None for classic
        contact dynamics.
    mom : (nv,) generalised momentum at the end of a variational step, kg m/s; None for others.
    gap : (nc,) residual of the contact constraints: B v⁺ + bias in m/s for a step (without
        restitution the gap at its end over Δt); B u in m for a truss, the gap at q_α in m for a
        variational step.
    dual : (nc,) or (nv,) multipliers of the form that was solved. Force form: of f ≥ 0, the gap in
        m/s. Velocity form: the impulses Δt f in N s. Complementary form: of Bᵀf = F̃, the
        micro-displacement u. Potential form: the forces f.
    certificate : our residuals; ``ok`` is its verdict.
    certificates : by name; compatible contact dynamics has one of each of its two problems.
    status : the solver's own words.
    claimed : whether the solver reported success.
    backend : name of the backend; ``formulation`` says which problem it solved.
    objective : optimal value of the form solved, N m/s or J.
    timings : seconds of "compile" (CVXPY to solver data), "solve" (the solver) and so on.
    iterations : the solver's count, or None.
    iterate : the last primal–dual pair, answer or not.
    raw : the solver's own result object; pickles and copies have None if it cannot be pickled.
    classic : the classic step behind a compatible solution.
    contact_ids : (nc,) names of the contacts, or None.
    provenance : versions, settings, tolerances: what is needed to repeat the run.
    """

    f: FloatArray | None
    v_next: FloatArray | None
    u: FloatArray | None
    gap: FloatArray | None
    dual: FloatArray | None
    certificates: Mapping[str, Certificate]
    status: str
    claimed: bool
    backend: str
    formulation: str
    objective: float | None = None
    timings: Mapping[str, float] = field(default_factory=lambda: _EMPTY)
    iterations: int | None = None
    iterate: Iterate | None = None
    raw: Any = None
    classic: StepSolution | None = None
    contact_ids: NDArray[Any] | None = None
    provenance: Mapping[str, Any] = field(default_factory=lambda: _EMPTY)
    mom: FloatArray | None = None

    def __post_init__(self) -> None:
        for name in _ARRAYS:
            value = getattr(self, name)
            if value is not None and value.flags.writeable:
                object.__setattr__(self, name, read_only(np.array(value)))
        for name in ("certificates", "timings", "provenance"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "raw": portable(self.raw)}

    @property
    def certificate(self) -> Certificate | None:
        """The certificate; of a compatible solution, that of its forces (the truss)."""
        return self.certificates.get("forces")

    @property
    def ok(self) -> bool:
        """Whether there is an answer and every certificate holds, whatever the solver said."""
        held = bool(self.certificates) and all(c.ok for c in self.certificates.values())
        return self.f is not None and held

    @property
    def seconds(self) -> float:
        """Wall-clock time of the whole solve."""
        return float(sum(self.timings.values()))

    def as_dict(self) -> dict[str, Any]:
        """Everything but arrays and raw objects, for JSON."""
        return {
            "backend": self.backend,
            "formulation": self.formulation,
            "status": self.status,
            "claimed": self.claimed,
            "ok": self.ok,
            "objective": self.objective,
            "iterations": self.iterations,
            "timings": dict(self.timings),
            "certificates": {name: c.as_dict() for name, c in self.certificates.items()},
            "provenance": dict(self.provenance),
        }

    def save(self, path: str | Path) -> None:
        """Write the arrays and the record of the run to an ``.npz`` file (not ``raw``)."""
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        arrays["contact_ids"] = self.contact_ids
        record = np.array(json.dumps(_finite(self.as_dict()), allow_nan=False))
        archive.save(path, "solution", {**arrays, "record": record})

    @staticmethod
    def load(path: str | Path) -> dict[str, Any]:
        """Read what ``save`` wrote: the arrays by name, and the record as a dictionary.

        Raises
        ------
        InvalidInput : the file is missing, damaged, or holds something else.
        """
        _, content = archive.load(path, ("solution",))
        content["record"] = json.loads(str(content.get("record", "{}")))
        return content

    def __repr__(self) -> str:
        verdict = "ok" if self.ok else "not ok"
        worst = max((c.worst for c in self.certificates.values()), default=float("nan"))
        return (
            f"StepSolution({self.formulation} by {self.backend}: {verdict}, "
            f"worst residual {worst:.1e}, solver says {self.status!r})"
        )


def _finite(value: Any) -> Any:
    """The same record with None for every number that is not finite, as JSON demands."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def matched(values: FloatArray | None, start: StepSolution, target: Any, nc: int) -> FloatArray:
    """Per-contact values of an earlier solution on today's contacts, matched by their names.

    Contacts without a predecessor get zero. Without names on both sides, order decides.

    Raises
    ------
    InvalidInput : no names on both sides and the counts differ.
    """
    if values is None:
        raise InvalidInput("warm_start", "a solution without forces", "a solution with forces")
    if start.contact_ids is None or target is None:
        if values.shape[0] != nc:
            raise InvalidInput(
                "warm_start", f"{values.shape[0]} contacts without names", f"{nc} contacts"
            )
        return np.array(values)
    earlier = {name: i for i, name in enumerate(start.contact_ids.tolist())}
    index = np.array([earlier.get(name, -1) for name in target.tolist()], dtype=np.intp)
    return np.where(index >= 0, values[index] if values.size else 0.0, 0.0)
