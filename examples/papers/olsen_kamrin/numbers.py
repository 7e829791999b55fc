"""The paper's numbers beside ours, each from the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cdopt._util.checks import FloatArray

from . import measures
from .classic import column
from .dem import DAMPINGS, damping_effect, uses_lammps
from .figures import TABLE_ORDER, Results, forces
from .pile import FIRST_BACKENDS
from .settings import MATERIALS, PAPER_N, Material

METHODS = ("apgd", "pgs", "compatible")
TABLE_1 = {  # relative errors of the floor pressure, APGD, PGS, compatible
    "hooke": (0.17, 0.19, 1.9e-5),
    "hertz": (0.17, 0.19, 2.8e-5),
    "species": (0.22, 0.25, 2.3e-5),
}
LARGEST = {"apgd": 0.14, "pgs": 0.41}  # largest classic force above DEM's, Hooke
CERTIFIED, TIMES_CERTIFICATE = 1e-6, 10.0
STATIC = 1e-3  # of the speed that gravity gives in one step: slower than this is at rest


@dataclass(frozen=True)
class Number:
    """A row of the page's table.

    Attributes
    ----------
    group, quantity : what it is. paper, ours : values; None where the paper, or another
        reference in its place, gives none.
    kind : "number", "percent" or "count", how it is written.
    note : how it was got, or how far it ranges.
    """

    group: str
    quantity: str
    paper: float | None
    ours: float
    kind: str = "number"
    note: str = ""

    def as_dict(self, wanted: str = "paper") -> dict[str, Any]:
        """All of it, for JSON; ``wanted`` is the key of what ours is compared with."""
        off = None if self.paper is None else self.ours - self.paper
        return {
            "group": self.group, "quantity": self.quantity, wanted: self.paper, "ours": self.ours,
            "difference": off, "kind": self.kind, "note": self.note,
        }  # fmt: skip


def numbers(results: Results) -> list[Number]:
    """Every row, in the order of the page."""
    return [*_table_1(results), *_largest(results), *_reference(results), *_first_steps(results),
            *_motion(results), *_beam(results), *_dem(results)]  # fmt: skip


def _table_1(results: Results) -> list[Number]:
    rows = []
    for material in TABLE_ORDER:
        step, base = results.pile.settled(material), results.pile.base
        wanted = measures.floor_forces(step, results.dem(material).f, base)
        for method, paper in zip(METHODS, TABLE_1[material.name], strict=True):
            floor = measures.floor_forces(step, forces(results, material, method), base)
            error = measures.relative_error(floor, wanted)
            note = "last step of the drop"
            if method != "compatible":
                others = [
                    measures.relative_error(measures.floor_forces(step, a.f, base), wanted)
                    for a in results.classic
                    if a.solver == method
                ]
                note = f"{column(results.classic, method).words}; {_range(others)}"
            words = f"‖F − F_DEM‖ / ‖F_DEM‖ on the floor, {material.title}, {_name(method)}"
            rows.append(Number("Table 1", words, paper, error, note=note))
    return rows


def _largest(results: Results) -> list[Number]:
    rows = []
    for material in TABLE_ORDER:
        top = float(results.dem(material).f.max())
        for method in ("apgd", "pgs"):
            mine = [a for a in results.classic if a.solver == method]
            above = [float(a.f.max()) / top - 1.0 for a in mine]
            paper = LARGEST[method] if material is MATERIALS[0] else None
            words = f"largest force of {_name(method)} above DEM's, {material.title}"
            note = f"{mine[0].words}; {_range(above, percent=True)}"
            rows.append(Number("Largest force", words, paper, above[0], "percent", note))
    step, base = results.pile.settled(MATERIALS[0]), results.pile.base
    for method in ("dem", *METHODS):
        floor = measures.floor_forces(step, forces(results, MATERIALS[0], method), base)
        words = f"asymmetry of the floor under the square's symmetries, Hooke, {_name(method)}"
        note = ""
        if method in ("apgd", "pgs"):
            note = _range([
                measures.asymmetry(measures.floor_forces(step, a.f, base))
                for a in results.classic if a.solver == method
            ])  # fmt: skip
        value = measures.asymmetry(floor)
        rows.append(Number("Symmetry", words, None, value, note=note))
    return rows


def _reference(results: Results) -> list[Number]:
    rows = []
    for material in TABLE_ORDER:
        pile = results.pile
        f, wanted = pile.compatible(material), pile.reference(material)
        first, second = pile.certificates(material)
        allowed = max(CERTIFIED, TIMES_CERTIFICATE * first)
        words = f"compatible forces, worst of {f.size:,}, against the elastic reference"
        note = f"allowed {allowed:.0e}; certificates {first:.0e} and {second:.0e}"
        group = f"Elastic reference, {material.title}"
        rows += [
            Number(group, f"{words}, {material.title}", None, _off(f, wanted), note=note),
            Number(group, f"largest force [mg], {material.title}", None, float(wanted.max()),
                   note=f"reference certified to {pile.reference_certificate(material):.0e}"),
            Number(group, f"contacts that carry force, {material.title}", None,
                   measures.loaded(wanted), "count"),
        ]  # fmt: skip
    return rows


def _first_steps(results: Results) -> list[Number]:
    rows = []
    for material in TABLE_ORDER:
        found = results.pile.first_steps(material)
        for backend in FIRST_BACKENDS:
            off, residual, peak = found[backend]
            words = f"compatible forces, worst, first step by {backend}, {material.title}"
            note = f"certificate {residual:.0e}; its classic forces reach {peak:.3f} mg"
            rows.append(Number("First step by any backend", words, None, off, note=note))
    return rows


def _motion(results: Results) -> list[Number]:
    pile, material = results.pile, MATERIALS[0]
    run, step = pile.drop(material), pile.settled(material)
    speed = np.linalg.norm(run.v[:, :, :3], axis=2).max(axis=1)
    slow = STATIC * float(np.linalg.norm(run.scene.gravity)) * run.dt
    moving = np.flatnonzero(speed[1:] > slow)
    rest = int(moving[-1]) + 2 if moving.size else 1
    diameter = 2.0 * float(run.scene.bodies.core.min())
    full = pile.settings.n == PAPER_N
    f = pile.compatible(material)
    return [
        Number("Pile", "spheres", 2870.0 if full else None, run.scene.nb, "count"),
        Number("Pile", "contacts at rest", None, step.nc, "count"),
        Number("Pile", "first step with every speed below g Δt / 1000",
               16.0 if full else None, rest, "count", "the paper: static by about 16 steps"),
        Number("Pile", "deepest overlap at rest [d]", None,
               float(run.diagnostics["overlap"][-1]) / diameter),
        Number("Pile", "weight on the floor [mg]", None,
               float(measures.floor_forces(step, f, pile.base).sum())),
    ]  # fmt: skip


def _beam(results: Results) -> list[Number]:
    rows = []
    for found, papers in zip(results.beams, ((10 / 3, 10 / 3, 10 / 3), (2.0, 6.0, 2.0)),
                             strict=True):  # fmt: skip
        kind = "equal supports" if found.middle == 1.0 else "middle three times as stiff"
        for side, paper, ours in zip(("left", "middle", "right"), papers, found.f, strict=True):
            words = f"compatible force [N], {side}, {kind}"
            rows.append(Number("Beam", words, paper, float(ours)))
    first = results.beams[0].classic
    share = float(first["PGS: middle, left, right"][1]) / 10.0
    rows.append(Number("Beam", "share of the weight on the middle, PGS that visits it first", 1.0,
                       share, "percent"))  # fmt: skip
    rows.append(Number("Beam", "APGD from zero [N], each support", 10 / 3,
                       float(first["APGD"].mean()),
                       note=f"spread {np.ptp(first['APGD']):.0e} N"))  # fmt: skip
    return rows


def _dem(results: Results) -> list[Number]:
    if not uses_lammps(results.pile):
        return []
    effect = damping_effect(results.pile)
    rows = [
        Number("DEM", f"LAMMPS against the elastic reference, worst force, {m.title}", None,
               _off(results.dem(m).f, results.pile.reference(m)),
               note=f"{results.dem(m).source}; {results.dem(m).steps:,} time steps in all")
        for m in TABLE_ORDER
    ]  # fmt: skip
    if effect is not None:
        words = "change of a static force with the viscous damping, worst, Hooke"
        note = f"γ = {DAMPINGS[0]:g} and {DAMPINGS[1]:g} × 2√(km)"
        rows.append(Number("DEM", words, None, effect[0], note=note))
    return rows


def classic_table(results: Results) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Header and rows: every classic answer on the step at rest, against DEM in Hooke's pile."""
    material, base = MATERIALS[0], results.pile.base
    step, wanted = results.pile.settled(material), results.dem(material).f
    floor = measures.floor_forces(step, wanted, base)
    rows: list[tuple[str, ...]] = []
    for answer in results.classic:
        own = measures.floor_forces(step, answer.f, base)
        rows.append((
            answer.solver.upper(), answer.order or "—", answer.start,
            f"{100.0 * (answer.f.max() / wanted.max() - 1.0):+.1f} %",
            f"{measures.relative_error(own, floor):.3f}", f"{measures.asymmetry(own):.1e}",
            f"{answer.iterations:,}", f"{answer.residual:.0e}",
        ))  # fmt: skip
    header = ("solver", "order", "start", "largest force against DEM", "floor error",
              "asymmetry", "iterations", "certificate")  # fmt: skip
    return header, rows


def classic_words(results: Results) -> str:
    """What the classic answers show, in one sentence of numbers; Hooke's pile."""
    material, base = MATERIALS[0], results.pile.base
    step, wanted = results.pile.settled(material), results.dem(material).f
    floor = measures.floor_forces(step, wanted, base)
    told = []
    for method in ("pgs", "apgd"):
        mine = [a for a in results.classic if a.solver == method]
        above = [float(a.f.max() / wanted.max()) - 1.0 for a in mine]
        floors = [measures.floor_forces(step, a.f, base) for a in mine]
        errors = [measures.relative_error(f, floor) for f in floors]
        skew = [measures.asymmetry(f) for f in floors]
        told.append(
            f"{_name(method)} overshoots the largest force by {100 * above[0]:.0f} % "
            f"({_range(above, percent=True)}), is off on the floor by {errors[0]:.1%} "
            f"({100 * min(errors):.1f} % to {100 * max(errors):.0f} %), and departs from the "
            f"pile's symmetry by {skew[0]:.1g} ({min(skew):.1g} to {max(skew):.1g})"
        )
    return "In Hooke's pile " + "; ".join(told) + "."


def _off(found: FloatArray, wanted: FloatArray) -> float:
    """Largest difference, as a share of the largest force."""
    return float(np.abs(found - wanted).max() / wanted.max())


def _range(values: list[float], percent: bool = False) -> str:
    low, high = min(values), max(values)
    if percent:
        return f"{100 * low:+.0f} % to {100 * high:+.0f} % over {len(values)} runs"
    return f"{low:#.2g} to {high:#.2g} over {len(values)} runs"


def _name(method: str) -> str:
    return {"compatible": "compatible", "dem": "DEM"}.get(method, method.upper())


def source(results: Results, material: Material) -> str:
    """Where a material's DEM column is from."""
    return results.dem(material).source
