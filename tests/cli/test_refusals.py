"""Bad input: exit code 2, one sentence that names the offender, no traceback, no value of the data."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from privcube import Spec

Command = Callable[..., subprocess.CompletedProcess[str]]
Here = Callable[..., Any]
Refused = Callable[..., str]
Write = Callable[..., Path]

SEX = '[[attributes]]\nname = "sex"\nvalues = ["F", "M"]'

BAD_SPECS = {
    "unknown section": ({"plan": "[oputput]"}, ["oputput", "did you mean 'output'?"]),
    "unknown key": ({"privacy": 'epsilonn = "1"'}, ["privacy.epsilonn", "did you mean 'epsilon'?"]),
    "unknown key of an attribute": ({"attributes": f"{SEX}\nvalue = []"}, ["attributes[0].value", "'values'"]),
    "a seed": ({"plan": "seed = 1"}, ["plan.seed", "cannot be seeded"]),
    "empty name": ({"attributes": '[[attributes]]\nname = ""\nsize = 2'}, ["attributes[0].name"]),
    "blank name": ({"attributes": '[[attributes]]\nname = "  "\nsize = 2'}, ["attributes[0].name"]),
    "no name": ({"attributes": "[[attributes]]\nsize = 2"}, ["attributes[0].name"]),
    "name twice": ({"attributes": f"{SEX}\n{SEX}"}, ["'sex' twice"]),
    "value twice": ({"attributes": SEX.replace('"M"', '"F"')}, ["attribute 'sex'", "F twice"]),
    "no attributes": ({"attributes": ""}, ["attributes"]),
    "size 0": ({"attributes": '[[attributes]]\nname = "sex"\nsize = 0'}, ["attribute 'sex'", "given 0"]),
    "size -1": ({"attributes": '[[attributes]]\nname = "sex"\nsize = -1'}, ["attribute 'sex'", "given -1"]),
    "size 1.5": ({"attributes": '[[attributes]]\nname = "sex"\nsize = 1.5'}, ["attribute 'sex'"]),
    "size true": ({"attributes": '[[attributes]]\nname = "sex"\nsize = true'}, ["attribute 'sex'"]),
    "values and size": ({"attributes": f"{SEX}\nsize = 2"}, ["attribute 'sex'", "values and size"]),
    "bins that fall": ({"attributes": '[[attributes]]\nname = "age"\nbins = [0, 10, 5]'}, ["attribute 'age'"]),
    "unknown attribute": ({"workload": 'tables = [["sex", "agee"]]'}, ["'agee'", "did you mean 'age'?"]),
    "attribute twice in a table": ({"workload": 'tables = [["sex", "sex"]]'}, ["sex, sex"]),
    "too many ways": ({"workload": "all_kway = [3]"}, ["given 3"]),
    "no tables": ({"workload": ""}, ["workload"]),
    "table of a number": ({"workload": "tables = [[1]]"}, ["workload.tables[0]"]),
    "weight 0": ({"workload": 'tables = [{attributes = ["sex"], weight = 0}]'}, ["weight"]),
    "no budget": ({"privacy": ""}, ["epsilon alone, epsilon and delta, or rho alone"]),
    "epsilon and rho": ({"privacy": 'epsilon = "1"\nrho = "1"'}, ["epsilon and rho"]),
    "delta alone": ({"privacy": 'delta = "1e-6"'}, ["given delta"]),
    "delta 0": ({"privacy": 'epsilon = "1"\ndelta = "0"'}, ["delta", "given '0'"]),
    "delta 1": ({"privacy": 'epsilon = "1"\ndelta = "1"'}, ["delta", "given '1'"]),
    "delta 2": ({"privacy": 'epsilon = "1"\ndelta = 2'}, ["delta", "given 2"]),
    "neighbors": ({"privacy": 'epsilon = "1"\nneighbors = "both"'}, ["neighbors", "add_remove, replace_one"]),
    "person without rows": ({"data": 'source = "p.csv"\nperson = "id"'}, ["max_rows_per_person"]),
    "no source": ({"data": ""}, ["data.source"]),
    "unknown strategy": ({"plan": 'strategy = "fourrier"'}, ["strategy", "did you mean 'fourier'?"]),
    "unknown budgets": ({"plan": 'budgets = "equal"'}, ["budgets", "uniform"]),
    "not TOML": ({"privacy": "epsilon = "}, ["TOML", "line "]),
    "a name with a line break": ({"attributes": '[[attributes]]\nname = "a\\nb"\nsize = 2'}, ["a\\nb"]),
    "a key with a line break": ({"privacy": '"a\\nb" = 1'}, ["a\\nb"]),
    "a key that colors the terminal": ({"privacy": '"\\u001b[31m" = 1'}, ["privacy.", "x1b"]),
}
BAD_AMOUNTS = [
    "0",
    "-1",
    "nan",
    "inf",
    "1e999",
    '"0"',
    '"-1"',
    '"nan"',
    '"inf"',
    '"1e999"',
    '"1e999999999"',
    '""',
    "true",
]


@pytest.mark.parametrize(("parts", "words"), BAD_SPECS.values(), ids=BAD_SPECS)
def test_a_bad_spec_is_refused_in_one_sentence(
    refused_here: Refused, write_spec: Write, parts: dict[str, str], words: list[str]
) -> None:
    write_spec(**parts)
    sentence = refused_here("plan", "spec.toml")
    for word in words:
        assert word in sentence


@pytest.mark.parametrize(
    ("name", "amount"),
    [*(("epsilon", amount) for amount in BAD_AMOUNTS), *(("rho", amount) for amount in ('"0"', '"nan"', '"1e999"'))],
)
def test_a_budget_that_is_no_budget_is_refused(
    refused_here: Refused, write_spec: Write, name: str, amount: str
) -> None:
    write_spec(privacy=f"{name} = {amount}")
    assert name in refused_here("plan", "spec.toml")


# Specs that cannot be read


def test_the_installed_command_refuses_too(privcube: Command) -> None:
    """All other tests here run it in this process."""
    result = privcube("plan", "nowhere.toml")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("privcube: ")
    assert result.stderr.endswith("\n")
    assert len(result.stderr.splitlines()) == 1, result.stderr
    assert privcube("plan", "--no-such-option").returncode == 2


def test_a_missing_spec(refused_here: Refused) -> None:
    sentence = refused_here("plan", "nowhere.toml")
    assert "nowhere.toml" in sentence
    assert "No such file" in sentence


def test_a_folder_as_spec(refused_here: Refused, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    assert "directory" in refused_here("plan", "folder")


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\n\n# nothing\n", id="only a comment"),
        pytest.param(b"a = 1\n" + b"# " + b"x" * 10 * 2**20, id="10 MB"),
        pytest.param(bytes(range(256)) * 20, id="binary"),
        pytest.param(b"\xff\xfe[\x00d\x00]\x00", id="UTF-16"),
        pytest.param(b"PK\x03\x04" + b"\x00" * 1000, id="zip"),
        pytest.param(b"a = " + b"[" * 100_000, id="brackets without end"),
        pytest.param(b"x = 1" + b"0" * 100_000, id="a number of 100,000 digits"),
    ],
)
def test_a_file_that_is_no_spec(refused_here: Refused, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "spec.toml").write_bytes(content)
    assert len(refused_here("plan", "spec.toml")) < 500


# Options


@pytest.mark.parametrize("option", ["--strategy", "--budgets", "--recovery"])
@pytest.mark.parametrize("value", ["nothing", ""])
def test_an_unknown_choice_is_refused_with_the_known_ones(
    refused_here: Refused, write_spec: Write, option: str, value: str
) -> None:
    write_spec()
    sentence = refused_here("plan", "spec.toml", option, value)
    assert option.removeprefix("--") in sentence
    assert "available: " in sentence


@pytest.mark.parametrize(
    "arguments",
    [
        ["plan"],
        ["plna"],
        ["plan", "spec.toml", "--nothing"],
        ["plan", "spec.toml", "--tables", "many"],
        ["plan", "spec.toml", "--tables", "-1"],
        ["plan", "a.toml", "b.toml"],
        ["init", "--seed", "1"],
        ["demo", "folder", "extra"],
        ["release"],
        ["release", "spec.toml", "--seed", "1"],
        ["show"],
        ["show", "out", "--rows", "-1"],
        ["query", "out", "--confidence", "2"],
        ["verify"],
        ["export", "out", "--format", "csv"],
        ["export", "out", "--format", "pdf", "--to", "t.pdf"],
        ["ledger", "check"],
        ["ledger", "show", "a.toml", "b.toml"],
    ],
    ids=" ".join,
)
def test_usage_errors_exit_with_2(here: Here, arguments: list[str]) -> None:
    result = here(*arguments)
    assert result.code == 2
    assert "Error: " in result.err
    assert result.out == ""


# init


def test_init_overwrites_nothing(refused_here: Refused, tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text("mine", encoding="utf-8")
    sentence = refused_here("init")
    assert "spec.toml" in sentence
    assert "nothing is overwritten" in sentence
    assert (tmp_path / "spec.toml").read_text(encoding="utf-8") == "mine"


def test_init_takes_one_origin(refused_here: Refused, tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("a\n1\n", encoding="utf-8")
    (tmp_path / "domain.json").write_text('{"a": 2}', encoding="utf-8")
    assert "--from or --domain" in refused_here("init", "--from", "people.csv", "--domain", "domain.json")
    assert not (tmp_path / "spec.toml").exists()


@pytest.mark.parametrize("target", ["missing/spec.toml", "file/spec.toml", "folder", ""])
def test_init_where_nothing_can_be_written(refused_here: Refused, tmp_path: Path, target: str) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    (tmp_path / "folder").mkdir()
    assert "file" in refused_here("init", target)


@pytest.mark.parametrize(
    "domain",
    ["", "{", "[1]", '{"a": 0}', '{"a": "2"}', '{"a": 2, "a": 3}', "{}", '{"": 2}', "nonsense", "[" * 100_000],
    ids=lambda text: text[:20] or "empty",
)
def test_init_with_a_bad_domain(refused_here: Refused, tmp_path: Path, domain: str) -> None:
    (tmp_path / "domain.json").write_text(domain, encoding="utf-8")
    refused_here("init", "--domain", "domain.json")
    assert not (tmp_path / "spec.toml").exists()


def test_init_with_a_missing_or_binary_domain(refused_here: Refused, tmp_path: Path) -> None:
    assert "domain.json" in refused_here("init", "--domain", "domain.json")
    (tmp_path / "domain.json").write_bytes(b"\xff\xfe\x00")
    assert "UTF-8" in refused_here("init", "--domain", "domain.json")


# init --from: nothing of the data in the message

CANARY = "CANARY"

BAD_DATA = {
    "a row too long": f"name,n\na,1\n{CANARY},1,2\n",
    "a row too short": f"name,n\na,1\n{CANARY}\n",
}
AWKWARD = {
    "too many texts": "name,n\n" + "".join(f"{CANARY}{i},1\n" for i in range(101)),
    "too many mixed": "name,n\n" + "".join(f"{i},1\n{CANARY}{i},1\n" * (i < 20) or f"{i},1\n" for i in range(101)),
    "a column of nothing": "name,n\n,1\n ,2\n",
    "a field too large": f"name,n\n{CANARY * 40_000},1\n",
    # The schema quotes a value it refuses, which is right for a spec and wrong for data.
    "a value with a control character": f"name,n\n{CANARY}\x01,1\n",
    "a long value": f"name,n\n{CANARY * 200},1\n",
    "two columns of one name": f"name,n,name\n{CANARY},1,{CANARY}\n",
}


@pytest.mark.parametrize("content", BAD_DATA.values(), ids=BAD_DATA)
def test_a_draft_is_refused_without_quoting_the_data(refused_here: Refused, tmp_path: Path, content: str) -> None:
    (tmp_path / "people.csv").write_text(content, encoding="utf-8")
    assert CANARY not in refused_here("init", "--from", "people.csv")
    assert not (tmp_path / "spec.toml").exists()


@pytest.mark.parametrize("content", AWKWARD.values(), ids=AWKWARD)
def test_an_awkward_column_is_left_out_with_the_reason(said: Callable[..., str], tmp_path: Path, content: str) -> None:
    (tmp_path / "people.csv").write_text(content, encoding="utf-8")
    assert CANARY not in said("init", "--from", "people.csv")
    drafted = (tmp_path / "spec.toml").read_text(encoding="utf-8")
    assert "# Left out: column 'name'" in drafted
    assert CANARY not in drafted
    assert Spec.from_toml(drafted).schema.drafts == ("n",)


@pytest.mark.parametrize(
    ("content", "word"),
    [
        pytest.param(b"", "header", id="empty"),
        pytest.param(b"a,a\n1,2\n", "at least one column", id="column twice"),
        pytest.param(b"a,b\n", "at least one column", id="header only"),
        pytest.param(b"\xff\xfea\x00", 'encoding = "utf-16"', id="UTF-16"),
    ],
)
def test_a_draft_of_a_bad_file(refused_here: Refused, tmp_path: Path, content: bytes, word: str) -> None:
    (tmp_path / "people.csv").write_bytes(content)
    assert word in refused_here("init", "--from", "people.csv")


def test_a_draft_of_no_file(refused_here: Refused, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    assert "none found" in refused_here("init", "--from", "people.csv")
    assert "none found" in refused_here("init", "--from", "folder")
