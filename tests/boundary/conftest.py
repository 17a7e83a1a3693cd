"""Where the project is, and how to run a tool on it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def project() -> Path:
    """The root of the project."""
    return PROJECT


@pytest.fixture(scope="session")
def run_tool() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a program of this Python's environment, by name, in a folder."""

    def run(name: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "NO_COLOR": "1", "COLUMNS": "200"}
        program = sys.executable if name == "python" else str(Path(sys.executable).with_name(name))
        return subprocess.run(
            [program, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False
        )

    return run
