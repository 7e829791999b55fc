"""What the suite measures: for each group the tasks, small with ``quick``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from benchmarks import petsc
from benchmarks.direct import SOLVERS
from benchmarks.problems import LARGE, SMALL

Job = tuple[str, dict[str, Any]]
MATERIALS = ("hooke", "hertz", "species")
TRUSS_FORMS = ("complementary", "potential")
CONIC = tuple(name for name, solver in SOLVERS.items() if solver.cones)
_TRUSS = ("newton", "interior-point", "augmented-lagrangian")
_RIGID = ("newton", "interior-point", "auto", "apgd", "pgs", "lcp")
_FRICTION = ("newton", "nsgs", "admm", "apgd")
NEIGHBOURS = (  # one thread up to 30,000 contacts, several above
    ("truss", "pyramid:n=20", _TRUSS[:2]),
    ("truss", "pyramid:n=40", _TRUSS[:1]),
    ("truss", "pyramid:n=5", _TRUSS[2:]),
    ("rigid", "pyramid:n=20", _RIGID[:2]),
    ("rigid", "pyramid:n=5", _RIGID[2:]),
    ("friction", "rough-wall", _FRICTION),
)
NEIGHBOURS_QUICK = (
    ("truss", "pyramid:n=5", _TRUSS),
    ("rigid", "pyramid:n=5", _RIGID),
    ("friction", "rough-wall", _FRICTION),
)


def products(quick: bool) -> Iterator[Job]:
    """Products and factorisations compared with the limits of the machine."""
    for text in _sizes("pyramid:n={}", (10,) if quick else (20, 40, 60)):
        yield "products", {"problem": text, "quick": quick}
    yield "products", {"problem": (SMALL if quick else LARGE)["packing"], "quick": quick}
    yield "products", {"problem": (SMALL if quick else LARGE)["wall-3d"], "quick": quick}
    for text in _sizes("pyramid:n={}", (10,) if quick else (10, 20, 30)):
        yield "factorisation", {"problem": text, "quick": quick}
    if not quick:
        yield "factorisation", {"problem": LARGE["crystal"], "quick": quick}
    for text in _sizes("pyramid-hooke:n={}", (10,) if quick else (20, 40)):
        yield "sweep", {"problem": text, "quick": quick}


def preconditioners(quick: bool) -> Iterator[Job]:
    """Preconditioners of the conjugate gradients."""
    yield "preconditioners", {"problem": f"pyramid-hooke:n={8 if quick else 20}"}


def neighbours(quick: bool) -> Iterator[Job]:
    """cdopt's solvers on an idle machine, and with one and two busy processes."""
    for kind, text, solvers in NEIGHBOURS_QUICK if quick else NEIGHBOURS:
        for solver in solvers:
            job = {"problem": text, "solver": solver, "kind": kind}
            yield "neighbours", job | {"repeats": 2 if quick else 5}


def trusses(quick: bool) -> Iterator[Job]:
    """newton and general solvers on the pyramid's truss, in both forms."""
    n = 5 if quick else 20
    for material in MATERIALS:
        yield "newton_truss", {"problem": f"pyramid-{material}:n={n}"}
        for form in TRUSS_FORMS:
            known = CONIC[:1] if form == "potential" else SOLVERS if material == "hooke" else ()
            for solver in known:  # of the others none ends here
                yield "general_truss", _general(f"pyramid-{material}:n={n}", form, solver)
            for solver in petsc.ON_TRUSSES if form == "potential" else ():
                yield "general_truss", _general(f"pyramid-{material}:n={n}", form, solver)


def scaling(quick: bool) -> Iterator[Job]:
    """newton on pyramids of growing size: time, memory, and set-up."""
    for material, most in (("hooke", 100), ("hertz", 40)):
        for n in (5, 8, 10) if quick else (10, 14, 20, 28, 40, 56, 80, 100):
            if n > most:
                break
            yield "newton_truss", {"problem": f"pyramid-{material}:n={n}"}
            if n < 20:
                form = "complementary" if material == "hooke" else "potential"
                yield (
                    "general_truss",
                    _general(f"pyramid-{material}:n={n}", form, "Clarabel"),
                )


def rigid(quick: bool) -> Iterator[Job]:
    """cdopt's solvers and general solvers on single steps: settled, in a fall, random gaps."""
    for text in ("pyramid-hooke:n={}", "random-gaps:n={}", "dropped:n={},steps=4"):
        text = text.format(5 if quick else 20)
        for solver, accuracy in (("newton", 1e-9), ("newton", 1e-12), ("apgd", 1e-9)):
            yield "own_rigid", {"problem": text, "solver": solver, "accuracy": accuracy}
        if text.startswith("dropped"):
            for solver in ("apgd", "newton"):
                yield "warm_rigid", {"problem": text, "solver": solver}
        for solver in () if text.startswith("random") else (*SOLVERS, *petsc.ON_STEPS):
            yield "general_rigid", _general(text, "force", solver)
    if not quick:
        yield "own_rigid", {"problem": "pyramid-hooke:n=40", "accuracy": 1e-9}


def families(quick: bool) -> Iterator[Job]:
    """newton on large networks, with equal and with very different stiffness."""
    for text in (SMALL if quick else LARGE).values():
        for power, ratio in (("2", "1"), ("2", "1e6"), ("2.5", "1")):
            yield "newton_truss", {"problem": f"{text},ratio={ratio},power={power}"}
        # others never end here
        yield "general_truss", _general(f"{text},ratio=1,power=2", "complementary", "SCS")


def trajectory(quick: bool) -> Iterator[Job]:
    """Twenty steps of a dropped pyramid, and where the time goes."""
    for n, steps in ((4, 4),) if quick else ((10, 20), (20, 20), (30, 20), (40, 20)):
        yield "drop", {"n": n, "steps": steps}


def piles(quick: bool) -> Iterator[Job]:
    """Piles of spheres with friction of growing size, under both laws."""
    for law in ("associated", "coulomb"):
        for problem in _sizes("rough-pile:n={}", (3, 4) if quick else (10, 20, 30, 40)):
            yield "rough_pile", {"problem": problem, "law": law}


def compatible(quick: bool) -> Iterator[Job]:
    """Compatible forces, by the two-step and the one-step method."""
    for n in (5,) if quick else (5, 20):
        for material in MATERIALS:
            for method in ("two-step", "one-step"):
                problem = f"pyramid-{material}:n={n}"
                yield "compatible", {"problem": problem, "method": method}


def overhead(quick: bool) -> Iterator[Job]:
    """What CVXPY and cdopt add to the time of Clarabel, and the beam."""
    problem = f"pyramid-hooke:n={5 if quick else 14}"
    for form in TRUSS_FORMS:
        yield "through_cvxpy", {"problem": problem, "form": form, "solver": "clarabel"}
    yield "beam", {"repeats": 20 if quick else 200}
    yield "new_steps", {"repeats": 20 if quick else 200}
    yield "first_command", {"repeats": 1 if quick else 5}


def elastic(quick: bool) -> Iterator[Job]:
    """Steps of the elastic methods."""
    yield "settling", {"steps": 20 if quick else 2500}
    yield "growth", {"largest": 600 if quick else 20_000}
    yield "impact", {"repeats": 1 if quick else 5}
    yield "frames", {"steps": 40 if quick else 400}


def polyhedra(quick: bool) -> Iterator[Job]:
    """Falling polyhedra, step by step."""
    size = {"count": 20, "steps": 5, "blocks": 2} if quick else {"count": 500, "steps": 25}
    yield "pile", size


GROUPS: Mapping[str, Callable[[bool], Iterator[Job]]] = {
    group.__name__.replace("_", "-"): group
    for group in (
        products, preconditioners, neighbours, trusses,
        scaling, rigid, families, trajectory, piles, compatible, overhead, elastic, polyhedra,
    )
}  # fmt: skip


def _sizes(pattern: str, sizes: tuple[int, ...]) -> list[str]:
    return [pattern.format(n) for n in sizes]


def _general(problem: str, form: str, solver: str) -> dict[str, Any]:
    return {"problem": problem, "form": form, "solver": solver}
