from __future__ import annotations

import numpy as np

from hgkt.statistics import ClassStatistics, class_counts_and_means, class_sums


def make(seed=0, n=300, n_features=7, n_classes=5):
    rng = np.random.default_rng(seed)
    return rng.normal(2.0, 1.0, (n, n_features)), rng.integers(0, n_classes, n), n_classes


def test_within_scatter_matches_loop_over_classes():
    X, codes, n_classes = make()
    expected = np.zeros((7, 7))
    for code in range(n_classes):
        centred = X[codes == code] - X[codes == code].mean(axis=0)
        expected += centred.T @ centred
    stats = ClassStatistics(n_classes, 7).update(X, codes)
    np.testing.assert_allclose(stats.within_scatter, expected, atol=1e-10)


def test_within_scatter_is_the_laplacian_form_of_the_complete_class_graphs():
    X, codes, n_classes = make(n=40)
    same = codes[:, None] == codes
    weights = same / np.bincount(codes)[codes][:, None]
    laplacian = np.diag(weights.sum(axis=1)) - weights
    stats = ClassStatistics(n_classes, 7).update(X, codes)
    np.testing.assert_allclose(stats.within_scatter, X.T @ laplacian @ X, atol=1e-10)


def test_batches_in_any_order_and_merging_equal_one_pass():
    X, codes, n_classes = make(n=9000)
    whole = ClassStatistics(n_classes, 7).update(X, codes)
    parts = [slice(6000, 9000), slice(0, 1), slice(1, 6000)]
    pieces = ClassStatistics(n_classes, 7)
    for part in parts:
        pieces.merge(ClassStatistics(n_classes, 7).update(X[part], codes[part]))
    np.testing.assert_allclose(pieces.counts, whole.counts)
    np.testing.assert_allclose(pieces.means, whole.means, atol=1e-12)
    np.testing.assert_allclose(pieces.within_scatter, whole.within_scatter, rtol=1e-9)


def test_class_sums_of_absent_class_and_empty_batch_are_zero():
    X, codes, _ = make()
    sums = class_sums(X, codes, 8)
    np.testing.assert_allclose(sums[2], X[codes == 2].sum(axis=0))
    assert not sums[5:].any()
    assert not class_sums(X[:0], codes[:0], 3).any()


def test_counts_and_means_match_numpy():
    X, codes, n_classes = make(n=5000)
    counts, means = class_counts_and_means(X.astype(np.float32), codes, n_classes)
    np.testing.assert_array_equal(counts, np.bincount(codes))
    expected = [X[codes == code].mean(axis=0) for code in range(n_classes)]
    np.testing.assert_allclose(means, expected, atol=1e-5)
