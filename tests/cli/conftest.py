"""Run the installed command in an empty folder, as a user would."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Command = Callable[..., subprocess.CompletedProcess[str]]
Write = Callable[..., Path]

PARTS = {
    "data": 'source = "people.csv"',
    "privacy": 'epsilon = "1"',
    "attributes": '[[attributes]]\nname = "sex"\nvalues = ["F", "M"]\n\n[[attributes]]\nname = "age"\nsize = 10',
    "workload": "all_kway = [1, 2]",
    "plan": "",
    "output": "",
}


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
            timeout=60,
            check=False,
        )

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
def refused(privcube: Command) -> Callable[..., str]:
    """Run the command on bad input: exit code 2, nothing on stdout, one sentence on stderr, which is returned."""

    def run(*arguments: str) -> str:
        result = privcube(*arguments)
        assert result.returncode == 2, result
        assert result.stdout == ""
        assert "Traceback" not in result.stderr
        assert result.stderr.endswith("\n")
        assert len(result.stderr.splitlines()) == 1, result.stderr
        assert result.stderr.startswith("privcube: ")
        assert "expected" in result.stderr
        return result.stderr

    return run
