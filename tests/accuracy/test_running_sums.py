"""Ranges by running sums: energies, node counts and Gram products against what they replace, written out."""

from __future__ import annotations

import tracemalloc
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privcube import ZCDP, Attribute, Axis, Level, PureDP, Schema, Workload, plan
from privcube.accuracy.matrix_structure import workload_gram
from privcube.accuracy.published import asked_products, mean_energies
from privcube.accuracy.ranges import energies, gram, gram_times, mean_node_counts, node_counts
from privcube.linear.gram_products import gram_products, table_times
from privcube.model.frame import Frame
from privcube.planning import searched


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 30), st.integers(2, 6), st.booleans(), st.sampled_from(["cells", "prefixes", "ranges"]))
def test_energies_on_padded_trees(values: int, branching: int, missing: bool, queries: str) -> None:
    """Against sums over all pairs of padded cells of the products of the published numbers."""
    attribute = Attribute("x", bins=list(range(values + 1)), missing="category" if missing else "refuse")
    frame = Frame(Schema([attribute]), "tree", branching, frozenset(["x"]))
    products, sizes = asked_products(frame, Axis("x", queries=queries)), frame.sizes[0]
    kept = []
    for size in sizes:
        block = np.arange(sizes[-1]) // (sizes[-1] // size)
        kept.append(products[block[:, None] == block].sum() * size / sizes[-1])
    found = mean_energies(frame, Axis("x", queries=queries))
    np.testing.assert_allclose(found, np.diff(kept, prepend=0), rtol=1e-9, atol=1e-9 * kept[-1])


@pytest.mark.parametrize("queries", ["prefixes", "ranges"])
@pytest.mark.parametrize("sizes", [(1, 7), (1, 2, 6), (1, 3, 6, 12)])
def test_energies_without_padding(queries: str, sizes: tuple[int, ...]) -> None:
    """Leaves in order take running sums, any other order the Gram matrix; a reversed range is a range."""
    leaves = sizes[-1]
    in_order = energies(queries, sizes, range(leaves))
    products = gram(queries, leaves)
    count = leaves if queries == "prefixes" else leaves * (leaves + 1) // 2
    kept = [
        sum(products[block[:, None] & block].sum() for block in np.eye(size, dtype=bool).repeat(leaves // size, axis=1))
        * size / leaves**2 / count
        for size in sizes
    ]  # fmt: skip
    np.testing.assert_allclose(in_order, np.diff(kept, prepend=0), rtol=1e-12)
    if queries == "ranges":
        np.testing.assert_allclose(energies(queries, sizes, range(leaves)[::-1]), in_order, rtol=1e-12)


@pytest.mark.parametrize("queries", ["prefixes", "ranges"])
def test_mean_node_counts_are_means_over_all_queries(queries: str) -> None:
    for branching, depth in ((2, 1), (2, 4), (3, 2), (3, 3), (5, 2)):
        sizes = tuple(branching**level for level in range(depth + 1))
        chosen = [(*some, depth) for count in range(depth + 1) for some in combinations(range(depth), count)]
        for cells in {1, 2, sizes[-1] // 2 + 1, sizes[-1] - 1, sizes[-1]}:
            for levels in chosen:
                listed = node_counts(queries, cells, sizes, levels)
                found = mean_node_counts(queries, cells, sizes, levels)
                assert found == pytest.approx({level: counts.mean() for level, counts in listed.items()})


@pytest.mark.parametrize("queries", ["prefixes", "ranges"])
def test_products_with_the_gram_matrix(queries: str) -> None:
    rows = np.random.default_rng(2).normal(size=(3, 17))
    np.testing.assert_allclose(gram_times(queries, rows), rows @ gram(queries, 17), rtol=1e-9, atol=1e-9)


def test_products_with_the_gram_matrix_of_any_workload() -> None:
    levels = [Level("county", groups={"x": ["p", "q"], "y": ["r"]})]
    schema = Schema([
        Attribute("age", bins=list(range(8)), missing="category"),
        Attribute("town", values=["p", "q", "r"], levels=levels),
        Attribute("year", size=80),
    ])  # fmt: skip
    years = Axis("year", queries="prefixes")
    tables = [(Axis("age", queries="ranges"), years), (Axis("town", "county"), years), ("age", "town"), ()]
    workload = Workload.tables(schema, tables, weights=[1, 2, 0.5, 3])
    products, rows = workload_gram(schema, workload), np.random.default_rng(2).normal(size=(2, schema.domain_size))
    times, diagonal = gram_products(schema, workload)
    np.testing.assert_allclose(times(rows), rows @ products, rtol=1e-8, atol=1e-8 * np.abs(products).sum(axis=0).max())
    np.testing.assert_allclose(diagonal, np.diag(products), rtol=1e-12)
    for table in workload:
        alone = workload_gram(schema, Workload.tables(schema, [table]))
        np.testing.assert_allclose(table_times(schema, table, rows), rows @ alone, rtol=1e-8, atol=1e-6)


def test_tables_with_the_same_entries_share_their_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """127 tables of eight attributes: two products have all cells, where there was one per table."""
    sizes, real = [], np.kron

    def counted(left, right):
        found = real(left, right)
        sizes.append(found.size)
        return found

    schema = Schema.from_sizes({f"a{number}": 2 for number in range(8)})
    tables = [*combinations(schema.names, 3), *combinations(schema.names, 4), ()]
    weights = [1.0 + at for at in range(len(tables))]
    workload = Workload.tables(schema, tables, weights=weights)
    written_out = np.zeros((256, 256))
    for table, weight in zip(tables, weights, strict=True):
        product = np.ones((1, 1))
        for name in schema.names:
            product = np.kron(product, np.eye(2) if name in table else np.ones((2, 2)))
        written_out += weight * product
    monkeypatch.setattr(np, "kron", counted)
    np.testing.assert_array_equal(workload_gram(schema, workload), written_out)
    assert sizes.count(256**2) == 2


# Large attributes


@pytest.mark.parametrize(("guarantee", "queries"), [(PureDP(1), "ranges"), (ZCDP("0.5"), "prefixes")], ids=str)
def test_five_thousand_values_take_no_square_matrix(guarantee, queries: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """5,000 x 5,000 numbers would be 200 MB; and the trees are searched once."""
    counts, real = [], searched.best_tree

    def counted(*given):
        counts.append(given)
        return real(*given)

    monkeypatch.setattr(searched, "best_tree", counted)
    schema = Schema.from_sizes({"x": 5000})
    workload = Workload.tables(schema, [(Axis("x", queries=queries),)])
    tracemalloc.start()
    made = plan(workload, guarantee)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50e6
    assert len(counts) == 1
    alone = plan(workload, guarantee, "hierarchy").total_variance
    assert made.total_variance < 0.9 * alone
