"""A guarantee says what is protected and how much; nothing vague or contradictory becomes one."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, replace
from fractions import Fraction

import pytest

from privcube.errors import GuaranteeError
from privcube.model.privacy.guarantee import ZCDP, ApproxDP, Guarantee, PureDP, guarantee_from, pure_instead
from privcube.model.privacy.zcdp import classic_gaussian_variance, delta_of, epsilon_of, rho_of

KINDS = [PureDP("0.5"), ApproxDP("0.5", "1e-6"), ZCDP("0.5")]


def test_each_kind_keeps_exact_amounts() -> None:
    assert PureDP(0.1).amounts == {"epsilon": Fraction(1, 10)}
    assert ApproxDP("1/3", 1e-6).amounts == {"epsilon": Fraction(1, 3), "delta": Fraction(1, 10**6)}
    assert ZCDP("0.2").amounts == {"rho": Fraction(1, 5)}
    assert [guarantee.kind for guarantee in KINDS] == ["pure", "approx", "zcdp"]


def test_gaussian_variance_follows_from_the_amounts() -> None:
    assert ZCDP("0.02").unit_noise == 25
    approx = ApproxDP(1, "1e-6", calibration="zcdp")
    assert approx.rho == rho_of(Fraction(1), Fraction(1, 10**6))
    assert approx.unit_noise == 1 / (2 * approx.rho)
    exact = ApproxDP(1, "1e-6", calibration="exact")
    assert exact.unit_noise == 1 / exact.mu_squared
    classic = ApproxDP(1, "1e-6", calibration="classic")
    assert classic.unit_noise == classic_gaussian_variance(Fraction(1), Fraction(1, 10**6))
    assert classic.unit_noise > approx.unit_noise
    assert ZCDP("0.5").epsilon(delta="1e-6") == epsilon_of(Fraction(1, 2), Fraction(1, 10**6))
    assert delta_of(Fraction(1, 2), ZCDP("0.5").epsilon(delta="1e-6")) <= Fraction(1_000_001, 10**12)


@pytest.mark.parametrize("guarantee", KINDS, ids=lambda g: g.kind)
def test_rows_changed(guarantee: Guarantee) -> None:
    """Replacing takes rows away and brings others: twice as many as adding or removing."""
    assert (guarantee.neighbors, guarantee.max_rows_per_person, guarantee.rows_changed) == ("add_remove", 1, 1)
    assert replace(guarantee, neighbors="replace_one").rows_changed == 2
    assert replace(guarantee, max_rows_per_person=3).rows_changed == 3
    assert replace(guarantee, neighbors="replace_one", max_rows_per_person=3).rows_changed == 6


@pytest.mark.parametrize(
    ("guarantee", "sentence"),
    [
        (PureDP("1/3"), "epsilon = 0.333334 (pure), adding or removing one row"),
        (ApproxDP(1, "1e-6", neighbors="replace_one"), "epsilon = 1, delta = 0.000001, replacing one row"),
        (ZCDP(2, max_rows_per_person=1000), "rho = 2 (zCDP), adding or removing one person with at most 1,000 rows"),
    ],
)
def test_sentence(guarantee: Guarantee, sentence: str) -> None:
    assert str(guarantee) == sentence


@pytest.mark.parametrize("name", ["epsilon", "rho"])
@pytest.mark.parametrize(
    "amount",
    [0, -1, "0", "-0.1", "1e-13", "2e9", float("nan"), float("inf"), "nan", "1e999", "", "one", None, True, [1]],
    ids=repr,
)
def test_refuses_budget(name: str, amount: object) -> None:
    with pytest.raises(GuaranteeError, match=f"^{name}: expected"):
        guarantee_from({name: amount})
    if name == "epsilon":
        with pytest.raises(GuaranteeError, match=r"^epsilon: expected"):
            ApproxDP(amount, "1e-6")


@pytest.mark.parametrize("delta", [0, 1, -0.1, 1.5, "nan", "inf", "1e-999", None, True, ""], ids=repr)
def test_refuses_delta(delta: object) -> None:
    with pytest.raises(GuaranteeError, match=r"^delta: expected"):
        ApproxDP(1, delta)
    with pytest.raises(GuaranteeError, match=r"^delta: expected"):
        ZCDP(1).epsilon(delta)


def test_amounts_at_the_limits() -> None:
    """The least and the largest are accepted, those just beyond are not, and capacities say what they hold."""
    for make in (PureDP, ZCDP):
        for amount in (Fraction(1, 10**12), Fraction(10**9)):
            assert make(amount).capacity == make(amount).amount == amount
        for amount in (Fraction(1, 10**12 + 1), Fraction(10**9 + 1)):
            with pytest.raises(GuaranteeError, match="expected an amount from 1e-12 to 1e9"):
                make(amount)
    assert ApproxDP(1, "1e-6").capacity == ApproxDP(1, "1e-6").mu_squared
    assert ApproxDP(1, "1e-6", calibration="zcdp").capacity == ApproxDP(1, "1e-6").rho
    assert PureDP(1, max_rows_per_person=10**9).rows_changed == 10**9
    with pytest.raises(GuaranteeError, match="from 1 to 1,000,000,000"):
        PureDP(1, max_rows_per_person=10**9 + 1)


def test_laplace_noise_follows_from_epsilon() -> None:
    assert PureDP("0.25").unit_noise == 4


@pytest.mark.parametrize("neighbors", ["bounded", "", "Add_Remove", None, 1, ["add_remove", "replace_one"]], ids=repr)
@pytest.mark.parametrize("guarantee", KINDS, ids=lambda g: g.kind)
def test_refuses_neighbors(guarantee: Guarantee, neighbors: object) -> None:
    with pytest.raises(GuaranteeError, match=r"^neighbors: .*available: add_remove, replace_one"):
        replace(guarantee, neighbors=neighbors)


@pytest.mark.parametrize("rows", [0, -1, True, 1.0, "2", None, 10**10, Fraction(2)], ids=repr)
@pytest.mark.parametrize("guarantee", KINDS, ids=lambda g: g.kind)
def test_refuses_rows(guarantee: Guarantee, rows: object) -> None:
    with pytest.raises(GuaranteeError, match=r"^max_rows_per_person: expected"):
        replace(guarantee, max_rows_per_person=rows)


def test_refuses_calibration() -> None:
    with pytest.raises(GuaranteeError, match=r"^calibration: .*available: exact, zcdp, classic"):
        ApproxDP(1, "1e-6", calibration="analytic")
    with pytest.raises(GuaranteeError, match=r"^calibration: expected none unless"):
        guarantee_from({"epsilon": 1}, calibration="classic")


@pytest.mark.parametrize("guarantee", KINDS, ids=lambda g: g.kind)
def test_is_frozen(guarantee: Guarantee) -> None:
    """A budget that could be changed after the ledger was charged would be no budget."""
    for name in (*guarantee.amounts, "neighbors", "max_rows_per_person"):
        with pytest.raises(FrozenInstanceError):
            setattr(guarantee, name, getattr(guarantee, name))
    with pytest.raises((AttributeError, TypeError)):
        guarantee.note = "none"


def test_equality_is_by_meaning() -> None:
    assert PureDP(0.1) == PureDP("1/10")
    assert hash(PureDP(0.1)) == hash(PureDP("1/10"))
    assert PureDP("0.5") != ZCDP("0.5")
    assert PureDP(1) != PureDP(1, neighbors="replace_one")
    assert PureDP(1) != PureDP(1, max_rows_per_person=2)
    assert ApproxDP(1, "1e-6") != ApproxDP(1, "1e-7")
    assert ApproxDP(1, "1e-6") != ApproxDP(1, "1e-6", calibration="classic")
    assert len({*KINDS, *KINDS}) == 3


@pytest.mark.parametrize("guarantee", KINDS, ids=lambda g: g.kind)
def test_survives_the_way_to_a_worker(guarantee: Guarantee) -> None:
    assert pickle.loads(pickle.dumps(guarantee)) == guarantee


@pytest.mark.parametrize("guarantee", KINDS, ids=lambda g: g.kind)
def test_from_amounts(guarantee: Guarantee) -> None:
    assert guarantee_from(dict(guarantee.amounts), calibration=guarantee.calibration) == guarantee


def test_documents_that_name_no_calibration_are_old() -> None:
    assert guarantee_from({"epsilon": "1", "delta": "1e-6"}) == ApproxDP(1, "1e-6", calibration="zcdp")


@pytest.mark.parametrize(
    "names",
    [(), ("delta",), ("epsilon", "rho"), ("delta", "rho"), ("epsilon", "delta", "rho"), ("epsilon", "zeta")],
    ids=" ".join,
)
def test_refuses_contradictions(names: tuple[str, ...]) -> None:
    expected = "expected epsilon alone, epsilon and delta, or rho alone"
    with pytest.raises(GuaranteeError, match=expected) as refusal:
        guarantee_from(dict.fromkeys(names, "0.5"))
    for name in names or ("none of them",):
        assert name in str(refusal.value)


def test_the_pure_guarantee_of_a_plan_protects_the_same_unit() -> None:
    for unit in ({"row": "row of the query"}, {"neighbors": "replace_one", "max_rows_per_person": 3}, {}):
        asked = ApproxDP(1, "1e-6", calibration="exact", **unit)  # type: ignore[arg-type]
        pure = pure_instead(asked)
        assert pure is not None
        assert pure == PureDP(1, **unit)  # type: ignore[arg-type]
        assert pure.unit == asked.unit
    assert pure_instead(ApproxDP(1, "1e-6", calibration="zcdp")) is None


def test_the_kind_of_noise() -> None:
    assert PureDP(1).noise == "laplace"
    assert ZCDP(1).noise == "discrete_gaussian"
    assert ApproxDP(1, "1e-6", calibration="exact").noise == "rounded_gaussian"
    assert ApproxDP(1, "1e-6", calibration="zcdp").noise == "discrete_gaussian"


def test_the_currency_of_costs() -> None:
    assert (PureDP(1).currency, ZCDP(1).currency) == ("epsilon", "rho")
    assert ApproxDP(1, "1e-6", calibration="exact").currency == "mu^2"
    assert ApproxDP(1, "1e-6", calibration="zcdp").currency == "rho"
