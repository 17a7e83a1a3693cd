"""Verification: whatever is changed in an artifact is noticed and named, and nothing makes it crash."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privcube import ApproxDP, Attribute, Axis, Level, PureDP, Release, Schema, Workload, linear, plan
from privcube.accuracy.layout import with_ranges
from privcube.errors import ArtifactError, PrivcubeError
from privcube.model.documents.plans import digest_of
from privcube.model.measurements import Measurements
from privcube.released.artifact.checks import additivity
from privcube.released.artifact.checks.additivity import PublishedTable, compared_margins
from privcube.released.artifact.store import open_release, save
from privcube.released.artifact.table_files import TableWriter, measurements_bytes
from privcube.released.artifact.verification import Check, verify
from privcube.released.labels import NUMBERS
from privcube.version import __version__

SCHEMA = Schema.from_sizes({"a": 2, "b": 3})
HEAD = "0123456789abcdef" * 4
FILES = [
    "PRIVACY.md",
    "SHA256SUMS",
    "codebook.csv",
    "index.html",
    "measurements.parquet",
    "plan.json",
    "registry.yaml",
    "release.json",
    "tables.csv",
    "tables.json",
    "tables/0001-total.csv",
    "tables/0001-total.parquet",
    "tables/0002-b.csv",
    "tables/0002-b.parquet",
    "tables/0003-a-x-b.csv",
    "tables/0003-a-x-b.parquet",
    "words.json",
]
TABLE = "tables/0003-a-x-b"


@cache
def release() -> Release:
    made = plan(Workload.tables(SCHEMA, [(), ("b",), ("a", "b")]), PureDP(1), "marginals")
    return Release(Measurements(made, np.arange(made.rows) * 7 - 5), {"entry": 3, "head": HEAD})


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("pristine") / "out"
    save(release(), place)
    return place


@pytest.fixture
def out(pristine: Path, tmp_path: Path) -> Path:
    """A copy to break."""
    return Path(shutil.copytree(pristine, tmp_path / "out"))


def failed(place: Path, *, strict: bool = False) -> dict[str, str]:
    return {check.name: check.detail for check in verify(place, strict=strict) if not check.passed}


def reseal(place: Path) -> None:
    """What a forger does: make the checksums fit."""
    names = sorted(path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file())
    digests = {name: hashlib.sha256((place / name).read_bytes()).hexdigest() for name in names if name != "SHA256SUMS"}
    (place / "SHA256SUMS").write_text("".join(f"{digests[name]}  {name}\n" for name in sorted(digests)))


def edit_json(path: Path, change: Callable[[Any], object]) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document, indent=1) + "\n")


def edit_plan(place: Path, change: Callable[[Any], object]) -> None:
    """Change a plan and whatever states its digest."""
    document = json.loads((place / "plan.json").read_text())
    del document["digest"]
    change(document)
    document["digest"] = digest_of(document)
    (place / "plan.json").write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    edit_json(place / "release.json", lambda stated: stated.update(plan=document["digest"]))


def edit_table(place: Path, column: str, row: int, value: object, *, also_csv: bool = True) -> None:
    table = pq.read_table(place / f"{TABLE}.parquet")
    changed = table[column].to_pylist()
    changed[row] = value
    array = pa.array(changed, table[column].type)
    table = table.set_column(table.column_names.index(column), column, array)
    pq.write_table(table, place / f"{TABLE}.parquet", store_schema=False)
    if also_csv:
        numbers = {name: table[name].to_numpy() for name in NUMBERS}
        (place / f"{TABLE}.csv").write_bytes(TableWriter(SCHEMA).csv(("a", "b"), numbers))


def write_answers(place: Path, **columns: object) -> None:
    table = pq.read_table(place / "measurements.parquet").to_pydict()
    changed = pa.table({**table, **columns})
    pq.write_table(changed, place / "measurements.parquet", compression="none", store_schema=False)


# Accidents


def test_the_files_of_the_example(pristine: Path) -> None:
    found = sorted(path.relative_to(pristine).as_posix() for path in pristine.rglob("*") if path.is_file())
    assert found == FILES
    assert failed(pristine) == {}


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_bit_is_noticed_and_the_file_named(name: str, out: Path) -> None:
    content = (out / name).read_bytes()
    for place, bit in ((len(content) // 3, 1), (len(content) - 1, 0)):
        flipped = bytearray(content)
        flipped[place] ^= 1 << bit
        (out / name).write_bytes(flipped)
        assert any(name in detail for detail in failed(out).values()), place
        with pytest.raises(ArtifactError, match=None if name == "SHA256SUMS" else name):
            open_release(out)
    (out / name).write_bytes(content)
    assert failed(out) == {}


@pytest.mark.parametrize("name", FILES)
def test_a_missing_or_empty_file_is_named(name: str, out: Path) -> None:
    (out / name).write_bytes(b"")
    assert any(name in detail for detail in failed(out).values())
    (out / name).unlink()
    assert name in failed(out)["files"]
    with pytest.raises(ArtifactError, match=name):
        open_release(out)


@pytest.mark.parametrize(
    "name", ["notes.txt", ".DS_Store", "logo\n.svg", "tables/.DS_Store", "tables/._0003-a-x-b.csv"]
)
def test_a_file_of_the_publisher_is_named_as_not_covered(name: str, out: Path) -> None:
    (out / name).write_text("hello")
    (found,) = [check for check in verify(out) if check.name == "files"]
    assert found.passed
    assert found.beside
    assert not found.partial
    assert found.detail.endswith(f"not covered: {name!r}")
    assert list(failed(out, strict=True)) == ["files"]
    assert open_release(out).plan.digest == release().plan.digest
    reseal(out)  # SHA256SUMS lists the files of the release, and no others
    assert "files" in failed(out) or "checksums" in failed(out)


@pytest.mark.parametrize("name", ["tables/0004-c.csv", "tables/notes.txt", "tables/0003-a-x-b.csv~"])
def test_an_added_table_is_named(name: str, out: Path) -> None:
    (out / name).write_text("hello")
    assert list(failed(out)) == ["files"]
    assert name in failed(out)["files"]


def test_a_folder_of_the_publisher_is_not_entered(out: Path) -> None:
    (out / "notes").mkdir(mode=0)
    (out / "latest").symlink_to("notes")
    assert failed(out) == {}
    assert "'latest', 'notes'" in failed(out, strict=True)["files"]
    (out / "tables" / "more").mkdir()
    assert "tables/more" in failed(out)["files"]


def test_links_and_pipes_are_named_and_never_opened(out: Path, tmp_path: Path) -> None:
    for name, make in (
        ("plan.json", lambda path: path.symlink_to(shutil.copy(out / "plan.json", tmp_path / "elsewhere"))),
        ("tables.csv", os.mkfifo),
        ("release.json", Path.mkdir),
    ):
        copy = Path(shutil.copytree(out, tmp_path / name))
        (copy / name).unlink()
        make(copy / name)
        assert name in failed(copy)["files"]
        with pytest.raises(ArtifactError, match=name):
            open_release(copy)
    shutil.move(out / "tables", tmp_path / "tables")
    (out / "tables").symlink_to(tmp_path / "tables")
    assert "tables" in failed(out)["files"]


def test_what_is_no_artifact_is_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("hello")
    for name in ("file", "none"):
        for attempt in (verify, open_release):
            with pytest.raises(ArtifactError, match=f"{name}: expected the folder of a release"):
                attempt(tmp_path / name)  # type: ignore[operator]
    (tmp_path / "empty").mkdir()
    assert "files" in failed(tmp_path / "empty")
    with pytest.raises(ArtifactError, match="SHA256SUMS: expected a file"):
        open_release(tmp_path / "empty")


# Forgeries with checksums that fit


def test_a_plan_with_a_larger_share_is_noticed(out: Path) -> None:
    def raise_share(document: Any) -> None:
        document["shares"][0] += 1

    edit_json(out / "plan.json", raise_share)
    reseal(out)
    assert "digest" in failed(out)["plan"]
    assert "checksums" not in failed(out)
    with pytest.raises(ArtifactError, match="digest"):
        open_release(out)


def test_a_plan_over_budget_is_noticed_though_all_digests_fit(out: Path) -> None:
    def raise_share(document: Any) -> None:
        document["shares"][0] += document["denominator"]

    edit_plan(out, raise_share)
    reseal(out)
    assert "cost at most the denominator" in failed(out)["plan"]
    assert {"budget", "noise", "tables"} <= set(failed(out))


def test_a_plan_with_other_shares_does_not_fit_the_tables(out: Path) -> None:
    """Within budget, with every digest made to fit: the tables are not those that these weights give."""

    def move_share(document: Any) -> None:
        document["shares"][0] -= document["denominator"] // 100
        document["shares"][1] += document["denominator"] // 100

    edit_plan(out, move_share)
    reseal(out)
    assert {"plan", "budget", "checksums", "files"}.isdisjoint(failed(out))
    assert {"tables", "errors", "release.json"} <= set(failed(out))


def test_noise_that_is_not_proved_is_noticed(tmp_path: Path) -> None:
    """Every digest fits and the shares add up; but the constant of the Gaussian noise is for looking only."""
    guarantee = ApproxDP(1, "1e-6", calibration="classic")
    made = plan(Workload.tables(SCHEMA, [("b",)]), guarantee, "marginals")
    save(Release(Measurements(made, np.arange(made.rows))), tmp_path / "out")
    assert set(failed(tmp_path / "out")) == {"budget"}


def test_another_plan_than_the_manifest_names_is_not_opened(out: Path) -> None:
    edit_json(out / "release.json", lambda stated: stated.update(plan="0" * 64))
    reseal(out)
    assert "release.json" in failed(out)
    with pytest.raises(ArtifactError, match=r"release.json, plan: expected the digest of plan.json"):
        open_release(out)


def test_a_plan_with_more_in_it_is_noticed(out: Path) -> None:
    edit_json(out / "plan.json", lambda document: document.update(drawn_variance_per_cell=["canary"]))
    reseal(out)
    assert set(failed(out)) == {"plan"}


def test_an_edited_cell_is_noticed_by_recovery_and_by_additivity(out: Path) -> None:
    edit_table(out, "estimate", 4, release().values(("a", "b")).estimate.ravel()[4] + 0.01)
    reseal(out)
    found = failed(out)
    assert set(found) == {"tables", "agreement", "page"}
    assert f"{TABLE}.parquet" in found["tables"]
    assert f"{TABLE}.parquet" in found["agreement"]


@pytest.mark.parametrize("column", ["std_error", "low", "high", "low_all", "high_all"])
def test_edited_errors_are_noticed(column: str, out: Path) -> None:
    edit_table(out, column, 2, 0.001)
    reseal(out)
    assert set(failed(out)) == {"errors"} | ({"page"} if column in ("std_error", "high", "high_all") else set())
    assert f"{TABLE}.parquet" in failed(out)["errors"]


def test_edited_labels_are_noticed(out: Path) -> None:
    edit_table(out, "a", 0, 1)
    reseal(out)
    assert set(failed(out)) == {"bytes"}


def test_labels_edited_in_parquet_alone_are_noticed(out: Path) -> None:
    edit_table(out, "b", 5, 1, also_csv=False)
    reseal(out)
    assert failed(out)["bytes"].startswith(f"{TABLE}.parquet: expected the declared labels")


def test_what_is_no_number_is_noticed(out: Path) -> None:
    edit_table(out, "estimate", 0, float("nan"))
    reseal(out)
    assert {"tables", "agreement"} <= set(failed(out))


@pytest.mark.parametrize(("old", "new"), [(b"\n0,", b"\n1,"), (b'"b"', b'"c"'), (b".", b".1"), (b"\n0,", b"\n9,9,")])
def test_a_csv_file_that_differs_from_its_parquet_file_is_noticed(old: bytes, new: bytes, out: Path) -> None:
    path = out / f"{TABLE}.csv"
    path.write_bytes(path.read_bytes().replace(old, new, 1))
    reseal(out)
    assert set(failed(out)) == {"bytes"}
    assert f"{TABLE}.csv" in failed(out)["bytes"]


@pytest.mark.parametrize(
    "change",
    [
        lambda stated: stated["guarantee"]["amounts"].update(epsilon="0.1"),
        lambda stated: stated["guarantee"].update(neighbors="replace_one"),
        lambda stated: stated["noise"].update(smallest_scale="1000"),
        lambda stated: stated.update(rows=12),
        lambda stated: stated.pop("confidence"),
        lambda stated: stated["files"].pop(),
        lambda stated: stated["ledger"].update(rows=12),
    ],
)
def test_a_manifest_that_states_other_things_is_noticed(change: Callable[[Any], object], out: Path) -> None:
    edit_json(out / "release.json", change)
    reseal(out)
    assert "release.json" in failed(out)["release.json"]


@pytest.mark.parametrize("ledger", [{"entry": 3, "head": "x"}, {"entry": 0, "head": HEAD}, {"entry": 3}, "x", []])
def test_a_head_of_another_form_is_noticed(ledger: object, out: Path) -> None:
    edit_json(out / "release.json", lambda stated: stated.update(ledger=ledger))
    reseal(out)
    assert "ledger head" in failed(out)
    with pytest.raises(PrivcubeError):
        open_release(out)


@pytest.mark.parametrize("name", ["PRIVACY.md", "registry.yaml"])
def test_statements_must_state_the_guarantee_whatever_the_version(name: str, out: Path) -> None:
    text = (out / name).read_text()
    for version in (__version__, "9.9"):
        edit_json(out / "release.json", lambda stated, version=version: stated.update(privcube=version))
        for other in ("PRIVACY.md", "registry.yaml", "index.html"):
            (out / other).write_text((out / other).read_text().replace(__version__, version))
        reseal(out)
        assert failed(out, strict=True) == {}
        (out / name).write_text(text.replace("epsilon = 1", "epsilon = 0.1").replace("epsilon: 1.0", "epsilon: 0.1"))
        reseal(out)
        assert name in failed(out)["statements"]
        (out / name).write_text(text)


def test_another_version_cannot_excuse_other_words_silently(out: Path) -> None:
    statement = out / "PRIVACY.md"
    statement.write_text(statement.read_text().replace("neither rounded nor", "both rounded and"))
    reseal(out)
    assert "PRIVACY.md" in failed(out)["statements"]
    edit_json(out / "release.json", lambda stated: stated.update(privcube="9.9"))
    reseal(out)
    (found,) = [check for check in verify(out) if check.name == "statements"]
    assert found.partial
    assert "NOT CHECKED: the other words of PRIVACY.md" in found.detail
    assert "privcube 9.9" in found.detail
    assert "statements" in failed(out, strict=True)


@pytest.mark.parametrize(
    "version",
    ["", "1", "1.0 ", "01.2", "1.0+rows.918273", "1.0; see x.org", "v1.0", "1.0\n", "\u0661.0", 1, None, ["1.0"]],
)
def test_a_version_is_a_version(version: object, out: Path) -> None:
    edit_json(out / "release.json", lambda stated: stated.update(privcube=version))
    reseal(out)
    assert {"release.json", "statements"} <= set(failed(out))
    with pytest.raises(ArtifactError, match=r"release\.json, privcube"):
        open_release(out)


def test_other_measurements_do_not_fit_the_tables(out: Path) -> None:
    answers = release().measurements.answers.copy()
    answers[3] += 1
    (out / "measurements.parquet").write_bytes(measurements_bytes(Measurements(release().plan, answers)))
    reseal(out)
    assert set(failed(out)) == {"tables", "errors"}  # intervals are around estimates


@pytest.mark.parametrize(
    "columns",
    [
        {"answer": np.arange(release().plan.rows) + 0.5},
        {"answer": [None] * release().plan.rows},
        {"answer": np.arange(release().plan.rows, dtype=np.int32)},
        {"row": np.zeros(release().plan.rows, dtype=np.int64)},
        {"extra": np.zeros(release().plan.rows)},
    ],
)
def test_measurements_of_another_form_are_noticed(columns: dict[str, object], out: Path) -> None:
    write_answers(out, **columns)
    reseal(out)
    assert "measurements.parquet" in failed(out)["noise"]
    with pytest.raises(ArtifactError, match="measurements"):
        open_release(out)


def test_an_edited_list_of_tables_is_noticed(out: Path) -> None:
    edit_json(out / "tables.json", lambda rows: rows[1].update(std_error=0.1))
    reseal(out)
    assert "tables.json" in failed(out)["index"]
    edit_json(out / "tables.json", lambda rows: rows.pop())
    reseal(out)
    assert "tables.json" in failed(out)["index"]


def test_a_list_for_people_that_differs_is_noticed(out: Path) -> None:
    path = out / "tables.csv"
    path.write_text(path.read_text().replace("a x b", "a x c"))
    reseal(out)
    assert "tables.csv" in failed(out)["index"]


# Broken and hostile files

BROKEN = [
    b"",
    b"{",
    b"[]",
    b"null",
    b'"x"',
    b"[null, 1]",
    b'{"format": "privcube plan 1", "format": 1}',
    b'{"a": 1e999, "b": NaN}',
    b'{"n": ' + b"9" * 5000 + b"}",
    b"[" * 100_000,
    b"\xff\xfe\x00",
    b"PAR1" + b"\x00" * 40 + b"PAR1",
    b"\x00" * 1000,
]


@pytest.mark.parametrize("name", FILES)
def test_no_content_makes_it_crash(name: str, out: Path) -> None:
    """Every second content, the others in the next file."""
    for content in BROKEN[FILES.index(name) % 2 :: 2]:
        (out / name).write_bytes(content)
        if name != "SHA256SUMS":
            reseal(out)
        assert failed(out), content[:20]


@pytest.mark.parametrize(
    "lines",
    ["x", "0" * 64 + "  ../../etc/passwd\n", "0" * 64 + "  /etc/passwd\n", "0" * 64 + " plan.json\n", "\n", "\x00"],
)
def test_checksums_name_no_file_outside(lines: str, out: Path) -> None:
    (out / "SHA256SUMS").write_text(lines)
    assert {"files", "checksums"} <= set(failed(out))
    assert "SHA256SUMS" in failed(out)["files"]
    with pytest.raises(ArtifactError, match="SHA256SUMS"):
        open_release(out)


def with_plan(**changes: object) -> Callable[[Any], object]:
    return lambda document: document.update(changes)


@pytest.mark.parametrize(
    "change",
    [
        with_plan(attributes=[{"name": name, "size": 10**8} for name in "ab"]),
        with_plan(attributes=[{"name": name, "size": 10**8} for name in "ab"], groups=[[[0, 1, "cells"]]] * 3),
        with_plan(denominator=10**300),
        with_plan(shares=[1e400, 1, 1]),
        with_plan(weights=[10**400, 1, 1]),
        with_plan(groups=[{"partition": 0, "buckets": 10**15}] * 3),
        with_plan(groups=[[[0, 10**9, "cells"]]] * 3),
        with_plan(frame={"kind": "tree", "branching": 10**6, "leveled": ["a", "b"]}),
        with_plan(sources=[[5], [6], [7]]),
        with_plan(bundles=[[0, 1, 2]]),
    ],
)
def test_a_plan_of_monstrous_numbers_fails_and_costs_nothing(change: Callable[[Any], object], out: Path) -> None:
    edit_plan(out, change)
    reseal(out)
    assert {"tables", "errors"} <= set(failed(out))


def test_monstrous_tables_of_few_measurements_are_not_worked_out(out: Path) -> None:
    edit_plan(out, with_plan(attributes=[{"name": name, "size": 10**8} for name in "ab"], groups=[[]] * 3))
    answers = pa.table({"group": [0, 1, 2], "row": [0, 0, 0], "answer": [5, 6, 7]})
    pq.write_table(answers, out / "measurements.parquet", compression="none", store_schema=False)
    reseal(out)
    assert "as many rows as a table has cells" in failed(out)["tables"]


def test_many_measurements_in_few_bytes_are_not_read(out: Path) -> None:
    attributes = [
        {"name": name, "size": size, "ordered": True, "missing": "refuse", "other": "refuse"}
        for name, size in (("a", 10**6), ("b", 3))
    ]
    edit_plan(out, with_plan(attributes=attributes, groups=[[[0, 1, "cells"], [1, 1, "cells"]], [], []]))
    zeros = np.zeros(3 * 10**6 + 2, dtype=np.int64)
    pq.write_table(pa.table(dict.fromkeys(("group", "row", "answer"), zeros)), out / "measurements.parquet")
    reseal(out)
    assert "at least 8 bytes for each of 3,000,002 rows" in failed(out)["noise"]
    with pytest.raises(ArtifactError, match="at least 8 bytes"):
        open_release(out)
    (out / "measurements.parquet").write_bytes(bytes(24_000_016))
    reseal(out)
    assert "0003-a-x-b.csv: expected at least 6 bytes for each of 3,000,000 rows" in failed(out)["noise"]


def test_a_prediction_that_is_no_number_is_noticed(out: Path) -> None:
    edit_plan(out, with_plan(predicted_variance_per_cell=[float("nan")] * 3))
    reseal(out)
    assert "plan.json: expected a plan" in failed(out)["plan"]


def test_a_table_of_too_many_rows_is_not_read(out: Path) -> None:
    table = pq.read_table(out / f"{TABLE}.parquet")
    many = table.take(pa.array(np.zeros(10**6, dtype=np.int64)))
    pq.write_table(many, out / f"{TABLE}.parquet")
    reseal(out)
    assert "6 rows" in failed(out)["tables"]


def test_a_check_is_a_name_a_verdict_and_a_sentence(pristine: Path) -> None:
    checks = verify(str(pristine))
    assert all(isinstance(check, Check) and check.detail and "\n" not in check.detail for check in checks)
    assert "epsilon 1 and the guarantee allows 1" in next(check.detail for check in checks if check.name == "budget")


# Additivity against a dense twin

LEVELED = Schema(
    [
        Attribute("a", values=["x", "y"]),
        Attribute(
            "b",
            values=["p", "q", "r"],
            ordered=True,
            missing="category",
            levels=[
                Level("pair", groups={"pq": ["p", "q"], "r": ["r"]}),
                Level("rest", groups={"qr": ["q", "r"], "p": ["p"]}, of="b"),  # crosses the other, and not in order
            ],
        ),
        Attribute("c", size=2),
    ]
)
B_RANGES, B_PREFIXES = Axis("b", queries="ranges"), Axis("b", queries="prefixes")
CANDIDATES = [
    (),
    ("a",),
    ("b",),
    (Axis("b", "pair"),),
    (B_RANGES,),
    (B_PREFIXES,),
    ("a", "b"),
    ("a", Axis("b", "pair")),
    (Axis("b", "rest"),),
    (Axis("b", "rest"), "c"),
    ("a", B_RANGES),
    ("b", "c"),
    (B_PREFIXES, "c"),
    (Axis("c", queries="ranges"),),
    ("a", Axis("c", queries="ranges")),
    ("a", "c"),
]


@cache
def queries_of(table: Any) -> np.ndarray:
    return np.asarray(linear.workload_matrix(Workload.tables(LEVELED, [table])).toarray())


def published(base: np.ndarray, tables: list[Any]) -> list[PublishedTable]:
    found = []
    for table in Workload.tables(LEVELED, tables):
        shape = [len(queries_of((entry,))) for entry in table]
        found.append(PublishedTable(str(table), table, (queries_of(table) @ base.ravel()).reshape(shape)))
    return found


def every_pair_can_be_true(tables: list[PublishedTable]) -> bool:
    """For each pair, whether one base table with signs gives both: least squares, no lattice."""
    pairs = [*itertools.combinations(tables, 2), *((table, table) for table in tables)]
    return all(_can_be_true(pair) for pair in pairs)


def _can_be_true(tables: tuple[PublishedTable, ...]) -> bool:
    rows = np.vstack([queries_of(each.table) for each in tables])
    wanted = np.concatenate([each.counts.ravel() for each in tables])
    best = np.linalg.lstsq(rows, wanted, rcond=None)[0]
    return bool(np.max(np.abs(rows @ best - wanted)) < 1e-7)


def assert_noticed_alike(tables: list[PublishedTable]) -> bool:
    if every_pair_can_be_true(tables):
        assert compared_margins(LEVELED, tables) is not None
        return False
    with pytest.raises(ArtifactError):
        compared_margins(LEVELED, tables)
    return True


@pytest.mark.parametrize("first", CANDIDATES, ids=str)
def test_additivity_notices_what_least_squares_does(first: Any) -> None:
    """Every pair of tables with every number of the first edited."""
    base = np.random.default_rng(3).normal(scale=50, size=(2, 4, 2))
    noticed = 0
    for second in CANDIDATES:
        if second == first:
            continue
        assert not assert_noticed_alike(published(base, [first, second]))
        for cell in range(len(queries_of(first))):
            tables = published(base, [first, second])
            counts = next(own.counts for own in tables if own.table == first)
            counts.reshape(-1)[cell] += 1.0
            noticed += assert_noticed_alike(tables)
    assert noticed


@settings(max_examples=24, deadline=None)
@given(
    st.lists(st.sampled_from(CANDIDATES), min_size=3, max_size=6, unique=True),
    st.integers(0, 2**32 - 1),
    st.integers(0, 99),
    st.integers(0, 99),
)
def test_so_it_does_among_many_tables(tables: list[Any], seed: int, which: int, cell: int) -> None:
    found = published(np.random.default_rng(seed).normal(scale=50, size=(2, 4, 2)), tables)
    counts = found[which % len(found)].counts
    counts.reshape(-1)[cell % counts.size] += 1.0
    assert_noticed_alike(found)


def test_disagreement_names_both_files_and_what_they_share() -> None:
    tables = published(np.arange(16.0).reshape(2, 4, 2), [("a", "b"), ("b", "c")])
    tables[1].counts[0, 0] += 1
    with pytest.raises(ArtifactError, match=r"\('a', 'b'\).* and .*\('b', 'c'\).* sums for b"):
        compared_margins(LEVELED, tables)


def test_ranges_must_add_up() -> None:
    (ranges,) = published(np.arange(16.0).reshape(2, 4, 2), [(B_RANGES,)])
    np.testing.assert_array_equal(ranges.counts, with_ranges(LEVELED, (B_RANGES,), ranges.counts[[0, 3, 5]]))
    ranges.counts[1] += 1
    with pytest.raises(ArtifactError, match="sums of cells"):
        compared_margins(LEVELED, [ranges])


def test_too_many_margins_are_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = published(np.arange(16.0).reshape(2, 4, 2), [("a", "b"), ("a", "c"), ("b", "c")])
    monkeypatch.setattr(additivity, "_MOST_SUMS", 10)
    assert compared_margins(LEVELED, tables) is None
