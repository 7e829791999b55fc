"""Random problems of every kind, made from seeds: bodies in contact, and their loads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import cdopt

POWERS = (1.5, 2.0, 2.5, 4.0)
LAWS = ("coulomb", "associated")


@dataclass
class Network:
    """Bodies and contacts: rows of contact i are B[i], the normal one first.

    Attributes
    ----------
    M : (nv, nv). B : (nc, d, nv). body : (nv,) the body of each dof. unit : (nv,) mass of it.
    """

    M: np.ndarray
    B: np.ndarray
    body: np.ndarray

    @property
    def normal(self) -> np.ndarray:
        """(nc, nv) normal rows."""
        return self.B[:, 0]

    @property
    def tangential(self) -> np.ndarray:
        """(nc (d − 1), nv) tangential rows."""
        nc, d, nv = self.B.shape
        return self.B[:, 1:].reshape(nc * (d - 1), nv)


def network(rng: np.random.Generator, d: int, decades: float = 1.0, many: bool = False) -> Network:
    """One to four bodies, in the plane or in space, touching one another and the world.

    Masses are spread over 10 to the ± decades. With ``many`` there are more contacts than dofs.
    """
    bodies, per = int(rng.integers(1, 5)), 3 if d == 2 else 6
    nv = bodies * per
    nc = int(rng.integers(1, 2 + nv // d)) if not many else nv // d + int(rng.integers(2, 6))
    M = np.zeros((nv, nv))
    for k in range(bodies):
        mass = 10.0 ** rng.uniform(-decades, decades)
        root = rng.standard_normal((per - d, per - d))
        turning = root @ root.T + 0.5 * np.eye(per - d)
        at = slice(k * per, k * per + per)
        M[at, at] = mass * np.block(
            [[np.eye(d), np.zeros((d, per - d))], [np.zeros((per - d, d)), 0.2 * turning]]
        )
    B = np.zeros((nc, d, nv))
    for i in range(nc):
        j = int(rng.integers(bodies))
        k = int(rng.integers(-1, bodies))
        idle = rng.random() < 0.01  # a contact that moves nothing
        frame = np.linalg.qr(rng.standard_normal((d, d)))[0].T
        for number, sign in ((j, 1.0), (k, -1.0)):
            if idle or number < 0 or (k == j and sign < 0.0):  # the world does not move
                continue
            r = rng.uniform(-1.0, 1.0, d)
            lever = np.array([[-r[1], r[0]]]).T if d == 2 else -cross(r)
            rows = np.hstack([frame, frame @ lever])
            B[i, :, number * per : number * per + per] += sign * rows
    return Network(M, B, np.repeat(np.arange(bodies), per))


def cross(r: np.ndarray) -> np.ndarray:
    """The matrix of r ×."""
    return np.array([[0.0, -r[2], r[1]], [r[2], 0.0, -r[0]], [-r[1], r[0], 0.0]])


def step(rng: np.random.Generator, net: Network, friction: bool = False, **more: Any) -> Any:
    """A step of these bodies, its gaps at rest not negative."""
    nc, d, nv = net.B.shape
    speed = 10.0 ** rng.uniform(-2, 1)
    dt = 10.0 ** rng.uniform(-4, -1)
    v = speed * rng.standard_normal(nv) * (rng.random() < 0.7)
    pull = rng.standard_normal(nv) * 10.0
    phi = speed * dt * rng.uniform(0.0, 2.0, nc) * (rng.random(nc) < 0.5)
    given = {
        "M": net.M, "B": net.normal, "phi": phi, "v": v, "F_ext": net.M @ pull, "dt": dt,
        "stiffness": 10.0 ** rng.uniform(-1, 1, nc),
        "dof_body": net.body if rng.random() < 0.7 else None,
    }  # fmt: skip
    if not friction and rng.random() < 0.3:
        given["restitution"] = rng.uniform(0.0, 1.0, nc)
    if rng.random() < 0.2:
        given["gap_rate"] = speed * rng.uniform(-0.05, 0.5, nc)
    if friction:
        mu = rng.choice([0.0, 0.2, 0.5, 1.0], nc, p=[0.1, 0.3, 0.4, 0.2])
        given["friction"] = cdopt.Friction(
            mu, net.tangential,
            rate=speed * rng.standard_normal((nc, d - 1)) * (rng.random() < 0.3),
            stiffness_ratio=rng.uniform(0.5, 1.0),
        )  # fmt: skip
    return cdopt.ContactStep(**{**given, **more})


def resting(rng: np.random.Generator, net: Network, mu: float) -> Any:
    """A step with friction, from rest, that contacts can hold by forces inside their cones."""
    nc, d, _ = net.B.shape
    f = np.zeros((nc, d))
    f[:, 0] = rng.uniform(0.5, 2.0, nc)
    along = rng.standard_normal((nc, d - 1))
    along /= np.linalg.norm(along, axis=1)[:, None]
    f[:, 1:] = 0.6 * mu * f[:, :1] * along * rng.random((nc, 1))
    load = np.einsum("idn,id->n", net.B, f)
    friction = cdopt.Friction(mu, net.tangential, stiffness_ratio=rng.uniform(0.5, 1.0))
    return cdopt.ContactStep(
        net.M, net.normal, np.zeros(nc), np.zeros(len(net.M)), -load, 1e-3,
        stiffness=10.0 ** rng.uniform(-1, 1, nc), friction=friction, dof_body=net.body,
    )  # fmt: skip


def delassus(rng: np.random.Generator, net: Network, friction: bool) -> Any:
    """N and p alone."""
    full = step(rng, net, friction)
    nc, d, nv = net.B.shape
    rows = net.B.reshape(nc * d, nv) if friction else net.normal
    N = full.dt * rows @ np.linalg.solve(net.M, rows.T)
    free = full.v + full.dt * np.linalg.solve(net.M, full.F_ext)
    bias = np.zeros((nc, d if friction else 1))
    bias[:, 0] = np.asarray(full.phi) / full.dt
    coulomb = cdopt.Friction(full.friction.mu) if friction else None
    given = {"dt": full.dt, "stiffness": full.stiffness, "friction": coulomb}
    return cdopt.ContactStep.from_delassus(0.5 * (N + N.T), rows @ free + bias.ravel(), **given)


def static(rng: np.random.Generator, net: Network, decades: float = 1.0) -> dict[str, Any]:
    """Arguments of a no-tension truss whose load the contacts can deliver."""
    nc, nv = net.normal.shape
    f = rng.uniform(0.2, 2.0, nc) * (rng.random(nc) < 0.7) * 10.0 ** rng.uniform(-2, 4)
    given: dict[str, Any] = {
        "B": net.normal, "contact_load": net.normal.T @ f,
        "stiffness": 10.0 ** rng.uniform(-decades, decades, nc),
    }  # fmt: skip
    if rng.random() < 0.35:
        held = net.body == rng.integers(net.body.max() + 1)
        given["free_dofs"] = ~held
        given["prescribed_u"] = np.where(held, rng.standard_normal(nv), 0.0)
        given["prescribed_u"] *= rng.random() < 0.7
    if rng.random() < 0.5:
        given["dof_body"] = net.body
    return given
