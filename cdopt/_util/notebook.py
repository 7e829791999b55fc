"""Output for notebooks: tables as HTML and a progress bar; tables for pandas."""

from __future__ import annotations

import html
import importlib
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

_STYLE = ' style="text-align: {}; padding: 0.1em 0.6em"'
_PAUSE = 0.1  # s between updates of a bar


def table(
    title: str, header: Sequence[str], rows: Iterable[Sequence[object]], *texts: str, left: int = 1
) -> str:
    """A table as HTML, with a ``title`` above it and ``texts`` below, all of them escaped.

    Parameters
    ----------
    rows : of cells. left : how many of the first columns are aligned at the left.
    """

    def row(tag: str, cells: Sequence[object]) -> str:
        styles = [_STYLE.format("left" if k < left else "right") for k in range(len(cells))]
        shown = zip(styles, cells, strict=True)
        return f"<tr>{''.join(f'<{tag}{style}>{_text(x)}</{tag}>' for style, x in shown)}</tr>"

    head = f"<p><b>{_text(title)}</b></p>" if title else ""
    foot = "".join(f"<p>{_text(text)}</p>" for text in texts if text)
    body = "".join(row("td", cells) for cells in rows)
    body = f"<table><thead>{row('th', header)}</thead><tbody>{body}</tbody></table>"
    return f"<div>{head}{body}{foot}</div>"


def _text(value: object) -> str:
    return html.escape(str(value)).replace("$", "&#36;")  # notebooks take $ for a formula


def data_frame(columns: Mapping[str, Any], index: str | None = None) -> pd.DataFrame:
    """A pandas.DataFrame of columns by name; one of them may be its ``index``."""
    import pandas as pd

    frame = pd.DataFrame(dict(columns))
    return frame if index is None else frame.set_index(index)


def in_notebook() -> bool:
    """Whether this is the kernel of a notebook, which can show HTML."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"


class NotebookBar:
    """A bar of progress in the output of a cell; ``what`` is counted."""

    def __init__(self, what: str) -> None:
        shown: Any = importlib.import_module("IPython.display")  # there in every notebook
        self.what, self._html, self._last = what, shown.HTML, (0, 0)
        self._started = self._shown = time.monotonic()
        self._handle: Any = shown.display(self._bar(""), display_id=True)

    def update(self, done: int, total: int, text: str = "") -> None:
        """Show how much is ``done`` of the ``total``, and a ``text``."""
        self._last = (done, total)
        if time.monotonic() - self._shown >= _PAUSE:
            self._shown = time.monotonic()
            self._handle.update(self._bar(text))

    def close(self) -> None:
        """Show what was done in the end, and how long it took."""
        self._handle.update(self._bar(f"{time.monotonic() - self._started:.1f} s"))

    def _bar(self, text: str) -> Any:
        done, total = self._last
        value = f' value="{done}" max="{max(total, 1)}"' if total else ""
        words = f"{self.what} {done} of {total}  {text}" if total else self.what
        return self._html(f"<div><progress{value}></progress> {_text(words)}</div>")
