"""Loading experiments without inertia: packings and piles from equilibrium to equilibrium.

``compress`` moves a wall in on a packing, ``biaxial`` shortens a box whose other walls bear a
constant stress, ``press`` loads a pile until it collapses, ``deform`` strains a periodic cell. Each
follows ``cdopt.dynamics.equilibrium`` and returns a record of its equilibria, those with walls also
of how the contact network changed. De Klerk et al. (2021), section 2, without inertia and damping.
Run ``python -m examples.loading --help``.
"""

from .biaxial import Biaxial, biaxial, confine
from .compression import Compression, compress
from .periodic import BoxLoading, bidisperse, deform, jamming_fraction
from .pictures import loading_path
from .pile import PileLoading, press
from .record import LoadingFailed, LoadingInterrupted, LoadingPath
from .samples import disc_box, disc_pile

__all__ = [
    "Biaxial",
    "BoxLoading",
    "Compression",
    "LoadingFailed",
    "LoadingInterrupted",
    "LoadingPath",
    "PileLoading",
    "biaxial",
    "bidisperse",
    "compress",
    "confine",
    "deform",
    "disc_box",
    "disc_pile",
    "jamming_fraction",
    "loading_path",
    "press",
]
