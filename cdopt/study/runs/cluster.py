"""Runs on the workers of a Dask cluster, each still in a process of its own."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from concurrent.futures import Executor
from typing import Any

from cdopt._util.errors import InvalidInput, Unsupported

EXTRA = "pip install 'cdopt[dask]'"
_PATIENCE = 30.0  # s for the scheduler to answer


@contextlib.contextmanager
def dask(address: str) -> Iterator[Executor]:
    """The workers of the cluster at an address, as an executor.

    Give each machine one worker with one thread (``dask worker ADDRESS --nthreads 1``): runs side
    by side on one machine disturb each other's times. The run of a worker that dies is made again
    by another one. Files of problems and plugins must be found under the same paths by all.

    Parameters
    ----------
    address : of the scheduler, ``tcp://host:8786``.

    Raises
    ------
    Unsupported : Dask is not installed here.
    InvalidInput : no scheduler answers at the address.
    """
    try:
        distributed: Any = importlib.import_module("distributed")
    except ImportError as error:
        raise Unsupported("a Dask cluster", "distributed is not installed", (EXTRA,)) from error
    try:
        client = distributed.Client(address, timeout=_PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        found = f"{address}: {str(error) or type(error).__name__}"
        raise InvalidInput("dask", found, "the address of a scheduler") from error
    with client:
        yield client.get_executor()
