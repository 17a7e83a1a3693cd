"""Values that must appear nowhere, and everything that an error and a test's surroundings say."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator

import pytest

WORD = "canary7f3a"
NUMBER = 918273645918
LONG = 91827364591827364591827364591827
CANARIES = (WORD, WORD.upper(), WORD.encode().hex(), str(NUMBER), f"{float(NUMBER)!r}", str(NUMBER)[:8], str(LONG)[:12])


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error and all that it comes from, shown or not."""
    if error is not None:
        yield error
        yield from chain(error.__cause__)
        yield from chain(error.__context__)
        for inner in getattr(error, "exceptions", ()):
            yield from chain(inner)


def everything_said(error: BaseException) -> str:
    """Text, arguments, attributes, notes and traceback of an error and of all that it comes from."""
    said = [
        part
        for each in chain(error)
        for part in (str(each), repr(each), repr(each.args), repr(vars(each)), *traceback.format_exception(each))
    ]
    return "\n".join(said)


class Surroundings:
    """What is printed, logged or warned of while a test runs."""

    def __init__(
        self, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, recwarn: pytest.WarningsRecorder
    ) -> None:
        self._capfd, self._caplog, self._recwarn = capfd, caplog, recwarn
        caplog.set_level(logging.INFO)  # below that, py4j logs every word it says to Spark
        caplog.set_level(logging.DEBUG, "privcube")

    def said(self) -> str:
        """All of it."""
        out, err = self._capfd.readouterr()
        return "\n".join([out, err, self._caplog.text, *(str(warning.message) for warning in self._recwarn)])


def assert_no_canary(said: str) -> None:
    assert not [canary for canary in CANARIES if canary in said]
