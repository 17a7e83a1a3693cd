"""`privcube init`: a spec.toml to start from."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import click

from privcube.cli.example import EXAMPLE
from privcube.cli.files import write_new
from privcube.cli.output import say
from privcube.errors import Plain, SpecError


@click.command()
@click.argument("path", type=click.Path(), default="spec.toml")
@click.option("--from", "source", metavar="SOURCE", help="Draft from data: a file, glob, database or URL.")
@click.option("--table", metavar="NAME", help="The table of a database to draft from.")
@click.option("--query", metavar="SELECT", help="The query of a database to draft from.")
@click.option("--encoding", metavar="NAME", help="How a text file is encoded, if it is not UTF-8.")
@click.option("--separator", metavar="SIGN", help="What separates the fields of a text file, if the header misleads.")
@click.option("--decimal", metavar="SIGN", help="The decimal mark of a text file, if it is a comma.")
@click.option("--domain", type=click.Path(), metavar="JSON", help="Take the attributes from private-pgm's domain JSON.")
def init(
    path: str,
    source: str | None,
    table: str | None,
    query: str | None,
    encoding: str | None,
    separator: str | None,
    decimal: str | None,
    domain: str | None,
) -> None:
    """Write a spec.toml to start from.

    Writes an example, or a draft from your data, to PATH (spec.toml). A draft lists the values found in the data,
    which may themselves be sensitive: every attribute is marked as a draft, and a release refuses it until you
    have checked it and removed the mark. Columns that cannot be published as they are, such as identifiers and free
    text, are named in a comment with the reason. Comments say what is to be decided.

    \b
    Example:
      privcube init
      privcube init --from people.csv
      privcube init --from postgresql://user@host/hospital --table discharges
      privcube init mine.toml --domain adult-domain.json
    """
    if source is not None and domain is not None:
        raise SpecError("init", expected="--from or --domain", given=Plain("both"))
    if source is not None:
        given = {"encoding": encoding, "separator": separator, "decimal": decimal}
        written = {key: value for key, value in given.items() if value is not None}
        text = _from_data(path, source, table, query, written)
        advice = "check that its values are public knowledge, remove `draft = true`"
    elif domain is not None:
        text = _from_domain(Path(domain))
        advice = "edit it"
    else:
        text, advice = EXAMPLE, "edit it"
    write_new(path, text)
    say(f"wrote {path}; next: {advice}, then `privcube plan {shlex.quote(path)}`")


def _from_data(path: str, source: str, table: str | None, query: str | None, text: dict[str, str]) -> str:
    from privcube.model.columns.text_files import TextFile
    from privcube.model.documents.spec import is_url
    from privcube.pipeline import draft

    local = not is_url(source) and not Path(source).is_absolute()
    shown = os.path.relpath(source, Path(path).parent) if local else source  # a spec names files from where it is
    return draft(source, table=table, query=query, text=TextFile(**text) if text else None, shown=shown)


def _from_domain(file: Path) -> str:
    from privcube.model.documents.request import WorkloadRequest
    from privcube.model.documents.spec import DataSource, Spec
    from privcube.model.privacy.guarantee import PureDP
    from privcube.model.schema import Schema

    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        reason = getattr(problem, "strerror", None) or "not text in UTF-8"
        raise SpecError(f"domain {file.name!r}", expected="a readable JSON file", given=Plain(reason)) from None
    spec = Spec(
        data=DataSource(source=f"{file.stem.removesuffix('-domain')}.csv"),
        guarantee=PureDP(1),
        schema=Schema.from_domain_json(text),
        request=WorkloadRequest(all_kway=(1,)),
    )
    return spec.to_toml()
