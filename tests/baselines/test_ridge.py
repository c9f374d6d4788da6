import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.neighbors import NearestCentroid
from tests.folds import make_fold

from hgkt.baselines.ridge import RidgeClassMeanClassifier
from hgkt.data import make_synthetic
from hgkt.exceptions import DataError


@pytest.fixture
def data():
    return make_synthetic(n_seen=30, n_unseen=5, noise=0.3)


def test_ridge_seen_classes_are_those_of_nearest_centroid(data):
    X, y = data.rows("train")
    model = RidgeClassMeanClassifier().fit(X, y, data.attributes_of(data.seen_classes))
    X_test, _ = data.rows("test_seen")
    expected = NearestCentroid().fit(X.astype(np.float64), y).predict(X_test.astype(np.float64))
    np.testing.assert_array_equal(model.predict(X_test), expected)


def test_ridge_new_means_equal_scikit_learns_ridge_regression(data):
    X, y = data.rows("train")
    seen, unseen = data.attributes_of(data.seen_classes), data.attributes_of(data.unseen_classes)
    model = RidgeClassMeanClassifier(ridge=0.3).fit(X, y, seen).add_classes(unseen)
    means = np.array([X[y == name].astype(np.float64).mean(axis=0) for name in model.seen_classes_])
    A = np.array([seen[name] for name in model.seen_classes_], dtype=np.float64)
    U = np.array([unseen[name] for name in model.unseen_classes_], dtype=np.float64)
    A, U = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (A, U))
    expected = Ridge(alpha=0.3, solver="cholesky").fit(A, means).predict(U)
    np.testing.assert_allclose(model.class_embeddings_[30:], expected, atol=1e-9)
    np.testing.assert_allclose(model.class_embeddings_[:30], means, atol=1e-9)


def test_ridge_grid_equals_separate_fits(data):
    X, y = data.rows("train")
    seen, unseen = data.attributes_of(data.seen_classes), data.attributes_of(data.unseen_classes)
    X_eval, _ = data.rows("test_unseen")
    grid = [{"ridge": r, "metric": m} for r in (1e-3, 1.0) for m in ("cosine", "euclidean")]
    found = dict(RidgeClassMeanClassifier().score_grid(grid, make_fold(X, y, seen, unseen, X_eval)))
    for index, params in enumerate(grid):
        model = RidgeClassMeanClassifier(**params).fit(X, y, seen).add_classes(unseen)
        np.testing.assert_allclose(found[index], model.score_classes(X_eval), rtol=1e-9)


def test_ridge_score_is_minus_the_squared_distance():
    model = RidgeClassMeanClassifier().fit([[0.0, 0.0], [2.0, 0.0], [0.0, 4.0]], [0, 0, 1])
    np.testing.assert_allclose(model.score_classes([[1.0, 1.0]]), [[-1.0, -10.0]])


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_ridge_solves_synthetic_classes(data, metric):
    X, y = data.rows("train")
    model = RidgeClassMeanClassifier(metric=metric)
    model.fit(X, y, data.attributes_of(data.seen_classes))
    model.add_classes(data.attributes_of(data.unseen_classes))
    X, y = data.rows("test_unseen")
    assert (model.predict(X, among="unseen") == y).mean() > 0.7


def test_ridge_refuses_bad_parameters():
    with pytest.raises(DataError, match="ridge must be a number"):
        RidgeClassMeanClassifier(ridge=-1.0).fit([[0.0], [1.0]], [0, 1])
