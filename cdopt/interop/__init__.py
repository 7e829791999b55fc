"""Contact problems as other codes store them.

``fclib`` reads the HDF5 files of FCLib, the collection of frictional contact problems.
``mujoco`` takes the present contacts of a MuJoCo model.
"""

from cdopt.interop import fclib, mujoco

__all__ = ["fclib", "mujoco"]
