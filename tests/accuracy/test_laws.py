"""Bundles on sections and Gram bundles against dense twins: covariance, recovery, error bars, the price of a record."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from many_draws import drawn_noise

from privcube import PureDP, Schema, Workload
from privcube.accuracy.error_bars import ErrorBars
from privcube.accuracy.predictor import drawn_table_variances, predictor, recover
from privcube.accuracy.privacy import privacy_cost, verify_privacy
from privcube.algebra.section import section_variances
from privcube.errors import PlanError
from privcube.model.frame import Frame
from privcube.model.groups import GroupPart, group_rows, row_weights
from privcube.model.matrices.rows import strategy_matrix
from privcube.model.noise.bundles import Gram, GramLayout, section_shape
from privcube.model.options import PlanOptions
from privcube.model.plan import Plan
from privcube.model.slices import joined, shared_cells, slice_rows
from privcube.planning.search.closed_form import Choices
from privcube.planning.search.gram import GramForm
from privcube.planning.steps import plan_of
from privcube.sensitive.gate import SystemNoise, _noise
from privcube.strategies.proposal import Proposal

OPTIONS = PlanOptions(strategy="search", budgets="iterated")


def cells(*axes: int) -> tuple[GroupPart, ...]:
    return tuple(GroupPart(axis, 1) for axis in axes)


@st.composite
def laws(draw: st.DrawFn) -> tuple[Workload, Proposal]:
    """A workload and bundles that answer it: one on a section, or a Gram bundle, whole or in slices; and others."""
    sizes = draw(st.lists(st.integers(2, 4), min_size=2, max_size=4))
    schema = Schema.from_sizes({f"a{at}": size for at, size in enumerate(sizes)})
    tables = draw(st.sets(st.sets(st.integers(0, len(sizes) - 1), max_size=2).map(frozenset), min_size=1, max_size=4))
    workload = Workload.tables(schema, [tuple(f"a{at}" for at in sorted(table)) for table in tables])
    frame = Frame.natural(workload)
    axes, sliced = range(len(sizes)), draw(st.sampled_from([(), (), (0,)]))
    inner = [axis for axis in axes if axis not in sliced]
    bundles, kinds = [], []
    if draw(st.booleans()):
        pairs = [cells(*sorted({*sliced, *pair})) for pair in combinations(inner, min(2, len(inner)))]
        free = [tuple(sorted([*cells(*sliced), GroupPart(axis, 1, "contrast")])) for axis in inner if sizes[axis] == 2]
        bundles.append([cells(*sliced), *pairs, *[group for group in free if draw(st.booleans())]])
        kinds.append("section")
    else:
        blocks = [(axis, 1) for axis in inner]
        form = GramForm.of(Choices(workload, frame), blocks, tuple((axis, 1) for axis in sliced))
        assert form is not None
        bundles.append(form.groups())
        kinds.append(Gram(tuple(draw(st.lists(st.integers(1, 9), min_size=1 + len(blocks), max_size=1 + len(blocks))))))
    bundles += [[cells(*sorted(table))] for table in tables if draw(st.booleans())]
    bundles.append([cells(*axes)])  # so that everything is determined
    laws = (*kinds, *["max_norm"] * (len(bundles) - 1))
    return workload, Proposal.of_bundles(frame, bundles, laws=laws)


def covariance(made: Plan) -> np.ndarray:
    """The covariance of the continuous noise on all rows, written out from the definition of each law."""
    starts = np.concatenate([[0], np.cumsum([group_rows(made.frame, group) for group in made.groups])])
    whole = np.zeros((starts[-1], starts[-1]))
    for bundle, law in zip(made.noised_together, made.noise_laws, strict=True):
        groups = [made.groups[group] for group in bundle]
        scale = float(made.noise_scale(bundle[0]))
        slicing, (slices, rows) = shared_cells(groups), slice_rows(made.frame, groups)
        if len(bundle) == 1 and law == "max_norm":
            own = np.arange(starts[bundle[0]], starts[bundle[0] + 1])
            whole[own, own] = 2 * scale**2
            continue
        place = [  # per group: slice x row
            starts[number]
            + np.argsort(joined(made.frame, group, slicing, np.arange(slices * n).reshape(slices, n))).reshape(
                slices, n
            )
            for number, group, n in zip(bundle, groups, rows, strict=True)
        ]
        for part in range(slices):
            at = np.concatenate([own[part] for own in place])
            whole[np.ix_(at, at)] = scale**2 * (
                gram_covariance(made.frame, groups, law) if isinstance(law, Gram) else section_covariance(made, groups)
            )
    return whole


def gram_covariance(frame: Frame, groups, law: Gram) -> np.ndarray:
    """Rows are R sqrt(c c' w w' / (a a')) times entries of W1 - W2, each different."""
    layout = GramLayout.of(frame, groups)
    whole = sum(law.weights)
    size = dict(zip(layout.blocks, law.weights[1:], strict=True))
    found = []
    for group in groups:
        own = [part for part in group if part.kind != "cells"]
        _, rows = slice_rows(frame, groups)
        n = rows[groups.index(group)]
        factors = []
        for part in own * (2 if own and own[0].kind == "squares" else 1):
            children = frame.fan_outs[part.axis][part.level - 1]
            factors.append((1 - 1 / children) / size[part.axis, part.level])
        factors += [1 / law.weights[0]] * (2 - len(factors))
        weights = (
            np.array(row_weights(frame, group)).reshape(-1, n)[0] if n > 1 else np.array(row_weights(frame, group)[:1])
        )
        found.append(whole**2 * prod(factors) * weights * (layout.dimension + 1) / (1 if not own else 2))
    return np.diag(np.concatenate(found))


def section_covariance(made: Plan, groups) -> np.ndarray:
    shape = section_shape(made.frame, groups)
    counts = [
        {n: sum(shape.rows[at] == n for at in own) for n in {shape.rows[at] for at in own}}
        for own in (shape.bound, shape.free)
    ]
    known = section_variances(*counts)
    ends = np.cumsum(shape.rows)
    found = np.zeros((ends[-1], ends[-1]))
    tells = np.zeros(ends[-1])  # what a unit of the total adds to each row
    for at, (n, end) in enumerate(zip(shape.rows, ends.tolist(), strict=True)):
        own = slice(end - n, end)
        if at in shape.free:
            found[own, own] = known.free[n] * np.eye(n)
        else:
            tells[own] = 1 / n
            if at:
                found[own, own] = known.residual[n] * (np.eye(n) - 1 / n)
    return found + known.total * np.outer(tells, tells)


@settings(max_examples=15, deadline=None)
@given(laws())
def test_recovery_is_unbiased_and_has_the_predicted_variance(case: tuple[Workload, Proposal]) -> None:
    workload, proposal = case
    made = plan_of(workload, PureDP(1), OPTIONS, proposal)
    rows = strategy_matrix(made.frame, made.groups).toarray()
    noise = covariance(made)
    recovered = [recover(made, unit) for unit in np.eye(made.rows)]
    bars = ErrorBars(made, list(workload))
    for number, table in enumerate(workload):
        own = np.stack([found[table].ravel() for found in recovered], axis=1)
        axes = [workload.schema.names.index(name) for name in table]
        query = strategy_matrix(made.frame, [cells(*axes)]).toarray()
        np.testing.assert_allclose(own @ rows, query, atol=1e-8)
        variances = np.diag(own @ noise @ own.T)
        np.testing.assert_allclose(variances.mean(), made.table_variances[number], rtol=1e-6)
        weights = np.zeros(variances.shape)
        weights[0] = 1.0
        shape = tuple(len(workload.schema[name].labels) for name in table)
        law = bars.law(table, weights.reshape(shape))
        rounding = np.sum(
            own[0] ** 2
        )  # adds about 1/12 of this, stated as at most 1/4; discrete Laplace noise has up to 1/6 of it less
        assert variances[0] - rounding / 6 - 1e-6 <= law.variance <= variances[0] * (1 + 1e-8) + rounding / 4 + 1e-6


@settings(max_examples=15, deadline=None)
@given(laws())
def test_no_other_recovery_is_better(case: tuple[Workload, Proposal]) -> None:
    """Generalized least squares by matrices, with the covariance written out."""
    workload, proposal = case
    made = plan_of(workload, PureDP(1), OPTIONS, proposal)
    rows = strategy_matrix(made.frame, made.groups).toarray()
    information = rows.T @ np.linalg.pinv(covariance(made), rcond=1e-12, hermitian=True) @ rows
    cover = np.linalg.pinv(information, rcond=1e-12, hermitian=True)
    for table, predicted in zip(workload, made.table_variances, strict=True):
        query = strategy_matrix(made.frame, [cells(*[workload.schema.names.index(name) for name in table])]).toarray()
        np.testing.assert_allclose(np.diag(query @ cover @ query.T).mean(), predicted, rtol=1e-6)


@settings(max_examples=9, deadline=None)
@given(laws(), st.sampled_from([PureDP(1), PureDP("0.3", max_rows_per_person=3), PureDP(2, neighbors="replace_one")]))
def test_the_second_price_is_the_guarantee(case: tuple[Workload, Proposal], guarantee: PureDP) -> None:
    workload, proposal = case
    made = plan_of(workload, guarantee, OPTIONS, proposal)
    verify_privacy(made)
    assert privacy_cost(made) <= guarantee.epsilon
    if guarantee.neighbors == "add_remove":
        assert privacy_cost(made) == guarantee.epsilon * Fraction(sum(made.shares), made.denominator)


def gram_plan() -> Plan:
    schema = Schema.from_sizes({"a": 2, "b": 3, "c": 4})
    workload = Workload.all_kway(schema, 2)
    frame = Frame.natural(workload)
    form = GramForm.of(Choices(workload, frame), [(0, 1), (1, 1), (2, 1)], ())
    assert form is not None
    proposal = Proposal.of_bundles(frame, [form.groups()], laws=[Gram((5, 2, 3, 4))])
    return plan_of(workload, PureDP(1), OPTIONS, proposal)


class Cheaper(Plan):
    """A plan that says its noise is wider than it is drawn."""

    def noise_variance(self, group: int) -> Fraction:
        return super().noise_variance(group) * (Fraction(1, 2) if group == 4 else 1)


def test_noise_of_a_gram_bundle_that_does_not_fit_its_weights_is_refused() -> None:
    made = gram_plan()
    verify_privacy(made)
    fields = {name: getattr(made, name) for name in made.__dataclass_fields__}
    with pytest.raises(PlanError, match="fits the weights"):
        privacy_cost(Cheaper(**fields))


@pytest.mark.parametrize(
    ("groups", "law", "expected"),
    [
        ([cells(0), cells(1)], "section", "total of every slice as the first"),
        ([(), cells(0), (GroupPart(1, 1, "helmert"),)], "section", "cells and contrasts"),
        ([()], "section", "split the total"),
        ([(), (GroupPart(1, 1, "helmert"),), (GroupPart(1, 1, "helmert"),)], Gram((1, 1)), "different groups"),
        ([(), cells(0)], Gram((1, 1)), "same slices"),
        ([(), (GroupPart(0, 1, "contrast"),)], Gram((1, 1)), "Helmert parts"),
        ([(), (GroupPart(1, 1, "helmert"),)], Gram((1, 1, 1)), "2 weights"),
        ([cells(0), (GroupPart(1, 1, "helmert"),)], Gram((1, 1)), "same slices"),
        ([(), (GroupPart(1, 1, "squares"),)], "max_norm", "Gram bundle"),
    ],
)
def test_a_bundle_without_the_form_of_its_law_is_refused(groups, law, expected: str) -> None:
    schema = Schema.from_sizes({"a": 2, "b": 3})
    workload = Workload.all_kway(schema, 1)
    made = plan_of(
        workload, PureDP(1), OPTIONS, Proposal.of_bundles(Frame.natural(workload), [[()], [cells(0, 1)[:2]]])
    )
    whole = (*groups, cells(0, 1))
    with pytest.raises(PlanError, match=expected):
        replace(
            made,
            groups=tuple(whole),
            bundles=(tuple(range(len(groups))), (len(groups),)),
            laws=(law, "max_norm"),
            shares=(1, 1),
        )


@pytest.mark.parametrize("weights", [(1,), (0, 1), (1, 2**33), (1, 1.5), (True, 1)])
def test_weights_of_a_gram_bundle_are_whole(weights) -> None:
    with pytest.raises(PlanError):
        Gram(weights)


def test_plans_with_laws_survive_the_trip_to_json_and_changed_laws_do_not() -> None:
    made = gram_plan()
    assert Plan.from_json(made.to_json()) == made
    with pytest.raises(PlanError):
        Plan.from_json(made.to_json().replace('"gram"', '"grams"'))


def test_drawn_variances_include_rounding() -> None:
    made = gram_plan()
    drawn, predicted = drawn_table_variances(made), np.array(made.table_variances)
    assert np.all(drawn > predicted)
    assert np.all(drawn < predicted + 1)


def test_laws_without_bundles_are_refused() -> None:
    made = gram_plan()
    with pytest.raises(PlanError, match="a law of the noise for every bundle"):
        replace(made, bundles=None, laws=(), shares=(1,) * len(made.groups))


def sliced(kind: str, sizes: dict[str, int], epsilon: str) -> Plan:
    """A plan for a and b in slices of s: one bundle, on a section or a Gram bundle."""
    schema = Schema.from_sizes(sizes)
    workload = Workload.tables(schema, [("s", "a"), ("s", "b")])
    frame = Frame.natural(workload)
    if kind == "Gram":
        form = GramForm.of(Choices(workload, frame), [(1, 1), (2, 1)], ((0, 1),))
        assert form is not None
        proposal = Proposal.of_bundles(frame, [form.groups()], laws=[Gram((3, 2, 4))])
    else:
        proposal = Proposal.of_bundles(frame, [[cells(0), cells(0, 1), cells(0, 2)]], laws=["section"])
    return plan_of(workload, PureDP(epsilon), OPTIONS, proposal)


@pytest.mark.parametrize("epsilon", ["0.5", "4", "12"])
@pytest.mark.parametrize("kind", ["section", "Gram"])
def test_drawn_variances_are_those_of_the_draws(kind: str, epsilon: str) -> None:
    """At any width of the noise: within chance where it is wide, and never understated where it is narrow."""
    made = sliced(kind, {"s": 4_000, "a": 2, "b": 3}, epsilon)
    found = recover(made, _noise(made, SystemNoise()).astype(np.float64))
    for table, stated in zip(made.workload, drawn_table_variances(made).tolist(), strict=True):
        squares = found[table].ravel() ** 2
        chance = 4.5 * float(np.std(squares)) / np.sqrt(4_000)
        assert squares.mean() <= stated + chance
        if epsilon == "0.5":
            assert squares.mean() >= stated - chance


@pytest.mark.parametrize("kind", ["section", "Gram"])
def test_intervals_in_slices_cover_what_they_say(kind: str) -> None:
    """The weights of a cell lie in one slice of several; the kurtosis must be that of this slice, not of their mean."""
    made = sliced(kind, {"s": 6, "a": 4, "b": 3}, "0.1")
    noise = drawn_noise(made, 600)
    units = [recover(made, unit) for unit in np.eye(made.rows)]  # recovery is linear
    found = predictor(made)
    for table in made.workload:
        errors = np.tensordot(noise, np.array([unit[table] for unit in units]), 1)
        for confidence in (0.95, 0.999):
            missed = float(np.mean(np.abs(errors) > found.errors(table).half_widths(confidence)))
            assert missed <= 1 - confidence + 5 * np.sqrt((1 - confidence) / errors.size) + 0.002
        kurtosis = found.query_law(table, np.eye(1, errors[0].size)[0].reshape(errors[0].shape)).kurtosis
        drawn = float(np.mean(errors**4) / np.mean(errors**2) ** 2 - 3)
        assert drawn - 0.6 <= kurtosis <= drawn + 1.5
