"""The paper's numbers and ours, each from the runs."""

from __future__ import annotations

import numpy as np

from cdopt._util.formatting import significant

from ..report import Number
from .beam import SUPPORTS, beams
from .classic import Answer, answers, column
from .dem import DAMPINGS, damping_effect, dem, uses_lammps
from .figures import TABLE_ORDER, forces
from .pictures import UNIT
from .pile import FIRST_BACKENDS, HOOKE, PAPER_N, Pile

NAMES = {"apgd": "APGD", "pgs": "PGS", "compatible": "compatible", "dem": "DEM"}
TABLE_1 = {  # relative errors of the floor pressure, APGD, PGS, compatible
    "hooke": (0.17, 0.19, 1.9e-5),
    "hertz": (0.17, 0.19, 2.8e-5),
    "species": (0.22, 0.25, 2.3e-5),
}
LARGEST = {"apgd": 0.14, "pgs": 0.41}  # largest classic force above DEM's, Hooke
CERTIFIED, TIMES_CERTIFICATE = 1e-6, 10.0
LOADED = 1e-6  # forces above this share of the largest are counted as nonzero
STATIC = 1e-3  # of the speed that gravity gives in one step: slower than this is at rest


def numbers(pile: Pile) -> list[Number]:
    """Every row, in the order of the page."""
    parts = (_table_1, _largest, _symmetry, _reference, _first_steps, _motion, _beam, _dem)
    return [row for part in parts for row in part(pile)]


def relative_error(f: np.ndarray, reference: np.ndarray) -> float:
    """‖f − reference‖ / ‖reference‖."""
    return float(np.linalg.norm(f - reference) / np.linalg.norm(reference))


def asymmetry(floor: np.ndarray) -> float:
    """‖F − S F‖ / ‖F‖, where S averages a square floor over its eight symmetries."""
    side = round(float(np.sqrt(floor.size)))
    square = floor.reshape(side, side)
    turns = [np.rot90(way, k) for way in (square, square.T) for k in range(4)]
    return float(np.linalg.norm(square - np.mean(turns, axis=0)) / np.linalg.norm(square))


def _worst(f: np.ndarray, reference: np.ndarray) -> float:
    """Largest difference, as a share of the largest force."""
    return float(np.abs(f - reference).max() / reference.max())


def _range(values: list[float], percent: bool = False) -> str:
    low, high = min(values), max(values)
    if percent:
        return f"{100 * low:+.0f} % to {100 * high:+.0f} % over {len(values):,} runs"
    return f"{significant(low, 2)} to {significant(high, 2)} over {len(values):,} runs"


def _all_of(pile: Pile, solver: str) -> list[Answer]:
    return [answer for answer in answers(pile) if answer.case.solver == solver]


def _table_1(pile: Pile) -> list[Number]:
    rows = []
    for material in TABLE_ORDER:
        floor = pile.floor_forces(dem(pile, material).f)
        for method, paper in zip(
            ("apgd", "pgs", "compatible"), TABLE_1[material.name], strict=True
        ):
            error = relative_error(pile.floor_forces(forces(pile, material, method)), floor)
            note = "last step of the drop"
            if method != "compatible":
                everything = _all_of(pile, method)
                errors = [relative_error(pile.floor_forces(a.f), floor) for a in everything]
                note = f"{column(pile, method).case.description}; {_range(errors)}"
            text = f"‖F − F_DEM‖ / ‖F_DEM‖ on the floor, {material.title}, {NAMES[method]}"
            same = pile.settings.n == PAPER_N
            rows.append(Number("Table 1", text, paper, error, note=note, comparable=same))
    return rows


def _largest(pile: Pile) -> list[Number]:
    rows = []
    for material in TABLE_ORDER:
        top = float(dem(pile, material).f.max())
        for method in ("apgd", "pgs"):
            everything = _all_of(pile, method)
            above = [float(a.f.max()) / top - 1.0 for a in everything]
            paper = LARGEST[method] if material is HOOKE else None
            text = f"largest force of {NAMES[method]} above DEM's, {material.title}"
            note = f"{everything[0].case.description}; {_range(above, percent=True)}"
            same = pile.settings.n == PAPER_N
            rows.append(Number("Largest force", text, paper, above[0], "percent", note, same))
    return rows


def _symmetry(pile: Pile) -> list[Number]:
    rows = []
    for method in ("dem", "apgd", "pgs", "compatible"):
        value = asymmetry(pile.floor_forces(forces(pile, HOOKE, method)))
        note = ""
        if method in ("apgd", "pgs"):
            note = _range([asymmetry(pile.floor_forces(a.f)) for a in _all_of(pile, method)])
        text = f"asymmetry of the floor under the square's symmetries, Hooke, {NAMES[method]}"
        rows.append(Number("Symmetry", text, None, value, note=note))
    return rows


def _reference(pile: Pile) -> list[Number]:
    rows = []
    for material in TABLE_ORDER:
        f, reference = pile.compatible(material), pile.reference(material)
        first, second = pile.certificates(material)
        allowed = max(CERTIFIED, TIMES_CERTIFICATE * first)
        text = f"compatible forces, worst of {f.size:,}, against the elastic reference"
        note = f"allowed {allowed:.0e}; certificates {first:.0e} and {second:.0e}"
        certified = f"reference certified to {pile.reference_certificate(material):.0e}"
        loaded = int(np.count_nonzero(reference > LOADED * reference.max()))
        group, title = f"Elastic reference, {material.title}", material.title
        largest = f"largest force [{UNIT}], {title}"
        rows += [
            Number(group, f"{text}, {title}", None, _worst(f, reference), note=note),
            Number(group, largest, None, float(reference.max()), note=certified),
            Number(group, f"contacts that carry force, {title}", None, loaded, "count"),
        ]
    return rows


def _first_steps(pile: Pile) -> list[Number]:
    rows = []
    for material in TABLE_ORDER:
        results = pile.first_steps(material)
        for backend in FIRST_BACKENDS:
            error, residual, peak = results[backend]
            text = f"compatible forces, worst, first step by {backend}, {material.title}"
            note = f"certificate {residual:.0e}; its classic forces reach {peak:.3f} {UNIT}"
            rows.append(Number("First step by any backend", text, None, error, note=note))
    return rows


def _motion(pile: Pile) -> list[Number]:
    run = pile.drop(HOOKE)
    speed = np.linalg.norm(run.v[:, :, :3], axis=2).max(axis=1)
    slow = STATIC * float(np.linalg.norm(run.scene.gravity)) * run.dt
    moving = np.flatnonzero(speed[1:] > slow)
    rest = int(moving[-1]) + 2 if moving.size else 1
    overlap = float(run.diagnostics["overlap"][-1]) / (2.0 * float(run.scene.bodies.core.min()))
    weight = float(pile.floor_forces(pile.compatible(HOOKE)).sum())
    spheres, steps = (2870.0, 16.0) if pile.settings.n == PAPER_N else (None, None)
    slow_step, note = "first step with every speed below g Δt / 1000", "static by about 16 steps"
    return [
        Number("Pile", "spheres", spheres, run.scene.nb, "count"),
        Number("Pile", "contacts at rest", None, pile.settled(HOOKE).nc, "count"),
        Number("Pile", slow_step, steps, rest, "count", f"the paper: {note}"),
        Number("Pile", "deepest overlap at rest [d]", None, overlap),
        Number("Pile", f"weight on the floor [{UNIT}]", None, weight),
    ]


def _beam(pile: Pile) -> list[Number]:
    rows = []
    even, stiff = beams(pile.settings)
    for beam, kind, paper in (
        (even, "equal supports", (10 / 3, 10 / 3, 10 / 3)),
        (stiff, "middle three times as stiff", (2.0, 6.0, 2.0)),
    ):
        for side, expected, ours in zip(SUPPORTS, paper, beam.f, strict=True):
            text = f"compatible force [N], {side}, {kind}"
            rows.append(Number("Beam", text, expected, float(ours)))
    share = float(even.classic["PGS: middle, left, right"][1]) / 10.0
    text = "share of the weight on the middle, PGS that visits it first"
    rows.append(Number("Beam", text, 1.0, share, "percent"))
    apgd = even.classic["APGD"]
    text, note = "APGD from zero [N], each support", f"spread {np.ptp(apgd):.0e} N"
    rows.append(Number("Beam", text, 10 / 3, float(apgd.mean()), note=note))
    return rows


def _dem(pile: Pile) -> list[Number]:
    if pile.settings.dem == "elastic":
        return []
    rows = []
    for material in TABLE_ORDER:
        column, reference = dem(pile, material), pile.reference(material)
        text = f"discrete elements against the elastic reference, worst force, {material.title}"
        note = f"{column.source}; {column.steps:,} time steps in all"
        rows.append(Number("DEM", text, None, _worst(column.f, reference), note=note))
    if not uses_lammps(pile):
        return rows
    text = "change of a static force with the viscous damping, worst, Hooke"
    note = f"γ = {DAMPINGS[0]:g} and {DAMPINGS[1]:g} × 2√(km)"
    rows.append(Number("DEM", text, None, damping_effect(pile), note=note))
    return rows


def classic_table(pile: Pile) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Header and rows: every classic answer on the step at rest, against DEM in Hooke's pile."""
    reference = dem(pile, HOOKE).f
    floor = pile.floor_forces(reference)
    rows: list[tuple[str, ...]] = []
    for answer in answers(pile):
        own = pile.floor_forces(answer.f)
        case, above = answer.case, 100.0 * (answer.f.max() / reference.max() - 1.0)
        errors = f"{above:+.1f} %", f"{relative_error(own, floor):.3f}", f"{asymmetry(own):.1e}"
        solved = f"{answer.iterations:,}", f"{answer.residual:.0e}"
        rows.append((case.solver.upper(), case.visits or "—", case.start, *errors, *solved))
    named = ("solver", "order", "start")
    measured = ("largest force against DEM", "floor error", "asymmetry", "iterations")
    return (*named, *measured, "certificate"), rows


def classic_summary(pile: Pile) -> str:
    """What the classic answers show, in one sentence of numbers; Hooke's pile."""
    reference = dem(pile, HOOKE).f
    floor = pile.floor_forces(reference)
    parts = []
    for method in ("pgs", "apgd"):
        everything = _all_of(pile, method)
        above = [float(a.f.max() / reference.max()) - 1.0 for a in everything]
        floors = [pile.floor_forces(a.f) for a in everything]
        errors = [relative_error(f, floor) for f in floors]
        skew = [asymmetry(f) for f in floors]
        parts.append(
            f"{NAMES[method]} overshoots the largest force by {100 * above[0]:.0f} % "
            f"({_range(above, percent=True)}), is off on the floor by {100 * errors[0]:.1f} % "
            f"({100 * min(errors):.1f} % to {100 * max(errors):.0f} %), and departs from the "
            f"pile's symmetry by {skew[0]:.1g} ({min(skew):.1g} to {max(skew):.1g})"
        )
    return "In Hooke's pile " + "; ".join(parts) + "."
