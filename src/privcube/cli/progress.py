"""How far the work has come, on one line of the terminal that is gone when it is done.

Nothing is written where standard error is no terminal, so what a program captures does not depend on the data. On a
terminal, shares and time left are shown, never a number of records.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Final

from privcube.progress import PLANNING, Enough

_BETWEEN: Final = 0.1  # seconds
_BAR: Final = 30
_TURNS: Final = "|/-\\"
_CLEAR: Final = "\r\x1b[K"
_HINT_AFTER: Final = 2.0  # seconds


class Progress:
    """A display that is called with a stage, how much of it is done, and how much there is or None."""

    def __init__(self) -> None:
        self._shows = sys.stderr.isatty()
        self._stage, self._since, self._from, self._last, self._turn = "", 0.0, 0, 0.0, 0
        self._can_stop, self._enough = False, False

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shows and self._stage:
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        """Show it, unless it was shown a moment ago."""
        if self._enough and stage == PLANNING:
            raise Enough
        now = time.monotonic()
        if not self._shows or (stage == self._stage and now - self._last < _BETWEEN and done != total):
            return
        if stage != self._stage:
            self._stage, self._since, self._from = stage, now, done
        self._last, self._turn = now, self._turn + 1
        hint = "; Ctrl-C takes the best so far" if self._can_stop and now - self._since > _HINT_AFTER else ""
        sys.stderr.write(_CLEAR + stage + " " + _shown(done, total, self._from, now - self._since, self._turn) + hint)
        sys.stderr.flush()

    @contextmanager
    def stopping_early(self) -> Iterator[None]:
        """On a terminal, the first Ctrl-C ends a search for a plan, and the best one so far is taken."""
        before = signal.getsignal(signal.SIGINT)
        if not (self._shows and callable(before)):
            yield
            return

        def first(number: int, frame: FrameType | None) -> None:
            if self._enough or self._stage != PLANNING:
                before(number, frame)
            self._enough = True

        signal.signal(signal.SIGINT, first)
        self._can_stop = True
        try:
            yield
        finally:
            self._can_stop = False
            signal.signal(signal.SIGINT, before)
            if self._enough:
                sys.stderr.write(f"{_CLEAR}stopped early: this is the best plan so far\n")
            self._enough = False


def _shown(done: int, total: int | None, before: int, elapsed: float, turn: int) -> str:
    """A bar where the end is known, else something that turns.

    The time left is that of what was done since the stage was first shown; so much was done `before`.

    >>> _shown(1, 4, 0, 2.0, 0), _shown(7, None, 0, 2.0, 1)
    ('[#######-----------------------] 25 %, about 6 s left', '/')
    """
    if not total:
        return _TURNS[turn % len(_TURNS)]
    filled = _BAR * done // total
    bar = f"[{'#' * filled}{'-' * (_BAR - filled)}] {100 * done // total} %"
    left = elapsed * (total - done) / (done - before) if done > before else 0.0
    return f"{bar}, about {left:.0f} s left" if left >= 1 else bar
