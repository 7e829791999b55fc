"""The plans of the long studies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cdopt
from cdopt.backends import available
from cdopt.backends.registry import DIRECT
from cdopt.interop import pinocchio_admm, siconos
from cdopt.study import Plan

PLANS = ("standard", "sizes", "friction", "bank")
TOLERANCES = (1e-3, 1e-6, 1e-9)
SHORT, LONG = 20.0, 60.0  # s for one solve
SICONOS = ("siconos-lemke", "siconos-pgs", "siconos-newtonmin")
NO_TRUSS = ("pgs", "apgd", "lcp")  # solvers of steps alone
STEPS = (  # of most families one, and those that solvers often fail on
    "beam-uniform", "table", "family:tables:16", "pyramid-hooke:n=5", "pyramid-hooke:n=8",
    "pyramid-falling", "crystal-2d:rows=8,columns=8", "family:packings:100", "family:chains:32",
    "family:brick-walls:5", "family:stacks:8", "fclib-box-stacks", "supports-delassus",
    "family:nearly-parallel:16", "family:heavy-on-light:32", "family:mass-ratio:8",
)  # fmt: skip
FOR_PEERS = ("beam-uniform", "pyramid-hooke:n=5", "pyramid-falling", "family:stacks:8")
FRICTION = (  # scenes, and problems of Siconos and FCLib from simple to hard
    "incline", "launched-box", "wedge", "ladder", "rough-wall", "rough-arch", "rough-pile",
    "fclib-boxes-friction", "fclib-periodic-box-friction", "siconos-capsules-i100-889",
    "siconos-boxesstack1-i100000-32", "siconos-confeti-ex13-4contact-fc3d-sbm",
    "siconos-oneobject-i1028-138", "siconos-rover1039", "siconos-nespheres-30-1",
    "siconos-frictioncontactproblem00031",
)  # fmt: skip
CONES = (
    "auto", "newton", "interior-point", "homotopy", "nsgs", "admm", "apgd", "clarabel", "scs",
    "qoco", "moreau", "ecos",
)  # fmt: skip
LAWS = {"coulomb": ("nsgs", "nsn-ac", "admm", "prox"), "associated": ("soclcp",)}  # of Siconos
FINE = (1e-4, 1e-6, 1e-9)
TRUSSES = (
    "table", "pyramid-species:n=5", "pyramid-hertz:n=5", "family:stiffness-ratio:8",
)  # fmt: skip
LAYERS = {100: 5, 10_000: 18, 100_000: 38}  # of a pyramid, by its contacts
FEW = 1000  # contacts, up to which runs of the sizes are repeated
DT, FALLEN = 1e-3, 5  # s; the step of its drop that is taken, when some layers have landed
STRONG = ("newton", "apgd", "pgs", "clarabel", "osqp", "scs", "piqp", "qoco", "highs", "moreau")
LARGE = ("newton", "apgd", "pgs", "clarabel", "osqp", "scs", "piqp")
WARM = ("newton", "apgd", "pgs", "osqp", "scs")
LARGE_WARM = ("newton", "apgd", "osqp")


def plans(name: str, folder: str | Path) -> tuple[Plan, ...]:
    """The plans of a study, to be run one after the other into one folder.

    Parameters
    ----------
    name : one of ``PLANS``.
    folder : where ``sizes`` records the falls whose steps it takes, unless they are there already.
    """
    if name not in PLANS:
        raise cdopt.InvalidInput("study", repr(name), "one of " + ", ".join(PLANS))
    if name == "sizes":
        return sizes(Path(folder))
    return {"standard": standard, "friction": friction, "bank": bank}[name]()


def standard() -> tuple[Plan, ...]:
    """Most problems, every solver, three tolerances."""
    every = available()
    elastic = [name for name in every if name not in NO_TRUSS]
    called = [name for name in DIRECT if name in every]
    return (
        Plan(STEPS, every, tolerances=TOLERANCES, time_limit=SHORT),
        *peers(FOR_PEERS, TOLERANCES),
        Plan(TRUSSES, elastic, ("truss-complementary",), TOLERANCES, time_limit=SHORT),
        Plan(FOR_PEERS, called, tolerances=TOLERANCES, calls=("direct",), time_limit=SHORT),
        Plan(FOR_PEERS[1:2], every, tolerances=(1e-6,), seeds=(1, 2), time_limit=SHORT),
    )


def sizes(folder: Path) -> tuple[Plan, ...]:
    """Pyramids of growing size, at rest and in a fall, cold and warm."""
    parts: list[Plan] = []
    for contacts, layers in LAYERS.items():
        many = contacts > FEW
        strong = [name for name in (LARGE if many else STRONG) if name in available()]
        warm = LARGE_WARM if many else WARM
        elastic = [name for name in strong if name not in NO_TRUSS]
        rest, falling = f"pyramid-hooke:n={layers}", fall(folder, layers)
        given: dict[str, Any] = {
            "tolerances": (TOLERANCES[0], TOLERANCES[-1]),
            "repeats": 1 if many else 3,
            "time_limit": LONG,
        }
        parts += [
            Plan([rest, falling], strong, **given),
            Plan([rest], warm, modes=("warm",), **given),
            Plan([falling], warm, modes=("previous",), **given),
            Plan([rest], elastic, ("truss-complementary",), **given),
        ]
    return tuple(parts)


def friction() -> tuple[Plan, ...]:
    """Steps with friction by every solver that takes cones, both laws; the bank has the rest."""
    every = [name for name in CONES if name in available()]
    return (
        Plan(FRICTION, every, tuple(LAWS), FINE, repeats=1, time_limit=SHORT),
        *(
            plan
            for law, names in LAWS.items()
            for plan in peers(FRICTION, FINE, [f"siconos-friction-{name}" for name in names], law)
        ),
        *_with_pinocchio(),
    )


def _with_pinocchio() -> tuple[Plan, ...]:
    """Its ADMM on the same steps; no plan where it is not installed."""
    solvers, plugins = tuple(pinocchio_admm.makers()), (f"{pinocchio_admm.__name__}:makers",)
    given: dict[str, Any] = {"repeats": 1, "plugins": plugins, "time_limit": SHORT}
    return (Plan(FRICTION, solvers, tuple(LAWS), FINE, **given),) if solvers else ()


def fall(folder: Path, layers: int) -> str:
    """One step of the drop of a pyramid, whose run is recorded in the folder."""
    path = folder / f"drop-{layers}.vtkhdf"
    folder.mkdir(parents=True, exist_ok=True)
    cdopt.simulate(
        cdopt.scene.pyramid(layers), DT, FALLEN * DT, "classic-cd", out=path, resume=True,
        backend="newton", on_failure="continue",
    )  # fmt: skip
    return f"{path}#{FALLEN}"


def bank() -> tuple[Plan, ...]:
    """Every problem of the bank, in every formulation it has."""
    names = cdopt.bank.names()
    steps = [name for name in names if cdopt.bank.manifest(name).kind == "step"]
    trusses = [name for name in names if cdopt.bank.manifest(name).kind == "truss"]
    rigid = ("classic-force", "classic-velocity", "compatible")
    elastic = ("truss-complementary", "truss-potential")
    every = available()
    return (
        Plan(steps, every, rigid, TOLERANCES),
        *peers(steps, TOLERANCES),
        Plan(trusses, [name for name in every if name not in NO_TRUSS], elastic, TOLERANCES),
    )


def peers(
    problems: Sequence[str],
    tolerances: Sequence[float],
    solvers: Sequence[str] = SICONOS,
    law: str | None = None,
) -> tuple[Plan, ...]:
    """Siconos on all problems; no plan where it is not installed."""
    if siconos.why_unavailable() is not None:
        return ()
    plan = Plan(
        problems,
        solvers,
        ("classic-force",) if law is None else (law,),
        tolerances,
        repeats=3 if law is None else 1,
        plugins=(f"{siconos.__name__}:makers",),
        time_limit=SHORT,
    )
    return (plan,)
