"""The package as others get it: built, unpacked, installed in an environment of its own, and run from there.

Dependencies are those of the environment that runs the tests, which the new one is allowed to look at; `make package`
does the same with nothing but what the package itself asks for.
"""

from __future__ import annotations

import email
import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from privcube import Release, __version__

PROJECT = Path(__file__).resolve().parents[2]

SHORT_DEMO = """
import sys
from privcube.cli.main import main
from privcube.planning.search import annealing
annealing._SECONDS["fast"] = 0.02  # any plan will do
sys.argv = ["privcube", "demo"]
main()
"""

pytestmark = pytest.mark.xdist_group("package")  # built once


def _run(*words: str | Path, folder: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(word) for word in words],
        cwd=folder,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that is built from the source distribution, not from the checkout."""
    folder = tmp_path_factory.mktemp("package")
    _run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder, folder=PROJECT)
    (source,) = folder.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        archive.extractall(folder, filter="data")
    _run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, folder=folder / source.name[:-7])
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment that has the wheel, and sees our dependencies, but not the checkout."""
    home = tmp_path_factory.mktemp("installed") / "env"
    venv.create(home, symlinks=True)
    programs = home / "bin"
    _run(
        *(sys.executable, "-m", "pip", "-qq", "--disable-pip-version-check", "--python", programs / "python"),
        *("install", "--no-compile", "--no-deps", "--no-index", wheel),
        folder=home,
    )
    (site,) = (home / "lib").glob("python3*/site-packages")
    # a path in a .pth file is looked at for modules, not for further .pth files such as that of the checkout
    (site / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n", encoding="utf-8")
    return programs


def test_the_wheel_has_every_module_and_the_marker_of_its_types(wheel: Path) -> None:
    kept = set(zipfile.ZipFile(wheel).namelist())
    source = PROJECT / "src"
    wanted = {path.relative_to(source).as_posix() for path in (source / "privcube").rglob("*.py")}
    assert wanted <= kept
    assert "privcube/py.typed" in kept
    assert not [name for name in kept if name.startswith(("tests", "experiments", "docs"))]


def test_the_wheel_says_what_it_is(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (place,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
    said = email.message_from_bytes(archive.read(place))
    assert said["Name"] == "privcube"
    assert said["Version"] == __version__
    assert said["License-Expression"] == "Apache-2.0"
    assert said["Requires-Python"] == ">=3.11"
    assert said["Description-Content-Type"] == "text/markdown"
    assert f"version: {__version__}\n" in (PROJECT / "CITATION.cff").read_text(encoding="utf-8")


def test_the_demo_runs_from_the_installed_package(installed: Path, tmp_path: Path) -> None:
    place = _run(installed / "python", "-c", "import privcube; print(privcube.__file__)", folder=tmp_path)
    assert Path(place.strip()).is_relative_to(installed.parent)
    assert _run(installed / "privcube", "--version", folder=tmp_path).endswith(f"{__version__}\n")
    assert _run(installed / "python", "-m", "privcube", "--version", folder=tmp_path).endswith(f"{__version__}\n")
    text = _run(installed / "python", "-c", SHORT_DEMO, folder=tmp_path)
    home = tmp_path / "privcube-demo"
    assert {file.name for file in home.iterdir()} == {
        "discharges.csv",
        "spec.toml",
        "chosen-plan.json",
        "ledger.db",
        "out",
    }
    for step in ("plan", "release", "verify", "show", "query"):
        assert f"$ privcube {step} privcube-demo/" in text
    assert "Published   privcube-demo/out: 38 tables, 1,089 cells" in text
    assert "privcube-demo/out: all checks passed" in text
    assert "Where to go from here:" in text
    assert (home / "out" / "PRIVACY.md").exists()
    with (home / "discharges.csv").open(encoding="utf-8") as stream:
        rows = Counter(line.partition(",")[0] for line in stream)
    assert 95_000 < rows.total() < 105_000
    answer = Release.open(home / "out").query({})  # rows beyond two of a patient do not count
    assert abs(answer.estimate - sum(min(own, 2) for own in rows.values())) < 10 * answer.std_error
