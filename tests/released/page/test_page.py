"""The page of a release: what is in it, that it cannot become code, and that verify notices every change."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from privcube import ZCDP, Attribute, Axis, Level, Measure, PureDP, Release, Schema, Workload, plan
from privcube.accuracy.predictor import predictor
from privcube.errors import ArtifactError
from privcube.model.measurements import Measurements
from privcube.released.artifact.verification import verify
from privcube.released.page import document as documents
from privcube.released.page.document import carried_tables, table_numbers
from privcube.released.page.html import document_in, inert, page_bytes, script

HOSTILE = "</script><img src=x onerror=alert(1)>\u2028'\"&"


@cache
def release() -> Release:
    age = Attribute("age", bins=[0, 18, 65, 120], levels=[Level("stage", bins=[0, 18, 120])])
    schema = Schema([Attribute(HOSTILE.replace("\u2028", ""), values=["a", "<b>"]), age])
    wanted = Workload.all_kway(schema, 1) | Workload.all_kway(schema, 2)
    made = plan(wanted, PureDP("0.1"), "marginals")
    return Release(Measurements(made, np.arange(made.rows) * 1000 - 5))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("page") / "out"
    release().save(out)
    return out


def test_a_page_has_the_numbers_of_the_tables_up_to_a_part_of_their_errors(folder: Path) -> None:
    found = document_in((folder / "index.html").read_bytes())
    assert [table["cells"] for table in found["tables"]] == [2, 3, 6]
    for number, table in enumerate(release().workload):
        values = release().values(table)
        (own,) = found["numbers"][str(number)]
        estimates = np.array(own["estimate"]) / 10.0 ** own["decimals"]
        assert np.max(np.abs(estimates - values.estimate.ravel())) <= values.std_error.min() / 100
        assert own["margin"] >= values.margin.max() * (1 - 1e-6)
        assert own["margin"] <= values.margin.max() * 1.001
        assert own["std_error"] == pytest.approx(values.std_error.max(), rel=1e-3)


def test_sums_of_a_measure_have_the_covariances_of_their_noise() -> None:
    measure = Measure("days", low=-10, high=60, step=1, knots=[0], missing="category")
    schema = Schema([Attribute("sex", values=["f", "m"]), Attribute("area", size=3), measure])
    wanted = Workload.tables(schema, ["sex x area x sum of days", "sex x area", "sum of days", "area x sum of days"])
    for guarantee in (PureDP(1), ZCDP("0.1")):
        made = plan(wanted, guarantee, "marginals")
        found = predictor(made)
        numbers = {name: np.ones(6) for name in ("estimate", "std_error", "high", "high_all")}
        measured = [(table, table[2].queries) for table in wanted if len(table) == 3 and isinstance(table[2], Axis)]
        assert [queries for _, queries in measured] == ["sum", "count"]
        for table, queries in measured:
            own = table_numbers(made, found, table, numbers)[0]["covariance"]
            values = np.array(own["values"]).reshape(2, 2)  # by whether the sex and the area of a pair are the same
            weights = np.random.default_rng(1).normal(size=(2, 3, 1))
            places, flat = np.unravel_index(np.arange(6), (2, 3)), weights.ravel()
            alike = tuple(np.equal.outer(along, along).astype(int) for along in places)
            expected = (60 if queries == "sum" else 1) ** 2 * found.query_law(table, weights).variance
            assert own["classes"] == [None, None]
            assert float(flat @ values[alike] @ flat) == pytest.approx(expected, rel=1e-6)


def test_a_page_allows_its_own_script_and_style_and_nothing_else(folder: Path) -> None:
    page = (folder / "index.html").read_text()
    policy = re.search('Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert "unsafe" not in policy[1]
    assert "default-src 'none'" in policy[1]
    for kind, own in (("script-src", script()), ("style-src", page.split("<style>")[1].split("</style>")[0])):
        digest = base64.b64encode(hashlib.sha256(own.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in policy[1]


def test_no_name_becomes_markup(folder: Path) -> None:
    page = (folder / "index.html").read_text()
    assert page.count("<script") == 2
    assert page.count("</script>") == 2
    assert "<img" not in page
    assert document_in(page.encode())["attributes"][0]["name"].startswith("</script><img")


@pytest.mark.parametrize("text", ["<!--", "</script", "\u2028", "&amp;", "]]>", "\x00", "é🙂"])
def test_inert_json_is_the_same_document(text: str) -> None:
    made = inert({"a": [text]})
    assert json.loads(made) == {"a": [text]}
    assert not set("<>&\u2028\u2029") & set(made)


def test_the_script_never_parses_markup_or_evaluates_text() -> None:
    for word in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "Function(",
        "import(",
        "http",
    ):
        found = script().replace("http://www.w3.org/2000/svg", "").replace("https://", "http")
        assert word not in found, word


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"estimate":[', '"estimate":[9'),
        ('"margin":', '"margin":0.'),
        ("Privacy statement", "Privacy promise"),
        ("<body>", "<body><p>Trust me.</p>"),
        ("default-src 'none'", "default-src *"),
    ],
)
def test_verify_notices_a_changed_page(folder: Path, tmp_path: Path, old: str, new: str) -> None:
    out = tmp_path / "out"
    release().save(out)
    page = out / "index.html"
    changed = page.read_text().replace(old, new, 1)
    assert changed != page.read_text()
    page.write_text(changed)
    sums = (out / "SHA256SUMS").read_text()
    digest = hashlib.sha256(page.read_bytes()).hexdigest()
    (out / "SHA256SUMS").write_text(re.sub("[0-9a-f]{64}  index.html", f"{digest}  index.html", sums))
    assert {check.name for check in verify(out) if not check.passed} == {"page"}


def test_a_page_without_a_document_is_refused() -> None:
    for page in (b"", b"\xff", b'<script type="application/json" id="document">[]</script>'):
        with pytest.raises(ArtifactError):
            document_in(page)


def test_a_page_carries_the_smallest_tables_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = Schema.from_sizes({"a": 2, "b": 30, "c": 300})
    workload = Workload.all_kway(schema, 1) | Workload.all_kway(schema, 2)
    assert len(carried_tables(workload)) == 6
    monkeypatch.setattr(documents, "_MOST_CARRIED", 2_000)
    assert carried_tables(workload) == {0, 1, 3}


def test_the_same_document_gives_the_same_page(folder: Path) -> None:
    page = (folder / "index.html").read_bytes()
    assert page_bytes(document_in(page)) == page
