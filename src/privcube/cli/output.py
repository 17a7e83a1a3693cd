"""Output to the terminal, with control characters in names made harmless."""

from __future__ import annotations

import json
import math
import shutil
import unicodedata
from collections.abc import Sequence
from itertools import zip_longest
from textwrap import wrap
from typing import Final

import click

_WIDTH: Final = 110  # characters of a line of prose
_NARROWEST: Final = 40  # characters of a line, however narrow the terminal says it is
_NARROWEST_COLUMN: Final = 12  # characters of a column of labels
_LONG_NUMBER: Final = 10**15  # from here on, numbers are shown as powers of ten, which are easier to read


def say(text: str = "", *, to_stderr: bool = False) -> None:
    """Print one line, with line breaks and control characters inside it escaped."""
    click.echo(visible(text), err=to_stderr)


def say_warning(text: str) -> None:
    """Print a warning in lines of a readable length."""
    for line in wrap(text, _WIDTH, initial_indent="Warning     ", subsequent_indent=" " * 12):
        say(line)


def say_json(document: object) -> None:
    """Print a document for programs, in ASCII, so that it survives any terminal's encoding."""
    click.echo(json.dumps(document, indent=1))


def say_prose(text: str) -> None:
    """Print a sentence in lines that fit on the terminal."""
    for line in wrap(visible(text), min(terminal_width(), _WIDTH), break_on_hyphens=False):
        say(line)


def terminal_width() -> int:
    """How many characters a line of the terminal has; 80 if there is none."""
    return max(shutil.get_terminal_size((80, 24)).columns, _NARROWEST)


def say_columns(
    header: Sequence[str], lines: Sequence[Sequence[str]], *, left: int = 1, within: int | None = None, ragged: int = 0
) -> None:
    """Print columns: the first `left` and the last `ragged` of them left-aligned, the others right-aligned.

    With `within`, the left columns are broken between words until a line fits into so many characters.
    """
    rows = [[visible(field) for field in line] for line in (header, *lines)]
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    if within is not None:
        widths = _narrowed(widths, left, within)
    for row in rows:
        broken = [
            wrap(field, width) or [""] if place < left else [field]
            for place, (field, width) in enumerate(zip(row, widths, strict=True))
        ]
        for line in zip_longest(*broken, fillvalue=""):
            fields = [
                _padded(field, width, place < left or place >= len(row) - ragged)
                for place, (field, width) in enumerate(zip(line, widths, strict=True))
            ]
            say("  ".join(fields).rstrip())


def _narrowed(widths: list[int], left: int, within: int) -> list[int]:
    """Widths of columns of which the widest of the left ones are made narrower until all fit, if they can."""
    found = list(widths)
    while sum(found) + 2 * (len(found) - 1) > within and left and max(found[:left]) > _NARROWEST_COLUMN:
        found[found.index(max(found[:left]))] -= 1
    return found


def _padded(field: str, width: int, to_the_left: bool) -> str:
    blanks = " " * (width - _width(field))
    return field + blanks if to_the_left else blanks + field


def visible(text: str) -> str:
    """The text with every non-printable character escaped.

    >>> visible("ward \\x1b[31m")
    'ward \\\\x1b[31m'
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def count_of(number: int, noun: str) -> str:
    """A number with its noun.

    >>> count_of(1, "table"), count_of(1200, "cell"), count_of(10**20, "cell")
    ('1 table', '1,200 cells', 'about 10^20 cells')
    """
    shown = f"{number:,}" if number < _LONG_NUMBER else f"about 10^{math.log10(number):.0f}"
    return f"{shown} {noun}{'' if number == 1 else 's'}"


def percent(share: float) -> str:
    """A share as a percentage for people, to two digits; just below 100%, to as many as it needs.

    >>> percent(0.95), percent(0.0123), percent(2.5), percent(0.999)
    ('95%', '1.2%', '250%', '99.9%')
    """
    hundredth = 100 * share
    if hundredth >= 99 and not math.isclose(hundredth, round(hundredth)) and hundredth < 100:
        return f"{hundredth:.10g}%"
    return f"{hundredth:,.0f}%" if hundredth >= 9.95 else f"{hundredth:.2g}%"


def places_for(std_error: float) -> int:
    """How many decimal places are meaningful in a number with this standard error.

    >>> places_for(250.0), places_for(12.0), places_for(0.3)
    (0, 1, 2)
    """
    return 0 if std_error >= 100 else 1 if std_error >= 1 or std_error <= 0 else 2


def _width(text: str) -> int:
    """How many terminal columns a text takes: two per wide East Asian character, none per combining mark."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )
