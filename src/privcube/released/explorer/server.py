"""A small server for one reader on this machine: fixed files and JSON, read-only. Zone: RELEASED.

It listens on 127.0.0.1 and answers only if the Host header names that address, so that no other site can reach it by
giving its own name to this address. The content security policy allows scripts and styles from here and nothing inline.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from privcube.errors import ArtifactError, Plain, PrivcubeError

ADDRESS: Final = "127.0.0.1"
_SECONDS: Final = 30  # that a request may take to arrive
_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src data: blob:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
_JSON: Final = "application/json"


@dataclass(frozen=True)
class Site:
    """What is served: fixed files as (type, bytes) by path, and JSON that is made when a path is asked for."""

    files: Mapping[str, tuple[str, bytes]]
    made: Callable[[str], Any | None]  # None if there is nothing at this path


class Server(ThreadingHTTPServer):
    """Serves a site; `port` 0 takes a free one."""

    daemon_threads = True
    allow_reuse_address = False

    def __init__(self, site: Site, port: int = 0) -> None:
        self.site = site
        try:
            super().__init__((ADDRESS, port), _Handler)
        except (OSError, OverflowError) as problem:
            given = Plain(getattr(problem, "strerror", None) or str(problem))
            raise ArtifactError(f"port {port}", expected="a port that is free", given=given) from None

    @property
    def url(self) -> str:
        """Where the site is."""
        return f"http://{ADDRESS}:{self.server_port}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a reader who goes away is no error."""


class _Handler(BaseHTTPRequestHandler):
    server: Server
    server_version, sys_version = "privcube", ""
    protocol_version = "HTTP/1.1"
    timeout = _SECONDS

    def do_GET(self) -> None:
        kind, content, status = self._answer()
        self.send_response(status)
        for name, value in {**_HEADERS, "Content-Type": kind, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_HEAD = do_GET  # noqa: N815 - the name that the library calls

    def _answer(self) -> tuple[str, bytes, HTTPStatus]:
        own = {f"{name}:{self.server.server_port}" for name in (ADDRESS, "localhost")}
        if self.headers.get_all("Host") is None or not set(self.headers.get_all("Host") or ()) <= own:
            return _plain(HTTPStatus.MISDIRECTED_REQUEST, "This server answers on this machine only.")
        path = self.path.split("?", 1)[0]
        if path in self.server.site.files:
            return *self.server.site.files[path], HTTPStatus.OK
        try:
            found = self.server.site.made(path)
        except PrivcubeError as problem:
            return _plain(HTTPStatus.UNPROCESSABLE_ENTITY, str(problem))
        if found is None:
            return _plain(HTTPStatus.NOT_FOUND, "There is nothing here.")
        return _JSON, json.dumps(found, separators=(",", ":"), allow_nan=False).encode(), HTTPStatus.OK

    def log_message(self, format: str, *args: Any) -> None:
        """Keep no log."""


def _plain(status: HTTPStatus, text: str) -> tuple[str, bytes, HTTPStatus]:
    return "text/plain; charset=utf-8", text.encode(), status


def page_files(page: bytes, style: str, script: str) -> dict[str, tuple[str, bytes]]:
    """The files of a page, by path."""
    return {
        "/": ("text/html; charset=utf-8", page),
        "/page.css": ("text/css; charset=utf-8", style.encode()),
        "/page.js": ("text/javascript; charset=utf-8", script.encode()),
    }
