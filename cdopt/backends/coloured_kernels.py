"""Compiled loops of projected Gauss–Seidel on coloured contacts, each colour in threads."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange

from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.compiled import compiled, part
from cdopt.backends.kernels import CHUNKS, LEAST_CHUNK, Places, Rows, larger

Place = Any  # an unsigned integer
COLOURS = 64  # beyond them contacts are visited one by one


@compiled()
def greedy(rows: Rows, spread: Rows, block: Places, colour: IntArray) -> int:
    """The first colour that suits each contact; ``COLOURS`` where none is left.

    ``block`` (m,) is the body of each entry of y. Contacts of one colour write no body that
    another of them reads or writes. Returns the number of colours.
    """
    pointers, columns, _ = rows
    out_pointers, out_columns, _ = spread
    bodies = 0
    for j in range(block.shape[0]):
        bodies = max(bodies, block[j] + 1)
    read, written = np.zeros((bodies, COLOURS), np.bool_), np.zeros((bodies, COLOURS), np.bool_)
    count = 0
    for i in range(colour.shape[0]):
        found = COLOURS
        for c in range(COLOURS):
            free = True
            for k in range(pointers[i], pointers[i + 1]):
                free = free and not written[block[columns[k]], c]
            for k in range(out_pointers[i], out_pointers[i + 1]):
                body = block[out_columns[k]]
                free = free and not (written[body, c] or read[body, c])
            if free:
                found = c
                break
        colour[i] = found
        if found == COLOURS:
            continue
        count = max(count, found + 1)
        for k in range(pointers[i], pointers[i + 1]):
            read[block[columns[k]], found] = True
        for k in range(out_pointers[i], out_pointers[i + 1]):
            written[block[out_columns[k]], found] = True
    return count


@part()
def _visit(
    first: Place,
    last: Place,
    rows: Rows,
    spread: Rows,
    p: FloatArray,
    own: FloatArray,
    inverse: FloatArray,
    relaxation: float,
    f: FloatArray,
    y: FloatArray,
) -> float:
    """Visits of contacts one after the other; returns the largest error met."""
    pointers, columns, values = rows
    out_pointers, out_columns, out_values = spread
    worst = 0.0
    for i in range(first, last):
        if inverse[i] == 0.0:
            continue
        gap = p[i]
        for k in range(pointers[i], pointers[i + 1]):
            gap += values[k] * y[columns[k]]
        newton = gap * inverse[i]
        worst = larger(worst, own[i] * abs(min(f[i], newton)))
        change = -min(f[i], relaxation * newton)
        if change != 0.0:
            f[i] += change
            for k in range(out_pointers[i], out_pointers[i + 1]):
                y[out_columns[k]] += out_values[k] * change
    return worst


@part(parallel=True)
def _visit_apart(
    parts: FloatArray,
    first: int,
    last: int,
    rows: Rows,
    spread: Rows,
    p: FloatArray,
    own: FloatArray,
    inverse: FloatArray,
    relaxation: float,
    f: FloatArray,
    y: FloatArray,
) -> None:
    """Visits of contacts that share no body, in as many parts as there is room for errors."""
    count = parts.shape[0]
    for c in prange(count):
        begin = np.uint32(first + (last - first) * c // count)
        end = np.uint32(first + (last - first) * (c + 1) // count)
        parts[c] = _visit(begin, end, rows, spread, p, own, inverse, relaxation, f, y)


@compiled()
def coloured_gauss_seidel(
    threaded: bool,
    edges: Places,
    rows: Rows,
    spread: Rows,
    p: FloatArray,
    own: FloatArray,
    inverse: FloatArray,
    relaxation: float,
    tolerance: float,
    f: FloatArray,
    y: FloatArray,
    trace: FloatArray,
) -> int:
    """``gauss_seidel`` on contacts that stand in colours; those after the last colour follow.

    ``edges`` are where each colour begins, and where the last one ends.
    """
    nc, colours = f.shape[0], edges.shape[0] - 1
    for sweep in range(trace.shape[0]):
        worst = 0.0
        for c in range(colours):
            first, last = int(np.int64(edges[c])), int(np.int64(edges[c + 1]))
            count = min(CHUNKS, (last - first) // LEAST_CHUNK)
            if threaded and count > 1:
                parts = np.empty(count)
                _visit_apart(parts, first, last, rows, spread, p, own, inverse, relaxation, f, y)
                for part in parts:
                    worst = larger(worst, part)
            else:
                error = _visit(
                    edges[c], edges[c + 1], rows, spread, p, own, inverse, relaxation, f, y
                )
                worst = larger(worst, error)
        rest = _visit(
            edges[colours], np.uint32(nc), rows, spread, p, own, inverse, relaxation, f, y
        )
        worst = larger(worst, rest)
        trace[sweep] = worst
        if worst <= tolerance:
            return sweep + 1
    return trace.shape[0]
