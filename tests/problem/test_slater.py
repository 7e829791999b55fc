"""Slater numbers: unbounded forces, proofs, and infima that are not attained."""

from __future__ import annotations

import numpy as np
import pytest
from wedges import ANGLE, DT, G, wedge

import cdopt
from cdopt.problem import existence, frictional_data
from cdopt.problem.stacking import Stack


@pytest.mark.parametrize("dim", [2, 3])
def test_a_wedge_is_bounded_unbounded_or_infeasible(dim: int) -> None:
    force = [0.0, -G] if dim == 2 else [0.0, 0.0, -G]
    half = 0.5 * G / np.sin(ANGLE)  # without friction
    open_wedge = cdopt.FrictionalCD(wedge(dim, 0.5, 1e-5, force), "associated")
    assert open_wedge.slater().bounded
    assert open_wedge.solve().ok
    closed = cdopt.FrictionalCD(wedge(dim, 0.5, 0.0, force), "associated")
    slater, solution = closed.slater(), closed.solve()
    assert slater.value == 0.0
    assert solution.ok
    assert 0.0 < solution.f[0] < half
    more = solution.iterate.forces + 1e3 * half * (slater.forces / slater.forces.max()).ravel()
    assert cdopt.certify(closed.data, solution.v_next, more).ok  # its forces are unbounded
    deep = cdopt.FrictionalCD(wedge(dim, 0.5, -1e-3, force), "associated")
    with pytest.raises(cdopt.SolveFailed, match="infeasible") as failure:
        deep.solve("clarabel")
    slater, proof = deep.slater(), failure.value.proof
    assert slater.value < 0.0
    assert slater.infeasible
    f, step = proof.vector.reshape(-1, dim), deep.step
    assert np.all(np.linalg.norm(f[:, 1:], axis=1) <= 0.5 * f[:, 0] * (1.0 + 1e-12))
    load = step.B.T @ f[:, 0] + step.friction.B_t.T @ f[:, 1:].ravel()
    assert np.abs(load).max() <= 1e-9 * f.max()
    assert f[:, 0] @ step.bias < -0.5 * f[:, 0].sum()


@pytest.mark.parametrize("known", ["matrices", "N and p"])
def test_an_infimum_that_is_not_attained_is_never_ok(known: str) -> None:
    """At exactly the friction angle no forces of a wedge in space balance a push along it."""

    def posed(force: list[float]) -> cdopt.FrictionalCD:
        data = frictional_data(wedge(3, np.tan(ANGLE), 0.0, force), "associated")
        if known == "matrices":
            return cdopt.FrictionalCD(wedge(3, np.tan(ANGLE), 0.0, force), "associated")
        N = DT * (data.B @ data.B.T).toarray()
        friction = cdopt.Friction(data.cones.mu)
        return cdopt.FrictionalCD(cdopt.DelassusStep(N, data.p, friction=friction), "associated")

    pushed, pressed = posed([0.0, 1.0, 0.0]), posed([0.0, 1.0, -1.0])
    assert pushed.slater().value == 0.0
    for tol in (1e-6, 1e-2):
        for backend, accuracy in (("newton", 1e-3), ("clarabel", None), ("clarabel", 1e-11)):
            options = {} if accuracy is None else {"accuracy": accuracy}
            solution = pushed.solve(backend, check=False, tol=tol, **options)
            assert not solution.ok
            if backend == "clarabel" and tol == 1e-2:
                assert solution.certificate["attainment"] > 2.0
                assert "Slater number" in str(solution.certificate)
    assert pressed.solve().ok
    assert pressed.solve("clarabel").ok


def test_large_forces_that_must_be_large_are_ok() -> None:
    """A heavy weight on a light body in a slot, with the forces that friction needs there."""
    heavy, light = 1e6, 1.0
    B = np.zeros((3, 6))
    B[0, [2, 5]] = 1.0, -1.0  # the weight rests on the light body
    B[1, 3], B[2, 3] = 1.0, -1.0  # the slot
    B_t = np.zeros((6, 6))
    B_t[[0, 1], [0, 1]], B_t[[0, 1], [3, 4]] = 1.0, -1.0
    B_t[[2, 4], 4] = B_t[[3, 5], 5] = 1.0
    step = cdopt.ContactStep(
        np.diag([heavy] * 3 + [light] * 3), B, np.zeros(3), np.zeros(6),
        [0, 0, -G * heavy, 0, 0, -G * light], DT, friction=cdopt.Friction(0.5, B_t),
    )  # fmt: skip
    solution = cdopt.FrictionalCD(step, "associated").solve("newton")
    assert solution.ok, solution.certificate
    assert solution.certificate.slater == 0.0
    assert np.abs(solution.v_next).max() <= 1e-6 * G * DT


def test_a_motion_that_opens_all_contacts_is_the_proof_of_an_infinite_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pile = cdopt.FrictionalCD(cdopt.bank.load("rough-pile:n=5").step)
    assert pile.data.nc >= existence._MANY
    with monkeypatch.context() as patch:
        patch.setattr(existence, "ConeProgram", None)
        assert pile.slater().value == np.inf
    monkeypatch.setattr(existence, "_MANY", pile.data.nc + 1)
    assert pile.slater().value == np.inf  # by Clarabel


@pytest.mark.parametrize("mu", [0.5, np.tan(ANGLE)])
def test_no_motion_opens_many_wedges_with_self_balanced_forces(mu: float) -> None:
    """At exactly the friction angle either; just below it a motion opens all of them."""
    step = wedge(3, mu, 0.0, [0.0, 0.0, -G])
    many = cdopt.FrictionalCD(Stack.of([step] * existence._MANY).step, "associated")
    assert many.slater().value == 0.0
    open_wedge = wedge(3, 0.9 * np.tan(ANGLE), 0.0, [0.0, 0.0, -G])
    many = cdopt.FrictionalCD(Stack.of([open_wedge] * existence._MANY).step, "associated")
    assert many.slater().value == np.inf
