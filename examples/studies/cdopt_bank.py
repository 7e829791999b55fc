"""The bank as a test set of qpbenchmark, the benchmark of quadratic programming solvers.

``pip install qpbenchmark``, then give it this file, in which it looks for a class of its name:

    qpbenchmark examples/studies/cdopt_bank.py run

Each contact step is stated in both classic forms, and each truss of Hooke contacts in both of its
own, in units of the problem's scales, as CVXPY hands them to solvers. qpbenchmark measures primal
and dual residuals and the duality gap of these programs. It cannot see which of several
admissible forces a solver selected; studies of cdopt can.

MuJoCo's solvers are not among the peers. They take a model and its state, not matrices, and solve
another problem: contacts with a separate compliance and damping (solref, solimp), which add
a positive diagonal to N. Their forces are unique because of that diagonal.

S. Caron et al., *qpbenchmark: Benchmark for quadratic programming solvers available in Python*,
https://github.com/qpsolvers/qpbenchmark.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from cdopt import bank
from cdopt._util.errors import BackendUnavailable
from cdopt.formulations import ClassicCD, NoTensionTruss
from cdopt.interop.quadratic_programs import QuadraticProgram, program
from cdopt.problem.contact_law import HOOKE
from cdopt.problem.delassus_step import DelassusStep

TITLE = "Contact problems of cdopt"
DESCRIPTION = "Rigid bodies in frictionless contact, one time step each; most are hyperstatic."
INFEASIBLE = ("squeezed", "unreachable-load")  # no solver can solve these


def why_unavailable() -> str | None:
    """Why there is no test set here, with the remedy; None when there is."""
    if importlib.util.find_spec("qpbenchmark") is None:
        return "qpbenchmark is not installed: pip install qpbenchmark"
    return None


def programs(
    names: Sequence[str] | None = None, largest: int | None = None
) -> Iterator[QuadraticProgram]:
    """The bank's problems as quadratic programs, named such as "table/force".

    Parameters
    ----------
    names : of the bank, with parameters if wanted, such as "pyramid-hooke:n=4"; by default all
        that have a solution.
    largest : leave out problems with more contacts than this; None takes all.

    Raises
    ------
    InvalidInput : an unknown name.
    """
    smooth = [n for n in bank.names() if bank.manifest(n).kind != "frictional"]
    chosen = [n for n in smooth if n not in INFEASIBLE] if names is None else names
    for name in chosen:
        loaded = bank.load(name)
        programs: dict[str, ClassicCD | NoTensionTruss]
        if loaded.step is not None:
            step = loaded.step
            forms = ("force",) if isinstance(step, DelassusStep) else ("force", "velocity")
            programs = {form: ClassicCD(step, form=form) for form in forms}
        elif loaded.power == HOOKE:
            matrices = (loaded.B, loaded.contact_load, loaded.stiffness)
            forms = ("complementary", "potential")
            programs = {form: NoTensionTruss(*matrices, form=form) for form in forms}
        else:
            continue  # powers other than two need cones
        for form, stated in programs.items():
            if stated.data.nc and (largest is None or stated.data.nc <= largest):
                yield program(stated, f"{loaded.name}/{form}")


def problem(stated: QuadraticProgram) -> Any:
    """A quadratic program as a ``qpbenchmark.Problem``.

    Raises
    ------
    BackendUnavailable : qpbenchmark is not installed.
    """
    benchmark = _qpbenchmark()
    bounded = bool(np.isfinite(stated.lower).any() or np.isfinite(stated.upper).any())
    return benchmark.Problem(
        sp.csc_matrix(stated.P),
        np.array(stated.q),
        sp.csc_matrix(stated.G) if stated.h.size else None,
        np.array(stated.h) if stated.h.size else None,
        sp.csc_matrix(stated.A) if stated.b.size else None,
        np.array(stated.b) if stated.b.size else None,
        np.array(stated.lower) if bounded else None,
        np.array(stated.upper) if bounded else None,
        name=stated.name,
    )


def CdoptBank(names: Sequence[str] | None = None, largest: int | None = None) -> Any:
    """The bank as a ``qpbenchmark.TestSet``.

    Parameters
    ----------
    names, largest : as in ``programs``.

    Raises
    ------
    BackendUnavailable : qpbenchmark is not installed.
    """
    benchmark = _qpbenchmark()

    def problems(_: Any) -> Iterator[Any]:
        return (problem(stated) for stated in programs(names, largest))

    members = {
        "__iter__": problems, "title": TITLE, "description": DESCRIPTION, "sparse_only": False,
    }  # fmt: skip
    return type("CdoptBank", (benchmark.TestSet,), members)()


def _qpbenchmark() -> Any:
    reason = why_unavailable()
    if reason is not None:
        raise BackendUnavailable("qpbenchmark", reason)
    return importlib.import_module("qpbenchmark")
