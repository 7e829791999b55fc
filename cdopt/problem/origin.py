"""Where a contact step comes from, and what its contacts are called."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.errors import InvalidInput
from cdopt._util.formatting import numbered
from cdopt._util.frozen import Frozen

_PREFIX = "origin_"  # of its entries in files


@dataclass(frozen=True, eq=False)
class Origin(Frozen):
    """The scene and the state that a step was made of, for pictures and names.

    Attributes
    ----------
    scene : the ``Scene``; of a step that was read from a file its text, TOML. ``scene.placed``
        gives the scene and the state of either.
    t : time, s.
    q, v : positions and velocities of all bodies, as in ``State``.
    names : (nb,) names of the bodies, "" for none.
    """

    scene: Any
    t: float
    q: FloatArray
    v: FloatArray
    names: tuple[str, ...]

    def stored(self) -> dict[str, Any]:
        """Arrays by their names in files.

        Raises
        ------
        InvalidInput : a scene that TOML cannot hold.
        """
        text = self.scene if isinstance(self.scene, str) else self.scene.to_toml()
        content: dict[str, Any] = {"scene": np.frombuffer(text.encode(), "u1")}
        content |= {"t": self.t, "q": self.q, "v": self.v, "names": np.array(self.names)}
        return {_PREFIX + name: value for name, value in content.items()}

    @staticmethod
    def restored(content: dict[str, Any]) -> Origin | None:
        """The origin that ``stored`` wrote, taken out of ``content``, or None.

        Raises
        ------
        InvalidInput : not such entries.
        """
        entries = ("scene", "t", "q", "v", "names")
        scene, t, q, v, names = (content.pop(_PREFIX + name, None) for name in entries)
        if scene is None:
            return None
        try:
            texts = tuple(str(name) for name in names)
            return Origin(np.asarray(scene, "u1").tobytes().decode(), float(t), q, v, texts)
        except (TypeError, ValueError) as error:
            raise InvalidInput("path", f"a scene that is damaged: {error}", "a whole file") from (
                error
            )


@dataclass(frozen=True, eq=False)
class ContactNames(Frozen):
    """What contacts are called; the texts are made when they are first asked for.

    Attributes
    ----------
    nc : number of contacts.
    ids : (nc,) their ids, or None. bodies : (nc, 2) numbers of their bodies, or None.
    body_names : (nb,) names of the bodies; empty where none is known.
    dof_body : (nv,) the body of each degree of freedom, or None.
    """

    nc: int
    ids: NDArray[Any] | None
    bodies: IntArray | None
    body_names: tuple[str, ...] = ()
    dof_body: IntArray | None = None

    @staticmethod
    def of(texts: Any) -> ContactNames | None:
        """Names (nc,) that were stored as texts; None for None."""
        return None if texts is None else ContactNames(len(texts), np.asarray(texts), None)

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """(nc,) texts: ids that are texts; else both bodies, or what the one free body touches."""
        if self.ids is None:
            return tuple(map(str, range(self.nc)))
        if self.bodies is None or self.ids.dtype.kind not in "iu":
            return tuple(map(str, self.ids.tolist()))
        free = set() if self.dof_body is None else set(self.dof_body.tolist())
        alone = len(free) == 1 and bool(self.body_names)
        pairs = self.bodies.tolist()
        if alone:
            pairs = [[k for k in pair if k not in free] for pair in pairs]
        labels = numbered(["–".join(map(self._body, pair)) for pair in pairs])
        return tuple(f"support {text}" if alone and text.isdigit() else text for text in labels)

    def _body(self, k: int) -> str:
        """A body's name, or its number."""
        if k < 0:
            return "world"
        return (self.body_names[k] if k < len(self.body_names) else "") or str(k)
