"""The examples of docs/gallery run: as commands where they are commands (with a short search), as a script on Spark.

What commands print, with the noise frozen, is compared by `make check` (`tools/pages.py`).
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from factory_spark import spark_session

import privcube as pc
from privcube.cli.main import cli

GALLERY = Path(__file__).resolve().parents[2] / "docs" / "gallery"
COMMANDS = sorted(
    page for page in [*GALLERY.glob("*.md"), GALLERY.parent / "start.md"]
    if "<!-- run in: an empty folder -->" in page.read_text(encoding="utf-8")
)  # fmt: skip


def _files(page: Path) -> dict[str, str]:
    """The files that a page writes down."""
    return dict(
        re.findall(r"<!-- file: (\S+) -->\n+```\w*\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    )


def test_every_example_is_run() -> None:
    named = {page.stem for page in COMMANDS}
    assert named | {"index", "hospital", "logs"} == {page.stem for page in GALLERY.glob("*.md")} | {"start"}


@pytest.mark.parametrize("page", COMMANDS, ids=lambda page: page.stem)
def test_the_commands_of_an_example_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short_search: None, said: Callable[..., str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in _files(page).items():
        Path(name).write_text(text, encoding="utf-8")
    for block in re.findall(r"```console\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL):
        for line in re.findall(r"^\$ (.*)$", block, flags=re.MULTILINE):
            words = re.findall(r'"[^"]*"|\S+', line)
            words = [word.strip('"') for word in words]
            if words[0] == "privcube":
                said(*words[1:])
            elif words[0] == "python":
                subprocess.run([sys.executable, *words[1:]], check=True)
    folders = [path for path in tmp_path.iterdir() if (path / "release.json").exists()]
    assert folders
    assert all(check.passed for folder in folders for check in pc.verify(folder))


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a command that must do well; what it printed."""

    def run(*words: str) -> str:
        cli(list(words), standalone_mode=False)
        return capsys.readouterr().out

    return run


@pytest.mark.xdist_group("spark")
def test_the_script_on_spark_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spark_session()  # which the script then finds
    monkeypatch.chdir(tmp_path)
    script = _files(GALLERY / "logs.md")["logs.py"].replace("ROWS = 1_000_000", "ROWS = 20_000")
    found: dict[str, Any] = {}
    exec(compile(script, "logs.py", "exec"), found)
    release = pc.Release.open(tmp_path / "out")
    answer = release.query({})
    assert abs(answer.estimate - 20_000) < 8 * answer.std_error  # 5,000 accounts with 4 rows each: all of them count
