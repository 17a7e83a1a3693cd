"""A release of any size for a browser: the list of tables at once, their numbers on demand. Zone: RELEASED.

Only what is shown is read. Every file is compared with its checksum when it is read, and a table's numbers come from
its published file, so nothing is worked out again but covariances.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from threading import Lock
from typing import Any, Final

import numpy as np

from privcube.accuracy.predictor import predictor
from privcube.algebra.lattice import Floats, Integers
from privcube.arrow import array_of
from privcube.errors import ArtifactError, Plain
from privcube.model.measures.asked import measured_axis
from privcube.model.plan import Plan
from privcube.released.artifact.folder import CHECKSUMS, LARGEST_DOCUMENT, TABLES, Contents
from privcube.released.artifact.manifest import FORMAT, older_format, stated_in
from privcube.released.artifact.parquet_form import read_parquet
from privcube.released.artifact.store import INDEX, MANIFEST, PLAN, STATEMENT, WORDS, read_plan, read_words
from privcube.released.artifact.table_files import TableWriter, file_stems
from privcube.released.artifact.whole_files import counts_in, facts_in
from privcube.released.explorer.server import Site, page_files
from privcube.released.labels import MEANS, NUMBERS
from privcube.released.page.document import page_document, table_numbers
from privcube.released.page.html import script, served_page, style
from privcube.released.page.numbers import to_digits

_TABLE: Final = re.compile(r"/tables/(0|[1-9][0-9]{0,8})\.json")
_ROOM: Final = 2**16  # bytes by which a file may exceed twice its form


def release_site(folder: str | Path) -> Site:
    """The site of the artifact in a folder."""
    found = _Tables(Contents.of(Path(folder)))
    return Site(page_files(served_page(), style(), script()), found.made)


class _Tables:
    def __init__(self, contents: Contents) -> None:
        self._contents, self._lock = contents, Lock()
        older = older_format(contents.document(MANIFEST))
        if older is not None:
            raise ArtifactError(MANIFEST, expected=f"the format {FORMAT!r}: open the release and save it", given=older)
        for name in (PLAN, MANIFEST, STATEMENT, WORDS, INDEX[1]):
            _require_unchanged(contents, name)
        self._plan: Plan = read_plan(contents)
        stated = stated_in(contents.document(MANIFEST))
        if stated["plan"] != self._plan.digest:
            raise ArtifactError(f"{MANIFEST}, plan", expected=f"the digest of {PLAN}", given=stated["plan"])
        self._counts, self._facts = counts_in(stated), bool(facts_in(stated))
        self._tables, self._stems = list(self._plan.workload), file_stems(self._plan.workload)
        self._writer = TableWriter(self._plan.workload.schema)
        words = read_words(contents, self._plan)
        errors = _errors(contents.document(INDEX[1]), len(self._tables))
        self._document = page_document(self._plan, words, stated, contents.text(STATEMENT), errors, {})

    def made(self, path: str) -> Any | None:
        """The document of the page, or the numbers of a table."""
        if path == "/document.json":
            return self._document
        asked = _TABLE.fullmatch(path)
        if asked is None or int(asked[1]) >= len(self._tables):
            return None
        with self._lock:
            return self._numbers(int(asked[1]))

    def _numbers(self, number: int) -> list[dict[str, Any]]:
        table = self._tables[number]
        found = None if self._facts else predictor(self._plan, [table])
        return table_numbers(self._plan, found, table, self._columns(number))

    def _columns(self, number: int) -> dict[str, Floats | Integers]:
        """The columns of a published table, in the form that this plan gives it."""
        name = f"{TABLES}/{self._stems[number]}.parquet"
        _require_unchanged(self._contents, name)
        cells, measured = self._plan.workload.sizes[number], measured_axis(self._tables[number]) is not None
        counts: dict[str, Floats | Integers] = dict.fromkeys(self._counts, np.zeros(cells, dtype=np.int64))
        plain: dict[str, Floats | Integers] = dict.fromkeys(NUMBERS, np.zeros(cells))
        means: dict[str, Floats | Integers] = dict.fromkeys(MEANS, np.zeros(cells))
        forms = [plain | counts] if not measured else [plain | means | counts, plain | means, plain | counts, plain]
        problem: ArtifactError | None = None
        for zeros in forms:  # a table of sums has means and counts where they are determined
            form = self._writer.parquet(self._tables[number], zeros)
            content = self._contents.content(name, 2 * len(form) + 8 * cells * len(zeros) + _ROOM)
            try:
                table = read_parquet(content, form, name).table
            except ArtifactError as refused:
                problem = problem or refused
                continue
            columns: dict[str, Floats | Integers] = {key: array_of(table[key]) for key in zeros if key not in means}
            if not all(np.isfinite(own).all() for own in columns.values()):
                raise ArtifactError(name, expected="finite numbers", given=Plain("others"))
            return columns
        assert problem is not None
        raise problem


def _errors(rows: Any, tables: int) -> list[float]:
    """The standard errors in the list of tables."""
    given = [row.get("std_error") if isinstance(row, dict) else None for row in rows] if isinstance(rows, list) else []
    found = [error for error in given if isinstance(error, float) and 0 <= error < np.inf]
    if len(found) != tables or len(given) != tables:
        raise ArtifactError(INDEX[1], expected="a standard error for every table", given=Plain("something else"))
    return [to_digits(error) for error in found]


def _require_unchanged(contents: Contents, name: str) -> None:
    """Refuse a file that does not match its checksum."""
    content = contents.content(name, LARGEST_DOCUMENT)
    if contents.checksums.get(name) != hashlib.sha256(content).hexdigest():
        changed = Plain("a different one (a file or the list was changed)")
        raise ArtifactError(name, expected=f"the SHA-256 listed in {CHECKSUMS}", given=changed)
