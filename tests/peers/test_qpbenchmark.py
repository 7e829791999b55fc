"""The bank as a test set of qpbenchmark: the same programs, in its own classes."""

from __future__ import annotations

import numpy as np
import pytest
from studies import cdopt_bank

import cdopt

NAMES = ("beam-stiff-middle", "supports-delassus", "fan", "impact")
MISSING = cdopt_bank.why_unavailable()


@pytest.mark.slow
def test_the_programs_carry_the_bank_and_both_forms() -> None:
    names = [stated.name for stated in cdopt_bank.programs()]
    assert len(names) == len(set(names)) > 40
    bank = {name.partition("/")[0] for name in names}
    assert not bank & set(cdopt_bank.INFEASIBLE)
    steps = {n for n in cdopt.bank.names() if cdopt.bank.manifest(n).kind == "step"}
    assert steps - bank <= {*cdopt_bank.INFEASIBLE, "zero-contacts", "free-flying"}
    trusses = set(cdopt.bank.names()) - steps
    assert not {n for n in trusses if cdopt.bank.load(n).power != 2.0} & bank
    small = [stated.name for stated in cdopt_bank.programs(largest=4)]
    assert 0 < len(small) < len(names)
    assert "table/velocity" in small


@pytest.mark.parametrize("name", [*cdopt_bank.INFEASIBLE, "rising-floor", "impact"])
def test_only_what_is_proven_infeasible_is_left_out(name: str) -> None:
    left_out = name in cdopt_bank.INFEASIBLE
    loaded = cdopt.bank.load(name)
    posed = (
        cdopt.NoTensionTruss(loaded.B, loaded.contact_load, stiffness=loaded.stiffness)
        if loaded.step is None
        else cdopt.ClassicCD(loaded.step)
    )
    assert left_out == (cdopt.problem.prove_infeasible(posed.data) is not None)


def test_a_delassus_step_has_the_force_form_alone() -> None:
    assert [s.name for s in cdopt_bank.programs(["supports-delassus"])] == [
        "supports-delassus/force"
    ]
    with pytest.raises(cdopt.InvalidInput, match="nonsense"):
        list(cdopt_bank.programs(["nonsense"]))


@pytest.mark.skipif(MISSING is None, reason="qpbenchmark is installed")
def test_without_qpbenchmark_the_remedy_is_told() -> None:
    with pytest.raises(cdopt.BackendUnavailable, match="pip install qpbenchmark"):
        cdopt_bank.CdoptBank()


@pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
@pytest.mark.filterwarnings("ignore")
def test_the_test_set_solves_to_our_objective() -> None:
    import qpsolvers

    test_set = cdopt_bank.CdoptBank(names=NAMES)
    stated = {s.name: s for s in cdopt_bank.programs(NAMES)}
    assert test_set.count_problems() == len(stated)
    solver = next(s for s in ("clarabel", "osqp", "highs") if s in qpsolvers.available_solvers)
    for problem in test_set:
        solution = qpsolvers.solve_problem(problem, solver)
        assert solution.found
        loaded = cdopt.interop.quadratic_programs.loaded(stated[problem.name])
        loaded.run()
        known = loaded.getInfo().objective_function_value
        ours = stated[problem.name].objective(solution.x)
        assert ours == pytest.approx(known, abs=1e-5 * max(abs(known), 1.0))
        assert np.isfinite(solution.x).all()
