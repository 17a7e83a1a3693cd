"""`privcube ledger`: show what was spent and what is left, check the ledger, and clean up after a crash."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from privcube.cli.output import count_of, say, say_columns, say_json

if TYPE_CHECKING:
    from privcube.model.documents.spec import Spec
    from privcube.pipeline import LedgerStatus


_LONGEST_SOURCE: Final = 40  # characters of a source in the list; --json has all of them


class _ShowByDefault(click.Group):
    """Treats `privcube ledger spec.toml` as `privcube ledger show spec.toml`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words = [word for word in args if not word.startswith("-")]
        if len(words) == 1 and words[0] not in self.commands:
            args = ["show", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_ShowByDefault)
def ledger() -> None:
    """Show what was spent and what is left.

    `privcube ledger SPEC` is short for `privcube ledger show SPEC`.

    \b
    Example:
      privcube ledger spec.toml
      privcube ledger check spec.toml
      privcube ledger recover spec.toml
    """


@ledger.command()
@click.argument("spec", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="Print the ledger as JSON.")
def show(spec: str, as_json: bool) -> None:
    """List releases and what is left.

    For every release in SPEC's ledger: its state, since when, its folder, and its cost.

    \b
    Example:
      privcube ledger show spec.toml --json
    """
    declared, status = _status(spec)
    if as_json:
        say_json(_document(status))
    else:
        _show(declared, status, spec)


@ledger.command()
@click.argument("spec", type=click.Path())
def check(spec: str) -> None:
    """Check the ledger and published folders.

    Every event of SPEC's ledger must follow from the previous one, and every folder must hold what was published.

    The exit code is 1 if a folder was changed, 2 if the ledger itself is damaged.

    \b
    Example:
      privcube ledger check spec.toml
    """
    from privcube.released.artifact.store import is_unchanged

    declared, status = _status(spec)
    say(f"{_name(declared)}: {count_of(len(status.entries), 'release')}, every event follows from the previous one")
    changed = 0
    for entry in status.entries:
        if entry.state != "published" or entry.final is None:
            say(f"release {entry.number}: {entry.state}")
        elif not Path(entry.final).is_dir():
            say(f"release {entry.number}: published, but missing from {_short(entry.final)}")
        elif is_unchanged(Path(entry.final), entry.artifact):
            say(f"release {entry.number}: published, {_short(entry.final)} is unchanged")
        else:
            changed += 1
            say(f"release {entry.number}: CHANGED, {_short(entry.final)} is not what was published")
    say(f"head {status.head}")
    if changed:
        sys.exit(1)


@ledger.command()
@click.argument("spec", type=click.Path())
def recover(spec: str) -> None:
    """Clean up after a crash.

    Publishes exactly what was committed, and abandons the rest. Releases that are still running are abandoned,
    too, and will fail. Their cost stays spent.

    \b
    Example:
      privcube ledger recover spec.toml
    """
    from privcube.model.documents.spec import Spec
    from privcube.pipeline import recover_ledger

    declared = Spec.read(spec)
    done = recover_ledger(declared, folder=Path(spec).parent)
    for number, state in done:
        say(f"release {number}: {state}")
    if not done:
        say("nothing to recover: every release is published or abandoned")


def _status(spec: str) -> tuple[Spec, LedgerStatus]:
    from privcube.model.documents.spec import Spec
    from privcube.pipeline import ledger_status

    declared = Spec.read(spec)
    return declared, ledger_status(declared, folder=Path(spec).parent)


def _name(spec: Spec) -> str:
    """The ledger's address, without user and password."""
    from privcube.model.documents.spec import DataSource
    from privcube.pipeline import source_name

    return source_name(DataSource(source=spec.ledger.path)) if spec.ledger is not None else "none"


def _show(declared: Spec, status: LedgerStatus, spec: str) -> None:
    from privcube.cli.rooms import room_left
    from privcube.model.amounts import shown, shown_down
    from privcube.model.privacy.composition import price_in

    say(f"Ledger      {_name(declared)}")
    say(f"Data        {status.dataset}")
    say(f"Total       {status.total}")
    for account in status.spending.accounts:
        left, spent = shown_down(account.left), shown(account.spent)
        say(f"Left        {account.currency} {left} of {shown(account.limit)}; {spent} is spent")
    for words in room_left(status.spending).values():
        say(f"Room        {words}")
    if not status.entries:
        return
    say()
    lines = [
        (
            str(entry.number),
            entry.state,
            f"{entry.times[entry.state]:%Y-%m-%d %H:%M} UTC",
            _start_of(entry.source or ""),
            "" if entry.final is None else _short(entry.final),
            shown(price_in(status.account.currency, entry.guarantee) or entry.cost),
        )
        for entry in status.entries
    ]
    say_columns(("release", "state", "since", "source", "folder", status.account.currency), lines, left=5)
    if any(entry.state in ("reserved", "committed") for entry in status.entries):
        say()
        say(f"Some releases are unfinished. If none is running, clean up with: privcube ledger recover {spec}")


def _document(status: LedgerStatus) -> dict[str, Any]:
    from privcube.cli.rooms import room_left
    from privcube.model.amounts import decimal_text
    from privcube.model.privacy.composition import price_in

    return {
        "dataset": status.dataset,
        "guarantee": str(status.total),
        "currency": status.account.currency,
        "total": decimal_text(status.account.limit),
        "spent": decimal_text(status.account.spent),
        "remaining": decimal_text(status.remaining),
        **room_left(status.spending),
        "head": status.head,
        "releases": [
            {
                "number": entry.number,
                "state": entry.state,
                "cost": decimal_text(price_in(status.account.currency, entry.guarantee) or entry.cost),
                "guarantee": str(entry.guarantee),
                "plan": entry.plan,
                "source": entry.source,
                "artifact": entry.artifact,
                "folder": entry.final,
                "times": {state: time.isoformat() for state, time in entry.times.items()},
            }
            for entry in status.entries
        ],
    }


def _start_of(source: str) -> str:
    return source if len(source) <= _LONGEST_SOURCE else f"{source[: _LONGEST_SOURCE - 3]}..."


def _short(folder: str) -> str:
    """A folder, relative to the current one if inside it."""
    place = Path(folder)
    return str(place.relative_to(Path.cwd())) if place.is_relative_to(Path.cwd()) else folder
