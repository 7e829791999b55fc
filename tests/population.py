"""The benchmark that makes steps with friction, which is no part of the package."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

_PATH = Path(__file__).parents[1] / "benchmarks" / "friction_population.py"
_spec = importlib.util.spec_from_file_location(_PATH.stem, _PATH)
assert _spec is not None
assert _spec.loader is not None
friction_population = sys.modules[_PATH.stem] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(friction_population)
