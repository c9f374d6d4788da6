"""The choice of one instance a class."""

from __future__ import annotations

import numpy as np
import ot
import pytest
from scipy.io import loadmat
from scipy.spatial.distance import cdist

from hgkt.exceptions import DataError
from hgkt.transport import (
    ground_cost,
    line_barycenter,
    line_distances,
    line_pairwise,
    select_representatives,
    to_simplex,
)


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    features = rng.gamma(0.8, size=(60, 20)).astype(np.float32)
    return features, rng.permutation(np.arange(60) % 4)


def test_select_wasserstein_is_nearest_to_the_linear_program(problem):
    features, codes = problem
    found = select_representatives(features, codes, 4)
    matrix = ground_cost(20)
    assert found.method == "wasserstein"
    for c in range(4):
        members = np.flatnonzero(codes == c)
        histograms = to_simplex(features[members])
        np.testing.assert_allclose(found.barycenters[c], line_barycenter(histograms))
        program = ot.lp.barycenter(histograms.T, matrix, solver="highs")
        program = np.maximum(program, 0) / program.sum()
        claimed = np.mean([ot.emd2(row, found.barycenters[c], matrix) for row in histograms])
        best = np.mean([ot.emd2(row, program, matrix) for row in histograms])
        assert claimed == pytest.approx(best, rel=1e-9)
        distances = [ot.emd2(row, found.barycenters[c], matrix) for row in histograms]
        assert found.indices[c] == members[np.argmin(distances)]
        assert found.distances[c] == pytest.approx(min(distances), rel=1e-9)


def test_select_euclidean_is_nearest_to_the_mean(problem):
    features, codes = problem
    found = select_representatives(features, codes, 4, "euclidean")
    for c in range(4):
        members = np.flatnonzero(codes == c)
        rows = features[members].astype(np.float64)
        distances = np.linalg.norm(rows - rows.mean(axis=0), axis=1)
        assert found.indices[c] == members[np.argmin(distances)]
        assert found.distances[c] == pytest.approx(distances.min())
        np.testing.assert_allclose(found.barycenters[c], rows.mean(axis=0))


def test_select_medoid_has_the_smallest_sum_of_distances(problem):
    features, codes = problem
    found = select_representatives(features - 0.5, codes, 4, "medoid")
    for c in range(4):
        members = np.flatnonzero(codes == c)
        sums = cdist(features[members], features[members]).sum(axis=1)
        assert found.indices[c] == members[np.argmin(sums)]
        assert found.distances[c] == pytest.approx(sums.min() / len(members))
    assert found.barycenters is None


def test_select_random_stays_in_its_class_and_follows_the_seed(problem):
    features, codes = problem
    draws = np.array(
        [
            select_representatives(features, codes, 4, "random", random_state=s).indices
            for s in range(30)
        ]
    )
    assert (codes[draws] == np.arange(4)).all()
    assert len(np.unique(draws[:, 0])) > 5
    again = select_representatives(features, codes, 4, "random", random_state=7)
    np.testing.assert_array_equal(again.indices, draws[7])
    assert np.isnan(again.distances).all()
    assert again.barycenters is None


def test_select_sinkhorn_nears_the_exact_choice():
    rng = np.random.default_rng(1)
    centers, bins = rng.uniform(5, 19, size=(24, 1)), np.arange(25)
    features, codes = np.exp(-((bins - centers) ** 2) / 8), np.arange(24) % 3
    exact = select_representatives(features, codes, 3)
    found = select_representatives(features, codes, 3, solver="sinkhorn", reg=3e-3)
    np.testing.assert_array_equal(found.indices, exact.indices)


@pytest.mark.parametrize("method", ["wasserstein", "euclidean", "medoid"])
def test_select_takes_the_lowest_row_of_equals(method):
    rng = np.random.default_rng(2)
    copies = np.repeat(rng.random((3, 30)), 4, axis=0)
    order = rng.permutation(12)
    chosen = select_representatives(copies[order], np.zeros(12, int), 1, method).indices[0]
    twins = np.flatnonzero((copies[order] == copies[order][chosen]).all(axis=1))
    assert chosen == twins[0]


def equals_but_for_rounding(method, rng):
    """Return instances of one class that are equally near in exact arithmetic."""
    if method == "wasserstein":  # one histogram, moved as far to the left as to the right
        shape, rows = rng.random(12), np.zeros((2, 40))
        left = int(rng.integers(1, 12))
        rows[0, left : left + 12] = rows[1, left + 14 : left + 26] = shape
        return rows
    angles = rng.random() + np.pi / 3 * np.arange(6)  # the corners of a hexagon
    return 5.0 + np.stack([np.cos(angles), np.sin(angles)], axis=1)


def second_nearer(method, gap):
    """Return instances of one class: row 1 is nearest, by `gap` of the largest distance."""
    if method == "wasserstein":  # W₂² of 1 and 1 − gap
        return np.array([[0.0, 0.0, gap, 1.0 - gap], [0.0, 1.0, 0.0, 0.0]])
    # Row 1 of a rhombus moves inwards: to the mean by half as much more than row 0, and to
    # the two far corners by 1/√10 each.
    far = 3.0 if method == "euclidean" else 6.0 + 2.0 * np.sqrt(10.0)
    step = gap * far / (0.5 if method == "euclidean" else 2.0 / np.sqrt(10.0))
    return np.array([[-1.0, 0.0], [1.0 - step, 0.0], [0.0, 3.0], [0.0, -3.0]])


@pytest.mark.parametrize("method", ["wasserstein", "euclidean", "medoid"])
def test_select_takes_the_first_of_equals_despite_rounding(method):
    rng = np.random.default_rng(5)
    for _ in range(50):
        rows = equals_but_for_rounding(method, rng)
        assert select_representatives(rows, np.zeros(len(rows), int), 1, method).indices[0] == 0


@pytest.mark.parametrize("method", ["wasserstein", "euclidean", "medoid"])
@pytest.mark.parametrize(("gap", "chosen"), [(2e-13, 0), (5e-12, 1)])
def test_select_tells_apart_what_differs_by_more_than_one_part_in_a_trillion(method, gap, chosen):
    rows = second_nearer(method, gap)
    found = select_representatives(rows, np.zeros(len(rows), int), 1, method)
    assert found.indices[0] == chosen


def test_select_does_not_depend_on_the_order_of_rows(problem):
    features, codes = problem
    order = np.random.default_rng(3).permutation(60)
    for method in ("wasserstein", "euclidean", "medoid"):
        plain = select_representatives(features, codes, 4, method).indices
        moved = select_representatives(features[order], codes[order], 4, method).indices
        np.testing.assert_array_equal(order[moved], plain)


def test_select_shifts_negative_features(problem):
    features, codes = problem
    shifted = features - 0.5
    by_hand = select_representatives(to_simplex(shifted), codes, 4)
    found = select_representatives(shifted, codes, 4)
    np.testing.assert_array_equal(found.indices, by_hand.indices)


def test_select_leaves_the_features_as_they_are():
    features = np.random.default_rng(4).normal(size=(12, 6))
    kept = features.copy()
    for method in ("wasserstein", "euclidean", "medoid", "random"):
        select_representatives(features, np.zeros(12, int), 1, method)
    np.testing.assert_array_equal(features, kept)


def test_select_names_zero_rows_once(problem):
    features, codes = problem
    features[[11, 40]] = 0
    with pytest.warns(UserWarning, match="2 rows .* row 11") as record:
        select_representatives(features, codes, 4)
    assert len(record) == 1


def test_select_reports_progress(problem):
    calls = []
    select_representatives(*problem, 4, progress=lambda *call: calls.append(call))
    assert calls == [("representatives", c, 4, {}) for c in range(1, 5)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_classes": 5}, "class code 4 has no instance"),
        ({"n_classes": 3}, "code 3 in row"),
        ({"method": "mean"}, "method must be one of 'wasserstein'"),
        ({"solver": "lp"}, "solver must be one of 'exact', 'sinkhorn'"),
        ({"reg": 0.0}, "reg must be"),
        ({"codes": np.zeros(3, int)}, "60 integers"),
        ({"codes": np.zeros(60)}, "60 integers"),
    ],
)
def test_select_says_what_is_wrong(problem, change, message):
    features, codes = problem
    with pytest.raises(DataError, match=message):
        select_representatives(**{"features": features, "codes": codes, "n_classes": 4} | change)


def test_select_names_the_row_that_is_not_finite(problem):
    features, codes = problem
    features[33, 2] = np.nan
    with pytest.raises(DataError, match="NaN in row 33"):
        select_representatives(features, codes, 4)


def test_select_on_real_features_attains_less_than_any_member(data_root):
    """No instance of a class may beat its barycenter, and the choice is the nearest instance."""
    content = loadmat(data_root / "CUB" / "efflite2.mat", variable_names=["features", "labels"])
    labels = content["labels"].ravel().astype(int) - 1
    features, codes = content["features"].T[labels < 5], labels[labels < 5]
    found = select_representatives(features, codes, 5)
    np.testing.assert_array_equal(codes[found.indices], np.arange(5))
    for c in range(5):
        histograms = to_simplex(features[codes == c])
        at_center = line_distances(histograms, found.barycenters[c])
        assert at_center.min() == pytest.approx(found.distances[c])
        assert at_center.mean() < line_pairwise(histograms).mean(axis=0).min()
