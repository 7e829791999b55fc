"""Contact problems as other codes store them.

``fclib`` reads the HDF5 files of FCLib, the collection of frictional contact problems, and
``fclib_writing`` writes them. ``quadratic_programs`` writes and reads QPS files.
``mujoco`` takes the present contacts of a MuJoCo model.
"""

from cdopt._util.arguments import guard
from cdopt.interop import fclib, fclib_writing, mujoco, quadratic_programs

__all__ = ["fclib", "fclib_writing", "mujoco", "quadratic_programs"]

guard(globals())
