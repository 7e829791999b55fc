"""Generators: scenes from a few numbers, one function each."""

from cdopt.scene.generators.masonry import (
    arch,
    box_on_step,
    box_stack,
    brick_on_two_bricks,
    brick_wall,
    buttress,
)
from cdopt.scene.generators.packings import (
    crystal,
    polygon_packing,
    polyhedra_pile,
    random_packing,
)
from cdopt.scene.generators.paper import beam, pyramid, table
from cdopt.scene.generators.primitives import (
    bouncing_ball,
    box_on_floor,
    collision,
    rod_on_supports,
    sphere_on_floor,
    table_with_legs,
)

GENERATORS = {
    function.__name__: function
    for function in (
        arch,
        beam,
        bouncing_ball,
        box_on_floor,
        box_on_step,
        box_stack,
        brick_on_two_bricks,
        brick_wall,
        buttress,
        collision,
        crystal,
        polygon_packing,
        polyhedra_pile,
        pyramid,
        random_packing,
        rod_on_supports,
        sphere_on_floor,
        table,
        table_with_legs,
    )
}
