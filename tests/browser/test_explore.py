"""`privcube explore` in a browser: releases whose page carries no numbers, and plans."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect
from tests.browser.conftest import Watch, example, served

import privcube as pc
from privcube.model.documents.spec import Spec
from privcube.model.privacy.composition import Spending
from privcube.released.explorer.plan_site import plan_site
from privcube.released.explorer.release_site import release_site
from privcube.released.page import document as documents

pytestmark = pytest.mark.xdist_group("browser")

SPEC = """
[data]
source = "nowhere.csv"
[privacy]
epsilon = "1"
expected_records = 20000
[[attributes]]
name = "sex"
values = ["f", "m"]
[[attributes]]
name = "age"
size = 12
[[attributes]]
name = "<b>region"
size = 4
[workload]
all_kway = [1, 2]
[plan]
strategy = "marginals"
"""


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(documents, "_MOST_CARRIED", 400)
    example().save(tmp_path / "out")
    return tmp_path / "out"


@pytest.fixture
def planned() -> Iterator[str]:
    total = pc.PureDP(3)
    with served(plan_site(Spec.from_toml(SPEC), "spec.toml", Spending.of(total, [pc.PureDP(1)]))) as url:
        yield url


def test_a_page_that_carries_no_numbers_says_who_does(watch: Watch, large: Path) -> None:
    seen = watch()
    page = seen.open((large / "index.html").as_uri() + "#axes=1,0")
    assert "privcube explore" in page.locator(".notice").inner_text()
    assert page.locator("h2").inner_text() == "age × Sex"
    assert seen.barriers() == []
    page.goto("about:blank")
    seen.open((large / "index.html").as_uri() + "#axes=0")  # a small one is there
    assert page.locator(".pivot tbody tr").count() == 3
    assert seen.complaints == []


def test_a_served_release_shows_every_table(watch: Watch, large: Path) -> None:
    seen = watch()
    with served(release_site(large)) as url:
        page = seen.open(f"{url}#axes=1,0&picks=0,0;1,0")
        assert page.locator(".pivot tbody tr").count() == 5
        assert "difference" in page.locator(".verdict").inner_text()
        page.locator("#attribute-2").check()
        expect(page.locator("h2")).to_contain_text("region", timeout=60_000)
        assert all(request.startswith(url) for request in seen.requests)
        assert seen.complaints == []


def test_a_plan_is_weighed_before_anything_is_spent(watch: Watch, planned: str) -> None:
    seen = watch()
    page = seen.open(planned)
    page.wait_for_selector("html[data-searched]", state="attached")
    errors = lambda: [  # noqa: E731
        float(text.replace(",", ""))
        for text in page.locator(".plan").first.locator("tbody td:nth-child(3)").all_inner_texts()
    ]
    at_one = errors()
    assert len(at_one) == 6
    page.locator("#budget-number").fill("0.5")
    page.locator("#budget-number").press("Enter")
    expect(page.locator(".summary")).to_contain_text("epsilon 0.5")
    assert errors() == pytest.approx([2 * error for error in at_one], rel=0.02)
    page.locator("#budget").focus()
    page.keyboard.press("ArrowRight")
    assert "epsilon 0.5 " not in page.locator(".summary").inner_text()
    page.locator("#kind-approx").check(force=True)
    expect(page.locator(".summary")).to_contain_text("delta", timeout=60_000)
    page.locator("#kind-pure").check(force=True)
    page.locator("#records").fill("500")
    page.locator("#records").press("Enter")
    page.select_option("#wanted", "0.5")
    assert "500 records" in page.locator(".summary").inner_text()
    page.wait_for_selector("#strategy option[value=fourier]", state="attached")
    page.select_option("#strategy", "fourier")
    assert errors() != at_one
    assert "This release fits." in page.inner_text("main")
    page.locator("#budget-number").fill("90")
    page.locator("#budget-number").press("Enter")
    expect(page.locator("main")).to_contain_text("would be refused")
    assert seen.complaints == []
    assert all(request.startswith(planned) for request in seen.requests)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_planning_view_has_no_serious_barrier(watch: Watch, planned: str, scheme: str) -> None:
    seen = watch(scheme=scheme)
    seen.open(planned)
    assert seen.barriers(*(() if scheme == "light" else ("color-contrast",))) == []
    assert seen.overflow <= 0
