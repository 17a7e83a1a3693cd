"""Text for the terminal: nothing a name could smuggle in takes effect there."""

from __future__ import annotations

import click


def say(text: str, *, to_stderr: bool = False) -> None:
    """Print one line; line breaks and control characters inside it are written out as escapes."""
    click.echo(visible(text), err=to_stderr)


def visible(text: str) -> str:
    """The text with every character that does not print replaced by its escape.

    >>> visible("ward \\x1b[31m")
    'ward \\\\x1b[31m'
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
