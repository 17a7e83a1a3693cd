"""The documents agree with the code: every key, every place, every example."""

from __future__ import annotations

import importlib
import re
import subprocess
from collections.abc import Callable
from functools import reduce
from pathlib import Path

import pytest

import privcube
from privcube import Spec
from privcube.errors import SpecError
from privcube.strategies import STRATEGIES

Tool = Callable[..., subprocess.CompletedProcess[str]]

PROJECT = Path(__file__).resolve().parents[2]
PACKAGE = PROJECT / "src" / "privcube"
PAGES = sorted([*PROJECT.glob("*.md"), *(PROJECT / "docs").rglob("*.md")])
GOOD = {
    "data": 'source = "people.csv"',
    "about": "",
    "privacy": 'epsilon = "1"',
    "[attributes]": 'name = "sex"\nsize = 2',
    "[attributes.levels]": "",
    "[measures]": 'name = "pay"\nlow = 0\nhigh = 9\nstep = 1',
    "workload": "all_kway = [1]",
    "plan": "",
    "output": "",
    "registry": "",
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


# Theory


def test_the_sections_of_the_theory_are_numbered_and_anchored(theory: dict[str, str]) -> None:
    numbers = [tuple(map(int, number.split("."))) for number in theory]
    assert numbers == sorted(numbers)
    assert [number for number in theory if "." not in number] == [str(number) for number in range(1, 15)]
    text = (PROJECT / "docs" / "theory.md").read_text(encoding="utf-8")
    for number in theory:
        anchor = f'<a id="section-{number.replace(".", "-")}"></a>'
        assert re.search(rf"^{anchor}\n##+ {re.escape(number)}\.? ", text, flags=re.MULTILINE), f"{number}: no {anchor}"


def test_every_section_of_the_theory_that_is_cited_exists(theory: dict[str, str]) -> None:
    cited = {file: _cited(file) for file in PACKAGE.rglob("*.py")}
    assert sum(map(bool, cited.values())) > 10
    for file, numbers in cited.items():
        assert numbers <= set(theory), f"{file.name} cites THEORY section {', '.join(sorted(numbers - set(theory)))}"


def test_every_section_of_the_theory_ends_with_its_code(theory: dict[str, str]) -> None:
    for number, section in theory.items():
        last = section.strip().split("\n\n")[-1]
        assert last.startswith("Code: "), f"section {number} does not end with its code"
        not_built = "(not built yet)" in section.splitlines()[0]
        assert not_built == (last == "Code: none yet"), number
        places = _code(section)
        assert not_built or places, number
        for place in places:
            assert _resolves(place), f"section {number}: {place}"


def test_the_code_of_a_section_of_the_theory_cites_it_back(theory: dict[str, str]) -> None:
    for number, section in theory.items():
        for place in _code(section):
            home = _home(place)
            assert number in _cited(home), (
                f"{_page_name(home)} should cite THEORY section {number}, which lists {place}"
            )


def _home(place: str) -> Path:
    """The file of the module that a place is in."""
    parts = place.split(".")
    for length in range(len(parts), 0, -1):
        for file in (
            PACKAGE.joinpath(*parts[:length]).with_suffix(".py"),
            PACKAGE.joinpath(*parts[:length], "__init__.py"),
        ):
            if file.exists():
                return file
    raise AssertionError(f"{place} is in no module")


@pytest.fixture(scope="module")
def theory() -> dict[str, str]:
    """The sections of docs/theory.md by number, each from its heading to the next one's anchor."""
    text = (PROJECT / "docs" / "theory.md").read_text(encoding="utf-8")
    parts = re.split(r"^##+ (?=\d)", re.sub(r"^<a id=.*\n", "", text, flags=re.MULTILINE), flags=re.MULTILINE)[1:]
    return {re.match(r"\d+(?:\.\d+)?", part)[0]: part for part in parts}  # type: ignore[index]


def _code(section: str) -> list[str]:
    """The places on a section's last lines."""
    return re.findall(r"`([\w.]+)`", section.strip().split("\n\n")[-1])


def _cited(file: Path) -> set[str]:
    """The sections of the theory that a module cites: THEORY section 2, THEORY sections 2, 3.1 and 4."""
    number = r"\d+(?:\.\d+)?"
    lists = re.findall(
        rf"THEORY\s+sections?\s+({number}(?:(?:,|\s+and)\s+{number})*)", file.read_text(encoding="utf-8")
    )
    return {each for found in lists for each in re.findall(number, found)}


# Architecture


def test_every_path_in_the_architecture_exists(architecture: str) -> None:
    paths = {path for path in re.findall(r"`([\w./-]+)`", architecture) if re.search(r"/|\.(py|md|toml)$|^\.", path)}
    assert len(paths) > 60
    for path in sorted(paths):
        assert any((folder / path).exists() for folder in (PROJECT, PACKAGE)), path


def test_what_to_read_first_is_short(architecture: str) -> None:
    listed = re.split(r"^## ", architecture.split("\n## What to read first\n")[1], flags=re.MULTILINE)[0]
    (stated,) = re.findall(r"together about ([\d,]+) lines", listed)
    files = re.findall(r"^\d+\. `([\w/]+\.py)`: \w", listed, flags=re.MULTILINE)
    lines = sum(len((PACKAGE / file).read_text(encoding="utf-8").splitlines()) for file in files)
    assert 20 <= len(files) == len(set(files)) <= 26
    assert lines < 4_000
    assert abs(lines - int(stated.replace(",", ""))) <= 100, f"the files have {lines:,} lines"


@pytest.fixture(scope="module")
def architecture() -> str:
    """The page."""
    return (PROJECT / "docs" / "architecture.md").read_text(encoding="utf-8")


# Pages


def test_the_plan_in_the_readme_is_what_the_command_prints(project: Path, run_tool: Tool, tmp_path: Path) -> None:
    readme = (project / "README.md").read_text(encoding="utf-8")
    (spec,) = re.findall(r"```toml\n(.*?)```", readme, flags=re.DOTALL)
    (printed,) = re.findall(r"```text\n(.*?)```", readme, flags=re.DOTALL)
    (tmp_path / "spec.toml").write_text(spec, encoding="utf-8")
    result = run_tool("privcube", "plan", "spec.toml", folder=tmp_path)
    assert result.stdout == printed


def test_the_errors_in_the_readme_are_those_that_were_measured(project: Path) -> None:
    readme = (project / "README.md").read_text(encoding="utf-8")
    measured = (project / "docs" / "guide" / "accuracy.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^- \*\*NLTCS\*\*.*$", measured, flags=re.MULTILINE)
    ours, even, paper = re.findall(r"off by \*\*([\d.]+) people.* it is ([\d.]+) people, .*\(\S+\) ([\d.]+)\.$", line)[
        0
    ]
    said = re.sub(r"\s+", " ", readme)
    assert f"off by {ours} people on average; with the budget split evenly it is {even}, with the best" in said
    assert f"builds on {paper}." in said


@pytest.mark.parametrize("page", PAGES, ids=_page_name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
        assert target.startswith("https://arxiv.org/abs/") or (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=_page_name)
def test_examples_end_before_their_fence(page: Path) -> None:
    """The fence would be taken for output, and the example would fail or, with an ellipsis, pass for nothing."""
    for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL):
        assert ">>>" in block, "a Python block that is not run"
        assert block.endswith("\n\n")


def test_every_page_is_in_the_navigation(project: Path) -> None:
    """Of the site, too: `docs/conf.py` makes it from the links of these pages."""
    docs = project / "docs"
    listed = {docs / "index.md"}
    for index in (docs / "index.md", docs / "gallery" / "index.md"):
        targets = re.findall(r"\]\(([\w/.-]+\.(?:md|ipynb))\)", index.read_text(encoding="utf-8"))
        listed |= {(index.parent / target).resolve() for target in targets}
    missing = {page.resolve() for kind in ("*.md", "*.ipynb") for page in docs.rglob(kind)} - listed
    assert not missing


def test_the_reference_has_every_public_name(project: Path) -> None:
    page = (project / "docs" / "api.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\.\. auto\w+:: privcube\.(\w+)$", page, flags=re.MULTILINE))
    wanted = set(privcube.__all__) - {"__version__"}
    assert listed == wanted, f"docs/api.md lacks {wanted - listed}, and has {listed - wanted}, which is not there"


def test_links_of_a_site_that_lead_nowhere_are_found(project: Path, run_tool: Tool, tmp_path: Path) -> None:
    links = project / "tools" / "links.py"
    (tmp_path / "index.html").write_text(
        '<a id="here" href="two.html#there">x</a><img src="a%20b.svg">', encoding="utf-8"
    )
    (tmp_path / "two.html").write_text('<p id="there"><a href="index.html#here">x</a>', encoding="utf-8")
    (tmp_path / "a b.svg").write_text("", encoding="utf-8")
    assert run_tool("python", str(links), ".", folder=tmp_path).returncode == 0
    (tmp_path / "two.html").write_text('<a href="index.html#gone">x</a><a href="three.html">y</a>', encoding="utf-8")
    found = run_tool("python", str(links), ".", folder=tmp_path)
    assert found.returncode == 1
    assert found.stdout.splitlines() == [
        "index.html: two.html#there",
        "two.html: index.html#gone",
        "two.html: three.html",
    ]


def test_the_change_log_speaks_of_privacy_and_of_this_version(project: Path) -> None:
    unreleased, latest = (project / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## ")[1:3]
    assert unreleased.startswith("[Unreleased]")
    assert latest.startswith(f"[{privcube.__version__}] - 20")
    for section in (unreleased, latest):
        assert "\n### Privacy\n" in section or section.endswith("Nothing yet.\n")


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
