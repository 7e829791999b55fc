"""A requested accuracy in every solver's own words, and what CVXPY makes of their defaults.

>>> from cdopt.study.settings import solver_settings
>>> table = solver_settings(1e-6)
>>> [row[1] for row in table.rows if row[0] == "osqp"]
['eps_abs = 1e-06, eps_rel = 1e-06, max_iter = 200000']
"""

from __future__ import annotations

import dataclasses
from typing import Any

from cdopt._util import checks
from cdopt.backends.accuracy import ACCURACY, options_for
from cdopt.backends.registry import STRUCTURED, known_names, why_unavailable
from cdopt.study.report.table import Cell, Table

_OURS = "its own stopping test, in units of the problem's scales"


def solver_settings(accuracy: float | None = None) -> Table:
    """What each solver is given for a requested accuracy, and what it means.

    Those come first whose words are known; others take ``options`` alone.

    Parameters
    ----------
    accuracy : in (0, 1]; None shows the names of the settings without a value, and gives nothing
        to any solver.

    Raises
    ------
    InvalidInput : an accuracy out of range.
    """
    if accuracy is not None:
        accuracy = checks.scalar("accuracy", accuracy, above=0.0, at_most=1.0)
    rows: list[tuple[Cell, ...]] = []
    for name in (*STRUCTURED, *ACCURACY):
        here = not why_unavailable(name)
        if name in STRUCTURED:
            default = {f.name: f.default for f in dataclasses.fields(STRUCTURED[name])}  # type: ignore[arg-type]
            told = _told(accuracy, {"accuracy": accuracy}, ("accuracy",))
            rows.append((name, told, f"{default['accuracy']:g}", _OURS, "nothing: CVXPY is not "
                         "asked", here))  # fmt: skip
            continue
        words = ACCURACY[name]
        asked = {} if accuracy is None else options_for(name, accuracy) or {}
        names = tuple(f"{words.nested}.{o}" if words.nested else o for o in words.options)
        rows.append((name, _told(accuracy, _flat(asked), names), "the solver's", words.meaning,
                     words.rewritten or "nothing that we know of", here))  # fmt: skip
    rows += [
        (name, "no words known: give options", "the solver's", None, None, True)
        for name in known_names()
        if name not in STRUCTURED and name not in ACCURACY and not why_unavailable(name)
    ]
    what = "nothing: names of the settings" if accuracy is None else f"{accuracy:g}"
    return Table(
        "accuracy", f"Accuracy asked: {what}",
        "What each solver is given, its default, what it promises when it stops, and which of its "
        "defaults CVXPY rewrites when nothing is asked. Promises differ, and none of them is our "
        "certificate: it alone decides what counts as solved.",
        ("solver", "given", "default", "promises", "rewritten by CVXPY", "installed"),
        tuple(rows),
    )  # fmt: skip


def _flat(options: dict[str, Any]) -> dict[str, Any]:
    """Nested settings with dots in their names."""
    flat: dict[str, Any] = {}
    for key, value in options.items():
        inner = value.items() if isinstance(value, dict) else ()
        flat.update({f"{key}.{name}": entry for name, entry in inner} if inner else {key: value})
    return flat


def _told(accuracy: float | None, options: dict[str, Any], names: tuple[str, ...]) -> str:
    if accuracy is None:
        return ", ".join(names)
    return ", ".join(f"{key} = {_number(value)}" for key, value in options.items())


def _number(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
