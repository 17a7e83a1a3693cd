"""What is optional: every extra that a message names can be installed, and none of them changes a plan."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

import privcube
from privcube.errors import MissingExtraError
from privcube.extras import load
from privcube.model.measurements import Measurements

Tool = Callable[..., subprocess.CompletedProcess[str]]

PROJECT = Path(__file__).resolve().parents[2]
DECLARED = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = DECLARED["optional-dependencies"]
OPTIONAL = ("pandas", "polars", "xarray", "openpyxl", "clarabel", "psycopg", "pyspark", "matplotlib", "fpdf")


def _name(requirement: str) -> str:
    return re.match(r"[\w-]+", requirement)[0].lower()  # type: ignore[index]


def _named(pattern: str, *places: str) -> dict[str, str]:
    """Every extra that a pattern finds in these files, and one file that names it."""
    files = [file for place in places for file in sorted(PROJECT.glob(place))]
    assert files
    return {
        extra: file.name
        for file in files
        for names in re.findall(pattern, file.read_text(encoding="utf-8"))
        for extra in names.split(",")
    }


def test_every_extra_of_the_source_exists() -> None:
    named = _named(r'extra="([^"]+)"', "src/**/*.py")
    assert {"linear", "pandas", "polars"} <= set(named)
    assert not {extra: file for extra, file in named.items() if extra not in EXTRAS}


def test_every_extra_of_the_documents_exists() -> None:
    named = _named(r"privcube\[([a-z,]+)\]", "*.md", "docs/**/*.md", "src/**/*.py")
    assert {"spark", "postgres"} <= set(named)
    assert not {extra: file for extra, file in named.items() if extra not in EXTRAS}


def test_each_library_is_in_the_extra_that_its_message_names() -> None:
    calls = [
        call
        for file in sorted((PROJECT / "src").rglob("*.py"))
        for call in re.findall(r'load\(\s*"(\w+)[\w.]*", extra="(\w+)"', file.read_text(encoding="utf-8"))
        if call[0] != "no_such_library"
    ]
    assert len(calls) > 5
    for library, extra in calls:
        assert {"fpdf": "fpdf2"}.get(library, library) in map(_name, EXTRAS[extra]), (library, extra)


def test_what_is_optional_is_no_dependency() -> None:
    assert not set(map(_name, DECLARED["dependencies"])) & set(OPTIONAL)
    development = next(entry for entry in EXTRAS["dev"] if entry.startswith("privcube["))
    assert set(EXTRAS) - {"dev", "attack"} == set(development.removeprefix("privcube[").rstrip("]").split(","))


def _small_release() -> privcube.Release:
    import numpy as np

    schema = privcube.Schema.from_sizes({"a": 2, "b": 3})
    plan = privcube.plan(privcube.Workload.tables(schema, [("a", "b")]), privcube.PureDP(1), "marginals")
    return privcube.Release(Measurements(plan, np.arange(6)))


def test_without_pandas_a_table_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    made = _small_release()
    expected = made.table(["a"])["estimate"].tolist()
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtraError) as caught:
        made.table(["a"])
    assert "pip install 'privcube[pandas]'" in str(caught.value)
    assert 'form="pyarrow"' in str(caught.value)
    assert 'form="polars"' in str(caught.value)
    assert made.table(["a"], form="pyarrow")["estimate"].to_pylist() == expected
    assert made.table(["a"], form="polars")["estimate"].to_list() == expected


def test_a_part_of_a_library_is_asked_for_by_the_name_of_the_library() -> None:
    with pytest.raises(MissingExtraError, match=r"^maps: expected no_such_library to be installed: pip install"):
        load("no_such_library.maps", extra="linear", purpose="maps")


PLANS = """
import json, sys

blocked = {blocked!r}


class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in blocked:
            raise ImportError(name)


sys.meta_path.insert(0, Blocked())

import privcube as pc
from privcube.planning.search import annealing

annealing._SECONDS["fast"] = 0.02  # searches end soon
mixed = pc.Schema.from_sizes(dict(a=2, b=3, c=4, d=5))
binary = pc.Schema.from_sizes(dict(a=2, b=2, c=2))
line = pc.Schema.from_sizes(dict(age=16))
workloads = [
    pc.Workload.all_kway(mixed, 2),
    pc.Workload.full_cube(binary),
    pc.Workload.ranges(line, ["age"]),
    pc.Workload.prefixes(line, ["age"]),
]
guarantees = [pc.PureDP(1), pc.ZCDP("0.5")]
print(json.dumps([pc.plan(workload, guarantee).digest for workload in workloads for guarantee in guarantees]))
"""


def test_auto_gives_the_same_plans_without_any_extra(project: Path, run_tool: Tool) -> None:
    digests = []
    for blocked in ((), OPTIONAL):
        result = run_tool("python", "-c", PLANS.format(blocked=blocked), folder=project)
        assert result.returncode == 0, result.stderr
        digests.append(json.loads(result.stdout))
    assert digests[0] == digests[1]
    assert len(set(digests[0])) == len(digests[0])
