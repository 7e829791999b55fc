"""Compatible forces of rank-deficient steps against differences in forty digits.

Rows of contacts depend on each other, and bodies have a motion that no contact holds. Changes of
rows and gaps keep the contacts together: B (1 + t X) and t B y.
"""

from __future__ import annotations

from typing import Any

import exact
import numpy as np
import pytest
from exact import mp
from steps import exactly
from test_exact_elastic import SEEDS, compare, dot, fall, law, symmetric

import cdopt
from cdopt import gradients

RANK, NV = 4, 5


def deficient(rng: np.random.Generator, rows: int) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """G (rows, NV) of rank ``RANK``, and data of a step with their directions."""
    G, root = rng.standard_normal((rows, RANK)) @ rng.standard_normal((RANK, NV)), np.eye(NV)
    root = root + 0.3 * rng.standard_normal((NV, NV))
    data = {"M": root @ root.T, "G": G, "v": 1e-3 * rng.standard_normal(NV), "dt": 1e-2}
    ways = {k: rng.standard_normal(np.shape(v)) for k, v in data.items()}
    ways |= {"M": symmetric(ways["M"]), "dt": 1e-2, "G": 0.3 * G @ rng.standard_normal((NV, NV))}
    return G, data, ways


def motion_of(d: dict[str, Any], rates: Any, z: Any, f: Any) -> list[Any]:
    """What is left of the motion z, with reactions, and of balance by the forces f of a network.

    z has v⁺ (NV), RANK reactions of the first rows, and u (NV), of which another row is held.
    """
    v, a, u, G = z[:NV], z[NV : NV + RANK], z[NV + RANK : 2 * NV + RANK], d["G"]
    jump = [dot(d["M"], j, [v[k] - d["v"][k] for k in range(NV)]) for j in range(NV)]
    out = [
        jump[j] - d["dt"] * (d["F_ext"][j] + sum(G[i, j] * a[i] for i in range(RANK)))
        for j in range(NV)
    ]
    out += [dot(G, i, v) + rates[i] for i in range(RANK)]
    out += [fall(G, j, f) + d["F_ext"][j] - jump[j] / d["dt"] for j in range(RANK)]
    return [*out, sum(u)]


def slope_of(data: dict[str, Any], ways: dict[str, Any], start: Any, forces: Any) -> Any:
    """The derivatives of v⁺ and of forces; ``forces(d, y)`` gives these of overlaps y = −G u."""
    rows, many = data["G"].shape[0], 2 * NV + RANK
    at, along = exactly(data), exactly(ways)

    def equations(z: Any, t: Any) -> list[Any]:
        d = exact.shifted(at, along, t)
        f = z[many:]
        rates = [d["phi"][i] / d["dt"] + d["rate"][i] for i in range(rows)]
        u = z[NV + RANK : many]
        found = forces(d, [-dot(d["G"], i, u) for i in range(rows)])
        return [*motion_of(d, rates, z, f), *(f[i] - found[i] for i in range(rows))]

    _, slope = exact.slope_along(equations, list(map(mp.mpf, start)), mp.mpf(10) ** -12)
    return np.array(slope[:NV], dtype=float), np.array(slope[many:], dtype=float)


def start_of(data: dict[str, Any], v: Any, f: Any, u: Any) -> list[float]:
    """Where Newton's method begins: motion, reactions of the first rows, u and forces."""
    jump = data["M"] @ (v - data["v"]) / data["dt"] - data["F_ext"]
    a = np.linalg.lstsq(data["G"][:RANK].T, jump, rcond=None)[0]
    return [*v, *a, *(u - u.sum() * null_of(data["G"])), *f]


def null_of(G: Any) -> Any:
    """The motion that no row sees, of sum one."""
    way = np.linalg.svd(G)[2][-1]
    return way / way.sum()


@pytest.mark.parametrize("power", [1.5, 2.0, 2.5])
@pytest.mark.parametrize("seed", SEEDS)
def test_without_friction(seed: int, power: float) -> None:
    rng, nc = np.random.default_rng(100 + seed), 8
    G, data, ways = deficient(rng, nc)
    load = G.T @ rng.uniform(0.2, 2.0, nc) + 0.1 * null_of(G)
    y, drift = 1e-3 * rng.standard_normal((2, NV))
    data |= {"F_ext": -load, "phi": np.zeros(nc), "rate": G @ drift, "power": power}
    data["stiffness"] = rng.uniform(0.5, 2.0, nc)
    ways |= {"F_ext": rng.standard_normal(NV), "phi": G @ y, "power": 0.1}
    # the rows that are shifted move with B
    ways["rate"] = ways["G"] @ drift
    ways["stiffness"] = rng.standard_normal(nc)
    step = cdopt.ContactStep(
        data["M"], G, data["phi"], data["v"], -load, data["dt"], gap_rate=data["rate"],
        stiffness=data["stiffness"], power=power,
    )  # fmt: skip
    problem = cdopt.CompatibleCD(step)
    solution = problem.solve("newton", accuracy=1e-14)
    presses = solution.f > 1e-7 * solution.f.max()
    with mp.workdps(exact.DIGITS):

        def forces(d: dict[str, Any], y: Any) -> list[Any]:
            return [law(d, presses, i, y[i]) for i in range(nc)]

        v, f, u = np.asarray(solution.v_next), solution.f, np.asarray(solution.u)
        dv, df = slope_of(data, ways, start_of(data, v, f, u), forces)
    given = {("gap_rate" if k == "rate" else "B" if k == "G" else k): w for k, w in ways.items()}
    compare(gradients.of(problem, solution), given, {"v_next": dv, "f": df})


def network_forces(d: dict[str, Any], y: Any, faces: Any, width: int, flow: str) -> list[Any]:
    """Forces (n · width) of contacts that are open (0), stick (1) or slip (2) at overlaps y."""
    found: list[Any] = []
    for i, face in enumerate(faces):
        k, ratio, mu = d["stiffness"][i], d["stiffness_ratio"][i], d["mu"][i]
        own = [k * (1 if j == 0 else ratio) * y[i * width + j] for j in range(width)]
        size = mp.sqrt(sum(x * x for x in own[1:]))
        if face == 2:
            n = own[0] if flow == "coulomb" else (ratio * own[0] + mu * size) / (ratio + mu**2)
            own = [n, *(mu * n * x / size for x in own[1:])]
        found += [mp.mpf(0)] * width if face == 0 else own
    return found


@pytest.mark.parametrize("flow", ["coulomb", "associated"])
@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("seed", SEEDS)
def test_with_friction(seed: int, d: int, flow: str) -> None:
    rng, nc = np.random.default_rng(200 + 10 * seed + d), 5
    G, data, ways = deficient(rng, nc * d)
    first, ones = np.arange(nc) * d, rng.uniform(0.5, 2.0, nc)
    tangent = np.setdiff1d(np.arange(nc * d), first)
    inside = np.zeros(nc * d)
    inside[first] = ones
    inside[tangent] = 0.2 * np.repeat(ones, d - 1) * rng.uniform(-1.0, 1.0, tangent.size)
    y = 1e-3 * rng.standard_normal(NV)
    data |= {"F_ext": -(G.T @ inside) - 0.1 * null_of(G), "phi": np.zeros(nc * d)}
    data |= {"rate": np.zeros(nc * d), "mu": rng.uniform(0.3, 0.8, nc)}
    data |= {"stiffness": rng.uniform(0.5, 2.0, nc), "stiffness_ratio": rng.uniform(0.5, 1.0, nc)}
    names = ("F_ext", "mu", "stiffness", "stiffness_ratio")
    ways |= {name: rng.standard_normal(data[name].shape) for name in names}
    phi, rate = np.zeros(nc * d), G @ y
    phi[first], rate[first] = data["dt"] * rate[first], 0.0
    ways |= {"phi": phi, "rate": rate}
    shape = (nc, d - 1)
    friction = cdopt.Friction(
        data["mu"], G[tangent], stiffness_ratio=data["stiffness_ratio"], rate=np.zeros(shape)
    )
    step = cdopt.ContactStep(
        data["M"], G[first], np.zeros(nc), data["v"], data["F_ext"], data["dt"],
        stiffness=data["stiffness"], friction=friction,
    )  # fmt: skip
    problem = cdopt.CompatibleFriction(step, flow=flow)
    motion = problem.problem.solve("newton", accuracy=1e-13)
    assert np.abs(G @ motion.v_next).max() < 1e-9  # all rest
    try:
        forces = problem.network(motion).solve()
    except cdopt.SolveFailed:
        if flow != "coulomb":  # whose micro-slip need not have an answer
            raise
        pytest.skip("no forces with Coulomb's micro-slip")
    size = np.linalg.norm(forces.f_t, axis=1)
    slips = size > (1.0 - 1e-7) * data["mu"] * forces.f
    faces = np.where(forces.f <= 1e-9, 0, np.where(slips, 2, 1))
    rows = np.hstack([forces.f[:, None], forces.f_t]).ravel()
    with mp.workdps(exact.DIGITS):

        def of(at: dict[str, Any], overlaps: Any) -> list[Any]:
            return network_forces(at, overlaps, faces, d, flow)

        start = start_of(data, np.asarray(motion.v_next), rows, np.asarray(forces.u))
        dv, df = slope_of(data, ways, start, of)
    given = {name: ways[name] for name in ("M", "v", "dt", *names)}
    given |= {"B": ways["G"][first], "B_t": ways["G"][tangent], "phi": phi[first]}
    given |= {"rate": rate[tangent].reshape(shape)}
    table = df.reshape(nc, d)
    derivatives = gradients.of(problem, motion, tol=1e-6)
    compare(derivatives, given, {"v_next": dv, "f": table[:, 0], "f_t": table[:, 1:]})
