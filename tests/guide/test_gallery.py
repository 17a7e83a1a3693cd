"""The examples of docs/gallery run: as a script on Spark here; as commands in `make check` (`tools/pages.py`).

There, what commands print is compared, with the noise frozen, and what they publish is verified.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from factory_spark import spark_session
from pages import EMPTY, pages

import privcube as pc

GALLERY = Path(__file__).resolve().parents[2] / "docs" / "gallery"
COMMANDS = sorted(
    page for page in [*GALLERY.glob("*.md"), GALLERY.parent / "start.md"]
    if EMPTY in page.read_text(encoding="utf-8")
)  # fmt: skip


def _files(page: Path) -> dict[str, str]:
    """The files that a page writes down."""
    return dict(
        re.findall(r"<!-- file: (\S+) -->\n+```\w*\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    )


def test_every_example_is_run() -> None:
    named = {page.stem for page in COMMANDS}
    assert set(COMMANDS) <= set(pages(""))
    assert named | {"index", "hospital", "logs"} == {page.stem for page in GALLERY.glob("*.md")} | {"start"}


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
