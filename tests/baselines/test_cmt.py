"""CMT by finite differences and against scikit-learn; CMT*, where novelty decides first."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import check_grad
from scipy.stats import multivariate_normal
from sklearn.linear_model import Ridge
from tests.folds import make_fold

from hgkt.baselines._shared.lbfgs import predict_softmax
from hgkt.baselines.cmt import (
    CMTClassifier,
    CMTStarClassifier,
    TanhNetwork,
    fit_network,
    fit_spreads,
    gaussian_novelty,
    regression_objective,
)
from hgkt.data import make_synthetic
from hgkt.estimators.model_folder import load_model
from hgkt.exceptions import DataError

SMALL = {"n_hidden": 50, "random_state": 0}


@pytest.fixture(scope="module")
def data():
    return make_synthetic(n_instances=900, n_features=32, n_seen=30, n_unseen=5, n_attributes=8)


def _fit(model, data):
    X, y = data.rows("train")
    model.fit(X, y, data.attributes_of(data.seen_classes))
    return model.add_classes(data.attributes_of(data.unseen_classes))


def _random_problem(seed=0):
    rng = np.random.RandomState(seed)
    X, codes, targets = rng.normal(size=(20, 5)), np.arange(20) % 4, rng.normal(size=(4, 3))
    return X, codes, targets, TanhNetwork.draw(5, 6, 3, rng)


def test_regression_objective_equals_the_formula():
    X, codes, targets, network = _random_problem()
    value, _ = regression_objective(network, X, codes, targets, 0.1)
    expected = sum(
        0.5 / 20 * np.sum((targets[c] - (network.outer @ np.tanh(network.inner @ x))) ** 2)
        for x, c in zip(X, codes, strict=True)
    )
    expected += 0.05 * ((network.inner**2).sum() + (network.outer**2).sum())
    assert value == pytest.approx(expected)


def test_regression_objective_gradient_agrees_with_finite_differences():
    X, codes, targets, network = _random_problem()

    def value(vector):
        return regression_objective(network.unpacked(vector), X, codes, targets, 0.01)[0]

    def slope(vector):
        return regression_objective(network.unpacked(vector), X, codes, targets, 0.01)[1].packed()

    point = network.packed() + 0.1 * np.random.RandomState(1).normal(size=network.packed().size)
    assert check_grad(value, slope, point) < 1e-6


def test_fit_network_in_its_linear_range_is_ridge_like():
    # Tiny targets keep tanh linear; then two layers without decay fit least squares.
    rng = np.random.RandomState(0)
    codes = np.arange(60) % 6
    targets = 1e-2 * rng.normal(size=(6, 2))
    X = rng.normal(size=(6, 4))[codes] + 0.3 * rng.normal(size=(60, 4))
    (network,) = fit_network(X, codes, targets, 8, 0.0, [2000], rng)
    ours = np.mean((network.predict(X) - targets[codes]) ** 2)
    linear = Ridge(alpha=1e-8).fit(X, targets[codes]).predict(X)
    assert ours <= np.mean((linear - targets[codes]) ** 2) * 1.02


def test_fit_network_at_a_stop_equals_a_run_that_ends_there():
    X, codes, targets, _ = _random_problem()
    early, late = fit_network(X, codes, targets, 4, 1e-4, [5, 40], np.random.RandomState(3))
    (alone,) = fit_network(X, codes, targets, 4, 1e-4, [5], np.random.RandomState(3))
    np.testing.assert_array_equal(early.inner, alone.inner)
    assert np.abs(early.inner - late.inner).max() > 1e-3


def test_cmt_scores_are_negative_squared_distances_to_unit_attributes(data):
    model = _fit(CMTClassifier(n_hidden=8, n_steps=5, random_state=0), data)
    X = data.rows("test_unseen")[0][:3]
    hidden = np.tanh(X @ model.inner_.T + model.inner_bias_)
    embedded = hidden @ model.outer_.T + model.outer_bias_
    rows = model.class_attributes_
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    expected = -((embedded[:, None] - rows) ** 2).sum(axis=2)
    np.testing.assert_allclose(model.score_classes(X), expected, atol=1e-6)


def test_cmt_recognises_unseen_classes(data):
    model = _fit(CMTClassifier(n_hidden=50, random_state=0), data)
    X, y = data.rows("test_unseen")
    assert (model.predict(X, among="unseen") == y).mean() > 0.8  # chance 0.2


def test_cmt_is_deterministic_given_its_seed(data):
    X = data.rows("test_unseen")[0]
    scores = [
        _fit(CMTClassifier(n_hidden=5, n_steps=5, random_state=seed), data).score_classes(X)
        for seed in (1, 1, 2)
    ]
    np.testing.assert_array_equal(scores[0], scores[1])
    assert np.abs(scores[0] - scores[2]).max() > 1e-3


def test_cmt_scores_of_a_grid_are_those_of_separate_fits(data):
    X, y = data.rows("train")
    seen, unseen = (data.attributes_of(c) for c in (data.seen_classes, data.unseen_classes))
    X_eval = data.rows("test_unseen")[0]
    grid = [{"n_steps": 10, "decay": 1e-3}, {"n_steps": 4, "decay": 1e-3}, {"n_steps": 4}]
    base = CMTClassifier(n_hidden=8, random_state=0)
    found = dict(base.score_grid(grid, make_fold(X, y, seen, unseen, X_eval)))
    for index, params in enumerate(grid):
        alone = _fit(CMTClassifier(n_hidden=8, random_state=0, **params), data)
        np.testing.assert_allclose(found[index], alone.score_classes(X_eval), rtol=1e-6)


def test_cmt_saved_and_loaded_scores_the_same(tmp_path, data):
    model = _fit(CMTClassifier(n_hidden=8, n_steps=5, random_state=0), data)
    loaded = load_model(model.save(tmp_path / "m"))
    X = data.rows("test_unseen")[0]
    np.testing.assert_array_equal(loaded.score_classes(X), model.score_classes(X))


# ---------------------------------------------------------------------- CMT*
@pytest.fixture(scope="module")
def model(data):
    return _fit(CMTStarClassifier(n_steps=100, **SMALL), data)


def test_cmt_star_among_unseen_classes_is_cmt(data, model):
    X, y = data.rows("test_unseen")
    plain = _fit(CMTClassifier(n_steps=100, **SMALL), data)
    predicted = model.predict(X, among="unseen")
    np.testing.assert_array_equal(predicted, plain.predict(X, among="unseen"))
    assert (predicted == y).mean() > 0.8  # chance 0.2


def test_cmt_star_among_seen_classes_is_softmax_regression(data, model):
    X, y = data.rows("test_seen")
    best = predict_softmax(X, model.weights_, model.bias_).argmax(axis=1)
    predicted = model.predict(X, among="seen")
    np.testing.assert_array_equal(predicted, model.seen_classes_[best])
    assert (predicted == y).mean() > 0.9


def test_cmt_star_novelty_alone_decides_between_the_groups(data, model):
    X = np.concatenate([data.rows("test_seen")[0], data.rows("test_unseen")[0]])
    scores = model.score_classes(X)[:, model.candidates()]
    n_seen = len(model.seen_classes_)
    by_score = scores[:, n_seen:].max(axis=1) > scores[:, :n_seen].max(axis=1)
    # The indicator lifts every score of one group above 1; those of the other stay below.
    decided = scores[:, n_seen:].min(axis=1) > 1.0
    np.testing.assert_array_equal(by_score, decided)
    assert 0 < decided.mean() < 1


def test_cmt_star_finds_more_novelty_in_unseen_classes(data, model):
    kept_seen, kept_unseen = (
        np.isin(model.predict(data.rows(rows)[0]), model.seen_classes_).mean()
        for rows in ("test_seen", "test_unseen")
    )
    assert kept_seen > kept_unseen + 0.3


def test_cmt_star_rejecting_more_lets_more_go_to_unseen_classes(data):
    X, y = data.rows("train")
    seen, unseen = (data.attributes_of(c) for c in (data.seen_classes, data.unseen_classes))
    X_eval = np.concatenate([data.rows("test_seen")[0], data.rows("test_unseen")[0]])
    grid = [{"rejected": r} for r in (0.0, 0.1, 0.5, 1.0)]
    base = CMTStarClassifier(n_steps=30, **SMALL)
    scores = dict(base.score_grid(grid, make_fold(X, y, seen, unseen, X_eval)))
    novel = [(scores[k].argmax(axis=1) >= len(seen)).mean() for k in range(4)]
    assert novel == sorted(novel)
    assert novel[0] < novel[2]
    for index in (1, 2):
        alone = _fit(CMTStarClassifier(n_steps=30, **SMALL, **grid[index]), data)
        np.testing.assert_allclose(scores[index], alone.score_classes(X_eval), rtol=1e-6)


def test_cmt_star_rejects_the_share_of_training_images_asked_for(data):
    X, y = data.rows("train")
    model = CMTStarClassifier(n_steps=30, rejected=0.25, **SMALL)
    model.fit(X, y, data.attributes_of(data.seen_classes))
    model.add_classes(data.attributes_of(data.unseen_classes))
    novel = np.isin(model.predict(X), model.unseen_classes_)
    assert novel.mean() == pytest.approx(0.25, abs=0.01)


def test_cmt_star_saved_and_loaded_scores_the_same(tmp_path, data, model):
    loaded = load_model(model.save(tmp_path / "m"))
    X = data.rows("test_unseen")[0]
    np.testing.assert_array_equal(loaded.score_classes(X), model.score_classes(X))


@pytest.mark.parametrize("params", [{"rejected": 1.5}, {"n_hidden": 0}])
def test_cmt_star_refuses_parameters_out_of_range(params):
    with pytest.raises(DataError, match=next(iter(params))):
        CMTStarClassifier(**params).fit(np.eye(4), [0, 0, 1, 1])


def test_cmt_star_takes_classes_of_one_image():
    X, y = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 0.1]]), ["a", "b", "b"]
    model = CMTStarClassifier(n_hidden=4, n_steps=5, random_state=0)
    model.fit(X, y, {"a": [0.0, 1.0], "b": [1.0, 0.0]})
    assert np.isfinite(model.cutoff_)
    assert np.isfinite(model.spreads_).all()


# ---------------------------------------------------------------------- the Gaussians
def test_gaussian_novelty_ranks_by_the_best_log_density():
    rng = np.random.default_rng(0)
    centres = 3.0 * rng.normal(size=(3, 4))
    codes = rng.permutation(np.repeat([0, 1, 2], [30, 40, 50]))
    noise = rng.normal(size=(120, 4)) * np.array([0.2, 0.5, 1.0])[codes][:, None]
    points = centres[codes] + noise
    spreads = fit_spreads(points, codes, centres)
    queries = np.random.default_rng(1).normal(size=(20, 4)) * 3.0
    densities = []
    for c in range(3):
        own = points[codes == c]
        variance = np.mean((own - centres[c]) ** 2)  # over N_c · d numbers
        assert spreads[c] == pytest.approx(variance)
        densities.append(multivariate_normal(centres[c], variance * np.eye(4)).logpdf(queries))
    expected = -np.max(densities, axis=0) - 2.0 * math.log(2 * math.pi)
    np.testing.assert_allclose(gaussian_novelty(queries, centres, spreads), expected)
