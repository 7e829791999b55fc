"""Contact lists of other codes: forces come back, signs are found, tables by name and by order."""

from __future__ import annotations

import time

import numpy as np
import pytest
from command_line import run

import cdopt
from cdopt.interop import contact_lists

PILE = cdopt.bank.load("rough-pile:n=3").step


def spheres_of(step, path, radius=0.5, names="id x y z radius mass"):
    """A table of the free bodies of a step made of a scene of equal spheres."""
    scene, state = cdopt.scene.files.placed(step)
    free = np.flatnonzero(~scene.bodies.fixed)
    dim = scene.dim
    lines = [names]
    for k in free.tolist():
        row = [*state.position[k, :dim].tolist(), radius, float(scene.bodies.mass[k])]
        lines.append(" ".join([str(k), *map(repr, row)]))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def solved():
    return cdopt.FrictionalCD(PILE).solve("newton")


def test_forces_written_and_read_back(tmp_path, solved) -> None:
    contacts, bodies = tmp_path / "contacts.txt", spheres_of(PILE, tmp_path / "bodies.txt")
    contact_lists.write(contacts, PILE, solved.f, solved.f_t)
    gravity = cdopt.scene.files.placed(PILE)[0].gravity
    found = contact_lists.read(contacts, bodies, 0.5, gravity=gravity)
    np.testing.assert_allclose(found.f, solved.f, rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(found.f_t, solved.f_t, atol=1e-14)
    assert not found.turned
    np.testing.assert_allclose(found.step.F_ext, PILE.F_ext, rtol=1e-12)
    rest = np.zeros(found.step.nv)
    verdict = cdopt.audit(found.step, found.f, found.f_t, rest, tol=1e-5)
    assert verdict.verdict == "a choice"
    wrong = cdopt.audit(found.step, 1.01 * found.f, found.f_t, rest)
    assert wrong.verdict == "error of mechanics"


def test_a_dump_of_liggghts_by_the_order_of_its_columns(tmp_path, solved) -> None:
    """Positions, ids, forces on the first body: the last of two moments, the sign turned."""
    vectors = PILE.contact_vectors(solved.f, solved.f_t)
    between = (PILE.bodies >= 0).all(axis=1)
    scene, state = cdopt.scene.files.placed(PILE)
    free = between & ~scene.bodies.fixed[PILE.bodies].any(axis=1)
    rows = [
        [*state.position[i], *state.position[j], i, j, 0, *(-vectors[c])]
        for c, (i, j) in enumerate(PILE.bodies.tolist())
        if free[c]
    ]
    head = "ITEM: TIMESTEP\n{}\nITEM: NUMBER OF ENTRIES\n{}\nITEM: ENTRIES " + " ".join(
        f"c_2[{k + 1}]" for k in range(12)
    )
    text = "\n".join(" ".join(map(repr, map(float, row))) for row in rows)
    path = tmp_path / "contacts.dump"
    path.write_text(f"{head.format(0, 1)}\n{' 0' * 12}\n{head.format(9, len(rows))}\n{text}\n")
    atoms = tmp_path / "atoms.dump"
    table = spheres_of(PILE, tmp_path / "bodies.txt").read_text().splitlines()
    atoms.write_text("\n".join(
        ["ITEM: TIMESTEP", "9", f"ITEM: ATOMS {table[0]}", *table[1:]]) + "\n")  # fmt: skip
    columns = "x1 y1 z1 x2 y2 z2 id1 id2 periodic fx fy fz"
    found = contact_lists.read(path, atoms, 0.5, columns=columns)
    assert found.turned
    assert found.step.nc == int(free.sum())
    np.testing.assert_allclose(found.f, solved.f[free], atol=1e-9)
    np.testing.assert_allclose(found.step.points, PILE.points[free], atol=1e-9)
    with pytest.raises(cdopt.InvalidInput, match="expected also id1 id2"):
        contact_lists.read(path, atoms, 0.5)


def test_a_table_as_yade_scripts_write_it(tmp_path) -> None:
    """Two discs on a floor, one on the other: normal and shear forces apart, a wall's id."""
    contacts, bodies = tmp_path / "contacts.csv", tmp_path / "bodies.csv"
    contacts.write_text(
        "#id1,id2,px,py,nx,ny,normalForcex,normalForcey,shearForcex,shearForcey\n"
        "99,0,0,0,0,1,0,30,0,0\n0,1,0,2,0,1,0,10,0,0\n"
    )
    bodies.write_text("id,x,y,r,m\n1,0,3,1,1\n0,0,1,1,2\n")
    found = contact_lists.read(contacts, bodies, 0.3, gravity=[0, -10])
    assert found.step.bodies.tolist() == [[-1, 0], [0, 1]]
    np.testing.assert_allclose(found.f, [30, 10])
    assert cdopt.audit(found.step, found.f, found.f_t).ok
    result = run("audit", contacts, "--bodies", bodies, "--friction", 0.3)
    assert result.exit_code == 1  # with 9.81 m/s² the forces are too large
    assert "An error of mechanics" in result.stdout
    for name, change in {"radius": ("id,x,y,r,m", "id,x,y,q,m"), "mass": ("r,m", "r,q"),
                         "twice": ("0,0,1,1,2", "1,0,1,1,2")}.items():  # fmt: skip
        text = bodies.read_text()
        bodies.write_text(text.replace(*change))
        with pytest.raises(cdopt.InvalidInput, match=name):
            contact_lists.read(contacts, bodies, 0.3)
        bodies.write_text(text)
    with pytest.raises(cdopt.InvalidInput, match="friction"):
        contact_lists.read(contacts, bodies)


def test_normals_from_the_second_body_to_the_first_are_turned(tmp_path, solved) -> None:
    """All of them, or some, with forces on either body: the forces are the same as before."""
    contacts, bodies = tmp_path / "contacts.txt", spheres_of(PILE, tmp_path / "bodies.txt")
    contact_lists.write(contacts, PILE, solved.f, solved.f_t)
    names, *lines = contacts.read_text().splitlines()
    columns = names.split()
    table = np.array([line.split() for line in lines], dtype=float)
    normals, forces = (
        [columns.index(f"{kind}{axis}") for axis in "xyz"[: PILE.normals.shape[1]]] for kind in "nf"
    )
    plain = contact_lists.read(contacts, bodies, 0.5)
    assert plain.normals_turned == 0
    assert "turned" not in repr(plain)
    for every, sign in ((1, 1.0), (1, -1.0), (2, 1.0), (2, -1.0)):
        changed = table.copy()
        changed[np.ix_(range(0, len(table), every), normals)] *= -1.0
        changed[:, forces] *= sign
        text = "\n".join(" ".join(map(repr, row)) for row in changed.tolist())
        contacts.write_text(f"{names}\n{text}\n")
        found = contact_lists.read(contacts, bodies, 0.5)
        assert found.normals_turned == len(range(0, len(table), every))
        assert found.turned == (sign < 0.0)
        assert "turned to point from id1 to id2" in repr(found)
        np.testing.assert_allclose(found.step.normals, plain.step.normals, atol=1e-14)
        np.testing.assert_allclose(found.f, plain.f, atol=1e-14)
        np.testing.assert_allclose(found.f_t, plain.f_t, atol=1e-14)


def test_bodies_that_are_not_convex_may_touch_from_behind(tmp_path) -> None:
    """With moments of inertia stated one normal of three against the centres stays as it is."""
    contacts, bodies = tmp_path / "contacts.txt", tmp_path / "bodies.txt"
    bodies.write_text(
        "id x y z mass ixx iyy izz\n5 0 0 1 1 1 1 1\n9 0 0 3 1 1 1 1\n7 0 0 5 1 1 1 1\n"
    )
    rows = ["-1 5 0 0 0 0 0 {} 0 0 30", "5 9 0 0 2 0 0 {} 0 0 20", "9 7 0 0 4 0 0 {} 0 0 10"]
    for signs, turned in (((1, 1, -1), 0), ((-1, -1, 1), 3)):
        lines = [row.format(sign) for row, sign in zip(rows, signs, strict=True)]
        contacts.write_text("id1 id2 px py pz nx ny nz fx fy fz\n" + "\n".join(lines) + "\n")
        found = contact_lists.read(contacts, bodies, 0.5)
        assert found.normals_turned == turned
        np.testing.assert_array_equal(found.step.normals[:, 2], [1, 1, -1])


def test_bodies_and_contacts_are_called_by_the_ids_of_the_file(tmp_path) -> None:
    contacts, bodies = tmp_path / "contacts.txt", tmp_path / "bodies.txt"
    contacts.write_text(
        "id1 id2 px py nx ny fx fy\n-2 144 -0.5 0 0 1 0 10\n-2 144 0.5 0 0 1 0 10\n"
        "144 12 0 2 0 1 0 11\n"
    )
    bodies.write_text("id x y radius mass\n144 0 1 1 1\n12 0 3 1 1\n")
    step = (found := contact_lists.read(contacts, bodies, 0.5, gravity=[0, -10])).step
    assert step.body_names.tolist() == [12, 144]
    assert step.contact_names == ["wall −2–144 (1)", "wall −2–144 (2)", "144–12"]
    verdict = cdopt.audit(step, found.f, found.f_t, np.zeros(step.nv))
    assert "on body 12 by 1 N" in verdict.summary
    assert set(verdict.bodies_frame().index) == {"12", "144"}
    assert "144" in str(verdict)
    step.save(tmp_path / "step.npz")
    assert cdopt.ContactStep.load(tmp_path / "step.npz").names.body_names == ("12", "144")


@pytest.mark.slow
def test_ten_thousand_grains(tmp_path) -> None:
    """A pile of 10,416 spheres, its frictionless forces: written, read, judged."""
    scene = cdopt.scene.pyramid(32, separation=0.0)
    contacts = cdopt.collision.detect(scene, scene.initial)
    step = cdopt.collision.step(scene, scene.initial, contacts, dt=1e-3, friction=0.5)
    smooth = cdopt.ClassicCD(step.without_friction()).solve("newton")
    assert smooth.ok
    path, radius = tmp_path / "contacts.txt", float(np.nanmax(scene.bodies.core[1:]))
    contact_lists.write(path, step, smooth.f, np.zeros((step.nc, 2)))
    bodies = spheres_of(step, tmp_path / "bodies.txt", radius)
    started = time.perf_counter()
    found = contact_lists.read(path, bodies, 0.5, gravity=scene.gravity)
    assert found.ids.size >= 10_000
    rest = np.zeros(found.step.nv)
    verdict = cdopt.audit(found.step, found.f, found.f_t, rest, tol=1e-5)
    print(f"{found}: {time.perf_counter() - started:.1f} s, {verdict.summary}")
    assert verdict.verdict == "a choice"
    wrong = found.f.copy()
    wrong[np.argmax(wrong)] *= 1.001
    verdict = cdopt.audit(found.step, wrong, found.f_t, rest, tol=1e-5)
    assert verdict.verdict == "error of mechanics"
    assert 1 <= verdict.wrong_bodies.size <= 2
