"""Prediction sets: MAPIE's where there is only one group, and the promise for new classes."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from hgkt.calibration import Calibration, FoldSample
from hgkt.calibration.folds import SEEN
from hgkt.calibration.sets import GroupQuantiles, SetThresholds, fit_sets, weighted_quantiles
from hgkt.calibration.temperatures import fit_temperatures


def scored(parts, temperatures):
    return [
        (part, temperatures.probabilities(part.calibrated(Calibration()), part.groups))
        for part in parts
    ]


@pytest.mark.parametrize("coverage", [0.8, 0.9, 0.95])
def test_new_classes_are_covered_as_often_as_was_asked(folds, fresh, coverage):
    temperatures = fit_temperatures(folds, Calibration())
    thresholds = fit_sets(scored(folds, temperatures))
    hits: dict[bool, list[float]] = {True: [], False: []}
    for part, probabilities in scored(fresh, temperatures):
        inside = thresholds.members(probabilities, part.groups == SEEN, coverage)
        own = inside[np.arange(len(part.truth)), part.truth]
        for of_seen, found in hits.items():
            found.append(own[part.of_seen == of_seen].mean())
    for found in hits.values():
        assert coverage - 0.03 < np.mean(found) < coverage + 0.05


def test_sets_of_seen_classes_are_those_of_mapie():
    mapie = pytest.importorskip("mapie.classification")
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(5), 120)
    X = rng.normal(size=(5, 3))[y] * 1.5 + rng.normal(size=(600, 3))
    rng.shuffle(order := np.arange(600))
    train, calibrate, test = np.split(order, [200, 400])
    model = LogisticRegression().fit(X[train], y[train])
    reference = mapie.SplitConformalClassifier(
        model, confidence_level=0.9, conformity_score="lac", prefit=True
    ).conformalize(X[calibrate], y[calibrate])
    _, expected = reference.predict_set(X[test])

    # One row stands for one class, so that classes do not weigh more than rows.
    own = model.predict_proba(X[calibrate])[np.arange(200), y[calibrate]]
    quantiles = GroupQuantiles(weighted_quantiles(own, np.ones(200)), 200)
    sets = SetThresholds(quantiles, quantiles)
    found = sets.members(model.predict_proba(X[test]), np.ones(5), 0.9)
    different = found != expected[:, :, 0]
    # MAPIE allows empty sets; and 1,001 kept quantiles round the threshold.
    assert (different.any(axis=1) & (expected[:, :, 0].sum(axis=1) > 0)).mean() < 0.02


def test_the_promise_is_limited_by_the_number_of_held_out_classes():
    quantiles = GroupQuantiles(np.linspace(0.01, 1.0, 1001), 8)
    assert quantiles.largest_promise() == pytest.approx(8 / 9)
    assert quantiles.threshold(0.9) == pytest.approx(0.01)
    assert quantiles.threshold(0.5) > 0.4


def test_a_set_is_never_empty():
    high = GroupQuantiles(np.full(1001, 0.99), 100)
    inside = SetThresholds(high, high).members(
        np.full((3, 4), 0.25), np.array([1.0, 1.0, 0.0, 0.0]), 0.9
    )
    np.testing.assert_array_equal(inside.sum(axis=1), 1)


def test_classes_count_alike_however_many_rows_they_have():
    """One class of a thousand easy rows must not hide nine hard ones."""
    truth = np.concatenate([np.full(1000, 1), np.repeat(np.arange(2, 11), 2), [0]])
    probabilities = np.full((len(truth), 11), 0.01)
    own = np.concatenate([np.full(1000, 0.9), np.full(18, 0.1), [0.9]])
    probabilities[np.arange(len(truth)), truth] = own
    part = FoldSample(np.zeros((len(truth), 11)), truth, 1, tuple(range(10)))
    thresholds = fit_sets([(part, probabilities)])
    assert thresholds.added.n_units == 10
    assert thresholds.added.threshold(0.5) == pytest.approx(0.1)


def test_the_threshold_of_a_class_moves_with_what_it_has_learned():
    low, high = (GroupQuantiles(np.full(1001, value), 99) for value in (0.01, 0.16))
    sets = SetThresholds(seen=high, added=low)
    learned = np.array([0.0, 0.5, 1.0])
    for value, expected in ((0.2, 3), (0.1, 2), (0.02, 1), (0.001, 0)):
        rows = np.column_stack([np.eye(3) * value, np.full(3, 0.9)])  # each class by itself
        inside = sets.members(rows, np.append(learned, 1.0), 0.9)
        assert inside[:, 3].all()
        assert inside[:, :3].sum() == expected
    assert sets.members(np.array([[0.02, 0.02, 0.02]]), learned, 0.9)[0].tolist()[0]


def test_a_set_never_skips_a_class_for_a_less_likely_one(folds, fresh):
    low, high = (GroupQuantiles(np.full(1001, value), 99) for value in (0.02, 0.5))
    row, learned = np.array([[0.43, 0.407, 0.131, 0.032]]), np.array([0.0, 1.0, 0.0, 1.0])
    inside = SetThresholds(seen=high, added=low).members(row, learned, 0.9)
    assert inside[0].tolist() == [True, True, True, False]

    temperatures = fit_temperatures(folds, Calibration())
    thresholds = fit_sets(scored(folds, temperatures))
    for part, probabilities in scored(fresh, temperatures):
        learned = (part.groups == SEEN).astype(float)
        inside = thresholds.members(probabilities, learned, 0.9)
        least = np.where(inside, probabilities, np.inf).min(axis=1, keepdims=True)
        np.testing.assert_array_equal(inside, probabilities >= least)
        # What thresholds apart would hold is held, so that coverage can only be higher.
        cuts = np.where(learned, thresholds.seen.threshold(0.9), thresholds.added.threshold(0.9))
        assert inside[probabilities >= cuts].all()
