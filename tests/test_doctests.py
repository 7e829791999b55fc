"""Every example in a docstring runs and gives what it says."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import cdopt

PACKAGE = Path(cdopt.__file__).parent
WITH_EXAMPLES = sorted(p for p in PACKAGE.rglob("*.py") if ">>> " in p.read_text())


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_examples_of_a_module(path: Path) -> None:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    name = ".".join(parts).removesuffix(".__init__")
    assert doctest.testmod(importlib.import_module(name)).failed == 0
