"""Numbers, durations and texts for people, and plain values for JSON."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any


def count(number: int, noun: str) -> str:
    """Number and noun: "1 solver", "7 solvers", "no solver"."""
    if noun.endswith("y") and number not in (0, 1):
        noun = noun[:-1] + "ie"
    return f"{format(number, ',') if number else 'no'} {noun}{'' if number in (0, 1) else 's'}"


def listed(names: Sequence[str], most: int) -> str:
    """The first names, and how many more there are: "a, b and 3 more"."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def short(number: float, digits: int = 4) -> str:
    """A number with few digits, thousands in groups; a dash for one that is not finite."""
    return f"{_tidy(number):,.{digits}g}" if math.isfinite(number) else "–"


def significant(number: float, digits: int = 3) -> str:
    """A number to ``digits`` digits, with final zeros: "2.00", "946", "1,400", "3.1e-05"."""
    if not math.isfinite(number):
        return "–"
    if number != 0.0 and not 1e-3 <= abs(number) < 1e6:
        return f"{number:.{digits - 1}e}"
    rounded = float(f"{_tidy(number):.{digits}g}")
    before = math.floor(math.log10(abs(rounded))) + 1 if rounded else 1
    return f"{rounded:,.{max(digits - before, 0)}f}"


def _tidy(number: float) -> float:
    """The number to ten digits: those equal but for round-off look equal when cut to fewer."""
    return float(f"{number:.10g}")


_PREFIXES = {-9: "n", -6: "µ", -3: "m", 0: "", 3: "k", 6: "M"}


def with_prefix(value: float, unit: str) -> tuple[float, str]:
    """A power of ten that leaves one to three digits before the point, and the unit with it."""
    if not value > 0.0:
        return 1.0, unit
    power = 3 * math.floor(math.log10(value) / 3.0)
    power = min(max(power, min(_PREFIXES)), max(_PREFIXES))
    return 10.0**power, _PREFIXES[power] + unit


def against(value: float, limit: float, digits: int = 0) -> str:
    """A number with enough digits to show on which side of the ``limit`` it is: "1.0004e-06"."""
    shown = f"{value:.{digits}e}"
    if digits < 16 and (float(shown) <= limit) != (value <= limit):
        return against(value, limit, digits + 1)
    return shown


def seconds(duration: float) -> str:
    """A duration, s, in milliseconds or seconds."""
    return f"{duration * 1e3:.0f} ms" if duration < 1.0 else f"{duration:.1f} s"


# controls of terminals, marks that turn the direction of writing, and halves of characters
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def visible(text: str) -> str:
    """Text whose control characters are written out, so that a terminal does not obey them."""
    return _UNSEEN.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def shortened(text: str, limit: int) -> str:
    """The text, its middle left out where it is longer than ``limit``."""
    if len(text) <= limit:
        return text
    end = limit // 3
    return f"{text[: limit - end - 1]}…{text[len(text) - end :]}"


def one_line(text: str, limit: int = 200) -> str:
    """Text on one line, cut at ``limit`` characters."""
    joined = " ".join(text.split())
    return joined if len(joined) <= limit else joined[: limit - 1] + "…"


def numbered(labels: Sequence[str]) -> list[str]:
    """The labels, those that are repeated with a number: "floor–3 (2)"."""
    total, so_far, names = Counter(labels), Counter[str](), []
    for label in labels:
        so_far[label] += 1
        names.append(f"{label} ({so_far[label]})" if total[label] > 1 else label)
    return names


def plain(value: Any) -> Any:
    """A value for strict JSON: arrays as lists, numbers that are not finite as null."""
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if hasattr(value, "tolist"):  # an array, or a number, of NumPy
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, (str, int, bool, type(None))) else repr(value)
