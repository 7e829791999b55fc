"""When a solve must end."""

from __future__ import annotations

from dataclasses import dataclass

from cdopt._util.compiled import clock

TIME_LIMIT = "time limit"  # the status of a run that its limit ended
_NONE = float("inf")


@dataclass(frozen=True)
class Deadline:
    """The moment at which a solve must end, if there is one."""

    at: float = _NONE  # seconds on the clock of ``cdopt._util.compiled.clock``; infinite for none

    @staticmethod
    def after(seconds: float | None) -> Deadline:
        """The time limit ``seconds`` from now; None for none."""
        return NEVER if seconds is None else Deadline(clock() + seconds)

    @property
    def left(self) -> float:
        """Seconds left, zero once it has passed; infinite without a limit."""
        return max(self.at - clock(), 0.0)

    @property
    def time_limit(self) -> float | None:
        """Seconds left as an argument of another solve; None without a limit."""
        return None if self.at == _NONE else self.left

    @property
    def passed(self) -> bool:
        """Whether no time is left."""
        return self.at != _NONE and clock() >= self.at


NEVER = Deadline()
