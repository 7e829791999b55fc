"""Manifests: readable files that describe the problems of the bank."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from cdopt._util import checks, files
from cdopt._util.errors import InvalidInput
from cdopt._util.files import problems_folder
from cdopt._util.parameters import Value, one_of_these

__all__ = ["Manifest", "decode", "home", "manifest", "names", "problems_folder"]

Quantity = Literal[
    "f_compatible",
    "f_max_compatible",
    "loaded_contacts",
    "f_classic",
    "v_next",
    "contact_sum",
    "base_reactions",
    "supported_weight",
    "nullity",
    "v_next_coulomb",
    "v_next_associated",
    "rates_associated",
]

_FILE = "manifest.toml"


class ManifestPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of the parts of a manifest: read-only, unknown fields are refused."""


class Unique(ManifestPart, frozen=True, kw_only=True):
    """Which answers of a problem are unique, and why."""

    v_next: bool  # the velocity v⁺ at the end of the step; with friction, under the associated law
    contact_sum: bool  # Bᵀf, the resultant of the contacts on each body
    # each single force of classic contact dynamics; None with friction
    f_classic: bool | None = None
    f_compatible: bool | None = None  # each single compatible force; None with friction
    f_associated: bool | None = None  # with friction, each single force of the associated law
    # with friction, whether Coulomb's law is known to have a unique motion; False if unknown
    coulomb: bool | None = None
    because: str  # the reason, in words

    @property
    def answers(self) -> dict[str, bool]:
        """The entries that are stated."""
        fields = {name: getattr(self, name) for name in self.__struct_fields__[:-1]}
        return {name: value for name, value in fields.items() if value is not None}


class Generator(ManifestPart, frozen=True, kw_only=True):
    """The function of ``cdopt.bank.generators`` that builds the problem."""

    name: str  # its name
    # what a user may set, with defaults; a default's type is the parameter's type
    parameters: dict[str, Value] = {}
    fixed: dict[str, Value] = {}  # arguments that belong to the problem and cannot be set


class ReferenceValue(ManifestPart, frozen=True, kw_only=True):
    """A known value of a correct solution."""

    quantity: Quantity  # its name; ``cdopt.bank.quantities`` defines how each is measured
    tolerance: float  # largest admissible error, relative to ``relative_to``
    source: str  # where the value comes from
    values: float | list[float | list[float]] | None = None  # the value inline, or
    # file, key: an ``.npz`` file next to the manifest and the array in it
    file: str | None = None
    key: str | None = None
    # the "largest" entry of the value, or "each" entry by itself
    relative_to: Literal["largest", "each"] = "largest"
    parameters: dict[str, Value] = {}  # the parameters it applies to; it does not depend on others

    def __post_init__(self) -> None:
        if (self.values is None) == (self.file is None) or (self.file is None) != (
            self.key is None
        ):
            raise ValueError("a reference needs either values, or file and key")
        if not 0.0 <= self.tolerance < 1.0:
            raise ValueError("a tolerance lies between 0 and 1")


class Observation(ManifestPart, frozen=True, kw_only=True):
    """An observation when the problem was run, with the versions used."""

    text: str
    versions: str


class Manifest(ManifestPart, frozen=True, kw_only=True):
    """One problem of the bank.

    Attributes
    ----------
    title : a few words.
    description : what the problem teaches or tests.
    source : paper and section, or "cdopt".
    units : the units of the numbers, in words.
    kind : "step" for a contact step, "frictional" for one with friction, "truss" for a no-tension
        truss.
    power : exponent p of the contact energy: 2 Hooke, 5/2 Hertz.
    feasible : whether it has a solution.
    unique : which answers are unique, and why.
    generator : the function that builds it, or
    step : the ``.npz`` file of a frozen step, or
    fclib : the FCLib file of a frozen step; of kind "step" the derived frictionless problem.
    reference : known values of a correct solution.
    observation : made when it was run.

    Raises
    ------
    InvalidInput : no origin or several, a truss without a generator, or what is unique is not
        stated for this kind.
    """

    title: str
    description: str
    source: str
    units: str
    kind: Literal["step", "frictional", "truss"]
    power: float
    feasible: bool
    unique: Unique
    generator: Generator | None = None
    step: str | None = None
    fclib: str | None = None
    reference: list[ReferenceValue] = []
    observation: list[Observation] = []

    def __post_init__(self) -> None:
        if not isinstance(self.kind, str):
            raise InvalidInput(
                "kind", checks.describe(self.kind), "'step', 'truss' or 'frictional'"
            )
        origins = (self.generator, self.step, self.fclib)
        if sum(origin is not None for origin in origins) != 1:
            expected = "either a generator or a frozen step (step or fclib)"
            raise InvalidInput("step", "none, or together with generator or fclib", expected)
        if self.generator is None and self.kind == "truss":
            raise InvalidInput("kind", "'truss' without a generator", "'step' for a frozen step")
        frictional = self.kind == "frictional"
        if not isinstance(self.unique, Unique):
            raise InvalidInput("unique", checks.describe(self.unique), "a Unique")
        stated = {"f_associated", "coulomb"} if frictional else {"f_classic", "f_compatible"}
        others = {name for name in self.unique.answers if name not in ("v_next", "contact_sum")}
        if others != stated:
            found = ", ".join(sorted(others)) or "nothing else"
            raise InvalidInput("unique", found, f"{' and '.join(sorted(stated))} of this kind")

    @property
    def parameters(self) -> dict[str, Value]:
        """The parameters a user may set, with their defaults."""
        return {} if self.generator is None else dict(self.generator.parameters)


def decode(path: Path) -> Manifest:
    """Read one manifest file.

    Raises
    ------
    InvalidInput : the file is missing or not TOML, or a field is unknown, missing or wrong.
    """
    path = checks.path("path", path)
    stated = files.parse_toml(files.read_text(path, "a manifest file", str(path)), str(path))
    try:
        return msgspec.convert(stated, Manifest)
    except msgspec.ValidationError as error:
        raise InvalidInput(str(path), str(error), "a manifest as cdopt.bank.Manifest") from error


def names() -> list[str]:
    """Names of the problems in the bank, in alphabetical order."""
    folders = problems_folder().iterdir()
    return sorted(folder.name for folder in folders if (folder / _FILE).exists())


def manifest(name: str) -> Manifest:
    """The manifest of a problem, by its name without parameters."""
    return decode(home(name) / _FILE)


def home(name: str) -> Path:
    """The folder of one problem.

    Raises
    ------
    InvalidInput : no problem has this name.
    """
    checks.text("name", name)
    folder = next((path for path in problems_folder().iterdir() if path.name == name), None)
    if folder is None or not (folder / _FILE).exists():
        raise InvalidInput("name", checks.describe(name), one_of_these(name, names()))
    return folder
