"""What is said to be known beforehand, attacked: contradictions, numbers that are none, sums that come round."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.test_whole import SPEC as PEOPLE

import privcube as pc
from privcube.errors import PrivcubeError, QueryError, SpecError
from privcube.model.documents.spec import Spec
from privcube.model.measurements import Measurements
from privcube.pipeline import publish
from privcube.released.whole import release as whole_release
from privcube.released.whole import search
from privcube.released.whole.facts import Facts, checked_facts, impossible_cells
from privcube.released.whole.release import WholeRelease

SPEC = (
    PEOPLE.replace('total_epsilon = "9"', 'total_epsilon = "1"').replace("all_kway = [1, 2]", "all_kway = [1]")
    + '[plan]\nstrategy = "marginals"\n[output]\nwhole_numbers = true\neffort = "fast"\n'
)
SCHEMA = pc.Schema([pc.Attribute("age", bins=[0, 15, 40]), pc.Attribute("sex", values=["F", "M"])])


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "people.csv").write_text("sex,age\nF,3\nM,20\n")
    return tmp_path


def released(place: Path, more: str = "") -> str:
    """What is said of a release that is refused, or of its whole numbers."""
    spec = Spec.from_toml(SPEC + more)
    with pytest.raises(PrivcubeError) as refused:
        publish(spec, folder=place)
    return " ".join(refused.value.__notes__)


@pytest.mark.parametrize(
    "facts",
    [
        "[[impossible]]\nage = [nan, 15]",
        "[[impossible]]\nage = [-inf, inf]",
        "[[impossible]]\nage = [0, 100]",
        '[[impossible]]\nsex = "F"\n[[impossible]]\nsex = "M"\nage = [0, 100]',
        '[known]\nrecords = 2\n[[impossible]]\nsex = ["F"]\n[[impossible]]\nsex = "M"\nage = [0, 100]',
        "[known]\nrecords = 9_007_199_254_740_993",
        "[known]\nrecords = nan",
        "[[impossible]]\nage = {}",
        "[[impossible]]\nage = []\nbeard = true",
    ],
)
def test_facts_that_cannot_be_are_refused_before_the_charge(place: Path, facts: str) -> None:
    (place / "people.csv").unlink()  # not even the data is looked at
    try:
        said = released(place, facts)
    except SpecError:
        return  # not even a spec
    assert "Nothing was charged" in said
    assert not (place / "out").exists()


@pytest.mark.parametrize(
    "failure",
    [QueryError("impossible", expected="some combination that can occur"), ValueError("a mistake"), MemoryError()],
    ids=lambda failure: type(failure).__name__,
)
def test_a_release_whose_whole_numbers_fail_is_kept(
    failure: Exception, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was paid for, and the noise cannot be drawn again."""

    def fail(*given: object) -> None:
        raise failure

    monkeypatch.setattr(whole_release, "find_records", fail)
    said = released(place)
    assert "The release was charged, and published without whole numbers" in said
    monkeypatch.undo()
    found = pc.Release.open(place / "out")
    assert not isinstance(found, WholeRelease)
    assert all(check.passed for check in pc.verify(place / "out"))


def test_whole_numbers_of_the_total_alone() -> None:
    made = pc.plan(pc.Workload.tables(SCHEMA, [()]), pc.PureDP(1), "marginals")
    found = pc.Release(Measurements(made, np.array([7]))).whole("fast")
    assert (found.counts(()).tolist(), found.records(form="pyarrow").to_pydict()) == (7, {"count": [7]})


@pytest.mark.parametrize("recovery", ["optimal", "direct"])
def test_whole_numbers_of_ranges_that_tell_nothing_about_some_cell(recovery: Any) -> None:
    """No range ends at the category of what is missing, so a coordinate is in no number of any table."""
    ages = pc.Attribute("age", bins=[0, 1, 2], overflow="category", other="category", missing="category")
    workload = pc.Workload.tables(
        pc.Schema([ages, pc.Attribute("a", size=2)]), [(pc.Axis("age", queries="ranges"), "a")]
    )
    made = pc.plan(workload, pc.ZCDP(1), "base_counts", recovery=recovery)
    found = pc.Release(Measurements(made, np.arange(made.rows) * 3)).whole("fast")
    assert found.counts(next(iter(workload))).min() >= 0
    assert int(found.records(form="pyarrow")["count"].to_numpy().sum()) > 0


def release_of(answers: np.ndarray) -> pc.Release:
    made = pc.plan(pc.Workload.all_kway(SCHEMA, 1), pc.PureDP(1), "marginals")
    return pc.Release(Measurements(made, np.resize(answers, made.rows)))


@pytest.mark.parametrize(
    "declared",
    [
        '[[attributes]]\nname = "x"\nsize = 100_000\n[workload]\nall_kway = [1]',
        '[[measures]]\nname = "x"\nlow = 0\nhigh = 9\nstep = 1\n[workload]\ntables = [["sex", "x"]]',
    ],
)
def test_tables_without_whole_numbers_are_refused_before_the_charge(place: Path, declared: str) -> None:
    (place / "people.csv").unlink()
    text = SPEC.replace("[workload]\nall_kway = [1]", declared)
    with pytest.raises(PrivcubeError, match="whole numbers") as refused:
        publish(Spec.from_toml(text), folder=place)
    assert "Nothing was charged" in " ".join(refused.value.__notes__)


@pytest.mark.parametrize("answers", [[2**62], [-(2**62)], [2**62, -(2**62)], [2**53 + 1, 7]])
def test_any_measurements_have_whole_numbers(answers: list[int]) -> None:
    """Noise of a tiny epsilon is wide; more records than can be counted exactly are not made up."""
    found = release_of(np.array(answers)).whole("fast")
    assert 0 <= int(found.counts(())) <= 2**50
    assert all(found.counts(table).min() >= 0 for table in found.workload)
    assert all(int(found.counts((name,)).sum()) == int(found.counts(())) for name in ("age", "sex"))


@pytest.mark.parametrize(
    "chosen",
    [[float("nan"), 15], [float("inf"), 15.0], [0, 10**400], [[]], [{}], {"x": 1}, None, [None], b"x", [True, 15]],
    ids=repr,
)
def test_selections_that_name_nothing_are_refused(chosen: object) -> None:
    with pytest.raises(PrivcubeError):
        checked_facts(SCHEMA, Facts(None, [{"age": chosen}]))
    with pytest.raises(PrivcubeError):
        release_of(np.arange(9)).query({"age": chosen})


@pytest.mark.parametrize("given", [{"effort": ["fast"]}, {"effort": None}, {"records": True}, {"impossible": "sex"}])
def test_other_words_are_refused(given: dict[str, object]) -> None:
    with pytest.raises(PrivcubeError):
        release_of(np.arange(9)).whole(**given)  # type: ignore[arg-type]


def test_facts_that_leave_nothing_are_found_even_if_nobody_can_see_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten attributes, each like the next, and the last unlike the first: too many cells to go through."""
    monkeypatch.setitem(search._PARTICLES, "fast", 2**10)
    schema = pc.Schema.from_sizes({f"a{at}": 5 for at in range(10)})
    unlike = [{f"a{at}": v, f"a{at + 1}": [w for w in range(5) if w != v]} for at in range(9) for v in range(5)]
    made = pc.plan(pc.Workload.all_kway(schema, 1), pc.PureDP(1), "marginals")
    release = pc.Release(Measurements(made, np.arange(made.rows)))
    with pytest.raises(QueryError, match="some combination that can occur"):
        release.whole("fast", records=100, impossible=[*unlike, *({"a0": v, "a9": v} for v in range(5))])


def test_tables_of_impossible_combinations_are_limited_together() -> None:
    """Each pair of 2,000 values has 4 million cells; a small file could name thousands of pairs."""
    attributes = [pc.Attribute(f"a{at}", size=2_000) for at in range(4)]
    impossible_cells(attributes, [{"a0": 1, "a1": 2}, {"a0": 3, "a1": 4}])
    with pytest.raises(QueryError, match="at most 4,194,304 combinations"):
        impossible_cells(attributes, [{"a0": 1, "a1": 2}, {"a2": 3, "a3": 4}])


def test_many_labels_are_found_in_no_time() -> None:
    """One by one, 20,000 of 20,000 labels would take 200 million comparisons."""
    labels = [f"label {at}" for at in range(20_000)]
    attributes = [pc.Attribute("a", values=labels), pc.Attribute("b", size=2)]
    found = impossible_cells(attributes, [{"a": labels[1:], "b": 0}])
    assert int(found.masks[0][1].sum()) == 19_999
