"""The studies run, in their quick mode, and what they write is right: golden variances, orders, bounds, claims."""

from __future__ import annotations

import pickle
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from experiments.accuracy import points
from experiments.results import chosen, number, read_rows, write_rows
from experiments.simulate import AUTO, PAIRS, PAPER, RESIDUAL, Choice, _InBulk, planned, rescaled

import privcube as pc
from experiments import __main__ as command
from experiments import claims, data, page
from privcube.accuracy.predictor import recover
from privcube.sensitive.gate import _noise, measure
from privcube.sensitive.ledger import MemoryLedger
from privcube.sensitive.sources import engine_for

pytestmark = pytest.mark.xdist_group("experiments")  # the fixture is made once


@pytest.mark.parametrize("name", ["accuracy", "gaussian"])
def test_predictions_are_in_order(results: Path, name: str) -> None:
    """S+ is never worse than S, ours never worse than any, by the variance that budgets minimize."""
    rows = read_rows(results / f"{name}.csv")
    assert rows
    for one in rows:
        case = {key: one[key] for key in ("dataset", "workload", "epsilon")}
        variance = {row["strategy"]: float(row["total variance predicted"]) for row in chosen(rows, **case)}
        assert all(variance[plus.symbol] <= variance[base.symbol] * (1 + 1e-6) for base, plus in PAIRS)
        ours = variance["auto" if name == "accuracy" else "residual"]
        assert ours <= min(variance.values()) * (1 + 1e-6)


@pytest.mark.parametrize(
    ("dataset", "workload", "strategy", "golden"),
    [
        ("NLTCS", "Q1", "I", 65536),
        ("NLTCS", "Q1*", "I", 36623),
        ("NLTCS", "Q1*", "Q+", 11301),
        ("NLTCS", "Q1*", "F+", 1749.7),
        ("Adult", "Q1", "Q+", 109.4),
        ("Adult", "Q1*", "Q+", 592.3),
    ],
)
def test_variances_are_those_of_the_theory_page(
    results: Path, dataset: str, workload: str, strategy: str, golden: float
) -> None:
    """THEORY, section 3: mean variance per cell at epsilon 1."""
    (row,) = chosen(
        read_rows(results / "accuracy.csv"), dataset=dataset, workload=workload, strategy=strategy, epsilon="1"
    )
    assert float(row["total variance predicted"]) / int(row["cells"]) == pytest.approx(golden, rel=1e-3)


@pytest.mark.parametrize("name", ["accuracy", "gaussian"])
def test_simulated_errors_are_as_predicted(results: Path, name: str) -> None:
    """Pooled over all points of a strategy: a scale that is off by the root of two, or a factor of two, fails."""
    rows = read_rows(results / f"{name}.csv")
    for symbol in dict.fromkeys(row["strategy"] for row in rows):
        own = chosen(rows, strategy=symbol)
        ratios = [float(row["scaled error"]) / float(row["scaled error predicted"]) for row in own]
        assert 0.72 < np.mean(ratios) < 1.28, symbol
        # Base counts err alike in all tables: two normal errors add up to six standard errors in one of 20,000 runs.
        assert all(float(row["scaled error"]) < 3 * float(row["scaled error bound"]) for row in own)


@pytest.mark.parametrize("choice", [*PAPER, AUTO], ids=lambda choice: choice.symbol)
def test_the_error_of_a_release_is_what_recovery_makes_of_its_noise(choice: Choice) -> None:
    records = data.dataset("NLTCS")
    workload = data.workload(records.schema, "Q1a")
    plan = planned(workload, pc.PureDP(1), choice)
    measured = measure(plan, engine_for(records.codes), MemoryLedger(plan.guarantee), noise_from=Seeded())
    released = recover(plan, measured.answers.astype(np.float64))
    errors = recover(plan, _noise(plan, Seeded()).astype(np.float64))
    for table in workload:
        np.testing.assert_allclose(released[table] - errors[table], records.counts(table), atol=1e-6)


class Seeded:
    """The same noise every time."""

    def __init__(self) -> None:
        self.generator = np.random.default_rng(5)

    def laplace(self, scale: Fraction, count: int) -> np.ndarray:
        return self.generator.integers(-99, 99, count)

    def gaussian(self, variance: Fraction, count: int) -> np.ndarray:
        return self.generator.integers(-99, 99, count)

    rounded_gaussian = gaussian

    def max_norm(self, scale: Fraction, sizes: list[int]) -> list[np.ndarray]:
        return [self.generator.integers(-99, 99, size) for size in sizes]

    def rounded_max_norm(self, scales: list[Fraction], sizes: list[int], count: int) -> list[np.ndarray]:
        return [self.generator.integers(-99, 99, (count, size)) for size in sizes]

    def section(self, scale: Fraction, bound: list[int], free: list[int], count: int) -> list[np.ndarray]:
        return [self.generator.integers(-99, 99, (count, size)) for size in (1, *bound, *free)]

    def gram(self, dimension: int, left: np.ndarray, right: object, squares: object, which: object, count: int):
        return self.generator.integers(-99, 99, (count, len(left)))


def test_draws_made_in_bulk_are_handed_out_once() -> None:
    source = _InBulk(3)
    drawn = np.array([source.laplace(Fraction(1000), 400) for _ in range(6)])  # the stock is renewed after three
    assert len(np.unique(drawn)) > 1000
    assert not any(np.array_equal(drawn[i], drawn[j]) for i in range(6) for j in range(i))
    assert np.abs(drawn).mean() == pytest.approx(1000, rel=0.12)


@pytest.mark.parametrize(
    ("choice", "first", "second"),
    [
        *((choice, pc.PureDP(1), pc.PureDP("0.2")) for choice in PAPER),
        (RESIDUAL, pc.ApproxDP(1, "1e-6"), pc.ApproxDP(3, "1e-6")),
    ],
)
def test_a_rescaled_plan_is_the_plan(choice: Choice, first: pc.PureDP, second: pc.PureDP) -> None:
    workload = data.workload(data.dataset("Adult").schema, "Q1")
    scaled, made = rescaled(planned(workload, first, choice), second), planned(workload, second, choice)
    assert (scaled.groups, scaled.shares) == (made.groups, made.shares)
    assert scaled.table_variances == pytest.approx(made.table_variances, rel=1e-9)


# Claims


def test_claims_say_what_the_numbers_say(results: Path) -> None:
    gains, found = read_rows(results / "gains.csv"), read_rows(results / "claims.csv")
    text = page.page_path(results, "paper.md").read_text(encoding="utf-8")
    wanted = {claim.words: claim for claim in claims.CLAIMS}
    checked = 0
    for row in found:
        assert row["verdict"] in text
        assert row["found"].replace("*", "\\*") in text
        if row["claim"] in wanted:
            claim = wanted[row["claim"]]
            percent = np.mean([
                float(each["percent"])
                for each in chosen(gains, dataset=claim.dataset, reading=claims.SCALED)
                if each["gain of"] == claim.plus and each["workload"] in claim.workloads
            ])  # fmt: skip
            assert row["found"].startswith(f"{percent:.1f} %")
            assert (row["verdict"] == claims.REPRODUCES) == (percent > 0 and claim.low <= round(percent) <= claim.high)
            checked += 1
    assert checked >= 3


@pytest.mark.parametrize(
    ("percent", "verdict"), [("22", claims.REPRODUCES), ("43", claims.OTHER_SIZE), ("-1", claims.FAILS)]
)
def test_a_verdict_follows_the_gain(percent: str, verdict: str) -> None:
    one = {"dataset": "Adult", "data": "file", "workload": "Q1*", "gain of": "Q+", "percent": percent}
    readings = (claims.SIMULATED, claims.SCALED, claims.SQUARED)
    rows = [{**one, "reading": reading, "standard error": "1"} for reading in readings]
    (row,) = claims.judged(rows)
    assert row["verdict"] == verdict


def test_base_counts_that_win_on_small_tables_are_noticed(results: Path) -> None:
    rows, degrees = read_rows(results / "accuracy.csv"), read_rows(results / "degrees.csv")
    assert claims.judged_orders(rows, degrees)[0]["verdict"] == claims.REPRODUCES
    doctored = [{**row, "scaled error": "1e-9"} if row["strategy"] == "I" else row for row in rows]
    assert claims.judged_orders(doctored, degrees)[0]["verdict"] == claims.FAILS


# Table 1


def test_errors_keep_to_their_bounds(results: Path) -> None:
    rows = [row for row in read_rows(results / "table1.csv") if row["bound"]]
    assert {row["strategy"] for row in rows} == {"I", "Q", "F", "F+"}
    assert all(float(row["bound over error"]) > 1 - 1e-5 for row in rows)
    pure = chosen(rows, guarantee="pure")
    assert {row["constant"] for row in pure if row["strategy"] in ("I", "Q")} == {f"{2**0.5:.6g}"}
    assert number(pure, "error", strategy="F+", d="8", k="1") < number(pure, "error", strategy="F", d="8", k="1")


# Page, data, command


def test_the_page_has_its_plots_and_says_that_it_is_quick(results: Path) -> None:
    assert page.page_path(results) == results.parent / "guide" / "accuracy.md"
    path = page.page_path(results, "paper.md")
    text = path.read_text(encoding="utf-8")
    assert "quick run" in text
    own = [target for target in re.findall(r"\]\(([^)]+)\)", text) if target.startswith("../results")]
    assert {"../results/accuracy-adult.svg", "../results/gaussian-nltcs.svg", "../results/table1.svg"} <= set(own)
    assert all((path.parent / target).exists() for target in own)
    assert "](results:" not in text


def test_the_page_does_without_results_and_takes_in_those_of_others(tmp_path: Path) -> None:
    page.run(tmp_path, quick=False)
    assert "## " not in (tmp_path / "accuracy.md").read_text(encoding="utf-8").replace("## In short", "")
    write_rows(tmp_path / "no-such-study.csv", [{"seconds": 1.0}])
    assert page._other(tmp_path, "no-such-study", "Something else").startswith("## Something else")


def test_made_up_records_have_the_shape_and_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRIVCUBE_DATA", str(tmp_path))
    for name, rows in (("Adult", 32_561), ("NLTCS", 21_574)):
        made = data.dataset.__wrapped__(name)
        assert made.data in made.title
        assert made.data == data.STAND_IN
        assert made.records == rows
        assert all(made.codes[a.name].max() < a.cells and made.codes[a.name].nunique() > 1 for a in made.schema)


def test_every_file_about_records_says_which(results: Path) -> None:
    known = {data.dataset(name).data for name in data.DATASETS}
    for name in ("accuracy", "gaussian", "gains", "degrees", "claims", "whole"):
        assert {row["data"] for row in read_rows(results / f"{name}.csv")} <= known | {" and ".join(sorted(known))}


def test_whole_numbers_are_compared_with_estimates(results: Path) -> None:
    (row,) = read_rows(results / "whole.csv")
    assert float(row["mean_absolute_whole"]) < 1.2 * float(row["mean_absolute_least_squares"])
    assert float(row["root_mean_square_whole"]) >= float(row["mean_absolute_whole"]) > 0


def test_whole_numbers_of_large_releases_are_those_of_their_records(results: Path) -> None:
    (row,) = read_rows(results / "whole-large.csv")
    assert row["tables_of_records"] == "yes"
    assert int(row["tables"]) == 15
    assert 0 < float(row["mean_absolute_whole"]) < 1.2 * float(row["mean_absolute_least_squares"])


def test_a_quick_run_leaves_the_real_results_alone() -> None:
    assert command._folder(None, quick=True) != command.RESULTS


def test_every_study_has_a_command() -> None:
    assert set(command.main.commands) == {*command.STUDIES, "all"}


def test_auto_is_known_in_another_process_and_follows_the_noise_that_is_drawn() -> None:
    """At epsilon 10 noise is mostly 0 where a group gets all of it: then base counts are best on NLTCS."""
    auto = pickle.loads(pickle.dumps(AUTO))
    small, large = points(data.dataset("NLTCS"), "Q2", auto, [pc.PureDP(1), pc.PureDP(10)], "fast", 2)
    assert (small["plan"], large["plan"]) == ("search, effort fast", "base_counts, effort fast")
