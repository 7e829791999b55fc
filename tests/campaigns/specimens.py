"""One good object of every public class, and good arguments of every public callable."""

from __future__ import annotations

import contextlib
import functools
import inspect
import tempfile
import types
from collections.abc import Callable, Collection
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

import cdopt
import cdopt.dynamics.spheres
import cdopt.formulations
import cdopt.plots
import cdopt.plots.explore
import cdopt.problem
import cdopt.study
import cdopt.study.leaderboard
import cdopt.study.results
import cdopt.study.statistics
from cdopt.backends.native import NATIVE
from cdopt.formulations import Formulation

ROOMS = (
    cdopt, cdopt.scene, cdopt.collision, cdopt.dynamics, cdopt.dynamics.analysis, cdopt.hyperstatic,
    cdopt.problem, cdopt.interop.fclib, cdopt.interop.quadratic_programs, cdopt.interop.petsc,
    cdopt.interop.mujoco, cdopt.study, cdopt.plots, cdopt.bank, cdopt.bank.generators,
    cdopt.bank.quantities, cdopt.backends, cdopt.formulations, cdopt.dynamics.spheres,
    cdopt.study.statistics, cdopt.study.results, cdopt.plots.explore,
)  # fmt: skip
LEFT_OUT = {  # what takes minutes, other programs or separate processes, and an abstract class
    "cdopt.study.run", "cdopt.scene.Shape", "cdopt.interop.mujoco.contact_step",
    "cdopt.interop.mujoco.stiffness", "cdopt.interop.petsc.solve_folder",
}  # fmt: skip


@functools.cache
def objects() -> dict[type, Any]:
    """A good object of each public class that can be made in a second or two."""
    step = cdopt.bank.load("beam-stiff-middle").step
    classic = cdopt.ClassicCD(step)
    compatible = cdopt.CompatibleCD(step)
    solution = classic.solve("newton", check=False)
    comparison = cdopt.compare(step, ["newton", "pgs"])
    truss = cdopt.NoTensionTruss(step.B, step.B.T @ np.ones(step.nc))
    report = cdopt.indeterminacy(step)
    scene = discs()
    state = scene.initial
    contacts = cdopt.collision.detect(scene, state)
    neighbours = cdopt.collision.VerletList(scene)
    trajectory = cdopt.simulate(scene, 1e-3, 2e-3, "classic-cd", backend="pgs")
    ensemble = cdopt.ensemble(report, 8, 2)
    sensitivity = cdopt.sensitivity(step)
    family = next(iter(cdopt.bank.families().values()))
    backends = cdopt.backends
    problem = cdopt.bank.load("beam-uniform")
    run = cdopt.study.StudyRun(cdopt.study.ProblemSource("beam-uniform"), "classic-force", "newton")
    found = [
        step, solution, solution.certificate, solution.certificate.residuals[0],
        solution.iterate, truss, report, scene, scene.bodies, scene.bodies.tables[0], scene.dofs,
        state, contacts, neighbours, trajectory, trajectory[0], trajectory.diagnostics, ensemble,
        ensemble.place(solution.f), sensitivity, sensitivity.gradient(np.ones(step.nc)),
        classic, compatible, comparison,
        comparison.rows()[0], cdopt.study.SolutionSet([solution]),
        cdopt.hyperstatic.place_solutions(report, [solution]),
        cdopt.hyperstatic.place_solutions(report, [solution]).rows()[0],
        cdopt.hyperstatic.minimum_norm(report), cdopt.audit(step, solution.f),
        cdopt.stability(scene.with_friction(0.5), limits=False),
        cdopt.SoftCD(step, 1e-3), cdopt.SoftCD(step, 1e-3).sweep(),
        cdopt.VariationalStep(step, np.zeros(step.nv)),
        cdopt.QuasiStatic(step.B, step.phi, -(step.B.T @ np.ones(step.nc))),
        cdopt.recover_stiffness(step.B, [step.B.T @ np.ones(step.nc)], [np.ones(step.nc)]),
        compatible.network(solution), cdopt.interop.quadratic_programs.program(classic),
        problem, problem.manifest, family,
        cdopt.problem.ConeStep([[1.0]], [[1.0]], cdopt.problem.HalfLines(1), [0], [0], [-1], 1.0),
        cdopt.bank.generators.fan(), run, run.problem, cdopt.study.Plan(["beam-uniform"], ["pgs"]),
        cdopt.study.Study((), 0), backends.Modelled("clarabel"),
        backends.Capability(), backends.osqp_session(),
        backends.RunResult("done", "solved", solution.iterate, {}),
        cdopt.dynamics.ClassicSteps(), cdopt.dynamics.CompatibleSteps(),
        cdopt.dynamics.QuasiStaticSteps(), cdopt.dynamics.VariationalSteps(),
        cdopt.dynamics.VelocityVerletSteps(), cdopt.dynamics.StepContext(scene, 1e-3),
        cdopt.dynamics.Stage(0.0, True, True, 1, 0.0, "solved"),
        cdopt.dynamics.Snapshot(0, state), cdopt.dynamics.StepRecord(contacts, {}, {}, {}),
        cdopt.dynamics.Failure("no", None, state), cdopt.collision.PairFriction(0.3),
        cdopt.dynamics.Advance(cdopt.dynamics.Snapshot(0, state), None),
        cdopt.plots.look("newton"), cdopt.scene.Sphere(0.1), cdopt.scene.Box((1.0, 1.0)),
        cdopt.scene.Capsule(0.1, 1.0), cdopt.scene.HalfSpace((0.0, 1.0)),
        cdopt.scene.Polygon([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]),
        cdopt.scene.Polyhedron(np.vstack([np.zeros(3), np.eye(3)])),
        cdopt.scene.Material(name="steel", young=2e11),
        cdopt.scene.Body(cdopt.scene.Sphere(0.1), (0.0, 0.0), mass=1.0),
        cdopt.scene.Spheres([[0.0, 0.0]], 0.1, mass=1.0), cdopt.scene.PeriodicBox([1.0, 1.0]),
        cdopt.dynamics.Measures.of_frame(scene, trajectory[-1]),
        cdopt.dynamics.analysis.measures(trajectory),
        cdopt.dynamics.analysis.contact_lifetimes(trajectory), *further(step), *errors(),
        *(kind() for kind in NATIVE.values()),
    ]  # fmt: skip
    known = {type(one): one for one in found if one is not None}
    return {**of_steps(known.keys(), step, cdopt.bank.load("launched-box").step), **known}


def of_steps(known: Collection[type], *steps: cdopt.ContactStep) -> dict[type, Any]:
    """Formulations that are not ``known`` and are made of a step alone: of the first they take."""
    made = {}
    for name in cdopt.formulations.__all__:
        kind = getattr(cdopt.formulations, name)
        if isinstance(kind, type) and issubclass(kind, Formulation) and kind not in known:
            for step in steps:
                with contextlib.suppress(cdopt.CdoptError, TypeError):
                    made[kind] = kind(step)
                    break
    return made


def further(step: cdopt.ContactStep) -> list[Any]:
    """Objects with friction, of scenes in time, and of studies."""
    rough = cdopt.bank.load("launched-box").step
    assert rough.friction is not None
    load, pair = rough.B.T @ np.ones(rough.nc), ("steel", "wood")
    network = cdopt.FrictionNetwork(rough.B, rough.friction.B_t, load, 0.5)
    wall = cdopt.scene.load("problems/brick-wall.toml").with_friction(0.5)
    limit = cdopt.limit_load(wall, [1.0, 0.0])
    run = cdopt.simulate("incline:ratio=0.5", 1e-3, 2e-3)
    here = cdopt.dynamics.Measures.of_frame(run.scene, run.final)
    part = cdopt.scene.Part(cdopt.scene.Sphere(0.1), (0.0, 0.0))
    stored = cdopt.bank.manifests.home("fclib-boxes") / "local_problem_test.hdf5"
    truss = cdopt.NoTensionTruss(step.B, step.B.T @ np.ones(step.nc))
    return [
        rough.friction, rough.origin, cdopt.CompatibleFriction(rough),
        network.data.cones, cdopt.ClassicCD(step).prepare(), cdopt.ClassicCD(step).parametrised(),
        cdopt.solve_batch([step, step]),
        network, network.solve(), limit, part,
        cdopt.thrusts(limit.step, limit.f, limit.f_t), cdopt.Strength(cohesion=1.0),
        cdopt.settlement(wall, {"floor": [0.0, -1e-3]}),
        cdopt.scene.load_blocks("problems/masonry/type-c.json", supports=[0, 1]),
        cdopt.Representatives([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], np.arange(3)),
        cdopt.reduced(truss, np.eye(step.nv)), cdopt.formulations.StepDamping(np.eye(2)),
        cdopt.bank.generators.supports_delassus(), cdopt.scene.Compound([part]),
        cdopt.scene.MaterialPair(materials=pair, friction=0.5),
        cdopt.indeterminacy(rough, law="associated"),
        here.coordination(), here.force_distribution(),
        cdopt.dynamics.analysis.RunSummary.of(run), cdopt.dynamics.analysis.Motion.of(run),
        cdopt.interop.fclib.read(stored), cdopt.study.leaderboard.stored().records[0],
        cdopt.open_problem("beam-uniform"), cdopt.study.Table("a", "b", "c", ["x"], [(1,)]),
        cdopt.ClassicCD(step).solve("newton", check=False).warm_start(),
        cdopt.backends.Direct("osqp"),
        step.mass, step.names, *of_the_problem(step, rough), *of_times_and_studies(),
    ]  # fmt: skip


def of_the_problem(step: cdopt.ContactStep, rough: cdopt.ContactStep) -> list[Any]:
    """Plain data of formulations, and what they are made of."""
    sliding, friction = cdopt.FrictionalCD(rough), rough.friction
    assert friction is not None
    smooth, coulomb = cdopt.ClassicCD(step).data, sliding.data
    report = cdopt.indeterminacy(step, quantities={"sum": np.ones((1, step.nc))})
    return [
        smooth, smooth.cones, coulomb.cones, sliding.slater(),
        report.quantities["sum"],
        cdopt.formulations.Sliders(friction.B_t, 1.0, np.ones(rough.nc)),
        cdopt.Joints(np.ones((1, step.nv)), names=["tie"]),
        cdopt.scene.Joint(kind="pin", bodies=("a", "world"), point=(0.0, 0.0)),
    ]  # fmt: skip


def of_times_and_studies() -> list[Any]:
    """Settings of methods, spheres in compiled loops, statistics and pages."""
    dynamics, explore = cdopt.dynamics, cdopt.plots.explore
    ball = cdopt.scene.crystal(2, 3).stiffened(1e6)
    statistics = cdopt.study.statistics
    spheres = dynamics.spheres.SphereStepper(ball)
    scheme = dynamics.spheres.Scheme(1e-3)
    page = explore.of_problem(cdopt.open_problem("beam-uniform"))
    return [
        dynamics.FrictionalSteps(), dynamics.CompatibleFrictionSteps(), dynamics.equilibrium(ball),
        spheres, scheme, spheres.variational(ball.initial, 1, scheme),
        statistics.performance_profiles({"a": [1.0, 2.0]})["a"],
        statistics.power_fit([1.0, 2.0, 3.0], [1.0, 2.0, 3.1]),
        cdopt.study.results.Results(()), page, page.load,
    ]  # fmt: skip


@functools.cache
def others() -> list[Any]:
    """Objects of the same classes that belong to another problem."""
    step = cdopt.bank.load("tripod").step
    scene = cdopt.scene.box_on_floor(dim=3)
    state = scene.initial
    solution = cdopt.ClassicCD(step).solve("newton", check=False)
    return [
        step, scene, state, cdopt.collision.detect(scene, state), solution,
        cdopt.collision.VerletList(scene), cdopt.indeterminacy(step), scene.dofs, scene.bodies,
        cdopt.NoTensionTruss(step.B, step.B.T @ np.ones(step.nc)), cdopt.ClassicCD(step),
        cdopt.bank.generators.zero_contacts(), cdopt.bank.generators.supports_delassus(),
        cdopt.bank.load("fan"),
        cdopt.sensitivity(step), [], [solution], [solution, None],
    ]  # fmt: skip


def errors() -> list[Exception]:
    """One of every exception."""
    return [
        cdopt.CdoptError("no"), cdopt.InvalidInput("a", "b", "c"), cdopt.Unsupported("a", "b"),
        cdopt.BackendUnavailable("a", "b"), cdopt.SolveFailed("m", backend="a", status="b"),
        cdopt.hyperstatic.UnboundedForces(np.ones(2), 0.0),
    ]  # fmt: skip


def discs() -> cdopt.scene.Scene:
    """Two discs on a floor, touching."""
    floor = cdopt.scene.Body(cdopt.scene.HalfSpace((0.0, 1.0)), (0.0, 0.0), fixed=True)
    disc = cdopt.scene.Sphere(0.1)
    bodies = [cdopt.scene.Body(disc, (x, 0.1), mass=1.0) for x in (0.0, 0.2)]
    return cdopt.scene.Scene([floor, *bodies], dim=2)


def folder() -> Path:
    """Where a campaign writes."""
    return Path(tempfile.gettempdir())


def by_annotation(annotation: str, name: str, room: str) -> Any:
    """A good value for a required parameter."""
    found = objects()
    classes = {cls.__name__: cls for cls in found}
    if annotation == "History" and name == "run" and room == "cdopt.dynamics.analysis":
        return found[cdopt.Trajectory]
    for word in annotation.split(" | "):
        if word in classes:
            return found[classes[word]]
    step = found[cdopt.ContactStep]
    values: dict[str, Any] = {
        "B": step.B, "M": step.M, "phi": step.phi, "v": np.zeros(step.nv), "F_ext": step.F_ext,
        "dt": 1e-3, "N": step.N, "p_vec": step.p_vec, "contact_load": step.B.T @ np.ones(step.nc),
        "mom": np.zeros(step.nv), "applied": -(step.B.T @ np.ones(step.nc)), "q": np.zeros((3, 3)),
        "columns": found[cdopt.scene.ShapeTable].columns, "posed": found[cdopt.ClassicCD],
        "problem": found[cdopt.ClassicCD], "quantity": "f_compatible", "size": 5, "n": 5,
        "form": "force", "formulation": "compatible", "backend": "newton", "folder": folder(),
        "settings": cdopt.backends.Modelled("osqp"),
        "x": np.zeros((2, 3, 2)), "given": found[cdopt.ContactStep], "h": 1e-3,
        "solutions": [found[cdopt.StepSolution]], "path": folder() / "malformed.npz",
        "strain": 1e-4, "duration": 1e-3, "steps": 1, "wall": "top", "load": [1.0],
        "contacts": found[cdopt.collision.Contacts].contact_ids[:0], "name": "newton",
    }  # fmt: skip
    if name in values:
        return values[name]
    plain = {"float": 1.0, "int": 1, "bool": False, "str": "newton", "IntArray": np.arange(2)}
    return plain.get(annotation, np.ones(step.nc))


@functools.cache
def special() -> dict[str, dict[str, Any]]:
    """Good arguments where a parameter's name does not tell them."""
    found = objects()
    step, scene = found[cdopt.ContactStep], found[cdopt.scene.Scene]
    state, solution = found[cdopt.scene.State], found[cdopt.StepSolution]
    nb, data = scene.nb, cdopt.ClassicCD(step).data
    return {
        "cdopt.dynamics.Diagnostics": {"columns": ("time", "kinetic"), "table": np.zeros((3, 2))},
        "cdopt.dynamics.Diagnostics.__getitem__": {"name": "time"},
        "cdopt.interop.quadratic_programs.write": {"path": folder() / "malformed.mps",
                                                   "problem": found[cdopt.ClassicCD]},
        "cdopt.interop.quadratic_programs.QuadraticProgram.objective": {"x": np.zeros(5)},
        "cdopt.simulate": {"dt": 1.0, "duration": 1.0},  # a hostile 3 s is then 3 steps
        "cdopt.certify": {"data": data, "motion": solution.v_next, "forces": solution.f},
        "cdopt.collision.advance": {"scene": scene, "state": state, "dt": 1e-3,
                                  "v_next": np.zeros(scene.dofs.number.size)},
        "cdopt.collision.move": {"state": state, "v": state.v, "dt": 1e-3},
        "cdopt.collision.effective_mass": {"scene": scene, "pairs": np.array([[0, 1]])},
        "cdopt.scene.State": {"t": 0.0, "q": state.q, "v": state.v},
        "cdopt.scene.Scene": {"bodies": [found[cdopt.scene.Body]], "dim": 2},
        "cdopt.scene.load": {"path": "problems/beam.toml"},
        "cdopt.scene.loads": {"text": scene.to_toml()},
        "cdopt.bank.load": {"name": "beam-uniform"},
        "cdopt.bank.manifest": {"name": "beam-uniform"},
        "cdopt.bank.quantities.nullity": {"gradient": step.B},
        "cdopt.bank.quantities.base_reactions": {"step": step, "f": solution.f},
        "cdopt.bank.quantities.supported": {"step": step, "f": solution.f},
        "cdopt.bank.generators.fan_forces": {"n": 3, "weight": 1.0, "power": 2.0},
        "cdopt.bank.generators.beam_on": {"x": [-0.5, 0.5]},
        "cdopt.study.problems": {"source": "beam-uniform"},
        "cdopt.study.choose_backends": {"contacts": 3},
        "cdopt.study.solve_named": {"problem": cdopt.open_problem("beam-uniform")},
        "cdopt.backends.describe": {"name": "osqp"},
        "cdopt.backends.settings_for": {"name": "osqp", "accuracy": 1e-6},
        "cdopt.plots.floor_pressure_grid": {"methods": {}},
        "cdopt.plots.save": {"figure": None, "path": folder() / "malformed.png"},
        "cdopt.plots.check_path": {"path": folder() / "malformed.png"},
        "cdopt.collision.VerletList.pairs": {"state": state, "margin": np.full(nb, 0.01)},
    }  # fmt: skip


def names_of(room: types.ModuleType) -> list[str]:
    listed = getattr(room, "__all__", None)
    return listed or [n for n, t in vars(room).items() if not n.startswith("_")
                      and getattr(t, "__module__", "") == room.__name__]  # fmt: skip


@functools.cache
def callables() -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
    """Everything public that can be called, with good arguments, by its full name."""
    found: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {}
    seen: set[int] = set()
    for room in ROOMS:
        for name in names_of(room):
            thing = getattr(room, name)
            full = f"{room.__name__}.{name}"
            if id(thing) in seen or full in LEFT_OUT or inspect.ismodule(thing):
                continue
            seen.add(id(thing))
            if inspect.isfunction(thing):
                found[full] = (thing, arguments(full, thing))
            elif inspect.isclass(thing) and not getattr(thing, "_is_protocol", False):
                found |= of_class(full, thing)
    return {name: call for name, call in found.items() if call[1]}


def of_class(full: str, cls: type) -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
    """A class's constructor and the methods of a good object."""
    found: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {}
    one = objects().get(cls)
    if is_dataclass(cls) and one is not None:
        given = {f.name: getattr(one, f.name) for f in fields(cls) if f.init}
        found[full] = (cls, given)
    elif hasattr(cls, "__struct_fields__") and one is not None:
        found[full] = (cls, {name: getattr(one, name) for name in cls.__struct_fields__})
    elif inspect.isfunction(cls.__init__) and not issubclass(cls, Exception):  # only cdopt raises
        found[full] = (cls, arguments(full, cls))
    for name in dir(cls):
        if name.startswith("_") and name != "__getitem__":
            continue
        member = inspect.getattr_static(cls, name)
        if one is None and not isinstance(member, classmethod | staticmethod):
            continue
        if inspect.isfunction(member) or isinstance(member, classmethod | staticmethod):
            method = getattr(one if one is not None else cls, name)
            inner = f"{full}.{name}"
            try:
                found[inner] = (method, arguments(inner, method))
            except ValueError:  # a method of a built-in base
                continue
    return found


def arguments(full: str, thing: Callable[..., Any]) -> dict[str, Any]:
    """Good arguments by name, defaults included."""
    given = special().get(full, {}) if full not in ("", None) else {}
    result = {}
    for p in inspect.signature(thing).parameters.values():
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            continue
        if p.name in given:
            result[p.name] = given[p.name]
        elif p.default is not p.empty:
            result[p.name] = p.default
        else:
            result[p.name] = by_annotation(str(p.annotation), p.name, full.rpartition(".")[0])
    return {**result, **given}
