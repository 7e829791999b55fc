"""ensemble(): the force network ensemble, uniform over all admissible forces of a step.

Convergence of chains is tested by split-R̂ and effective sample sizes, rank-normalised:
Vehtari, Gelman, Simpson, Carpenter, Bürkner, Bayesian Analysis 16 (2021). Each chain is split in
halves, values are replaced by the normal scores of their ranks, and R̂ compares the variance
between halves with that within. The effective size divides the number of draws by their
autocorrelation time, from Geyer's initial monotone sequence.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.fft import irfft, next_fast_len, rfft
from scipy.stats import norm, rankdata

from cdopt._util import checks
from cdopt._util.cached import cached_property
from cdopt._util.checks import BoolArray, FloatArray, read_only
from cdopt._util.compiled import clock
from cdopt._util.errors import InvalidInput
from cdopt._util.frozen import Frozen
from cdopt._util.progress import ProgressCallback, progress_bar
from cdopt.hyperstatic.admissible import coordinates_of
from cdopt.hyperstatic.indeterminacy import indeterminacy
from cdopt.hyperstatic.polytope import ForcePolytope, polytopes
from cdopt.hyperstatic.report import Indeterminacy
from cdopt.problem.contact_law import HOOKE, PowerLaw
from cdopt.problem.solution import StepSolution
from cdopt.problem.step import Step

_PER_DIMENSION = 10  # effective draws per dimension, below which a covariance is not trusted
_SAME = 1e-9  # energies this close, relative, are equal
_TOWARDS = 0.95  # how far from the centre to a corner each chain begins
_PILOTS = 4  # pilot runs, at most, each rounding the polytope further
_PILOT = (100, 20)  # draws of the first, and more per dimension; each next one doubles them
_ROUND = 2.0  # longest over shortest axis of the draws at which rounding ends
_STAGES = ("polytope", "walk", "diagnostics")

_WIDEST = 300  # dimensions above which a covariance takes too many draws
RHAT = 1.01  # Vehtari and others' limits: above this R̂ chains have not mixed
PER_CHAIN = 100  # effective draws per chain, below which the estimates themselves are doubtful
_TAILS = (0.05, 0.95)
_FEWEST = 4  # draws of a chain, so that its halves have a variance


@dataclass(frozen=True, eq=False)
class Place(Frozen):
    """Where one force vector lies in an ensemble.

    Attributes
    ----------
    f : (nc,) N, the normal forces.
    quantile : (nc,) share of the samples whose normal force is smaller; NaN if the force is unique.
    distance : Mahalanobis distance from the mean, √((f − ⟨f⟩)ᵀ C⁺ (f − ⟨f⟩)), along the
        self-stress states; about √dimension for a typical sample.
    depth : share of the samples that are farther from the mean: near one in the middle, zero at the
        boundary. Both are NaN with too few effective draws for a covariance.
    energy : Σ w*(f), J, for the step's relative stiffness; with friction ½ Σ f²/k, both ways.
    less_energy : share of the samples with less energy; zero for the compatible forces, with
        friction for those of Haar & Kármán.
    outside : N, largest distance of the forces from admissible ones: forces below zero, and
        differences that are not self-stress states.
    """

    f: FloatArray
    quantile: FloatArray
    distance: float
    depth: float
    energy: float
    less_energy: float
    outside: float


@dataclass(frozen=True, eq=False)
class Ensemble(Frozen):
    """Samples of the uniform distribution over the admissible forces: the force network ensemble.

    Snoeijer, Vlugt, van Hecke and van Saarloos, Physical Review Letters 92, 054302 (2004).

    Attributes
    ----------
    report : the step's indeterminacy: closed contacts, load, self-stress states.
    components : N, normal and, with friction, tangential forces (nc, d) of each draw of each chain,
        (chains, draws, nc, d) together. One draw of one chain if every force is determined.
    rhat : (nc,) rank-normalised split-R̂, the worst of d components; one if the force is unique.
    bulk, tail : (nc,) effective number of draws, for means and for 5 % and 95 % quantiles; infinite
        if the force is unique.
    seed, thin, warm_up : settings of ``ensemble``.
    parts : the polytopes whose product was sampled.
    seconds : time of each stage.
    """

    report: Indeterminacy
    components: FloatArray
    rhat: FloatArray
    bulk: FloatArray
    tail: FloatArray
    seed: int
    thin: int
    warm_up: int
    parts: tuple[ForcePolytope, ...]
    seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def nc(self) -> int:
        """Number of contacts."""
        return self.report.nc

    @property
    def dimension(self) -> int:
        """Dimension of the polytope that was sampled; zero for determined forces."""
        return sum(part.dimension for part in self.parts)

    # --- diagnostics -------------------------------------------------------------------

    @property
    def converged(self) -> bool:
        """Whether every R̂ ≤ 1.01 and every effective size is at least 100 for each chain."""
        return "NOT" not in self.verdict

    @cached_property
    def verdict(self) -> str:
        """Convergence, or the diagnostic that fails."""
        if not self.parts:
            return "every force is determined"
        worst, bulk, tail = self.rhat.max(), self.bulk.min(), self.tail.min()
        enough = PER_CHAIN * self.components.shape[0]
        doubts = [] if worst <= RHAT else [f"R̂ {worst:.5g} above {RHAT}"]
        for name, size in (("bulk", bulk), ("tail", tail)):
            if not size >= enough:
                doubts.append(f"{name} effective size {size:.0f} below {enough}")
        if doubts:
            return "NOT converged: " + ", ".join(doubts)
        return f"converged: R̂ {worst:.4f}, effective size {min(bulk, tail):.0f} at least"

    # --- numbers -----------------------------------------------------------------------

    @property
    def samples(self) -> FloatArray:
        """(chains, draws, nc) N, normal forces."""
        return self.components[..., 0]

    @property
    def forces(self) -> FloatArray:
        """(chains × draws, nc) N, normal forces of all samples."""
        return self._all[..., 0]

    @property
    def tangential(self) -> FloatArray:
        """(chains × draws, nc, d − 1) N, tangential forces of all samples."""
        return self._all[..., 1:]

    @property
    def _all(self) -> FloatArray:
        """(chains × draws, nc, d) N, all components."""
        chains, draws, nc, d = self.components.shape
        return self.components.reshape(chains * draws, nc, d)

    @property
    def joint_forces(self) -> FloatArray | None:
        """(chains × draws, nj) N, least reactions of joints of all samples; None without joints."""
        reactions = self.report.reactions
        if reactions is None:
            return None
        return reactions.reactions(self._all.reshape(self._all.shape[0], -1))

    @property
    def mobilised(self) -> FloatArray:
        """(chains × draws, nc) ‖f_T‖/(μ f_n) of all samples, 0 to 1; zero without friction."""
        size, friction = np.linalg.norm(self.tangential, axis=2), self.report.step.friction
        most = self.forces * (0.0 if friction is None else friction.mu)
        return np.divide(size, most, out=np.zeros_like(size), where=most > 0.0)

    @property
    def loose(self) -> BoolArray:
        """(nc,) contacts whose force is not unique."""
        mask = np.zeros(self.nc, dtype=bool)
        for part in self.parts:
            mask[part.varying // self.components.shape[3]] = True
        return read_only(mask)

    @property
    def mean(self) -> FloatArray:
        """(nc,) N, mean normal force of each contact."""
        return np.asarray(self.forces.mean(axis=0))

    @property
    def std(self) -> FloatArray:
        """(nc,) N, standard deviation of each contact's normal force."""
        return np.asarray(self.forces.std(axis=0))

    @property
    def error(self) -> FloatArray:
        """(nc,) N, Monte Carlo standard error of ``mean``: std divided by the root of ``bulk``."""
        return self.std / np.sqrt(np.maximum(self.bulk, 1.0))

    @property
    def covariance(self) -> FloatArray:
        """(nc, nc) N², of the normal forces; its rank is at most the dimension."""
        return np.cov(self.forces, rowvar=False, bias=True).reshape(self.nc, self.nc)

    def quantile(self, q: float) -> FloatArray:
        """(nc,) N, the normal force below which a share ``q`` in [0, 1] of the samples lies.

        Raises
        ------
        InvalidInput : q is not a number in [0, 1].
        """
        return np.asarray(np.quantile(self.forces, checks.share("q", q), axis=0))

    @property
    def magnitudes(self) -> FloatArray:
        """(chains × draws × closed,) normal forces of all closed contacts, over their common mean.

        Snoeijer and others' f/⟨f⟩, whose distribution is P(f).
        """
        pooled = self.forces[:, self.report.closed].ravel()
        mean = float(pooled.mean()) if pooled.size else 0.0
        return pooled / mean if mean > 0.0 else pooled

    def distribution(self, bins: int = 40, contact: int | None = None) -> tuple[FloatArray, ...]:
        """Edges (bins + 1,) and density (bins,) of one contact's force, or of all magnitudes.

        Parameters
        ----------
        bins : 1 to 10,000, from zero to the largest value.
        contact : index; N and 1/N then. None pools all closed contacts, over their mean; without
            any the density is zero.

        Raises
        ------
        InvalidInput : a bad number of bins, or no such contact.
        """
        bins = checks.whole("bins", bins, 1, 10_000)
        values = self.magnitudes
        if contact is not None:
            values = self.forces[:, checks.index("contact", contact, self.nc)]
        top = float(values.max(initial=0.0)) or 1.0
        edges = np.linspace(0.0, top, bins + 1)
        density = np.histogram(values, edges)[0] / (max(values.size, 1) * np.diff(edges))
        return edges, density

    # --- an answer among the samples ---------------------------------------------------

    def place(self, f: Any, power: float | None = None, *, f_t: Any = None) -> Place:
        """Where forces lie among the samples.

        Parameters
        ----------
        f : (nc,) N, or a solution of the step.
        power : p > 1 of the contact energy w* that is compared; default the step's. With friction
            it is 2: tangential springs of other powers have no energy.
        f_t : (nc, d − 1) N, tangential forces, with friction.

        Raises
        ------
        InvalidInput : another number of forces, a solution without any, or a bad power.
        """
        power = checks.optional(checks.power, "power", power)
        if isinstance(f, StepSolution):
            f, f_t = f.f, f.f_t
        if f is None:
            raise InvalidInput("f", repr(f), "a solution with forces")
        forces = self.report.components(f, f_t)
        normal = checks.read_only(forces[:, 0].copy())
        stored, energy = self._energy(self.components, power), self._energy(forces, power)
        (distance, depth), outside = self._distance(forces), self._outside(forces)
        return Place(
            f=normal,
            quantile=np.where(self.loose, np.mean(self.forces < normal, axis=0), np.nan),
            distance=distance,
            depth=depth,
            energy=float(energy),
            less_energy=float(np.mean(stored < energy * (1.0 - _SAME))),
            outside=outside,
        )

    def _energy(self, forces: FloatArray, power: float | None) -> FloatArray:
        """(…,) J of forces (…, nc, d)."""
        step = self.report.step
        if step.friction is None:
            law = PowerLaw(step.stiffness, power or step.power)
            return np.asarray(law.conjugate(forces[..., 0]).sum(axis=-1))
        if power not in (None, HOOKE):
            raise InvalidInput("power", checks.describe(power), "2 with friction")
        many = forces.shape[-1] - 1
        tangential = np.tile((step.stiffness * step.friction.stiffness_ratio)[:, None], many)
        springs = np.column_stack([step.stiffness, tangential])
        return 0.5 * np.asarray((forces**2 / springs).sum(axis=(-2, -1)))

    @cached_property
    def _metric(self) -> tuple[FloatArray, FloatArray] | None:
        """Coordinates (samples, dimension) along the states, and the root of their covariance."""
        effective = float(self.bulk.min(initial=self.forces.shape[0]))
        if not self.parts or effective < _PER_DIMENSION * self.dimension:
            return None
        z = self._coordinates(self._all)
        return z, np.linalg.cholesky(np.atleast_2d(np.cov(z, rowvar=False, bias=True)))

    @cached_property
    def _G(self) -> sp.csr_array:
        """Forces of all coordinates that can differ."""
        return sp.csr_array(sp.hstack([part.G for part in self.parts]))

    def _along(self, forces: FloatArray) -> list[FloatArray]:
        """Coordinates (…, n) of changes of forces (…, nc, d) in each part, in its units."""
        rows = forces.reshape(-1, self._G.shape[0])
        x = coordinates_of(self._G, rows.T).T.reshape(*forces.shape[:-2], -1)
        ends = np.cumsum([part.unit.size for part in self.parts])[:-1]
        pieces = zip(self.parts, np.split(x, ends, axis=-1), strict=True)
        return [piece / part.unit for part, piece in pieces]

    def _coordinates(self, forces: FloatArray) -> FloatArray:
        """(…, dimension) of forces (…, nc, d) along the states, from the mean."""
        off = self._along(forces - self._all.mean(axis=0))
        return np.concatenate([x @ p.states for p, x in zip(self.parts, off, strict=True)], -1)

    def _distance(self, forces: FloatArray) -> tuple[float, float]:
        if self._metric is None:
            return np.nan, np.nan
        z, root = self._metric
        both = np.linalg.solve(root, np.vstack([self._coordinates(forces), z]).T)
        size = np.linalg.norm(both, axis=0)
        return float(size[0]), float(np.mean(size[1:] > size[0]))

    def _outside(self, forces: FloatArray) -> float:
        off, below = (forces - self._all.mean(axis=0)).ravel(), -forces[:, 0].min(initial=0.0)
        if self.parts:
            apart = self._along(forces - self._all.mean(axis=0))
            whole = self._along(forces - self.report.determined.reshape(forces.shape))
            for part, x, at in zip(self.parts, apart, whole, strict=True):
                off = off - part.forces(part.states @ (part.states.T @ x))
                below = max(below, -part.least_slack(at))
        return float(max(np.abs(off).max(initial=0.0), below))

    # --- text -------------------------------------------------------------------------

    def __repr__(self) -> str:
        chains, draws, nc = self.components.shape[:3]
        if not self.parts:
            return f"Ensemble({nc:,} contacts, one point: {self.verdict})"
        what = f"{chains} chains of {draws:,} draws, dimension {self.dimension}, {nc:,} contacts"
        return f"Ensemble({what}; {self.verdict})"


# --- sampling --------------------------------------------------------------------------------


def ensemble(
    problem: Step | Indeterminacy,
    draws: int = 1000,
    chains: int = 4,
    seed: int = 0,
    *,
    thin: int = 10,
    warm_up: int | None = None,
    progress: bool | ProgressCallback = False,
    law: str | None = None,
) -> Ensemble:
    """Draw uniform samples of the admissible forces.

    The set {f ≥ 0, Bᵀf = F̃, f = 0 on open contacts} is a polytope, and each of its points balances
    the loads. Each network with forces that are not unique is sampled by hit-and-run in coordinates
    that make the polytope round: first those of the analytic centre, then those of the covariance
    of a pilot run. With friction the set is {f on the faces of the friction cones that the motion
    selects, Bᵀf = F̃}, which is also convex.

    Parameters
    ----------
    problem : a contact step, or its ``indeterminacy`` (bounds are not needed: ``contacts=[]``).
    law : of a step with friction, "coulomb" or "associated", as for ``indeterminacy``.
    draws : points of each chain. chains : independent chains, each started near a corner.
    seed : of the random numbers; the same seed gives the same samples.
    thin : sweeps before each stored point; a sweep of k dimensions is k + 1 directions.
    warm_up : points discarded at the start of each chain, after the pilot; default half of
        ``draws``.
    progress : True for a bar, or a function of (done, total), which count chains.

    Returns
    -------
    Ensemble : samples, their statistics and diagnostics; a single point if every force is
        determined. Check ``converged`` before you use it.

    Raises
    ------
    InvalidInput : a bad argument.
    UnboundedForces : forces without an upper bound, with a ray as proof.
    SolveFailed : the classic step has no certified answer, or a linear program failed.
    Unsupported : a network too large for dense algebra, or its polytope too thin.

    Notes
    -----
    Ensemble: Snoeijer and others, Physical Review Letters 92, 054302 (2004). Hit-and-run: Smith,
    Operations Research 32 (1984); Lovász, Mathematical Programming 86 (1999). Diagnostics: Vehtari
    and others, Bayesian Analysis 16 (2021). Samples are uniform in f, independent of a contact law.
    The load on the contacts is that of a certified classic answer, as for ``indeterminacy``; the
    diagnostics do not include its errors.

    >>> import cdopt
    >>> samples = cdopt.ensemble(cdopt.bank.load("beam-uniform").step)
    >>> samples.dimension, samples.converged, bool(abs(samples.mean - [2.5, 5, 2.5]).max() < 0.3)
    (1, True, True)
    """
    checks.instance("problem", problem, Step, Indeterminacy)
    draws, chains = checks.count("draws", draws), checks.count("chains", chains)
    thin, seed = checks.count("thin", thin), checks.whole("seed", seed, 0)
    skipped = draws // 2 if warm_up is None else checks.whole("warm_up", warm_up, 0)
    times, report = [clock()], problem
    if not isinstance(report, Indeterminacy):
        report = indeterminacy(report, law, contacts=[])
    elif law is not None:
        raise InvalidInput("law", checks.describe(law), "none for a report, which has its own")
    if report.law is not None:
        report.step.require_no_moments("ensemble")
    parts = tuple(polytopes(report))
    times.append(clock())
    nc, d = report.nc, report.d
    # where every force is determined, one draw of one chain
    samples = np.empty((chains if parts else 1, draws if parts else 1, nc * d))
    samples[:] = report.determined
    seeds = np.random.SeedSequence(seed).spawn(len(parts))
    with progress_bar(progress, "chains") as update:
        total, number = len(parts) * chains, itertools.count(1)
        if parts:
            update(0, total)
        for part, source in zip(parts, seeds, strict=True):
            generators = [np.random.default_rng(child) for child in source.spawn(chains)]
            walked = _walked(part, generators, draws, thin, skipped)
            for k, chain in enumerate(walked):
                samples[k] += part.forces(chain)
                update(next(number), total)
    times.append(clock())
    rhat, bulk, tail = _diagnosed(samples, parts, nc, d)
    times.append(clock())
    return Ensemble(
        report=report,
        components=read_only(samples.reshape(*samples.shape[:2], nc, d)),
        rhat=rhat,
        bulk=bulk,
        tail=tail,
        seed=seed,
        thin=thin,
        warm_up=skipped,
        parts=parts,
        seconds=dict(zip(_STAGES, np.diff(times).tolist(), strict=True)),
    )


def _diagnosed(
    samples: FloatArray, parts: tuple[ForcePolytope, ...], nc: int, d: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """R̂ and effective sizes (nc,) of samples (chains, draws, nc d): the worst components count."""
    rhat = np.ones(nc)
    bulk, tail = np.full((2, nc), np.inf)
    for part in parts:
        for row in part.varying.tolist():
            one, contact = mixing(samples[:, :, row]), row // d
            rhat[contact] = max(rhat[contact], one.rhat) if bulk[contact] < np.inf else one.rhat
            bulk[contact] = min(bulk[contact], one.bulk)
            tail[contact] = min(tail[contact], one.tail)
    return rhat, bulk, tail


def _walked(
    part: ForcePolytope, generators: list[np.random.Generator], draws: int, thin: int, skipped: int
) -> Iterator[FloatArray]:
    """Forces (draws, n) of one polytope, in its units, chain by chain."""
    starts = [_TOWARDS * part.corner(rng) for rng in generators]
    shape = _rounded(part, starts, generators)
    columns = np.ascontiguousarray((part.states @ shape).T)
    for z, rng in zip(starts, generators, strict=True):
        y = np.linalg.solve(shape, z).astype(np.float64)
        if skipped:
            part.walk(shape, y, 1, skipped * thin, rng)
        forces = part.walk(shape, y, draws, thin, rng) @ columns + part.centre
        yield forces if part.slacks is not None else np.maximum(forces, 0.0)


def _rounded(
    part: ForcePolytope, starts: list[FloatArray], generators: list[np.random.Generator]
) -> FloatArray:
    """(k, k) A with z = A y of nearly even spread; ``starts`` z move to where the pilot ends."""
    shape, k = part.rounding, part.dimension
    for trial in range(_PILOTS if 1 < k <= _WIDEST else 0):
        draws = -(-(2**trial) * (_PILOT[0] + _PILOT[1] * k) // len(generators))
        chains = []
        for i, rng in enumerate(generators):
            y = np.linalg.solve(shape, starts[i]).astype(np.float64)
            chains.append(part.walk(shape, y, draws, 1, rng)[draws // 4 :])
            starts[i] = shape @ y
        spread = np.cov(np.concatenate(chains), rowvar=False)
        axes = np.linalg.eigvalsh(spread)
        if not axes[0] > 0.0:
            break
        shape = shape @ np.linalg.cholesky(spread)
        if axes[-1] <= _ROUND**2 * axes[0]:
            break
    return shape


# --- diagnostics ---------------------------------------------------------------------------


class Mixing(NamedTuple):
    """How well chains of one number have mixed."""

    # the larger R̂ of the values and of their distances from the median; one is perfect
    rhat: float
    # bulk, tail: effective number of draws for the middle, and for the 5 % and 95 % quantiles
    bulk: float
    tail: float


def mixing(draws: FloatArray) -> Mixing:
    """The diagnostics of chains (chains, draws) of one number; the worst of too short ones."""
    if draws.shape[1] < _FEWEST:
        return Mixing(np.inf, 0.0, 0.0)
    scores = _normal_scores(_split(draws))
    folded = _normal_scores(_split(np.abs(draws - np.median(draws))))
    ends = [effective_size(_split((draws <= q).astype(float))) for q in np.quantile(draws, _TAILS)]
    return Mixing(max(rhat(scores), rhat(folded)), effective_size(scores), min(ends))


def rhat(halves: FloatArray) -> float:
    """√(var⁺/W) of chains (m, n), split already: equations (1) to (4) of the source."""
    n = halves.shape[1]
    within = float(np.mean(np.var(halves, axis=1, ddof=1)))
    between = float(np.var(np.mean(halves, axis=1), ddof=1)) if len(halves) > 1 else 0.0
    if within == 0.0:
        return 1.0 if between == 0.0 else np.inf
    return float(np.sqrt((n - 1.0) / n + between / within))


def effective_size(halves: FloatArray) -> float:
    """Draws over autocorrelation time of chains (m, n), split already; at most m n log₁₀(m n)."""
    (m, n), total = halves.shape, float(halves.size)
    size = next_fast_len(2 * n, real=True)
    spectrum = rfft(halves - halves.mean(axis=1, keepdims=True), size, axis=1)
    covariance = irfft(spectrum * spectrum.conj(), size, axis=1)[:, :n] / n  # at lags 0 to n − 1
    within = float(np.mean(covariance[:, 0])) * n / (n - 1.0)
    spread = within * (n - 1.0) / n
    spread += float(np.var(np.mean(halves, axis=1), ddof=1)) if m > 1 else 0.0
    if spread == 0.0:
        return total
    rho = 1.0 - (within - np.mean(covariance, axis=0)) / spread
    rho[0] = 1.0
    pairs = rho[: n - n % 2].reshape(-1, 2).sum(axis=1)
    ended = np.flatnonzero(pairs < 0.0)
    pairs = np.minimum.accumulate(pairs[: ended[0] if ended.size else None])
    return total / max(2.0 * float(pairs.sum()) - 1.0, 1.0 / np.log10(max(total, 10.0)))


def _split(draws: FloatArray) -> FloatArray:
    """Each chain's first and last half; the middle draw of an odd number is left out."""
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, draws.shape[1] - half :]])


def _normal_scores(values: FloatArray) -> FloatArray:
    """Φ⁻¹ of the fractional ranks, (r − 3/8) / (S + 1/4)."""
    ranks = rankdata(values, method="average").reshape(values.shape)
    return np.asarray(norm.ppf((ranks - 0.375) / (values.size + 0.25)))
