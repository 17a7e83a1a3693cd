"""Files that commands write, without overwriting any."""

from __future__ import annotations

from pathlib import Path

from privcube.errors import Plain, SpecError


def write_new(path: str | Path, text: str) -> None:
    """Write a text to a new file, in UTF-8."""
    subject = f"file {str(path)!r}"
    try:
        content = text.encode()
    except UnicodeEncodeError:  # a file name in another encoding, decoded to lone surrogates
        raise SpecError(subject, expected="names that can be written in UTF-8") from None
    try:
        with Path(path).open("xb") as stream:
            stream.write(content)
    except FileExistsError:
        expected, existing = "a new file (nothing is overwritten)", Plain("an existing one")
        raise SpecError(subject, expected=expected, given=existing) from None
    except (OSError, ValueError) as problem:  # ValueError: a path that contains a zero byte
        reason = getattr(problem, "strerror", None) or str(problem)
        raise SpecError(subject, expected="a writable file", given=Plain(reason)) from None
