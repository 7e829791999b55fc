"""Plants of Drake for tests: a plate on five feet, and a walker with a ball on its back."""

from __future__ import annotations

import numpy as np
import pytest

drake = pytest.importorskip("pydrake.all", reason="pip install drake")

DT = 5e-3


def _properties(stiffness: float, relaxation: float, mu: float):
    found = drake.ProximityProperties()
    found.AddProperty("material", "point_contact_stiffness", stiffness)
    found.AddProperty("material", "relaxation_time", relaxation)
    found.AddProperty("material", "coulomb_friction", drake.CoulombFriction(mu, mu))
    return found


class Plant:
    """A diagram with a plant on a floor, and its state."""

    def __init__(self) -> None:
        builder = drake.DiagramBuilder()
        config = drake.MultibodyPlantConfig(
            time_step=DT, discrete_contact_approximation="sap", contact_model="point"
        )
        self.plant, _ = drake.AddMultibodyPlant(config, builder)
        self.add(self.plant.world_body(), [0.0, 0.0, -5.0], drake.Box(20.0, 20.0, 10.0), "floor",
                 _properties(3e5, 0.05, 0.4))  # fmt: skip
        self.build()
        self.plant.Finalize()
        self.diagram = builder.Build()
        self.root = self.diagram.CreateDefaultContext()
        self.context = self.plant.GetMyMutableContextFromRoot(self.root)

    def add(self, body, at, shape, name: str, properties) -> None:
        pose = drake.RigidTransform(at)
        self.plant.RegisterCollisionGeometry(body, pose, shape, name, properties)

    def build(self) -> None:
        raise NotImplementedError

    def next_velocity(self) -> np.ndarray:
        """v⁺ of Drake's own step."""
        root = self.root.Clone()
        simulator = drake.Simulator(self.diagram, root)
        simulator.Initialize()
        simulator.AdvanceTo(0.5 * DT)
        return np.array(self.plant.GetVelocities(self.plant.GetMyContextFromRoot(root)))


class Plate(Plant):
    """Five feet of different stiffness, the centre of mass to one side."""

    def build(self) -> None:
        centre = [0.05, 0.02, 0.03]
        about = drake.UnitInertia.SolidBox(1.0, 0.6, 0.1).ShiftFromCenterOfMass(centre)
        inertia = drake.SpatialInertia(5.0, centre, about)
        self.body = self.plant.AddRigidBody("plate", inertia)
        feet = [(0.4, 0.25), (-0.4, 0.25), (-0.4, -0.25), (0.4, -0.25), (0.0, 0.0)]
        for i, (x, y) in enumerate(feet):
            properties = _properties(1e5 * (1 + i), 0.02, 0.6)
            self.add(self.body, [x, y, -0.1], drake.Sphere(0.05), f"foot{i}", properties)

    def shuffle(self, rng: np.random.Generator) -> None:
        angles = [*rng.uniform(-0.005, 0.005, 2), rng.uniform(-3.0, 3.0)]
        place = [0.0, 0.0, 0.1495 - rng.uniform(0.0, 1e-3)]
        pose = drake.RigidTransform(drake.RollPitchYaw(*angles), place)
        self.plant.SetFreeBodyPose(self.context, self.body, pose)
        self.plant.SetVelocities(self.context, rng.normal(0.0, 0.3, 6))


class Walker(Plant):
    """A torso on four damped legs, and a ball on its back: bodies of two trees touch."""

    def build(self) -> None:
        plant = self.plant
        box = drake.SpatialInertia.SolidBoxWithMass(4.0, 0.5, 0.3, 0.1)
        self.torso = plant.AddRigidBody("torso", box)
        self.add(self.torso, [0, 0, 0], drake.Box(0.5, 0.3, 0.1), "back",
                 _properties(2e5, 0.01, 0.5))  # fmt: skip
        for i in (-1, 1):
            for j in (-1, 1):
                name = f"leg{i}{j}"
                rod = drake.SpatialInertia.SolidCapsuleWithMass(0.4, 0.02, 0.2, [0, 0, 1])
                leg = plant.AddRigidBody(name, rod.Shift([0.0, 0.0, 0.12]))  # its frame: the hip
                place = drake.RigidTransform([0.2 * i, 0.18 * j, 0.0])
                hip = plant.AddFrame(drake.FixedOffsetFrame(
                    f"{name}hip", self.torso.body_frame(), place))  # fmt: skip
                joint = drake.RevoluteJoint(name, hip, leg.body_frame(), [0, 1, 0], damping=0.3)
                plant.AddJoint(joint)
                self.add(leg, [0, 0, -0.24], drake.Sphere(0.02), name + "foot",
                         _properties(1e5, 0.02, 0.7))  # fmt: skip
        ball = drake.SpatialInertia.SolidSphereWithMass(1.0, 0.1)
        self.ball = plant.AddRigidBody("ball", ball)
        self.add(self.ball, [0, 0, 0], drake.Sphere(0.1), "ball", _properties(5e4, 0.03, 0.3))

    def shuffle(self, rng: np.random.Generator) -> None:
        for body, height in ((self.torso, 0.2592), (self.ball, 0.4088)):
            angles = rng.uniform(-0.002, 0.002, 3)
            pose = drake.RigidTransform(drake.RollPitchYaw(*angles), [0.0, 0.0, height])
            self.plant.SetFreeBodyPose(self.context, body, pose)
        self.plant.SetVelocities(self.context, rng.normal(0.0, 0.2, self.plant.num_velocities()))
