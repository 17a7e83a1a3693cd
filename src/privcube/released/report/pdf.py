"""A report as PDF, by fpdf2: pure Python, no browser and no system library. Zone: RELEASED.

Of the ways to make a PDF, WeasyPrint needs Pango and a browser is 300 MB; fpdf2 is 2 MB, and draws what it is told. Its
built-in fonts have Latin letters only. DejaVu, which has most alphabets, is used where it is installed, by the system
or with matplotlib. Letters that the font does not have, such as Chinese ones, become question marks, and the report
says so; the report as HTML has all letters.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from privcube.extras import load
from privcube.released.report.bars import extent, shortened, ticks
from privcube.released.report.content import Chart, Grid, Report, Section

_SYSTEM: Final = Path("/usr/share/fonts/truetype/dejavu")
_SMALL: Final = 8
_ROW: Final = 5.2  # millimeters of a bar
_AXIS: Final = 16.0  # millimeters of the axis and the key below the bars
_LABELS, _TEXTS = 62.0, 34.0  # millimeters beside the bars
_WIDEST: Final = 9  # columns of a table that can be printed
_FILL: Final = {"ok": (43, 108, 163), "uncertain": (143, 180, 211), "holds zero": (245, 245, 245)}


def report_pdf(report: Report) -> bytes:
    """The document."""
    library = load("fpdf", extra="report", purpose="reports as PDF")
    return _Document(library, report).content()


def _fonts(library: Any) -> tuple[Path, Path] | None:
    """DejaVu Sans, plain and bold, where it is installed."""
    beside = Path(library.__file__).resolve().parent.parent / "matplotlib" / "mpl-data" / "fonts" / "ttf"
    for place in (_SYSTEM, beside):
        plain, bold = place / "DejaVuSans.ttf", place / "DejaVuSans-Bold.ttf"
        if plain.is_file() and bold.is_file():
            return plain, bold
    return None


class _Document:
    """A PDF that is written from top to bottom."""

    def __init__(self, library: Any, report: Report) -> None:
        self._pdf = library.FPDF(format="A4")
        self._pdf.set_auto_page_break(True, margin=18)
        self._pdf.set_title(report.title)
        fonts = _fonts(library)
        self._plain = fonts is None
        self._family = "Helvetica" if fonts is None else "DejaVu"
        if fonts is not None:
            self._pdf.add_font("DejaVu", "", fonts[0])
            self._pdf.add_font("DejaVu", "B", fonts[1])
            plain, bold = (self._pdf.fonts[key].cmap for key in ("dejavu", "dejavuB"))
            self._letters = plain.keys() & bold.keys()
        self._lost = False
        self._cover(report)
        for section in report.sections:
            self._section(section)
        if self._lost:
            self._paragraph(
                "Question marks stand for letters that the fonts of this document do not have. "
                "The report as HTML has them."
            )

    def content(self) -> bytes:
        """The bytes of the document."""
        return bytes(self._pdf.output())

    def _text(self, text: str) -> str:
        if self._plain:
            plain = text.replace("±", "+-").replace("·", "-").replace("…", "...")
            shown = plain.encode("latin-1", "replace").decode("latin-1")
        else:
            shown = "".join(letter if letter.isspace() or ord(letter) in self._letters else "?" for letter in text)
        self._lost = self._lost or shown.count("?") > text.count("?")
        return shown

    def _font(self, size: float, style: str = "") -> None:
        self._pdf.set_font(self._family, style, size)

    def _paragraph(self, text: str, size: float = 10, style: str = "") -> None:
        self._font(size, style)
        self._pdf.multi_cell(0, size * 0.5, self._text(text), new_x="LMARGIN", new_y="NEXT", wrapmode="WORD")
        self._pdf.ln(1.6)

    def _cover(self, report: Report) -> None:
        self._pdf.add_page()
        self._pdf.ln(40)
        self._paragraph(report.title, 24, "B")
        self._pdf.ln(6)
        for key, text in report.about.items():
            self._paragraph(key, 9, "B")
            self._paragraph(text, 11)
        self._pdf.ln(6)
        self._paragraph(f"Guarantee: {report.guarantee}", 11, "B")
        self._pdf.add_page()

    def _section(self, section: Section) -> None:
        if section.page:
            self._pdf.add_page()
        self._pdf.ln(3)
        self._font(13, "B")
        heading = self._pdf.multi_cell(0, 6.5, self._text(section.heading), dry_run=True, output="HEIGHT")
        if self._pdf.will_page_break(heading + 25):  # no heading without something below it
            self._pdf.add_page()
        self._pdf.start_section(self._text(section.heading)[:100])
        self._paragraph(section.heading, 13, "B")
        for block in section.blocks:
            if isinstance(block, str):
                self._paragraph(block)
            elif isinstance(block, Chart):
                self._chart(block)
            else:
                self._grid(block)

    def _chart(self, chart: Chart) -> None:
        pdf, (low, high) = self._pdf, extent(chart)
        left = pdf.l_margin + _LABELS
        width = pdf.epw - _LABELS - _TEXTS

        def x(number: float) -> float:
            return float(left + (min(max(number, low), high) - low) / (high - low) * width)

        self._font(_SMALL)
        if pdf.will_page_break(min(_ROW * len(chart.bars) + _AXIS, pdf.eph / 2)):
            pdf.add_page()
        for bar in chart.bars:
            if pdf.will_page_break(_ROW + _AXIS):  # the axis stays with the last bar
                pdf.add_page()
            top = pdf.get_y()
            pdf.cell(_LABELS - 2, _ROW, self._fitted(shortened(bar.label), _LABELS - 2), align="R")
            ends = sorted((x(0.0), x(bar.estimate)))
            pdf.set_fill_color(*_FILL[bar.trust])
            pdf.set_draw_color(120)
            pdf.rect(
                ends[0],
                top + 1,
                max(ends[1] - ends[0], 0.1),
                _ROW - 2,
                style="F" if bar.trust != "holds zero" else "DF",
            )
            pdf.set_draw_color(0)
            pdf.line(x(bar.low), top + _ROW / 2, x(bar.high), top + _ROW / 2)
            pdf.set_x(left + width + 2)
            pdf.cell(_TEXTS - 2, _ROW, self._fitted(bar.text, _TEXTS - 2), new_x="LMARGIN", new_y="NEXT")
        top = pdf.get_y()
        for tick in ticks(low, high, 4):
            pdf.set_xy(x(tick) - 10, top)
            pdf.cell(20, 4, f"{tick:,.10g}", align="C")
        pdf.set_xy(pdf.l_margin, top + 6)
        pdf.set_fill_color(255)
        self._paragraph(
            "Lines: intervals of 95 %. Light bars: uncertain. Outlined bars: zero lies in the interval.", _SMALL
        )

    def _fitted(self, text: str, width: float) -> str:
        """A text cut to a width."""
        shown = self._text(text)
        while len(shown) > 1 and self._pdf.get_string_width(shown) > width - 1:
            shown = shown[:-1]
        return shown

    def _grid(self, grid: Grid) -> None:
        if len(grid.header) > _WIDEST:
            self._paragraph(f"The table has {len(grid.header):,} columns, too many for a page.")
            return
        self._font(_SMALL)
        align = ["LEFT" if at < grid.labels else "RIGHT" for at in range(len(grid.header))]
        with self._pdf.table(
            text_align=align, line_height=4.2, borders_layout="HORIZONTAL_LINES", padding=0.6, width=self._pdf.epw
        ) as table:
            for number, row in enumerate((grid.header, *grid.rows)):
                line = table.row()
                trust = grid.trust[number - 1] if grid.trust and number else (None,) * len(row)
                for text, word in zip(row, trust, strict=True):
                    flag = {"uncertain": " (u)", "holds zero": " (0)"}.get(word or "", "")
                    line.cell(self._text(f"{text}{flag}") or " ")
        self._pdf.ln(2)
        if grid.trust:
            self._paragraph("(u): uncertain. (0): zero lies in the interval.", _SMALL)
