"""What reaches the terminal: aligned columns, escapes, progress without numbers of records. The example's records."""

from __future__ import annotations

import io
import json
import signal
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from privcube import Schema, Spec
from privcube.cli import progress as display
from privcube.cli.example import EXAMPLE
from privcube.cli.hospital import discharges
from privcube.cli.output import percent, places_for, say_columns, say_json
from privcube.cli.progress import Progress
from privcube.model.amounts import shown_down
from privcube.progress import Enough

Said = Callable[..., str]
Write = Callable[..., Path]


def test_columns_are_aligned_for_wide_and_combining_letters(capsys: pytest.CaptureFixture[str]) -> None:
    say_columns(("name", "n"), [("性別", "1"), ("e\u0301a", "20"), ("plain", "300")])
    assert capsys.readouterr().out.splitlines() == ["name     n", "性別     1", "e\u0301a      20", "plain  300"]


def test_columns_show_escapes_and_are_aligned_with_them(capsys: pytest.CaptureFixture[str]) -> None:
    say_columns(("name", "n"), [("a\x1b[31m", "1"), ("b", "2")])
    assert capsys.readouterr().out.splitlines() == ["name       n", "a\\x1b[31m  1", "b          2"]


def test_json_is_ascii(capsys: pytest.CaptureFixture[str]) -> None:
    document = {"a\x9b\u202e性": ["\x1b", 1.5]}
    say_json(document)
    text = capsys.readouterr().out
    assert text.isascii()
    assert text.replace("\n", "").isprintable()
    assert json.loads(text) == document


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.95, "95%"), (0.999, "99.9%"), (0.9999, "99.99%"), (0.5, "50%"), (1.48, "148%"), (12.0, "1,200%"),
     (0.0998, "10%"), (0.098, "9.8%"), (0.00123, "0.12%")],
)  # fmt: skip
def test_percent(share: float, text: str) -> None:
    assert percent(share) == text


def test_decimal_places_follow_the_error() -> None:
    assert [places_for(error) for error in (0.0, 0.01, 0.99, 1.0, 99.0, 100.0, 1e9)] == [1, 2, 2, 1, 1, 0, 0]


@pytest.mark.parametrize("amount", [Fraction(2, 3), Fraction(1, 10**9), Fraction(10**7, 3), Fraction(3), Fraction(0)])
def test_what_is_left_is_never_overstated(amount: Fraction) -> None:
    shown = Fraction(shown_down(amount))
    assert shown <= amount
    assert amount - shown <= amount / 10**5


# Progress


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> _Terminal:
    """Standard error as a terminal, with a clock that moves a second at every look."""
    screen, now = _Terminal(), iter(range(1000))
    monkeypatch.setattr(display, "sys", SimpleNamespace(stderr=screen))
    monkeypatch.setattr(display.time, "monotonic", lambda: float(next(now)))
    return screen


def test_progress_shows_shares_and_is_gone_in_the_end(terminal: _Terminal) -> None:
    with Progress() as progress:
        progress("reading records", 123456, None)
        progress("reading records", 234567, None)
        progress("counting tables", 1, 4)
        progress("counting tables", 2, 4)
        progress("counting tables", 4, 4)
    frames = terminal.getvalue().split("\r\x1b[K")
    assert frames[0] == ""
    assert frames[1:3] == ["reading records /", "reading records -"]
    assert frames[3] == "counting tables [#######-----------------------] 25%"
    assert frames[4] == "counting tables [###############---------------] 50%, about 2 s left"
    assert frames[-1] == ""
    assert "123456" not in terminal.getvalue()


def test_progress_is_not_shown_too_often(terminal: _Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(display.time, "monotonic", lambda: 1.0)
    with Progress() as progress:
        for done in range(1, 100):
            progress("counting tables", done, 1000)
    assert terminal.getvalue().count("counting tables") == 1


def test_time_left_is_that_of_a_stage_that_is_taken_up_again(terminal: _Terminal) -> None:
    with Progress() as progress:
        progress("checking tables", 0, 100)
        progress("checking tables", 60, 100)
        progress("recovering tables", 0, 5)
        progress("checking tables", 60, 100)
        progress("checking tables", 70, 100)
    assert terminal.getvalue().split("\r\x1b[K")[-2].endswith("70%, about 3 s left")


def test_commands_show_bars_on_a_terminal(said: Said, ready: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And say the same as without one."""
    plain = said("release", "spec.toml", "--output", "plain"), said("verify", "plain")
    screen = _Terminal()
    monkeypatch.setattr(display, "sys", SimpleNamespace(stderr=screen))
    for command, stages in {
        "release spec.toml --output shown": ["planning", "adding noise", "recovering tables [", "writing tables [",
                                             "syncing files ["],
        "verify shown": ["recovering tables [", "checking tables ["],
        "export shown --format csv --to t.csv": ["recovering tables [", "working out errors [", "writing tables ["],
    }.items():  # fmt: skip
        screen.truncate(0)
        text = said(*command.split())
        frames = screen.getvalue().split("\r\x1b[K")
        assert [stage for stage in stages if not any(frame.startswith(stage) for frame in frames)] == []
        assert any("100%" in frame for frame in frames)
        assert frames[-1] == ""
        if command.startswith("verify"):
            assert len(text.splitlines()) == len(plain[1].splitlines())
    assert "Published   plain" in plain[0]


def test_progress_is_for_terminals_only(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress() as progress:
        progress("counting tables", 1, 2)
    assert capsys.readouterr().err == ""


# Sources


@pytest.mark.parametrize("kind", ["people.csv.gz", "part-*.csv", "people.tsv", "people.parquet", "people.duckdb"])
def test_release_from_every_kind_of_file(said: Said, ready: Path, write_spec: Write, kind: str) -> None:
    import duckdb

    data = f'source = "{kind}"'
    with duckdb.connect() as connection:
        connection.execute(f"CREATE VIEW people AS FROM read_csv('{ready}/people.csv', all_varchar = true)")
        if kind == "part-*.csv":
            for part, rows in (("1", "age < '5'"), ("2", "age >= '5'")):
                connection.execute(f"COPY (FROM people WHERE {rows}) TO '{ready}/part-{part}.csv'")
        elif kind == "people.duckdb":
            connection.execute(f"ATTACH '{ready}/people.duckdb' AS other; CREATE TABLE other.people AS FROM people")
            data += '\ntable = "people"'
        else:
            options = {"people.tsv": "(DELIMITER '\t')"}.get(kind, "")
            connection.execute(f"COPY people TO '{ready}/{kind}' {options}")
    (ready / "people.csv").unlink()
    write_spec(data=data, privacy='epsilon = "100"', plan='strategy = "marginals"')
    said("release", "spec.toml")
    estimates = [row["estimate"] for row in json.loads(said("show", "out", "sex", "--json"))["rows"]]
    assert estimates == pytest.approx([500, 500], abs=5)


# The example


def test_the_example_s_records_fit_its_spec_and_hang_together() -> None:
    spec, columns = Spec.from_toml(EXAMPLE), discharges()
    assert set(columns) == {spec.data.person, *spec.schema.names}
    assert len(spec.schema) == 8
    _require_declared(spec.schema, columns)
    again = discharges()
    assert all(np.array_equal(column, again[name]) for name, column in columns.items())
    births = columns["diagnosis"] == "birth"
    assert set(columns["sex"][births]) == {"female"}
    assert columns["age"][births].min() >= 15
    old = columns["age"] >= 75
    died = columns["outcome"] == "died"
    assert died[old].mean() > 2 * died[~old].mean()
    _, stays = np.unique(columns["patient_id"], return_counts=True)
    assert set(stays) == {1, 2, 3}


def _require_declared(schema: Schema, columns: dict[str, np.ndarray]) -> None:
    """Only sex and diagnosis have values that are not declared, and these are counted as (other) or (missing)."""
    for attribute in schema:
        values = set(columns[attribute.name].tolist())
        if attribute.bins is not None:
            assert min(values) >= attribute.bins[0]
        else:
            odd = values - set(attribute.labels)
            assert odd == {"sex": {"other", ""}, "diagnosis": {"eyes"}}.get(attribute.name, set())


@pytest.fixture
def interrupts() -> Iterator[None]:
    """Interrupts as on a terminal: under nohup and in the background of a script, processes ignore them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def _press() -> None:
    signal.raise_signal(signal.SIGINT)


@pytest.mark.usefixtures("interrupts")
def test_the_first_interrupt_ends_a_search_and_the_next_one_the_command(terminal: _Terminal) -> None:
    with Progress() as progress, progress.stopping_early():
        progress("planning", 0, 100)
        _press()
        with pytest.raises(Enough):
            progress("planning", 1, 100)
        with pytest.raises(KeyboardInterrupt):
            _press()
    assert "stopped early: this is the best plan so far\n" in terminal.getvalue()


@pytest.mark.usefixtures("interrupts")
def test_an_interrupt_of_other_stages_is_one(terminal: _Terminal) -> None:
    with Progress() as progress, progress.stopping_early():
        for stage, total in (("counting tables", 9), ("planning", None)):
            progress(stage, 0, total)
            with pytest.raises(KeyboardInterrupt):
                _press()
    assert "stopped early" not in terminal.getvalue()


@pytest.mark.usefixtures("interrupts")
def test_an_interrupt_breaks_off_the_comparison_of_strategies_at_once(terminal: _Terminal) -> None:
    with Progress() as progress, progress.stopping_early():
        progress("trying strategies", 1, 9)
        with pytest.raises(Enough):
            _press()
        with pytest.raises(Enough):
            progress("planning", 0, 100)
    assert "stopped early" in terminal.getvalue()

    def without_a_plan_to_take() -> None:
        with Progress() as progress, progress.stopping_early():
            progress("trying strategies", 1, 9)
            _press()

    with pytest.raises(KeyboardInterrupt):
        without_a_plan_to_take()


def test_interrupts_that_are_ignored_stay_so(terminal: _Terminal, interrupts: None) -> None:
    """No hint of what Ctrl-C would do either."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Progress() as progress, progress.stopping_early():
        for done in range(6):
            progress("planning", done, 100)
            _press()
    assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    assert "Ctrl-C" not in terminal.getvalue()


@pytest.mark.usefixtures("interrupts")
def test_how_to_stop_is_told_when_a_search_takes_long(terminal: _Terminal) -> None:
    with Progress() as progress:
        with progress.stopping_early():
            for done in range(6):
                progress("planning", done, 100)
        progress("planning", 7, 100)
    frames = terminal.getvalue().split("\r\x1b[K")
    assert [frame.endswith("; Ctrl-C takes the best so far") for frame in frames[1:8]] == [False] * 3 + [True] * 3 + [
        False
    ]
