"""The rules: sums are exact, steps have an order, and no chain that breaks a rule is read."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import FrozenInstanceError
from datetime import UTC, datetime
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privcube import ZCDP, ApproxDP, PureDP
from privcube.errors import GuaranteeError, LedgerError
from privcube.model.privacy.guarantee import Guarantee
from privcube.sensitive.ledger.account import Account, Row, opening

PLAN, ARTIFACT = "a" * 64, "b" * 64
TIME = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
STAMP = "2030-01-02T03:04:05+00:00"


def opened(total: Guarantee) -> Row:
    return opening("people-2030", total, salt="00", time=TIME)


def chain(*documents: dict[str, Any]) -> list[Row]:
    """Rows with right hashes, whatever they say; the rule is written out once more here."""
    rows: list[Row] = []
    for sequence, document in enumerate(documents):
        previous = rows[-1].hash if rows else ""
        event = json.dumps({"time": STAMP, **document}, sort_keys=True, separators=(",", ":"))
        digest = hashlib.sha256(f"{sequence}\n{previous}\n{event}".encode()).hexdigest()
        rows.append(Row(sequence, previous, event, digest))
    return rows


def guarantee(**amounts: str) -> dict[str, Any]:
    return {"amounts": amounts, "neighbors": "add_remove", "max_rows_per_person": 1}


OPENED = {
    "event": "opened",
    "format": "privcube ledger 2",
    "dataset": "people-2030",
    "total": guarantee(epsilon="1"),
    "capacity": "1/1",
    "salt": "00",
}
RESERVED = {
    "event": "reserved",
    "number": 1,
    "plan": PLAN,
    "guarantee": guarantee(epsilon="0.6"),
    "cost": "3/5",
}
COMMITTED = {"event": "committed", "number": 1, "artifact": ARTIFACT, "staged": "s", "final": "f"}
PUBLISHED = {"event": "published", "number": 1}
ABANDONED = {"event": "abandoned", "number": 1}


# Sums


def test_ten_thousand_random_splits_fit_exactly_and_nothing_more() -> None:
    dice = random.Random(1)
    parts = [dice.randint(1, 10**6) for _ in range(10_000)]
    whole = sum(parts)
    account = Account("ledger", [opened(PureDP(1))])
    for part in parts:
        account.reserve(PLAN, PureDP(Fraction(part, whole)), TIME)
    assert account.left == 0
    assert len(account.entries) == 10_000
    with pytest.raises(GuaranteeError, match=r"at most what is left, 0, given one that costs 1E-12"):
        account.reserve(PLAN, PureDP("1e-12"), TIME)


# Totals in (epsilon, delta)


EXACT, ZCDP_ONE = (ApproxDP(1, "1e-6", calibration=calibration) for calibration in ("exact", "zcdp"))


def test_a_release_at_the_exact_price_takes_a_whole_total_whenever_that_was_opened() -> None:
    for total in (EXACT, ZCDP_ONE):
        first = opened(total)
        account = Account("ledger", [first])
        row = account.reserve(PLAN, EXACT, TIME)
        assert json.loads(row.event)["currency"] == "mu^2"
        assert json.loads(row.event)["cost"] == f"{EXACT.mu_squared.numerator}/{EXACT.mu_squared.denominator}"
        again = Account("ledger", [first, row])
        assert again.spending == account.spending
        assert again.entries[1].guarantee == EXACT
        assert (again.left, again.spending.sums) == (0, "mu^2")
        with pytest.raises(GuaranteeError, match=r"what is left, mu\^2 0, given"):
            again.reserve(PLAN, EXACT.with_amount("0.001"), TIME)


def test_discrete_noise_is_still_paid_in_rho() -> None:
    """Also under a total that was opened for the exact price; and events say nothing about it, as they never did."""
    for total in (EXACT, ZCDP_ONE):
        account = Account("ledger", [opened(total)])
        row = account.reserve(PLAN, ZCDP_ONE, TIME)
        assert "currency" not in row.event
        assert json.loads(row.event)["cost"] == f"{ZCDP_ONE.rho.numerator}/{ZCDP_ONE.rho.denominator}"
        assert (account.left, account.spending.sums) == (0, "rho")


def test_pure_releases_add_up_where_nothing_else_would_hold_them() -> None:
    for total in (EXACT, ZCDP_ONE):
        first = opened(total)
        account = Account("ledger", [first])
        rows = [account.reserve(PLAN, PureDP("0.25"), TIME) for _ in range(4)]
        again = Account("ledger", [first, *rows])
        assert (again.left, again.spending.account.currency) == (0, "epsilon")
        assert all(entry.cost > 0 for entry in again.entries.values())  # in rho or mu^2, as stated
        for more in (PureDP("1e-9"), total.with_amount("0.001")):
            with pytest.raises(GuaranteeError):
                again.reserve(PLAN, more, TIME)


def test_what_old_ledgers_admit_is_admitted() -> None:
    """Random releases, held against the rule of old: rho adds up, pure epsilons count as half their squares."""
    dice, admitted = random.Random(3), 0
    for _ in range(60):
        account, left = Account("ledger", [opened(ZCDP_ONE)]), ZCDP_ONE.rho
        for _ in range(6):
            epsilon = Fraction(dice.randint(1, 80), 100)
            kind = dice.choice(["pure", "approx", "zcdp"])
            approx = ApproxDP(epsilon, "1e-7", calibration="zcdp")
            spent = {"pure": PureDP(epsilon / 5), "approx": approx, "zcdp": ZCDP(epsilon / 100)}[kind]
            price = epsilon**2 / 50 if kind == "pure" else approx.rho if kind == "approx" else epsilon / 100
            if price <= left:
                left -= price
                account.reserve(PLAN, spent, TIME)
                admitted += 1
                rho = next(each for each in account.spending.accounts if each.currency == "rho")
                assert rho.left == left
    assert admitted > 100


def test_an_event_in_another_currency_is_found() -> None:
    account = Account("ledger", [opened(EXACT)])
    row = account.reserve(PLAN, EXACT.with_amount("0.5"), TIME)
    document = json.loads(row.event)
    half = {**document, "cost": "1/1000000"}
    unnamed = {name: value for name, value in document.items() if name != "currency"}
    discrete = {**document, "guarantee": {**document["guarantee"]}}
    del discrete["guarantee"]["calibration"]
    for changed in (half, unnamed, discrete, {**document, "currency": "rho"}):
        event = json.dumps(changed, sort_keys=True, separators=(",", ":"))
        digest = hashlib.sha256(f"1\n{row.previous}\n{event}".encode()).hexdigest()
        with pytest.raises(LedgerError):
            Account("ledger", [opened(EXACT), Row(1, row.previous, event, digest)])


AMOUNTS = st.fractions(Fraction(1, 10**9), 10**3, max_denominator=10**12)
DELTAS = st.sampled_from(["1e-9", "1e-6", "1/3000"])
UNITS = st.fixed_dictionaries(
    {"neighbors": st.sampled_from(["add_remove", "replace_one"]), "max_rows_per_person": st.integers(1, 10**9)}
)
GUARANTEES = st.one_of(
    st.builds(lambda amount, unit: PureDP(amount, **unit), AMOUNTS, UNITS),
    st.builds(lambda amount, unit: ZCDP(amount, **unit), AMOUNTS, UNITS),
    st.builds(lambda amount, delta, unit: ApproxDP(amount, delta, **unit), st.just(Fraction(1, 3)), DELTAS, UNITS),
)


@given(GUARANTEES)
def test_every_guarantee_is_rebuilt_exactly(total: Guarantee) -> None:
    first = opened(total)
    account = Account("ledger", [first])
    row = account.reserve(PLAN, total, TIME)
    again = Account("ledger", [first, row])
    assert again.total == total
    assert again.entries[1].guarantee == total
    assert again.left == account.left == 0


def test_a_pure_release_of_many_digits_is_paid_in_rho() -> None:
    epsilon = Fraction(10**57 + 1, 3**120)
    account = Account("ledger", [opened(ZCDP(1))])
    row = account.reserve(PLAN, PureDP(epsilon), TIME)
    assert Account("ledger", [opened(ZCDP(1)), row]).left == account.left == 1 - epsilon**2 / 2


def test_what_is_left_is_rounded_down() -> None:
    account = Account("ledger", [opened(PureDP(1))])
    account.reserve(PLAN, PureDP("1/3"), TIME)
    with pytest.raises(GuaranteeError, match=r"left, 0\.666666, given one that costs 0\.666667"):
        account.reserve(PLAN, PureDP("0.666667"), TIME)
    assert account.left == Fraction(2, 3)
    account.reserve(PLAN, PureDP("2/3"), TIME)


@pytest.mark.parametrize(
    "spent",
    [ZCDP("0.1"), PureDP("0.1", neighbors="replace_one"), PureDP("0.1", max_rows_per_person=2)],
)
def test_what_cannot_be_added_is_refused(spent: Guarantee) -> None:
    account = Account("ledger", [opened(PureDP(1))])
    with pytest.raises(GuaranteeError):
        account.reserve(PLAN, spent, TIME)
    assert (account.left, account.entries) == (1, {})


def test_a_total_without_exact_accounting_is_refused() -> None:
    with pytest.raises(GuaranteeError, match="calibration"):
        opened(ApproxDP(1, "1e-6", calibration="classic"))


# Steps

STEPS = ["commit", "publish", "abandon"]
WAYS = {
    (): "reserved",
    ("commit",): "committed",
    ("abandon",): "abandoned",
    ("commit", "publish"): "published",
    ("commit", "abandon"): "abandoned",
}


def take(account: Account, step: str, number: int = 1) -> Row:
    if step == "commit":
        return account.commit(number, ARTIFACT, "s", "f", TIME)
    return account.publish(number, TIME) if step == "publish" else account.abandon(number, TIME)


@pytest.mark.parametrize("way", WAYS)
def test_these_steps_are_allowed_and_all_others_refused(way: tuple[str, ...]) -> None:
    account = Account("ledger", [opened(PureDP(1))])
    account.reserve(PLAN, PureDP("0.6"), TIME)
    for step in way:
        take(account, step)
    entry = account.entries[1]
    assert entry.state == WAYS[way]
    assert list(entry.times.values()) == [TIME] * (len(way) + 1)
    assert (entry.artifact, entry.staged, entry.final) == ((ARTIFACT, "s", "f") if "commit" in way else (None,) * 3)
    for step in STEPS:
        if (*way, step) not in WAYS:
            with pytest.raises(LedgerError, match=rf"release 1: expected to be .* before it is .*'{entry.state}'"):
                take(account, step)
    assert account.entries[1] == entry
    assert account.left == Fraction(4, 10)  # nothing is given back


@pytest.mark.parametrize("step", STEPS)
def test_a_release_that_does_not_exist(step: str) -> None:
    account = Account("ledger", [opened(PureDP(1))])
    with pytest.raises(LedgerError, match=r"release 1: .* given 'no such release'"):
        take(account, step)


@pytest.mark.parametrize("digest", ["", "a" * 63, "A" * 64, "a" * 64 + "\n", None, b"a" * 64])
def test_digests_are_digests(digest: Any) -> None:
    account = Account("ledger", [opened(PureDP(1))])
    with pytest.raises(LedgerError, match="plan: expected a SHA-256 digest"):
        account.reserve(digest, PureDP("0.1"), TIME)
    account.reserve(PLAN, PureDP("0.1"), TIME)
    with pytest.raises(LedgerError, match="artifact: expected a SHA-256 digest"):
        account.commit(1, digest, "s", "f", TIME)


# Chains


FORMATS = {
    "named by its source": (
        {**OPENED, "format": "privcube ledger 1", "dataset": "people.csv"},
        RESERVED,
        "4be5a4d5813ab2b6e9403714ad74dbb6db448e6b82fa02550cc64a78e91ff231",
    ),
    "named by its data set": (
        OPENED,
        {**RESERVED, "source": "january.csv"},
        "0036392a46e2e938d77a4bedff86e6f14c36e18d68ae0c4053b35563d91073b6",
    ),
}


@pytest.mark.parametrize(("first", "second", "head"), FORMATS.values(), ids=FORMATS)
def test_the_formats_are_what_they_were(first: dict[str, Any], second: dict[str, Any], head: str) -> None:
    """Ledgers outlive versions: these bytes must be read for good."""
    rows = chain(first, second, COMMITTED, PUBLISHED)
    assert rows[-1].hash == head
    account = Account("ledger", rows)
    assert (account.entries[1].state, account.entries[1].source) == ("published", second.get("source"))
    assert account.entries[1].head == rows[1].hash
    assert account.hashes == [row.hash for row in rows]
    again = Account("ledger", rows[:1])
    assert again.reserve(PLAN, PureDP("0.6"), TIME, second.get("source")) == rows[1]
    assert again.commit(1, ARTIFACT, "s", "f", TIME) == rows[2]
    assert again.publish(1, TIME) == rows[3]
    assert account.reserve(PLAN, PureDP("0.4"), TIME, "february.csv").sequence == 4
    assert account.entries[2].source == "february.csv"


def test_a_new_ledger_has_the_new_format() -> None:
    assert opened(PureDP(1)) == chain(OPENED)[0]
    with pytest.raises(LedgerError, match="data set: expected a name of a to z"):
        opening("People of 2030.csv", PureDP(1), salt="", time=TIME)
    with pytest.raises(LedgerError, match="data set: expected a name of a to z"):
        Account("ledger", chain({**OPENED, "dataset": "People of 2030.csv"}))


SECOND = {**RESERVED, "number": 2, "guarantee": guarantee(epsilon="0.4"), "cost": "2/5"}
FORGED = {
    "published before it was committed": (OPENED, RESERVED, PUBLISHED),
    "committed twice": (OPENED, RESERVED, COMMITTED, COMMITTED),
    "published after it was abandoned": (OPENED, RESERVED, COMMITTED, ABANDONED, PUBLISHED),
    "abandoned after it was published": (OPENED, RESERVED, COMMITTED, PUBLISHED, ABANDONED),
    "committed before it was reserved": (OPENED, COMMITTED),
    "overspent": (
        OPENED,
        RESERVED,
        {**SECOND, "guarantee": guarantee(epsilon="0.400000000001"), "cost": "400000000001/1000000000000"},
    ),
    "a cost below that of its guarantee": (OPENED, {**RESERVED, "cost": "1/5"}),
    "a cost above that of its guarantee": (OPENED, {**RESERVED, "cost": "4/5"}),
    "a cost in other terms": (OPENED, {**RESERVED, "cost": "6/10"}),
    "a capacity above that of its total": ({**OPENED, "capacity": "9/1"},),
    "a release in another currency": (OPENED, {**RESERVED, "guarantee": guarantee(rho="0.6")}),
    "an amount in another spelling": (OPENED, {**RESERVED, "guarantee": guarantee(epsilon="0.60")}),
    "an amount that is a number": (OPENED, {**RESERVED, "guarantee": {**guarantee(), "amounts": {"epsilon": 0.6}}}),
    "a guarantee with a field too many": (OPENED, {**RESERVED, "guarantee": {**guarantee(epsilon="0.6"), "x": 1}}),
    "a plan that is no digest": (OPENED, {**RESERVED, "plan": "a"}),
    "an artifact that is no digest": (OPENED, RESERVED, {**COMMITTED, "artifact": "B" * 64}),
    "a salt that is none": ({**OPENED, "salt": "rows: 1000"},),
    "a source that is none": (OPENED, {**RESERVED, "source": None}),
    "a source where none belongs": (OPENED, RESERVED, {**COMMITTED, "source": "people.csv"}),
    "a time in another zone": (OPENED, {**RESERVED, "time": "2030-01-02T05:04:05+02:00"}),
    "a time without a zone": (OPENED, {**RESERVED, "time": "2030-01-02T03:04:05"}),
    "a number twice": (OPENED, RESERVED, {**SECOND, "number": 1}),
    "a number left out": (OPENED, RESERVED, {**SECOND, "number": 3}),
    "opened twice": (OPENED, OPENED),
    "never opened": (RESERVED,),
    "another unit": (OPENED, {**RESERVED, "guarantee": {**guarantee(epsilon="0.6"), "max_rows_per_person": 2}}),
    "a negative cost": (OPENED, {**RESERVED, "cost": "-3/5"}),
    "no cost": (OPENED, {**RESERVED, "cost": "0/5"}),
    "a cost that is no number": (OPENED, {**RESERVED, "cost": "3/0"}),
    "a cost in decimals": (OPENED, {**RESERVED, "cost": "1e-9"}),
    "an amount that is no number": (OPENED, {**RESERVED, "guarantee": guarantee(epsilon="much")}),
    "a number that is a truth value": (OPENED, {**RESERVED, "number": True}),
    "a field too many": (OPENED, {**RESERVED, "refund": "1/1"}),
    "a field too few": (OPENED, {key: value for key, value in RESERVED.items() if key != "plan"}),
    "an unknown event": (OPENED, {**RESERVED, "event": "refunded"}),
    "an event that is a list": (OPENED, {**RESERVED, "event": ["reserved"]}),
    "a time that is none": (OPENED, {**RESERVED, "time": "noon"}),
}


@pytest.mark.parametrize("documents", FORGED.values(), ids=FORGED)
def test_a_chain_that_breaks_a_rule_is_refused_at_its_last_event(documents: tuple[dict[str, Any], ...]) -> None:
    """Even if all its hashes are right."""
    rows = chain(*documents)
    if len(rows) > 1:
        Account("ledger", rows[:-1])
    with pytest.raises(LedgerError, match=rf"ledger(, event {len(rows) - 1}\b|: expected the format)"):
        Account("ledger", rows)


def test_a_number_left_out_is_named() -> None:
    with pytest.raises(LedgerError, match="event 2: expected release 2, given 3"):
        Account("ledger", chain(OPENED, RESERVED, {**SECOND, "number": 3}))


def test_an_entry_stays_what_it_is() -> None:
    entry = Account("ledger", chain(OPENED, RESERVED)).entries[1]
    with pytest.raises(FrozenInstanceError):
        entry.cost = Fraction(0)  # type: ignore[misc]


def test_a_chain_that_spends_all_is_read() -> None:
    """The one above would mean nothing if the chain that overspends by little were refused for another reason."""
    assert Account("ledger", chain(OPENED, RESERVED, SECOND)).left == 0


def test_a_later_format_is_refused_as_such() -> None:
    with pytest.raises(LedgerError, match=r"expected the format 'privcube ledger 2', .* given 'privcube ledger 3'"):
        Account("ledger", chain({**OPENED, "format": "privcube ledger 3", "more": 1}))


SPELLINGS = {
    "a key twice": lambda event: event.replace('"cost":"3/5"', '"cost":"1/5","cost":"3/5"'),
    "a space": lambda event: event.replace(":", ": ", 1),
    "a line break at the end": lambda event: event + "\n",
    "another order": lambda event: json.dumps(dict(reversed(json.loads(event).items())), separators=(",", ":")),
    "an escape": lambda event: event.replace("reserved", r"\u0072eserved"),
    "a number with an exponent": lambda event: event.replace('"number":1', '"number":1e0'),
    "a true number": lambda event: event.replace('"max_rows_per_person":1', '"max_rows_per_person":true'),
}


@pytest.mark.parametrize("spelled", SPELLINGS.values(), ids=SPELLINGS)
def test_an_event_has_one_spelling(spelled: Callable[[str], str]) -> None:
    """Another one would be read as the same event, with bytes that mean nothing: its hash is right."""
    first, second = chain(OPENED, RESERVED)
    event = spelled(second.event)
    assert event != second.event
    digest = hashlib.sha256(f"1\n{first.hash}\n{event}".encode()).hexdigest()
    with pytest.raises(LedgerError, match="event 1: expected an event of a ledger"):
        Account("ledger", [first, Row(1, first.hash, event, digest)])


@pytest.mark.parametrize("event", ["", "null", "[]", "3", '"x"', "{", "[" * 10**5, None, 7, b"x"])
def test_an_event_that_is_none(event: Any) -> None:
    first = opened(PureDP(1))
    digest = hashlib.sha256(f"1\n{first.hash}\n{event}".encode()).hexdigest()
    with pytest.raises(LedgerError, match="event 1: expected"):
        Account("ledger", [first, Row(1, first.hash, event, digest)])


HOSTILE = [
    None, True, -1, 0, 7, 1.5, float("nan"), float("inf"), 10**400, "", "x", "\udc80", "\0", "1/0", "1e999999999", "-1",
    "9" * 5000, "0" * 64, [], [[]], {}, {"": None}, {"epsilon": "1"}, {"amounts": {}}, "privcube ledger 1",
]  # fmt: skip


def with_hostile_values(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every field at every depth replaced by every value, removed, and joined by another one."""
    for name, value in document.items():
        yield {each: known for each, known in document.items() if each != name}
        for hostile in HOSTILE:
            yield {**document, name: hostile}
        for inner in with_hostile_values(value) if isinstance(value, dict) else ():
            yield {**document, name: inner}
    for hostile in HOSTILE:
        yield {**document, "more": hostile}


def test_hostile_events_are_refused_in_our_words_or_cost_the_same() -> None:
    """Hashes are right; free text alone may differ: folders, the source, the salt, the name of an old ledger."""
    documents = [{**OPENED, "format": "privcube ledger 1"}, {**RESERVED, "source": "a.csv"}, COMMITTED, PUBLISHED]
    tried = read = 0
    for place, document in enumerate(documents):
        for hostile in with_hostile_values({"time": STAMP, **document}):
            tried += 1
            try:
                account = Account("ledger", chain(*documents[:place], hostile, *documents[place + 1 :]))
            except LedgerError:
                continue
            read += 1
            assert account.total == PureDP(1)
            assert account.left == Fraction(4, 10)
            assert (account.entries[1].plan, account.entries[1].artifact) in (
                (PLAN, ARTIFACT),
                ("0" * 64, ARTIFACT),
                (PLAN, "0" * 64),
            )
    assert tried > 1000
    assert 20 < read < 100


GOOD = chain(OPENED, RESERVED, COMMITTED, PUBLISHED, SECOND)


def test_every_changed_character_is_found() -> None:
    """In every column of every row; the first bad event is named."""
    Account("ledger", GOOD)
    for number, row in enumerate(GOOD):
        for column in ("previous", "event", "hash"):
            text = getattr(row, column)
            for place in range(len(text)):
                changed = text[:place] + chr(ord(text[place]) ^ 1) + text[place + 1 :]
                rows = [*GOOD[:number], row._replace(**{column: changed}), *GOOD[number + 1 :]]
                with pytest.raises(LedgerError, match=rf"event {number}\b"):
                    Account("ledger", rows)


@pytest.mark.parametrize("gone", range(len(GOOD) - 1))
def test_a_missing_event_is_found(gone: int) -> None:
    with pytest.raises(LedgerError, match=f"event {gone}: expected the event that follows"):
        Account("ledger", GOOD[:gone] + GOOD[gone + 1 :])


@pytest.mark.parametrize("left", range(len(GOOD) - 1))
def test_swapped_events_are_found(left: int) -> None:
    one, two = GOOD[left : left + 2]
    for first, second in ((two, one), (two._replace(sequence=left), one._replace(sequence=left + 1))):
        with pytest.raises(LedgerError, match=rf"event {left}\b"):
            Account("ledger", [*GOOD[:left], first, second, *GOOD[left + 2 :]])


def test_the_end_of_another_ledger_is_found() -> None:
    """Its own hashes are right; they follow from another beginning."""
    other = chain({**OPENED, "salt": "01"}, RESERVED, COMMITTED, PUBLISHED, SECOND)
    Account("ledger", other)
    for place in range(1, len(GOOD)):
        with pytest.raises(LedgerError, match=f"event {place}: expected the event that follows"):
            Account("ledger", GOOD[:place] + other[place:])


def test_an_end_that_is_gone_shows_only_to_who_knows_the_head() -> None:
    account = Account("ledger", GOOD[:3])
    assert GOOD[2].hash in account.hashes
    assert GOOD[3].hash not in account.hashes


def test_no_two_heads_are_alike() -> None:
    assert all(one.hash != two.hash for one, two in pairwise(GOOD))
    other = opening("people-2030", PureDP(1), salt="01", time=TIME)
    assert other.hash != opened(PureDP(1)).hash
