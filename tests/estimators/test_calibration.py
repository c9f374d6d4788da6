"""Calibrated stacking offers the whole contract around any method."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hgkt.estimators.calibration import CalibratedStacking
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import check_estimator

from hgkt._registry import Entry
from hgkt.estimators.base import GZSLClassifier
from hgkt.estimators.methods import METHODS
from hgkt.exceptions import DataError


class NearestMean(GZSLClassifier):
    """Class means; a new class lies where least squares from attributes puts it."""

    _learned = ("coef_",)

    def __init__(self, power: float = 2.0, own: float = 0.0) -> None:
        self.power = power
        self.own = own

    def _fit_seen(self, X, codes, attributes):
        means = np.stack([X[codes == c].mean(axis=0) for c in range(len(attributes))])
        self.coef_ = np.linalg.lstsq(attributes, means.astype(float), rcond=None)[0]
        return {"embedding": means.astype(float)}

    def _embed_classes(self, attributes):
        return {"embedding": attributes @ self.coef_}

    def _score(self, X, table, seen):
        return -(np.abs(X[:, None] - table["embedding"][None]) ** self.power).sum(axis=2)

    def _seen_penalty(self):
        return self.own

    def default_stages(self):
        return [{"power": [1.0, 2.0]}]


RNG = np.random.default_rng(0)
NAMES = ["ape", "bat", "cow", "doe"]
TABLE = {name: RNG.normal(size=3) for name in NAMES}
NEW = {"elk": RNG.normal(size=3), "fox": RNG.normal(size=3)}
Y = np.repeat(NAMES, 10)
X = np.stack([TABLE[name] for name in Y]) @ RNG.normal(size=(3, 5)) + RNG.normal(size=(40, 5))


def fitted(gamma=0.0, **params):
    return CalibratedStacking(NearestMean(**params), gamma).fit(X, Y, TABLE)


@pytest.mark.parametrize("gamma", [0.0, 1.5, -2.0])
def test_calibration_predicts_the_argmax_of_shifted_scores(gamma):
    model = fitted(gamma).add_classes(NEW)
    inner = NearestMean().fit(X, Y, TABLE).add_classes(NEW)
    raw = inner.score_classes(X)
    shifted = raw - gamma * np.array([1, 1, 1, 1, 0, 0])
    assert np.array_equal(model.decision_function(X), shifted)
    assert np.array_equal(model.score_classes(X, penalty=False), raw)
    assert np.array_equal(model.predict(X), inner.classes_[shifted.argmax(axis=1)])
    assert np.array_equal(model.predict(X, among="unseen"), inner.predict(X, among="unseen"))
    assert np.array_equal(model.predict(X, among="seen"), inner.predict(X, among="seen"))
    pair = ["fox", "ape"]
    columns = [inner.classes_.tolist().index(name) for name in pair]
    expected = np.array(pair)[shifted[:, columns].argmax(axis=1)]
    assert np.array_equal(model.predict(X, among=pair), expected)


def test_calibration_extremes_leave_one_group():
    assert set(fitted(1e6).add_classes(NEW).predict(X)) <= set(NEW)
    assert set(fitted(-1e6).add_classes(NEW).predict(X)) <= set(NAMES)


def test_calibration_scores_of_seen_classes_are_bit_identical_after_adding():
    model = fitted(0.37)
    before = model.decision_function(X)
    model.add_classes(NEW)
    assert np.array_equal(model.decision_function(X)[:, :4], before)
    model.remove_classes(["elk"])
    assert np.array_equal(model.decision_function(X)[:, :4], before)
    assert model.unseen_classes_.tolist() == ["fox"]


def test_calibration_shows_the_attributes_of_the_method():
    model = fitted(1.0).add_classes(NEW)
    assert model.classes_.tolist() == [*NAMES, *NEW]
    assert model.seen_classes_.tolist() == NAMES
    assert model.class_attributes_.shape == (6, 3)
    assert np.array_equal(model.class_embeddings_, model.estimator_.class_embeddings_)
    assert model.n_features_in_ == 5
    assert isinstance(model, GZSLClassifier)


def test_calibration_replaces_that_of_the_method():
    model = fitted(2.0, own=50.0).add_classes(NEW)
    assert np.array_equal(model.score_classes(X), fitted(2.0).add_classes(NEW).score_classes(X))


def test_calibration_can_change_after_fit_and_parameters_are_nested():
    model = fitted(0.0).add_classes(NEW)
    zero = model.score_classes(X)
    assert np.array_equal(model.set_params(calibration=3.0).score_classes(X)[:, 4:], zero[:, 4:])
    assert np.array_equal(model.score_classes(X)[:, :4], zero[:, :4] - 3.0)
    assert model.get_params()["estimator__power"] == 2.0
    copy = clone(model).set_params(estimator__power=1.0)
    assert copy.fit(X, Y, TABLE).estimator_.power == 1.0
    assert model.estimator.power == 2.0


def test_calibration_never_fits_the_estimator_it_was_given():
    inner = NearestMean()
    CalibratedStacking(inner).fit(X, Y, TABLE)
    assert not hasattr(inner, "seen_classes_")


def test_calibration_from_fitted_wraps_without_fitting_again():
    inner = NearestMean().fit(X, Y, TABLE).add_classes(NEW)
    model = CalibratedStacking.from_fitted(inner, 1.5)
    assert model.estimator_ is inner
    assert np.array_equal(model.score_classes(X), fitted(1.5).add_classes(NEW).score_classes(X))
    with pytest.raises(NotFittedError):
        CalibratedStacking.from_fitted(NearestMean(), 1.5)


def test_calibration_before_fit_says_so():
    model = CalibratedStacking(NearestMean())
    for call in (lambda: model.predict(X), lambda: model.add_classes(NEW)):
        with pytest.raises(NotFittedError):
            call()
    assert not hasattr(model, "classes_")


def test_calibration_refuses_no_number():
    with pytest.raises(DataError, match="calibration must be a number"):
        CalibratedStacking(NearestMean(), "high").fit(X, Y, TABLE)


def test_calibration_grid_is_handed_to_the_method():
    model = CalibratedStacking(NearestMean(), 5.0)
    assert model.default_stages() == [{"estimator__power": [1.0, 2.0]}]
    data = (X, Y, TABLE, NEW, X)
    grid = [{"estimator__power": 1.0}, {"estimator__power": 2.0, "calibration": 9.0}]
    inner = dict(NearestMean().fit_score_grid([{"power": 1.0}, {"power": 2.0}], *data))
    found = dict(model.fit_score_grid(grid, *data))
    assert all(np.array_equal(found[k], inner[k]) for k in (0, 1))
    swapped = dict(model.fit_score_grid([{"estimator": NearestMean(power=1.0)}], *data))
    assert np.array_equal(swapped[0], inner[0])


def test_calibration_is_saved_with_the_method(tmp_path, monkeypatch):
    class Local(Entry):
        def load(self):
            return NearestMean

    target = f"{NearestMean.__module__}:{NearestMean.__qualname__}"
    monkeypatch.setattr(METHODS, "_entries", {"nearest": Local(target, "for the test")})
    fitted(0.75).add_classes(NEW).save(tmp_path / "model", backbone="none")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    assert config["method"] == "nearest"
    assert config["about"] == {"calibration": 0.75, "backbone": "none"}


def test_calibration_passes_the_estimator_checks():
    check_estimator(CalibratedStacking(NearestMean(), 0.5))
