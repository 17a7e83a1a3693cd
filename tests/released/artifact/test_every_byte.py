"""Every byte means every byte: a forger edits any file, makes the checksums fit, and is found out.

Each file of a small artifact is edited systematically, the checksums are rewritten, and verification must fail for each
mutant that differs from the original, with `strict` in any case, and without it too unless the check says aloud what it
left out. `PRIVCUBE_ATTACK` multiplies the number of edits, up to 50 times; without it, each kind of edit is made in one
place, and to some columns.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privcube import Attribute, Axis, Level, PureDP, Release, Schema, Workload, plan
from privcube.errors import PrivcubeError
from privcube.model.measurements import Measurements
from privcube.released.artifact.folder import checksums_text
from privcube.released.artifact.store import open_release, save
from privcube.released.artifact.table_files import TableWriter
from privcube.released.artifact.verification import verify
from privcube.released.release import number_columns

TIMES = min(int(os.environ.get("PRIVCUBE_ATTACK", "1")), 50)
SCHEMA = Schema(
    [
        Attribute("=sex", values=["F, f", "M"], missing="category"),
        Attribute("age", bins=[0, "1/3", 10], levels=[Level("all", bins=[0, 10])]),
    ]
)
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
    "tables/0001-age-by-all.csv",
    "tables/0001-age-by-all.parquet",
    "tables/0002-sex-x-age.csv",
    "tables/0002-sex-x-age.parquet",
    "words.json",
]
PARQUET = ["measurements.parquet", "tables/0002-sex-x-age.parquet"]


@cache
def release() -> Release:
    made = plan(Workload.tables(SCHEMA, [("=sex", "age"), (Axis("age", "all"),)]), PureDP(1), "marginals")
    return Release(Measurements(made, np.arange(made.rows) * 7 - 5), {"entry": 3, "head": "0123456789abcdef" * 4})


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("bytes") / "out"
    save(release(), found)
    return found


def seal(place: Path) -> None:
    names = [name for name in FILES if name != "SHA256SUMS"]
    digests = {name: hashlib.sha256((place / name).read_bytes()).hexdigest() for name in names}
    (place / "SHA256SUMS").write_text(checksums_text(digests))


def survivors(place: Path, name: str, mutants: Iterator[bytes]) -> tuple[int, list[bytes]]:
    """How many different mutants of a file there were, and which ones passed every check in silence."""
    original, tried, passed = (place / name).read_bytes(), set[bytes](), []
    for mutant in mutants:
        if mutant == original or mutant in tried:
            continue
        tried.add(mutant)
        (place / name).write_bytes(mutant)
        if name != "SHA256SUMS":
            seal(place)
        checks = verify(place)
        if all(check.passed and not check.partial for check in checks):
            passed.append(mutant)
        if any(check.partial for check in checks):
            assert not all(check.passed for check in verify(place, strict=True))
    (place / name).write_bytes(original)
    seal(place)
    return len(tried), passed


# Bytes


def flips(content: bytes, generator: np.random.Generator, count: int) -> Iterator[bytes]:
    for at in generator.integers(0, len(content), count).tolist():
        flipped = bytearray(content)
        flipped[at] ^= 1 << int(generator.integers(8))
        yield bytes(flipped)


def insertions(content: bytes, generator: np.random.Generator, count: int) -> Iterator[bytes]:
    scraps = (
        b" ",
        b"\n",
        b"\r",
        b"\t",
        b"0",
        b"1",
        b",",
        b'"',
        b"#",
        b"\x00",
        b"-",
        b".0",
        b"e0",
        b"\xef\xbb\xbf",
        b"x",
    )
    for at in generator.integers(0, len(content) + 1, count).tolist():
        yield content[:at] + scraps[int(generator.integers(len(scraps)))] + content[at:]


def deletions(content: bytes, generator: np.random.Generator, count: int) -> Iterator[bytes]:
    for at in generator.integers(0, len(content), count).tolist():
        yield content[:at] + content[at + int(generator.integers(1, 4)) :]


@pytest.mark.parametrize("name", FILES)
def test_edited_bytes_are_noticed(name: str, place: Path) -> None:
    generator, content, some = np.random.default_rng(len(name)), (place / name).read_bytes(), TIMES

    def mutants() -> Iterator[bytes]:
        for edit in (flips, insertions, deletions):
            yield from edit(content, generator, some)
        yield from (content + more for more in (b"\n", b"\x00", b" "))
        yield from (content.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + content, content + content)

    tried, passed = survivors(place, name, mutants())
    assert tried > 2 * some
    assert passed == []


# Text and numbers


def other_spellings(text: str) -> Iterator[str]:
    """The same values in other words: what a tolerant reader would not notice."""
    for pattern, new in (
        (r"(\d\.\d+)", r"\g<1>0"),
        (r"(\d\.\d+)", r"\g<1>0000000000000000000001"),
        (r"(?<![\d.\"\w])(\d+)(?![\d.\w])", r"\1.0"),
        (r"(?<![\d.\"\w])(\d+)(?![\d.\w])", r"0\1"),
        (r"(?<![\d.\"\w])(\d+)(?![\d.\w])", r"+\1"),
        (r"(\d\.\d+)", r"\1e0"),
        (r": ", r":  "),
        (r",\n", r",\n\n"),
        (r"\"([a-z]+)\"", r"'\1'"),
        (r"\"([a-z]+)\"", r'" \1"'),
        (r"([A-Za-z]+),", r'"\1",'),
        (r"\n", r" \n"),
        (r"null", r"false"),
        (r"true", r"1"),
        (r"a", r"\\u0061"),
    ):
        found = list(re.finditer(pattern, text))
        for match in [*(found[:1] if TIMES > 1 else ()), *found[len(found) // 2 :][:TIMES]]:
            yield text[: match.start()] + match.expand(new) + text[match.end() :]


@pytest.mark.parametrize("name", [name for name in FILES if not name.endswith(".parquet")])
def test_other_spellings_are_noticed(name: str, place: Path) -> None:
    text = (place / name).read_text()
    tried, passed = survivors(place, name, (each.encode() for each in other_spellings(text)))
    assert tried > 2
    assert passed == []


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".csv")])
def test_other_rows_are_noticed(name: str, place: Path) -> None:
    head, *rows = (place / name).read_text().splitlines(keepends=True)
    mutants = ["".join([head, *rows[::-1]]), "".join([head, *rows, rows[-1]]), "".join([head, *rows[1:]]), head + "\n"]
    mutants += ["".join([head.rstrip() + ',"x"\n', *(row.rstrip() + ",1\n" for row in rows)]), "".join([*rows, head])]
    _, passed = survivors(place, name, (mutant.encode() for mutant in mutants))
    assert passed == []


# JSON


def documents(text: str) -> Iterator[str]:
    """Documents with more, fewer, other and repeated keys, and in another order."""
    value = json.loads(text)
    for place in _objects(value):
        for change in (_with_key, _without_key, _reordered):
            copy = json.loads(text)
            inside = copy
            for step in place:
                inside = inside[step]
            if change(inside):
                yield json.dumps(copy, indent=1) + "\n"
    for match in list(re.finditer(r'\n( +)("[a-z_]+"): ', text))[: 4 * TIMES]:
        yield f"{text[: match.start()]}\n{match[1]}{match[2]}: 0,{text[match.start() :]}"  # the last one counts
        yield f"{text[: match.start()]}\n{match[1]}{match[2]}: [],{text[match.start() :]}"
    yield json.dumps(value) + "\n"
    yield json.dumps(value, indent=2) + "\n"
    yield json.dumps(value, indent=1, sort_keys=True) + "\n"


def _objects(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict):
        yield place
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from _objects(item, (*place, key))


def _with_key(inside: dict[str, Any]) -> bool:
    inside["note"] = "rows: 918273"
    return True


def _without_key(inside: dict[str, Any]) -> bool:
    return bool(inside) and inside.pop(next(iter(inside)), 0) is not None


def _reordered(inside: dict[str, Any]) -> bool:
    first = next(iter(inside), None)
    if first is not None:
        inside[first] = inside.pop(first)
    return len(inside) > 1


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".json")])
def test_other_documents_are_noticed(name: str, place: Path) -> None:
    tried, passed = survivors(place, name, (each.encode() for each in documents((place / name).read_text())))
    assert tried > 5
    assert passed == []


# Parquet


def as_parquet(table: Any, **options: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out, **{"store_schema": False, "compression": "snappy", **options})
    return out.getvalue()


def other_parquet(content: bytes) -> Iterator[bytes]:
    table = pq.read_table(io.BytesIO(content))
    yield as_parquet(table.replace_schema_metadata({"note": "rows: 918273"}))
    yield as_parquet(table.replace_schema_metadata({"note": "rows: 918273"}), store_schema=True)
    yield as_parquet(table, store_schema=True)
    for compression in ("none", "zstd", "gzip", "brotli", "lz4", "snappy"):
        yield as_parquet(table, compression=compression)
    yield as_parquet(table, row_group_size=1)
    yield as_parquet(table, version="1.0")
    yield as_parquet(table, data_page_version="2.0")
    yield as_parquet(table, write_statistics=False)
    yield as_parquet(table, use_dictionary=False)
    yield as_parquet(table, write_page_index=True)
    yield as_parquet(table, write_page_checksum=True)
    yield as_parquet(table.append_column("more", pa.nulls(len(table))))
    yield as_parquet(table.slice(1))
    yield as_parquet(pa.concat_tables([table, table.slice(0, 1)]))
    for at, name in list(enumerate(table.column_names))[:: 1 if TIMES > 1 else 3]:  # labels, and numbers of each kind
        column = table.column(at)
        for kind in ("float32", "int32", "large_string", "string", "binary", "float64")[:: 1 if TIMES > 1 else 2]:
            try:
                changed = column.cast(kind)
            except pa.ArrowException:
                continue
            yield as_parquet(table.set_column(at, name, changed))
        yield as_parquet(table.set_column(at, pa.field(name, column.type, nullable=False), column))
        yield as_parquet(table.set_column(at, pa.field(name, column.type, metadata={"PARQUET:field_id": "7"}), column))
        yield as_parquet(table.set_column(at, f"{name} ", column))
        if pa.types.is_floating(column.type):
            for factor in (1 + 1e-15, 1 + 1e-7, 1.5):
                yield as_parquet(table.set_column(at, name, pa.array([value * factor for value in column.to_pylist()])))


@pytest.mark.parametrize("name", PARQUET)
def test_other_parquet_is_noticed(name: str, place: Path) -> None:
    tried, passed = survivors(place, name, other_parquet((place / name).read_bytes()))
    assert tried > 20
    assert passed == []


def by_another_writer(content: bytes) -> bytes:
    """The same file, as another version of the library would sign it."""
    (own,) = set(re.findall(rb"parquet-cpp-arrow version \d+\.\d+\.\d", content))
    return content.replace(own, own[:-1] + b"9")


@pytest.mark.parametrize("name", PARQUET)
def test_another_version_of_the_library_is_said_aloud_and_excuses_nothing_else(name: str, place: Path) -> None:
    content = (place / name).read_bytes()
    (place / name).write_bytes(by_another_writer(content))
    seal(place)
    (found,) = [check for check in verify(place) if check.partial]
    assert found.name == "bytes"
    assert found.passed
    assert f"NOT CHECKED: the encoding of {name}" in found.detail
    assert open_release(place).plan.digest == release().plan.digest
    mutants = [by_another_writer(mutant) for mutant in other_parquet(content)]
    free = 0
    for mutant in mutants:
        (place / name).write_bytes(mutant)
        seal(place)
        checks = verify(place)
        assert any(check.partial or not check.passed for check in checks)
        free += all(check.passed for check in checks)
    (place / name).write_bytes(content)
    seal(place)
    assert free <= len(mutants) * 2 // 5  # encodings and statistics, which say nothing else
    signed = content.replace(b"parquet-cpp-arrow", b"rows are 918273..")
    assert survivors(place, name, iter([signed]))[1] == []


# Several files at once


def test_numbers_changed_alike_in_all_files_are_noticed(place: Path, tmp_path: Path) -> None:
    """Digits below the tolerance pass, and are counted aloud; anything above fails."""
    for factor, passes in ((1 + 1e-14, True), (1 + 1e-4, False)):
        out = Path(shutil.copytree(place, tmp_path / str(factor)))
        values = number_columns(release().values(("=sex", "age")))
        forged = {**values, "estimate": values["estimate"] * factor}
        writer = TableWriter(SCHEMA)
        (out / "tables/0002-sex-x-age.parquet").write_bytes(writer.parquet(("=sex", "age"), forged))
        (out / "tables/0002-sex-x-age.csv").write_bytes(writer.csv(("=sex", "age"), forged))
        seal(out)
        checks = {check.name: check for check in verify(out)}
        assert all(check.passed for check in checks.values()) == passes
        if passes:
            assert "numbers have other last digits than here" in checks["tables"].detail


def test_what_a_plan_predicts_must_follow_from_it(place: Path, tmp_path: Path) -> None:
    out = Path(shutil.copytree(place, tmp_path / "out"))
    made = release().plan
    forged = type(made)(
        **{
            **{name: getattr(made, name) for name in made.__dataclass_fields__},
            "table_variances": tuple(variance / 4 for variance in made.table_variances),
        }
    )
    shutil.rmtree(out)
    save(Release(Measurements(forged, release().measurements.answers), release().provenance), out)
    assert [check.name for check in verify(out) if not check.passed] == ["errors"]


def test_nothing_but_our_own_errors_leaves_an_edited_artifact(place: Path) -> None:
    generator = np.random.default_rng(3)
    for name in ("plan.json", "release.json", "measurements.parquet", "SHA256SUMS"):
        content = (place / name).read_bytes()
        for mutant in [*flips(content, generator, 10 * TIMES), *insertions(content, generator, 10 * TIMES)]:
            (place / name).write_bytes(mutant)
            if name != "SHA256SUMS":
                seal(place)
            try:
                open_release(place)
            except PrivcubeError:
                continue
        (place / name).write_bytes(content)
        seal(place)
