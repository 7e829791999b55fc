"""What is not unique is refused by name; at kinks there are one-sided derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cdopt
from cdopt import gradients

FEET = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
B = np.column_stack([np.ones(4), FEET[:, 1], -FEET[:, 0]])


def table(phi: Any = 0.0, F_ext: Any = (-20.0, 1.0, 2.0), **more: Any) -> cdopt.ContactStep:
    """A plate on four legs."""
    gaps = np.broadcast_to(phi, 4)
    return cdopt.ContactStep(np.diag([2.0, 1.0, 1.5]), B, gaps, np.zeros(3), F_ext, 1e-2, **more)


def ball(phi: Any = (0.0, 0.0), **more: Any) -> cdopt.ContactStep:
    """A ball on the floor that just touches a wall."""
    return cdopt.ContactStep(np.eye(2), [[0, 1], [1, 0]], phi, [0, 0], [0, -10.0], 1e-2, **more)


def test_forces_of_a_table_are_refused_and_their_sum_is_not() -> None:
    derivatives = gradients.of(cdopt.ClassicCD(table()))
    assert derivatives.loose.tolist() == [0, 1, 2, 3]
    assert set(derivatives.outputs) == {"v_next", "load"}
    with pytest.raises(cdopt.Unsupported, match=r"contacts 0, 1, 2, 3 .*CompatibleCD"):
        derivatives.vjp(f=[1.0, 0.0, 0.0, 0.0])
    np.testing.assert_allclose(derivatives.vjp(f=np.ones(4))["F_ext"], [-1, 0, 0], atol=1e-12)
    with pytest.raises(cdopt.InvalidInput, match="no such result"):
        derivatives.vjp(speed=[1.0])
    with pytest.raises(cdopt.InvalidInput, match="no such data"):
        derivatives.jvp(speed=[1.0])


def test_the_motion_of_a_table_has_its_derivatives() -> None:
    step = table()
    derivatives = gradients.of(cdopt.ClassicCD(step))
    tilted = np.array([1.0, 1.0, 0.0, 0.0])  # the gaps of a tilt about one side
    np.testing.assert_allclose(
        derivatives.jvp(phi=tilted)["v_next"], [-50.0, 0.0, 50.0], atol=1e-10
    )
    for name in ("M", "F_ext", "v"):
        way = np.eye(3) if name == "M" else np.ones(3)
        assert np.abs(derivatives.jvp(**{name: way})["v_next"]).max() < 1e-12
    with pytest.raises(cdopt.Unsupported, match="constrain the same motion"):
        derivatives.jvp(phi=[1.0, 0.0, 0.0, 0.0])


@pytest.mark.parametrize("seed", range(4))
def test_one_leg_longer_than_the_others(seed: int) -> None:
    way, h = np.random.default_rng(seed).standard_normal(4), 1e-7
    sided = gradients.of(cdopt.ClassicCD(table()), on_kink="one-sided").jvp(phi=way)
    moved = cdopt.ClassicCD(table(h * way)).solve("newton", accuracy=1e-14)
    np.testing.assert_allclose(sided["v_next"], moved.v_next / h, rtol=1e-6, atol=1e-5)


def test_a_touching_wall_is_listed_and_one_sided() -> None:
    problem = cdopt.ClassicCD(ball())
    refusing = gradients.of(problem)
    assert [k.contact for k in refusing.kinks] == [1]
    assert refusing.kinks[0].margin < 1e-12
    for product in (refusing.jvp, refusing.vjp):
        name = "F_ext" if product == refusing.jvp else "v_next"
        with pytest.raises(cdopt.Unsupported, match=r"contacts 1 \(margin"):
            product(**{name: [1.0, 0.0]})
    sided = gradients.of(problem, on_kink="one-sided")
    away, into = sided.jvp(F_ext=[1.0, 0.0]), sided.jvp(F_ext=[-1.0, 0.0])
    np.testing.assert_allclose(away["v_next"], [1e-2, 0.0], atol=1e-14)
    np.testing.assert_allclose(into["v_next"], [0.0, 0.0], atol=1e-14)
    np.testing.assert_allclose(into["load"], [1.0, 0.0], atol=1e-12)
    with pytest.raises(cdopt.Unsupported, match="vjp"):
        sided.vjp(v_next=[1.0, 0.0])


def mass_on_floor(F: Any, v: Any, law: str, mu: float = 0.5) -> Any:
    friction = cdopt.Friction([mu], [[1.0, 0, 0], [0, 1.0, 0]])
    step = cdopt.ContactStep(2 * np.eye(3), [[0, 0, 1.0]], [0.0], v, F, 1e-2, friction=friction)
    return cdopt.FrictionalCD(step, law)


def chain(F: Any, v: Any, law: str) -> Any:
    """Masses on a floor in the plane, coupled by their inertia."""
    inertia = 2 * np.eye(4) + 0.5 * (np.eye(4, k=1) + np.eye(4, k=-1))
    B, B_t = (np.kron(np.eye(4), row) for row in ([[0, 1.0]], [[1.0, 0]]))
    friction = cdopt.Friction([0.3, 0.5, 0.4, 0.6], B_t)
    step = cdopt.ContactStep(
        np.kron(inertia, np.eye(2)), B, np.zeros(4), v, F, 1e-2, friction=friction
    )
    return cdopt.FrictionalCD(step, law)


ONSETS = {
    "at the onset of slip": (mass_on_floor, [3.0, 4.0, -10.0], [0.0, 0.0, 0.0], [0]),
    "sliding without force": (mass_on_floor, [0.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0]),
    "three of four": (chain, [3, -10, -5, -10, 4, -10, 1, -10], np.zeros(8), [0, 1, 2]),
}


@pytest.mark.parametrize("law", ["coulomb", "associated"])
@pytest.mark.parametrize("name", ONSETS)
def test_one_side_of_kinks_of_friction(name: str, law: str) -> None:
    make, F, v, kinks = ONSETS[name]
    F, v = np.array(F, dtype=float), np.array(v, dtype=float)
    if name == "sliding without force" and law == "associated":
        v[2] = 0.5  # it separates at μ‖g_T‖
    problem, h = make(F, v, law), 1e-6
    solution = problem.solve("newton", accuracy=1e-14)
    derivatives = gradients.of(problem, solution, on_kink="one-sided")
    assert [k.contact for k in derivatives.kinks] == kinks
    with pytest.raises(cdopt.Unsupported, match="margin"):
        gradients.of(problem, solution).jvp(F_ext=F)
    moved = 0
    rng = np.random.default_rng(4)
    for way in [*np.eye(F.size), *-np.eye(F.size), *rng.standard_normal((8, F.size))]:
        there = make(F + h * way, v, law).solve("newton", accuracy=1e-14)
        found = derivatives.jvp(F_ext=way)
        np.testing.assert_allclose(found["v_next"], (there.v_next - solution.v_next) / h, atol=1e-7)
        np.testing.assert_allclose(found["f"], (there.f - solution.f) / h, atol=1e-5)
        moved += bool(np.abs(found["v_next"]).max() > 1e-4)
    assert moved > 0


def test_kinks_of_friction_without_a_side_name_their_margin() -> None:
    still = mass_on_floor([0.0, 0.0, 0.0], [0.0, 0.0, 0.0], "coulomb")
    problem = mass_on_floor([3.0, 4.0, -10.0], [0.0, 0.0, 0.0], "coulomb")
    for one, way, why in ((still, "F_ext", "neither"), (problem, "mu", "friction changes")):
        derivatives = gradients.of(one, on_kink="one-sided")
        with pytest.raises(cdopt.Unsupported, match=rf"{why}.* 0 \(margin"):
            derivatives.jvp(**{way: 1.0})


def test_an_elastic_wall_that_just_touches() -> None:
    step = ball(stiffness=100.0)
    sided = gradients.of(cdopt.CompliantCD(step), on_kink="one-sided")
    for way in ([1.0, 0.0], [-1.0, 0.0]):
        h = 1e-6
        there = step.moved(F_ext=step.F_ext + h * np.array(way))
        rates = [cdopt.CompliantCD(s).solve("newton", accuracy=1e-14).v_next for s in (there, step)]
        expected = (rates[0] - rates[1]) / h
        np.testing.assert_allclose(sided.jvp(F_ext=way)["v_next"], expected, atol=1e-7)


def test_a_contact_that_presses_in_another_answer_is_no_kink() -> None:
    step = table()
    forces = np.array([10.0, 1.0, 0.0, 9.0])  # admissible? made so by the load it delivers
    step = step.moved(F_ext=-(B.T @ forces))
    solution = cdopt.ClassicCD(step).solve()
    at_vertex = cdopt.ClassicCD(step)
    answer = at_vertex.solve("lcp")
    assert solution.ok
    assert answer.ok
    for one in (solution, answer):
        derivatives = gradients.of(cdopt.ClassicCD(step), one)
        assert derivatives.kinks == ()
        assert np.abs(derivatives.jvp(F_ext=[1.0, 2.0, 3.0])["v_next"]).max() < 1e-10


@pytest.mark.parametrize("backend", ["newton", "lcp"])
def test_a_vertex_of_the_forces_of_a_pyramid_has_no_kink(backend: str) -> None:
    """Dozens of contacts carry nothing there, and press in other answers."""
    step = cdopt.bank.load("pyramid-hooke:n=4").step
    problem = cdopt.ClassicCD(step)
    derivatives = gradients.of(problem, problem.solve(backend))
    assert derivatives.kinks == ()
    supported = step.B.T @ np.ones(step.nc)
    held = derivatives.jvp(F_ext=-supported)  # the contacts bear it, and nothing moves
    np.testing.assert_allclose(held["load"], supported, atol=1e-8 * np.abs(supported).max())


def test_compatible_forces_share_the_derivatives_of_sensitivity() -> None:
    step = cdopt.bank.load("pyramid-hooke:n=3").step
    derivatives = gradients.of(cdopt.CompatibleCD(step))
    matrix = cdopt.sensitivity(step).stiffness
    way = np.random.default_rng(0).standard_normal(step.nc)
    found = derivatives.jvp(stiffness=way)["f"]
    np.testing.assert_allclose(found, matrix @ way, atol=1e-10 * np.abs(matrix).max())
    shorter = gradients.jvp(cdopt.CompatibleCD(step), stiffness=way)["f"]
    np.testing.assert_allclose(shorter, found, atol=1e-12)


@pytest.mark.parametrize("flow", ["coulomb", "associated"])
def test_compatible_friction(flow: str) -> None:
    step = cdopt.bank.load("rough-pile:n=2").step
    problem = cdopt.CompatibleFriction(step, flow=flow)
    derivatives, h = gradients.of(problem), 1e-5
    way = np.random.default_rng(1).standard_normal(step.nc)

    def forces(t: float) -> np.ndarray[Any, Any]:
        other = step.replace(stiffness=step.stiffness + t * way)
        return np.asarray(cdopt.CompatibleFriction(other, flow=flow).solve().f)

    slope = (forces(h) - forces(-h)) / (2 * h)
    found = derivatives.jvp(stiffness=way)
    np.testing.assert_allclose(found["f"], slope, atol=1e-6 * np.abs(slope).max())
    across = np.random.default_rng(2).standard_normal(found["f_t"].shape)
    weights = {"f": np.ones(step.nc), "f_t": across}
    pull = derivatives.vjp(**weights)
    ahead = np.sum(found["f"]) + np.sum(found["f_t"] * across)
    np.testing.assert_allclose(pull["stiffness"] @ way, ahead, rtol=1e-9)


def sliding_block(**change: Any) -> cdopt.ContactStep:
    """A table that rests on four legs, and a block that turns and slides on it on three feet."""

    def row(n: Any, p: Any) -> Any:
        return np.append(n, np.cross(p, n))

    def rows(n: Any) -> list[Any]:
        feet, still = np.array([[0.3, 0.0], [-0.2, 0.25], [-0.1, -0.3]]), np.zeros(6)
        legs = [np.append(row(n, [*q, -0.5]), still) for q in FEET]
        return legs + [np.append(-row(n, [*q, 0.5]), row(n, [*q, -0.1])) for q in feet]

    up, first, second = (rows(n) for n in np.eye(3)[[2, 0, 1]])
    data = {
        "M": np.diag([5, 5, 5, 1, 1, 1.5, 2, 2, 2, 0.3, 0.3, 0.5]),
        "v": np.array([0, 0, 0, 0, 0, 0, 1, 0.3, 0, 0, 0, 0.8]),
        "F_ext": np.array([0.2, 0.1, -50, 1.0, 0.5, 0, 0.4, 0.1, -20, 0.3, 0.2, 0.1]),
        "stiffness": np.array([1, 1.3, 0.8, 1.1, 1.0, 1.2, 0.9]),
        "mu": np.array([0.6, 0.65, 0.7, 0.6, 0.3, 0.25, 0.2]),
        "rate": np.zeros((7, 2)),
        "B_t": np.stack([first, second], axis=1).reshape(14, 12),
    }
    data |= {name: data[name] + way for name, way in change.items()}
    rough = cdopt.Friction(data["mu"], data["B_t"], data["rate"], stiffness_ratio=0.8)
    return cdopt.ContactStep(
        data["M"], up, np.zeros(7), data["v"], data["F_ext"], 1e-2, stiffness=data["stiffness"],
        friction=rough,
    )  # fmt: skip


@pytest.mark.parametrize("law", ["coulomb", "associated"])
def test_compatible_forces_follow_contacts_that_slide(law: str) -> None:
    def forces(step: Any) -> tuple[Any, Any, Any]:
        problem = cdopt.CompatibleFriction(step, law=law, flow="associated")
        motion = problem.problem.solve("newton", accuracy=1e-14)
        return problem, motion, problem.network(motion).solve()

    problem, motion, _ = forces(sliding_block())
    assert (np.linalg.norm(motion.slip, axis=1) > 1e-3).tolist() == [False] * 4 + [True] * 3
    derivatives, rng, h = gradients.of(problem, motion), np.random.default_rng(3), 3e-5
    weights = {k: rng.standard_normal(shape) for k, shape in derivatives.outputs.items()}
    pull = derivatives.vjp(**weights)
    slides = np.append(np.zeros(4), np.ones(3))
    stored = sliding_block().friction.B_t.toarray()
    ways = {
        "v": 0.1 * rng.standard_normal(12),
        "mu": 0.1 * rng.standard_normal(7),
        "stiffness": rng.standard_normal(7),
        "rate": np.outer(slides, [0.1, 0.05]),
        "B_t": 0.1 * stored * np.repeat(slides, 2)[:, None],
    }
    for name, way in ways.items():
        found = derivatives.jvp(**{name: way})
        ends = [forces(sliding_block(**{name: t * way}))[2] for t in (h, -h)]
        for key in ("f", "f_t"):
            slope = (getattr(ends[0], key) - getattr(ends[1], key)) / (2 * h)
            np.testing.assert_allclose(found[key], slope, atol=1e-5 * np.abs(slope).max())
        ahead = sum(float(np.sum(found[key] * w)) for key, w in weights.items())
        entries = pull[name].toarray() if hasattr(pull[name], "toarray") else pull[name]
        assert float(np.sum(entries * way)) == pytest.approx(ahead, rel=1e-9), name


def test_motion_that_sliding_contacts_leave_open_is_refused() -> None:
    """Four feet that turn as they slide: rates of rank three, forces of rank four."""
    feet = [np.append([0.0, 0.0, 1.0], np.cross([*q, -0.1], [0, 0, 1.0])) for q in 0.4 * FEET]
    sides = [np.append(n, np.cross([*q, -0.1], n)) for q in 0.4 * FEET for n in np.eye(3)[:2]]
    step = cdopt.ContactStep(
        np.diag([2, 2, 2, 0.3, 0.3, 0.5]), feet, np.zeros(4), [1.0, 0.3, 0, 0, 0, 0.8],
        [1, 0.5, -20, 0.4, 0.3, 0.1], 1e-2,
        friction=cdopt.Friction([0.3, 0.25, 0.35, 0.3], sides),
    )  # fmt: skip
    derivatives = gradients.of(cdopt.FrictionalCD(step))
    for product, given in ((derivatives.jvp, {"F_ext": 1.0}), (derivatives.vjp, {"v_next": 1.0})):
        value = {name: np.full(6, one) for name, one in given.items()}
        with pytest.raises(cdopt.Unsupported, match="leave the motion open"):
            product(**value)
    associated = gradients.of(cdopt.FrictionalCD(step, "associated"))
    assert np.isfinite(associated.jvp(F_ext=np.ones(6))["v_next"]).all()


def test_steps_by_n_and_p_alone_are_refused() -> None:
    step = cdopt.ContactStep.from_delassus(np.eye(1), [-1.0])
    with pytest.raises(cdopt.Unsupported, match="N and p alone"):
        gradients.of(cdopt.ClassicCD(step))
    with pytest.raises(cdopt.InvalidInput, match="formulation"):
        gradients.of(step)


def test_a_large_network_is_iterated_and_agrees_with_a_small_one() -> None:
    step = cdopt.bank.load("pyramid-hooke:n=8").step
    problem = cdopt.ClassicCD(step)
    derivatives = gradients.of(problem)
    weights = np.random.default_rng(2).standard_normal(step.nv)
    pull = derivatives.vjp(load=weights)
    way = np.random.default_rng(3).standard_normal(step.nv)
    ahead = derivatives.jvp(F_ext=way)
    np.testing.assert_allclose(pull["F_ext"] @ way, ahead["load"] @ weights, rtol=1e-8)
    supported = step.B.T @ np.ones(step.nc)
    held = derivatives.jvp(F_ext=-supported)  # the contacts bear it, and nothing moves
    np.testing.assert_allclose(held["load"], supported, atol=1e-8 * np.abs(supported).max())
