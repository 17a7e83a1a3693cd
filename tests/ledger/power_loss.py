"""A power cut at every moment: what a process had written but not synced is lost, in whole or in part.

The system calls of a process on one folder are recorded by strace and played on a model of a disk. In the model a write
is safe once its file was synced, and a name that was made or removed once its folder was; of the rest, any part may
survive a power cut. (Real file systems promise more. SQLite relies on no more.)
"""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

# With a question mark: not every processor has it.
CALLS = (
    "openat,write,pwrite64,ftruncate,fsync,fdatasync,close,?link,linkat,?unlink,unlinkat,?rename,?renameat,renameat2"
)
_CALL = re.compile(r"(\w+)\((.*)\) += (\d+)$")
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')

Image = dict[str, bytes]


class Call(NamedTuple):
    """A system call: its name, the texts among its arguments, the other arguments, and what it returned."""

    name: str
    texts: list[bytes]
    others: list[str]
    result: int


class File:
    """What is on the disk, and what was written since it was last synced."""

    def __init__(self) -> None:
        self.safe = b""
        self.pending: list[tuple[int, bytes | None]] = []  # place and bytes; None cuts the file there

    def content(self, kept: list[bool]) -> bytes:
        content = bytearray(self.safe)
        for (place, data), keep in zip(self.pending, kept, strict=True):
            if keep and data is None:
                content = content[:place].ljust(place, b"\0")
            elif keep and data is not None:
                content = content.ljust(place, b"\0")
                content[place : place + len(data)] = data
        return bytes(content)

    def sync(self) -> None:
        self.safe, self.pending = self.content([True] * len(self.pending)), []


class Disk:
    """One folder: the names that are safe, and what became of names since the folder was last synced."""

    def __init__(self) -> None:
        self.safe: dict[str, File] = {}
        self.names: dict[str, File] = {}
        self.pending: list[tuple[str, File | None]] = []

    def name(self, name: str, file: File | None) -> None:
        self.pending.append((name, file))
        self.names = _renamed(self.names, name, file)

    def sync(self) -> None:
        self.safe, self.pending = dict(self.names), []

    def after_power_cut(self, dice: random.Random, survival: float) -> Image:
        """The files as they may be found, if everything that is not safe survives with this probability."""
        names = self.safe
        for name, file in self.pending:
            if dice.random() < survival:
                names = _renamed(names, name, file)
        kept = {file: [dice.random() < survival for _ in file.pending] for file in names.values()}
        return {name: file.content(kept[file]) for name, file in names.items()}


def _renamed(names: dict[str, File], name: str, file: File | None) -> dict[str, File]:
    others = {each: known for each, known in names.items() if each != name}
    return others if file is None else {**others, name: file}


def can_record() -> bool:
    """Whether there is strace, and it may look at other processes."""
    found = shutil.which("strace")
    return found is not None and not subprocess.run([found, "-o", "/dev/null", "true"], check=False).returncode


def recorded(folder: Path, log: Path, *arguments: str) -> list[Call]:
    """The system calls of a script on a folder, and what it writes to its standard output."""
    command = ["strace", "-xx", "-s", "1000000", "-e", f"trace={CALLS}", "-o", str(log), sys.executable, *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=600)
    calls = []
    for line in log.read_text(encoding="ascii").splitlines():
        found = _CALL.match(line)
        if found:
            texts = [bytes.fromhex(text.replace(r"\x", "")) for text in _TEXT.findall(found[2])]
            others = [part.strip() for part in _TEXT.sub("", found[2]).split(",")]
            calls.append(Call(found[1], texts, others, int(found[3])))
    assert calls, "strace has recorded nothing"
    return calls


def images(calls: list[Call], folder: Path, dice: random.Random) -> Iterator[tuple[int, Image]]:
    """What a power cut may leave of the folder, after every call that matters; and how many lines were said by then."""
    disk, said = Disk(), 0
    opened: dict[int, File | None] = {}  # None: the folder itself
    for call in calls:
        inside = [_name_in(folder, text) for text in call.texts]
        descriptor = int(call.others[0]) if call.others[0].isdigit() else -1
        file = opened.get(descriptor)
        if call.name == "write" and descriptor == 1:
            said += 1
        elif call.name == "openat":
            if inside[0] is None:
                opened.pop(call.result, None)
            elif inside[0] == ".":
                opened[call.result] = None
            else:
                if inside[0] not in disk.names:
                    disk.name(inside[0], File())
                opened[call.result] = disk.names[inside[0]]
        elif call.name == "close":
            opened.pop(descriptor, None)
        elif call.name in ("fsync", "fdatasync") and descriptor in opened:
            disk.sync() if file is None else file.sync()
        elif call.name == "pwrite64" and file is not None:
            file.pending.append((int(call.others[-1]), call.texts[0]))
        elif call.name == "ftruncate" and file is not None:
            file.pending.append((int(call.others[-1]), None))
        elif call.name in ("link", "linkat") and inside[0] is not None and inside[1] is not None:
            disk.name(inside[1], disk.names[inside[0]])
        elif call.name in ("unlink", "unlinkat") and inside[0] is not None:
            disk.name(inside[0], None)
        else:
            assert file is None, call  # else the model must learn what it does
            assert inside[:1] in ([], [None]), call
            continue
        for survival in (0, 1, 0.5):
            yield said, disk.after_power_cut(dice, survival)


def _name_in(folder: Path, text: bytes) -> str | None:
    path = Path(text.decode("utf-8", "replace"))
    if path == folder:
        return "."
    return path.name if path.parent == folder else None


def restored(image: Image, folder: Path) -> None:
    """Put the files of an image into an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, content in image.items():
        (folder / name).write_bytes(content)
