"""Functions that build the problems of the bank: what ``generator.name`` in a manifest names.

Each returns a validated ContactStep, or a Truss; each can be used on its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from cdopt.bank.few_bodies import ball, impact, rank_deficient, squeezed, zero_contacts
from cdopt.bank.packings import packing, uneven
from cdopt.bank.piles import crystal_2d, pyramid, pyramid_falling, touching
from cdopt.bank.platforms import (
    beam,
    beam_on,
    duplicated_contacts,
    supports,
    supports_delassus,
    table,
    ten_orders,
    tripod,
)
from cdopt.bank.trusses import Truss, fan, fan_forces, truss, unreachable_load
from cdopt.problem.contact_step import Step
from cdopt.scene.generators.paper import pyramid_positions

GENERATORS: Mapping[str, Callable[..., Step | Truss]] = MappingProxyType({
    function.__name__: function
    for function in (
        ball,
        beam,
        crystal_2d,
        duplicated_contacts,
        fan,
        impact,
        packing,
        pyramid,
        pyramid_falling,
        rank_deficient,
        squeezed,
        supports,
        supports_delassus,
        table,
        ten_orders,
        tripod,
        unreachable_load,
        zero_contacts,
    )
})  # fmt: skip

__all__ = [
    "GENERATORS",
    "Truss",
    "ball",
    "beam",
    "beam_on",
    "crystal_2d",
    "duplicated_contacts",
    "fan",
    "fan_forces",
    "impact",
    "packing",
    "pyramid",
    "pyramid_falling",
    "pyramid_positions",
    "rank_deficient",
    "squeezed",
    "supports",
    "supports_delassus",
    "table",
    "ten_orders",
    "touching",
    "tripod",
    "truss",
    "uneven",
    "unreachable_load",
    "zero_contacts",
]
