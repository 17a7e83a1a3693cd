"""How far a count has come, for a display. Zone: SENSITIVE.

A callback is told the stage ("reading records" or "counting tables"), how much is done and how much there is, None if
that is not known. The numbers are exact, so a display is for the custodian's screen and is not kept.
"""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int | None], None]

READING = "reading records"
COUNTING = "counting tables"


def silent(stage: str, done: int, total: int | None) -> None:
    """Show nothing."""
