"""What PRIVACY.md says of public facts and of whole numbers. Zone: RELEASED."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from privcube.model.workload import Axis, Workload
from privcube.released.whole.goals import is_counted


def known_words(stated: Mapping[str, Any]) -> Iterator[str]:
    """What was publicly known beforehand, if anything, and who says so."""
    known = stated.get("known")
    if known is None:
        return
    facts = [] if known["records"] is None else [f"there are exactly {known['records']:,} records"]
    if known["impossible"]:
        facts.append(f"the combinations listed in release.json ({len(known['impossible']):,}) cannot occur")
    use = (
        "Estimates and their errors are those of least squares given these facts, and meet them exactly."
        if known["in_estimates"]
        else "Estimates do not use these facts, which are too many, or tables have sums or are added up alone."
    )
    yield f"- The publisher declares as publicly known, not read off the data, that {' and that '.join(facts)}. {use}"


def whole_words(stated: Mapping[str, Any], workload: Workload) -> Iterator[str]:
    """What to know about whole numbers, if there are any."""
    whole = stated.get("whole")
    if whole is None:
        return
    yield (
        "- `count` is a whole number near the estimate. All counts are those of one set of made-up records, so they "
        "are not negative and agree with each other. They are not unbiased; the intervals are those of the estimates. "
        "They were worked out from the published measurements alone and cost no privacy."
    )
    if "count_intervals" in whole:
        yield (
            "- `count_low` to `count_high` are the whole numbers that the true count can be, with 95% or more: those "
            "between `low` and `high` of the estimate, none negative, and `count` if that lies outside. They are no "
            "intervals around `count`: its bias depends on the truth, so none could be promised to hold."
        )
    if not all(map(is_counted, workload)):
        has_numbers = any(Axis.of(entry).queries == "count" for table in workload for entry in table)
        which = "Tables of sums and of records with a number" if has_numbers else "Tables of sums"
        yield f"- {which} have no `count`, and the made-up records no measures: sums and means stay estimates."
    if whole["with_records"]:
        yield (
            "- `records.parquet` has these records: rows of labels, and how often each occurs. They are made up to fit "
            "the tables. No row is about a person, and what the tables do not say, the records do not show."
        )
