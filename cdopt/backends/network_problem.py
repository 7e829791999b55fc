"""The scaled problem of all native solvers: conditions on a contact network.

::

    F̃ + S w = Gᵀ f,    g = G w + p + c(f),    K ∋ f ⟂ g̃ ∈ K*

with the inertia S (none for a truss), the motion w = v⁺ − v* or the micro-displacement, the rates
or gaps g, and the compliance c(f) of the contacts, none for rigid ones. K is a half-line or a line
for each contact, or a cone in d rows, the normal one first; g̃ = g, or de Saxcé's shifted rates for
Coulomb's law. Where contacts differ in their number of rows, all are filled up with rows of zeros.
For a step known only by N = G S⁻¹ Gᵀ and p, g = N f + p.

``network_problem`` makes it from the problem in physical units, and only this module knows these.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from cdopt._util.cached import cached_property, changed
from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt._util.sparse_rows import for_products
from cdopt.backends.linalg import ContactNetwork, DelassusNetwork, network
from cdopt.backends.linalg.factorisation import finite
from cdopt.problem import Cones, ContactProblem, FrictionCones, HalfLines
from cdopt.problem.certificate import worst_residual
from cdopt.problem.cone_products import Filled
from cdopt.problem.cone_rules import CUT, Rules
from cdopt.problem.cones import Lines
from cdopt.problem.contact_law import Compliant, PowerLaw
from cdopt.problem.existence import prove_infeasible, slater_number
from cdopt.problem.residual import largest
from cdopt.problem.scaling import delassus_root, low_rank_root, rows_of, scaled, total_by
from cdopt.problem.sliders import StepSliders
from cdopt.problem.solution import Iterate, WarmStart
from cdopt.problem.step_problems import interleaved

_NONE, _NOTHING = np.zeros(0), sp.csr_array((0, 0))
STEEP = 10.0  # μ beyond which Coulomb's law is solved without the shift
_SMALL = 20_000  # entries up to which dense products are quicker than sparse ones
_LOW_RANK, _LOW_RANK_FROM, _DENSE = 0.6, 60, 3_000  # share of the rows, and rows from and up to
_OF_NETWORK = frozenset(("factors", "idle", "floor", "weight", "K", "mu", "steep", "rules"))
_RANK_TOL = 1e-13  # of the largest eigenvalue of a part of N: precision of a double


@dataclass(frozen=True, eq=False)
class Factors:
    """N = R Sᵀ of a step, as first-order methods take it: N itself is not formed."""

    # R (rows, m). For a diagonal inertia both R and S are G S^(−1/2), one matrix stored once; for
    # any other they are G and G S⁻¹; with N alone, N and the identity
    rows: sp.csr_array
    spread: sp.csr_array  # S (rows, m)
    diagonal: FloatArray  # (rows,) diagonal of N; zero for rows that act on nothing

    def in_order(self, order: Any) -> Factors:
        """The same with its rows in this order."""
        rows = sp.csr_array(self.rows[order])
        spread = rows if self.spread is self.rows else sp.csr_array(self.spread[order])
        return Factors(rows, spread, self.diagonal[order])

    @cached_property
    def gather(self) -> Any:
        """R for products."""
        return for_products(self.rows)

    @cached_property
    def scatter(self) -> Any:
        """Sᵀ for products."""
        return (self.gather if self.spread is self.rows else for_products(self.spread)).T

    def dense(self) -> FloatArray:
        """N (rows, rows), symmetric to the last bit; an ArithmeticError where it overflows."""
        if self.rows.shape[0] * self.rows.shape[1] <= _SMALL:
            N = self.rows.toarray() @ self.spread.toarray().T
        else:
            N = np.asarray((self.rows @ self.spread.T).todense())
        return finite(0.5 * (N + N.T))


@dataclass(frozen=True, eq=False)
class FrozenFriction:
    """Tangential springs with caps known beforehand: f_T = −κ g_T, cut to the cap."""

    # growth, cap: κ and the cap (nc,), zero for contacts without
    growth: FloatArray
    cap: FloatArray


@dataclass(frozen=True, eq=False)
class NetworkProblem(Compliant):
    """The conditions of optimality in scaled units."""

    p: FloatArray  # (rows,) gaps, or rates, where nothing moves
    # (rows,) w: rate or gap per unit of force, by which forces are weighed against rates
    mobility: FloatArray
    # G, S, F: (rows, m), (m, m) and (m,), the network operator, the inertia and the load F̃ on the
    # given dofs; S is None for a truss, F None for no load, all three None with N alone
    G: sp.csr_array = field(default_factory=lambda: _NOTHING)
    S: sp.csr_array | None = None
    F: FloatArray | None = None
    N: sp.csr_array | None = None  # (rows, rows) where only it is known
    d: int = 1  # rows a contact
    cones: Cones | None = None  # K, with this unit of forces; None for half-lines
    # (nc,) of one row a contact, which forces may be of either sign; None for none
    lines: BoolArray | None = None
    # the cones of the problem with rows of zeros, whose rows are these; None without any
    filled: Filled | None = None
    coulomb: bool = False  # whether the law of friction is Coulomb's, or else the associated law
    # of the contacts, between overlaps and forces; None for rigid ones
    compliance: PowerLaw | None = None
    # friction frozen beforehand, which needs ``compliance``; or None
    sliders: FrozenFriction | None = None
    body: IntArray | None = None  # (m,) the body of each dof, or None
    # (m,) the numbers of the dofs among those of the problem, for a guess of bodies; None for all
    index: IntArray | None = None
    force: FloatArray | float = 1.0  # (nc,) or (rows,) N, unit of the forces
    # (nv,) m/s and rad/s, or m and rad: motion of the problem's dofs at w = 0; None with N alone
    free_motion: FloatArray | None = None
    unit: FloatArray | float = 1.0  # (m,) m/s and rad/s, or m and rad, unit of w
    used: IntArray | None = None  # the problem's dofs that w has; None for all
    contact_ids: Any = None  # (nc,) names of the contacts, or None
    data: ContactProblem | None = None  # the problem in physical units; None of matrices alone
    # S⁻¹ X of a sparse X (m, k), of an inertia that is not diagonal
    solve_inertia: Callable[[sp.csr_array], sp.csr_array] = lambda X: X
    # what was made of G, S and N, by name; other problems on the same network have the same
    cache: dict[Any, Any] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.p.size)

    @property
    def nc(self) -> int:
        """Number of contacts."""
        return self.rows // self.d

    @property
    def has_cones(self) -> bool:
        """Whether contacts have cones of several rows, or else half-lines and lines."""
        return self.d > 1 and self.sliders is None

    @cached_property
    def floor(self) -> FloatArray:
        """(rows,) the least force of half-lines, zero, and of lines, −∞."""
        return np.zeros(self.rows) if self.lines is None else np.where(self.lines, -np.inf, 0.0)

    @property
    def is_soft(self) -> bool:
        """Whether the compliance is that of springs in cones, which also pull."""
        return self.compliance is not None and self.compliance.pulls

    @property
    def static(self) -> bool:
        """Whether there is no inertia, as in a truss."""
        return self.S is None and self.N is None

    # --- for second-order methods ------------------------------------------------------

    @cached_property
    def net(self) -> ContactNetwork:
        """The network, its dofs in the order of systems; known by N alone, that of a root of N."""
        last = self.cache.get("net")
        net = self._network() if last is None else last.uncounted()
        self.cache["net"] = net
        return net

    def _network(self) -> ContactNetwork:
        if self.N is not None:
            root = delassus_root(self.N, _RANK_TOL)
            return network(root, None, sp.csr_array(sp.eye_array(root.shape[1])), d=self.d)
        return network(self.G, self.body, self.S, self.index, self.d)

    @cached_property
    def operator(self) -> ContactNetwork | DelassusNetwork:
        """``net``; for cones N itself, whose systems need no root, unless its rank is low."""
        if self.N is None or self.d == 1:
            return self.net
        if _LOW_RANK_FROM <= self.rows <= _DENSE:
            root = low_rank_root(self.N, _LOW_RANK, _RANK_TOL)
            if root is not None:
                return network(root, None, sp.csr_array(sp.eye_array(root.shape[1])), d=self.d)
        return DelassusNetwork(self.N, self.d)

    @cached_property
    def load(self) -> FloatArray:
        """F̃ in the order of ``operator``."""
        return np.zeros(self.operator.m) if self.F is None else self.net.arranged(self.F)

    def overlap(self, w: FloatArray) -> FloatArray:
        """−(G w + p) (rows,)."""
        return -self.net.gap(w) - self.p

    def balance(self, w: FloatArray, f: FloatArray) -> FloatArray:
        """F̃ + S w − Gᵀ f (m,)."""
        if self.static:
            return self.load - self.operator.load(f)
        return self.load + self.operator.inertia(w) - self.operator.load(f)

    def compliant_gap(self, f: FloatArray) -> tuple[FloatArray, FloatArray]:
        """c(f) and c′(f) (nc,)."""
        if self.compliance is None:
            return np.zeros_like(f), np.zeros_like(f)
        c = self.compliance.overlap(f)
        return c, self.compliance.slope(f, c)

    def error(self, balance: FloatArray) -> float:
        """The largest entry of a balance (m,) over the inertia there, dimensionless."""
        return largest(np.abs(balance / self.operator.mass_diagonal))

    def residual(self, error: float, gap: FloatArray, f: FloatArray) -> float:
        """Largest of the balance's ``error`` and the natural map of f (rows,), dimensionless."""
        if self.has_cones:
            return max(self.natural_map(self.table(f), self.table(gap)), error)
        above = f if self.lines is None else f - self.floor
        natural = np.abs(np.minimum(self.mobility * above, gap))
        return max(largest(natural), error)

    def acting(self, f: FloatArray, gap: FloatArray) -> FloatArray:
        """The same forces (rows,), zero where the gap (rows,) is that of an open contact."""
        if not self.has_cones:
            return np.where(self.mobility * (f - self.floor) < gap, 0.0, f)
        away = self.mobility * f - self.shifted(self.table(gap)).ravel()
        opens = ~self.table(self.project(away)).any(axis=1)
        return np.where(opens.repeat(self.d), 0.0, f)

    # --- for first-order methods -------------------------------------------------------

    @cached_property
    def factors(self) -> Factors:
        """N = R Sᵀ; a ValueError for a truss."""
        if self.N is not None:
            spread = sp.csr_array(sp.eye_array(self.rows))
            return Factors(self.N, spread, np.maximum(self.N.diagonal(), 0.0))
        G, S = self.G, self.S
        if S is None:
            raise ValueError("a truss has no N")
        if S.nnz == S.shape[0]:  # diagonal
            rows = spread = scaled(G, None, 1.0 / np.sqrt(S.data))
            diagonal = total_by(rows_of(rows), rows.data**2, self.rows)
        else:
            rows, spread = G, sp.csr_array(self.solve_inertia(sp.csr_array(G.T)).T)
            diagonal = np.asarray(rows.multiply(spread).sum(axis=1), dtype=np.float64).ravel()
        return Factors(rows, spread, np.maximum(diagonal, 0.0))

    @cached_property
    def idle(self) -> BoolArray:
        """(nc,) contacts whose forces move nothing."""
        return np.asarray(self.table(self.factors.diagonal).max(axis=1) == 0.0)

    # --- cones -------------------------------------------------------------------------

    def table(self, rows: FloatArray) -> FloatArray:
        """Values of the rows as one row a contact (nc, d)."""
        return rows.reshape(self.nc, self.d)

    @cached_property
    def weight(self) -> FloatArray:
        """(nc,) w of each contact."""
        return self.mobility[:: self.d]

    @cached_property
    def K(self) -> Cones:
        """K, of half-lines too."""
        return HalfLines(self.rows) if self.cones is None else self.cones

    @cached_property
    def mu(self) -> FloatArray:
        """(nc,) friction coefficients of cones, for compiled loops; none without cones."""
        return _NONE if self.cones is None else np.array(self.cones.mu)

    @property
    def by_n(self) -> bool:
        """Whether the certificate knows the step by N alone, without M and B."""
        return self.data is not None and self.data.inertia is None

    @cached_property
    def steep(self) -> bool:
        """Whether Coulomb's law is solved without the shift, by ``Cones.frictional_cut``.

        For large μ the shift μ‖g_T‖ masks penetration: the distance of an unopposed closing rate
        from K*, and with it the step of the forces, is √(1 + μ²) times smaller.
        """
        plain = self.K.kinds.keys() <= {FrictionCones.name, Lines.name}
        return self.coulomb and plain and float(self.K.mu.max(initial=0.0)) > STEEP

    @cached_property
    def rules(self) -> tuple[Rules, FloatArray]:
        """Rules and coefficients (nc, d) of cones, for compiled loops; none if ``mu`` suffices."""
        if self.K.kinds.keys() == {FrictionCones.name}:
            return np.zeros((0, self.d), dtype=np.int8), np.zeros((0, self.d))
        return self.K.rules

    @property
    def rules_of_answers(self) -> tuple[Rules, FloatArray]:
        """The rules of ``answered``."""
        if not self.steep:
            return self.rules
        rules, coefficients = self.K.rules
        return np.where(rules == 1, np.int8(CUT), rules), coefficients

    def project(self, y: FloatArray) -> FloatArray:
        """The nearest forces in K to y, (rows,) or (nc, d)."""
        if self.cones is None:
            return np.maximum(y, self.floor.reshape(y.shape))
        return self.K.project(y.ravel()).reshape(y.shape)

    def answered(self, y: FloatArray) -> FloatArray:
        """Forces (nc, d) in K that answer to y: the nearest, or where it is ``steep`` those cut."""
        if self.steep:
            return self.table(self.K.frictional_cut(y.ravel()))
        return self.project(y)

    def shift(self, rates: FloatArray) -> FloatArray:
        """(nc,) what the law adds to the normal of the rates (nc, d)."""
        return self.shifted(rates)[:, 0] - rates[:, 0]

    def shifted(self, rates: FloatArray) -> FloatArray:
        """g̃ (nc, d), which the law sets orthogonal to the forces."""
        return self.table(self.K.shifted(rates.ravel())) if self.coulomb else rates

    def effect(self, f: FloatArray) -> FloatArray:
        """Sᵀ f of ``factors``, for forces f (nc, d)."""
        return np.asarray(self.factors.scatter @ f.ravel())

    def rates_of(self, effect: FloatArray) -> FloatArray:
        """The rates (nc, d) at forces with this ``effect``."""
        return self.table(self.p + self.factors.gather @ effect)

    def natural_map(
        self, f: FloatArray, rates: FloatArray, shift: FloatArray | None = None
    ) -> float:
        """The largest natural map of forces f (nc, d) with these ``rates``, or with a ``shift``."""
        if shift is None and self.steep:
            natural = self.K.coulomb_map(f.ravel(), rates.ravel(), self.weight)
            return largest(self.K.norms(natural))
        if shift is None and not self.coulomb:
            shift = np.zeros(self.nc)
        return self.K.largest_map(f.ravel(), rates.ravel(), shift, self.weight)

    def worst(self, f: FloatArray, doubt: float = np.inf) -> float:
        """The largest residual of the certificate of forces f (nc, d), dimensionless.

        Without ``motion``, which costs most, if others are above ``doubt``.
        """
        return self.worst_residual(self._forces(f), doubt)

    def worst_residual(self, forces: FloatArray, doubt: float) -> float:
        """The same of forces in N (rows,)."""
        return np.nan if self.data is None else worst_residual(self.data, forces, doubt)

    def infeasible(self) -> bool:
        """Whether it is proven that a step with friction has no solution."""
        return self.data is not None and prove_infeasible(self.data) is not None

    def doubt(self) -> str:
        """Why it may have none, or forces without bound; empty if its Slater number is positive."""
        slater = None if self.data is None else slater_number(self.data)
        return "" if slater is None or slater.bounded else str(slater)

    # --- to and from physical units ----------------------------------------------------

    def starting_forces(self, start: WarmStart | None) -> FloatArray:
        """Forces in K to start from, (nc,) or (nc, d): zero, or an earlier solution's by name."""
        if start is None:
            return np.zeros((self.nc, self.d) if self.has_cones else self.rows)
        if self.filled is None:
            forces = start.forces_on(self.contact_ids, self.nc, self.d)
        else:
            forces = self.filled.fill(start.forces_in(self.filled.cones, self.contact_ids))
        nearest = self.project(forces / self.force)
        return self.table(nearest) if self.has_cones else nearest

    def acting_start(self, start: WarmStart | None) -> FloatArray:
        """The same, zero at contacts whose forces move nothing."""
        f = self.starting_forces(start)
        return np.where(self.idle if f.ndim == 1 else self.idle[:, None], 0.0, f)

    def given_motion(self, start: WarmStart | None) -> FloatArray | None:
        """Motion of an earlier solution as w of the given dofs; None where it does not fit."""
        u = None if start is None else start.motion
        if u is None or self.free_motion is None or u.shape != self.free_motion.shape:
            return None
        return np.asarray((u[self._used] - self.free_motion[self._used]) / self.unit)

    def scaled_motion(self, start: WarmStart | None) -> FloatArray | None:
        """The same in the order of ``net`` (m,)."""
        w = self.given_motion(start)
        return None if w is None else self.net.arranged(w)

    @property
    def _used(self) -> IntArray | slice:
        return slice(None) if self.used is None else self.used

    def iterate(self, w: FloatArray, f: FloatArray) -> Iterate:
        """The motion w in the order of ``net``, and the forces, in physical units."""
        return self.iterate_of(w[self.net.position] if self.free_motion is not None else None, f)

    def iterate_of(self, w: FloatArray | None, f: FloatArray) -> Iterate:
        """The motion w of the given dofs, and the forces, in physical units."""
        motion = None
        if self.free_motion is not None and w is not None:
            motion = np.array(self.free_motion)
            motion[self._used] += self.unit * w
        return Iterate(motion, self._forces(f))

    def motion_under(self, forces: FloatArray) -> FloatArray | None:
        """The motion that forces in N cause, or None."""
        return None if self.data is None else self.data.velocity(forces)

    def caused(self, f: FloatArray) -> Iterate:
        """Forces f, and the motion that they cause, in physical units."""
        forces = self._forces(f)
        return Iterate(self.motion_under(forces), forces)

    def _forces(self, f: FloatArray) -> FloatArray:
        """Forces f as those of the problem's rows, N."""
        forces = self.force * f.ravel()
        return forces if self.filled is None else forces[self.filled.rows_there]


# --- from the problem in physical units --------------------------------------------------


def network_problem(data: ContactProblem) -> NetworkProblem:
    """The scaled problem of ``data``, from the last one on this network where that is kept."""
    cache = data.cache
    last: NetworkProblem | None = cache.get("problem")
    if last is None or (last.data is not data and last.filled is not None):
        new = _from(data)
    else:
        new = changed(last)
        if last.data is not data:
            scales, motion = data.scales, data.free_motion
            rates = {"p": scales.p, "free_motion": motion, "unit": scales.unit}
            load = {"F": scales.load} if data.is_static else {}
            vars(new).update(rates, **load, data=data, force=data.force)
        vars(new).update({name: vars(last)[name] for name in _OF_NETWORK & vars(last).keys()})
    cache["problem"] = new
    return new


def _from(data: ContactProblem) -> NetworkProblem:
    force, d = data.force, data.d
    rigid = data.compliance is None
    unit = data.cones.on_rows(data.mobility) * force / data.speed if rigid else None
    mobility = np.ones(force.size) if unit is None else unit
    common: dict[str, Any] = {"d": d, "force": force, "contact_ids": data.contact_ids}
    common |= {"data": data, "cache": data.cache}
    cones = data.scaled_cones
    if d > 1:
        common |= {"cones": cones, "coulomb": data.law == "coulomb"}
    elif data.cones.bilateral.any():
        common |= {"lines": data.cones.bilateral}
    problem = _with_rows_of(data, mobility, common)
    rows_apart = problem.d == 1 or data.cones.uniform
    return problem if rows_apart else _filled(problem, Filled(cones))


def rigid_problem(soft: NetworkProblem) -> NetworkProblem:
    """A soft step as a rigid one on more dofs, for solvers that know no compliance.

    Each spring is a dof of the inertia k, which its row moves: [G 1] diag(S, k)⁻¹ [G 1]ᵀ is N + R.
    Forces are the same; ``motion_under`` forces is that of the bodies. A ValueError without S.
    """
    G, S, k, K = soft.G, soft.S, soft.elastic_law.stiffness, soft.K
    if S is None:
        raise ValueError("a network without inertia")
    inertia = S

    def solve_inertia(X: sp.csr_array) -> sp.csr_array:
        m = inertia.shape[0]
        parts = soft.solve_inertia(sp.csr_array(X[:m])), scaled(sp.csr_array(X[m:]), 1.0 / k)
        return sp.csr_array(sp.vstack(parts, format="csr"))

    rigid = dataclasses.replace(
        soft,
        G=sp.csr_array(sp.hstack([G, sp.eye_array(k.size)], format="csr")),
        S=sp.csr_array(sp.block_diag([S, sp.diags_array(k)], format="csr")),
        d=K.d,
        cones=K if K.d > 1 else None,
        lines=K.bilateral if K.d == 1 and K.bilateral.any() else None,
        compliance=None,
        body=None,
        free_motion=None,
        unit=1.0,
        solve_inertia=solve_inertia,
        cache={},
    )
    mean = K.total(rigid.factors.diagonal) / np.diff(K.ends)
    rigid = dataclasses.replace(rigid, mobility=K.on_rows(mean))
    rows_apart = K.d == 1 or K.uniform
    return rigid if rows_apart else _filled(dataclasses.replace(rigid, cache={}), Filled(K))


def _filled(problem: NetworkProblem, cones: Filled) -> NetworkProblem:
    """The same problem with the rows of ``cones``."""
    at, rows = cones.rows_there, cones.rows
    onto = sp.csr_array((np.ones(at.size), (at, np.arange(at.size))), shape=(rows, at.size))
    more: dict[str, Any] = {"G": sp.csr_array(onto @ problem.G)} if problem.G.shape[0] else {}
    if problem.N is not None:
        more["N"] = sp.csr_array(onto @ problem.N @ onto.T)
    if problem.compliance is not None:
        stiffness = cones.fill(problem.compliance.stiffness, 1.0)
        more["compliance"] = dataclasses.replace(problem.compliance, stiffness=stiffness)
    return dataclasses.replace(
        problem,
        p=cones.fill(problem.p),
        mobility=cones.on_rows(problem.mobility[cones.cones.first]),
        force=cones.fill(np.asarray(problem.force), 1.0),
        cones=cones,
        filled=cones,
        **more,
    )


def _with_rows_of(
    data: ContactProblem, mobility: FloatArray, common: dict[str, Any]
) -> NetworkProblem:
    """The scaled problem with the rows that ``data`` has."""
    force = data.force
    if data.N is not None:
        root = np.sqrt(force / data.speed)
        N = scaled(data.N, root, root)
        return NetworkProblem(data.p / data.speed, mobility, N=N, **common)
    problem, body = data.scales, data.dof_body
    common |= {"free_motion": data.free_motion, "unit": problem.unit}
    common |= {"compliance": problem.compliance}
    if data.is_static:
        body = None if body is None else body[problem.used]
        common |= {"F": problem.load, "index": problem.used, "used": problem.used}
        if data.d > 1:
            common["cones"] = problem.cones
        return NetworkProblem(problem.p, mobility, problem.B, body=body, **common)
    common |= {"S": problem.S, "body": body}
    if problem.compliance is not None and problem.compliance.pulls:
        common |= {"d": 1, "cones": problem.cones}
    if data.inertia is not None and not data.inertia.is_diagonal:
        common["solve_inertia"] = partial(_solve_inertia, data)
    if data.sliders is not None and data.sliders.cap.size:
        return _with_sliders(data, data.sliders, common)
    return NetworkProblem(problem.p, mobility, problem.B, **common)


def _solve_inertia(data: ContactProblem, X: sp.csr_array) -> sp.csr_array:
    """S⁻¹ X in scaled units."""
    s, energy = data.dof_speed, data.part_energy[data.parts.dof]
    return scaled(data.mass.solve_sparse(scaled(X, energy / s)), 1.0 / s)


def _with_sliders(
    data: ContactProblem, sliders: StepSliders, common: dict[str, Any]
) -> NetworkProblem:
    """With normal and sliding rows together, and caps, in units of parts; motions are v⁺."""
    problem, used, nc, d = data.scales, sliders.used, data.nc, 1 + sliders.start.shape[1]
    growth, cap, rates, unit = np.zeros(nc), np.zeros(nc), np.zeros((nc, d)), np.zeros(nc)
    part = sliders.parts_of(data.parts)
    speed, force = data.part_speed[part], data.part_force[part]
    growth[used], cap[used] = sliders.growth * sliders.duration * speed / force, sliders.cap / force
    rates[:, 0], unit[used] = data.bias / data.speed, 1.0 / speed
    rates[used, 1:] = -sliders.start / (force * growth[used])[:, None]
    B_t = scaled(sliders.sliders.B_t, unit.repeat(d - 1), problem.unit)
    B_t = sp.csr_array(B_t, copy=True)
    B_t.eliminate_zeros()
    common |= {"d": d, "sliders": FrozenFriction(growth, cap), "free_motion": np.zeros(data.nv)}
    common |= {"F": -(sp.csr_array(problem.S) @ (data.free_motion / problem.unit))}
    return NetworkProblem(rates.ravel(), np.ones(nc), interleaved(problem.B, B_t), **common)


def without_forces(data: ContactProblem) -> Iterate:
    """No forces on any contact, and the motion without them."""
    return Iterate(data.free_motion if data.N is None else None, np.zeros(data.rows))
