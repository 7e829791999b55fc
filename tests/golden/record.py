"""Quantities of many cases, compared with tolerances, in one small file.

A case is a problem, or a run. Its quantities are numbers with a scale for each, in the same unit:
errors are measured in it, and an infinite scale says that the number is not determined. Scales are
rounded to powers of two, numbers to 34 bits, so that they take little room.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

BITS = 2.0**34
BARELY = 1e-7  # a residual within a decade of the certificate's tolerance
UNDECIDED = "undecided"  # of a quantity that round-off decides, so that it is not compared


class Rule(NamedTuple):
    """How one quantity is compared.

    Attributes
    ----------
    limit : largest error, in units of the scale.
    floor : added to the limit, in the quantity's own unit.
    soft : whether a larger error is a note and no failure.
    gains : whether a change from 0 to 1 is a note and no failure.
    reason : why.
    """

    limit: float
    reason: str
    floor: float = 0.0
    soft: bool = False
    gains: bool = False


SAME = Rule(0.0, "counts, names and verdicts on given data depend on no solver")
RULES: dict[str, Rule] = {
    "": SAME,
    "v_next": Rule(1e-6, "unique; the tolerance of certificates, in units of its terms"),
    "load": Rule(1e-6, "Bᵀf is unique; the tolerance of certificates, in units of its terms"),
    "gap": Rule(1e-6, "unique as v⁺ is"),
    "f": Rule(1e-6, "compared where unique, in units of the force times the conditioning of N"),
    "objective": Rule(1e-6, "unique; in units of its terms"),
    "dual": Rule(1e-6, "of the form that was solved, where unique, in units of its terms"),
    "mom": Rule(1e-6, "unique; the tolerance of certificates"),
    "ok": Rule(0.0, "what was certified stays certified", gains=True),
    "worst": Rule(9.0, "an answer may lose a digit, not more", floor=1e-8, soft=True),
    "value": Rule(1e-6, "residuals of given answers need no solver: round-off, which matrices of "
                        "bad condition magnify", floor=1e-9),
    "scale": Rule(1e-6, "scales of given answers need no solver, as above"),
    "resolution": Rule(1e-6, "as the residuals'", floor=1e-9),
    "violation": Rule(0.0, "a proof holds to 1e-7 of its terms", floor=1e-7),
    "motion": Rule(1e-5, "Coulomb's law may have other answers: another one is a note",
                   soft=True),
    "bounds": Rule(1e-6, "certified by duals to 1e-6 of the largest force"),
    "looseness": Rule(1e-6, "of linear algebra, where networks are well-conditioned"),
    "derivative": Rule(1e-5, "of the answer's accuracy, times the conditioning of the network"),
    "moments": Rule(6.0, "Monte Carlo: in standard errors of the mean"),
    "limit": Rule(2e-6, "certified from both sides to 1e-6"),
    "run": Rule(1e-5, "errors of certified steps add up"),
    "energy": Rule(1e-5, "as the run's"),
    "paper": Rule(1e-5, "computed from runs and steps as above"),
}  # fmt: skip


def rule(name: str) -> Rule:
    """The rule of a quantity: that of the last word of its name."""
    return RULES.get(name.rpartition(" ")[2], SAME)


@dataclass
class Record:
    """Quantities of one case."""

    values: dict[str, np.ndarray] = field(default_factory=dict)
    scales: dict[str, np.ndarray] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)

    def put(self, name: str, value, scale=None) -> None:
        """Numbers, with one scale for each or for all; by default the largest of them."""
        numbers = np.atleast_1d(np.asarray(value, dtype=np.float64)).ravel()
        if scale is None:
            finite = np.abs(numbers[np.isfinite(numbers)])
            scale = finite.max(initial=0.0)
        scale = np.broadcast_to(np.asarray(scale, dtype=np.float64).ravel(), numbers.shape)
        self.values[name] = rounded(numbers)
        self.scales[name] = exponents(scale)

    def text(self, name: str, value: str) -> None:
        """A word."""
        self.texts[name] = value


def rounded(x: np.ndarray) -> np.ndarray:
    """To 34 bits."""
    mantissa, exponent = np.frexp(x)
    return np.ldexp(np.round(mantissa * BITS) / BITS, exponent)


def exponents(scale: np.ndarray) -> np.ndarray:
    """Of the power of two nearest above; 3000 for infinity, −3000 for zero."""
    result = np.full(scale.shape, -3000, dtype=np.int16)
    some = np.isfinite(scale) & (scale > 0.0)
    result[some] = np.frexp(scale[some])[1]
    result[~np.isfinite(scale)] = 3000
    return result


class Deviation(NamedTuple):
    """A quantity of a case that is not what it was; ``size`` is in units of what is allowed."""

    case: str
    name: str
    size: float
    text: str
    note: bool


def deviations(case: str, old: Record, new: Record, least: float = 1.0) -> Iterator[Deviation]:
    """What differs by ``least`` of what is allowed, or more."""
    undecided = {name for name, word in old.texts.items() if word == UNDECIDED}
    for name in sorted({*old.texts, *new.texts} - undecided):
        one, two = old.texts.get(name, "nothing"), new.texts.get(name, "nothing")
        if one != two:
            yield Deviation(case, name, np.inf, f"{one!r} is now {two!r}", False)
    for name in sorted({*old.values, *new.values} - undecided):
        by = name.rpartition(": ")[0]
        if by and new.values.get(f"{by}: ok", np.ones(1))[0] == 0.0 and name[-2:] != "ok":
            continue  # no answer to compare: that it is not certified is said already
        if name not in old.values or name not in new.values:
            what = "is missing" if name in old.values else "was not there"
            yield Deviation(case, name, np.inf, what, False)
            continue
        a, b, how = old.values[name], new.values[name], rule(name)
        if a.shape != b.shape:
            yield Deviation(case, name, np.inf, f"{a.size} numbers are now {b.size}", how.soft)
            continue
        with np.errstate(all="ignore"):  # 2³⁰⁰⁰ is infinite, 2⁻³⁰⁰⁰ zero
            scale = np.exp2(old.scales[name] + 0.0)
            error = np.abs(b - a)
            allowed = how.limit * scale + how.floor + 2.0 / BITS * np.abs(a)
            allowed = np.where(scale == np.inf, np.inf, allowed)
            if name.rpartition(" ")[2] in ("worst", "violation"):
                error = np.maximum(b - a, 0.0)
            size = np.where(error == 0.0, 0.0, error / allowed)
            same = (a == b) | (np.isnan(a) & np.isnan(b)) | (allowed == np.inf)
        size = np.where(same, 0.0, np.where(np.isnan(size), np.inf, size))
        if not size.size or size.max() < least:
            continue
        k = int(size.argmax())
        note = how.soft or (how.gains and (bool(b[k] > a[k]) or barely(old, name)))
        text = f"{a[k]:.9g} is now {b[k]:.9g} (entry {k} of {a.size}, scale {scale[k]:.2g})"
        yield Deviation(case, name, float(size[k]), text, note)


def barely(old: Record, name: str) -> bool:
    """Whether an answer was certified so barely that another statement of it may not be."""
    worst = old.values.get(f"{name[:-2]}worst", np.zeros(1))
    return bool(worst[0] > BARELY)


# --- files ---------------------------------------------------------------------------------


def save(path: Path, records: Mapping[str, Record]) -> None:
    """All records as one zip file of arrays, a set of them for each quantity."""
    cases, words = list(records), ["nothing"]
    for record in records.values():
        words += [word for word in record.texts.values() if word not in words]
    number, word = {c: k for k, c in enumerate(cases)}, {w: k for k, w in enumerate(words)}
    arrays: dict[str, np.ndarray] = {"cases": np.array(cases), "words": np.array(words)}
    for name in sorted({n for r in records.values() for n in r.texts}):
        having = [c for c in cases if name in records[c].texts]
        arrays[f"text/{name}/of"] = np.array([number[c] for c in having], dtype=np.int16)
        texts = [word[records[c].texts[name]] for c in having]
        arrays[f"text/{name}/word"] = np.array(texts, dtype=np.int16)
    for name in sorted({n for r in records.values() for n in r.values}):
        having = [c for c in cases if name in records[c].values]
        values = [records[c].values[name] for c in having]
        arrays[f"number/{name}/of"] = np.array([number[c] for c in having], dtype=np.int16)
        arrays[f"number/{name}/size"] = np.array([v.size for v in values], dtype=np.int32)
        arrays[f"number/{name}/value"] = np.concatenate(values)
        scales = [records[c].scales[name] for c in having]
        arrays[f"number/{name}/scale"] = np.concatenate(scales)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        for name, array in arrays.items():
            raw = io.BytesIO()
            np.lib.format.write_array(raw, array, allow_pickle=False)
            entry = zipfile.ZipInfo(f"{name}.npy")
            archive.writestr(entry, raw.getvalue(), compress_type=zipfile.ZIP_LZMA)


def load(path: Path) -> dict[str, Record]:
    """What ``save`` wrote."""
    with np.load(path) as archive:
        arrays = dict(archive.items())
    cases, words = arrays["cases"].tolist(), arrays["words"].tolist()
    records = {case: Record() for case in cases}
    for key in arrays:
        kind, _, rest = key.partition("/")
        name = rest.rpartition("/")[0]
        if kind == "text" and key.endswith("/of"):
            chosen = arrays[f"text/{name}/word"]
            for of, k in zip(arrays[key], chosen, strict=True):
                records[cases[of]].texts[name] = words[k]
        elif kind == "number" and key.endswith("/of"):
            ends = np.cumsum(arrays[f"number/{name}/size"])[:-1]
            values = np.split(arrays[f"number/{name}/value"], ends)
            scales = np.split(arrays[f"number/{name}/scale"], ends)
            for of, value, scale in zip(arrays[key], values, scales, strict=True):
                records[cases[of]].values[name] = value
                records[cases[of]].scales[name] = scale
    return records
