"""Public callables with one good argument replaced by a hostile one.

Each call must return or raise a CdoptError. What escapes is another exception, a call that
computes for longer than ``SECONDS``, or the end of the process. Calls run in forked processes
with a limit of memory; a process that dies costs one call.
"""

from __future__ import annotations

import collections
import contextlib
import io
import logging
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from cdopt._util.errors import CdoptError

from . import specimens

FORBIDDEN = ("escapes", "hangs", "crashes")
SECONDS = 60  # of processor time, whatever else the machine does; a first call compiles its loops
WAIT = 120  # seconds until a call that computes nothing is given up
MEMORY = 6 * 2**30  # bytes of address space beyond what the process has
CHUNK = 2000
CALLED = ("progress", "finished", "tell", "solve", "build", "weigh")


class TooLongError(BaseException):
    """A call did not end in time; no ``except Exception`` takes it."""


def bad_sparse() -> list[Any]:
    """Sparse matrices that would lead compiled code astray."""
    found = []
    good = sp.random_array((4, 4), density=0.6, rng=np.random.default_rng(0)).tocsr()
    for name, value in (("indices", 10**6), ("indices", -7), ("indptr", 10**6), ("indptr", -3)):
        for form in ("csr", "csc"):
            bad = good.asformat(form, copy=True)
            getattr(bad, name)[2] = value
            found.append(bad)
    coo = good.tocoo(copy=True)
    coo.coords[0][0] = 10**6
    bsr = good.tobsr(blocksize=(2, 2))
    bsr.indices[0] = 99
    lil = good.tolil()
    lil.rows[0] = [0, 77]
    dok = good.todok()
    dok._dict[(99, -4)] = 1.0
    dia = good.todia()
    dia.offsets = dia.offsets[:1]
    short = good.copy()
    short.data = short.data[:2]
    wide = good.astype(complex)
    tall, uneven, spare = good.tolil(), good.tocoo(copy=True), good.tocsc(copy=True)
    tall.rows = np.append(tall.rows, tall.rows)
    uneven.data = uneven.data[:1]
    spare.indices = spare.indices[:2]
    return [*found, coo, bsr, lil, dok, dia, short, wide, tall, uneven, spare, *bad_ends()]


def bad_ends() -> list[Any]:
    """Compressed matrices that pass SciPy's full check, for it looks no further than their ends."""
    found = []
    good = sp.random_array((4, 4), density=0.6, rng=np.random.default_rng(0)).tocsr()
    for form in ("csr", "csc", "bsr"):
        bad = good.tobsr(blocksize=(1, 1)) if form == "bsr" else good.asformat(form, copy=True)
        bad.indptr[1:] = [10**8, 10**8, 10**8, -5]
        found.append(bad)
    late = good.copy()
    late.indptr[:] = [2, 3, 3, 3, late.nnz]
    return [*found, late]


def numbers_like(good: Any, rng: np.random.Generator) -> list[Any]:
    """Arrays of the good one's shape with wrong content, and of wrong shapes."""
    try:
        array = np.array(good, dtype=float)
    except (TypeError, ValueError):
        array = np.ones(3)
    if sp.issparse(good):
        array = good.toarray()
    spoilt = array.copy().astype(float)
    if spoilt.size:
        spoilt.flat[rng.integers(spoilt.size)] = rng.choice([np.nan, np.inf, -1.0, 1e300, -1e-300])
    masked = np.ma.masked_array(array, mask=np.ones(array.shape, dtype=bool))
    return [
        spoilt, masked, array + 1j, array.astype(object), array.astype(str), array[..., None],
        np.zeros(0), np.zeros((0, 3)),
        sp.coo_array(array.ravel()), sp.coo_array(np.zeros(0)),
        np.zeros((2, 2, 2)), np.append(array, 1),
        array.ravel()[1:],
        np.full(array.shape, np.nan), array.astype("float32"), -array, array > 0, array.tolist(),
        np.full(array.shape, 2**63, dtype=np.uint64), array.astype("timedelta64[s]"),
    ]  # fmt: skip


def plain() -> list[Any]:
    """Hostile values that no good one is needed for."""
    return [
        None, "", "no such", "\0", "half a character \ud800",
        "a" * 5000, b"bytes", float("nan"), float("inf"), -float("inf"),
        -1, -1.5, 0, 1, 2**70, 10**5000, 1e308, -1e308, 5e-324, True, 1j, complex("nan"), [], [[]],
        {}, {"a": 1}, {1: 2}, set(), {1, 2}, (), [None], ["a", 1], [[1], [1, 2]],
        (x for x in ()),
        range(10**12), range(10**30),
        range(3), object(), int, np.float64("nan"), np.float32(2), np.array(1.0), np.array("a"),
        np.datetime64("2020"), np.ma.masked, slice(3), Ellipsis, NotImplemented, iter([1.0]),
        Path("/no/such/place"), Path("\0"), memoryview(b"abc"), np.array([{}]), 0.5, 3, "force",
    ]  # fmt: skip


def hostile(argument: str, good: Any, rng: np.random.Generator) -> Any:
    """One value to put in a good one's place."""
    kind = rng.integers(5)
    if kind == 0:
        choices: list[Any] = plain()
    elif kind == 1:
        choices = numbers_like(good, rng)
    elif kind == 2:
        choices = list(specimens.objects().values())
    elif kind == 3:
        choices = specimens.others()
    else:
        choices = bad_sparse() if rng.random() < 0.3 else plain()
    chosen = choices[rng.integers(len(choices))]
    # what a user's own function raises is the user's own
    return None if argument in CALLED and callable(chosen) else chosen


def call(index: int, seed: int) -> tuple[str, str, Callable[[], Any]]:
    """The call of a number: the callable's name, the argument's, and the call itself."""
    rng = np.random.default_rng((seed, index))
    known = specimens.callables()
    names = sorted(known)
    name = names[rng.integers(len(names))]
    function, good = known[name]
    argument = sorted(good)[rng.integers(len(good))]
    given = {**good, argument: hostile(argument, good[argument], rng)}
    return name, argument, lambda: consume(function(**given))


def consume(result: Any) -> None:
    """Iterators are asked for their first entries."""
    if isinstance(result, Iterator):
        for _, _ in zip(range(10), result, strict=False):
            pass


def outcome(index: int, seed: int) -> tuple[str, str]:
    """What became of one call: its count, and of an escape where it came from."""

    def late(*_: Any) -> None:
        raise TooLongError

    signal.signal(signal.SIGPROF, late)
    name, argument, attempt = call(index, seed)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        attempt()
    except CdoptError:
        return "refused", ""
    except TooLongError:
        return "hangs", f"{name}({argument})"
    except MemoryError:
        return "out of memory", f"{name}({argument})"
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        if isinstance(error, IndexError) and name.endswith("__getitem__"):
            return "refused", ""  # how Python ends a loop over it
        frames = [f for f in traceback.extract_tb(error.__traceback__) if "/cdopt/" in f.filename]
        line = frames[-1] if frames else traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(line.filename).name}:{line.lineno}"
        return "escapes", f"{name}({argument}) {type(error).__name__} at {where}: {error!s:.90}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return "answered", ""


def work(pipe: Connection, numbers: range, seed: int) -> None:
    """Run calls one after another and send what became of each."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        os.chdir(folder)
        sys.stderr = io.StringIO()
        logging.disable()
        warnings.simplefilter("ignore")
        for index in numbers:
            pipe.send((index, *outcome(index, seed)))
    pipe.close()


def results(count: int, seed: int) -> Iterator[tuple[int, str, str]]:
    """What became of every call, in order."""
    context = multiprocessing.get_context("fork")
    specimens.callables()
    specimens.others()
    at = 0
    while at < count:
        mine, theirs = context.Pipe(duplex=False)
        numbers = range(at, min(at + CHUNK, count))
        process = context.Process(target=work, args=(theirs, numbers, seed), daemon=True)
        process.start()
        theirs.close()
        word = "crashes"
        with contextlib.suppress(EOFError):
            while at in numbers:
                if not mine.poll(WAIT):
                    word = "hangs"
                    break
                at, kind, where = mine.recv()
                yield at, kind, where
                at += 1
        process.kill()
        process.join()
        if at in numbers:
            name, argument, _ = call(at, seed)
            yield at, word, f"{name}({argument})"
            at += 1


def run(count: int, seed: int) -> dict[str, int]:
    """Counts of what became of the calls; where the escapes came from goes to standard error."""
    table = dict.fromkeys(("calls", *FORBIDDEN, "out of memory", "refused", "answered"), 0)
    places: collections.Counter[str] = collections.Counter()
    for _, kind, where in results(count, seed):
        table["calls"] += 1
        table[kind] += 1
        if where:
            places[f"{kind}: {where}"] += 1
    for place, times in places.most_common():
        print(f"{times:6d}  {place}", file=sys.stderr)
    return table
