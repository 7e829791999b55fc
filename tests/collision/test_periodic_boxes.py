"""Periodic boxes: nothing depends on where the cell begins, and images move with it."""

from __future__ import annotations

import numpy as np
import pytest

import cdopt
from cdopt.collision import detect, friction, gap_gradient, safe_margins, step
from cdopt.dynamics import Measures, equilibrium
from cdopt.scene import Body, Box, HalfSpace, Material, PeriodicBox, Scene, Sphere, Spheres, State

SOFT = [Material(name="soft", stiffness=2.0)]


def hexagonal(n: int, squeeze: float = 0.0, shift: object = 0.0) -> Scene:
    """A crystal of n x n discs of diameter 1, in a cell smaller by a share."""
    i, j = (k.ravel() for k in np.meshgrid(np.arange(n), np.arange(n), indexing="ij"))
    x = np.column_stack([i + 0.5 * (j % 2), np.sqrt(0.75) * j]) * (1.0 - squeeze)
    discs = Spheres(centres=x + np.asarray(shift), radius=0.5, mass=1.0, material="soft")
    cell = np.array([n, n * np.sqrt(0.75)]) * (1.0 - squeeze)
    return Scene(
        [discs], dim=2, gravity=[0, 0], box=cell, materials=SOFT, overlaps="touching", friction=0.5
    )


def scattered(dim: int, box: PeriodicBox, n: int = 60) -> tuple[Scene, np.ndarray]:
    """Spheres at random places, some of which overlap, and uneven radii."""
    rng = np.random.default_rng(5)
    x = rng.uniform(size=(n, dim)) @ box.cell().T
    radius = rng.uniform(0.04, 0.09, n)
    scene = Scene(
        [Spheres(centres=x, radius=radius, mass=1.0, material="soft")],
        dim=dim, gravity=np.zeros(dim), box=box, materials=SOFT, overlaps="touching", friction=0.3,
    )  # fmt: skip
    return scene, x


def moved(scene: Scene, x: np.ndarray, t: float = 0.0) -> State:
    """The state with its centres elsewhere."""
    q = scene.initial.q.copy()
    q[:, : scene.dim] = x
    return State(t, q, scene.initial.v)


@pytest.mark.parametrize("n", [4, 6])
def test_a_crystal_has_three_contacts_a_disc(n: int) -> None:
    crystal = hexagonal(n)
    contacts = detect(crystal, crystal.initial, 1e-9)
    assert contacts.nc == 3 * n**2
    np.testing.assert_allclose(contacts.phi, 0.0, atol=1e-14)


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("shear", [0.0, 0.3])
def test_contacts_do_not_depend_on_the_cell(dim: int, shear: float) -> None:
    box = PeriodicBox([1.0, 0.8, 0.9][:dim], shear)
    scene, x = scattered(dim, box)
    rng = np.random.default_rng(1)
    cells = rng.integers(-3, 4, x.shape) @ box.cell().T
    there = moved(scene, x + cells + rng.uniform(-5.0, 5.0, dim))
    before, after = (detect(scene, state, 0.02) for state in (scene.initial, there))
    assert before.nc > 25
    np.testing.assert_array_equal(before.contact_ids, after.contact_ids)
    np.testing.assert_allclose(before.phi, after.phi, atol=1e-12)
    for state, contacts in ((scene.initial, before), (there, after)):
        arms = contacts.points - state.position[contacts.bodies[:, 0]]
        reach = scene.bodies.reach[contacts.bodies[:, 0]] + 0.5 * contacts.phi
        np.testing.assert_allclose(np.linalg.norm(arms, axis=1), np.abs(reach), atol=1e-12)
    B = [gap_gradient(scene, *pair) for pair in ((scene.initial, before), (there, after))]
    np.testing.assert_allclose(B[0].toarray(), B[1].toarray(), atol=1e-11)
    rough = [friction(scene, *pair) for pair in ((scene.initial, before), (there, after))]
    np.testing.assert_allclose(rough[0].B_t.toarray(), rough[1].B_t.toarray(), atol=1e-11)


@pytest.mark.parametrize("dim", [2, 3])
def test_every_pair_is_found(dim: int) -> None:
    """Against all images of all pairs."""
    box = PeriodicBox([1.0, 0.8, 0.9][:dim], 7.3)
    scene, x = scattered(dim, box)
    shifts = np.stack(np.meshgrid(*[np.arange(-9, 10)] + [[-1, 0, 1]] * (dim - 1)), -1)
    images = shifts.reshape(-1, dim) @ box.cell().T
    i, j = np.triu_indices(len(x), 1)
    apart = np.min([np.linalg.norm(x[j] + image - x[i], axis=1) for image in images], axis=0)
    gap = apart - scene.bodies.reach[i] - scene.bodies.reach[j]
    contacts = detect(scene, scene.initial, 0.01)
    near = gap <= 0.01
    assert {*zip(i[near], j[near], strict=True)} == {*map(tuple, contacts.bodies.tolist())}
    np.testing.assert_allclose(np.sort(gap[near]), np.sort(contacts.phi), atol=1e-12)


@pytest.mark.parametrize("dim", [2, 3])
def test_gaps_open_as_the_cell_deforms(dim: int) -> None:
    rate = np.diag([0.3, -0.2, 0.1][:dim])
    rate[0, -1] = 0.7
    scene, x = scattered(dim, PeriodicBox([1.0, 0.8, 0.9][:dim], 0.2, rate))
    h = 1e-6
    start = detect(scene, moved(scene, x, 0.4), 0.005)
    ends = [detect(scene, moved(scene, x, 0.4 + sign * h), 0.01) for sign in (-1, 1)]
    assert scene.box.velocities(x, 0.4).any()
    phi = [end.phi[np.searchsorted(end.contact_ids, start.contact_ids)] for end in ends]
    assert np.count_nonzero(start.gap_rate) > 5
    np.testing.assert_allclose(start.gap_rate, (phi[1] - phi[0]) / (2 * h), atol=1e-7)


def test_an_affine_flow_has_no_seam() -> None:
    """In simple shear, pairs across the boundary slide and open as those within."""
    scene = hexagonal(4).with_box(PeriodicBox(hexagonal(4).box.size, rate=0.5))
    v = scene.initial.v.copy()
    v[:, 0] = 0.5 * scene.initial.position[:, 1]
    state = State(0.0, scene.initial.q, v)
    contacts = detect(scene, state, 1e-9)
    rough = friction(scene, state, contacts)
    full = cdopt.collision.gap_gradient(scene, state, contacts, scene.full_dofs)
    opening = full @ scene.full_dofs.gather(v) + contacts.gap_rate
    sliding = rough.B_t @ scene.full_dofs.gather(v) + rough.rate.ravel()
    n, t = contacts.normals, rough.tangents[:, 0]
    np.testing.assert_allclose(opening, 0.5 * n[:, 0] * n[:, 1], atol=1e-12)
    np.testing.assert_allclose(sliding, 0.5 * t[:, 0] * n[:, 1], atol=1e-12)


def test_a_crystal_without_room_cannot_be_sheared() -> None:
    crystal = hexagonal(4)
    scene = crystal.with_box(PeriodicBox(crystal.box.size, rate=1.0)).with_friction(None)
    with pytest.raises(cdopt.dynamics.StepFailed) as error:
        cdopt.simulate(scene, 2e-3, 0.1, classic_backend="newton")
    assert error.value.proof is not None


@pytest.mark.parametrize("mu", [pytest.param(None, marks=pytest.mark.slow), 0.5])
def test_a_gas_of_discs_in_a_shearing_cell(mu: float | None) -> None:
    """It keeps its momentum, and gains what the images bring in."""
    rng = np.random.default_rng(4)
    x = 1.15 * np.column_stack([k.ravel() for k in np.mgrid[:4, :4]])
    v = rng.normal(size=x.shape)
    discs = Spheres(centres=x, radius=0.5, velocities=v - v.mean(axis=0), mass=1.0)
    box = PeriodicBox([4.6, 4.6], rate=1.0)
    scene = Scene([discs], dim=2, gravity=[0, 0], box=box, friction=mu, restitution=0.5)
    run = cdopt.simulate(scene, 5e-3, 0.2)
    assert run.ok
    np.testing.assert_allclose(run.v[:, :, :2].sum(axis=1), 0.0, atol=1e-8)
    assert sum(np.count_nonzero(frame.f > 0.0) for frame in run) > 10
    for frame in run:
        assert detect(scene, frame.state, 0.1).phi.min(initial=0.0) > -0.02
    assert cdopt.dynamics.analysis.measures(run).stress.shape == (len(run), 2, 2)


def strained(scene: Scene, strain: np.ndarray, state: State) -> tuple[Scene, State]:
    """The cell and all centres moved by a strain."""
    cell = (np.eye(scene.dim) + strain) @ scene.box.cell()
    box = PeriodicBox(cell.diagonal(), cell[0, -1])
    there = moved(scene, state.position @ (np.eye(scene.dim) + strain).T)
    return scene.with_box(box, there), there


def energy(scene: Scene) -> float:
    contacts = detect(scene, scene.initial, 0.0)
    return 0.5 * float(contacts.stiffness @ contacts.phi**2)


@pytest.mark.parametrize("dim", [2, 3])
def test_stress_is_the_derivative_of_the_energy(dim: int) -> None:
    scene, _ = scattered(dim, PeriodicBox([1.0, 0.8, 0.9][:dim], 0.1))
    contacts = detect(scene, scene.initial, 0.0)
    posed = step(scene, scene.initial, contacts, 1e-3)
    stress = cdopt.stress(posed, contacts.stiffness * -contacts.phi)
    size, volume = 1e-6, scene.box.size.prod()
    entries = [(k, k) for k in range(dim)] + [(0, dim - 1)]
    for entry in entries:
        strain = np.zeros((dim, dim))
        strain[entry] = size
        change = energy(strained(scene, -strain, scene.initial)[0])
        change -= energy(strained(scene, strain, scene.initial)[0])
        assert stress[entry[::-1]] == pytest.approx(change / (2 * size * volume), rel=1e-5)


def test_a_hexagonal_crystal_is_isotropic_and_affine() -> None:
    crystal = hexagonal(4, squeeze=0.01)
    rest = equilibrium(crystal)
    base = Measures.of_rest(crystal, rest)
    assert base.pressure() > 0.0
    np.testing.assert_allclose(base.stress(), base.pressure() * np.eye(2), atol=1e-9)

    def response(strain: np.ndarray) -> np.ndarray:
        scene, state = strained(crystal, strain, rest.state)
        there = equilibrium(scene)
        drift = there.state.position - state.position
        np.testing.assert_allclose(drift - drift.mean(axis=0), 0.0, atol=1e-7)  # affine
        return Measures.of_rest(scene, there).stress() - base.stress()

    e = 1e-5
    stretch = response(np.diag([e, 0.0])), response(np.diag([0.0, e]))
    shear = response(np.array([[0.0, e], [0.0, 0.0]]))
    c11, c12 = -stretch[0][0, 0] / e, -stretch[0][1, 1] / e
    assert -stretch[1][1, 1] / e == pytest.approx(c11, rel=1e-3)
    assert -shear[0, 1] / e == pytest.approx(0.5 * (c11 - c12), rel=1e-3)


def test_coulomb_steps_in_a_box_are_certified() -> None:
    scene = hexagonal(4, squeeze=1e-3)
    v = np.random.default_rng(2).normal(size=scene.initial.v.shape)
    state = State(0.0, scene.initial.q, v)
    posed = step(scene, state, detect(scene, state, safe_margins(scene, state, 1e-3)), 1e-3,
                 friction=True)  # fmt: skip
    solution = cdopt.FrictionalCD(posed).solve("newton")
    assert solution.ok
    vectors = posed.contact_vectors(solution.f, solution.f_t)
    assert np.abs(vectors).max() > 0.0
    momentum = solution.v_next.reshape(-1, 3)[:, :2].sum(axis=0)
    np.testing.assert_allclose(momentum, v[:, :2].sum(axis=0), atol=1e-9)


def test_walls_and_files() -> None:
    floor = Body(HalfSpace([0.0, 1.0]), [0.0, 0.0])
    discs = Spheres(centres=[[0.05, 0.5], [4.05, 0.5]], radius=0.5, mass=1.0)
    scene = Scene([floor, discs], dim=2, box=[5.0, None])
    contacts = detect(scene, scene.initial, 1e-9)
    assert contacts.bodies.tolist() == [[0, 1], [0, 2], [1, 2]]
    again = cdopt.scene.loads(scene.to_toml())
    assert again.to_toml() == scene.to_toml()
    rate = np.array([[0.0, 1.0], [0.0, 0.1]])
    moving = hexagonal(4).with_box(PeriodicBox([5.0, 6.0], 0.5, rate))
    assert cdopt.scene.loads(moving.to_toml()).box.rate.tolist() == [[0.0, 1.0], [0.0, 0.1]]


def test_what_does_not_know_boxes_refuses_them() -> None:
    elastic = hexagonal(4).with_friction(None)
    for method in ("variational", "velocity-verlet", "quasi-static"):
        with pytest.raises(cdopt.Unsupported, match="periodic box"):
            cdopt.simulate(elastic, 1e-3, 0.01, method)
    contacts = detect(elastic, elastic.initial)
    with pytest.raises(cdopt.Unsupported, match="periodic box"):
        cdopt.collision.damping_matrix(elastic, elastic.initial, contacts)


@pytest.mark.parametrize(
    ("bodies", "box", "found"),
    [
        ([Body(Box([1.0, 1.0]), [0.0, 0.0], mass=1.0)], [9.0, 9.0], "solid"),
        ([Body(HalfSpace([0.0, 1.0]), [0, 0])], [9.0, 9.0], "wall across"),
        ([], [3.0, 9.0], "box"),
        ([], [9.0, 9.0, 9.0], "3 axes"),
        ([], [-1.0, 9.0], "size"),
        ([], "wide", "size"),
    ],
)
def test_bad_boxes_are_refused(bodies: list, box: object, found: str) -> None:
    disc = Body(Sphere(1.0), [4.0, 4.0], mass=1.0)
    with pytest.raises(cdopt.InvalidInput, match=found):
        Scene([*bodies, disc], dim=2, box=box)


def test_bad_rates_are_refused() -> None:
    for size, shear, rate in (([1.0, None], 0.1, 0.0), ([1, 1], 0.0, [[0.0, 0.0], [1.0, 0.0]])):
        with pytest.raises(cdopt.InvalidInput, match="shear|rate"):  # noqa: RUF043
            PeriodicBox(size, shear, rate)
    with pytest.raises(cdopt.InvalidInput, match="t"):
        PeriodicBox([1.0, 1.0], rate=-np.eye(2)).cell(2.0)
