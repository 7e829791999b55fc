"""Steps with bilateral rows: every solver against the step without the tied motions."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import null_space

import cdopt
from cdopt.formulations.base import Formulation
from cdopt.problem import ContactProblem, SolveFailed, Unsupported, prove_infeasible
from cdopt.problem.step_problems import with_lines

TIES = 4
BODIES, CONTACTS = 3, 9


def rows(rng: np.random.Generator, count: int) -> np.ndarray:
    """Rows that touch one or two bodies of six dofs."""
    B = np.zeros((count, 6 * BODIES))
    for row, bodies in zip(B, rng.integers(0, BODIES, (count, 2)), strict=True):
        for k in bodies:
            row[6 * k : 6 * k + 6] = rng.standard_normal(6)
    return B


def step_of(d: int, seed: int) -> tuple[cdopt.ContactStep, np.ndarray, np.ndarray]:
    """A step, and the rows and the rates of its ties."""
    rng = np.random.default_rng(seed)
    nv = 6 * BODIES
    B, J = rows(rng, CONTACTS), rows(rng, TIES)
    friction = None
    if d > 1:
        friction = cdopt.Friction(rng.uniform(0.1, 0.8, CONTACTS), rows(rng, CONTACTS * (d - 1)))
    motion = rng.standard_normal(nv), 10.0 * rng.standard_normal(nv)
    mass, gaps = np.diag(rng.uniform(0.5, 3.0, nv)), rng.uniform(0.0, 1e-3, CONTACTS)
    step = cdopt.ContactStep(mass, B, gaps, *motion, 1e-2, friction=friction)
    return step, J, 0.1 * rng.standard_normal(TIES)


def stated(step: cdopt.ContactStep, law: str | None, form: str) -> Formulation:
    return cdopt.FrictionalCD(step, law, form) if law else cdopt.ClassicCD(step, form)


def tied(step: cdopt.ContactStep, law: str | None, form: str, data: ContactProblem) -> Formulation:
    """The formulation of the step on other data."""
    cd = stated(step, law, form)
    cd.data = data
    if isinstance(cd, cdopt.FrictionalCD):
        cd.shift = np.zeros(data.nc)
    return cd


def eliminated(step: cdopt.ContactStep, J: np.ndarray, rate: np.ndarray) -> tuple:
    """The step in the motions y that the ties leave, v = v₀ + Z y, and the map to v."""
    Z, v_0 = null_space(J), -np.linalg.lstsq(J, rate, rcond=None)[0]
    M, B = step.M.toarray(), step.B.toarray()
    # ½‖v − v*‖²_M over y: the mass ZᵀMZ and the free motion y* with ZᵀMZ y* = ZᵀM(v* − v₀)
    start = np.linalg.solve(Z.T @ M @ Z, Z.T @ M @ (step.v_star - v_0))
    friction = step.friction
    if friction is not None:
        B_t = friction.B_t.toarray()
        sliding = (B_t @ v_0).reshape(friction.rate.shape)
        friction = cdopt.Friction(friction.mu, B_t @ Z, sliding + friction.rate)
    still = np.zeros(Z.shape[1])
    reduced = cdopt.ContactStep(
        Z.T @ M @ Z, B @ Z, step.phi, start, still, step.dt, gap_rate=B @ v_0, friction=friction
    )
    return reduced, lambda y: v_0 + Z @ y


CASES = [(1, None), (2, "associated"), (3, "associated"), (2, "coulomb"), (3, "coulomb")]
SOLVERS = {
    1: ["newton", "auto", "pgs", "apgd", "augmented-lagrangian", "interior-point", "osqp"],
    2: ["newton", "nsgs", "apgd", "admm", "interior-point", "clarabel"],
}


@pytest.mark.parametrize(("d", "law"), CASES)
def test_every_solver_finds_the_motion_of_the_step_in_untied_motions(d: int, law: str) -> None:
    step, J, rate = step_of(d, seed=d)
    reduced, motion = eliminated(step, J, rate)
    expected = motion(stated(reduced, law, "velocity").solve("newton").v_next)
    for name in SOLVERS[min(d, 2)]:
        if law == "coulomb" and name in ("interior-point", "clarabel"):
            continue
        data = with_lines(stated(step, law, "force").data, sp.csr_array(J), rate)
        for form in ("force", "velocity") if name in ("clarabel", "osqp") else ("force",):
            found = tied(step, law, form, data).solve(name)
            limit = 1e-4 if name == "clarabel" else 1e-6
            assert found.certificate.worst <= (1e-5 if name == "clarabel" else 1e-7), name
            assert np.abs(found.v_next - expected).max() <= limit, name
            assert np.abs(J @ found.v_next + rate).max() <= limit, name


def test_the_forces_of_ties_are_what_balance_needs() -> None:
    """Both forms give the one force of a rod that carries a weight, with either sign."""
    for weight in (2.0, -2.0):
        step = cdopt.ContactStep(np.eye(2), [[1.0, 0.0]], [0.0], [0.0, 0.0], [-1.0, -weight], 1e-2)
        data = with_lines(cdopt.ClassicCD(step).data, sp.csr_array([[0.0, 1.0]]), np.zeros(1))
        for form, name in (("force", "clarabel"), ("velocity", "clarabel"), ("force", "newton")):
            found = tied(step, None, form, data).solve(name)
            assert found.ok
            np.testing.assert_allclose(found.f, [1.0, weight], atol=1e-7)


@pytest.mark.parametrize(("d", "law"), CASES)
def test_ties_that_contradict_each_other_are_proven_infeasible(d: int, law: str) -> None:
    step, J, rate = step_of(d, seed=10 + d)
    both = sp.csr_array(np.vstack([J, J[:1]]))
    data = with_lines(stated(step, law, "force").data, both, np.append(rate, rate[0] + 1.0))
    proof = prove_infeasible(data)
    assert proof is not None
    assert np.abs(data.products @ proof.vector).max() <= 1e-6 * np.abs(proof.vector).max()
    assert data.bias @ proof.vector < 0.0
    with pytest.raises(SolveFailed, match="infeasib"):
        tied(step, law, "force", data).solve("newton")


def test_the_certificate_sees_a_tie_that_is_violated_and_takes_its_force_as_free() -> None:
    step, J, rate = step_of(1, seed=3)
    data = with_lines(cdopt.ClassicCD(step).data, sp.csr_array(J), rate)
    found = tied(step, None, "force", data).solve("newton")
    assert np.any(found.f[CONTACTS:] < 0.0)
    assert found.certificate["tension"] == 0.0
    assert found.certificate["complementarity"] <= 1e-14
    for way in (1e-3, -1e-3):
        moved = dataclasses.replace(data, bias=data.bias + way * (np.arange(data.rows) >= CONTACTS))
        certificate = cdopt.certify(moved, found.v_next, found.f)
        assert certificate["penetration"] > 1e-5
        assert certificate["tension"] == 0.0


def test_a_solver_that_cannot_take_ties_says_so() -> None:
    step, J, rate = step_of(1, seed=4)
    data = with_lines(cdopt.ClassicCD(step).data, sp.csr_array(J), rate)
    cd = tied(step, None, "force", data)
    with pytest.raises(Unsupported, match="lcp does not take lines") as refused:
        cd.solve("lcp")
    assert "newton" in refused.value.alternatives
    with pytest.raises(Unsupported, match="rigid step with lines"):
        cdopt.backends.LCP().run(cd, None, False)
