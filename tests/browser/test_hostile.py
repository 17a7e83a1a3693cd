"""Names, titles and labels that want to be more than text: no dialog, no request, no broken layout, no barrier."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.browser.conftest import Watch

import privcube as pc
from privcube.model.measurements import Measurements

pytestmark = pytest.mark.xdist_group("browser")

SEEDS = (
    "<script>alert({})</script>",
    "<img src=x onerror=alert({})>",
    '"><svg onload=alert({})>',
    "'-alert({})-'",
    "</script><script>alert({})</script>",
    "<!--{}--><style>*{{display:none}}</style>",
    "javascript:alert({})",
    "{{{{constructor.constructor('alert({})')()}}}}",
    "\u0627\u0644\u0639\u0631\u0628\u064a\u0629 {} \u05e2\u05d1\u05e8\u05d9\u05ea",
    "👩\u200d👩\u200d👧\u200d👦 {} 🏳️\u200d🌈",
    "Z\u0351\u036b\u0343\u036a\u0302\u036b\u033d\u034f\u0334\u0319 {}",
    "=cmd|' /C calc'!A{}",
    "very long {} " + "without an end " * 12,
    "W" * 180 + " {}",
    "&lt;b&gt; &amp; {}",
    "`${{alert({})}}` \\u003cb\\u003e",
    "%3Cscript%3E {} #axes=0&view=heat",
    "https://example.com/{}?a=b",
    "__proto__ {}",
    "constructor {}",
)


def names(count: int, start: int = 0) -> list[str]:
    return [SEEDS[at % len(SEEDS)].format(start + at) for at in range(count)]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A release of 200 hostile texts: names, titles, descriptions, values, labels, levels."""
    attributes, words = [], {}
    for at, name in enumerate(names(20)):
        values = names(7, 100 + 10 * at)
        attributes.append(pc.Attribute(name, values=values))
        labels = dict(zip(values[:2], names(2, 1000 + 10 * at), strict=True))
        words[name] = {"title": f"{names(20, 500)[at]} t", "description": names(20, 700)[at], "labels": labels}
    schema = pc.Schema(attributes)
    wanted = pc.Workload.tables(
        schema, [*((name,) for name in schema.names), *zip(schema.names, schema.names[1:], strict=False)]
    )
    plan = pc.plan(wanted, pc.PureDP(1), "marginals")
    counts = np.random.default_rng(1).integers(-20, 900, plan.rows)
    said = pc.Words(
        title=SEEDS[0], description=SEEDS[1], publisher=SEEDS[2], contact=SEEDS[3], licence=SEEDS[12], attributes=words
    )
    place = tmp_path_factory.mktemp("hostile") / "out"
    pc.Release(Measurements(plan, counts), words=said).save(place)
    return Path(place / "index.html").as_uri()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (360, "dark")])
def test_hostile_words_stay_words(watch: Watch, hostile: str, width: int, scheme: str) -> None:
    seen = watch(width, 800, scheme)
    page = seen.open(hostile)
    for at in range(0, 20, 1 if width > 1000 else 4):
        page.goto(
            f"{hostile}#axes={at},{(at + 1) % 20}&view={('bars', 'heat', 'multiples', 'dots')[at % 4]}&picks=0,0;1,1"
        )
        page.locator(".pivot tbody td").nth(40).wait_for()
        assert seen.overflow <= 0, at
    page.select_option("#percent", "table")
    page.locator("input[aria-label='Find an attribute']").fill("<script>")
    assert page.locator(".attributes li:visible").count() >= 1
    for tab in ("privacy", "plan", "codebook"):
        page.goto(f"{hostile}#tab={tab}")
        page.wait_for_selector("article")
        assert seen.overflow <= 0, tab
    assert page.locator(".entry").count() == 20
    assert page.evaluate("document.querySelectorAll('img, iframe, object, embed, link').length") == 0
    assert page.evaluate("document.querySelectorAll('script').length") == 2
    assert set(seen.requests) == {hostile}
    assert seen.complaints == []


def test_hostile_words_are_no_barrier(watch: Watch, hostile: str) -> None:
    seen = watch()
    seen.open(f"{hostile}#axes=8,9")
    assert seen.barriers() == []
