"""`privcube plan`: strategies compared, relative errors, the budget that an accuracy needs, plans to keep."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from privcube import Plan
from privcube.model.amounts import decimal_text
from privcube.strategies import STRATEGIES

Said = Callable[..., str]
Write = Callable[..., Path]

BASE_COUNTS = 'strategy = "base_counts"'


def _answer(said: Said, *options: str) -> dict[str, Any]:
    found = json.loads(said("plan", "spec.toml", "--json", *options))
    assert isinstance(found, dict)
    return found


def test_strategies_are_compared_by_table(said: Said, write_spec: Write) -> None:
    """S = I, epsilon 1: a cell of a table that adds up n base counts has variance 2n."""
    write_spec()
    found = _answer(said, "--compare")["strategies"]
    assert {line["strategy"] for line in found} == {*STRATEGIES, "search"}
    of = {line["strategy"]: line for line in found}
    assert of["base_counts"]["tables"] == pytest.approx({"sex": 20**0.5, "age": 2, "sex x age": 2**0.5})
    assert of["base_counts"]["worst_table"] == "sex"
    assert of["base_counts"]["std_error"] == pytest.approx(((2 * 20 + 10 * 4 + 20 * 2) / 32) ** 0.5)
    assert "Gaussian" in of["residual"]["refused"]
    usable = [line["std_error"] for line in found if line["refused"] is None]
    assert len(usable) > 3
    assert usable == sorted(usable)  # all weights are 1


def test_compared_figures_are_those_of_the_options_beside_them(said: Said, write_spec: Write) -> None:
    write_spec(plan='objective = "largest"\nbudgets = "optimal"')
    lines = [line for line in _answer(said, "--compare")["strategies"] if line["refused"] is None]
    for line in lines:
        options = [word for key, value in line["options"].items() for word in (f"--{key}", value)]
        made = Plan.from_json(json.dumps(_without_extras(_answer(said, *options))))
        assert made.mean_cell_variance**0.5 == pytest.approx(line["std_error"], rel=1e-12)
    assert f"--strategy NAME --budgets {lines[0]['options']['budgets']}" in said("plan", "spec.toml", "--compare")


def _without_extras(document: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key not in ("drawn_variance_per_cell", "warnings")}


def test_the_objective_can_be_chosen(said: Said, write_spec: Write) -> None:
    write_spec()
    total, largest = (
        _answer(said, "--objective", objective)["predicted_variance_per_cell"] for objective in ("total", "largest")
    )
    assert max(largest) < max(total)


@pytest.mark.parametrize(
    ("privacy", "says"),
    [
        ('epsilon = "11"', "Epsilon 11 is above 10"),
        ('rho = "5"', "Rho 5 implies an epsilon above 10"),
        ('epsilon = "1"\ndelta = "0.01"\ncalibration = "zcdp"', "one in 100 records"),
        ('epsilon = "1"\ndelta = "1e-4"\ncalibration = "zcdp"\nexpected_records = 20_000', "above 1/20,000"),
    ],
)
def test_weak_guarantees_are_warned_of(said: Said, write_spec: Write, privacy: str, says: str) -> None:
    write_spec(privacy=privacy)
    assert says in said("plan", "spec.toml")
    assert any(says in warning for warning in _answer(said)["warnings"])


def test_usual_guarantees_are_not_warned_of(said: Said, write_spec: Write) -> None:
    for privacy in ('epsilon = "10"', 'epsilon = "1"\ndelta = "1e-4"\nexpected_records = 9_000', 'rho = "0.5"'):
        write_spec(privacy=privacy)
        (warning,) = _answer(said)["warnings"]
        assert warning.startswith("Values that are missing")  # none about the guarantee
        assert said("plan", "spec.toml").count("Warning") == 1


def test_a_delta_that_would_help_is_hinted_at(said: Said, write_spec: Write) -> None:
    many = "\n".join(f'[[attributes]]\nname = "a{number}"\nsize = 2' for number in range(30))
    write_spec(attributes=many, workload="all_kway = [2]", plan='strategy = "marginals"')
    assert 'write `delta = "0.000001"` into [privacy]' in said("plan", "spec.toml")
    write_spec()
    assert "Hint" not in said("plan", "spec.toml")
    text = said("plan", "spec.toml", "--compare")
    assert "residual: cannot be used here; plan: expected Gaussian noise" in text
    table = text.split("\n\n")[-1].splitlines()
    assert table[0].split()[0] == "table"
    assert len(table) == 4


def test_the_first_strategy_is_the_one_that_auto_takes(said: Said, write_spec: Write) -> None:
    write_spec()
    first = _answer(said, "--compare")["strategies"][0]["strategy"]
    assert _answer(said)["options"]["strategy"] == first


def test_relative_errors_of_counts(said: Said, write_spec: Write) -> None:
    """A single discrete Laplace draw of scale 1 is within 3 in 97.3 % of cases, and within 2 in only 92.7 %."""
    write_spec(plan=BASE_COUNTS)
    (_, _, both) = _answer(said, "--count", "50,500")["relative_errors"]
    assert both["table"] == "sex x age"
    assert both["margin"] == 3
    assert both["relative_error"] == pytest.approx({"50": both["margin"] / 50, "500": both["margin"] / 500})
    text = said("plan", "spec.toml", "--count", "50,500")
    assert "Expected relative error (95% confidence)" in text
    (line,) = [line.split() for line in text.splitlines() if line.startswith("sex x age ") and "±" in line]
    assert line[3:] == ["±", "3.0", f"{2 * both['margin']:.2g}%", f"{both['margin'] / 5:.2g}%"]


def test_relative_errors_of_a_few_sizes_if_none_is_given(said: Said, write_spec: Write) -> None:
    write_spec(plan=BASE_COUNTS)
    assert list(_answer(said, "--count")["relative_errors"][0]["relative_error"]) == ["100", "1000", "10000"]
    few = said("plan", "spec.toml", "--tables", "1", "--count")
    assert few.count("... and 2 more tables (--tables 0 lists all)") == 2


@pytest.mark.parametrize("sizes", ["0", "1.5", "many", "", "1,,2", "9" * 30])
def test_sizes_that_are_none(refused_here: Said, write_spec: Write, sizes: str) -> None:
    write_spec()
    assert "--count" in refused_here("plan", "spec.toml", "--count", sizes)


@pytest.mark.parametrize(
    ("privacy", "name", "power"),
    [
        ('epsilon = "0.01"', "epsilon", 1),
        ('rho = "0.0001"', "rho", 2),
        ('epsilon = "0.1"\ndelta = "1e-6"', "epsilon", 1),
        ('epsilon = "0.1"\ndelta = "1e-6"\ncalibration = "zcdp"', "epsilon", 1),
        ('epsilon = "0.1"\ndelta = "1e-6"\ncalibration = "classic"', "epsilon", 1),
    ],
)
@pytest.mark.parametrize("finer", [2.0, 0.25])
def test_the_budget_for_an_accuracy(
    said: Said, write_spec: Write, privacy: str, name: str, power: int, finer: float
) -> None:
    """Where noise is wide, the margin is inverse to epsilon or to the root of rho; the plan then made confirms it."""
    write_spec(privacy=privacy, plan=BASE_COUNTS)
    now = _answer(said, "--accuracy", "1 at 90% on sex x age")["accuracy"]["margin_now"]
    wanted = round(now / finer, 1)
    found = _answer(said, "--accuracy", f"{wanted} at 90% on age x sex")["accuracy"]
    before = float(privacy.split('"')[1])
    by_delta = "delta" in privacy and "classic" not in privacy  # then epsilon is inverse to margins only roughly
    precision = (0.12 if "zcdp" not in privacy else 0.1) if by_delta else 0.015  # margins are whole numbers here
    assert float(found["needed"][name]) == pytest.approx(before * finer**power, rel=precision)
    assert 0.995 * int(wanted) < found["margin_then"] <= wanted
    write_spec(
        privacy=privacy.replace(f'"{privacy.split(chr(34))[1]}"', f'"{found["needed"][name]}"', 1), plan=BASE_COUNTS
    )
    again = _answer(said, "--accuracy", f"{wanted} at 90% on sex x age")["accuracy"]
    assert again["margin_now"] == pytest.approx(found["margin_then"])
    assert again["needed"] == found["needed"]


def test_accuracy_is_for_the_worst_table_if_none_is_named(said: Said, write_spec: Write) -> None:
    write_spec(plan=BASE_COUNTS)
    assert _answer(said, "--accuracy", "5")["accuracy"]["table"] == "sex"
    text = said("plan", "spec.toml", "--accuracy", "5 at 99%")
    assert "Accuracy    ± 5 with 99% confidence for each number of sex needs epsilon = " in text
    assert "half the margin takes twice the epsilon" in text
    write_spec(privacy='rho = "0.5"', plan=BASE_COUNTS)
    assert "half the margin takes four times the rho" in said("plan", "spec.toml", "--accuracy", "5 at 99%")


def test_accuracy_is_for_tables_that_were_not_asked_for_too(said: Said, write_spec: Write) -> None:
    write_spec(plan=BASE_COUNTS)
    assert _answer(said, "--accuracy", "50 on total")["accuracy"]["table"] == "total"


def test_an_accuracy_that_no_budget_reaches(refused_here: Said, write_spec: Write) -> None:
    write_spec(plan=BASE_COUNTS)
    assert "available: sex, age" in refused_here("plan", "spec.toml", "--accuracy", "50 on nothing")
    assert "one that some budget reaches" in refused_here("plan", "spec.toml", "--accuracy", "1" + "0" * 40)


def test_several_accuracies_and_the_plan_that_reaches_them(
    said: Said, refused_here: Said, write_spec: Write, write_people: Callable[[], Path], tmp_path: Path
) -> None:
    write_people()
    write_spec()
    wanted = "9 at 95% on sex x age; 4 at 99 % on sex;"
    text = said("plan", "spec.toml", "--accuracy", wanted, "--save", "plan.json")
    kept = Plan.from_json((tmp_path / "plan.json").read_text(encoding="utf-8"))
    epsilon = decimal_text(kept.guarantee.amounts["epsilon"])
    assert f"A plan made for it needs only epsilon = {epsilon} (--save FILE writes that plan)" in text
    assert "It spends nothing on other tables, whose standard errors are then up to " in text
    assert f"wrote plan.json; set epsilon = {epsilon} in spec.toml; next: `privcube release spec.toml" in text
    found = _answer(said, "--accuracy", wanted)["accuracy"]
    assert [line["table"] for line in found["targets"]] == ["sex x age", "sex"]
    assert [line["confidence"] for line in found["targets"]] == [0.95, 0.99]
    assert all(line["margin_then"] <= line["wanted_margin"] for line in found["targets"])
    assert max(line["margin_then"] / line["wanted_margin"] for line in found["targets"]) > 0.98
    assert found["saved"] == found["needed_by_a_plan_made_for_it"] == {"epsilon": epsilon}
    assert float(found["needed"]["epsilon"]) > float(epsilon)
    assert "the spec was changed" in refused_here("release", "spec.toml", "--plan", "plan.json")
    write_spec(privacy=f'epsilon = "{epsilon}"')
    assert "Published" in said("release", "spec.toml", "--plan", "plan.json")


def test_a_strategy_that_was_named_is_kept_for_an_accuracy(said: Said, write_spec: Write, tmp_path: Path) -> None:
    write_spec(plan=BASE_COUNTS)
    found = _answer(said, "--accuracy", "9 on sex x age; 20 on total", "--save", "plan.json")["accuracy"]
    assert found["needed_by_a_plan_made_for_it"] is None
    kept = Plan.from_json((tmp_path / "plan.json").read_text(encoding="utf-8"))
    assert kept.options.strategy == "base_counts"
    assert found["saved"] == found["needed"] == {"epsilon": decimal_text(kept.guarantee.amounts["epsilon"])}


def test_a_plan_is_explained(said: Said, write_spec: Write) -> None:
    write_spec()
    found = _answer(said, "--explain")["explanation"]
    assert {line["strategy"] for line in found["others"]} == {*STRATEGIES, "search"} - {found["strategy"]}
    assert found["limit"]["kind"] == "additive"
    text = said("plan", "spec.toml", "--explain")
    assert "ratio  strategy" in text
    assert "Limit: " in text
    write_spec(privacy='rho = "0.5"')
    assert "this plan is at 1.000 times that" in said("plan", "spec.toml", "--explain")


def test_efforts(said: Said, refused_here: Said, write_spec: Write, write_people: Callable[[], Path]) -> None:
    write_spec()
    assert _answer(said, "--effort", "fast")["options"]["effort"] == "fast"
    assert "available: fast, normal, thorough" in refused_here("plan", "spec.toml", "--effort", "endless")
    assert "available: fast, normal, thorough" in refused_here("release", "spec.toml", "--effort", "endless")
    write_people()
    assert "Published" in said("release", "spec.toml", "--effort", "fast")


def test_the_objective_of_the_spec_is_used(said: Said, write_spec: Write) -> None:
    write_spec(privacy='rho = "0.5"', plan='objective = "largest"')
    found = _answer(said)
    assert found["options"]["objective"] == "largest"
    variances = found["predicted_variance_per_cell"]
    write_spec(privacy='rho = "0.5"')
    assert max(variances) < max(_answer(said)["predicted_variance_per_cell"])


def test_a_plan_that_is_kept(said: Said, refused_here: Said, write_spec: Write, tmp_path: Path) -> None:
    write_spec()
    assert "next: `privcube release spec.toml --plan plan.json`" in said("plan", "spec.toml", "--save", "plan.json")
    kept = Plan.from_json((tmp_path / "plan.json").read_text(encoding="utf-8"))
    assert kept.digest == _answer(said)["digest"]
    assert "nothing is overwritten" in refused_here("plan", "spec.toml", "--save", "plan.json")


def test_everything_at_once(said: Said, write_spec: Write) -> None:
    write_spec()
    assert set(_answer(said, "--compare", "--count", "--accuracy", "9")) == {
        "strategies",
        "relative_errors",
        "accuracy",
    }
    text = said("plan", "spec.toml", "--compare", "--explain", "--accuracy", "9", "--count")
    words = ("Guarantee ", "Strategies by", "The plan, ", "Expected relative error", "Accuracy ")
    places = [text.index(word) for word in words]
    assert places == sorted(places)


def test_sums_are_spoken_of_where_there_are_some_and_noise_that_cannot_be_drawn(
    said: Said, write_spec: Write, tmp_path: Path
) -> None:
    measure = (
        '[[attributes]]\nname = "sex"\nvalues = ["F", "M"]\n\n[[measures]]\nname = "pay"\nlow = 0\nhigh = 9\nstep = 1'
    )
    write_spec(attributes=measure, workload="all_kway = [1]")
    told = said("plan", "spec.toml", "--strategy", "marginals")
    assert "sums in units" not in told
    assert "cannot be drawn" not in told
    asked, fast = 'all_kway = [1]\nmeasures = ["pay"]', 'effort = "fast"'
    write_spec(attributes=measure, workload=asked, privacy='epsilon = "1e-12"', plan=fast)
    told = " ".join(said("plan", "spec.toml").split())
    assert "sums in units of the largest number" in told
    assert "its noise cannot be drawn: noise scale: expected a fraction from 1e-15 to 1e12, given" in told
    (tmp_path / "people.csv").write_text("sex,pay\nF,1\n")
    assert "Release     would stop: its noise cannot be drawn (noise scale: expected" in said("check", "spec.toml")
