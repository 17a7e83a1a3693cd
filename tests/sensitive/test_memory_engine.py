"""The bound on rows per person, enforced on data: what enters the mechanism moves by no more than is declared."""

from __future__ import annotations

import numpy as np
import pytest
from coded_records import CodedRecords

from privcube import ZCDP, PureDP, Schema, Workload, errors, plan
from privcube.model.groups import group_rows
from privcube.sensitive.gate import measure
from privcube.sensitive.ledger import MemoryLedger

SCHEMA = Schema.from_sizes({"a": 2, "b": 3})


class Silence:
    """No noise: the test looks at what enters the mechanism."""

    def laplace(self, scale, count):
        return np.zeros(count, dtype=np.int64)

    def gaussian(self, variance, count):
        return np.zeros(count, dtype=np.int64)


def entering(made, rows, persons) -> np.ndarray:
    engine = CodedRecords(SCHEMA, rows, persons)
    person = "id" if made.guarantee.max_rows_per_person > 1 else None
    return measure(made, engine, MemoryLedger(made.guarantee), person=person, noise_from=Silence()).answers


@pytest.mark.parametrize("strategy", ["marginals", "base_counts", "fourier", "clusters"])
@pytest.mark.parametrize("limit", [2, 5])
def test_a_person_with_a_thousand_rows_moves_each_group_by_the_bound(
    strategy: str, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others keep the very rows they would keep without this person; the key is held fixed to see it."""
    monkeypatch.setattr("privcube.sensitive.gate.system_words", lambda count: np.arange(count, dtype=np.uint64))
    made = plan(Workload.all_kway(SCHEMA, 2), PureDP(1, max_rows_per_person=limit), strategy)
    rows = [(n % 2, n % 3) for n in range(40)]
    persons = [n // 3 for n in range(40)]
    heavy = [(1, n % 3) for n in range(1000)]
    change = np.abs(entering(made, rows + heavy, persons + ["heavy"] * 1000) - entering(made, rows, persons))
    ends = np.cumsum([group_rows(made.frame, group) for group in made.groups])[:-1]
    assert all(part.sum() <= limit for part in np.split(change, ends))
    assert change.sum() >= limit  # and some of it is there: the test would notice if nobody counted


def test_counts_are_those_of_the_records() -> None:
    made = plan(Workload.full_cube(SCHEMA), ZCDP(1), "marginals")
    rows = [(0, 0), (0, 2), (1, 2), (1, 2)]
    answers = entering(made, rows, None)
    assert answers[0] == 4  # the total comes first
    assert answers[-6:].tolist() == [1, 0, 1, 0, 0, 2]
    assert entering(made, [], None).tolist() == [0] * made.rows


def test_what_is_refused() -> None:
    made = plan(Workload.all_kway(SCHEMA, 1), PureDP(1, max_rows_per_person=2), "marginals")
    with pytest.raises(errors.PlanError, match="a person each"):
        measure(made, CodedRecords(SCHEMA, [(0, 0)]), MemoryLedger(made.guarantee), person="id")
    single = plan(Workload.all_kway(SCHEMA, 1), PureDP(1), "marginals")
    for rows in ([(2, 0)], [(0, -1)]):
        with pytest.raises(errors.PlanError, match="declared cells") as caught:
            entering(single, rows, None)
        assert "2" not in str(caught.value)
    other = CodedRecords(Schema.from_sizes({"a": 2, "b": 2}), [])
    with pytest.raises(errors.PlanError, match="coded by"):
        measure(single, other, MemoryLedger(single.guarantee))
