"""What is loaded when: start-up stays quick, and planning never loads code that sees data."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import privcube

Tool = Callable[..., subprocess.CompletedProcess[str]]

COMMANDS = """
import json, sys
from privcube.cli.main import main
for arguments in {commands!r}:
    sys.argv = ["privcube", *arguments]
    try:
        main()
    except SystemExit as end:
        assert not end.code, end.code
print()
print(json.dumps(sorted(sys.modules)))
"""

EXPLORE = """
import json, sys, threading, urllib.request
from privcube.cli.main import main
from privcube.released.explorer.server import Server
served = Server.serve_forever

def ask(server):
    def read():
        for path in ("", "page.css", "page.js", "document.json", "tables/0.json"):
            assert urllib.request.urlopen(server.url + path).status == 200
        server.shutdown()
    threading.Thread(target=read).start()
    served(server)

Server.serve_forever = ask
sys.argv = ["privcube", "explore", {folder!r}, "--no-browser"]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print()
print(json.dumps(sorted(sys.modules)))
"""


def _loaded(run_tool: Tool, project: Path, code: str) -> set[str]:
    result = run_tool("python", "-c", code, folder=project)
    assert result.returncode == 0, result.stderr
    return set(json.loads(result.stdout.splitlines()[-1]))


def _packages(modules: set[str]) -> set[str]:
    return {module.partition(".")[0] for module in modules}


def _sensitive(modules: set[str]) -> set[str]:
    return {module for module in modules if module.startswith(("privcube.sensitive", "privcube.pipeline"))}


def test_importing_privcube_loads_nothing_else(project: Path, run_tool: Tool) -> None:
    modules = _loaded(run_tool, project, "import privcube, json, sys; print(json.dumps(sorted(sys.modules)))")
    assert not _packages(modules) & {"numpy", "scipy", "click", "rich", "tomli_w"}
    assert {module for module in modules if module.startswith("privcube")} == {"privcube", "privcube.version"}


def test_help_loads_no_numerical_library_and_no_noun(project: Path, run_tool: Tool) -> None:
    commands = [["--help"], ["plan", "--help"], ["release", "--help"], ["--version"]]
    modules = _loaded(run_tool, project, COMMANDS.format(commands=commands))
    assert not _packages(modules) & {"numpy", "scipy", "rich", "tomli_w"}
    assert not {module for module in modules if module.startswith("privcube.model")}
    assert not _sensitive(modules)


SHORT = """
from privcube.planning.search import annealing
annealing._SECONDS["fast"] = 0.02  # searches end soon
"""
SPEC = """
[data]
source = "people.csv"

[privacy]
epsilon = "1"

[[attributes]]
name = "sex"
size = 2

[[attributes]]
name = "age"
size = 3

[workload]
all_kway = [1, 2]
"""


@pytest.mark.parametrize(
    "options", [[], ["--compare", "--explain", "--count", "--accuracy", "50"]], ids=["plain", "all options"]
)
def test_planning_loads_no_sensitive_module(project: Path, run_tool: Tool, tmp_path: Path, options: list[str]) -> None:
    spec = tmp_path / "spec.toml"
    spec.write_text(SPEC, encoding="utf-8")
    modules = _loaded(run_tool, project, SHORT + COMMANDS.format(commands=[["plan", str(spec), *options]]))
    assert "privcube.planning.planner" in modules
    assert not _sensitive(modules)


def test_reading_a_release_loads_no_sensitive_module_and_no_large_library(
    project: Path, run_tool: Tool, tmp_path: Path
) -> None:
    """All the commands one after another: what none of them loads, no single one does."""
    import numpy as np

    from privcube.model.measurements import Measurements

    schema = privcube.Schema.from_sizes({"a": 2, "b": 3})
    plan = privcube.plan(privcube.Workload.tables(schema, [("a", "b")]), privcube.PureDP(1), "marginals")
    privcube.Release(Measurements(plan, np.arange(6))).save(tmp_path / "out")
    commands = ["show {}", "show {} a b", "query {} a=1", "verify {}", "export {} --format csv --to {}.csv"]
    words = [command.replace("{}", str(tmp_path / "out")).split() for command in commands]
    modules = _loaded(run_tool, project, COMMANDS.format(commands=words))
    assert not _sensitive(modules)
    assert not _packages(modules) & {"pandas", "scipy", "polars", "clarabel"}


def test_exploring_a_release_loads_no_sensitive_module(project: Path, run_tool: Tool, tmp_path: Path) -> None:
    """Serving, too: every kind of path is asked for, as a browser does."""
    import numpy as np

    from privcube.model.measurements import Measurements

    schema = privcube.Schema.from_sizes({"a": 2, "b": 3})
    plan = privcube.plan(privcube.Workload.tables(schema, [("a", "b")]), privcube.PureDP(1), "marginals")
    privcube.Release(Measurements(plan, np.arange(6))).save(tmp_path / "out")
    modules = _loaded(run_tool, project, EXPLORE.format(folder=str(tmp_path / "out")))
    assert "privcube.released.explorer.release_site" in modules
    assert not _sensitive(modules)
    assert not _packages(modules) & {"pandas", "scipy", "polars", "clarabel"}


def test_a_strategy_by_name_loads_no_optional_library(project: Path, run_tool: Tool) -> None:
    code = """
import json, sys
import privcube as pc
schema = pc.Schema.from_sizes({"a": 2, "b": 3})
pc.plan(pc.Workload.all_kway(schema, 1), pc.PureDP(1), "marginals")
print(json.dumps(sorted(sys.modules)))
"""
    assert not _packages(_loaded(run_tool, project, code)) & {"scipy", "clarabel", "pandas", "click", "rich"}


@pytest.mark.parametrize("name", privcube.__all__)
def test_every_public_name_resolves(name: str) -> None:
    assert getattr(privcube, name) is not None


def test_dir_lists_the_public_names() -> None:
    assert dir(privcube) == sorted(privcube.__all__)
    assert len(set(privcube.__all__)) == len(privcube.__all__)


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(AttributeError, match="'Wrokload'") as caught:
        privcube.Wrokload  # noqa: B018
    assert all(name in str(caught.value) for name in privcube.__all__)
