"""One file format for everything cdopt stores: a zipped set of arrays (``.npz``), no pickles.

Sparse matrices are stored by their parts, so that nothing is lost or filled in.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from cdopt.errors import InvalidInput

FORMAT = 1
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
    with Path(path).open("wb") as stream:
        np.savez_compressed(stream, allow_pickle=False, **entries)


def load(path: str | Path, kinds: tuple[str, ...]) -> tuple[str, dict[str, Any]]:
    """Read a file of one of these kinds.

    Raises
    ------
    InvalidInput : the file is missing, truncated, of another kind or format.
    """
    expected = f"a file of cdopt ({' or '.join(kinds)})"
    try:
        with Path(path).open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
            entries = {name: stored[name] for name in stored.files}
    except (OSError, ValueError, EOFError, KeyError, MemoryError, TypeError, AttributeError,
            RuntimeError, NotImplementedError, SyntaxError, OverflowError,
            zipfile.BadZipFile, zlib.error) as error:  # fmt: skip
        found = "no such file" if isinstance(error, FileNotFoundError) else f"{error}"
        raise InvalidInput("path", f"{path}: {found}"[:300], expected) from error
    kind = _kind(path, entries.pop("cdopt", None), kinds, expected)
    return kind, _joined(path, entries)


def _kind(path: str | Path, header: Any, kinds: tuple[str, ...], expected: str) -> str:
    try:
        described = json.loads(str(header))
        kind, version = described["kind"], described["format"]
    except (ValueError, TypeError, KeyError) as error:
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
