"""`privcube export`: tables of a release as files for other programs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from privcube.cli import completion
from privcube.cli.output import count_of, say
from privcube.cli.progress import Progress

if TYPE_CHECKING:
    from privcube.model.workload import Entry


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path())
@click.argument("table", nargs=-1, shell_complete=completion.tables)
@click.option(
    "--format",
    "kind",
    type=click.Choice(
        [
            "csv",
            "parquet",
            "xlsx",
            "json-stat",
            "px",
            "sdmx-csv",
            "csvw",
            "codebook",
            "measurements",
            "report-html",
            "report-pdf",
        ]
    ),
    help="The kind of file; by default, what the end of PATH says (.csv, .parquet, .xlsx, .json, .px, .html, .pdf).",
)
@click.option("--to", "path", type=click.Path(), required=True, metavar="PATH", help="Where to write it.")
@click.option(
    "--shares",
    multiple=True,
    metavar="OF",
    help="Shares as well: of the total, the row, the column, or adding up over an attribute (repeatable).",
)
def export(folder: str, table: tuple[str, ...], kind: str | None, path: str, shares: tuple[str, ...]) -> None:
    """Write tables for other programs.

    Writes all tables of the release in DIR to PATH, or only the named ones. Every TABLE is one table: sex,
    "sex x age", "sex x age by stage". Nothing is overwritten. With the format measurements, it writes a folder with
    every noisy number that was measured, what it counts and how its noise was drawn.

    \b
    Example:
      privcube export out --to tables.xlsx
      privcube export out "sex x age" outcome --format csv --to tables
      privcube export out --shares row --to shares.csv
      privcube export out --format measurements --to measurements
    """
    from privcube.released.exports.export import export as write
    from privcube.released.release import Release

    release = Release.open(folder)
    tables: list[Sequence[Entry]] = [*table] or [*release.workload]
    with Progress() as progress:
        write(
            release,
            Path(path),
            tables,
            format=kind,
            shares=shares[0] if len(shares) == 1 else shares or None,
            progress=progress,
        )
    written = {
        "measurements": count_of(release.plan.rows, "measured number"),
        "codebook": f"the codebook of {count_of(len(release.workload.schema), 'attribute')}",
    }
    say(f"wrote {written.get(kind or '', count_of(len(tables), 'table'))} to {path}")
