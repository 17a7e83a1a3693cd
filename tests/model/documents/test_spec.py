"""spec.toml: what it says is read exactly, and what contradicts itself or cannot be read is refused."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from privcube.errors import GuaranteeError, PrivcubeError, SpecError
from privcube.model.documents.spec import DataSource, LedgerTerms, Spec
from privcube.model.levels import Level
from privcube.model.options import PlanOptions
from privcube.model.privacy.guarantee import ZCDP, ApproxDP, PureDP
from privcube.model.workload import Axis

FULL = (Path(__file__).parent / "full.toml").read_text(encoding="utf-8")


def minimal(privacy: str = 'epsilon = "1"', data: str = "", attribute: str = "size = 3", more: str = "") -> str:
    return (
        f'[data]\nsource = "x.csv"\n{data}\n[privacy]\n{privacy}\n[[attributes]]\nname = "a"\n{attribute}\n'
        f"[workload]\nall_kway = [1]\n{more}"
    )


def test_full_document_is_read() -> None:
    spec = Spec.from_toml(FULL)
    assert spec.data == DataSource(
        source="postgresql://db/adult", dataset="adult-1994", table="adult", person="patient"
    )
    protected = {"neighbors": "replace_one", "max_rows_per_person": 3}
    assert spec.guarantee == ApproxDP("1/2", "1/1000000", **protected, calibration="classic")
    assert spec.ledger == LedgerTerms(path="ledger.db", total=ApproxDP(4, "1e-5", **protected))
    assert spec.schema.names == ("sex", "age", "city", "code")
    assert spec.schema.drafts == ("sex",)
    assert spec.schema["age"].bins == (0, Fraction(35, 2), 30, 65, 120)
    assert spec.schema["age"].labels[-1] == ">= 120"
    assert spec.schema["city"].levels == (Level("state", groups={"CA": ["LA", "SF"], "NY": ["NYC"]}),)
    assert spec.options == PlanOptions(
        strategy="wavelet", effort="thorough", budgets="uniform", recovery="direct", objective="largest"
    )
    assert spec.output == "results"
    assert spec.workload.weight(("city", Axis("code", queries="ranges"))) == 2.5
    assert len(spec.workload) == 2 * 3 * 3 * 3 + 3
    assert Spec.from_toml(spec.to_toml()) == spec


def test_defaults() -> None:
    spec = Spec.from_toml(minimal())
    assert (spec.guarantee, spec.ledger, spec.options, spec.output) == (PureDP(1), None, PlanOptions(), "out")
    attribute = spec.schema["a"]
    assert (attribute.missing, attribute.other, attribute.draft, attribute.ordered) == ("refuse", "refuse", False, True)


def test_amounts_are_exact_however_written() -> None:
    for amount in ('"0.1"', "0.1", '"1/10"', "1e-1"):
        assert Spec.from_toml(minimal(f"epsilon = {amount}")).guarantee == PureDP(Fraction(1, 10))


def test_a_query_states_its_unit() -> None:
    privacy = 'epsilon = 1\nledger = "l"\ntotal_epsilon = 2'
    spec = Spec.from_toml(minimal(privacy, data='query = "select 1"\nunit = "row of the query"'))
    assert spec.guarantee == PureDP(1, row="row of the query") != PureDP(1)
    assert spec.ledger == LedgerTerms(path="l", total=PureDP(2, row="row of the query"))
    assert Spec.from_toml(spec.to_toml()) == spec
    with_person = Spec.from_toml(minimal(data='query = "select 1"\nperson = "p"\nmax_rows_per_person = 2'))
    assert with_person.guarantee == PureDP(1, max_rows_per_person=2)
    assert Spec.from_toml(with_person.to_toml()) == with_person


# Contradictions


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (minimal(data='person = "p"'), "both person and max_rows_per_person.*only person"),
        (minimal(data="max_rows_per_person = 2"), "only max_rows_per_person"),
        (minimal(data="max_rows_per_person = 1"), "only max_rows_per_person"),
        (minimal(data='person = "a"\nmax_rows_per_person = 2'), "data.person: .*not an attribute to publish"),
        (minimal(data='table = "t"\nquery = "select 1"'), "a table or a query, given both"),
        (
            minimal(data='query = "select 1"'),
            'data.query: expected person and max_rows_per_person, or unit = "row of the query"',
        ),
        (
            minimal(data='query = "select 1"\nunit = "row"'),
            "data.unit: expected 'row of the query', or nothing, given 'row'",
        ),
        (minimal(data='unit = "row of the query"'), "data.unit: expected a query.*given no query"),
        (
            minimal(data='query = "select 1"\nunit = "row of the query"\nperson = "p"\nmax_rows_per_person = 1'),
            "data.unit: .*given a person as well",
        ),
        (
            minimal(data='query = "select 1"\nunit = "row of the query"\nperson = "p"\nmax_rows_per_person = 2'),
            "row: expected a person with several rows, or a row of a query, given both",
        ),
        (minimal('epsilon = 1\ntotal_epsilon = "2"'), "a ledger that the total applies to"),
        (
            minimal('epsilon = 1\nledger = "l"\ntotal_epsilon = "0.999999"'),
            "privacy.total_epsilon: expected at least .* 1,",
        ),
        (minimal('epsilon = 1\nledger = "l"\ntotal_rho = "2"'), "amounts of the release: total_epsilon.*total_rho"),
        (
            minimal('epsilon = 1\nledger = "l"\ntotal_epsilon = 2\ntotal_delta = 0.1'),
            "given 'total_epsilon, total_delta'",
        ),
        (
            minimal('epsilon = 1\ndelta = 1e-6\nledger = "l"\ntotal_epsilon = 2\ntotal_delta = 1e-7'),
            "privacy.total_delta",
        ),
        (minimal('epsilon = 1\ndelta = 1e-6\nledger = "l"\ntotal_epsilon = 2'), "total_epsilon, total_delta"),
        (minimal('epsilon = 1\nledger = "l"\ntotal_delta = 0.1'), "total of the ledger"),
        (minimal("epsilon = 1\nrho = 1"), "given epsilon and rho"),
        (minimal("delta = 1e-6"), "given delta"),
        (minimal(""), "given none of them"),
        (minimal('epsilon = 1\ncalibration = "classic"'), "calibration"),
        (minimal().replace("all_kway = [1]", ""), "workload: expected at least one table"),
        (minimal(more='tables = [["a"], ["a"]]'), "a twice"),
        (minimal(more='tables = [["b"]]'), "attributes of the schema, given 'b'"),
        (minimal(more='kway_plus_attribute = [{attribute = "a"}]'), r"kway_plus_attribute\[0\].k: expected a value"),
        (minimal(attribute="size = 3\nvalues = [1]"), "values and size"),
        (minimal(attribute="size = 3\n[[attributes]]\nname = 'a'\nsize = 2"), "'a' twice"),
    ],
)
def test_contradictions_are_refused(text: str, message: str) -> None:
    with pytest.raises(PrivcubeError, match=message):
        Spec.from_toml(text)


def test_contradictions_are_refused_in_code_too() -> None:
    """What to_toml could not say would come back as a weaker guarantee."""
    spec = Spec.from_toml(minimal())
    with pytest.raises(SpecError, match=r"data\.person"):
        replace(spec, guarantee=PureDP(1, max_rows_per_person=3))
    with pytest.raises(SpecError, match=r"data\.query"):
        replace(spec, data=DataSource(source="x", query="q"))
    with pytest.raises(SpecError, match=r"data\.unit"):
        replace(spec, guarantee=PureDP(1, row="row of the query"))
    with pytest.raises(SpecError, match="a table or a query"):
        DataSource(source="x", table="t", query="q")
    with pytest.raises(SpecError, match="total_epsilon"):
        replace(spec, ledger=LedgerTerms(path="l", total=PureDP("0.5")))
    with pytest.raises(SpecError, match="amounts of the release"):
        replace(spec, ledger=LedgerTerms(path="l", total=ZCDP(5)))
    with pytest.raises(SpecError, match="unit of the release, adding or removing one row, given replacing one row"):
        replace(spec, ledger=LedgerTerms(path="l", total=PureDP(5, neighbors="replace_one")))
    assert replace(spec, ledger=LedgerTerms(path="l", total=PureDP(1))).ledger is not None


# Files


def test_reads_a_file_with_and_without_mark(tmp_path: Path) -> None:
    for name, encoding in (("plain.toml", "utf-8"), ("marked.toml", "utf-8-sig")):
        (tmp_path / name).write_text(FULL, encoding=encoding)
        assert Spec.read(tmp_path / name) == Spec.from_toml(FULL)
        assert Spec.read(str(tmp_path / name)) == Spec.from_toml(FULL)


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "latin.toml").write_bytes(FULL.replace("Female", "Fémale").encode("latin-1"))
    (tmp_path / "wide.toml").write_bytes(FULL.encode("utf-16"))
    (tmp_path / "folder.toml").mkdir()
    for name, message in (
        ("latin.toml", "UTF-8 text"),
        ("wide.toml", "UTF-8 text"),
        ("folder.toml", "a readable file"),
        ("absent.toml", "a readable file, given No such file"),
        ("zero\0byte.toml", "a readable file"),
        ("x" * 5000, "a readable file"),
    ):
        with pytest.raises(SpecError, match=message):
            Spec.read(tmp_path / name)


def test_large_files_are_refused_before_they_are_read(tmp_path: Path, effort: Any) -> None:
    (tmp_path / "large.toml").write_bytes(b"# padding\n" * 2**20)
    with effort.counted(), pytest.raises(SpecError, match="at most 4 MiB"):
        Spec.read(tmp_path / "large.toml")
    assert effort.calls < 1000
    assert effort.most_bytes < 5 * 2**20
    text = "#" * (10 * 2**20)
    with effort.counted(), pytest.raises(SpecError, match="at most 4 MiB"):
        Spec.from_toml(text)
    assert effort.calls < 1000
    assert effort.most_bytes < 2**20


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[[[[",
        "a = " + "[" * 10**5,
        "a = " + "{a=" * 10**5,
        "[" * 10**5,
        minimal("epsilon = 1" + "0" * 10_000),
        minimal("epsilon = 0x1" + "0" * 10_000),
        minimal("epsilon = 1e" + "9" * 30),
        minimal("epsilon." + "a." * 2000 + "a = 1"),
        minimal("epsilon = 1979-05-27"),
        minimal(attribute="values = [0x1" + "0" * 5000 + ", 0x1" + "0" * 5000 + "]"),
        minimal(attribute="size = 0x1" + "0" * 10_000),
        minimal(attribute="bins = [0, 0x1" + "0" * 10_000 + "]"),
        minimal(attribute="bins = [0, 1, 2]\n[[attributes.levels]]\nname = 'l'\nbins = []"),
        minimal(attribute="size = 4\n[[attributes.levels]]\nname = 'l'\nwidth = -0"),
        minimal(more="all_kway = [1]"),
        minimal(more="kway_plus_half = [0x1" + "0" * 10_000 + "]"),
        minimal('epsilon = 1\nepsilon = "1"'),
        "\x00",
        "\ud800 = 1",
        "a = '\ud800'",
    ],
    ids=lambda text: repr(text[-24:]),
)
def test_hostile_text_is_refused(text: str) -> None:
    with pytest.raises(PrivcubeError) as refusal:
        Spec.from_toml(text)
    assert len(str(refusal.value)) < 600


def test_total_errors_keep_their_kind() -> None:
    with pytest.raises(GuaranteeError, match=r"^total of the ledger, epsilon"):
        Spec.from_toml(minimal('epsilon = 1\nledger = "l"\ntotal_epsilon = "1e999"'))
