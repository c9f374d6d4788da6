"""Representatives from batches, held against those of all rows at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from hgkt.exceptions import DataError
from hgkt.transport import (
    line_distances,
    select_representatives,
    stream_representatives,
    to_simplex,
)

D, SMALL, LARGE = 64, 40, 2000


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray]:
    """A class of 40 rows, one of 2 000 and one of 500, mixed."""
    rng = np.random.default_rng(3)
    codes = rng.permutation(np.repeat([0, 1, 2], [SMALL, LARGE, 500]))
    means = rng.gamma(0.5, size=(3, D))
    return (rng.gamma(0.8, size=(len(codes), D)) * means[codes]).astype(np.float32), codes


def batches(X: np.ndarray, codes: np.ndarray, size: int = 97) -> Any:
    def read() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for start in range(0, len(X), size):
            yield X[start : start + size], codes[start : start + size]

    return read


@pytest.mark.parametrize("method", ["wasserstein", "euclidean", "medoid"])
def test_classes_that_fit_have_the_very_same_representatives(rows, method):
    X, codes = rows
    exact = select_representatives(X, codes, 3, method)
    found = stream_representatives(batches(X, codes), 3, method)
    assert found.indices.tolist() == exact.indices.tolist()
    np.testing.assert_array_equal(found.features, X[exact.indices])
    np.testing.assert_allclose(found.distances, exact.distances, rtol=1e-12)
    assert found.excess.tolist() == [0.0, 0.0, 0.0]
    if exact.barycenters is not None:
        np.testing.assert_allclose(found.barycenters, exact.barycenters, atol=1e-12)


@pytest.mark.parametrize("cells", [1, 4, 16])
def test_large_classes_stay_within_the_stated_bound(rows, cells):
    X, codes = rows
    exact = select_representatives(X, codes, 3)
    found = stream_representatives(batches(X, codes), 3, memory=3 * 8 * D * cells)
    for c in range(3):
        goal = exact.barycenters[c]
        chosen = np.sqrt(line_distances(to_simplex(found.features[c : c + 1]), goal)[0])
        assert chosen <= np.sqrt(exact.distances[c]) + found.excess[c] + 1e-9
        off = np.sqrt(line_distances(found.barycenters[c : c + 1], goal)[0])
        assert off <= found.excess[c] / 2 + 1e-9
    # W₂ between the ends of the cells falls with their number; 16 per bin settle the choice.
    assert (found.excess[1:] <= 2.5 / np.sqrt(cells)).all()
    if cells == 16:
        assert found.indices.tolist() == exact.indices.tolist()


def test_only_the_class_that_does_not_fit_is_estimated(rows):
    X, codes = rows
    found = stream_representatives(batches(X, codes), 3, memory=3 * 600 * 4 * D)
    assert (found.excess > 0).tolist() == [False, True, False]
    exact = select_representatives(X, codes, 3)
    assert found.indices[[0, 2]].tolist() == exact.indices[[0, 2]].tolist()


def test_the_result_does_not_depend_on_the_batches(rows):
    X, codes = rows
    one, other = (
        stream_representatives(batches(X, codes, size), 3, memory=3 * 8 * D * 4)
        for size in (97, 1000)
    )
    assert one.indices.tolist() == other.indices.tolist()
    np.testing.assert_array_equal(one.barycenters, other.barycenters)
    np.testing.assert_array_equal(one.excess, other.excess)


def test_the_mean_is_exact_whatever_fits_and_random_draws_from_every_class(rows):
    X, codes = rows
    exact = select_representatives(X, codes, 3, "euclidean")
    found = stream_representatives(batches(X, codes), 3, "euclidean", memory=3 * 8)
    assert found.indices.tolist() == exact.indices.tolist()
    assert not found.excess.any()
    drawn = [stream_representatives(batches(X, codes), 4, "random", random_state=1)] * 2
    assert codes[drawn[0].indices[:3]].tolist() == [0, 1, 2]
    assert drawn[0].indices[3] == -1
    assert drawn[0].indices.tolist() == drawn[1].indices.tolist()


def test_signed_and_zero_rows_become_histograms_as_in_memory(rows):
    X, codes = rows[0] - np.float32(0.01), rows[1]
    X[np.flatnonzero(codes == 1)[:2]] = 0.0
    with pytest.warns(UserWarning, match="2 rows of features are zero everywhere"):
        found = stream_representatives(batches(X, codes), 3, memory=3 * 8 * D * 16)
    with pytest.warns(UserWarning, match="2 rows"):
        exact = select_representatives(X, codes, 3)
    assert found.indices.tolist() == exact.indices.tolist()


def test_what_cannot_be_streamed_is_refused(rows):
    X, codes = rows
    with pytest.raises(DataError, match="a class has more rows than its share of 3200 bytes"):
        stream_representatives(batches(X, codes), 3, "medoid", memory=9600)
    with pytest.raises(DataError, match="a class has more rows than its share"):
        stream_representatives(batches(X, codes), 3, solver="sinkhorn", memory=9600)
    with pytest.raises(DataError, match="at least one per feature, 64, is expected"):
        stream_representatives(batches(X, codes), 3, memory=3 * 8 * (D - 1))
    with pytest.raises(DataError, match=r"codes must be in 0\.\.1"):
        stream_representatives(batches(X, codes), 2)
    calls = iter([X, X[:-1]])
    with pytest.raises(DataError, match="the batches had 2540 rows at first and 2539 the second"):
        stream_representatives(
            lambda: batches(rows := next(calls), codes[: len(rows)])(), 3, memory=9600
        )
    with pytest.raises(DataError, match="features of the batch after row 0 contain NaN in row 1"):
        stream_representatives(batches(np.array([[1.0], [np.nan]]), np.zeros(2, int)), 1)
