"""The `privcube` command: the list of commands, and the one place where errors become an exit code."""

from __future__ import annotations

import io
import sys

import click

from privcube import __version__
from privcube.cli.demo import demo
from privcube.cli.init import init
from privcube.cli.output import say
from privcube.cli.plan import plan
from privcube.errors import PrivcubeError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="privcube")
def cli() -> None:
    """Publish tables from sensitive records with a differential-privacy guarantee.

    \b
    Example:
      privcube demo                see it work on an example
      privcube init                write a spec.toml to start from
      privcube plan spec.toml      see what error to expect, before any data is read
    """


for command in (init, plan, demo):
    cli.add_command(command)


def main() -> None:
    """Run the command line: exit code 2 and one sentence for anything wrong with the input."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # a name that the terminal's encoding lacks is escaped, as on stderr
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        cli(prog_name="privcube")
    except PrivcubeError as problem:
        say(f"privcube: {problem}", to_stderr=True)
        sys.exit(2)
