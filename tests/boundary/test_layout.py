"""The layout says what it does: zones in docstrings, one file per strategy, modules of a readable size."""

from __future__ import annotations

from collections import Counter
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


def test_every_module_says_what_it_is_for_and_its_zone() -> None:
    for file in MODULES:
        opening, docstring, _ = file.read_text(encoding="utf-8").split('"""', 2)
        assert opening == "", f"{_name(file)}: an opening docstring is missing"
        assert docstring.strip(), f"{_name(file)}: the opening docstring is empty"
        place = file.relative_to(PACKAGE)
        if place.parts[0] not in {"cli", "__init__.py", "__main__.py", "pipeline.py"}:
            zone = ZONE_OF_FOLDER.get(place.parts[0], "PUBLIC")
            assert f"Zone: {zone}." in docstring, f"{_name(file)}: expected 'Zone: {zone}.' in the docstring"


def test_no_module_is_too_long() -> None:
    lines = {_name(file): len(file.read_text(encoding="utf-8").splitlines()) for file in MODULES}
    assert {name: length for name, length in lines.items() if length > MOST_LINES} == {}


def test_no_folder_is_too_full() -> None:
    files = Counter(_name(file.parent) for file in MODULES)
    assert {name: number for name, number in files.items() if number > MOST_FILES} == {}


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
