"""What is known of each backend, as plain values for tables and JSON."""

from __future__ import annotations

from typing import Any

from cdopt._util import checks
from cdopt.backends.accuracy import ACCURACY, options_for
from cdopt.backends.catalogue import TABLE, capability
from cdopt.backends.registry import NOTES, STRUCTURED, resolve, why_unavailable

_OWN_TEST = "its own stopping test, in units of the problem's scales"


def describe(name: str) -> dict[str, Any]:
    """What is known of a backend, installed or not.

    Returns
    -------
    name, available, why_not, takes (kinds of plain data, or classes of programs), licence, note,
    accuracy_options, accuracy_meaning, cvxpy_rewrites.

    Raises
    ------
    InvalidInput : no backend has this name.
    """
    why_not, own = why_unavailable(name), name in STRUCTURED
    entry, accuracy = TABLE.get(name), ACCURACY.get(name)
    options = accuracy.options if accuracy else ()
    nested = f"{accuracy.nested}." if accuracy and accuracy.nested else ""
    takes = resolve(name).capability.structured if own else capability(name).classes
    return {
        "name": name,
        "available": not why_not,
        "why_not": why_not,
        "takes": sorted(takes),
        "licence": "cdopt's own" if own else entry.licence if entry else "",
        "note": NOTES[name] if own else entry.note if entry else "",
        "accuracy_options": ["accuracy"] if own else [nested + option for option in options],
        "accuracy_meaning": _OWN_TEST if own else accuracy.meaning if accuracy else "",
        "cvxpy_rewrites": accuracy.rewritten if accuracy else "",
    }


def settings_for(name: str, accuracy: float) -> dict[str, Any]:
    """The settings that the backend ``name`` is given for an accuracy; empty where unknown.

    Settings within another one have both names, with a dot between.

    Raises
    ------
    InvalidInput : an accuracy out of range.
    """
    accuracy = checks.scalar("accuracy", accuracy, above=0.0, at_most=1.0)
    if name in STRUCTURED:
        return {"accuracy": accuracy}
    flat: dict[str, Any] = {}
    for key, value in (options_for(name, accuracy) or {}).items():
        nested = (
            {f"{key}.{inner}": v for inner, v in value.items()} if isinstance(value, dict) else {}
        )
        flat.update(nested or {key: value})
    return flat
