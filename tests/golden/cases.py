"""All cases by name: random problems, the bank, runs and the papers' numbers."""

from __future__ import annotations

import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from . import families, record, shipped
from .record import Deviation, Record

FILE = Path(__file__).parent / "golden.npz"


def cases() -> dict[str, Callable[[Record | None], Record]]:
    """Of each case a function that makes its record, given the old one or None."""
    table: dict[str, Callable[[Record | None], Record]] = {}
    for name, (count, _) in families.FAMILIES.items():
        for k in range(count):
            table[f"{name} {k}"] = partial(families.measured, name, k)
    return {**table, **shipped.cases()}


def chosen(only: str, every: int) -> Iterator[tuple[str, Callable[[Record | None], Record]]]:
    """Those whose names begin so, and one of every n of them."""
    wanted = [(name, made) for name, made in cases().items() if name.startswith(only)]
    return iter(wanted[::every])


def measured(made: Callable[[Record | None], Record], old: Record | None) -> Record:
    """The record of a case; an exception that is no refusal of cdopt's is recorded as such."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return made(old)
        except Exception as error:
            failure = Record()
            place = traceback.extract_tb(error.__traceback__)[-1]
            text = f"{type(error).__name__} at {Path(place.filename).name}: {error}"
            failure.text("crash", text[:300])
            return failure


def make(only: str = "", every: int = 1) -> dict[str, Record]:
    """Records of all cases."""
    records, spent = {}, Counter()
    for name, made in chosen(only, every):
        start = time.process_time()
        records[name] = measured(made, None)
        spent[name.rpartition(" ")[0]] += time.process_time() - start
        crash = records[name].texts.get("crash")
        if crash:
            print(f"{name}: {crash}")
    for name, seconds in spent.most_common(30):
        print(f"{seconds:8.1f} s  {name}")
    return records


def settle(file: Path = FILE) -> str:
    """Mark what comes out otherwise here, by the same code on another machine, as undecided."""
    kept, report = record.load(file), compare(file)
    for one in report.found:
        old = kept[one.case]
        if not one.name.rpartition(" ")[2].startswith("stored"):
            old.values.pop(one.name, None)
            old.texts[one.name] = record.UNDECIDED
    record.save(file, kept)
    return report.text(0)


@dataclass
class Report:
    """What a comparison found.

    Attributes
    ----------
    count : of cases. found : deviations, failures first.
    """

    count: int
    found: list[Deviation]

    @property
    def failures(self) -> list[Deviation]:
        """Without notes."""
        return [one for one in self.found if not one.note and one.size >= 1.0]

    @property
    def ok(self) -> bool:
        """Whether nothing differs by more than its tolerance."""
        return not self.failures

    def text(self, shown: int = 60) -> str:
        """The report."""
        notes = [one for one in self.found if one.note]
        lines = [f"{self.count} cases: {len(self.failures)} failures, {len(notes)} notes"]
        kinds = Counter(
            ("note" if d.note else "moved" if d.size < 1.0 else "FAILS",
             d.case.rpartition(" ")[0], d.name)
            for d in self.found
        )  # fmt: skip
        lines += [f"{number:6d}  {' | '.join(kind)}" for kind, number in sorted(kinds.items())]
        order = sorted(self.found, key=lambda d: (d.note, -d.size))
        for one in order[:shown]:
            word = "note" if one.note else "FAILS" if one.size >= 1.0 else "moved"
            lines.append(f"{word} {one.case} | {one.name}: {one.text}; {one.size:.2g} of allowed")
        if len(order) > shown:
            lines.append(f"and {len(order) - shown} more")
        return "\n".join(lines)


def compare(
    file: Path = FILE, only: str = "", every: int = 1, moved: bool = False,
    skipped: tuple[str, ...] = (),
) -> Report:  # fmt: skip
    """Make all records again and compare them with those in a file.

    With ``moved`` the report lists what changed by more than a thousandth of its tolerance;
    ``skipped`` are beginnings of names.
    """
    kept, found, count = record.load(file), [], 0
    for name, made in chosen(only, every):
        if name.startswith(skipped):
            continue
        if name not in kept:
            found.append(Deviation(name, "case", np.inf, "is not in the file", False))
            continue
        new = measured(made, kept[name])
        found += record.deviations(name, kept[name], new, 1e-3 if moved else 1.0)
        count += 1
    return Report(count, found)
