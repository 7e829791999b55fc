"""The bank, ensembles, runs of every method, and the papers' numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from papers.de_klerk import scenes
from papers.de_klerk.parameters import FINE, PAPER, SMALL_STEPS
from papers.olsen_kamrin import beam, pile

import cdopt

from . import adapters, families, problems
from .measure import dense, failed, verdict
from .record import Record

FRICTIONLESS = (
    "pgs",
    "apgd",
    "interior-point",
    "augmented-lagrangian",
    "lcp",
    "clarabel",
    "osqp",
    "highs",
)
CONES = {"coulomb": ("nsgs", "admm", "apgd"), "associated": ("admm", "apgd", "clarabel")}
MOST, CONTACTS = 300, 60  # contacts, above which one backend is enough, and bounds are too slow
MOST_FRICTION = 100
SAMPLED = (
    "beam-uniform",
    "table",
    "supports",
    "fan",
    "stiffness-ratio",
    "duplicated-contacts",
    "pyramid-falling",
)


def cases() -> dict[str, Callable[[Record | None], Record]]:
    """By name."""
    table: dict[str, Callable[[Record | None], Record]] = {}
    for name in cdopt.bank.names():
        kind = cdopt.bank.manifest(name).kind
        for law in problems.LAWS if kind == "frictional" else ("",):
            table[f"bank {name} {law}".strip()] = partial(banked, name, law)
        if kind == "step" and name in SAMPLED:
            table[f"ensemble {name}"] = partial(sampled, name, None)
    table["ensemble ladder"] = partial(sampled, "ladder", "associated")
    table["ensemble rough-arch"] = partial(sampled, "rough-arch", "associated")
    table |= {f"run {name}": partial(ran, name) for name in RUNS}
    table |= {f"paper {name}": partial(of_paper, name) for name in PAPERS}
    return table


# --- the bank ------------------------------------------------------------------------------


def banked(name: str, law: str, old: Record | None) -> Record:
    """A problem of the bank by every backend that suits it."""
    record, problem = Record(), cdopt.bank.load(name)
    if problem.kind == "truss":
        given = {"B": dense(problem.B), "contact_load": problem.contact_load}
        families.static(record, problem.formulation("truss"), given, problem.power, old)
        return record
    step = problem.step
    if law:
        d = adapters.dimension(step)
        solution = families.frictional(record, step, law, d, 1, old)
        others = CONES[law]
    else:
        solution = families.classic(record, step, "force", 1, old)
        others, d = FRICTIONLESS, 1
    if solution is None or solution.f is None:
        return record
    if step.nc <= (MOST_FRICTION if law else MOST):
        formulation = problem.formulation(law or "classic")
        for other in others:
            if other == "lcp" and step.nc > 100:
                continue
            try:
                verdict(record, f"by {other}: ", formulation.solve(other, check=False))
            except cdopt.CdoptError as error:
                failed(record, f"by {other}: ", error)
    if not law:
        compatible(record, step, problem.power)
    if solution.ok and (not law or (step.nc <= CONTACTS and law == "associated")):
        families.indeterminacy(record, step, *([law, d] if law else []))
    return record


def compatible(record: Record, step: Any, power: float) -> None:
    """Compatible forces and their derivatives."""
    try:
        solution = cdopt.CompatibleCD(step, power).solve()
    except cdopt.CdoptError as error:
        failed(record, "compatible ", error)
        return
    verdict(record, "compatible ", solution)
    f = np.asarray(solution.f)
    record.put("compatible f", f, 10.0 * np.abs(f).max(initial=0.0))
    if step.nc <= MOST and solution.ok:
        families.derivatives(record, lambda: cdopt.sensitivity(step, power), f[:, None], False)


def sampled(name: str, law: str | None, old: Record | None) -> Record:
    """Mean and spread of the force network ensemble, in standard errors."""
    record, step = Record(), cdopt.bank.load(name).step
    samples = cdopt.ensemble(step, draws=1500, law=law)
    record.put("dimension", samples.dimension)
    mean, spread = np.asarray(samples.mean), np.asarray(samples.std)
    error = spread / np.sqrt(np.minimum(samples.bulk, 4.0 * 1500.0)) + 1e-9 * np.abs(mean).max()
    record.put("mean moments", mean, error)
    record.put("spread moments", spread, error)
    if law is None:  # every draw delivers the load, so the mean does
        B = np.abs(dense(step.B))
        record.put("mean load", dense(step.B).T @ mean, B.T @ np.abs(mean))
    return record


# --- runs ----------------------------------------------------------------------------------


def _ball(z: float, **more: Any) -> Any:
    return cdopt.scene.Body(
        cdopt.scene.Sphere(0.5), [0.1 * z, 0.0, z], mass=0.5, material="grain", **more
    )


def elastic(friction: float | None = None, bonds: float | None = None) -> Any:
    """Three spheres that fall onto a floor, one after another."""
    more = {} if friction is None else {"friction": friction}
    grain = cdopt.scene.Material(name="grain", stiffness=2e5, **more)
    floor = cdopt.scene.Body(
        cdopt.scene.HalfSpace([0.0, 0.0, 1.0]), [0.0, 0.0, 0.0], material="grain"
    )
    balls = [_ball(0.51, velocity=[1.0, 0.0, -1.0]), _ball(1.53), _ball(2.55)]
    return cdopt.scene.Scene(
        [floor, *balls], dim=3, gravity=[0.0, 0.0, -9.81], materials=[grain], damping=5.0,
        **({} if bonds is None else {"bond_stiffness": bonds, "bond_reach": 0.05}),
    )  # fmt: skip


def wedged() -> Any:
    """Two elastic discs above a groove."""
    grain = cdopt.scene.Material(name="grain", stiffness=2e4)
    walls = [
        cdopt.scene.Body(cdopt.scene.HalfSpace(normal), [0.0, 0.0], material="grain")
        for normal in ([0.6, 0.8], [-0.6, 0.8])
    ]
    discs = [
        cdopt.scene.Body(cdopt.scene.Sphere(0.5), place, mass=mass, material="grain")
        for place, mass in (([-0.51, 1.01], 0.5), ([0.51, 1.02], 0.8))
    ]
    return cdopt.scene.Scene([*walls, *discs], dim=2, gravity=[0.0, -9.81], materials=[grain])


RUNS: dict[str, tuple[Callable[[], Any], float, float, dict[str, Any]]] = {
    "classic": (lambda: cdopt.scene.pyramid(4), 1e-3, 0.02, {"method": "classic-cd"}),
    "compatible": (lambda: cdopt.scene.pyramid(4), 1e-3, 0.02, {"method": "compatible-cd"}),
    "compatible Hertz": (lambda: cdopt.scene.pyramid(3, power=2.5), 1e-3, 0.02, {}),
    "impacts": (cdopt.scene.bouncing_ball, 2e-3, 0.6, {"method": "classic-cd"}),
    "coulomb": (lambda: cdopt.scene.box_stack(2, dim=2).with_friction(0.4), 2e-3, 0.05, {}),
    "associated": (lambda: cdopt.scene.box_stack(3, dim=3).with_friction(0.4), 2e-3, 0.03,
                   {"method": "contact-dynamics", "law": "associated"}),
    "incline": (cdopt.scene.incline, 2e-3, 0.1, {}),
    "compatible friction": (lambda: cdopt.scene.brick_wall(2, 2).with_friction(0.6), 2e-3, 0.02,
                            {"method": "compatible-friction"}),
    "variational": (elastic, 2e-4, 0.2, {"method": "variational"}),
    "variational friction": (lambda: elastic(0.4), 2e-4, 0.2, {"method": "variational"}),
    "variational bonds": (lambda: elastic(None, 1e4), 2e-4, 0.2, {"method": "variational"}),
    "piston": (lambda: cdopt.scene.load("piston"), 1e-3, 0.05, {}),
    "tumbling box": (lambda: cdopt.scene.load("tumbling-box"), 2e-3, 0.3, {}),
    "velocity-verlet": (lambda: elastic(0.4), 5e-5, 0.2, {"method": "velocity-verlet"}),
    "quasi-static": (wedged, 1e-2, 0.05, {"method": "quasi-static"}),
}  # fmt: skip


def ran(name: str, old: Record | None) -> Record:
    """Places, speeds and energies of a run, at last and on the way."""
    record = Record()
    make, dt, duration, more = RUNS[name]
    run = cdopt.simulate(make(), dt, duration, **more)
    record.text("method", run.method)
    record.put("ok", run.ok)
    size = max(float(np.abs(run.v).max()), 9.81 * dt)  # what gravity does in one step
    record.put("place run", run.q[-1], np.maximum(1.0, np.abs(run.q[-1]).max()))
    record.put("speed run", run.v[-1], size)
    record.put("half-way speed run", run.v[len(run) // 2], size)
    final = run.final
    record.put("contacts", len(final.phi))
    f = final.forces.get("f")
    if f is not None and more.get("method") not in ("classic-cd", "contact-dynamics", None):
        record.put("total run", np.sum(f), 10.0 * np.abs(f).sum())
    table = run.diagnostics
    for column in ("kinetic", "potential", "elastic", "dissipated"):
        if column in table:
            values = np.asarray(table[column], dtype=float)
            record.put(f"{column} energy", values[-1], max(np.nanmax(np.abs(values)), size**2))
    return record


# --- the papers ----------------------------------------------------------------------------


def _beam(middle: float) -> dict[str, np.ndarray]:
    made = beam.beam(pile.Settings(), middle)
    return {"compatible": made.f, **made.classic}


def _pile(name: str) -> dict[str, Any]:
    problem = cdopt.bank.load(name)
    f = np.asarray(cdopt.CompatibleCD(problem.step, problem.power).solve().f)
    edges = np.linspace(0.0, f.max() * (1 + 1e-9), 9)
    return {"largest": f.max(), "sum": f.sum(), "histogram": np.histogram(f, edges)[0]}


def _impact(gamma: float, offset: float) -> dict[str, Any]:
    scene = scenes.impact(gamma, offset)
    run = cdopt.simulate(scene, FINE, 2.0 * PAPER.contact_time, "variational", every=20)
    return {"speed": run.v[-1], "place": run.q[-1]}


PAPERS: dict[str, Callable[[], dict[str, Any]]] = {
    "beam": lambda: _beam(1.0),
    "beam, stiff middle": lambda: _beam(3.0),
    **{f"pile {name}": partial(_pile, f"pyramid-{name}") for name in ("hooke", "hertz", "species")},
    **{f"impact {g:g} {y:g}": partial(_impact, g, y) for g, y in SMALL_STEPS},
}


def of_paper(name: str, old: Record | None) -> Record:
    """The numbers behind a figure."""
    record = Record()
    for what, value in PAPERS[name]().items():
        record.put(f"{what} paper", value)
    return record
