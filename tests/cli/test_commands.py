"""The commands from end to end, on good input."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from privcube import Plan, Spec, __version__
from privcube.cli.main import COMMANDS
from privcube.strategies import STRATEGIES

Command = Callable[..., subprocess.CompletedProcess[str]]
Said = Callable[..., str]
Write = Callable[..., Path]

MARGINALS = 'strategy = "marginals"'  # quick, where the choice of a strategy is not the point


def _said(result: subprocess.CompletedProcess[str]) -> str:
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    return result.stdout


def _listed(text: str) -> list[str]:
    """The lines of the list of tables, without its header."""
    lines = text.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("table "))
    rest = lines[start + 1 :]
    return rest[: rest.index("")] if "" in rest else rest


# help, version


def test_every_command_has_help_with_an_example(said: Said) -> None:
    names = [command.name for command in COMMANDS]
    assert names == [
        "init",
        "check",
        "plan",
        "release",
        "show",
        "explore",
        "query",
        "verify",
        "export",
        "whole",
        "ledger",
        "demo",
    ]
    inner = [["ledger", name] for name in ("show", "check", "recover")]
    for arguments in ([], *([name] for name in names), *inner):
        for option in ("-h", "--help"):
            text = said(*arguments, option)
            assert text.startswith(f"Usage: {' '.join(['privcube', *arguments])} ")
            assert "Example:\n" in text
            assert "..." not in text.split("\nCommands:")[-1] or "Commands:" not in text


def test_version(privcube: Command) -> None:
    assert _said(privcube("--version")) == f"privcube, version {__version__}\n"


def test_without_a_command_it_shows_its_help(privcube: Command) -> None:
    result = privcube()
    assert result.returncode == 2
    assert "Commands:" in result.stdout + result.stderr


# init, then plan


def test_init_writes_a_spec_that_plan_understands(said: Said, tmp_path: Path) -> None:
    assert said("init") == "wrote spec.toml; next: edit it, then `privcube plan spec.toml`\n"
    assert [file.name for file in tmp_path.iterdir()] == ["spec.toml"]
    text = said("plan", "spec.toml", "--tables", "0")
    assert "Workload    38 tables, 1,089 cells" in text
    assert len(_listed(text)) == 38
    assert "draft" not in text
    assert [file.name for file in tmp_path.iterdir()] == ["spec.toml"]


def test_init_takes_a_path(said: Said, tmp_path: Path) -> None:
    assert "`privcube plan 'my spec.toml'`" in said("init", "my spec.toml")
    assert (tmp_path / "my spec.toml").exists()


def test_plan_needs_no_data(said: Said, write_spec: Write) -> None:
    write_spec(data='source = "no/such/file.csv"')
    assert "2 attributes, 20 combinations of values" in said("plan", "spec.toml")


def test_plan_shows_the_predicted_error_of_each_table(said: Said, write_spec: Write) -> None:
    """S = I, epsilon 1: a cell of a table that adds up n base counts has variance 2n."""
    write_spec()
    lines = [line.split() for line in _listed(said("plan", "spec.toml", "--strategy", "base_counts"))]
    assert lines == [["sex", "2", "4.47"], ["age", "10", "2.00"], ["sex", "x", "age", "20", "1.41"]]


def test_plan_as_json_carries_a_digest_of_its_content(said: Said, write_spec: Write) -> None:
    write_spec()
    document = json.loads(said("plan", "spec.toml", "--json"))
    digest = document.pop("digest")
    for added in ("drawn_variance_per_cell", "warnings"):  # they follow from the rest
        document.pop(added)
    content = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert digest == hashlib.sha256(content.encode()).hexdigest()
    assert document["tables"] == [["sex"], ["age"], ["sex", "age"]]
    assert document["guarantee"]["amounts"] == {"epsilon": "1"}


def test_plan_states_the_variance_of_the_noise_that_is_drawn(said: Said, write_spec: Write) -> None:
    """S = I, epsilon 1: discrete Laplace noise of scale 1 has variance 1.841347, not 2; plans can be read back."""
    write_spec()
    options = ["plan", "spec.toml", "--strategy", "base_counts"]
    text = said(*options, "--json")
    document = json.loads(text)
    assert document["predicted_variance_per_cell"] == pytest.approx([20, 4, 2])
    assert document["drawn_variance_per_cell"] == pytest.approx([18.41347, 3.682694, 1.841347], rel=1e-6)
    assert Plan.from_json(text).to_json() == json.dumps(
        {name: part for name, part in document.items() if name not in ("drawn_variance_per_cell", "warnings")},
        indent=1,
        ensure_ascii=False,
    )
    mean = {kind: (2 * 10 + 10 * 2 + 20 * 1) / 32 * row for kind, row in {"predicted": 2, "drawn": 1.841347}.items()}
    shown = f"{mean['predicted'] ** 0.5:.2f} (root mean square), {mean['drawn'] ** 0.5:.2f} with the whole-number noise"
    assert shown in said(*options)


def test_the_same_spec_gives_the_same_bytes(privcube: Command, write_spec: Write) -> None:
    write_spec()
    first, second = (_said(privcube("plan", "spec.toml", "--json", PYTHONHASHSEED=seed)) for seed in ("1", "2"))
    assert first == second


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
def test_every_strategy_can_be_chosen(said: Said, write_spec: Write, strategy: str) -> None:
    write_spec()
    if strategy == "residual":  # overlapping rows: Gaussian noise only
        write_spec(privacy='rho = "0.5"')
    document = json.loads(said("plan", "spec.toml", "--strategy", strategy, "--json"))
    assert document["options"]["strategy"] == strategy


def test_the_options_win_over_the_spec(said: Said, write_spec: Write) -> None:
    write_spec(plan='strategy = "base_counts"\nbudgets = "optimal"\nrecovery = "optimal"\neffort = "fast"')
    options = ["--strategy", "marginals", "--budgets", "uniform", "--recovery", "direct"]
    document = json.loads(said("plan", "spec.toml", "--json", *options))
    expected = {"strategy": "marginals", "budgets": "uniform", "recovery": "direct", "effort": "fast"}
    expected["objective"] = "total"
    assert document["options"] == expected
    document = json.loads(said("plan", "spec.toml", "--json"))
    assert document["options"]["strategy"] == "base_counts"


def test_tables_says_how_many_to_list(said: Said, write_spec: Write) -> None:
    attributes = "\n".join(f'[[attributes]]\nname = "a{i}"\nsize = 2' for i in range(7))
    write_spec(attributes=attributes, workload="all_kway = [2]", plan=MARGINALS)
    few = said("plan", "spec.toml", "--tables", "2")
    assert _listed(few)[2:] == ["... and 19 more tables (--tables 0 lists all)"]
    assert len(_listed(said("plan", "spec.toml", "--tables", "0"))) == 21
    assert "... and 1 more table (" in said("plan", "spec.toml")


def test_plan_reads_every_kind_of_guarantee(said: Said, write_spec: Write) -> None:
    for privacy, shown in (
        ('epsilon = "0.1"\nneighbors = "replace_one"', "epsilon = 0.1 (pure), replacing one row"),
        ('epsilon = "1"\ndelta = "1e-6"', "epsilon = 1, delta = 0.000001, adding or removing one row"),
        ('rho = "1/3"', "rho = 0.333334 (zCDP), adding or removing one row"),
    ):
        write_spec(privacy=privacy, plan=MARGINALS)
        assert f"Guarantee   {shown}\n" in said("plan", "spec.toml")


def test_names_are_shown_as_they_are(privcube: Command, write_spec: Write) -> None:
    """No markup, no wrapping, nothing that a terminal would act on."""
    name = "[/red] :smile: " + "long " * 40 + "name"
    write_spec(attributes=f'[[attributes]]\nname = "{name}"\nsize = 2', workload="all_kway = [1]")
    assert f"\n{name}  " in _said(privcube("plan", "spec.toml", COLUMNS="40"))
    write_spec(attributes='[[attributes]]\nname = "a\\u009b31mb\\u2028c"\nsize = 2', workload="all_kway = [1]")
    result = privcube("plan", "spec.toml")  # shown as an escape, or refused by the schema
    assert "\x9b" not in result.stdout + result.stderr
    assert "\u2028" not in result.stdout + result.stderr
    assert "Traceback" not in result.stderr


def test_a_terminal_that_lacks_a_letter_gets_an_escape(privcube: Command, write_spec: Write) -> None:
    write_spec(attributes='[[attributes]]\nname = "性別"\nsize = 2', workload="all_kway = [1]")
    assert "\\u6027\\u5225" in _said(privcube("plan", "spec.toml", PYTHONIOENCODING="latin-1"))


def test_a_reader_that_leaves_early_sees_no_traceback(program: Path, write_spec: Write, tmp_path: Path) -> None:
    write_spec()
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        result = subprocess.run(
            [program, "plan", "spec.toml", "--json"], cwd=tmp_path, stdout=pipe, stderr=subprocess.PIPE, check=False
        )
    assert b"Traceback" not in result.stderr


# init --domain


def test_init_takes_private_pgm_domains(said: Said, tmp_path: Path) -> None:
    (tmp_path / "adult-domain.json").write_text('{"age": 85, "sex": 2}', encoding="utf-8")
    said("init", "--domain", "adult-domain.json")
    spec = Spec.read(tmp_path / "spec.toml")
    assert {attribute.name: attribute.cells for attribute in spec.schema} == {"age": 85, "sex": 2}
    assert spec.data.source == "adult.csv"
    assert "2 attributes, 170 combinations of values" in said("plan", "spec.toml", "--strategy", "marginals")


# init --from


def _csv(folder: Path, *columns: list[object]) -> None:
    lines = [",".join(map(str, row)) for row in zip(*columns, strict=True)]
    (folder / "people.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _drafted(said: Said, folder: Path) -> dict[str, dict[str, object]]:
    said("init", "--from", "people.csv")
    with (folder / "spec.toml").open("rb") as stream:
        return {attribute["name"]: attribute for attribute in tomllib.load(stream)["attributes"]}


def test_a_draft_lists_sorted_values_and_is_marked(said: Said, tmp_path: Path) -> None:
    _csv(tmp_path, ["ward", "b", "c", "a"], ["rooms", 10, 9, -1], ["code", "007", "7", "10"], ["ok", "x", "", "y"])
    drafted = _drafted(said, tmp_path)
    assert [attribute["values"] for attribute in drafted.values()] == [
        ["a", "b", "c"],
        [-1, 9, 10],
        ["007", "10", "7"],
        ["x", "y"],
    ]
    assert [attribute["missing"] for attribute in drafted.values()] == ["refuse", "refuse", "refuse", "category"]
    assert all(attribute["draft"] is True for attribute in drafted.values())


def test_a_draft_lists_values_once_that_are_spelled_in_several_ways(said: Said, tmp_path: Path) -> None:
    """The most frequent spelling is listed, and the release counts all of them."""
    sex, ward = ["sex", "f", " F", "f", "M", "m ", "M"], ["ward", "a", "b", "c", "a", "b", "c"]
    _csv(tmp_path, sex, ward, ["code", *["01", "1 ", "01", "7", "7", "7"]])
    drafted = _drafted(said, tmp_path)
    assert [drafted["sex"][key] for key in ("values", "trim", "case")] == [["M", "f"], True, "fold"]
    assert not {"trim", "case"} & drafted["ward"].keys()
    assert drafted["code"]["values"] == ["01", "1 ", "7"]  # codes are texts, and a blank alone stays a difference
    text = (tmp_path / "spec.toml").read_text(encoding="utf-8")
    assert text.count("# decide: some values occurred in other letters or with blanks around them; `trim` and") == 1
    (tmp_path / "spec.toml").write_text(text.replace("draft = true", ""), encoding="utf-8")
    assert "sex: all values are declared" in said("check", "spec.toml")


def test_ages_and_dates_are_drafted_though_some_are_not_available(said: Said, tmp_path: Path) -> None:
    days = [f"{1 + day % 28:02d}.{1 + day // 28:02d}.{2024 + day % 2}" for day in range(117)]
    _csv(
        tmp_path,
        ["age", *range(90), *range(27), "n/a", "NA", "unknown"],
        ["day", *days, "-", "", "?"],
        ["note", *[f"text {number}" for number in range(118)], "", "-"],
        ["known", *["none", "unknown"] * 60],
        ["stay", *range(90), *range(27), "k.A.", ">99", "?"],
        ["code", *[f"{number}a" if number % 5 else number for number in range(120)]],
    )
    drafted = _drafted(said, tmp_path)
    assert drafted["age"]["bins"] == list(range(0, 100, 10))
    assert drafted["age"]["raw"] == {"(missing)": ["NA", "n/a", "unknown"]}
    assert (drafted["day"]["dates"]["first"], drafted["day"]["raw"]) == ("2024-01", {"(missing)": ["-", "?"]})
    assert {own["missing"] for own in (drafted["age"], drafted["day"])} == {"category"}
    assert drafted.keys() == {"age", "day", "known", "stay"}
    assert (drafted["stay"]["raw"], drafted["stay"]["other"]) == ({"(missing)": ["?"]}, "category")
    assert drafted["age"]["other"] == "refuse"
    assert drafted["known"]["values"] == ["none", "unknown"]
    told = said("check", "spec.toml")
    assert "age: 3 missing\n" in told
    assert "stay: 1 missing, 2 undeclared\n    most often '>99' (1), 'k.A.' (1)\n" in told


def test_a_file_without_a_header_is_recognized_by_its_columns(said: Said, tmp_path: Path) -> None:
    """What is taken for names of columns is said to the custodian, in `check`; no message of a release has it."""
    _csv(tmp_path, ["ward", "a", "b"], ["rooms", 1, 2])
    said("init", "--from", "people.csv")
    _csv(tmp_path, ["a", "b", "b"], [7, 2, 3])
    told = said("check", "spec.toml")
    assert "  ward: no such column; available: 'a', '7'\n" in told
    assert "Records     2\n" in told


def test_why_no_column_can_be_drafted(refused_here: Said, tmp_path: Path) -> None:
    _csv(tmp_path, ["sex"], ["age"])
    assert "given column 'sex', which would need at least one value; all are missing; column 'age'" in refused_here(
        "init", "--from", "people.csv"
    )


def test_check_of_a_draft_says_that_a_release_would_refuse_it(said: Said, tmp_path: Path) -> None:
    _csv(tmp_path, ["ward", "a", "b"], ["rooms", 1, 2])
    said("init", "--from", "people.csv")
    assert "Release     would stop: a draft is not confirmed: remove `draft = true`\n" in said("check", "spec.toml")
    spec = tmp_path / "spec.toml"
    spec.write_text(spec.read_text(encoding="utf-8").replace("draft = true", ""), encoding="utf-8")
    assert "Release     would not stop\n" in said("check", "spec.toml")


def test_a_plan_of_a_draft_says_so(said: Said, tmp_path: Path) -> None:
    _csv(tmp_path, ["ward", "b", "a"], ["rooms", 1, 2])
    assert "remove `draft = true`" in said("init", "--from", "people.csv")
    assert "Drafted from data, not yet confirmed: ward, rooms." in said("plan", "spec.toml")
    spec = tmp_path / "spec.toml"
    spec.write_text(spec.read_text(encoding="utf-8").replace("draft = true", ""), encoding="utf-8")
    assert "raft" not in said("plan", "spec.toml")


def test_many_numbers_become_bins(said: Said, tmp_path: Path) -> None:
    _csv(tmp_path, ["income", *range(0, 30300, 300)], ["share", *(i / 100 for i in range(101))])
    drafted = _drafted(said, tmp_path)
    assert drafted["income"]["bins"] == list(range(0, 40000, 5000))
    assert drafted["share"]["bins"][0] == 0
    assert "values" not in drafted["income"]
    said("plan", "spec.toml", "--strategy", "marginals")


def test_whole_numbers_in_a_row_become_bins_and_codes_do_not(said: Said, tmp_path: Path) -> None:
    """Nobody wants a count for every age; a code of a place is a name, though it looks like a number."""
    ages, codes, rooms = range(0, 90, 2), [10_000 + 37 * number for number in range(45)], [*range(30), *range(15)]
    _csv(tmp_path, ["age", *ages, *range(1, 40)], ["place", *codes, *codes[:39]], ["rooms", *rooms, *rooms[:39]])
    drafted = _drafted(said, tmp_path)
    assert drafted["age"]["bins"] == list(range(0, 100, 10))
    assert drafted["place"]["values"] == codes
    assert drafted["rooms"]["values"] == list(range(30))


def test_a_draft_reads_what_spreadsheets_write(said: Said, tmp_path: Path) -> None:
    """A byte order mark, quotes, CRLF and an empty last line."""
    (tmp_path / "people.csv").write_bytes(b'\xef\xbb\xbfward,n\r\n"a, b",1\r\n"c ""d""",2\r\n\r\n')
    drafted = _drafted(said, tmp_path)
    assert drafted["ward"]["values"] == ["a, b", 'c "d"']
    assert drafted["n"]["values"] == [1, 2]
