from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import DT, beam, random_step
from hypothesis import given, settings
from hypothesis import strategies as st

import cdopt
from cdopt._util.errors import InvalidInput
from cdopt.problem import with_matrices


def test_derived_quantities_are_those_of_equation_20() -> None:
    step = random_step(3)
    M, B = step.M.toarray(), step.B.toarray()
    inverse = np.linalg.inv(M)
    np.testing.assert_allclose(step.N.toarray(), DT * B @ inverse @ B.T, atol=1e-12)
    np.testing.assert_allclose(step.v_star, step.v + DT * inverse @ step.F_ext, atol=1e-12)
    p = step.phi / DT + B @ step.v + DT * B @ inverse @ step.F_ext
    np.testing.assert_allclose(step.p_vec, p, atol=1e-12)


def test_arrays_are_copies_and_read_only() -> None:
    phi = np.zeros(3)
    step = beam(phi=phi)
    phi[0] = 7.0
    assert step.phi[0] == 0.0
    for array in (step.phi, step.v, step.B.data, step.M.data, step.stiffness, step.v_star):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0
    with pytest.raises(AttributeError, match="cannot assign"):
        step.dt = 2.0


def test_a_matrix_that_nobody_can_change_is_not_copied_again() -> None:
    B = beam().B
    assert cdopt.NoTensionTruss(B, [10.0, 0.0]).data.B is B
    data, indices, indptr = B.data.copy(), B.indices.copy(), B.indptr.copy()
    seen = sp.csr_array((data.view(), indices.view(), indptr.view()), shape=B.shape)
    for part in (seen.data, seen.indices, seen.indptr):
        part.flags.writeable = False
    truss = cdopt.NoTensionTruss(seen, [10.0, 0.0])
    data[:] = 7.0  # below the view that cannot be written to
    np.testing.assert_array_equal(truss.data.B.toarray(), B.toarray())


@pytest.mark.parametrize(("e", "phase"), [(0.25, 0.0), (0.25, 0.9), (1.0, 0.3)])
def test_newton_restitution_is_exact_at_any_phase_of_the_step(e: float, phase: float) -> None:
    """Trap 6: an impacting contact leaves at e times its approach, wherever it is met."""
    ball = cdopt.ContactStep(
        M=[[2.0]], B=[[1.0]], phi=[phase * DT], v=[-1.0], F_ext=[0.0], dt=DT, restitution=e
    )
    assert ball.impacting.tolist() == [True]
    assert cdopt.ClassicCD(ball).solve("clarabel").v_next[0] == pytest.approx(e, abs=1e-7)


def test_restitution_acts_on_impacts_only() -> None:
    slow = cdopt.ContactStep([[1.0]], [[1.0]], [0.0], [-1e-3], [0.0], DT, restitution=0.5, v_min=1)
    assert not slow.impacting.any()
    far = cdopt.ContactStep([[1.0]], [[1.0]], [1.0], [-1.0], [0.0], DT, restitution=0.5)
    assert not far.impacting.any()
    assert far.bias[0] == pytest.approx(1.0 / DT)


def test_a_moving_wall_pushes_at_its_own_speed() -> None:
    """gap_rate is the prescribed part of the gap's rate: a wall coming on at 2 m/s."""
    pushed = cdopt.ContactStep([[1.0]], [[1.0]], [0.0], [0.0], [0.0], DT, gap_rate=-2.0)
    assert cdopt.ClassicCD(pushed).solve("clarabel").v_next[0] == pytest.approx(2.0)
    bounced = pushed.replace(restitution=1.0)
    assert cdopt.ClassicCD(bounced).solve("clarabel").v_next[0] == pytest.approx(4.0)


def test_columns_of_B_that_do_not_fit_are_named_and_not_M() -> None:
    with pytest.raises(InvalidInput, match=r"^B: found shape \(3, 3\); expected 2 columns"):
        beam(B=np.ones((3, 3)))


def test_forces_on_bodies_are_equal_and_opposite() -> None:
    step = cdopt.ContactStep(
        M=np.eye(4),
        B=[[-1, 0, 1, 0], [0, 1, 0, 0]],
        phi=[0, 0],
        v=np.zeros(4),
        F_ext=np.zeros(4),
        dt=DT,
        bodies=[[0, 1], [-1, 0]],
        normals=[[1.0, 0.0], [0.0, 1.0]],
    )
    total = step.body_forces([2.0, 3.0])
    np.testing.assert_allclose(total, [[-2.0, 3.0], [2.0, 0.0]])
    np.testing.assert_allclose(total.ravel(), step.B.T @ np.array([2.0, 3.0]))
    with pytest.raises(InvalidInput, match="bodies or normals"):
        beam().body_forces(np.ones(3))


def same(a: cdopt.ContactStep, b: cdopt.ContactStep) -> None:
    first, second = a._arguments(), b._arguments()
    assert first.keys() == second.keys()
    for name, value in first.items():
        other = second[name]
        if sp.issparse(value):
            assert (value.indptr == other.indptr).all()
            assert (value.indices == other.indices).all()
            assert (value.data == other.data).all()
        elif value is None:
            assert other is None
        else:
            assert np.array_equal(value, other)
            assert np.asarray(value).dtype == np.asarray(other).dtype


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.integers(0, 9), st.integers(1, 6), st.booleans())
def test_saving_loses_nothing(
    tmp_path_factory: pytest.TempPathFactory, seed: int, nc: int, nv: int, full: bool
) -> None:
    rng = np.random.default_rng(seed)
    extra = {}
    if full:
        normals = rng.standard_normal((nc, 3)) + 2.0
        extra = {
            "bodies": rng.integers(-1, 4, (nc, 2)),
            "normals": normals / np.linalg.norm(normals, axis=1, keepdims=True),
            "points": rng.standard_normal((nc, 3)),
            "contact_ids": [f"contact {i}" for i in range(nc)],
            "dof_body": rng.integers(0, 3, nv),
            "restitution": rng.random(nc),
            "gap_rate": rng.standard_normal(nc),
            "v_min": 0.1,
        }
    step = random_step(seed, nc, nv, **extra)
    path = tmp_path_factory.mktemp("steps") / "step.npz"
    step.save(path)
    same(step, cdopt.ContactStep.load(path))
    rows = cdopt.ContactStep.from_delassus(step.N, step.p_vec, dt=0.5)
    rows.save(path)
    same(rows, cdopt.DelassusStep.load(path))


def test_files_of_other_kinds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no such file"):
        cdopt.ContactStep.load(tmp_path / "nothing.npz")
    other = tmp_path / "other.npz"
    np.savez(other, a=np.ones(3))
    with pytest.raises(InvalidInput, match="header"):
        cdopt.ContactStep.load(other)
    text = tmp_path / "text.npz"
    text.write_text("not an archive")
    with pytest.raises(InvalidInput):
        cdopt.ContactStep.load(text)
    pickled = tmp_path / "pickled.npz"
    np.savez(pickled, cdopt=np.array([{"kind": "contact step"}], dtype=object))
    with pytest.raises(InvalidInput):
        cdopt.ContactStep.load(pickled)
    solution = tmp_path / "solution.npz"
    cdopt.ClassicCD(beam()).solve("clarabel").save(solution)
    with pytest.raises(InvalidInput, match="solution"):
        cdopt.ContactStep.load(solution)


def test_select_and_replace() -> None:
    step = random_step(5, contact_ids=list("abcdefgh"))
    part = step.select([6, 2])
    assert part.contact_ids.tolist() == ["g", "c"]
    np.testing.assert_array_equal(part.B.toarray(), step.B.toarray()[[6, 2]])
    np.testing.assert_array_equal(part.phi, step.phi[[6, 2]])
    mask = np.zeros(8, dtype=bool)
    mask[[2, 6]] = True
    assert step.select(mask).contact_ids.tolist() == ["c", "g"]
    rows = cdopt.ContactStep.from_delassus(step.N, step.p_vec).select([6, 2])
    np.testing.assert_array_equal(rows.N.toarray(), step.N.toarray()[np.ix_([6, 2], [6, 2])])
    assert step.replace(dt=2.0).dt == 2.0
    with pytest.raises(InvalidInput, match="mass"):
        step.replace(mass=1.0)
    with pytest.raises(InvalidInput, match="out of range"):
        step.select([8])


def test_delassus_matrices_must_be_what_they_claim() -> None:
    with pytest.raises(InvalidInput, match="N: found an eigenvalue"):
        cdopt.ContactStep.from_delassus([[1.0, 2.0], [2.0, 1.0]], [0.0, 0.0])
    with pytest.raises(InvalidInput, match="N: found asymmetry"):
        cdopt.ContactStep.from_delassus([[1.0, 0.1], [0.0, 1.0]], [0.0, 0.0])
    rows = cdopt.ContactStep.from_delassus(beam().N, beam().p_vec)
    assert isinstance(rows, cdopt.DelassusStep)
    with pytest.raises(cdopt.Unsupported, match="velocity"):
        cdopt.ClassicCD(rows, form="velocity")


def test_a_step_known_by_its_rows_has_no_dofs_and_is_refused_where_matrices_are_needed() -> None:
    step = beam()
    rows = cdopt.ContactStep.from_delassus(step.N, step.p_vec)
    assert (step.nv, rows.nv) == (2, 0)
    assert with_matrices(step, "this") is step
    with pytest.raises(cdopt.Unsupported, match=r"this.*N and p alone"):
        with_matrices(rows, "this")
