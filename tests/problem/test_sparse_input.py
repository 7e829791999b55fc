"""Sparse matrices of others: indices out of range are refused before compiled code walks them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from campaigns.malformed_calls import bad_ends, bad_sparse

import cdopt
from cdopt._util import checks

DENSE = np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 3.0], [4.0, 5.0, 0.0], [0.0, -1.0, 0.0]])


def test_bad_structure_is_refused() -> None:
    for bad in bad_sparse():
        with pytest.raises(cdopt.InvalidInput) as error:
            checks.matrix("B", bad, None, None)
        assert error.value.argument == "B"


def test_what_passes_the_check_of_scipy_is_refused() -> None:
    """Sorting such rows ends the process."""
    for bad in bad_ends()[:2]:
        bad.check_format(full_check=True)
    for bad, told in zip(bad_ends(), ["decreases"] * 3 + ["starts at 2"], strict=True):
        with pytest.raises(cdopt.InvalidInput, match=told):
            checks.matrix("B", bad, None, None)
    program = cdopt.interop.quadratic_programs.program(
        cdopt.ClassicCD(cdopt.bank.load("beam-uniform").step)
    )
    with pytest.raises(cdopt.InvalidInput, match="G: found a sparse matrix"):
        dataclasses.replace(program, G=bad_ends()[0])


def test_a_saved_step_whose_rows_lead_out_of_its_arrays(tmp_path: Path) -> None:
    step = cdopt.bank.load("beam-uniform").step
    step.save(tmp_path / "step.npz")
    with np.load(tmp_path / "step.npz") as stored:
        whole = dict(stored)
    end = whole["B.indptr"][-1]
    for indptr, told in (
        ([0, 10**8, 10**8, -5], "decreases"), ([1, 2, 3, end], "starts at 1"),
        ([0, 2, 4, end - 1], "ends at"), ([0, 2, 4], "3 numbers"),
    ):  # fmt: skip
        np.savez(tmp_path / "bad.npz", **{**whole, "B.indptr": np.array(indptr, dtype=np.int32)})
        with pytest.raises(cdopt.InvalidInput, match=f"damaged sparse matrix 'B': .*{told}"):
            cdopt.ContactStep.load(tmp_path / "bad.npz")
    np.savez(tmp_path / "bad.npz", **{**whole, "B.indices": whole["B.indices"] + 1})
    with pytest.raises(cdopt.InvalidInput, match="outside of 0 to 1"):
        cdopt.ContactStep.load(tmp_path / "bad.npz")


def test_every_format_and_order_gives_the_same_matrix() -> None:
    for form in ("csr", "csc", "coo", "bsr", "dia", "lil", "dok"):
        given = sp.csr_array(DENSE).asformat(form)
        assert np.array_equal(checks.matrix("B", given, 4, 3).toarray(), DENSE), form
        empty = sp.csr_array((4, 3)).asformat(form)
        assert checks.matrix("B", empty, 4, 3).nnz == 0
    repeated = sp.csr_array(([1.0, 2.0, 5.0], [2, 2, 0], [0, 3]), shape=(1, 3))
    assert np.array_equal(checks.matrix("B", repeated, 1, 3).toarray(), [[5.0, 0.0, 3.0]])
    assert repeated.nnz == 3


def test_certify_takes_real_vectors_and_tolerances() -> None:
    step = cdopt.bank.load("beam-uniform").step
    data, forces = cdopt.ClassicCD(step).data, np.full(3, 10.0 / 3.0)
    v = np.zeros(2)
    masked = np.ma.masked_array(forces, mask=[True, False, False])
    nan = np.full(3, np.nan)
    for changes, argument in (
        ({"tol": np.inf}, "tol"), ({"tol": np.nan}, "tol"), ({"tol": 0.0}, "tol"),
        ({"tol": 2.0}, "tol"), ({"tol": True}, "tol"), ({"forces": forces + 1j}, "forces"),
        ({"forces": masked}, "forces"), ({"forces": forces.astype(str)}, "forces"),
        ({"forces": forces.astype(object)}, "forces"), ({"forces": forces[:2]}, "forces"),
        ({"motion": v + 1j}, "motion"), ({"motion": np.ma.masked_all(2)}, "motion"),
        ({"motion": None}, "motion"), ({"motion": ["a", "b"]}, "motion"),
    ):  # fmt: skip
        with pytest.raises(cdopt.InvalidInput) as error:
            cdopt.certify(**{"data": data, "motion": v, "forces": forces, **changes})
        assert error.value.argument == argument
    assert not cdopt.certify(data, v, nan).ok
    assert cdopt.certify(data, v, np.ma.masked_array(forces)).worst < 10.0
