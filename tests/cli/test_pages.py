"""The guide's pages on commands: every command on them is run, and prints what the page says.

Pages are run in copies of the folder that `privcube demo` makes. A line of three dots stands for any lines. Noise is
fresh in every run, so numbers are compared by form only, except for `init` and `plan`, which read no data.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from privcube.cli.main import COMMANDS, cli

Here = Callable[..., Any]

PAGES = Path(__file__).resolve().parents[2] / "docs" / "guide" / "commands"
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
    steps: list[tuple[str, list[str]]] = []
    for block in re.findall(r"```console\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL):
        assert block.startswith("$ ")
        for line in block.splitlines():
            if line.startswith("$ ") and not (steps and steps[-1][0].startswith("privcube demo")):
                steps.append((line[2:], []))
            else:
                steps[-1][1].append(line)
    return steps


def _form(line: str) -> str:
    """A line with numbers, digests and the spaces of columns made alike."""
    line = re.sub(r"\b[0-9a-f]{64}\b", "H", line)
    return re.sub(r"\s+", " ", re.sub(r"-?[0-9][0-9,.]*", "N", line)).strip()


def _is_found(line: str) -> bool:
    """Whether a line says what a search came upon: on another kind of processor it may end elsewhere."""
    return re.match(r"search  |\s*[0-9.]+%  ", line) is not None


def _matches(expected: list[str], printed: list[str]) -> bool:
    pattern = "".join(r"(?:.*\n)*?" if line == "..." else re.escape(line) + r"\n" for line in expected)
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in printed)) is not None


@pytest.mark.parametrize("name", sorted(page.stem for page in PAGES.glob("*.md")))
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
            expected = ["..." if _is_found(line) else _form(line) for line in expected]
            printed = [_form(line) for line in printed]
        assert _matches(expected, printed), (command, printed)


def test_a_page_that_is_wrong_would_be_seen() -> None:
    assert _matches(["a", "...", "b"], ["a", "b"])
    assert _matches(["a", "...", "b"], ["a", "x", "y", "b"])
    assert not _matches(["a", "b"], ["a", "x", "b"])
    assert not _matches(["a"], ["a", "b"])
    assert not _matches(["a", "..."], ["b"])
    assert _form("surgery  died   -27.2  ± 107.8") == _form("surgery died 1,411.3 ± 99")
