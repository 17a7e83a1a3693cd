"""The import contracts and the bans hold, and each of them fires when it is broken."""

from __future__ import annotations

import ast
import configparser
import json
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from itertools import pairwise, product
from pathlib import Path

import pytest

Tool = Callable[..., subprocess.CompletedProcess[str]]

PROJECT = Path(__file__).resolve().parents[2]
CONTRACTS = configparser.ConfigParser()
CONTRACTS.read(PROJECT / ".importlinter", encoding="utf-8")
CONTRACT_SECTIONS = [section for section in CONTRACTS.sections() if "forbidden_modules" in CONTRACTS[section]]
KEYS = ("source_modules", "forbidden_modules")
LAYERS = CONTRACTS["importlinter:contract:layers"]["layers"].split()

BANNED = {
    "random": "import random\n",
    "random under another name": "import random as dice\n",
    "a name of random": "from random import choice\n",
    "numpy.random": "import numpy.random\n",
    "numpy.random as an attribute": "import numpy as np\n\nnp.random.rand()\n",
    "a name of numpy.random": "from numpy.random import default_rng\n",
    "numpy.random as a name of numpy": "from numpy import random as dice\n",
    "secrets": "import secrets\n",
    "a name of secrets": "from secrets import token_bytes\n",
    "os.urandom": "import os\n\nos.urandom(8)\n",
    "os.urandom as a name": "from os import urandom\n",
    "importlib": "import importlib\n",
    "a name of importlib": "from importlib import import_module\n",
    "importlib inside a function": "def load():\n    import importlib.util\n\n    return importlib\n",
}
NEVER = [
    *(
        (public, inner)
        for public in ("model", "planning", "strategies")
        for inner in ("sensitive", "released", "pipeline")
    ),
    ("algebra", "sensitive"),
    ("accuracy", "released"),
    ("released", "sensitive"),
    ("released", "pipeline"),
    ("cli", "sensitive"),
    ("sensitive", "released"),
    ("sensitive", "cli"),
]
OWNERS = {"src/privcube/__init__.py": BANNED["importlib"], "src/privcube/extras.py": BANNED["importlib"]}


# Import contracts


def test_a_copy_of_the_tree_keeps_its_contracts(tmp_path: Path, run_tool: Tool) -> None:
    """As the tree does; the tests below would mean nothing if a copy failed anyway."""
    _copy_tree(tmp_path)
    result = run_tool("lint-imports", "--no-cache", folder=tmp_path)
    assert result.returncode == 0, result.stdout


def test_each_contract_refuses_each_import_it_forbids(tmp_path: Path, run_tool: Tool) -> None:
    _copy_tree(tmp_path)
    pairs = {section: [CONTRACTS[section][key].split() for key in KEYS] for section in CONTRACT_SECTIONS}
    for sources, forbidden in pairs.values():
        for source in sources:
            _add_imports(tmp_path / "src", source, forbidden)
    result = run_tool("lint-imports", "--no-cache", folder=tmp_path)
    assert result.returncode == 1, result.stdout + result.stderr
    for section, (sources, forbidden) in pairs.items():
        assert f"{CONTRACTS[section]['name']} BROKEN" in result.stdout
        for source, target in product(sources, forbidden):
            assert f"{source} is not allowed to import {target}:" in result.stdout


def test_the_layers_are_these() -> None:
    rooms = ["planning", "strategies", "linear", "accuracy", "model", "algebra"]
    assert [f"privcube.{room}" for room in rooms] == LAYERS


def test_no_room_knows_the_one_above_it(tmp_path: Path, run_tool: Tool) -> None:
    _copy_tree(tmp_path)
    for upper, lower in pairwise(LAYERS):
        _add_imports(tmp_path / "src", lower, [upper])
    result = run_tool("lint-imports", "--no-cache", folder=tmp_path)
    assert result.returncode == 1, result.stdout + result.stderr
    for upper, lower in pairwise(LAYERS):
        assert f"{lower} is not allowed to import {upper}:" in result.stdout


@pytest.mark.parametrize(("source", "target"), NEVER, ids=" imports ".join)
def test_no_contract_was_weakened(source: str, target: str) -> None:
    """The test above takes its pairs from the contracts; these are the ones that must be among them."""
    assert any(
        f"privcube.{source}" in contract["source_modules"].split()
        and f"privcube.{target}" in contract["forbidden_modules"].split()
        for contract in map(CONTRACTS.__getitem__, CONTRACT_SECTIONS)
    )


def test_every_module_is_bound_by_the_contract_of_its_zone(project: Path) -> None:
    """A new package that says PUBLIC, SENSITIVE or RELEASED must be a source of the contract of that zone."""
    modules = (project / "src" / "privcube").rglob("*.py")
    files = [(file, file.read_text(encoding="utf-8").split('"""')[1]) for file in modules]  # of each, the docstring
    for zone in ("public", "released", "sensitive"):
        bound = set(CONTRACTS[f"importlinter:contract:{zone}"]["source_modules"].split())
        found = set()
        for file, docstring in files:
            if f"Zone: {zone.upper()}" in docstring:
                found.add("privcube." + file.relative_to(project / "src" / "privcube").parts[0].removesuffix(".py"))
        assert found
        assert found <= bound, f"add {', '.join(sorted(found - bound))} to the {zone} contract in .importlinter"


def _copy_tree(folder: Path) -> None:
    shutil.copytree(PROJECT / "src", folder / "src", ignore=shutil.ignore_patterns(".*", "__pycache__", "*.egg-info"))
    shutil.copy(PROJECT / ".importlinter", folder)


def _add_imports(source_root: Path, module: str, targets: list[str]) -> None:
    place = source_root.joinpath(*module.split("."))
    file = place / "violation.py" if place.is_dir() else place.with_suffix(".py")
    assert place.is_dir() or file.exists(), f"{module} of .importlinter does not exist"
    with file.open("a", encoding="utf-8") as stream:
        stream.writelines(f"\nimport {target}\n" for target in targets)


# Bans on randomness and dynamic imports


def test_randomness_and_dynamic_imports_are_refused(tmp_path: Path, run_tool: Tool) -> None:
    """Everywhere, also in files with the names of those that have exemptions from other rules."""
    places = ["planning/choice.py", "sensitive/gate.py", "cli/main.py", "released/form.py"]
    wrong = [_written(tmp_path / str(at), f"src/privcube/{place}", code)
             for at, (place, code) in enumerate(product(places, BANNED.values()))]  # fmt: skip
    found = _ruff(tmp_path, run_tool)
    assert all(("TID251", str(file)) in found for file in wrong)


@pytest.mark.parametrize(("place", "code"), OWNERS.items(), ids=OWNERS)
def test_owners_may_import_dynamically(place: str, code: str, tmp_path: Path, run_tool: Tool) -> None:
    file = _written(tmp_path, place, code)
    assert ("TID251", str(file)) not in _ruff(tmp_path, run_tool)


def test_every_exempt_file_exists(project: Path) -> None:
    """An exemption waits for no file: whoever writes the file adds it."""
    with (project / "pyproject.toml").open("rb") as stream:
        exempt = tomllib.load(stream)["tool"]["ruff"]["lint"]["per-file-ignores"]
    for pattern in exempt:
        assert any(project.glob(pattern)), f"nothing matches the per-file-ignore {pattern!r} in pyproject.toml"
    ours = {pattern for pattern, rules in exempt.items() if pattern.startswith("src/") and "TID251" in rules}
    assert not any("*" in pattern for pattern in ours), "owners are named one by one"


def test_nobody_calls_the_built_in_import(project: Path) -> None:
    """Ruff does not see a bare __import__, nor import machinery reached through sys."""
    banned = {"__import__", "__loader__", "__builtins__"}
    for file in (project / "src" / "privcube").rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        if text.isascii() and not any(name in text for name in banned):
            continue  # other letters may stand for these
        for node in ast.walk(ast.parse(text)):
            name = getattr(node, "id", getattr(node, "attr", ""))
            assert name not in banned, f"{file.name}: {name}"


def _written(folder: Path, place: str, code: str) -> Path:
    """A file in a place of a project that has our configuration."""
    file = folder / place
    file.parent.mkdir(parents=True)
    file.write_text(code, encoding="utf-8")
    shutil.copy(PROJECT / "pyproject.toml", folder)
    return file


def _ruff(folder: Path, run_tool: Tool) -> set[tuple[str, str]]:
    """The codes that ruff reports below a folder, each with its file."""
    result = run_tool("ruff", "check", "--no-cache", "--output-format", "json", ".", folder=folder)
    assert result.returncode in (0, 1), result.stderr
    return {(problem["code"], problem["filename"]) for problem in json.loads(result.stdout)}
