"""CMT by finite differences and against scikit-learn; CMT*, whose detector decides first."""

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
    DETECTORS,
    CMTClassifier,
    CMTStarClassifier,
    TanhNetwork,
    fit_detector,
    fit_gaussian,
    fit_loop,
    fit_network,
    fit_radius,
    gaussian_novelty,
    loop_novelty,
    radius_novelty,
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
def models(data):
    return {
        kind: _fit(CMTStarClassifier(detector=kind, n_steps=100, **SMALL), data)
        for kind in ("gaussian", "radius", "loop")
    }


@pytest.mark.parametrize("kind", ["gaussian", "radius", "loop"])
def test_cmt_star_among_unseen_classes_is_cmt(data, models, kind):
    X, y = data.rows("test_unseen")
    plain = _fit(CMTClassifier(n_steps=100, **SMALL), data)
    predicted = models[kind].predict(X, among="unseen")
    np.testing.assert_array_equal(predicted, plain.predict(X, among="unseen"))
    assert (predicted == y).mean() > 0.8  # chance 0.2


@pytest.mark.parametrize("kind", ["gaussian", "radius", "loop"])
def test_cmt_star_among_seen_classes_is_softmax_regression(data, models, kind):
    X, y = data.rows("test_seen")
    model = models[kind]
    best = predict_softmax(X, model.weights_, model.bias_).argmax(axis=1)
    predicted = model.predict(X, among="seen")
    np.testing.assert_array_equal(predicted, model.seen_classes_[best])
    assert (predicted == y).mean() > 0.9


@pytest.mark.parametrize("kind", ["gaussian", "radius", "loop"])
def test_cmt_star_detector_alone_decides_between_the_groups(data, models, kind):
    model = models[kind]
    X = np.concatenate([data.rows("test_seen")[0], data.rows("test_unseen")[0]])
    scores = model.score_classes(X)[:, model.candidates()]
    n_seen = len(model.seen_classes_)
    by_score = scores[:, n_seen:].max(axis=1) > scores[:, :n_seen].max(axis=1)
    # The indicator lifts every score of one group above 1; those of the other stay below.
    decided = scores[:, n_seen:].min(axis=1) > 1.0
    np.testing.assert_array_equal(by_score, decided)
    assert 0 < decided.mean() < 1


def test_cmt_star_gaussian_detector_finds_more_novelty_in_unseen_classes(data, models):
    model = models["gaussian"]
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


@pytest.mark.parametrize("kind", ["gaussian", "radius", "loop"])
def test_cmt_star_saved_and_loaded_scores_the_same(tmp_path, data, models, kind):
    loaded = load_model(models[kind].save(tmp_path / "m"))
    X = data.rows("test_unseen")[0]
    np.testing.assert_array_equal(loaded.score_classes(X), models[kind].score_classes(X))


def test_cmt_star_radii_have_no_cut_off_to_choose():
    radius = CMTStarClassifier(detector="radius").default_stages()
    assert not any("rejected" in stage for stage in radius)
    assert all(len(stage["rejected"]) == 11 for stage in CMTStarClassifier().default_stages())


@pytest.mark.parametrize("params", [{"detector": "svm"}, {"rejected": 1.5}, {"n_hidden": 0}])
def test_cmt_star_refuses_parameters_out_of_range(params):
    with pytest.raises(DataError, match=next(iter(params))):
        CMTStarClassifier(**params).fit(np.eye(4), [0, 0, 1, 1])


# ---------------------------------------------------------------------- the detectors
@pytest.fixture
def embedded():
    rng = np.random.default_rng(0)
    centres = 3.0 * rng.normal(size=(3, 4))
    codes = rng.permutation(np.repeat([0, 1, 2], [30, 40, 50]))
    return (
        centres[codes] + rng.normal(size=(120, 4)) * np.array([0.2, 0.5, 1.0])[codes][:, None],
        codes,
        centres,
    )


def test_gaussian_novelty_ranks_by_the_best_log_density(embedded):
    points, codes, centres = embedded
    state = fit_gaussian(points, codes, centres)
    queries = np.random.default_rng(1).normal(size=(20, 4)) * 3.0
    densities = []
    for c in range(3):
        own = points[codes == c]
        variance = np.mean((own - centres[c]) ** 2)  # over N_c · d numbers
        assert state.spreads[c] == pytest.approx(variance)
        densities.append(multivariate_normal(centres[c], variance * np.eye(4)).logpdf(queries))
    expected = -np.max(densities, axis=0) - 2.0 * math.log(2 * math.pi)
    np.testing.assert_allclose(gaussian_novelty(queries, state), expected)


def test_fit_radius_is_the_multiple_with_the_best_accuracy(embedded):
    points, codes, centres = embedded
    state = fit_radius(points, codes, centres)
    for c in range(3):
        distances = np.linalg.norm(points - centres[c], axis=1)
        grid = 0.05 * np.arange(0, 400)
        accuracy = [np.mean((distances <= r) == (codes == c)) for r in grid]
        reached = np.mean((distances <= state.spreads[c]) == (codes == c))
        assert reached == pytest.approx(max(accuracy))
    inside = radius_novelty(centres, state)
    np.testing.assert_allclose(inside, -state.spreads)
    assert radius_novelty(centres + 100.0, state).min() > 0


def test_loop_novelty_equals_the_definition_point_by_point(embedded):
    points, codes, centres = embedded
    state = fit_loop(points, codes, centres)
    queries = np.random.default_rng(2).normal(size=(5, 4)) * 3.0

    def nearest(x, others, k=20):
        order = np.argsort(((others - x) ** 2).sum(axis=1))[:k]
        return order, math.sqrt(((others[order] - x) ** 2).sum(axis=1).mean())

    for n, query in enumerate(queries):
        outliers = []
        for c in range(3):
            own = points[codes == c]
            sigma, hood = np.zeros(len(own)), []
            for i, x in enumerate(own):
                others = np.delete(np.arange(len(own)), i)
                order, sigma[i] = nearest(x, own[others])
                hood.append(others[order])
            plof = np.array([sigma[i] / sigma[hood[i]].mean() - 1 for i in range(len(own))])
            scale = 3.0 * math.sqrt((plof**2).mean())
            order, spread = nearest(query, own)
            factor = spread / sigma[order].mean() - 1
            outliers.append(max(0.0, math.erf(factor / (scale * math.sqrt(2)))))
        assert loop_novelty(queries, state)[n] == pytest.approx(min(outliers))


def test_loop_novelty_of_training_points_leaves_each_out_of_its_neighbours():
    points, codes = np.array([[0.0], [1.0], [3.0]]), np.array([0, 0, 0])
    state = fit_loop(points, codes, points[:1])
    lone = loop_novelty(state.points, state, training=True)
    np.testing.assert_allclose(state.point_spreads, np.sqrt([(1 + 9) / 2, (1 + 4) / 2, 6.5]))
    assert (loop_novelty(points, state) <= lone + 1e-12).all()
    assert lone.max() > loop_novelty(points, state).max()


@pytest.mark.parametrize("kind", list(DETECTORS))
def test_fit_detector_cut_off_tells_far_from_near(embedded, kind):
    points, codes, centres = embedded
    state, cutoff = fit_detector(kind, points, codes, centres, 0.02)
    novelty = DETECTORS[kind][1]
    assert (novelty(points, state) > cutoff).mean() < 0.2
    assert (novelty(points + 50.0, state) > cutoff).all()


@pytest.mark.parametrize("kind", ["gaussian", "loop"])
def test_fit_detector_rejects_the_share_asked_for(embedded, kind):
    points, codes, centres = embedded
    state, cutoff = fit_detector(kind, points, codes, centres, 0.25)
    known = (
        loop_novelty(state.points, state, training=True)
        if kind == "loop"
        else gaussian_novelty(points, state)
    )
    assert (known > cutoff).mean() == pytest.approx(0.25, abs=0.01)


@pytest.mark.parametrize("kind", list(DETECTORS))
def test_fit_detector_takes_classes_of_one_image(kind):
    points, codes = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 0.1]]), np.array([0, 1, 1])
    state, cutoff = fit_detector(kind, points, codes, np.eye(2)[::-1], 0.1)
    assert np.isfinite(DETECTORS[kind][1](points, state)).all()
    assert np.isfinite(cutoff)
