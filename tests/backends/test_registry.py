from __future__ import annotations

import cvxpy as cp
import pytest

import cdopt
from cdopt._util.errors import BackendUnavailable, InvalidInput
from cdopt.backends import available, registry, why_unavailable
from cdopt.backends.native import NATIVE


def test_every_known_solver_is_available_or_explained() -> None:
    names, there = available(), cp.installed_solvers()
    assert {"clarabel", "osqp", "scs", "highs"} <= set(names)
    assert set(NATIVE) == {name for name in registry.SOLVERS if registry.is_native(name)}
    missing = [name for name in registry.cvxpy_solvers() if name.upper() not in there]
    for name in registry.known_names():
        assert (name in names) == (why_unavailable(name) == "")
        assert name in NATIVE or name in missing or name.upper() in there
    assert missing
    for name in missing:
        assert "pip install" in why_unavailable(name) or "; see https://" in why_unavailable(name)
    assert why_unavailable("sdpa") in ("", "not installed; see https://sdpa-python.github.io")
    with pytest.raises(BackendUnavailable, match=missing[0]):
        cdopt.backends.Modelled(missing[0])
    with pytest.raises(InvalidInput, match="did you mean 'clarabel'"):
        why_unavailable("claribel")


def test_installed_looks_for_one_solver_alone(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_capability_is_data() -> None:
    for name, classes in (("osqp", {"QP"}), ("clarabel", {"QP", "SOCP"}), ("scipy", set())):
        assert registry.capability(name).classes == classes
        assert registry.capability(name).warm_start == (name == "osqp")
    for name in set(available()) - set(NATIVE):
        assert registry.options_for(name, 1e-6), name
        assert registry.SOLVERS[name].meaning
