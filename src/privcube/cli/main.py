"""The `privcube` command: the list of commands, and the one place where errors become an exit code.

0: success. 1: a check failed (`verify`, `ledger check`). 2: invalid input, described in one sentence on standard error.
70: an internal error. 130: interrupted.
"""

from __future__ import annotations

import io
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

import click

from privcube.cli.commands.check import check
from privcube.cli.commands.demo import demo
from privcube.cli.commands.explore import explore
from privcube.cli.commands.export import export
from privcube.cli.commands.init import init
from privcube.cli.commands.ledger import ledger
from privcube.cli.commands.plan import plan
from privcube.cli.commands.query import query
from privcube.cli.commands.release import release
from privcube.cli.commands.show import show
from privcube.cli.commands.verify import verify
from privcube.cli.commands.whole import whole
from privcube.cli.output import say
from privcube.errors import PrivcubeError, Told
from privcube.version import __version__

COMMANDS: Final = (init, check, plan, release, show, explore, query, verify, export, whole, ledger, demo)


class _InOrder(click.Group):
    """Lists the commands in the order of their use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


@click.group(cls=_InOrder, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="privcube")
def cli() -> None:
    """Publish tables from sensitive records with a differential-privacy guarantee.

    \b
    Example:
      privcube demo                  see it work on an example
      privcube init                  write a spec.toml to start from
      privcube check spec.toml       see whether the data fits, before anything is charged
      privcube plan spec.toml        see what error to expect, before any data is read
      privcube release spec.toml     publish the tables in a folder
      privcube show out sex age      show one table with its error bars
      privcube explore out           look at the tables in a browser

    \b
    To let the shell complete commands, tables and labels, run
      eval "$(_PRIVCUBE_COMPLETE=bash_source privcube)"
    or the same with zsh_source or fish_source.
    """


for command in COMMANDS:
    cli.add_command(command)


def main() -> None:
    """Run the command line; invalid input gives exit code 2 and a one-sentence message."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # escape what the terminal's encoding lacks, as on stderr
        sys.stdout.reconfigure(errors="backslashreplace")
    with _interrupts() as interrupts:
        code = _exit_code(interrupts)
    sys.exit(code)


def _exit_code(interrupts: list[int]) -> int:
    try:
        code = cli(prog_name="privcube", standalone_mode=False)
    except click.ClickException as problem:
        problem.show()
        return problem.exit_code
    except (click.Abort, KeyboardInterrupt) as problem:
        return _say_interrupted(problem)
    except PrivcubeError as problem:
        if interrupts:  # a library was interrupted and reported it as an error of its own
            return _say_interrupted(problem)
        say(f"privcube: {problem}{_notes(problem)}", to_stderr=True)
        return 2
    except OSError as problem:
        where = "" if problem.filename is None else f"file {problem.filename!r}: "
        given = f"expected to read and write, given {problem.strerror!r}"
        say(f"privcube: {where}{given}{_notes(problem)}", to_stderr=True)
        return 2
    except Exception as problem:
        _say_where(problem)
        return 70
    return code if isinstance(code, int) else 0


@contextmanager
def _interrupts() -> Iterator[list[int]]:
    """Record interrupts, each of which still raises KeyboardInterrupt."""
    seen: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        seen.append(number)
        raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:  # as in a background job
        yield seen
        return
    signal.signal(signal.SIGINT, interrupt)
    try:
        yield seen
    finally:
        signal.signal(signal.SIGINT, before)


def _notes(problem: BaseException) -> str:
    """What we noted ourselves, such as what was charged; Click raises an exception of its own for an interrupt."""
    noted = [*getattr(problem, "__notes__", ()), *getattr(problem.__cause__, "__notes__", ())]
    return "".join(f". {note.removesuffix('.')}" for note in noted if isinstance(note, Told))


def _say_interrupted(problem: BaseException) -> int:
    say(f"privcube: interrupted{_notes(problem)}", to_stderr=True)
    return 130


def _say_where(problem: Exception) -> None:
    """Print which error occurred and where in the code, without its message, which may quote records."""
    name, noted = type(problem).__name__, _notes(problem)
    say(f"privcube: internal error {name}; please report it with these lines{noted}", to_stderr=True)
    for frame in traceback.extract_tb(problem.__traceback__):
        say(f"  {frame.filename}, line {frame.lineno}, in {frame.name}", to_stderr=True)
