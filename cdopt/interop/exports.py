"""The optimisation problem of a formulation as a file for other solvers.

=============== ==================================================================================
``.mps, .qps`` quadratic programs, bounds as bounds; HiGHS and most solvers read them
``.cbf``       the Conic Benchmark Format of H. Friberg (2016), linear objective, quadratic cones
``.npz``       NumPy's arrays, sparse matrices by columns: ``P.data``, ``P.indices``, ``P.indptr``,
               ``P.shape`` and so on; ``StatedProgram`` documents them
``.mat``       the same names for MATLAB and Octave, with its sparse matrices
=============== ==================================================================================

``formulation.from_vector(x, y)`` converts an answer to a certified solution.
"""

from __future__ import annotations

import dataclasses
import io
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sp

from cdopt._util import archive, checks, files
from cdopt._util.checks import read_only
from cdopt._util.errors import InvalidInput, Unsupported
from cdopt.formulations.base import Formulation
from cdopt.formulations.stated_program import StatedProgram, stated_program
from cdopt.interop import quadratic_programs
from cdopt.interop.quadratic_programs import QuadraticProgram

SUFFIXES = (*quadratic_programs.SUFFIXES, ".cbf", ".npz", ".mat")


def write(path: str | Path, formulation: Formulation, *, physical: bool = False) -> StatedProgram:
    """Write the problem of a formulation, in the format of the ending; returns what was written.

    ``physical``: in N, m/s or m, and J or N m/s, instead of units of the problem's scales.
    """
    target = checks.path("path", path)
    checks.instance("formulation", formulation, Formulation)
    ending = target.suffix.lower()
    if ending not in SUFFIXES:
        found = checks.describe(path)
        raise InvalidInput("path", found, f"a name that ends in {', '.join(SUFFIXES)}")
    program = stated_program(formulation, physical, linear=ending == ".cbf")
    if ending in quadratic_programs.SUFFIXES:
        quadratic_programs.write(target, quadratic(program))
    elif ending == ".cbf":
        files.write_bytes(target, cbf(program).encode(), kind=files.CONE_PROGRAMS)
    elif ending == ".npz":
        archive.write(target, _content(program))
    else:
        stream = io.BytesIO()
        scipy.io.savemat(stream, _content(program), oned_as="column", do_compression=True)
        files.write_bytes(target, stream.getvalue(), kind=files.MATLAB)
    return program


def quadratic(program: StatedProgram) -> QuadraticProgram:
    """A ``program`` without cones in the layout of QPS files."""
    if program.cones.size:
        raise Unsupported("a QPS file", f"{program.name} needs cones", (".cbf", ".npz", ".mat"))
    A, equal = sp.csr_array(program.A), program.l == program.u
    above, below = np.isfinite(program.u) & ~equal, np.isfinite(program.l) & ~equal
    return QuadraticProgram(
        P=checks.freeze(sp.csr_array(program.P)),
        q=program.q,
        A=checks.freeze(A[equal]),
        b=read_only(program.u[equal]),
        G=checks.freeze(sp.csr_array(sp.vstack([A[above], -A[below]]))),
        h=read_only(np.concatenate([program.u[above], -program.l[below]])),
        lower=program.lb,
        upper=program.ub,
        constant=program.constant,
        name=program.name,
    )


def _content(program: StatedProgram) -> dict[str, Any]:
    fields = dataclasses.fields(program)
    return {field.name: getattr(program, field.name) for field in fields}


def cbf(program: StatedProgram) -> str:
    """A ``program`` with a linear objective in the Conic Benchmark Format, version 3."""
    equal = program.l == program.u
    A, n = sp.csr_array(program.A), program.n
    above, below = np.isfinite(program.u) & ~equal, np.isfinite(program.l) & ~equal
    upper, lower = np.isfinite(program.ub), np.isfinite(program.lb)
    one = sp.identity(n, format="csr")
    blocks = [  # of rows, which with their constants lie in a cone
        ("L=", A[equal], -program.u[equal]),
        ("L+", -A[above], program.u[above]),
        ("L+", A[below], -program.l[below]),
        ("L+", -one[upper], program.ub[upper]),
        ("L+", one[lower], -program.lb[lower]),
    ]
    ends = np.concatenate([[0], np.cumsum(program.cones)])
    G = sp.csr_array(program.G)
    blocks += [("Q", G[a:b], program.h[a:b]) for a, b in pairwise(ends)]
    blocks = [block for block in blocks if block[2].size]
    rows = sp.csr_array(sp.vstack([block[1] for block in blocks])) if blocks else A[:0]
    constants = np.concatenate([np.zeros(0), *(block[2] for block in blocks)])
    lines = ["VER", "3", "", "OBJSENSE", "MIN", "", "VAR", f"{n} 1", f"F {n}", ""]
    lines += ["CON", f"{constants.size} {len(blocks)}"]
    lines += [f"{cone} {values.size}" for cone, _, values in blocks]
    lines += ["", *_entries("OBJACOORD", [(j,) for j in range(n)], program.q)]
    lines += ["OBJBCOORD", repr(float(program.constant)), ""]
    entries = rows.tocoo()
    lines += _entries("ACOORD", zip(*entries.coords, strict=True), entries.data)
    lines += _entries("BCOORD", [(i,) for i in range(constants.size)], constants)
    return "\n".join(lines)


def _entries(name: str, places: Any, values: Any) -> list[str]:
    """A section of entries that are not zero."""
    pairs = zip(places, values, strict=True)
    rows = [f"{' '.join(map(str, at))} {float(value)!r}" for at, value in pairs if value != 0.0]
    return [name, str(len(rows)), *rows, ""] if rows else []
