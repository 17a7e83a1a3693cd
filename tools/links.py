"""Check the links of the built site, offline: every page, picture and anchor that a page leads to is there.

python tools/links.py build/site
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class _Page(HTMLParser):
    """What a page leads to, and the anchors that it has."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors.update(value for name in ("id", "name") if (value := given.get(name)))
        self.targets.extend(value for name in ("href", "src") if (value := given.get(name)))


def broken(site: Path) -> list[str]:
    """The links that lead nowhere, each with its page."""
    pages = {}
    for path in sorted(site.rglob("*.html")):
        pages[path.resolve()] = page = _Page()
        page.feed(path.read_text(encoding="utf-8"))
    found = []
    for path, page in pages.items():
        for target in page.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            place = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchors = pages[place].anchors if place in pages else None
            if not place.exists() or (
                anchors is not None and parts.fragment and unquote(parts.fragment) not in anchors
            ):
                found.append(f"{path.relative_to(site.resolve())}: {target}")
    return found


def main() -> int:
    """Print what is broken."""
    site = Path(sys.argv[1])
    if not (site / "index.html").exists():
        print(f"{site}: expected a built site; run `make site`", file=sys.stderr)
        return 2
    wrong = broken(site)
    print("\n".join(wrong) if wrong else f"{site}: all links lead somewhere")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
