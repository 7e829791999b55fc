"""Lesson 11: its numbers, and answers to its questions."""

from __future__ import annotations

import numpy as np
import pytest
from lessons import drawn, ran
from loading import compress, confine, disc_pile, press

pytestmark = pytest.mark.slow


def test_its_numbers_and_picture():
    it = drawn(11)
    held, lost = it.one.collapse
    assert held <= it.limit * (1 + 1e-6)
    assert it.limit <= lost
    assert "bodies[2]" in it.one.failure
    assert 20.0 < it.limit / it.held < 28.0
    assert it.exponent == pytest.approx(0.5, abs=0.02)
    assert it.off < 1e-7
    assert it.idle < 1e-4
    assert it.test.energy[it.slip + 1] < 0.5 * it.test.energy[it.slip]
    assert np.abs(it.test.contacts - 60).max() <= 8


def test_what_if_the_pile_has_more_rows():
    it = ran(11).names
    assert np.mean(it.collapse(1e6, rows=4).collapse) < np.mean(it.pile.collapse)


def test_what_if_the_discs_obey_hertz():
    """P/(k d^…) to the power 2/3 turns the line: P^(5/3) ~ W k^(2/3), the load ~ k^(2/5)."""
    borne, halves = [], (1e9, 1e11)
    for half in halves:
        scene = disc_pile(3, stiffness=half, power=2.5)
        guess = 3.0 * half**0.4
        run = press(scene, np.linspace(0.005, 1.0, 12) * guess, refine=6)
        borne.append(np.mean(run.collapse))
    exponent = np.log(borne[1] / borne[0]) / np.log(halves[1] / halves[0])
    assert exponent == pytest.approx(0.4, abs=0.02)


def test_what_if_the_box_is_pressed_and_let_go():
    it = ran(11).names
    start = confine(it.box, it.stress)
    back = compress(it.box, "top", [0.03, 0.06, 0.03, 0.0], start=start)
    assert back.gained.sum() > 0  # contacts that close do not make it irreversible
    assert back.energy[-1] == pytest.approx(back.energy[0], rel=1e-9)
    over = compress(it.box, "top", [0.05, 0.1, 0.05, 0.0], start=start)
    assert over.energy[-1] < 0.5 * over.energy[0]
    assert over.dissipated[-1] > 0.0
