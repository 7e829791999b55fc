from __future__ import annotations

import cvxpy as cp
import pytest

import cdopt
from cdopt._util.errors import BackendUnavailable, InvalidInput
from cdopt.backends import ACCURACY, available, registry, why_unavailable
from cdopt.backends.registry import NATIVE


def test_the_core_solvers_are_always_there() -> None:
    assert {"clarabel", "osqp", "scs", "highs"} <= set(available())
    for name in available():
        assert why_unavailable(name) == ""
        assert name in NATIVE or name.upper() in cp.installed_solvers()


def test_every_solver_cvxpy_knows_is_either_available_or_explained() -> None:
    names = available()
    for name in registry.cvxpy_solvers():
        assert (name in names) == (why_unavailable(name) == "")


def test_installed_is_what_cvxpy_says_but_looks_for_one_solver(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = {name: name.upper() in cp.installed_solvers() for name in registry.cvxpy_solvers()}
    tried = []
    for solvers in (registry.SOLVER_MAP_QP, registry.SOLVER_MAP_CONIC):
        for key, solver in solvers.items():

            def is_installed(key=key, kept=solver.is_installed) -> bool:
                tried.append(key)
                return kept()

            monkeypatch.setattr(solver, "is_installed", is_installed)
    for name, there in expected.items():
        tried.clear()
        assert registry.installed(name) == there
        assert tried == [name.upper()]
    assert not registry.installed("claribel")


def test_why_unavailable_says_what_to_do() -> None:
    assert "linear" in why_unavailable("scipy") or "neither" in why_unavailable("scipy")
    missing = [n for n in registry.cvxpy_solvers() if n.upper() not in cp.installed_solvers()]
    assert missing
    for name in missing:
        assert "pip install" in why_unavailable(name) or "; see https://" in why_unavailable(name)
    with pytest.raises(BackendUnavailable, match=missing[0]):
        cdopt.backends.Modelled(missing[0])
    with pytest.raises(InvalidInput, match="did you mean 'clarabel'"):
        why_unavailable("claribel")


def test_capability_is_data() -> None:
    assert registry.capability("osqp").classes == {"QP"}
    assert registry.capability("clarabel").classes == {"QP", "SOCP"}
    assert registry.capability("scipy").classes == set()
    assert not registry.capability("clarabel").warm_start
    assert registry.capability("osqp").warm_start


def test_accuracy_is_spelt_for_every_solver_of_the_table() -> None:
    assert set(available()) - set(NATIVE) <= set(ACCURACY)
    for words in ACCURACY.values():
        assert words.options
        assert words.meaning
