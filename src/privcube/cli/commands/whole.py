"""`privcube whole`: whole numbers for a release that was made without them."""

from __future__ import annotations

from pathlib import Path

import click

from privcube.cli.output import count_of, say
from privcube.cli.progress import Progress


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path())
@click.option("--output", type=click.Path(), metavar="NEW", help="The folder to create; by default DIR-whole.")
@click.option(
    "--effort",
    type=click.Choice(["fast", "normal", "thorough"]),
    default="normal",
    show_default=True,
    help="How many particles to look for records with.",
)
@click.option("--records", is_flag=True, help="Also write the synthetic records behind the counts.")
@click.option("--intervals", is_flag=True, help="Also write the whole numbers that each true count can be, with 95%.")
@click.option("--spec", type=click.Path(), help="Honor what is known by this spec.toml: [known] and [[impossible]].")
def whole(folder: str, output: str | None, effort: str, records: bool, intervals: bool, spec: str | None) -> None:
    """Add whole numbers to a release.

    Copies the release in DIR to a new folder in which every table has a column `count`: whole numbers that are not
    negative, agree with each other and can occur together. It needs only DIR, and costs no privacy. A few attributes
    take seconds; all pairs of 100 attributes take a minute or two and half a gigabyte of memory.

    \b
    Example:
      privcube whole out
      privcube whole out --records --output out-with-records
      privcube whole out --intervals
      privcube whole out --spec spec.toml
    """
    from privcube.model.documents.spec import Spec
    from privcube.released.release import Release
    from privcube.released.whole.release import WholeRelease, facts_of

    place = Path(folder)
    named = place if place.name not in ("", "..") else place.resolve()
    target = named.with_name(f"{named.name}-whole") if output is None else Path(output)
    release = Release.open(place)
    if spec is not None:
        release = release.knowing(facts_of(Spec.read(spec)))
    with Progress() as progress:
        made = WholeRelease.of(release, effort, progress)
        made = made.with_intervals() if intervals else made
        (made if records else made.without_records()).save(target, progress=progress)
    tables, total = count_of(len(release.workload), "table"), count_of(int(made.counts(())), "record")
    say(f"wrote {tables} with whole numbers of {total} in all to {target}")
