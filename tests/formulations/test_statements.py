"""CVXPY statements: made when first read, printed and in LaTeX, extended, pickled."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from functools import partial

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from conftest import beam, random_step

import cdopt
from cdopt import bank

NO_CONTACTS = {"B": np.zeros((0, 2)), "phi": []}
TRUSS = {"B": [[1.0, -1.0], [1.0, 0.0], [1.0, 1.0]], "contact_load": [10.0, 0.0]}

FORMULATIONS = {
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
    "classic, N and p": partial(cdopt.ClassicCD, cdopt.ContactStep.from_delassus([[2.0]], [-1.0])),
    "quasi-static": partial(
        cdopt.QuasiStatic, TRUSS["B"], phi=[0.0, 0.1, 0.0], applied=[-10.0, 0.0]
    ),
}
every = pytest.mark.parametrize("pose", FORMULATIONS.values(), ids=list(FORMULATIONS))


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
    solution = cdopt.CompatibleCD(beam([1.0, 3.0, 1.0]), method=method).solve("newton")
    np.testing.assert_allclose(solution.f, [2.0, 6.0, 2.0], atol=1e-4)


@every
def test_a_statement_is_made_once_and_of_the_class_foretold(pose) -> None:
    formulation = pose()
    away = pickle.loads(pickle.dumps(formulation))
    predicted = formulation.problem_class
    assert "statement" not in vars(formulation)
    assert predicted == ("QP" if formulation.problem.is_qp() else "SOCP")
    assert predicted in repr(formulation)
    assert formulation.problem is formulation.problem
    variables = {v.id for v in formulation.problem.variables()}
    expressions = (formulation.forces, formulation.velocity, formulation.displacement)
    physical = [e for e in expressions if isinstance(e, cp.Expression)]
    assert physical
    assert all({v.id for v in e.variables()} <= variables for e in physical)
    np.testing.assert_array_equal(away.solve("newton").f, formulation.solve("newton").f)


@every
def test_latex_is_balanced(pose) -> None:
    text = pose().latex()
    assert text.startswith(r"\begin{align*}")
    assert text.endswith(r"\end{align*}")
    assert r"\min" in text
    assert text.count("{") == text.count("}")


def test_latex_states_what_differs() -> None:
    assert r"\Phi" in cdopt.ClassicCD(beam(), "velocity").latex()
    assert r"\dot g" in cdopt.ClassicCD(beam(gap_rate=-1.0), "velocity").latex()
    assert "5/3" in cdopt.NoTensionTruss(**TRUSS, power=2.5).latex()
    assert r"\tilde F^" in cdopt.NoTensionTruss(**TRUSS, form="potential").latex()
    assert r"\Delta t" in cdopt.CompliantCD(beam()).latex()


@pytest.mark.parametrize(
    ("name", "objective", "constraint"),
    [
        ("classic, force", "½ wᵀ M w + pᵀ f", "w = M⁻¹Bᵀ f; f ≥ 0"),
        ("classic, velocity", "½ wᵀ M w", "B w + p ≥ 0"),
        ("truss, complementary", "½ Σ k⁻¹ f²", "Bᵀ f = F̃; f ≥ 0"),
        ("truss, Hertz potential", "Σ (k⁰·⁴ c)²·⁵ / 2.5 + F̃ᵀ u", "B u + c ≥ 0; c ≥ 0"),
        ("compliant, velocity", "½ wᵀ M w + ½ Σ k c²", "B w + p + c ≥ 0; c ≥ 0"),
        ("quasi-static", "½ Σ k c² + F̃ᵀ u", "B u + Bū + c ≥ 0; c ≥ 0"),
    ],
)
def test_a_printed_problem_reads_like_the_paper(name: str, objective: str, constraint) -> None:
    first, *lines, last = str(FORMULATIONS[name]().problem).splitlines()
    assert first == f"minimize {objective}"
    assert "; ".join(line.removeprefix("subject to").strip() for line in lines) == constraint
    assert last.startswith("where ")


@pytest.mark.parametrize("name", ["classic, force", "classic, velocity", "truss, Hertz potential"])
def test_a_printed_extension_names_its_units(name: str) -> None:
    formulation = FORMULATIONS[name]()
    motion = formulation.velocity or formulation.displacement
    capped = formulation.with_constraints((formulation.forces or motion) <= 3.0)
    text = str(capped.problem)
    assert re.search("(forces|velocity|displacement) ≤ 3.0", text)
    assert re.search("(forces in N|velocity in m/s|displacement in m)$", text)
    assert not re.search("[fvU]₀", text)


def test_what_users_write_is_printed_by_its_physical_name() -> None:
    cd = cdopt.ClassicCD(beam())
    z = cp.Variable(name="z")
    extended = cd.with_constraints(
        2.0 * cd.forces[0] - cd.forces[1] <= 3.5, cp.norm(cd.velocity) <= z
    ).with_objective(cp.sum(cd.forces))
    text = str(extended.problem)
    for written in (
        "2.0 forces[0] + -forces[1] ≤ 3.5",
        "norm(velocity, 2) ≤ z",
        "(sum(forces)) / ",
        "forces in N, velocity in m/s",
    ):
        assert written in text.replace("-(forces[1])", "-forces[1]")
    rough = cdopt.FrictionalCD(bank.load("incline").step, law="associated", form="force")
    assert "forces[0] ≤ 2.0" in str(rough.with_constraints(rough.forces[0] <= 2.0).problem)


def test_the_class_of_an_extended_problem_is_read_off_it() -> None:
    cd = cdopt.ClassicCD(beam())
    assert cd.with_constraints(cd.forces <= 4.0).problem_class == "QP"
    assert cd.with_constraints(cp.norm(cd.forces) <= 20.0).problem_class == "SOCP"


@every
def test_an_extension_keeps_the_variables_and_earlier_extensions(pose) -> None:
    formulation, x = pose(), cp.Variable()
    once = formulation.with_constraints(x >= 1.0)
    twice = once.with_constraints(x <= 2.0)
    variables = {v.id for v in formulation.problem.variables()}
    assert {v.id for v in twice.problem.variables()} == variables | {x.id}
    assert len(twice.problem.constraints) == len(formulation.problem.constraints) + 2
    assert twice.solve("clarabel").claimed
    assert 1.0 - 1e-6 <= x.value <= 2.0 + 1e-6
    for name in ("forces", "velocity", "displacement"):
        expression = getattr(formulation, name, None)
        assert expression is None or expression.value is not None


@pytest.mark.parametrize("form", ["force", "velocity"])
def test_an_iterate_is_none_until_something_is_solved(form: str) -> None:
    cd = cdopt.ClassicCD(random_step(3), form)
    assert cd.iterate() is None
    solution = cd.solve("clarabel")
    np.testing.assert_array_equal(cd.iterate().forces, solution.f)


def _columns_only(toarray: Callable) -> Callable:
    """The method of sparse arrays, for rows and columns alone."""

    def checked(matrix: sp.csr_array, *arguments: object, **settings: object) -> np.ndarray:
        assert 1 in matrix.shape, f"a dense array of {matrix.shape}"
        return toarray(matrix, *arguments, **settings)

    return checked


@pytest.mark.parametrize(
    "pose",
    [
        lambda step: cdopt.NoTensionTruss(step.B, -step.F_ext),
        lambda step: cdopt.NoTensionTruss(step.B, -step.F_ext, form="potential"),
        lambda step: cdopt.ClassicCD(step),
        lambda step: cdopt.ClassicCD(step, "velocity"),
        lambda step: cdopt.CompliantCD(step, kappa=1e9),
        lambda step: cdopt.CompliantCD(step, kappa=1e9, form="velocity"),
    ],
)
def test_cvxpy_compiles_no_dense_matrix(pose, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = pose(cdopt.bank.load("pyramid-hooke:n=8").step).problem

    for kind in (sp.csr_array, sp.csc_array, sp.coo_array):
        monkeypatch.setattr(kind, "toarray", _columns_only(kind.toarray))
    problem.get_problem_data("CLARABEL")


def test_rows_of_cones_are_taken_of_constants():
    step = bank.load("rough-pile:n=3").step  # CVXPY's rows of expressions take longer to compile
    names = {atom.__name__ for atom in cdopt.FrictionalCD(step, "associated").problem.atoms()}
    assert "reshape" in names
    assert "index" not in names
