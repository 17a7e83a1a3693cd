"""Text files with a header, for the local engine: every column is text. Zone: SENSITIVE.

DuckDB reads UTF-8, in all threads. Other encodings are read by Arrow, as a stream that DuckDB takes the columns from.
The header tells the separator unless the spec does; no record is looked at to guess how a file is written.
"""

from __future__ import annotations

import codecs
import csv
import io
import os
import re
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from privcube.errors import DataError, Plain
from privcube.model.columns.text_files import SEPARATORS, TextFile
from privcube.sensitive.coding import quoted_text
from privcube.sensitive.duckdb_session import Columns
from privcube.sensitive.scans import listed_files, numbered_columns

if TYPE_CHECKING:
    import duckdb

_LONGEST_HEADER: Final = 1 << 20
_END: Final = 1 << 22  # bytes, more than DuckDB takes for one record
_BLOCK: Final = 1 << 24  # bytes that Arrow parses at a time: no record may be longer


class CsvFiles:
    """Text files with a header, read as text; without a declared separator it is , ; tab or |, as the header tells."""

    def __init__(self, files: Sequence[str], text: TextFile) -> None:
        self._files = files
        self._text = text
        self.name = f"file {Path(files[0]).name!r}" + (f" and {len(files) - 1:,} more" if len(files) > 1 else "")
        self.expected = (
            f"records that can be read to the end: in {text.encoding} (say another encoding in [data]), with as many "
            "fields as the header, quotation marks in pairs, and lines that all end alike"
        )

    def columns(self, connection: duckdb.DuckDBPyConnection) -> Columns:
        """The names in the header; all are text."""
        headers = {_header(file, self._text) for file in self._files}
        first = next(iter(headers))
        for names, _ in headers:
            if sorted(names) != sorted(first[0]):
                raise DataError(self.name, expected="the same columns in all files")
        return [(name, "comma" if self._text.decimal == "," else "text") for name in first[0]]

    @property
    def facts(self) -> dict[str, str]:
        """How the files are written, for people."""
        separators = {_header(file, self._text)[1] for file in self._files}
        told = " or ".join("tab" if separator == "\t" else repr(separator) for separator in sorted(separators))
        return {"encoding": self._text.encoding, "separator": told, "decimal": repr(self._text.decimal)}

    def open(self, connection: duckdb.DuckDBPyConnection, used: Sequence[str]) -> str:
        """One reading per order of columns, or per file if Arrow reads them."""
        alike: defaultdict[tuple[tuple[str, ...], str], list[str]] = defaultdict(list)
        for file in self._files:
            self._require_an_end(file)
            alike[_header(file, self._text)].append(file)
        readings: list[str] = []
        for (names, separator), files in alike.items():
            columns = [f"f{names.index(name)}" for name in used]
            if self._text.encoding == "utf-8":
                sources = [_read_by_duckdb(files, len(names), separator)]
            else:
                sources = [f"text{len(readings) + number}" for number in range(len(files))]
                for source, file in zip(sources, files, strict=True):
                    connection.register(source, _read_by_arrow(file, len(names), separator, self._text.encoding))
            readings += [numbered_columns(source, columns) for source in sources]
        return f"({' UNION ALL '.join(readings)}) AS records"

    def _require_an_end(self, file: str) -> None:
        """Refuse a last line without end, which DuckDB leaves out without a word if it is longer than its buffers."""
        end = _end_of(file)
        if len(end) == _END and not re.search(rb"[\r\n]", end[:-2]):
            raise DataError(self.name, expected=self.expected)


def _read_by_duckdb(files: Sequence[str], width: int, separator: str) -> str:
    types = ", ".join(f"'f{number}': 'VARCHAR'" for number in range(width))
    return (
        f"read_csv({listed_files(files)}, auto_detect = false, header = true, delim = {quoted_text(separator)}, "
        f"quote = '\"', escape = '\"', columns = {{{types}}}, strict_mode = true, null_padding = false, "
        "hive_partitioning = false)"
    )


def _read_by_arrow(file: str, width: int, separator: str, encoding: str) -> Any:
    """A stream of batches of text; an encoding that does not fit stops it."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    names = [f"f{number}" for number in range(width)]
    return arrow_csv.open_csv(
        _stream(file),
        read_options=arrow_csv.ReadOptions(
            encoding=encoding, column_names=names, skip_rows_after_names=1, block_size=_BLOCK
        ),
        parse_options=arrow_csv.ParseOptions(
            delimiter=separator, newlines_in_values=True, ignore_empty_lines=width > 1
        ),
        convert_options=arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
        ),
    )


def _header(file: str, text: TextFile) -> tuple[tuple[str, ...], str]:
    """The names in the first line, and the separator: the one there most often, not counting quoted names."""
    with _stream(file) as stream:
        start = stream.read(_LONGEST_HEADER)
    subject = f"file {Path(file).name!r}"
    if not start:
        raise DataError(subject, expected="a header with the names of the columns", given=Plain("an empty file"))
    told = _decoded(start, text, subject)
    line = re.split("[\r\n]", re.sub('"[^"]*"', "", told), maxsplit=1)[0]
    if re.fullmatch(r"sep=.?", line):
        raise DataError(subject, expected="a first line with the names of the columns; remove the line that says sep=")
    separator = text.separator or ("\t" if ".tsv" in Path(file).name.lower() else max(SEPARATORS, key=line.count))
    return tuple(next(csv.reader(io.StringIO(told, newline=""), delimiter=separator), [])), separator


def _decoded(start: bytes, text: TextFile, subject: str) -> str:
    """The beginning of a file as text; one that is in another encoding is refused, with what to say in the spec."""
    wide = start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in start[:64]
    decoder = codecs.getincrementaldecoder("utf-8-sig" if text.encoding == "utf-8" else text.encoding)()
    if not (wide and text.encoding == "utf-8"):
        with suppress(ValueError):  # it holds the bytes, so nothing may be raised while it is handled
            return decoder.decode(start)
    other = "utf-16" if wide else "windows-1252"
    raise DataError(
        subject,
        expected=f'text in {text.encoding}; if it is in another encoding, say so: encoding = "{other}" in [data], or '
        f"--encoding {other} of `privcube init`",
    )


def _stream(file: str) -> Any:
    import pyarrow as pa

    return pa.input_stream(file, compression={".gz": "gzip", ".zst": "zstd"}.get(Path(file).suffix.lower()))


def _end_of(file: str) -> bytes:
    """The last bytes of a file. One that is compressed is read whole: of a zstd file that was cut off, DuckDB takes
    what is there for all of it."""
    if not file.lower().endswith((".gz", ".zst")):
        with Path(file).open("rb") as plain:
            plain.seek(max(0, plain.seek(0, os.SEEK_END) - _END))
            return plain.read()
    end = b""
    with _stream(file) as stream:
        while part := stream.read(1 << 24):
            end = (end + part)[-_END:]
    return end
