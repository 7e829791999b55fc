"""Energies of elastic contacts and of sliders, as terms of CVXPY objectives."""

from __future__ import annotations

import cvxpy as cp
import numpy as np

from cdopt._util.checks import FloatArray
from cdopt.formulations.printing import Term, raised
from cdopt.problem import ContactProblem
from cdopt.problem.contact_law import PowerLaw
from cdopt.problem.scaling import scaled

_MAX_DENOM = 2**20  # exponents become fractions with at most this denominator: exact to 1e-12


def overlap_factor(law: PowerLaw, weight: FloatArray) -> FloatArray:
    """The factor (nc,) of ``elastic_energy`` where w(c) has a ``weight`` (nc,)."""
    return _factor(weight * law.stiffness, law.power)


def force_factor(law: PowerLaw, weight: FloatArray) -> FloatArray:
    """The factor (nc,) of ``conjugate_energy`` where w*(f) has a ``weight`` (nc,)."""
    return _factor(weight * law.stiffness ** (-1.0 / (law.power - 1.0)), law.conjugate_power)


def _factor(coefficient: FloatArray, exponent: float) -> FloatArray:
    """Of (coefficient/exponent) x^exponent; inside the power it spans fewer orders of magnitude.

    For a quadratic it stays outside and becomes an entry of the solver's P, without a new variable.
    """
    return 0.5 * coefficient if exponent == 2.0 else coefficient ** (1.0 / exponent)


def elastic_energy(law: PowerLaw, c: cp.Expression, factor: cp.Expression) -> Term:
    """Σ w(c) for overlaps c ≥ 0, with w(c) = (k/p) cᵖ; of both signs (k/p) |c|ᵖ."""
    return _power_sum(c, factor, law.power, "k", f"k{raised(1 / law.power)}")


def conjugate_energy(law: PowerLaw, f: cp.Expression, factor: cp.Expression) -> Term:
    """Σ w*(f) for forces f ≥ 0, with w*(f) = (1/q) k^(−1/(p−1)) f^q and q = p/(p−1)."""
    return _power_sum(f, factor, law.conjugate_power, "k⁻¹", f"k{raised(-1 / law.power)}")


def _power_sum(x: cp.Expression, factor: cp.Expression, exponent: float, *names: str) -> Term:
    """Σ (factor x)^exponent / exponent, of a quadratic Σ factor x²."""
    square, inside = names
    if exponent == 2.0:
        return Term(f"½ Σ {square} {x.name()}²", factor @ cp.square(x))
    name = x.name()
    if not x.is_nonneg():
        x, name = cp.abs(x), f"|{name}|"
    energy = cp.sum(cp.power(cp.multiply(factor, x), exponent, max_denom=_MAX_DENOM)) / exponent
    return Term(f"Σ ({inside} {name}){raised(exponent)} / {exponent:.4g}", energy)


def slider_energy(
    data: ContactProblem, w: cp.Variable, slip: cp.Variable, weight: FloatArray
) -> Term:
    """Σ ψ: least over the slip s of K/2 ‖s − y/K‖² + cap ‖s‖; the parts have a ``weight``."""
    sliders = data.sliders
    if sliders is None:
        raise ValueError("a step without sliders")
    n, m = sliders.start.shape
    energy = weight * data.dt / sliders.duration / data.part_energy
    part = sliders.parts_of(data.parts)
    length = sliders.duration * data.part_speed[part]
    moved = scaled(sliders.B_t, np.repeat(-sliders.duration / length, m), data.dof_speed)
    begin = sliders.tried(data.free_motion) / (sliders.growth * length)[:, None]
    stretch = cp.reshape(cp.Constant(moved, name="B_t") @ w, (n, m), order="C")
    stretch = stretch + cp.Constant(begin, name="t")
    stiff = energy[part] * sliders.growth * length**2
    cap = cp.Constant(energy[part] * sliders.cap * length, name="cap")
    root = cp.Constant(np.sqrt(stiff)[:, None] * np.ones(m), name="√K")
    spring = 0.5 * cp.sum_squares(cp.multiply(root, stretch - slip))
    size = cp.norm(slip, 2, axis=1) if m > 1 else cp.abs(slip)[:, 0]
    return Term("½ ‖√K (B_t w + t − s)‖² + capᵀ ‖s‖", spring + cap @ size)
