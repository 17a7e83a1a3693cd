"""A progress display on one line of the terminal, which disappears when the work is done.

Nothing is written unless standard error is a terminal, so captured output does not depend on the data. The display
shows shares and the time left, never a number of records.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Final

from privcube.progress import COMPARING, PLANNING, Enough

_BETWEEN: Final = 0.1  # seconds between updates, so that they cost no noticeable time
_BAR: Final = 30  # characters, so that the whole line fits in a narrow terminal
_TURNS: Final = "|/-\\"
_CLEAR: Final = "\r\x1b[K"
_HINT_AFTER: Final = 2.0  # seconds: shorter searches need no hint


class Progress:
    """A display, called with a stage, how much of it is done, and the total (None if unknown)."""

    def __init__(self) -> None:
        self._shows = sys.stderr.isatty()
        self._stage, self._since, self._from, self._last, self._turn = "", 0.0, 0, 0.0, 0
        self._can_stop, self._enough, self._has_plan = False, False, False

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shows and self._stage:
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        """Update the display, unless it was updated a moment ago."""
        if self._enough and stage in (PLANNING, COMPARING):
            raise Enough
        self._has_plan = stage in (PLANNING, COMPARING) and total is not None
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
        """On a terminal, let the first Ctrl-C end the search for a plan, and use the best one so far.

        The search stops at its next step. Strategies that are compared after it are broken off at once. Before there is
        a plan (both stages give a total when there is one), and at the second Ctrl-C, the command ends.
        """
        before = signal.getsignal(signal.SIGINT)
        if not (self._shows and callable(before)):
            yield
            return

        def first(number: int, frame: FrameType | None) -> None:
            if self._enough or not self._has_plan:
                before(number, frame)
            self._enough = True
            sys.stderr.write(f"{_CLEAR}stopping; Ctrl-C again ends without a plan")
            sys.stderr.flush()
            if self._stage == COMPARING:
                raise Enough

        signal.signal(signal.SIGINT, first)
        self._can_stop = True
        try:
            yield
        except Enough:  # raised where there was no plan to take
            raise KeyboardInterrupt from None
        finally:
            self._can_stop = False
            signal.signal(signal.SIGINT, before)
            if self._enough:
                sys.stderr.write(f"{_CLEAR}stopped early: this is the best plan so far\n")
            self._enough = False


def _shown(done: int, total: int | None, before: int, elapsed: float, turn: int) -> str:
    """A bar if the total is known, else a spinner.

    The time left is extrapolated from the work done since the stage was first shown, when `before` was already done.

    >>> _shown(1, 4, 0, 2.0, 0), _shown(7, None, 0, 2.0, 1)
    ('[#######-----------------------] 25%, about 6 s left', '/')
    """
    if not total:
        return _TURNS[turn % len(_TURNS)]
    filled = _BAR * done // total
    bar = f"[{'#' * filled}{'-' * (_BAR - filled)}] {100 * done // total}%"
    left = elapsed * (total - done) / (done - before) if done > before else 0.0
    return f"{bar}, about {left:.0f} s left" if left >= 1 else bar
