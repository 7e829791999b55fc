"""Whatever is passed in, what comes out is an answer or a CdoptError that names the argument."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable

import numpy as np
import pytest
import scipy.sparse as sp
from campaigns import malformed_calls, specimens
from conftest import WEIGHT, beam

import cdopt
import cdopt.dynamics.spheres
from cdopt._util.errors import InvalidInput

MASS = WEIGHT / 9.81
GOOD_STEP = {
    "M": np.diag([MASS, MASS / 12.0]),
    "B": np.array([[1.0, -0.5], [1.0, 0.0], [1.0, 0.5]]),
    "phi": np.zeros(3),
    "v": np.zeros(2),
    "F_ext": np.array([-WEIGHT, 0.0]),
    "dt": 1e-3,
    "stiffness": np.ones(3),
    "restitution": 0.0,
    "gap_rate": 0.0,
    "v_min": 0.0,
    "bodies": [[0, 1], [0, 1], [0, 1]],
    "normals": [[0.0, 1.0]] * 3,
    "points": [[0.0, 0.0]] * 3,
    "contact_ids": ["left", "middle", "right"],
    "dof_body": [1, 1],
}
GOOD_ROWS = {"N": np.eye(3), "p_vec": -np.ones(3), "dt": 1.0, "stiffness": 1.0}
GOOD_TRUSS = {
    "B": GOOD_STEP["B"],
    "contact_load": [WEIGHT, 0.0],
    "stiffness": 1.0,
    "power": 2.0,
    "form": "complementary",
    "free_dofs": [0, 1],
    "prescribed_u": np.zeros(2),
    "contact_ids": [1, 2, 3],
}
GOOD_SOLVE = {"backend": "clarabel", "tol": 1e-6, "warm_start": None, "accuracy": None}
CALLS = {
    "ContactStep": (cdopt.ContactStep, GOOD_STEP),
    "from_delassus": (cdopt.ContactStep.from_delassus, GOOD_ROWS),
    "NoTensionTruss": (cdopt.NoTensionTruss, GOOD_TRUSS),
    "solve": (cdopt.ClassicCD(beam()).solve, GOOD_SOLVE),
}


@pytest.mark.parametrize(
    ("call", "changes", "argument"),
    [
        ("ContactStep", {"M": [[1.0, 0.5], [0.0, 1.0]]}, "M"),
        ("ContactStep", {"B": np.zeros((3, 0))}, "B"),
        ("ContactStep", {"phi": [0.0, np.nan, 0.0]}, "phi"),
        ("ContactStep", {"dt": True}, "dt"),
        ("ContactStep", {"stiffness": [1.0, 0.0, 1.0]}, "stiffness"),
        ("ContactStep", {"restitution": 1.5}, "restitution"),
        ("ContactStep", {"bodies": [[0, 1]]}, "bodies"),
        ("ContactStep", {"contact_ids": [1, 1, 2]}, "contact_ids"),
        ("from_delassus", {"N": -np.eye(3)}, "N"),
        ("NoTensionTruss", {"free_dofs": [2]}, "free_dofs"),
        ("NoTensionTruss", {"prescribed_u": [1.0, 0.0]}, "prescribed_u"),
        ("solve", {"backend": "gurobo"}, "backend"),
        ("solve", {"warm_start": 3}, "warm_start"),
    ],
)
def test_the_error_names_the_argument(call: str, changes: dict, argument: str) -> None:
    function, good = CALLS[call]
    with pytest.raises(InvalidInput) as error:
        function(**{**good, **changes})
    assert error.value.argument == argument
    assert error.value.found
    assert error.value.expected
    assert str(error.value).startswith(f"{argument}: found ")


SCENE, OTHER = specimens.discs(), cdopt.scene.box_on_floor(dim=3)
STATE, FOREIGN = SCENE.initial, OTHER.initial
CONTACTS = cdopt.collision.detect(SCENE, STATE)
contact = cdopt.collision
ONCE_ESCAPED = {
    "mass, foreign state": lambda: contact.mass_matrix(OTHER, STATE),
    "mass, foreign dofs": lambda: contact.mass_matrix(SCENE, STATE, OTHER.dofs),
    "forces, foreign state": lambda: contact.external_forces(OTHER, STATE),
    "loads, foreign dofs": lambda: contact.applied_loads(SCENE, OTHER.dofs),
    "gradient, foreign dofs": lambda: contact.gap_gradient(SCENE, STATE, CONTACTS, OTHER.dofs),
    "step, foreign state": lambda: contact.step(SCENE, FOREIGN, CONTACTS, 1e-3),
    "advance, foreign state": lambda: contact.advance(SCENE, FOREIGN, np.zeros(4), 1e-3),
    "dashpots, foreign scene": lambda: contact.damping_matrix(OTHER, STATE, CONTACTS),
    "dashpots, foreign state": lambda: contact.damping_matrix(SCENE, FOREIGN, CONTACTS),
    "drive, foreign state": lambda: contact.damping_drive(SCENE, FOREIGN, CONTACTS),
    "drive, foreign contacts": lambda: contact.damping_drive(OTHER, FOREIGN, CONTACTS),
    "pairs of one row": lambda: contact.effective_mass(SCENE, [0, 1]),
    "pairs of no body": lambda: contact.effective_mass(SCENE, [[0, 99]]),
    "contacts that do not fit": lambda: dataclasses.replace(CONTACTS, phi=np.zeros(1)),
    "dofs that do not fit": lambda: dataclasses.replace(SCENE.dofs, number=np.arange(2)),
    "a column that is no array": lambda: dataclasses.replace(
        SCENE.bodies.tables[0], columns={"radius": "no"}
    ),
    "solutions that are a matrix": lambda: cdopt.study.SolutionSet(sp.bsr_array(np.eye(2))),
    "ragged numbers of contacts": lambda: beam().select([[1], [1, 2]]),
    "an answer of another size": lambda: cdopt.CompatibleCD(beam()).network(
        cdopt.ClassicCD(cdopt.bank.load("tripod").step).solve("newton", check=False)
    ),
    "a force too large to be a double": lambda: cdopt.recover_stiffness(
        [[1.0]], [[1.0]], [[10**5000]]
    ),
    "a fan of minus one": lambda: cdopt.bank.generators.fan_forces(-1, 1.0, 2.0),
    "minus one dimensions": lambda: cdopt.scene.collision(dim=-1),
    "a record that memory cannot hold": lambda: cdopt.simulate(SCENE, 1e-3, 1e8),
}


@pytest.mark.parametrize("call", ONCE_ESCAPED.values(), ids=ONCE_ESCAPED)
def test_what_once_escaped_is_refused(call: Callable[[], object]) -> None:
    with pytest.raises(InvalidInput):
        call()


# each of these once ended in another exception, was accepted, or ended the process
ROUGH = cdopt.bank.load("launched-box").step
DATA, TRUSS = cdopt.ClassicCD(beam()).data, cdopt.NoTensionTruss(beam().B, [WEIGHT, 0.0])
HALF, LONG = "half a character \ud800", range(10**12)
STEPPER = cdopt.dynamics.spheres.SphereStepper(SCENE)
FURTHER: dict[str, Callable[[], object]] = {
    "load of other forces": lambda: DATA.load(np.zeros(7)),
    "velocity of other forces": lambda: DATA.velocity(np.zeros(7)),
    "gap of another motion": lambda: DATA.gap(np.zeros(9), np.zeros(3)),
    "gap of other forces": lambda: DATA.gap(None, np.zeros(9)),
    "shift of other rates": lambda: cdopt.FrictionalCD(ROUGH).data.shift(np.zeros(1)),
    "overlap of another motion": lambda: TRUSS.data.overlap(np.zeros(5), np.zeros(3)),
    "objective of other forces": lambda: DATA.force_objective(np.zeros(7)),
    "objective of another motion": lambda: DATA.motion_objective(np.zeros(5), np.zeros(3)),
    "B of one dimension": lambda: cdopt.ContactStep(**GOOD_STEP | {"B": sp.coo_array([1.0, 2.0])}),
    "N of one dimension": lambda: cdopt.ContactStep.from_delassus(sp.coo_array([1.0]), [1.0]),
    "half a character, a scene's path": lambda: SCENE.save(HALF + ".toml"),
    "half a character, a step's path": lambda: beam().save(HALF + ".npz"),
    "half a character, a run's path": lambda: cdopt.simulate(SCENE, 1e-3, 1e-3, out=HALF),
    "half a character, to load": lambda: cdopt.scene.load(HALF + ".toml"),
    "half a character, to open": lambda: cdopt.open_problem(HALF),
    "half a character, a scene's title": lambda: cdopt.scene.from_positions(
        [[0.0, 0.0]], 0.1, title=HALF
    ),
    "half a character, a table's": lambda: cdopt.study.Table("a", HALF, "", ["x"], [(1,)]),
    "half a character, a picture's": lambda: cdopt.plots.force_bars(
        [cdopt.ClassicCD(beam()).solve("newton")], title=HALF
    ),
    "friction of a word": lambda: cdopt.Friction("x"),
    "measures in the plane of a solid": lambda: cdopt.scene.Compound(
        [cdopt.scene.Part(cdopt.scene.Sphere(0.1), (0.0, 0.0, 0.0))]
    ).measures(2),
    "loops for no scene": lambda: cdopt.dynamics.spheres.is_native("x"),
    "a stepper of no scene": lambda: cdopt.dynamics.spheres.SphereStepper("x"),
    "a stepper in another state": lambda: STEPPER.forces(FOREIGN),
    "a stepper without forces": lambda: STEPPER.velocity_verlet(STATE, 1, 1e-3, np.zeros(1)),
    "a folder that is missing": lambda: cdopt.interop.petsc.write(TRUSS, "no/such/folder"),
    "a range for a number": lambda: cdopt.scene.Sphere(LONG),
    "a range for a count": lambda: cdopt.ensemble(beam(), LONG),
    "a range for a vector": lambda: cdopt.NoTensionTruss(beam().B, LONG),
    "a flow that is none": lambda: cdopt.sensitivity(beam(), flow="newton"),
}


@pytest.mark.parametrize("call", FURTHER.values(), ids=FURTHER)
def test_what_further_escaped_is_refused(call: Callable[[], object]) -> None:
    with pytest.raises(InvalidInput) as error:
        call()
    str(error.value).encode()  # it can be written


def test_the_campaign_knows_every_public_class() -> None:
    """A good object of each, whose methods it calls; all but these."""
    left_out = {
        "SaveFailed", "StepFailed", "Interrupted",  # only cdopt raises them
        "Shape", "Step",  # of which there are only others
        "PETSc", "Ordering",  # another program's
        "FrictionalExploration",  # a page of many solves
    }  # fmt: skip
    classes = {
        name: getattr(room, name)
        for room in specimens.ROOMS
        for name in specimens.names_of(room)
        if inspect.isclass(getattr(room, name))
    }
    missing = {
        name
        for name, cls in classes.items()
        if cls not in specimens.objects()
        and not getattr(cls, "_is_protocol", False)
        and not inspect.isabstract(cls)
    }
    assert missing == left_out


def test_powers_and_dimensions_say_what_they_are() -> None:
    compare = functools.partial(cdopt.compare, beam())
    for call in (cdopt.scene.beam, cdopt.scene.pyramid, compare, cdopt.study.ProblemSource):
        first = {"source": "beam-uniform"} if call is cdopt.study.ProblemSource else {}
        with pytest.raises(InvalidInput, match="no common rigid limit"):
            call(**first, power=[2.0, 2.5, 2.0])
    with pytest.raises(InvalidInput, match="expected 2 or 3"):
        cdopt.scene.box_stack(dim="2")


@pytest.mark.parametrize("count", [500, pytest.param(10_000, marks=pytest.mark.slow)])
def test_every_public_callable_takes_hostile_arguments(count: int) -> None:
    """``python -m tests.campaigns malformed_calls --count 100000`` is the long run."""
    table = malformed_calls.run(count, seed=0)
    assert table["calls"] == count
    assert [table[name] for name in malformed_calls.FORBIDDEN] == [0, 0, 0], table


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cdopt.ContactStep(**GOOD_STEP, Fext=[0.0, 0.0]), "Fext: .*mean 'F_ext'"),
        (lambda: cdopt.ensemble(beam(), 0), "draws: found 0; expected an integer of at least 1"),
        (lambda: cdopt.ClassicCD(beam()).solve(solver="osqp"), "solver: .*first argument"),
        (lambda: cdopt.ClassicCD(beam()).solve("osq"), "did you mean 'osqp'"),
        (lambda: cdopt.indeterminacy("table"), "a ContactStep .*open_problem"),
        (lambda: cdopt.indeterminacy(cdopt.open_problem("table")), "its .step is one"),
        (lambda: cdopt.compare(beam(), progress=5), "True or False or a function"),
        (lambda: cdopt.ContactStep(**{**GOOD_STEP, "B": GOOD_STEP["B"].T}), "^B: .*transposed"),
        (
            lambda: cdopt.ContactStep(
                **{**GOOD_STEP, "B": GOOD_STEP["B"].T.tolist(), "M": GOOD_STEP["M"].tolist()}
            ),
            "^B: .*transposed",
        ),
        (lambda: cdopt.ContactStep(**{**GOOD_STEP, "contact_ids": [1, 7, 7]}), "7 at 1 and 2"),
        (
            lambda: cdopt.ContactStep(**{**GOOD_STEP, "phi": [[1], [1, 2], 3]}),
            "phi: found a list of rows of different lengths",
        ),
    ],
)
def test_the_message_says_what_to_write_instead(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        call()
