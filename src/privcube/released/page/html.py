"""The page as HTML: one file for an artifact, or parts that are served. Zone: RELEASED.

The page consists of its own hand-written style and script (`assets/`), and of a document that the script reads as text:
nothing from the schema ever becomes HTML or code. A content security policy allows this very script and style, by their
hashes, and no request at all. Scripts are written as modules; here they are put one after another, without their
imports.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from privcube.errors import ArtifactError, Plain
from privcube.model.documents.json_reader import strict_json

_ASSETS: Final = Path(__file__).parent / "assets"
_SCRIPTS: Final = (  # each uses those before it
    "elements.js",
    "format.js",
    "values.js",
    "cube.js",
    "state.js",
    "pivot.js",
    "charts.js",
    "download.js",
    "texts.js",
    "controls.js",
    "app.js",
)
_PLAN_SCRIPTS: Final = ("elements.js", "format.js", "plan.js")  # of the planning view
_IMPORT: Final = re.compile(r"^import [^;]*;\n", re.MULTILINE)
_START, _END = '<script type="application/json" id="document">', "</script>"
_UNSAFE: Final = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
_PARTS: Final = ("{policy}", "{title}", "{style}", "{script}", "{document}")


def page_bytes(document: dict[str, Any]) -> bytes:
    """The page of a document, as one file."""
    policy = (
        f"default-src 'none'; script-src '{_hash(script())}'; style-src '{_hash(style())}'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    return _shell(
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n',
        html.escape(str(document["title"])),
        f"<style>{style()}</style>",
        f'<script type="module">{script()}</script>',
        f"{_START}{inert(document)}{_END}\n",
    )


def served_page() -> bytes:
    """The page that loads its style, its script and its document from where it was loaded."""
    return _shell(
        "", "privcube", '<link rel="stylesheet" href="page.css">', '<script type="module" src="page.js"></script>'
    )


def document_in(page: bytes) -> dict[str, Any]:
    """The document in a page that is one file."""
    try:
        text = page.decode()
        start = text.index(_START) + len(_START)
        found = strict_json(text[start : text.index(_END, start)])
    except ValueError:
        raise ArtifactError("index.html", expected="a page with a document", given=Plain("something else")) from None
    if not isinstance(found, dict):
        raise ArtifactError("index.html", expected="a document with fields", given=Plain("something else"))
    return found


def inert(document: Any) -> str:
    """JSON that no browser takes for markup, wherever it stands.

    >>> inert({"a": "</script><!--"})
    '{"a":"\\\\u003c/script\\\\u003e\\\\u003c!--"}'
    """
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return re.sub("[<>&\u2028\u2029]", lambda found: _UNSAFE[found[0]], text)


@lru_cache(maxsize=1)
def style() -> str:
    """The style of the page."""
    return "\n" + (_ASSETS / "page.css").read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def script() -> str:
    """The script of the page."""
    return _joined(_SCRIPTS)


@lru_cache(maxsize=1)
def plan_script() -> str:
    """The script of the planning view."""
    return _joined(_PLAN_SCRIPTS)


def _joined(names: Sequence[str]) -> str:
    """Modules one after another."""
    parts = [(_ASSETS / name).read_text(encoding="utf-8") for name in names]
    return "\n" + "\n".join(_IMPORT.sub("", part).replace("\nexport ", "\n") for part in parts)


def _shell(*parts: str) -> bytes:
    """The frame of the page with its parts; one that is not given is empty."""
    text = (_ASSETS / "page.html").read_text(encoding="utf-8")
    pieces = re.split("|".join(map(re.escape, _PARTS)), text)
    given = [*parts, ""][: len(_PARTS)]
    return "".join([pieces[0], *(part + piece for part, piece in zip(given, pieces[1:], strict=True))]).encode()


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
