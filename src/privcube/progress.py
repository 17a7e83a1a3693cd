"""How far long work has come, for a display. Zone: PUBLIC.

A callback is told the stage, how much of it is done and how much there is, None if that is not known. Only the engines
tell of records, and their numbers are exact: a display of those is for the custodian's screen and is not kept. All
other stages count tables, files and cells of the plan, which are public.

A callback may end a search for a plan: if it raises `Enough` in the stage "planning", the best plan so far is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

Progress = Callable[[str, int, int | None], None]

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

_Item = TypeVar("_Item")


class Enough(Exception):  # noqa: N818 (nothing went wrong)
    """Raised by a callback while a plan is searched for: take the best one so far."""


def silent(stage: str, done: int, total: int | None) -> None:
    """Show nothing."""


class Work:
    """A stage that is done bit by bit."""

    def __init__(self, progress: Progress, stage: str, total: int) -> None:
        self._progress, self._stage, self._total, self._done = progress, stage, total, 0
        progress(stage, 0, total)

    def add(self, amount: int = 1) -> None:
        """So much more is done; what is tried again after a failure does not count beyond the total."""
        self._done = min(self._done + amount, self._total)
        self._progress(self._stage, self._done, self._total)


def told(items: Sequence[_Item], stage: str, progress: Progress) -> Iterator[_Item]:
    """The items one by one; each is done when the next is asked for.

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
