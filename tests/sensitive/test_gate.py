"""The gate: what it asks for, in which order, what it lets out and what it refuses."""

from __future__ import annotations

import copy
import json
import math
import pickle
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from privcube import ZCDP, ApproxDP, Attribute, Plan, PureDP, Schema, Workload, errors, plan
from privcube.accuracy import privacy
from privcube.accuracy.privacy import privacy_cost, verify_privacy
from privcube.model import groups as groups_module
from privcube.model import plan as plan_module
from privcube.model import sensitivity
from privcube.model.groups import GroupPart, group_rows, row_weights
from privcube.model.measurements import Measurements
from privcube.model.privacy import gaussian_profile
from privcube.planning.steps import with_bundles
from privcube.planning.trees import bundles_by_weight
from privcube.progress import silent
from privcube.sensitive import gate
from privcube.sensitive.counts import ExactCounts
from privcube.sensitive.gate import measure, verify_by_brute_force
from privcube.sensitive.ledger import MemoryLedger, open_ledger
from privcube.strategies import STRATEGIES

SCHEMA = Schema.from_sizes({"a": 2, "b": 3, "c": 4})
BASE = np.arange(24, dtype=np.int64).reshape(SCHEMA.shape) * 7


class Cube:
    """An engine over one base table, which writes down what happened."""

    def __init__(self, schema: Schema = SCHEMA, base: np.ndarray = BASE) -> None:
        self.schema, self.base, self.events = schema, base, []

    def prepare(self, request) -> None:
        self.events.append("prepare")

    def count(self, request, progress=silent) -> ExactCounts:
        self.events.append("count")
        self.request = request
        tables = {}
        for names in request.tables:
            out = tuple(i for i, name in enumerate(self.schema.names) if name not in names)
            tables[names] = np.asarray(self.base.sum(axis=out), dtype=np.int64)
        return ExactCounts(self.schema, tables)


class Book:
    """A ledger that writes into an engine's list of events."""

    def __init__(self, engine: Cube, refuse: str = "nothing") -> None:
        self.engine, self.refuse = engine, refuse

    def afford(self, digest: str, guarantee) -> None:
        self._refuse("afford")

    def charge(self, digest: str, guarantee) -> None:
        self._refuse("charge")

    def _refuse(self, event: str) -> None:
        self.engine.events.append(event)
        if self.refuse == event:
            raise errors.GuaranteeError("privacy budget", expected="something left")


def exact_for(epsilon, **protected) -> ApproxDP:
    return ApproxDP(epsilon, "1e-6", calibration="exact", **protected)


EXACT = exact_for(1)


class Silence:
    """Noise of a test's own: zeros, and a record of what was asked for."""

    def __init__(self) -> None:
        self.asked = []

    def laplace(self, scale, count):
        self.asked.append(("laplace", scale, count))
        return np.zeros(count, dtype=np.int64)

    def gaussian(self, variance, count):
        self.asked.append(("gaussian", variance, count))
        return np.zeros(count, dtype=np.int64)

    def rounded_gaussian(self, variance, count):
        self.asked.append(("rounded_gaussian", variance, count))
        return np.zeros(count, dtype=np.int64)

    def max_norm(self, scale, sizes):
        self.asked.append(("max_norm", scale, tuple(sizes)))
        return [np.zeros(size, dtype=np.int64) for size in sizes]

    def rounded_max_norm(self, scales, sizes, count):
        self.asked.append(("rounded_max_norm", tuple(scales), (tuple(sizes), count)))
        return [np.zeros((count, size), dtype=np.int64) for size in sizes]

    def section(self, scale, bound, free, count):
        self.asked.append(("section", scale, (tuple(bound), tuple(free), count)))
        return [np.zeros((count, size), dtype=np.int64) for size in (1, *bound, *free)]

    def gram(self, dimension, left, right, squares, which, count):
        self.asked.append(("gram", tuple(squares), (dimension, len(left), count)))
        return np.zeros((count, len(left)), dtype=np.int64)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("guarantee", [PureDP(1), ZCDP("0.5"), ApproxDP(1, "1e-6", calibration="zcdp"), EXACT])
def test_without_noise_the_answers_are_exact(strategy: str, guarantee) -> None:
    """Every group is answered from the right table; the noise asked for is the plan's, row for row."""
    if strategy == "residual" and isinstance(guarantee, PureDP):
        guarantee = ZCDP(2)
    made = plan(Workload.all_kway(SCHEMA, 2), guarantee, strategy)
    noise = Silence()
    found = measure(made, Cube(), MemoryLedger(guarantee), noise_from=noise)
    assert isinstance(found, Measurements)
    from privcube import linear

    rows = linear.strategy_matrix(made.frame, made.groups)[:, linear.real_columns(made.frame)]
    np.testing.assert_array_equal(found.answers, rows @ BASE.ravel())
    assert sum(count for _, _, count in noise.asked) == made.rows
    asked = {(kind, parameter) for kind, parameter, _ in noise.asked}
    if isinstance(guarantee, PureDP):
        assert asked == {("laplace", made.noise_scale(g)) for g in range(len(made.groups))}
    else:
        kind = "rounded_gaussian" if guarantee == EXACT else "gaussian"  # by another noise the price would be wrong
        assert asked == {
            (kind, made.noise_variance(g) * weight)
            for g, group in enumerate(made.groups)
            for weight in row_weights(made.frame, group)
        }


def test_bundles_get_one_draw_of_max_norm_noise() -> None:
    single = plan(Workload.all_kway(SCHEMA, 1), PureDP(1), "fourier")
    made = with_bundles(single, bundles_by_weight(single))
    noise = Silence()
    measure(made, Cube(), MemoryLedger(PureDP(1)), noise_from=noise)
    expected = {
        ("max_norm", made.noise_scale(bundle[0]), (1,) * len(bundle)) for bundle in made.bundles if len(bundle) > 1
    }
    assert {asked for asked in noise.asked if asked[0] == "max_norm"} == expected
    assert expected


class Heard(Silence):
    """Writes into an engine's list of events when noise is drawn."""

    def __init__(self, engine: Cube) -> None:
        super().__init__()
        self.engine = engine

    def laplace(self, scale, count):
        self.engine.events.append("noise")
        return super().laplace(scale, count)


def test_count_then_charge_then_noise() -> None:
    """And a release that cannot be paid for counts nothing; if others were quicker meanwhile, it draws nothing."""
    made = plan(Workload.all_kway(SCHEMA, 1), PureDP(1), "marginals")
    steps = ["prepare", "afford", "count", "charge", "noise"]
    for refuse in ("nothing", "afford", "charge"):
        engine = Cube()
        book = Book(engine, refuse)
        if refuse == "nothing":
            measure(made, engine, book, noise_from=Heard(engine))
            assert list(dict.fromkeys(engine.events)) == steps
            assert engine.events[-2:] == ["noise", "noise"]
        else:
            with pytest.raises(errors.GuaranteeError):
                measure(made, engine, book, noise_from=Heard(engine))
            assert engine.events == steps[: steps.index(refuse) + 1]


def test_a_failure_while_counting_or_answering_charges_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    made = plan(Workload.all_kway(SCHEMA, 1), PureDP(1), "marginals")
    for place in ("count", "answers"):
        engine = Cube()

        def fail(*_: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(*((engine, "count") if place == "count" else (gate, "exact_answers")), fail)
            with pytest.raises(KeyboardInterrupt):
                measure(made, engine, Book(engine), noise_from=Heard(engine))
        assert "charge" not in engine.events
        assert "noise" not in engine.events


def test_the_charge_is_on_disk_when_noise_is_drawn(tmp_path: Path) -> None:
    """Read by another connection, at the first draw."""
    ledger = open_ledger(str(tmp_path / "ledger.db"), dataset="people", total=PureDP(1))
    made = plan(Workload.all_kway(SCHEMA, 1), PureDP(1), "marginals")
    seen = []

    class Looking(Silence):
        def laplace(self, scale, count):
            seen.append(
                [
                    entry.plan
                    for entry in open_ledger(str(tmp_path / "ledger.db"), dataset="people", total=None).entries()
                ]
            )
            return super().laplace(scale, count)

    measure(made, Cube(), ledger, noise_from=Looking())
    assert seen
    assert all(plans == [made.digest] for plans in seen)


def test_tables_inside_others_are_not_counted_twice() -> None:
    engine = Cube()
    measure(plan(Workload.full_cube(SCHEMA), PureDP(1), "marginals"), engine, Book(engine))
    assert engine.request.tables == (("a", "b", "c"),)


def test_empty_data_gives_independent_noise_in_every_cell() -> None:
    """One draw broadcast to many cells would repeat; noise of scale 8 over 3,000 cells repeats values, not blocks."""
    schema = Schema.from_sizes({"x": 3000, "y": 2})
    made = plan(Workload.tables(schema, [("x",)]), PureDP("0.125"), "marginals")
    engine = Cube(schema, np.zeros((3000, 2), dtype=np.int64))
    answers = measure(made, engine, MemoryLedger(PureDP(1))).answers
    assert len(np.unique(answers)) > 30
    centred = answers - answers.mean()
    for lag in (1, 2, 7, 100):
        correlation = np.mean(centred[lag:] * centred[:-lag]) / np.mean(centred**2)
        assert abs(correlation) < 6 / 3000**0.5
    assert np.mean(answers**2) == pytest.approx(128, rel=0.3)
    again = measure(made, engine, MemoryLedger(PureDP(1))).answers
    assert np.mean(again == answers) < 0.2


# What is refused


def test_a_plan_changed_after_it_was_made_is_refused() -> None:
    made = plan(Workload.all_kway(SCHEMA, 1), PureDP(1), "marginals")
    assert made.digest
    object.__setattr__(made, "guarantee", PureDP(2))
    engine = Cube()
    with pytest.raises(errors.PlanError, match="was changed"):
        measure(made, engine, Book(engine))
    assert engine.events == []


@pytest.mark.parametrize(
    "parts",
    [
        (GroupPart(1, 1, "contrast"),),  # a contrast of an attribute of three cells
        (GroupPart(1, 1), GroupPart(0, 1)),
        (GroupPart(0, 1), GroupPart(0, 1)),
        (GroupPart(0, 2),),
        (GroupPart(9, 1),),
        (GroupPart(-1, 1),),
        (GroupPart(0, 0),),
    ],
)
def test_groups_that_are_no_groups_are_refused(parts) -> None:
    made = plan(Workload.tables(SCHEMA, [("a",)]), PureDP(1), "marginals")
    with pytest.raises(errors.PlanError, match="group"):
        verify_privacy(replace(made, groups=(parts,)))


def test_overspending_is_seen_by_structure_and_by_brute_force() -> None:
    """A mutant plan whose noise is computed for twice the budget: both checks must object, each on its own."""

    class Short(Plan):
        def noise_scale(self, group: int) -> Fraction:
            return super().noise_scale(group) / 2

        def noise_variance(self, group: int) -> Fraction:
            return super().noise_variance(group) / 2

    one, several = PureDP(1, neighbors="replace_one"), ZCDP(1, max_rows_per_person=2)
    for guarantee in (PureDP(1), one, ZCDP(1), several, EXACT, exact_for(1, neighbors="replace_one")):
        made = plan(Workload.all_kway(SCHEMA, 1), guarantee, "marginals")
        mutant = Short(**{name: getattr(made, name) for name in made.__dataclass_fields__})
        with pytest.raises(errors.PlanError, match="a cost of at most"):
            verify_privacy(mutant)
        with pytest.raises(errors.PlanError, match="every record"):
            verify_by_brute_force(mutant)
        verify_by_brute_force(made)


def test_replace_one_treated_as_add_remove_is_seen_by_brute_force() -> None:
    class Careless(Plan):
        def noise_scale(self, group: int) -> Fraction:
            return super().noise_scale(group) / 2  # forgets the factor of replacing

    guarantee = PureDP(1, neighbors="replace_one")
    made = plan(Workload.all_kway(SCHEMA, 1), guarantee, "marginals")
    mutant = Careless(**{name: getattr(made, name) for name in made.__dataclass_fields__})
    with pytest.raises(errors.PlanError, match="every record"):
        verify_by_brute_force(mutant)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
@pytest.mark.parametrize("kind", [PureDP, ZCDP, exact_for])
def test_brute_force_agrees_with_the_structure(strategy: str, neighbors: str, kind) -> None:
    if strategy == "residual" and kind is PureDP:
        kind = ZCDP
    made = plan(Workload.all_kway(SCHEMA, 2), kind(1, neighbors=neighbors), strategy)
    verify_by_brute_force(made)
    assert_price(made)


def assert_price(made: Plan) -> None:
    """All of the budget; but a record that is replaced by another leaves single counts, such as the total, alone."""
    if made.guarantee.neighbors == "add_remove" or all(group_rows(made.frame, group) > 1 for group in made.groups):
        assert privacy_cost(made) == made.guarantee.capacity
    else:
        assert privacy_cost(made) <= made.guarantee.capacity


WIDE = Schema.from_sizes({"a": 2, "b": 3, "c": 5, "d": 20, "e": 2, "f": 4})


SET_BY = [(PureDP, strategy) for strategy in ("marginals", "fourier", "clusters", "search")] + [
    (ZCDP, strategy) for strategy in ("marginals", "fourier", "clusters", "residual")
]


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
@pytest.mark.parametrize(("kind", "strategy"), SET_BY)
def test_sensitivities_that_are_too_small_are_seen_at_every_size(
    strategy: str, neighbors: str, kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """4,800 combinations of values: mutants of the very functions that set the noise must not pass for a plan."""
    workload, guarantee = Workload.all_kway(WIDE, 2), kind(1, neighbors=neighbors)
    made = plan(workload, guarantee, strategy)
    verify_privacy(made)
    text = made.to_json()
    squared, l1 = sensitivity.squared_l2, sensitivity.largest_l1
    monkeypatch.setattr(plan_module, "squared_l2", lambda *given: squared(*given) / 4)
    monkeypatch.setattr(plan_module, "largest_l1", lambda *given: l1(*given) / Fraction(2))
    with pytest.raises(errors.PlanError, match="a cost of at most"):
        verify_privacy(Plan.from_json(text))


def test_a_group_of_many_axes_is_priced_in_no_time() -> None:
    """Three things can happen on each of 40 axes to two records; their combinations must not be listed."""
    wide = Schema.from_sizes({f"a{number}": 3 + number % 7 for number in range(40)})
    guarantee = ZCDP(1, neighbors="replace_one")
    made = plan(Workload.all_kway(wide, 1), guarantee, "residual")
    group = tuple(GroupPart(axis, 1, "helmert") for axis in range(40))
    moved = privacy._largest_move(made.frame, group[:3], True, {}).squares
    assert moved == sensitivity.squared_l2(guarantee, made.frame, group[:3])
    contrasts = tuple(privacy.Shape(1, 2, "contrast", ()) for _ in range(60))
    assert privacy._product_move(contrasts, True) == (2, 4)
    mixed = tuple(privacy.Shape(2, n, "helmert", tuple(j * (j + 1) for j in range(1, n))) for n in range(3, 43))
    least = max(Fraction(1, n) / Fraction(n - 1, n) for n in range(3, 43))
    whole = math.prod((Fraction(n - 1, n) for n in range(3, 43)), start=Fraction(1))
    assert privacy._product_move(mixed, True).squares == 2 * whole * (1 + least)


def test_noise_weights_that_are_too_small_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    made = plan(Workload.all_kway(WIDE, 2), ZCDP(1), "residual")
    right = groups_module._weights_of
    monkeypatch.setattr(groups_module, "_weights_of", lambda shape: tuple(max(1, w // 2) for w in right(shape)))
    with pytest.raises(errors.PlanError, match=r"a cost of at most|products over axes"):
        verify_privacy(made)


def test_a_wrong_inverse_of_the_profile_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise that was set by one part in a million too little: both checks ask the profile itself."""
    right = gaussian_profile.mu_squared_of
    factor = Fraction(1_000_001, 1_000_000)
    monkeypatch.setattr(gaussian_profile, "mu_squared_of", lambda *given: factor * right(*given))
    made = plan(Workload.all_kway(SCHEMA, 1), EXACT, "marginals")
    assert privacy_cost(made) == made.guarantee.capacity
    with pytest.raises(errors.PlanError, match="a cost of at most"):
        verify_privacy(made)
    with pytest.raises(errors.PlanError, match="every record"):
        verify_by_brute_force(made)


def test_answers_that_are_not_whole_numbers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounded noise has the guarantee of Gaussian noise only on whole numbers."""
    made = plan(Workload.all_kway(SCHEMA, 1), EXACT, "marginals")
    right = gate.exact_answers
    monkeypatch.setattr(gate, "verify_by_brute_force", lambda plan: None)  # it asks for answers, too
    monkeypatch.setattr(gate, "exact_answers", lambda *given: [answers / 2 for answers in right(*given)])
    with pytest.raises(errors.PlanError, match="answers: expected whole numbers"):
        measure(made, Cube(), MemoryLedger(EXACT), noise_from=Silence())


def test_a_document_says_which_noise_it_means() -> None:
    """Documents have always stated their calibration, so those made before there was another one keep their noise."""
    workload = Workload.all_kway(SCHEMA, 1)
    for calibration, kind in (("zcdp", "gaussian"), ("exact", "rounded_gaussian")):
        made = plan(workload, ApproxDP(1, "1e-6", calibration=calibration), "marginals")
        assert json.loads(made.to_json())["guarantee"]["calibration"] == calibration
        noise = Silence()
        measure(Plan.from_json(made.to_json()), Cube(), MemoryLedger(made.guarantee), noise_from=noise)
        assert {name for name, _, _ in noise.asked} == {kind}


def test_the_classic_constant_and_drafts_are_for_looking_only() -> None:
    engine = Cube()
    classic = ApproxDP(1, "1e-6", calibration="classic")
    with pytest.raises(errors.PlanError, match="classic"):
        measure(plan(Workload.all_kway(SCHEMA, 1), classic, "marginals"), engine, Book(engine))
    draft = Schema([Attribute("a", values=["x", "y"], draft=True)])
    with pytest.raises(errors.DraftError):
        measure(plan(Workload.all_kway(draft, 1), PureDP(1), "marginals"), engine, Book(engine))
    several = PureDP(1, max_rows_per_person=3)
    with pytest.raises(errors.PlanError, match="person"):
        measure(plan(Workload.all_kway(SCHEMA, 1), several, "marginals"), engine, Book(engine))
    assert engine.events == []


@pytest.mark.parametrize(
    "guarantee", [PureDP("1e-12", max_rows_per_person=1000), ZCDP("1e-12", max_rows_per_person=10**9)]
)
def test_noise_that_cannot_be_drawn_is_refused_before_anything_else(guarantee) -> None:
    engine = Cube()
    made = plan(Workload.all_kway(SCHEMA, 1), guarantee, "marginals")
    with pytest.raises(errors.GuaranteeError, match=r"noise (scale|variance): expected a fraction from"):
        measure(made, engine, Book(engine), person="who")
    assert engine.events == []


def test_bundles_that_cannot_be_drawn_are_refused_before_anything_else() -> None:
    """A plan that was made elsewhere: ours leave such bundles out."""
    single = plan(Workload.all_kway(SCHEMA, 1), PureDP(1), "fourier")
    mutant = replace(with_bundles(single, bundles_by_weight(single)), guarantee=PureDP("1e-7"))
    engine = Cube()
    with pytest.raises(errors.GuaranteeError, match=r"bundle: expected a scale of at most"):
        measure(mutant, engine, Book(engine))
    assert engine.events == []


@pytest.mark.parametrize(
    "counts",
    [
        np.array([1, -1]),
        np.array([1.0, 2.0]),
        np.array([1, 2, 3]),
        np.array([2**62, 2**62]),
        np.array([2**62 + 1, 0]),
        np.array([1, 2], dtype=np.int32),
        [1, 2],
    ],
)
def test_what_is_not_a_table_of_counts_is_refused_without_showing_it(counts) -> None:
    with pytest.raises(errors.PlanError, match="counts of a") as caught:
        ExactCounts(SCHEMA, {("a",): counts})
    assert not any(str(number) in str(caught.value) for number in (-1, 2**62 + 1, 4611686018427387904))


def test_counts_at_the_limits_stay_exact() -> None:
    schema = Schema.from_sizes({"a": 2})
    for base in ([2**31, 2**53 + 1], [2**61, 2**61 - 1], [0, 2**62]):
        made = plan(Workload.all_kway(schema, 1), PureDP(1), "fourier")
        found = measure(made, Cube(schema, np.array(base)), MemoryLedger(PureDP(1)), noise_from=Silence())
        assert sorted(found.answers.tolist()) == sorted([sum(base), base[0] - base[1]])


def test_exact_counts_show_nothing() -> None:
    exact = ExactCounts(SCHEMA, {("a",): np.array([12345, 678])})
    assert "12345" not in repr(exact) + str(exact) + f"{exact}"
    for act in (pickle.dumps, copy.copy, copy.deepcopy, hash):
        with pytest.raises(TypeError):
            act(exact)
    with pytest.raises(TypeError):
        _ = exact == np.array([12345, 678])
    with pytest.raises(TypeError):
        exact.tables = {}
    assert not hasattr(exact, "__dict__")


def test_measurements_hold_nothing_but_the_noisy_answers() -> None:
    made = plan(Workload.all_kway(SCHEMA, 1), PureDP(1), "marginals")
    found = measure(made, Cube(), MemoryLedger(PureDP(1)))
    assert set(vars(found)) == {"plan", "answers"}
    assert found.answers.dtype == np.int64
    with pytest.raises(ValueError, match="read-only"):
        found.answers[0] = 1
    for wrong in (found.answers[:-1], found.answers.astype(float)):
        with pytest.raises(errors.PlanError, match="whole numbers"):
            Measurements(made, wrong)
