"""The layout says what it does: zones in docstrings, one file per strategy, modules of a readable size."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from privcube.strategies import STRATEGIES

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "privcube"
MODULES = sorted(PACKAGE.rglob("*.py"))
MOST_LINES = 400
MOST_FILES = 15  # of a folder, subfolders aside
ZONE_OF_FOLDER = {"sensitive": "SENSITIVE", "released": "RELEASED", "explorer": "RELEASED"}
NOT_A_STRATEGY = {"__init__", "proposal"}
STRATEGY_FILES = sorted(file.stem for file in (PACKAGE / "strategies").glob("*.py") if file.stem not in NOT_A_STRATEGY)


def _name(file: Path) -> str:
    return file.relative_to(PACKAGE).as_posix()


@pytest.mark.parametrize("file", MODULES, ids=_name)
def test_every_module_says_what_it_is_for_and_its_zone(file: Path) -> None:
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))
    assert docstring, "an opening docstring is missing"
    place = file.relative_to(PACKAGE)
    if place.parts[0] in {"cli", "__init__.py", "pipeline.py"}:
        return
    zone = ZONE_OF_FOLDER.get(place.parts[0], "PUBLIC")
    assert f"Zone: {zone}." in docstring, f"expected 'Zone: {zone}.' in the docstring"


@pytest.mark.parametrize("file", MODULES, ids=_name)
def test_no_module_is_too_long(file: Path) -> None:
    assert len(file.read_text(encoding="utf-8").splitlines()) <= MOST_LINES


@pytest.mark.parametrize("folder", sorted({file.parent for file in MODULES}), ids=_name)
def test_no_folder_is_too_full(folder: Path) -> None:
    assert len(list(folder.glob("*.py"))) <= MOST_FILES


def test_there_are_strategies() -> None:
    assert {"base_counts", "marginals"} <= set(STRATEGY_FILES)


@pytest.mark.parametrize("name", STRATEGY_FILES)
def test_every_strategy_file_is_registered_under_its_name(name: str) -> None:
    assert name in STRATEGIES, f"register {name} in strategies/__init__.py"
    module = STRATEGIES[name]
    assert name == module.NAME
    assert isinstance(module.SYMBOL, str)
    assert module.SYMBOL
    assert callable(module.propose)
    assert getattr(module, "__name__", "") == f"privcube.strategies.{name}"


def test_every_registered_strategy_has_its_file() -> None:
    assert sorted(STRATEGIES) == STRATEGY_FILES


def test_the_symbols_differ() -> None:
    symbols = [module.SYMBOL for module in STRATEGIES.values()]
    assert len(set(symbols)) == len(symbols)
