"""Loading experiments without inertia: packings and piles from equilibrium to equilibrium.

``compress`` moves a wall in on a packing, ``biaxial`` shortens a box whose other walls bear a
constant stress, ``press`` loads a pile until it collapses. Each follows
``cdopt.dynamics.equilibrium`` and leaves a record of arrays and of how the contact network changed.
De Klerk et al. (2021), section 2, without inertia and damping.
"""

from cdopt.arguments import guard
from cdopt.loading.biaxial import Biaxial, biaxial, confine
from cdopt.loading.compression import Compression, compress
from cdopt.loading.pile import PileLoading, press
from cdopt.loading.record import LoadingFailed, LoadingInterrupted, LoadingPath
from cdopt.loading.samples import disc_box, disc_pile

__all__ = [
    "Biaxial",
    "Compression",
    "LoadingFailed",
    "LoadingInterrupted",
    "LoadingPath",
    "PileLoading",
    "biaxial",
    "compress",
    "confine",
    "disc_box",
    "disc_pile",
    "press",
]

guard(globals())
