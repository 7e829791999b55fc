"""The loops of local speeds and energies: the same bits in Python and compiled."""

from __future__ import annotations

import numpy as np
import pytest

import cdopt
from cdopt._util import compiled
from cdopt._util.compiled import at_once
from cdopt.problem import local_speeds

NAMES = ("speed", "force", "body_energy", "acting", "rates", "part_energy", "gap_round_off")


def problems(name):
    """The problems of a step in the bank, rigid and elastic."""
    step = cdopt.bank.load(name).step
    if step.friction is None:
        data = [cdopt.ClassicCD(step).data]
        return data if step.stiffness is None else [*data, cdopt.CompliantCD(step).data]
    return [cdopt.FrictionalCD(step, law=law).data for law in ("coulomb", "associated")]


@pytest.mark.parametrize(
    "name", ["beam-uniform", "incline", "free-flying", "rough-pile:n=3", "ten-orders"]
)
@pytest.mark.parametrize("size", [0.0, 1.0, 1e-9, np.nan])
def test_loops_have_the_same_bits_in_python(monkeypatch, name, size) -> None:
    in_python = {
        loop: compiled._in_python(getattr(local_speeds, loop))
        for loop in ("_free_motion", "_motion_terms", "_local_speeds")
    }
    for data in problems(name):
        f = size * float(data.part_force.max()) * np.abs(np.cos(np.arange(data.rows)))
        with at_once():
            found = data.scales._local(data.velocity(f), f)
        with monkeypatch.context() as patch:
            for loop, slow in in_python.items():
                patch.setattr(local_speeds, loop, slow)
            again = type(data.scales)(data)._local(data.velocity(f), f)
        for part in NAMES:
            assert getattr(found, part).tobytes() == getattr(again, part).tobytes(), part
        for one, other in zip(found.balance[0][2:5], again.balance[0][2:5], strict=True):
            assert one.tobytes() == other.tobytes()
