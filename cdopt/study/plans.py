"""Plans with a name: the studies whose tables stand in README and guide, made again by one command.

cdopt compare --plan standard --out study
cdopt report study --out page
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from cdopt import bank, scene
from cdopt._util import checks
from cdopt._util.errors import InvalidInput
from cdopt.backends import available
from cdopt.dynamics import simulate
from cdopt.study.peers import siconos_lcp
from cdopt.study.runs import Plan, direct

PLANS = ("quick", "standard", "sizes", "bank")
TOLERANCES = (1e-3, 1e-6, 1e-9)
_ENDS = (1e-3, 1e-9)
_SHORT, _LONG = 20.0, 60.0  # s for one solve
_FEW = 1000  # contacts, up to which runs of the sizes are repeated
_SICONOS = ("siconos-lemke", "siconos-pgs", "siconos-newtonmin")
_NO_TRUSS = ("pgs", "apgd", "lcp")
_STEPS = (  # of most families one, and those that catch solvers out
    "beam-uniform", "table", "family:tables:16", "pyramid-hooke:n=5", "pyramid-hooke:n=8",
    "pyramid-falling", "crystal-2d:rows=8,columns=8", "family:packings:100", "family:chains:32",
    "family:brick-walls:5", "family:stacks:8", "fclib-box-stacks", "supports-delassus",
    "family:nearly-parallel:16", "family:heavy-on-light:32", "family:mass-ratio:8",
)  # fmt: skip
_FOR_PEERS = ("beam-uniform", "pyramid-hooke:n=5", "pyramid-falling", "family:stacks:8")
_TRUSSES = (
    "table", "pyramid-species:n=5", "pyramid-hertz:n=5", "family:stiffness-ratio:8",
)  # fmt: skip
_LAYERS = MappingProxyType({100: 5, 10_000: 18, 100_000: 38})  # of a pyramid, by its contacts
_DT, _FALLEN = 1e-3, 5  # s; the step of its drop that is taken, some layers having landed
_STRONG = ("newton", "apgd", "pgs", "clarabel", "osqp", "scs", "piqp", "qoco", "highs", "moreau")
_LARGE = ("newton", "apgd", "pgs", "clarabel", "osqp", "scs", "piqp")
_WARM = ("newton", "apgd", "pgs", "osqp", "scs")
_LARGE_WARM = ("newton", "apgd", "osqp")


def plans(name: str, folder: str | Path | None = None) -> tuple[Plan, ...]:
    """The plans of a study, to be made one after the other into one folder.

    Parameters
    ----------
    name : ``quick``: that it works, in a minute. ``standard``: about twenty problems, every solver
        there is, three tolerances; an hour on two cores. ``sizes``: which solver for 10², 10⁴ and
        10⁵ contacts, at rest and in a fall, cold and warm; less than an hour. ``bank``: every
        problem of the bank; some hours.
    folder : where ``sizes`` records the falls whose steps it takes, unless they are there already.

    Raises
    ------
    InvalidInput : no such study, or no folder for its falls.
    """
    checks.choice("plan", name, PLANS)
    made: Mapping[str, Callable[[], tuple[Plan, ...]]] = {
        "quick": _quick, "standard": _standard, "sizes": partial(_sizes, folder), "bank": _bank,
    }  # fmt: skip
    return made[name]()


def _quick() -> tuple[Plan, ...]:
    return (
        Plan(["beam-uniform", "supports-delassus"], ["newton", "clarabel", "highs"], repeats=2),
    )


def _standard() -> tuple[Plan, ...]:
    own = available()
    elastic = [name for name in own if name not in _NO_TRUSS]
    called = [name for name in direct.SOLVERS if name in own]
    return (
        Plan(_STEPS, own, tolerances=TOLERANCES, time_limit=_SHORT),
        _peers(_FOR_PEERS, TOLERANCES),
        Plan(_TRUSSES, elastic, ("truss-complementary",), TOLERANCES, time_limit=_SHORT),
        Plan(_FOR_PEERS, called, tolerances=TOLERANCES, calls=("direct",), time_limit=_SHORT),
        Plan(_FOR_PEERS[1:2], own, tolerances=(1e-6,), seeds=(1, 2), time_limit=_SHORT),
    )


def _sizes(folder: str | Path | None) -> tuple[Plan, ...]:
    if folder is None:
        raise InvalidInput("folder", "none", "one for the falls that this study records")
    made: list[Plan] = []
    for contacts, layers in _LAYERS.items():
        many = contacts > _FEW
        strong = [name for name in (_LARGE if many else _STRONG) if name in available()]
        warm = _LARGE_WARM if many else _WARM
        elastic = [name for name in strong if name not in _NO_TRUSS]
        rest, fall = f"pyramid-hooke:n={layers}", _fall(Path(folder), layers)
        given: dict[str, Any] = {
            "tolerances": _ENDS, "repeats": 1 if many else 3, "time_limit": _LONG,
        }  # fmt: skip
        made += [
            Plan([rest, fall], strong, **given),
            Plan([rest], warm, modes=("warm",), **given),
            Plan([fall], warm, modes=("previous",), **given),
            Plan([rest], elastic, ("truss-complementary",), **given),
        ]
    return tuple(made)


def _fall(folder: Path, layers: int) -> str:
    """One step of the drop of a pyramid, whose run is recorded in the folder."""
    path = folder / f"drop-{layers}.vtkhdf"
    folder.mkdir(parents=True, exist_ok=True)
    simulate(
        scene.pyramid(layers), _DT, _FALLEN * _DT, "classic-cd", out=path, resume=True,
        backend="newton", on_failure="continue",
    )  # fmt: skip
    return f"{path}#{_FALLEN}"


def _bank() -> tuple[Plan, ...]:
    held = {name: bank.load(name).step is not None for name in bank.names()}
    steps = [name for name, step in held.items() if step]
    trusses = [name for name, step in held.items() if not step]
    rigid = ("classic-force", "classic-velocity", "compatible")
    elastic = ("truss-complementary", "truss-potential")
    own = available()
    return (
        Plan(steps, own, rigid, TOLERANCES),
        _peers(steps, TOLERANCES),
        Plan(trusses, [name for name in own if name not in _NO_TRUSS], elastic, TOLERANCES),
    )


def _peers(problems: Sequence[str], tolerances: Sequence[float]) -> Plan:
    """Siconos on all problems; on one where it is missing, which then is on record."""
    there = siconos_lcp.why_unavailable() is None
    return Plan(
        problems if there else problems[:1], _SICONOS, tolerances=tolerances,
        plugins=(f"{siconos_lcp.__name__}:makers",), time_limit=_SHORT,
    )  # fmt: skip
