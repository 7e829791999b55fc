"""What defines one run of a study: a problem, how it is posed, who solves it, and how."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import msgspec

from cdopt._util import checks
from cdopt._util.errors import InvalidInput

FORMULATIONS = (
    "classic-force", "classic-velocity", "truss-complementary", "truss-potential", "compatible",
)  # fmt: skip
MODES = ("cold", "warm", "previous")
CALLS = ("cvxpy", "direct")
_ID_LENGTH = 16  # hexadecimal digits


@dataclass(frozen=True)
class Problem:
    """A contact problem as data: where it comes from.

    Attributes
    ----------
    source : a bank name with parameters, ``pyramid-hooke:n=5``; a member of a family of the bank,
        ``family:chains:32``; the path of a step (``.npz``), of an FCLib file (``.hdf5``), or of a
        run that ``cdopt simulate`` recorded (``.vtkhdf``).
    step : of a recorded run, the number of the step, from 1; None for the others.
    power : p of the contact energy; None is the bank's own, and Hooke's for files.
    digest : SHA-256 of the file; empty for the bank.
    """

    source: str
    step: int | None = None
    power: checks.Power | None = None
    digest: str = ""

    def __post_init__(self) -> None:
        if self.power is not None:
            object.__setattr__(self, "power", checks.power("power", self.power))

    @property
    def label(self) -> str:
        """The problem in a few words: ``pyramid-hooke:n=5``, ``drop.vtkhdf#12``."""
        name = self.source.replace("\\", "/").rpartition("/")[2] if self.digest else self.source
        name += "" if self.step is None else f"#{self.step}"
        return name + ("" if self.power is None else f", p = {self.power:g}")


@dataclass(frozen=True)
class Run:
    """One cell of a study. Equal runs have equal identifiers, whoever makes them, and whenever.

    Attributes
    ----------
    problem : what is solved.
    formulation : one of ``FORMULATIONS``. A truss of a step is that of its closed contacts, which
        newton finds first.
    backend : name of the solver, or one that a plugin brings.
    tolerance : accuracy asked of the solver, to which our certificate holds it; None leaves the
        solver's defaults alone, and holds it to 1e-6.
    mode : "cold"; "warm", from this problem's own answer; "previous", from the answer of the
        step before in a recorded run.
    call : "cvxpy", as everyone calls it; "direct", by the solver's own interface on the data that
        CVXPY compiled.
    seed : of the order in which the contacts are given; None is the problem's own order.
    repeats : how often it is solved.
    threads : of BLAS and of compiled loops; None leaves them alone.
    plugins : where backends of other names come from, ``module:factory`` or ``file.py:factory``.

    Raises
    ------
    InvalidInput : a word that is not known, or a number out of range.
    """

    problem: Problem
    formulation: str
    backend: str
    tolerance: float | None = None
    mode: str = "cold"
    call: str = "cvxpy"
    seed: int | None = None
    repeats: int = 3
    threads: int | None = None
    plugins: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "plugins", tuple(self.plugins))
        checks.choice("formulation", self.formulation, FORMULATIONS)
        checks.choice("mode", self.mode, MODES)
        checks.choice("call", self.call, CALLS)
        if self.tolerance is not None:
            tolerance = checks.scalar("tolerance", self.tolerance, above=0.0, at_most=1.0)
            object.__setattr__(self, "tolerance", tolerance)
        for name, least in (("repeats", 1), ("threads", 1), ("seed", 0)):
            value = getattr(self, name)
            wanted = value is not None or name == "repeats"
            if wanted and (isinstance(value, bool) or not isinstance(value, int) or value < least):
                expected = f"a whole number of at least {least}"
                raise InvalidInput(name, checks.describe(value), expected)

    @property
    def id(self) -> str:
        """Sixteen hexadecimal digits: a hash of everything that defines the run.

        Where a file lies is no part of it, what it contains is.
        """
        plain = msgspec.to_builtins(self)
        if self.problem.digest:
            plain["problem"]["source"] = ""
        text = msgspec.json.encode(plain, order="deterministic")
        return hashlib.sha256(text).hexdigest()[:_ID_LENGTH]

    @property
    def label(self) -> str:
        """The run in a few words."""
        words = [self.problem.label, self.formulation, self.backend]
        words += [] if self.tolerance is None else [f"{self.tolerance:g}"]
        words += [word for word in (self.mode, self.call) if word not in ("cold", "cvxpy")]
        return " ".join([*words, *([] if self.seed is None else [f"order {self.seed}"])])
