"""Facts in estimates: honored exactly, tables agree, errors fall, and what cannot be is refused."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import privcube as pc
from privcube.errors import PrivcubeError, QueryError
from privcube.model.measurements import Measurements
from privcube.model.workload import Axis
from privcube.released.artifact.store import MANIFEST, json_text
from privcube.released.whole import search
from privcube.released.whole.facts import Facts, known_numbers

AGE = pc.Attribute("age", bins=[0, 15, 18, 40, 65], missing="category", levels=[pc.Level("stage", bins=[0, 18, 65])])
SCHEMA = pc.Schema([AGE, pc.Attribute("sex", values=["F", "M"]), pc.Attribute("c", size=3)])
WORKLOAD = pc.Workload.tables(
    SCHEMA, [("age", "sex"), (("age", "stage"), "c"), ("age", "sex", "c"), (Axis("c", queries="ranges"), "sex")]
)
SCALE = int(os.environ.get("PRIVCUBE_ATTACK", "1"))
FACTS = Facts(records=500, impossible=[{"age": {"stage": "[0, 18)"}, "sex": "M"}, {"c": 2, "sex": "F"}])


def noisy(workload: pc.Workload = WORKLOAD, seed: int = 0, **options: str) -> pc.Release:
    plan = pc.plan(workload, pc.PureDP(1), options.pop("strategy", "marginals"), **options)  # type: ignore[arg-type]
    answers = np.random.default_rng(seed).integers(-10, 60, plan.rows)
    return pc.Release(Measurements(plan, answers))


def test_known_numbers_one_by_one() -> None:
    """Beside every combination of cells tried alone."""
    labels = {attribute.name: attribute.labels for attribute in SCHEMA}
    for source in [("age", "sex"), ("age", "sex", "c"), (Axis("age", "stage"), "sex"), ("c",)]:
        found = known_numbers(SCHEMA, FACTS, [source])
        assert found[0].source == ()
        shape = [SCHEMA[Axis.of(e).attribute].partition(Axis.of(e).level).cells for e in source]
        possible = np.zeros(shape, dtype=bool)
        for age in range(len(labels["age"])):
            for sex in range(2):
                for c in range(3):
                    if (age < 2 and sex == 1) or (c == 2 and sex == 0):
                        continue
                    at = {"age": age, "sex": sex, "c": c}
                    place = [
                        SCHEMA[Axis.of(e).attribute].partition(Axis.of(e).level).group_of[at[Axis.of(e).attribute]]
                        for e in source
                    ]
                    possible[tuple(place)] = True
        zeros = found[1].places.tolist() if len(found) > 1 else []
        assert zeros == np.flatnonzero(~possible).tolist()


def test_estimates_honor_facts_and_tables_agree() -> None:
    plain = noisy()
    release = plain.knowing(FACTS)
    assert release.honors_facts
    whole = release.estimates(("age", "sex", "c"))
    assert np.all(whole[:2, 1] == 0)
    assert np.all(whole[:, 0, 2] == 0)
    np.testing.assert_allclose(whole.sum(axis=2), release.estimates(("age", "sex")), atol=1e-9)
    stages = np.stack([whole[:2].sum(axis=(0, 1)), whole[2:4].sum(axis=(0, 1)), whole[4].sum(axis=0)])
    np.testing.assert_allclose(stages, release.estimates((("age", "stage"), "c")), atol=1e-9)
    ranges = release.estimates(("sex", Axis("c", queries="ranges")))
    np.testing.assert_allclose(ranges[:, 2], whole.sum(axis=(0, 2)), atol=1e-9)
    assert float(release.estimates(())) == pytest.approx(500)
    for table in WORKLOAD:
        before, after = plain.values(table), release.values(table)
        assert np.all(after.std_error <= before.std_error + 1e-9)
        assert np.all(after.margin <= before.margin + 1e-9)
    assert release.query({"age": [0, 18], "sex": "M"}).std_error == 0


def test_errors_are_those_of_simulated_noise() -> None:
    """The same noise in all answers but for its signs: variances of exactly the stated size."""
    workload = pc.Workload.all_kway(pc.Schema.from_sizes({"a": 2, "b": 3}), 2)
    plan = pc.plan(workload, pc.PureDP("0.2"), "marginals")
    facts = Facts(records=0, impossible=[{"a": 0, "b": 1}])
    size = int(np.sqrt(plan.noise_variances()[0]))
    off = []
    for signs in range(2**plan.rows):
        answers = np.array([size if signs >> at & 1 else -size for at in range(plan.rows)])
        off.append(pc.Release(Measurements(plan, answers), facts=facts).estimates(("a", "b")))
    stated = pc.Release(Measurements(plan, np.zeros(plan.rows, dtype=np.int64)), facts=facts).values(("a", "b"))
    scale = size**2 / float(plan.noise_variances()[0])
    np.testing.assert_allclose(np.mean(np.square(off), axis=0), scale * stated.std_error**2, rtol=0.01, atol=1e-9)


def test_facts_that_cannot_be_used_leave_estimates_alone() -> None:
    plain = noisy(recovery="direct")
    release = plain.knowing(FACTS)
    assert not release.honors_facts
    np.testing.assert_array_equal(release.estimates(("age", "sex")), plain.estimates(("age", "sex")))


def test_beside_a_measure_facts_leave_estimates_alone() -> None:
    schema = pc.Schema([pc.Attribute("sex", values=["F", "M"]), pc.Measure("days", low=0, high=60, step=1)])
    plan = pc.plan(pc.Workload.tables(schema, [("sex",)]).with_sums(), pc.PureDP(1))
    release = pc.Release(Measurements(plan, np.arange(plan.rows, dtype=np.int64)))
    known = release.knowing(Facts(records=3))
    assert not known.honors_facts
    np.testing.assert_array_equal(known.estimates(("sex",)), release.estimates(("sex",)))


def test_combinations_that_no_table_has_say_nothing() -> None:
    """They leave no known number; that failed once, after the charge."""
    workload = pc.Workload.tables(SCHEMA, [("age",), ("sex",)])
    plain = noisy(workload)
    known = plain.knowing(Facts(impossible=[{"age": "[0, 15)", "sex": "M"}]))
    np.testing.assert_array_equal(known.values(("age",)).estimate, plain.values(("age",)).estimate)
    assert known.whole("fast").counts(("age", "sex"))[0, 1] == 0


def test_facts_that_contradict_are_refused() -> None:
    release = noisy()
    with pytest.raises(QueryError, match="some combination that can occur"):
        release.knowing(Facts(records=10, impossible=[{"sex": "F"}, {"sex": "M", "c": [0, 1, 2]}])).recover()
    with pytest.raises(PrivcubeError):
        release.whole("fast", records=10, impossible=[{"sex": "F"}, {"sex": "M", "c": [0, 1, 2]}])
    with pytest.raises(QueryError, match="attributes of the schema"):
        release.knowing(Facts(impossible=[{"six": "F"}]))


def test_forged_facts_are_found(tmp_path: Path) -> None:
    noisy().knowing(FACTS).save(tmp_path / "out")
    assert all(check.passed for check in pc.verify(tmp_path / "out"))
    stated = json.loads((tmp_path / "out" / MANIFEST).read_text())
    for key, value in (
        ("records", 501),
        ("records", -1),
        ("records", 2**60),
        ("records", None),
        ("impossible", []),
        ("impossible", [{}]),
        ("impossible", [{"age": ["[0, 15)"], "sex": ["F"]}]),
        ("impossible", [{"sex": ["F"]}, {"sex": ["M"]}]),
        ("impossible", [{"sex": ["F", "M"]}]),
        ("impossible", [{"sex": {"level": "F"}}]),
        ("impossible", "everything"),
        ("in_estimates", False),
        ("more", 1),
    ):
        (tmp_path / "out" / MANIFEST).write_text(json_text({**stated, "known": {**stated["known"], key: value}}))
        assert any(not check.passed and check.name != "checksums" for check in pc.verify(tmp_path / "out")), (
            key,
            value,
        )
    (tmp_path / "out" / MANIFEST).write_text(json_text({k: v for k, v in stated.items() if k != "known"}))
    assert "tables" in [check.name for check in pc.verify(tmp_path / "out") if not check.passed]


@settings(max_examples=5 * SCALE, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(st.data())
def test_any_schema_and_facts(data: st.DataObject) -> None:
    """Results that honor the facts, whole numbers that are none below 0 and agree; or an error of our own."""
    draw = data.draw
    schema = pc.Schema([*(any_attribute(draw, f"x{at}") for at in range(draw(st.integers(1, 4)))), DAYS])
    guarantee = draw(
        st.sampled_from(
            [
                pc.PureDP("0.01"),
                pc.PureDP(100),
                pc.PureDP(1, neighbors="replace_one"),
                pc.ApproxDP(1, "1e-6"),
                pc.ZCDP("0.5", max_rows_per_person=3),
            ]
        )
    )
    tables = [any_table(draw, schema) for _ in range(draw(st.integers(1, 3)))]
    records = draw(st.sampled_from([None, 0, 1, 300]))
    impossible = []
    for _ in range(draw(st.integers(0, 2))):
        chosen = draw(st.lists(st.sampled_from(schema.names[:-1]), min_size=1, max_size=2, unique=True))
        impossible.append({n: [draw(st.sampled_from(schema[n].labels))] for n in chosen})
    try:
        workload = pc.Workload.tables(schema, tables)
        workload = workload.with_sums() if draw(st.booleans()) else workload
        recovery = draw(st.sampled_from(["optimal", "direct"]))
        plan = pc.plan(workload, guarantee, draw(st.sampled_from(["marginals", "auto"])), recovery=recovery)
        largest = draw(st.sampled_from([1, 400, 10**8]))
        answers = np.random.default_rng(draw(st.integers(0, 99))).integers(-largest // 8, largest, plan.rows)
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(search._PARTICLES, "fast", 2**11)
            release = pc.Release(Measurements(plan, answers)).whole("fast", records=records, impossible=impossible)
    except PrivcubeError:
        return
    whole = release.with_intervals()
    total = int(whole.counts(()))
    assert records is None or total == records
    for table in filter(whole.has_counts, whole.workload):
        values = whole.values(table)
        assert np.all(np.isfinite(values.estimate))
        assert np.all(values.std_error >= 0)
        assert values.count is not None
        assert values.count_range is not None
        low, high = values.count_range
        assert int(low.min(initial=0)) >= 0
        assert np.all((low <= values.count) & (values.count <= high))
        if any(Axis.of(entry).queries != "cells" for entry in table):
            continue
        assert int(values.count.sum()) == total
        exact = 1e-6 + 1e-12 * largest  # what floating point leaves of answers of that size
        assert records is None or not release.honors_facts or values.estimate.sum() == pytest.approx(records, abs=exact)
        for known in known_numbers(schema, Facts(impossible=impossible), [table]):
            assert not values.count.ravel()[known.places].any()
            assert not release.honors_facts or not values.estimate.ravel()[known.places].any()


DAYS = pc.Measure("days", low=0, high=60, step=1)


def any_attribute(draw: Callable[..., Any], name: str) -> pc.Attribute:
    """An attribute of 1 to 6 values, with levels that nest or do not, bins, or cells of their own for the rest."""
    size = draw(st.integers(1, 6))
    kind = draw(st.sampled_from(["plain", "missing", "levels", "crossing", "bins", "other"]))
    values = [f"v{number}" for number in range(size)]
    if kind in ("levels", "crossing") and size > 3:
        half = pc.Level("half", groups={"low": values[:2], "high": values[2:]})
        odd = pc.Level("odd", groups={"ends": [values[0], values[-1]], "rest": values[1:-1]}, of=name)
        return pc.Attribute(name, values=values, levels=[half] if kind == "levels" else [half, odd])
    if kind == "bins":
        return pc.Attribute(name, bins=[10 * at for at in range(size + 1)], overflow="category", missing="category")
    if kind in ("missing", "other"):
        return pc.Attribute(name, values=values, **{kind: "category"})
    return pc.Attribute(name, size=size)


def any_table(draw: Callable[..., Any], schema: pc.Schema) -> tuple[str | Axis, ...]:
    """Some attributes, each at its cells or a level, or by ranges or prefixes if it has an order."""
    entries: list[str | Axis] = []
    for name in draw(st.lists(st.sampled_from(schema.names[:-1]), min_size=0, max_size=3, unique=True)):
        ways: list[str | Axis] = [name, *[Axis(name, level) for level in schema[name].level_names]]
        if schema[name].ordered:
            ways += [Axis(name, queries="ranges"), Axis(name, queries="prefixes")]
        entries.append(draw(st.sampled_from(ways)))
    return tuple(entries)


@pytest.mark.parametrize(
    ("facts", "answers", "expected"),
    [
        (Facts(records=20_000), [400, 600, 500, 500], "records: expected about as many as were measured, 2,000"),
        (Facts(impossible=[{"a": 0, "b": 1}]), [400, 600, 500, 500], "impossible: expected combinations without"),
        (Facts(impossible=[{"a": 0}]), [-30, -20, 500, 500], "impossible: expected combinations without"),
        (Facts(records=1_990, impossible=[{"a": 0, "b": 1}]), [1_000, 9, 500, 500], None),
    ],
)
def test_facts_that_a_release_contradicts_are_refused(facts: Facts, answers: list[int], expected: str | None) -> None:
    plan = pc.plan(pc.Workload.all_kway(pc.Schema.from_sizes({"a": 2, "b": 2}), 2), pc.PureDP(1), "marginals")
    release = pc.Release(Measurements(plan, np.array(answers)))
    if expected is None:
        assert release.knowing(facts).honors_facts
        return
    with pytest.raises(QueryError, match=expected):
        release.whole("fast", records=facts.records, impossible=facts.impossible)


def test_a_known_number_of_records_is_contradicted_by_any_other(tmp_path: Path) -> None:
    """Under replaced records it is public, and published without noise."""
    workload = pc.Workload.all_kway(pc.Schema.from_sizes({"a": 2, "b": 2}), 1)
    data = pa.table({"a": [0, 1] * 50, "b": [0] * 100})
    release = pc.release(pc.plan(workload, pc.PureDP(1, neighbors="replace_one")), data)
    assert release.knowing(Facts(records=100)).estimates(()).item() == pytest.approx(100)
    with pytest.raises(QueryError, match="standard error of 0, given 99"):
        release.knowing(Facts(records=99))
