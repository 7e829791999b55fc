"""Programs as files for other solvers, and their answers back in newtons."""

from __future__ import annotations

import clarabel
import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from command_line import refuses, run, run_json

import cdopt
from cdopt import bank
from cdopt.formulations import Formulation
from cdopt.formulations.stated_program import StatedProgram, stated_program
from cdopt.interop import exports, quadratic_programs


def fan(form: str, power: float = 2.0) -> cdopt.NoTensionTruss:
    loaded = bank.load("fan")
    return cdopt.NoTensionTruss(loaded.B, loaded.contact_load, loaded.stiffness, power, form=form)


PYRAMID, BEAM = bank.load("pyramid-hooke:n=3").step, bank.load("beam-stiff-middle").step
INCLINE = bank.load("incline").step
CASES = {
    "classic, force": lambda: cdopt.ClassicCD(PYRAMID),
    "classic, velocity": lambda: cdopt.ClassicCD(PYRAMID, form="velocity"),
    "classic, N and p": lambda: cdopt.ClassicCD(bank.load("supports-delassus").step),
    "associated, force": lambda: cdopt.FrictionalCD(INCLINE, "associated", "force"),
    "associated, velocity": lambda: cdopt.FrictionalCD(INCLINE, "associated", "velocity"),
    "compliant, velocity": lambda: cdopt.CompliantCD(BEAM, kappa=1e7, form="velocity"),
    "compliant, Hertz": lambda: cdopt.CompliantCD(BEAM, 2.5, kappa=1e7, form="velocity"),
    "truss, complementary": lambda: fan("complementary"),
    "truss, potential": lambda: fan("potential"),
    "truss, Hertz": lambda: fan("potential", 2.5),
    "added constraint": lambda: _capped(cdopt.CompliantCD(BEAM, kappa=1e7)),
}


def _capped(cd: Formulation) -> Formulation:
    return cd.with_constraints(cd.forces[1] <= 4.0)


def solved(program: StatedProgram) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x, y and z by Clarabel's own interface, from the matrices alone."""
    A, one = sp.csr_array(program.A), sp.identity(program.n, format="csr")
    equal = program.l == program.u
    up, lo = np.isfinite(program.u) & ~equal, np.isfinite(program.l) & ~equal
    ub, lb = np.isfinite(program.ub), np.isfinite(program.lb)
    rows = sp.vstack([A[equal], A[up], -A[lo], one[ub], -one[lb], -program.G]).tocsc()
    at = (program.u[equal], program.u[up], -program.l[lo], program.ub[ub], -program.lb[lb])
    sides = np.concatenate([*at, program.h])
    cones = [clarabel.ZeroConeT(equal.sum())]
    cones.append(clarabel.NonnegativeConeT(up.sum() + lo.sum() + ub.sum() + lb.sum()))
    cones += [clarabel.SecondOrderConeT(int(size)) for size in program.cones]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
    P = sp.triu(program.P).tocsc()
    answer = clarabel.DefaultSolver(P, np.array(program.q), rows, sides, cones, settings).solve()
    z, y = np.array(answer.z), np.zeros(program.l.size)
    ne, nu, nl = equal.sum(), up.sum(), lo.sum()
    y[equal], y[up] = z[:ne], z[ne : ne + nu]
    y[lo] -= z[ne + nu : ne + nu + nl]
    return np.array(answer.x), y, z[z.size - program.h.size :]


def read_npz(path) -> StatedProgram:
    """What another program does with the file, by its documentation."""
    with np.load(path) as content:
        entries = dict(content)
    matrices = {}
    for name in ("P", "A", "G"):
        parts = [entries.pop(f"{name}.{part}") for part in ("data", "indices", "indptr", "shape")]
        matrices[name] = sp.csc_array(tuple(parts[:3]), shape=tuple(parts[3]))
    plain = {k: v.item() if v.ndim == 0 else v for k, v in entries.items()}
    return StatedProgram(**matrices, **plain)


@pytest.mark.parametrize("name", CASES)
def test_answers_to_a_file_come_back_in_newtons(tmp_path, name: str) -> None:
    cd = CASES[name]()
    known = cd.solve("clarabel", accuracy=1e-11)
    exports.write(tmp_path / "program.npz", cd)
    program = read_npz(tmp_path / "program.npz")
    x, y, z = solved(program)
    solution = cd.from_vector(x, y, z)
    assert solution.ok, solution.certificate
    objective = program.objective(x) * program.objective_unit
    assert objective == pytest.approx(known.objective, rel=1e-6)
    motion = np.array(program.rest)
    motion[program.motion_dof] += program.motion_unit * x[program.motion_place]
    if program.motion_dof.size:
        known_motion = known.v_next if known.u is None else known.u
        np.testing.assert_allclose(motion, known_motion, atol=1e-6)
    if program.force_place.size:
        f = program.force_unit * x[program.force_place]
        np.testing.assert_allclose(f, solution.iterate.forces, atol=1e-9)


@pytest.mark.parametrize("name", ["classic, force", "associated, velocity", "truss, potential"])
def test_physical_programs_are_the_same_in_newtons(name: str) -> None:
    cd = CASES[name]()
    plain, physical = stated_program(cd), stated_program(cd, physical=True)
    x, y, z = solved(plain)
    at = np.ones(plain.n)
    at[plain.force_place] = plain.force_unit
    at[plain.motion_place] = plain.motion_unit
    there = at * x
    unit = plain.objective_unit
    assert physical.objective(there) == pytest.approx(unit * plain.objective(x), rel=1e-12)
    assert physical.objective_unit == 1.0
    assert set(physical.force_unit) | set(physical.motion_unit) == {1.0}
    solution = cd.from_vector(there, unit * y, unit * z, physical=True)
    assert solution.ok
    np.testing.assert_allclose(solution.iterate.forces, cd.from_vector(x, y, z).iterate.forces)


@pytest.mark.parametrize("name", ["classic, force", "classic, velocity", "truss, potential"])
def test_highs_reads_and_solves_the_quadratic_ones(tmp_path, name: str) -> None:
    """In units and in newtons; bounds are bounds, no rows."""
    cd = CASES[name]()
    for physical in (False, True):
        path = tmp_path / "program.mps"
        written = exports.write(path, cd, physical=physical)
        text = path.read_text()
        stated = quadratic_programs.read(path)
        if name == "classic, force":
            forces = cd.data.nc
            assert stated.h.size == 0
            assert np.count_nonzero(stated.lower == 0.0) == forces
            assert "BOUNDS" in text
        x, *_ = solved(written)
        assert stated.objective(x) == pytest.approx(written.objective(x), rel=1e-9)


def read_cbf(text: str) -> StatedProgram:
    """The sections of the format that a linear program with cones has."""
    lines = [line for line in text.splitlines() if line.strip()]

    def after(keyword: str) -> list[str]:
        return lines[lines.index(keyword) + 1 :] if keyword in lines else ["0"]

    def entries(keyword: str) -> list[list[float]]:
        rows = after(keyword)
        return [list(map(float, row.split())) for row in rows[1 : 1 + int(rows[0])]]

    n, m = int(after("VAR")[0].split()[0]), int(after("CON")[0].split()[0])
    kinds = [row.split() for row in after("CON")[1 : 1 + int(after("CON")[0].split()[1])]]
    q, h, A = np.zeros(n), np.zeros(m), np.zeros((m, n))
    for j, value in entries("OBJACOORD"):
        q[int(j)] = value
    for i, value in entries("BCOORD"):
        h[int(i)] = value
    for i, j, value in entries("ACOORD"):
        A[int(i), int(j)] = value
    label = np.repeat([kind for kind, _ in kinds], [int(size) for _, size in kinds])
    equal, above, cone = label == "L=", label == "L+", label == "Q"
    linear = equal | above
    l, u = -h[linear], np.where(equal[linear], -h[linear], np.inf)  # noqa: E741
    none, empty = np.full(n, np.inf), np.zeros(0, dtype=int)
    sizes = np.array([int(size) for kind, size in kinds if kind == "Q"], dtype=int)
    return StatedProgram(
        sp.csc_array((n, n)), q, float(after("OBJBCOORD")[0]), sp.csc_array(A[linear]), l, u,
        -none, none, sp.csc_array(A[cone]), h[cone], sizes, empty, np.zeros(0), empty,
        np.zeros(0), empty, np.zeros(0), 1.0, "", False,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["classic, force", "associated, force", "added constraint"])
def test_cones_stand_in_cbf_files(tmp_path, name: str) -> None:
    cd = CASES[name]()
    exports.write(tmp_path / "program.cbf", cd)
    x, _, _ = solved(read_cbf((tmp_path / "program.cbf").read_text()))
    known = cd.solve("clarabel", accuracy=1e-11)
    f = cd.from_vector(x, tol=1e-4).iterate.forces
    load = cd.data.load(f) - cd.data.load(known.iterate.forces)
    np.testing.assert_allclose(load, 0.0, atol=1e-4 * np.abs(f).max())


@pytest.mark.filterwarnings("ignore:The default value for `spmatrix`:DeprecationWarning")
def test_matlab_has_the_same_names(tmp_path) -> None:
    cd = CASES["associated, velocity"]()
    written = exports.write(tmp_path / "program.mat", cd)
    content = scipy.io.loadmat(tmp_path / "program.mat")
    assert abs(sp.csc_array(content["P"]) - written.P).sum() == 0.0
    np.testing.assert_array_equal(content["lb"].ravel(), written.lb)
    np.testing.assert_array_equal(content["cones"].ravel(), written.cones)


def test_what_is_refused(tmp_path) -> None:
    rough = CASES["associated, force"]()
    with pytest.raises(cdopt.Unsupported, match="needs cones"):
        exports.write(tmp_path / "rough.mps", rough)
    with pytest.raises(cdopt.InvalidInput, match="path"):
        exports.write(tmp_path / "rough.txt", rough)
    cd = CASES["classic, velocity"]()
    program = stated_program(cd)
    x, y, _ = solved(program)
    with pytest.raises(cdopt.InvalidInput, match="multipliers"):
        cd.from_vector(x)
    with pytest.raises(cdopt.InvalidInput, match="x: found"):
        cd.from_vector(x[:-1])
    with pytest.raises(cdopt.InvalidInput, match="y"):
        cd.from_vector(x, y[:-1])
    assert not cd.from_vector(0.5 * x, y).ok


def test_the_command_writes_problems_of_the_bank_files_and_scenes(tmp_path) -> None:
    out = tmp_path / "a.mps"
    shown = run("export", "table", "--out", out)
    assert shown.exit_code == 0, shown.output
    assert "from_vector" in shown.stdout
    assert quadratic_programs.read(out).n > 0
    BEAM.save(tmp_path / "mine.npz")
    answer = run_json("export", tmp_path / "mine.npz", "--out", tmp_path / "b.npz", "--physical")
    assert answer["unknowns"] == 5
    rough = run_json("export", "incline", "--out", tmp_path / "c.cbf")
    assert rough["cones"] > 0
    refuses("needs cones", "export", "incline", "--out", tmp_path / "c.mps")
    assert run("export", "incline", "--frictionless", "--out", tmp_path / "d.qps").exit_code == 0
    refuses("--formulation", "export", "table", "--formulation", "mine", "--out", out)
    refuses("no friction", "export", "table", "--formulation", "associated", "--out", out)


def test_the_command_replaces_another_kind_of_file_by_force_alone(tmp_path) -> None:
    out = tmp_path / "notes.npz"
    out.write_text("my notes")
    refuses("--force", "export", "table", "--out", out)
    assert out.read_text() == "my notes"
    shown = run("export", "table", "--out", out, "--force")
    assert shown.exit_code == 0, shown.output
    assert np.load(out)["q"].size > 0
    kept = tmp_path / "table.mps"
    kept.write_text("my program")
    refuses("needs cones", "export", "incline", "--out", kept, "--force")
    assert kept.read_text() == "my program"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.npz", "table.mps"]
