"""A standing quadruped and a pile of balls through MuJoCo, Drake, Pinocchio's ADMM and Siconos.

Each engine gives other contact forces. ``audit`` judges them on one contact step: do they deliver
what is determined, and is each inside its certified interval? MuJoCo and Drake come to rest in
two seconds of simulated time, with contacts that give way; the other two solve the step itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import cdopt
from cdopt._util.checks import FloatArray
from cdopt.interop import siconos

HERE = Path(__file__).parent
URDF = HERE / "quadruped.urdf"
MU, GRAVITY, DT, SECONDS = 0.6, 9.81, 1e-3, 2.0
TOL = 2e-3  # of local loads: soft contacts sink in and bodies lean by about this much
FEET = tuple(f"{end}_{side}_foot" for end in ("front", "rear") for side in ("left", "right"))


class PointForce(NamedTuple):
    """A contact in an engine: where it is, m, and the force on the body above, N."""

    point: FloatArray
    force: FloatArray


@dataclass(frozen=True)
class Case:
    """What is put through the engines: balls on balls, or the model in a file.

    Attributes
    ----------
    step : the contact step at rest.
    centres : (nb, 3) m, of balls, those that are fixed first; None for the quadruped.
    radius, mass : of each ball, m and kg. fixed : how many of the balls are.
    """

    name: str
    step: cdopt.ContactStep
    centres: FloatArray | None = None
    radius: float = 0.1
    mass: float = 1.0
    fixed: int = 0


def quadruped() -> Case:
    """The model of the file on its four feet, friction 0.6."""
    import pinocchio as pin

    model = pin.buildModelFromUrdf(str(URDF), pin.JointModelFreeFlyer())
    q = pin.neutral(model)
    q[2] = 0.4
    feet = {name: [[0.0, 0.0, -0.02]] for name in FEET}
    return Case("quadruped", cdopt.interop.pinocchio.contact_step(model, q, feet, MU, dt=DT))


def pile() -> Case:
    """Five balls on nine that are fixed: four in the hollows of these, and one on top."""
    r, rise = 0.1, 0.0
    layers, wide = [], 2.1 * r  # balls of a layer do not touch
    for n in (3, 2, 1):
        places = wide * (np.arange(n) - 0.5 * (n - 1))
        layers += [[x, y, rise] for x in places for y in places]
        rise += np.sqrt(4.0 * r * r - 0.5 * wide * wide)
    x = np.array(layers)
    pairs = [
        (i, j) for j in range(9, 14) for i in range(j) if np.linalg.norm(x[j] - x[i]) < 2.001 * r
    ]
    i, j = np.array(pairs).T
    n = (x[j] - x[i]) / (2.0 * r)
    step = cdopt.ContactStep.from_contacts(
        0.5 * (x[i] + x[j]), n, pairs, np.ones(14), np.full(14, 0.4 * r * r), x, dt=DT,
        friction=MU, gravity=[0.0, 0.0, -GRAVITY], fixed=np.arange(9),
        contact_ids=[f"{a}-{b}" for a, b in pairs],
    )  # fmt: skip
    return Case("pile", step, x, r, 1.0, 9)


# --- engines ----------------------------------------------------------------------------


def in_mujoco(case: Case) -> list[PointForce]:
    """Forces of MuJoCo at rest: elliptic cones, its default softness."""
    import mujoco

    spec = mujoco.MjSpec() if case.centres is not None else mujoco.MjSpec.from_file(str(URDF))
    if case.centres is None:
        spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[2, 2, 0.1])
        spec.body("trunk").add_freejoint()
    else:
        for k, centre in enumerate(case.centres):
            body = spec.worldbody.add_body(name=f"ball {k}", pos=centre)
            size = [case.radius, 0.0, 0.0]
            body.add_geom(type=mujoco.mjtGeom.mjGEOM_SPHERE, size=size, mass=case.mass)
            if k >= case.fixed:
                body.add_freejoint()
    for geom in spec.geoms:
        geom.friction = [MU, 0.005, 1e-4]
    spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    spec.option.impratio = 100.0
    model = spec.compile()
    data = mujoco.MjData(model)
    if case.centres is None:
        data.qpos[2] = 0.4
    for _ in range(round(SECONDS / model.opt.timestep)):
        mujoco.mj_step(model, data)
    mujoco.mj_forward(model, data)
    contacts, force = [], np.zeros(6)
    for k in range(data.ncon):
        mujoco.mj_contactForce(model, data, k, force)
        frame = np.reshape(data.contact[k].frame, (3, 3))
        contacts.append(PointForce(np.array(data.contact[k].pos), force[:3] @ frame))
    return contacts


def in_drake(case: Case) -> list[PointForce]:
    """Forces of Drake's SAP at rest: point contacts, its default stiffness."""
    import pydrake.all as drake

    builder = drake.DiagramBuilder()
    plant, _ = drake.AddMultibodyPlantSceneGraph(builder, time_step=DT)
    plant.set_discrete_contact_approximation(drake.DiscreteContactApproximation.kSap)
    plant.set_contact_model(drake.ContactModel.kPoint)
    plant.mutable_gravity_field().set_gravity_vector([0.0, 0.0, -GRAVITY])
    rough = drake.CoulombFriction(MU, MU)
    balls: list[Any] = []
    if case.centres is None:
        drake.Parser(plant).AddModels(str(URDF))
        floor = drake.RigidTransform([0.0, 0.0, -1.0]), drake.Box(4.0, 4.0, 2.0)
        plant.RegisterCollisionGeometry(plant.world_body(), *floor, "floor", rough)
    else:
        inertia = drake.SpatialInertia.SolidSphereWithMass(case.mass, case.radius)
        for k, centre in enumerate(case.centres):
            place, body = drake.RigidTransform(centre), plant.world_body()
            if k >= case.fixed:
                body, place = plant.AddRigidBody(f"ball {k}", inertia), drake.RigidTransform()
                balls.append((body, centre))
            shape = drake.Sphere(case.radius)
            plant.RegisterCollisionGeometry(body, place, shape, f"ball {k}", rough)
    plant.Finalize()
    simulator = drake.Simulator(builder.Build())
    context = plant.GetMyMutableContextFromRoot(simulator.get_mutable_context())
    for body, centre in balls or [(plant.GetBodyByName("trunk"), [0.0, 0.0, 0.4])]:
        plant.SetFreeBodyPose(context, body, drake.RigidTransform(centre))
    simulator.AdvanceTo(SECONDS)
    results = plant.get_contact_results_output_port().Eval(context)
    contacts = []
    for k in range(results.num_point_pair_contacts()):
        info = results.point_pair_contact_info(k)
        contacts.append(PointForce(np.array(info.contact_point()), np.array(info.contact_force())))
    return contacts


def with_pinocchio(case: Case) -> FloatArray:
    """(nc, 3) N, normal force first, of Pinocchio's ADMM on the step itself."""
    import pinocchio as pin

    step = case.step
    rows = np.empty((3 * step.nc, step.nv))  # in Pinocchio the normal is the last
    tangential = step.friction.B_t.toarray()
    rows[0::3], rows[1::3] = tangential[0::2], tangential[1::2]
    rows[2::3] = step.B.toarray()
    freely = step.mass.solve(rows.T)
    models, datas = pin.StdVec_ConstraintModel(), pin.StdVec_ConstraintData()
    for _ in range(step.nc):
        contact = pin.PointContactConstraintModel(pin.Model())
        contact.setFriction(MU)
        models.append(pin.ConstraintModel(contact))
        datas.append(models[-1].createData())
    settings, result = pin.ADMMSolverSettings(), pin.ADMMSolverResult()
    for name in ("absolute", "relative"):
        for what in ("feasibility", "complementarity"):
            setattr(settings, f"{name}_{what}_tol", 1e-10)
    settings.max_iterations = 100_000
    delassus = pin.DelassusOperatorDense(np.asarray(rows @ freely))
    rates = step.dt * (step.F_ext @ freely)
    solver = pin.ADMMConstraintSolver(3 * step.nc)
    solver.solve(delassus, rates, models, datas, settings, result)
    forces = np.reshape(result.retrieveConstraintImpulses(), (-1, 3)) / step.dt
    return cdopt.interop.normal_first(forces)


def with_siconos(case: Case) -> FloatArray:
    """(nc, 3) N, normal force first, of Siconos's nonsmooth Gauss-Seidel on the step itself."""
    solver = siconos.SiconosFriction("NSGS", accuracy=1e-10)
    solution = cdopt.FrictionalCD(case.step).solve(solver)
    return np.column_stack([solution.f, solution.f_t])


def on_the_step(case: Case, contacts: list[PointForce]) -> FloatArray:
    """(nc, 3) N, what an engine met, on the step's contacts, nearest first, in their directions.

    Engines differ in which of the two bodies a force acts on; contacts push, which tells the sign.
    """
    step, forces = case.step, np.zeros((case.step.nc, 3))
    for contact in contacts:
        i = int(np.argmin(np.linalg.norm(step.points - contact.point, axis=1)))
        axes = np.vstack([step.normals[i], step.friction.tangents[i]])
        force = axes @ contact.force
        forces[i] += force if force[0] >= 0.0 else -force
    return forces


ENGINES: dict[str, Callable[[Case], FloatArray]] = {
    "MuJoCo": lambda case: on_the_step(case, in_mujoco(case)),
    "Drake": lambda case: on_the_step(case, in_drake(case)),
    "Pinocchio's ADMM": with_pinocchio,
    "Siconos's NSGS": with_siconos,
}


# --- verdicts ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Verdicts:
    """One case through all engines.

    Attributes
    ----------
    report : bounds of the step, and of the weight on the supports, the quantity "total".
    forces : by engine, (nc, 3) N. audits : by engine. total : by engine, N.
    inside : by engine, how many forces' components are within their certified bounds.
    """

    case: Case
    report: cdopt.Indeterminacy
    forces: dict[str, FloatArray]
    audits: dict[str, cdopt.Audit]
    total: dict[str, float]
    inside: dict[str, int]


def supports(case: Case) -> FloatArray:
    """(1, 3 nc), the upward force of all contacts with what is fixed."""
    step = case.step
    held = np.isin(step.bodies[:, 0], np.arange(-1, case.fixed))
    axes = np.concatenate([step.normals[:, None], step.friction.tangents], axis=1)
    return (held[:, None] * axes[:, :, 2]).reshape(1, -1)


def judged(case: Case) -> Verdicts:
    """What each engine finds, and the verdicts."""
    step, up = case.step, supports(case)
    report = cdopt.indeterminacy(step, "coulomb", {"total": up})
    lower, upper = report.intervals
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        forces = {name: find(case) for name, find in ENGINES.items()}
    rest, slack = np.zeros(step.nv), TOL * float(report.force.max())
    audits = {
        name: cdopt.audit(step, f[:, 0], f[:, 1:], rest, law="coulomb", tol=TOL)
        for name, f in forces.items()
    }
    return Verdicts(
        case,
        report,
        forces,
        audits,
        {name: float((up @ f.ravel()).item()) for name, f in forces.items()},
        {
            name: int(((f >= lower - slack) & (f <= upper + slack)).sum())
            for name, f in forces.items()
        },
    )


def table(verdicts: Verdicts) -> str:
    """The verdicts as text: a column for each engine."""
    step, report, names = verdicts.case.step, verdicts.report, list(verdicts.forces)
    total = report.quantity("total")
    lines = [
        f"{verdicts.case.name}: {report.summary}",
        "",
        f"{'normal force [N]':<20}" + "".join(f"{n:>18}" for n in names) + f"{'certified':>22}",
    ]
    for k in range(min(step.nc, 8)):
        bounds = f"{report.lower[k]:.2f} to {report.upper[k]:.2f}"
        cells = "".join(f"{verdicts.forces[n][k, 0]:>18.3f}" for n in names)
        lines.append(f"{step.contact_names[k]:<20}{cells}{bounds:>22}")
    sideways = {n: np.linalg.norm(f[:, 1:], axis=1).max() for n, f in verdicts.forces.items()}
    rows: dict[str, Callable[[str], str]] = {
        "largest tangential": lambda n: f"{sideways[n]:.3f}",
        "weight carried": lambda n: f"{verdicts.total[n]:.3f}",
        "inside bounds": lambda n: f"{verdicts.inside[n]} of {verdicts.forces[n].size}",
        "audit": lambda n: verdicts.audits[n].verdict,
    }
    for label, cell in rows.items():
        last = f"{total.lower[0]:.3f}, determined" if label == "weight carried" else ""
        lines.append(f"{label:<20}" + "".join(f"{cell(n):>18}" for n in names) + f"{last:>22}")
    return "\n".join(lines)


def draw(axes: Any, verdicts: Verdicts) -> None:
    """Normal forces of each engine on the certified intervals."""
    from cdopt.plots.palette import BAND, EDGE, INK

    looks = (("o", "#0072B2"), ("s", "#D55E00"), ("^", "#009E73"), ("D", INK))
    report, places = verdicts.report, np.arange(verdicts.case.step.nc)
    axes.bar(places, report.upper - report.lower, 0.8, report.lower, color=BAND, edgecolor=EDGE)
    for k, (name, f) in enumerate(verdicts.forces.items()):
        marker, colour = looks[k]
        style: dict[str, Any] = {"color": colour, "markersize": 4, "linestyle": "none"}
        axes.plot(places + 0.16 * (k - 1.5), f[:, 0], marker=marker, label=name, **style)
    names = verdicts.case.step.contact_names
    short = [name.removesuffix("_foot").replace("_", "\n") for name in names]
    axes.set_xticks(places, short, rotation=90 if len(names) > 8 else 0, fontsize=7)
    weight = report.quantity("total").lower[0]
    axes.set_title(f"{verdicts.case.name}: weight {weight:.1f} N", fontsize=10, loc="left")
    axes.set_ylabel("normal force [N]")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def picture(cases: list[Verdicts]) -> Any:
    """A panel for each case."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 3.6), layout="constrained", facecolor="white")
    panels = figure.subplots(1, len(cases), squeeze=False)[0]
    for axes, verdicts in zip(panels, cases, strict=True):
        draw(axes, verdicts)
    style: dict[str, Any] = {"ncols": 4, "frameon": False, "fontsize": 8}
    labels = panels[0].get_legend_handles_labels()
    figure.legend(*labels, loc="outside lower center", **style)
    return figure


def run(out: Path) -> list[Verdicts]:
    """Print both tables and save the picture in a folder."""
    verdicts = [judged(case) for case in (quadruped(), pile())]
    print("\n\n".join(map(table, verdicts)))
    picture(verdicts).savefig(out / "engines.png", dpi=150)
    return verdicts
