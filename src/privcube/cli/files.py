"""Files that commands write, without overwriting any, and read in the place of the one that a spec names."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from privcube.errors import Plain, SpecError

if TYPE_CHECKING:
    from privcube.model.documents.spec import Spec


def with_source(spec: Spec, source: str | None, folder: Path) -> Spec:
    """The spec with another source, if one is given: a URL, or a path from where the command is run.

    A path is written as the spec in this folder would write it, which is how a ledger records it.
    """
    from privcube.model.documents.spec import is_url

    if source is None:
        return spec
    if not source:
        raise SpecError("source", expected="a file, a glob, a URL or a Spark table", given=source)
    place = source if is_url(source) or Path(source).is_absolute() else os.path.relpath(source, folder)
    return replace(spec, data=replace(spec.data, source=place))


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
