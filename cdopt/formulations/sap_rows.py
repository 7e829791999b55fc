"""The contacts of a discrete step of Drake's SAP solver as rows with cones, compliance and bias.

SAP (Castro, Permenter & Han, IEEE Trans. Robotics 39, 2023) minimises over v

    ½ ‖v − v*‖²_A + ½ ‖P_F(−R⁻¹ (v_c − v̂))‖²_R,

the associated law with the compliance R. For a point contact with penetration δ, where k is the
stiffness of both bodies in series and τ the sum of their relaxation times,

    v̂_n = δ/(h + τ),    R_n = max(β² w/(4π²), 1/(h k (h + τ))),    R_t = σ w,

with σ = 1e-3, β the plant's near-rigid threshold, and the mean mobility w = ‖W_ii‖_F/3. μ is the
harmonic mean 2 μ₁ μ₂/(μ₁ + μ₂). Three details affect the last digits:

- W_ii is estimated with the diagonal of A, not with A;
- the contact point divides the line between the witness points in the ratio of the stiffness of the
  bodies: the part k_A/(k_A + k_B) belongs to A;
- A = M + h D, with the damping D of the joints, and v* = v + h A⁻¹ k(q, v).
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput, Unsupported
from cdopt.problem import ConeStep, FrictionCones

EXTRA = "pip install drake"

_SIGMA = 1e-3  # R_t over w
_RELAXATION = 0.1  # s, of a geometry that states none
_WINDOW = 2.0  # steps of motion within which a limit of a joint counts as near


def sap_rows(plant: Any, context: Any) -> tuple[ConeStep, FloatArray]:
    """The step, and its compliance (rows,) in m/(s N).

    Raises
    ------
    InvalidInput, Unsupported : as in ``SoftCD.from_sap``.
    """
    engine = _checked(plant, context)
    dt, nv = float(plant.time_step()), int(plant.num_velocities())
    v = np.array(plant.GetVelocities(context))
    A = np.array(plant.CalcMassMatrix(context)) + dt * np.diag(_damping(plant, context))
    force = _forces(engine, plant, context)
    _refuse_near_limits(plant, context, v, v + dt * np.linalg.solve(A, force))
    rows, compliance, bias, mu, names = [np.zeros((0, nv))], [], [], [], []
    query = plant.get_geometry_query_input_port().Eval(context)
    look, beta = query.inspector(), float(plant.get_sap_near_rigid_threshold())
    for pair in query.ComputePointPairPenetration():
        A_id, B_id = pair.id_A, pair.id_B
        materials = [_material(look, name) for name in (A_id, B_id)]
        (k_A, tau_A, mu_A), (k_B, tau_B, mu_B) = materials
        share, time = k_A / (k_A + k_B), dt + tau_A + tau_B
        point = share * np.array(pair.p_WCa) + (1.0 - share) * np.array(pair.p_WCb)
        J_A, J_B = (_jacobian(engine, plant, context, look, name, point) for name in (A_id, B_id))
        J = _frame(-np.array(pair.nhat_BA_W)) @ (J_B - J_A)
        w = float(np.linalg.norm(J @ (J / np.diag(A)).T)) / 3.0
        rigid, soft = beta**2 / (4.0 * np.pi**2) * w, (k_A + k_B) / (k_A * k_B) / (dt * time)
        compliance += [max(rigid, soft), _SIGMA * w, _SIGMA * w]
        bias += [-float(pair.depth) / time, 0.0, 0.0]
        mu.append(2.0 * mu_A * mu_B / (mu_A + mu_B) if mu_A + mu_B > 0.0 else 0.0)
        rows.append(J)
        names.append("/".join(look.GetName(name) for name in (A_id, B_id)))
    numbered = [f"{name}/{i}" for i, name in enumerate(names)]
    step = ConeStep(
        M=A,
        G=np.vstack(rows),
        cones=FrictionCones(np.array(mu), 3),
        bias=bias,
        v=v,
        F_ext=force,
        dt=dt,
        contact_ids=numbered or None,
    )
    return step, dt * np.array(compliance)


def _checked(plant: Any, context: Any) -> Any:
    """Drake's multibody module, after a check that SAP solves the step, with contacts only."""
    if not importlib.util.find_spec("pydrake"):
        raise Unsupported("a plant of Drake", f"drake is not installed: {EXTRA}")
    engine: Any = importlib.import_module("pydrake.multibody.plant")
    if not isinstance(plant, engine.MultibodyPlant):
        raise InvalidInput("plant", checks.describe(plant), "a pydrake MultibodyPlant")
    if not plant.is_finalized() or plant.time_step() <= 0.0 or plant.num_velocities() == 0:
        expected = "a finalized plant with a time step, in which something moves"
        raise InvalidInput("plant", checks.describe(plant), expected)
    try:
        plant.ValidateContext(context)
    except (RuntimeError, TypeError) as error:
        raise InvalidInput("context", "that of another system", "the plant's own") from error
    if plant.get_discrete_contact_approximation() != engine.DiscreteContactApproximation.kSap:
        raise Unsupported("the plant's contact approximation", 'it is not "sap"')
    if plant.get_contact_model() != engine.ContactModel.kPoint:
        raise Unsupported("the plant's contact model", "only point contact can be imported")
    if plant.num_constraints():
        raise Unsupported("constraints of the plant", "only its contacts can be imported")
    for index in plant.GetJointIndices():
        if plant.get_joint(index).is_locked(context):
            name = plant.get_joint(index).name()
            raise Unsupported(f"locked joint {name}", "locked joints cannot be imported")
    for index in plant.GetJointActuatorIndices():
        if plant.get_joint_actuator(index).has_controller():
            name = plant.get_joint_actuator(index).name()
            raise Unsupported(f"controller of actuator {name}", "SAP makes it a constraint")
    return engine


def _damping(plant: Any, context: Any) -> FloatArray:
    """(nv,) damping of the joints, N s/m and N m s."""
    damping = np.zeros(plant.num_velocities())
    for index in plant.GetJointIndices():
        joint = plant.get_joint(index)
        if joint.num_velocities():
            begin = joint.velocity_start()
            damping[begin : begin + joint.num_velocities()] = joint.GetDampingVector(context)
    return damping


def _forces(engine: Any, plant: Any, context: Any) -> FloatArray:
    """k(q, v) (nv,): gravity, springs, dampers, actuators and applied forces less M v̇'s bias."""
    tree: Any = importlib.import_module("pydrake.multibody.tree")
    forces = tree.MultibodyForces(plant)
    plant.CalcForceElementsContribution(context, forces)
    total = -np.array(plant.CalcInverseDynamics(context, np.zeros(plant.num_velocities()), forces))
    port = plant.get_actuation_input_port()
    if plant.num_actuators() and port.HasValue(context):
        total += plant.MakeActuationMatrix() @ port.Eval(context)
    port = plant.get_applied_generalized_force_input_port()
    if port.HasValue(context):
        total += port.Eval(context)
    port = plant.get_applied_spatial_force_input_port()
    for applied in port.Eval(context) if port.HasValue(context) else ():
        frame = plant.get_body(applied.body_index).body_frame()
        at, world = applied.p_BoBq_B, plant.world_frame()
        kind = tree.JacobianWrtVariable.kV
        J = plant.CalcJacobianSpatialVelocity(context, kind, frame, at, world, world)
        total += np.array(J).T @ applied.F_Bq_W.get_coeffs()
    return total


def _refuse_near_limits(plant: Any, context: Any, v: FloatArray, free: FloatArray) -> None:
    """Raise an error if SAP may add a constraint for the limit of a joint."""
    reach = _WINDOW * float(plant.time_step()) * np.maximum(np.abs(v), np.abs(free))
    q = np.array(plant.GetPositions(context))
    for index in plant.GetJointIndices():
        joint = plant.get_joint(index)
        if joint.num_velocities() != 1:
            continue
        at, moves = q[joint.position_start()], reach[joint.velocity_start()]
        low, high = joint.position_lower_limits()[0], joint.position_upper_limits()[0]
        if at - low <= moves or high - at <= moves:
            raise Unsupported(f"limit of joint {joint.name()}", "only contacts are read")


def _material(look: Any, geometry: Any) -> tuple[float, float, float]:
    """Stiffness in N/m, relaxation time in s, and μ of a geometry."""
    properties = look.GetProximityProperties(geometry)
    if not properties.HasProperty("material", "point_contact_stiffness"):
        name = look.GetName(geometry)
        raise Unsupported(f"geometry {name}", "it states no point_contact_stiffness")
    return (
        float(properties.GetProperty("material", "point_contact_stiffness")),
        float(properties.GetPropertyOrDefault("material", "relaxation_time", _RELAXATION)),
        float(properties.GetProperty("material", "coulomb_friction").dynamic_friction()),
    )


def _jacobian(
    engine: Any, plant: Any, context: Any, look: Any, geometry: Any, point: FloatArray
) -> FloatArray:
    """(3, nv) Jacobian of the velocity of the geometry's body at ``point``."""
    tree: Any = importlib.import_module("pydrake.multibody.tree")
    body, world = plant.GetBodyFromFrameId(look.GetFrameId(geometry)), plant.world_frame()
    local = plant.EvalBodyPoseInWorld(context, body).inverse().multiply(point)
    kind = tree.JacobianWrtVariable.kV
    frame = body.body_frame()
    J = plant.CalcJacobianTranslationalVelocity(context, kind, frame, local, world, world)
    return np.array(J)


def _frame(normal: FloatArray) -> FloatArray:
    """(3, 3) the normal and two tangents."""
    unit = normal / np.linalg.norm(normal)
    return np.vstack([unit, np.linalg.svd(unit[None])[2][1:]])
