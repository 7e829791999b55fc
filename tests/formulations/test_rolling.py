"""Steps whose contacts resist rolling and spinning: mechanics by hand, all solvers, bad input."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import cdopt
from cdopt.problem import InvalidInput, StepSolution, Unsupported
from cdopt.problem.step import Step

G, R, MASS, DT = 9.81, 0.1, 2.0, 1e-3
ROLLING, MU = 0.02, 0.8


def slope(angle: float, space: bool, spin: float = 0.0, **more: float) -> cdopt.ContactStep:
    """A sphere, or a disc in the plane, on a slope: motion (x, z, …) along it and off it."""
    load = MASS * G * np.array([np.sin(angle), -np.cos(angle)])
    cone, mu = str(more.pop("cone", "product")), more.pop("mu", MU)
    common = {"rolling": ROLLING, "cone": cone, **more}
    if not space:  # x, z, and the rotation θ that rolls along x where x' = −R θ'
        inertia = 0.5 * MASS * R**2
        friction = cdopt.Friction(mu, B_t=[[1.0, 0.0, R]], B_r=[[0.0, 0.0, 1.0]], **common)
        M, B, F = np.diag([MASS, MASS, inertia]), [[0.0, 1.0, 0.0]], [*load, 0.0]
        return cdopt.ContactStep(M, B, [0.0], [0.0, 0.0, spin], F, DT, friction=friction)
    inertia = 0.4 * MASS * R**2  # x, y, z and rotations about these axes
    sliding = [[1, 0, 0, 0, -R, 0], [0, 1, 0, R, 0, 0]]
    turning = [[0, 0, 0, 1, 0, 0], [0, 0, 0, 0, 1, 0]]
    friction = cdopt.Friction(mu, B_t=sliding, B_r=turning, **common)
    M, B, v = np.diag([MASS] * 3 + [inertia] * 3), [[0, 0, 1, 0, 0, 0]], np.zeros(6)
    v[4] = spin
    F = [load[0], 0.0, load[1], 0.0, 0.0, 0.0]
    return cdopt.ContactStep(M, B, [0.0], v, F, DT, friction=friction)


@pytest.mark.parametrize("space", [False, True])
def test_a_wheel_holds_up_to_the_slope_of_its_coefficient_over_its_radius(space: bool) -> None:
    """Beyond tan θ = μ_r/r it rolls, at g(sin θ − (μ_r/r) cos θ)/(1 + I/mr²)."""
    inertia = 0.4 if space else 0.5
    for beyond in (-2e-9, 2e-9, 0.01, 0.5):
        angle = np.arctan(ROLLING / R * (1.0 + beyond))
        step = slope(angle, space)
        found = cdopt.FrictionalCD(step).solve("newton", accuracy=1e-12)
        assert found.ok
        pull = np.sin(angle) - ROLLING / R * np.cos(angle)
        expected = max(G * pull / (1.0 + inertia), 0.0)
        assert found.v_next[0] / DT == pytest.approx(expected, rel=1e-9, abs=1e-10 * G)
        assert abs(found.slip).max() <= 1e-12
        assert found.f[0] == pytest.approx(MASS * G * np.cos(angle), rel=1e-9)
        moment = min(ROLLING * found.f[0], MASS * G * np.sin(angle) * R)
        assert np.linalg.norm(found.f_r) == pytest.approx(moment, rel=1e-8)


def test_an_ellipse_shares_the_normal_force_between_sliding_and_rolling() -> None:
    """The sphere holds as long as (F/μ)² + (F r/μ_r)² ≤ N²: tan θ ≤ 1/√(μ⁻² + (r/μ_r)²)."""
    limit = 1.0 / np.hypot(1.0 / MU, R / ROLLING)
    for beyond, moves in ((-1e-8, False), (1e-4, True)):
        step = slope(np.arctan(limit * (1.0 + beyond)), True, cone="elliptic")
        found = cdopt.FrictionalCD(step).solve("newton", accuracy=1e-12)
        assert found.ok
        assert (found.v_next[0] > 1e-8 * G * DT) == moves


def test_a_spinning_disc_stops_when_its_torsion_has_used_its_spin() -> None:
    """I ω' = −τ m g: a coin of spin ω stops after I ω/(τ m g)."""
    inertia, torsion, spin = 0.5 * MASS * R**2, 0.01, 7.0
    friction = cdopt.Friction(MU, [[1, 0, 0, 0], [0, 1, 0, 0]], torsion=torsion, B_r=[[0, 0, 0, 1]])
    M, B, F = np.diag([MASS, MASS, MASS, inertia]), [[0, 0, 1, 0]], [0, 0, -MASS * G, 0]
    stop = inertia * spin / (torsion * MASS * G)
    motion, time, dt = np.array([0.0, 0.0, 0.0, spin]), 0.0, stop / 40.0
    while motion[3] > 1e-9 * spin:
        step = cdopt.ContactStep(M, B, [0.0], motion, F, dt, friction=friction)
        found = cdopt.FrictionalCD(step).solve("newton")
        assert found.ok
        motion, time = found.v_next, time + dt
        assert motion[3] == pytest.approx(spin * (1.0 - time / stop), abs=1e-9 * spin)
    assert time == pytest.approx(stop, rel=1e-9)


@pytest.mark.parametrize("cone", ["product", "elliptic"])
def test_the_power_that_a_wheel_loses_is_its_formula(cone: str) -> None:
    """A wheel slips and rolls: −f_T·g_T − m·ω = f_n (μ‖g_T‖ + μ_r‖ω‖), of an ellipse its norm."""
    step = slope(0.1, True, spin=30.0, mu=0.3, cone=cone)
    found = cdopt.FrictionalCD(step).solve("newton", accuracy=1e-12)
    assert found.ok
    slip, spin = np.linalg.norm(found.slip), np.linalg.norm(found.spin)
    assert slip > 1.0
    assert spin > 1.0
    lost = -float(np.sum(found.f_t * found.slip) + np.sum(found.f_r * found.spin))
    each = np.array([0.3 * slip, ROLLING * spin])
    share = each.sum() if cone == "product" else np.linalg.norm(each)
    assert lost == pytest.approx(found.f[0] * share, rel=1e-9)
    v, w = step.v, found.v_next
    work = 0.5 * (w @ step.M @ w - v @ step.M @ v) - DT * step.F_ext @ (v + w) / 2.0
    before = step.friction.B_t @ v, step.friction.B_r @ v
    middle = found.slip.ravel() + before[0], found.spin.ravel() + before[1]
    contact = found.f_t.ravel() @ middle[0] + found.f_r.ravel() @ middle[1]
    assert work == pytest.approx(0.5 * DT * contact, rel=1e-9)


def pile(cone: str, seed: int, moments: int = 3) -> cdopt.ContactStep:
    """Spheres that touch each other and a floor at random, with rows of any moments."""
    rng = np.random.default_rng(seed)
    bodies, nc = 4, 7
    nv, sizes = 6 * bodies, (1, 2, moments)
    blocks = [np.zeros((nc, many, nv)) for many in sizes]
    for i in range(nc):
        for k in rng.choice(bodies, 2 if i else 1, replace=False):
            for block in blocks:
                block[i, :, 6 * k : 6 * k + 6] = rng.standard_normal(block[i, :, :6].shape)
    B, B_t, B_r = (block.reshape(-1, nv) for block in blocks)
    friction = cdopt.Friction(
        rng.uniform(0.1, 0.8, nc),
        B_t,
        torsion=rng.uniform(0.01, 0.2, nc) if moments != 2 else 0.0,
        rolling=rng.uniform(0.01, 0.2, nc) if moments != 1 else 0.0,
        B_r=B_r,
        cone=cone,
    )
    mass = np.tile([2.0, 2.0, 2.0, 0.3, 0.4, 0.5], bodies)
    motion = rng.standard_normal(nv), 10.0 * rng.standard_normal(nv)
    gaps = rng.uniform(0.0, 1e-3, nc)
    return cdopt.ContactStep(np.diag(mass), B, gaps, *motion, 1e-2, friction=friction)


SOLVERS = ["newton", "nsgs", "apgd", "admm"]


@pytest.mark.parametrize("moments", [pytest.param(1, marks=pytest.mark.slow), 2, 3])
@pytest.mark.parametrize("cone", ["product", "elliptic"])
def test_all_solvers_find_the_motion_of_the_associated_law(cone: str, moments: int) -> None:
    step = pile(cone, seed=moments, moments=moments)
    expected = None
    for name in [*SOLVERS, "interior-point", "clarabel"]:
        for form in ("force", "velocity") if name == "clarabel" else ("force",):
            found = cdopt.FrictionalCD(step, "associated", form).solve(name)
            loose = name == "clarabel"
            assert found.certificate.worst <= (3e-5 if loose else 1e-7), name
            motion = found.iterate.motion
            expected = motion if expected is None else expected
            assert np.abs(motion - expected).max() <= (1e-4 if loose else 1e-6), name


@pytest.mark.parametrize("cone", ["product", "elliptic"])
def test_solvers_certify_answers_of_coulombs_law(cone: str) -> None:
    """K ∋ f ⟂ g̃ ∈ K* with de Saxcé's shift: closed contacts do not open, losses are the formula."""
    step = pile(cone, seed=5)
    for name in [*SOLVERS, "interior-point"]:
        found = cdopt.FrictionalCD(step).solve(name)
        assert found.certificate.worst <= 1e-7, name
        loaded = found.f > 1e-6 * found.f.max()
        assert loaded.any()
        assert np.abs(found.gap[loaded]).max() <= 1e-6
        cones = step.friction.cones
        rows = np.column_stack([found.gap, found.slip, found.spin]).ravel()
        work = np.sum(found.f_t * found.slip, axis=1) + np.sum(found.f_r * found.spin, axis=1)
        np.testing.assert_allclose(-work, found.f * cones.shift(rows), atol=1e-5)


@pytest.mark.parametrize("name", ["rolling-sphere", "rolling-cube", "rolling-rockfall"])
def test_the_given_problems_are_certified_by_several_methods(name: str) -> None:
    """By three methods under Coulomb's law, by six under the associated one; all to 1e-9."""
    step = cdopt.open_problem(name).step
    inside = "interior-point"
    ours = {"coulomb": ["newton", "nsgs", inside], "associated": [*SOLVERS, inside]}
    for law, solvers in ours.items():
        for solver in solvers:
            found = cdopt.FrictionalCD(step, law).solve(solver, accuracy=1e-10)
            assert found.certificate.worst <= 1e-9, (law, solver)
    associated = cdopt.FrictionalCD(step, "associated")
    clarabel = associated.solve("clarabel", accuracy=1e-12)
    assert clarabel.certificate.worst <= 1e-6  # the root of the gap, where forces are at an edge
    assert clarabel.certificate["duality gap"] <= 1e-9
    assert associated.polish(clarabel).certificate.worst <= 1e-9


def test_a_step_by_n_and_p_is_that_with_matrices() -> None:
    step = pile("product", seed=8)
    data = cdopt.FrictionalCD(step, "associated").data
    given = step.friction
    friction = cdopt.Friction(given.mu, torsion=given.torsion, rolling=given.rolling)
    known = cdopt.ContactStep.from_delassus(data.delassus, data.p, step.dt, friction=friction)
    assert (known.nc, known.friction.d, known.friction.moments) == (7, 3, 3)
    ours, theirs = (cdopt.FrictionalCD(s, "associated").solve() for s in (step, known))
    for name in ("gap", "slip", "spin"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), atol=1e-8)


@pytest.mark.parametrize("length", [1e-3, 1e3])
def test_answers_and_certificates_do_not_depend_on_the_unit_of_length(length: float) -> None:
    """Moments are measured by an arm of the contact: metres or millimetres, the same residuals."""
    step = pile("product", seed=2)
    friction, turns = step.friction, np.arange(step.nv) % 6 >= 3
    units = np.where(turns, 1.0, length)  # of motions: rotations keep theirs
    forces = np.where(turns, length**2, length)
    other = cdopt.ContactStep(
        step.M.toarray() * forces[:, None] / units[None, :],
        step.B.toarray() * length / units[None, :],
        step.phi * length,
        step.v * units,
        step.F_ext * forces,
        step.dt,
        friction=cdopt.Friction(
            friction.mu,
            friction.B_t.toarray() * length / units[None, :],
            torsion=friction.torsion * length,
            rolling=friction.rolling * length,
            B_r=friction.B_r.toarray() / units[None, :],
        ),
    )
    ours, theirs = (cdopt.FrictionalCD(s).solve("newton") for s in (step, other))
    np.testing.assert_allclose(theirs.v_next, ours.v_next * units, atol=1e-9 * units.max())
    shifted = ours.iterate.forces * np.tile([1.01, 1.0, 1.0, 1.02, 0.97, 1.0], step.nc)
    scale = np.tile([length] * 3 + [length**2] * 3, step.nc)
    first = cdopt.certify(cdopt.FrictionalCD(step).data, ours.v_next, shifted)
    second = cdopt.certify(cdopt.FrictionalCD(other).data, theirs.v_next, shifted * scale)
    for one, two in zip(first, second, strict=True):
        assert two.value == pytest.approx(one.value, rel=1e-6, abs=1e-9), one.name


def test_steps_and_solutions_are_stored_with_their_moments(tmp_path: Path) -> None:
    step = pile("elliptic", seed=3)
    step.save(tmp_path / "step.npz")
    again = Step.load(tmp_path / "step.npz")
    for name in ("torsion", "rolling", "spin"):
        np.testing.assert_array_equal(getattr(again.friction, name), getattr(step.friction, name))
    assert again.friction.cone == "elliptic"
    some = step.select([2, 0])
    np.testing.assert_array_equal(
        some.friction.B_r.toarray(),
        np.vstack([step.friction.B_r.toarray()[6:9], step.friction.B_r.toarray()[:3]]),
    )
    found = cdopt.FrictionalCD(step).solve()
    found.save(tmp_path / "solution.npz")
    stored = StepSolution.load(tmp_path / "solution.npz")
    np.testing.assert_array_equal(stored.f_r, found.f_r)
    np.testing.assert_array_equal(stored.spin, found.spin)
    near = cdopt.FrictionalCD(step).solve("newton", warm_start=found)
    assert near.iterations <= 2
    assert near.ok


def test_zero_coefficients_are_those_of_friction_alone() -> None:
    step = pile("product", seed=4)
    given = step.friction
    frictional = cdopt.FrictionalCD(step.replace(friction=cdopt.Friction(given.mu, given.B_t)))
    for cone in ("product", "elliptic"):
        idle = cdopt.Friction(given.mu, given.B_t, B_r=given.B_r, cone=cone)
        found = cdopt.FrictionalCD(step.replace(friction=idle)).solve("newton")
        assert found.ok
        assert np.abs(found.f_r).max() == 0.0
        np.testing.assert_allclose(found.v_next, frictional.solve("newton").v_next, atol=1e-7)


def test_what_leaves_moments_out_refuses_them() -> None:
    step = pile("product", seed=6)
    for attempt in (
        lambda: cdopt.CompatibleFriction(step),
        lambda: cdopt.stability(step),
        lambda: cdopt.limit_load(step, np.ones(step.nv), strength=cdopt.Strength(1.0)),
        lambda: cdopt.ClassicCD(
            step.replace(
                friction=cdopt.Friction(0.0, step.friction.B_t, rolling=0.1, B_r=step.friction.B_r)
            )
        ),
    ):
        with pytest.raises(Unsupported):
            attempt()


def test_malformed_moments_are_named() -> None:
    rows, good = np.zeros((14, 24)), np.zeros((21, 24))
    plain = pile("product", seed=7).replace(friction=None)
    square = np.eye(14)
    for name, friction in {
        "rolling": cdopt.Friction(0.5, rows, rolling=0.1),
        "torsion": cdopt.Friction(0.5, rows, torsion=0.1, B_r=rows),
        "B_r": cdopt.Friction(0.5, rows, rolling=0.1, B_r=good[:20]),
        "spin": cdopt.Friction(0.5, rows, rolling=0.1, B_r=good, spin=np.zeros((7, 2))),
    }.items():
        with pytest.raises(InvalidInput) as error:
            plain.replace(friction=friction)
        assert error.value.argument == name
    with pytest.raises(InvalidInput, match=r"B_r.*1 rows a contact in the plane"):
        plain.replace(friction=cdopt.Friction(0.5, good[:7], rolling=0.1, B_r=rows))
    with pytest.raises(InvalidInput, match=r"B_t.*1 row for each contact in the plane, 2 in space"):
        plain.replace(friction=cdopt.Friction(0.5, good[:1]))
    for name, value in {"rolling": -0.1, "torsion": np.nan, "cone": "pyramid"}.items():
        with pytest.raises(InvalidInput) as error:
            plain.replace(friction=cdopt.Friction(0.5, rows, B_r=good, **{name: value}))
        assert error.value.argument == name
    with pytest.raises(InvalidInput, match="N: found 14 rows for 2 contacts"):
        cdopt.ContactStep.from_delassus(
            square, np.zeros(14), friction=cdopt.Friction([0.5, 0.5], rolling=0.1)
        )
