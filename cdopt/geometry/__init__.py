"""Geometry of rigid shapes: rotations, convex polytopes, mass properties, contact points.

Polytope → Hulls (all convex pieces of many bodies in flat arrays) → broad phase (pairs of bodies
that are near each other) → narrow phase (contact points of pairs of pieces). A sphere is a point
and a capsule is a segment, each with a radius around it.
"""
