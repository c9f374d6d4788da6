import numpy as np
import pytest
from scipy.stats import norm
from sklearn.kernel_ridge import KernelRidge
from tests.folds import make_fold

from hgkt.baselines._shared.rows import class_means_and_variances
from hgkt.baselines.gfzsl import GFZSLClassifier
from hgkt.data import make_synthetic
from hgkt.exceptions import DataError


@pytest.fixture
def small():
    rng = np.random.default_rng(0)
    y = np.repeat(["a", "b", "c"], [5, 4, 1])
    attributes = dict(zip("abc", rng.random((3, 2)), strict=True))
    return rng.normal(size=(10, 3)), y, attributes


def unit(table, names):
    rows = np.array([table[name] for name in names], dtype=np.float64)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_variances_are_numpys_and_pooled_for_a_class_of_one():
    rng = np.random.default_rng(1)
    X = 1e6 + rng.normal(size=(9000, 3))  # more than a chunk, far from the origin
    codes = np.concatenate([[2], rng.integers(0, 2, 8999)])
    means, variances = class_means_and_variances(X, codes, 3)
    parts = [X[codes == code] for code in range(3)]
    np.testing.assert_allclose(means, [part.mean(axis=0) for part in parts])
    np.testing.assert_allclose(variances[:2], [part.var(axis=0, ddof=1) for part in parts[:2]])
    pooled = sum(((part - part.mean(axis=0)) ** 2).sum(axis=0) for part in parts) / (9000 - 3)
    np.testing.assert_allclose(variances[2], pooled)


def test_gfzsl_regression_equals_scikit_learns_kernel_ridge(small):
    X, y, attributes = small
    new = {"d": [0.9, 0.1], "e": [0.2, 0.7]}
    model = GFZSLClassifier(0.5, 2.0).fit(X, y, attributes).add_classes(new)
    means, variances = class_means_and_variances(X, np.unique(y, return_inverse=True)[1], 3)

    def regress(targets, ridge):
        kernel = KernelRidge(alpha=ridge, kernel="polynomial", degree=2, gamma=1.0, coef0=1.0)
        fitted = kernel.fit(unit(attributes, "abc"), targets)
        return fitted.predict(np.vstack([unit(attributes, "abc"), unit(new, "de")]))

    np.testing.assert_allclose(model.class_embeddings_, regress(means, 0.5), atol=1e-10)
    spreads = np.sqrt(np.exp(regress(np.log(variances + 1e-3), 2.0)) + 0.05)
    expected = norm.logpdf(X[:, None], model.class_embeddings_, spreads).sum(axis=2)
    np.testing.assert_allclose(model.score_classes(X), expected, atol=1e-9)


def test_gfzsl_empirical_seen_classes_keep_their_own_gaussian(small):
    X, y, attributes = small
    model = GFZSLClassifier(seen_parameters="empirical").fit(X, y, attributes)
    rows = X[y == "b"]
    spread = np.sqrt(rows.var(axis=0, ddof=1) + 0.05)
    expected = norm.logpdf(X, rows.mean(axis=0), spread).sum(axis=1)
    np.testing.assert_allclose(model.score_classes(X)[:, 1], expected)


def test_gfzsl_authors_variance_ridge_gives_unit_variances(small):
    model = GFZSLClassifier().fit(*small)
    np.testing.assert_allclose(model._table.seen["variance"], 1.0, atol=1e-6)


def test_gfzsl_grid_equals_separate_fits(small):
    X, y, attributes = small
    new, X_eval = {"d": [0.9, 0.1]}, X + 0.3
    grid = [
        {"mean_ridge": m, "variance_ridge": v, "seen_parameters": s}
        for m in (0.1, 1.0)
        for v in (1.0, 1e8)
        for s in ("regressed", "empirical")
    ]
    found = dict(GFZSLClassifier().score_grid(grid, make_fold(X, y, attributes, new, X_eval)))
    for index, params in enumerate(grid):
        model = GFZSLClassifier(**params).fit(X, y, attributes).add_classes(new)
        np.testing.assert_allclose(found[index], model.score_classes(X_eval), rtol=1e-9)


@pytest.mark.parametrize("variance_ridge", [10.0, 1e8])
def test_gfzsl_solves_synthetic_classes(variance_ridge):
    data = make_synthetic(n_seen=40, n_unseen=5, noise=0.3)
    X, y = data.rows("train")
    model = GFZSLClassifier(variance_ridge=variance_ridge)
    model.fit(X, y, data.attributes_of(data.seen_classes))
    model.add_classes(data.attributes_of(data.unseen_classes))
    X, y = data.rows("test_unseen")
    assert (model.predict(X, among="unseen") == y).mean() > 0.7


def test_gfzsl_refuses_bad_parameters(small):
    with pytest.raises(DataError, match="variance_floor must be a number"):
        GFZSLClassifier(variance_floor=0.0).fit(*small)
    with pytest.raises(DataError, match="seen_parameters must be one of"):
        GFZSLClassifier(seen_parameters="guessed").fit(*small)
