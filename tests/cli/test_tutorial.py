"""The tutorial notebook is kept with the outputs that `make docs` stores in it; `make check` runs it and compares."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

TUTORIAL = Path(__file__).resolve().parents[2] / "docs" / "tutorial" / "tutorial.ipynb"


@pytest.fixture(scope="module")
def notebook() -> Any:
    """The notebook as it is kept."""
    return nbformat.read(TUTORIAL, as_version=4)


def test_the_notebook_is_kept_with_its_outputs(notebook: Any) -> None:
    nbformat.validate(notebook)
    ran = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert sum(bool(cell.outputs) for cell in ran) >= len(ran) - 1
    assert any("image/png" in output.get("data", {}) for cell in ran for output in cell.outputs)
    assert all(cell.execution_count is None for cell in ran)
    outputs = [output for cell in ran for output in cell.outputs]
    assert not [output for output in outputs if output.get("name") == "stderr" or output.output_type == "error"]
    text = "\n".join(str(output.get("text", output.get("data", {}).get("text/plain", ""))) for output in outputs)
    assert "epsilon = 1 (pure), adding or removing one person with at most 2 rows" in text
    assert "# Privacy statement" in text


def test_links_lead_somewhere(notebook: Any) -> None:
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    targets = re.findall(r"\]\(([^)#]+)\)", text)
    assert targets
    assert all((TUTORIAL.parent / target).exists() for target in targets)
