import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdopt.formulations import energies
from cdopt.problem.contact_law import PowerLaw, force_and_tangent

powers = st.floats(1.2, 6.0)
stiffness = st.floats(1e-3, 1e3)
overlaps = st.floats(1e-3, 10.0)


def law(k: float, p: float) -> PowerLaw:
    return PowerLaw(np.array([k]), p)


@given(stiffness, powers, overlaps)
def test_force_is_the_derivative_of_energy(k: float, p: float, c: float) -> None:
    h = 1e-6 * c
    slope = (law(k, p).energy(np.array([c + h])) - law(k, p).energy(np.array([c - h]))) / (2 * h)
    np.testing.assert_allclose(slope, law(k, p).force(np.array([c])), rtol=1e-6)
    steep = (law(k, p).force(np.array([c + h])) - law(k, p).force(np.array([c - h]))) / (2 * h)
    np.testing.assert_allclose(steep, law(k, p).tangent(np.array([c])), rtol=1e-5)


@given(stiffness, st.just(2.0) | powers, overlaps | st.just(0.0) | st.just(-1.0))
def test_the_law_of_compiled_loops_is_the_same(k: float, p: float, c: float) -> None:
    scalars, arrays = force_and_tangent(k, c, p), law(k, p)
    both = [float(arrays.force(np.array([c]))[0]), float(arrays.tangent(np.array([c]))[0])]
    np.testing.assert_allclose(scalars, both, rtol=1e-12)


@given(stiffness, powers, overlaps)
def test_overlap_is_the_derivative_of_the_conjugate(k: float, p: float, c: float) -> None:
    f = law(k, p).force(np.array([c]))
    h = 1e-6 * f
    slope = (law(k, p).conjugate(f + h) - law(k, p).conjugate(f - h)) / (2 * h)
    np.testing.assert_allclose(slope, [c], rtol=1e-5)
    np.testing.assert_allclose(law(k, p).overlap(f), [c], rtol=1e-9)


@given(stiffness, powers, overlaps, st.floats(0.0, 1e3))
def test_fenchel_young(k: float, p: float, c: float, f: float) -> None:
    w = law(k, p)
    total = w.energy(np.array([c])) + w.conjugate(np.array([f]))
    assert total[0] >= c * f - 1e-9 * (1.0 + abs(total[0]))
    at = w.force(np.array([c]))
    tight = w.energy(np.array([c])) + w.conjugate(at)
    np.testing.assert_allclose(tight, c * at, rtol=1e-9)


def test_hooke_and_hertz_by_hand() -> None:
    c = np.array([-1.0, 0.0, 4.0])
    np.testing.assert_allclose(PowerLaw(np.full(3, 2.0), 2.0).energy(c), [0.0, 0.0, 16.0])
    np.testing.assert_allclose(PowerLaw(np.full(3, 2.0), 2.5).force(c), [0.0, 0.0, 16.0])


@pytest.mark.parametrize("p", [1.5, 2.0, 2.5, 3.0, 2.2371])
def test_expressions_have_the_values_of_the_law(p: float) -> None:
    law, weight = PowerLaw(np.array([0.3, 1.0, 7.0]), p), np.array([1.0, 2.0, 0.5])
    values = np.array([0.2, 1.5, 0.9])
    x = cp.Variable(3, value=values)
    for expression, factor, energy in (
        (energies.elastic_energy, energies.overlap_factor, law.energy),
        (energies.conjugate_energy, energies.force_factor, law.conjugate),
    ):
        stated = expression(law, x, cp.Constant(factor(law, weight))).object
        assert stated.value == pytest.approx(float(weight @ energy(values)), rel=1e-9)
        assert stated.is_convex()
