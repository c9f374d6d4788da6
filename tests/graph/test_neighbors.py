"""Nearest classes and the class graph."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import wasserstein_distance
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import NearestNeighbors

from hgkt.exceptions import DataError
from hgkt.graph import ClassNeighbors, class_graph, nearest_classes


@pytest.mark.parametrize(("space", "metric"), [("euclidean", "euclidean"), ("cosine", "cosine")])
def test_nearest_classes_agrees_with_sklearn(space: str, metric: str) -> None:
    rng = np.random.default_rng(0)
    queries, references = rng.normal(size=(9, 5)), rng.normal(size=(20, 5))
    index = NearestNeighbors(n_neighbors=4, metric=metric, algorithm="brute").fit(references)
    expected = index.kneighbors(queries, return_distance=False)
    np.testing.assert_array_equal(nearest_classes(queries, references, 4, space), expected)


def test_nearest_classes_wasserstein_orders_as_the_quantile_integral() -> None:
    rng = np.random.default_rng(1)
    rows = rng.random((7, 12)) ** 3
    simplex = rows / rows.sum(axis=1, keepdims=True)
    # W2² on a line by a fine grid of quantiles, independent of hgkt.transport.
    levels = (np.arange(200_000) + 0.5) / 200_000
    quantiles = np.array([np.searchsorted(np.cumsum(row), levels) for row in simplex], dtype=float)
    squared = ((quantiles[:, None] - quantiles[None]) ** 2).mean(axis=2)
    np.fill_diagonal(squared, np.inf)
    found = nearest_classes(rows, rows, 3, "wasserstein", exclude_self=True)
    np.testing.assert_array_equal(found, np.argsort(squared, axis=1)[:, :3])


def test_nearest_classes_wasserstein_is_not_euclidean() -> None:
    rows = np.eye(6)[[0, 1, 5]]  # all equally far in Euclid, not on the line
    assert nearest_classes(rows[:1], rows, 3, "wasserstein").tolist() == [[0, 1, 2]]
    assert nearest_classes(rows[2:], rows, 2, "wasserstein").tolist() == [[2, 1]]
    assert wasserstein_distance(range(6), range(6), rows[2], rows[1]) < wasserstein_distance(
        range(6), range(6), rows[2], rows[0]
    )


def test_nearest_classes_attributes_is_cosine() -> None:
    rows = np.random.default_rng(2).normal(size=(8, 4))
    cosine = nearest_classes(rows, rows, 3, "cosine", True)
    np.testing.assert_array_equal(nearest_classes(rows, rows, 3, "attributes", True), cosine)


@pytest.mark.parametrize("space", ["euclidean", "cosine", "wasserstein"])
def test_nearest_classes_breaks_ties_by_the_lower_index(space: str) -> None:
    row = np.array([0.3, 0.1, 0.7, 0.2])
    references = np.stack([row[::-1]] + [row] * 9)
    found = nearest_classes(row[None], references, 9, space)
    np.testing.assert_array_equal(found[0], np.arange(1, 10))


def test_nearest_classes_excludes_self_even_among_duplicates() -> None:
    rows = np.ones((3, 2))
    found = nearest_classes(rows, rows, 2, "cosine", exclude_self=True)
    np.testing.assert_array_equal(found, [[1, 2], [0, 2], [0, 1]])


@pytest.mark.parametrize(("exclude_self", "width"), [(False, 4), (True, 3)])
def test_nearest_classes_clips_k_to_what_is_there(exclude_self: bool, width: int) -> None:
    rows = np.random.default_rng(3).random((4, 2))
    assert nearest_classes(rows, rows, 50, "euclidean", exclude_self).shape == (4, width)


def test_nearest_classes_zero_vector_has_cosine_zero_with_all() -> None:
    references = np.array([[0.0, 0.0], [0.2, 1.0], [-0.2, 1.0]])
    assert nearest_classes([[2.0, 0.0]], references, 3, "cosine").tolist() == [[1, 0, 2]]
    assert nearest_classes([[0.0, 0.0]], references, 3, "cosine").tolist() == [[0, 1, 2]]


def test_nearest_classes_is_scale_free_under_cosine() -> None:
    rows = np.random.default_rng(4).normal(size=(6, 3))
    distances = pairwise_distances(rows, metric="cosine")
    np.fill_diagonal(distances, np.inf)
    found = nearest_classes(rows * np.arange(1, 7)[:, None], rows, 6, "cosine")[:, 1:]
    np.testing.assert_array_equal(found, np.argsort(distances, axis=1)[:, :5])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.ones((2, 2)), np.ones((2, 3)), 1, "cosine"), "2 columns and references 3"),
        ((np.ones((2, 2)), np.ones((2, 2)), 0, "cosine"), "k must be an integer"),
        ((np.ones((2, 2)), np.ones((2, 2)), 1, "manhattan"), "space must be one of"),
        ((np.array([[np.nan, 1.0]]), np.ones((2, 2)), 1, "cosine"), "queries contain NaN in row 0"),
        ((np.ones(2), np.ones((2, 2)), 1, "cosine"), "one row a class"),
        ((np.ones((3, 2)), np.ones((2, 2)), 1, "cosine", True), "the same classes twice"),
    ],
)
def test_nearest_classes_refuses_with_a_sentence(arguments: tuple, message: str) -> None:
    with pytest.raises(DataError, match=message):
        nearest_classes(*arguments)


def test_class_graph_symmetric_is_the_union_of_both_directions() -> None:
    rows = np.random.default_rng(5).random((10, 3))
    directed = class_graph(rows, 2, "euclidean")
    symmetric = class_graph(rows, 2, "euclidean", directed=False)
    edges = {(c, j) for c in range(10) for j in directed.of(c).tolist()}
    union = edges | {(j, c) for c, j in edges}
    assert union == {(c, j) for c in range(10) for j in symmetric.of(c).tolist()}
    assert symmetric.n_edges == len(union) > len(edges) == 20
    symmetric.validate()


def test_class_graph_of_one_class_has_no_edge() -> None:
    assert class_graph([[1.0, 2.0]], 2, "euclidean").n_edges == 0


def test_class_neighbors_cannot_be_written_to() -> None:
    neighbors = ClassNeighbors.from_rows([[1], [0]])
    with pytest.raises(ValueError, match="read-only"):
        neighbors.indices[0] = 5


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[1], [2]], "class 1 has neighbour 2; classes 0 to 1"),
        ([[0], [0]], "class 0 is listed as its own neighbour"),
        ([[1, 1], []], "class 0 lists a neighbour twice"),
    ],
)
def test_class_neighbors_validate_names_the_class(rows: list, message: str) -> None:
    with pytest.raises(DataError, match=message):
        ClassNeighbors.from_rows(rows).validate()


def test_class_neighbors_validate_refuses_broken_indptr() -> None:
    with pytest.raises(DataError, match="indptr of the class graph must rise"):
        ClassNeighbors([0, 2, 1], [1]).validate()
