"""Run the installed command in an empty folder, as a user would; or the same in this process, where many runs count."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

Command = Callable[..., subprocess.CompletedProcess[str]]
Write = Callable[..., Path]

PARTS = {
    "data": 'source = "people.csv"\ndataset = "people-2030"',
    "privacy": 'epsilon = "1"',
    "attributes": '[[attributes]]\nname = "sex"\nvalues = ["F", "M"]\n\n[[attributes]]\nname = "age"\nsize = 10',
    "workload": "all_kway = [1, 2]",
    "plan": "",
    "output": "",
}
LEDGER = 'epsilon = "1"\nledger = "ledger.db"\ntotal_epsilon = "2.5"'


class Result(NamedTuple):
    """What a command gave."""

    code: int
    out: str
    err: str


Here = Callable[..., Result]


@pytest.fixture(autouse=True)
def _any_plan_will_do(short_search: None) -> None:
    """Where commands run in this process."""


@pytest.fixture(scope="session")
def program() -> Path:
    """The installed command."""
    return Path(sys.executable).with_name("privcube")


@pytest.fixture
def privcube(program: Path, tmp_path: Path) -> Command:
    """The command, in tmp_path."""

    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [program, *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONIOENCODING": "utf-8", **environment},
            capture_output=True,
            encoding="utf-8",
            timeout=600,
            check=False,
        )

    return run


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    """The command in this process, in tmp_path, with its exit code and what it wrote."""
    from privcube.cli.main import main

    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Result:
        monkeypatch.setattr(sys, "argv", ["privcube", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
        written = capsys.readouterr()
        code = end.value.code
        assert isinstance(code, int)
        return Result(code, written.out, written.err)

    return run


@pytest.fixture
def said(here: Here) -> Callable[..., str]:
    """Run a command that must do well and write nothing to stderr; its stdout."""

    def run(*arguments: str) -> str:
        result = here(*arguments)
        assert result.code == 0, result
        assert result.err == ""
        return result.out

    return run


@pytest.fixture
def refused_here(here: Here) -> Callable[..., str]:
    """Run a command on bad input: exit code 2, nothing on stdout, one sentence on stderr, which is returned."""

    def run(*arguments: str) -> str:
        result = here(*arguments)
        assert result.code == 2, result
        assert result.out == ""
        assert result.err.startswith("privcube: ")
        assert len(result.err.splitlines()) == 1, result.err
        assert "expected" in result.err
        assert arguments[0] != "release" or "charged" in result.err
        return result.err

    return run


@pytest.fixture
def write_spec(tmp_path: Path) -> Write:
    """Write a spec.toml: a good one, with some of its parts replaced by the text given."""

    def write(**parts: str) -> Path:
        unknown = set(parts) - set(PARTS)
        assert not unknown, unknown
        whole = {**PARTS, **parts}
        sections = [f"[{name}]\n{text}" for name, text in whole.items() if name != "attributes"]
        file = tmp_path / "spec.toml"
        file.write_text("\n\n".join([*sections, whole["attributes"]]) + "\n", encoding="utf-8")
        return file

    return write


@pytest.fixture
def write_people(tmp_path: Path) -> Callable[[], Path]:
    """Write people.csv, records for that spec."""

    def write() -> Path:
        file = tmp_path / "people.csv"
        rows = [f"{'FM'[number % 2]},{number * 7 % 10}" for number in range(1000)]
        file.write_text("\n".join(["sex,age", *rows]) + "\n", encoding="utf-8")
        return file

    return write


@pytest.fixture
def ready(write_spec: Write, write_people: Callable[[], Path]) -> Path:
    """A folder with records and a spec that has a ledger of 2.5 and releases of 1."""
    write_people()
    return write_spec(privacy=LEDGER, plan='strategy = "marginals"').parent
