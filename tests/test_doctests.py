"""Every example in a docstring runs and gives what it says."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import cdopt

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(cdopt.__path__, "cdopt.")
    if not module.name.endswith("__main__")
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_a_module(name: str) -> None:
    module = importlib.import_module(name)
    found = [case for case in doctest.DocTestFinder().find(module, name) if case.examples]
    runner = doctest.DocTestRunner(verbose=False)
    for case in found:
        runner.run(case)
    assert runner.failures == 0
