"""Releases with measures: units, categories and knots by query, weights of records, several rows of a person."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc_
import pyarrow.parquet as pq
import pytest
from tests.sensitive.test_measures import NoNoise

import privcube as pc
from privcube import errors
from privcube.accuracy.predictor import predictor
from privcube.cli.measure_hints import measure_hints
from privcube.model.measurements import Measurements
from privcube.model.measures.asked import measured_axis
from privcube.model.publication.words import AttributeWords, Words
from privcube.released.explorer.release_site import release_site
from privcube.released.labels import NUMBERS as NUMBERS_OF_A_TABLE
from privcube.released.page.html import document_in
from privcube.released.presentation.tables import published
from privcube.released.ratios import ShareErrors
from privcube.sensitive import gate

EXACT = pc.PureDP(10**6)  # so much that what is published is the truth
WARDS = pc.Attribute("ward", values=["surgery", "medicine"])
DAYS = pc.Measure("days", low=0, high=60, step=1, knots=[30], overflow="category", missing="category")
STAYS = pa.table(
    {
        "ward": ["surgery"] * 4 + ["medicine"] * 4,
        "days": pa.array([3.0, 15.0, 45.0, 90.0, 2.0, None, 61.0, 60.0]),
        "person": [1, 1, 1, 2, 3, 4, 5, 5],
    }
)


@cache
def planned() -> pc.Plan:
    return pc.plan(pc.Workload.all_kway(pc.Schema([WARDS, DAYS]), 1).with_sums(), EXACT)


def stays(words: Words | None = None) -> pc.Release:
    return pc.release(planned(), STAYS, words=words)


def test_what_lies_outside_the_range_is_counted_if_asked_for() -> None:
    release = stays()
    assert release.query({"days": "> 60"}).estimate == pytest.approx(2, abs=0.01)
    assert release.query({"days": "> 60", "ward": "medicine"}).estimate == pytest.approx(1, abs=0.01)
    assert release.query({"days": "(missing)"}).estimate == pytest.approx(1, abs=0.01)
    assert release.share({"days": "> 60"}, of={"ward": "surgery"}).estimate == pytest.approx(0.25, abs=0.01)


@pytest.mark.parametrize(
    ("policies", "low", "high"),
    [
        ({"overflow": "refuse"}, 70, 150),
        ({"overflow": "category"}, 70, np.inf),
        ({"underflow": "clamp", "overflow": "drop"}, -np.inf, 150),
    ],
)
def test_what_clamping_takes_lies_between_what_bins_say(policies: dict[str, str], low: float, high: float) -> None:
    """One stay of 70 to 90 days and two of 90 to 120 lack 10 to 30 and 30 to 60 days each."""
    bins = pc.Attribute("stay", column="days", bins=[0, 60, 70, 90, 120], **policies)
    schema = pc.Schema([WARDS, pc.Measure("days", low=0, high=60, step=1), bins])
    records = pa.table({"ward": ["surgery", "medicine"] * 2, "days": [3, 75, 90, 115]})
    release = pc.release(pc.plan(pc.Workload.tables(schema, ["ward x stay", "ward x days"]), EXACT), records)
    found = release.clamped("days", "stay")
    assert (found.low, found.high) == (pytest.approx(low, abs=0.1), pytest.approx(high, abs=0.1))
    assert found.estimate == pytest.approx(110, abs=0.1)
    assert release.clamped("days", "stay", {"ward": "surgery"}).estimate == pytest.approx(45, abs=0.1)
    assert "(95%)" in str(found)
    large = replace(found, estimate=12_656.7, low=12_003.1, high=13_001.2, confidence=0.99999)
    assert str(large) == "12,660, from 12,000 to 13,010 (99.999%)"  # to four digits, the ends outward
    for wrong in ("ward", "days"):
        with pytest.raises(errors.QueryError, match="with bins of the measure's column, 'days'"):
            release.clamped("days", wrong)
    with pytest.raises(errors.QueryError, match="a measure of the release"):
        release.clamped("ward", "stay")


def test_the_interval_of_what_clamping_takes_covers_it() -> None:
    """With bins so narrow that they say it exactly, the interval is as wide as the noise, and misses rarely."""
    bins = pc.Attribute("stay", column="days", bins=[0, 61, 61.001, 64, 64.001], overflow="refuse")
    schema = pc.Schema([WARDS, pc.Measure("days", low=0, high=60, step=1), bins])
    made = pc.plan(pc.Workload.tables(schema, ["ward x stay", "days"]), pc.PureDP("0.5"), "marginals")
    runs, held = 100, 0
    for _ in range(runs):
        found = pc.Release(Measurements(made, gate._noise(made, gate.SystemNoise()))).clamped(
            "days", "stay"
        )  # no record
        held += found.low <= 0 <= found.high
    assert held >= 0.95 * runs - 5 * (0.05 * 0.95 * runs) ** 0.5


def test_knots_are_a_coarse_distribution() -> None:
    """Parts of records: 15 days are half near 0 and half near 30."""
    found = [stays().query({"days": f"near {knot}"}).estimate for knot in (0, 30, 60)]
    true = [27 / 30 + 15 / 30 + 28 / 30, 3 / 30 + 15 / 30 + 15 / 30 + 2 / 30, 15 / 30 + 1]
    assert found == pytest.approx(true, abs=0.01)


@pytest.mark.parametrize("wrong", [{"days": slice(None)}, {"days": 30}, {"days": [0, 30]}, {"days": {"x": "y"}}])
def test_other_conditions_on_a_measure_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(errors.QueryError, match="near 30"):
        stays().query(wrong)  # type: ignore[arg-type]


def test_a_measure_is_not_added_up_over_its_own_parts() -> None:
    for ask in (lambda made: made.query({"days": "> 60"}, measure="days"), lambda made: made.mean("days", {"days": 0})):
        with pytest.raises(errors.QueryError, match="other columns"):
            ask(stays())


def test_a_measure_has_a_unit(tmp_path: Path) -> None:
    words = Words(attributes={"days": AttributeWords(title="Length of stay", unit="nights")})
    release = stays(words)
    table = ("ward", pc.Axis("days", queries="sum"))
    assert words.table_title(table) == "Sum of Length of stay (nights) by ward"
    release.save(tmp_path / "out")
    assert pc.Release.open(tmp_path / "out").words == words
    assert "Unit: nights" in (tmp_path / "out" / "codebook.csv").read_text(encoding="utf-8")
    pc.export(release, tmp_path / "sums.px", [table])
    assert 'UNITS="nights"' in (tmp_path / "sums.px").read_text(encoding="utf-8")
    with pytest.raises(errors.WordsError, match="only measures"):
        stays(Words(attributes={"ward": AttributeWords(unit="nights")}))


def test_a_unit_in_a_spec_reads_back() -> None:
    text = """
[data]
source = "stays.csv"
[privacy]
epsilon = "1"
[[attributes]]
name = "ward"
values = ["surgery", "medicine"]
[[measures]]
name = "days"
low = 0
high = 60
step = 1
unit = "nights"
[workload]
all_kway = [1]
measures = ["days"]
"""
    from privcube import Spec

    spec = Spec.from_toml(text)
    assert spec.words.attribute("days").unit == "nights"
    assert Spec.from_toml(spec.to_toml()).words == spec.words
    with pytest.raises(errors.PrivcubeError):
        Spec.from_toml(text.replace('unit = "nights"', "unit = 3"))
    with pytest.raises(errors.PrivcubeError):
        Spec.from_toml(text.replace('values = ["surgery", "medicine"]', 'values = ["surgery"]\nunit = "x"'))


def test_survey_weights_make_weighted_counts() -> None:
    """A weight is a measure: its sums are weighted counts, and a record with a larger weight than declared is cut."""
    schema = pc.Schema([WARDS, pc.Measure("weight", low=0, high=20, step="0.01")])
    drawn = np.random.default_rng(4)
    wards, weights = drawn.integers(0, 2, 500), drawn.uniform(0, 25, 500).round(2)
    data = pa.table({"ward": np.array(WARDS.values)[wards], "weight": weights})
    release = pc.release(pc.plan(pc.Workload.all_kway(schema, 1).with_sums(), EXACT), data)
    kept = np.minimum(weights, 20)
    table = release.values(("ward", "weight"))
    assert table.estimate == pytest.approx([kept[wards == ward].sum() for ward in (0, 1)], abs=0.1)
    share = release.query({"ward": "surgery"}, measure="weight").estimate / release.query({}, measure="weight").estimate
    assert share == pytest.approx(kept[wards == 0].sum() / kept.sum(), abs=1e-3)


@pytest.mark.parametrize("most", [1, 2, 3])
def test_sums_take_the_rows_of_a_person_that_are_kept(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each person the same rows count in counts and in sums, and the noise is for as many rows."""
    schema = pc.Schema([WARDS, pc.Measure("days", low=0, high=60, step=1, missing="drop")])
    guarantee = pc.PureDP(1, max_rows_per_person=most)
    made = pc.plan(pc.Workload.all_kway(schema, 1).with_sums(), guarantee)
    alone = pc.plan(pc.Workload.all_kway(schema, 1).with_sums(), pc.PureDP(1))
    assert made.noise_scale(0) == most * alone.noise_scale(0)
    monkeypatch.setattr(gate, "SystemNoise", NoNoise)
    release = pc.release(made, STAYS, person="person")
    count, total = release.query({}).estimate, release.query({}, measure="days").estimate
    people = {1: [3, 15, 45], 2: [60], 3: [2], 5: [60, 60]}  # the stay without days is left out
    kept = sum(min(len(own), most) for own in people.values())
    assert count == pytest.approx(kept)
    least = sum(sum(sorted(own)[:most]) for own in people.values())
    largest = sum(sum(sorted(own)[-most:]) for own in people.values())
    assert least - 1e-6 <= total <= largest + 1e-6
    if most == 3:
        assert total == pytest.approx(sum(map(sum, people.values())))


FILES = {
    "csv": "csv",
    "parquet": "parquet",
    "xlsx": "xlsx",
    "json-stat": "json",
    "px": "px",
    "sdmx-csv": "",
    "csvw": "",
}


@pytest.mark.parametrize("kind", FILES)
def test_exports_have_means_and_the_shares_that_are_asked_for(kind: str, tmp_path: Path) -> None:
    """Counts have shares, sums have means, and what is not determined is empty."""
    path = tmp_path / f"made.{FILES[kind]}".rstrip(".")
    schema = pc.Schema([WARDS, pc.Attribute("share", values=["a", "b"]), DAYS])
    empty = pa.table(
        {"ward": pa.array([], pa.string()), "share": pa.array([], pa.string()), "days": pa.array([], pa.int64())}
    )
    release = pc.release(pc.plan(pc.Workload.all_kway(schema, 2).with_sums(), pc.PureDP(1)), empty)
    pc.export(release, path, format=kind, shares="row")
    if kind == "csv":
        lines = path.read_text(encoding="utf-8").splitlines()
        assert lines[0].startswith('"table","table title","ward","share_",')
        assert {"share", "share_low_all", "mean_low"} < set(lines[0].replace('"', "").split(","))
    if kind == "parquet":
        found = pq.read_table(path)
        counts = found.filter(pc_.equal(found["table"], "ward x share"))
        assert counts["share"].null_count + pc_.sum(pc_.is_nan(counts["share"])).as_py() > 0
        assert "share_" in found.column_names
    with pytest.raises(errors.QueryError, match="attributes of a table"):
        pc.export(release, tmp_path / "other.csv", shares="age")
    with pytest.raises(errors.QueryError, match="attributes of a table"):
        pc.export(release, tmp_path / "other.csv", [("ward", "days")], shares="row")
    assert not (tmp_path / "other.csv").exists()


@pytest.mark.parametrize(("guarantee", "over"), [(pc.PureDP(1), "clamp"), (pc.ZCDP("0.2"), "category")], ids=str)
def test_means_of_a_table_are_those_of_its_cells(guarantee, over: str) -> None:
    """A table works out few laws for all its means; one by one each has its own.

    Categories for records without a number cost means next to nothing, as plans count what means are divided by.
    """
    widths, data = {}, {"ward": ["surgery", "medicine"] * 900, "c": [0, 1, 2] * 600, "days": [5, 20, 40, 70] * 450}
    for policy in ("refuse", "category"):
        days = pc.Measure("days", low=0, high=60, step=1, knots=[30], overflow=over, missing=policy)
        schema = pc.Schema([WARDS, pc.Attribute("c", size=3), days])
        release = pc.release(pc.plan(pc.Workload.all_kway(schema, 2).with_sums(), guarantee), pa.table(data))
        table = release.table("ward x c x days")
        widths[policy] = np.mean(table["mean_high"] - table["mean_low"])
    assert widths["category"] <= 1.3 * widths["refuse"]
    assert release.query({"days": "(missing)", "ward": "surgery", "c": 0}).std_error < 4
    (hint,) = measure_hints(release.plan)
    known = float(hint.split("their mean to within ")[1].split()[0]) * 500 / 300
    assert known / 2 <= widths["category"] / 2 <= 1.05 * known  # for any mean
    for row in table.itertuples():
        one = release.mean("days", {"ward": row.ward, "c": row.c})
        assert row.mean == pytest.approx(one.estimate, rel=1e-9)
        width = one.high - one.low
        assert row.mean_low <= one.low + 0.02 * width
        assert row.mean_high >= one.high - 0.02 * width
        assert row.mean_high - row.mean_low <= 1.1 * width


@pytest.mark.parametrize(("guarantee", "most"), [(pc.PureDP(10), 1.06), (pc.ZCDP(1), 1.02), (pc.PureDP(1), 1.02)])
def test_factors_of_means_of_narrow_noise_are_those_of_their_laws(guarantee: pc.PureDP | pc.ZCDP, most: float) -> None:
    """Counts have steps of a whole record, up to 1.6 standard errors, and parts of a measure fill what lies between."""
    schema = pc.Schema([*pc.Schema.from_sizes({"a": 2, "b": 8}), pc.Measure("x", low=0, high=20, step=1)])
    known = predictor(pc.plan(pc.Workload.all_kway(schema, 2).with_sums(), guarantee, "marginals"))
    errors_of_means = ShareErrors.of(known, ("a", "b", "x"), (2,))
    near = errors_of_means.factors.near(errors_of_means.variances, 0.95)
    for ratio in np.linspace(0, 1, 21):
        weights = np.zeros((2, 8, 2))
        weights[0, 0] = [-ratio, 1 - ratio]
        law = known.query_law(("a", "b", "x"), weights)
        exact = law.half_width(0.95) / law.variance**0.5
        if ratio != 0.5:  # where the noise of counts cancels
            assert 1 <= near(np.full((2, 8, 2), ratio))[0, 0, 1] / exact <= most


# How many records have a number


NUMBERS = pc.Axis("days", queries="count")


def test_records_with_a_number_are_counted(tmp_path: Path) -> None:
    """Counts of their own: without means, shares or whole numbers, in every place where tables are named."""
    words = Words(unit="stays", attributes={"days": AttributeWords(title="Length", unit="nights")})
    release = stays(words).whole()
    assert list(release.workload) == [("ward",), ("ward", pc.Axis("days", queries="sum")), ("ward", NUMBERS)]
    found = release.table("ward x count of days")
    assert found.columns.tolist() == ["ward", *NUMBERS_OF_A_TABLE]
    assert found["estimate"].round(1).tolist() == [4, 3]
    assert release.estimates("ward").round(1).tolist() == [4, 4]
    assert release.table("ward x days")["mean"].tolist() == pytest.approx([123 / 4, 122 / 3], abs=0.1)
    shown = published(release, release.values(("ward", NUMBERS)))
    assert (shown.title, shown.unit) == ("Stays with a number for Length by ward", "stays")
    with pytest.raises(errors.QueryError, match="a table without a measure"):
        release.values(("ward", NUMBERS), shares="total")
    release.save(tmp_path / "out")
    assert all(check.passed for check in pc.verify(tmp_path / "out"))
    statement = (tmp_path / "out" / "PRIVACY.md").read_text(encoding="utf-8")
    assert "In tables with the count of days, `estimate` is the number of records" in statement
    assert "Tables of sums and of records with a number have no `count`" in statement
    document = document_in((tmp_path / "out" / "index.html").read_bytes())
    titles = [own["title"] for own in document["quantities"]]
    assert titles == ["Count", "Sum of Length", "Mean of Length", "Stays with a number for Length"]
    assert [own.get("quantities") for own in document["tables"]] == [None, [1, 2], [3]]
    site = release_site(tmp_path / "out")
    assert [own["of"] for own in site.made("/tables/2.json")] == [3]


def test_releases_without_such_counts_are_still_read(tmp_path: Path) -> None:
    """Earlier plans have sums alone; nothing is added to them."""
    schema = pc.Schema([WARDS, DAYS])
    made = pc.plan(pc.Workload.exactly(schema, ["ward", "ward x days"]), EXACT)
    pc.release(made, STAYS).save(tmp_path / "out")
    assert all(check.passed for check in pc.verify(tmp_path / "out"))
    opened = pc.Release.open(tmp_path / "out")
    assert len(opened.workload) == 2
    assert opened.table("ward x days")["mean"].tolist() == pytest.approx([123 / 4, 122 / 3], abs=0.1)
    assert b"with a number for" not in (tmp_path / "out" / "index.html").read_bytes()


@pytest.mark.parametrize("seed", [0, 2, 3, 4])
def test_any_measure_that_records_may_lack_is_published(seed: int, tmp_path: Path) -> None:
    """Plan, release, save, verify, page and exports of schemas at random: whatever is planned is published."""
    chance = random.Random(seed)
    own = [pc.Attribute(f"a{at}", size=chance.choice([1, 2, 3])) for at in range(chance.randint(0, 2))]
    for at in range(chance.randint(1, 2)):
        low, steps = chance.choice([-7, 0, 3]), chance.choice([1, 4, 60])
        policies = [chance.choice(["category", "category", "drop"]) for _ in range(2)]
        ends = [chance.choice(["category", "clamp", "drop"]) for _ in range(2)]
        measure = pc.Measure(
            f"m{at}", low=low, high=low + steps, step=1, knots=[low + 2] * (steps > 2 and chance.random() < 0.5),
            missing=policies[0], other=policies[1], underflow=ends[0], overflow=ends[1],
        )  # fmt: skip
        own.insert(chance.randint(0, len(own)), measure)
    schema, rows = pc.Schema(own), chance.choice([0, 1, 50])
    column = [chance.choice(["", "x", "-20", "3", "5", "900"]) for _ in range(rows)]
    data = pa.table(
        {each.name: column if each.is_measure else [chance.randrange(each.cells) for _ in column] for each in own},
        schema=pa.schema([(each.name, pa.string() if each.is_measure else pa.int64()) for each in own]),
    )
    guarantee = chance.choice([pc.PureDP("0.1"), pc.ZCDP(2), pc.ApproxDP(1, "1e-6", neighbors="replace_one")])
    workload = pc.Workload.full_cube(schema).with_sums(weight=chance.choice([1, 0.1]))
    if chance.random() < 0.3:
        workload = pc.Workload.closure(schema, [(*schema.dimensions, "m0")])
    recovery = chance.choice(["optimal", "optimal", "direct"])
    strategy = "marginals" if recovery == "direct" else chance.choice(["marginals", "residual", "base_counts"])
    try:
        made = pc.plan(workload, guarantee, strategy, recovery=recovery)
    except errors.PrivcubeError:
        return
    release = pc.release(made, data)
    release = release.whole() if chance.random() < 0.3 else release
    release.save(tmp_path / "out")
    assert [check for check in pc.verify(tmp_path / "out") if not check.passed] == []
    for table in workload:
        values = release.values(table)
        assert np.all(np.isfinite(values.estimate))
        if (axis := measured_axis(table)) is not None:
            assert (values.means is not None) == (axis.queries == "sum")
            lacking = {"missing": "category", "other": "category"}.items() & vars_of(schema[axis.attribute])
            counted = tuple(axis._replace(queries="count") if entry == axis else entry for entry in table)
            assert (counted in workload) == bool(lacking)
    for number in range(len(workload)):
        assert release_site(tmp_path / "out").made(f"/tables/{number}.json")
    kind = chance.choice(["csv", "xlsx", "json-stat", "report-html", "measurements"])
    pc.export(release, tmp_path / "file", [list(workload)[-1]] if kind == "json-stat" else None, format=kind)


def vars_of(attribute: pc.Attribute) -> set[tuple[str, str]]:
    return {("missing", attribute.missing), ("other", attribute.other)}


def test_direct_recovery_has_means_of_the_groups_of_their_sums() -> None:
    """Also of several numbers of a table; what is no table of the workload is refused."""
    workload = pc.Workload.all_kway(pc.Schema([WARDS, DAYS]), 1).with_sums()
    release = pc.release(pc.plan(workload, EXACT, "marginals", recovery="direct"), STAYS)
    assert release.table("ward x days")["mean"].tolist() == pytest.approx([123 / 4, 122 / 3], abs=0.1)
    assert release.mean("days", {"ward": ["surgery", "medicine"]}).estimate == pytest.approx(35, abs=0.1)
    release = pc.release(pc.plan(workload, pc.PureDP(20), "marginals", recovery="direct"), STAYS)
    shown = release.table("ward x days")
    found, mean = release.query({"ward": "medicine"}, measure="days"), release.mean("days", {"ward": "medicine"})
    for answer, column in ((found, ""), (mean, "mean_")):
        assert answer.estimate == pytest.approx(shown[column[:-1] or "estimate"][1])
        ends = (shown[f"{column}low"][1], shown[f"{column}high"][1])
        assert (answer.low, answer.high) == pytest.approx(ends, rel=0.1)
    assert found.std_error == pytest.approx(shown["std_error"][1])
    both = release.query({"ward": ["surgery", "medicine"]}, measure="days")
    assert both.estimate == pytest.approx(shown["estimate"].sum())
    assert both.std_error == pytest.approx(np.linalg.norm(shown["std_error"]))
    with pytest.raises(errors.QueryError, match="a table of the workload"):
        release.mean("days")


def test_a_plan_does_not_promise_a_mean_to_within_more_than_its_range() -> None:
    workload = pc.Workload.all_kway(pc.Schema([WARDS, pc.Measure("score", low=0, high=10, step=1)]), 1).with_sums()
    (told,) = measure_hints(pc.plan(workload, pc.PureDP("0.001"), "marginals"))
    assert told.endswith(", their mean is not determined (95 %)")
    (told,) = measure_hints(pc.plan(workload, pc.PureDP("0.1"), "marginals"))
    assert 0 < float(told.split("their mean to within ")[1].split()[0]) < 10
