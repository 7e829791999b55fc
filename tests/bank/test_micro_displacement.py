"""The multiplier of Bᵀf = F̃ is the micro-displacement, against that of the exact solutions."""

from __future__ import annotations

import numpy as np
import pytest

import cdopt
from cdopt.bank import problems_folder


@pytest.mark.parametrize("material", ["hooke", "hertz", "species"])
@pytest.mark.parametrize("n", [5, 10])
def test_multipliers_of_the_complementary_form(material: str, n: int) -> None:
    problem = cdopt.bank.load(f"pyramid-{material}", n=n)
    step = problem.step
    with np.load(problems_folder() / f"pyramid-{material}" / f"n{n}.npz") as stored:
        exact = stored["u"]
    truss = cdopt.NoTensionTruss(step.B, -step.F_ext, step.stiffness, problem.power)
    solution = truss.solve("clarabel")
    assert solution.dual is solution.u
    assert np.linalg.norm(solution.u - exact) <= 1e-5 * np.linalg.norm(exact)
    assert np.linalg.norm(truss.solve("newton").u - exact) <= 1e-10 * np.linalg.norm(exact)
