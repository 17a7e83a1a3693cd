"""Forty awkward files, and how pandas reads each of them."""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from privcube import Attribute, Dates

LABELS = ["Köln", "Paris", "New York", "a;b", "a,b"]
CITY = Attribute("city", values=LABELS, missing="category", other="category")
ROWS = [("Köln", "1.5"), ("Paris", "2"), ("Köln", "0.5"), ("", "3.5"), ("elsewhere", "")]
NUMBER = Attribute("n", bins=[0, 1, 2, 4], missing="category", other="category")


def text(separator: str = ",", end: str = "\n", rows: list[tuple[str, str]] = ROWS, header: str = "city,n") -> str:
    lines = [header.replace(",", separator), *(separator.join(row) for row in rows)]
    return end.join(lines) + end


def plain(content: bytes, name: str = "people.csv") -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        (folder / name).write_bytes(content)
        return folder / name

    return write


def parquet(**columns: Any) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        pq.write_table(pa.table(columns), folder / "people.parquet")
        return folder / "people.parquet"

    return write


def database(folder: Path) -> Path:
    with duckdb.connect(str(folder / "people.duckdb")) as connection:
        connection.execute("CREATE TABLE people AS SELECT 'Paris' AS city, 1.5 AS n UNION ALL SELECT NULL, NULL")
    return folder / "people.duckdb"


@dataclass(frozen=True)
class Case:
    """A file, how the spec says that it is written, and how pandas reads it; or the sentence that refuses it."""

    make: Callable[[Path], Path]
    written: dict[str, str] = field(default_factory=dict)
    pandas: dict[str, Any] = field(default_factory=dict)
    attributes: tuple[Attribute, ...] = (CITY, NUMBER)
    refused: str | None = None
    table: str | None = None


COMMA = {"sep": ";", "decimal": ","}
GERMAN = text(";", rows=[(city, number.replace(".", ",")) for city, number in ROWS])
UPPER = (Attribute("city", values=LABELS, missing="category", other="category", column="CITY"),)
WHEN = Attribute("when", dates=Dates(by="month", first="2024-01", last="2024-03"), missing="category", other="category",
                 underflow="category", overflow="category")  # fmt: skip
GERMAN_DAYS = Attribute(
    "when", dates=Dates(by="month", first="2024-01", last="2024-03", format="day first"), missing="category",
    other="category", underflow="category", overflow="category",
)  # fmt: skip
DAYS = [date(2024, 1, 31), date(2024, 3, 1), date(2023, 12, 31), None]

CASES: dict[str, Case] = {
    # encodings
    "UTF-8": Case(plain(text().encode())),
    "UTF-8 with a byte order mark": Case(plain(text().encode("utf-8-sig")), pandas={"encoding": "utf-8-sig"}),
    "Latin-1": Case(plain(text().encode("latin-1")), {"encoding": "latin-1"}, {"encoding": "latin-1"}),
    "Latin-1 that is not declared": Case(plain(text().encode("latin-1")), refused='encoding = "windows-1252"'),
    "Windows-1252": Case(
        plain(text(rows=[("Köln", "1"), ("€", "2")]).encode("cp1252")),
        {"encoding": "windows-1252"},
        {"encoding": "cp1252"},
    ),
    "Mac Roman": Case(plain(text().encode("mac-roman")), {"encoding": "mac-roman"}, {"encoding": "mac-roman"}),
    "code page 850": Case(plain(text().encode("cp850")), {"encoding": "cp850"}, {"encoding": "cp850"}),
    "UTF-16": Case(plain(text().encode("utf-16")), {"encoding": "utf-16"}, {"encoding": "utf-16"}),
    "UTF-16 that is not declared": Case(plain(text().encode("utf-16")), refused='encoding = "utf-16"'),
    "UTF-16, big end first": Case(
        plain(b"\xfe\xff" + text().encode("utf-16-be")), {"encoding": "utf-16"}, {"encoding": "utf-16"}
    ),
    "bytes that the declared encoding lacks": Case(
        plain(b"city,n\n\x81,1\n"), {"encoding": "windows-1252"}, refused="expected text in cp1252"
    ),
    # separators and decimal marks
    "semicolons": Case(plain(text(";").encode()), pandas={"sep": ";"}),
    "tabs": Case(plain(text("\t").encode(), "people.txt"), pandas={"sep": "\t"}),
    "tabs in a tsv file": Case(plain(text("\t").encode(), "people.tsv"), pandas={"sep": "\t"}),
    "bars": Case(plain(text("|").encode()), pandas={"sep": "|"}),
    "semicolons and decimal commas": Case(plain(GERMAN.encode()), {"decimal": ","}, COMMA),
    "decimal commas in quotes": Case(plain(b'city,n\nParis,"1,5"\nParis,"2,0"\n'), {"decimal": ","}, {"decimal": ","}),
    "a separator that the header hides": Case(
        plain(b'"city;of";city;n\nx;Paris;1\n'), {"separator": ";"}, {"sep": ";"}
    ),
    "a separator of two signs": Case(
        plain(b"city::n\nParis::1\n"), refused="expected one column named 'city', given none"
    ),
    "a line that says sep=;": Case(plain(b"sep=;\n" + text(";").encode()), refused="remove the line that says sep="),
    # lines and quotes
    "lines of Windows": Case(plain(text(end="\r\n").encode())),
    "lines of old Macs": Case(plain(text(end="\r").encode()), pandas={"lineterminator": "\r"}),
    "mixed ends of lines": Case(plain(b"city,n\r\nParis,1\nParis,2\r\n"), refused="lines that all end alike"),
    "no end of the last line": Case(plain(text().rstrip().encode() + b"0")),
    "empty lines": Case(plain(b"city,n\n\nParis,1\n\n\nParis,2\n")),
    "quotes around everything": Case(plain(b'"city","n"\n"Paris","1"\n"a,b","2"\n"","3"\n')),
    "separators and lines in quotes": Case(plain(b'city,n\n"a,b",1\n"New\nYork",2\n')),
    "quotes in quotes": Case(plain(b'city,n\n"say ""hi""",1\nParis,2\n')),
    "a quote that stays open": Case(plain(b'city,n\n"Paris,1\n'), refused="quotation marks in pairs"),
    "too many fields": Case(plain(b"city,n\nParis,1,2\n"), refused="as many fields as the header"),
    "too few fields": Case(plain(b"city,n\nParis\n"), refused="as many fields as the header"),
    # nothing to read
    "empty": Case(plain(b""), refused="expected a header with the names of the columns, given an empty file"),
    "header only": Case(plain(b"city,n\n")),
    "no header": Case(plain(b"Paris,1\nParis,2\n"), refused="expected one column named 'city', given none"),
    # columns
    "upper case columns": Case(plain(b"CITY,N\nParis,1\n"), refused="but 'CITY': declare column = 'CITY'"),
    "upper case columns, declared": Case(plain(b"CITY,N\nParis,1\nK,2\n"), attributes=UPPER),
    "blanks around names": Case(plain(b"city ,n\nParis,1\n"), refused="but 'city ': declare column = 'city '"),
    "a column twice": Case(plain(b"city,city,n\nParis,x,1\n"), refused="one column named 'city', given several"),
    # compression
    "gzip": Case(plain(gzip.compress(text().encode()), "people.csv.gz")),
    "gzip in Latin-1 with semicolons": Case(
        plain(gzip.compress(GERMAN.encode("latin-1")), "people.csv.gz"),
        {"encoding": "latin-1", "decimal": ","},
        {**COMMA, "encoding": "latin-1"},
    ),
    "bzip2": Case(plain(bz2.compress(text().encode()), "people.csv.bz2"), refused="expected files of one kind"),
    # dates
    "dates": Case(
        plain(b"when\n2024-01-31\n2024-02-30\n2025-01-01\n\n"), attributes=(WHEN,), pandas={"skip_blank_lines": False}
    ),
    "dates, day first": Case(plain(b"when,n\n31.01.2024,1\n1/3/2024,2\n,3\n"), attributes=(GERMAN_DAYS,)),
    # Parquet and databases
    "Parquet dates": Case(parquet(when=pa.array(DAYS)), attributes=(WHEN,)),
    "Parquet timestamps": Case(
        parquet(when=pa.array([datetime(2024, 1, 31, 23), datetime(2025, 1, 1), None], pa.timestamp("ns"))),
        attributes=(WHEN,),
    ),
    "Parquet timestamps with a zone": Case(
        parquet(when=pa.array([datetime(2024, 1, 31, 23), None], pa.timestamp("us", "UTC"))), attributes=(WHEN,)
    ),
    "Parquet timestamps as values": Case(
        parquet(city=pa.array([datetime(2024, 1, 31)])), attributes=(CITY,), refused="dates = {by ="
    ),
    "Parquet decimals and dictionaries": Case(
        parquet(
            city=pa.array(["Paris", None, "x"]).dictionary_encode(), n=pa.array([Decimal("1.5"), Decimal("3.9"), None])
        )
    ),
    "Parquet of small integers": Case(parquet(city=pa.array(["Paris", "x"]), n=pa.array([1, 3], pa.uint8()))),
    "Parquet lists": Case(
        parquet(city=pa.array([["Paris"]]), n=pa.array([1])), refused="expected text, numbers, booleans or dates"
    ),
    "Parquet, upper case": Case(parquet(CITY=pa.array(["Paris", "x"])), attributes=UPPER),
    "a DuckDB file": Case(database, table="people"),
    "a DuckDB file without a table": Case(database, refused="a table or a query to read from it"),
    "a spreadsheet": Case(plain(b"PK\x03\x04", "people.xlsx"), refused=r"\.csv.*\.parquet"),
}


def frame(case: Case, file: Path) -> pd.DataFrame:
    if file.suffix == ".parquet":
        return pd.read_parquet(file)
    if file.suffix == ".duckdb":
        return duckdb.connect(str(file), read_only=True).sql("FROM people").df()
    options = {key: value for key, value in case.pandas.items() if key != "decimal"}
    return pd.read_csv(file, dtype=str, keep_default_na=False, **options)
