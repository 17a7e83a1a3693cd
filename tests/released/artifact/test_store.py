"""The artifact of a release: what is in it, that it comes back, that it is whole or not there at all."""

from __future__ import annotations

import csv
import errno
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privcube import ZCDP, ApproxDP, Attribute, Axis, Level, Plan, PureDP, Release, Schema, Workload, plan
from privcube.errors import ArtifactError, PrivcubeError, SchemaError
from privcube.model.measurements import Measurements
from privcube.model.publication.words import Words
from privcube.planning.steps import with_bundles
from privcube.planning.trees import bundles_by_weight
from privcube.released.artifact import folder, store
from privcube.released.artifact.manifest import manifest
from privcube.released.artifact.registry import registry_record
from privcube.released.artifact.statements import privacy_statement
from privcube.released.artifact.store import artifact_digest, open_release, save, stage
from privcube.released.artifact.table_files import column_names, file_stems, safe_text
from privcube.released.artifact.verification import verify
from privcube.released.labels import NUMBERS
from privcube.released.presentation.numbers import decimals_for, rounded

AGE = Attribute("age", bins=[0, 5, 10, 15, 20, 25], missing="category", levels=[Level("ten", bins=[0, 10, 25])])
SCHEMA = Schema(
    [
        AGE,
        Attribute("sex", values=["=F", "M"]),
        Attribute("code", size=3, other="category"),
        Attribute("sick", values=[True, False]),
    ]
)
CELLS = Workload.tables(
    SCHEMA, [(), ("age",), ("age", "sex"), (Axis("age", "ten"), "code"), ("sex", "code", "sick"), ("sick",)]
)
RANGES = Workload.tables(
    SCHEMA,
    [
        (Axis("age", queries="ranges"),),
        ("age", "sex"),
        (Axis("age", queries="prefixes"), "sick"),
        ("sex", "code"),
    ],
)
HEAD = "0123456789abcdef" * 4


def bundled() -> Plan:
    made = plan(CELLS, PureDP("0.7"), "fourier")
    return with_bundles(made, bundles_by_weight(made))


KINDS: dict[str, Callable[[], Plan]] = {
    "marginals": lambda: plan(CELLS, PureDP("1/3"), "marginals"),
    "padded fourier": lambda: plan(CELLS, PureDP(1, neighbors="replace_one"), "fourier"),
    "bundles": bundled,
    "residual": lambda: plan(CELLS, ZCDP("0.5"), "residual"),
    "base counts": lambda: plan(RANGES, ApproxDP(1, "1e-6", max_rows_per_person=3), "base_counts"),
    "hierarchy of ranges": lambda: plan(RANGES, PureDP(1), "hierarchy"),
    "direct": lambda: plan(CELLS, PureDP(1), "marginals", recovery="direct"),
    "sketch": lambda: plan(Workload.all_kway(Schema.from_sizes({"a": 2, "b": 4}), 1), PureDP(1), "sketch"),
    "matrix of ranges": lambda: plan(RANGES, PureDP(1, neighbors="replace_one"), "matrix"),
    "Gaussian matrix": lambda: plan(RANGES, ZCDP("0.1"), "matrix"),
    "rounded residual": lambda: plan(CELLS, ApproxDP(1, "1e-6", calibration="exact"), "residual"),
    "total only": lambda: plan(Workload.tables(SCHEMA, [()]), PureDP(1), "marginals"),
}


@cache
def release_of(kind: str) -> Release:
    made = KINDS[kind]()
    answers = np.random.default_rng(5).integers(-20, 2000, made.rows)
    return Release(Measurements(made, answers), {"entry": 3, "head": HEAD, "total": {"epsilon": "4"}})


def files_in(place: Path) -> dict[str, bytes]:
    return {path.relative_to(place).as_posix(): path.read_bytes() for path in place.rglob("*") if path.is_file()}


# There and back


@pytest.mark.parametrize("kind", KINDS)
def test_comes_back_and_passes_every_check(kind: str, tmp_path: Path) -> None:
    release = release_of(kind)
    release.save(tmp_path / "out")
    back = Release.open(tmp_path / "out")
    assert back.plan.digest == release.plan.digest
    assert back.provenance == release.provenance
    np.testing.assert_array_equal(back.measurements.answers, release.measurements.answers)
    for table in release.workload:
        found, expected = back.values(table), release.values(table)
        for name in ("estimate", "std_error", "margin", "margin_all"):
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    checks = verify(tmp_path / "out")
    assert [check.name for check in checks] == [
        "files",
        "checksums",
        "plan",
        "words",
        "budget",
        "release.json",
        "statements",
        "noise",
        "tables",
        "errors",
        "agreement",
        "whole numbers",
        "bytes",
        "index",
        "page",
        "ledger head",
    ]
    assert [check for check in checks if not check.passed] == []
    agreement = next(check.detail for check in checks if check.name == "agreement")
    assert agreement.startswith("skipped: direct" if kind == "direct" else "tables agree wherever they overlap")


@pytest.mark.parametrize("kind", ["padded fourier", "hierarchy of ranges", "direct"])
def test_the_same_release_gives_the_same_bytes(kind: str, tmp_path: Path) -> None:
    release = release_of(kind)
    again = Release(Measurements(KINDS[kind](), release.measurements.answers), release.provenance)
    digest = stage(release, tmp_path / "one")
    assert stage(again, tmp_path / "two") == digest
    save(open_release(tmp_path / "one"), tmp_path / "three")
    assert files_in(tmp_path / "one") == files_in(tmp_path / "two") == files_in(tmp_path / "three")
    assert digest == artifact_digest(tmp_path / "three")
    assert digest == hashlib.sha256((tmp_path / "one" / "SHA256SUMS").read_bytes()).hexdigest()


def test_other_tools_read_it(tmp_path: Path) -> None:
    release = release_of("marginals")
    save(release, tmp_path / "out")
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=tmp_path / "out", capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    for stem, table in zip(file_stems(release.workload), release.workload, strict=True):
        frame = release.table(table)
        parquet = pq.read_table(tmp_path / "out" / "tables" / f"{stem}.parquet")
        assert parquet.schema.metadata is None
        with (tmp_path / "out" / "tables" / f"{stem}.csv").open(encoding="utf-8", newline="") as stream:
            header, *rows = csv.reader(stream)
        assert parquet.column_names == list(frame.columns)
        assert [name for name in header if not name.endswith(" label")] == [*parquet.column_names, "reliability"]
        assert len(rows) == parquet.num_rows == len(frame)
        decimals = decimals_for(frame["std_error"].min())
        for at, name in enumerate(header):
            if name not in parquet.column_names:
                continue
            column = parquet[name].to_pylist()
            if name in NUMBERS:
                assert column == frame[name].tolist()
                assert [float(row[at]) for row in rows] == rounded(name, frame[name].to_numpy(), decimals).tolist()
            else:
                assert list(map(str, column)) == list(map(str, frame[name]))
                written = [str(label).lower() if isinstance(label, bool) else safe_text(str(label)) for label in column]
                assert written == [row[at] for row in rows]


def test_measurements_are_the_signed_whole_numbers(tmp_path: Path) -> None:
    made = KINDS["padded fourier"]()
    answers = np.random.default_rng(1).integers(-(2**62), 2**62, made.rows)
    answers[:2] = -(2**63), 2**63 - 1
    save(Release(Measurements(made, answers)), tmp_path / "out")
    table = pq.read_table(tmp_path / "out" / "measurements.parquet")
    assert {str(column.type) for column in table.columns} == {"int64"}
    assert table["answer"].to_pylist() == answers.tolist()
    assert table["group"].to_pylist() == sorted(table["group"].to_pylist())
    assert [
        row for group, row in zip(table["group"].to_pylist(), table["row"].to_pylist(), strict=True) if not row
    ] == [0] * len(made.groups)
    assert Release.open(tmp_path / "out").provenance == {}


def test_the_list_of_tables(tmp_path: Path) -> None:
    release = release_of("marginals")
    save(release, tmp_path / "out")
    rows = json.loads((tmp_path / "out" / "tables.json").read_text())
    assert [row["table"] for row in rows] == [
        "total",
        "age",
        "sick",
        "age x sex",
        "age by ten x code",
        "sex x code x sick",
    ]
    assert rows[4]["axes"][0] == {"attribute": "age", "level": "ten", "queries": "cells"}
    for row, table in zip(rows, release.workload, strict=True):
        errors = release.values(table).std_error
        assert row["cells"] == errors.size
        assert row["std_error"] == pytest.approx(np.sqrt(np.mean(errors**2)))
        assert (tmp_path / "out" / row["csv"]).is_file()
        assert (tmp_path / "out" / row["parquet"]).is_file()
    with (tmp_path / "out" / "tables.csv").open(encoding="utf-8", newline="") as stream:
        listed = list(csv.DictReader(stream))
    assert [(row["table"], row["csv"], float(row["std_error"])) for row in listed] == [
        (row["table"], row["csv"], round(row["std_error"], 2)) for row in rows
    ]


# Whitelist and statements


def test_release_json_has_these_fields_and_no_others(tmp_path: Path) -> None:
    release = release_of("base counts")
    release = Release(release.measurements, {**release.provenance, "rows": 918273, "path": "/canary/data.csv"})
    save(release, tmp_path / "out")
    stated = json.loads((tmp_path / "out" / "release.json").read_text())
    assert set(stated) == {
        "format",
        "privcube",
        "plan",
        "guarantee",
        "noise",
        "confidence",
        "ledger",
        "total",
        "files",
    }
    assert set(stated["guarantee"]) == {"kind", "amounts", "neighbors", "max_rows_per_person", "unit"}
    assert set(stated["noise"]) == {"mechanism", "smallest_variance", "largest_variance"}
    assert stated["ledger"] == {"entry": 3, "head": HEAD}
    assert stated["total"] == {"epsilon": "4"}
    assert stated["guarantee"]["amounts"] == {"epsilon": "1", "delta": "0.000001"}
    assert stated["files"] == sorted(files_in(tmp_path / "out"))
    for name, content in files_in(tmp_path / "out").items():
        assert b"canary" not in content, name
        assert b"918273" not in content, name


@pytest.mark.parametrize(
    "provenance",
    [
        {"entry": 1},
        {"entry": 0, "head": HEAD},
        {"entry": True, "head": HEAD},
        {"entry": "1", "head": HEAD},
        {"entry": 1, "head": HEAD[:-1]},
        {"entry": 1, "head": HEAD.upper()},
        {"head": HEAD},
        {"total": {"rows": "12"}},
        {"total": {"epsilon": "all"}},
        {"total": 4},
    ],
)
def test_nothing_else_passes_for_provenance(provenance: dict[str, object], tmp_path: Path) -> None:
    with pytest.raises(PrivcubeError):
        save(Release(release_of("total only").measurements, provenance), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def statement(made: Plan, **provenance: object) -> str:
    return privacy_statement(made, manifest(made, provenance, []), Words())


def flat(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize(
    ("kind", "phrases"),
    [
        ("marginals", ["epsilon = 1/3", "1.40 times", "58.3% sure", "one row", "discrete Laplace", "agree wherever"]),
        ("padded fourier", ["2.72 times", "73.2% sure", "replacing one row", "number of units is considered public"]),
        ("bundles", ["epsilon = 0.7", "largest L1 norm", "adding or removing one row"]),
        ("residual", ["zero-concentrated", "rho = 0.5", "epsilon 5.22154 at delta 1e-6", "discrete Gaussian"]),
        ("base counts", ["epsilon = 1, delta = 0.000001", "at most 3 rows", "additional probability of 0.000001"]),
        (
            "rounded residual",
            ["epsilon = 1, delta = 0.000001", "Gaussian noise", "rounded to the nearest whole number"],
        ),
        ("direct", ["need not agree", "on average over the table"]),
    ],
)
def test_the_statement_says_what_is_protected_and_how(kind: str, phrases: list[str]) -> None:
    made = KINDS[kind]()
    text = flat(statement(made, entry=3, head=HEAD, total={"epsilon": 4}))
    wanted = [
        *phrases,
        made.digest,
        f"entry 3, head {HEAD}",
        "limited to epsilon = 4",
        "must not have been chosen by looking at the data",
        "releases from the same data add up",
        "privcube verify",
        "`low_all` to `high_all`",
    ]
    missing = [phrase for phrase in wanted if phrase not in text]
    assert missing == []


def test_the_statement_of_a_release_without_ledger_or_protection() -> None:
    made = plan(Workload.tables(SCHEMA, [()]), PureDP(1000), "marginals")
    text = flat(statement(made))
    assert "limits hardly anything" in text
    assert "almost the same" not in text  # nothing contradicts it
    assert "100.0%" not in text
    assert "No ledger was kept" in text


def test_the_statement_says_what_a_failed_release_would_tell() -> None:
    """For people and for registries; with policies that refuse nothing, that no value could have stopped it."""
    total = Attribute("a", values=["x"], missing="category", other="category")
    bins = Attribute("b", bins=[0, 1], missing="category", other="category", underflow="clamp", overflow="category")
    refusing = Attribute("c", bins=[0, 1], missing="category", other="category", underflow="clamp")
    for attributes, told in (
        ([total, bins], "none of them could have stopped this release"),
        ([total, bins, refusing], "Here 1 of 3 attributes may refuse values"),
        ([refusing], "Here the 1 attribute may refuse values"),
    ):
        made = plan(Workload.all_kway(Schema(attributes), 1), PureDP(1), "marginals")
        registered = registry_record(made, manifest(made, {}, []), Words())
        for text in (statement(made), registered):
            assert told in flat(text)
            assert ("Whether a release could be made is not protected" in flat(text)) == (refusing in attributes)


def test_statements_never_understate_the_loss() -> None:
    for epsilon in ("0.1", "0.7", "1", "2.3", "5", "7", "10"):
        made = plan(Workload.tables(SCHEMA, [()]), PureDP(epsilon), "marginals")
        (odds, belief) = re.findall(r"more than ([\d.]+) times.* most ([\d.]+)% sure", flat(statement(made)))[0]
        assert np.exp(float(epsilon)) <= float(odds) < np.exp(float(epsilon)) * (1 + 1e-9) + 0.02
        assert float(belief) / 100 >= 1 / (1 + np.exp(-float(epsilon)))
        assert float(belief) < 100


def parsed_yaml(text: str) -> dict[str, object]:
    """The few forms of YAML that the record uses."""
    top: dict[str, object] = {}
    stack: list[tuple[int, dict[str, object]]] = [(-1, top)]
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        parts = re.fullmatch(r'( *)(-|[a-z_]+:)(?: ("(?:[^"\\]|\\.)*"|[\d.e+-]+))?(?:  # fill in: .*)?', line)
        assert parts is not None, line
        while stack[-1][0] >= len(parts[1]):
            stack.pop()
        inner: dict[str, object] = {}
        stack[-1][1][parts[2].rstrip(":")] = inner if parts[3] is None else json.loads(parts[3])
        if parts[3] is None:
            stack.append((len(parts[1]), inner))
    return top


@pytest.mark.parametrize(
    ("kind", "variant", "parameters"),
    [
        ("marginals", "Pure DP", {"epsilon": 0.333334}),
        ("base counts", "Approximate DP", {"epsilon": 1.0, "delta": 1e-6}),
        ("residual", "Zero-concentrated DP", {"rho": 0.5}),
    ],
)
def test_the_record_has_the_fields_of_the_registry(kind: str, variant: str, parameters: dict[str, float]) -> None:
    """Section by section, the field names of deployments-schema.yaml in opendp/deployments-registry-data at 057e5d8."""
    made = KINDS[kind]()
    record = parsed_yaml(registry_record(made, manifest(made, {}, []), Words()))
    assert set(record) == {"url_slug", "deployment"}
    sections: dict[str, dict[str, object]] = record["deployment"]  # type: ignore[assignment]
    assert {name: set(fields) for name, fields in sections.items()} == {
        "basic": {
            "name",
            "data_curators",
            "description",
            "intended_use",
            "data_product_type",
            "data_product_region",
            "data_product_sector",
            "publication_date",
        },
        "dp_variant": {"variant_name", "data_domain", "unprotected_quantities"},
        "privacy_loss": {
            "privacy_unit",
            "privacy_unit_details",
            "privacy_parameters",
            "privacy_parameters_details",
        },
        "deployment_model": {
            "model_name",
            "trust_assumptions",
            "release_type",
            "data_source_type",
            "access_type",
        },
        "implementation": {
            "preprocessing_and_hyperparameter_tuning",
            "mechanisms",
            "composition",
            "post_processing",
            "justification",
            "utility",
            "additional_information",
        },
        "administrative": {"status", "registry_authors", "tier"},
    }
    assert sections["dp_variant"]["variant_name"] == variant
    assert sections["privacy_loss"]["privacy_parameters"] == parameters
    assert made.guarantee.unit in str(sections["privacy_loss"]["privacy_unit_details"])
    assert made.digest in str(sections["implementation"]["additional_information"])


def test_statements_quote_no_name_of_the_schema() -> None:
    schema = Schema([Attribute("canary <b>", values=["canary [x](y)", "z"])])
    made = plan(Workload.all_kway(schema, 1), PureDP(1))
    assert "canary" not in statement(made) + registry_record(made, manifest(made, {}, []), Words())


# Names and spreadsheets

PAYLOADS = [
    "../../x",
    "a/b",
    "=cmd()",
    "\u202e",
    "n" * 1000,
    "CON",
    "..",
    "a\\b:c*?",
    "größe",
    "表",
    "' =1",
    "estimate",
]
names = st.one_of(st.sampled_from(PAYLOADS), st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30))
SAFE_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,79}")


def attribute_or_none(name: str, values: list[str]) -> Attribute | None:
    try:
        return Attribute(name, values=values)
    except SchemaError:
        return None


@settings(max_examples=9, deadline=None)
@given(st.lists(names, min_size=2, max_size=2, unique=True), st.lists(names, min_size=2, max_size=3, unique=True))
def test_any_name_gives_safe_files_and_a_sound_artifact(attributes: list[str], values: list[str]) -> None:
    declared = [found for name in attributes if (found := attribute_or_none(name, values)) is not None]
    if len(declared) < 2:
        return
    schema = Schema(declared)
    made = plan(Workload.all_kway(schema, 2) | Workload.all_kway(schema, 1), PureDP(1), "marginals")
    release = Release(Measurements(made, np.arange(made.rows)))
    with tempfile.TemporaryDirectory() as place:
        save(release, Path(place) / "out")
        assert [path.name for path in Path(place).iterdir()] == ["out"]
        found = files_in(Path(place) / "out")
        assert all(SAFE_FILE.fullmatch(name.removeprefix("tables/")) for name in found)
        assert len({name.casefold() for name in found}) == len(found)
        assert [check for check in verify(Path(place) / "out") if not check.passed] == []
        assert Release.open(Path(place) / "out").plan.digest == made.digest
        for name, content in found.items():
            if name.endswith(".csv"):
                rows = csv.reader(content.decode().splitlines())
                assert not [cell for row in rows for cell in row if is_formula(cell)]
        labels = pq.read_table(Path(place) / "out" / "tables" / f"{file_stems(made.workload)[0]}.parquet")
        assert set(labels.column(0).to_pylist()) == set(values)


def test_a_column_named_like_a_formula_is_safe(tmp_path: Path) -> None:
    schema = Schema([Attribute("=cmd()", values=["@x", "y"])])
    made = plan(Workload.all_kway(schema, 1), PureDP(1), "marginals")
    save(Release(Measurements(made, np.arange(2))), tmp_path / "out")
    with (tmp_path / "out" / "tables" / "0001-cmd.csv").open(newline="") as stream:
        header, *rows = csv.reader(stream)
    assert header[0] == "'=cmd()"
    assert [row[0] for row in rows] == ["'@x", "y"]
    with (tmp_path / "out" / "tables.csv").open(newline="") as stream:
        assert [row["table"] for row in csv.DictReader(stream)] == ["'=cmd()"]
    assert pq.read_table(tmp_path / "out" / "tables" / "0001-cmd.parquet").column_names[0] == "=cmd()"


def is_formula(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return cell.strip().startswith(("=", "+", "-", "@", "\t", "\r"))
    return False


def test_file_names_are_short_and_tell_tables_apart() -> None:
    schema = Schema.from_sizes({"CON": 2, "con": 2, "x" * 1000: 2, "表": 2})
    stems = file_stems(Workload.all_kway(schema, 1))
    assert stems == ["0001-con", "0002-con", f"0003-{'x' * 60}", "0004-table"]
    wide = Schema.from_sizes({f"a{i}": 2 for i in range(22)})
    many = file_stems(Workload.all_kway(wide, 5))
    assert (len(many), many[0], many[-1][:6]) == (26334, "00001-a0-x-a1-x-a2-x-a3-x-a4", "26334-")


def test_columns_keep_apart() -> None:
    assert column_names(("estimate", "age", "estimate_")) == ["estimate_", "age", "estimate__"]
    assert column_names(("age by ten", Axis("age", "ten"))) == ["age by ten", "age by ten_"]


@given(st.text(alphabet="=+-@'; \t\r\na1\ufeff\uff1d|", max_size=8))
def test_safe_text_is_safe_and_can_be_undone(text: str) -> None:
    safe = safe_text(text)
    for cell in re.split("[;|\t\r\n]", safe):
        assert not cell.lstrip(" \ufeff").startswith(("=", "+", "-", "@", "\uff1d")), safe
    undone = re.sub("(^|[;|\t\r\n])'(?='*[ \ufeff]*[=+@\t\r\uff1d-])", r"\1", safe)
    assert undone == text


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("=1+1", "'=1+1"),
        ("  @x", "'  @x"),
        ("-", "'-"),
        ("+44", "'+44"),
        ("\t=x", "'\t'=x"),
        ("\rx", "'\rx"),
        ("\u00a0\u200b=x", "'\u00a0\u200b=x"),
        ("a;=x", "a;'=x"),
        ("a-b", "a-b"),
        ("O'Hara", "O'Hara"),
        ("[-10, -5)", "[-10, -5)"),
    ],
)
def test_which_text_is_changed(text: str, safe: str) -> None:
    assert safe_text(text) == safe


# All or nothing


def test_a_folder_that_exists_is_refused(tmp_path: Path) -> None:
    release = release_of("total only")
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("folder", "file", "link"):
        with pytest.raises(ArtifactError, match="nothing is overwritten"):
            save(release, tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder", "link"]
    assert (tmp_path / "file").read_text() == "mine"


def test_staging_takes_an_empty_folder_and_no_other(tmp_path: Path) -> None:
    release = release_of("total only")
    (tmp_path / "empty").mkdir()
    assert stage(release, tmp_path / "empty") == artifact_digest(tmp_path / "empty")
    before = files_in(tmp_path / "empty")
    with pytest.raises(ArtifactError, match="one with files in it"):
        stage(release, tmp_path / "empty")
    assert files_in(tmp_path / "empty") == before


@pytest.mark.parametrize("writes", [0, 1, 4, 9])
def test_a_full_disk_leaves_nothing(writes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = []

    def write(path: Path, content: bytes) -> None:
        if len(done) == writes:
            path.write_bytes(content[:10])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        done.append(path)
        path.write_bytes(content)

    monkeypatch.setattr(store, "write_file", write)
    for attempt in (save, stage):
        done.clear()
        with pytest.raises(ArtifactError, match="No space left on device"):
            attempt(release_of("total only"), tmp_path / "out")  # type: ignore[operator]
        assert list(tmp_path.iterdir()) == []


def test_a_disk_that_does_not_sync_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def sync(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(folder.os, "fsync", sync)
    with pytest.raises(ArtifactError, match="Input/output error"):
        save(release_of("total only"), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(paths: object, progress: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(store, "synced_files", interrupt)
    with pytest.raises(KeyboardInterrupt):
        save(release_of("total only"), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("place", "reason"), [("none/out", "No such file"), ("file/out", "Not a directory")])
def test_a_place_that_cannot_be_written_is_named(place: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ArtifactError, match=rf"{place}.*{reason}"):
        save(release_of("total only"), tmp_path / place)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_everything_is_on_disk_before_it_gets_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    moments: list[int] = []
    fsync, rename = os.fsync, Path.rename

    def note_sync(descriptor: int) -> None:
        fsync(descriptor)
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink())

    def note_rename(self: Path, target: Path) -> Path:
        moments.append(len(synced))
        return rename(self, target)

    monkeypatch.setattr(folder.os, "fsync", note_sync)
    monkeypatch.setattr(Path, "rename", note_rename)
    save(release_of("marginals"), tmp_path / "out")
    before, after = synced[: moments[0]], synced[moments[0] :]
    staged = next(path.parent for path in before if path.name == "SHA256SUMS")
    files = {staged / name for name in files_in(tmp_path / "out")}
    assert {*files, staged, staged / "tables"} <= set(before)
    assert after == [tmp_path]


KILLED = """
import os, resource, signal, sys
from pathlib import Path
import numpy as np
from privcube import PureDP, Release, Schema, Workload, errors, plan
from privcube.model.measurements import Measurements
from privcube.released.artifact import store

made = plan(Workload.all_kway(Schema.from_sizes({"a": 2, "b": 300}), 2), PureDP(1), "marginals")
release = Release(Measurements(made, np.arange(made.rows)))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
limits = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
try:
    release.save("full")
except errors.ArtifactError as problem:
    print(problem)
print(sorted(os.listdir()))
resource.setrlimit(resource.RLIMIT_FSIZE, limits)
write = store.write_file

def killed(path, content):
    if path.name == "plan.json":
        os.kill(os.getpid(), signal.SIGKILL)
    write(path, content)

sys.stdout.flush()
store.write_file = killed
release.save("killed")
"""


def test_a_limit_of_the_system_and_a_kill_leave_no_artifact(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED], cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.stdout.splitlines() == ["artifact: expected a writable location, given File too large", "[]"]
    assert done.returncode == -9
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".killed.staged-")
    save(release_of("total only"), tmp_path / "killed")
    assert all(check.passed for check in verify(tmp_path / "killed"))
    shutil.rmtree(left)
