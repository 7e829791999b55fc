"""Contact problems as other codes store them.

``fclib`` reads the HDF5 files of FCLib, the collection of frictional contact problems.
"""

from cdopt.interop import fclib

__all__ = ["fclib"]
