"""Readers with a keyboard, a screen reader, a phone, a dark room, or a printer."""

from __future__ import annotations

import pytest
from tests.browser.conftest import Watch

pytestmark = pytest.mark.xdist_group("browser")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_barrier(watch: Watch, address: str, scheme: str) -> None:
    """In the dark only colors differ, so that only contrast is looked at again."""
    seen = watch(scheme=scheme)
    for place in (
        "axes=1,0&picks=0,0;1,1",
        "axes=3,0,2&view=heat&interval=all",
        "tab=privacy",
        "tab=plan",
        "tab=codebook",
    ):
        seen.page.goto("about:blank")
        seen.open(f"{address}#{place}")
        assert seen.barriers(*(() if scheme == "light" else ("color-contrast",))) == [], place


def test_the_keyboard_reaches_everything(watch: Watch, address: str) -> None:
    page = watch().open(f"{address}#axes=1,0")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.tagName"))
    for wanted in (
        "theme",
        "attribute-0",
        "role-0",
        "view-bars",
        "interval-each",
        "percent",
        "sort",
        "pick-0",
        "pick-add",
        "TD",
    ):
        assert wanted in reached
    page.locator("#view-bars").focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.id") == "view-dots"
    assert "view=dots" in page.url


def test_a_phone_shows_all_without_scrolling_sideways(watch: Watch, address: str) -> None:
    for width in (320, 390):
        seen = watch(width, 700)
        for place in ("axes=1,0", "axes=3,0,2&view=multiples", "tab=codebook"):
            seen.page.goto("about:blank")
            seen.open(f"{address}#{place}")
            assert seen.overflow <= 0, (width, place)


def test_print_leaves_out_the_controls(watch: Watch, address: str) -> None:
    page = watch().open(address)
    page.emulate_media(media="print")
    assert not page.locator(".side").is_visible()
    assert page.locator(".pivot").is_visible()


def test_a_change_is_drawn_at_once(watch: Watch, address: str) -> None:
    """How long a click takes, generously: figures on a quiet machine are in the guide."""
    page = watch().open(f"{address}#axes=1,0")
    took = page.evaluate(
        "async () => { const times = []; for (const view of ['dots', 'heat', 'multiples', 'bars']) {"
        " const before = performance.now(); document.getElementById('view-' + view).click();"
        " await new Promise((done) => setTimeout(done)); times.push(performance.now() - before); } return times; }"
    )
    assert max(took) < 5_000
    assert float(page.evaluate("document.documentElement.dataset.ready")) < 20_000
