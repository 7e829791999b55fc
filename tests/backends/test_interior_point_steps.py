"""Large steps by newton's interior point: certified, in any units, order and numbering."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import renumbered

import cdopt
from cdopt.backends import interior_point
from cdopt.backends.linalg import network
from cdopt.backends.linalg.network import DENSE_UP_TO
from cdopt.backends.network_problem import IterationResult, NetworkProblem
from cdopt.bank import generators

pytestmark = pytest.mark.usefixtures("one_thread")


def pile(n: int = 7, seed: int = 3) -> cdopt.ContactStep:
    step = generators.pyramid_falling(n=n, seed=seed)
    assert n < 7 or step.nv > DENSE_UP_TO
    return step


def certified(step: cdopt.ContactStep, tol: float = 1e-10, **options) -> cdopt.StepSolution:
    solution = cdopt.ClassicCD(step).solve("newton", check=False, **options)
    assert solution.claimed, solution.status
    assert solution.certificate.worst <= tol, solution.certificate
    return solution


@pytest.mark.parametrize(
    "pile",
    [
        *({"n": n, "seed": seed} for n, seed in ((5, 1), (6, 0), (7, 1), (8, 1), (10, 2))),
        *({"n": 8, "opened": opened} for opened in (0.0, 0.9, 1.0)),
    ],
)
def test_piles_in_mid_fall_with_some_gaps_open_few_or_all(pile: dict[str, float]) -> None:
    certified(generators.pyramid_falling(**pile))


def test_steps_of_the_bank_in_many_copies() -> None:
    """Copies that share nothing make any step a large one: each moves as it does alone."""
    for name in ("beam", "two-weights", "bonded-beam", "pyramid-hooke:n=3"):
        if name.partition(":")[0] not in cdopt.bank.names():
            continue
        step = cdopt.bank.load(name).step
        copies = 1 + DENSE_UP_TO // step.nv
        many = cdopt.ContactStep(
            M=sp.block_diag([step.M] * copies), B=sp.block_diag([step.B] * copies),
            phi=np.tile(step.phi, copies), v=np.tile(step.v, copies),
            F_ext=np.tile(step.F_ext, copies), dt=step.dt,
        )  # fmt: skip
        assert many.nv > DENSE_UP_TO
        alone = certified(step.replace(stiffness=1.0))
        together = certified(many)
        scale = np.abs(step.v_star).max()
        expected = np.tile(alone.v_next, copies)
        np.testing.assert_allclose(together.v_next, expected, atol=1e-9 * scale)


@pytest.mark.parametrize("gap", [1e-2, 1.0, 1e2])
def test_free_flight(gap: float) -> None:
    """Gaps far wider than the motion of the step make much of the least of forces."""
    step = pile()
    solution = certified(step.replace(phi=step.phi + gap), 1e-9)
    np.testing.assert_allclose(solution.v_next, step.v_star, rtol=1e-9)


@pytest.mark.parametrize(("mass", "length"), [(1e-6, 1e-6), (1e6, 1.0), (1e-6, 1e6)])
def test_units(mass: float, length: float) -> None:
    """Time stays in seconds."""
    step = pile()
    other = step.replace(
        M=step.M * mass,
        phi=step.phi * length,
        v=step.v * length,
        F_ext=step.F_ext * mass * length,
    )
    one, two = certified(step), certified(other)
    speed = np.abs(step.v_star).max()
    np.testing.assert_allclose(two.v_next / length, one.v_next, atol=1e-9 * speed)
    assert abs(two.iterations - one.iterations) <= 2


@pytest.mark.parametrize("what", ["contacts", "bodies", "dofs", "all"])
def test_order_and_numbering(what: str) -> None:
    step, random = pile(), np.random.default_rng(5)
    contacts, dofs = np.arange(step.nc), np.arange(step.nv)
    if what in ("contacts", "all"):
        contacts = random.permutation(step.nc)
    if what == "bodies":
        dofs = dofs.reshape(-1, 3)[random.permutation(step.nv // 3)].ravel()
    if what in ("dofs", "all"):
        dofs = random.permutation(step.nv)
    one, two = certified(step), certified(renumbered(step, contacts, dofs))
    speed = np.abs(step.v_star).max()
    np.testing.assert_allclose(two.v_next, one.v_next[dofs], atol=1e-9 * speed)


@pytest.mark.parametrize("problem", ["rigid", "elastic", "truss"])
def test_a_second_solve_equals_the_first(problem: str) -> None:
    """Dofs in disorder: what a formulation keeps is not rearranged under it."""
    step = pile()
    mixed = renumbered(step, np.arange(step.nc), np.random.default_rng(5).permutation(step.nv))
    formulation = {
        "rigid": lambda: cdopt.ClassicCD(mixed),
        "elastic": lambda: cdopt.CompliantCD(mixed.replace(stiffness=1e6)),
        "truss": lambda: cdopt.NoTensionTruss(mixed.B, -mixed.F_ext, dof_body=mixed.dof_body),
    }[problem]()
    first = formulation.solve("newton", check=False)
    second = formulation.solve("newton", check=False)
    assert first.certificate.worst <= 1e-9
    assert second.certificate.worst <= 1e-9
    np.testing.assert_array_equal(second.f, first.f)


def test_masses_and_stiffness_over_six_powers_of_ten() -> None:
    step, random = pile(), np.random.default_rng(2)
    mass = np.repeat(10.0 ** random.uniform(-3.0, 3.0, step.nv // 3), 3)
    heavy = step.replace(M=sp.diags_array(mass), F_ext=step.F_ext * mass)
    solution = cdopt.ClassicCD(heavy).solve("newton")  # to round-off, which is above 1e-12 here
    assert solution.certificate.worst <= 1e-9


@pytest.mark.parametrize("m", [3, 300])
def test_a_loaded_truss_without_contacts_is_no_success(m: int) -> None:
    truss = cdopt.NoTensionTruss(sp.csr_array((0, m)), np.ones(m))
    assert not truss.solve("newton", check=False).claimed


def without_contacts(posed: NetworkProblem) -> IterationResult:
    return interior_point.solve(posed, interior_point.far_start(posed), 1e-12, 50)


def test_a_load_without_contacts() -> None:
    """S w = −F̃ is all that is asked."""
    net = network(sp.csr_array((0, 5)), None, sp.csr_array(2.0 * sp.eye_array(5)))
    run = without_contacts(NetworkProblem(net, np.ones(5), np.zeros(0), np.zeros(0)))
    assert run.converged
    np.testing.assert_allclose(run.w, -0.5, atol=1e-12)
