"""The studies in their quick mode, run once for all tests of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
STUDIES = """
import runpy, sys
from privcube.planning.search import annealing
from experiments import plots
annealing._SECONDS["fast"] = 0.02  # searches end soon
plots.LAYOUT = "none"  # which takes most of the time of a plot
sys.argv = ["experiments", "all", "--quick", "--out", sys.argv[1]]
runpy.run_module("experiments", run_name="__main__")
"""


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """The folder of their results; tests that use it are in one group, so that one process makes it."""
    if request.config.getoption("loadgroup", False):  # what pytest-xdist tells its workers of --dist
        assert any(item.nodeid.endswith("@experiments") for item in request.session.items), "groups are ignored"
    folder = tmp_path_factory.mktemp("project") / "docs" / "results"
    (folder.parent / "guide").mkdir(parents=True)
    done = subprocess.run([sys.executable, "-c", STUDIES, folder], cwd=PROJECT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder
