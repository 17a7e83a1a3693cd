"""Run the commands on the pages of the guide and put in what they print; with --check, only compare.

A page is run from top to bottom in a folder of its own: a copy of what `privcube demo` makes, or an empty one if the
page says so in a comment, `<!-- run in: an empty folder -->`; what such a page releases must be verified. A block after
`<!-- file: NAME -->` is written to that file. In blocks of the kind `console` lines after `$ ` are run, and the lines
after them are what is printed; three dots stand for lines that are left out. Noise and clock are frozen (`frozen.py`),
so figures are the same in every run. A search may end at another plan on another kind of processor: then pages are
compared by their form, and it is said so. The notebook is run likewise, and its outputs are stored in it; of these,
text is compared.

    python tools/pages.py                 # write all pages again
    python tools/pages.py --check start   # compare those with "start" in their path
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from frozen import freeze

from privcube.cli.main import main as privcube
from privcube.planning import planner
from privcube.progress import silent
from privcube.released.artifact.verification import verify

PROJECT: Final = Path(__file__).resolve().parents[1]
DOCS: Final = PROJECT / "docs"
DEMO: Final = "hospital"
OMITTED: Final = "..."
EMPTY: Final = "<!-- run in: an empty folder -->"
_PIECE: Final = re.compile(r"(?:<!-- file: (?P<file>\S+) -->\n+)?```(?P<kind>\w*)\n(?P<body>.*?)```", flags=re.DOTALL)
_DIGEST: Final = re.compile(r"plan\.json matches its digest ([0-9a-f]{64})")


def _remembered(make: Callable[..., Any]) -> Callable[..., Any]:
    """A maker of plans that makes each once."""
    made: list[tuple[object, Any]] = []  # workloads can be compared, not hashed

    def remember(*nouns: object, wanted: Any = None, progress: Any = silent) -> Any:
        for asked, plan in made:
            if asked == (*nouns, wanted):
                return plan
        plan = make(*nouns, wanted=wanted, progress=progress)
        made.append(((*nouns, wanted), plan))
        return plan

    return remember


class Runner:
    """Runs pages, each in its own copy of the demo."""

    def __init__(self, home: Path) -> None:
        self.home = home
        planner.plan_under = _remembered(planner.plan_under)  # most pages plan the same tables
        freeze("demo")
        code, self._said = self._privcube(["demo", DEMO], home)
        if code:
            raise SystemExit(f"privcube demo: {self._said}")
        self.same_plan = self._digest() in (DOCS / "guide" / "commands" / "verify.md").read_text(encoding="utf-8")

    def _digest(self) -> str:
        _, said = self._privcube(["verify", DEMO + "/out"], self.home)
        found = _DIGEST.search(said)
        assert found is not None, said
        return found[1]

    def page(self, page: Path) -> str:
        """The text of a page with what its commands print today."""
        text = page.read_text(encoding="utf-8")
        name = page.relative_to(PROJECT).with_suffix("").as_posix()
        folder = self.home / name.replace("/", "-")
        if EMPTY in text:
            folder.mkdir()
        else:
            shutil.copytree(self.home / DEMO, folder)
        freeze(name)
        parts, last, code = [], 0, 0
        for piece in _PIECE.finditer(text):
            if piece["file"]:
                (folder / piece["file"]).parent.mkdir(parents=True, exist_ok=True)
                (folder / piece["file"]).write_text(piece["body"], encoding="utf-8")
            elif piece["kind"] == "console":
                body = []
                for command, expected in commands(piece["body"]):
                    code, printed = self._run(command, folder, code)
                    body += [f"$ {line}" if at == 0 else line for at, line in enumerate(command.splitlines())]
                    body += shown(expected, printed, f"{name}: {command}")
                parts += [text[last : piece.start("body")], "".join(f"{line}\n" for line in body)]
                last = piece.end("body")
        if EMPTY in text:  # elsewhere artifacts are forged, too
            _require_verified(folder, name)
        return "".join(parts) + text[last:]

    def _run(self, command: str, folder: Path, last_code: int) -> tuple[int, list[str]]:
        words = shlex.split(command)
        if command == f"privcube demo {DEMO}":
            return 0, self._said.splitlines()
        if command == "echo $?":
            return last_code, [str(last_code)]
        if words[0] == "privcube" and not {"|", ">", "&&"} & set(words):
            code, said = self._privcube(words[1:], folder)
            for place in (
                f"{self.home / DEMO}/",
                f"{folder}/",
                f".../{DEMO}/",
                ".../",
            ):  # where the ledger knows folders
                said = said.replace(place, "")
            return code, said.splitlines()
        programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            command, shell=True, cwd=folder, env={**os.environ, "PATH": programs}, capture_output=True, encoding="utf-8"
        )
        return done.returncode, (done.stdout + done.stderr).splitlines()

    @staticmethod
    def _privcube(words: list[str], folder: Path) -> tuple[int, str]:
        """The command in this process, where noise is frozen."""
        before, arguments, code = Path.cwd(), sys.argv, 0
        os.chdir(folder)
        sys.argv = ["privcube", *words]
        said = io.StringIO()
        try:
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                privcube()
        except SystemExit as end:
            code = int(end.code or 0)
        finally:
            os.chdir(before)
            sys.argv = arguments
        return code, said.getvalue()


def _require_verified(folder: Path, name: str) -> None:
    """Every release of an example passes all checks."""
    for manifest in sorted(folder.glob("*/release.json")):
        wrong = [check.detail for check in verify(manifest.parent) if not check.passed]
        if wrong:
            raise SystemExit(f"{name}: the release {manifest.parent.name} is not verified: {wrong[0]}")


def commands(block: str) -> Iterator[tuple[str, list[str]]]:
    """The commands of a block, each with the lines that are said to be printed; a demo prints commands itself."""
    command, expected = "", list[str]()
    for line in block.splitlines():
        if line.startswith("$ ") and not command.startswith("privcube demo"):
            if command:
                yield command, expected
            command, expected = line[2:], []
        elif command.endswith("\\"):
            command += f"\n{line}"
        else:
            expected.append(line)
    yield command, expected


def form(line: str) -> str:
    """A line with numbers, digests, bars and the spaces of columns made alike."""
    line = re.sub(r"[█░]+", "B", re.sub(r"\b[0-9a-f]{64}\b", "H", line))
    return re.sub(r"\s+", " ", re.sub(r"-?[0-9][0-9,.]*", "N", line)).strip()


def shown(expected: list[str], printed: list[str], where: str) -> list[str]:
    """What a page shows of the printed lines: all, or those in the places that it did not leave out."""
    if OMITTED not in expected:
        return printed
    places = aligned(
        [OMITTED if line == OMITTED else form(line) for line in expected], [form(line) for line in printed]
    )
    if places is None:
        raise SystemExit(
            f"{where}: the lines around its three dots are not printed any more; edit the page. Printed:\n"
            + textwrap.indent("\n".join(printed), "  ")
        )
    return [OMITTED if place is None else printed[place] for place in places]


def aligned(expected: list[str], printed: list[str]) -> list[int | None] | None:
    """For every expected line the place where it is printed, None for three dots; None if they do not fit."""
    if not expected:
        return None if printed else []
    if expected[0] == OMITTED:
        for skipped in range(len(printed) + 1):
            rest = aligned(expected[1:], printed[skipped:])
            if rest is not None:
                return [None, *(place if place is None else place + skipped for place in rest)]
        return None
    if not printed or printed[0] != expected[0]:
        return None
    rest = aligned(expected[1:], printed[1:])
    return None if rest is None else [0, *(place if place is None else place + 1 for place in rest)]


def same(kept: str, made: str, *, exactly: bool) -> bool:
    """Whether two pages agree, in every figure or in the form of every line."""
    alike = _without_heads if exactly else form
    return [alike(line) for line in kept.splitlines()] == [alike(line) for line in made.splitlines()]


def _without_heads(line: str) -> str:
    """The head of a ledger depends on the folder in which a release was staged."""
    return re.sub(r"\bhead [0-9a-f]{64}", "head H", line)


def pages(part: str) -> list[Path]:
    """Pages with commands, whose path has a part."""
    found = [page for page in sorted(DOCS.rglob("*.md")) if "```console\n" in page.read_text(encoding="utf-8")]
    return [page for page in found if part in page.relative_to(PROJECT).as_posix()]


def notebook_with_outputs(path: Path) -> object:
    """The notebook, run with frozen noise."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    opening = (
        f"import sys; sys.path.insert(0, {str(PROJECT / 'tools')!r}); from frozen import freeze; freeze('notebook')"
    )
    notebook.cells.insert(0, nbformat.v4.new_code_cell(opening))
    with tempfile.TemporaryDirectory(prefix="privcube-notebook-") as folder:
        NotebookClient(notebook, timeout=600, resources={"metadata": {"path": folder}}).execute()
    del notebook.cells[0]
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
        if cell.cell_type == "code":
            cell.execution_count, cell.metadata = None, {}
            for output in cell.outputs:
                if "execution_count" in output:
                    output.execution_count = None
    return notebook


def _texts(notebook: object) -> list[str]:
    return [
        str(output.get("text") or output.get("data", {}).get("text/plain", ""))
        for cell in notebook.cells  # type: ignore[attr-defined]
        for output in cell.get("outputs", [])
    ]


def _notebook(check: bool) -> bool:
    """Whether the notebook is (now) as it should be."""
    import nbformat

    path = DOCS / "tutorial" / "tutorial.ipynb"
    made = notebook_with_outputs(path)
    if check:
        return _texts(nbformat.read(path, as_version=4)) == _texts(made)
    nbformat.write(made, path)
    return True


def main() -> int:
    """Write the pages, or check them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", default="", help="only pages with this in their path")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a page is out of date")
    parser.add_argument("--times", action="store_true", help="say how long every page takes")
    chosen = parser.parse_args()
    stale = []
    with tempfile.TemporaryDirectory(prefix="privcube-pages-") as home:
        runner = Runner(Path(home).resolve())
        if chosen.check and not runner.same_plan:
            print("the search ends at another plan than on the pages: they are compared by their form alone")
        for page in pages(chosen.part):
            start = time.process_time()
            kept, made = page.read_text(encoding="utf-8"), runner.page(page)
            if chosen.times:
                print(f"{time.process_time() - start:5.1f} s  {page.relative_to(PROJECT).as_posix()}")
            if chosen.check and not same(kept, made, exactly=runner.same_plan):
                stale.append(page.relative_to(PROJECT).as_posix())
            elif not chosen.check and not same(kept, made, exactly=True):
                page.write_text(made, encoding="utf-8")
                print(f"wrote {page.relative_to(PROJECT).as_posix()}")
    if chosen.part in "docs/tutorial/tutorial" and not _notebook(chosen.check):
        stale.append("docs/tutorial/tutorial.ipynb")
    for name in stale:
        print(
            f"{name} does not show what its commands print: run `make docs`, read the change, commit it",
            file=sys.stderr,
        )
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
