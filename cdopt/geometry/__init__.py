"""Geometry of rigid shapes, without bodies: rotations, convex polytopes, their mass and contacts.

Polytope → Hulls (all pieces of many bodies in flat arrays) → contact points of pairs. A sphere is
a point and a capsule a segment, with a radius around it.
"""
