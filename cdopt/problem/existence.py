"""Whether a problem has an answer: proofs of infeasibility, Slater number, attainment.

A static network is infeasible exactly when some motion u has B u ≥ 0 and F̃ᵀu < 0: no contact
resists it, and the load drives it. It is an unbounded ray of (32). A rigid step is infeasible
exactly when multipliers g ≥ 0 have Bᵀg = 0 and gᵀb < 0: a body between fixed walls that close in.
With friction forces in the cones take the place of multipliers. Of bilateral rows B u is zero, and
multipliers have either sign. Two matrix products verify a proof.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import lsqr

from cdopt._util import checks
from cdopt._util.checks import FloatArray, IntArray, read_only
from cdopt._util.cone_program import ConeProgram
from cdopt._util.errors import InfeasibilityProof
from cdopt._util.frozen import Frozen
from cdopt._util.linear_program import linprog
from cdopt.problem.cone_products import Filled
from cdopt.problem.cones import Cones
from cdopt.problem.contact_problem import ContactProblem
from cdopt.problem.residual import EPS, Groups, Residual, largest_places, positive
from cdopt.problem.scales import step_scales
from cdopt.problem.scaling import column_scale
from cdopt.problem.static_scales import StaticScales

_PROOF = {"time_limit": 60.0}  # seconds
_CLEAR = 1e-7  # the proof's value must be this clear of zero, in scaled units
_IDLE = 1e-9  # entries of a proof below this are treated as 0,
_MET = 1e-6  # and so are products
_EXACT = 4.0 * EPS  # of its terms: what round-off of the data leaves of a product
_DENSE = 400  # the smaller side of a matrix, up to which its singular values are computed
# forces over the local loads up to which no doubt is examined, or the worst residual to the power
# ``_GROWTH``, as unbounded forces grow slowly with accuracy
_MODERATE, _GROWTH = 3.0, -0.25
_SHRINKS = 2.0  # if less accuracy shrinks the least forces by more, the infimum is not attained
MARGIN = 1e-7  # a Slater number is zero within this; products of a proof are, relative to it
_SECONDS = 60.0  # of one cone program
_SMALL = 1e-6  # an error of forces, relative to the local loads,
_LARGER = 1e-4, 0.3  # and bounds of another, which must not matter much
_MANY = 100  # contacts from which a motion that opens all is sought before a cone program
_OPENING = 1e-5  # the least such motion, relative to the terms of its rates
_TRIALS, _BETWEEN = 150, 10  # gradient steps towards it, and between two tests
_NORM_STEPS = 12  # of power iteration
_FAR = 500.0  # a motion that opens all by one has at least this norm: none is sought further


def prove_infeasible(data: ContactProblem) -> InfeasibilityProof | None:
    """A proof that the problem ``data`` has no solution; None when none was obtained.

    Elastic steps always have a solution; for a static network with friction no proof is sought. For
    Coulomb's law only proofs by normal forces are tried, because these are valid for every law of
    friction.
    """
    checks.instance("data", data, ContactProblem)
    if data.is_static and data.d == 1:
        return _unresisted_motion(data)
    if data.compliance is not None:
        return None
    if data.d == 1:
        every = sp.csr_array(sp.eye_array(data.rows, format="csr"))
        return _closing_in(data, data.products, every)
    if data.law == "coulomb" or data.cones.bilateral.any():
        normal = sp.csr_array(sp.eye_array(data.rows, format="csr")[data.cones.ends[:-1]])
        proof = _closing_in(data, sp.csr_array(data.products @ normal.T), normal)
        if proof is not None or data.law == "coulomb":
            return proof
    slater = slater_number(data)
    if slater.forces is None or not slater.infeasible:
        return None
    forces = slater.forces.ravel()[Filled(data.cones).rows_there]
    value = float(data.bias @ forces)
    return InfeasibilityProof(data.kind, read_only(forces), value, slater.violation)


def _unresisted_motion(data: ContactProblem) -> InfeasibilityProof | None:
    """A motion u with B u ≥ 0 and F̃ᵀu < 0, if there is any."""
    scales = data.scales
    if not isinstance(scales, StaticScales):
        raise TypeError(type(scales).__name__)
    used = np.flatnonzero(scales.in_play)
    if used.size == 0:
        return None
    lever = scales.dof_lever[used]
    B = sp.csr_array(data.B[:, used] * (1.0 / lever)[None, :])
    lines = data.cones.bilateral
    if lines.any():
        B = sp.csr_array(sp.vstack([B, -B[lines]]))
    load = data.contact_load[used] / (lever * data.part_force[data.parts.dof][used])
    least, most = np.full(used.size, -1.0), np.ones(used.size)
    ray = _descending_ray(load, B, least, most, A_ub=-B, b_ub=np.zeros(B.shape[0]))
    if ray is None:
        return None
    motion, violation = ray
    u = np.zeros(data.nv)
    u[used] = motion / lever
    return InfeasibilityProof(data.kind, read_only(u), float(data.contact_load @ u), violation)


def _closing_in(
    data: ContactProblem, rows: sp.csr_array, directions: sp.csr_array
) -> InfeasibilityProof | None:
    """Self-balanced forces with forceᵀ bias < 0, if there are any.

    Forces are g ≥ 0 times the ``directions`` (k, rows), each along one row; ``rows`` (m, k)
    multiply g, which is of either sign on bilateral rows.
    """
    bias, lines = data.bias, data.cones.on_rows(data.cones.bilateral.astype(np.float64)) > 0.0
    free = abs(directions) @ lines.astype(np.float64) > 0.0
    drives = directions @ bias
    if not np.any((drives < 0.0) | (free & (drives != 0.0))):
        return None
    reach = column_scale(sp.csr_array(rows.T))
    used = np.flatnonzero(reach > 0.0)
    balance = sp.csr_array(rows[used] * (1.0 / reach[used])[:, None])
    closing = positive(np.where(lines, np.abs(bias), -bias))
    height = data.parts.largest(data.row_part, closing)[data.row_part]
    ray = _descending_ray(
        directions @ (bias / np.where(height > 0.0, height, 1.0)),
        balance,
        np.where(free, -1.0, 0.0),
        np.ones(free.size),
        A_eq=balance,
        b_eq=np.zeros(used.size),
    )
    if ray is None:
        return None
    forces, violation = np.asarray(directions.T @ ray[0]), ray[1]
    return InfeasibilityProof(data.kind, read_only(forces), float(bias @ forces), violation)


def _descending_ray(
    cost: FloatArray, rows: sp.csr_array, least: FloatArray, most: FloatArray, **program: Any
) -> tuple[FloatArray, float] | None:
    """A vector x of negative costᵀx that satisfies its conditions, and the violation.

    HiGHS computes it, between ``least`` and ``most`` (n,); ``program`` has the constraints, as
    ``scipy.optimize.linprog`` takes them: products with the ``rows`` (m, n) are zero, or with
    ``A_ub`` not negative. HiGHS leaves errors of 1e-7 and drops entries below 1e-9: in a wedge with
    such an angle any forces would seem balanced. So x is moved until the products vanish that
    should; only round-off of the data may remain, otherwise there is no proof.
    """
    if not (np.isfinite(rows.data).all() and np.isfinite(cost).all()):
        return None
    bounds = np.column_stack([least, most])
    x = linprog(cost, options=_PROOF, bounds=bounds, **program).x
    if x is None:
        return None
    x, one_sided, size = np.clip(x, least, most), "A_ub" in program, abs(rows)
    moves = np.full(x.size, True) if one_sided else np.abs(x) > _IDLE
    x = np.where(moves, x, 0.0)
    met = np.abs(rows @ x) <= _MET if one_sided else np.full(rows.shape[0], True)
    balance = sp.csr_array(rows[met][:, moves])
    if np.any(balance @ x[moves]):
        x[moves] = _on_null_space(balance, x[moves])
    left = rows @ x
    missed = positive(-left) if one_sided else np.abs(left)
    noise = _EXACT * (size @ np.abs(x))
    if not one_sided:  # entries of one force are as exact as the largest of them
        noise = _EXACT * float(column_scale(rows) @ np.abs(x))
    sound = np.all(missed <= noise) and np.all(x >= np.where(least < 0.0, -np.inf, 0.0))
    worst = float(missed.max(initial=0.0))
    return (x, worst) if sound and float(cost @ x) < -_CLEAR else None


def _on_null_space(A: sp.csr_array, x: FloatArray) -> FloatArray:
    """The vector nearest to x (n,) with A x = 0."""
    if not A.nnz:
        return x
    if min(A.shape) > _DENSE or max(A.shape) > 10 * _DENSE:
        for _ in range(2):
            moved = lsqr(A, A @ x, atol=0.0, btol=1e-15, iter_lim=10 * max(A.shape))[0]
            x = x - moved
        return x
    _, values, vectors = np.linalg.svd(A.toarray(), full_matrices=False)
    span = vectors[values > max(A.shape) * EPS * values[0]]
    for _ in range(2):
        x = x - span.T @ (span @ x)
    return x


# --- whether forces are an attained infimum ----------------------------------------------


def attainment(
    data: ContactProblem,
    motion: FloatArray | None,
    f: FloatArray,
    sound: list[tuple[int, float]],
    groups: Groups | None = None,
) -> Iterator[tuple[int, float | None, tuple[Residual, ...]]]:
    """Whether forces with small residuals approach an infimum that is not attained.

    A problem with friction in space may have no solution although its constraints can be met: the
    imbalance tends to zero only as the forces grow without bound. Residuals alone cannot show this.
    So large forces f (rows,), above a multiple of the local loads that grows as the residual falls,
    are checked. They are accepted if the Slater number of their part is positive, or if the least
    forces for the same ``motion`` (nv,) hardly depend on the accuracy. In the plane cones are
    polyhedral, and every infimum is attained. Checked are the ``sound`` problems of ``groups``, by
    number, whose worst residuals, their second entries, are within the tolerance; None is one.

    Yields
    ------
    Of each problem with such forces its number, the Slater number, and a residual where the answer
    is none.
    """
    if data.cones.polyhedral or not data.nc or data.compliance is not None or not sound:
        return
    acts, at = step_scales(data).acting_energy(motion, f), data.parts.contact
    energy = data.dt * data.parts.total(
        at, data.mobility * data.cones.norms(f / data.scales.lever) ** 2
    )
    size = np.sqrt(energy / np.where(acts > 0.0, acts, np.inf))
    if (size <= _MODERATE).all():
        return
    of = np.zeros(size.size, dtype=np.int64) if groups is None else groups.of_part
    places = largest_places(size, of)
    part_of = dict(zip(of[places].tolist(), places.tolist(), strict=True))
    for k, worst in sound:
        part = part_of.get(k)
        large = 0.0 if part is None else float(size[part])
        if large <= max(_MODERATE, max(worst, EPS * (1.0 + large)) ** _GROWTH):
            continue
        contacts = np.flatnonzero(at == part)
        slater = slater_number(data, contacts)
        if slater.bounded:
            yield k, slater.value, ()
            continue
        shrunk = forces_shrink(data, motion, f, contacts, worst)
        doubts = (Residual("attainment", shrunk, float(acts[part]), "J"),)
        yield k, slater.value, doubts if shrunk > _SHRINKS else ()


# --- the Slater number -------------------------------------------------------------------
#
# For some motion v let every contact open faster than x S along its normal, with S the speed of its
# part: B v + b − x S e_n ∈ K*_μ. The Slater number is the largest such x. By duality it is
#
#     minimise bᵀf    subject to    f ∈ K_μ,  Bᵀf = 0,  Σ S f_n = 1,
#
# infinite if there are no self-balanced forces. Its sign decides:
#
# - Positive: the associated law has forces, and they are bounded; so has Coulomb's law (A.
#   Klarbring & J.-S. Pang, SIAM J. Optim. 8, 1998; V. Acary, F. Cadoux, C. Lemaréchal & J. Malick,
#   ZAMM 91, 2011).
# - Zero: forces are unbounded along the f that attains it, or the infimum is not attained: the set
#   Bᵀ K_μ need not be closed (G. Pataki, Math. Oper. Res. 32, 2007), and forces then grow without
#   limit as the accuracy increases.
# - Negative: the associated law has no solution, and f proves it by two products.
#
# Most often it is infinite, which one motion w proves: with B w − m e_n ∈ K*_μ, m > 0,
# self-balanced forces have 0 = fᵀB w ≥ m Σ f_n. It is sought first, by gradients. The cone programs
# are solved by Clarabel. Its f is projected onto the cones, and the products are computed again
# from the data.


@dataclass(frozen=True, eq=False)
class Slater(Frozen):
    """The Slater number of a step with friction, positive if its feasible set has an interior.

    Attributes
    ----------
    value : the largest x with g − x S e_n ∈ K*_μ for some motion, without unit; infinite if there
        are no self-balanced forces, NaN if the cone program was not solved.
    forces : (nc, d) N, self-balanced forces that attain it, with Σ S f_n = 1; None if it is
        infinite or NaN. If ``value`` is zero, any positive multiple of them can be added to the
        forces of an answer.
    violation : the largest entry of Bᵀf, relative to its terms.
    """

    value: float
    forces: FloatArray | None = None
    violation: float = 0.0

    @property
    def bounded(self) -> bool:
        """Whether the feasible set has an interior, so that forces exist and are bounded."""
        return self.value > MARGIN

    @property
    def infeasible(self) -> bool:
        """Whether the forces prove that the associated law has no solution."""
        return self.value < -MARGIN and self.violation <= MARGIN * -self.value

    def __str__(self) -> str:
        if np.isnan(self.value):
            return "Slater number not known: the cone program was not solved"
        if self.bounded:
            return f"Slater number {self.value:.3g}: forces exist and are bounded"
        if self.infeasible:
            return f"Slater number {self.value:.3g}: the associated law has no solution"
        return "Slater number 0: forces are unbounded, or there are none"


def slater_number(data: ContactProblem, contacts: IntArray | None = None) -> Slater:
    """The Slater number of these contacts of a step with friction; by default of all."""
    contacts = np.arange(data.nc) if contacts is None else contacts
    if not contacts.size:
        return Slater(np.inf)
    columns = data.cones.rows_of(contacts)
    cones = data.cones.take(contacts).in_units(1.0 / data.speed[columns])
    stretch = cones.stretch
    normal = cones.ends[:-1][~cones.bilateral]
    if not normal.size:
        return Slater(np.inf)
    n, speed = columns.size, data.speed[columns]
    rows = sp.csr_array(data.products[:, columns] * (1.0 / speed)[None, :])
    reach = column_scale(sp.csr_array(rows.T))
    used = np.flatnonzero(reach > 0.0)
    balance = sp.csr_array(rows[used] * (1.0 / reach[used])[:, None])
    if contacts.size >= _MANY and _opened(balance, cones):
        return Slater(np.inf)
    cost = data.bias[columns] / speed
    total = np.zeros((1, n))
    total[0, normal] = 1.0
    equal = sp.vstack([balance * stretch[None, :], sp.csr_array(total)])
    right = np.append(np.zeros(used.size), 1.0)
    inside, dims = cones.lorentz
    parts = cost * stretch, equal, right, inside, np.zeros(inside.shape[0]), dims
    answer = ConeProgram(*parts, seconds=_SECONDS).solve()
    if answer.status == "PrimalInfeasible":
        return Slater(np.inf)
    if not answer.useful:
        return Slater(np.nan, violation=np.inf)
    power = cones.project(stretch * answer.x)
    power /= power[normal].sum() or 1.0
    value = float(cost @ power)
    violation = float(np.abs(balance @ power).max(initial=0.0))
    if violation > MARGIN:  # no self-balanced forces
        return Slater(np.nan, violation=np.inf)
    value = 0.0 if abs(value) <= MARGIN else value
    return Slater(value, read_only(cones.table(power / speed)), violation)


def _opened(balance: sp.csr_array, cones: Cones) -> bool:
    """Whether a motion is found that opens all contacts, so that no forces are self-balanced.

    Motions w minimise ½ ‖P_K(e_n − Aᵀw)‖², A = ``balance`` (m, rows), by accelerated gradients (A.
    Beck & M. Teboulle, SIAM J. Imaging Sci. 2, 2009) with restarts. If Aᵀw − e_n ∈ K*, p = P_K(…)
    has Σ p_n ≤ pᵀAᵀw, so w is no shorter than Σ p_n / ‖A p‖.
    """
    if cones.bilateral.any() or not np.isfinite(balance.data).all():
        return False
    A, rates, size = balance, sp.csr_array(balance.T), sp.csr_array(abs(balance.T))
    normal, unit = cones.ends[:-1], np.zeros(cones.rows)
    unit[normal] = 1.0
    x = np.random.default_rng(0).standard_normal(A.shape[0])
    for _ in range(_NORM_STEPS):
        x = A @ (rates @ (x / np.linalg.norm(x)))
    step = 1.0 / (1.1 * float(np.linalg.norm(x)))
    w, ahead, t = np.zeros(x.size), np.zeros(x.size), 1.0
    for k in range(1, _TRIALS + 1):
        p = cones.project(unit - rates @ ahead)
        slope = A @ p
        last, w = w, ahead + step * slope
        t = 1.0 if slope @ (w - last) < 0.0 else t
        old, t = t, 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * t * t))
        ahead = w + (old - 1.0) / t * (w - last)
        if k % _BETWEEN:
            continue
        margin = _OPENING * float((size @ np.abs(w)).max(initial=0.0))
        if margin > 0.0 and not cones.project(margin * unit - rates @ w).any():
            return True
        if float(p[normal].sum()) > _FAR * float(np.linalg.norm(slope)):
            break
    return False


def forces_shrink(
    data: ContactProblem, motion: FloatArray | None, f: FloatArray, contacts: IntArray, worst: float
) -> float:
    """The factor by which the least forces for the motion shrink if they may be less accurate.

    The forces f (rows,) of an answer are replaced by the least ones that have the same effect on
    the bodies and do the same work, but for a small error, and for a larger one, which exceeds
    that of motions with this ``worst`` residual. For an attained answer the two differ little.
    If the infimum is not attained, only the accuracy bounds the forces that approach it.
    """
    columns, cones = data.cones.rows_of(contacts), data.cones.take(contacts)
    arm = np.broadcast_to(data.scales.lever, data.rows)[columns]
    root = np.sqrt(cones.on_rows(data.mobility[contacts])) / arm
    cones = cones.in_units(1.0 / root)
    stretch = cones.stretch
    rates = data.shifted(data.gap(motion, f))[columns] / root
    rates = rates + cones.project(-rates)  # Moreau: the nearest point of K*
    effect = sp.csr_array(step_scales(data).effect[:, columns] * (1.0 / root)[None, :])
    effect = sp.csr_array(effect[np.diff(effect.indptr) > 0])
    y = cones.project(root * f[columns])
    unit = np.linalg.norm(effect @ y) or 1.0
    target, work = effect @ (y / unit), rates / unit
    done = max(float(work @ (y / unit)), 0.0)
    n, m, (in_cones, dims) = columns.size, target.size, cones.lorentz
    k = in_cones.shape[0]
    on_forces = [  # in cones; then: Σ w ‖f‖² ≤ size², ‖effect − target‖ ≤ slack, work
        in_cones,
        sp.csr_array((1, n)),
        sp.diags_array(stretch),
        sp.csr_array((1, n)),
        effect * stretch[None, :],
        sp.csr_array((-work * stretch)[None, :]),
    ]
    on_size = sp.csr_array(([1.0], ([k], [0])), shape=(k + n + m + 3, 1))
    inside, cost = sp.hstack([sp.vstack(on_forces), on_size]), np.append(np.zeros(n), 1.0)
    dims = [*dims, n + 1, m + 1, 1]
    sizes = []
    for slack in (_SMALL, float(np.clip(10.0 * np.sqrt(worst), *_LARGER))):
        shift = np.concatenate([np.zeros(k + n + 1), [slack], -target, [done + slack]])
        free = sp.csr_array((0, n + 1)), np.zeros(0)
        answer = ConeProgram(cost, *free, inside, shift, dims, seconds=_SECONDS).solve()
        sizes.append(float(answer.x[-1]) if answer.useful else np.inf)
    return sizes[0] / sizes[1] if sizes[1] > 0.0 else 1.0
