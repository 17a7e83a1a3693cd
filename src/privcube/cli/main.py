"""The `privcube` command: the list of commands, and the one place where errors become an exit code."""

from __future__ import annotations

import sys

import click

from privcube import __version__
from privcube.cli.demo import demo
from privcube.cli.init import init
from privcube.cli.plan import plan
from privcube.errors import PrivcubeError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="privcube")
def cli() -> None:
    """Publish tables from sensitive records with a differential-privacy guarantee.

    \b
    privcube init                write a spec.toml to start from
    privcube plan spec.toml      see what error to expect, before any data is read
    privcube demo                see it work on an example
    """


for command in (init, plan, demo):
    cli.add_command(command)


def main() -> None:
    """Run the command line: exit code 2 and one sentence for anything wrong with the input."""
    try:
        cli(prog_name="privcube")
    except PrivcubeError as problem:
        click.echo(f"privcube: {problem}", err=True)
        sys.exit(2)
