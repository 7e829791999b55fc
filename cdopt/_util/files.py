"""Reading and saving files.

Only regular files are read; a FIFO or a device is refused before it is opened. A file is saved by
writing a new one next to it, which is synchronised with the disk and then renamed: after a full
disk or a kill either the old file or the new one is there.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import secrets
import stat
import struct
import tokenize
import tomllib
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cdopt._util import checks
from cdopt._util.checks import describe
from cdopt._util.errors import CdoptError, InvalidInput, SaveFailed

DAMAGE = (  # what zipfile, numpy and h5py raise for damaged or foreign files
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    tokenize.TokenError,
    OSError,
    EOFError,
    RuntimeError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    SyntaxError,
    OverflowError,
    MemoryError,
)

_PACKAGE = Path(__file__).resolve().parents[1]
Content = bytes | bytearray | memoryview
TEXT = 2**26  # bytes of a text file
NUMBERS = 2_000_000  # and lines, of a TOML text
WHOLE = 2**31  # bytes of any file that is read as a whole
_KEYS = 32  # parts of a dotted TOML key: tomllib needs memory of the square of them
_WORD = r"""(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*"""
_LONG_KEY = re.compile(rf"(?<![\w-])(?:{_WORD}){{{_KEYS}}}")
_WRITABLE = "a file in a folder that exists"
_WRONG_PATH = (
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ENAMETOOLONG,
    errno.EINVAL,
    errno.ELOOP,
    errno.EEXIST,
)
_OPEN = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)


# --- reading ---------------------------------------------------------------------------


def regular(path: str | Path, expected: str, argument: str = "path") -> tuple[Path, int]:
    """The path and size of a regular file for libraries that open files themselves."""
    if not isinstance(path, str | Path):
        raise InvalidInput(argument, describe(path), f"the path of {expected}")
    try:
        status = Path(path).stat()
    except (OSError, ValueError) as error:
        raise _fault(path, _reason(error), expected, argument) from error
    if not stat.S_ISREG(status.st_mode):
        raise _fault(path, "no regular file", expected, argument)
    return Path(path), status.st_size


@contextlib.contextmanager
def opened(
    path: str | Path, expected: str, argument: str = "path"
) -> Iterator[io.BufferedReader[Any]]:
    """A regular file, open to read bytes; parameters and errors as in ``regular``."""
    checked, _ = regular(path, expected, argument)
    try:
        stream = io.BufferedReader(io.FileIO(os.open(checked, _OPEN), "rb"))
    except OSError as error:
        raise _fault(path, _reason(error), expected, argument) from error
    with stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise _fault(path, "no regular file", expected, argument)
        yield stream


def read_bytes(
    path: str | Path, expected: str, argument: str = "path", at_most: int = WHOLE
) -> bytes:
    """The content of a regular file of at most ``at_most`` bytes."""
    with opened(path, expected, argument) as stream:
        size = os.fstat(stream.fileno()).st_size
        try:
            content = stream.read(min(size, at_most) + 1)
        except OSError as error:
            raise _fault(path, _reason(error), expected, argument) from error
    if len(content) > at_most:
        raise _fault(path, f"{size} bytes", f"{expected} of at most {at_most} bytes", argument)
    return content


def read_text(path: str | Path, expected: str, argument: str = "path", at_most: int = TEXT) -> str:
    """The text in a UTF-8 file of at most ``at_most`` bytes, without a byte order mark."""
    try:
        text = read_bytes(path, expected, argument, at_most).decode("utf-8")
    except UnicodeDecodeError as error:
        raise _fault(path, f"no UTF-8 text: {error.reason}", expected, argument) from error
    if text.startswith("\ufeff"):
        raise _fault(path, "a byte order mark", f"{expected} in UTF-8 without one", argument)
    return text.replace("\r\n", "\n")


def require_size(text: str, source: str) -> None:
    """Refuse a text of more numbers than fit in a gigabyte when they are read, 500 bytes each."""
    count = text.count(",") + text.count("\n")
    if count > NUMBERS:
        expected = f"at most {NUMBERS:,}; make larger scenes in Python"
        raise InvalidInput(source, f"{count:,} numbers and lines", expected)


def parse_toml(text: str, source: str) -> dict[str, Any]:
    """The table that a TOML text states; ``source`` names it in messages."""
    require_size(text, source)
    if long := _LONG_KEY.search(text):
        where = f"{source}, line {text.count(chr(10), 0, long.start()) + 1}"
        raise InvalidInput(where, "a key of very many parts", f"fewer than {_KEYS}")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # no TOML, numbers or lists beyond all use
        number = re.search(r"line (\d+)", str(error))
        where = f"{source}, line {number[1]}" if number else source
        raise InvalidInput(where, str(error)[:300], "TOML") from error


# --- saving ----------------------------------------------------------------------------


@contextlib.contextmanager
def staged(path: str | Path) -> Iterator[Path]:
    """An empty new file that replaces ``path`` when the block ends without an error.

    Both the file and its new name are on the disk then. A link is replaced, not followed.
    """
    target = checks.path("path", path)
    with named(target):
        mode = target.lstat().st_mode if os.path.lexists(target) else None
        if mode is not None and not stat.S_ISREG(mode) and not stat.S_ISLNK(mode):
            raise _fault(target, "no regular file", _WRITABLE)
        draft = target.parent / f".{secrets.token_hex(8)}{target.suffix[:16]}"
        os.close(os.open(draft, _NEW, 0o666))
        try:
            if mode is not None and stat.S_ISREG(mode):
                draft.chmod(stat.S_IMODE(mode))
            yield draft
            synchronise(draft)
            draft.replace(target)
        except BaseException:
            with contextlib.suppress(OSError):
                draft.unlink()
            raise
        synchronise(target.parent)


@dataclass(frozen=True)
class Kind:
    """A kind of files that cdopt saves: its name in words, name endings, and first bytes."""

    name: str
    endings: tuple[str, ...]
    mark: bytes = b""


ARRAYS = Kind("arrays", (".npz",), b"PK")
SCENES = Kind("scenes", (".toml",))
CONTACT_PROBLEMS = Kind("FCLib's contact problems", (".hdf5", ".h5"), b"\x89HDF")
PROGRAMS = Kind("quadratic programs", (".mps", ".qps"))
CONE_PROGRAMS = Kind("programs with cones", (".cbf",))
MATLAB = Kind("arrays of MATLAB", (".mat",), b"MATLAB")
_SAVED = (ARRAYS, SCENES, CONTACT_PROBLEMS, PROGRAMS, CONE_PROGRAMS, MATLAB)
_READ = {".vtkhdf", ".jsonl", ".json", ".obj", ".stl", ".dump", ".lammpstrj", ".data", ".lmp"}


def require_kind(path: str | Path, kind: Kind) -> None:
    """Refuse a name of another kind of files, and to replace a file that is of another kind."""
    target = checks.path("path", path)
    others = _READ.union(*(other.endings for other in _SAVED)) - set(kind.endings)
    expected = f"a name ending in {' or '.join(kind.endings)}, of {kind.name}"
    if target.suffix.lower() in others:
        raise _fault(path, "a name of files of another kind", expected)
    try:
        with target.open("rb") if target.is_file() else io.BytesIO() as file:
            beginning = file.read(8)
    except OSError:  # which saving tells
        return
    foreign = any(beginning.startswith(other.mark) for other in _SAVED if other.mark)
    if kind.mark:
        foreign = beginning != b"" and not beginning.startswith(kind.mark)
    if foreign:
        raise _fault(path, "a file of another kind, which is not replaced", expected)


def write_bytes(path: str | Path, content: Content, kind: Kind | None = None) -> None:
    """Save these bytes, all of them or none; errors as in ``staged`` and ``require_kind``."""
    if kind is not None:
        require_kind(path, kind)
    with staged(path) as draft:
        write_into(draft, content)


def write_text(path: str | Path, text: str, kind: Kind | None = None) -> None:
    """Save a text in UTF-8; errors as in ``staged`` and ``require_kind``."""
    write_bytes(path, checks.text("text", text).encode("utf-8"), kind)


def write_into(path: Path, content: Content) -> None:
    """Write these bytes into an existing file that is no link."""
    handle = os.open(path, os.O_WRONLY | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0))
    with os.fdopen(handle, "wb") as stream:
        stream.write(content)


@contextlib.contextmanager
def named(path: str | Path, argument: str = "path") -> Iterator[None]:
    """The system's errors of writing: InvalidInput of a wrong path, SaveFailed of a disk."""
    try:
        yield
    except OSError as error:
        if error.errno in _WRONG_PATH:
            raise _fault(path, _reason(error), _WRITABLE, argument) from error
        raise SaveFailed(str(path), _reason(error)) from error


def synchronise(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    if os.name == "nt" and path.is_dir():  # Windows opens no folders
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file"
    return getattr(error, "strerror", None) or str(error)


def _fault(path: str | Path, found: str, expected: str, argument: str = "path") -> InvalidInput:
    text = found if argument == str(path) else f"{path}: {found}"
    return InvalidInput(argument, repr(text)[1:-1][:300], expected)


# --- the problem bank --------------------------------------------------------------------


def problems_folder(package: Path = _PACKAGE) -> Path:
    """The folder of problems of a ``package`` folder: ``_problems`` in a wheel, else next to it.

    Raises
    ------
    CdoptError : neither is there.
    """
    package = checks.path("package", package)
    folders = (package / "_problems", package.parent / "problems")
    for folder in folders:
        if folder.is_dir():
            return folder
    looked = " and ".join(map(str, folders))
    raise CdoptError(f"the problem bank is missing from this installation: looked for {looked}")
