"""A MuJoCo model in the state of its data: checked, copied, updated and read."""

from __future__ import annotations

import copy
import importlib
import importlib.util
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput, Unsupported

EXTRA = "pip install mujoco"

_STATE = ("qpos", "qvel", "act", "ctrl", "qfrc_applied", "xfrc_applied", "mocap_pos", "mocap_quat")
_FULL = ("mjWARN_CONTACTFULL", "mjWARN_CNSTRFULL")
_OFF = ("mjENBL_SLEEP", "mjENBL_SPECULATIVE")  # bodies wake, and every distance is a gap


def why_unavailable() -> str | None:
    """Why MuJoCo is not available, with the remedy; None if it is."""
    return None if importlib.util.find_spec("mujoco") else f"mujoco is not installed: {EXTRA}"


def current(model: Any, data: Any) -> tuple[Any, Any, Any]:
    """MuJoCo, the model, and an updated copy of its data, in which no body sleeps."""
    reason = why_unavailable()
    if reason is not None:
        raise Unsupported("a MuJoCo model", reason)
    engine: Any = importlib.import_module("mujoco")
    for name, value, kind in (("model", model, engine.MjModel), ("data", data, engine.MjData)):
        if not isinstance(value, kind):
            raise InvalidInput(name, checks.describe(value), f"a mujoco.{kind.__name__}")
    if model.signature != data.signature:
        raise InvalidInput("data", "data of another model", "mujoco.MjData(model)")
    if model.nv == 0:
        raise InvalidInput("model", "no degrees of freedom", "a model with degrees of freedom")
    for name in _STATE:
        checks.vector(f"data.{name}", np.ravel(getattr(data, name)), None)
    now, plain = copy.copy(data), model
    switches = engine.mjtEnableBit.__members__
    off = sum(int(switches[name]) for name in _OFF if name in switches)
    if model.opt.enableflags & off:
        plain = copy.copy(model)
        plain.opt.enableflags &= ~off
    full = _lost(engine, now)
    try:
        engine.mj_forward(plain, now)
    except engine.FatalError as error:
        raise InvalidInput("data", f"MuJoCo: {error}", "a state that MuJoCo accepts") from error
    if _lost(engine, now) > full:
        raise InvalidInput("model", "more contacts than fit", "a larger <size memory=.../>")
    return engine, plain, now


def _lost(engine: Any, data: Any) -> int:
    """How often contacts or constraints were dropped for lack of memory."""
    return sum(int(data.warning[int(engine.mjtWarning.__members__[n])].number) for n in _FULL)


def images(
    product: Callable[..., None], model: Any, now: Any, numbers: Iterable[int], size: int
) -> Iterator[FloatArray]:
    """Products of MuJoCo with unit vectors, each valid until the next; also of M, any storage."""
    row, unit = np.zeros(model.nv), np.zeros(size)
    for k in numbers:
        unit[k] = 1.0
        product(model, now, row, unit)
        unit[k] = 0.0
        yield row


def sparse_rows(rows: Iterable[FloatArray], width: int) -> sp.csr_array:
    """A sparse matrix from dense rows, one after the other."""
    columns, entries, ends = [np.zeros(0, dtype=np.intp)], [np.zeros(0)], [0]
    for row in rows:
        columns.append(np.flatnonzero(row))
        entries.append(row[columns[-1]])
        ends.append(ends[-1] + columns[-1].size)
    parts = (np.concatenate(entries), np.concatenate(columns), np.array(ends))
    return sp.csr_array(parts, shape=(len(ends) - 1, width))


def name_of(engine: Any, model: Any, kind: Any, number: int) -> str:
    """The name of a geom, joint, …; its number if it has none."""
    return engine.mj_id2name(model, kind, int(number)) or f"#{int(number)}"
