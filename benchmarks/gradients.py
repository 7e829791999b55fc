"""Derivatives of rank-deficient steps by several ways: how right, how unique, and how long.

Steps of twelve contacts of rank five, so that forces are not determined. The derivative of v⁺ along
a change of load is compared with that in forty digits; df is what a way gives for the forces. Time
is that of one solution and this derivative, which layers make of one backward pass for each entry
of v⁺ and f. ``python -m benchmarks.gradients`` prints
the table of the page on gradients; it needs jax, qpax, torch, cvxpylayers and mpmath.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import mpmath as mp
import numpy as np

import cdopt

FloatArray = Any
NC, NV, RANK = 12, 8, 5
_EPS = 1e-6


class Given(NamedTuple):
    """A step, its dense matrices, and the change of load (nv,)."""

    step: Any
    M: FloatArray
    B: FloatArray
    dF: FloatArray


class Found(NamedTuple):
    """dv⁺ (nv,), and df (nc,) or None where it is refused."""

    dv: FloatArray
    df: FloatArray | None


def given(seed: int) -> Given:
    """A step of which all contacts press, on bodies that also move freely."""
    rng = np.random.default_rng(seed)
    B = rng.standard_normal((NC, RANK)) @ rng.standard_normal((RANK, NV))
    root = np.eye(NV) + 0.3 * rng.standard_normal((NV, NV))
    F = -B.T @ rng.uniform(0.5, 1.5, NC)
    step = cdopt.ContactStep(root @ root.T, B, np.zeros(NC), np.zeros(NV), F, 0.01)
    return Given(step, root @ root.T, B, rng.standard_normal(NV))


def exact(case: Given) -> FloatArray:
    """dv⁺ in forty digits: the change of free motion, less what contacts of full rank hold."""
    with mp.workdps(40):
        M, rows = mp.matrix(case.M.tolist()), mp.matrix(case.B[:RANK].tolist())
        free = mp.lu_solve(M, mp.matrix(case.dF.tolist())) * mp.mpf(case.step.dt)
        push = mp.inverse(M) * rows.T
        held = free - push * mp.lu_solve(rows * push, rows * free)
        return np.array(held, dtype=float).ravel()


# --- the ways ------------------------------------------------------------------------------


def by_cdopt(case: Given) -> Found:
    """This package: forces have no derivative."""
    derivatives = cdopt.gradients.of(cdopt.ClassicCD(case.step))
    assert "f" not in derivatives.outputs
    return Found(derivatives.jvp(F_ext=case.dF)["v_next"], None)


def by_delassus(inverse: Callable[[FloatArray], FloatArray]) -> Callable[[Given], Found]:
    """N⁻¹ by ``inverse`` on the contacts that press."""

    def way(case: Given) -> Found:
        f, dt = cdopt.ClassicCD(case.step).solve().f, case.step.dt
        B = case.B[f > 1e-6 * f.max()]
        push = np.linalg.solve(case.M, B.T)
        df = np.zeros(NC)
        df[f > 1e-6 * f.max()] = -inverse(dt * B @ push) @ (dt * push.T @ case.dF)
        return Found(dt * np.linalg.solve(case.M, case.dF + case.B.T @ df), df)

    return way


def by_layer(mode: str) -> Callable[[Given], Found]:
    """cvxpylayers, whose derivatives are diffcp's, on the problem in forces."""

    def way(case: Given) -> Found:
        import torch
        from cvxpylayers.torch import CvxpyLayer

        stated = cdopt.ClassicCD(case.step).parametrised()
        names = ("F_ext", *(name for name in stated.parameters if name != "F_ext"))
        layer = CvxpyLayer(
            stated.problem,
            parameters=[stated.parameters[name] for name in names],
            variables=[stated.variables["v_next"], stated.variables["f"]],
        )
        values = [torch.tensor(np.asarray(getattr(case.step, name))) for name in names]
        values[0].requires_grad_()
        answers = layer(*values, solver_args={"mode": mode, "solve_method": "Clarabel"})
        rows = [
            torch.autograd.grad(entry, values[0], retain_graph=True)[0].numpy()
            for answer in answers
            for entry in answer
        ]
        change = np.array(rows) @ case.dF
        return Found(change[:NV], change[NV:])

    return way


def by_qpax(case: Given) -> Found:
    """qpax on min ½ fᵀ(N + 1e-6 I)f + pᵀf, f ≥ 0."""
    import jax
    import qpax

    jax.config.update("jax_enable_x64", True)
    np_, dt = jax.numpy, case.step.dt
    mobility = np.linalg.inv(case.M)
    Q = dt * case.B @ mobility @ case.B.T + _EPS * np.eye(NC)

    def forces(F: Any) -> Any:
        p = case.B @ (dt * mobility @ F)
        empty = np_.zeros((0, NC)), np_.zeros(0)
        return qpax.solve_qp_primal(np_.array(Q), p, *empty, -np_.eye(NC), np_.zeros(NC))

    df = np.asarray(jax.jacrev(forces)(np_.array(case.step.F_ext))) @ case.dF
    return Found(dt * mobility @ (case.dF + case.B.T @ df), df)


WAYS: dict[str, Callable[[Given], Found]] = {
    "cdopt": by_cdopt,
    "N + 1e-6 I": by_delassus(lambda N: np.linalg.inv(N + _EPS * np.eye(len(N)))),
    "pseudo-inverse of N": by_delassus(np.linalg.pinv),
    "qpax, N + 1e-6 I": by_qpax,
    "cvxpylayers, lsqr": by_layer("lsqr"),
    "cvxpylayers, dense": by_layer("dense"),
}


def measured(way: Callable[[Given], Found], cases: list[Given]) -> tuple[FloatArray, FloatArray]:
    """Errors of dv⁺ (n,), the largest entries of df (n,), and processor seconds (n,), best of 3."""
    errors, spread, seconds = [], [], []
    for case in cases:
        times = []
        for _ in range(3):
            begun = time.process_time()
            found = way(case)
            times.append(time.process_time() - begun)
        expected = exact(case)
        errors.append(np.abs(found.dv - expected).max() / np.abs(expected).max())
        spread.append(np.nan if found.df is None else np.abs(found.df).max())
        seconds.append(min(times))
    return np.array(errors), np.array([spread, seconds])


def main() -> None:
    """The table, one way a line."""
    cases, unit = [given(seed) for seed in range(10)], None
    print("| | error of dv⁺, median and worst | largest df, median | time over cdopt's |")
    for name, way in WAYS.items():
        errors, (spread, seconds) = measured(way, cases)
        unit = np.median(seconds) if unit is None else unit
        df = "refused" if np.isnan(spread).all() else f"{np.median(spread):.2g} N"
        print(f"| {name} | {np.median(errors):.0e}, {errors.max():.0e} | {df} "
              f"| {np.median(seconds) / unit:.2g} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
