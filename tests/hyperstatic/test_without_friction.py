"""μ = 0 gives every number of the frictionless theory, over the bank's small problems."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog

import cdopt


def problems() -> list[tuple[str, cdopt.ContactStep]]:
    """Steps without friction of up to 44 contacts."""
    steps = [(name, cdopt.bank.load(name).step) for name in cdopt.bank.names()]
    return [
        (name, step)
        for name, step in steps
        if isinstance(step, cdopt.ContactStep) and step.friction is None and 0 < step.nc <= 44
    ]


@pytest.mark.slow
def test_every_frictionless_number() -> None:
    """Motion, load, dimension, bounds and compatible forces of both flows."""
    compared = 0
    for name, step in problems():
        flat = step.replace(friction=cdopt.Friction(0.0, sp.csr_array((step.nc, step.nv))))
        if name == "squeezed":
            with pytest.raises(cdopt.SolveFailed):
                cdopt.FrictionalCD(flat, "associated").solve("newton")
            continue
        classic = cdopt.ClassicCD(step).solve("newton")
        load = step.B.T @ classic.f
        size = float(np.abs(load).max(initial=0.0)) or 1.0
        push = np.abs(sp.linalg.spsolve(sp.csc_array(step.M), load)).max(initial=0.0)
        speed = float(np.abs(classic.v_next).max(initial=0.0)) + step.dt * float(push)
        for law in ("coulomb", "associated"):
            answer = cdopt.FrictionalCD(flat, law).solve("newton")
            assert answer.ok, name
            assert np.abs(answer.v_next - classic.v_next).max() <= 1e-9 * speed, name
            assert np.abs(step.B.T @ (answer.f - classic.f)).max() <= 1e-9 * size, name
        report, exact = cdopt.indeterminacy(flat, law="coulomb"), cdopt.indeterminacy(step)
        for count in ("rank", "nullity", "dimension"):
            assert getattr(report, count) == getattr(exact, count), name
        np.testing.assert_array_equal(report.unbounded, np.isinf(exact.upper), name)
        forces, bounded = cdopt.CompatibleCD(step, 2.0).solve("newton").f, ~report.unbounded
        unit = np.maximum(np.abs(forces), np.where(bounded, exact.upper, 0.0)).clip(1e-12)
        assert (np.abs(report.lower - exact.lower) <= 1e-8 * unit).all(), name
        error = np.abs(report.upper[bounded] - exact.upper[bounded])
        assert (error <= 1e-8 * unit[bounded]).all(), name
        for flow in ("associated", "coulomb"):
            network = cdopt.CompatibleFriction(flat, flow=flow).solve()
            assert np.abs(network.f - forces).max() <= 1e-9 * max(forces.max(), 1e-12), name
            assert not network.f_t.any(), name
        compared += 1
    assert compared >= 12


def test_a_free_flight_has_no_forces() -> None:
    step = cdopt.bank.load("free-flying").step
    flat = step.replace(friction=cdopt.Friction(0.0, sp.csr_array((step.nc, step.nv))))
    report = cdopt.indeterminacy(flat, law="coulomb")
    assert (report.dimension, report.ok) == (0, True)
    assert not report.upper.any()


def test_the_ensemble_is_that_of_the_polytope() -> None:
    beam = cdopt.bank.load("beam-uniform").step
    flat = beam.replace(friction=cdopt.Friction(0.0, np.zeros((beam.nc, beam.nv))))
    samples = cdopt.ensemble(flat, draws=2000, law="coulomb")
    assert samples.dimension == 1
    np.testing.assert_allclose(samples.mean, [2.5, 5.0, 2.5], atol=0.1)
    np.testing.assert_allclose(samples.std[[0, 1]], np.array([5.0, 10.0]) / np.sqrt(12), rtol=0.03)
    assert not samples.tangential.any()


def test_the_limit_load_is_a_linear_program() -> None:
    """A table lifted at one corner: max λ, Bᵀf + F + λ L = 0, f ≥ 0."""
    step = cdopt.bank.load("table").step
    flat = step.replace(friction=cdopt.Friction(0.0, np.zeros((step.nc, step.nv))))
    live = -step.B.toarray().T @ np.array([-1.0, 0.0, 0.2, 0.0])
    limit = cdopt.limit_load(flat, live)
    exact = linprog(
        [*np.zeros(step.nc), -1.0],
        A_eq=np.column_stack([step.B.toarray().T, live]),
        b_eq=-step.F_ext,
        bounds=[(0, None)] * step.nc + [(None, None)],
    )
    assert limit.ok
    assert limit.value == pytest.approx(-exact.fun, rel=1e-9)
