"""Contact problems by name: from the bank, scenes, files and recorded runs."""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from cdopt import bank
from cdopt._util import checks, files
from cdopt._util.cached import cached_property
from cdopt._util.errors import InvalidInput, Unsupported
from cdopt._util.parameters import one_of_these, split
from cdopt.collision import PairFriction, detect, safe_margins
from cdopt.dynamics import Trajectory
from cdopt.dynamics.contact_dynamics import rigid_step
from cdopt.dynamics.simulate import at_rest
from cdopt.formulations import NoTensionTruss
from cdopt.hyperstatic import touching_step
from cdopt.interop import fclib
from cdopt.problem import LAWS, ContactProblem, truss_data
from cdopt.problem.contact_law import HOOKE, PowerLaw
from cdopt.problem.contact_step import ContactStep
from cdopt.problem.step import Step
from cdopt.scene import Scene, State
from cdopt.scene.assemblies import parts_of
from cdopt.scene.files import SCENE_FILES, load, names_scene, placed, shipped_scenes

STEP_SUFFIX, RUN_SUFFIX, FAMILY_PREFIX = ".npz", ".vtkhdf", "family:"
_UNDER_A_LAW = ("bounds", "ensembles", "sensitivities")  # commands with --law
_METHODS = ("classic-cd", "compatible-cd", "contact-dynamics", "compatible-friction")


@dataclass(frozen=True, eq=False)
class NamedProblem:
    """A contact problem with a name: a contact step, with friction or without, or a truss.

    Attributes
    ----------
    name, title : for headings.
    power : p of the contact energy; that of the step is the same.
    step : the contact step; None for a truss.
    truss : the data of a truss; None for a step.
    """

    name: str
    title: str
    power: float
    step: Step | None = None
    truss: ContactProblem | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "power", checks.power("power", self.power))
        if self.step is not None:
            checks.instance("step", self.step, Step)
        if self.truss is not None:
            checks.instance("truss", self.truss, ContactProblem)
        if self.step is not None and self.step.power != self.power:
            object.__setattr__(self, "step", self.step.replace(power=self.power))

    @cached_property
    def bodies(self) -> tuple[Scene, State] | None:
        """The scene of the step and the state of its bodies; None without a scene."""
        return None if self.step is None else placed(self.step)

    @property
    def nc(self) -> int:
        """Number of contacts."""
        data = self.step if self.truss is None else self.truss
        return 0 if data is None else data.nc

    @property
    def dofs(self) -> int | None:
        """Number of degrees of freedom; None for a step known by N and p alone."""
        if self.truss is not None:
            return int(self.truss.B.shape[1])
        return None if self.step is None else self.step.nv or None

    @property
    def contact_names(self) -> list[str]:
        """Names of the contacts (nc,); their numbers where they have none."""
        if self.step is not None:
            return self.step.contact_names
        ids = self.truss_data.contact_ids
        return [str(name) for name in (range(self.nc) if ids is None else ids)]

    @property
    def truss_data(self) -> ContactProblem:
        """The data of a truss.

        Raises
        ------
        Unsupported : the problem is a contact step.
        """
        if self.truss is None:
            raise Unsupported(self.name, "it is a contact step", ("trusses",))
        return self.truss

    @property
    def formulations(self) -> tuple[str, ...]:
        """Names of its possible formulations (``cdopt.study.solve_named``), the default first."""
        if self.step is None:
            return ("truss",)
        return ("compare", "classic", "compatible") if self.step.friction is None else LAWS

    def without_friction(self) -> NamedProblem:
        """The problem with only the normal rows; its title states this."""
        if self.step is None or self.step.friction is None:
            return self
        title = f"{self.title}; derived frictionless problem, normal rows only"
        return dataclasses.replace(self, step=self.step.without_friction(), title=title)

    def require_frictionless(self, what: str) -> None:
        """Raise an error if the step has friction, which ``what`` does not support.

        Raises
        ------
        Unsupported : the step has friction.
        """
        if self.step is not None and self.step.friction is not None:
            instead = ["--frictionless to ignore it"]
            if what in _UNDER_A_LAW:
                instead.insert(0, "--law coulomb or --law associated")
            raise Unsupported(what, f"{self.name} has friction", tuple(instead))

    def in_order(self, order: NDArray[np.intp]) -> NamedProblem:
        """The problem in new objects, with its contacts in an ``order`` (nc,); they get ids."""
        order = checks.integers("order", order, (self.nc,), at_least=0, below=max(self.nc, 1))
        if self.step is not None:
            step = self.step
            if step.contact_ids is None:
                step = step.replace(contact_ids=np.arange(step.nc))
            return dataclasses.replace(self, step=step.select(order))
        data = self.truss_data
        ids = np.arange(data.nc) if data.contact_ids is None else data.contact_ids
        law = data.elastic_law
        truss = truss_data(
            checks.freeze(sp.csr_array(data.B[order])),
            data.contact_load,
            PowerLaw(checks.read_only(law.stiffness[order]), law.power),
            checks.read_only(data.bias[order]),
            data.free,
            data.free_motion,
            contact_ids=checks.read_only(ids[order]),
            dof_body=data.dof_body,
        )
        return dataclasses.replace(self, truss=truss)


def open_problem(
    text: str, power: float | None = None, *, frictionless: bool = False
) -> NamedProblem:
    """The contact problem that a text names.

    Parameters
    ----------
    text : a bank problem with parameters, ``pyramid-hooke:n=10``; a member of a family,
        ``family:chains:32``; a contact step (.npz); an FCLib file (.hdf5), with the friction that
        it stores; one step of a recorded run, ``drop.vtkhdf#12``; or a scene: a file (.toml), one
        that ships with cdopt, or a generator with parameters. A scene with friction is used as it
        is; without friction the bodies first come to rest. If a name is both a bank problem and a
        scene, such as ``table``, it is the bank problem.
    power : p of the contact energy; None for that of the problem, 2 for FCLib files.
    frictionless : use only the normal rows; a scene comes to rest without friction.

    Returns
    -------
    NamedProblem : with a ``step``, or ``truss`` data.

    Raises
    ------
    InvalidInput : no such problem, parameter, file or step; a damaged file; or a scene that does
        not come to rest, or states friction for some contacts only.
    Unsupported : a run whose method does not take rigid contact steps.

    >>> import cdopt
    >>> cdopt.open_problem("supports:n=4").step
    ContactStep(4 contacts, 2 degrees of freedom, dt=0.001 s)
    """
    power = checks.optional(checks.power, "power", power)
    frictionless = checks.flag("frictionless", frictionless)
    kind, (path, _, number) = _kind(checks.text("problem", text)), text.partition("#")
    name, title, truss = Path(text).name, "", None
    step: Step | None
    if kind == "run":
        run = Trajectory.load(path)
        step = recorded_step(run, _step_number(run, number))
        exponent = step.power
    elif kind == "step":
        step = Step.load(text)
        exponent = step.power
    elif kind == "fclib":
        stored, exponent = fclib.read(text), HOOKE
        rough = bool(stored.mu.any())
        step = stored.frictional_step if rough else stored.step
        title = f"{step!r}; {stored.frictional_label if rough else stored.label}"
    elif kind == "family":
        family, size = _family_and_size(text)
        if size is None:
            raise InvalidInput("problem", text, f"{text}:SIZE")
        name, title, exponent, step = text, family.about, family.power, family.build(size)
    elif kind == "scene":
        scene = load(text)
        rough = scene.has_friction and not frictionless
        step = touching_step(scene) if rough else at_rest(scene)[1]
        where = "as it is, with friction" if rough else "at rest"
        where += ", without its friction" if frictionless and scene.has_friction else ""
        title, exponent = f"{scene.title or scene.name or text}, {where}", scene.power
    elif split(text)[0] in bank.names():
        problem = bank.load(text)
        name, title, exponent, step = problem.name, problem.title, problem.power, problem.step
        if step is None:
            loads = (problem.B, problem.contact_load, problem.stiffness)
            truss = NoTensionTruss(*loads, power or exponent).data
    else:
        names = [*bank.names(), *shipped_scenes()]
        raise InvalidInput("problem", repr(text), f"a file, or {one_of_these(text, names)}")
    named = NamedProblem(name, title or repr(step), power or exponent, step, truss)
    return named.without_friction() if frictionless else named


def _kind(text: str) -> str:
    if text.partition("#")[0].endswith(RUN_SUFFIX):
        return "run"
    if text.endswith(STEP_SUFFIX):
        return "step"
    if text.endswith(fclib.SUFFIXES):
        return "fclib"
    if text.startswith(FAMILY_PREFIX):
        return "family"
    return "scene" if is_scene(text) else "bank"


def is_scene(text: str) -> bool:
    """Whether a text names a scene and not a bank problem."""
    if text.endswith(SCENE_FILES) or parts_of(text):
        return True
    return split(text)[0] not in bank.names() and names_scene(text)


@dataclass(frozen=True)
class ProblemSource:
    """Where a contact problem comes from.

    Attributes
    ----------
    source : the text that names it, as in ``cdopt.open_problem``, without the number of a step.
    step : of a recorded run, the number of the step, from 1; None for the others.
    power : p of the contact energy; None is the problem's.
    digest : SHA-256 of the file; empty for the bank.
    frictionless : ignore friction: only the normal rows.
    """

    source: str
    step: int | None = None
    power: float | None = None
    digest: str = ""
    frictionless: bool = False

    def __post_init__(self) -> None:
        for name in ("source", "digest"):
            checks.text(name, getattr(self, name))
        plain: dict[str, Any] = {
            "step": checks.optional(checks.count, "step", self.step),
            "power": checks.optional(checks.power, "power", self.power),
            "frictionless": checks.flag("frictionless", self.frictionless),
        }
        for name, value in plain.items():
            object.__setattr__(self, name, value)

    @property
    def label(self) -> str:
        """The problem as a short text: ``pyramid-hooke:n=5``, ``drop.vtkhdf#12``."""
        name = self.source.replace("\\", "/").rpartition("/")[2] if self.digest else self.source
        name += "" if self.step is None else f"#{self.step}"
        name += ", without friction" if self.frictionless else ""
        return name + ("" if self.power is None else f", p = {self.power:g}")

    def load(self) -> NamedProblem:
        """The problem's data.

        Raises
        ------
        InvalidInput : no such problem, a damaged file, or a file that has changed since.
        """
        if self.digest and _digest(self.source) != self.digest:
            found = f"{self.source}: another content"
            raise InvalidInput("problem", found, "the file as it was planned")
        number = "" if self.step is None else f"#{self.step}"
        return open_problem(self.source + number, self.power, frictionless=self.frictionless)

    def previous_step(self) -> ProblemSource:
        """The previous step of the recorded run.

        Raises
        ------
        Unsupported : the problem is not a step of a run, or is the first one.
        """
        if self.step is None or self.step == 1:
            what = "the first step of its run" if self.step else "no step of a recorded run"
            raise Unsupported("mode 'previous'", f"{self.label} is {what}", ("cold", "warm"))
        return dataclasses.replace(self, step=self.step - 1)


def problems(source: str | Path, power: float | None = None) -> list[ProblemSource]:
    """The problems that a text names: one, the members of a family, or all steps of a run.

    Parameters
    ----------
    source : as in ``cdopt.open_problem``; also a whole run, ``drop.vtkhdf``, and a family without
        a size, ``family:chains``: its members of usual size.
    power : p of the contact energy; None for the problem's.

    Raises
    ------
    InvalidInput : no such problem, file or step.

    >>> [p.label for p in problems("supports:n=4")]
    ['supports:n=4']
    """
    if not isinstance(source, str | Path) or not str(source):
        raise InvalidInput("problem", checks.describe(source), "a bank name or a file")
    text = checks.text("problem", str(source))
    power = checks.optional(checks.power, "power", power)
    kind, (path, _, number) = _kind(text), text.partition("#")
    if kind == "run":
        digest, run = _digest(path), Trajectory.load(path)
        numbers = [_step_number(run, number)] if number else _step_numbers(run)
        return [ProblemSource(path, step, power, digest) for step in numbers]
    if kind == "family":
        family, size = _family_and_size(text)
        sizes = family.sizes if size is None else [size]
        return [ProblemSource(f"{FAMILY_PREFIX}{family.name}:{n}", None, power) for n in sizes]
    if kind == "bank":
        return [ProblemSource(bank.load(text).name, None, power)]
    is_file = kind != "scene" or text.endswith(SCENE_FILES)
    return [ProblemSource(text, None, power, _digest(text) if is_file else "")]


def _digest(path: str) -> str:
    with files.opened(path, "a file that can be read", "problem") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _family_and_size(text: str) -> tuple[bank.Family, int | None]:
    """The family and the size, None if there is none, of ``family:NAME:SIZE``."""
    name, _, size = text.removeprefix(FAMILY_PREFIX).partition(":")
    families = bank.families()
    if name not in families or not (size.isdigit() or not size):
        expected = f"{FAMILY_PREFIX}NAME:SIZE, NAME of " + ", ".join(families)
        raise InvalidInput("problem", text, expected)
    return families[name], int(size) if size else None


def _step_numbers(run: Trajectory) -> list[int]:
    """Numbers of the steps of a run whose initial state is recorded."""
    frames = run.steps.tolist()
    return [start + 1 for start in frames if start < frames[-1]]


def _step_number(run: Trajectory, text: str) -> int:
    """The number of a recorded step, from its text."""
    available = _step_numbers(run)
    if not text.isdigit() or int(text) not in available:
        numbers = f"{available[0]} to {available[-1]}" if available else "none"
        name = f"{run.path or 'the run'}#{text}"
        raise InvalidInput("step", name, f"a step recorded there: {numbers}")
    return int(text)


def recorded_step(run: Trajectory, number: int) -> ContactStep:
    """Contact step ``number``, from 1, of a run, made from the recorded state before it."""
    if run.method not in _METHODS:
        raise Unsupported(run.method, "its steps are no rigid contact steps", _METHODS)
    _step_number(run, str(number))
    state = run[run.steps.tolist().index(number - 1)].state
    v_min, turning = (run.settings[name] for name in ("v_min", "turning"))
    contacts = detect(run.scene, state, safe_margins(run.scene, state, run.dt))
    friction = PairFriction(run.friction) if "friction" in run.settings else None
    push = run.settings.get("push_overlaps", True)
    return rigid_step(run.scene, state, contacts, run.dt, v_min, turning, friction, push)
