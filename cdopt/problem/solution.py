"""Solutions: forces and motion, the solver's status, the certificates; and warm starts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cdopt._util import archive, checks, formatting, notebook
from cdopt._util.checks import FloatArray, read_only
from cdopt._util.errors import InvalidInput, portable
from cdopt._util.frozen import Frozen
from cdopt.problem.certificate import Certificate
from cdopt.problem.cones import Cones
from cdopt.problem.residual import Residual
from cdopt.problem.step import ContactNames

if TYPE_CHECKING:
    import pandas as pd

_EMPTY: Mapping[str, Any] = MappingProxyType({})
_ARRAYS = ("f", "f_t", "joint_forces", "v_next", "u", "mom", "gap", "slip", "dual", "f_r", "spin")
_PLAIN = ("status", "claimed", "backend", "formulation", "objective", "iterations")
STARTING = "start"  # of a process: among ``timings``, not part of ``seconds``
_KIND = "solution"  # in files
_SHOWN = 12  # contacts of a printed solution


@dataclass(frozen=True, eq=False)
class WarmStart(Frozen):
    """The part of an earlier solution from which a solver can start.

    Attributes
    ----------
    forces : f (rows,), N; with friction d rows a contact, the normal one first.
    motion : displacement u (nv,) of a truss, m, or None. Steps start from the motion that the
        forces cause.
    contact_ids : (nc,) names of the contacts, or None.
    """

    forces: FloatArray
    motion: FloatArray | None = None
    contact_ids: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        self.__dict__["forces"] = checks.answer("forces", self.forces, None)
        if self.motion is not None:
            self.__dict__["motion"] = checks.answer("motion", self.motion, None)
        if self.contact_ids is not None:
            ids = checks.array("contact_ids", self.contact_ids, "distinct integers or strings")
            self.__dict__["contact_ids"] = checks.labels("contact_ids", ids, ids.size)
        super().__post_init__()

    def forces_on(self, contact_ids: NDArray[Any] | None, nc: int, d: int = 1) -> FloatArray:
        """Forces (nc d,) on other contacts, matched by their names; zero on new contacts.

        Without names on both sides they are matched by order. If only one side has friction, the
        normal forces are kept.

        Raises
        ------
        InvalidInput : no names on both sides and the counts differ.
        """
        nc, d = checks.whole("nc", nc, 0), checks.whole("d", d, 1, 6)
        if contact_ids is not None:
            contact_ids = checks.labels("contact_ids", contact_ids, nc)
        if self.contact_ids is None or contact_ids is None:
            return self._in_order(nc * d)
        count = self.contact_ids.size
        rows = self.forces.reshape(count, self.forces.size // max(count, 1))
        forces, many = np.zeros((nc, d)), min(d, rows.shape[1])
        kinds = {self.contact_ids.dtype.kind, contact_ids.dtype.kind}
        if len(kinds) == 1 or kinds <= {"i", "u"}:  # a number is no text
            _, here, there = np.intersect1d(contact_ids, self.contact_ids, return_indices=True)
            forces[here, :many] = rows[there, :many]
        return forces.ravel()

    def forces_in(self, cones: Cones, contact_ids: NDArray[Any] | None) -> FloatArray:
        """Forces (rows,) for the rows of ``cones``, of contacts with these names or None.

        Contacts with different numbers of rows are matched by their order.

        Raises
        ------
        InvalidInput : as of ``forces_on``.
        """
        if checks.instance("cones", cones, Cones).uniform:
            return self.forces_on(contact_ids, cones.nc, cones.d)
        return self._in_order(cones.rows)

    def _in_order(self, rows: int) -> FloatArray:
        """The forces of as many rows."""
        count = self.forces.size
        if count != rows:
            expected = f"{rows:,}, or contact_ids of both steps"
            raise InvalidInput("warm_start", f"{count:,} forces without contact_ids", expected)
        return np.array(self.forces)


@dataclass(frozen=True, eq=False)
class Iterate(Frozen):
    """A primal–dual pair as a backend returned it.

    The motion is v⁺ (nv,) of a step in m/s and rad/s, Δq/h of a variational step, or u (nv,) of a
    truss in m; forces f (rows,) are in N.
    """

    motion: FloatArray | None
    forces: FloatArray

    def __post_init__(self) -> None:
        for name, value in self.__dict__.items():
            if value is not None:
                plain = checks.real(name, value, "a vector of real numbers")
                self.__dict__[name] = read_only(plain.astype(np.float64))


@dataclass(frozen=True, eq=False)
class StepSolution(Frozen):
    """The result of a solve.

    Attributes
    ----------
    f : (nc,) contact forces, N, compression positive; None if the solver reported failure and its
        ``iterate`` is not certified.
    v_next : (nv,) velocity v⁺ at the end of the step, m/s and rad/s; None for trusses and for steps
        known only by N and p.
    u : (nv,) micro-displacement of a truss, Δq of a variational step, m and rad; None for classic
        contact dynamics.
    f_t, slip : (nc, d − 1) tangential forces on body j in N, and sliding rates in m/s, of a step
        with friction, along its tangents; None for others.
    f_r, spin : (nc, k) moments on body j in N·m, and angular velocities in rad/s, in the order of
        the rows ``B_r`` of friction, of a step with torsion or rolling; None for others.
    joint_forces : (nj,) reactions of the joints, N and N·m, of any sign: ``J.T @ joint_forces`` is
        their effect on the bodies. If rows of J depend on each other, the least reactions; None
        without joints.
    mom : (nv,) generalised momentum at the end of a variational step, kg m/s; None for others.
    gap : (nc,) residual of the contact constraints: B v⁺ + bias in m/s for a step (without
        restitution the gap at its end over Δt); B u in m for a truss, the gap at q_α in m for a
        variational step.
    dual : (rows,), normal first, or (nv,): multipliers of the form that was solved. Force form: of
        f ≥ 0, the gap in m/s. Velocity form: the impulses Δt f in N s. Complementary form: of
        Bᵀf = F̃, the micro-displacement u. Potential form: the forces f.
    certificate : residuals of the forces; ``ok`` is true when every certificate is.
    certificates : by name; compatible contact dynamics has one for each of its two problems.
    status : as the solver reported it.
    claimed : whether the solver reported success.
    backend : name of the backend; ``formulation`` names the problem that it solved.
    objective : optimal value of the form solved, N m/s or J.
    timings : seconds of "compile" (CVXPY to solver data), "solve" (the solver) and so on; "start",
        of a process for a solver without a time limit, is not part of ``seconds``.
    iterations : the solver's count, or None.
    iterate : the last primal–dual pair, certified or not.
    raw : the result object of the solver; pickles and copies have None if it cannot be pickled.
    classic : the solution of the classic step of a compatible solution.
    contact_ids : (nc,) ids of the contacts, or None; ``contact_names`` is for people.
    names : labels of the contacts, or None.
    provenance : versions, settings and tolerances, to repeat the run.
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
    f_t: FloatArray | None = None
    slip: FloatArray | None = None
    f_r: FloatArray | None = None
    spin: FloatArray | None = None
    joint_forces: FloatArray | None = None
    names: ContactNames | None = None

    def __post_init__(self) -> None:
        for name in _ARRAYS:
            value = getattr(self, name)
            if value is not None:
                array = checks.real(name, value, "an array of real numbers")
                own = array if not array.flags.writeable else read_only(np.array(array))
                self.__dict__[name] = own
        for name in ("certificates", "timings", "provenance"):
            given = checks.mapping(name, getattr(self, name))
            self.__dict__[name] = MappingProxyType(dict(given))
        for name in ("status", "backend", "formulation"):
            checks.text(name, getattr(self, name))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "raw": portable(self.raw)}

    @property
    def certificate(self) -> Certificate | None:
        """The certificate of the forces, or another one that fails.

        A compatible solution has one for each of its two problems, "classic" and "forces".
        """
        forces = self.certificates.get("forces")
        failed = (c for c in self.certificates.values() if not c.ok)
        return next(failed, forces) if forces is not None and forces.ok else forces

    @property
    def ok(self) -> bool:
        """Whether there are forces and every certificate is ok, whatever the solver reported."""
        certified = bool(self.certificates) and all(c.ok for c in self.certificates.values())
        return self.f is not None and certified

    @property
    def seconds(self) -> float:
        """Wall-clock time of the whole solve, without the start of a process for it."""
        parts = self.timings.items()
        return float(sum(t for name, t in parts if name.rpartition(" ")[2] != STARTING))

    @property
    def contact_names(self) -> list[str]:
        """Names of the contacts (nc,), as those of the step; empty where none are known."""
        return [] if self.names is None else list(self.names.texts)

    def to_frame(self) -> pd.DataFrame:
        """A row for each contact as a pandas.DataFrame, its name the index.

        Columns: ``f`` in N and ``gap``; with friction also ``f_t`` in N and ``slip`` in m/s, the
        second tangent's as ``f_t2`` and ``slip2``; with moments ``f_r`` in N·m and ``spin``.

        Raises
        ------
        InvalidInput : the solution has no forces.
        """
        return notebook.data_frame(self.columns(), index="contact")

    def columns(self) -> dict[str, Any]:
        """The columns of ``to_frame`` by name, "contact" first.

        Raises
        ------
        InvalidInput : the solution has no forces.
        """
        if self.f is None:
            raise InvalidInput("solution", "no forces", "a solution with forces")
        columns: dict[str, Any] = {"contact": self.contact_names or range(self.f.size)}
        columns |= {"f": self.f} | ({} if self.gap is None else {"gap": self.gap})
        shown = ("f_t", self.f_t), ("slip", self.slip), ("f_r", self.f_r), ("spin", self.spin)
        for name, rows in shown:
            for k in range(0 if rows is None else rows.shape[1]):
                columns[name if k == 0 else f"{name}{k + 1}"] = np.asarray(rows)[:, k]
        return columns

    def as_dict(self, forces: bool = True) -> dict[str, Any]:
        """Plain values for JSON.

        Parameters
        ----------
        forces : whether to include the forces f (nc,), N, as a list; None where there are none.
        """
        forces = checks.flag("forces", forces)
        plain = {name: getattr(self, name) for name in _PLAIN}
        plain |= {"ok": self.ok, "timings": dict(self.timings)}
        plain["certificates"] = {name: c.as_dict() for name, c in self.certificates.items()}
        plain["provenance"] = dict(self.provenance)
        if forces and self.names:
            plain["contacts"] = self.contact_names
        if forces:
            plain["f"] = None if self.f is None else self.f.tolist()
        return plain

    def _repr_html_(self) -> str:
        """The residuals of all certificates, in a notebook."""
        rows = [(name, *row) for name, c in self.certificates.items() for row in c.rows()]
        title = f"{self.formulation} by {self.backend}: {'ok' if self.ok else 'NOT OK'}"
        if self.f is not None:
            title += f", largest force {self.f.max(initial=0.0):,.6g} N"
        note = f"Solver status “{self.status}” after {formatting.seconds(self.seconds)}."
        return notebook.table(title, ("certificate", "residual", "value", "of"), rows, note, left=2)

    def warm_start(self) -> WarmStart:
        """The forces, motion and contact ids that a later solve can start from.

        Raises
        ------
        InvalidInput : the solution has no forces.
        """
        if self.f is None:
            raise InvalidInput("warm_start", "a solution without forces", "a solution with forces")
        if self.f_t is None:
            return WarmStart(self.f, self.u, self.contact_ids)
        rows = np.column_stack([self.f, self.f_t, *([] if self.f_r is None else [self.f_r])])
        return WarmStart(rows.ravel(), None, self.contact_ids)

    def save(self, path: str | Path) -> None:
        """Write the solution to an ``.npz`` file, all but ``raw``; a file of another kind stays."""
        path = checks.path("path", path)
        arrays, record = self._stored()
        archive.save(path, _KIND, {**arrays, "record": np.array(json.dumps(record))})

    @classmethod
    def load(cls, path: str | Path) -> StepSolution:
        """Read a solution that ``save`` wrote; its ``raw`` is None.

        Raises
        ------
        InvalidInput : the file is missing, damaged, or of another kind.
        """
        _, content = archive.load(checks.path("path", path), (_KIND,))
        try:
            return cls._restored(content, json.loads(str(content["record"])))
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            text = " ".join(f"{path}: {type(error).__name__}: {error}".split())[:300]
            raise InvalidInput("path", text, "a solution that StepSolution.save wrote") from error

    def _stored(self, prefix: str = "") -> tuple[dict[str, Any], dict[str, Any]]:
        """Arrays by name, those of the classic step with a prefix, and all else for JSON."""
        arrays = {prefix + name: getattr(self, name) for name in (*_ARRAYS, "contact_ids")}
        arrays[f"{prefix}names"] = self.contact_names or None
        record = {name: getattr(self, name) for name in _PLAIN}
        for name in ("timings", "provenance"):
            record[name] = dict(getattr(self, name))
        record["certificates"] = {name: asdict(c) for name, c in self.certificates.items()}
        if self.iterate is not None:
            arrays[f"{prefix}iterate_motion"] = self.iterate.motion
            arrays[f"{prefix}iterate_forces"] = self.iterate.forces
        if self.classic is not None:
            earlier, record["classic"] = self.classic._stored(f"{prefix}classic_")
            arrays.update(earlier)
        return arrays, record

    @classmethod
    def _restored(
        cls, content: Mapping[str, Any], record: Mapping[str, Any], prefix: str = ""
    ) -> StepSolution:
        def vector(name: str) -> Any:
            value = content.get(prefix + name)
            return None if value is None else np.asarray(value, dtype=np.float64)

        forces, iterate = vector("iterate_forces"), None
        if forces is not None:
            iterate = Iterate(vector("iterate_motion"), forces)
        certificates = {
            name: Certificate(**{**c, "residuals": tuple(Residual(**r) for r in c["residuals"])})
            for name, c in record["certificates"].items()
        }
        classic, texts = record.get("classic"), content.get(f"{prefix}names")
        return cls(
            **{name: vector(name) for name in _ARRAYS},
            **{name: record[name] for name in (*_PLAIN, "timings", "provenance")},
            certificates=certificates,
            iterate=iterate,
            classic=classic and cls._restored(content, classic, f"{prefix}classic_"),
            contact_ids=content.get(f"{prefix}contact_ids"),
            names=None if texts is None else ContactNames(len(texts), np.asarray(texts)),
        )

    def __str__(self) -> str:
        largest = [] if self.f is None else np.argsort(-self.f, kind="stable")[:_SHOWN].tolist()
        if self.f is None or not largest:
            return repr(self)
        names = self.contact_names or list(map(str, range(self.f.size)))
        lines = [f"{names[i]:<20}{self.f[i]:>14,.6g}" for i in sorted(largest)]
        more = self.f.size - len(lines)
        ending = [f"and {more:,} contacts with smaller forces"] if more else []
        return "\n".join([repr(self), "", f"{'contact':<20}{'f [N]':>14}", *lines, *ending])

    def __repr__(self) -> str:
        verdict = "ok" if self.ok else "not ok"
        worst = max(self.certificates.values(), key=lambda c: c.worst / c.tol, default=None)
        residual = "none" if worst is None else worst.shown
        return (
            f"StepSolution({self.formulation} by {self.backend}: {verdict}, "
            f"worst residual {residual}, solver status {self.status!r})"
        )
