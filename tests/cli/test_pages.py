"""The tool that runs the guide's pages: what a page shows is what its commands print, or `make check` fails.

`make check` runs all pages and the notebook, with noise that is frozen (`tools/pages.py`), so they are not run here.
"""

from __future__ import annotations

import os
from pathlib import Path

import pages
import pytest
from frozen import freeze
from pages import Runner, aligned, commands, form, same, shown

from privcube.cli.main import COMMANDS
from privcube.sensitive.ledger import durable
from privcube.sensitive.noise import bits

PROJECT = Path(__file__).resolve().parents[2]
COMMAND_PAGES = PROJECT / "docs" / "guide" / "commands"
PAGE = """Text.
<!-- run in: an empty folder -->
<!-- file: people.csv -->
```
sex
F
```
```console
$ head -n 1 people.csv
old
$ privcube ledger nowhere.toml
...
$ echo $?
0
```
More text.
"""


@pytest.fixture
def thawed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise and clock are put back afterwards."""
    monkeypatch.setattr(bits, "os", os)
    monkeypatch.setattr(durable, "_now", durable._now)


def test_every_command_has_its_page_which_runs_it_and_is_run() -> None:
    assert sorted(page.stem for page in COMMAND_PAGES.glob("*.md")) == sorted(each.name or "" for each in COMMANDS)
    for page in COMMAND_PAGES.glob("*.md"):
        assert page in pages.pages("")
        blocks = page.read_text(encoding="utf-8").split("```console\n")[1:]
        assert all(block.startswith("$ ") for block in blocks)
        run = [command for block in blocks for command, _ in commands(block.partition("```")[0])]
        assert any(command.startswith(f"privcube {page.stem}") for command in run)


@pytest.mark.usefixtures("thawed")
def test_a_page_is_run_and_gets_what_is_printed_today(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands of the package and of the shell, exit codes, files that a page shows and lines that it leaves out."""
    monkeypatch.setattr(pages, "PROJECT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text(PAGE, encoding="utf-8")
    runner = object.__new__(Runner)  # without a demo
    runner.home = tmp_path / "home"
    runner.home.mkdir()
    made = runner.page(page)
    assert made == PAGE.replace("old\n", "sex\n").replace("\n0\n", "\n2\n")
    assert not same(PAGE, made, exactly=True)
    assert (tmp_path / "home" / "page" / "people.csv").read_text(encoding="utf-8") == "sex\nF\n"


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


@pytest.mark.usefixtures("thawed")
def test_frozen_noise_follows_from_a_name_and_is_no_part_of_the_package() -> None:
    drawn = []
    for name in ("one", "one", "two"):
        freeze(name)
        drawn.append(bits.system_words(3).tolist())
    assert drawn[0] == drawn[1] != drawn[2]
    assert not [path for path in (PROJECT / "src").rglob("*.py") if "frozen" in path.name]
