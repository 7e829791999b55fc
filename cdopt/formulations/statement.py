"""One form of a problem as CVXPY states it.

Solvers see variables without dimensions. A physical quantity is its unit times a variable, and the
constants are those of ``data.scaled()``. In its units the time step is one, so that a statement
reads as it does in physical symbols.
"""

from __future__ import annotations

import copy
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar

import cvxpy as cp
import numpy as np

from cdopt._util.checks import FloatArray
from cdopt.problem import ProblemData, WarmStart
from cdopt.problem.contact_law import PowerLaw
from cdopt.problem.solution import Iterate

Self = TypeVar("Self", bound="Statement")

_MAX_DENOM = 2**20  # exponents become fractions with at most this denominator: exact to 1e-12
_SUPERSCRIPT = str.maketrans("0123456789.-", "⁰¹²³⁴⁵⁶⁷⁸⁹·⁻")
_NAME = r"[^\s()*,@\[\]]+"  # of a constant or a variable
_RULES = (  # what CVXPY prints, and what stands for it
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
)
_CAPITAL_VECTORS = ("F̃", "Bū")
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


class Statement(ABC):
    """The variables of one form, the problem stated on them, and how to read and write them.

    CVXPY takes no variable of size zero. Where there is no contact, one contact that carries
    nothing is added to the variables.

    Attributes
    ----------
    data : the plain data of the problem.
    weight : (parts,) factor of each part's share of the objective. Independent parts share no
        variable, so each may count in its own units.
    problem : the CVXPY problem.
    forces, velocity, displacement : physical quantities as CVXPY expressions of the variables;
        None where the form does not hold them.
    """

    forces: cp.Expression | None = None
    velocity: cp.Expression | None = None
    displacement: cp.Expression | None = None

    def __init__(self, data: ProblemData, state: Callable[[Any], cp.Problem]) -> None:
        self.data = data
        self.weight = np.ones(data.parts.count)
        self._state = state
        self._declare()
        self.problem = printed(state(self))

    @abstractmethod
    def _declare(self) -> None:
        """Make the variables."""

    @abstractmethod
    def iterate(self) -> Iterate | None:
        """The primal–dual pair that the variables hold, in physical units."""

    @abstractmethod
    def seed(self, start: WarmStart) -> None:
        """Write a previous solution into the variables."""

    def with_constraints(self: Self, weight: FloatArray, *constraints: cp.Constraint) -> Self:
        """The same statement on the same variables, with more constraints and other weights."""
        other = copy.copy(self)
        other.weight = weight
        objective = self._state(other).objective
        other.problem = PrintedProblem(objective, [*self.problem.constraints, *constraints])
        return other

    @property
    def contact_weight(self) -> FloatArray:
        """(nc,) weight of each contact; of the added one where there is none."""
        return self.weight[self.data.parts.contact] if self.data.nc else np.ones(1)

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
        return self.data.force * np.asarray(f, dtype=float).ravel()[: self.data.nc]


def elastic_energy(law: PowerLaw, c: cp.Expression, weight: FloatArray) -> cp.Expression:
    """Σ weight w(c) for overlaps c ≥ 0, with w(c) = (k/p) cᵖ."""
    return _power_sum(c, weight * law.stiffness, law.power, "½k", f"k{raised(1 / law.power)}")


def conjugate_energy(law: PowerLaw, f: cp.Expression, weight: FloatArray) -> cp.Expression:
    """Σ weight w*(f) for forces f ≥ 0, with w*(f) = (1/q) k^(−1/(p−1)) f^q and q = p/(p−1)."""
    compliance = law.stiffness ** (-1.0 / (law.power - 1.0))
    return _power_sum(
        f, weight * compliance, law.conjugate_power, "½k⁻¹", f"k{raised(-1 / law.power)}"
    )


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


def align(*lines: str) -> str:
    """A LaTeX align environment of these lines."""
    return "\\begin{align*}\n" + " \\\\\n".join(lines) + "\n\\end{align*}"


def conjugate_latex(power: float, contacts: str = "i", divisor: str = "") -> str:
    """Σ w*(f) over a ``divisor``, in LaTeX."""
    q, r = power / (power - 1.0), power - 1.0
    factor = rf"\frac{{1}}{{{q:.6g}{divisor}}}"
    root = "-1" if r == 1.0 else f"-1/{r:.6g}"
    return rf"{factor} \sum_{{{contacts}}} k_i^{{{root}}} f_i^{{{q:.6g}}}"


# --- text as the papers write it ---------------------------------------------------------


class PrintedProblem(cp.Problem):  # type: ignore[misc]  # cvxpy has no types
    """A cvxpy.Problem whose text reads like the equation it states.

    Signs of variables are written as constraints, and the last line says what the variables are.
    """

    def __str__(self) -> str:
        first, *others = (self._readable(line) for line in super().__str__().splitlines())
        lines = [line.removeprefix("subject to").strip() for line in others]
        lines += [f"{x.name()} ≥ 0" for x in self.variables() if x.attributes["nonneg"]]
        heads = ["subject to ", *[" " * 11] * len(lines)]
        lines = [head + line for head, line in zip(heads, lines, strict=False)]
        names = [x.name() for x in (*self.variables(), *self.constants())]
        known = [_MEANING[name] for name in dict.fromkeys(names) if name in _MEANING]
        where = ["where " + ", ".join([*known, "all in units of the problem's scales"])]
        return "\n".join([first, *lines, *where])

    __repr__ = __str__

    @staticmethod
    def _readable(line: str) -> str:
        """A line of CVXPY's text in the symbols of the papers."""
        line = re.sub(r"PowerApprox\(([^(),]+), ([\d.]+)\)", _power, line)
        for pattern, text in _RULES:
            line = re.sub(pattern, text, line)
        line = re.sub(rf"({_NAME}) @ (\w+)", _product, line)
        return line


def printed(problem: cp.Problem) -> PrintedProblem:
    """The same problem, printed as the papers write it."""
    return PrintedProblem(problem.objective, problem.constraints)


def raised(exponent: float) -> str:
    """An exponent in small raised figures."""
    return f"{exponent:.4g}".translate(_SUPERSCRIPT)


def _power(match: re.Match[str]) -> str:
    """x^2.0 as x²; what is a product in brackets."""
    base = match[1] if re.fullmatch(r"\w+", match[1]) else f"({match[1]})"
    return base + raised(float(match[2]))


def _product(match: re.Match[str]) -> str:
    """A matrix times a vector, or two vectors' product: B @ w as B w, p @ f as pᵀ f."""
    matrix = match[1][0].isupper() and match[1] not in _CAPITAL_VECTORS
    return f"{match[1]}{'' if matrix else 'ᵀ'} {match[2]}"
