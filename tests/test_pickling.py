"""What users hold can be pickled and copied, and is read-only before and after."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from campaigns import specimens

import cdopt
import cdopt.formulations
import cdopt.problem
from cdopt.problem.certificate import worst_residual

INNER = ("data", "tangent", "statement", "law", "network")  # parts that nobody is handed
ROUNDS = {"pickle": lambda one: pickle.loads(pickle.dumps(one)), "deep copy": copy.deepcopy}


def parts(one: Any) -> dict[str, Any]:
    """The public fields of an object."""
    fields = getattr(type(one), "__struct_fields__", None)
    if fields is not None:
        return {name: getattr(one, name) for name in fields}
    return {k: v for k, v in getattr(one, "__dict__", {}).items() if not k.startswith("_")}


def same(one: Any, other: Any, path: str, depth: int = 0) -> None:
    """Arrays, numbers and texts of two objects agree; read-only stays read-only."""
    if isinstance(one, np.ndarray):
        assert np.array_equal(one, other, equal_nan=one.dtype.kind == "f"), path
        assert one.flags.writeable or not other.flags.writeable, f"{path} became writable"
    elif sp.issparse(one):
        assert (one != other).nnz == 0, path
        for name in ("data", "indices", "indptr"):
            same(getattr(one, name), getattr(other, name), f"{path}.{name}")
    elif isinstance(one, bool | int | str):
        assert one == other, path
    elif isinstance(one, Mapping):
        assert list(one) == list(other), path
        for name in one:
            same(one[name], other[name], f"{path}[{name!r}]", depth + 1)
    elif isinstance(one, tuple | list):
        assert len(one) == len(other), path
        for k, (a, b) in enumerate(zip(one, other, strict=True)):
            same(a, b, f"{path}[{k}]", depth + 1)
    elif type(one).__module__.startswith("cdopt") and depth < 4:
        assert type(one) is type(other), path
        if isinstance(one, cdopt.formulations.Formulation | cdopt.NoTensionTruss):
            return  # stated again
        if any(f".{inner}" in path for inner in INNER):
            return
        copied = parts(other)
        for name, value in parts(one).items():
            if name in copied:  # what is computed when asked for need not be there
                same(value, copied[name], f"{path}.{name}", depth + 1)


def test_everything_users_hold_survives_pickle_and_deep_copy() -> None:
    session = cdopt.backends.osqp_session()
    cdopt.ClassicCD(cdopt.bank.load("beam-uniform").step).solve(session)
    held = [*specimens.objects().values(), *specimens.errors(), cdopt.scene.beam()]
    for one in (one for one in held if not isinstance(one, cdopt.problem.ContactProblem)):
        for way, again in ROUNDS.items():
            same(one, again(one), f"{type(one).__name__} by {way}")
            assert not isinstance(one, Exception) or str(again(one)) == str(one)
    for again in ROUNDS.values():
        assert again(session).settings == session.settings


def test_errors_keep_their_evidence() -> None:
    error = cdopt.SolveFailed("no", backend="a", status="b", problem=[1], raw={"x": 1})
    failed = cdopt.dynamics.StepFailed("no", backend="a", status="b")
    failed.t = 0.5
    for again in ROUNDS.values():
        copied = again(error)
        assert (str(copied), copied.backend, copied.problem, copied.raw) == (
            "no",
            "a",
            [1],
            {"x": 1},
        )
        assert again(failed).t == 0.5
    assert pickle.loads(pickle.dumps(cdopt.SolveFailed("no", backend="a", status="b", raw=len)))
    unpicklable = cdopt.SolveFailed("no", backend="a", status="b", raw=(x for x in ()))
    assert copy.deepcopy(unpicklable).raw is None


def test_sparse_members_are_frozen_and_the_callers_are_not() -> None:
    B, M = sp.csr_array(np.array([[1.0, -0.5], [1.0, 0.5]])), sp.csr_array(np.eye(2))
    step = cdopt.ContactStep(M, B, [0.0, 0.0], [0.0, 0.0], [-1.0, 0.0], 1e-3)
    for one in (step, pickle.loads(pickle.dumps(step)), copy.deepcopy(step)):
        for matrix in (one.B, one.M):
            for part in (matrix.data, matrix.indices, matrix.indptr):
                with pytest.raises(ValueError, match="read-only"):
                    part[0] = 1
            with pytest.raises(ValueError, match="read-only"):
                matrix[0, 0] = 5.0
            with pytest.raises(ValueError, match="read-only"):
                matrix.data = np.zeros(1)
    pairs = ((B.data, step.B.data), (B.indices, step.B.indices), (M.data, step.M.data))
    assert not any(np.shares_memory(a, b) for a, b in pairs)
    B.data[0] = M.data[0] = 7.0
    assert step.B[0, 0] == 1.0
    assert step.M[0, 0] == 1.0
    mine = step.B.copy()
    mine[0, 1] = 3.0
    assert mine[0, 1] == 3.0
    forces = np.ones(2)
    place = cdopt.hyperstatic.ReferenceForces("mine", forces, 0.0)
    forces[0] = 2.0
    assert place.f[0] == 1.0


@pytest.mark.parametrize("name", ["squeezed", "beam-uniform", "fclib-boxes-friction"])
def test_problems_are_sent_to_other_processes_after_answers_were_judged(name: str) -> None:
    step = cdopt.bank.load(name).step
    laws = ("coulomb", "associated") if step.friction is not None else (None,)
    for law in laws:
        problem = cdopt.ClassicCD(step, "force") if law is None else cdopt.FrictionalCD(step, law)
        answers = [problem.solve(solver, check=False) for solver in ("newton", "clarabel")]
        again = pickle.loads(pickle.dumps((problem, answers)))[0]
        f = np.ones(again.data.rows)
        assert worst_residual(again.data, f, 1e-8) == worst_residual(problem.data, f, 1e-8)
