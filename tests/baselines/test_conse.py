"""ConSE against its formula with scikit-learn's softmax regression, and its two limits."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from tests.folds import make_fold

from hgkt.baselines.conse import ConSEClassifier
from hgkt.data import make_synthetic
from hgkt.estimators.model_folder import load_model


@pytest.fixture(scope="module")
def data():
    return make_synthetic(n_instances=900, n_features=32, n_seen=30, n_unseen=5, n_attributes=10)


def _fit(model, data):
    X, y = data.rows("train")
    model.fit(X, y, data.attributes_of(data.seen_classes))
    return model.add_classes(data.attributes_of(data.unseen_classes))


@pytest.mark.parametrize("n_top", [1, 2, 4, 50])
def test_conse_equals_the_formula_image_by_image(n_top):
    rng = np.random.default_rng(0)
    codes = np.arange(80) % 4
    X = 1.5 * rng.normal(size=(4, 4))[codes] + rng.normal(size=(80, 4))
    rows = rng.uniform(size=(6, 3))
    model = ConSEClassifier(n_top=n_top, C=1.0).fit(X, codes, dict(enumerate(rows[:4])))
    model.add_classes({4: rows[4], 5: rows[5]})
    scaled = (X - X.mean(axis=0)) / X.std(axis=0) / 2.0
    q = LogisticRegression(C=1.0, tol=1e-10, max_iter=1000).fit(scaled, codes).predict_proba(scaled)
    unit = [row / np.linalg.norm(row) for row in rows]
    scores = model.score_classes(X)
    for n in range(len(X)):
        top = sorted(range(4), key=lambda c: -q[n, c])[:n_top]
        mixed = sum(q[n, c] * unit[c] for c in top) / sum(q[n, c] for c in top)
        expected = [mixed @ row / np.linalg.norm(mixed) for row in unit]
        np.testing.assert_allclose(scores[n], expected, atol=5e-4)


def test_conse_with_one_class_is_the_seen_classifier(data):
    model = _fit(ConSEClassifier(n_top=1), data)
    X = data.rows("test_unseen")[0]
    best = (X @ model.weights_.T + model.bias_).argmax(axis=1)
    np.testing.assert_array_equal(model.predict(X), model.seen_classes_[best])


def test_conse_recognises_unseen_classes(data):
    model = _fit(ConSEClassifier(C=1.0), data)
    X, y = data.rows("test_unseen")
    assert (model.predict(X, among="unseen") == y).mean() > 0.6  # chance 0.2


def test_conse_scores_of_a_grid_are_those_of_separate_fits(data):
    X, y = data.rows("train")
    seen, unseen = (data.attributes_of(c) for c in (data.seen_classes, data.unseen_classes))
    X_eval = data.rows("test_unseen")[0]
    grid = [{"C": 1.0, "n_top": 3}, {"C": 5.0, "n_top": 3}, {"C": 1.0, "n_top": 10}]
    found = dict(ConSEClassifier().score_grid(grid, make_fold(X, y, seen, unseen, X_eval)))
    for index, params in enumerate(grid):
        alone = _fit(ConSEClassifier(**params), data)
        np.testing.assert_allclose(found[index], alone.score_classes(X_eval), rtol=1e-6)


def test_conse_saved_and_loaded_scores_the_same(tmp_path, data):
    model = _fit(ConSEClassifier(), data)
    loaded = load_model(model.save(tmp_path / "m"))
    X = data.rows("test_unseen")[0]
    np.testing.assert_array_equal(loaded.score_classes(X), model.score_classes(X))
