"""One form of a problem as CVXPY states it; the two forms of a step with inertia.

Solvers see variables without dimensions. A physical quantity is its unit times a variable, and the
constants are those of ``data.scaled()``. In its units the time step is one, so that a statement
reads as it does in physical symbols. A step is stated in forces f ≥ 0 or in velocities v⁺: the
multipliers of the velocity form are the impulses Δt f, and primal = −Δt · dual.
"""

from __future__ import annotations

import copy
import dataclasses
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import FloatArray
from cdopt.problem import ContactProblem, ScaledProblem, WarmStart
from cdopt.problem.contact_law import HOOKE, PowerLaw
from cdopt.problem.scaling import scaled
from cdopt.problem.solution import Iterate

_MAX_DENOM = 2**20  # exponents become fractions with at most this denominator: exact to 1e-12


class Statement(ABC):
    """The variables of one form, the problem stated on them, and how to read and write them.

    CVXPY takes no variable of size zero. Where there is no contact, one contact that carries
    nothing is added to the variables. The ``weight`` (parts,) is the factor of each part's share of
    the objective: independent parts share no variable, so each may count in its own units.
    """

    # physical quantities by the variables; None where the form does not hold them
    forces: cp.Expression | None = None
    velocity: cp.Expression | None = None
    displacement: cp.Expression | None = None

    def __init__(self, data: ContactProblem, state: Callable[[Any], cp.Problem]) -> None:
        self.data = data
        self.weight = np.ones(data.parts.count)
        self._state = state
        self._declare()
        stated = state(self)
        self.problem = PrintedProblem(stated.objective, stated.constraints)

    @abstractmethod
    def _declare(self) -> None:
        """Make the variables."""

    @abstractmethod
    def iterate(self) -> Iterate | None:
        """The primal–dual pair that the variables hold, in physical units."""

    @abstractmethod
    def seed(self, start: WarmStart) -> None:
        """Write a previous solution into the variables."""

    def with_constraints(self, *constraints: cp.Constraint) -> Self:
        """The same statement on the same variables, with more constraints.

        They may tie parts: one unit of energy for all.
        """
        other, energy = copy.copy(self), self.data.part_energy
        other.weight = energy / float(energy.max())
        objective = self._state(other).objective
        other.problem = PrintedProblem(objective, [*self.problem.constraints, *constraints])
        return other

    @property
    def contact_weight(self) -> FloatArray:
        """(nc,) weight of each contact; of the added one where there is none."""
        return self.weight[self.data.parts.contact] if self.data.nc else np.ones(1)

    @property
    def row_weight(self) -> FloatArray:
        """(rows,) weight of each row."""
        return self.data.cones.on_rows(self.contact_weight)

    @property
    def dof_weight(self) -> FloatArray:
        """(nv,) weight of each dof."""
        return self.weight[self.data.parts.dof]

    def in_newtons(self, f: cp.Variable) -> cp.Expression:
        """The forces f (nc,) of a variable, N."""
        nc = self.data.nc
        f = f if f.size == nc else f[:nc]  # one is added where there is no contact
        return cp.multiply(cp.Constant(self.data.force, name="f₀"), f)

    def forces_of(self, start: WarmStart) -> tuple[FloatArray, FloatArray]:
        """Forces (nc,) of a previous solution in N, and as values of the variable f."""
        data = self.data
        forces = start.forces_on(data.contact_ids, data.nc)
        return forces, np.maximum(forces / data.force, 0.0) if data.nc else np.zeros(1)

    def physical_forces(self, f: Any) -> FloatArray:
        """Values of the variable f as forces (nc,) in N."""
        return np.asarray(self.data.force * np.asarray(f, dtype=float).ravel()[: self.data.nc])


def elastic_energy(law: PowerLaw, c: cp.Expression, weight: FloatArray) -> cp.Expression:
    """Σ weight w(c) for overlaps c ≥ 0, with w(c) = (k/p) cᵖ."""
    return _power_sum(c, weight * law.stiffness, law.power, "½k", f"k{_raised(1 / law.power)}")


def conjugate_energy(law: PowerLaw, f: cp.Expression, weight: FloatArray) -> cp.Expression:
    """Σ weight w*(f) for forces f ≥ 0, with w*(f) = (1/q) k^(−1/(p−1)) f^q and q = p/(p−1)."""
    compliance = law.stiffness ** (-1.0 / (law.power - 1.0))
    names = "½k⁻¹", f"k{_raised(-1 / law.power)}"
    return _power_sum(f, weight * compliance, law.conjugate_power, *names)


def _power_sum(x: cp.Expression, factor: FloatArray, exponent: float, *names: str) -> cp.Expression:
    """Σ (factor/exponent) x^exponent for x ≥ 0.

    The factor goes inside the power, where it spans fewer orders of magnitude; a quadratic
    keeps it outside, so that it lands on the diagonal of the solver's P with no new variable.
    """
    if exponent == 2.0:
        return cp.Constant(0.5 * factor, name=names[0]) @ cp.square(x)
    root = cp.Constant(factor ** (1.0 / exponent), name=names[1])
    return cp.sum(cp.power(cp.multiply(root, x), exponent, max_denom=_MAX_DENOM)) / exponent


def seed_dual(constraint: cp.Constraint, *values: FloatArray) -> None:
    """Write the multiplier of a constraint; two of a second-order cone."""
    for variable, value in zip(constraint.dual_variables, values, strict=True):
        variable.save_value(value)


# --- steps -------------------------------------------------------------------------------


class StepForm(Statement):
    """What all forms share: the scaled step, its motion w = v⁺ − v* and its forces f."""

    scaled: ScaledProblem
    w: cp.Variable
    f: cp.Variable

    def _declare(self) -> None:
        step = self.data.scaled()
        if not step.p.size and step.N is not None:  # an open contact is added
            step = dataclasses.replace(step, N=sp.csr_array(np.eye(1)), p=np.ones(1))
        elif not step.p.size:
            B, law = sp.csr_array((1, self.data.nv)), PowerLaw(np.ones(1), HOOKE)
            step = dataclasses.replace(step, B=B, p=np.ones(1), compliance=law)
        self.scaled = step
        if self.data.nv:
            self.w = cp.Variable(self.data.nv, name="w")

    def _quad_form(
        self, x: cp.Variable, A: sp.csr_array, weight: FloatArray, name: str
    ) -> cp.Expression:
        """xᵀA x, each part's block multiplied by the part's weight."""
        if not np.all(weight == 1.0):
            A = scaled(A, np.sqrt(weight), np.sqrt(weight))
        return cp.quad_form(x, cp.Constant(A, name=name), assume_PSD=True)

    @property
    def wMw(self) -> cp.Expression:
        """‖v⁺ − v*‖²_M."""
        return self._quad_form(self.w, self.scaled.S, self.dof_weight, "M")

    @property
    def fNf(self) -> cp.Expression:
        """fᵀN f: wᵀM w with M w = Bᵀf, so that N is never formed; or N where it is known."""
        if self.scaled.N is not None:
            return self._quad_form(self.f, self.scaled.N, self.row_weight, "N")
        return self.wMw

    def _declare_velocity(self) -> None:
        """Make the expression of v⁺ (nv,)."""
        unit = cp.Constant(self.data.dof_speed, name="v₀")
        self.velocity = cp.multiply(unit, self.w) + cp.Constant(self.data.rest, name="v*")

    def motion(self) -> FloatArray | None:
        """v⁺ (nv,), m/s, that the variable w holds."""
        data, w = self.data, self.w.value
        return None if w is None else np.asarray(data.rest + data.dof_speed * w)

    def _seed_motion(self, forces: FloatArray) -> None:
        """Write the motion that forces (nc,) in N cause."""
        data = self.data
        self.w.value = (np.asarray(data.velocity(forces)) - data.rest) / data.dof_speed


class ForceForm(StepForm):
    """Variables f ≥ 0 of a step, with w = v⁺ − v* where the step has matrices."""

    def _declare(self) -> None:
        super()._declare()
        step = self.scaled
        self.f = cp.Variable(step.p.size, nonneg=True, name="f")
        self.forces = self.in_newtons(self.f)
        self.momentum: list[cp.Constraint] = []  # M w = Bᵀf, each row in units of its own mass
        if step.S is not None and self.data.inertia is not None:
            self._inertia = step.S.diagonal()
            unit = 1.0 / self._inertia
            diagonal = self.data.inertia.is_diagonal
            M = 1.0 if diagonal else cp.Constant(scaled(step.S, unit, None), name="M")
            B_T = cp.Constant(scaled(step.B, None, unit).T, name="M⁻¹Bᵀ" if diagonal else "Bᵀ")
            self.momentum = [(self.w if diagonal else M @ self.w) == B_T @ self.f]

    @property
    def p(self) -> cp.Constant:
        """p (nc,)."""
        return cp.Constant(self.contact_weight * self.scaled.p, name="p")

    @property
    def conjugate_energy(self) -> cp.Expression:
        """Σ w*(f)."""
        return conjugate_energy(self.scaled.elastic_law, self.f, self.contact_weight)

    def iterate(self) -> Iterate | None:
        """f, and the v⁺ that follows from it."""
        if self.f.value is None:
            return None
        forces = self.physical_forces(self.f.value)
        return Iterate(self.data.velocity(forces), forces)

    def seed(self, start: WarmStart) -> None:
        """Write forces, and the motion they cause."""
        forces, self.f.value = self.forces_of(start)
        if self.momentum:
            self._seed_motion(forces)
            pace = self.w.value * self._inertia
            seed_dual(self.momentum[0], -self.dof_weight * pace)


class VelocityForm(StepForm):
    """Variables w = v⁺ − v* of a step, with overlaps c ≥ 0 where its contacts are elastic."""

    def _declare(self) -> None:
        super()._declare()
        self._declare_velocity()
        data = self.data
        if data.compliance is not None:
            self.c = cp.Variable(self.scaled.p.size, nonneg=True, name="c")
        self.slip: cp.Variable | None = None
        if data.sliders is not None and data.sliders.cap.size:
            self.slip = cp.Variable(data.sliders.start.shape, name="s")

    @property
    def gap(self) -> cp.Expression:
        """B v⁺ + bias, which is B w + p."""
        step = self.scaled
        return cp.Constant(step.B, name="B") @ self.w + cp.Constant(step.p, name="p")

    @property
    def elastic_energy(self) -> cp.Expression:
        """Σ w(c)."""
        return elastic_energy(self.scaled.elastic_law, self.c, self.contact_weight)

    @property
    def slider_energy(self) -> cp.Expression:
        """Σ ψ: least over the slip s of K/2 ‖s − y/K‖² + cap ‖s‖."""
        data, sliders = self.data, self.data.sliders
        if sliders is None:
            raise ValueError("a step without sliders")
        n, m = sliders.start.shape
        energy = self.weight * data.dt / sliders.duration / data.part_energy
        part = sliders.parts_of(data.parts)
        length = sliders.duration * data.part_speed[part]
        moved = scaled(sliders.B_t, np.repeat(-sliders.duration / length, m), data.dof_speed)
        begin = sliders.tried(data.rest) / (sliders.growth * length)[:, None]
        stretch = cp.reshape(cp.Constant(moved, name="B_t") @ self.w, (n, m), order="C")
        stretch = stretch + cp.Constant(begin, name="t")
        stiff = energy[part] * sliders.growth * length**2
        cap = cp.Constant(energy[part] * sliders.cap * length, name="cap")
        root = cp.Constant(np.sqrt(stiff)[:, None] * np.ones(m), name="√K")
        spring = 0.5 * cp.sum_squares(cp.multiply(root, stretch - self.slip))
        size = cp.norm(self.slip, 2, axis=1) if m > 1 else cp.abs(self.slip)[:, 0]
        return spring + cap @ size

    def iterate(self) -> Iterate | None:
        """v⁺, and f: of rigid contacts the multipliers, of elastic ones by their law."""
        data, motion = self.data, self.motion()
        multipliers = self.problem.constraints[0].dual_value
        if motion is not None and data.compliance is not None:
            return Iterate(motion, data.compliance.force(data.overlap(motion, np.zeros(data.nc))))
        if motion is None or multipliers is None:
            return None
        return Iterate(motion, self.physical_forces(multipliers / self.contact_weight))

    def seed(self, start: WarmStart) -> None:
        """Write the motion that forces cause, and forces as multipliers."""
        forces, f = self.forces_of(start)
        self._seed_motion(forces)
        seed_dual(self.problem.constraints[0], self.contact_weight * f)
        if self.data.compliance is not None:
            self.c.value = self.scaled.elastic_law.overlap(f)
        if self.slip is not None:
            self.slip.value = np.zeros(self.slip.shape)


# --- text as the papers write it ---------------------------------------------------------


def align(*lines: str) -> str:
    """A LaTeX align environment of these lines."""
    return "\\begin{align*}\n" + " \\\\\n".join(lines) + "\n\\end{align*}"


def conjugate_latex(power: float, contacts: str = "i", divisor: str = "") -> str:
    """Σ w*(f) over a ``divisor``, in LaTeX."""
    q, r = power / (power - 1.0), power - 1.0
    root = "-1" if r == 1.0 else f"-1/{r:.6g}"
    return rf"\frac{{1}}{{{q:.6g}{divisor}}} \sum_{{{contacts}}} k_i^{{{root}}} f_i^{{{q:.6g}}}"


_SUPERSCRIPT = str.maketrans("0123456789.-", "⁰¹²³⁴⁵⁶⁷⁸⁹·⁻")
_NAME = r"[^\s()*,@\[\]]+"  # of a constant or a variable
_CAPITAL_VECTORS = ("F̃", "Bū")


def _raised(exponent: float) -> str:
    """An exponent in small raised figures."""
    return f"{exponent:.4g}".translate(_SUPERSCRIPT)


def _power(match: re.Match[str]) -> str:
    """x^2.0 as x²; what is a product in brackets."""
    base = match[1] if re.fullmatch(r"\w+", match[1]) else f"({match[1]})"
    return base + _raised(float(match[2]))


def _product(match: re.Match[str]) -> str:
    """A matrix times a vector, or two vectors' product: B @ w as B w, p @ f as pᵀ f."""
    matrix = match[1][0].isupper() and match[1] not in _CAPITAL_VECTORS
    return f"{match[1]}{'' if matrix else 'ᵀ'} {match[2]}"


_RULES: tuple[tuple[str, Any], ...] = (  # what CVXPY prints, and what stands for it
    (r"PowerApprox\(([^(),]+), ([\d.]+)\)", _power),
    (r"reshape\(([^()]*), \(\d+, \d+\), C\)", r"(\1)"),
    (rf"(?:vec|reshape)\(({_NAME}), (?:C|\(\d+,\), C)\)", r"\1"),
    (r"SOC\((.*), (.*)\)$", r"‖\2‖ <= \1"),
    (rf"QuadForm\((\w+), psd_wrap\(({_NAME})\)\)", r"\1ᵀ \2 \1"),
    (rf"({_NAME})\.T\b", r"\1ᵀ"),
    (r"Sum\((.*?), None, False\) / (\d+\.\d{1,3})\d*", r"Σ \1 / \2"),
    (r"½(k\S*) @ ", r"½ Σ \1 "),
    (r"\b0\.5 \* ", "½ "),
    (r"\b0(?:\.0)? <= (.*)$", r"\1 ≥ 0"),
    (r" == ", " = "),
    (r" <= ", " ≤ "),
    (r" \* ", " "),
    (rf"({_NAME}) @ (\w+)", _product),
)
_MEANING = {
    "w": "w the velocity less v*",
    "f": "f the contact forces",
    "f_n": "f_n and f_T the contact forces",
    "u": "u the displacement",
    "c": "c the overlaps",
    "s": "s the slip",
    "f₀": "f₀ the units of the forces, N",
    "v₀": "v₀ the units of the velocity",
    "U₀": "U₀ the units of the displacement",
}


class PrintedProblem(cp.Problem):  # type: ignore[misc]  # cvxpy has no types
    """A cvxpy.Problem whose text reads like the equation it states.

    Signs of variables are written as constraints, and the last line says what the variables are.
    """

    def __str__(self) -> str:
        text = super().__str__()
        for pattern, stands in _RULES:
            text = re.sub(pattern, stands, text, flags=re.MULTILINE)
        first, *others = text.splitlines()
        lines = [line.removeprefix("subject to").strip() for line in others]
        lines += [f"{x.name()} ≥ 0" for x in self.variables() if x.attributes["nonneg"]]
        heads = ["subject to ", *[" " * 11] * len(lines)]
        lines = [head + line for head, line in zip(heads, lines, strict=False)]
        names = dict.fromkeys(x.name() for x in (*self.variables(), *self.constants()))
        known = [_MEANING[name] for name in names if name in _MEANING]
        where = "where " + ", ".join([*known, "all in units of the problem's scales"])
        return "\n".join([first, *lines, where])

    __repr__ = __str__
