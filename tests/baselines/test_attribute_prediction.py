"""DAP and IAP against their formulas and scikit-learn's regressions, and on unseen classes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from tests.folds import make_fold

from hgkt.baselines.attribute_prediction import DAPClassifier, IAPClassifier, attribute_scores
from hgkt.data import make_synthetic
from hgkt.estimators.model_folder import load_model
from hgkt.exceptions import DataError


@pytest.fixture(scope="module")
def data():
    return make_synthetic(n_instances=900, n_features=32, n_seen=30, n_unseen=5, n_attributes=10)


def _fit(model, data):
    X, y = data.rows("train")
    model.fit(X, y, data.attributes_of(data.seen_classes))
    return model.add_classes(data.attributes_of(data.unseen_classes))


def test_attribute_scores_equal_the_sum_of_log_ratios():
    rng = np.random.default_rng(0)
    p, prior = rng.uniform(0.01, 0.99, (4, 6)), rng.uniform(0.2, 0.8, 6)
    b = (rng.random((3, 6)) < 0.5).astype(float)
    scores = attribute_scores(p, b, prior)
    for n in range(4):
        for z in range(3):
            product = math.prod(
                p[n, m] / prior[m] if b[z, m] else (1 - p[n, m]) / (1 - prior[m]) for m in range(6)
            )
            assert scores[n, z] == pytest.approx(math.log(product))


def test_attribute_scores_stay_finite_for_certain_probabilities():
    scores = attribute_scores(np.array([[0.0, 1.0]]), np.array([[1.0, 0.0]]), np.full(2, 0.5))
    assert np.isfinite(scores).all()


def test_dap_with_one_hot_attributes_is_one_against_rest():
    rng = np.random.default_rng(1)
    codes = np.arange(60) % 3
    X = 2.0 * rng.normal(size=(3, 4))[codes] + rng.normal(size=(60, 4))
    model = DAPClassifier(C=1.0).fit(X, codes)
    scaled = (X - X.mean(axis=0)) / X.std(axis=0) / 2.0
    heads = [
        LogisticRegression(C=1.0, tol=1e-10).fit(scaled, codes == c).predict_proba(scaled)[:, 1]
        for c in range(3)
    ]
    odds = np.log(np.array(heads).T) - np.log1p(-np.array(heads).T)
    differences = model.score_classes(X)[:, :1] - model.score_classes(X)
    np.testing.assert_allclose(differences, odds[:, :1] - odds, atol=1e-2)


def test_dap_threshold_is_the_mean_of_the_table_or_of_each_attribute():
    X = np.random.default_rng(0).normal(size=(6, 3))
    attributes = {"a": [0.0, 10.0], "b": [2.0, 12.0]}
    y = ["a", "a", "a", "b", "b", "b"]
    by_table = DAPClassifier().fit(X, y, attributes)
    np.testing.assert_array_equal(by_table.class_embeddings_, [[0, 1], [0, 1]])
    by_attribute = DAPClassifier(binarization="attribute").fit(X, y, attributes)
    np.testing.assert_array_equal(by_attribute.class_embeddings_, [[0, 0], [1, 1]])
    np.testing.assert_array_equal(by_attribute.priors_, [0.5, 0.5])


def test_dap_attribute_that_all_seen_classes_share_counts_for_nothing():
    X = np.random.default_rng(0).normal(size=(6, 3))
    attributes = {"a": [0.0, 1.0, 1.0], "b": [1.0, 0.0, 1.0]}
    model = DAPClassifier().fit(X, ["a", "b"] * 3, attributes)
    model.add_classes({"with": [1.0, 1.0, 1.0], "without": [1.0, 1.0, 0.0]})
    scores = model.score_classes(X)
    np.testing.assert_array_equal(scores[:, 2], scores[:, 3])


def test_dap_recognises_unseen_classes(data):
    model = _fit(DAPClassifier(), data)
    X, y = data.rows("test_unseen")
    assert (model.predict(X, among="unseen") == y).mean() > 0.6  # chance 0.2


def test_dap_scores_of_a_grid_are_those_of_separate_fits(data):
    X, y = data.rows("train")
    seen, unseen = (data.attributes_of(c) for c in (data.seen_classes, data.unseen_classes))
    X_eval = data.rows("test_unseen")[0]
    grid = [
        {"C": 1.0, "prior": "uniform"},
        {"C": 1.0, "prior": "class_mean"},
        {"C": 5.0, "prior": "uniform"},
    ]
    found = dict(DAPClassifier().score_grid(grid, make_fold(X, y, seen, unseen, X_eval)))
    assert sorted(found) == [0, 1, 2]
    for index, params in enumerate(grid):
        alone = _fit(DAPClassifier(**params), data)
        np.testing.assert_allclose(found[index], alone.score_classes(X_eval), rtol=1e-6)


def test_dap_saved_and_loaded_scores_the_same(tmp_path, data):
    model = _fit(DAPClassifier(), data)
    loaded = load_model(model.save(tmp_path / "m"))
    X = data.rows("test_unseen")[0]
    np.testing.assert_array_equal(loaded.score_classes(X), model.score_classes(X))


@pytest.mark.parametrize("params", [{"C": 0.0}, {"binarization": "median"}, {"prior": "flat"}])
def test_dap_refuses_parameters_out_of_range(params):
    with pytest.raises(DataError, match=next(iter(params))):
        DAPClassifier(**params).fit(np.eye(4), [0, 0, 1, 1])


# ---------------------------------------------------------------------- IAP
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
    found = dict(IAPClassifier().score_grid(grid, make_fold(X, y, seen, unseen, X_eval)))
    for index, params in enumerate(grid):
        alone = _fit(IAPClassifier(**params), data)
        np.testing.assert_allclose(found[index], alone.score_classes(X_eval), rtol=1e-6)


def test_iap_saved_and_loaded_scores_the_same(tmp_path, data):
    model = _fit(IAPClassifier(), data)
    loaded = load_model(model.save(tmp_path / "m"))
    X = data.rows("test_unseen")[0]
    np.testing.assert_array_equal(loaded.score_classes(X), model.score_classes(X))
