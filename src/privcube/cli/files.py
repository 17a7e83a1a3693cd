"""Files that commands write: new ones only, nothing is overwritten."""

from __future__ import annotations

from pathlib import Path

from privcube.errors import Plain, SpecError


def write_new(path: str | Path, text: str) -> None:
    """Write a text in UTF-8 to a file that is not there yet."""
    subject = f"file {str(path)!r}"
    try:
        content = text.encode()
    except UnicodeEncodeError:  # a file name in another encoding, read as lone surrogates
        raise SpecError(subject, expected="names that can be written in UTF-8") from None
    try:
        with Path(path).open("xb") as stream:
            stream.write(content)
    except FileExistsError:
        raise SpecError(
            subject, expected="a new file (nothing is overwritten)", given=Plain("one that exists")
        ) from None
    except (OSError, ValueError) as problem:  # ValueError: a path with a zero byte in it
        reason = getattr(problem, "strerror", None) or str(problem)
        raise SpecError(subject, expected="a file that can be written", given=Plain(reason)) from None
