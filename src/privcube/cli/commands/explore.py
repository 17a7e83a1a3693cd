"""`privcube explore`: a release, or a plan before it is spent, in a browser on this machine."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

import click

from privcube.cli.output import say

if TYPE_CHECKING:
    from privcube.released.explorer.server import Site


@click.command()
@click.argument("place", metavar="DIR|SPEC", type=click.Path())
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, metavar="N", help="Listen on this port instead of a free one."
)
@click.option("--no-browser", is_flag=True, help="Only print the address.")
def explore(place: str, port: int, no_browser: bool) -> None:
    """Look at a release, or at a plan, in a browser.

    With the folder of a release, shows the page that is in it, for releases of any size. With a spec, shows what
    error to expect for any budget, with pure noise or with delta, and for every strategy, and what the ledger
    would have left; no data is read.

    The page is served on this machine only, until Ctrl-C.

    \b
    Example:
      privcube explore out
      privcube explore spec.toml
      privcube explore out --port 8000 --no-browser
    """
    from privcube.released.explorer.server import Server

    site = _plan(place) if Path(place).suffix == ".toml" or Path(place).is_file() else _release(place)
    with Server(site, port) as server:
        say(f"{place} is at {server.url} (Ctrl-C ends)")
        if not no_browser:
            webbrowser.open(server.url)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            say()


def _release(folder: str) -> Site:
    from privcube.released.explorer.release_site import release_site

    return release_site(folder)


def _plan(spec: str) -> Site:
    from privcube.model.documents.spec import Spec
    from privcube.released.explorer.plan_site import plan_site

    declared, spending = Spec.read(spec), None
    if declared.ledger is not None:
        from privcube.errors import LedgerError
        from privcube.pipeline import ledger_status

        try:
            spending = ledger_status(declared, folder=Path(spec).parent).spending
        except LedgerError as problem:
            say(f"The ledger is not shown: {problem}")
    return plan_site(declared, Path(spec).name, spending)
