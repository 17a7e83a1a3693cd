"""Every export and report of releases at random: hostile names, measures, levels, ranges; read by others' readers."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pyarrow.parquet as pq
import pypdf
import pytest
from csvw import TableGroup
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pyaxis import pyaxis
from pyjstat import pyjstat
from pysdmx.io.csv.sdmx20.reader import read as read_sdmx
from tests.released.test_export_readers import HOSTILE
from tests.released.test_report import Page

from privcube import ZCDP, Attribute, Axis, Level, Measure, PureDP, Release, Schema, Words, Workload, export, plan
from privcube.errors import PrivcubeError
from privcube.model.measurements import Measurements
from privcube.released.exports.export import FORMATS
from privcube.released.presentation.tables import published
from privcube.released.report import pdf

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the readers, about their own functions

NAMES = st.sampled_from(
    [
        *HOSTILE,
        "estimate",
        "table",
        "count",
        "Measure",
        "mean",
        "low",
        "reliability",
        "value",
        "OBS_VALUE",
        "ä ö",
        "a b",
    ]
)


@st.composite
def attributes(draw: st.DrawFn, name: str) -> Attribute:
    kind = draw(st.integers(0, 4))
    missing = draw(st.sampled_from(["refuse", "category"]))
    if kind == 0:
        return Attribute(name, size=draw(st.integers(1, 4)), missing=missing)
    if kind == 1:
        ends = sorted(draw(st.sets(st.integers(-50, 50), min_size=2, max_size=4)))
        return Attribute(name, bins=ends, overflow=draw(st.sampled_from(["refuse", "clamp", "category"])))
    if kind == 2:
        return Attribute(name, size=6, levels=[Level(draw(NAMES), width=3)])
    if kind == 3:
        return Measure(name, low=draw(st.sampled_from([-20, 0])), high=40, step=20, missing=missing)
    values = draw(st.lists(NAMES, min_size=1, max_size=4, unique_by=str.casefold))
    return Attribute(name, values=values, other=draw(st.sampled_from(["refuse", "category"])))


@st.composite
def releases(draw: st.DrawFn) -> Release:
    names = draw(st.lists(NAMES, min_size=1, max_size=3, unique_by=str.casefold))
    schema = Schema([draw(attributes(name)) for name in names])
    tables: list[list[Any]] = []
    for _ in range(draw(st.integers(1, 3))):
        entries: list[Any] = []
        for own in schema:
            choice = draw(st.sampled_from(["out", "cells", "cells", "level", "ranges", "sum"]))
            if own.is_measure:
                if choice != "out" and not any(isinstance(e, Axis) and e.is_measured for e in entries):
                    counted = choice == "ranges" and own.missing == "category"
                    entries.append(Axis(own.name, queries="count" if counted else "sum"))
            elif choice == "level" and own.levels:
                entries.append(Axis(own.name, own.level_names[0]))
            elif choice == "ranges" and own.ordered:
                entries.append(Axis(own.name, queries="ranges"))
            elif choice != "out":
                entries.append(own.name)
        tables.append(entries)
    workload = Workload.tables(schema, list({str(table): table for table in tables}.values()))
    made = plan(workload, draw(st.sampled_from([PureDP(1), ZCDP("0.5")])), "marginals")
    answers = np.array(draw(st.sampled_from([0, 7, 900]))) + np.arange(made.rows) * 13 % 50 - 20
    words = Words(
        title=draw(st.none() | NAMES),
        unit=draw(st.none() | NAMES),
        publisher=draw(st.none() | NAMES),
        decimals=draw(st.none() | st.integers(0, 3)),
        reliability=draw(st.none() | st.sampled_from([0.05, 1])),
    )
    return Release(Measurements(made, answers * max(made.parts)), words=words)


@settings(deadline=None, max_examples=10, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(data=st.data())
def test_any_release_is_exported_and_read_again(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Only our own errors, and only before a release is there: whatever can be released can be exported."""
    try:
        release = data.draw(releases())
    except PrivcubeError:
        assume(False)
        raise
    folder, tables = tmp_path_factory.mktemp("any"), list(release.workload)
    table = data.draw(st.sampled_from(tables))
    one = published(release, release.values(table))
    estimates = [float(number) for number in one.numbers["estimate"]]
    kind = data.draw(st.sampled_from(sorted(FORMATS)))
    several = kind in ("csvw", "xlsx", "measurements", "report-html", "report-pdf")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pdf, "_fonts", lambda library: None)  # embedding fonts takes a second, and has its own tests
        export(release, folder / "file", tables if several else [table], format=kind)
    READERS[kind](folder / "file", estimates, release, table)


def _csv(path: Path, estimates: list[float], release: Release, table: Any) -> None:
    with path.open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert [float(row["estimate"]) for row in rows] == estimates


def _parquet(path: Path, estimates: list[float], release: Release, table: Any) -> None:
    assert pq.read_table(path)["estimate"].to_pylist() == release.estimates(table).ravel().tolist()


def _xlsx(path: Path, estimates: list[float], release: Release, table: Any) -> None:
    book = openpyxl.load_workbook(io.BytesIO(path.read_bytes()))
    assert {cell.data_type for sheet in book for row in sheet for cell in row} <= {"s", "n", "inlineStr"}
    assert len(book.worksheets) == 3 + len(release.workload)


def _json_stat(path: Path, estimates: list[float], release: Release, table: Any) -> None:
    text = path.read_text(encoding="utf-8")
    document = json.loads(text)
    size, measures = document["size"], document["size"][-1]
    assert document["value"][::measures] == estimates
    assert len(document["value"]) == int(np.prod(size))
    if len(document["id"]) > 1:
        assert len(pyjstat.Dataset.read(text).write("dataframe", naming="id")) == len(document["value"])


def _px(path: Path, estimates: list[float], release: Release, table: Any) -> None:
    found = pyaxis.parse(str(path), encoding="utf-8")["DATA"]
    assert len(found) % len(estimates) == 0
    own = found["DATA"].to_numpy()[:: len(found) // len(estimates)]
    assert [float(number) for number in own] == pytest.approx(estimates)


def _sdmx(path: Path, estimates: list[float], release: Release, table: Any) -> None:
    (found,) = read_sdmx(path.read_text(encoding="utf-8"))
    assert found.data["OBS_VALUE"].astype(float).tolist() == estimates


def _csvw(path: Path, estimates: list[float], release: Release, table: Any) -> None:
    group = TableGroup.from_file(path / "csv-metadata.json")
    own = group.tables[list(release.workload).index(table)]
    assert [float(row["estimate"]) for row in own] == estimates


def _codebook(path: Path, estimates: list[float], release: Release, table: Any) -> None:
    with path.open(newline="", encoding="utf-8") as stream:
        assert len(list(csv.DictReader(stream))) >= len(release.workload.schema)


def _measurements(path: Path, estimates: list[float], release: Release, table: Any) -> None:
    with (path / "measurements.csv").open(newline="", encoding="utf-8") as stream:
        assert [int(row["answer"]) for row in csv.DictReader(stream)] == release.measurements.answers.tolist()


def _html(path: Path, estimates: list[float], release: Release, table: Any) -> None:
    page = Page(path.read_text(encoding="utf-8"))
    assert page.open == []
    assert not page.tags & {"script", "img", "iframe", "link", "object", "a"}
    assert ("Mean" in page.texts) == any(
        "mean" in published(release, release.values(t)).numbers for t in release.workload
    )


def _pdf(path: Path, estimates: list[float], release: Release, table: Any) -> None:
    found = pypdf.PdfReader(io.BytesIO(path.read_bytes()))
    assert "Glossary" in "\n".join(page.extract_text() for page in found.pages)


READERS = {
    "csv": _csv,
    "parquet": _parquet,
    "xlsx": _xlsx,
    "json-stat": _json_stat,
    "px": _px,
    "sdmx-csv": _sdmx,
    "csvw": _csvw,
    "codebook": _codebook,
    "measurements": _measurements,
    "report-html": _html,
    "report-pdf": _pdf,
}


def test_every_format_has_a_reader() -> None:
    assert READERS.keys() == FORMATS.keys()
