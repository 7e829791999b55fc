"""Siconos' own time stepping of discs or boxes on a floor, in a Python that has Siconos.

``python siconos_in_time.py IN.npz OUT.npz``: the scheme of Moreau and Jean with θ = 1, the law of
Coulomb, impacts without rebound. IN holds ``mass`` (n,), ``q`` and ``v`` (n, 3), ``gravity`` (2,),
``mu``, ``dt`` and ``steps``, and ``radius`` (n,) of discs, which touch by Siconos' relations, or
``size`` (2,) of boxes, each on the one before, with linear relations of their corners, which are
exact while the boxes stay aligned and level. OUT holds ``q`` and ``v`` (steps + 1, n, 3), and of
the last step ``pairs`` (nc, 2), −1 for the floor y = 0, and ``forces`` (nc, 2) on the first body.
"""

from __future__ import annotations

import sys
from itertools import combinations

import numpy as np
import siconos.kernel as sk
import siconos.numerics as sn
from siconos.mechanics.collision.bodies import Disk, DiskDiskR, DiskPlanR

TOUCHING = 1e-9  # m: contacts with smaller gaps are active
WIDE = 1e3  # m, of the floor; without it Siconos's floor is a point


def discs(given):
    """Discs, and a relation for each pair and for each disc and the floor."""
    radius = given["radius"].tolist()
    bodies = [
        Disk(*of) for of in zip(radius, given["mass"].tolist(), given["q"], given["v"], strict=True)
    ]
    links = [(DiskPlanR(r, 0.0, 1.0, 0.0, 0.0, 0.0, WIDE), i, -1) for i, r in enumerate(radius)]
    pairs = combinations(range(len(radius)), 2)
    return bodies, links + [(DiskDiskR(radius[i], radius[j]), i, j) for i, j in pairs]


def boxes(given):
    """Boxes by their displacements, and a relation for each lower corner: normal, tangential."""
    half, height = 0.5 * given["size"]
    turn = (half**2 + height**2) / 3.0
    bodies = [
        sk.LagrangianLinearTIDS(np.zeros(3), v, m * np.diag([1.0, 1.0, turn]))
        for m, v in zip(given["mass"], given["v"], strict=True)
    ]
    links = []
    for i in range(len(bodies)):
        for x in (-half, half):
            own, below = [[0, 1, x], [1, 0, height]], [[0, -1, -x], [-1, 0, height]]
            rows = np.hstack([own, below]) if i else np.array(own)
            links.append((sk.LagrangianLinearTIR(rows), i, i - 1))
    return bodies, links


def run(given):
    """The motion, and the forces of the last step."""
    bodies, links = (discs if "radius" in given else boxes)(given)
    dt, steps = float(given["dt"]), int(given["steps"])
    system = sk.NonSmoothDynamicalSystem(0.0, dt * (steps + 1))
    for body, mass in zip(bodies, given["mass"], strict=True):
        body.setFExtPtr(mass * np.append(given["gravity"], 0.0))
        system.insertDynamicalSystem(body)
    law = sk.NewtonImpactFrictionNSL(0.0, 0.0, float(given["mu"]), 2)
    contacts = [(sk.Interaction(law, relation), relation, i, j) for relation, i, j in links]
    for contact, _, i, j in contacts:
        system.link(contact, *(bodies[k] for k in (i, j) if k >= 0))
    scheme = sk.MoreauJeanOSI(1.0)
    scheme.setConstraintActivationThreshold(TOUCHING)
    problem = sk.FrictionContact(2, sn.SICONOS_FRICTION_2D_NSGS)
    options = problem.numericsSolverOptions()
    options.dparam[0], options.iparam[0] = 1e-12, 100_000  # tolerance, iterations
    simulation = sk.TimeStepping(system, sk.TimeDiscretisation(0.0, dt), scheme, problem)
    simulation.setNewtonOptions(sk.SICONOS_TS_LINEAR)  # rows at the start of the step
    q, v = [given["q"]], [given["v"]]
    start = 0.0 if "radius" in given else given["q"]
    for _ in range(steps):
        simulation.computeOneStep()
        q.append(start + np.array([body.q() for body in bodies]))
        v.append(np.array([body.velocity() for body in bodies]))
        impulses = [np.array(contact.lambda_(1)) for contact, *_ in contacts]
        simulation.nextStep()
    loaded = [k for k, impulse in enumerate(impulses) if impulse[0] > 0.0]
    return {
        "q": q,
        "v": v,
        "pairs": [contacts[k][2:] for k in loaded],
        "forces": [contacts[k][1].jachq()[:, :2].T @ impulses[k] / dt for k in loaded],
    }


if __name__ == "__main__":
    with np.load(sys.argv[1]) as stored:
        np.savez(sys.argv[2], **run(dict(stored)))
