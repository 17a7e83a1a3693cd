"""Budgets add up exactly, in the currency of the total."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privcube import ZCDP, ApproxDP, PureDP, errors
from privcube.model.privacy import zcdp
from privcube.model.privacy.composition import cost, remaining
from privcube.sensitive.ledger import MemoryLedger


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=40))
def test_random_splits_sum_exactly(parts: list[int]) -> None:
    whole = sum(parts)
    pieces = [PureDP(Fraction(part, whole)) for part in parts]
    assert remaining(PureDP(1), pieces) == 0
    with pytest.raises(errors.GuaranteeError, match="at most what is left, 0"):
        remaining(PureDP(1), [*pieces, PureDP("1e-12")])


def test_a_thousand_tenths_of_a_percent() -> None:
    """Floats would end at 1.0000000000000007."""
    assert remaining(PureDP(1), [PureDP("0.001")] * 1000) == 0


def test_approximate_guarantees_add_up_through_zcdp() -> None:
    total = ApproxDP(3, "1e-6")
    one = ApproxDP(1, "1e-6")
    assert cost(one, total) == one.rho
    left = remaining(total, [one, ZCDP("0.05"), PureDP("0.1")])
    assert left == total.rho - one.rho - Fraction(5, 100) - Fraction(1, 200)
    spent = total.capacity - left
    assert zcdp.epsilon_of(spent, total.delta) <= 3


@pytest.mark.parametrize(
    ("spent", "total"),
    [
        (ZCDP(1), PureDP(1)),
        (PureDP(1, neighbors="replace_one"), PureDP(1)),
        (PureDP(1, max_rows_per_person=2), PureDP(1)),
        (ApproxDP(1, "1e-6", calibration="classic"), ApproxDP(2, "1e-6")),
    ],
)
def test_what_cannot_be_added_is_refused(spent, total) -> None:
    with pytest.raises(errors.GuaranteeError):
        cost(spent, total)


def test_a_refused_charge_changes_nothing() -> None:
    ledger = MemoryLedger(PureDP(1))
    ledger.charge("one", PureDP("0.7"))
    with pytest.raises(errors.GuaranteeError, match=r"left, 0\.3"):
        ledger.charge("two", PureDP("0.4"))
    assert ledger.remaining == Fraction(3, 10)
    ledger.charge("three", PureDP("0.3"))
    assert ledger.remaining == 0


def test_two_threads_do_not_spend_the_same_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both decide at the same moment; only one may be told that it fits."""
    ledger, ready = MemoryLedger(PureDP(1)), threading.Barrier(4)

    def slowly(total, spent):
        left = remaining(total, spent)
        time.sleep(0.05)  # long enough for all others to decide, too, if they can
        return left

    def charge(name: str) -> bool:
        ready.wait()
        try:
            ledger.charge(name, PureDP("0.6"))
        except errors.GuaranteeError:
            return False
        return True

    monkeypatch.setattr("privcube.sensitive.ledger.memory.remaining", slowly)
    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(charge, "abcd")) == [False, False, False, True]
    assert ledger.remaining == Fraction(4, 10)
