"""Files for other programs, read by readers that nobody here wrote; hostile words change nothing but words."""

from __future__ import annotations

import csv
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pytest
from pyaxis import pyaxis
from pyjstat import pyjstat
from pysdmx.io.csv.sdmx20.reader import read as read_sdmx

from privcube import Attribute, Axis, Level, Measure, PureDP, Release, Schema, Words, Workload, export, plan
from privcube.model.measurements import Measurements
from privcube.released.exports.identifiers import identifiers
from privcube.released.presentation.tables import published

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the readers, about their own functions

SCHEMA = Schema(
    [
        Attribute("sex", values=["f", "m"], missing="category"),
        Attribute("age", bins=[0, 18, 65, 120], overflow="clamp", levels=[Level("stage", bins=[0, 65, 120])]),
        Attribute("=1+2", values=["=cmd|'/C calc'!A0", "a;b", 'q"q', "ä"]),
    ]
)
TABLES: list[Any] = [("sex", "=1+2"), ("sex", ("age", "stage")), ("age",)]
HOSTILE = (
    "=cmd|'/C calc'!A0",
    '@SUM(1)";x="',
    "<script>alert(1)</script>",
    "]]>&amp;</v>",
    "שלום עולם",
    "tab; semicolon, comma|bar",
    'it\'s "quoted" \\ back',
    "x" * 300,
    "🙂 é ﷺ",
    "-1",
    "DATA=",
)


@cache
def release(hostile: str | None = None) -> Release:
    made = plan(Workload.tables(SCHEMA, TABLES), PureDP(1), "marginals")
    words = Words(unit="stays", publisher="Office", attributes={"sex": {"title": "Sex", "labels": {"f": "Women"}}})
    if hostile is not None:
        own = {"title": hostile, "description": hostile, "labels": {"f": hostile}}
        words = Words(
            **dict.fromkeys(("title", "description", "publisher", "contact", "period", "licence", "unit"), hostile),
            attributes={"sex": own},  # type: ignore[dict-item]
            tables={("sex", "=1+2"): hostile},
        )
    return Release(Measurements(made, np.arange(made.rows) * 11 - 20), words=words)


def estimates(table: Any) -> list[float]:
    found = published(release(), release().values(table))
    return [float(x) for x in found.numbers["estimate"]]


ANY = pytest.mark.parametrize("hostile", [None, *HOSTILE])


@ANY
def test_json_stat_is_read_by_pyjstat(hostile: str | None, tmp_path: Path) -> None:
    for number, table in enumerate(TABLES):
        path = tmp_path / f"{number}.json"
        export(release(hostile), path, [table])
        text = path.read_text(encoding="utf-8")
        frame = pyjstat.Dataset.read(text).write("dataframe", naming="id")
        own = frame[frame["measure"] == "estimate"]
        assert own["value"].tolist() == estimates(table)
        named = pyjstat.Dataset.read(text).write("dataframe", naming="label")
        if table[0] == "sex":
            label = "Women" if hostile is None else hostile
            assert (named.columns[0], named.iloc[0, 0]) == ("Sex" if hostile is None else hostile, label)
        source = json.loads(text)["source"]
        assert source == ("Office" if hostile is None else hostile)


@ANY
def test_sdmx_csv_is_read_by_pysdmx(hostile: str | None, tmp_path: Path) -> None:
    export(release(hostile), tmp_path / "one.csv", [TABLES[0]], format="sdmx-csv")
    (found,) = read_sdmx((tmp_path / "one.csv").read_text(encoding="utf-8"))
    assert found.structure == "Dataflow=PRIVCUBE:T_SEX_X_1_2(1.0)"
    assert set(identifiers(["sex", "=1+2"])) < set(found.data.columns)
    assert found.data["N1_2"].tolist() == identifiers(SCHEMA["=1+2"].labels) * 3  # type: ignore[arg-type]
    assert found.data["OBS_VALUE"].astype(float).tolist() == estimates(TABLES[0])
    assert set(found.data["OBS_STATUS"]) <= {"A", "U"}


def test_names_in_other_scripts_keep_tables_and_dimensions_apart(tmp_path: Path) -> None:
    """Identifiers are those of the release: the same in one file and in a folder of all."""
    long = "a very long name of an attribute"
    schema = Schema(
        [Attribute(name, values=["一", "二"]) for name in ("性別", "年齢", "v", "V", f"{long} 1", f"{long} 2")]
    )
    wanted = Workload.all_kway(schema, 1)
    made = plan(wanted, PureDP(1), "marginals")
    own = Release(Measurements(made, np.arange(made.rows)))
    for kind in ("sdmx-csv", "px"):
        export(own, tmp_path / kind, format=kind)
    export(own, tmp_path / "one.csv", [("年齢",)], format="sdmx-csv")
    files = [path.read_text(encoding="utf-8") for path in sorted((tmp_path / "sdmx-csv").iterdir())]
    found = [read_sdmx(text)[0] for text in files]
    assert len({data.structure for data in found}) == len(schema)
    dimensions = [text.split(",")[3].split(":")[0] for text in files]
    assert len(set(dimensions)) == len(schema)
    assert [data.data[name].tolist() for data, name in zip(found, dimensions, strict=True)] == [["X", "X_2"]] * 6
    assert (tmp_path / "one.csv").read_text(encoding="utf-8") == files[1]
    matrices = [pyaxis.parse(str(path), encoding="utf-8") for path in sorted((tmp_path / "px").iterdir())]
    names = [matrix["METADATA"]["MATRIX"][0] for matrix in matrices]
    assert len(set(names)) == len(schema)
    assert max(map(len, names)) <= 20


def test_sdmx_csv_leaves_means_empty_that_are_not_determined(tmp_path: Path) -> None:
    schema = Schema([Attribute("sex", values=["f", "m"]), Measure("days", low=0, high=60, step=1)])
    table = ("sex", Axis("days", queries="sum"))
    made = plan(Workload.tables(schema, [("sex",), table]), PureDP(1), "marginals")
    own = Release(Measurements(made, np.zeros(made.rows, dtype=np.int64)))
    export(own, tmp_path / "one.csv", [table], format="sdmx-csv")
    text = (tmp_path / "one.csv").read_text(encoding="utf-8")
    (found,) = read_sdmx(text)
    assert "nan" not in text.lower()
    assert set(found.data["MEAN_LOW"].fillna("")) == {""}
    assert found.data["OBS_VALUE"].astype(float).tolist() == [0.0, 0.0]


@ANY
def test_px_is_read_by_pyaxis(hostile: str | None, tmp_path: Path) -> None:
    export(release(hostile), tmp_path / "one.px", [TABLES[0]])
    found = pyaxis.parse(str(tmp_path / "one.px"), encoding="utf-8")
    frame = found["DATA"]
    own = frame[frame["Measure"] == "Estimate"]
    assert own["DATA"].astype(float).tolist() == estimates(TABLES[0])
    assert all(len(line) <= 2048 for line in (tmp_path / "one.px").read_bytes().splitlines())
    if hostile is None:
        assert frame.columns[0] == "Sex"
        assert found["METADATA"]["CODES(Sex)"] == ["f", "m", "(missing)"]


@ANY
def test_csvw_is_read_by_csvw(hostile: str | None, tmp_path: Path) -> None:
    from csvw import TableGroup

    export(release(hostile), tmp_path / "web", TABLES, format="csvw")
    group = TableGroup.from_file(tmp_path / "web" / "csv-metadata.json")
    for table, own in zip(group.tables, TABLES, strict=True):
        rows = list(table)  # checks every value against its datatype
        assert [float(row["estimate"]) for row in rows] == estimates(own)
        assert {row["reliability"] for row in rows} <= {"ok", "uncertain", "holds zero"}
    assert group.common_props["dc:title"] == (hostile or "Tables with a differential-privacy guarantee")


@ANY
def test_excel_is_read_by_openpyxl_and_has_no_formula(hostile: str | None, tmp_path: Path) -> None:
    export(release(hostile), tmp_path / "all.xlsx", TABLES)
    book = openpyxl.load_workbook(tmp_path / "all.xlsx")
    assert {cell.data_type for sheet in book for row in sheet for cell in row} <= {"s", "n", "inlineStr"}
    assert all(len(name) <= 31 for name in book.sheetnames)
    found = [row[2] for row in list(book.worksheets[3].values)[4:]]
    assert found == estimates(TABLES[0])
    assert book["About"]["A1"].value == (hostile or "Tables with a differential-privacy guarantee")


@ANY
@pytest.mark.parametrize("kind", ["csv", "sdmx-csv", "codebook"])
def test_no_field_of_a_csv_starts_a_formula(hostile: str | None, kind: str, tmp_path: Path) -> None:
    export(release(hostile), tmp_path / "file.csv", [TABLES[0]], format=kind)
    with (tmp_path / "file.csv").open(newline="", encoding="utf-8") as stream:
        fields = [field for row in csv.reader(stream) for field in row]
    numbers = [field for field in fields if field.lstrip("-").replace(".", "").isdigit()]
    assert not [field for field in fields if field not in numbers and field.strip()[:1] in tuple("=+-@\t\r")]
