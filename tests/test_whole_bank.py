"""The claim of the whole project, on every problem of the bank with every backend."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import MANIFESTS, STEPS

import cdopt
from cdopt.problem import rigid_data

KNOWN_TO_DIFFER = {"beam-uniform", "beam-stiff-middle", "pyramid-hooke", "pyramid-species"}
STEPPERS = [
    name
    for name in cdopt.backends.available()
    if "QP" in cdopt.backends.resolve(name).capability.classes
    or "rigid step" in cdopt.backends.resolve(name).capability.structured
]


def certified_runs(step: cdopt.ContactStep) -> list[cdopt.StepSolution]:
    forms = ["force"] if isinstance(step, cdopt.DelassusStep) else ["force", "velocity"]
    runs = [
        cdopt.ClassicCD(step, form).solve(backend, check=False)
        for form in forms
        for backend in STEPPERS
    ]
    assert {r.backend for r in runs} >= {"clarabel", "osqp"}
    return [run for run in runs if run.ok]


def spread(values: list[np.ndarray], scale: np.ndarray) -> float:
    """Largest disagreement, in units of the scale of each entry."""
    table = np.array(values) / scale
    return float(np.ptp(table, axis=0).max(initial=0.0))


@pytest.mark.parametrize("name", STEPS)
def test_certified_runs_agree_on_motion_and_load_while_forces_may_differ(name: str) -> None:
    """v⁺ and Bᵀf are unique; f is where the manifest says so, and differs where it is known to.

    The certificate's 1e-6 on gaps becomes at most 1e-4 on velocities and loads here: in a pile,
    errors of many contacts add up.
    """
    problem = cdopt.bank.load(name)
    step, unique = problem.step, problem.manifest.unique
    data = rigid_data(step)
    runs = certified_runs(step)
    assert len(runs) >= 3, [str(r) for r in runs]
    if isinstance(step, cdopt.DelassusStep):
        assert spread([step.N @ r.f for r in runs], data.speed) < 1e-4
    else:
        momentum = data.inertia.diagonal * data.dof_speed / step.dt
        assert spread([r.v_next for r in runs], data.dof_speed) < 1e-4
        assert spread([step.B.T @ r.f for r in runs], momentum) < 1e-4
    forces = spread([r.f for r in runs], data.force)
    if unique.f_classic:
        assert forces < 1e-3
    if name in KNOWN_TO_DIFFER:
        assert not unique.f_classic
        assert forces > 0.1


@pytest.mark.parametrize("name", STEPS)
def test_compatible_forces_do_not_depend_on_the_first_step(name: str) -> None:
    problem = cdopt.bank.load(name)
    formulation = cdopt.CompatibleCD(problem.step, problem.power)
    second = cdopt.backends.Newton()
    data = rigid_data(problem.step)
    answers = []
    for classic in ("newton", "lcp", "clarabel", "osqp", "scs", "highs"):
        if classic == "lcp" and problem.step.nc > 500:
            continue
        # Which contacts are closed is read off the first step's gaps, so these must be sharp:
        # where a gap of 1e-6 is a real one, a first step good to 1e-6 cannot tell.
        first = formulation.classic_cd.solve(classic, check=False, tol=1e-8)
        if first.ok:
            answers.append(formulation.solve(second, classic=first))
    assert len(answers) >= 2
    assert all(answer.certificate.ok for answer in answers)
    # The measured N of the FCLib files carry noise of 1e-5 and more, which scales their spread.
    limit = 1e-3 if name.startswith("fclib-") else 1e-4
    assert spread([answer.f for answer in answers], data.force) < limit


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name for name, its in MANIFESTS.items() if its.kind != "frictional"]
)
def test_feasible_problems_are_solved_and_the_others_proven_so(name: str) -> None:
    problem = cdopt.bank.load(name)
    formulation = problem.formulation("truss" if problem.kind == "truss" else "classic")
    if problem.manifest.feasible:
        solution = formulation.solve("newton")
        assert solution.ok
        assert max(c.worst for c in solution.certificates.values()) <= 1e-9
    else:
        with pytest.raises(cdopt.SolveFailed) as failure:
            formulation.solve("clarabel")
        assert failure.value.certificate is not None
