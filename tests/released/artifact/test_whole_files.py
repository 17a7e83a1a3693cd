"""Whole numbers in an artifact: they come back, every check passes, and every kind of tampering is found."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import privcube as pc
from privcube.errors import ArtifactError
from privcube.model.measurements import Measurements
from privcube.model.workload import Axis
from privcube.released.artifact.folder import CHECKSUMS, Contents, checksums_text
from privcube.released.artifact.store import MANIFEST, RECORDS, json_text
from privcube.released.artifact.table_files import TableWriter, file_stems
from privcube.released.artifact.verification import Check
from privcube.released.artifact.whole_files import records_bytes
from privcube.released.release import number_columns
from privcube.released.whole import facts
from privcube.released.whole.records import Records
from privcube.released.whole.release import WholeRelease

AGE = pc.Attribute("age", bins=[0, 15, 40, 65], missing="category", levels=[pc.Level("stage", bins=[0, 40, 65])])
SCHEMA = pc.Schema([pc.Attribute("=sex", values=["F", "a long label"]), AGE, pc.Attribute("count", size=3)])
WORKLOAD = pc.Workload.tables(
    SCHEMA, [("=sex", "age"), ("=sex", "count"), (("age", "stage"),), (Axis("count", queries="ranges"),)]
)


@pytest.fixture(scope="module", autouse=True)
def any_facts() -> Iterator[None]:
    """Answers are made up, and facts have nothing to do with them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(facts, "FAR", math.inf)
        yield


@pytest.fixture(scope="module")
def whole() -> WholeRelease:
    plan = pc.plan(WORKLOAD, pc.PureDP(1), "marginals")
    answers = np.random.default_rng(0).integers(-3, 30, plan.rows)
    return pc.Release(Measurements(plan, answers)).whole(
        records=150, impossible=[{"=sex": "F", "age": {"stage": "[0, 40)"}}]
    )


@pytest.fixture(scope="module", params=["with records", "without"])
def saved(request: pytest.FixtureRequest, whole: WholeRelease, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("whole") / "out"
    (whole if request.param == "with records" else whole.with_intervals().without_records()).save(folder)
    return folder


def failed(folder: Path) -> list[str]:
    return [check.name for check in pc.verify(folder) if not check.passed]


def of_whole_numbers(folder: Path) -> Check:
    return next(check for check in pc.verify(folder) if check.name == "whole numbers")


def sign_again(folder: Path) -> None:
    """Write the checksums that fit the files as they are."""
    names = [name for name in Contents.of(folder).sizes if name != CHECKSUMS]
    digests = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names}
    (folder / CHECKSUMS).write_text(checksums_text(digests))


def test_comes_back_and_passes_every_check(saved: Path, whole: WholeRelease) -> None:
    back = pc.Release.open(saved)
    assert isinstance(back, WholeRelease)
    assert failed(saved) == []
    for table in WORKLOAD:
        np.testing.assert_array_equal(back.counts(table), whole.counts(table))
        np.testing.assert_array_equal(back.values(table).count, whole.counts(table))
    assert back.facts.records == 150
    assert back.effort == "normal"
    assert (saved / RECORDS).exists() == (back.found is not None)
    check = of_whole_numbers(saved)
    assert check.partial == (back.found is None)
    again = saved.parent / f"again-{saved.name}-{back.found is None}"
    back.save(again)
    assert (again / CHECKSUMS).read_bytes() == (saved / CHECKSUMS).read_bytes()


def test_tables_have_counts_for_people_and_programs(saved: Path, whole: WholeRelease) -> None:
    for stem, table in zip(file_stems(WORKLOAD), WORKLOAD, strict=True):
        parquet = pyarrow.parquet.read_table(saved / "tables" / f"{stem}.parquet")
        with_intervals = not (saved / RECORDS).exists()
        assert parquet.column_names[-3 if with_intervals else -1] == "count"
        if with_intervals:
            ends = [own.ravel().tolist() for own in whole.count_intervals(table)]
            assert [parquet[name].to_pylist() for name in ("count_low", "count_high")] == ends
        assert parquet["count"].type == pa.int64()
        assert parquet["count"].to_pylist() == whole.counts(table).ravel().tolist()
        assert (
            pyarrow.csv.read_csv(saved / "tables" / f"{stem}.csv")["count"].to_pylist() == parquet["count"].to_pylist()
        )
    assert "`count`" in (saved / "PRIVACY.md").read_text()


def test_other_intervals_of_counts_are_found(whole: WholeRelease, tmp_path: Path) -> None:
    whole.with_intervals().save(tmp_path / "out")
    assert failed(tmp_path / "out") == []
    back = pc.Release.open(tmp_path / "out")
    assert isinstance(back, WholeRelease)
    assert back.intervals
    assert "no intervals around `count`" in " ".join((tmp_path / "out" / "PRIVACY.md").read_text().split())
    wanted, stem = next(iter(WORKLOAD)), file_stems(WORKLOAD)[0]
    numbers = number_columns(back.values(wanted))
    numbers["count_high"] = numbers["count_high"] - 1
    writer = TableWriter(SCHEMA)
    (tmp_path / "out" / "tables" / f"{stem}.parquet").write_bytes(writer.parquet(wanted, numbers))
    (tmp_path / "out" / "tables" / f"{stem}.csv").write_bytes(writer.csv(wanted, numbers))
    sign_again(tmp_path / "out")
    assert "whole numbers" in failed(tmp_path / "out")


def test_records_are_rows_of_labels(whole: WholeRelease, tmp_path: Path) -> None:
    whole.save(tmp_path / "out")
    rows = pyarrow.parquet.read_table(tmp_path / "out" / RECORDS)
    assert rows.column_names == ["=sex", "age", "count_", "count"]
    assert sum(rows["count"].to_pylist()) == 150
    assert not any(row["=sex"] == "F" and row["age"] in ("[0, 15)", "[15, 40)") for row in rows.to_pylist())
    assert rows.equals(whole.records(form="pyarrow").cast(rows.schema))


def moved_count(folder: Path, table: int, by: int) -> None:
    """Change one count in both files of a table, as privcube would write them."""
    back = pc.Release.open(folder)
    wanted, stem = list(WORKLOAD)[table], file_stems(WORKLOAD)[table]
    numbers = number_columns(back.values(wanted))
    numbers["count"] = numbers["count"].copy()
    numbers["count"][0] += by
    writer = TableWriter(SCHEMA)
    (folder / "tables" / f"{stem}.parquet").write_bytes(writer.parquet(wanted, numbers))
    (folder / "tables" / f"{stem}.csv").write_bytes(writer.csv(wanted, numbers))


def less(folder: Path) -> None:
    moved_count(folder, 0, -1)


def more(folder: Path) -> None:
    moved_count(folder, 1, 1)


def far_off(folder: Path) -> None:
    stated = json.loads((folder / MANIFEST).read_text())
    stated["whole"]["distance"] = stated["whole"]["distance"] * 1.01
    (folder / MANIFEST).write_text(json_text(stated))


def other_fact(folder: Path) -> None:
    stated = json.loads((folder / MANIFEST).read_text())
    stated["known"]["records"] = 151
    (folder / MANIFEST).write_text(json_text(stated))


@pytest.mark.parametrize("tamper", [less, more, far_off])
def test_tampering_is_found(saved: Path, tmp_path: Path, tamper: Callable[[Path], None]) -> None:
    folder = tmp_path / "out"
    shutil.copytree(saved, folder)
    tamper(folder)
    assert "checksums" in failed(folder)
    sign_again(folder)
    assert "whole numbers" in failed(folder)


def change_records(folder: Path, change: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]) -> None:
    found = pc.Release.open(folder).found  # type: ignore[attr-defined]
    codes, times = change(found.codes.copy(), found.times.copy())
    (folder / RECORDS).write_bytes(records_bytes(WORKLOAD, Records(codes, times)))
    sign_again(folder)


@pytest.mark.parametrize(
    "change",
    [
        lambda codes, times: (codes, np.concatenate([times[:1] + 1, times[1:]])),
        lambda codes, times: (codes[::-1], times[::-1]),
        lambda codes, times: (np.concatenate([codes[:1], codes]), np.concatenate([times[:1], times])),
        lambda codes, times: (codes, np.concatenate([[0], times[1:]])),
        lambda codes, times: (codes[1:], times[1:]),
    ],
)
def test_other_records_are_found(whole: WholeRelease, tmp_path: Path, change: Callable[..., tuple]) -> None:
    whole.save(tmp_path / "out")
    change_records(tmp_path / "out", change)
    assert "whole numbers" in failed(tmp_path / "out")


def test_a_fact_that_is_not_honored_is_found(whole: WholeRelease, tmp_path: Path) -> None:
    whole.save(tmp_path / "out")
    other_fact(tmp_path / "out")
    sign_again(tmp_path / "out")
    assert "whole numbers" in failed(tmp_path / "out")


def impossible_fact(folder: Path) -> None:
    stated = json.loads((folder / MANIFEST).read_text())
    stated["whole"]["impossible"] = [{"=sex": ["a long label"]}]
    (folder / MANIFEST).write_text(json_text(stated))


@pytest.mark.parametrize("tamper", [other_fact, impossible_fact])
def test_a_fact_that_tables_do_not_honor_is_found_without_records(
    whole: WholeRelease, tmp_path: Path, tamper: Callable[[Path], None]
) -> None:
    whole.without_records().save(tmp_path / "out")
    tamper(tmp_path / "out")
    sign_again(tmp_path / "out")
    assert "whole numbers" in failed(tmp_path / "out")


def test_records_whose_number_comes_round_are_refused(whole: WholeRelease, tmp_path: Path) -> None:
    """2^64 more records than there are leave all sums of 64 bits as they were."""
    whole.save(tmp_path / "out")

    def change(codes: np.ndarray, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        times[:2] = np.array([2**63 - 1, 2**63 - 1 - 150 + int(times[:2].sum())])
        return codes, times

    change_records(tmp_path / "out", change)
    with pytest.raises(ArtifactError, match=r"at most 2\^50 records"):
        pc.Release.open(tmp_path / "out")
    assert "whole numbers" in failed(tmp_path / "out")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("impossible", [{"nobody": 3}]),
        ("impossible", [{"=sex": ["F", "a long label"]}]),
        ("records", 2**51),
        ("effort", ["fast"]),
        ("effort", "endless"),
        ("distance", -1.0),
        ("with_records", 1),
        ("count_intervals", False),
        ("count_intervals", True),
        ("records", "7"),
        ("impossible", [{"age": 3}]),
        ("impossible", [{"age": ["[0, 15)", "[15, 40)", "[40, 100)", "unknown"]}]),
        ("in_estimates", False),
        ("more", 1),
    ],
)
def test_a_manifest_that_says_something_else_is_refused(
    whole: WholeRelease, tmp_path: Path, key: str, value: object
) -> None:
    whole.save(tmp_path / "out")
    stated = json.loads((tmp_path / "out" / MANIFEST).read_text())
    stated["known" if key in ("records", "impossible", "in_estimates") else "whole"][key] = value
    (tmp_path / "out" / MANIFEST).write_text(json_text(stated))
    sign_again(tmp_path / "out")
    assert failed(tmp_path / "out")


def test_broken_records_are_refused(whole: WholeRelease, tmp_path: Path) -> None:
    whole.save(tmp_path / "out")
    (tmp_path / "out" / RECORDS).write_bytes(b"PAR1 no, not really PAR1")
    sign_again(tmp_path / "out")
    with pytest.raises(ArtifactError, match="readable Parquet"):
        pc.Release.open(tmp_path / "out")
    assert "whole numbers" in failed(tmp_path / "out")


@pytest.mark.parametrize("end", ["csv", "parquet", "json", "xlsx"])
def test_exports_have_counts(whole: WholeRelease, tmp_path: Path, end: str) -> None:
    path = tmp_path / f"tables.{end}"
    pc.export(whole, path, [("=sex", "age"), ("age",)])
    if end == "csv":
        assert pyarrow.csv.read_csv(path)["count"].to_pylist()[:8] == whole.counts(("=sex", "age")).ravel().tolist()
    elif end == "parquet":
        assert pyarrow.parquet.read_table(path)["count"].to_pylist()[8:] == whole.counts(("age",)).tolist()
    elif end == "json":
        found = json.loads(path.read_text())["link"]["item"][1]
        assert found["value"][6::7] == whole.counts(("age",)).tolist()
    assert path.stat().st_size > 0


def test_other_forms_have_counts(whole: WholeRelease) -> None:
    assert whole.table(("age",), form="polars")["count"].to_list() == whole.counts(("age",)).tolist()
    assert whole.to_xarray(("age",))["count"].values.tolist() == whole.counts(("age",)).tolist()
    assert whole.records()["count"].sum() == whole.records(form="polars")["count"].sum() == 150
