"""A query states its unit, and everything that follows says so: plan, ledger, PRIVACY.md."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from privcube import ApproxDP, Attribute, Plan, PureDP, Schema, Spec, Workload, plan, release
from privcube.errors import GuaranteeError, LedgerError, PlanError
from privcube.sensitive.ledger import open_ledger

Said = Callable[..., str]
QUERY = "SELECT id, sex, age FROM people CROSS JOIN range(1000) AS days(day)"
UNIT = 'unit = "row of the query"'
PERSON = 'person = "id"\nmax_rows_per_person = 2'
PRIVACY = 'epsilon = "1"\nledger = "ledger.db"\ntotal_epsilon = "2"'


@pytest.fixture
def write(tmp_path: Path, write_spec: Callable[..., Path]) -> Callable[[str], Path]:
    """A spec for the query over a DuckDB file of ten people, with this about its unit."""
    with duckdb.connect(str(tmp_path / "people.duckdb")) as connection:
        connection.execute("CREATE TABLE people AS SELECT i AS id, 'F' AS sex, i AS age FROM range(10) AS t(i)")

    def written(unit: str) -> Path:
        data = f'source = "people.duckdb"\ndataset = "people"\nquery = "{QUERY}"\n{unit}'
        return write_spec(data=data, privacy=PRIVACY, plan='strategy = "marginals"')

    return written


def women(said: Said) -> float:
    said("release", "spec.toml")
    return float(json.loads(said("query", "out", "sex=F", "--json"))["estimate"])


def test_a_query_without_a_unit_is_refused(refused_here: Said, write: Callable[[str], Path], tmp_path: Path) -> None:
    write("")
    for command in ("plan", "release"):
        assert 'max_rows_per_person, or unit = "row of the query"' in refused_here(command, "spec.toml")
    assert not (tmp_path / "ledger.db").exists()


def test_a_row_of_the_query_is_what_is_protected_and_no_more(
    said: Said, write: Callable[[str], Path], tmp_path: Path
) -> None:
    """Ten thousand rows of ten people: the noise is for one row, and PRIVACY.md says so in these words."""
    write(UNIT)
    assert "adding or removing one row of the query" in said("plan", "spec.toml")
    assert women(said) == pytest.approx(10_000, abs=500)
    statement = " ".join((tmp_path / "out" / "PRIVACY.md").read_text(encoding="utf-8").split())
    assert (
        "The protected unit is one row of the query. Neighboring data sets differ by adding or removing one row"
        in statement
    )
    assert "that is in several rows of the query is protected less than stated here." in statement
    assert "one row of the data." not in statement
    assert said("verify", "out", "--spec", "spec.toml").endswith("all checks passed\n")
    assert "one row of the query" in said("ledger", "spec.toml")


def test_a_person_is_protected_whatever_the_query_does(said: Said, write: Callable[[str], Path]) -> None:
    write(PERSON)
    assert women(said) == pytest.approx(20, abs=300)


def test_in_python_too(tmp_path: Path, write: Callable[[str], Path]) -> None:
    spec = Spec.read(write(UNIT))
    file = tmp_path / "people.duckdb"
    with pytest.raises(PlanError, match='a person, or a guarantee with row="row of the query"') as caught:
        release(plan(spec.workload, PureDP(1)), file, query=QUERY)
    assert caught.value.__notes__ == ["Nothing was charged."]
    release(plan(spec.workload, PureDP(1)), file, query=QUERY, person="id")
    release(plan(spec.workload, spec.guarantee), file, query=QUERY)


@pytest.mark.parametrize("guarantee", [PureDP(1, row="row of the query"), ApproxDP(1, "1e-6", row="row of the query")])
def test_the_unit_stays_with_the_guarantee(guarantee: PureDP | ApproxDP, tmp_path: Path) -> None:
    """In the plan, with another amount, and in a ledger, which does not add it to rows of the data."""
    made = plan(Workload.all_kway(Schema([Attribute("a", size=2)]), 1), guarantee, "marginals")
    assert Plan.from_json(made.to_json()).guarantee == guarantee
    assert guarantee.with_amount("0.5").row == "row of the query"
    place = str(tmp_path / "ledger.db")
    ledger = open_ledger(place, dataset="people", total=guarantee)
    ledger.charge(made.digest, guarantee)
    again = open_ledger(place, dataset="people", total=guarantee)
    assert [entry.guarantee for entry in again.entries()] == [guarantee]
    other = type(guarantee)(**guarantee.amounts)
    with pytest.raises(LedgerError, match="its own total"):
        open_ledger(place, dataset="people", total=other)
    rows = open_ledger(str(tmp_path / "rows.db"), dataset="people", total=other)
    for refuses in (rows.afford, rows.charge):
        with pytest.raises(GuaranteeError, match="unit of the total, adding or removing one row, given"):
            refuses(made.digest, guarantee)
