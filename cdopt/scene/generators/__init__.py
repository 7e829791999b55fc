"""Generators: scenes from a few numbers, one function each."""

from cdopt.scene.generators import frictional, masonry, packings, paper, primitives

GENERATORS = {
    function.__name__: function
    for function in (
        masonry.arch,
        frictional.arch_without_keystone,
        paper.beam,
        primitives.bouncing_ball,
        primitives.box_on_floor,
        masonry.box_on_step,
        masonry.box_stack,
        masonry.brick_on_two_bricks,
        masonry.brick_wall,
        masonry.buttress,
        primitives.collision,
        packings.crystal,
        frictional.grain_column,
        frictional.house_of_cards,
        frictional.incline,
        frictional.ladder,
        packings.polygon_packing,
        packings.polyhedra_pile,
        frictional.pulled_brick,
        paper.pyramid,
        packings.random_packing,
        primitives.rod_on_supports,
        frictional.rotating_drum,
        frictional.silo,
        primitives.sphere_on_floor,
        paper.table,
        primitives.table_with_legs,
    )
}
