"""Progress of long computations: a bar, or a function of the caller's."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from cdopt._util import checks
from cdopt._util.errors import InvalidInput
from cdopt._util.formatting import visible
from cdopt._util.notebook import NotebookBar, in_notebook

ProgressCallback = Callable[..., None]  # of (done, total), or of (done, total, text)


@contextlib.contextmanager
def progress_bar(progress: bool | ProgressCallback, what: str) -> Iterator[ProgressCallback]:
    """A function to call with (done, total), and perhaps a text, as work goes on.

    Parameters
    ----------
    progress : True for a bar, on stderr or in a notebook's cell, False for nothing, or a function
        of (done, total) or of (done, total, text); the first kind is not given the text.
    what : what the bar counts.
    """
    if callable(progress):
        yield progress if _takes_text(progress) else lambda done, total, *_: progress(done, total)
    elif progress is False:
        yield lambda done, total, text="": None
    elif progress is True and in_notebook():
        with contextlib.closing(NotebookBar(what)) as shown:
            yield shown.update
    elif progress is True:
        texts = TextColumn("{task.fields[text]}", markup=False)
        columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, texts, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(what, total=None, text="")
            yield lambda done, total, text="": bar.update(
                task, completed=done, total=total, text=visible(text)
            )
    else:
        raise InvalidInput("progress", checks.describe(progress), "True, False or a function")


def _takes_text(function: ProgressCallback) -> bool:
    try:
        inspect.signature(function).bind(0, 1, "")
    except (TypeError, ValueError):  # ValueError: built in, without a signature
        return False
    return True
