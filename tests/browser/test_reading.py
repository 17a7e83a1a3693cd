"""The page as a reader uses it: every control, with mouse and keyboard; its numbers are those of the release."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page
from tests.browser.conftest import Watch

import privcube as pc

pytestmark = pytest.mark.xdist_group("browser")


def number(text: str) -> float:
    return float(text.replace("−", "-").replace(",", "").replace("±", "").replace("%", "").strip())


def cells(page: Page) -> list[list[tuple[float, float]]]:
    """The numbers of the table that is shown, with their margins, line by line."""
    lines = page.evaluate(
        "[...document.querySelectorAll('.pivot tbody tr:not(.panel)')].map((line) => [...line.querySelectorAll('td')]"
        ".map((cell) => [cell.querySelector('.value').textContent, cell.querySelector('.margin').textContent]))"
    )
    return [[(number(value), number(margin)) for value, margin in line] for line in lines]


def test_every_control_as_a_reader_uses_it(watch: Watch, address: str) -> None:
    seen = watch()
    page = seen.open(f"{address}#axes=1,0")  # age by sex
    assert page.title() == "Discharges"
    assert page.locator("h2").inner_text() == "age × Sex"
    assert page.locator(".publisher").inner_text() == "Office of Examples"
    assert page.locator(".pivot tbody th bdi").first.inner_text() == "0 to under 15"
    for view in ("dots", "heat", "multiples", "bars"):
        page.locator(f"#view-{view}").check(force=True)
        assert page.locator("figure svg .mark").count() >= 8
        assert ("view=" in page.url) == (view != "bars")
    before = cells(page)
    page.locator("#interval-all").check(force=True)
    assert all(
        wide > narrow
        for one, other in zip(before, cells(page), strict=True)
        for (_, narrow), (_, wide) in zip(one, other, strict=True)
    )
    page.locator("#interval-each").check(force=True)
    page.select_option("#percent", "row")
    assert all(line[-1][0] == 100 for line in cells(page))
    page.select_option("#percent", "none")
    page.select_option("#sort", "down")
    values = [line[-1][0] for line in cells(page)[:-1]]
    assert values == sorted(values, reverse=True)
    page.locator(".pivot thead button", has_text="Women").click()
    values = [line[0][0] for line in cells(page)[:-1]]
    assert values == sorted(values, reverse=True)
    assert page.locator("th[aria-sort=descending]").inner_text().startswith("Women")
    page.select_option("#role-0", "1")
    assert page.locator(".pivot .corner bdi").inner_text() == "Sex"
    page.locator(".filter summary").first.click()
    page.locator("#keep-0-1").uncheck()
    assert len(cells(page)) == 1
    page.locator("#keep-0-all").click()
    assert page.evaluate("document.activeElement.id") in ("keep-0-all", "")
    page.locator("#attribute-1").uncheck()
    assert page.locator("h2").inner_text() == "Sex"
    page.locator("#attribute-3").check()
    assert page.locator("h2").inner_text() == "Sex × ward"
    page.locator("details.panel summary").click()
    page.locator("input[aria-label='Find a table']").fill("stage")
    page.locator(".tables button").first.click()
    assert page.locator("h2").inner_text() == "region × Sex × age by stage"
    assert page.locator(".pivot tr.panel").count() == 2
    for tab, text in (
        ("Privacy", "Privacy statement"),
        ("How it was made", "How it was made"),
        ("Codebook", "Codebook"),
    ):
        page.locator("nav a", has_text=tab).click()
        assert page.locator("article h2").inner_text() == text
    page.locator("nav a", has_text="Tables").click()
    page.locator("#theme").click()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.locator("#theme").click()
    assert page.evaluate("getComputedStyle(document.body).colorScheme") in ("light", "normal")
    link, shown = page.url, cells(page)
    page = watch().open(link)
    assert cells(page) == shown
    assert seen.requests == [seen.requests[0]]
    assert seen.complaints == []


def test_numbers_margins_and_sums_are_those_of_the_release(watch: Watch, address: str, release: pc.Release) -> None:
    page = watch().open(f"{address}#axes=1,0")
    shown, values = cells(page), release.values(("sex", "age"))
    for at, line in enumerate(shown[:-1]):
        for column, (value, margin) in enumerate(line[:-1]):
            assert abs(value - values.estimate[column, at]) <= 0.51
            assert abs(margin - values.margin[column, at]) <= 0.6
        total = release.query({"age": release.workload.schema["age"].labels[at]})
        assert abs(line[-1][0] - total.estimate) <= 0.51
        assert total.high - total.estimate - 0.6 <= line[-1][1] <= 1.12 * (total.high - total.estimate) + 2
    everybody = release.query({})
    assert everybody.high - everybody.estimate - 0.6 <= shown[-1][-1][1]
    page = watch().open(f"{address}#axes=3,0")  # region by sex is no table: it is added up from one that has both
    assert "Added up from the table" in page.locator(".summary").inner_text()
    for at, region in enumerate(("north", "east", "south")):
        asked = release.query({"region": region, "sex": "f"})
        value, margin = cells(page)[at][0]
        assert abs(value - asked.estimate) <= 0.51
        assert asked.high - asked.estimate - 0.6 <= margin <= 1.12 * (asked.high - asked.estimate) + 2


def test_two_numbers_are_compared_and_any_added_up(watch: Watch, address: str, release: pc.Release) -> None:
    seen = watch()
    page = seen.open(f"{address}#axes=1,0")
    page.locator(".pivot tbody td[tabindex]").nth(0).click()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    picked = page.locator(".verdict").inner_text()
    weights = np.zeros((2, 4))
    weights[0, 0], weights[0, 1] = 1, -1
    law = release._predictor.query_law(("sex", "age"), weights)
    found = re.search(r"has ([\d,.]+) ± ([\d,.]+) more", picked)
    assert found is not None
    apart = abs(float((weights * release.estimates(("sex", "age"))).sum()))
    assert abs(number(found[1]) - apart) <= 0.51
    assert law.half_width(0.95) - 0.6 <= number(found[2]) <= 1.12 * law.half_width(0.95) + 2
    assert ("The difference is real." in picked) == (apart > number(found[2]))
    summed = re.search(r"Sum of the 2 numbers: ([\d,.]+) ± ([\d,.]+)", picked)
    assert summed is not None
    both = release.query({"sex": "f", "age": [0, 45]})
    assert abs(number(summed[1]) - both.estimate) <= 0.6
    assert both.high - both.estimate - 0.6 <= number(summed[2]) <= 1.12 * (both.high - both.estimate) + 2
    page.select_option("#pick-0", "3")
    page.select_option("#pick-1", "1")
    page.locator("#pick-add").click()
    assert "Sum of the 3 numbers" in page.locator(".verdict").inner_text()
    page.locator(".chips button").first.click()
    assert page.locator(".chips li").count() == 2
    page.locator("#interval-all").check(force=True)
    assert "all pairs" in page.locator(".verdict").inner_text()
    assert seen.complaints == []


def test_what_is_shown_can_be_downloaded(watch: Watch, address: str, release: pc.Release) -> None:
    seen = watch()
    page = seen.open(f"{address}#axes=1,0")

    def downloaded(text: str) -> tuple[str, bytes]:
        with page.expect_download() as started:
            page.locator(".tools button", has_text=text).click()
        return started.value.suggested_filename, Path(started.value.path()).read_bytes()

    name, content = downloaded("CSV")
    assert name == "age-sex.csv"
    rows = list(csv.DictReader(io.StringIO(content.decode())))
    assert len(rows) == 8
    values = release.values(("sex", "age"))
    assert float(rows[0]["estimate"]) == pytest.approx(values.estimate[0, 0], abs=values.std_error[0, 0] / 50)
    assert float(rows[0]["low_all"]) == pytest.approx(values.estimate[0, 0] - values.margin_all[0, 0], rel=1e-2)
    name, content = downloaded("SVG")
    assert name == "age-sex.svg"
    assert b"<svg" in content
    assert b"script" not in content
    name, content = downloaded("PNG")
    assert name == "age-sex.png"
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    assert seen.complaints == []
    assert all(url.startswith(("file:", "blob:", "data:")) for url in seen.requests)


@pytest.mark.parametrize(
    "address_of", ["axes=9,99", "axes=1,1", "view=<b>", "axes=1,0&picks=9,9;x", "sort=up:99", "%ff%00&&=="]
)
def test_an_address_that_makes_no_sense_shows_a_table(watch: Watch, address: str, address_of: str) -> None:
    seen = watch()
    seen.open(f"{address}#{address_of}")
    assert cells(seen.page)
    assert seen.complaints == []
