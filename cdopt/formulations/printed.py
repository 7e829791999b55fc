"""A cvxpy.Problem that prints as the papers write it."""

from __future__ import annotations

import re

import cvxpy as cp

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
    "f₀": "f₀ the units of the forces, N",
    "v₀": "v₀ the units of the velocity",
    "U₀": "U₀ the units of the displacement",
}


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
