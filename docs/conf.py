"""The documentation site: `make site` builds it from these pages, as they are, into build/site.

Pages are plain Markdown that any viewer shows. What a site needs on top is worked out here: the navigation comes from
the sections of index.md, pages of the project's root are taken in, the notebook is shown with its stored outputs.
"""

from __future__ import annotations

import json
import os
import re
from html import escape
from pathlib import Path
from typing import Any

from privcube import __version__

DOCS = Path(__file__).resolve().parent
ROOT_PAGES = {  # pages of the site that are kept at the root of the project
    "project/changelog": "CHANGELOG.md",
    "project/contributing": "CONTRIBUTING.md",
    "project/security-policy": "SECURITY.md",
    "project/conduct": "CODE_OF_CONDUCT.md",
}

project = "privcube"
author = "The privcube developers"
copyright = author  # the name that Sphinx asks for
release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
source_suffix = {".md": "markdown", ".ipynb": "markdown"}
exclude_patterns = ["results/**"]
nitpicky = True
nitpick_ignore_regex = [("py:.*", ".*")]  # types in signatures; names in pages are checked by tests/boundary

myst_heading_anchors = 4
myst_links_external_new_tab = False
suppress_warnings = ["myst.xref_missing_download"]

default_role = "code"
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100
add_module_names = False

html_theme = "furo"
html_title = f"privcube {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_show_sphinx = False
html_copy_source = False
pygments_style = "tango"
pygments_dark_style = "monokai"


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _page)
    app.add_css_file("site.css")


def _page(app: Any, name: str, source: list[str]) -> None:
    """A page as Sphinx is to read it."""
    file = DOCS / f"{name}.md"
    if name in ROOT_PAGES:
        file = DOCS.parent / ROOT_PAGES[name]
        source[0] = file.read_text(encoding="utf-8")
        app.env.note_dependency(str(file))
    elif (DOCS / f"{name}.ipynb").exists():
        source[0] = _notebook(json.loads(source[0]))
    text = re.sub(r'^<a id="([\w-]+)"></a>$', r"(\1)=", source[0], flags=re.MULTILINE)
    text = re.sub(r"(?<!!)\[([^\]]*)\]\(([^)#\s]+)(#[^)\s]*)?\)", lambda found: _link(name, file, found), text)
    source[0] = text + (_navigation(text) if Path(name).name == "index" else "")


def _link(name: str, file: Path, found: re.Match[str]) -> str:
    """A link between pages, as seen from where the page is on the site; what is not on the site becomes words."""
    words, target, anchor = found[1], found[2], found[3] or ""
    if re.match(r"[a-z]+:", target):
        return found[0]
    place = Path(os.path.normpath(file.parent / target))
    here = (DOCS / name).parent
    for page, kept in ROOT_PAGES.items():
        if place == DOCS.parent / kept:
            return f"[{words}]({os.path.relpath(DOCS / page, here)}.md{anchor})"
    if place == DOCS.parent / "README.md":
        return f"[{words}]({os.path.relpath(DOCS / 'index', here)}.md{anchor})"
    if place.is_dir() or not place.is_relative_to(DOCS):
        return words
    return f"[{words}]({os.path.relpath(place, here)}{anchor})"


def _navigation(text: str) -> str:
    """Hidden trees of contents: one per section, or one of the whole page, of the pages that it links to first."""
    trees, seen = [], set()
    first, *sections = re.split(r"^## ", text, flags=re.MULTILINE)
    for section in sections or [f"\n{first}"]:
        title, _, body = section.partition("\n")
        found = re.findall(r"\[([^\]]*)\]\(([\w/-]+)\.(?:md|ipynb)\)", body)
        pages = [f"{words.replace('`', '')} <{page}>" for words, page in found if page not in seen]
        seen.update(page for _, page in found)
        if pages:
            caption = [f":caption: {title.strip()}"] if title.strip() else []
            trees.append("\n".join(["```{toctree}", ":hidden:", *caption, "", *pages, "```"]))
    return "\n\n" + "\n\n".join(trees) + "\n"


def _notebook(notebook: dict[str, Any]) -> str:
    """A notebook as Markdown, with its stored outputs."""
    parts = []
    for cell in notebook["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(text)
            continue
        parts.append(f"```python\n{text}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {})
            if "image/png" in data:
                picture = "".join(data["image/png"]).replace("\n", "")
                words = escape("".join(data.get("text/plain", "a plot")))
                parts.append(f'<img class="output" alt="{words}" src="data:image/png;base64,{picture}">')
            elif said := "".join(output.get("text", data.get("text/plain", ""))):
                parts.append(f"```{{code-block}} text\n:class: output\n\n{said.rstrip()}\n```")
    return "\n\n".join(parts) + "\n"
