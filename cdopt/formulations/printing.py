"""Problems as text and as LaTeX, in the notation of the papers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import cvxpy as cp


class Term(NamedTuple):
    """A term of an objective, or a constraint: its text, and CVXPY's object."""

    text: str
    object: Any


_SUPERSCRIPT = str.maketrans("0123456789.-", "⁰¹²³⁴⁵⁶⁷⁸⁹·⁻")
_WORDS = (  # in added constraints: CVXPY's text and ours
    *((" * ", " "), (" @ ", " "), (" == ", " = "), (" <= ", " ≤ ")),
    *(("PnormApprox(", "norm("), ("PowerApprox(", "power("), ("Sum(", "sum(")),
    (", None, False)", ")"),  # no axis
)
_MEANING = {
    "w": "w the velocity less v*",
    "f": "f the contact forces",
    "u": "u the displacement",
    "c": "c the overlaps",
    "s": "s the slip",
}
PHYSICAL = {
    "forces": "N",
    "velocity": "m/s",
    "displacement": "m",
}  # physical quantities and their units


class PrintedProblem(cp.Problem):  # type: ignore[misc]  # cvxpy has no types
    """A cvxpy.Problem whose text is the equation that it states.

    The last line names the variables.
    """

    def __init__(
        self,
        terms: Sequence[Term],
        conditions: Sequence[Term],
        added: Sequence[cp.Constraint] = (),
        written: Sequence[str] = (),
    ) -> None:
        """Minimise the sum of the ``terms`` subject to ``conditions``, and constraints ``added``.

        A condition without a constraint is the sign of a variable. ``written`` is the text of added
        constraints.
        """
        constraints = [c.object for c in conditions if c.object is not None]
        objective = sum((term.object for term in terms[1:]), terms[0].object)
        super().__init__(cp.Minimize(objective), [*constraints, *added])
        self._first = "minimize " + " + ".join(term.text for term in terms)
        self._lines = [*(c.text for c in conditions if c.object is not None), *written]
        self._lines += [c.text for c in conditions if c.object is None]
        self._units = units([*written, *(term.text for term in terms)])

    def __str__(self) -> str:
        heads = ["subject to ", *[" " * 11] * len(self._lines)]
        lines = [head + line for head, line in zip(heads, self._lines, strict=False)]
        names = dict.fromkeys(x.name() for x in (*self.variables(), *self.constants()))
        known = [_MEANING[name] for name in names if name in _MEANING]
        scales = "all in units of the problem's scales"
        where = "where " + ", ".join([*known, scales, *self._units])
        return "\n".join([self._first, *lines, where])

    __repr__ = __str__


def words(written: object, expressions: Mapping[str, cp.Expression | None]) -> str:
    """An added constraint or expression as written, with mathematical signs.

    ``expressions`` are the physical quantities by name, such as "forces".
    """
    text = str(written)
    for name, expression in expressions.items():
        text = text if expression is None else text.replace(str(expression), name)
    for cvxpy, ours in _WORDS:
        text = text.replace(cvxpy, ours)
    return text


def units(texts: Sequence[str]) -> list[str]:
    """The units of the physical quantities that these ``texts`` name, such as "forces in N"."""
    named = [name for name in PHYSICAL if any(name in text for text in texts)]
    return [f"{name} in {PHYSICAL[name]}" for name in named]


def raised(exponent: float) -> str:
    """An exponent in superscript digits."""
    return f"{exponent:.4g}".translate(_SUPERSCRIPT)


def align(*lines: str) -> str:
    """A LaTeX align environment of these lines."""
    return "\\begin{align*}\n" + " \\\\\n".join(lines) + "\n\\end{align*}"


def conjugate_latex(power: float, contacts: str = "i", divisor: str = "") -> str:
    """Σ w*(f) over a ``divisor``, in LaTeX."""
    q, root = _fraction(power / (power - 1.0)), _fraction(-1.0 / (power - 1.0))
    top, _, below = q.partition("/")
    return (
        rf"\frac{{{below or 1}}}{{{top}{divisor}}} \sum_{{{contacts}}} k_i^{{{root}}} f_i^{{{q}}}"
    )


def _fraction(x: float) -> str:
    """A number as a fraction with small terms, or else as a decimal."""
    fraction = Fraction(x).limit_denominator(100)
    return str(fraction) if abs(fraction - x) < 1e-12 else f"{x:.6g}"
