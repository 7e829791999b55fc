"""What the tests of pictures share: problems solved once, finding artists, legible texts."""

from __future__ import annotations

import dataclasses
import functools
import itertools

import numpy as np
from matplotlib.text import Text

import cdopt
from cdopt import bank
from cdopt.hyperstatic import Indeterminacy, indeterminacy
from cdopt.study import Comparison, compare

SOLVERS = ("clarabel", "osqp", "highs")


def wedged() -> cdopt.ContactStep:
    """A disc of 1 N on a floor, between two walls that may press on it as hard as they like."""
    return cdopt.ContactStep(
        M=np.eye(2), B=[[1, 0], [-1, 0], [0, 1]], phi=np.zeros(3), v=np.zeros(2), F_ext=[0, -1],
        dt=1e-3, points=[[-1, 1], [1, 1], [0, 0]], normals=[[1, 0], [-1, 0], [0, 1]],
        bodies=[[-1, 0], [-1, 0], [-1, 0]], dof_body=[0, 0],
        contact_ids=["left wall", "right wall", "floor"],
    )  # fmt: skip


@functools.cache
def compared(name: str, *solvers: str) -> Comparison:
    """A problem of the bank, or "wedged", by these solvers."""
    step = wedged() if name == "wedged" else bank.load(name).step
    return compare(step, list(solvers or SOLVERS))


@functools.cache
def bounded(name: str) -> Indeterminacy:
    """The bounds of a problem."""
    return indeterminacy(wedged() if name == "wedged" else bank.load(name).step)


def all_by_gid(axes, gid: str) -> list:
    return [a for a in axes.get_children() if a.get_gid() == gid]


def by_gid(axes, gid: str):
    (artist,) = all_by_gid(axes, gid)
    return artist


def uncertified(solution):
    """The same solution, by a tolerance that no certificate meets."""
    certificate = dataclasses.replace(solution.certificate, tol=1e-30)
    return dataclasses.replace(solution, certificates={"forces": certificate})


def panels(figure) -> list:
    """Axes with something drawn in them, colour bars left out."""
    return [a for a in figure.axes if a.axison and a.get_label() != "<colorbar>"]


def legible(figure) -> None:
    """No text of a figure leaves the page or covers another."""
    figure.draw_without_rendering()  # runs the layout
    renderer = figure._get_renderer()
    artists = figure.findobj(Text)
    words = [  # ticks outside the limits are there, and not drawn
        (a.get_text(), a.get_window_extent(renderer))
        for a in artists
        if a.get_visible() and a.get_text().strip() and not _tick(a.get_text())
    ]
    page = figure.bbox
    for text, box in words:
        inside = box.x0 >= 0 and box.y0 >= 0 and box.x1 <= page.x1 and box.y1 <= page.y1
        assert inside, f"{text!r} leaves the page"
    for (one, a), (two, b) in itertools.combinations(words, 2):
        width = min(a.x1, b.x1) - max(a.x0, b.x0)
        height = min(a.y1, b.y1) - max(a.y0, b.y0)
        assert not (width > 1.0 and height > 4.0), f"{one!r} covers {two!r}"


def _tick(text: str) -> bool:
    return text.replace(".", "").replace("−", "").isdigit() or text.startswith("$")
