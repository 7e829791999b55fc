"""A standing quadruped through Pinocchio: its total is determined, single feet are not."""

from __future__ import annotations

import numpy as np
import pytest

import cdopt

pin = pytest.importorskip("pinocchio", reason="pip install pin")

FEET = ("front left", "front right", "hind left", "hind right")


def quadruped():
    """A trunk of 12 kg on four legs of two links, each with hip and knee, as URDF has it."""
    links = ["<robot name='quadruped'>", _link("trunk", 12.0, (0.4, 0.05, 0.4))]
    for name, x, y in zip(FEET, (0.3, 0.3, -0.3, -0.3), (0.2, -0.2, 0.2, -0.2), strict=True):
        links += [
            _link(f"{name} thigh", 1.0, (0.02, 0.02, 0.001)),
            _joint(f"{name} hip", "revolute", "trunk", f"{name} thigh", (x, y, 0)),
            _link(f"{name} shank", 0.5, (0.01, 0.01, 0.001)),
            _joint(f"{name} knee", "revolute", f"{name} thigh", f"{name} shank", (0, 0, -0.25)),
            _link(name, 0.1, (1e-4, 1e-4, 1e-4)),
            _joint(f"{name} ankle", "fixed", f"{name} shank", name, (0, 0, -0.25)),
        ]
    text = "\n".join([*links, "</robot>"])
    model = pin.buildModelFromXML(text, pin.JointModelFreeFlyer())
    q = pin.neutral(model)
    q[2] = 0.45
    q[7:] = [0.4, -0.8] * 4
    return model, q


def _link(name, mass, moments) -> str:
    xx, yy, zz = moments
    return (
        f"<link name='{name}'><inertial><mass value='{mass}'/><inertia ixx='{xx}' iyy='{yy}' "
        f"izz='{zz}' ixy='0' ixz='0' iyz='0'/></inertial></link>"
    )


def _joint(name, kind, parent, child, at) -> str:
    x, y, z = at
    limits = "<limit lower='-3' upper='3' effort='99' velocity='9'/>" if kind != "fixed" else ""
    return (
        f"<joint name='{name}' type='{kind}'><parent link='{parent}'/><child link='{child}'/>"
        f"<origin xyz='{x} {y} {z}' rpy='0 0 0'/><axis xyz='0 1 0'/>{limits}</joint>"
    )


def test_the_total_of_a_standing_quadruped_is_determined_and_single_feet_are_not() -> None:
    model, q = quadruped()
    step = cdopt.interop.pinocchio.contact_step(model, q, FEET, friction=0.6)
    assert step.joints is not None
    assert step.contact_names == list(FEET)
    weight = 9.81 * sum(inertia.mass for inertia in model.inertias)
    total = np.zeros((1, 12))
    total[0, ::3] = 1.0
    report = cdopt.indeterminacy(step, "coulomb", {"total": total})
    found = report.quantity("total")
    assert found.unique.all()
    np.testing.assert_allclose([found.lower, found.upper], weight, rtol=1e-6)
    assert not report.unique.any()
    assert report.width.min() > 0.1 * weight
    theirs = cdopt.FrictionalCD(step).solve("apgd")
    verdict = cdopt.audit(step, theirs.f, theirs.f_t)
    assert verdict.verdict == "a choice"
    wrong = cdopt.audit(step, 1.01 * theirs.f, theirs.f_t)
    assert wrong.verdict == "error of mechanics"


def test_rows_are_the_motion_of_points_and_torques_determine_the_feet() -> None:
    model, q = quadruped()
    corners = {name: [[0.02, 0.0, -0.01], [-0.02, 0.01, 0.0]] for name in FEET[:2]}
    step = cdopt.interop.pinocchio.contact_step(model, q, corners, friction=0.6, locked=False)
    assert step.contact_names[:2] == ["front left/0", "front left/1"]
    v, h = np.random.default_rng(2).standard_normal(model.nv), 1e-7
    moved = cdopt.interop.pinocchio.contact_step(
        model, pin.integrate(model, q, h * v), corners, friction=0.6, locked=False
    )
    rate = (moved.points - step.points) / h
    np.testing.assert_allclose(step.B @ v, rate[:, 2], atol=1e-5)
    along = np.einsum("ikx,ix->ik", step.friction.tangents, rate)
    np.testing.assert_allclose((step.friction.B_t @ v).reshape(-1, 2), along, atol=1e-5)
    fallen = cdopt.interop.pinocchio.contact_step(model, q, FEET, tau=np.zeros(model.nv))
    np.testing.assert_allclose(fallen.v_star[:6], [0, 0, -9.81e-3, 0, 0, 0], atol=1e-9)
    held = cdopt.interop.pinocchio.contact_step(model, q, FEET, friction=0.6)
    force = cdopt.FrictionalCD(held).solve("newton")
    torques = np.zeros(model.nv)
    torques[6:] = force.joint_forces
    known = cdopt.interop.pinocchio.contact_step(model, q, FEET, friction=0.6, tau=torques)
    report = cdopt.indeterminacy(known, "coulomb")
    # hips and knees turn about y: their torques say what each foot carries, but not sideways
    np.testing.assert_allclose(report.lower, force.f, rtol=1e-5)
    np.testing.assert_allclose(report.upper, force.f, rtol=1e-5)
    assert report.nullity == 2
    sideways = np.abs(known.friction.tangents[0, :, 1]) > 0.5
    assert (report.width_t[:, sideways] > 1.0).all()
    assert (report.width_t[:, ~sideways] < 1e-4).all()


def test_refusals() -> None:
    model, q = quadruped()
    with pytest.raises(cdopt.InvalidInput, match="frames"):
        cdopt.interop.pinocchio.contact_step(model, q, ["tail"])
    with pytest.raises(cdopt.InvalidInput, match="model"):
        cdopt.interop.pinocchio.contact_step("robot", q, FEET)
    with pytest.raises(cdopt.InvalidInput, match="q"):
        cdopt.interop.pinocchio.contact_step(model, q[:-1], FEET)
