"""Make the pictures of docs/images again, in a real browser: `python tools/screenshots.py [FOLDER]`.

The page of the demo (desktop, phone, dark, percentages), of Adult and of a release with 60 attributes as `explore`
serves it, and the view of a plan. Needs Chromium, and the records of Adult where experiments look for them
(`experiments.data`); without them that picture stays as it is. Noise is new in every run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Final

import numpy as np
import pandas as pd
from playwright.sync_api import Browser, sync_playwright

import privcube as pc
from privcube.model.documents.spec import Spec
from privcube.released.explorer.plan_site import plan_site
from privcube.released.explorer.release_site import release_site
from privcube.released.explorer.server import Server, Site
from privcube.released.page.html import document_in

PROJECT: Final = Path(__file__).resolve().parents[1]
IMAGES: Final = PROJECT / "docs" / "images"
DATA: Final = Path(os.environ.get("PRIVCUBE_DATA") or PROJECT.parent / "shared" / "data")
READY: Final = "html[data-ready]"
SEARCHED: Final = "html[data-searched]"  # a better plan was looked for


def shot(
    browser: Browser, path: Path, address: str, size: tuple[int, int], *, dark: bool = False, ready: str = READY
) -> None:
    """A picture of what a window of that size shows."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme="dark" if dark else "light"
    )
    page = context.new_page()
    page.set_default_timeout(300_000)
    page.goto(address)
    page.wait_for_selector(ready, state="attached")
    page.wait_for_timeout(400)  # colors that fade in
    page.screenshot(path=str(path))
    context.close()
    print(path.name)


def axes(folder: Path, *names: str) -> str:
    """The address of a page that shows these attributes."""
    document = document_in((folder / "index.html").read_bytes())
    own = [(document["attributes"][axis["attribute"]]["name"], axis) for axis in document["axes"]]
    first = {name: str(at) for at, (name, axis) in reversed(list(enumerate(own))) if not axis["level"]}
    return f"{(folder / 'index.html').as_uri()}#axes={','.join(first[name] for name in names)}"


@contextmanager
def served(site: Site) -> Iterator[str]:
    """The address of a site of `explore`."""
    with Server(site) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.url
        server.shutdown()
        thread.join()


def adult(folder: Path) -> bool:
    """A release of education by marital status and more, if the records are there."""
    found = sorted(DATA.glob("*dult*.csv"))
    if not found:
        return False
    records = pd.read_csv(found[0], skipinitialspace=True, dtype=str)
    names = ("education", "marital-status", "sex", "race")
    schema = pc.Schema([pc.Attribute(name, values=sorted(records[name].dropna().unique())) for name in names])
    pc.release(pc.plan(pc.Workload.all_kway(schema, 2), pc.PureDP(1)), records[list(names)]).save(folder)
    return True


def large(folder: Path) -> None:
    """All pairs of 60 questions, answered by 100,000 made-up people."""
    sizes = {f"question {number:02d}": 2 + number % 4 for number in range(1, 61)}
    people = np.arange(100_000, dtype=np.int64)
    answers = {
        name: (people * (7919 + 2 * at) % 10007) ** 2 * size // 10007**2  # the first answer more often than the last
        for at, (name, size) in enumerate(sizes.items())
    }
    workload = pc.Workload.all_kway(pc.Schema.from_sizes(sizes), 2)
    pc.release(pc.plan(workload, pc.ApproxDP(1, "1e-6")), pd.DataFrame(answers)).save(folder)


def main(images: Path) -> None:
    """Make all pictures."""
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        subprocess.run(  # noqa: S603 - our own command
            [str(Path(sys.executable).with_name("privcube")), "demo", str(folder / "demo")],
            check=True,
            capture_output=True,
        )
        out = folder / "demo" / "out"
        table = axes(out, "ward", "outcome")
        shot(browser, images / "page.png", f"{table}&picks=0,1;1,1", (1280, 900))
        shot(browser, images / "page-demo.png", f"{table}&picks=0,1;1,1", (1180, 980))
        shot(browser, images / "page-percent.png", f"{table}&percent=row&view=dots", (1180, 980))
        shot(browser, images / "page-phone.png", f"{table}&percent=row", (390, 780))
        multiples = f"{axes(out, 'age', 'ward', 'outcome')}&view=multiples"
        shot(browser, images / "page-dark.png", multiples, (1180, 900), dark=True)
        if adult(folder / "adult"):
            table = axes(folder / "adult", "education", "marital-status")
            shot(browser, images / "page-adult.png", f"{table}&percent=row&view=heat", (1280, 1000))
        large(folder / "large")
        with served(release_site(folder / "large")) as address:
            shot(browser, images / "page-large.png", address, (1180, 900))
        os.chdir(folder / "demo")
        spec = Spec.from_toml(Path("spec.toml").read_text(encoding="utf-8"))
        with served(plan_site(spec, "spec.toml")) as address:
            shot(browser, images / "plan.png", address, (1180, 900), ready=SEARCHED)
        browser.close()


if __name__ == "__main__":
    chosen = Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES
    chosen.mkdir(parents=True, exist_ok=True)
    main(chosen.resolve())
