"""Scenes from arrays and from files of LAMMPS: what is in them, and what is refused."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest

import cdopt
from cdopt.scene import Material, from_lammps, from_positions

DATA = Path(__file__).parent.parent / "data" / "lammps"


def test_a_dump_is_read_by_id() -> None:
    scene = cdopt.scene.load(DATA / "heap.dump")
    walls, free = np.flatnonzero(scene.bodies.fixed), ~scene.bodies.fixed
    assert [scene.bodies.names[k] for k in walls] == [
        *("left wall", "right wall", "front wall", "back wall"),
        "bottom wall",
    ]  # the top shrinks to fit
    np.testing.assert_array_equal(scene.bodies.position[free][:, 0], [0.5, 1.5, 1.0])
    np.testing.assert_array_equal(scene.bodies.mass[free], [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(scene.bodies.reach[free], [0.5] * 3)
    np.testing.assert_array_equal(
        scene.bodies.velocity[free][[0, 2]], [[0.125, 0, 0], [0, 0, -0.25]]
    )
    np.testing.assert_array_equal(scene.bodies.angular_velocity[free][1], [0.0, 2.0, 0.0])
    assert scene.title == "LAMMPS, time step 1000"
    assert from_lammps(DATA / "heap.dump", frame=0).nb == 6
    scaled = (DATA / "heap.dump").read_text().replace("x y z", "xs ys zs")
    again = from_lammps(_written(DATA / "heap.dump", scaled), walls=None)
    np.testing.assert_allclose(again.bodies.position[:, 0], [1.0, 3.0, 2.0])


def _written(like: Path, text: str) -> Path:
    """A file of the same kind with another text."""
    path = Path(tempfile.mkdtemp()) / like.name
    path.write_text(text)
    return path


def test_periodic_bounds_become_a_box() -> None:
    text = (DATA / "heap.dump").read_text().replace("BOUNDS ff ff", "BOUNDS pp ff")
    text = text.replace("2.0000000000000000e+00", "4.0000000000000000e+00")
    scene = from_lammps(_written(DATA / "heap.dump", text))
    np.testing.assert_array_equal(scene.box.size, [4.0, np.inf, np.inf])
    assert scene.bodies.names[:3] == ("front wall", "back wall", "bottom wall")
    assert from_lammps(_written(DATA / "heap.dump", text), box=False).box is None


def test_from_a_snapshot_to_forces_bounds_and_stress() -> None:
    """What the springs of the code carried, from the overlaps alone."""
    soft = [Material(name="soft", stiffness=2e4)]
    scene = from_lammps(
        DATA / "heap.dump", walls=[[0, 0, 0], [2, 1, None]], material="soft", materials=soft
    )
    contacts = cdopt.collision.detect(scene, scene.initial, 0.0)
    step = cdopt.collision.step(scene, scene.initial, contacts, dt=1e-3)
    floor = (contacts.bodies[:, 0] == 4) & (contacts.phi < 0.0)
    forces = contacts.stiffness * np.maximum(-contacts.phi, 0.0)
    np.testing.assert_allclose(forces[floor], 1e4 * 0.001)  # two halves of 2e4 N/m in series
    assert cdopt.stress(step, forces)[2, 2] > 0.0
    solution = cdopt.CompatibleCD(step).solve()
    assert solution.ok
    report = cdopt.indeterminacy(step)
    assert report.nullity >= 0
    assert ((report.lower - 1e-6 <= solution.f) & (solution.f <= report.upper + 1e-6)).all()


def test_a_data_file_in_the_plane() -> None:
    scene = cdopt.scene.load(str(DATA / "pair.data"))
    free = ~scene.bodies.fixed
    assert scene.dim == 2
    np.testing.assert_allclose(scene.bodies.velocity[free], [[1.0, 0.0], [-1.0, 0.0]])
    np.testing.assert_allclose(scene.bodies.angular_velocity[free], [0.0, 4.0])
    np.testing.assert_allclose(scene.bodies.density[free], [1000.0, 2000.0])
    contacts = cdopt.collision.detect(scene, scene.initial)
    assert contacts.nc == 7  # each disc at three walls, and at the other
    assert from_lammps(DATA / "pair.data", dim=3).dim == 3
    assert from_lammps(DATA / "pair.data", mass=2.0).bodies.mass[-1] == 2.0


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("heap.dump", "0.5 3.0", "0.5 heavy", r"line 20.*columns of numbers"),
        ("heap.dump", "0.5 3.0", "0.5", "line 20"),
        ("heap.dump", "\n3\nITEM", "\n4\nITEM", "4 lines"),
        ("heap.dump", " radius", " size", "radius or diameter"),
        ("heap.dump", " x y z v", " a b c v", "columns x, y, z"),
        ("heap.dump", "ITEM: BOX BOUNDS ff ff fs\n0.0", "ITEM: NO\n0.0", "BOX BOUNDS"),
        ("heap.dump", "BOX BOUNDS ff ff fs\n0.0", "BOX BOUNDS xy xz yz ff ff fs\n0.0", "sheared"),
        ("pair.data", "# sphere", "# atomic", "style sphere"),
        ("pair.data", "0.0 1.0 ylo yhi", "", "bounds"),
        ("pair.data", "2 atoms", "0 atoms", "number of atoms"),
        ("pair.data", "1 1.0 0.0 0.0 0.0 0.0 0.0\n", "7 1.0 0.0 0.0 0.0 0.0 0.0\n", "same atoms"),
        ("pair.data", "1.5 0.5 0.0", "1.5 nan 0.0", "finite"),
    ],
)
def test_faults_are_named(file: str, old: str, new: str, message: str) -> None:
    text = (DATA / file).read_text()
    assert old in text
    with pytest.raises(cdopt.CdoptError, match=f"(?s){message}"):
        from_lammps(_written(DATA / file, text.replace(old, new)))


def test_what_is_no_snapshot_is_refused() -> None:
    with pytest.raises(cdopt.InvalidInput, match="frame"):
        from_lammps(DATA / "heap.dump", frame=2)
    with pytest.raises(cdopt.InvalidInput, match="walls"):
        from_positions([[0.0, 0.0]], 1.0, walls=[[1.0, 0.0], [0.0, 1.0]])
    with pytest.raises(cdopt.InvalidInput, match="colour"):
        from_positions([[0.0, 0.0]], 1.0, colour="red")
    with pytest.raises(cdopt.InvalidInput, match="radius"):
        from_positions([[0.0, 0.0]], [1.0, 2.0])


def test_grains_behind_a_wall_do_not_count_as_touching() -> None:
    with pytest.raises(cdopt.InvalidInput, match=r"2 centres behind them, the first x\[0\]"):
        from_positions([[0, 0.5], [0.98, 0.5]], 0.5, walls=[[-1, 1.6], [0, None]])


def test_an_overlap_deeper_than_a_radius_is_no_compressed_contact() -> None:
    with pytest.raises(
        cdopt.InvalidInput, match=r"bodies\[0\] and bodies\[1\] 0\.7 m inside.*radius"
    ):
        from_positions([[0, 0.5], [0.3, 0.5]], 0.5)
    apart = from_positions([[0, 0.5], [0.3, 0.5]], 0.5, overlaps="resolve")
    assert apart.bodies.nb == 2
