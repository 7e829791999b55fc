"""Scenes: bodies, shapes and materials, from generators or files, in SI units.

A Scene says what there is and never changes; a State says where everything is. Shapes bring
their own geometry, pair by pair; ``cdopt.contact`` turns it into contact steps.

>>> import cdopt
>>> cdopt.scene.beam()
Scene('beam': 4 bodies in 2D, 1 free, power 2)
"""

from cdopt.scene.bodies import Bodies, ShapeTable
from cdopt.scene.body import Body, Spheres
from cdopt.scene.dofs import Dofs
from cdopt.scene.few import bouncing_ball, box_on_floor, collision, sphere_on_floor
from cdopt.scene.files import load, loads
from cdopt.scene.material import Material
from cdopt.scene.packings import crystal, random_packing
from cdopt.scene.paper import beam, pyramid, table
from cdopt.scene.scene import Scene
from cdopt.scene.shapes import SHAPES, Box, HalfSpace, Shape, Sphere
from cdopt.scene.state import State

GENERATORS = {
    "beam": beam,
    "bouncing_ball": bouncing_ball,
    "box_on_floor": box_on_floor,
    "collision": collision,
    "crystal": crystal,
    "pyramid": pyramid,
    "random_packing": random_packing,
    "sphere_on_floor": sphere_on_floor,
    "table": table,
}

__all__ = [
    "GENERATORS",
    "SHAPES",
    "Bodies",
    "Body",
    "Box",
    "Dofs",
    "HalfSpace",
    "Material",
    "Scene",
    "Shape",
    "ShapeTable",
    "Sphere",
    "Spheres",
    "State",
    "beam",
    "bouncing_ball",
    "box_on_floor",
    "collision",
    "crystal",
    "load",
    "loads",
    "pyramid",
    "random_packing",
    "sphere_on_floor",
    "table",
]
