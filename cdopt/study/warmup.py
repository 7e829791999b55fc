"""Small problems that need every compiled loop, to compile them before they are used."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

import cdopt
from cdopt._util.compiled import at_once, seconds_compiling
from cdopt._util.kept_loops import LOGGER
from cdopt._util.processes import Worker
from cdopt.backends.linalg.network import network
from cdopt.backends.threads import SERIAL, all_cores, threads_for
from cdopt.dynamics.elastic import SOLVERS

_LONGEST = 3600.0  # s for one share on a slow machine
_BEAM: dict[str, Any] = {
    "M": np.eye(2),
    "B": [[1.0, -0.5], [1.0, 0.0], [1.0, 0.5]],
    "phi": np.zeros(3),
    "v": np.zeros(2),
    "F_ext": [-10.0, 0.0],
    "dt": 1e-3,
}


def compile_all(processes: int | None = None) -> Iterator[tuple[str, float]]:
    """Compile in this number of processes; each share's name and seconds, as they end."""
    workers: list[Worker] = []
    with ThreadPoolExecutor(processes or os.cpu_count() or 1) as pool:
        pending = {pool.submit(_in_process, name, workers): name for name in SHARES}
        try:
            for done in as_completed(pending):
                yield pending[done], done.result()
        finally:  # Ctrl-C ends them too
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in workers:
                worker.end()


def _in_process(name: str, workers: list[Worker]) -> float:
    """Compile a share in a process, which is added to ``workers``; seconds."""
    worker = Worker(_prepare)
    workers.append(worker)
    try:
        worker.start(_LONGEST)
        worker.call(_compile, name)
        return float(worker.receive(_LONGEST))
    except (EOFError, TimeoutError) as error:
        why = f"the process that compiled {name} ended with code {worker.end()}"
        raise RuntimeError(why) from error


def _prepare() -> None:
    """All imports of the processes are made with this module."""


def _compile(send: Callable[[object], None], name: str) -> None:
    LOGGER.setLevel(logging.ERROR)
    before = seconds_compiling()
    with all_cores():
        SHARES[name]()
    send(seconds_compiling() - before)


# --- what is compiled, the longest first; the last two use loops of those before ---------


def _spheres() -> None:
    scene = cdopt.scene.load("elastic-impact")
    for solver in SOLVERS:
        cdopt.simulate(scene, dt=1e-5, duration=2e-3, method="variational", solver=solver)
    for friction in (None, 0.5):
        cdopt.simulate(scene, dt=1e-5, duration=2e-5, method="velocity-verlet", friction=friction)


def _faces() -> None:
    wall = cdopt.scene.brick_wall(2, 2)
    with at_once():
        cdopt.collision.detect(wall, wall.initial)


def _systems(size: int) -> None:
    """Systems of bodies with ``size`` dofs in a row: dense, iterated in threads or not, sparse."""
    for bodies in (8, 600):  # 600 are enough for two chunks
        pairs = sp.diags_array([np.ones(bodies), -np.ones(bodies - 1)], offsets=[0, -1])
        B, m = sp.csr_array(sp.kron(pairs, np.ones((1, size)))), bodies * size
        net = network(B, np.repeat(np.arange(bodies), size), sp.csr_array(sp.eye_array(m)))
        network(sp.csr_array(B[:, np.argsort(np.arange(m) % size)]), None)  # to find its blocks
        blocks = np.ones((bodies, 1, 1))  # of friction, with one row a contact
        for contacts in (SERIAL, SERIAL + 1):
            with threads_for(contacts):
                net.system(np.ones(bodies)).solve(np.ones(m), 1e-2)
                if net.pairs is not None:
                    net.system(blocks).solve(np.ones(m), 1e-2)
        if net.pairs is not None:
            net.block_system(blocks, blocks.copy()).solve(np.ones(m), 1e-2, 2)
    step = cdopt.ContactStep(
        M=net.mass,
        B=B,
        phi=np.zeros(bodies),
        v=np.zeros(m),
        F_ext=-np.ones(m),
        dt=1e-3,
        dof_body=np.repeat(np.arange(bodies), size),
    )
    cdopt.ClassicCD(step).solve("augmented-lagrangian", max_outer=1, check=False)


@at_once()
def _steps() -> None:
    beam = cdopt.ContactStep(**_BEAM)
    for name in ("apgd", "pgs", "lcp", "newton", "augmented-lagrangian"):
        cdopt.ClassicCD(beam).solve(name)
    rough = beam.replace(friction=cdopt.Friction(0.5, np.zeros((3, 2))))
    for name in ("nsgs", "apgd", "newton", "interior-point"):
        cdopt.FrictionalCD(rough).solve(name)
    rolling = cdopt.Friction(
        0.5, np.zeros((3, 2)), rolling=0.1, B_r=np.zeros((3, 2)), cone="elliptic"
    )
    for name in ("nsgs", "newton"):
        cdopt.FrictionalCD(beam.replace(friction=rolling)).solve(name)
    cdopt.CompatibleCD(beam, power=2.5).solve("augmented-lagrangian")
    cdopt.study.solve_named(cdopt.open_problem("pyramid-hooke:n=5"), "compatible", ["newton"])
    cdopt.ensemble(beam, draws=4)


def _large_steps() -> None:
    for nc, dofs in ((SERIAL + 1, 1), (SERIAL + 1, 3), (SERIAL // 3, 3)):
        step = cdopt.ContactStep(
            M=sp.eye_array(dofs * nc),
            B=sp.csr_array(sp.kron(sp.eye_array(nc), np.ones((1, dofs)))),
            phi=np.zeros(nc),
            v=np.zeros(dofs * nc),
            F_ext=-np.ones(dofs * nc),
            dt=1e-3,
        )
        cdopt.ClassicCD(step).solve("apgd", max_iterations=2, check=False)
        if dofs == 1:
            cdopt.ClassicCD(step).solve("pgs", order="coloured", max_sweeps=2, check=False)


def _bounds() -> None:
    """Of forces with friction in space, several at once."""
    pile = cdopt.bank.generators.pose(cdopt.bank.generators.rough_pile(4))
    cdopt.indeterminacy(pile, "coulomb", contacts=[0], jobs=1)


SHARES: dict[str, Callable[[], None]] = {
    "elastic spheres in time": _spheres,
    "solvers": _steps,
    "contacts of faces and edges": _faces,
    "systems of bodies with six degrees of freedom": partial(_systems, 6),
    "systems of bodies with three": partial(_systems, 3),
    "bounds with friction in space": _bounds,
    "solvers of large problems": _large_steps,
}
