"""Other codes: files of contact problems, models, and solvers.

``fclib`` reads and writes the HDF5 files of FCLib, the collection of frictional contact problems;
``exports`` writes the optimisation problem of a formulation for other solvers;
``quadratic_programs`` reads and writes QPS files; ``contact_lists`` reads contacts with their
forces from LAMMPS, LIGGGHTS and YADE; ``mujoco`` and ``pinocchio`` make contact steps from models
of these programs; ``pinocchio_admm`` and ``siconos`` call their solvers; ``petsc`` solves trusses
on several processes.
"""

from cdopt.interop import (
    contact_lists,
    exports,
    fclib,
    mujoco,
    petsc,
    pinocchio,
    pinocchio_admm,
    quadratic_programs,
    siconos,
)
from cdopt.problem.contact_list import normal_first, normal_last

__all__ = [
    "contact_lists",
    "exports",
    "fclib",
    "mujoco",
    "normal_first",
    "normal_last",
    "petsc",
    "pinocchio",
    "pinocchio_admm",
    "quadratic_programs",
    "siconos",
]
