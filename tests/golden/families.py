"""The kinds of random problems, how many there are of each, and what is recorded of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import cdopt

from . import adapters, problems
from .measure import (
    RESOLVED,
    Given,
    all_rows,
    certificate,
    dense,
    energy_of,
    failed,
    of_step,
    probes,
    proof,
    step_answer,
    stored,
    truss_answer,
    verdict,
)
from .record import Record

OTHERS = (
    "clarabel",
    "pgs",
    "osqp",
    "apgd",
    "interior-point",
    "highs",
    "augmented-lagrangian",
    "lcp",
)
CONES = ("clarabel", "nsgs", "admm")
FAMILIES: dict[str, tuple[int, Callable[..., None]]] = {}


def family(count: int, name: str) -> Callable[..., Any]:
    """Enter a function as a family of this many problems."""

    def enter(function: Callable[..., None]) -> Callable[..., None]:
        FAMILIES[name] = (count, function)
        return function

    return enter


def measured(name: str, number: int, old: Record | None) -> Record:
    """The record of a problem; ``old`` has the stored answers that are certified again."""
    record = Record()
    seed = [ord(letter) for letter in name] + [number]
    FAMILIES[name][1](record, np.random.default_rng(seed), number, old)
    return record


# --- steps without friction ----------------------------------------------------------------


def classic(record: Record, step: Any, form: str, number: int, old: Record | None) -> Any:
    """One step, by the default backend and another."""
    problem = cdopt.ClassicCD(step, form)
    given = of_step(step)
    try:
        solution = problem.solve()
    except cdopt.SolveFailed as error:
        failed(record, "", error)
        rows = dense(step.B) if hasattr(step, "M") else dense(step.N)
        bias = step.phi / step.dt + step.gap_rate if hasattr(step, "M") else step.p_vec
        if not hasattr(step, "M") or not np.any(step.restitution):
            proof(record, "", error, rows, np.asarray(bias), None)
        probes(record, problem.data, given, old)
        return None
    verdict(record, "", solution)
    if solution.f is None:
        return None
    stored(record, solution, solution.v_next)
    step_answer(record, step, solution, form)
    probes(record, problem.data, given, old)
    other = OTHERS[number % len(OTHERS)]
    try:
        again = problem.solve(other, check=False)
        verdict(record, f"{other}: ", again)
        if again.ok and again.v_next is not None:
            terms = np.abs(step.v) + np.abs(again.v_next - step.v)
            size = 1e2 * max(terms.max(initial=0.0), 1e-300)
            record.put(f"{other}: v_next", again.v_next, size)
    except cdopt.CdoptError as error:
        failed(record, f"{other}: ", error)
    return solution


@family(300, "classic")
def _classic(record, rng, number, old) -> None:
    net = problems.network(rng, 2 + number % 2)
    form = ("force", "velocity")[number // 2 % 2]
    step = problems.step(rng, net)
    solution = classic(record, step, form, number, old)
    if solution is not None and number % 3 == 0:
        indeterminacy(record, step)


@family(150, "redundant")
def _redundant(record, rng, number, old) -> None:
    net = problems.network(rng, 2, many=True)
    step = problems.step(rng, net)
    solution = classic(record, step, ("force", "velocity")[number % 2], number, old)
    if solution is not None:
        indeterminacy(record, step)


@family(150, "scales")
def _scales(record, rng, number, old) -> None:
    net = problems.network(rng, 2 + number % 2, decades=(3.0, 6.0, 8.0)[number % 3])
    step = problems.step(rng, net)
    solution = classic(record, step, "force", 0, old)
    if solution is not None and number % 4 == 0:
        indeterminacy(record, step)


@family(80, "delassus")
def _delassus(record, rng, number, old) -> None:
    net = problems.network(rng, 2 + number % 2, many=number % 3 == 0)
    step = problems.delassus(rng, net, friction=False)
    solution = classic(record, step, "force", number, old)
    if solution is not None:
        indeterminacy(record, step)


@family(90, "idle")
def _idle(record, rng, number, old) -> None:
    """Bodies on which nothing acts, next to others or alone: loads elsewhere are no scale."""
    net = problems.network(rng, 2, many=number % 2 == 0)
    step = problems.step(rng, net, friction=number % 3 > 0, gap_rate=0.0)
    idle = (rng.random(net.body.max() + 1) < (0.7 if number % 5 else 1.0))[net.body]
    step = step.replace(
        v=np.where(idle, 0.0, step.v), F_ext=np.where(idle, 0.0, step.F_ext),
        phi=np.where(rng.random(step.nc) < 0.7, 0.0, step.phi), dof_body=net.body,
    )  # fmt: skip
    law, d = problems.LAWS[number % 2], 2 if number % 3 else 1
    if d == 2:
        frictional(record, step, law, d, 1, old)
    else:
        classic(record, step, "force", 0, old)
    source = record if old is None else old
    if "stored f" not in source.values:
        return
    problem = cdopt.FrictionalCD(step, law) if d == 2 else cdopt.ClassicCD(step)
    v, f = source.values["stored v"], source.values["stored f"]
    for share in (1e-3, 1e-7, 1e-11):  # of a force where nothing moves: what is nothing there?
        little = share * of_step(step, d).force * np.abs(rng.standard_normal(f.size))
        certificate(record, f"little {share:g}", problem.data, v, f + little)


@family(60, "squeezed")
def _squeezed(record, rng, number, old) -> None:
    net = problems.network(rng, 2 + number % 2)
    step = problems.step(rng, net)
    push = -(rng.uniform(0.1, 1.0, (1, step.nc)) @ net.normal)  # a row that these oppose
    overlap = -step.dt * 10.0 ** rng.uniform(-3, 1) - np.abs(step.phi).sum()
    phi = np.append(step.phi, overlap)
    squeezed = cdopt.ContactStep(
        step.M, np.vstack([net.normal, push]), phi, step.v, step.F_ext, step.dt,
        dof_body=step.dof_body,
    )  # fmt: skip
    classic(record, squeezed, "force", 0, old)


# --- with friction -------------------------------------------------------------------------


def frictional(record, step, law: str, d: int, number: int, old: Record | None, form=None) -> Any:
    """One step, by the default backend and another."""
    problem = cdopt.FrictionalCD(step, law, *([] if form is None else [form]))
    given, soft = of_step(step, d), law == "coulomb"
    form = form or ("velocity" if hasattr(step, "M") else "force")
    try:
        solution = problem.solve()
    except cdopt.SolveFailed as error:
        failed(record, "", error)
        if hasattr(step, "M"):
            bias = np.zeros((step.nc, d))
            bias[:, 0] = step.phi / step.dt + step.gap_rate
            bias[:, 1:] = step.friction.rate
            mu = np.asarray(step.friction.mu)
            proof(record, "", error, all_rows(step, d), bias.ravel(), None, mu)
        probes(record, problem.data, given, old)
        return None
    verdict(record, "", solution)
    if solution.f is None:
        return None
    stored(record, solution, solution.v_next)
    step_answer(record, step, solution, form, d, soft=soft)
    probes(record, problem.data, given, old)
    if number % 3 == 0:
        other = CONES[number // 3 % len(CONES)]
        if soft or other == "clarabel":
            try:
                verdict(record, f"{other}: ", problem.solve(other, check=False))
            except cdopt.CdoptError as error:
                failed(record, f"{other}: ", error)
    return solution


def _friction(d: int, law: str) -> Callable[..., None]:
    def recorded(record, rng, number, old) -> None:
        decades = (1.0, 1.0, 1.0, 3.0, 7.0)[number % 5]
        net = problems.network(rng, d, decades, many=number % 7 == 0)
        step = problems.step(rng, net, friction=True)
        form = "force" if number % 4 == 0 else None
        solution = frictional(record, step, law, d, number, old, form)
        if solution is not None and solution.ok and number % 5 == 1 and law == "associated":
            indeterminacy(record, step, law, d)

    return recorded


for _d in (2, 3):
    for _law in problems.LAWS:
        family(130, f"friction {_d}D {_law}")(_friction(_d, _law))


@family(80, "delassus friction")
def _delassus_friction(record, rng, number, old) -> None:
    d = 2 + number % 2
    net = problems.network(rng, d, many=number % 3 == 0)
    step = problems.delassus(rng, net, friction=True)
    frictional(record, step, problems.LAWS[number // 2 % 2], d, number, old)


@family(30, "squeezed friction")
def _squeezed_friction(record, rng, number, old) -> None:
    d = 2 + number % 2
    net = problems.network(rng, d)
    step = problems.step(rng, net, friction=True)
    nc = step.nc
    phi = np.append(step.phi, -step.dt * 10.0 ** rng.uniform(-3, 1) - np.abs(step.phi).sum())
    push = -(rng.uniform(0.1, 1.0, (1, nc)) @ net.normal)
    sliding = np.vstack([net.tangential, rng.standard_normal((d - 1, len(net.M)))])
    squeezed = cdopt.ContactStep(
        step.M, np.vstack([net.normal, push]), phi, step.v, step.F_ext, step.dt,
        friction=cdopt.Friction(rng.choice([0.0, 0.3], nc + 1), sliding), dof_body=step.dof_body,
    )  # fmt: skip
    frictional(record, squeezed, problems.LAWS[number // 2 % 2], d, 1, old)


@family(100, "compatible friction")
def _compatible_friction(record, rng, number, old) -> None:
    d = 2 + number % 2
    step = problems.resting(rng, problems.network(rng, d, many=number % 2 == 0), 0.5)
    law, flow = problems.LAWS[number // 2 % 2], ("coulomb", "associated")[number // 4 % 2]
    formulation = cdopt.CompatibleFriction(step, law, flow)
    try:
        forces = formulation.solve()
        record.put("ok", forces.ok)
        f = np.column_stack([forces.f, forces.f_t])
        record.put("f", f, 10.0 * np.abs(f).max(initial=0.0))
    except cdopt.CdoptError as error:
        failed(record, "", error)
        return
    if number % 3 == 0:
        indeterminacy(record, step, law, d)
    else:
        derivatives(record, lambda: cdopt.sensitivity(step, law=law, flow=flow), f)


@family(40, "limit load")
def _limit_load(record, rng, number, old) -> None:
    d = 2 + number % 2
    net = problems.network(rng, d, many=True)
    step = problems.resting(rng, net, 0.5)
    live = rng.standard_normal(len(net.M)) * np.abs(step.F_ext).mean()
    try:
        limit = cdopt.limit_load(step, live, law=problems.LAWS[number // 2 % 2])
    except cdopt.CdoptError as error:
        failed(record, "", error)
        return
    size = max(1.0, abs(limit.value)) if np.isfinite(limit.value) else 1.0
    record.put("value limit", limit.value, size)
    record.put("bound limit", limit.bound, size)
    record.put("ok", limit.ok)


# --- elastic -------------------------------------------------------------------------------


def truss_given(truss: Any, B: np.ndarray, load: np.ndarray) -> Given:
    """Forces and displacements of the size that the load causes."""
    force = (np.abs(load).max(initial=0.0) or 1.0) / (np.abs(B).max(initial=0.0) or 1.0)
    return Given(
        len(B), np.zeros(B.shape[1]), lambda f: -np.linalg.pinv(B) @ f / force, force, True
    )


def static(record, truss: Any, given: dict, power: float, old: Record | None) -> Any:
    """One truss by the default backend, and by Clarabel."""
    B, load = np.asarray(given["B"]), given.get("contact_load")
    load = -np.asarray(given["applied"]) if load is None else load
    try:
        solution = truss.solve()
    except cdopt.CdoptError as error:
        failed(record, "", error)
        if "free_dofs" not in given and "phi" not in given:
            proof(record, "", error, B, None, load)
        probes(record, truss.data, truss_given(truss, B, load), old)
        return None
    verdict(record, "", solution)
    if solution.f is None:
        return None
    u = solution.u if solution.u is not None else solution.dual
    stored(record, solution, u)
    truss_answer(record, solution, B, power)
    probes(record, truss.data, truss_given(truss, B, load), old)
    return solution


def _truss(power: float) -> Callable[..., None]:
    def recorded(record, rng, number, old) -> None:
        decades = (0.5, 0.5, 0.5, 0.5, 3.0, 8.0)[number % 6]
        net = problems.network(rng, 2 + number % 2, many=number % 3 > 0)
        given = problems.static(rng, net, decades)
        form = ("complementary", "potential")[number // 2 % 2]
        truss = cdopt.NoTensionTruss(**given, power=power, form=form)
        solution = static(record, truss, given, power, old)
        if solution is not None and solution.ok and number % 5 == 0:
            derivatives(record, lambda: cdopt.sensitivity(truss), column(solution.f))

    return recorded


for _p in problems.POWERS:
    family(75, f"truss p={_p:g}")(_truss(_p))


@family(40, "unreachable load")
def _unreachable(record, rng, number, old) -> None:
    net = problems.network(rng, 2 + number % 2)
    given = {"B": net.normal, "contact_load": -net.normal.T @ rng.uniform(0.1, 1.0, len(net.B))}
    power = problems.POWERS[number % 4]
    static(record, cdopt.NoTensionTruss(**given, power=power), given, power, old)


@family(80, "quasi-static")
def _quasi_static(record, rng, number, old) -> None:
    net = problems.network(rng, 2 + number % 2, many=number % 2 == 0)
    given = problems.static(rng, net, 0.5)
    given["applied"] = -given.pop("contact_load")
    given["phi"] = rng.uniform(-0.5, 1.0, len(net.B))
    power = problems.POWERS[number // 2 % 4]
    form = ("potential", "complementary")[number // 8 % 2]
    static(record, cdopt.QuasiStatic(**given, power=power, form=form), given, power, old)


@family(80, "compliant")
def _compliant(record, rng, number, old) -> None:
    net = problems.network(rng, 2 + number % 2, many=number % 3 == 0)
    step = problems.step(rng, net, restitution=0.0)
    kappa, power = 10.0 ** rng.uniform(0, 6), problems.POWERS[number % 4]
    form = ("force", "velocity")[number // 4 % 2]
    dynamic(record, cdopt.CompliantCD(step, power, kappa, form), step, form, old)


def dynamic(record, problem: Any, step: Any, form: str, old: Record | None, bonded=False) -> None:
    """An elastic step by the default backend."""
    try:
        solution = problem.solve()
    except cdopt.CdoptError as error:
        failed(record, "", error)
        return
    verdict(record, "", solution)
    if solution.f is None:
        return
    motion = solution.v_next
    if solution.mom is None:
        stored(record, solution, motion)
        step_answer(record, step, solution, form, forces=False)
        probes(record, problem.data, of_step(step), old)
    else:
        motion = solution.u / step.dt
        stored(record, solution, motion)
        terms = np.abs(step.v) + np.abs(motion - step.v) + np.abs(motion)
        record.put("v_next", motion, terms.max(initial=0.0))
        M = dense(step.M)
        record.put("mom", solution.mom, np.abs(M) @ np.full(len(M), terms.max(initial=0.0)))
        size = max(abs(solution.objective), RESOLVED * energy_of(step))
        record.put("objective", solution.objective, size)
        if not bonded:
            probes(record, problem.data, of_step(step), old)
    f = np.asarray(solution.f)
    record.put("f", f, 10.0 * np.abs(f).max(initial=0.0))


@family(120, "variational")
def _variational(record, rng, number, old) -> None:
    net = problems.network(rng, 2 + number % 2, many=number % 3 == 0)
    nc = len(net.B)
    step = problems.step(rng, net, restitution=0.0, gap_rate=0.0)
    step = step.replace(stiffness=step.stiffness * 10.0 ** rng.uniform(2, 5))
    given: dict[str, Any] = {
        "alpha": (0.5, 0.5, 0.3, 0.8)[number % 4], "power": problems.POWERS[number // 2 % 4],
        "form": ("velocity", "force")[number // 3 % 2],
    }  # fmt: skip
    if number % 3 == 1:
        given["damping_matrix"] = net.normal.T @ (rng.uniform(0, 5, (nc, 1)) * net.normal)
        given["damping"] = ("forced", "paper")[number // 3 % 2]
    if number % 4 == 2 and given["power"] == 2.0:
        given["two_sided"] = rng.random(nc) < 0.4
    problem = cdopt.VariationalStep(step, net.M @ step.v, **given)
    dynamic(record, problem, step, given["form"], old, "two_sided" in given)


@family(125, "compatible")
def _compatible(record, rng, number, old) -> None:
    net = problems.network(rng, 2 + number % 2, many=number % 3 > 0)
    step = problems.step(rng, net)
    power = problems.POWERS[number % 4]
    form = ("potential", "complementary")[number // 4 % 2]
    problem = cdopt.CompatibleCD(step, power, form)
    try:
        solution = problem.solve()
    except cdopt.CdoptError as error:
        failed(record, "", error)
        return
    verdict(record, "", solution)
    if solution.f is None:
        return
    classic_solution = solution.classic
    step_answer(record, step, classic_solution, "force", name="classic ", forces=False)
    f = np.asarray(solution.f)
    record.put("f", f, 100.0 * np.abs(f).max(initial=0.0))
    record.put("closed", len(problem.network(classic_solution).contacts))
    if number % 5 == 0 and solution.ok:
        derivatives(record, lambda: cdopt.sensitivity(step, power), column(f))


# --- what is not determined -------------------------------------------------------------------


def indeterminacy(record: Record, step: Any, law: str | None = None, d: int = 1) -> None:
    """Rank, nullity and bounds of all forces."""
    try:
        report = cdopt.indeterminacy(step, **({} if law is None else {"law": law}))
    except cdopt.CdoptError as error:
        failed(record, "bounds ", error)
        return
    for name in ("rank", "nullity", "dimension"):
        record.put(name, getattr(report, name))
    record.put("closed", np.count_nonzero(report.closed))
    lower, upper = adapters.bounds(report, d)
    finite = np.abs(np.concatenate([lower, upper]))
    unit = finite[np.isfinite(finite)].max(initial=0.0)
    record.put("unbounded", report.unbounded)
    record.put("lower bounds", lower, unit)
    record.put("upper bounds", upper, unit)
    if law is None:
        record.put("unique", np.asarray(report.unique))
        try:
            states = dense(report.self_stress)
        except cdopt.Unsupported:
            return
        if states.size:
            projector = np.linalg.pinv(states) @ states
            record.put("self-stress looseness", np.diag(projector), 1.0)
            products = dense(step.B if hasattr(step, "M") else step.N).T @ states.T
            record.put("self-stress violation", np.abs(products).max() / np.abs(states).max())


def column(f: Any) -> np.ndarray:
    """(nc, 1)."""
    return np.asarray(f)[:, None]


def derivatives(record: Record, make: Callable[[], Any], f: np.ndarray, along=True) -> None:
    """Of a weighted sum of all forces f (nc, d), whose size is the unit where they cancel.

    And of all forces ``along`` one change of stiffness.
    """
    shape = f.shape
    weights = np.random.default_rng(1).standard_normal(shape)
    try:
        given = make()
        record.put("two-sided", given.two_sided)
        gradient = adapters.gradient(given, weights)
        if along:
            change = given.along(log_stiffness=weights[:, 0])
            size = np.abs(weights).max() * np.abs(f).sum()
            record.put("along derivative", np.ravel(change), size)
    except cdopt.CdoptError as error:
        failed(record, "derivative ", error)
        return
    for name in ("log_stiffness", "load", "power", "log_ratio", "mu"):
        value = getattr(gradient, name, None)
        if value is not None and not np.all(np.isnan(value)):
            size = np.abs(value)
            size = size[np.isfinite(size)].max(initial=0.0)
            unit = 0.0 if name == "load" else float(np.sum(np.abs(weights * f)))
            record.put(f"{name} derivative", value, max(size, unit))
