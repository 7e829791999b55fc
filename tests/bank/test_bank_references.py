"""What the bank claims of its problems, held against solvers."""

from __future__ import annotations

from importlib.metadata import version

import numpy as np
import pytest
from conftest import MANIFESTS

import cdopt
from cdopt import bank

FEASIBLE = [name for name, its in MANIFESTS.items() if its.feasible and its.kind != "frictional"]
SLOW = {"fclib-capsules-friction", "fclib-spheres-friction", "siconos-capsules-i103-990",
        "siconos-fc2d-granularflowonwall-00667-00000", "siconos-capsules-i100-1090",
        "siconos-capsules-i100-889", "siconos-confeti-ex13-fc3d-sbm"}  # fmt: skip
FRICTIONAL = [
    pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else [])
    for name, its in MANIFESTS.items()
    if its.kind == "frictional"
]
VARIANTS = [
    "supports:n=2", "supports:n=10", "supports-delassus:n=5",
    "stiffness-ratio:middle_stiffness=98.2", "impact:restitution=1,speed=2",
    "pyramid-hooke:n=10", *(pytest.param(f"pyramid-{kind}:n=10", marks=pytest.mark.slow)
                            for kind in ("hertz", "species")),
]  # fmt: skip
SHARP = cdopt.backends.resolve("clarabel", accuracy=1e-12)
PYRAMIDS = ["pyramid-hooke:n=10", "pyramid-hertz:n=5", "pyramid-species:n=5"]


def solved(problem: bank.BankProblem) -> cdopt.StepSolution:
    if problem.name.startswith("fclib"):  # degenerate: beyond interior points at any setting
        return problem.formulation("compatible").solve("newton")
    if problem.kind == "truss":
        return problem.formulation("truss").solve(SHARP)
    return problem.formulation("compatible").solve(SHARP, classic=SHARP)


def settled(problem: bank.BankProblem, form: str = "complementary") -> cdopt.NoTensionTruss:
    """The truss of a pile at rest: all contacts closed, the load is the weight."""
    step = problem.step
    return cdopt.NoTensionTruss(step.B, -step.F_ext, step.stiffness, problem.power, form=form)


def assert_references_hold(problem: bank.BankProblem, solution: cdopt.StepSolution) -> None:
    measured = [quantity for quantity in problem.references if quantity != "nullity"]
    errors = {quantity: problem.error(quantity, solution) for quantity in measured}
    assert errors
    wrong = {q: e for q, e in errors.items() if not e <= problem.stated[q].tolerance}
    assert not wrong, f"{problem.name}: {wrong}"


@pytest.mark.parametrize("name", [*FEASIBLE, *VARIANTS])
def test_feasible_problems_are_certified_and_meet_their_references(name: str) -> None:
    problem = bank.load(name)
    solution = solved(problem)
    assert solution.ok, "\n".join(str(c) for c in solution.certificates.values())
    assert_references_hold(problem, solution)


@pytest.mark.parametrize(
    "name", [*FRICTIONAL, "incline:dim=3,ratio=2", "incline:ratio=2", "incline:dim=3,ratio=1.001"]
)
def test_problems_with_friction_are_certified_and_meet_their_references(name: str) -> None:
    problem = bank.load(name)
    checked = 0
    for law in ("coulomb", "associated"):
        solution = problem.formulation(law).solve("newton")
        assert solution.ok
        assert solution.certificate.worst <= 1e-9
        for quantity in problem.references:
            if quantity.endswith(law):
                assert problem.error(quantity, solution) <= problem.stated[quantity].tolerance
                checked += 1
    assert checked == len(problem.references)
    with pytest.raises(cdopt.InvalidInput, match="law"):
        problem.measure("v_next_coulomb", solution)


def test_rounded_digits_explain_how_far_the_reference_of_the_confetti_is() -> None:
    """Its program set the negative eigenvalues of W, which is stored with 7 digits, to zero."""
    problem = bank.load("siconos-confeti-ex13-4contact-fc3d-sbm")
    step = problem.step
    solution = problem.formulation("associated").solve("newton")
    assert 1e-8 < solution.provenance["negative_eigenvalue"] < 1e-7
    assert problem.error("rates_associated", solution) > 1e-9
    values, vectors = np.linalg.eigh(step.N_rows.toarray())
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    convex = step.replace(N=root @ root.T)
    assert convex.negative == 0.0
    mended = cdopt.FrictionalCD(convex, "associated").solve("newton")
    assert "negative_eigenvalue" not in mended.provenance
    assert problem.error("rates_associated", mended) <= 1e-11


def test_a_tight_wedge_is_proven_infeasible_and_a_loose_one_is_stopped() -> None:
    """Below no gap, forces in the cones prove it by two products."""
    tight = bank.load("wedge:gap=-1e-5")
    with pytest.raises(cdopt.SolveFailed) as caught:
        tight.formulation("associated").solve("newton")
    assert caught.value.proof is not None
    assert bank.load("wedge:gap=1e-5").formulation("associated").solve("newton").ok


LARGER = pytest.param("pyramid-hooke:n=10", marks=pytest.mark.slow)


MADE = (  # by generators, with parameters of their own
    "supports:n=2", "supports:n=10", "supports-delassus:n=12", "pyramid-hooke:n=3",
    "crystal-2d:rows=1,columns=2", "duplicated-contacts:copies=3",
)  # fmt: skip


@pytest.mark.parametrize("name", [*FEASIBLE, *MADE, LARGER])
def test_nullities_of_the_manifests(name: str) -> None:
    problem = bank.load(name)
    gradient = problem.B
    if problem.step is not None:
        gradient = getattr(problem.step, "B", problem.step.N)
    computed = bank.quantities.nullity(gradient)
    stated = problem.references.get("nullity", computed)
    assert computed == stated
    if gradient.shape[0] == 0:
        assert stated == 0.0
        return
    rows = gradient.toarray()
    rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
    values = np.linalg.svd(rows, compute_uv=False)
    assert stated == gradient.shape[0] - np.count_nonzero(values > 1e-12 * values[0])


@pytest.mark.parametrize("load", ["pull", "sideways", "tip"])
def test_unreachable_loads_are_proven(load: str) -> None:
    problem = bank.load("unreachable-load", load=load)
    with pytest.raises(cdopt.SolveFailed) as caught:
        problem.formulation("truss").solve("osqp")
    u = caught.value.proof.vector
    assert (problem.B @ u).min() >= -1e-12
    assert problem.contact_load @ u < 0.0


@pytest.mark.parametrize("name", PYRAMIDS)
@pytest.mark.parametrize("form", ["complementary", "potential"])
def test_pyramid_forces_and_floor_pressure_by_both_forms(name: str, form: str) -> None:
    """The duals of the complementary form are the displacements."""
    problem = bank.load(name)
    solution = settled(problem, form).solve("clarabel", accuracy=1e-11)
    assert solution.ok
    assert_references_hold(problem, solution)
    folder, size = name.partition(":")[0], name.partition("n=")[2]
    with np.load(bank.problems_folder() / folder / f"n{size}.npz") as stored:
        exact = stored["u"]
    assert np.linalg.norm(solution.u - exact) <= 1e-5 * np.linalg.norm(exact)
    if form == "complementary":
        assert solution.dual is solution.u
        u = settled(problem).solve("newton").u
        assert np.linalg.norm(u - exact) <= 1e-10 * np.linalg.norm(exact)


@pytest.mark.slow
@pytest.mark.parametrize("material", ["hooke", "hertz", "species"])
def test_the_paper_s_pyramid(material: str) -> None:
    problem = bank.load(f"pyramid-{material}", n=20)
    assert problem.step.nc == 14_440
    solution = settled(problem, "potential").solve("clarabel", accuracy=1e-10)
    assert solution.ok
    assert set(problem.references) == {"f_max_compatible", "loaded_contacts", "supported_weight"}
    assert_references_hold(problem, solution)


@pytest.mark.parametrize("name", ["beam-uniform", "table", "supports", "pyramid-hooke"])
def test_classic_forces_that_are_called_open_are_open(name: str) -> None:
    """Where f is said not to be unique, another force does the same and stays nonnegative."""
    problem = bank.load(name)
    assert not problem.manifest.unique.f_classic
    f = solved(problem).f
    # a self-stress on the loaded contacts alone, which can be added with either sign
    loaded = f > 1e-3 * f.max()
    _, singular, rows = np.linalg.svd(problem.step.B.toarray()[loaded].T)
    free = rows[np.count_nonzero(singular > 1e-9)]
    stress = np.zeros_like(f)
    stress[loaded] = free
    other = f + 0.5 * f[loaded].min() * stress
    assert other.min() >= -1e-9 * f.max()
    assert np.abs(other - f).max() > 1e-4 * f.max()
    np.testing.assert_allclose(problem.step.B.T @ other, problem.step.B.T @ f, atol=1e-9 * f.max())


def test_highs_claims_a_false_optimum_and_the_certificate_says_so() -> None:
    """The observation in the manifest of supports-delassus, for the release it names."""
    if version("highspy") != "1.15.1":
        pytest.skip("the observation is of highspy 1.15.1")
    lies = []
    for n in range(3, 13):
        step = bank.load("supports-delassus", n=n).step
        solution = cdopt.ClassicCD(step).solve("highs")
        assert solution.claimed
        if not solution.ok:
            assert np.abs(solution.f).max() < 1e-6
            lies.append(n)
    assert lies == [4, 7, 10]


@pytest.mark.slow
def test_five_certified_backends_agree_on_every_associated_motion() -> None:
    """To 1e-6 of the largest closing speed, each asked for what it can reach."""
    asked = (
        ("newton", 1e-12), ("apgd", 1e-10), ("admm", 1e-10), ("clarabel", 1e-12), ("scs", 1e-13),
        ("qoco", 1e-12), ("moreau", 1e-12), ("moreau", 1e-15), ("clarabel", 1e-15),
        ("nsgs", 1e-10),
    )  # fmt: skip
    few = {}
    for name in bank.names():
        if bank.manifest(name).kind != "frictional":
            continue
        problem = cdopt.FrictionalCD(bank.load(name).step, "associated")
        speed = float(problem.data.part_speed.max(initial=0.0))
        reference, agreeing = problem.solve("newton"), set[str]()
        for backend, accuracy in asked:
            if backend not in cdopt.backends.available() or len(agreeing) == 5:
                continue
            solution = problem.solve(backend, accuracy=accuracy, check=False, time_limit=20.0)
            if solution.ok:
                apart = np.abs(solution.gap - reference.gap).max()
                apart = max(apart, np.abs(solution.slip - reference.slip).max())
                agreeing |= {backend} if apart <= 1e-6 * speed else set()
        if len(agreeing) < 5:
            few[name] = agreeing
    assert few == {}
