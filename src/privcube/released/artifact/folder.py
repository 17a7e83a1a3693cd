"""The files of an artifact: checksums, crash-safe writing, cautious reading. Zone: RELEASED.

An artifact has files at the top level and in `tables/`. Their names consist of a few ASCII letters, digits, dots and
dashes, whatever the attributes are called, so that they work on every file system. Links, devices and other folders are
not part of an artifact: they are reported, and never followed or opened.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from privcube.errors import ArtifactError, Plain, quoted
from privcube.model.documents.json_reader import strict_json
from privcube.progress import SYNCING, Progress, Work, silent

CHECKSUMS: Final = "SHA256SUMS"
TABLES: Final = "tables"
MEASUREMENTS: Final = "measurements.parquet"

LARGEST_DOCUMENT: Final = 2**29  # bytes of JSON or text read at once: a hostile file must not fill the memory
_LINE: Final = re.compile(r"([0-9a-f]{64})  ((?:tables/)?[A-Za-z0-9][A-Za-z0-9._-]{0,99})")
_AT_ONCE: Final = 8  # files synced in parallel, so that the disk writes them together


# Writing


def write_file(path: Path, content: bytes) -> None:
    """Write a new file, which is not durable until it is synced."""
    with path.open("xb") as stream:
        stream.write(content)


def write_alone(path: Path, content: bytes) -> None:
    """Write a single new file durably; nothing is overwritten, and no partial file is left behind."""
    try:
        stream = path.open("xb")
    except OSError as problem:
        raise cannot_write(str(path), problem) from None
    with nothing_left(path, str(path)):
        with stream:
            stream.write(content)
        _sync(path)


def synced_folder(path: Path) -> None:
    """Wait until the entries of a folder are on disk."""
    _sync(path)


def synced_files(paths: Sequence[Path], progress: Progress = silent) -> None:
    """Wait until all these files are on disk."""
    work = Work(progress, SYNCING, len(paths))
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for _ in pool.map(_sync, paths):
            work.add()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Where to write a new folder: under another name beside it, and renamed at the end; all of it or nothing."""
    try:
        around = Path(tempfile.mkdtemp(prefix=f".{target.name[:50]}.staged-", dir=target.parent))
    except OSError as problem:
        raise cannot_write(str(target), problem) from None
    with nothing_left(around, str(target)):
        staged = around / "staged"
        yield staged
        staged.rename(target)
        around.rmdir()
        synced_folder(target.parent)


@contextmanager
def nothing_left(path: Path, subject: str) -> Iterator[None]:
    """Remove a file or folder that we created if the block fails; an OSError becomes an ArtifactError."""
    try:
        yield
    except BaseException as problem:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
        if isinstance(problem, OSError):
            raise cannot_write(subject, problem) from None
        raise


def cannot_write(subject: str, problem: OSError) -> ArtifactError:
    """The error for an OSError while writing."""
    return ArtifactError(subject, expected="a writable location", given=Plain(problem.strerror or str(problem)))


# Checksums


def checksums_text(digests: Mapping[str, str]) -> str:
    """Checksums in the form of `sha256sum`, by name."""
    return "".join(f"{digests[name]}  {name}\n" for name in sorted(digests))


def listed_checksums(text: str) -> dict[str, str]:
    """The digests listed in the text of a checksums file, by name."""
    found: dict[str, str] = {}
    for number, line in enumerate(text.removesuffix("\n").split("\n"), start=1):
        parts = _LINE.fullmatch(line)
        if parts is None or parts[2] in found:
            raise ArtifactError(f"{CHECKSUMS}, line {number}", expected="a SHA-256 and a new file name", given=line)
        found[parts[2]] = parts[1]
    if text != checksums_text(found):
        raise ArtifactError(CHECKSUMS, expected="lines sorted by file name, each ending with a line feed")
    return found


# Reading


@dataclass(frozen=True)
class Contents:
    """The contents of an artifact's folder."""

    folder: Path
    sizes: Mapping[str, int]  # the regular files at the top level and in tables/
    strange: tuple[str, ...]  # anything else

    @classmethod
    def of(cls, folder: Path) -> Contents:
        """List a folder without opening any file."""
        sizes: dict[str, int] = {}
        strange: list[str] = []
        try:
            _look(folder, "", sizes, strange)
            if TABLES in strange and stat.S_ISDIR((folder / TABLES).lstat().st_mode):
                strange.remove(TABLES)
                _look(folder / TABLES, f"{TABLES}/", sizes, strange)
        except OSError as problem:
            raise ArtifactError(
                str(folder), expected="the folder of a release", given=Plain(problem.strerror or "something else")
            ) from None
        return cls(folder, sizes, tuple(sorted(strange)))

    def path(self, name: str) -> Path:
        """The path of a file, which must exist and be a regular file."""
        if name not in self.sizes:
            raise ArtifactError(name, expected=f"a file in {quoted(str(self.folder))}", given=Plain("none"))
        return self.folder / name

    def content(self, name: str, most: int = LARGEST_DOCUMENT) -> bytes:
        """The bytes of a file, of which there must be at most so many."""
        path = self.path(name)
        if self.sizes[name] > most:
            raise ArtifactError(name, expected=f"at most {most:,} bytes", given=self.sizes[name])
        try:
            with path.open("rb") as stream:
                return stream.read(most)
        except OSError as problem:
            raise ArtifactError(name, expected="a readable file", given=Plain(problem.strerror)) from None

    def text(self, name: str) -> str:
        """A document as text."""
        try:
            return self.content(name).decode()
        except UnicodeDecodeError:
            raise ArtifactError(name, expected="UTF-8 text", given=Plain("other bytes")) from None

    def holds(self, name: str, content: bytes) -> bool:
        """Whether a file has exactly these bytes; it is not read if it is of another length."""
        self.path(name)
        return self.sizes[name] == len(content) and self.content(name, len(content)) == content

    def document(self, name: str) -> Any:
        """A document as JSON."""
        try:
            return strict_json(self.text(name))
        except ValueError as problem:
            raise ArtifactError(name, expected="JSON", given=Plain(str(problem))) from None

    @cached_property
    def checksums(self) -> dict[str, str]:
        """The digests listed in the checksums file, by name."""
        return listed_checksums(self.text(CHECKSUMS))

    def changed(self) -> list[str]:
        """The listed files that are missing or do not match their checksums."""
        return [name for name, digest in self.checksums.items() if self._digest(name) != digest]

    def _digest(self, name: str) -> str | None:
        if name not in self.sizes:
            return None
        try:
            with (self.folder / name).open("rb") as stream:
                return hashlib.file_digest(stream, "sha256").hexdigest()
        except OSError:
            return None


def _look(folder: Path, prefix: str, sizes: dict[str, int], strange: list[str]) -> None:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                sizes[prefix + entry.name] = entry.stat(follow_symlinks=False).st_size
            else:
                strange.append(prefix + entry.name)
