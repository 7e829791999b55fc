"""``cdopt warmup``: it compiles every loop that is kept on disk."""

from __future__ import annotations

import sys

from numba.core.caching import FunctionCache
from numba.core.dispatcher import Dispatcher

from cdopt.study.warmup import SHARES


def test_every_loop_is_compiled() -> None:
    for share in SHARES.values():
        share()
    modules = [module for name, module in sys.modules.items() if name.startswith("cdopt.")]
    loops = [x for module in modules for x in vars(module).values() if isinstance(x, Dispatcher)]
    kept = [loop for loop in loops if isinstance(loop._cache, FunctionCache)]
    assert len(kept) > 20
    missing = {loop.py_func.__name__ for loop in kept if not loop.signatures}
    assert missing == set()
