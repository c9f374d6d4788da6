"""IAP against its formula with scikit-learn's softmax regression, and on unseen classes."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from hgkt.baselines.iap import IAPClassifier
from hgkt.data import make_synthetic
from hgkt.estimators.model_folder import load_model


@pytest.fixture(scope="module")
def data():
    return make_synthetic(n_instances=900, n_features=32, n_seen=30, n_unseen=5, n_attributes=10)


def _fit(model, data):
    X, y = data.rows("train")
    model.fit(X, y, data.attributes_of(data.seen_classes))
    return model.add_classes(data.attributes_of(data.unseen_classes))


def test_iap_mixes_the_attributes_of_seen_classes_by_their_probabilities():
    rng = np.random.default_rng(0)
    codes = np.arange(80) % 4
    X = 2.0 * rng.normal(size=(4, 4))[codes] + rng.normal(size=(80, 4))
    rows = np.array([[0.0, 0, 1], [0, 1, 1], [1, 0, 0], [1, 1, 1]])
    new = np.array([1.0, 0.0, 1.0])
    model = IAPClassifier(C=1.0).fit(X, codes, dict(enumerate(rows))).add_classes({9: new})
    scaled = (X - X.mean(axis=0)) / X.std(axis=0) / 2.0
    q = LogisticRegression(C=1.0, tol=1e-10, max_iter=1000).fit(scaled, codes).predict_proba(scaled)
    p, prior = q @ rows, rows.mean(axis=0)
    expected = np.log(np.where(new, p, 1 - p) / np.where(new, prior, 1 - prior)).sum(axis=1)
    np.testing.assert_allclose(model.score_classes(X)[:, 4], expected, atol=5e-3)


def test_iap_attribute_that_all_seen_classes_share_counts_for_nothing():
    X = np.random.default_rng(0).normal(size=(6, 3))
    attributes = {"a": [0.0, 1.0, 1.0], "b": [1.0, 0.0, 1.0]}
    model = IAPClassifier().fit(X, ["a", "b"] * 3, attributes)
    model.add_classes({"with": [1.0, 1.0, 1.0], "without": [1.0, 1.0, 0.0]})
    scores = model.score_classes(X)
    np.testing.assert_allclose(scores[:, 2], scores[:, 3], atol=1e-12)


def test_iap_order_of_classes_is_irrelevant(data):
    X, y = data.rows("train")
    X = X.astype(np.float64)
    attributes = data.attributes_of(data.seen_classes)
    renamed = {name: f"{99 - k} {name}" for k, name in enumerate(attributes)}
    straight = IAPClassifier(C=1.0).fit(X, y, attributes)
    turned = IAPClassifier(C=1.0)
    turned.fit(X, [renamed[k] for k in y], {renamed[k]: v for k, v in attributes.items()})
    columns = turned.candidates([renamed[name] for name in straight.classes_.tolist()])
    np.testing.assert_allclose(
        turned.score_classes(X)[:, columns], straight.score_classes(X), atol=0.02
    )


def test_iap_recognises_unseen_classes(data):
    model = _fit(IAPClassifier(), data)
    X, y = data.rows("test_unseen")
    assert (model.predict(X, among="unseen") == y).mean() > 0.5  # chance 0.2


def test_iap_scores_of_a_grid_are_those_of_separate_fits(data):
    X, y = data.rows("train")
    seen, unseen = (data.attributes_of(c) for c in (data.seen_classes, data.unseen_classes))
    X_eval = data.rows("test_unseen")[0]
    grid = [
        {"C": 1.0, "binarization": "global"},
        {"C": 1.0, "binarization": "attribute"},
        {"C": 5.0, "binarization": "attribute"},
    ]
    found = dict(IAPClassifier().fit_score_grid(grid, X, y, seen, unseen, X_eval))
    for index, params in enumerate(grid):
        alone = _fit(IAPClassifier(**params), data)
        np.testing.assert_allclose(found[index], alone.score_classes(X_eval), rtol=1e-6)


def test_iap_saved_and_loaded_scores_the_same(tmp_path, data):
    model = _fit(IAPClassifier(), data)
    loaded = load_model(model.save(tmp_path / "m"))
    X = data.rows("test_unseen")[0]
    np.testing.assert_array_equal(loaded.score_classes(X), model.score_classes(X))
