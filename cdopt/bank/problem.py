"""A problem of the bank, loaded: the step or the truss, and known values of its answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np
import scipy.sparse as sp

from cdopt._util import archive, checks, parameters
from cdopt._util.checks import FloatArray, describe, read_only
from cdopt._util.errors import InvalidInput, Unsupported
from cdopt._util.frozen import Frozen
from cdopt._util.parameters import Value
from cdopt.bank import generators, quantities
from cdopt.bank.manifests import Manifest, ReferenceValue, home, manifest
from cdopt.bank.trusses import Truss
from cdopt.formulations import ClassicCD, CompatibleCD, FrictionalCD, NoTensionTruss
from cdopt.interop import fclib
from cdopt.problem import LAWS
from cdopt.problem.contact_step import ContactStep
from cdopt.problem.solution import StepSolution
from cdopt.problem.step import Step
from cdopt.scene import Scene

_OFFERED = {"step": ("classic", "compatible"), "frictional": LAWS, "truss": ("truss",)}


@dataclass(frozen=True, eq=False)
class BankProblem(Frozen):
    """One problem of the bank with its parameters set.

    Attributes
    ----------
    name : the bank name; parameters that are not at their defaults are part of it as text.
    title : a few words.
    kind : "step", "frictional" or "truss".
    power : exponent p of the contact energy.
    manifest : everything the bank states about the problem.
    parameters : the parameters it was built with.
    references : known values, one number or (n,) each, by quantity (``cdopt.bank.quantities``),
        for these parameters.
    stated : the manifest's entry of each reference, with source and tolerance.
    step : the contact step, with friction where that is the kind; None for a truss.
    scene : the scene of a frictional problem, which starts in its initial state; None where the
        problem has none.
    B : (nc, nv) gap gradient of a truss; None for a step.
    contact_load : F̃ (nv,) of a truss, N and N·m; None for a step.
    stiffness : (nc,) of a truss; None for a step.
    """

    name: str
    title: str
    kind: str
    power: float
    manifest: Manifest
    parameters: Mapping[str, Value]
    references: Mapping[str, FloatArray | float]
    stated: Mapping[str, ReferenceValue]
    step: Step | None = None
    scene: Scene | None = None
    B: sp.csr_array | None = None
    contact_load: FloatArray | None = None
    stiffness: FloatArray | None = None

    def formulation(self, name: str) -> ClassicCD | CompatibleCD | FrictionalCD | NoTensionTruss:
        """The problem stated as "classic", "compatible" or "truss", ready to solve.

        One with friction is stated as "coulomb" or "associated".

        Raises
        ------
        InvalidInput : no such formulation.
        Unsupported : not one that this kind of problem has.
        """
        checks.choice("formulation", name, [form for forms in _OFFERED.values() for form in forms])
        if name not in _OFFERED[self.kind]:
            raise Unsupported(
                f"formulation {name!r} of {self.name!r}",
                f"the problem is of kind {self.kind!r}",
                _OFFERED[self.kind],
            )
        if self.step is None:
            return NoTensionTruss(self.B, self.contact_load, self.stiffness, self.power)
        if self.kind == "frictional":
            return FrictionalCD(self.step, name)
        if name == "classic":
            return ClassicCD(self.step)
        return CompatibleCD(self.step, self.power)

    def measure(self, quantity: str, solution: StepSolution) -> float | FloatArray:
        """The value of a quantity in a solution of "compatible", "truss" or a law of friction."""
        checks.instance("solution", solution, StepSolution)
        gradient = self.B
        if self.step is not None:
            gradient = self.step.B if isinstance(self.step, ContactStep) else self.step.N
        return quantities.measure(quantity, solution, self.step, gradient)

    def error(self, quantity: str, solution: StepSolution) -> float:
        """Relative error of a solution against the reference of a quantity.

        Relative to the reference's largest entry or to each entry, as its manifest states;
        absolute where that is zero.

        Raises
        ------
        InvalidInput : there is no reference for it, or the solution does not have it.
        """
        if checks.text("quantity", quantity) not in self.references:
            names = ", ".join(self.references) or "none"
            raise InvalidInput("quantity", describe(quantity), f"one with a reference: {names}")
        reference = np.asarray(self.references[quantity])
        measured = np.asarray(self.measure(quantity, solution))
        if measured.shape != reference.shape:
            raise InvalidInput("solution", f"shape {measured.shape}", f"shape {reference.shape}")
        size = np.abs(reference)
        each = self.stated[quantity].relative_to == "each"
        scale = size if each else np.full_like(size, size.max(initial=0.0))
        ratio = np.abs(measured - reference) / np.where(scale > 0.0, scale, 1.0)
        return float(ratio.max(initial=0.0))

    def __repr__(self) -> str:
        return f"BankProblem({self.name!r}: {self.title})"


def load(name: str, **changes: Value) -> BankProblem:
    """A problem of the bank.

    Parameters
    ----------
    name : a name of ``cdopt.bank.names()``, or with parameters as text, "pyramid-hooke:n=20".
    changes : parameters, as in the manifest; the others keep their defaults.

    Raises
    ------
    InvalidInput : no such problem or parameter, or a value of the wrong type or out of range.

    >>> import cdopt
    >>> cdopt.bank.load("supports:n=7").step
    ContactStep(7 contacts, 2 degrees of freedom, dt=0.001 s)
    """
    base, text = parameters.split(name)
    folder, entry = home(base), manifest(base)
    merged = parameters.merge(base, entry.parameters, text, changes)
    data = _data(folder, entry, merged)
    references: dict[str, ReferenceValue] = {
        r.quantity: r
        for r in entry.reference
        if all(merged.get(key) == value for key, value in r.parameters.items())
    }
    parts: dict[str, object] = {}
    if isinstance(data, Step):
        parts = {"step": data.replace(power=entry.power)}
    elif isinstance(data, Scene):
        parts = {"step": generators.pose(data), "scene": data}
    else:
        parts = {"B": data.B, "contact_load": data.contact_load, "stiffness": data.stiffness}
    return BankProblem(
        name=parameters.canonical(base, entry.parameters, merged),
        title=entry.title,
        kind=entry.kind,
        power=entry.power,
        manifest=entry,
        parameters=MappingProxyType(merged),
        references=MappingProxyType({name: _value(folder, r) for name, r in references.items()}),
        stated=MappingProxyType(references),
        **parts,  # type: ignore[arg-type]
    )


def _data(folder: Path, entry: Manifest, merged: Mapping[str, Value]) -> Step | Truss | Scene:
    """The step or the truss that a manifest describes, or the scene with friction."""
    frictional = entry.kind == "frictional"
    if entry.fclib is not None:
        stored = fclib.read(folder / entry.fclib)
        return stored.frictional_step if frictional else stored.step
    if entry.generator is None:
        return Step.load(folder / str(entry.step))
    name = checks.choice(
        f"generator.name of {folder.name}", entry.generator.name, generators.__all__
    )
    data = getattr(generators, name)(**entry.generator.fixed, **merged)
    kind = "truss"
    if not isinstance(data, Truss):
        rough = isinstance(data, Scene) or data.friction is not None
        kind = "frictional" if rough else "step"
    if kind != entry.kind:
        raise InvalidInput(f"kind of {folder.name}", repr(entry.kind), "what its generator builds")
    return data


def _value(folder: Path, reference: ReferenceValue) -> FloatArray | float:
    """The value of a reference, as stated or from its file."""
    if isinstance(reference.values, float | int):
        return float(reference.values)
    if reference.file is None:
        return read_only(np.array(reference.values, dtype=np.float64))
    path = folder / reference.file
    stored = archive.read_arrays(path, "a file of reference values")
    try:
        return read_only(stored[str(reference.key)].astype(np.float64))
    except (ValueError, KeyError) as error:
        raise InvalidInput(str(path), str(error), f"an array {reference.key!r}") from error
