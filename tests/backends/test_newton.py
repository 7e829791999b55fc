"""Newton: trusses of every power, and rigid steps certified far beyond what others reach."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import beam, random_step
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.spatial import Delaunay

import cdopt
from cdopt.backends.linalg import ContactNetwork


def settled(name: str, **changes) -> tuple[cdopt.bank.BankProblem, cdopt.NoTensionTruss]:
    problem = cdopt.bank.load(name)
    step = problem.step
    arguments = {"stiffness": step.stiffness, "power": problem.power, "dof_body": step.dof_body}
    return problem, cdopt.NoTensionTruss(step.B, -step.F_ext, **{**arguments, **changes})


def test_the_beam_to_ten_digits() -> None:
    for stiffness, expected in ((1.0, [10 / 3] * 3), ([1, 3, 1], [2.0, 6.0, 2.0])):
        solution = cdopt.CompatibleCD(beam(stiffness)).solve("newton", classic="newton")
        np.testing.assert_allclose(solution.f, expected, rtol=1e-11)
        assert solution.claimed


@pytest.mark.parametrize("material", ["hooke", "hertz", "species"])
@pytest.mark.parametrize("n", [5, 10, pytest.param(20, marks=pytest.mark.slow)])
def test_pyramids_within_1e_9_of_their_references(material: str, n: int) -> None:
    problem, truss = settled(f"pyramid-{material}:n={n}")
    solution = truss.solve("newton")
    assert solution.certificate.worst <= 1e-11
    if n == 20:
        assert problem.error("f_max_compatible", solution) < 2e-5
        assert problem.error("loaded_contacts", solution) == 0.0
    else:
        exact = problem.references["f_compatible"]
        np.testing.assert_allclose(solution.f, exact, atol=1e-9 * exact.max())


@pytest.mark.parametrize("power", [1.2, 1.5, 1.7, 2.2371, 3.0, 6.0])
def test_powers_from_1_2_to_6(power: float) -> None:
    _, truss = settled("pyramid-hooke:n=4", power=power)
    assert truss.solve("newton").certificate.worst <= 1e-10


def plane_network(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """B, load and stiffness of a random triangulation of 8 to 30 nodes."""
    random = np.random.default_rng(seed)
    x = random.random((int(random.integers(8, 31)), 2))
    corners = Delaunay(x).simplices
    pairs = np.unique(np.sort(np.vstack([corners[:, [i, i - 1]] for i in range(3)])), axis=0)
    n = np.subtract(*x[pairs.T[::-1]])
    n /= np.linalg.norm(n, axis=1)[:, None]
    B = np.zeros((len(pairs), x.shape[0], 2))
    each = np.arange(len(pairs))
    B[each, pairs[:, 0]], B[each, pairs[:, 1]] = -n, n
    B = B.reshape(len(pairs), -1)
    return B, B.T @ random.random(len(pairs)), random.uniform(0.5, 2.0, len(pairs))


@pytest.mark.slow
@pytest.mark.parametrize("power", [1.2, 1.5, 1.7, 2.0, 2.5, 4.0, 8.0, 20.0])
def test_random_networks_of_any_power_are_certified(power: float) -> None:
    for seed in range(24):
        B, load, stiffness = plane_network(seed)
        solution = cdopt.NoTensionTruss(B, load, stiffness, power).solve("newton", check=False)
        assert solution.ok, seed


def test_below_power_1_2_the_certificate_states_its_resolution() -> None:
    """Forces off by a self-stress are not certified, and neither is what round-off may hide."""
    B, load, stiffness = plane_network(11)
    truss = cdopt.NoTensionTruss(B, load, stiffness, 1.05)
    solution = truss.solve("newton", check=False)
    assert not solution.ok
    assert solution.certificate.resolution > 1e-6
    stress = np.linalg.svd(B.T)[2][-1]
    wrong = np.maximum(solution.iterate.forces + 1e-2 * stress / np.abs(stress).max(), 0.0)
    assert not cdopt.certify(truss.data, solution.iterate.motion, wrong).ok


@pytest.mark.parametrize("power", [2.0, 2.5])
def test_bodies_that_lose_all_contacts_do_not_stop_it(power: float) -> None:
    """Twenty idle bodies touch the pile from the side that the load leaves."""
    problem, _ = settled("pyramid-hooke:n=5")
    idle = sp.hstack([-sp.eye_array(20, problem.step.nv), sp.eye_array(20)])
    B = problem.step.B
    wide = sp.vstack([sp.hstack([B, sp.csr_array((B.shape[0], 20))]), idle])
    load = np.concatenate([-problem.step.F_ext, np.zeros(20)])
    solution = cdopt.NoTensionTruss(wide, load, power=power).solve("newton")
    assert solution.certificate.worst <= 1e-8  # of a thousandth of the load, where none acts
    np.testing.assert_allclose(solution.f[-20:], 0.0, atol=1e-9)


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.sampled_from([2.0, 2.5, 3.0]))
def test_random_trusses(seed: int, power: float) -> None:
    step = random_step(seed)
    load = step.B.T @ np.random.default_rng(seed).random(step.nc)
    solution = cdopt.NoTensionTruss(step.B, load, step.stiffness, power).solve("newton")
    assert solution.certificate.worst <= 1e-9


@settings(max_examples=40)
@given(st.integers(0, 10_000))
def test_random_rigid_steps_agree_with_clarabel(seed: int) -> None:
    """A dense mass that couples all dofs, gaps and closing contacts."""
    step = random_step(seed)
    ours = cdopt.ClassicCD(step).solve("newton")
    theirs = cdopt.ClassicCD(step).solve("clarabel", check=False)
    assume(theirs.f is not None)
    assert ours.certificate.worst <= 1e-9
    speed = np.abs(step.v_star).max()
    np.testing.assert_allclose(ours.v_next, theirs.v_next, atol=1e-4 * speed)


@pytest.mark.parametrize("bodies", [6, 10])
def test_columns_of_light_and_heavy_bodies(bodies: int) -> None:
    """Alternating masses, 1e9 to 1: at a fixed largest σ no column of ten was certified."""
    for seed in range(4):
        random = np.random.default_rng(seed)
        heavy = np.arange(bodies) % 2 != seed % 2
        mass = np.where(heavy, 1e9, 1.0) * random.uniform(0.5, 2.0, bodies)
        B = np.eye(bodies) - np.eye(bodies, k=-1)
        v = 0.01 * random.normal(size=bodies)
        step = cdopt.ContactStep(np.diag(mass), B, np.zeros(bodies), v, -9.81 * mass, 1e-3)
        assert cdopt.ClassicCD(step).solve("newton").ok


def test_what_was_used_is_told() -> None:
    small = cdopt.ClassicCD(beam()).solve("newton")
    assert small.provenance["how"] == "augmented Lagrangian, 5 factorisations by dense matrices"
    problem, truss = settled("pyramid-hooke:n=10")
    assert truss.solve("newton").provenance["how"].startswith("Newton's method, ")
    large = cdopt.ClassicCD(problem.step).solve("newton").provenance["how"]
    assert large.startswith("interior point, ")
    assert "conjugate gradient iterations" in large


def test_multipliers_start_where_an_interior_point_ends() -> None:
    newton = cdopt.ClassicCD(cdopt.bank.load("fclib-capsules").step).solve("newton")
    assert newton.ok
    assert "interior point → augmented Lagrangian" in newton.provenance["how"]
    assert newton.iterations in range(1, 21)  # 38 from zero


def test_walls_are_factorised_and_forces_stay_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = cdopt.scene.brick_wall(10, 10)
    contacts = cdopt.collision.detect(scene, scene.initial)
    step = cdopt.collision.step(scene, scene.initial, contacts, 1e-3)
    truss = cdopt.NoTensionTruss(step.B, -step.F_ext, dof_body=step.dof_body)
    iterated = truss.solve("newton")
    monkeypatch.setattr(sys.modules[ContactNetwork.__module__], "_EASY", 1)  # as of a large wall
    factorised = truss.solve("newton")
    assert "factorisations" not in iterated.provenance["how"]
    assert "factorisations" in factorised.provenance["how"]
    assert factorised.iterations <= iterated.iterations
    assert factorised.ok
    np.testing.assert_allclose(factorised.f, iterated.f, atol=1e-8 * iterated.f.max())
