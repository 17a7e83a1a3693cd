"""The documents agree with the code: every key, every place, every example."""

from __future__ import annotations

import importlib
import re
import subprocess
from collections.abc import Callable
from functools import reduce
from pathlib import Path

import pytest

from privcube import Spec
from privcube.errors import SpecError
from privcube.strategies import STRATEGIES

Tool = Callable[..., subprocess.CompletedProcess[str]]

PROJECT = Path(__file__).resolve().parents[2]
PAGES = sorted([*PROJECT.glob("*.md"), *(PROJECT / "docs").rglob("*.md")])
GOOD = {
    "data": 'source = "people.csv"',
    "privacy": 'epsilon = "1"',
    "[attributes]": 'name = "sex"\nsize = 2',
    "[attributes.levels]": "",
    "workload": "all_kway = [1]",
    "plan": "",
    "output": "",
}


def _page_name(page: Path) -> str:
    return page.relative_to(PROJECT).as_posix()


@pytest.mark.parametrize("section", GOOD)
def test_the_guide_lists_every_key_of_a_spec(section: str, project: Path) -> None:
    """An unknown key is refused with all known ones; each must have a line under the section's heading."""
    parts = {**GOOD, section: f"{GOOD[section]}\nno_such_key = 1"}
    text = "\n".join(f"[{name}]\n{keys}" for name, keys in parts.items() if keys)
    with pytest.raises(SpecError, match="no_such_key") as caught:
        Spec.from_toml(text)
    known = str(caught.value).split("available: ")[1].split(", ")
    assert not any(" more" in key for key in known)
    guide = (project / "docs" / "guide" / "spec.md").read_text(encoding="utf-8")
    described = re.split(r"\n##+ ", guide.split(f"# `[{section}]`", 1)[1])[0]
    rows = [line.split("|")[1] for line in described.splitlines() if line.startswith("| `")]
    assert sorted(known) == sorted(key for row in rows for key in re.findall(r"`(\w+)`", row))


def test_the_guide_lists_every_strategy(project: Path) -> None:
    guide = (project / "docs" / "guide" / "planning.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| `(\w+)` \| ([^|]+?) \|", guide, flags=re.MULTILINE))
    assert set(STRATEGIES) <= set(listed)
    assert {name: listed[name] for name in STRATEGIES} == {name: module.SYMBOL for name, module in STRATEGIES.items()}


def test_every_place_in_the_notation_exists(project: Path) -> None:
    notation = (project / "docs" / "notation.md").read_text(encoding="utf-8")
    packages = "accuracy|algebra|linear|model|planning|released|sensitive|strategies"
    places = set(re.findall(rf"`((?:{packages})\.[\w.]+)`", notation))
    assert len(places) > 30
    for place in sorted(places):
        assert _resolves(place), place


def _resolves(place: str) -> bool:
    parts = ["privcube", *place.split(".")]
    for length in range(len(parts), 1, -1):
        try:
            module = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        try:
            reduce(_member, parts[length:], module)
        except AttributeError:
            return False
        return True
    return False


def _member(owner: object, name: str) -> object:
    """An attribute, or a field of a dataclass, which the class itself need not have."""
    if name in getattr(owner, "__dataclass_fields__", {}):
        return owner.__dataclass_fields__[name]  # type: ignore[attr-defined]
    return getattr(owner, name)


def test_the_plan_in_the_readme_is_what_the_command_prints(project: Path, run_tool: Tool, tmp_path: Path) -> None:
    readme = (project / "README.md").read_text(encoding="utf-8")
    (spec,) = re.findall(r"```toml\n(.*?)```", readme, flags=re.DOTALL)
    (printed,) = re.findall(r"```text\n(.*?)```", readme, flags=re.DOTALL)
    (tmp_path / "spec.toml").write_text(spec, encoding="utf-8")
    result = run_tool("privcube", "plan", "spec.toml", folder=tmp_path)
    assert result.stdout == printed


@pytest.mark.parametrize("page", PAGES, ids=_page_name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=_page_name)
def test_examples_end_before_their_fence(page: Path) -> None:
    """The fence would be taken for output, and the example would fail or, with an ellipsis, pass for nothing."""
    for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL):
        assert ">>>" in block, "a Python block that is not run"
        assert block.endswith("\n\n")


def test_the_guide_is_complete(project: Path) -> None:
    index = (project / "docs" / "index.md").read_text(encoding="utf-8")
    for page in (project / "docs").rglob("*.md"):
        place = page.relative_to(project / "docs").as_posix()
        assert place == "index.md" or f"({place})" in index, f"docs/index.md does not mention {place}"


def test_the_change_log_speaks_of_privacy(project: Path) -> None:
    unreleased = (project / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## ")[1]
    assert unreleased.startswith("[Unreleased]")
    assert "\n### Privacy\n" in unreleased


def test_the_command_reference_is_up_to_date_and_says_when_it_is_not(
    project: Path, run_tool: Tool, tmp_path: Path
) -> None:
    script = "tools/cli_reference.py"
    assert run_tool("python", script, "--check", folder=project).returncode == 0
    for folder in ("tools", "docs"):
        (tmp_path / folder).mkdir()
    (tmp_path / script).write_bytes((project / script).read_bytes())
    missing = run_tool("python", script, "--check", folder=tmp_path)
    assert missing.returncode == 1
    assert missing.stderr == "docs/cli.md is out of date: run `make docs` and commit the result\n"
    assert run_tool("python", script, folder=tmp_path).returncode == 0
    assert run_tool("python", script, "--check", folder=tmp_path).returncode == 0
    assert (tmp_path / "docs" / "cli.md").read_bytes() == (project / "docs" / "cli.md").read_bytes()
