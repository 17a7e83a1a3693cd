"""Run the studies: `python -m experiments STUDY [--quick] [--out DIR]`, or `all` of them and the page they fill."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy is loaded: arrays are small, threads only wait

import click

PROJECT: Final = Path(__file__).resolve().parents[1]
RESULTS: Final = PROJECT / "docs" / "results"
STUDIES: Final = (
    "accuracy",
    "gaussian",
    "table1",
    "runtime",
    "scaling",
    "peers",
    "measures",
    "whole",
    "page",
)  # the page reads the others


FULL: Final = {"peers": "peers_full"}  # what takes the place of a study where hours do not count


def run(study: str, folder: Path, *, quick: bool, full: bool = False) -> bool:
    """Run a study; False if it is not there (yet)."""
    study = FULL.get(study, study) if full else study
    if importlib.util.find_spec(f"experiments.{study}") is None:
        click.echo(f"{study}: not there, skipped", err=True)
        return False
    start = time.perf_counter()
    importlib.import_module(f"experiments.{study}").run(folder, quick)
    click.echo(f"{study}: {time.perf_counter() - start:.1f} s", err=True)
    return True


def _folder(out: Path | None, quick: bool) -> Path:
    """Where results go: docs/results, but those of a quick run never replace real ones."""
    chosen = out or (Path(tempfile.mkdtemp(prefix="privcube-quick-")) if quick else RESULTS)
    chosen.mkdir(parents=True, exist_ok=True)
    click.echo(f"results in {chosen}", err=True)
    return chosen


def _options(command: Callable[..., None]) -> Callable[..., None]:
    quick = click.option("--quick", is_flag=True, help="A minute in all: few workloads, few repetitions.")
    full = click.option("--full", is_flag=True, help="Other systems on every workload, five releases each: hours.")
    out = click.option(
        "--out",
        type=click.Path(file_okay=False, path_type=Path),
        help="Folder of the results.  [default: docs/results; a temporary one with --quick]",
    )
    return quick(full(out(command)))


@click.group(help="Studies of accuracy and speed; each writes CSV files and plots.")
def main() -> None:
    """One subcommand per study."""


class _Study(click.Command):
    """A subcommand whose help is the docstring of the study, which is imported only when needed."""

    def get_short_help_str(self, limit: int = 100) -> str:
        return re.split(r"[:.]\s|\n", _docstring(self.name or ""))[0]

    def format_help_text(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_paragraph()
        formatter.write_text(_docstring(self.name or ""))


def _docstring(study: str) -> str:
    if importlib.util.find_spec(f"experiments.{study}") is None:
        return "Not there (yet)."
    return importlib.import_module(f"experiments.{study}").__doc__ or ""


def _add(study: str) -> None:
    @main.command(study, cls=_Study)
    @_options
    def command(quick: bool, full: bool, out: Path | None) -> None:
        if not run(study, _folder(out, quick), quick=quick, full=full):
            sys.exit(2)


for _name in STUDIES:
    _add(_name)


@main.command("all")
@_options
def run_all(quick: bool, full: bool, out: Path | None) -> None:
    """All studies, then the page."""
    folder = _folder(out, quick)
    for study in STUDIES:
        run(study, folder, quick=quick, full=full)


if __name__ == "__main__":
    main()
