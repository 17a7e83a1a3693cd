"""Excel: a cover, a list of tables with links, a codebook, and a sheet for every table. Zone: RELEASED.

Names of sheets have at most 31 characters, so the full title stands above every table. Text is marked as text, even if
it looks like a formula.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from privcube.errors import ArtifactError
from privcube.extras import load
from privcube.model.workload import table_name
from privcube.progress import PACKING, Progress
from privcube.released.exports.notes import about, notes, title_of
from privcube.released.labels import RELIABILITY
from privcube.released.presentation.codebook import COLUMNS, codebook_rows
from privcube.released.presentation.tables import PublishedTable, number_titles
from privcube.released.release import Release, TableValues

_MOST_ROWS: Final = 1_048_000  # of a sheet, by Excel's limit, but for the lines above a table
_LONGEST_NAME: Final = 31  # characters of a sheet's name, by Excel's limit
_LONGEST_TEXT: Final = 32_767  # characters of a cell, by Excel's limit
_WIDEST: Final = 48  # of a column, in characters
_WIDEST_PROSE: Final = 100  # width of a column of prose


def excel_bytes(
    release: Release, values: Sequence[TableValues], tables: Iterable[PublishedTable], progress: Progress
) -> bytes:
    """All tables in one workbook."""
    library = load("openpyxl", extra="excel", purpose="Excel files")
    for own in values:
        if own.estimate.size >= _MOST_ROWS:
            raise ArtifactError(table_name(own.table), expected=f"under {_MOST_ROWS:,} rows", given=own.estimate.size)
    pages = _Book(library, library.Workbook(write_only=True))
    taken = {"about", "tables", "codebook"}
    titles = [release.words.table_title(own.table) for own in values]
    names = [_name(f"{number} {title}", taken) for number, title in enumerate(titles, start=1)]
    _cover(pages, release)
    listed = pages.sheet("Tables", (80, 40, 10, 12), below=1)
    pages.add(listed, [(text, _BOLD) for text in ("table", "name", "numbers", "std. error of a number")])
    _codebook(pages, release)
    for name, table in zip(names, tables, strict=True):
        _table(pages, name, table)
        middle = math.sqrt(sum(float(error) ** 2 for error in table.numbers["std_error"].tolist()) / table.cells)
        line: list[tuple[Any, str | int]] = [
            (table.title, f"#{name}"),
            (table.name, ""),
            (table.cells, 0),
            (middle, table.decimals),
        ]
        pages.add(listed, line)
    progress(PACKING, 0, None)
    return pages.content()


_BOLD, _TITLE, _PROSE, _HEADING = "bold", "title", "prose", "heading"


class _Book:
    """Writes sheets line by line; a cell is a value and a style, a number of decimals, or a link such as #Tables."""

    def __init__(self, library: Any, book: Any) -> None:
        self._library, self._book = library, book
        styles = library.styles
        self._fonts = {
            _BOLD: styles.Font(bold=True),
            _TITLE: styles.Font(bold=True),
            _HEADING: styles.Font(bold=True, size=16),
            "link": styles.Font(color="0563C1", underline="single"),
        }
        self._wrapped = styles.Alignment(wrap_text=True, vertical="top")

    def sheet(self, name: str, widths: Sequence[float], below: int = 0) -> Any:
        """A new sheet with columns of these widths, whose first lines stay in view."""
        made = self._book.create_sheet(name)
        for at, width in enumerate(widths):
            made.column_dimensions[_letter(at)].width = min(width, _WIDEST_PROSE)
        if below:
            made.freeze_panes = f"A{below + 1}"
        return made

    def add(self, sheet: Any, cells: Sequence[tuple[Any, str | int]]) -> None:
        """Write a line; text stays text, even if it looks like a formula."""
        sheet.append([self._cell(sheet, value, style) for value, style in cells])

    def _cell(self, sheet: Any, value: Any, style: str | int) -> Any:
        if isinstance(value, float) and not math.isfinite(value):
            return None
        cell = self._library.cell.WriteOnlyCell(sheet, value=value[:_LONGEST_TEXT] if isinstance(value, str) else value)
        if isinstance(style, int):
            cell.number_format = _format(style)
        elif style.startswith("#"):
            link = self._library.worksheet.hyperlink.Hyperlink
            cell.hyperlink = link(ref="", location=f"'{style[1:]}'!A1")
            cell.font = self._fonts["link"]
        elif style in self._fonts:
            cell.font = self._fonts[style]
        if style in (_PROSE, _BOLD):
            cell.alignment = self._wrapped
        if isinstance(value, str):
            cell.data_type = "s"
        return cell

    def content(self) -> bytes:
        """The workbook as bytes."""
        out = io.BytesIO()
        self._book.save(out)
        return out.getvalue()


def _cover(book: _Book, release: Release) -> None:
    sheet = book.sheet("About", (20, _WIDEST_PROSE))
    book.add(sheet, [(title_of(release), _HEADING)])
    book.add(sheet, [])
    for title, text in about(release).items():
        book.add(sheet, [(title, _BOLD), (text, _PROSE)])
    book.add(sheet, [("Guarantee", _BOLD), (str(release.plan.guarantee), _PROSE)])
    for text in notes(release):
        book.add(sheet, [("", ""), (text, _PROSE)])
    book.add(sheet, [])
    book.add(sheet, [("Tables", "#Tables")])
    book.add(sheet, [("Codebook", "#Codebook")])


def _codebook(book: _Book, release: Release) -> None:
    sheet = book.sheet("Codebook", (24, 16, 24, 40, 60), below=1)
    book.add(sheet, [(name, _BOLD) for name in COLUMNS])
    for row in codebook_rows(release.workload.schema, release.words):
        book.add(sheet, [(text, "") for text in row])


def _table(book: _Book, name: str, table: PublishedTable) -> None:
    titles = number_titles()
    header = [column.title for column in table.columns]
    header += [titles.get(column, column) for column in (*table.numbers, RELIABILITY)]
    labels = [
        [column.labels[cell] for cell in place]
        for column, place in zip(table.columns, table.cells_along(), strict=True)
    ]
    columns = [*labels, *(own.tolist() for own in table.numbers.values()), table.reliability()]
    widths = [
        _width(text, column, at < len(labels)) for at, (text, column) in enumerate(zip(header, columns, strict=True))
    ]
    sheet = book.sheet(name, widths, below=4)
    book.add(sheet, [(table.title, _TITLE)])
    book.add(sheet, [("all tables", "#Tables")])
    book.add(sheet, [])
    book.add(sheet, [(text, _BOLD) for text in header])
    styles: list[str | int] = [*([""] * len(labels)), *table.places.values(), ""]
    for row in zip(*columns, strict=True):
        book.add(sheet, list(zip(row, styles, strict=True)))


def _width(title: str, column: Sequence[Any], is_label: bool) -> float:
    longest = max((len(str(value)) for value in column[:1000]), default=0) + 2
    return min(max(longest, len(title) + 2 if is_label else 12), _WIDEST)


def _letter(at: int) -> str:
    return (_letter(at // 26 - 1) if at >= 26 else "") + chr(ord("A") + at % 26)


def _format(decimals: int) -> str:
    return f"#,##0.{'0' * decimals}" if decimals else "#,##0"


def _name(title: str, taken: set[str]) -> str:
    """A new name for a sheet, short and without the characters that Excel reserves."""
    plain = re.sub(r"[\\/?*\[\]:']+", " ", title).strip()[:_LONGEST_NAME].strip() or "table"
    name, number = plain, 1
    while name.casefold() in taken:
        number += 1
        name = f"{plain[: _LONGEST_NAME - len(str(number)) - 1]} {number}"
    taken.add(name.casefold())
    return name
