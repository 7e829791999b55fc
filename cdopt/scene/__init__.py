"""Scenes: bodies, shapes and materials, from generators or files, in SI units.

A Scene has the bodies and never changes; a State has their positions and velocities.
``cdopt.collision`` detects the contacts of a scene in a state and makes contact steps.

>>> import cdopt
>>> cdopt.scene.beam()
Scene('beam': 4 bodies in 2D, 1 free, power 2)
"""

from cdopt.geometry.periodic import PeriodicBox
from cdopt.scene.assemblies import load_assembly
from cdopt.scene.block_model import BlockModel, load_blocks
from cdopt.scene.bodies import Bodies, Body, ShapeTable, Spheres
from cdopt.scene.files import load, loads, placed, shipped_scenes
from cdopt.scene.generators import GENERATORS
from cdopt.scene.generators.masonry import (
    arch,
    arch_without_keystone,
    box_on_step,
    box_stack,
    brick_on_two_bricks,
    brick_wall,
    buttress,
    house_of_cards,
    pulled_brick,
)
from cdopt.scene.generators.packings import (
    crystal,
    grain_column,
    polygon_packing,
    polyhedra_pile,
    pyramid,
    random_packing,
    rotating_drum,
    silo,
)
from cdopt.scene.generators.primitives import (
    beam,
    bouncing_ball,
    box_on_floor,
    collision,
    incline,
    ladder,
    rod_on_supports,
    sphere_on_floor,
    table,
    table_with_legs,
)
from cdopt.scene.joint import Joint
from cdopt.scene.material import Material, MaterialPair
from cdopt.scene.scene import Scene
from cdopt.scene.shapes import (
    SHAPES,
    Box,
    Capsule,
    Compound,
    HalfSpace,
    Part,
    Polygon,
    Polyhedron,
    Shape,
    Sphere,
)
from cdopt.scene.snapshots import from_lammps, from_positions
from cdopt.scene.state import Dofs, State

__all__ = [
    "GENERATORS",
    "SHAPES",
    "BlockModel",
    "Bodies",
    "Body",
    "Box",
    "Capsule",
    "Compound",
    "Dofs",
    "HalfSpace",
    "Joint",
    "Material",
    "MaterialPair",
    "Part",
    "PeriodicBox",
    "Polygon",
    "Polyhedron",
    "Scene",
    "Shape",
    "ShapeTable",
    "Sphere",
    "Spheres",
    "State",
    "arch",
    "arch_without_keystone",
    "beam",
    "bouncing_ball",
    "box_on_floor",
    "box_on_step",
    "box_stack",
    "brick_on_two_bricks",
    "brick_wall",
    "buttress",
    "collision",
    "crystal",
    "from_lammps",
    "from_positions",
    "grain_column",
    "house_of_cards",
    "incline",
    "ladder",
    "load",
    "load_assembly",
    "load_blocks",
    "loads",
    "placed",
    "polygon_packing",
    "polyhedra_pile",
    "pulled_brick",
    "pyramid",
    "random_packing",
    "rod_on_supports",
    "rotating_drum",
    "shipped_scenes",
    "silo",
    "sphere_on_floor",
    "table",
    "table_with_legs",
]
