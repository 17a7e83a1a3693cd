"""`privcube ledger`: show what was spent and what is left, check the ledger, and clean up after a crash."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from privcube.cli.output import count_of, say, say_columns, say_json

if TYPE_CHECKING:
    from fractions import Fraction

    from privcube.model.documents.spec import Spec
    from privcube.model.privacy.guarantee import Guarantee
    from privcube.pipeline import LedgerStatus


_LONGEST: Final = 30, 18  # characters of a source and a folder in the list, for 100 in a line; --json has them all
_LONGEST_BESIDE_GUARANTEES: Final = 18, 10
_MOST_COUNTED: Final = 1_000  # releases like the next one; counting more tells nobody anything


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
    """List releases over time, and what is left.

    For every release in SPEC's ledger: the day it was charged, its state, source and folder, its cost, and what
    was left after it. Also says what the next release may spend, and how many like SPEC's still fit.

    \b
    Example:
      privcube ledger show spec.toml --json
    """
    declared, status = _status(spec)
    if as_json:
        say_json(_document(declared, status))
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
    from privcube.model.documents.spec import DataSource, source_name

    return source_name(DataSource(source=spec.ledger.path)) if spec.ledger is not None else "none"


def _show(declared: Spec, status: LedgerStatus, spec: str) -> None:
    from privcube.model.amounts import shown, shown_down

    say(f"Ledger      {_name(declared)}")
    say(f"Data        {status.dataset}")
    say(f"Total       {status.total}")
    for account in status.spending.accounts:
        left, spent = shown_down(account.left), shown(account.spent)
        say(f"Left        {account.currency} {left} of {shown(account.limit)}; {spent} is spent")
    say(f"Next        {_next_in_words(declared, status)}")
    if not status.entries:
        return
    say()
    is_told_by_cost = all(set(entry.guarantee.amounts) == {status.account.currency} for entry in status.entries)
    source, folder = _LONGEST if is_told_by_cost else _LONGEST_BESIDE_GUARANTEES
    lines = [
        (
            str(entry.number),
            f"{entry.times['reserved']:%Y-%m-%d}",
            entry.state,
            _start_of(entry.source or "", source),
            _end_of("" if entry.final is None else _short(entry.final), folder),
            *(() if is_told_by_cost else (_amounts(entry.guarantee),)),
            shown(price),
            shown_down(left_after),
        )
        for entry, price, left_after in zip(status.entries, status.costs, status.left_after, strict=True)
    ]
    guarantee = () if is_told_by_cost else ("epsilon, delta",)
    header = ("release", "date", "state", "source", "folder", *guarantee, status.account.currency, "left")
    say_columns(header, lines, left=len(header) - 2)
    if any(entry.state in ("reserved", "committed") for entry in status.entries):
        say()
        say(f"Some releases are unfinished. If none is running, clean up with: privcube ledger recover {spec}")


def _next(declared: Spec, status: LedgerStatus) -> tuple[Fraction, int] | None:
    """What the next release of this spec would cost, and how many like it still fit; None if it can have no price."""
    from privcube.errors import GuaranteeError
    from privcube.model.privacy.composition import price_in

    release, spending, fits = declared.guarantee, status.spending, 0
    with suppress(GuaranteeError):
        while fits < _MOST_COUNTED:
            spending, fits = spending.after(release), fits + 1
    price = price_in((spending if fits else status.spending).account.currency, release)
    return None if price is None or release.unit != status.total.unit else (price, fits)


def _next_in_words(declared: Spec, status: LedgerStatus) -> str:
    from privcube.cli.rooms import room_left
    from privcube.model.amounts import shown, shown_down

    if not status.remaining:
        return "nothing is left to spend"
    plain = f"may spend up to {status.account.currency} {shown_down(status.remaining)}"
    most = room_left(status.spending).get("room", plain)
    found = _next(declared, status)
    if found is None:
        return f"{most}; a release of this spec would be refused, as its guarantee is not one that the total can pay"
    price, times = found
    more = f"{times:,}" if times < _MOST_COUNTED else f"{times:,} or more"
    fits = f"{more} more like it {'fits' if times == 1 else 'fit'}" if times else "that does not fit"
    return f"{most}; a release of this spec costs {shown(price)}, {fits}"


def _document(declared: Spec, status: LedgerStatus) -> dict[str, Any]:
    from privcube.cli.rooms import room_left
    from privcube.model.amounts import decimal_text

    found = _next(declared, status)
    return {
        "dataset": status.dataset,
        "guarantee": str(status.total),
        "currency": status.account.currency,
        "total": decimal_text(status.account.limit),
        "spent": decimal_text(status.account.spent),
        "remaining": decimal_text(status.remaining),
        **room_left(status.spending),
        "next": None if found is None else {"cost": decimal_text(found[0]), "fitting": found[1]},
        "head": status.head,
        "releases": [
            {
                "number": entry.number,
                "state": entry.state,
                "cost": decimal_text(price),
                "left_after": decimal_text(left_after),
                "guarantee": str(entry.guarantee),
                "plan": entry.plan,
                "source": entry.source,
                "artifact": entry.artifact,
                "folder": entry.final,
                "times": {state: time.isoformat() for state, time in entry.times.items()},
            }
            for entry, price, left_after in zip(status.entries, status.costs, status.left_after, strict=True)
        ],
    }


def _amounts(guarantee: Guarantee) -> str:
    from privcube.model.amounts import shown

    amounts = ", ".join(map(shown, guarantee.amounts.values()))
    return f"rho {amounts}" if guarantee.kind == "zcdp" else amounts


def _start_of(source: str, most: int) -> str:
    return source if len(source) <= most else f"{source[: most - 3]}..."


def _end_of(folder: str, most: int) -> str:
    """The end of a path, from a folder's name on if one fits."""
    if len(folder) <= most:
        return folder
    end = folder[3 - most :]
    return f"...{end[max(end.find('/'), 0) :]}"


def _short(folder: str) -> str:
    """A folder, relative to the current one if inside it."""
    place = Path(folder)
    return str(place.relative_to(Path.cwd())) if place.is_relative_to(Path.cwd()) else folder
