"""From bodies as users write them to columns, each value checked and named when it is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import BoolArray, FloatArray
from cdopt._util.errors import InvalidInput
from cdopt.scene.body import Body, Spheres
from cdopt.scene.shape import Shape

Columns = dict[str, Any]
_LARGEST = 1e150


def of_bodies(bodies: Sequence[Body], first: int, dim: int) -> Columns:
    """Columns of single bodies numbered from ``first``; values not given are nan.

    Raises
    ------
    InvalidInput : a value of the wrong type or length, or a field of the other dimension.
    """
    turn = 0 if dim == 2 else 3
    other = "orientation" if dim == 2 else "angle"
    for k, body in enumerate(bodies, first):
        if not isinstance(body.shape, Shape):
            raise InvalidInput(f"bodies[{k}].shape", checks.describe(body.shape), "a Shape")
        if getattr(body, other) is not None:
            wanted = "an angle in 2D" if dim == 2 else "an orientation in 3D"
            raise InvalidInput(f"bodies[{k}].{other}", "a value", wanted)
        if not (body.fixed is None or isinstance(body.fixed, (bool, np.bool_))):
            raise InvalidInput(f"bodies[{k}].fixed", checks.describe(body.fixed), "true or false")
        if not body.fixed and body.fixed is not None and type(body.shape).always_fixed:
            raise InvalidInput(f"bodies[{k}].fixed", "false", "a fixed half-space")
        if body.position is None:
            raise InvalidInput(f"bodies[{k}].position", "nothing", f"{dim} finite numbers")
        if dim not in body.shape.dims or getattr(body.shape, "dim", dim) != dim:
            raise InvalidInput(
                f"bodies[{k}].shape", f"a {body.shape.kind} of {5 - dim}D", f"a shape of {dim}D"
            )
        for name in body.shape.vectors:
            size = np.size(getattr(body.shape, name))
            if size != dim:
                raise InvalidInput(f"bodies[{k}].{name}", f"{size} numbers", f"{dim} in {dim}D")
    columns: Columns = {
        name: _numbers(name, [getattr(body, name) for body in bodies], width, first)
        for name, width in (
            ("position", dim), ("velocity", dim), ("force", dim), ("angular_velocity", turn),
            ("torque", turn), ("mass", 0), ("density", 0),
            ("angle", 0) if dim == 2 else ("orientation", 4),
        )
    }  # fmt: skip
    columns["orientation"] = columns.pop("angle") if dim == 2 else columns["orientation"]
    columns["fixed"] = np.array([bool(b.fixed) or type(b.shape).always_fixed for b in bodies])
    columns["material"] = _texts("material", [body.material for body in bodies], first)
    columns["name"] = _texts("name", [body.name for body in bodies], first)
    columns["shape"] = [body.shape for body in bodies]
    return columns


def of_spheres(group: Spheres, first: int, dim: int) -> Columns:
    """Columns of a group of spheres numbered from ``first``; values not given are nan.

    Their column of shapes is the array of their radii.

    Raises
    ------
    InvalidInput : a value of the wrong type or length.
    """
    centres = _numbers("position", group.centres, dim, first)
    n = centres.shape[0]
    flags = np.asarray(group.fixed)
    if flags.dtype.kind != "b" or flags.shape not in ((), (n,)):
        raise InvalidInput(f"bodies[{first}:].fixed", checks.describe(flags), f"one flag or {n}")
    one = isinstance(group.material, str)
    columns: Columns = {
        "position": centres,
        "fixed": np.broadcast_to(flags, n),
        "material": [group.material] * n if one else _texts("material", group.material, first),
        "name": [""] * n if group.names is None else _texts("name", group.names, first),
    }
    for name in ("radius", "mass", "density"):
        given = getattr(group, name)
        single = given is None or np.ndim(given) == 0
        values = _numbers(name, [given] if single else given, 0, first)
        columns[name] = np.broadcast_to(values, n) if single else values
    for name, given, width in (
        ("velocity", group.velocities, dim),
        ("angular_velocity", group.angular_velocities, 0 if dim == 2 else 3),
    ):
        columns[name] = _numbers(name, [None] * n if given is None else given, width, first)
    for name, value in columns.items():
        if len(value) != n:
            raise InvalidInput(f"bodies[{first}:].{name}", f"{len(value)} values", f"one or {n}")
    radius = columns["radius"]
    bad = np.flatnonzero(~(radius > 0.0))
    if bad.size:
        k = int(bad[0])
        raise InvalidInput(f"bodies[{first + k}].radius", repr(float(radius[k])), "above 0")
    turn = (n,) if dim == 2 else (n, 3)
    columns["orientation"] = np.full(n if dim == 2 else (n, 4), np.nan)
    columns |= {"force": np.full((n, dim), np.nan), "torque": np.full(turn, np.nan)}
    columns["shape"] = columns.pop("radius")
    return columns


def _numbers(name: str, values: Any, width: int, first: int) -> FloatArray:
    """A finite column (n,) for width 0, else a table (n, width); rows of nan where None."""
    expected = "one finite number" if width == 0 else f"{width} finite numbers"
    if isinstance(values, str) or not np.iterable(values):
        raise InvalidInput(f"bodies[{first}:].{name}", checks.describe(values), expected)
    rows: Any = values if isinstance(values, np.ndarray) else list(values)
    shape = (len(rows),) if width == 0 else (len(rows), width)
    missing = np.zeros(len(rows), dtype=bool)
    if isinstance(rows, list):
        empty = np.nan if width == 0 else [np.nan] * width
        missing = np.array([row is None for row in rows], dtype=bool)
        rows = [empty if row is None else row for row in rows]
    table = _plain(rows, shape) if len(rows) else np.empty(shape)
    if table is not None and (missing | _finite(table)).all():
        return table
    for k, row in enumerate(rows):
        one = _plain(row, shape[1:])
        if not missing[k] and (one is None or not np.all(np.abs(one) <= _LARGEST)):
            raise InvalidInput(f"bodies[{first + k}].{name}", _found(row), expected)
    raise InvalidInput(f"bodies[{first}:].{name}", "values that do not fit together", expected)


def _plain(values: Any, shape: tuple[int, ...]) -> FloatArray | None:
    """Numbers as an array of this shape, copied; None if they are not that."""
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, OverflowError):
        return None
    right = array.shape == shape and array.dtype.kind in "iuf"
    return np.array(array, dtype=np.float64) if right else None


def _finite(table: FloatArray) -> BoolArray:
    """Rows (n,) without infinities, nan or numbers whose squares overflow."""
    return np.asarray((np.abs(table.reshape(table.shape[0], -1)) <= _LARGEST).all(axis=1))


def _found(value: Any) -> str:
    if isinstance(value, (list, tuple)) and len(value) <= 7:
        return repr(list(value))
    return checks.describe(value)


def _texts(name: str, values: Any, first: int) -> list[str]:
    for k, value in enumerate(values, first):
        if not isinstance(value, str):
            raise InvalidInput(f"bodies[{k}].{name}", checks.describe(value), "a text")
    return list(values)
