"""One browser for all tests of a process: Debian's Chromium, driven by Playwright, with nothing to talk to."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from axe_core_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

import privcube as pc
from privcube.model.measurements import Measurements
from privcube.released.explorer.server import Server, Site

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The browser."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.fail("the tests of the page need Chromium: apt-get install chromium (`make test` does it if it may)")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield opened
        opened.close()


class Watched:
    """A page, and all that it does beside what it should."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.requests: list[str] = []
        self.complaints: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("dialog", self._asked)
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.complaints.append(f"error {error}"))

    def _asked(self, dialog: Any) -> None:
        self.complaints.append(f"dialog {dialog.message}")
        dialog.dismiss()

    def _said(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type} {message.text}")

    def open(self, address: str) -> Page:
        """Go to an address, and wait until the page is there."""
        self.page.goto(address)
        self.page.wait_for_selector("html[data-ready]", state="attached")
        return self.page

    @property
    def overflow(self) -> int:
        """By how many pixels the page is wider than the window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))

    def barriers(self, *rules: str) -> list[str]:
        """What axe-core calls serious or critical, by all rules or by some."""
        options: dict[str, Any] = {"resultTypes": ["violations"], **({"runOnly": list(rules)} if rules else {})}
        found = Axe().run(self.page, options=options)["violations"]
        bad = [each for each in found if each["impact"] in ("serious", "critical")]
        return [f"{each['id']}: {[node['target'] for node in each['nodes']][:3]}" for each in bad]


Watch = Callable[..., Watched]


@pytest.fixture
def watch(browser: Browser) -> Iterator[Watch]:
    """Opens a watched page of a given size and color scheme."""
    contexts = []

    def made(width: int = 1280, height: int = 900, scheme: str = "light") -> Watched:
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,  # type: ignore[arg-type]
            accept_downloads=True,
            bypass_csp=False,
            offline=False,
        )
        context.set_default_timeout(60_000)
        contexts.append(context)
        return Watched(context.new_page())

    yield made
    for context in contexts:
        context.close()


@contextmanager
def served(site: Site) -> Iterator[str]:
    """The address of a site, as long as it is served."""
    with Server(site) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server.url
        finally:
            server.shutdown()
            thread.join()


def example(epsilon: str = "0.5", counts: int | None = None) -> pc.Release:
    """A release with levels, whose counts are made up: no data is needed for a page."""
    age = pc.Attribute(
        "age", bins=[0, 15, 45, 65, 120], levels=[pc.Level("stage", bins=[0, 15, 120])], overflow="clamp"
    )
    schema = pc.Schema(
        [
            pc.Attribute("sex", values=["f", "m"]),
            age,
            pc.Attribute("region", values=["north", "east", "south"]),
            pc.Attribute("ward", values=["surgery", "medicine"]),
        ]
    )
    wanted = pc.Workload.tables(
        schema,
        [("sex",), ("age",), ("sex", "age"), ("age", "region"), ("sex", ("age", "stage"), "region"), ("sex", "ward")],
    )
    plan = pc.plan(wanted, pc.PureDP(epsilon), "marginals")
    answers = np.random.default_rng(5).integers(0, 900, plan.rows)
    answers[::7] = 3
    if counts is not None:
        answers[:] = counts
    words = pc.Words(
        title="Discharges",
        unit="stays",
        publisher="Office of Examples",
        period="2029",
        attributes={"sex": pc.AttributeWords(title="Sex", labels={"f": "Women", "m": "Men"})},
    )
    return pc.Release(Measurements(plan, answers), words=words)


@pytest.fixture(scope="session")
def release() -> pc.Release:
    """The example."""
    return example()


@pytest.fixture(scope="session")
def folder(release: pc.Release, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its artifact."""
    place = tmp_path_factory.mktemp("browser") / "out"
    release.save(place)
    return place


@pytest.fixture(scope="session")
def address(folder: Path) -> str:
    """Its page, on disk."""
    return (folder / "index.html").as_uri()
