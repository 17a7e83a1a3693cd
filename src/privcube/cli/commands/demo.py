"""`privcube demo`: the main job on an example, from records to published tables."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from privcube.cli.output import say


@click.command()
@click.argument("folder", type=click.Path(), default="privcube-demo")
def demo(folder: str) -> None:
    """Run all steps on an example.

    Makes up hospital records in FOLDER (privcube-demo) and publishes tables of them. FOLDER must be new or empty.
    Every step is shown as the command that performs it.

    \b
    Example:
      privcube demo
      privcube demo /tmp/hospital
    """
    from privcube.cli.example import EXAMPLE
    from privcube.cli.files import write_new
    from privcube.cli.hospital import write_discharges

    home = _new_folder(folder)
    say(f"A hospital wants to publish tables of its discharges. {home} has its (made-up) records and its spec:")
    write_discharges(home / "discharges.csv")
    write_new(home / "spec.toml", EXAMPLE)
    say("  discharges.csv   one row per hospital stay, up to three per patient")
    say("  spec.toml        the attributes, the requested tables, the privacy budget, the ledger")
    _steps(str(home / "spec.toml"), str(home / "chosen-plan.json"), str(home / "out"))
    say()
    say(f"The page of the release, to open in a browser: {home / 'out' / 'index.html'}")
    say()
    say("Where to go from here:")
    spec, out = str(home / "spec.toml"), str(home / "out")
    ideas = (
        (("privcube", "explore", out), "look at the tables in a browser"),
        (("cat", str(home / "out" / "PRIVACY.md")), "what is promised, and what is not"),
        (("privcube", "show", out), "all tables"),
        (("privcube", "ledger", spec), "what was spent and what is left"),
        (("privcube", "plan", spec, "--compare"), "other strategies"),
        (("privcube", "plan", spec, "--accuracy", "50 at 95% on age x region"), "what accuracy costs"),
    )
    widest = max(len(shlex.join(words)) for words, _ in ideas)
    for words, why in ideas:
        say(f"  {shlex.join(words):<{widest}}  # {why}")


def _steps(spec: str, chosen: str, out: str) -> None:
    from privcube.cli.commands.plan import plan
    from privcube.cli.commands.query import query
    from privcube.cli.commands.release import release
    from privcube.cli.commands.show import show
    from privcube.cli.commands.verify import verify

    asked = (spec, "--tables", "5", "--save", chosen)
    _run(plan, "See what will be measured and what error to expect, without reading a record.", *asked)
    _run(release, "Count the records, add noise once, recover the tables, publish them.", spec, "--plan", chosen)
    _run(verify, "Check everything that can be checked without the records.", out, "--spec", spec)
    _run(show, "Show a table with its error bars.", out, "ward", "outcome")
    _run(query, "Ask for a count that is in no table.", out, "age=65..85", "ward=surgery,medicine", "outcome=care")


def _run(command: click.Command, purpose: str, *arguments: str) -> None:
    """Print a command, and run it."""
    say()
    say(f"# {purpose}")
    say("$ " + shlex.join(["privcube", command.name or "", *arguments]))
    with command.make_context(command.name, list(arguments), parent=click.get_current_context().parent) as context:
        command.invoke(context)


def _new_folder(folder: str) -> Path:
    from privcube.errors import Plain, SpecError

    home, subject = Path(folder), f"folder {folder!r}"
    try:
        home.mkdir(parents=True, exist_ok=True)
        is_empty = not any(home.iterdir())
    except (OSError, ValueError) as problem:  # ValueError: a path that contains a zero byte
        reason = getattr(problem, "strerror", None) or str(problem)
        raise SpecError(subject, expected="a writable folder", given=Plain(reason)) from None
    if not is_empty:
        expected = "a new or empty folder (nothing is overwritten)"
        raise SpecError(subject, expected=expected, given=Plain("one with files in it"))
    return home
