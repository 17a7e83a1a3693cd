"""The page as a reader uses it: every control, with mouse and keyboard; its numbers are those of the release."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page
from tests.browser.conftest import Watch, example

import privcube as pc
from privcube.model.measurements import Measurements
from privcube.released.presentation.tables import published
from privcube.released.whole.facts import Facts
from privcube.released.whole.release import WholeRelease

pytestmark = pytest.mark.xdist_group("browser")


def number(text: str) -> float:
    return float(text.replace("−", "-").replace(",", "").replace("±", "").replace("%", "").strip())


def margin_in(text: str) -> float:
    """A margin, or half the width of an interval from one end to the other."""
    if " to " not in text:
        return number(text)
    low, high = map(number, text.split(" to "))
    return (high - low) / 2


def cells(page: Page) -> list[list[tuple[float, float]]]:
    """The numbers of the table that is shown, with their margins, line by line."""
    return [[(number(value), margin_in(margin)) for value, margin in line] for line in texts(page)]


def texts(page: Page) -> list[list[tuple[str, str]]]:
    """The table that is shown: numbers and margins or intervals, line by line."""
    lines: list[list[tuple[str, str]]] = page.evaluate(
        "[...document.querySelectorAll('.pivot tbody tr:not(.panel)')].map((line) => [...line.querySelectorAll('td')]"
        ".map((cell) => [cell.querySelector('.value').textContent, cell.querySelector('.margin').textContent]))"
    )
    return lines


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
    assert {tuple(line[-1]) for line in texts(page)} == {("100 %", "")}
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


def ends(text: str) -> tuple[float, float]:
    low, high = map(number, text.split(" to "))
    return low / 100, high / 100


@pytest.mark.parametrize(("percent", "shares"), [("table", "total"), ("row", ["sex"]), ("column", ["age"])])
def test_percentages_have_intervals_that_hold(
    watch: Watch, address: str, release: pc.Release, percent: str, shares: Any
) -> None:
    """They contain those of `Release.table(shares=...)`, where the shape of noise is known; they are little wider."""
    page = watch().open(f"{address}#axes=1,0&percent={percent}")
    found = release.values(("sex", "age"), shares=shares).shares
    assert found is not None
    for at, line in enumerate(texts(page)[:-1]):
        for column, (value, interval) in enumerate(line[:-1]):
            low, high = ends(interval)
            assert number(value) / 100 == pytest.approx(found.estimate[column, at], abs=6e-4)
            assert low <= found.low[column, at] + 1e-9
            assert high >= found.high[column, at] - 1e-9
            width = found.high[column, at] - found.low[column, at]
            least = release.values(("age",)).estimate.min()  # of the wholes: a step of noise is so much of it
            assert high - low <= 1.1 * width + 4 / least + 2 * 10 ** -(2 + len(value.partition(".")[2][:1]))


def test_what_is_not_determined_is_said_to_be(watch: Watch, tmp_path: Path) -> None:
    nothing = example("0.5", counts=0)
    nothing.save(tmp_path / "out")
    seen = watch()
    page = seen.open(f"{(tmp_path / 'out' / 'index.html').as_uri()}#axes=1,0&percent=table")
    assert {value for line in texts(page) for value, _ in line} == {"not determined"}
    assert page.locator("figure svg .mark").count() == 0
    page.select_option("#percent", "none")
    assert page.locator(".pivot tbody td:not(.unsure)").count() == 0
    for view in ("dots", "heat", "multiples"):
        page.locator(f"#view-{view}").check(force=True)
    assert seen.complaints == []


def test_whole_numbers_have_the_intervals_of_counts_and_known_totals_no_margin(watch: Watch, tmp_path: Path) -> None:
    """A whole number need not be in the middle of the interval, so no margin is said of it."""
    made = example().knowing(Facts(records=2_483))
    whole = WholeRelease(made, "fast", None, lambda table: np.full(made.estimates(table).shape, 23), intervals=True)
    whole.save(tmp_path / "out")
    seen = watch()
    page = seen.open(f"{(tmp_path / 'out' / 'index.html').as_uri()}#axes=1,0")
    assert texts(page)[-1][-1] == ["2,483", ""]  # publicly known
    assert "Counts below zero are small counts" in page.inner_text(".notes")
    page.select_option("#numbers", "whole")
    least, largest = whole.count_intervals(("sex", "age"))
    for at, line in enumerate(texts(page)[:-1]):
        for column, (value, interval) in enumerate(line[:-1]):
            low, high = map(number, interval.split(" to "))
            assert value == "23"
            assert 0 <= low <= 23 <= high
            assert low <= least[column, at] <= low + 1
            assert high - 1 <= largest[column, at] <= high
    notes = page.inner_text(".notes")
    assert "in the interval of the estimate, widened to hold the number" in notes
    assert "± is the margin" not in notes
    assert seen.complaints == []


def test_flags_follow_the_publisher(watch: Watch, address: str, release: pc.Release, tmp_path: Path) -> None:
    def flagged(where: str) -> tuple[int, int, str]:
        page = watch().open(f"{where}#axes=1,0")
        single = ".pivot td[tabindex]"
        return (
            page.locator(f"{single} .flag").count(),
            page.locator(f"{single}.unsure").count(),
            page.inner_text(".notes"),
        )

    stricter = release.with_words(replace(release.words, reliability=0.01))
    stricter.save(tmp_path / "out")
    assert all(check.passed for check in pc.verify(tmp_path / "out"))
    for made, where, most in (
        (release, address, "30 %"),
        (stricter, (tmp_path / "out" / "index.html").as_uri(), "1 %"),
    ):
        trust = published(made, made.values(("sex", "age"))).reliability()
        assert flagged(where)[:2] == (trust.count("uncertain"), trust.count("holds zero"))
        assert most in flagged(where)[2]
    assert "uncertain" in trust


def test_sums_and_means_of_a_measure(watch: Watch, tmp_path: Path) -> None:
    schema = pc.Schema(
        [pc.Attribute("sex", values=["f", "m"]), pc.Measure("hours", low=0, high=100, step=1, missing="category")]
    )
    wanted = pc.Workload.tables(schema, [("sex",), ("sex", pc.Axis("hours", queries="sum"))])
    made = pc.plan(wanted, pc.PureDP(1), "marginals")
    rows = np.full(made.rows, 40_000)
    words = pc.Words(attributes={"hours": pc.AttributeWords(unit="hours a week")})
    release = pc.Release(Measurements(made, rows), words=words)
    release.save(tmp_path / "out")
    table = release.table(("sex", pc.Axis("hours", queries="sum")))
    seen = watch()
    page = seen.open((tmp_path / "out" / "index.html").as_uri() + "#axes=0")
    titles = page.locator("#quantity option").all_inner_texts()
    assert titles == ["Count", "Sum of hours", "Mean of hours", "Records with a number for hours"]
    page.select_option("#quantity", label="Mean of hours")
    for (value, interval), row in zip([line[0] for line in texts(page)], table.to_dict("records"), strict=True):
        assert number(value) == pytest.approx(row["mean"], abs=0.1 * (row["mean_high"] - row["mean_low"]))
        low, high = map(number, interval.split(" to "))
        assert low <= row["mean_low"] + 1e-9 <= row["mean_high"] <= high + 1e-9
    page.locator(".pivot tbody td[tabindex]").nth(0).click()
    page.locator(".pivot tbody td[tabindex]").nth(1).click()
    assert "The difference may be noise." in page.inner_text(".verdict")
    assert page.locator("#percent").count() == 0
    assert page.inner_text(".summary").startswith("Mean of hours (hours a week), from")
    page.select_option("#quantity", label="Sum of hours")
    assert page.inner_text(".summary").startswith("Sum of hours (hours a week), with")
    assert "small counts" not in page.inner_text(".notes")
    assert len(texts(page)) == 3  # sums add up, means do not
    found = re.search(r"([\d,.]+) ± ([\d,.]+) more", page.inner_text(".verdict"))
    assert found is not None
    weights = np.array([1.0, -1.0]).reshape(2, 1)
    width = 100 * release._predictor.query_law(("sex", pc.Axis("hours", queries="sum")), weights).half_width(0.95)
    assert width - 1 <= number(found[2]) <= 1.12 * width + 200  # not twice a margin
    page.select_option("#quantity", label="Records with a number for hours")
    counts = release.estimates(("sex", pc.Axis("hours", queries="count"))).tolist()
    assert [number(line[0][0]) for line in texts(page)] == pytest.approx([*counts, sum(counts)], abs=1)
    page.select_option("#percent", "table")
    assert [line[0][0] for line in texts(page)][-1].startswith("100")
    assert all(check.passed for check in pc.verify(tmp_path / "out"))
    assert seen.complaints == []


def test_two_numbers_are_compared_and_any_added_up(watch: Watch, address: str, release: pc.Release) -> None:
    seen = watch()
    page = seen.open(f"{address}#axes=1,0")
    page.evaluate("window.before = [document.querySelector('.pivot'), document.querySelector('#sort')]")
    page.locator(".pivot tbody td[tabindex]").nth(0).click()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    picked = page.locator(".verdict").inner_text()
    assert page.evaluate("window.before.every((own) => own.isConnected)")  # picking draws nothing anew
    assert page.locator("td[aria-selected=true].picked").count() == 2
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
    assert page.evaluate("window.before.map((own) => own.isConnected)") == [False, True]  # the table, not the controls
    assert "interval=all" in page.locator("nav a", has_text="Codebook").get_attribute("href")
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
