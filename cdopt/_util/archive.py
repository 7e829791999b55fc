"""One file format for everything cdopt stores: a zipped set of arrays (``.npz``), no pickles.

Sparse matrices are stored by their parts, so that nothing is lost or filled in.
"""

from __future__ import annotations

import io
import json
import math
import os
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.lib import format as npy
from numpy.typing import NDArray

from cdopt._util import files
from cdopt._util.errors import InvalidInput

FORMAT = 1
_ALWAYS = 2**28  # bytes of arrays that any file may declare
_EXPANSION = 64  # bytes of arrays per byte of the file
_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
_FAULTS = (
    OSError, ValueError, EOFError, KeyError, MemoryError, TypeError, AttributeError, IndexError,
    RuntimeError, NotImplementedError, SyntaxError, OverflowError, struct.error,
)  # fmt: skip
_PARTS = ("data", "indices", "indptr", "shape")


def save(path: str | Path, kind: str, content: Mapping[str, Any]) -> None:
    """Write arrays, sparse matrices and numbers under their names; None is left out."""
    entries: dict[str, Any] = {
        "cdopt": np.array(json.dumps({"kind": kind, "format": FORMAT})),
    }
    for name, value in content.items():
        if value is None:
            continue
        if sp.issparse(value):
            csr = sp.csr_array(value)
            parts = (csr.data, csr.indices, csr.indptr, np.array(csr.shape))
            entries.update({f"{name}.{part}": a for part, a in zip(_PARTS, parts, strict=True)})
        else:
            entries[name] = np.asarray(value)
    stream = io.BytesIO()
    np.savez_compressed(stream, allow_pickle=False, **entries)
    files.write_bytes(path, stream.getvalue())


def load(path: str | Path, kinds: tuple[str, ...]) -> tuple[str, dict[str, Any]]:
    """Read a file of one of these kinds.

    Raises
    ------
    InvalidInput : the file is missing, truncated, of another kind or format, or declares arrays
        beyond the limits of ``read_arrays``.
    """
    expected = f"a file of cdopt ({' or '.join(kinds)})"
    entries = read_arrays(path, expected)
    kind = _kind(path, entries.pop("cdopt", None), kinds, expected)
    return kind, _joined(path, entries)


def read_arrays(path: str | Path, expected: str) -> dict[str, NDArray[Any]]:
    """The arrays of an ``.npz`` file by their names; nothing in it is ever unpickled.

    All arrays together may take 64 times the file's size, or 256 MiB where that is more; what
    the file declares is held against this, and against itself, before memory is asked for.

    Raises
    ------
    InvalidInput : the file is missing, damaged, no such file, or beyond these limits.
    """
    with files.opened(path, expected) as stream:
        size = os.fstat(stream.fileno()).st_size
        try:
            with zipfile.ZipFile(stream) as members:
                infos = members.infolist()
                declared = sum(info.file_size for info in infos)
                limit = max(_ALWAYS, _EXPANSION * size)
                if declared > limit:
                    raise ValueError(f"{declared} bytes declared in a file of {size}")
                return {_name(info): _array(members, info) for info in infos}
        except (*_FAULTS, zipfile.BadZipFile, zlib.error) as error:
            words = " ".join(f"{path}: {error}".split())[:300]
            raise InvalidInput("path", words, expected) from error


def _name(info: zipfile.ZipInfo) -> str:
    if not info.filename.endswith(".npy") or info.compress_type not in _PACKINGS:
        raise ValueError(f"a member {info.filename[:40]!r} that is no array")
    return info.filename.removesuffix(".npy")


def _array(members: zipfile.ZipFile, info: zipfile.ZipInfo) -> NDArray[Any]:
    """One array of plain numbers or text, whose header agrees with the length of its member."""
    with members.open(info) as member:
        version = npy.read_magic(member)
        if version not in _HEADERS:
            raise ValueError(f"{info.filename}: format {version}")
        shape, by_columns, dtype = _HEADERS[version](member)
        needed = math.prod(shape) * dtype.itemsize
        if dtype.kind not in "biufcSU" or min(shape, default=0) < 0:
            raise ValueError(f"{info.filename}: {dtype} of shape {shape}"[:200])
        if needed != info.file_size - member.tell():
            raise ValueError(f"{info.filename}: {needed} bytes declared, others stored")
        raw = bytearray(member.read())
    return np.frombuffer(raw, dtype).reshape(shape, order="F" if by_columns else "C")


def _kind(path: str | Path, header: Any, kinds: tuple[str, ...], expected: str) -> str:
    try:
        described = json.loads(str(header))
        kind, version = described["kind"], described["format"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InvalidInput("path", f"{path}: a file without cdopt's header", expected) from error
    if kind not in kinds or version != FORMAT:
        raise InvalidInput("path", f"{path}: kind {kind!r}, format {version!r}", expected)
    return str(kind)


def _joined(path: str | Path, entries: dict[str, Any]) -> dict[str, Any]:
    """Entries by name, sparse matrices put together again."""
    content: dict[str, Any] = {}
    for name, value in entries.items():
        base, dot, part = name.partition(".")
        if not dot:
            content[base] = value if value.ndim else value[()]
        elif part == "data":
            content[base] = _sparse(path, base, entries)
    return content


def _sparse(path: str | Path, name: str, entries: dict[str, Any]) -> sp.csr_array:
    try:
        data, indices, indptr, shape = (entries[f"{name}.{part}"] for part in _PARTS)
        rows, cols = (int(n) for n in shape)
        matrix = sp.csr_array((data, indices, indptr), shape=(rows, cols))
        matrix.check_format(full_check=True)
    except (KeyError, ValueError, TypeError, IndexError, MemoryError, OverflowError) as error:
        raise InvalidInput(
            "path", f"{path}: damaged sparse matrix {name!r}", "a whole file"
        ) from error
    return matrix
