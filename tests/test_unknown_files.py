"""Files of unknown origin: one clear error each, at once, in little memory; readers never write."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest

import cdopt
from cdopt._util import files
from cdopt.dynamics import trajectory_file
from cdopt.dynamics.trajectory_file import FileStore, FileWriter
from cdopt.interop import fclib
from cdopt.interop import quadratic_programs as qps
from cdopt.interop.fclib import write as write_fclib
from cdopt.scene.files import loads
from cdopt.study import problems

READERS = {
    ".npz": (cdopt.ContactStep.load, cdopt.StepSolution.load, problems),
    ".toml": (cdopt.scene.load,),
    ".vtkhdf": (cdopt.Trajectory.load, problems),
    ".hdf5": (fclib.read, problems),
    ".qps": (qps.read,),
}
BALLS = "dim = 2\n[[spheres]]\nradius = 1.0\nmass = 1.0\ncentres = [{}]\n"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    path = tmp_path / "run.vtkhdf"
    cdopt.simulate(cdopt.scene.beam(), 1e-3, 3e-3, out=path)
    return path


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {p.name: (p.lstat().st_mtime_ns, p.read_bytes()) for p in folder.iterdir()}


def test_what_is_no_file_is_named_at_once(tmp_path: Path) -> None:
    refused = 0
    for ending, readers in READERS.items():
        fifo, device = tmp_path / f"fifo{ending}", tmp_path / f"zero{ending}"
        if hasattr(os, "mkfifo"):
            os.mkfifo(fifo)
        device.symlink_to("/dev/zero")
        long = "x" * 300 + ending
        names = [str(fifo), str(device), str(tmp_path / f"none{ending}"), f"a\0b{ending}"]
        names += [str(tmp_path / ("x" * 5000 + ending)), f"problems/{long}"]
        (tmp_path / f"folder{ending}").mkdir()
        names.append(str(tmp_path / f"folder{ending}"))
        for name in names:
            for read in readers:
                with pytest.raises(cdopt.InvalidInput) as caught:
                    read(name)
                assert len(str(caught.value)) < 6000
                refused += 1
    assert refused == 7 * sum(map(len, READERS.values()))


def test_texts_that_are_none(tmp_path: Path) -> None:
    good = cdopt.scene.beam().to_toml()
    (tmp_path / "bom.toml").write_bytes(b"\xef\xbb\xbf" + good.encode())
    with pytest.raises(cdopt.InvalidInput, match="byte order mark"):
        cdopt.scene.load(tmp_path / "bom.toml")
    for text in ("dim = " + "1" * 5000, "a." * 50_000 + "b = 1", "a = " + "[" * 100_000, "\0"):
        with pytest.raises(cdopt.InvalidInput, match=r"^told"):
            loads(text, "told")


@pytest.mark.slow
def test_overlaps_are_counted_before_they_are_listed() -> None:
    with pytest.raises(cdopt.InvalidInput, match=r"544,483,500 pairs .* these overlap"):
        loads(BALLS.format("[0, 0]," * 33_000), "told")
    grid = np.stack(np.meshgrid(*[np.arange(32) * 2e-3] * 3), -1).reshape(-1, 3)
    with pytest.raises(cdopt.InvalidInput, match="these overlap"):
        cdopt.scene.Scene([cdopt.scene.Spheres(grid, 1.0, density=1.0)], dim=3)
    corners = np.random.default_rng(1).normal(size=(5000, 3))
    with pytest.raises(cdopt.InvalidInput, match="5000 corners"):
        cdopt.scene.Scene(
            [cdopt.scene.Body(cdopt.scene.Polyhedron(corners.tolist()), [0, 0, 0], mass=1.0)], dim=3
        )


def inflated(path: Path, header: bytes, body: bytes) -> Path:
    array = io.BytesIO()
    np.lib.format.write_array(array, np.zeros(10))
    raw = array.getvalue()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("M.npy", raw.replace(b"(10,)", header) + body)
    return path


@pytest.mark.slow
def test_archives_declare_no_more_than_they_hold(tmp_path: Path) -> None:
    for header, body, told in (
        (b"(9999999999,)", b"", r"allocate|EOF"),
        (b"(-10,)", b"", "negative"),
        (b"( 9,)", b"", "not one array"),
        (b"(40000000,)", bytes(2**28 + 1), "declared in a file"),
    ):
        with pytest.raises(cdopt.InvalidInput, match=told):
            cdopt.ContactStep.load(inflated(tmp_path / "step.npz", header, body))
    np.savez(tmp_path / "object.npz", M=np.array([{}], dtype=object))
    with pytest.raises(cdopt.InvalidInput, match=r"object|pickle|Object"):
        cdopt.ContactStep.load(tmp_path / "object.npz")


@pytest.mark.slow
def test_run_files_contain_everything_themselves(run: Path, tmp_path: Path) -> None:
    whole = run.read_bytes()
    (tmp_path / "raw").write_bytes(bytes(4096))

    def huge(file, **options) -> None:
        del file["cdopt/q"]
        file.create_dataset("cdopt/q", (10**10, 3), "f8", **options)

    def bomb(file) -> None:
        del file["cdopt/v"]
        data = file.create_dataset("cdopt/v", (2**18, 2**10), "f8", chunks=(1, 2**10),
                                   compression="gzip")  # fmt: skip
        data[:64] = 0.0

    def external(file) -> None:
        del file["cdopt/q"]
        file["cdopt/q"] = h5py.ExternalLink("other.h5", "q")

    def soft(file) -> None:
        del file["cdopt/q"]
        file["cdopt/q"] = h5py.SoftLink("/cdopt/v")

    def raw(file) -> None:
        del file["cdopt/step"]
        file.create_dataset("cdopt/step", (4,), "i8", external=[(str(tmp_path / "raw"), 0, 32)])

    def virtual(file) -> None:
        del file["cdopt/step"]
        layout = h5py.VirtualLayout((4,), "i8")
        layout[:] = h5py.VirtualSource(str(tmp_path / "raw"), "x", (4,))
        file.create_virtual_dataset("cdopt/step", layout)

    def loop(file) -> None:
        file["cdopt/again"] = file["cdopt"]

    for spoil, told in (
        (huge, "declared"), (lambda file: huge(file, chunks=(10**6, 3)), "declared"),
        (bomb, "declared"), (external, "link"), (soft, "link"), (raw, "other files"),
        (virtual, "other files"), (loop, "more"),
    ):  # fmt: skip
        run.write_bytes(whole)
        with h5py.File(run, "r+") as file:
            spoil(file)
        with pytest.raises(cdopt.InvalidInput, match=told):
            cdopt.Trajectory.load(run)
        with pytest.raises(cdopt.InvalidInput, match=told):
            cdopt.simulate(cdopt.scene.beam(), 1e-3, 5e-3, out=run, resume=True)


def test_a_damaged_number_of_a_run_is_found(run: Path) -> None:
    raw = bytearray(run.read_bytes())
    place = raw.find(cdopt.Trajectory.load(run).q.tobytes())
    assert place > 0
    raw[place] ^= 1
    run.write_bytes(raw)
    with pytest.raises(cdopt.InvalidInput, match="filter returned failure"):
        _ = cdopt.Trajectory.load(run).q


def killed(run: Path) -> cdopt.Trajectory:
    """Leave a run that was killed with its last steps in a part; returns the whole run."""
    scene = cdopt.scene.beam()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FileWriter, "_merge", lambda *_: None)
        patch.setattr(FileWriter, "resume", lambda writer: FileStore(run).checkpoint())
        cdopt.simulate(scene, 1e-3, 6e-3, out=run, resume=True)
    return cdopt.simulate(scene, 1e-3, 6e-3)


@pytest.mark.slow
def test_readers_write_nothing(run: Path, tmp_path: Path) -> None:
    whole = killed(run)
    link = tmp_path / "link.vtkhdf"
    link.symlink_to(run)
    before = contents(tmp_path)
    assert len(before) >= 3  # the file, its parts and the link
    for path in (run, link):
        read = cdopt.Trajectory.load(path)
        np.testing.assert_array_equal(read.q, whole.q)
        np.testing.assert_array_equal(read.final.f, whole.final.f)
        assert read.diagnostics["step"].tolist() == list(range(7))
        assert read.ok
    assert contents(tmp_path) == before
    ended = cdopt.simulate(cdopt.scene.beam(), 1e-3, 6e-3, out=run, resume=True)
    np.testing.assert_array_equal(ended.q, whole.q)
    assert [place.name for place in tmp_path.iterdir() if place != link] == [run.name]


@pytest.mark.parametrize("ending", [".lock", ".draft", pytest.param("", marks=pytest.mark.slow)])
def test_links_are_not_written_through(run: Path, tmp_path: Path, ending: str) -> None:
    victim, place = tmp_path / "victim", run.with_name(run.name + ending)
    victim.write_bytes(b"precious")
    place.unlink(missing_ok=True)
    place.symlink_to(victim)
    if ending == ".draft":  # it is replaced
        cdopt.simulate(cdopt.scene.beam(), 1e-3, 5e-3, out=run, resume=True)
    else:
        before = contents(tmp_path)
        with pytest.raises(cdopt.InvalidInput, match="a link"):
            cdopt.simulate(cdopt.scene.beam(), 1e-3, 5e-3, out=run, resume=True)
        assert contents(tmp_path) == before
    assert victim.read_bytes() == b"precious"


@pytest.mark.skipif(trajectory_file.fcntl is None, reason="no locks here")
def test_one_writer_at_a_time_however_they_come_and_go(run: Path, tmp_path: Path) -> None:
    first = FileWriter(run)
    with pytest.raises(cdopt.InvalidInput, match="another run"):
        FileWriter(run)
    assert len(cdopt.Trajectory.load(run)) == 4  # readers are welcome
    first.close()
    inside, most = [0], [0]

    def work() -> None:
        for _ in range(100):
            try:
                lock = trajectory_file._locked(run)
            except cdopt.InvalidInput:
                continue
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            inside[0] -= 1
            trajectory_file._unlock(run, lock)

    crew = [threading.Thread(target=work) for _ in range(4)]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()
    assert most == [1]
    assert [p.name for p in tmp_path.iterdir()] == [run.name]


def test_qps_files_are_read_without_touching_their_folder(tmp_path: Path) -> None:
    qps.write(tmp_path / "a.qps", cdopt.ClassicCD(cdopt.bank.load("beam-uniform").step))
    (tmp_path / ".a.qps.mps").write_bytes(b"precious")
    before = contents(tmp_path)
    qps.read(tmp_path / "a.qps")
    assert contents(tmp_path) == before


def test_saving_replaces_no_file_of_another_kind(tmp_path: Path) -> None:
    step, scene = cdopt.bank.load("beam-uniform").step, cdopt.scene.beam()
    savers = {
        ".npz": step.save, ".toml": scene.save,
        ".mps": lambda path: qps.write(path, cdopt.ClassicCD(step)),
        ".hdf5": lambda path: write_fclib(path, step),
    }  # fmt: skip
    for own, save in savers.items():
        save(tmp_path / f"a{own}")
        save(tmp_path / f"a{own}")  # a file of its kind is replaced
    before = contents(tmp_path)
    for own, save in savers.items():
        for other in (*savers, ".vtkhdf", ".jsonl", ".obj"):
            if other != own:
                with pytest.raises(cdopt.InvalidInput, match=r"another kind|ends in \.mps"):
                    save(tmp_path / f"a{other}")
    assert contents(tmp_path) == before
    (tmp_path / "bare").write_bytes((tmp_path / "a.npz").read_bytes())
    (tmp_path / "text.npz").write_text("precious")
    for path, save in ((tmp_path / "bare", scene.save), (tmp_path / "text.npz", step.save)):
        before = contents(tmp_path)
        with pytest.raises(cdopt.InvalidInput, match="of another kind, which is not replaced"):
            save(path)
        assert contents(tmp_path) == before


def test_halves_of_characters_are_refused(tmp_path: Path) -> None:
    step, half = cdopt.bank.load("beam-uniform").step, "\ud800"
    for save in (
        lambda: step.save(f"{tmp_path}/{half}.npz"),
        lambda: cdopt.scene.beam().save(f"{half}.toml"),
        lambda: qps.write(f"{half}.qps", cdopt.ClassicCD(step)),
        lambda: write_fclib(tmp_path / "a.hdf5", step, title=half),
        lambda: cdopt.ContactStep.load(f"{half}.npz"), lambda: cdopt.scene.load(f"{half}.toml"),
    ):  # fmt: skip
        with pytest.raises(cdopt.InvalidInput) as caught:
            save()
        str(caught.value).encode()  # the message itself can be written
    assert not list(tmp_path.iterdir())


def test_scenes_and_studies_are_counted_before_they_are_kept(tmp_path: Path) -> None:
    with pytest.raises(cdopt.InvalidInput, match=r"2,400,\d+ numbers and lines"):
        loads(BALLS.format("[0, 0]," * 1_200_000), "told")
    path = tmp_path / "runs.jsonl"
    for content in (b"\n" * 10_000_000, b"00000000 {}\n" * 1_000_000):
        path.write_bytes(content)
        with pytest.raises(cdopt.InvalidInput, match="more than 10,000 damaged lines"):
            cdopt.study.read(path)


@pytest.mark.slow
def test_meshes_are_counted_before_they_are_kept(tmp_path: Path) -> None:
    many = 600_000  # a face of this many corners took a hundred bytes for each
    for name, content, told in (
        ("face.obj", b"v 0 0 0\nf " + b"1 " * many, "line 2 of 1,200,002 characters"),
        ("vertices.obj", b"v 0 0 0\n" * many, "more than 500,000"),
        ("groups.obj", b"v 0 0 0\n" + b"".join(b"g %d\nf 1 1 1\n" % k for k in range(50_001)),
         "more than 50,000 blocks"),
        ("text.stl", b"solid\n" + b"vertex 0 0 0\n" * 3 * many, "more than 500,000"),
        ("solids.stl", b"solid a\n" * 100_002, "more than 50,000 blocks"),
        ("binary.stl", bytes(80) + many.to_bytes(4, "little") + bytes(50 * many), "500,000"),
        ("list.json", b'{"blocks": [' + b" " * 2**24 + b"]}", "at most 16777216 bytes"),
    ):  # fmt: skip
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(cdopt.InvalidInput, match=told):
            cdopt.scene.load(path)


@pytest.mark.slow
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES])
def test_a_full_disk_leaves_what_was_there(run: Path, tmp_path: Path, code: int) -> None:
    step = cdopt.bank.load("beam-uniform").step
    savers = {
        "step.npz": step.save,
        "scene.toml": cdopt.scene.beam().save,
        "a.qps": lambda path: qps.write(path, cdopt.ClassicCD(step)),
        "a.hdf5": lambda path: write_fclib(path, step),
    }
    for name, save in savers.items():
        save(tmp_path / name)
    before = contents(tmp_path)

    def full(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "write_into", full)
        patch.setattr(files, "synchronise", full)
        for name, save in savers.items():
            with pytest.raises(cdopt.SaveFailed, match=name):
                save(tmp_path / name)
        with pytest.raises(cdopt.SaveFailed, match=r"run\.vtkhdf"):
            cdopt.simulate(cdopt.scene.beam(), 1e-3, 6e-3, out=run, resume=True)
    assert contents(tmp_path) == before
    cdopt.simulate(cdopt.scene.beam(), 1e-3, 6e-3, out=run, resume=True)
    whole = cdopt.simulate(cdopt.scene.beam(), 1e-3, 6e-3)
    np.testing.assert_array_equal(cdopt.Trajectory.load(run).q[-1], whole.q[-1])


LIMITED = """
import resource, signal, sys, cdopt
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1500000, 1500000))
grain = cdopt.scene.Material(name="grain", stiffness=2e4)
balls = [cdopt.scene.Body(cdopt.scene.Sphere(0.1), [x, 0.0, 0.0], mass=1.0, material="grain")
         for x in (0.0, 0.199)]
scene = cdopt.scene.Scene(balls, dim=3, materials=[grain], overlap_tol=0.1)
try:
    cdopt.simulate(scene, 1e-4, 100.0, "velocity-verlet", out=sys.argv[1])
except cdopt.SaveFailed as error:
    print(error)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no limits here")
def test_a_run_that_meets_the_end_of_the_disk_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "run.vtkhdf"
    done = subprocess.run([sys.executable, "-c", LIMITED, str(path)], capture_output=True,
                          text=True, timeout=300, check=True)  # fmt: skip
    assert "run.vtkhdf could not be saved" in done.stdout
    assert len(cdopt.Trajectory.load(path)) >= 1


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is limited on Linux")
def test_damaged_files_are_read_or_refused() -> None:
    command = [sys.executable, "-m", "tests.campaigns", "damaged_files", "--count", "40"]
    done = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True,
                          timeout=1800, check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
