"""What notebooks show: tables as HTML, and a bar of progress; and tables for pandas."""

from __future__ import annotations

import html
import importlib
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

_RIGHT = ' style="text-align: right; padding: 0.1em 0.6em"'
_LEFT = ' style="text-align: left; padding: 0.1em 0.6em"'
_PAUSE = 0.1  # s between updates of a bar


def table(
    title: str,
    header: Sequence[str],
    rows: Iterable[Sequence[object]],
    *texts: str,
    left: int = 1,
) -> str:
    """A table as HTML, with a ``title`` above it and ``texts`` below, all of them escaped.

    Parameters
    ----------
    rows : of cells. left : how many of the first columns are aligned at the left.
    """
    lines = [_row("th", header, left), *(_row("td", row, left) for row in rows)]
    head = f"<p><b>{_text(title)}</b></p>" if title else ""
    foot = "".join(f"<p>{_text(text)}</p>" for text in texts if text)
    body = f"<table><thead>{lines[0]}</thead><tbody>{''.join(lines[1:])}</tbody></table>"
    return f"<div>{head}{body}{foot}</div>"


def _row(tag: str, cells: Sequence[object], left: int) -> str:
    styles = [_LEFT if k < left else _RIGHT for k in range(len(cells))]
    shown = zip(styles, cells, strict=True)
    return f"<tr>{''.join(f'<{tag}{style}>{_text(cell)}</{tag}>' for style, cell in shown)}</tr>"


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
        self.what, self._html = what, shown.HTML
        self._started = self._shown = time.monotonic()
        self._handle: Any = shown.display(shown.HTML(self._bar(0, 0, "")), display_id=True)
        self._last = (0, 0)

    def update(self, done: int, total: int, text: str = "") -> None:
        """Show how much is ``done`` of the ``total``, and a ``text``."""
        self._last = (done, total)
        if time.monotonic() - self._shown >= _PAUSE:
            self._shown = time.monotonic()
            self._handle.update(self._html(self._bar(done, total, text)))

    def close(self) -> None:
        """Show what was done in the end, and how long it took."""
        done, total = self._last
        seconds = time.monotonic() - self._started
        self._handle.update(self._html(self._bar(done, total, f"{seconds:.1f} s")))

    def _bar(self, done: int, total: int, text: str) -> str:
        value = f' value="{done}" max="{max(total, 1)}"' if total else ""
        words = f"{self.what} {done} of {total}  {text}" if total else self.what
        return f"<div><progress{value}></progress> {_text(words)}</div>"
