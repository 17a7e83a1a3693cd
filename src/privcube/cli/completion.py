"""Shell completion of strategies, and of the tables and conditions of a release."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from privcube.model.workload import Workload


def strategies(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a strategy."""
    from typing import get_args

    from privcube.model.options import Strategy

    return [name for name in get_args(Strategy) if name.startswith(incomplete)]


def tables(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete a table or an attribute of the release."""
    from privcube.model.workload import table_name

    workload = _workload(context)
    if workload is None:
        return []
    names = dict.fromkeys([*workload.schema.names, *map(table_name, workload)])
    return [name for name in names if name.startswith(incomplete)]


def conditions(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete an attribute of the release, then one of its labels."""
    workload = _workload(context)
    if workload is None:
        return []
    name, equals, value = incomplete.partition("=")
    if equals and name in workload.schema:
        labels = [str(label) for label in workload.schema[name].labels[:200]]
        return [f"{name}={label}" for label in labels if label.startswith(value)]
    return [f"{own}=" for own in workload.schema.names if own.startswith(incomplete)]


def _workload(context: click.Context) -> Workload | None:
    """The workload of the release that the command names; None if it cannot be read."""
    from privcube.errors import PrivcubeError
    from privcube.model.plan import Plan

    try:
        return Plan.from_json((Path(context.params["folder"]) / "plan.json").read_text(encoding="utf-8")).workload
    except (PrivcubeError, OSError, ValueError, KeyError, TypeError):
        return None
