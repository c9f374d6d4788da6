"""Logistic regression against scikit-learn's and against the gradient of its own objective."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from hgkt.baselines._shared.lbfgs import fit_sigmoids, fit_softmax, predict_softmax
from hgkt.baselines._shared.rows import ZScore


@pytest.fixture
def blobs():
    rng = np.random.default_rng(0)
    codes = rng.permutation(np.arange(60) % 4)
    X = 3.0 + 5.0 * rng.normal(size=(4, 5))[codes] + 4.0 * rng.normal(size=(60, 5))
    return X, codes


def _scaled(X):
    return (X - X.mean(axis=0)) / X.std(axis=0) / np.sqrt(X.shape[1])


@pytest.mark.parametrize("C", [0.1, 1.0, 30.0])
def test_fit_softmax_agrees_with_scikit_learn(blobs, C):
    X, codes = blobs
    oracle = LogisticRegression(C=C, tol=1e-10, max_iter=5000).fit(_scaled(X), codes)
    ours = predict_softmax(X, *fit_softmax(X, codes, 4, C))
    np.testing.assert_allclose(ours, oracle.predict_proba(_scaled(X)), atol=2e-4)


def test_fit_sigmoids_agrees_with_scikit_learn_head_by_head(blobs):
    X, codes = blobs
    targets = np.array([[0.0, 1, 1], [1, 1, 0], [0, 0, 0], [1, 0, 0]])
    weights, bias = fit_sigmoids(X, codes, targets, C=2.0)
    for head in range(3):
        oracle = LogisticRegression(C=2.0, tol=1e-10, max_iter=5000)
        oracle.fit(_scaled(X), targets[codes, head])
        ours = expit(X @ weights[head] + bias[head])
        np.testing.assert_allclose(ours, oracle.predict_proba(_scaled(X))[:, 1], atol=2e-4)


def test_fit_softmax_single_precision_finds_the_same_classifier(blobs):
    X, codes = blobs
    wide = predict_softmax(X, *fit_softmax(X, codes, 4, 1.0))
    narrow = predict_softmax(X, *fit_softmax(X.astype(np.float32), codes, 4, 1.0))
    np.testing.assert_allclose(narrow, wide, atol=1e-2)


def test_zscore_written_back_to_raw_features_gives_the_same_outputs(blobs):
    X, _ = blobs
    X = np.column_stack([X, np.full(len(X), 7.0)])  # a constant feature
    zscore = ZScore.of(X).divided_by(3.0)
    rng = np.random.default_rng(1)
    weights, bias = rng.normal(size=(2, 6)), rng.normal(size=2)
    raw_weights, raw_bias = zscore.to_raw(weights, bias)
    np.testing.assert_allclose(X @ raw_weights.T + raw_bias, zscore.apply(X) @ weights.T + bias)
    np.testing.assert_allclose(zscore.apply(X)[:, :5].std(axis=0), 1 / 3)
    np.testing.assert_allclose(zscore.apply(X)[:, 5], 0.0)
