"""Tables for other programs, and objects for notebooks: true to the release, and nothing in them takes effect."""

from __future__ import annotations

import csv
import json
import shutil
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pyarrow.parquet as pq
import pytest

from privcube import Attribute, Axis, Level, PureDP, Release, Schema, Workload, plan
from privcube.errors import ArtifactError, MissingExtraError, QueryError
from privcube.model.measurements import Measurements
from privcube.model.workload import table_name
from privcube.released.artifact import folder
from privcube.released.exports import excel
from privcube.released.exports.export import FORMATS, export
from privcube.released.labels import NUMBERS
from privcube.released.presentation.numbers import rounded

NASTY = '=HYPERLINK("http://x")'
SCHEMA = Schema(
    [
        Attribute("=sex", values=[NASTY, "M"]),
        Attribute("age", bins=[0, 5, 10], levels=[Level("all", bins=[0, 10])]),
        Attribute("code", size=2, missing="category"),
    ]
)
TABLES: list[Any] = [("=sex", "age"), (), ("code",), (Axis("age", "all"),), (Axis("age", queries="ranges"),)]


@cache
def release() -> Release:
    made = plan(Workload.tables(SCHEMA, TABLES), PureDP(1), "marginals")
    return Release(Measurements(made, np.arange(made.rows) * 11 - 20))


def shown_estimates(table: Any) -> list[float]:
    """The estimates as published: one decimal, as the standard errors are between 1 and 10."""
    values = release().values(table)
    assert 1 <= values.std_error.min() < 10
    return [float(x) for x in rounded("estimate", values.estimate.ravel(), 1)]


def written(tmp_path: Path, kind: str, *tables: Any) -> Path:
    path = tmp_path / f"file.{kind}"
    export(release(), path, tables, format=kind)
    return path


# CSV and Parquet


def test_one_table_as_parquet_is_the_table(tmp_path: Path) -> None:
    found = pq.read_table(written(tmp_path, "parquet", ("age", "=sex"))).to_pandas()
    expected = release().table(("=sex", "age"))
    assert found.columns.tolist() == expected.columns.tolist()
    assert found.to_numpy().tolist() == expected.to_numpy().tolist()


def test_one_table_as_csv_is_safe(tmp_path: Path) -> None:
    with written(tmp_path, "csv", ("=sex", "age")).open(newline="") as stream:
        header, *rows = csv.reader(stream)
    assert header == ["'=sex", "age", "age label", *NUMBERS, "reliability"]
    assert [row[0] for row in rows] == [f"'{NASTY}", f"'{NASTY}", "M", "M"]
    assert [row[2] for row in rows] == ["0 to under 5", "5 to under 10"] * 2
    assert [float(row[3]) for row in rows] == shown_estimates(("=sex", "age"))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_several_tables_stand_one_after_the_other(kind: str, tmp_path: Path) -> None:
    path = written(tmp_path, kind, *TABLES, ("code",))
    if kind == "parquet":
        rows = pq.read_table(path).to_pylist()
    else:
        with path.open(newline="") as stream:
            rows = [{name: text or None for name, text in row.items()} for row in csv.DictReader(stream)]
    sex = "=sex" if kind == "parquet" else "'=sex"
    if kind == "parquet":
        assert list(rows[0]) == ["table", sex, "age", "code", "age by all", "ranges of age", *NUMBERS]
        expected = [float(x) for table in TABLES for x in release().values(table).estimate.ravel()]
    else:
        labels = ["age", "age label", "code", "age by all", "age by all label", "ranges of age", "ranges of age label"]
        assert list(rows[0]) == ["table", "table title", sex, *labels, *NUMBERS, "reliability"]
        expected = [x for table in TABLES for x in shown_estimates(table)]
    assert [float(row["estimate"]) for row in rows] == expected
    total = next(row for row in rows if row["table"] == "total")
    assert all(total[name] is None for name in (sex, "age", "code", "age by all", "ranges of age"))
    assert [row["code"] for row in rows if row["table"] == "code"] == ["0", "1", "(missing)"]
    assert [row["age by all"] for row in rows if row["table"] == "age by all"] == ["[0, 10)"]


def test_columns_of_several_tables_keep_apart(tmp_path: Path) -> None:
    schema = Schema(
        [
            Attribute("age by all", size=2),
            Attribute("age", size=2, levels=[Level("all", width=2)]),
            Attribute("table", size=2),
        ]
    )
    tables: list[Any] = [("age by all",), (Axis("age", "all"),), ("table",)]
    made = plan(Workload.tables(schema, tables), PureDP(1), "marginals")
    export(Release(Measurements(made, np.arange(made.rows))), tmp_path / "x", tables, format="parquet")
    found = pq.read_table(tmp_path / "x")
    assert found.column_names[:4] == ["table_", "age by all", "age by all_", "table"]
    assert found["table_"].to_pylist() == ["age by all"] * 2 + ["age by all"] + ["table"] * 2
    assert found["age by all"].to_pylist() == [0, 1, None, None, None]


# Excel


def test_excel_has_a_sheet_for_each_table_and_no_formula(tmp_path: Path) -> None:
    book = openpyxl.load_workbook(written(tmp_path, "xlsx", *TABLES))
    names = ["1 =sex x age", "2 total", "3 code", "4 age by all", "5 ranges of age"]
    assert book.sheetnames == ["About", "Tables", "Codebook", *names]
    assert {cell.data_type for sheet in book for row in sheet for cell in row} == {"s", "n", "inlineStr"}
    title, back, _, header, *rows = book["1 =sex x age"].values
    assert (title[0], back[0]) == ("=sex x age", "all tables")
    assert header[:3] == ("=sex", "age", "Estimate")
    assert [row[0] for row in rows] == [NASTY, NASTY, "M", "M"]
    assert [row[2] for row in rows] == shown_estimates(("=sex", "age"))
    assert book["1 =sex x age"]["C5"].number_format == "#,##0.0"
    links = [row[0].hyperlink.location for row in book["Tables"].iter_rows(min_row=2)]
    assert links == [f"'{name}'!A1" for name in names]
    assert book["Codebook"]["A2"].value == "=sex"


def test_sheets_have_names_that_excel_takes() -> None:
    taken: set[str] = set()
    names = ["a/b:c*d?e[f]g\\h", "A B C D E F G H", "x" * 40, "X" * 40, "'", "y" * 31, "y" * 32]
    titles = [excel._name(name, taken) for name in names]
    assert titles == [
        "a b c d e f g h",
        "A B C D E F G H 2",
        "x" * 31,
        "X" * 29 + " 2",
        "table",
        "y" * 31,
        "y" * 29 + " 2",
    ]


def test_a_table_too_long_for_a_sheet_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(excel, "_MOST_ROWS", 4)
    with pytest.raises(ArtifactError, match="under 4 rows"):
        written(tmp_path, "xlsx", ("=sex", "age"))
    assert list(tmp_path.iterdir()) == []


def test_excel_without_its_library_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(MissingExtraError, match=r"privcube\[excel\]"):
        written(tmp_path, "xlsx", ("code",))


# JSON-stat


def test_json_stat(tmp_path: Path) -> None:
    found = json.loads(written(tmp_path, "json-stat", ("=sex", "age")).read_text())
    assert {name: found[name] for name in ("version", "class", "id", "size", "role", "label")} == {
        "version": "2.0",
        "class": "dataset",
        "id": ["=sex", "age", "measure"],
        "size": [2, 2, 6],
        "role": {"metric": ["measure"]},
        "label": "=sex x age",
    }
    assert set(found["dimension"]) == set(found["id"])
    assert found["dimension"]["=sex"]["category"] == {"index": [NASTY, "M"], "label": {NASTY: NASTY, "M": "M"}}
    assert found["dimension"]["measure"]["category"]["index"] == list(NUMBERS)
    values = np.array(found["value"]).reshape(found["size"])
    own = release().values(("=sex", "age"))
    np.testing.assert_array_equal(values[..., 0], rounded("estimate", own.estimate, 1))
    np.testing.assert_array_equal(values[..., 1], rounded("std_error", own.std_error, 1))
    np.testing.assert_array_equal(values[..., 3], rounded("high", own.estimate + own.margin, 1))


def test_json_stat_of_several_tables_is_a_collection(tmp_path: Path) -> None:
    found = json.loads(written(tmp_path, "json-stat", *TABLES).read_text())
    assert (found["version"], found["class"]) == ("2.0", "collection")
    assert [item["label"] for item in found["link"]["item"]] == [table_name(table) for table in TABLES]
    for item in found["link"]["item"]:
        assert len(item["value"]) == np.prod(item["size"])
        for name, size in zip(item["id"], item["size"], strict=True):
            assert len(item["dimension"][name]["category"]["index"]) == size


# What is refused


def contents(path: Path) -> list[bytes]:
    return [file.read_bytes() for file in (sorted(path.iterdir()) if path.is_dir() else [path])]


@pytest.mark.parametrize("kind", FORMATS)
def test_nothing_is_overwritten_and_nothing_half_written(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, kind, ("code",))
    before = contents(path)
    with pytest.raises(ArtifactError, match="nothing is overwritten"):
        written(tmp_path, kind, ())
    assert contents(path) == before
    shutil.rmtree(path) if path.is_dir() else path.unlink()

    def broken(place: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(folder, "_sync", broken)
    with pytest.raises(ArtifactError, match="No space left"):
        written(tmp_path, kind, ("code",))
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_exported_is_said(tmp_path: Path) -> None:
    with pytest.raises(
        ArtifactError, match=r"given 'jsonstat'; did you mean 'json-stat'\? available: csv, parquet, xlsx"
    ):
        export(release(), tmp_path / "x", [("code",)], format="jsonstat")
    with pytest.raises(ArtifactError, match="at least one table"):
        export(release(), tmp_path / "x", [], format="csv")
    with pytest.raises(ArtifactError, match="No such file"):
        export(release(), tmp_path / "none" / "x", [("code",)], format="csv")
    with pytest.raises(QueryError, match="measurements determine"):
        export(release(), tmp_path / "x", [("age", "code")], format="csv")
    assert list(tmp_path.iterdir()) == []


# Notebooks


def test_notebooks_show_names_and_run_nothing() -> None:
    name, value = "<script>alert(1)</script>", "<img src=x onerror=alert(1)>"
    schema = Schema([Attribute(name, values=[value, "M"]), Attribute("wide", size=10**8)])
    made = plan(Workload.tables(schema, [(name,)]), PureDP(1), "marginals")
    shown = Release(Measurements(made, np.array([1, 2])))
    for thing in (schema, made, shown):
        text = thing._repr_html_()
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
        assert "<script" not in text
        assert "<img" not in text
        assert len(text) < 1000
    assert "0, 1, 2, 3, 4, 5, ..." in schema._repr_html_()
    assert "100,000,000" in schema._repr_html_()
    assert "<td>1.41</td>" in made._repr_html_()
    assert "epsilon = 1 (pure)" in made._repr_html_()
