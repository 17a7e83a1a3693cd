"""Progress of long-running work, for display. Zone: PUBLIC.

A callback receives the stage, how much of it is done, and the total (None if unknown). Only the engines count records,
and those numbers are exact: show them on the custodian's screen only, and do not store them. All other stages count
tables, files and cells of the plan, which are public.

A callback can end the search for a plan by raising `Enough` in the stages "planning" and "trying strategies": the best
plan so far is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

Progress = Callable[[str, int, int | None], None]
Check = Callable[[], None]  # raises Enough if work shall not go on

PLANNING: Final = "planning"
COMPARING: Final = "trying strategies"
READING: Final = "reading records"
COUNTING: Final = "counting tables"
NOISE: Final = "adding noise"
RECOVERING: Final = "recovering tables"
ERROR_BARS: Final = "working out errors"
WRITING: Final = "writing tables"
PACKING: Final = "packing sheets"
SYNCING: Final = "syncing files"
CHECKING: Final = "checking tables"
WHOLE: Final = "looking for whole numbers"

_Item = TypeVar("_Item")


class Enough(Exception):  # noqa: N818 (nothing went wrong)
    """Raised by a callback to end the search for a plan and use the best one so far."""


def silent(stage: str, done: int, total: int | None) -> None:
    """Show nothing."""


def never() -> None:
    """Where nothing can be stopped, a check whether work shall go on: it does."""


class Work:
    """A stage that reports its progress step by step."""

    def __init__(self, progress: Progress, stage: str, total: int) -> None:
        self._progress, self._stage, self._total, self._done = progress, stage, total, 0
        progress(stage, 0, total)

    def add(self, amount: int = 1) -> None:
        """Report more work as done; work repeated after a failure never pushes the count past the total."""
        self._done = min(self._done + amount, self._total)
        self._progress(self._stage, self._done, self._total)

    def reach(self, done: int) -> None:
        """Report everything up to here as done, where a part ended early."""
        self.add(max(done - self._done, 0))


class InTurn:
    """The progress of several pieces of work, one after another, as that of one; remembers whether it was stopped.

    >>> both = InTurn(lambda stage, done, total: print(stage, done, total), [1, 3])
    >>> both(PLANNING, 5, 10)
    planning 5 40
    >>> both.next()
    >>> both(PLANNING, 5, 10)
    planning 25 40
    """

    def __init__(self, progress: Progress, lengths: Sequence[int]) -> None:
        """`lengths` is about how long each of them takes, compared with the others."""
        self._progress, self._lengths, self._at, self.stopped = progress, lengths, 0, False

    def next(self) -> None:
        """Go on to the next piece of work."""
        self._at += 1

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        """Tell the progress of the piece that is being worked on."""
        try:
            if total is None:
                self._progress(stage, done, None)
            else:
                before, own = sum(self._lengths[: self._at]), self._lengths[self._at]
                self._progress(stage, before * total + own * done, sum(self._lengths) * total)
        except Enough:
            self.stopped = True
            raise


def told(items: Sequence[_Item], stage: str, progress: Progress) -> Iterator[_Item]:
    """Yield the items, reporting each as done when the next one is requested.

    >>> [item for item in told("ab", WRITING, print)]
    writing tables 0 2
    writing tables 1 2
    writing tables 2 2
    ['a', 'b']
    """
    work = Work(progress, stage, len(items))
    for item in items:
        yield item
        work.add()
