import numpy as np
import pytest
from scipy.spatial.distance import cdist, pdist
from sklearn.decomposition import PCA
from sklearn.svm import NuSVR
from tests.folds import make_fold

from hgkt.baselines.exem import EXEMClassifier
from hgkt.data import make_synthetic
from hgkt.exceptions import DataError


@pytest.fixture(scope="module")
def data():
    return make_synthetic(n_seen=20, n_unseen=4, noise=0.3)


def fitted(data, **params):
    X, y = data.rows("train")
    model = EXEMClassifier(**params).fit(X, y, data.attributes_of(data.seen_classes))
    return model.add_classes(data.attributes_of(data.unseen_classes))


@pytest.mark.parametrize("variant", ["nn", "nns"])
def test_exem_equals_the_published_steps_by_scikit_learn(data, variant):
    """PCA, one RBF regression per component, distance to the predicted exemplars."""
    settings = {"C": 2.0, "nu": 0.4, "kernel_scale": 0.7, "n_components": 5}
    model = fitted(data, variant=variant, **settings)
    X, y = data.rows("train")
    X = X.astype(np.float64)
    pca = PCA(5, svd_solver="full").fit(X)
    means = np.array([pca.transform(X[y == name]).mean(axis=0) for name in model.seen_classes_])
    spreads = np.mean(
        [pca.transform(X[y == name]).std(axis=0, ddof=1) for name in model.seen_classes_], axis=0
    )
    A = model.class_attributes_ / np.linalg.norm(model.class_attributes_, axis=1, keepdims=True)
    gamma = 0.7 / np.median(pdist(A[:20])) ** 2
    all_means = np.array([X[y == name].mean(axis=0) for name in model.seen_classes_])
    unit = np.linalg.norm(all_means - all_means.mean(axis=0), axis=1).mean()
    exemplars = np.column_stack(
        [
            NuSVR(kernel="rbf", gamma=gamma, C=2.0 * unit, nu=0.4, tol=1e-6)
            .fit(A[:20], means[:, j])
            .predict(A)
            for j in range(5)
        ]
    )
    scales = spreads if variant == "nns" else np.ones(5)
    rows = data.rows("test_unseen")[0].astype(np.float64)
    expected = -cdist(pca.transform(rows) / scales, exemplars / scales)
    np.testing.assert_allclose(model.score_classes(rows), expected, rtol=0.02)


def test_exem_grid_over_components_and_variants_equals_separate_fits(data):
    X, y = data.rows("train")
    seen, unseen = data.attributes_of(data.seen_classes), data.attributes_of(data.unseen_classes)
    X_eval, _ = data.rows("test_unseen")
    grid = [{"n_components": n, "variant": v} for n in (3, 8, 5) for v in ("nn", "nns")]
    found = dict(EXEMClassifier().score_grid(grid, make_fold(X, y, seen, unseen, X_eval)))
    for index, params in enumerate(grid):
        expected = fitted(data, **params).score_classes(X_eval)
        np.testing.assert_allclose(found[index], expected, rtol=1e-9)


def test_exem_does_not_depend_on_the_unit_of_the_features(data):
    X, y = data.rows("train")
    seen = data.attributes_of(data.seen_classes)
    small = EXEMClassifier().fit(X, y, seen).score_classes(X)
    large = EXEMClassifier().fit(1024.0 * X, y, seen).score_classes(1024.0 * X)
    np.testing.assert_allclose(large, small, rtol=1e-3)


def test_exem_recognises_unseen_classes(data):
    model = fitted(data)
    X, y = data.rows("test_unseen")
    assert (model.predict(X, among="unseen") == y).mean() > 0.7  # chance 0.25


@pytest.mark.parametrize("params", [{"nu": 0.0}, {"C": -1.0}, {"variant": "knn"}])
def test_exem_refuses_parameters_out_of_range(data, params):
    with pytest.raises(DataError, match=f"{next(iter(params))} must be"):
        fitted(data, **params)
