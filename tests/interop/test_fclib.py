"""FCLib files: three storage schemes, two kinds of problem, what is derived, what is refused."""

from __future__ import annotations

import shutil
import tracemalloc
import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest
import scipy.sparse as sp

import cdopt
from cdopt.interop import fclib

SCHEMES = ("rows", "columns", "triplets")


# --- writing files as FCLib's own functions do -----------------------------------------


def put_matrix(group: h5py.Group, matrix: np.ndarray, scheme: str, slack: int = 0) -> None:
    """A matrix in one of the three schemes, with ``slack`` unused entries at the end."""
    if scheme == "rows":
        csr = sp.csr_array(matrix)
        nz, p, i, x = -2, csr.indptr, csr.indices, csr.data
    elif scheme == "columns":
        csc = sp.csc_array(matrix)
        nz, p, i, x = -1, csc.indptr, csc.indices, csc.data
    else:
        coo = sp.coo_array(matrix)
        nz, p, i, x = coo.nnz, coo.col, coo.row, coo.data  # columns in p, rows in i
    numbers = {"m": matrix.shape[0], "n": matrix.shape[1], "nz": nz, "nzmax": len(x) + slack}
    for name, number in numbers.items():
        group[name] = np.array([number], dtype=np.int32)
    group["p"] = p.astype(np.int32)
    spare = 0 if scheme == "triplets" else slack
    group["i"] = np.append(i, np.zeros(spare)).astype(np.int32)
    group["x"] = np.append(x, np.full(slack, np.pi))


def write_file(path: Path, kind: str, d: int, scheme: str, slack: int = 0, **parts) -> Path:
    """Matrices have capital names, vectors small ones, q or w the rows of the contacts."""
    rows = parts["q"] if "q" in parts else parts["w"]
    with h5py.File(path, "w") as file:
        root = file.create_group(f"fclib_{kind}")
        root["spacedim"] = np.array([d], dtype=np.int32)
        root["vectors/mu"] = np.full(len(rows) // d, 0.5)
        for name, values in parts.items():
            if name.isupper():
                put_matrix(root.create_group(name), values, scheme, slack)
            else:
                root[f"vectors/{name}"] = values
    return path


def write_local(path: Path, W, q, d: int = 3, scheme: str = "rows", slack: int = 0) -> Path:
    return write_file(path, "local", d, scheme, slack, W=W, q=q)


def write_global(path: Path, M, H, f, w, d: int = 3, scheme: str = "triplets") -> Path:
    return write_file(path, "global", d, scheme, M=M, H=H, f=f, w=w)


def matrices(d: int, nc: int = 4, nv: int = 6, seed: int = 0):
    """M, H, f, w of a frictional problem that some motion satisfies."""
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((nv, nv))
    H = rng.standard_normal((nv, nc * d)) * (rng.random((nv, nc * d)) < 0.7)
    w = np.abs(rng.standard_normal(nc * d)) * 0.1
    f = -5.0 * H[:, ::d] @ rng.uniform(0.5, 1.5, nc)  # a load that closes contacts
    return root @ root.T + nv * np.eye(nv), H, f, w


def local_of(M, H, f, w):
    inverse = np.linalg.inv(M)
    W = H.T @ inverse @ H
    return (W + W.T) / 2.0, H.T @ inverse @ f + w


@pytest.fixture
def good(tmp_path: Path) -> Path:
    return write_local(tmp_path / "good.hdf5", *local_of(*matrices(3)))


def published(name: str) -> Path:
    return cdopt.bank.problems_folder() / name / cdopt.bank.manifest(name).fclib


def load_step(path: Path, stiffness: object = 1.0):
    return fclib.read(path, stiffness).step


def refused(path, expected: str) -> cdopt.InvalidInput:
    with pytest.raises(cdopt.InvalidInput, match=expected) as caught:
        fclib.read(path)
    assert caught.value.argument == "path"
    assert caught.value.found
    assert caught.value.expected
    assert "\n" not in str(caught.value)
    return caught.value


# --- what is read ----------------------------------------------------------------------


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_problems_in_every_scheme(tmp_path: Path, d: int, scheme: str) -> None:
    M, H, f, w = matrices(d)
    W, q = local_of(M, H, f, w)
    for slack in (0, 5):
        read = fclib.read(write_local(tmp_path / "a.hdf5", W, q, d, scheme, slack))
        assert (read.kind, read.spacedim, read.step.nc, read.step.dt) == ("local", d, 4, 1.0)
        np.testing.assert_array_equal(read.step.N.toarray(), W[::d, ::d])
        np.testing.assert_array_equal(read.step.p_vec, q[::d])
        np.testing.assert_array_equal(read.W.toarray(), W)
        np.testing.assert_array_equal(read.q, q)
        np.testing.assert_array_equal(read.mu, 0.5)
        np.testing.assert_array_equal(read.step.stiffness, 1.0)
        assert read.symmetrised == 0.0
        assert "frictionless" in read.label
        assert read.label in repr(read)
    read = fclib.read(write_global(tmp_path / "a.hdf5", M, H, f, w, d, scheme))
    assert (read.kind, read.spacedim, read.step.nc, read.step.nv) == ("global", d, 4, 6)
    np.testing.assert_array_equal(read.step.M.toarray(), M)
    np.testing.assert_array_equal(read.step.B.toarray(), H.T[::d])
    np.testing.assert_array_equal(read.step.F_ext, f)
    np.testing.assert_array_equal(read.step.bias, w[::d])
    np.testing.assert_array_equal(read.H.toarray(), H)
    np.testing.assert_array_equal(read.w, w)
    assert not any(array.flags.writeable for array in (read.w, read.mu, read.H.data))


@pytest.mark.parametrize("d", [2, 3])
def test_local_and_global_are_the_same_problem(tmp_path: Path, d: int) -> None:
    M, H, f, w = matrices(d, seed=1)
    whole = load_step(write_global(tmp_path / "g.hdf5", M, H, f, w, d))
    local = load_step(write_local(tmp_path / "l.hdf5", *local_of(M, H, f, w), d))
    np.testing.assert_allclose(local.N.toarray(), whole.N.toarray(), atol=1e-12)
    np.testing.assert_allclose(local.p_vec, whole.p_vec, atol=1e-12)
    sharp = cdopt.backends.resolve("clarabel", accuracy=1e-12)
    one, other = (cdopt.ClassicCD(step).solve(sharp) for step in (whole, local))
    assert one.ok
    assert other.ok
    assert one.f.max() > 1e-3  # some contact is loaded, so that something is compared
    np.testing.assert_allclose(one.gap, other.gap, atol=1e-8)
    np.testing.assert_allclose(whole.N @ one.f, whole.N @ other.f, atol=1e-8)
    np.testing.assert_allclose(one.gap, whole.B @ one.v_next + w[::d], atol=1e-10)
    np.testing.assert_allclose(M @ one.v_next, H[:, ::d] @ one.f + f, atol=1e-8)


def test_duplicate_triplets_add_up(tmp_path: Path, good: Path) -> None:
    W, q = local_of(*matrices(3))
    path = write_local(tmp_path / "twice.hdf5", W / 2.0, q, scheme="triplets")
    with h5py.File(path, "r+") as file:
        group = file["fclib_local/W"]
        twice = {name: np.tile(group[name][()], 2) for name in "pix"}
        for name, value in twice.items():
            del group[name]
            group[name] = value
        group["nz"][0] = group["nzmax"][0] = len(twice["x"])
    np.testing.assert_allclose(fclib.read(path).W.toarray(), fclib.read(good).W.toarray())


def test_asymmetry_is_removed_reported_and_bounded(tmp_path: Path) -> None:
    """One rule for W and for M."""
    parts = matrices(3)
    W, q = local_of(*parts)
    size = np.abs(W).max()
    W[0, 3] += 2e-3 * size
    read = fclib.read(write_local(tmp_path / "a.hdf5", W, q))
    assert read.symmetrised == pytest.approx(2e-3 * size / np.abs(W).max(), rel=1e-9)
    np.testing.assert_allclose(read.step.N.toarray(), ((W + W.T) / 2.0)[::3, ::3], rtol=1e-14)
    np.testing.assert_array_equal(read.W.toarray(), W)
    W[0, 3] += 2e-2 * size
    refused(write_local(tmp_path / "b.hdf5", W, q), "asymmetry of 0.02")
    M = parts[0] + np.eye(6, k=1) * 1.5e-7 * np.abs(parts[0]).max()
    read = fclib.read(write_global(tmp_path / "a.hdf5", M, *parts[1:]))
    assert read.symmetrised == pytest.approx(np.abs(M - M.T).max() / np.abs(M).max(), rel=1e-9)
    np.testing.assert_allclose(read.step.M.toarray(), (M + M.T) / 2.0, rtol=1e-14)
    title = cdopt.open_problem(str(tmp_path / "a.hdf5")).title
    assert f"M made symmetric, {read.symmetrised:.1g} of its largest entry" in title


def test_stiffness_is_stated_by_the_caller(good: Path) -> None:
    np.testing.assert_array_equal(load_step(good, [1, 2, 3, 4]).stiffness, [1, 2, 3, 4])
    with pytest.raises(cdopt.InvalidInput, match="stiffness"):
        fclib.read(good, stiffness=-1.0)


def test_texts(good: Path) -> None:
    with h5py.File(good, "r+") as file:
        info = file["fclib_local"].create_group("info")
        info["title"] = np.bytes_("Boîtes\n".encode())
        info["description"] = "of variable length: not what FCLib writes"
        info["math_info"] = np.bytes_(b"\xff")
    read = fclib.read(good)
    assert (read.title, read.description, read.math_info) == ("Boîtes", "", "�")


def test_no_contacts(tmp_path: Path) -> None:
    step = load_step(write_local(tmp_path / "none.hdf5", np.zeros((0, 0)), np.zeros(0)))
    assert (step.nc, step.N.shape) == (0, (0, 0))


# --- the published files ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kind", "size", "symmetrised"),
    [
        ("fclib-box-stacks", "global", (82, 450), 0.0),
        ("fclib-capsules", "local", (286, 0), 1.336752e-3),
        ("fclib-periodic-box", "local", (60, 0), 0.0),
        ("fclib-boxes", "local", (48, 0), 0.0),
        ("fclib-spheres", "global", (256, 588), 0.0),
    ],
)
def test_published_files_are_read_and_written_back_to_the_last_digit(
    tmp_path: Path, name: str, kind: str, size: tuple, symmetrised: float
) -> None:
    manifest = cdopt.bank.manifest(name)
    read = fclib.read(published(name))
    assert (read.kind, read.spacedim) == (kind, 3)
    assert (read.step.nc, read.step.nv) == size
    assert read.symmetrised == pytest.approx(symmetrised, rel=1e-5, abs=1e-15)
    assert read.title
    assert read.mu.min() > 0.0
    np.testing.assert_array_equal(cdopt.bank.load(name).step.p_vec, read.step.p_vec)
    assert "frictionless" in manifest.title
    assert "Apache-2.0" in manifest.source
    notice = (cdopt.bank.problems_folder() / "NOTICE.md").read_text()
    assert f"`{name}`" in notice
    assert f"`{manifest.fclib}`" in notice
    fclib.write(tmp_path / "again.hdf5", read)
    again = fclib.read(tmp_path / "again.hdf5")
    for text in ("kind", "spacedim", "title", "description", "math_info", "symmetrised"):
        assert getattr(again, text) == getattr(read, text)
    for vector in ("mu", "q", "w"):
        np.testing.assert_array_equal(getattr(again, vector), getattr(read, vector))
    same(again.W, read.W) if kind == "local" else same(again.H, read.H)
    if kind == "global":
        same(again.step.M, read.step.M)
        np.testing.assert_array_equal(again.step.F_ext, read.step.F_ext)


def same(first: sp.csr_array, second: sp.csr_array) -> None:
    for part in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(first, part), getattr(second, part))


@pytest.mark.parametrize("name", ["fclib-box-stacks", "fclib-spheres"])
def test_the_normal_comes_first_and_impulses_are_a_placeholder(name: str) -> None:
    read = fclib.read(published(name))
    with h5py.File(published(name)) as file:
        assert not np.any(file["solution/r"][()])
    # in the first contact's block, the translations of a body it moves: normal, two tangents
    rows = np.flatnonzero(np.abs(read.H[:, [0]].toarray().ravel()) > 0.1)
    body = 6 * (rows[0] // 6)
    frame = read.H[body : body + 3, :3].toarray()
    np.testing.assert_allclose(frame.T @ frame, np.eye(3), atol=1e-6)
    assert np.abs(frame[2, 0]) == pytest.approx(1.0)  # this one bears weight, along z
    lengths = np.sqrt(read.H.power(2).sum(axis=0))[::3]
    assert np.all(lengths >= 1.0 - 1e-12)


# --- what is refused -------------------------------------------------------------------


def replace(path: Path, name: str, value) -> None:
    """Put another value, or nothing, under fclib_local/``name``."""
    with h5py.File(path, "r+") as file:
        root = file["fclib_local"]
        if name in root:
            del root[name]
        if value is not None:
            root[name] = value


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("spacedim", [4], "spacedim: 4"),
        ("spacedim", [3.0], "spacedim: .*float64"),
        ("spacedim", h5py.Empty("i4"), "spacedim: nothing"),
        ("W", [1.0], "W/m: nothing"),
        ("W/m", [13], "a multiple of spacedim 3"),
        ("W/m", [15], "vectors/q"),
        ("W/m", [-3], "W/m: -3"),
        ("W/m", [2**63], "W/m: .*64 bits"),
        ("W/n", [15], r"shape \(12, 15\)"),
        ("W/nz", [-3], "nz: -3"),
        ("W/nz", [0], "W/p: "),
        ("W/p", np.r_[0, 9, 3, np.arange(3, 13)].astype("i4"), "W: "),
        ("W/p", np.array([0] * 12 + [2**64 - 1], dtype="u8"), "W/p: .*64 bits"),
        ("W/p/deeper", [1], "W/p: nothing"),
        ("W/i", np.full(144, 12, dtype="i4"), "W: .*indices"),
        ("W/i", np.zeros(100, dtype="i4"), "W: indices and data"),
        ("W/x", np.full(144, np.nan), "nan"),
        ("W/x", np.full(144, 1j), "W/x: .*complex128"),
        ("W/x", -np.ones(144), "eigenvalue"),
        ("vectors", None, "vectors/q: nothing"),
        ("vectors/q", np.full(12, np.nan), "vectors/q: nan"),
        ("vectors/mu", -np.ones(4), "mu: -1.0"),
        ("V/n", [2], "V: 2 equality constraints"),
        ("R", [1], "R/n: nothing"),
    ],
)
def test_wrong_content(good: Path, name: str, value, expected: str) -> None:
    if name == "W/p/deeper":
        replace(good, "W/p", None)
    replace(good, name, value)
    refused(good, expected)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"M": np.eye(5)}, r"M: shape \(5, 5\)"),
        ({"M": -np.eye(6)}, "M: diagonal entry -1"),
        ({"M": np.eye(6) + np.eye(6, k=1) * 2e-2}, "M: asymmetry"),
        ({"f": np.zeros(5)}, "vectors/f: "),
        ({"f": np.full(6, np.inf)}, "f: inf"),
        ({"w": np.zeros(9)}, "vectors/w: "),
    ],
)
def test_wrong_global_content(tmp_path: Path, change: dict, expected: str) -> None:
    parts = {**dict(zip("MHfw", matrices(3), strict=True)), **change}
    refused(write_global(tmp_path / "a.hdf5", **parts), expected)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_equality_constraints_are_joints(tmp_path: Path, scheme: str) -> None:
    """M v = H r + G l + f, Gᵀ v + b = 0, written back without loss and solved."""
    rng, (M, H, f, w) = np.random.default_rng(1), matrices(3)
    G, b = rng.standard_normal((6, 2)), rng.standard_normal(2)
    path = write_file(tmp_path / "a.hdf5", "global", 3, scheme, M=M, H=H, f=f, w=w, G=G, b=b)
    problem = fclib.read(path)
    for step in (problem.step, problem.frictional_step):
        assert np.array_equal(step.joints.J.toarray(), G.T)
        assert np.array_equal(step.joints.rate, b)
    solution = cdopt.FrictionalCD(problem.frictional_step).solve()
    assert solution.ok
    v, r = solution.v_next, np.column_stack([solution.f, solution.f_t]).ravel()
    np.testing.assert_allclose(M @ v, H @ r + G @ solution.joint_forces + f, atol=1e-9)
    np.testing.assert_allclose(G.T @ v + b, 0.0, atol=1e-12)
    fclib.write(tmp_path / "b.hdf5", problem.frictional_step, solution)
    again = fclib.read(tmp_path / "b.hdf5").frictional_step
    assert np.array_equal(again.joints.J.toarray(), G.T)
    assert np.array_equal(again.joints.rate, b)
    with h5py.File(tmp_path / "b.hdf5") as file:
        assert np.array_equal(file["solution/l"][:], solution.joint_forces)


@pytest.mark.parametrize("rolling", [False, True])
def test_the_sign_of_multipliers_is_that_of_fclib(tmp_path: Path, rolling: bool) -> None:
    """fclib.h: M v = H r + G λ + f and Gᵀ v + b = 0, with files as its ``write_global`` has them.

    A mass of 2 kg pushed by f = 3 N s, held at v = −b = −0.5 m/s: λ = 2 · (−0.5) − 3 = −4. Its
    contact, along the other dof of 1 kg, bears the impulse of 7 N s.
    """
    name, d = ("fclib_global_rolling", 5) if rolling else ("fclib_global", 3)
    columns = {"M": np.diag([2.0, 1.0]), "H": np.zeros((2, d)), "G": np.array([[1.0], [0.0]])}
    columns["H"][1, 0] = 1.0
    path = tmp_path / "theirs.hdf5"
    with h5py.File(path, "w") as file:
        root = file.create_group(name)
        root["spacedim"] = np.array([d], dtype=np.int32)
        for key, dense in columns.items():
            matrix = sp.csc_array(dense)
            numbers = {"nzmax": matrix.nnz, "m": matrix.shape[0], "n": matrix.shape[1], "nz": -1}
            arrays = {"p": matrix.indptr, "i": matrix.indices, "x": matrix.data}
            for part, number in numbers.items():
                root[f"{key}/{part}"] = np.array([number], dtype=np.int32)
            for part, values in arrays.items():
                root[f"{key}/{part}"] = values
        vectors = {"f": [3.0, -7.0], "w": np.zeros(d), "mu": [0.3], "b": [0.5]}
        vectors |= {"mu_r": [0.1]} if rolling else {}
        for key, values in vectors.items():
            root[f"vectors/{key}"] = np.array(values)
    step = fclib.read(path).frictional_step
    solution = cdopt.FrictionalCD(step).solve()
    assert solution.v_next == pytest.approx([-0.5, 0.0], abs=1e-9)
    assert solution.joint_forces == pytest.approx([-4.0])
    assert solution.f == pytest.approx([7.0])
    fclib.write(tmp_path / "ours.hdf5", step, solution)
    with h5py.File(tmp_path / "ours.hdf5") as file:
        assert set(file[f"{name}/vectors"]) == set(vectors)
        assert file["solution/l"][:] == pytest.approx([-4.0])
        assert set(file["solution"]) == {"v", "l", "u", "r"}


def test_damaged_joints_and_exchanged_triplets_are_refused(tmp_path: Path) -> None:
    path = write_global(tmp_path / "a.hdf5", *matrices(3))
    with h5py.File(path, "r+") as file:
        put_matrix(file["fclib_global"].create_group("G"), np.ones((6, 2)), "rows")
    refused(path, "vectors/b: nothing")
    with h5py.File(path, "r+") as file:
        file["fclib_global/vectors/b"] = np.zeros(3)
    refused(path, "vectors/b: ")
    with h5py.File(path, "r+") as file:
        file["fclib_global/G/n"][0] = 0
    assert fclib.read(path).step.joints is None
    with h5py.File(path, "r+") as file:
        for old, new in (("p", "rows"), ("i", "p"), ("rows", "i")):
            file["fclib_global/H"].move(old, new)
    refused(path, "H: .*index")


def test_files_that_are_no_problem_of_their_own(tmp_path: Path, good: Path) -> None:
    whole, path = good.read_bytes(), tmp_path / "bad.hdf5"
    for share in (0.0, 0.1, 0.9, 0.999):
        path.write_bytes(whole[: int(share * len(whole))])
        refused(path, "bad.hdf5: ")
    path.write_text("plain text")
    refused(path, "bad.hdf5: ")
    for wrong in (None, 3, b"bytes", [1]):
        refused(wrong, "expected a text or a path")
    with h5py.File(path, "w"):
        pass
    refused(path, "neither kind")
    other = write_local(tmp_path / "other.hdf5", *local_of(*matrices(3)))
    replace(other, "vectors/q", h5py.ExternalLink(str(good), "/fclib_local/vectors/q"))
    refused(other, "vectors/q: a link elsewhere")
    with h5py.File(good, "r+") as file:
        file["fclib_global/spacedim"] = [3]
    refused(good, "both kinds")


def test_huge_declarations_are_refused_in_little_memory(good: Path, tmp_path: Path) -> None:
    huge, size, paths = 10**12, 9_999_999, [tmp_path / f"{k}.hdf5" for k in range(5)]
    of_ten_million = {"shape": (size,), "dtype": "f8", "chunks": (1024,)}
    declared = (
        {"vectors/q": {"shape": (huge,), "dtype": "f8"}},
        {"W/p": {"shape": (huge,), "dtype": "i4", "chunks": (1024,)}},
        {"vectors/q": {"shape": (12,), "dtype": "f8", "chunks": (2**28,), "maxshape": (None,)}},
        # as many components as are allowed, of vectors that are declared and not stored
        {"vectors/q": of_ten_million, "vectors/mu": {**of_ten_million, "shape": (size // 3,)}},
        {"W/x": {"shape": (2**28,), "dtype": "f8", "chunks": (2**20,), "compression": "gzip"}},
    )
    for path, datasets in zip(paths, declared, strict=True):
        shutil.copy(good, path)
        for name in datasets:
            replace(path, name, None)
        with h5py.File(path, "r+") as file:
            for name, dataset in datasets.items():
                file["fclib_local"].create_dataset(name, **dataset)
    for name, number in (("W/m", size), ("W/n", size), ("W/nz", 0)):
        replace(paths[3], name, [number])
    packed = zlib.compress(bytes(2**23), 9)  # two gigabytes of zeros in two megabytes
    with h5py.File(paths[4], "r+") as file:
        for start in range(0, 2**28, 2**20):
            file["fclib_local/W/x"].id.write_direct_chunk((start,), packed)
    tracemalloc.start()
    for path in paths:
        refused(path, "bytes declared in a file of")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 50e6


# --- writing ---------------------------------------------------------------------------


def test_a_step_with_a_time_step_of_one_comes_back_as_it_was(tmp_path: Path) -> None:
    step = cdopt.bank.load("pyramid-hooke:n=3").step.replace(dt=1.0)
    fclib.write(tmp_path / "a.hdf5", step, title="a pyramid")
    read = fclib.read(tmp_path / "a.hdf5")
    assert (read.kind, read.spacedim, read.title) == ("global", 3, "a pyramid")
    assert read.description == fclib.DESCRIPTION
    same(read.step.M, step.M)
    same(read.step.B, step.B)
    for name in ("phi", "v", "F_ext"):
        np.testing.assert_array_equal(getattr(read.step, name), getattr(step, name))
    np.testing.assert_array_equal(read.mu, 0.0)


@pytest.mark.parametrize("name", ["pyramid-falling", "impact", "rising-floor", "beam-middle-open"])
def test_impulses_are_forces_times_the_time_step(tmp_path: Path, name: str) -> None:
    step = cdopt.bank.load(name).step
    fclib.write(tmp_path / "a.hdf5", step)
    read = load_step(tmp_path / "a.hdf5")
    np.testing.assert_array_equal(read.bias, step.bias)
    ours = cdopt.ClassicCD(step).solve("newton")
    theirs = cdopt.ClassicCD(read).solve("newton")
    scale = np.abs(ours.v_next).max() + step.dt * np.abs(step.F_ext).max()  # round-off at rest
    np.testing.assert_allclose(theirs.v_next, ours.v_next, atol=1e-9 * scale)
    impulse = step.dt * (step.B.T @ ours.f)
    np.testing.assert_allclose(
        read.B.T @ theirs.f, impulse, atol=1e-9 * max(np.abs(impulse).max(), 1e-300)
    )


def test_a_delassus_step_is_a_local_problem(tmp_path: Path) -> None:
    step = cdopt.bank.load("supports-delassus").step
    fclib.write(tmp_path / "a.hdf5", step)
    read = fclib.read(tmp_path / "a.hdf5")
    assert read.kind == "local"
    np.testing.assert_allclose((read.step.N * step.dt).toarray(), step.N.toarray(), rtol=1e-15)
    np.testing.assert_array_equal(read.step.p_vec, step.p_vec)


def test_a_solution_solves_the_problem_in_the_file(tmp_path: Path) -> None:
    step = cdopt.bank.load("pyramid-falling").step
    solution = cdopt.ClassicCD(step).solve("newton")
    fclib.write(tmp_path / "a.hdf5", step, solution)
    read = fclib.read(tmp_path / "a.hdf5")
    with h5py.File(tmp_path / "a.hdf5") as file:
        r, u, v = (file[f"solution/{name}"][()] for name in "ruv")
    M, f = read.step.M, read.step.F_ext
    np.testing.assert_allclose(M @ v, read.H @ r + f, atol=1e-12 * np.abs(f).max())
    np.testing.assert_allclose((read.H.T @ v + read.w)[::3], u[::3], atol=1e-15)
    assert np.all(r[::3] >= 0.0)
    assert np.abs(r[::3]).max() > 0.0
    assert not np.any(r.reshape(-1, 3)[:, 1:])


def test_what_is_refused(tmp_path: Path) -> None:
    beam, path = cdopt.bank.load("beam-uniform").step, tmp_path / "a.hdf5"
    other = cdopt.ClassicCD(cdopt.bank.load("table").step).solve("newton")
    for match, *arguments in (
        ("problem: found 3", path, 3),
        ("solution: found 4 forces", path, beam, other),
        ("solution: found 'x'", path, beam, "x"),
        ("path: ", tmp_path / "none" / "a.hdf5", beam),
    ):
        with pytest.raises(cdopt.InvalidInput, match=match):
            fclib.write(*arguments)
    assert not list(tmp_path.iterdir())


def test_what_is_written_is_laid_out_as_the_published_files_are(tmp_path: Path) -> None:
    """Names, types and lengths of every number: a reader that takes those takes ours."""
    original = published("fclib-boxes")
    fclib.write(tmp_path / "again.hdf5", fclib.read(original))

    def layout(path: Path) -> dict:
        found: dict = {}
        with h5py.File(path) as file:
            file["fclib_local"].visititems(lambda name, item: found.update({name: item}))
            found = {k: v for k, v in found.items() if isinstance(v, h5py.Dataset)}
            found = {k: (v.dtype.str, v.shape) for k, v in found.items() if k[:4] != "info"}
        return found

    ours, theirs = layout(tmp_path / "again.hdf5"), layout(original)
    assert set(ours) == set(theirs)
    scheme = {"W/nzmax", "W/i", "W/x"}  # stored zeros are left out
    assert {k: v for k, v in ours.items() if k not in scheme} == {
        k: v for k, v in theirs.items() if k not in scheme
    }
    assert all(ours[name][0] == theirs[name][0] for name in scheme)


# --- friction --------------------------------------------------------------------------


def problem(name: str) -> fclib.FclibProblem:
    return fclib.read(published(name))


def test_the_frictional_step_is_what_the_file_stores() -> None:
    local, stored = problem("fclib-capsules"), problem("fclib-box-stacks")
    rows = local.frictional_step
    assert isinstance(rows, cdopt.DelassusStep)
    assert np.array_equal(rows.p_rows, local.q)
    assert np.array_equal(rows.p_vec, local.step.p_vec)
    assert local.symmetrised > 1e-4  # Siconos wrote an unsymmetric W
    assert np.allclose(rows.N_rows.toarray(), 0.5 * (local.W + local.W.T).toarray())
    matrices = stored.frictional_step
    assert np.array_equal(matrices.friction.mu, stored.mu)
    rates = np.column_stack([matrices.phi, matrices.friction.rate]).ravel()
    assert np.array_equal(rates, stored.w)
    v = np.random.default_rng(0).standard_normal(matrices.nv)
    sliding = (matrices.friction.B_t @ v).reshape(-1, stored.spacedim - 1)
    assert np.allclose(np.column_stack([matrices.B @ v, sliding]).ravel(), stored.H.T @ v)


def test_asymmetry_of_the_source_stands_in_every_result(tmp_path: Path) -> None:
    """Of files and of saved steps, with friction, without it and for some of the contacts."""
    stored = problem("fclib-capsules")
    step = stored.frictional_step.select(np.arange(4))
    assert step.symmetrised == stored.step.symmetrised == stored.symmetrised
    step.save(tmp_path / "step.npz")
    again = cdopt.DelassusStep.load(tmp_path / "step.npz")
    for solution in (
        cdopt.FrictionalCD(again).solve("newton"),
        cdopt.ClassicCD(again.without_friction()).solve("newton"),
    ):
        assert solution.provenance["symmetrised"] == stored.symmetrised
    rover = cdopt.bank.load("siconos-rover1039").step
    assert rover.symmetrised == pytest.approx(9.2e-6, rel=0.01)
    round_off = problem("fclib-boxes").frictional_step.select([0])
    assert "symmetrised" not in cdopt.FrictionalCD(round_off).solve("newton").provenance
    with pytest.raises(cdopt.InvalidInput, match="symmetrised"):
        again.replace(symmetrised=-1.0)


@pytest.mark.parametrize("name", ["rough-arch", "siconos-rover1039"])
def test_steps_with_friction_come_back(tmp_path: Path, name: str) -> None:
    """What is written, global or local, is read as the same problem, in impulses."""
    step = cdopt.bank.load(name).step
    solution = cdopt.FrictionalCD(step).solve("newton")
    fclib.write(tmp_path / "step.hdf5", step, solution)
    again = fclib.read(tmp_path / "step.hdf5")
    rows, other = (
        cdopt.problem.frictional_data(s, "coulomb") for s in (step, again.frictional_step)
    )
    assert np.array_equal(again.mu, step.friction.mu)
    assert np.abs(rows.p - other.p).max() <= 1e-15 * max(np.abs(rows.p).max(), 1.0)
    N = rows.delassus
    assert abs(N - step.dt * other.delassus).max() <= 1e-15 * abs(N).max()
    impulses = cdopt.FrictionalCD(again.frictional_step).solve("newton")
    assert impulses.ok
    with h5py.File(tmp_path / "step.hdf5") as file:
        stored = file["solution/r"][()].reshape(-1, step.friction.d)
    assert np.array_equal(stored[:, 1:], step.dt * solution.f_t)


@pytest.mark.parametrize("space", [True, False])
@pytest.mark.parametrize("matrices", [True, False])
def test_problems_with_rolling_friction_come_back(
    tmp_path: Path, space: bool, matrices: bool
) -> None:
    """Rows n, t, r, their coefficients, and the solution with its moments."""
    rng, nc, nv, m = np.random.default_rng(int(space)), 3, 12, 2 if space else 1
    B, B_t, B_r = (rng.standard_normal((many, nv)) for many in (nc, nc * m, nc * m))
    friction = cdopt.Friction(
        rng.uniform(0.1, 0.8, nc), B_t, rng.standard_normal((nc, m)),
        rolling=[0.0, 0.02, 0.03], B_r=B_r, spin=0.1,
    )  # fmt: skip
    v, F = np.zeros(nv), rng.standard_normal(nv)
    step = cdopt.ContactStep(np.eye(nv), B, rng.random(nc), v, F, 1.0, friction=friction)
    if not matrices:
        data = cdopt.FrictionalCD(step).data
        spin = np.zeros((nc, m))
        known = cdopt.Friction(friction.mu, rolling=friction.rolling, spin=spin)
        step = cdopt.ContactStep.from_delassus(data.delassus, data.p, friction=known)
    solution, path = cdopt.FrictionalCD(step).solve("newton"), tmp_path / "rolling.hdf5"
    fclib.write(path, step, solution)
    stored = fclib.read(path)
    assert stored.spacedim == (5 if space else 3)
    assert stored.kind == ("global" if matrices else "local")
    np.testing.assert_array_equal(stored.mu_r, friction.rolling)
    again = stored.frictional_step
    assert (again.friction.d, again.friction.moments) == (1 + m, m)
    for name in ("rate", "spin", "rolling"):
        mine, theirs = getattr(step.friction, name), getattr(again.friction, name)
        np.testing.assert_array_equal(mine, theirs)
    first, second = (cdopt.FrictionalCD(s).data for s in (step, again))
    np.testing.assert_allclose(first.p, second.p, atol=1e-15)
    np.testing.assert_array_equal(first.products.toarray(), second.products.toarray())
    with h5py.File(path) as file:
        assert f"fclib_{stored.kind}_rolling/vectors/mu_r" in file
        r = file["solution/r"][:].reshape(nc, -1)
    np.testing.assert_allclose(r[:, 1 + m :], solution.f_r)
    fclib.write(tmp_path / "again.hdf5", stored)
    np.testing.assert_array_equal(fclib.read(tmp_path / "again.hdf5").mu_r, stored.mu_r)


def test_moments_that_files_do_not_have_are_refused(tmp_path: Path) -> None:
    B = np.ones((1, 6))
    for kind in ({"torsion": 0.1, "B_r": B}, {"rolling": 0.1, "B_r": np.ones((2, 6)),
                                              "cone": "elliptic"}):  # fmt: skip
        friction = cdopt.Friction(0.5, np.ones((2, 6)), **kind)
        step = cdopt.ContactStep(np.eye(6), B, [0.0], B[0], B[0], 1.0, friction=friction)
        with pytest.raises(cdopt.Unsupported, match="FCLib"):
            fclib.write(tmp_path / "none.hdf5", step)
