"""Names with dollar signs in pictures: they are text, not formulas."""

from __future__ import annotations

import io

import numpy as np
import pytest
from matplotlib.text import Text

import cdopt
from cdopt import plots
from cdopt.plots.canvas import Formula, literal

HOSTILE = r"$x^{$ \frac{ $\undefined$ 100$"


@pytest.fixture(scope="module")
def step() -> cdopt.ContactStep:
    names = np.array([f"{i}{HOSTILE}" for i in range(3)])
    return cdopt.bank.load("beam-uniform").step.replace(contact_ids=names)


def drawn(figure) -> set[str]:
    """What is drawn from names, as it is read: without the marks that keep it from being parsed."""
    figure.savefig(io.BytesIO(), format="png")
    found = {text.get_text() for text in figure.findobj(Text) if "undefined" in text.get_text()}
    return {text.replace(r"\$", "$") for text in found}


def test_names_with_dollars_are_drawn(step) -> None:
    classic = cdopt.ClassicCD(step)
    answer = classic.solve("newton")
    report, around = cdopt.indeterminacy(step), cdopt.ensemble(step)
    words = {"title": HOSTILE, "subtitle": HOSTILE}
    for figure in (
        plots.force_bars([answer], step=step, **words),
        plots.force_intervals(report, [answer], **words),
        plots.force_ensemble(around, {HOSTILE: answer.f}, **words),
        plots.stiffness_influence(cdopt.sensitivity(step), step.contact_ids.tolist(), **words),
        plots.force_distributions([answer], **words),
    ):
        assert HOSTILE in drawn(figure)


def test_formulas_of_our_own_stay() -> None:
    assert literal(Formula("$t_c$")) == "$t_c$"
    assert literal("a$b\x1b\n") == "a\\$b\N{REPLACEMENT CHARACTER}\n"
