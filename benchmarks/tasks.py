"""What a child process can be asked to measure; each task returns rows of plain numbers."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

import cdopt
from benchmarks import (
    direct,
    elastic,
    neighbours,
    petsc,
    polyhedra,
    preconditioners,
    products,
    sweep,
)
from benchmarks.problems import Problem, build
from benchmarks.record import REPEATS, Row, peak_mb, timed
from cdopt.backends.base import Backend

WARM = "pyramid:n=8"  # solved once before the clock starts, so that compiled loops are loaded
BUDGET = 60.0  # s for all repeats of a run


def newton_truss(problem: str, repeats: int = REPEATS, budget: float = BUDGET) -> list[Row]:
    """newton on a no-tension truss: from matrices to certified forces."""
    made, row = _made(problem)
    _truss(Problem(build(WARM).step, made.power, 0.0), "potential").solve("newton", check=False)
    return [row | _solved(lambda: _truss(made, "potential"), "newton", repeats, budget)]


def own_rigid(
    problem: str, solver: str = "newton", accuracy: float = 1e-9,
    repeats: int = REPEATS, budget: float = BUDGET,
) -> list[Row]:  # fmt: skip
    """One of cdopt's solvers on the classic step: from matrices to a certified velocity."""
    made, row = _made(problem)
    own = cdopt.backends.resolve(solver, accuracy=accuracy)
    cdopt.ClassicCD(build(WARM).step).solve(own, check=False)
    return [row | _solved(lambda: cdopt.ClassicCD(made.step), own, repeats, budget)]


def warm_rigid(
    problem: str, solver: str, repeats: int = REPEATS, budget: float = BUDGET
) -> list[Row]:
    """A step of a fall from the answer of the step before, as along a trajectory."""
    made, row = _made(problem)
    name, steps = problem.rsplit("steps=", 1)
    before = cdopt.ClassicCD(build(f"{name}steps={int(steps) - 1}").step).solve(solver)
    posed = partial(cdopt.ClassicCD, made.step)
    return [row | _solved(posed, solver, repeats, budget, warm_start=before)]


def rough_pile(
    problem: str, law: str, accuracy: float = 1e-8, repeats: int = REPEATS, budget: float = BUDGET
) -> list[Row]:
    """The default on a pile of spheres with friction: from matrices to certified forces."""
    made, row = _made(problem)
    own = cdopt.backends.resolve("auto", accuracy=accuracy)
    cdopt.FrictionalCD(build("rough-pile:n=3").step, law).solve(own, check=False)
    row |= {"solver": "auto", "form": law}
    return [row | _solved(lambda: cdopt.FrictionalCD(made.step, law), own, repeats, budget)]


def general_truss(
    problem: str, form: str, solver: str, repeats: int = REPEATS, budget: float = BUDGET
) -> list[Row]:
    """A general solver, called directly, on either form of a truss."""
    made, row = _made(problem)
    measure = petsc.measure if solver in petsc.ON_TRUSSES else direct.measure
    return [row | measure(_truss(made, form), solver, repeats, budget)]


def general_rigid(
    problem: str, form: str, solver: str, repeats: int = REPEATS, budget: float = BUDGET
) -> list[Row]:
    """A general solver, called directly, on either form of the classic step."""
    made, row = _made(problem)
    posed = cdopt.ClassicCD(made.step, form)
    measure = petsc.measure if solver in petsc.ON_STEPS else direct.measure
    return [row | measure(posed, solver, repeats, budget)]


def through_cvxpy(
    problem: str, form: str, solver: str, repeats: int = REPEATS, budget: float = BUDGET
) -> list[Row]:
    """A solver through CVXPY, its own settings; ``own`` is the time it reports itself."""
    made, row = _made(problem)
    _truss(made, form).solve(solver, check=False)
    run, answers = timed(lambda: _truss(made, form).solve(solver, check=False), repeats, budget)
    own = float(np.median([float(answer.raw.solve_time) for answer in answers]))
    row |= run | {"own": own, "overhead": run["seconds"] / own - 1.0}
    return [row | _judged(answers[-1])]


def compatible(
    problem: str, method: str = "two-step", repeats: int = REPEATS, budget: float = BUDGET
) -> list[Row]:
    """Compatible forces from a step, in two steps or in one, by newton."""
    made, row = _made(problem)

    def solve(of: Problem, way: str) -> cdopt.StepSolution:
        options = {"classic": "newton"} if way == "two-step" else {}
        posed = cdopt.CompatibleCD(of.step, of.power, method=way)
        return posed.solve("newton", check=False, **options)

    run, answers = timed(lambda: solve(made, method), repeats, budget)
    row |= run | _judged(answers[-1])
    if method == "one-step":
        exact, near = solve(made, "two-step").f, answers[-1].iterate
        if exact is not None and near is not None:
            row["off"] = float(np.linalg.norm(near.forces - exact) / np.linalg.norm(exact))
    return [row]


def beam(repeats: int = 200) -> list[Row]:
    """The beam on three supports: newton, and the same through CVXPY and Clarabel."""
    made, row = _made("beam-uniform")
    poses: dict[str, Callable[[], Any]] = {
        **{form: partial(cdopt.ClassicCD, made.step, form) for form in ("force", "velocity")},
        **{form: partial(_truss, made, form) for form in ("complementary", "potential")},
    }
    return [
        row | {"form": form, "solver": solver} | _solved(pose, solver, repeats, 20.0)
        for solver in ("newton", "clarabel")
        for form, pose in poses.items()
    ]


def new_steps(repeats: int = 200) -> list[Row]:
    """The beam in another state of motion each time: from its arrays to certified forces."""
    made, row = _made("beam-uniform")
    step, rng = made.step, np.random.default_rng(0)

    def posed() -> Any:
        phi, v = rng.uniform(0.0, 1e-5, step.nc), rng.normal(0.0, 1e-3, step.nv)
        arrays = step.M.toarray(), step.B.toarray(), phi, v, np.array(step.F_ext)
        return cdopt.ClassicCD(cdopt.ContactStep(*arrays, step.dt))

    return [
        row
        | {"form": "force, a new step", "solver": solver}
        | _solved(posed, solver, repeats, 20.0)
        for solver in ("newton", "clarabel", "osqp")
    ]


def first_command(repeats: int = REPEATS) -> list[Row]:
    """What compiling takes in README's first command, by cdopt's solvers, where no loop is kept."""
    names = "newton,pgs,apgd,augmented-lagrangian,interior-point"
    command = [sys.executable, "-m", "cdopt", "solve", "pyramid-hooke:n=10", "--solver", names]
    seconds = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
            text = subprocess.run(
                command, env=environment, capture_output=True, text=True, check=True
            ).stderr
        seconds += [float(text.partition("loops were compiled in ")[2].partition(" s")[0])]
    row = {"problem": "pyramid-hooke:n=10", "form": "compiling", "solver": "cdopt solve"}
    spread = {"least": min(seconds), "greatest": max(seconds)}
    return [row | spread | {"seconds": float(np.median(seconds))}]


def drop(n: int, steps: int, repeats: int = REPEATS, budget: float = 60.0) -> list[Row]:
    """The pyramid's drop by compatible contact dynamics, and where its time goes."""
    dt = 1e-3
    cdopt.simulate(cdopt.scene.pyramid(4), dt, 2 * dt, on_failure="continue")
    scene = cdopt.scene.pyramid(n)

    def fall() -> tuple[float, Mapping[str, Any]]:
        began = time.perf_counter()
        made = cdopt.simulate(scene, dt, steps * dt, on_failure="continue")
        return time.perf_counter() - began, made.diagnostics

    run, answers = timed(fall, repeats, budget)
    seconds, table = min(answers, key=lambda answer: abs(answer[0] - run["seconds"]))
    parts = ("detect", "assemble", "classic", "forces", "output")
    spent = {
        name: float(np.nansum(np.asarray(table[f"seconds_{name}"], dtype=float))) for name in parts
    }
    worst = max(
        float(np.nanmax(np.asarray(table[f"residual_{stage}"], dtype=float)[1:]))
        for stage in ("classic", "forces")
    )
    contacts = np.asarray(table["contacts"])[1:]
    row = run | {f"seconds_{name}": value for name, value in spent.items()}
    row |= {"contacts": float(contacts.mean()), "worst": worst}
    return [row | {"seconds_other": seconds - sum(spent.values())}]


TASKS: Mapping[str, Callable[..., list[Row]]] = {
    task.__name__: task
    for task in (
        newton_truss, own_rigid, warm_rigid, rough_pile, general_truss, general_rigid,
        through_cvxpy, compatible, beam, new_steps, first_command, drop, products.products,
        products.factorisation, sweep.sweep,
        elastic.settling, elastic.growth, elastic.impact, elastic.frames, polyhedra.pile,
        preconditioners.preconditioners,
        neighbours.neighbours,
    )
}  # fmt: skip


# --- parts -----------------------------------------------------------------------------


def _made(text: str) -> tuple[Problem, Row]:
    """The problem, and what it took to make it."""
    made = build(text)
    size = {"contacts": made.step.nc, "dofs": made.step.nv}
    return made, size | {"made_seconds": made.seconds, "made_mb": peak_mb()}


def _truss(made: Problem, form: str) -> cdopt.NoTensionTruss:
    step = made.step
    return cdopt.NoTensionTruss(
        step.B, -step.F_ext, step.stiffness, made.power, form, dof_body=step.dof_body
    )


def _solved(
    pose: Callable[[], Any], solver: str | Backend, repeats: int, budget: float, **options: Any
) -> Row:
    """Stating and solving, and the solver's own share."""
    run, answers = timed(lambda: pose().solve(solver, check=False, **options), repeats, budget)
    own = float(np.median([answer.timings["solve"] for answer in answers]))
    return run | {"own": own} | _judged(answers[-1])


def _judged(answer: cdopt.StepSolution) -> Row:
    row: Row = {"status": answer.status, "iterations": answer.iterations}
    held = answer.certificates.values()
    if not held:
        return row | {"failed": "no iterate"}
    return row | {"worst": max(certificate.worst for certificate in held)}
