"""cdopt: contact mechanics posed as convex optimisation, declaratively, with CVXPY.

Scene → Contacts → ContactStep → Formulation (cvxpy.Problem) → Backend → StepSolution +
Certificate → Trajectory → analysis, study, plots

The data of a contact step goes in, a convex problem is stated, any solver solves it, and a
certificate shows how good the answer is.

Public names are listed in ``__init__.pyi`` and imported when they are first used, so that
``import cdopt`` is quick.
"""

from pathlib import Path

import lazy_loader

_OTHERS = ("manifold", "manifold_np", "manifold_torch")  # folders of the other project
if any((Path(__file__).parent / name).is_dir() for name in _OTHERS):
    raise ImportError(
        "the folder of cdopt holds files of another project of this name, for optimisation on "
        "manifolds, which the package index calls cdopt; this one is called cdopt-contact there. "
        "Remove both and install one: pip uninstall cdopt cdopt-contact"
    )

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
