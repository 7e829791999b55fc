"""How long work tells how far it is: one way for every loop of the library."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from cdopt._util import checks
from cdopt._util.errors import InvalidInput

Tell = Callable[..., None]  # of (done, total), or of (done, total, text)


@contextlib.contextmanager
def told(progress: bool | Tell, what: str) -> Iterator[Tell]:
    """A function that is told (done, total), and a text if there is more to say, as work goes on.

    Parameters
    ----------
    progress : True for a bar on stderr, False for nothing, or a function of (done, total) or of
        (done, total, text); the first kind is not given the text.
    what : what the bar counts.

    Raises
    ------
    InvalidInput : neither a boolean nor a function.
    """
    if callable(progress):
        yield progress if _takes_text(progress) else lambda *told: progress(*told[:2])
    elif progress is False:
        yield lambda done, total, text="": None
    elif progress is True:
        columns = (
            TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
            TextColumn("{task.fields[text]}", markup=False),
        )  # fmt: skip
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(what, total=None, text="")
            yield lambda done, total, text="": bar.update(
                task, completed=done, total=total, text=text
            )
    else:
        raise InvalidInput("progress", checks.describe(progress), "True, False or a function")


def _takes_text(function: Tell) -> bool:
    try:
        inspect.signature(function).bind(0, 1, "")
    except (TypeError, ValueError):  # ValueError: built in, without a signature
        return False
    return True
