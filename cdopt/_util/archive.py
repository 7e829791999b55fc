"""The format of cdopt's files: arrays in a zip file (``.npz``), no pickles.

Sparse matrices are stored by their parts, so that nothing is lost or filled in.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.lib import format as npy
from numpy.typing import NDArray

from cdopt._util import files, sparse
from cdopt._util.errors import InvalidInput

FORMAT = 1
_ALWAYS = 2**28  # bytes of arrays that any file may declare
_EXPANSION = 64  # bytes of arrays per byte of the file
_COMPRESSION = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_PARTS = ("data", "indices", "indptr", "shape")


def save(path: str | Path, kind: str, content: Mapping[str, Any]) -> None:
    """Write arrays, sparse matrices and numbers under their names; None is left out."""
    header = json.dumps({"kind": kind, "format": FORMAT})
    rows = {name: sp.csr_array(x) if sp.issparse(x) else x for name, x in content.items()}
    write(path, {"cdopt": np.array(header), **rows})


def write(path: str | Path, content: Mapping[str, Any]) -> None:
    """Write arrays, and compressed sparse matrices by their parts; None is left out."""
    entries: dict[str, Any] = {}
    for name, value in content.items():
        if sp.issparse(value):
            parts = (value.data, value.indices, value.indptr, np.array(value.shape))
            entries.update({f"{name}.{part}": a for part, a in zip(_PARTS, parts, strict=True)})
        elif value is not None:
            entries[name] = np.asarray(value)
    stream = io.BytesIO()
    np.savez_compressed(stream, allow_pickle=False, **entries)
    files.write_bytes(path, stream.getvalue(), kind=files.ARRAYS)


def load(path: str | Path, kinds: tuple[str, ...]) -> tuple[str, dict[str, Any]]:
    """Read a file of one of these kinds."""
    expected = f"a file of cdopt ({' or '.join(kinds)})"
    entries = read_arrays(path, expected)
    try:
        header = json.loads(str(entries.pop("cdopt")))
        kind, version = header["kind"], header["format"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InvalidInput("path", f"{path}: a file without cdopt's header", expected) from error
    if kind not in kinds or version != FORMAT:
        raise InvalidInput("path", f"{path}: kind {kind!r}, format {version!r}", expected)
    content: dict[str, Any] = {}
    for name, value in entries.items():
        base, _, part = name.partition(".")
        if not part:
            content[base] = value if value.ndim else value[()]
        elif part == "data":
            content[base] = _sparse(path, base, entries)
    return str(kind), content


def read_arrays(path: str | Path, expected: str) -> dict[str, NDArray[Any]]:
    """The arrays of an ``.npz`` file by name, not unpickled; its declared size is checked first."""
    with files.opened(path, expected) as stream:
        size = os.fstat(stream.fileno()).st_size
        try:
            with zipfile.ZipFile(stream) as members:
                infos = members.infolist()
                declared = sum(info.file_size for info in infos)
                if declared > max(_ALWAYS, _EXPANSION * size):
                    raise ValueError(f"{declared} bytes declared in a file of {size}")
                return {info.filename.removesuffix(".npy"): _array(members, info) for info in infos}
        except files.DAMAGE as error:
            text = " ".join(f"{path}: {error}".split())[:300]
            raise InvalidInput("path", text, expected) from error


def _array(members: zipfile.ZipFile, info: zipfile.ZipInfo) -> NDArray[Any]:
    """One array of plain numbers or text that fills its member, whose checksum is tested."""
    if not info.filename.endswith(".npy") or info.compress_type not in _COMPRESSION:
        raise ValueError(f"a member {info.filename[:40]!r} that is no array")
    with members.open(info) as member:
        array = npy.read_array(member, allow_pickle=False)
        if member.read(1) or array.dtype.kind not in "biufcSU":
            raise ValueError(f"{info.filename}: not one array of numbers or text")
    return array


def _sparse(path: str | Path, name: str, entries: dict[str, Any]) -> sp.csr_array:
    try:
        data, indices, indptr, shape = (entries[f"{name}.{part}"] for part in _PARTS)
        return sparse.rows_of_parts(data, indices, indptr, shape)
    except files.DAMAGE as error:
        found = f"{path}: damaged sparse matrix {name!r}: {error}"[:300]
        raise InvalidInput("path", found, "a whole file") from error
