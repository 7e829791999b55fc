"""Labels of contact networks: rank, conditioning and spread, of families known by hand."""

from __future__ import annotations

from unittest.mock import Mock

import numpy as np
import pytest
from scipy.sparse.linalg import eigsh

import cdopt
from cdopt.bank.generators import chain, nearly_parallel
from cdopt.study import ProblemSource
from cdopt.study.network_labels import Labels, labels, table_of_labels

FAMILIES = cdopt.bank.families()
NULLITY = {  # of the smallest member, counted by hand
    "beams": 2,
    "tables": 1,
    "chains": 0,
    "brick-walls": 6,
    "stacks": 4,
    "nearly-parallel": 2,
    "heavy-on-light": 0,
}


@pytest.mark.parametrize("name", [name for name in FAMILIES if name != "packings"])
def test_the_smallest_member_is_solved_and_table_of_labels(name: str) -> None:
    family = FAMILIES[name]
    step = family.build(family.sizes[0])
    assert cdopt.CompatibleCD(step, family.power).solve("newton").ok
    label = labels(step)
    assert label.contacts == step.nc
    assert label.nullity == label.closed - label.rank >= 0
    assert label.rank <= min(label.dofs, label.closed)
    assert label.density == pytest.approx(label.closed / label.dofs)
    assert label.condition >= 1.0
    if name in NULLITY:
        assert label.nullity == NULLITY[name]


def test_conditioning_follows_what_makes_it_bad() -> None:
    assert labels(chain(64)).condition > 4.0 * labels(chain(8)).condition
    wide = [labels(nearly_parallel(6, angle)) for angle in (1e-2, 1e-4)]
    assert [label.nullity for label in wide] == [4, 4]
    assert wide[1].condition == pytest.approx(100.0 * wide[0].condition, rel=1e-3)
    assert wide[1].scaled == pytest.approx(wide[0].scaled, rel=1e-3)
    # of upright facets alone: columns of ones and of angles
    tilt = np.linspace(-1e-4, 1e-4, 6)
    assert wide[1].condition == pytest.approx(np.sqrt(6.0) / np.linalg.norm(tilt), rel=1e-6)


@pytest.mark.slow
def test_unequal_masses_and_stiffness_show_in_their_labels() -> None:
    heavy = labels(chain(6, 1e6))
    # bottom ball of mass 1 on the floor: N_11 = dt; topmost contact: dt (1/m5 + 1/m6)
    mass = np.geomspace(1.0, 1e6, 6)
    own = np.r_[1.0, 1.0 / mass[:-1] + 1.0 / mass[1:]]
    assert heavy.mobility == pytest.approx(own.max() / own.min(), rel=1e-9)
    assert heavy.condition == labels(chain(6)).condition
    uneven = labels(FAMILIES["stiffness-ratio"].build(4))
    assert 1e3 < uneven.stiffness <= 1e6
    assert labels(FAMILIES["crystals"].build(4)).stiffness == 1.0


def test_a_chain_has_the_condition_of_a_difference_matrix() -> None:
    n = 9
    B = np.eye(n) - np.eye(n, k=-1)
    B[1:] /= np.sqrt(2.0)  # rows of unit length; all columns have the same lever
    values = np.linalg.svd(B, compute_uv=False)
    plain = np.linalg.svd(np.eye(n) - np.eye(n, k=-1), compute_uv=False)
    assert labels(chain(n)).condition == pytest.approx(plain[0] / plain[-1], rel=1e-9)
    assert labels(chain(n)).scaled == pytest.approx(values[0] / values[-1], rel=1e-9)


def test_estimates_agree_with_all_singular_values(monkeypatch: pytest.MonkeyPatch) -> None:
    for step in (chain(40), cdopt.bank.families()["pyramids-hooke"].build(4)):
        exact = labels(step)
        with monkeypatch.context() as patch:
            patch.setattr("cdopt.study.network_labels.DENSE_LIMIT", 3)
            lanczos = Mock(wraps=eigsh)
            patch.setattr("cdopt.study.network_labels.eigsh", lanczos)
            estimated = labels(step)
        assert lanczos.call_count == 4
        assert estimated.condition == pytest.approx(exact.condition, rel=1e-6)
        assert estimated.scaled == pytest.approx(exact.scaled, rel=1e-6)


def test_open_contacts_are_no_part_of_the_network() -> None:
    label = labels(cdopt.bank.load("beam-middle-open").step)
    assert (label.contacts, label.closed, label.nullity) == (3, 2, 0)
    flying = labels(cdopt.bank.load("free-flying").step)
    assert flying == Labels(flying.contacts)


def test_labels_stand_in_a_table_and_failures_too() -> None:
    table = table_of_labels([ProblemSource(text) for text in ("family:stacks:4", "squeezed")])
    stacks, squeezed = table.to_frame().to_dict("records")
    assert (stacks["contacts"], stacks["nullity"], stacks["rank"]) == (16, 4, 12)
    assert np.isnan(squeezed["nullity"])
    assert "infeasible" in squeezed["note"]


def test_singular_values_of_zero_are_no_part_of_the_condition() -> None:
    """Three contacts at one place: columns 1 and 1/4, of rank one."""
    label = labels(cdopt.bank.generators.beam_on([0.25, 0.25, 0.25]))
    assert (label.closed, label.dofs, label.rank, label.nullity) == (3, 2, 1, 2)
    assert label.condition == pytest.approx(1.0)
    assert label.scaled == pytest.approx(1.0)
