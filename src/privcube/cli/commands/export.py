"""`privcube export`: tables of a release as files for other programs."""

from __future__ import annotations

from pathlib import Path

import click

from privcube.cli import completion
from privcube.cli.output import count_of, say
from privcube.cli.progress import Progress


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path())
@click.argument("table", nargs=-1, shell_complete=completion.tables)
@click.option(
    "--format",
    "kind",
    type=click.Choice(["csv", "parquet", "xlsx", "json-stat"]),
    required=True,
    help="The kind of file.",
)
@click.option("--to", "path", type=click.Path(), required=True, metavar="PATH", help="Where to write it.")
def export(folder: str, table: tuple[str, ...], kind: str, path: str) -> None:
    """Write tables for other programs.

    Writes all tables of the release in DIR to PATH, or only the named ones. Every TABLE is one table: sex,
    "sex x age", "sex x age by stage". Nothing is overwritten.

    \b
    Example:
      privcube export out --format xlsx --to tables.xlsx
      privcube export out "sex x age" outcome --format csv --to tables
    """
    from privcube.cli.tables import table_from
    from privcube.released.exports import export as write
    from privcube.released.release import Release

    release = Release.open(folder)
    schema = release.workload.schema
    tables = [table_from(schema, [name]) for name in table] or list(release.workload)
    with Progress() as progress:
        write(release, tables, kind, Path(path), progress=progress)
    say(f"wrote {count_of(len(tables), 'table')} to {path}")
