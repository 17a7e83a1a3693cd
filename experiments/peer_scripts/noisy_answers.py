"""What a release says, as a document that mbi reads: least-squares answers that are uncorrelated, of one deviation.

Whatever noise a plan draws, the residuals of its tables (`privcube.released.whole.goals`) hold all that least squares
takes from its answers, and hardly any two of them are correlated. So mbi gets them in place of the raw answers, which
may be correlated, and weights them as it should. They are given table by table, each residual once; where every pair of
attributes is asked for, mbi's model is the table of all attributes anyway, and few wide tables are faster for it.
"""

from __future__ import annotations

import itertools
from math import comb
from typing import Any

import numpy as np

from privcube.released.whole.blocks import Block
from privcube.released.whole.cover import Places, cover
from privcube.released.whole.goals import Goals, Residual, goals_of

_LEAST = 1e-9  # a variance; what is known exactly would else divide by 0


def answers_of(made: Any) -> dict[str, Any]:
    """The total, and for every table the transforms of its attributes, which rows of their product, and answers."""
    goals = goals_of(made)
    kept: list[dict[str, Any]] = []
    for places, residuals in _owned(goals, _tables(goals)):
        if not residuals:
            continue
        own = [goals.attributes[place] for place in places]
        block = Block(goals, places, residuals)
        found = [goals.residuals[residual] for residual in residuals]
        deviations = np.repeat([max(goal.variance, _LEAST) ** 0.5 for goal in found], [g.estimate.size for g in found])
        kept.append({
            "attributes": [one.attribute.name for one in own],
            "factors": [one.rows.tolist() for one in own],
            "rows": block.wanted.tolist(),
            "scales": (block.scale / deviations).tolist(),
            "answers": (np.concatenate([goal.estimate for goal in found]) / deviations).tolist(),
        })  # fmt: skip
    return {"total": goals.total, "groups": kept}


def _tables(goals: Goals) -> list[Places]:
    """Sets of attributes that contain all tables: these, or wider ones where that costs mbi nothing."""
    tables = sorted({tuple(sorted(table)) for table in goals.tables}, key=lambda table: (-len(table), table))
    pairs = {pair for table in tables for pair in itertools.combinations(table, 2)}
    return cover(goals.sizes, tables) if len(pairs) == comb(len(goals.sizes), 2) else tables


def _owned(goals: Goals, tables: list[Places]) -> list[tuple[Places, list[Residual]]]:
    """Every residual, but the total, which is told apart, in the first table that has its attributes."""
    owned: list[tuple[Places, list[Residual]]] = [(table, []) for table in tables]
    for residual in goals.residuals:
        names = {place for place, _ in residual}
        if names:
            next(own for table, own in owned if names <= set(table)).append(residual)
    return owned
