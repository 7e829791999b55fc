"""Steps that many tests share, small enough to check by hand."""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Generator, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from threadpoolctl import threadpool_limits

import cdopt
from cdopt.backends.threads import threads_for
from cdopt.study.warmup import compile_all

KEY = "cdopt/compiled"  # in pytest's cache: the date of the source that was compiled last

logging.getLogger("cdopt.compiling").setLevel(logging.ERROR)  # on stderr if compiled again

# Timing never decides a test, and every run has the same examples; others with
# --hypothesis-profile=random.
settings.register_profile("random", deadline=None)
settings.register_profile("default", deadline=None, derandomize=True)
settings.load_profile("default")

if "PYTEST_XDIST_WORKER" in os.environ:  # processes that share the cores: waiting threads cost all
    threadpool_limits(limits=1, user_api="blas")


def pytest_configure(config) -> None:
    """With ``-n``, compile all loops first: each worker would compile the same ones."""
    sources = Path(cdopt.__file__).parent.rglob("*.py")
    newest = max(source.stat().st_mtime for source in sources)
    cache = getattr(config, "cache", None)  # none with -p no:cacheprovider
    if not getattr(config.option, "numprocesses", None) or (cache and newest == cache.get(KEY, 0)):
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NUMBA_NUM_THREADS", "1")  # few tests need the loops that run in threads
        for _ in compile_all():
            pass
    if cache:
        cache.set(KEY, newest)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Modules and tests stay to the end: to look for cycles among them costs a tenth of a run.

    They are not frozen: hypothesis looks for what refers to its generators of random numbers.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.set_threshold(2000, 10, 1000)
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before pytest deselects by marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests of ``long_tests.txt`` are long tests: a quicker one like each remains."""
    long = set((Path(__file__).parent / "long_tests.txt").read_text("utf-8").splitlines())
    for item in items:
        if item.nodeid in long:
            item.add_marker(pytest.mark.slow)


MANIFESTS = {name: cdopt.bank.manifest(name) for name in cdopt.bank.names()}
FEASIBLE_STEPS = [name for name, its in MANIFESTS.items() if its.kind == "step" and its.feasible]
QUICK_STEPS = {  # one of each kind
    "beam-uniform", "beam-stiff-middle", "free-flying", "impact", "rank-deficient",
    "pyramid-species", "pyramid-falling", "supports-delassus", "ten-orders", "fclib-boxes",
}  # fmt: skip
STEPS = [  # the feasible steps of the bank, most of them as long tests
    pytest.param(name, marks=[pytest.mark.slow] * (name not in QUICK_STEPS))
    for name in FEASIBLE_STEPS
]
WEIGHT = 10.0
DT = 1e-3


def beam(stiffness=1.0, phi=(0.0, 0.0, 0.0), **changes) -> cdopt.ContactStep:
    """Rigid platform of weight 10 N and unit length on supports at 0, L/2 and L."""
    mass = WEIGHT / 9.81
    arguments = {
        "M": np.diag([mass, mass / 12.0]),
        "B": [[1.0, -0.5], [1.0, 0.0], [1.0, 0.5]],
        "phi": phi,
        "v": np.zeros(2),
        "F_ext": [-WEIGHT, 0.0],
        "dt": DT,
        "stiffness": stiffness,
    }
    return cdopt.ContactStep(**{**arguments, **changes})


def random_step(seed: int, nc: int = 8, nv: int = 5, **changes) -> cdopt.ContactStep:
    """A feasible random step: gaps at the start, a dense coupled mass, several closing."""
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((nv, nv))
    arguments = {
        "M": root @ root.T + nv * np.eye(nv),
        "B": rng.standard_normal((nc, nv)),
        "phi": rng.uniform(0.0, 1e-3, nc) * (rng.random(nc) < 0.5),
        "v": rng.standard_normal(nv),
        "F_ext": rng.standard_normal(nv),
        "dt": DT,
        "stiffness": rng.uniform(0.5, 2.0, nc),
    }
    return cdopt.ContactStep(**{**arguments, **changes})


def renumbered(
    step: cdopt.ContactStep, contacts: np.ndarray, dofs: np.ndarray
) -> cdopt.ContactStep:
    """The same step with its contacts and dofs in another order."""
    return step.select(contacts).replace(
        M=step.M[dofs][:, dofs],
        B=step.B[contacts][:, dofs],
        v=step.v[dofs],
        F_ext=step.F_ext[dofs],
        dof_body=None if step.dof_body is None else step.dof_body[dofs],
    )


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Compiled loops and BLAS in one thread."""
    with threads_for(0):
        yield
