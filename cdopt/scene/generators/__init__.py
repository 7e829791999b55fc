"""Scenes from a few numbers, by what they are made of: each function makes one and says how."""

from cdopt.scene.generators.arches import arch
from cdopt.scene.generators.few import bouncing_ball, box_on_floor, collision, sphere_on_floor
from cdopt.scene.generators.masonry import box_on_step, box_stack, brick_on_two_bricks, brick_wall
from cdopt.scene.generators.packings import crystal, random_packing
from cdopt.scene.generators.paper import beam, pyramid, table
from cdopt.scene.generators.piles import polygon_packing, polyhedra_pile
from cdopt.scene.generators.platforms import rod_on_supports, table_with_legs

GENERATORS = {
    "arch": arch,
    "beam": beam,
    "bouncing_ball": bouncing_ball,
    "box_on_floor": box_on_floor,
    "box_on_step": box_on_step,
    "box_stack": box_stack,
    "brick_on_two_bricks": brick_on_two_bricks,
    "brick_wall": brick_wall,
    "collision": collision,
    "crystal": crystal,
    "polygon_packing": polygon_packing,
    "polyhedra_pile": polyhedra_pile,
    "pyramid": pyramid,
    "random_packing": random_packing,
    "rod_on_supports": rod_on_supports,
    "sphere_on_floor": sphere_on_floor,
    "table": table,
    "table_with_legs": table_with_legs,
}

__all__ = [
    "GENERATORS",
    "arch",
    "beam",
    "bouncing_ball",
    "box_on_floor",
    "box_on_step",
    "box_stack",
    "brick_on_two_bricks",
    "brick_wall",
    "collision",
    "crystal",
    "polygon_packing",
    "polyhedra_pile",
    "pyramid",
    "random_packing",
    "rod_on_supports",
    "sphere_on_floor",
    "table",
    "table_with_legs",
]
