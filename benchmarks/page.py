"""How long the page of a release takes: to open, to react, and, served by `explore`, to open with 5,050 tables.

All times are CPU seconds or milliseconds of the browser's main thread (and, for `explore`, of the server), because a
busy machine makes everything else vary: drawing waits for nothing else. Needs Chromium and Playwright, as tests do.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any, Final

import numpy as np
from playwright.sync_api import Page, sync_playwright

import privcube as pc
from privcube.model.measurements import Measurements
from privcube.released.explorer.release_site import release_site
from privcube.released.explorer.server import Server

TARGETS: Final = "targets: react within 100 ms; the page of a small release within 1 s; 5,000 tables within 3 s"
STEPS: Final = {
    "sort": ("#sort", ["down", "up"]),
    "percentages": ("#percent", ["row", "table"]),
    "all at once": ("#interval-all, #interval-each", None),
    "another chart": ("#view-heat, #view-bars, #view-dots, #view-multiples", None),
    "pick": (".pivot tbody td[tabindex]", None),
    "light or dark": ("#theme", None),
    "one attribute less or more": ("#attribute-1", None),
}
REPEATS: Final = 6
REACT: Final = """([selector, values, repeats]) => {
  for (let at = 0; at < repeats; at++) {
    const found = [...document.querySelectorAll(selector)], own = found[at % found.length];
    if (values) { own.value = values[at % values.length]; own.dispatchEvent(new Event("change")); } else own.click();
    document.body.offsetHeight;
  }
}"""


def release(sizes: dict[str, int], k: int) -> pc.Release:
    """A release of made-up counts."""
    plan = pc.plan(pc.Workload.all_kway(pc.Schema.from_sizes(sizes), k), pc.PureDP(1), "marginals")
    return pc.Release(Measurements(plan, np.random.default_rng(1).integers(0, 900, plan.rows)))


class Watch:
    """Tells the CPU time of a page's main thread."""

    def __init__(self, page: Page) -> None:
        self._session: Any = page.context.new_cdp_session(page)
        self._session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def seconds(self) -> float:
        """CPU time so far."""
        metrics = self._session.send("Performance.getMetrics")["metrics"]
        return float(next(own["value"] for own in metrics if own["name"] == "TaskDuration"))


@contextmanager
def opened() -> Iterator[Page]:
    """A page of the browser."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser.new_page(viewport={"width": 1280, "height": 900})
        browser.close()


def shown(page: Page, address: str) -> float:
    """The CPU time that a page takes until it is there."""
    page.goto("about:blank")
    watch = Watch(page)
    before = watch.seconds()
    page.goto(address)
    page.wait_for_selector("html[data-ready]", state="attached", timeout=300_000)
    after = watch.seconds()
    return after - before if after >= before else after  # a new process starts at 0


def main() -> None:
    """Measure and print."""
    print(TARGETS)
    with tempfile.TemporaryDirectory() as name, opened() as page:
        folder = Path(name)
        release({"a": 15, "b": 11, "c": 5, "d": 3}, 2).save(folder / "small")
        address = (folder / "small" / "index.html").as_uri()
        for axes, cells in (("0,2", 75), ("0,1", 165)):
            print(f"{cells} numbers: the page is there after {shown(page, f'{address}#axes={axes}'):.2f} s")
            watch = Watch(page)
            for step, (selector, values) in STEPS.items():
                before = watch.seconds()
                page.evaluate(REACT, [selector, values, REPEATS])
                page.wait_for_timeout(50)
                print(f"  {step}: {(watch.seconds() - before) / REPEATS * 1000:.0f} ms")
        release({f"a{at}": 2 for at in range(101)}, 2).save(folder / "large")
        began = time.process_time()
        with Server(release_site(folder / "large")) as server:
            thread = Thread(target=server.serve_forever, daemon=True)
            thread.start()
            browser = shown(page, server.url)
            print(f"5,050 tables by explore: {time.process_time() - began:.2f} s here, {browser:.2f} s in the browser")
            server.shutdown()
            thread.join()


if __name__ == "__main__":
    main()
