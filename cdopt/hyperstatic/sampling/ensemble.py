"""ensemble(): the force network ensemble, uniform over all admissible forces of a step."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import FloatArray, read_only
from cdopt._util.errors import InvalidInput
from cdopt.hyperstatic.indeterminacy import indeterminacy
from cdopt.hyperstatic.report import Indeterminacy
from cdopt.hyperstatic.sampling.diagnostics import mixing
from cdopt.hyperstatic.sampling.kernels import walk
from cdopt.hyperstatic.sampling.polytope import Polytope, polytopes
from cdopt.hyperstatic.sampling.result import Ensemble
from cdopt.problem.contact_step import ContactStep

_TOWARDS = 0.95  # how far from the centre to a corner each chain begins
_PILOTS = 4  # rounds, at most, of walking and rounding anew
_PILOT = (100, 20)  # draws of the first: so many, and so many per dimension; twice as many of
# each next one
_ROUND = 2.0  # the longest over the shortest axis of the draws, in their own units, that is round
_WIDEST = 300  # dimensions above which a covariance takes too many draws


@dataclass(frozen=True)
class _Plan:
    chains: int
    draws: int
    thin: int
    warm_up: int


def ensemble(
    problem: ContactStep | Indeterminacy,
    draws: int = 1000,
    chains: int = 4,
    seed: int = 0,
    *,
    thin: int = 10,
    warm_up: int | None = None,
) -> Ensemble:
    """Draw forces uniformly from all that are admissible.

    The set {f ≥ 0, Bᵀf = F̃, f = 0 on open contacts} is a polytope; every point of it holds the
    bodies as well as any other. Each network of contacts whose forces can differ is sampled by
    hit-and-run in coordinates that make it round: first those of the analytic centre, then those
    of a pilot's covariance.

    Parameters
    ----------
    problem : a contact step, or its ``indeterminacy`` (bounds are not needed: ``contacts=[]``).
    draws : kept points of each chain. chains : independent ones, each begun near a corner.
    seed : of the random numbers; the same seed gives the same samples.
    thin : sweeps before each kept point; a sweep of k dimensions is k + 1 directions.
    warm_up : points thrown away at the start of each chain, after the pilot; default half of
        ``draws``.

    Returns
    -------
    Ensemble : samples, their statistics and diagnostics. Where every force is determined it
        holds the one point. Look at ``converged`` before using it.

    Raises
    ------
    InvalidInput : a bad argument.
    UnboundedForces : forces without upper bound; carries the ray that shows it.
    SolveFailed : the classic step has no certified answer, or a linear program failed.
    Unsupported : a network too large for dense algebra, or its polytope too thin.

    Notes
    -----
    Ensemble: Snoeijer and others, Physical Review Letters 92, 054302 (2004). Hit-and-run: Smith,
    Operations Research 32 (1984); Lovász, Mathematical Programming 86 (1999). Diagnostics: Vehtari
    and others, Bayesian Analysis 16 (2021). Uniform means uniform in f: no contact law enters. The
    load on the contacts is that of a certified classic answer, as for ``indeterminacy``: where it
    is known to few digits, so is the ensemble, and no diagnostic of the walk can tell.

    >>> import cdopt
    >>> found = cdopt.ensemble(cdopt.bank.load("beam-uniform").step)
    >>> found.dimension, found.converged, bool(abs(found.mean - [2.5, 5, 2.5]).max() < 0.3)
    (1, True, True)
    """
    plan = _plan(draws, chains, thin, warm_up)
    number = int(checks.integers("seed", seed, (), at_least=0))
    started = time.perf_counter()
    report = _reported(problem)
    bodies = tuple(polytopes(report))
    ready = time.perf_counter()
    samples = _drawn(report, bodies, plan, number)
    sampled = time.perf_counter()
    rhat, bulk, tail = _diagnosed(samples, bodies)
    done = time.perf_counter()
    seconds = {"polytope": ready - started, "walk": sampled - ready, "diagnostics": done - sampled}
    return Ensemble(
        report, samples, rhat, bulk, tail, number, plan.thin, plan.warm_up, bodies, seconds
    )


def _plan(draws: object, chains: object, thin: object, warm_up: object) -> _Plan:
    count = int(checks.integers("draws", draws, (), at_least=1))
    start = count // 2 if warm_up is None else warm_up
    return _Plan(
        int(checks.integers("chains", chains, (), at_least=1)),
        count,
        int(checks.integers("thin", thin, (), at_least=1)),
        int(checks.integers("warm_up", start, (), at_least=0)),
    )


def _reported(problem: Any) -> Indeterminacy:
    if isinstance(problem, Indeterminacy):
        return problem
    if not isinstance(problem, ContactStep):
        raise InvalidInput("problem", checks.describe(problem), "a ContactStep or Indeterminacy")
    return indeterminacy(problem, contacts=[])


def _drawn(
    report: Indeterminacy, bodies: tuple[Polytope, ...], plan: _Plan, seed: int
) -> FloatArray:
    """(chains, draws, nc) N: the product of the polytopes, and forces that cannot differ."""
    if not bodies:
        return read_only(report.force[None, None, :].copy())
    samples = np.empty((plan.chains, plan.draws, report.nc))
    samples[:] = report.force
    for part, source in zip(bodies, np.random.SeedSequence(seed).spawn(len(bodies)), strict=True):
        forces = _walked(part, plan, source)
        samples[:, :, part.contacts] = forces * part.unit
    return read_only(samples)


def _walked(part: Polytope, plan: _Plan, source: np.random.SeedSequence) -> FloatArray:
    """(chains, draws, n) forces of one polytope, in its units."""
    own = [np.random.default_rng(child) for child in source.spawn(plan.chains)]
    places = [_TOWARDS * part.corner(rng) for rng in own]
    shape = _rounded(part, places, plan, own)
    columns = np.ascontiguousarray((part.states @ shape).T)
    forces = np.empty((plan.chains, plan.draws, part.contacts.size))
    for chain, (place, rng) in enumerate(zip(places, own, strict=True)):
        y = np.asarray(np.linalg.solve(shape, place), dtype=np.float64)
        if plan.warm_up:
            walk(part.centre, columns, y, 1, plan.warm_up * plan.thin, rng)
        kept = walk(part.centre, columns, y, plan.draws, plan.thin, rng)
        np.matmul(kept, columns, out=forces[chain])
        forces[chain] += part.centre
    return np.maximum(forces, 0.0, out=forces)


def _rounded(
    part: Polytope, places: list[FloatArray], plan: _Plan, own: list[np.random.Generator]
) -> FloatArray:
    """(k, k) A with z = A y in which the draws of a pilot have nearly the same spread everywhere.

    ``places`` z of the chains move along.
    """
    shape, k = np.array(part.rounding), part.dimension
    if k == 1 or k > _WIDEST:
        return shape
    for trial in range(_PILOTS):
        draws = -(-(2**trial) * (_PILOT[0] + _PILOT[1] * k) // plan.chains)
        columns, met = np.ascontiguousarray((part.states @ shape).T), []
        for chain, rng in enumerate(own):
            y = np.asarray(np.linalg.solve(shape, places[chain]), dtype=np.float64)
            kept = walk(part.centre, columns, y, draws, 1, rng)
            places[chain] = shape @ y
            met.append(kept[draws // 4 :])
        spread = np.atleast_2d(np.cov(np.concatenate(met), rowvar=False))
        axes = np.linalg.eigvalsh(spread)
        if not axes[0] > 0.0:
            break
        shape = shape @ np.linalg.cholesky(spread)
        if axes[-1] <= _ROUND**2 * axes[0]:
            break
    return shape


def _diagnosed(
    samples: FloatArray, bodies: tuple[Polytope, ...]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """R̂, bulk and tail sizes (nc,) of each contact's force."""
    nc = samples.shape[2]
    rhat, bulk, tail = np.ones(nc), np.full(nc, np.inf), np.full(nc, np.inf)
    for part in bodies:
        for contact in part.contacts.tolist():
            found = mixing(samples[:, :, contact])
            rhat[contact], bulk[contact], tail[contact] = found.rhat, found.bulk, found.tail
    return read_only(rhat), read_only(bulk), read_only(tail)
