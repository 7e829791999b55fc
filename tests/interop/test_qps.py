"""Quadratic programs in QPS files: what is written, read and solved is the formulation's own."""

from __future__ import annotations

from pathlib import Path

import cvxpy as cp
import highspy
import numpy as np
import pytest

import cdopt
from cdopt.interop import quadratic_programs as qps

NAMES = ("beam-stiff-middle", "crystal-2d", "pyramid-falling")


def by_hand(path: Path) -> tuple[dict, dict, dict, dict, float]:
    """A second reader for free MPS: costs, quadratic entries, rows, right sides, offset."""
    section, kinds, cost, rows, quadratic, right = "", {}, {}, {}, {}, {}
    for line in path.read_text().splitlines():
        words = line.split()
        if not words or line.startswith("*"):
            continue
        if not line[0].isspace():
            section = words[0]
        elif section == "ROWS":
            kinds[words[1]] = words[0]
        elif section == "COLUMNS":
            for row, value in zip(words[1::2], words[2::2], strict=True):
                if kinds[row] == "N":
                    cost[words[0]] = float(value)
                else:
                    rows.setdefault((kinds[row], row), {})[words[0]] = float(value)
        elif section == "RHS":
            right.update({r: float(v) for r, v in zip(words[1::2], words[2::2], strict=True)})
        elif section == "QUADOBJ":
            quadratic[words[0], words[1]] = float(words[2])
    free = next(name for name, kind in kinds.items() if kind == "N")
    return cost, quadratic, rows, right, -right.pop(free, 0.0)


@pytest.mark.parametrize("form", ["force", "velocity"])
@pytest.mark.parametrize("name", NAMES)
def test_matrices_come_back_and_highs_finds_the_same_objective(
    tmp_path: Path, name: str, form: str
) -> None:
    classic = cdopt.ClassicCD(cdopt.bank.load(name).step, form=form)
    first = qps.program(classic)
    assert abs(first.P - first.P.T).max() == 0.0
    qps.write(tmp_path / "a.qps", classic)
    again = qps.read(tmp_path / "a.qps")
    for part in ("P", "A", "G"):
        ours, theirs = getattr(first, part), getattr(again, part)
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(theirs.toarray(), ours.toarray(), rtol=1e-14, atol=0.0)
    for part in ("q", "b", "h", "lower", "upper"):
        np.testing.assert_allclose(getattr(again, part), getattr(first, part), rtol=1e-14)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.qps"]
    qps.write(tmp_path / "a.mps", classic)
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    assert solver.readModel(str(tmp_path / "a.mps")) == highspy.HighsStatus.kOk
    solver.run()
    assert solver.modelStatusToString(solver.getModelStatus()) == "Optimal"
    classic.problem.solve(cp.CLARABEL)
    objective = solver.getInfo().objective_function_value
    scale = max(abs(classic.problem.value), 1e-3)
    assert objective == pytest.approx(classic.problem.value, abs=1e-5 * scale)


def test_the_file_says_half_and_holds_one_triangle(tmp_path: Path) -> None:
    """Read by hand: ½ xᵀQx with the off-diagonal entries once, the constant with its sign."""
    x = cp.Variable(2)
    P = np.array([[4.0, 1.0], [1.0, 3.0]])
    constraints = [x[0] + 2.0 * x[1] == 3.0, x[0] - x[1] <= 5.0]
    problem = cp.Problem(cp.Minimize(0.5 * cp.quad_form(x, P) - x[0] + 7.0), constraints)
    stated = qps.program(problem)
    point = np.array([0.3, -1.7])
    assert stated.objective(point) == pytest.approx(0.5 * point @ P @ point - point[0] + 7.0)
    qps.write(tmp_path / "a.mps", stated)
    cost, quadratic, rows, right, offset = by_hand(tmp_path / "a.mps")
    place = {"x0": 0, "x1": 1}
    assert sorted(quadratic.values()) == [1.0, 3.0, 4.0]
    full = np.zeros((2, 2))
    for (i, j), value in quadratic.items():
        full[place[i], place[j]] = full[place[j], place[i]] = value
    np.testing.assert_array_equal(full, P)
    assert (cost, offset) == ({"x0": -1.0}, 7.0)
    assert rows["E", "e0"] == {"x0": 1.0, "x1": 2.0}
    assert rows["L", "i0"] == {"x0": 1.0, "x1": -1.0}
    assert (right["e0"], right["i0"]) == (3.0, 5.0)
    assert "FR" in (tmp_path / "a.mps").read_text()  # unknowns may be negative


def test_a_truss_of_hooke_springs_and_bounds(tmp_path: Path) -> None:
    B = np.column_stack([np.ones(3), [-0.5, 0.0, 0.5]])
    truss = cdopt.NoTensionTruss(B, np.array([10.0, 0.0]), stiffness=[1.0, 3.0, 1.0])
    stated = qps.program(truss)
    assert "QuadraticProgram" in repr(stated)
    solver = qps.loaded(stated)
    solver.run()
    x = np.array(solver.getSolution().col_value)
    np.testing.assert_allclose(x / x.sum(), [0.2, 0.6, 0.2], atol=1e-6)
    x = cp.Variable(1, bounds=[-1.0, 2.0])
    bounded = qps.program(cp.Problem(cp.Minimize(cp.sum_squares(x - 5.0))))
    qps.write(tmp_path / "b.mps", bounded)
    again = qps.loaded(qps.read(tmp_path / "b.mps"))
    again.run()
    assert again.getInfo().objective_function_value == pytest.approx(9.0)


def test_rows_with_two_sides_become_two_inequalities(tmp_path: Path) -> None:
    (tmp_path / "a.mps").write_text(
        "NAME t\nROWS\n N c\n L r\nCOLUMNS\n x c 1.0\n x r 2.0\nRHS\n b r 6.0\n"
        "RANGES\n g r 4.0\nBOUNDS\n FR b x\nENDATA\n"
    )
    read = qps.read(tmp_path / "a.mps")
    np.testing.assert_array_equal(read.G.toarray(), [[2.0], [-2.0]])
    np.testing.assert_array_equal(read.h, [6.0, -2.0])
    assert read.P.nnz == 0


def test_numbers_beyond_doubles_are_refused(tmp_path: Path) -> None:
    """HiGHS reads them as infinite: the row would be gone without a word."""
    text = (
        "NAME t\nROWS\n N c\n L r\nCOLUMNS\n x c {}\n x r {}\nRHS\n b r {}\n"
        "BOUNDS\n FR b x\nENDATA\n"
    )
    path = tmp_path / "a.mps"
    for numbers, told in (
        (("1e400", "2", "6"), "line 6: 1e400"), (("1", "-1E+400", "6"), "line 7: -1e"),
        (("1", "2", "1e400"), "line 9: 1e400"), (("1", "2", "1" + "0" * 400), "line 9: 1000"),
        (("1e200", "2", "6"), "q: found inf"), (("nan", "2", "6"), "q: found nan"),
    ):  # fmt: skip
        path.write_text(text.format(*numbers))
        with pytest.raises(cdopt.InvalidInput, match=told):
            qps.read(path)
    path.write_text(text.format("1e-400", "2.5d+001", "6"))
    np.testing.assert_array_equal(qps.read(path).h, [6.0])


def test_what_is_refused(tmp_path: Path) -> None:
    classic = cdopt.ClassicCD(cdopt.bank.load("beam-uniform").step)
    hertz = cdopt.NoTensionTruss(np.ones((2, 1)), np.ones(1), power=2.5)
    with pytest.raises(cdopt.InvalidInput, match=r"ends in \.mps or \.qps"):
        qps.write(tmp_path / "a.txt", classic)
    with pytest.raises(cdopt.InvalidInput, match="a folder that exists"):
        qps.write(tmp_path / "none" / "a.mps", classic)
    with pytest.raises(cdopt.Unsupported, match="no quadratic program"):
        qps.write(tmp_path / "a.mps", hertz)
    with pytest.raises(cdopt.InvalidInput, match="problem: found 3"):
        qps.program(3)
    with pytest.raises(cdopt.InvalidInput, match="no such file"):
        qps.read(tmp_path / "a.mps")
    (tmp_path / "bad.mps").write_text("nothing of the kind")
    with pytest.raises(cdopt.InvalidInput, match="HiGHS cannot read it"):
        qps.read(tmp_path / "bad.mps")
