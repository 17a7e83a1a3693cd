"""Write docs/cli.md from the help of every command; with --check, only say whether the file is up to date."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from privcube.cli.main import cli

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "cli.md"
WIDTH: Final = 100

OPENING: Final = """\
# Command line

This page is generated from the commands' own help: `make docs` writes it, `make check` tells when it is out of date.

Exit codes: 0 done; 1 a check failed (`verify`, `ledger check`); 2 something is wrong with the input, in one sentence on
standard error; 70 an error inside privcube; 130 interrupted.
"""


def page() -> str:
    """The whole page, the same on every terminal."""
    whole = click.Context(cli, info_name="privcube", terminal_width=WIDTH, max_content_width=WIDTH, **_settings(cli))
    return "\n".join([OPENING, *_sections(cli, whole)])


def _sections(command: click.Command, context: click.Context) -> Iterator[str]:
    text = "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
    yield f"## `{context.command_path}`\n\n```text\n{text}\n```\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if inner is not None and not inner.hidden:
                yield from _sections(inner, click.Context(inner, info_name=name, parent=context, **_settings(inner)))


def _settings(command: click.Command) -> dict[str, object]:
    return dict(command.context_settings)


def main() -> int:
    """Write the page, or check it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the page is out of date")
    text = page()
    if not parser.parse_args().check:
        PAGE.write_text(text, encoding="utf-8")
        print(f"wrote {PAGE.name}")
        return 0
    if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
        print(f"docs/{PAGE.name} is out of date: run `make docs` and commit the result", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
