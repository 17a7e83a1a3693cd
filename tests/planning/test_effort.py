"""Effort means time: what is left out and why, more effort is never worse, and work can be interrupted anywhere."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privcube as pc
from privcube.model.options import PlanOptions
from privcube.planning import candidates, searched
from privcube.planning.bounds.screening import least_error, seconds
from privcube.planning.search import annealing, search
from privcube.planning.search.narrow import drawn_error
from privcube.progress import COMPARING, PLANNING, Enough, silent

GUARANTEES = [
    pc.PureDP(1),
    pc.PureDP(3, neighbors="replace_one"),
    pc.ZCDP("0.5", max_rows_per_person=2),
    pc.ZCDP(1, neighbors="replace_one"),
]


def kway(sizes: tuple[int, ...], *ks: int) -> pc.Workload:
    schema = pc.Schema.from_sizes({f"a{at:02d}": size for at, size in enumerate(sizes)})
    found = pc.Workload.all_kway(schema, ks[0])
    for k in ks[1:]:
        found = found | pc.Workload.all_kway(schema, k)
    return found


# What a strategy can have at least


@settings(max_examples=5)
@given(data=st.data())
def test_the_least_error_of_coefficients_is_that_of_their_plan(data: st.DataObject) -> None:
    """Exact for Fourier coefficients, below for wavelets, equal where nothing is padded."""
    sizes = data.draw(st.lists(st.sampled_from([1, 2, 3, 4, 5, 7, 8, 11]), min_size=1, max_size=3))
    schema = pc.Schema.from_sizes({f"a{at}": size for at, size in enumerate(sizes)})
    subsets = st.sets(st.sampled_from(schema.names)).map(lambda names: tuple(sorted(names)))
    tables = data.draw(st.lists(subsets, min_size=1, max_size=4, unique=True))
    weights = data.draw(st.lists(st.sampled_from([0.5, 1.0, 3.0]), min_size=len(tables), max_size=len(tables)))
    workload = pc.Workload.tables(schema, tables, weights=weights)
    for guarantee in GUARANTEES:
        for strategy in ("fourier", "wavelet"):
            made = pc.plan(workload, guarantee, strategy).weighted_variance
            least = least_error(strategy, workload, guarantee)
            assert least <= made * (1 + 1e-9)
            full = strategy == "fourier" or all(size & (size - 1) == 0 for size in sizes)
            if guarantee.neighbors == "add_remove" and full:
                assert least == pytest.approx(made)


@pytest.mark.parametrize("epsilon", [2, 5, 20, 60])
def test_the_least_error_as_drawn(epsilon: int) -> None:
    workload = kway((3, 4, 2), 2)
    for strategy in ("fourier", "wavelet"):
        made = pc.plan(workload, pc.PureDP(epsilon), strategy)
        assert least_error(strategy, workload, pc.PureDP(epsilon), drawn=True) <= drawn_error(made)


def test_other_tables_only_add_to_the_least_error() -> None:
    area = pc.Attribute("area", values=list("uvwx"), levels=[pc.Level("p", groups={"n": ["u", "v"], "s": ["w", "x"]})])
    age = pc.Attribute("age", bins=list(range(9)))
    schema = pc.Schema([area, age, pc.Attribute("sex", size=3)])
    plain = pc.Workload.tables(schema, [("age", "sex"), ("sex",)])
    more = plain | pc.Workload.tables(schema, [(pc.Axis("area", "p"), "sex"), (pc.Axis("age", queries="ranges"),)])
    assert least_error("wavelet", more, pc.PureDP(1)) == pytest.approx(least_error("wavelet", plain, pc.PureDP(1)))
    assert least_error("marginals", plain, pc.PureDP(1)) == 0
    assert least_error("fourier", pc.Workload.tables(schema, [(pc.Axis("area", "p"),)]), pc.PureDP(1)) == 0


# What is left out


@pytest.mark.parametrize(
    ("workload", "left_out"),
    [
        (kway((85, 9, 100, 16, 7, 15, 6, 5, 2, 100, 100, 99, 42, 2), 2), {"fourier", "wavelet"}),
        (kway((5000, 5, 7, 2), 1, 2), {"fourier", "wavelet"}),
    ],
    ids=["adult", "5,000 values"],
)
def test_what_cannot_win_is_not_worked_out(workload: pc.Workload, left_out: set[str]) -> None:
    tried = candidates.candidates(workload, pc.PureDP(1), PlanOptions(), silent)
    assert set(tried.left_out) == left_out
    assert tried.best.options.strategy in ("search", "marginals")  # which a search as short as here may not beat
    for problem in tried.left_out.values():
        assert "seconds of work" in str(problem) or "the best so far has" in str(problem)


def test_a_strategy_that_would_win_is_worked_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wide noise on binary attributes: coefficients by themselves are better than marginals, and they are found."""
    workload = kway((2,) * 8, 2)
    monkeypatch.setattr(candidates, "_covered", lambda workload: frozenset({"base_counts", "clusters", "matrix"}))
    monkeypatch.setattr(candidates, "searched", _no_search)
    made = pc.plan(workload, pc.PureDP(1))
    assert made.options.strategy in ("matrix", "base_counts")  # 128 against 444
    for name in ("fourier", "marginals"):
        assert made.weighted_variance <= pc.plan(workload, pc.PureDP(1), name).weighted_variance


def _no_search(*given: object) -> pc.Plan:
    raise pc.errors.PlanError("strategy", expected="no search in this test")


def test_prices_grow_with_the_work() -> None:
    pure = pc.PureDP(1)
    for name in ("fourier", "wavelet", "clusters", "marginals"):
        assert seconds(name, kway((10,) * 6, 2), pure) < seconds(name, kway((10,) * 12, 3), pure)
    assert seconds("fourier", kway((5000, 2), 1), pure) > seconds("fourier", kway((4096, 2), 1), pure)
    assert seconds("matrix", kway((32, 32), 2), pure) > seconds("matrix", kway((8, 8), 2), pure)
    assert seconds("matrix", kway((32, 33), 2), pure) == 0  # refused at once


# More effort


@pytest.fixture
def _short_efforts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(annealing, "_SECONDS", {"fast": 0.01, "normal": 0.02, "thorough": 0.04})
    monkeypatch.setattr(annealing, "_RUNS", dict.fromkeys(annealing._RUNS, 1))
    monkeypatch.setattr(search, "_STARTS", {"fast": 0.02, "normal": 0.05, "thorough": 0.1})
    monkeypatch.setattr(search, "_LEAST_FOR_STARTS", 0.02)
    monkeypatch.setattr(search, "_COVERINGS", {"fast": 1, "normal": 2, "thorough": 3})


RANGED = pc.Workload.tables(
    pc.Schema.from_sizes({"age": 12, "sex": 2}), [(pc.Axis("age", queries="ranges"), "sex"), ("age",)]
)


@pytest.mark.usefixtures("_short_efforts")
@pytest.mark.parametrize(
    ("workload", "epsilon", "objective"),
    [
        (kway((9, 7, 5, 2), 2), "1", "total"),
        (kway((3,) * 4, 1, 2), "8", "total"),
        (kway((3,) * 3, 1, 2), "1", "largest"),
        (RANGED, "1", "total"),
    ],
    ids=["some of adult", "large epsilon", "largest", "ranges"],
)
def test_more_effort_is_never_worse(workload: pc.Workload, epsilon: str, objective: Any) -> None:
    made = [
        pc.plan(workload, pc.PureDP(epsilon), effort=effort, objective=objective)
        for effort in ("fast", "normal", "thorough")
    ]
    if objective == "largest":
        errors = [max(each.table_variances) for each in made]
    elif epsilon == "8":
        errors = [drawn_error(each) for each in made]
    else:
        errors = [each.weighted_variance for each in made]
    assert errors[1] <= errors[0] * (1 + 1e-9)
    assert errors[2] <= errors[1] * (1 + 1e-9)
    assert [each.options.effort for each in made] == ["fast", "normal", "thorough"]


@pytest.mark.usefixtures("_short_efforts")
@pytest.mark.parametrize("widths", [{"fast": (2,), "normal": (2,)}, {"fast": (2,), "normal": (2, 3, 4)}])
def test_more_effort_on_trees_begins_with_the_searches_of_less(
    monkeypatch: pytest.MonkeyPatch, widths: dict[str, tuple[int, ...]]
) -> None:
    """Searches with other parts of the time, or on other trees, would find other plans, and perhaps worse ones."""
    calls: list[tuple[Any, ...]] = []
    real = searched.search_plan

    def called(*given: Any, also: Any, part: float, **others: Any) -> pc.Plan:
        made = real(*given, also=also, part=part, **others)
        calls.append((given[2].effort, given[3], [each.weighted_variance for each in also], part, made))
        return made

    monkeypatch.setattr(searched, "widths_in_time", lambda workload, guarantee, effort: widths[effort])
    monkeypatch.setattr(searched, "search_plan", called)
    workload = pc.Workload.ranges(pc.Schema.from_sizes({"age": 81}), ["age"])
    fast = pc.plan(workload, pc.PureDP(1), "search")
    begun = [call[:4] for call in calls]
    assert len(begun) == 2  # without a tree and on one
    made = pc.plan(workload, pc.PureDP(1), "search", effort="normal")
    assert [call[:4] for call in calls[2:4]] == begun
    on_fast_tree, (effort, frame, also, *_) = calls[3], calls[4]
    assert len(calls) == 5
    assert effort == "normal"
    assert (frame == on_fast_tree[1]) == (widths["fast"] == widths["normal"])
    assert (on_fast_tree[4].weighted_variance in also) == (frame == on_fast_tree[1])
    assert made.weighted_variance <= fast.weighted_variance


@pytest.mark.usefixtures("_short_efforts")
def test_progress_is_told_as_one_search_and_can_be_stopped() -> None:
    workload, told = kway((3,) * 6, 2), []

    def tell(stage: str, done: int, total: int | None) -> None:
        told.append((stage, done, total))

    made = pc.plan(workload, pc.PureDP(1), effort="thorough", progress=tell)
    shares = [done / total for stage, done, total in told if stage == PLANNING and total]
    assert shares == sorted(shares)
    assert shares[-1] == 1
    assert told[-1][0] == COMPARING

    stopped_at: list[str] = []

    def stop(stage: str, done: int, total: int | None) -> None:
        stopped_at.append(stage)
        raise Enough

    early = pc.plan(workload, pc.PureDP(1), effort="thorough", progress=stop)
    assert early.weighted_variance >= made.weighted_variance
    assert stopped_at == [PLANNING, COMPARING]  # one search, not three


@pytest.mark.usefixtures("_short_efforts")
def test_searches_for_the_largest_error_are_told_as_one_and_stopped_as_one() -> None:
    workload, shares = kway((2, 3, 2), 2), []

    def tell(stage: str, done: int, total: int | None) -> None:
        shares.append(done / (total or 1))

    made = pc.plan(workload, pc.PureDP(1), effort="normal", objective="largest", progress=tell)
    assert shares == sorted(shares)

    left = [len(shares) // 4]

    def stop(stage: str, done: int, total: int | None) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise Enough

    early = pc.plan(workload, pc.PureDP(1), effort="normal", objective="largest", progress=stop)
    assert left[0] == -1  # told once, stopped at once
    assert early.options.effort == "normal"
    assert max(made.table_variances) <= max(early.table_variances)


@pytest.mark.usefixtures("_short_efforts")
def test_a_search_can_be_stopped_anywhere() -> None:
    """Wherever it is told to stop, the starts of a longer search among it, it has a plan no worse than a fast one."""
    workload = kway((3,) * 5, 2)
    fast = pc.plan(workload, pc.PureDP(1)).weighted_variance
    shares: list[float] = []

    def tell(stage: str, done: int, total: int | None) -> None:
        if stage == PLANNING and total:
            shares.append(done / total)

    pc.plan(workload, pc.PureDP(1), effort="normal", progress=tell)
    of_fast = 1 / 13
    starts = [at for at, share in enumerate(shares) if abs(share - of_fast) < 1e-9]
    assert len(starts) > 10  # between the end of the fast search and the first step of the next, and not only there
    for last in (starts[0], starts[5], starts[-1], len(shares) - 1):
        left = [last]

        def stop(stage: str, done: int, total: int | None, left: list[int] = left) -> None:
            if stage == PLANNING and total:
                left[0] -= 1
                if left[0] < 0:
                    raise Enough

        made = pc.plan(workload, pc.PureDP(1), effort="normal", progress=stop)
        assert left[0] == -1  # told once, stopped at once
        assert made.weighted_variance <= fast * (1 + 1e-9)


# Interrupts

PLANS = """
import privcube as pc
from privcube.planning.search import annealing, search
def kway(sizes, k):
    return pc.Workload.all_kway(pc.Schema.from_sizes({f"a{i:02d}": n for i, n in enumerate(sizes)}), k)
wide = pc.Schema.from_sizes({"big": 1000, "b": 5})
annealing._SECONDS["fast"] = 0.02
plans = [
    lambda: pc.plan(kway((85, 9, 100, 16, 7, 15, 6, 5, 2, 100, 100, 99, 42, 2), 2), pc.PureDP(1)),
    lambda: pc.plan(pc.Workload.ranges(wide, ["big"]) | pc.Workload.all_kway(wide, 2), pc.PureDP(1)),
    lambda: pc.plan(kway((5000, 3, 2), 2), pc.PureDP(20)),
    lambda: pc.plan(kway((10,) * 14, 3), pc.PureDP(1)),
    lambda: pc.plan(kway(tuple(range(2, 20)), 2), pc.ZCDP(1, neighbors="replace_one")),
]
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers of processor time")
def test_no_step_of_planning_keeps_an_interrupt_waiting() -> None:
    """A timer of processor time ticks; the longest wait for Python to notice is that for Ctrl-C, on any machine."""
    script = PLANS + textwrap.dedent(
        """
        import signal, time
        ticks = []
        signal.signal(signal.SIGPROF, lambda number, frame: ticks.append(time.process_time()))
        signal.setitimer(signal.ITIMER_PROF, 0.05, 0.05)
        for make in plans:
            make()
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(max(later - earlier for earlier, later in zip(ticks, ticks[1:])))
        """
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert float(found.stdout) < 1.0


def test_an_interrupt_ends_planning() -> None:
    script = PLANS + textwrap.dedent(
        """
        import signal
        signal.signal(signal.SIGINT, signal.default_int_handler)
        print("ready", flush=True)
        while True:
            for make in plans:
                make()
        """
    )
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        time.sleep(0.5)
        os.kill(child.pid, signal.SIGINT)
        _, said = child.communicate(timeout=120)
    assert b"KeyboardInterrupt" in said
    assert child.returncode != 0
