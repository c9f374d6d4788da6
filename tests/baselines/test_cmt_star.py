"""CMT*: the detector decides between the groups, and inside a group it is softmax or CMT."""

from __future__ import annotations

import numpy as np
import pytest

from hgkt.baselines._shared.logistic import predict_softmax
from hgkt.baselines.cmt import CMTClassifier
from hgkt.baselines.cmt_star import CMTStarClassifier
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
    scores = model.score_classes(X)
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
    scores = dict(base.fit_score_grid(grid, X, y, seen, unseen, X_eval))
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
    assert CMTStarClassifier(detector="radius").default_stages() == []
    assert len(CMTStarClassifier().default_stages()[0]["rejected"]) == 11


@pytest.mark.parametrize("params", [{"detector": "svm"}, {"rejected": 1.5}, {"n_hidden": 0}])
def test_cmt_star_refuses_parameters_out_of_range(params):
    with pytest.raises(DataError, match=next(iter(params))):
        CMTStarClassifier(**params).fit(np.eye(4), [0, 0, 1, 1])
