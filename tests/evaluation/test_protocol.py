"""The whole protocol, and the proof that test data does not reach selection."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from tests.evaluation.conftest import make_data

from hgkt.calibration import Calibration
from hgkt.data import ClassFold, GZSLDataset
from hgkt.evaluation import ClassFoldSearch, evaluate, harmonic_mean, per_class_accuracy

STAGES = [{"alpha": [1e3, 0.1, 0.01, 1.0]}, {"scale": [1.0, 3.0]}]


def test_evaluate_equals_predict_by_hand(toy, ridge):
    record = evaluate(ridge(alpha=0.5), toy, calibrate=False)
    X, y = toy.rows("train")
    model = ridge(alpha=0.5).fit(X, y, toy.attributes_of(toy.seen_classes))
    model.add_classes(toy.attributes_of(toy.unseen_classes))
    parts = {}
    for split in ("test_seen", "test_unseen"):
        rows, truth = toy.rows(split)
        parts[split] = 100 * per_class_accuracy(truth, model.predict(rows))
    rows, truth = toy.rows("test_unseen")
    assert record.metrics.tr == pytest.approx(parts["test_seen"])
    assert record.metrics.ts == pytest.approx(parts["test_unseen"])
    assert pytest.approx(harmonic_mean(*parts.values())) == record.metrics.H
    assert record.metrics.zsl == pytest.approx(
        100 * per_class_accuracy(truth, model.predict(rows, among="unseen"))
    )
    assert record.selected == {}
    assert record.validation == {}
    assert record.calibrated is None
    assert record.metrics == record.uncalibrated


def test_evaluate_with_calibration_agrees_with_the_search(toy, ridge):
    record = evaluate(ridge(), toy, calibrate=True)
    X, y = toy.rows("train")
    search = ClassFoldSearch(ridge(), stages=[], calibrate=True)
    search.fit(X, y, toy.attributes_of(toy.seen_classes))
    search.add_classes(toy.attributes_of(toy.unseen_classes))
    rows, truth = toy.rows("test_unseen")
    assert search.calibration_ == Calibration.of(record.selected["calibration"])
    counts = len(toy.seen_classes), len(toy.unseen_classes)
    assert record.calibration == search.gamma_ == search.calibration_.gamma(*counts)
    assert set(record.selected) == {"calibration"}
    assert record.validation["n_settings"] == 1
    assert record.metrics == record.calibrated != record.uncalibrated
    assert record.metrics.ts == pytest.approx(100 * per_class_accuracy(truth, search.predict(rows)))
    assert record.metrics.ausuc == record.uncalibrated.ausuc
    assert record.method == "RidgeMeans"
    assert record.parameters["alpha"] == 1.0


def test_evaluate_without_calibration_still_shows_the_one_it_found(toy, ridge):
    record = evaluate(ridge(), toy, select=True, calibrate=False)
    assert record.calibration == 0.0
    assert record.metrics == record.uncalibrated != record.calibrated
    assert set(record.selected) == {"alpha"}
    assert record.validation["n_settings"] == 3
    again = evaluate(ridge(), toy, select=True, calibrate=True)
    assert again.metrics == record.calibrated


def test_evaluate_calibrates_every_method_without_a_calibration_of_its_own(toy, ridge):
    record = evaluate(ridge(), toy)
    law = Calibration.of(record.selected["calibration"])
    assert record.calibration == law.gamma(len(toy.seen_classes), len(toy.unseen_classes)) != 0.0
    assert record.metrics == record.calibrated != record.uncalibrated
    by_hand = evaluate(ridge(calibration=2.5), toy)
    assert by_hand.calibration == 2.5
    assert by_hand.metrics == by_hand.calibrated
    assert by_hand.metrics != by_hand.uncalibrated


def altered(toy: GZSLDataset, how: str) -> GZSLDataset:
    rng = np.random.default_rng(9)
    test = np.concatenate([toy.test_seen, toy.test_unseen])
    features = toy.features.copy()
    if how == "permuted":
        features[test] = features[rng.permutation(test)]
    elif how == "replaced":
        features[test] = 100 * rng.normal(size=(len(test), features.shape[1]))
    attributes = toy.class_attributes.copy()
    if how == "unseen attributes":
        attributes[toy.unseen_classes] = rng.normal(size=attributes[toy.unseen_classes].shape)
    return dataclasses.replace(toy, features=features, class_attributes=attributes)


@pytest.mark.parametrize("how", ["permuted", "replaced", "unseen attributes"])
def test_evaluate_chooses_the_same_whatever_the_test_data(toy, ridge, how):
    first = evaluate(ridge(), toy, stages=STAGES, calibrate=True)
    second = evaluate(ridge(), altered(toy, how), stages=STAGES, calibrate=True)
    assert first.selected == second.selected
    assert first.validation == second.validation
    assert first.metrics != second.metrics  # the test result itself does change
    # The control: altered training data does change what is found.
    features = toy.features.copy()
    features[toy.train] = features[np.random.default_rng(0).permutation(toy.train)]
    control = evaluate(
        ridge(), dataclasses.replace(toy, features=features), stages=STAGES, calibrate=True
    )
    assert control.validation != first.validation


def test_evaluate_uses_the_published_folds(toy, ridge):
    fold = ClassFold(train_classes=range(8), val_classes=range(8, 12))
    record = evaluate(ridge(), dataclasses.replace(toy, folds=[fold]), select=True)
    assert record.validation["n_folds"] == 1
    assert evaluate(ridge(), toy, select=True).validation["n_folds"] == 3


def test_evaluate_takes_a_search_as_it_is(toy, ridge):
    direct = evaluate(ridge(), toy, stages=STAGES, calibrate=True, random_state=2)
    search = ClassFoldSearch(ridge(), STAGES, calibrate=True, random_state=2)
    record = evaluate(search, toy, random_state=2)
    assert record.selected == direct.selected
    assert record.metrics == direct.metrics


def test_evaluate_is_repeatable_and_depends_on_the_seed(toy, ridge):
    first, again, other = (
        evaluate(ridge(), toy, select=True, calibrate=True, random_state=s) for s in (0, 0, 1)
    )
    assert first.metrics == again.metrics
    assert first.key == again.key
    assert first.validation != other.validation
    assert other.seed == 1


def test_evaluate_leaves_the_estimator_alone_and_counts_its_time(toy, ridge):
    estimator = ridge()
    record = evaluate(estimator, toy, select=True)
    assert not hasattr(estimator, "seen_classes_")
    times = record.timings
    assert set(times) == {"select", "fit", "test", "total"}
    assert times["select"] > 0
    assert times["total"] == pytest.approx(times["select"] + times["fit"] + times["test"])


@pytest.mark.parametrize("calibrate", [False, True])
def test_evaluate_passes_on_what_a_method_reports_while_it_fits(toy, ridge, calibrate):
    class Talkative(ridge):
        def _fit_seen(self, X, codes, attributes):
            if self._progress is not None:
                self._progress("train", len(attributes), 12, {})
            return super()._fit_seen(X, codes, attributes)

    heard = []
    evaluate(Talkative(), toy, calibrate=calibrate, progress=lambda *args: heard.append(args[:3]))
    assert ("train", 12, 12) in heard  # the final fit, on all twelve seen classes


def test_evaluate_keeps_the_accuracy_of_every_class(toy, ridge):
    record = evaluate(ridge(), toy)
    assert np.mean(record.per_class.ts) == pytest.approx(record.metrics.ts)
    assert np.mean(record.per_class.tr_uncalibrated) == pytest.approx(record.uncalibrated.tr)
    assert len(record.per_class.tr) == len(toy.seen_classes)


def test_evaluate_fits_what_is_best_by_zsl_besides(ridge):
    toy, stages = make_data(7, 12, 6), [{"alpha": [1e3, 30.0, 10.0, 1e-3]}]
    record = evaluate(ridge(), toy, stages=stages, metric="H", calibrate=False, by_zsl=True)
    X, y = toy.rows("train")
    search = ClassFoldSearch(ridge(), stages, metric="zsl")
    search.fit(X, y, toy.attributes_of(toy.seen_classes))
    assert search.best_params_ != record.selected  # else the test says nothing
    assert record.by_zsl.selected == search.best_params_
    assert record.by_zsl.score == pytest.approx(search.best_score_)
    chosen = evaluate(ridge(**search.best_params_), toy, calibrate=False)
    assert record.by_zsl.zsl == pytest.approx(chosen.metrics.zsl)
    assert record.by_zsl.per_class == chosen.per_class.zsl
    assert record.metrics.zsl != record.by_zsl.zsl


def test_evaluate_tests_once_where_one_setting_is_best_by_both(toy, ridge):
    record = evaluate(ridge(), toy, stages=[{"alpha": [1.0]}], by_zsl=True)
    assert record.by_zsl.zsl == pytest.approx(record.metrics.zsl)
    assert evaluate(ridge(), toy, calibrate=False, by_zsl=True).by_zsl is None  # nothing searched
