"""Elastic, soft and variational steps, trusses and equilibria against differences in 40 digits."""

from __future__ import annotations

from typing import Any

import exact
import numpy as np
import pytest
from exact import mp
from steps import exactly, pairing

import cdopt
from cdopt import gradients

ALPHA = 0.4
SEEDS = [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 20))]


def symmetric(x: Any) -> Any:
    return x + x.T


def base(rng: np.random.Generator, nc: int, nv: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Data of an elastic step, and a direction of each."""
    root, dt = rng.standard_normal((nv, nv)), 1e-2
    data = {
        "M": root @ root.T + nv * np.eye(nv),
        "B": rng.standard_normal((nc, nv)),
        "phi": rng.uniform(-0.02, 0.005, nc),
        "v": rng.standard_normal(nv),
        "F_ext": rng.standard_normal(nv),
        "gap_rate": 0.1 * rng.standard_normal(nc),
        "stiffness": 1e4 * rng.uniform(0.5, 2.0, nc),
        "power": 2.5,
        "dt": dt,
    }
    row = data["B"][0]
    data["phi"][0] = -0.05  # one that presses, and closes
    data["v"] -= row * (row @ data["v"] + 1.0) / (row @ row)
    ways = {k: np.abs(v).max() * rng.standard_normal(np.shape(v)) for k, v in data.items()}
    return data, {**ways, "M": symmetric(ways["M"]), "power": 0.3, "dt": 0.01}


def step_of(data: dict[str, Any], **more: Any) -> cdopt.ContactStep:
    names = ("M", "B", "phi", "v", "F_ext")
    return cdopt.ContactStep(
        *(data[k] for k in names), data["dt"], gap_rate=data["gap_rate"],
        stiffness=data["stiffness"], power=data["power"], **more,
    )  # fmt: skip


def dot(matrix: Any, i: int, x: Any) -> Any:
    return sum(matrix[i, j] * x[j] for j in range(matrix.cols))


def fall(matrix: Any, j: int, f: Any) -> Any:
    return sum(matrix[i, j] * f[i] for i in range(matrix.rows))


def compare(derivatives: Any, ways: dict[str, Any], expected: dict[str, Any]) -> None:
    """Both directions: right to 1e-8, and adjoint to each other."""
    tangent = derivatives.jvp(**ways)
    for name, value in expected.items():
        value = np.array(value, dtype=float).reshape(tangent[name].shape)
        assert np.abs(tangent[name] - value).max() <= 1e-8 * np.abs(value).max(), name
    rng = np.random.default_rng(1)
    weights = {k: rng.standard_normal(shape) for k, shape in derivatives.outputs.items()}
    size = sum(float(np.abs(tangent[k] * w).sum()) for k, w in weights.items())
    ahead = sum(float(np.sum(tangent[k] * w)) for k, w in weights.items())
    assert abs(ahead - pairing(derivatives.vjp(**weights), ways)) <= 1e-10 * size


def law(data: dict[str, Any], presses: Any, i: int, overlap: Any) -> Any:
    if not presses[i]:
        return mp.mpf(0)
    return data["stiffness"][i] * overlap ** (data["power"] - 1)


@pytest.mark.parametrize("seed", SEEDS)
def test_compliant_steps(seed: int) -> None:
    rng = np.random.default_rng(seed)
    data, ways = base(rng, 4, 5)
    problem = cdopt.CompliantCD(step_of(data))
    solution = problem.solve("newton", accuracy=1e-13)
    presses = solution.f > 0.0
    assert presses.sum() > 0
    with mp.workdps(exact.DIGITS):
        at, along = exactly(data), exactly(ways)

        def equations(z: Any, t: Any) -> list[Any]:
            d = exact.shifted(at, along, t)
            B, v, f, dt = d["B"], z[:5], z[5:], d["dt"]
            out = [
                dot(d["M"], j, [v[k] - d["v"][k] for k in range(5)])
                - dt * (d["F_ext"][j] + fall(B, j, f))
                for j in range(5)
            ]
            for i in range(4):
                c = -dt * (dot(B, i, v) + d["gap_rate"][i]) - d["phi"][i]
                out.append(f[i] - law(d, presses, i, c))
            return out

        start = [mp.mpf(float(x)) for x in (*solution.v_next, *solution.f)]
        _, slope = exact.slope_along(equations, start, mp.mpf(10) ** -12)
    compare(gradients.of(problem, solution), ways, {"v_next": slope[:5], "f": slope[5:]})


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("seed", SEEDS)
def test_soft_steps(seed: int, d: int) -> None:
    """Every other one with a rigid joint."""
    rng = np.random.default_rng(10 + d + 10 * seed)
    nc, nv, nj = 3, 6, seed % 2
    data, ways = base(rng, nc, nv)
    R = 1e-2 * rng.uniform(0.5, 2.0, nc).repeat(d)
    data |= {"compliance": R, "power": 2.0}
    ways |= {"compliance": 1e-3 * rng.standard_normal(nc).repeat(d)}
    more: dict[str, Any] = {}
    if d > 1:
        B_t, rate = rng.standard_normal((nc * (d - 1), nv)), rng.standard_normal((nc, d - 1))
        data |= {"mu": rng.uniform(0.1, 0.4, nc), "B_t": B_t, "rate": rate}
        ways |= {k: rng.standard_normal(np.shape(data[k])) for k in ("mu", "B_t", "rate")}
        more = {"friction": cdopt.Friction(data["mu"], B_t, rate)}
    if nj:
        data |= {"J": rng.standard_normal((nj, nv)), "joint_rate": rng.standard_normal(nj)}
        ways |= {k: rng.standard_normal(np.shape(data[k])) for k in ("J", "joint_rate")}
        more["joints"] = cdopt.Joints(data["J"], data["joint_rate"])
    for name in ("stiffness", "power"):
        ways.pop(name)
    problem = cdopt.SoftCD(step_of(data, **more), R)
    solution = problem.solve("newton", accuracy=1e-13)
    rows = np.asarray(solution.iterate.forces).reshape(nc, d)
    inside = np.linalg.norm(rows[:, 1:], axis=1) < (1.0 - 1e-6) * data.get("mu", 0.0) * rows[:, 0]
    presses = rows[:, 0] > 1e-9
    assert presses.any()
    assert d == 1 or seed > 1 or not inside[presses].all()
    with mp.workdps(exact.DIGITS):
        at = exactly({**data, "restitution": np.zeros(nc)})
        along = exactly(ways)

        def equations(z: Any, t: Any) -> list[Any]:
            s = exact.shifted(at, along, t)
            G, b, _ = exact.rows_of(s)
            v, f, held = z[:nv], z[nv : nv + nc * d], z[nv + nc * d :] if nj else []
            out = [
                dot(s["M"], j, [v[k] - s["v"][k] for k in range(nv)])
                - s["dt"] * (s["F_ext"][j] + fall(G, j, f))
                - s["dt"] * sum(s["J"][i, j] * held[i] for i in range(nj))
                for j in range(nv)
            ]
            out += [dot(s["J"], i, v) + s["joint_rate"][i] for i in range(nj)]
            for i in range(nc):
                g = [
                    dot(G, r, v) + b[r] + s["compliance"][r] * f[r] for r in range(i * d, i * d + d)
                ]
                own = [f[r] for r in range(i * d, i * d + d)]
                if not presses[i]:
                    out += own
                elif d == 1 or inside[i]:
                    out += g
                else:
                    size, mu = mp.sqrt(sum(x * x for x in g[1:])), s["mu"][i]
                    out.append(g[0] - mu * size)
                    out += [x * size + mu * own[0] * y for x, y in zip(own[1:], g[1:], strict=True)]
            return out

        reactions = solution.joint_forces if nj else []
        start = [mp.mpf(float(x)) for x in (*solution.v_next, *rows.ravel(), *reactions)]
        _, slope = exact.slope_along(equations, start, mp.mpf(10) ** -12)
    table = np.array(slope[nv : nv + nc * d], dtype=float).reshape(nc, d)
    expected = {"v_next": slope[:nv], "f": table[:, 0]}
    expected |= {"joint_forces": slope[nv + nc * d :]} if nj else {}
    compare(
        gradients.of(problem, solution), ways, expected | ({} if d == 1 else {"f_t": table[:, 1:]})
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_variational_steps(seed: int) -> None:
    rng = np.random.default_rng(20 + seed)
    nc, nv = 4, 5
    data, ways = base(rng, nc, nv)
    root = rng.standard_normal((nv, nv))
    own = {"mom": data["M"] @ data["v"], "damping_matrix": root @ root.T}
    turned = {"mom": rng.standard_normal(nv), "damping_matrix": symmetric(root)}
    ways.pop("v")
    problem = cdopt.VariationalStep(
        step_of({**data, "v": np.zeros(nv)}), own["mom"], alpha=ALPHA,
        damping_matrix=own["damping_matrix"],
    )  # fmt: skip
    solution = problem.solve("newton", accuracy=1e-13)
    presses = solution.f > 0.0
    ways = {**ways, **turned}
    with mp.workdps(exact.DIGITS):
        at, along = exactly({**data, **own}), exactly(ways)

        def equations(z: Any, t: Any) -> list[Any]:
            d = exact.shifted(at, along, t)
            B, u, f, mom, h = d["B"], z[:nv], z[nv : nv + nc], z[nv + nc :], d["dt"]
            half = [dot(d["damping_matrix"], j, u) / 2 for j in range(nv)]
            load = [d["F_ext"][j] + fall(B, j, f) for j in range(nv)]
            moved = [dot(d["M"], j, u) / h for j in range(nv)]
            out = [
                d["mom"][j] - moved[j] + h * (1 - mp.mpf(ALPHA)) * load[j] - half[j]
                for j in range(nv)
            ]
            for i in range(nc):
                g = d["phi"][i] + mp.mpf(ALPHA) * (h * d["gap_rate"][i] + dot(B, i, u))
                out.append(f[i] - law(d, presses, i, -g))
            out += [mom[j] - moved[j] - h * mp.mpf(ALPHA) * load[j] + half[j] for j in range(nv)]
            return out

        start = [mp.mpf(float(x)) for x in (*solution.u, *solution.f, *solution.mom)]
        _, slope = exact.slope_along(equations, start, mp.mpf(10) ** -12)
    expected = {"u": slope[:nv], "f": slope[nv : nv + nc], "mom": slope[nv + nc :]}
    compare(gradients.of(problem, solution), ways, expected)


@pytest.mark.parametrize("power", [1.5, 2.0, 2.5])
@pytest.mark.parametrize("seed", SEEDS)
def test_trusses_and_equilibria(seed: int, power: float) -> None:
    rng = np.random.default_rng(31 + seed)
    nc, nv = 6, 3
    B = np.abs(rng.standard_normal((nc, nv)))
    data = {"B": B, "stiffness": 1e3 * rng.uniform(0.5, 2.0, nc), "power": power}
    load, phi = 10.0 * B.T @ rng.uniform(0.5, 1.0, nc), 0.01 * rng.uniform(-1.0, 1.0, nc)
    truss = cdopt.NoTensionTruss(B, load, data["stiffness"], power)
    rest = cdopt.QuasiStatic(B, phi, -load, data["stiffness"], power)
    for problem, name, sign in ((truss, "contact_load", 1), (rest, "applied", -1)):
        solution = problem.solve("newton", accuracy=1e-14)
        presses = solution.f > 0.0
        assert nv <= presses.sum()
        more = {"phi": phi} if problem is rest else {}
        every = {**data, name: sign * load, **more}
        ways = {k: rng.standard_normal(np.shape(v)) for k, v in every.items()}
        ways |= {"power": 0.1, **({"phi": 0.01 * ways["phi"]} if more else {})}
        with mp.workdps(exact.DIGITS):
            at, along = exactly(every), exactly(ways)

            def equations(
                z: Any, t: Any, at: Any = at, along: Any = along, name: str = name,
                sign: int = sign, presses: Any = presses,
            ) -> list[Any]:  # fmt: skip
                d = exact.shifted(at, along, t)
                u, f = z[:nv], z[nv:]
                out = [fall(d["B"], j, f) - sign * d[name][j] for j in range(nv)]
                for i in range(nc):
                    gap = dot(d["B"], i, u) + (d["phi"][i] if "phi" in d else 0)
                    out.append(f[i] - law(d, presses, i, -gap))
                return out

            start = [mp.mpf(float(x)) for x in (*solution.u, *solution.f)]
            _, slope = exact.slope_along(equations, start, mp.mpf(10) ** -12)
        compare(gradients.of(problem, solution), ways, {"f": slope[nv:]})
