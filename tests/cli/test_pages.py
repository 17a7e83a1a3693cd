"""The guide's pages on commands: every command on them is run, and prints what the page says.

Pages are run in copies of the folder that `privcube demo` makes. A line of three dots stands for any lines. Noise is
fresh and the search short, so numbers are compared by form only, except for `init`; `make check` compares the figures,
with noise that is frozen (`tools/pages.py`), and runs the pages that take long as well.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from frozen import freeze
from pages import aligned, commands, form, same, shown

from privcube.cli.main import COMMANDS, cli
from privcube.sensitive.ledger import durable
from privcube.sensitive.noise import bits

Here = Callable[..., Any]

PROJECT = Path(__file__).resolve().parents[2]
PAGES = PROJECT / "docs" / "guide" / "commands"
IN_MAKE_CHECK = ("check", "plan", "release", "whole")  # seconds each
EXACT = ("init",)  # what a search finds may differ in its digits from one kind of processor to another


class Demo(NamedTuple):
    """The folder that `privcube demo` made, and what it said."""

    folder: Path
    said: str


pytestmark = pytest.mark.xdist_group("pages")  # they share one demo


@pytest.fixture(scope="session")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """`privcube demo hospital`, once for all pages."""
    folder = tmp_path_factory.mktemp("pages") / "hospital"
    with contextlib.redirect_stdout(io.StringIO()) as said:
        cli(["demo", str(folder)], standalone_mode=False)
    return Demo(folder, said.getvalue().replace(str(folder), "hospital"))


def test_every_command_has_its_page() -> None:
    assert sorted(page.stem for page in PAGES.glob("*.md")) == sorted(command.name or "" for command in COMMANDS)


def _steps(page: Path) -> list[tuple[str, list[str]]]:
    """The commands of a page, each with the lines that it says are printed."""
    blocks = re.findall(r"```console\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert all(block.startswith("$ ") for block in blocks)
    return [step for block in blocks for step in commands(block)]


def _is_found(line: str) -> bool:
    """Whether a line says what a search came upon: on another kind of processor it may end elsewhere."""
    return re.match(r"search  |\s*[0-9.]+%  ", line) is not None


@pytest.mark.parametrize("name", sorted({page.stem for page in PAGES.glob("*.md")} - set(IN_MAKE_CHECK)))
def test_the_page_shows_what_is_printed(name: str, here: Here, hospital: Demo, tmp_path: Path) -> None:
    shutil.copytree(hospital.folder, tmp_path, dirs_exist_ok=True)
    steps, code = _steps(PAGES / f"{name}.md"), 0
    assert any(command.startswith(f"privcube {name}") for command, _ in steps)
    for command, expected in steps:
        words = shlex.split(command)
        if command == "privcube demo hospital":
            printed = hospital.said.splitlines()
        elif words[0] == "privcube":
            result = here(*words[1:])
            code, text = result.code, result.out + result.err
            for original in (f"{hospital.folder}/", ".../hospital/", ".../"):  # where the ledger knows its folders
                text = text.replace(original, "")
            printed = text.splitlines()
        elif command == "echo $?":
            printed = [str(code)]
        else:
            printed = subprocess.run(
                command, shell=True, cwd=tmp_path, capture_output=True, encoding="utf-8", check=True
            ).stdout.splitlines()
        if words[1] not in EXACT and command != "echo $?":
            expected = ["..." if _is_found(line) else form(line) for line in expected]
            printed = [form(line) for line in printed]
        assert aligned(expected, printed) is not None, (command, printed)


def test_a_page_that_is_wrong_would_be_seen() -> None:
    assert aligned(["a", "...", "b"], ["a", "b"]) == [0, None, 1]
    assert aligned(["a", "...", "b"], ["a", "x", "y", "b"]) == [0, None, 3]
    assert aligned(["a", "b"], ["a", "x", "b"]) is None
    assert aligned(["a"], ["a", "b"]) is None
    assert aligned(["a", "..."], ["b"]) is None
    assert form("surgery  died   -27.2  ± 107.8") == form("surgery died 1,411.3 ± 99")
    assert same("± 5.0\nhead " + "0" * 64, "± 5.0\nhead " + "1" * 64, exactly=True)
    assert not same("± 5.0", "± 5.1", exactly=True)
    assert same("± 5.0", "± 5.1", exactly=False)


def test_what_a_page_leaves_out_stays_out_and_the_rest_is_renewed() -> None:
    printed = ["total 4", "a 1", "b 2", "c 3"]
    assert shown(["total 9", "...", "c 7"], printed, "here") == ["total 4", "...", "c 3"]
    assert shown(["something else"], printed, "here") == printed
    with pytest.raises(SystemExit, match="here: the lines around its three dots"):
        shown(["total 9", "...", "d 7"], printed, "here")


def test_frozen_noise_follows_from_a_name_and_is_no_part_of_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bits, "os", os)  # put back afterwards
    monkeypatch.setattr(durable, "_now", durable._now)
    drawn = []
    for name in ("one", "one", "two"):
        freeze(name)
        drawn.append(bits.system_words(3).tolist())
    assert drawn[0] == drawn[1] != drawn[2]
    assert not [path for path in (PROJECT / "src").rglob("*.py") if "frozen" in path.name]
