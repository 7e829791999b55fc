"""The CVXPY statement of a problem is made when somebody reads it, and not before."""

from __future__ import annotations

import pickle
from functools import partial

import cvxpy as cp
import numpy as np
import pytest
from conftest import beam, random_step

import cdopt

NO_CONTACTS = {"B": np.zeros((0, 2)), "phi": []}
TRUSS = {"B": [[1.0, -1.0], [1.0, 0.0], [1.0, 1.0]], "contact_load": [10.0, 0.0]}

POSED = {
    "classic, force": partial(cdopt.ClassicCD, beam()),
    "classic, velocity": partial(cdopt.ClassicCD, beam(), "velocity"),
    "classic, no contacts": partial(cdopt.ClassicCD, beam(**NO_CONTACTS)),
    "truss, complementary": partial(cdopt.NoTensionTruss, **TRUSS),
    "truss, potential": partial(cdopt.NoTensionTruss, **TRUSS, form="potential"),
    "truss, Hertz": partial(cdopt.NoTensionTruss, **TRUSS, power=2.5),
    "truss, Hertz potential": partial(cdopt.NoTensionTruss, **TRUSS, power=2.5, form="potential"),
    "compliant, force": partial(cdopt.CompliantCD, beam(), kappa=1e6),
    "compliant, velocity": partial(cdopt.CompliantCD, beam(), kappa=1e6, form="velocity"),
    "compliant, Hertz": partial(cdopt.CompliantCD, beam(), 2.5, 1e9),
    "compliant, Hertz velocity": partial(cdopt.CompliantCD, beam(), 2.5, 1e9, "velocity"),
    "compliant, no contacts": partial(cdopt.CompliantCD, beam(**NO_CONTACTS), 2.5),
    "variational": partial(cdopt.VariationalStep, beam(1e6), mom=[-0.1, 0.0]),
    "variational, Hertz force": partial(
        cdopt.VariationalStep, beam(1e6), mom=[-0.1, 0.0], power=2.5, form="force"
    ),
    "variational, explicit": partial(
        cdopt.VariationalStep, beam(1e6), mom=[-0.1, 0.0], alpha=0.0, power=2.5
    ),
    "quasi-static": partial(
        cdopt.QuasiStatic, TRUSS["B"], phi=[0.0, 0.1, 0.0], applied=[-10.0, 0.0]
    ),
}
every = pytest.mark.parametrize("pose", POSED.values(), ids=list(POSED))
DELASSUS = partial(cdopt.ClassicCD, cdopt.ContactStep.from_delassus([[2.0]], [-1.0]))


def refuse(*_: object, **__: object) -> None:
    raise RuntimeError("CVXPY was asked for something")


@pytest.fixture
def no_cvxpy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("Variable", "Problem", "Constant", "multiply", "quad_form"):
        monkeypatch.setattr(cp, name, refuse)


@every
@pytest.mark.usefixtures("no_cvxpy")
def test_a_native_solver_never_asks_for_the_statement(pose) -> None:
    assert pose().solve("newton").ok
    with pytest.raises(RuntimeError, match="CVXPY was asked"):
        _ = pose().problem


@pytest.mark.usefixtures("no_cvxpy")
@pytest.mark.parametrize("method", ["two-step", "one-step"])
def test_nor_do_both_steps_of_compatible_contact_dynamics(method: str) -> None:
    found = cdopt.CompatibleCD(beam([1.0, 3.0, 1.0]), method=method).solve("newton")
    np.testing.assert_allclose(found.f, [2.0, 6.0, 2.0], atol=1e-4)


@every
def test_the_class_of_the_problem_is_what_cvxpy_finds(pose) -> None:
    posed = pose()
    known = posed.problem_class
    assert "statement" not in vars(posed)
    assert known == ("QP" if posed.problem.is_qp() else "SOCP")
    assert known in repr(posed)


def test_the_class_of_an_extended_problem_is_read_off_it() -> None:
    cd = cdopt.ClassicCD(beam())
    assert cd.with_constraints(cd.forces <= 4.0).problem_class == "QP"
    assert cd.with_constraints(cp.norm(cd.forces) <= 20.0).problem_class == "SOCP"


@every
def test_what_is_read_twice_is_the_same(pose) -> None:
    posed, seen = pose(), 0
    for name in ("problem", "forces", "velocity", "displacement"):
        first = getattr(posed, name, None)
        assert first is getattr(posed, name, None)
        seen += isinstance(first, cp.Expression)
    assert seen >= 1
    held = {v.id for v in posed.problem.variables()}
    for name in ("forces", "velocity", "displacement"):
        expression = getattr(posed, name, None)
        if isinstance(expression, cp.Expression):
            assert {v.id for v in expression.variables()} <= held


@pytest.mark.parametrize("pose", [*POSED.values(), DELASSUS], ids=[*POSED, "Delassus"])
def test_an_extension_keeps_the_variables_and_earlier_extensions(pose) -> None:
    posed, x = pose(), cp.Variable()
    once = posed.with_constraints(x >= 1.0)
    twice = once.with_constraints(x <= 2.0)
    own = {v.id for v in posed.problem.variables()}
    assert {v.id for v in twice.problem.variables()} == own | {x.id}
    assert len(twice.problem.constraints) == len(posed.problem.constraints) + 2
    assert twice.solve("clarabel").claimed
    assert 1.0 - 1e-6 <= x.value <= 2.0 + 1e-6
    for name in ("forces", "velocity", "displacement"):
        expression = getattr(posed, name, None)
        assert expression is None or expression.value is not None


@every
def test_a_formulation_not_yet_stated_travels_by_pickle(pose) -> None:
    posed = pose()
    away = pickle.loads(pickle.dumps(posed))
    np.testing.assert_array_equal(away.solve("newton").f, posed.solve("newton").f)


@pytest.mark.parametrize("make", [
    partial(cdopt.ClassicCD, beam(), "both"),
    partial(cdopt.ClassicCD, cdopt.ContactStep.from_delassus([[2.0]], [-1.0]), "velocity"),
    partial(cdopt.CompliantCD, beam(), 1.0),
    partial(cdopt.NoTensionTruss, **TRUSS, form="force"),
    partial(cdopt.NoTensionTruss, TRUSS["B"], [1.0]),
    partial(cdopt.VariationalStep, beam(), mom=[0.0]),
    partial(cdopt.QuasiStatic, TRUSS["B"], [0.0], [1.0, 0.0]),
])  # fmt: skip
def test_a_bad_argument_is_refused_before_anything_is_stated(make) -> None:
    with pytest.raises(cdopt.CdoptError):
        make()


@pytest.mark.parametrize("form", ["force", "velocity"])
def test_an_iterate_is_none_until_something_is_solved(form: str) -> None:
    cd = cdopt.ClassicCD(random_step(3), form)
    assert cd.iterate() is None
    found = cd.solve("clarabel")
    np.testing.assert_array_equal(cd.iterate().forces, found.f)


def test_a_truss_is_scaled_once() -> None:
    data = cdopt.NoTensionTruss(**TRUSS).data
    assert data.scaled() is data.scaled()
