"""Reports: a PDF reader finds what they say, a page has no script, and hostile words are only words."""

from __future__ import annotations

import io
import sys
from html.parser import HTMLParser
from pathlib import Path

import pypdf
import pytest
from tests.released.test_export_readers import HOSTILE, TABLES, release

from privcube import export
from privcube.errors import MissingExtraError
from privcube.released.report import content, pdf

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the libraries, about their own functions


class Page(HTMLParser):
    """Tags, texts and attributes of a page; every tag must be closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.names: set[str] = set()
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.names |= {name for name, _ in attributes}
        if tag not in ("meta", "rect", "line"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("rect", "line"):
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.mark.parametrize("hostile", [None, *HOSTILE])
def test_a_page_has_no_script_and_says_what_it_should(hostile: str | None, tmp_path: Path) -> None:
    export(release(hostile), tmp_path / "r.html", TABLES)
    page = Page((tmp_path / "r.html").read_text(encoding="utf-8"))
    assert page.open == []
    assert not page.tags & {"script", "img", "iframe", "link", "object", "a"}
    assert not any(name.startswith("on") or name in ("src", "href") for name in page.names)
    assert {"svg", "table", "figure"} <= page.tags
    for heading in ("How to read the numbers", "How they were made", "What is promised", "Codebook", "Glossary"):
        assert heading in page.texts
    if hostile is not None:
        assert hostile in page.texts
    assert "epsilon = 1 (pure), adding or removing one row" in " ".join(page.texts)
    assert "Negative counts are small counts with noise" in " ".join(page.texts)  # sums of a measure may be negative


@pytest.mark.parametrize("hostile", [None, *HOSTILE[4::2]])  # other alphabets, quotes and backslashes, emoji
def test_a_pdf_is_read_by_pypdf(hostile: str | None, tmp_path: Path) -> None:
    export(release(hostile), tmp_path / "r.pdf", TABLES)
    found = pypdf.PdfReader(io.BytesIO((tmp_path / "r.pdf").read_bytes()))
    text = "\n".join(page.extract_text() for page in found.pages)
    for heading in ("How to read the numbers", "How they were made", "What is promised", "Codebook", "Glossary"):
        assert heading in text
    assert "Guarantee: epsilon = 1 (pure), adding or removing one row" in text
    if hostile is None:
        assert "Stays by Sex and =1+2" in text
        assert "Women" in text
    assert "/JavaScript" not in str(found.trailer["/Root"])


def test_without_fonts_letters_are_replaced_and_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdf, "_fonts", lambda library: None)
    export(release("שלום"), tmp_path / "r.pdf", TABLES)
    text = "\n".join(page.extract_text() for page in pypdf.PdfReader(tmp_path / "r.pdf").pages)
    assert "????" in text
    assert "Question marks stand for letters" in text
    export(release(), tmp_path / "plain.pdf", TABLES)
    plain = "\n".join(page.extract_text() for page in pypdf.PdfReader(tmp_path / "plain.pdf").pages)
    assert "Question marks stand for" not in plain


def test_letters_that_no_font_has_are_replaced_and_that_is_said(tmp_path: Path) -> None:
    export(release("病院 Größe"), tmp_path / "r.pdf", TABLES)
    text = "\n".join(page.extract_text() for page in pypdf.PdfReader(tmp_path / "r.pdf").pages)
    assert "?? Größe" in text
    assert "Question marks stand for letters that the fonts of this document do not have" in text


def test_a_pdf_without_its_library_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fpdf", None)
    with pytest.raises(MissingExtraError, match=r"privcube\[report\]"):
        export(release(), tmp_path / "r.pdf")


def test_tables_that_are_left_out_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("privcube.released.exports.export.MOST_TABLES", 1)
    export(release(), tmp_path / "r.html")
    assert "2 more tables are not in this report" in (tmp_path / "r.html").read_text(encoding="utf-8")
    assert content.MOST_TABLES == 200
