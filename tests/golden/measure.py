"""What is recorded of a problem: its answer, and the certificates of answers that are given."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

import cdopt

from . import adapters
from .record import Record

SMALL = 1e-9  # residuals below it are round-off: their scale may be that of any contact
RESOLVED = 1e-12  # share of the energy that squares of small changes of speed may miss
AMPLIFIED = 1e4  # forces that errors of gaps reach this many times are not compared


def dense(matrix: Any) -> np.ndarray:
    """As an array."""
    return matrix.toarray() if sp.issparse(matrix) else np.asarray(matrix, dtype=float)


# --- certificates --------------------------------------------------------------------------


def certificate(record: Record, name: str, data: Any, motion: Any, forces: np.ndarray) -> None:
    """Every residual of a given answer, its scale and the verdict."""
    given = cdopt.certify(data, adapters.motion_of(data, motion), forces)
    value = np.array([r.value for r in given])
    record.text(f"{name} residuals", ", ".join(r.name for r in given))
    record.put(f"{name} value", value, np.abs(value))
    scale = np.array([r.scale for r in given])
    record.put(f"{name} scale", scale, np.where(value > SMALL, np.abs(scale), np.inf))
    record.put(f"{name} resolution", [r.resolution for r in given])
    if abs(given.worst - given.tol) > 1e-4 * given.tol:
        record.put(f"{name} verdict", given.ok)


def probes(record: Record, data: Any, given: Given, old: Record | None, name: str = "") -> None:
    """Certificates of answers that no solver made, and of the stored one, changed a little."""
    rng = np.random.default_rng(0)
    rows = given.rows
    ways = {
        "zero": (given.free, np.zeros(rows)),
        "still": (None if given.free is None else 0.0 * given.free, np.zeros(rows)),
    }
    f = given.force * np.abs(rng.standard_normal(rows))
    ways["pushed"] = (given.moved(f), f)
    noise = given.force * rng.standard_normal(rows)
    random = given.free
    if random is not None:
        random = given.speed * rng.standard_normal(random.size)
    ways["random"] = (random, noise)
    source = record if old is None else old
    if f"{name}stored f" in source.values:
        f = source.values[f"{name}stored f"]
        v = source.values.get(f"{name}stored v")
        ways["stored"] = (v, f)
        changed = None if v is None else v + 1e-3 * given.speed * rng.standard_normal(v.size)
        ways["moved"] = (changed, f)
        bumped = f * (1.0 + 1e-4 * rng.standard_normal(rows))
        if rows:
            bumped[rng.integers(rows)] += 0.1 * np.abs(f).max()
        ways["bumped"] = (v if given.held else given.moved(bumped), bumped)
    for way, (motion, forces) in ways.items():
        certificate(record, f"{name}{way}", data, motion, forces)


class Given:
    """What answers are made of: the free motion, what forces do, a typical force and speed."""

    def __init__(self, rows, free, response, force, held=False) -> None:
        self.rows, self.free, self.response = rows, free, response
        self.force, self.held = force, held
        size = 0.0 if free is None else float(np.abs(free).max(initial=0.0))
        self.speed = size or 1.0

    def moved(self, f: np.ndarray) -> np.ndarray | None:
        """The motion that forces cause."""
        return None if self.free is None else self.free + self.response(f)


def of_step(step: Any, d: int = 1) -> Given:
    """For a step with d rows a contact."""
    rows = step.nc * d
    if not hasattr(step, "M"):
        N, p = adapters.delassus(step)
        size = np.abs(p).max(initial=0.0) / (np.diag(N).max(initial=0.0) or 1.0)
        return Given(rows, None, None, size or 1.0)
    M, B = dense(step.M), all_rows(step, d)
    free = step.v + step.dt * np.linalg.solve(M, step.F_ext)
    push = step.dt * np.linalg.solve(M, B.T)
    reach = np.abs(push).max(initial=0.0) or 1.0
    size = (np.abs(free - step.v).max(initial=0.0) + np.abs(step.v).max(initial=0.0)) / reach
    return Given(rows, free, lambda f: push @ f, size or 1.0)


def all_rows(step: Any, d: int) -> np.ndarray:
    """(nc d, nv), the normal one of each contact first."""
    normal = dense(step.B)
    if d == 1:
        return normal
    sliding = dense(step.friction.B_t).reshape(step.nc, d - 1, -1)
    return np.concatenate([normal[:, None], sliding], axis=1).reshape(step.nc * d, -1)


# --- answers -------------------------------------------------------------------------------


def failed(record: Record, name: str, error: cdopt.CdoptError) -> None:
    """The kind of failure."""
    record.text(f"{name}error", type(error).__name__)


def proof(record: Record, name: str, error: Any, rows: np.ndarray, bias, load, mu=None) -> None:
    """Whether a failure proves that there is no answer, and by how much the proof misses.

    Of a step g in the cones with gᵀrows = 0 and gᵀbias < 0; of a truss (``load`` is its load) u
    with rows u ≥ 0 and loadᵀu < 0.
    """
    found = getattr(error, "proof", None)
    record.put(f"{name}proven", found is not None)
    if found is None:
        return
    x = np.asarray(found.vector)
    if load is None:
        terms = np.abs(rows).T @ np.abs(x) + 1e-300
        missed = np.abs(rows.T @ x) / terms.max(initial=0.0)
        value = float(bias @ x)
        table = x.reshape(-1, 1 if mu is None else x.size // len(mu))
        sliding = np.linalg.norm(table[:, 1:], axis=1)
        outside = sliding - (np.zeros(len(table)) if mu is None else mu) * table[:, 0]
        outside = np.append(outside, -table[:, 0]) / np.abs(x).max()
        missed = np.append(missed, outside)
    else:
        rates = rows @ x[: rows.shape[1]]
        missed = -rates / (np.abs(rows) @ np.abs(x[: rows.shape[1]])).max()
        value = float(load @ x[: rows.shape[1]])
    record.put(f"{name}proof negative", value < 0.0)
    record.put(f"{name}violation", max(0.0, missed.max(initial=0.0)))


def verdict(record: Record, name: str, solution: Any) -> None:
    """Whether it is certified, and how sharply."""
    record.put(f"{name}ok", solution.ok)
    worst = [c.worst for c in solution.certificates.values()]
    record.put(f"{name}worst", max(worst, default=0.0) if solution.ok else np.nan)


def stored(record: Record, solution: Any, motion: Any, name: str = "") -> None:
    """The answer itself, for later probes; not compared."""
    f = solution.f if solution.f_t is None else np.column_stack([solution.f, solution.f_t]).ravel()
    record.put(f"{name}stored f", f, np.inf)
    if motion is not None:
        record.put(f"{name}stored v", motion, np.inf)


def sharpness(rows: np.ndarray, closed: np.ndarray) -> tuple[np.ndarray, float]:
    """Which forces are determined by rowsᵀf, and how much errors are magnified.

    ``rows`` (nc, nv) in units of mass; ``closed`` (nc,) may carry force.
    """
    unique = ~closed
    length = np.linalg.norm(rows, axis=1)
    index = np.flatnonzero(closed & (length > 0.0))
    if not index.size:
        return unique, 1.0
    unit = rows[index] / length[index][:, None]
    U, sigma, _ = np.linalg.svd(unit, full_matrices=True)
    rank = int((sigma > 1e-8 * sigma[0]).sum())
    null = U[:, rank:]
    alone = np.linalg.norm(null, axis=1) < 1e-7 if null.size else np.ones(index.size, dtype=bool)
    unique[index[alone]] = True
    return unique, float((sigma[0] / sigma[rank - 1]) ** 2)


def step_answer(
    record: Record, step: Any, solution: Any, form: str, d: int = 1, name: str = "",
    soft: bool = False, forces: bool = True,
) -> None:  # fmt: skip
    """What is unique of an answer of a step: v⁺, Bᵀf, the gap, the objective, some forces."""
    f = solution.f if d == 1 else np.column_stack([solution.f, solution.f_t]).ravel()
    word = "motion" if soft else "v_next"
    bias, products = np.asarray(step.p_vec), None
    if not hasattr(step, "M"):
        products, bias = adapters.delassus(step)
        terms = np.abs(products) @ np.abs(f)
        large = np.maximum(terms, np.abs(bias.ravel()).max(initial=0.0))
        record.put(f"{name}{'motion' if soft else 'load'}", products @ f, large)
        gap_terms = large
        rows = products
    else:
        M, rows = dense(step.M), all_rows(step, d)
        pull = np.abs(np.linalg.solve(M, step.F_ext)) * step.dt
        inverse = np.abs(np.linalg.solve(M, rows.T)) * step.dt
        terms = of_bodies(step, M, np.abs(step.v) + pull + inverse @ np.abs(f))
        record.put(f"{name}{word}", solution.v_next, terms)
        if not soft:
            record.put(f"{name}load", rows.T @ f, np.abs(M) @ terms / step.dt)
        gap_terms = np.abs(rows) @ terms
        rows = np.linalg.solve(np.linalg.cholesky(M), rows.T).T
    normal = gap_terms[::d] + np.abs(np.asarray(step.phi) / step.dt if products is None else 0.0)
    gap = None if solution.gap is None else np.asarray(solution.gap)
    if gap is not None and not soft:
        record.put(f"{name}gap", gap[: step.nc] if gap.size == step.nc else gap[::d], normal)
    if soft:
        return
    if solution.objective is not None:
        work = float(np.abs(bias.ravel()) @ np.abs(f)) if bias.size == f.size else 0.0
        work = max(work, float(gap_terms @ np.abs(f)))
        if form == "velocity":
            work *= step.dt
        least = work + (RESOLVED * energy_of(step) if form == "velocity" else 0.0)
        record.put(f"{name}objective", solution.objective, max(abs(solution.objective), least))
    if not forces:
        return
    if d == 1 and gap is not None:
        closed = gap <= 1e-5 * normal.max(initial=0.0)
        unique, factor = sharpness(rows, closed)
        size = np.abs(f).max(initial=0.0) * factor
        record.put(f"{name}f", f, np.where(unique & (factor < AMPLIFIED), size, np.inf))
        if solution.dual is not None and np.size(solution.dual) == step.nc:
            if form == "force":
                record.put(f"{name}dual", solution.dual, normal)
            elif hasattr(step, "M"):
                change = dense(step.B).T @ solution.dual
                record.put(f"{name}dual", change, np.abs(dense(step.M)) @ terms)


def of_bodies(step: Any, M: np.ndarray, terms: np.ndarray) -> np.ndarray:
    """(nv,) of each dof at least a hundredth of its body's: certificates judge bodies."""
    if step.dof_body is None:
        return terms
    mass = np.diag(M)
    energy = np.bincount(step.dof_body, mass * terms**2)[step.dof_body]
    return np.maximum(terms, 1e-2 * np.sqrt(energy / mass))


def energy_of(step: Any) -> float:
    """J, of the motion before the step and of the free one."""
    M = dense(step.M)
    free = np.abs(step.v) + np.abs(step.dt * np.linalg.solve(M, step.F_ext))
    return float(free @ np.abs(M) @ free)


def truss_answer(
    record: Record, solution: Any, B: np.ndarray, power: float, name: str = ""
) -> None:
    """Forces, which are unique, the objective, and the overlaps of loaded contacts."""
    f = np.asarray(solution.f)
    size = np.abs(f).max(initial=0.0)
    record.put(f"{name}f", f, max(1.0, 1.0 / (power - 1.0)) * size)
    record.put(f"{name}objective", solution.objective)
    u = solution.u
    if u is None and solution.dual is not None and np.size(solution.dual) == B.shape[1]:
        u = solution.dual
    if u is not None:
        overlap = B @ u
        loaded = f > 1e-3 * size
        record.put(f"{name}dual", overlap, np.where(loaded, np.abs(B) @ np.abs(u), np.inf))
