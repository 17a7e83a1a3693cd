"""A report as one page of HTML, to read and to print: no script, and nothing from anywhere else. Zone: RELEASED."""

from __future__ import annotations

from html import escape
from typing import Final

from privcube.released.report.bars import svg
from privcube.released.report.content import Block, Chart, Grid, Report, Section

_STYLE: Final = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; max-width: 60rem; margin: 2rem auto;
  padding: 0 1rem; overflow-wrap: anywhere; }
h1 { font-size: 2.2rem; line-height: 1.2; margin: 3rem 0 1rem; }
h2 { font-size: 1.25rem; margin: 2.2rem 0 .6rem; border-bottom: 1px solid #bbb; padding-bottom: .2rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .3rem 1.2rem; } dt { font-weight: 600; }
dd { margin: 0; white-space: pre-line; }
.guarantee { border: 1px solid #1f4e79; border-left-width: 6px; padding: .6rem 1rem; margin: 1.5rem 0; }
table { border-collapse: collapse; margin: .8rem 0; font-size: .9rem; width: 100%; }
th, td { border-bottom: 1px solid #ddd; padding: .2rem .5rem; text-align: right; vertical-align: top; }
th { border-bottom: 1.5px solid #666; } th.l, td.l { text-align: left; }
td.uncertain { color: #555; font-style: italic; } td.holds-zero { color: #6b6b6b; background: #f3f3f3; }
svg { width: 100%; height: auto; font: 12px system-ui, sans-serif; }
svg .label, svg .tick { text-anchor: end; } svg .tick { text-anchor: middle; fill: #555; font-size: 10px; }
svg .bar { fill: #2b6ca3; } svg .uncertain .bar { fill: #8fb4d3; } svg .holds-zero .bar { fill: none; stroke: #888;
  stroke-dasharray: 3 2; }
svg .whisker { stroke: #111; stroke-width: 1.4; } svg .grid { stroke: #e3e3e3; } svg .zero { stroke: #111; }
.key { color: #555; font-size: .85rem; }
@media print { body { margin: 0; max-width: none; font-size: 10.5pt; } .new { break-before: page; }
  h2 { break-after: avoid; } svg, tr { break-inside: avoid; } thead { display: table-header-group; }
  .cover { min-height: 80vh; } }
"""
_KEY: Final = (
    "Lines show intervals of 95 %. Dark bars: ok. Light bars: uncertain. Dashed bars: zero lies in the interval."
)


def report_html(report: Report) -> bytes:
    """The page."""
    about = "".join(f"<dt>{escape(key)}</dt><dd dir='auto'>{escape(text)}</dd>" for key, text in report.about.items())
    body = "".join(map(_section, report.sections))
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta http-equiv='Content-Security-Policy' content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{escape(report.title)}</title><style>{_STYLE}</style></head><body><main>"
        f"<section class='cover'><h1 dir='auto'>{escape(report.title)}</h1><dl>{about}</dl>"
        f"<p class='guarantee'><strong>Guarantee:</strong> {escape(report.guarantee)}</p></section>"
        f"{body}</main></body></html>\n"
    ).encode()


def _section(section: Section) -> str:
    kind = " class='new'" if section.page else ""
    blocks = "".join(map(_block, section.blocks))
    return f"<section{kind}><h2 dir='auto'>{escape(section.heading)}</h2>{blocks}</section>"


def _block(block: Block) -> str:
    if isinstance(block, str):
        return f"<p dir='auto'>{escape(block)}</p>"
    if isinstance(block, Chart):
        return f"<figure>{svg(block)}<figcaption class='key'>{_KEY}</figcaption></figure>"
    return _grid(block)


def _grid(grid: Grid) -> str:
    def side(at: int) -> str:
        return " class='l'" if at < grid.labels else ""

    head = "".join(f"<th scope='col'{side(at)} dir='auto'>{escape(text)}</th>" for at, text in enumerate(grid.header))
    rows = []
    for number, row in enumerate(grid.rows):
        trust = grid.trust[number] if grid.trust else (None,) * len(row)
        fields = [
            f"<td{side(at) if word is None else _trusted(word)} dir='auto'>{escape(text)}</td>"
            for at, (text, word) in enumerate(zip(row, trust, strict=True))
        ]
        rows.append(f"<tr>{''.join(fields)}</tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _trusted(word: str) -> str:
    kind = word.replace(" ", "-")
    return "" if word == "ok" else f" class='{kind}' title='{word}'"
