"""The scripts of docs/other-languages.md read a release, where there is somebody to run them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import privcube as pc
from privcube.model.measurements import Measurements

PAGE = Path(__file__).resolve().parents[2] / "docs" / "other-languages.md"


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release with the tables that the scripts read, among them a label that a spreadsheet takes for a formula."""
    schema = pc.Schema(
        [
            pc.Attribute("ward", values=["surgery", "medicine", "=1+1"]),
            pc.Attribute("region", values=["north", "south"]),
            pc.Attribute("outcome", values=["home", "care", "died"]),
        ]
    )
    workload = pc.Workload.tables(schema, [("ward",), ("region", "outcome")])
    plan = pc.plan(workload, pc.PureDP(1), "marginals")
    folder = tmp_path_factory.mktemp("release") / "out"
    pc.Release(Measurements(plan, np.arange(plan.rows) * 100)).save(folder)
    return folder


def test_r_reads_a_release(artifact: Path, tmp_path: Path) -> None:
    program = shutil.which("Rscript")
    if program is None:
        pytest.skip("R is not installed (Debian: apt-get install r-base-core), so its script was not run")
    (script,) = re.findall(r"```r\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    (tmp_path / "read.R").write_text(script, encoding="utf-8")
    done = subprocess.run(
        [program, "--vanilla", "read.R", str(artifact)],
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    release = pc.Release.open(artifact)
    assert "2 tables" in done.stdout
    total = float(release.query({}).estimate)
    (sums,) = re.findall(r"^ *Sum +(.*)$", done.stdout, flags=re.MULTILINE)
    assert float(sums.split()[-1]) == pytest.approx(total, abs=1.0)  # of rounded numbers
    ward = release.table(("ward",))
    assert f"{ward.estimate[1]:.1f}" in done.stdout
    assert "'=1+1" in done.stdout  # as the page says: an apostrophe in front
    both = release.table(("region", "outcome"))
    (margin,) = re.findall(r"margin for all at once: ([0-9.]+)", done.stdout)
    assert float(margin) == pytest.approx((both.high_all - both.estimate).max(), abs=0.2)  # ends are rounded outward
