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
RIGID_FORMS = ("force", "velocity")
CONIC = tuple(name for name, solver in SOLVERS.items() if solver.cones)
RATIOS = ("1", "1e6")
GROWING = {  # the first of each for a quick run
    "packing": [f"packing:n=300,tiles={k},layers=6" for k in (1, 2, 3, 5)],
    "crystal": [f"crystal:rows={k},columns={k}" for k in (12, 24, 48, 96)],
    "pyramid": [f"pyramid:n={k}" for k in (8, 12, 18, 28)],
    "wall-2d": [f"wall:courses={k},bricks={k},dim=2" for k in (9, 18, 36, 72)],
    "wall-3d": [f"wall:courses={k},bricks={k},dim=3" for k in (6, 12, 24, 48)],
}
_TRUSS = ("newton", "interior-point", "augmented-lagrangian")
_RIGID = ("newton", "interior-point", "auto", "apgd", "pgs", "lcp")
_FRICTION = ("newton", "nsgs", "admm", "apgd")
BESIDE = (  # one thread up to 100,000 contacts, several above
    ("truss", "pyramid:n=20", _TRUSS[:2]),
    ("truss", "pyramid:n=40", _TRUSS[:1]),
    ("truss", "pyramid:n=5", _TRUSS[2:]),
    ("rigid", "pyramid:n=20", _RIGID[:2]),
    ("rigid", "pyramid:n=5", _RIGID[2:]),
    ("friction", "rough-wall", _FRICTION),
)
BESIDE_QUICK = (
    ("truss", "pyramid:n=5", _TRUSS),
    ("rigid", "pyramid:n=5", _RIGID),
    ("friction", "rough-wall", _FRICTION),
)


def products(quick: bool) -> Iterator[Job]:
    """Products and factorisations beside the limits of the machine."""
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
    """Preconditioners of the conjugate gradients that were tried."""
    yield "preconditioners", {"problem": f"pyramid-hooke:n={8 if quick else 20}"}


def preconditioned_newton(quick: bool) -> Iterator[Job]:
    """newton with each body's block and with block SSOR, on five families of growing size."""
    for patterns in GROWING.values():
        for text in patterns[:2] if quick else patterns[1:]:
            yield "preconditioned_newton", {"problem": text}


def neighbours(quick: bool) -> Iterator[Job]:
    """cdopt's own solvers beside none, one and two busy processes."""
    for kind, text, solvers in BESIDE_QUICK if quick else BESIDE:
        for solver in solvers:
            job = {"problem": text, "solver": solver, "kind": kind}
            yield "neighbours", job | {"repeats": 2 if quick else 5}


def trusses(quick: bool) -> Iterator[Job]:
    """newton against every general solver on the pyramid's truss, both forms."""
    n = 5 if quick else 20
    for material in MATERIALS:
        yield "newton_truss", {"problem": f"pyramid-{material}:n={n}"}
        for form in TRUSS_FORMS:
            known = {"hooke": tuple(SOLVERS), "hertz": CONIC, "species": CONIC[:1]}
            for solver in known[material]:
                yield "general_truss", _general(f"pyramid-{material}:n={n}", form, solver)
            for solver in petsc.ON_TRUSSES if form == "potential" else ():
                yield "general_truss", _general(f"pyramid-{material}:n={n}", form, solver)
            own = _general(f"pyramid-{material}:n={n}", form, "Clarabel faer")
            yield "general_truss", own | {"accuracy": None}


def large_trusses(quick: bool) -> Iterator[Job]:
    """newton against Clarabel on a pyramid of 122,000 contacts."""
    n = 8 if quick else 40
    for material in MATERIALS:
        yield "newton_truss", {"problem": f"pyramid-{material}:n={n}"}
        for form in () if material == "species" else TRUSS_FORMS:
            yield "general_truss", _general(f"pyramid-{material}:n={n}", form, "Clarabel faer")


def scaling(quick: bool) -> Iterator[Job]:
    """newton on pyramids of growing size: seconds, memory, and making them."""
    for material in ("hooke", "hertz"):
        for n in (5, 8, 10) if quick else (10, 14, 20, 28, 40, 56, 80, 100):
            yield "newton_truss", {"problem": f"pyramid-{material}:n={n}"}
            if n <= 28:
                form = "complementary" if material == "hooke" else "potential"
                yield (
                    "general_truss",
                    _general(f"pyramid-{material}:n={n}", form, "Clarabel faer"),
                )
    if not quick:
        yield "newton_truss", {"problem": "pyramid-species:n=100"}


def rigid(quick: bool) -> Iterator[Job]:
    """newton against every general solver on single steps: settled, mid-fall, random gaps."""
    texts = [
        text
        for pattern in ("pyramid-hooke:n={}", "random-gaps:n={}", "dropped:n={},steps=4")
        for text in _sizes(pattern, (5,) if quick else (20,))
    ]
    for text in texts:
        for solver, accuracy in (("newton", 1e-9), ("newton", 1e-12), ("apgd", 1e-9)):
            yield "own_rigid", {"problem": text, "solver": solver, "accuracy": accuracy}
        if text.startswith("dropped"):
            for solver in ("apgd", "newton"):
                yield "warm_rigid", {"problem": text, "solver": solver}
        for form in RIGID_FORMS:
            for solver in (*SOLVERS, *(petsc.ON_STEPS if form == "force" else ())):
                yield "general_rigid", _general(text, form, solver)
    for pattern in () if quick else ("pyramid-hooke:n=40", "random-gaps:n=40"):
        yield "own_rigid", {"problem": pattern, "accuracy": 1e-9}


def families(quick: bool) -> Iterator[Job]:
    """newton on networks of about 100,000 contacts, stiffness equal to a million to one."""
    for text in (SMALL if quick else LARGE).values():
        for power in ("2", "2.5"):
            for ratio in RATIOS:
                yield "newton_truss", {"problem": f"{text},ratio={ratio},power={power}"}
        problem = f"{text},ratio=1,power=2"
        for solver in CONIC[:1] if quick else ("Clarabel faer", "SCS"):  # others never end here
            yield "general_truss", _general(problem, "complementary", solver)


def trajectory(quick: bool) -> Iterator[Job]:
    """Twenty steps of the pyramid's drop, and where the time goes."""
    for n, steps in ((4, 4),) if quick else ((10, 20), (20, 20)):
        for classic in ("apgd", "newton"):
            yield "drop", {"n": n, "steps": steps, "classic": classic}


def compatible(quick: bool) -> Iterator[Job]:
    """Compatible forces in two steps, and in one."""
    for n in (5,) if quick else (5, 10, 20):
        for material in MATERIALS:
            for method in ("two-step", "one-step"):
                problem = f"pyramid-{material}:n={n}"
                yield "compatible", {"problem": problem, "method": method}


def overhead(quick: bool) -> Iterator[Job]:
    """What CVXPY and cdopt add to Clarabel's own time, and the beam."""
    n = 5 if quick else 20
    for material in ("hooke", "hertz"):
        for form in TRUSS_FORMS:
            problem = f"pyramid-{material}:n={n}"
            yield "through_cvxpy", {"problem": problem, "form": form, "solver": "clarabel"}
    yield "beam", {"repeats": 20 if quick else 200}
    yield "new_steps", {"repeats": 20 if quick else 200}


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
        products, preconditioners, preconditioned_newton, neighbours, trusses, large_trusses,
        scaling, rigid, families, trajectory, compatible, overhead, elastic, polyhedra,
    )
}  # fmt: skip


def _sizes(pattern: str, sizes: tuple[int, ...]) -> list[str]:
    return [pattern.format(n) for n in sizes]


def _general(problem: str, form: str, solver: str) -> dict[str, Any]:
    return {"problem": problem, "form": form, "solver": solver}
