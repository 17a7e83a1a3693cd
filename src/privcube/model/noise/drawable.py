"""Which law of max-norm noise a bundle is drawn from: whole numbers where these are few, else rounded. Zone: PUBLIC.

Both laws cost the same, and their variances differ by rounding only. Draws of whole numbers take time in proportion to
the scale in parts of a record, with one number of parts for all groups of a bundle; rounded ones do not
(`privcube.model.noise.bundles`).

See THEORY section 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from privcube.errors import PlanError
from privcube.model.frame import Frame
from privcube.model.groups import Group
from privcube.model.measures.units import parts_of_groups
from privcube.model.noise.bundles import MOST_ON_SECTION, Law
from privcube.model.plan import Plan
from privcube.model.slices import largest_scale, slice_rows


def fine_laws(
    frame: Frame, groups: Sequence[Group], bundles: Sequence[Sequence[int]], laws: Sequence[Law]
) -> list[Law]:
    """The laws of bundles, rounded where groups have no common parts of a record that are few enough to count in."""
    found = list(laws)
    for at, (bundle, law) in enumerate(zip(bundles, laws, strict=True)):
        if law == "max_norm" and len(bundle) > 1:
            own = [groups[group] for group in bundle]
            try:
                parts_of_groups(frame, own, [range(len(own))], [law])
            except PlanError:
                found[at] = "rounded_max_norm"
    return found


def drawable(plan: Plan) -> Plan:
    """The plan with rounded noise for the bundles whose whole numbers are too wide to draw, unless rows are too many.

    >>> from privcube import PureDP, Schema, Workload, plan
    >>> workload = Workload.all_kway(Schema.from_sizes({"a": 2, "b": 2}), 1)
    >>> [plan(workload, PureDP(epsilon), "search").noise_laws for epsilon in ("1", "0.00001")]
    [('max_norm',), ('rounded_max_norm',)]
    """
    found = list(plan.noise_laws)
    for at, (bundle, law) in enumerate(zip(plan.noised_together, plan.noise_laws, strict=True)):
        if law == "max_norm" and len(bundle) > 1:
            own = [plan.groups[group] for group in bundle]
            _, rows = slice_rows(plan.frame, own)
            if plan.drawn_scale(bundle[0]) > largest_scale(sum(rows)) and sum(rows) <= MOST_ON_SECTION:
                found[at] = "rounded_max_norm"
    return plan if tuple(found) == plan.noise_laws else replace(plan, laws=tuple(found))
