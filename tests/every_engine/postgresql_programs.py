"""Where the programs of PostgreSQL are, for servers that tests start.

The `pgserver` wheel has them for Python 3.11 and 3.12. Later ones take those of the system, which `make test` installs.
"""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path


def wheel() -> Path | None:
    """The folder with the packages of the wheel, if it is installed."""
    found = importlib.util.find_spec("pgserver")
    return Path(found.origin).parents[1] if found is not None and found.origin is not None else None


def in_wheel(packages: Path) -> Path:
    """The folder of the programs below that of the packages."""
    return packages / "pgserver" / "pginstall" / "bin"


def of_system() -> Path:
    """The folder of the system's programs: those on the path, or the newest of Debian's, which are not."""
    on_path = shutil.which("initdb")
    places = [Path(on_path).resolve().parent] if on_path else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    found = [place for place in places if all((place / name).exists() for name in ("initdb", "postgres", "pg_ctl"))]
    assert found, "tests need a PostgreSQL server: the wheel pgserver, or initdb on the path"
    return found[-1]
