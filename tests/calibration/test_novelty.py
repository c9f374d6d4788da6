"""Novelty: rows of classes that nobody added are stranger, at a stated rate of false alarms."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from hgkt.calibration import Calibration, Confidence, FoldSample, fit_confidence
from hgkt.calibration.novelty import STATISTICS, Novelty, row_statistics


@pytest.fixture(scope="module")
def confidence(folds) -> Confidence:
    return fit_confidence(folds, Calibration())


def novelty_of(part: FoldSample, confidence: Confidence) -> np.ndarray:
    probabilities = confidence.temperatures.probabilities(
        part.calibrated(Calibration()), part.groups
    )
    return confidence.novelty(part.scores.astype(float), probabilities)


@pytest.mark.parametrize("n_added", [0, 5, 15])
def test_known_rows_are_rejected_at_the_stated_rate(confidence, fresh, n_added):
    rates, areas = [], []
    for part in fresh:
        kept = np.concatenate([np.arange(part.n_seen), part.n_seen + np.arange(n_added)])
        known = part.among(kept)
        novelty, unknown = novelty_of(known, confidence), known.truth < 0
        rates.append((novelty[~unknown] > 0.9).mean())
        areas.append(roc_auc_score(unknown, novelty))
    assert 0.04 < np.mean(rates) < 0.2
    assert np.mean(areas) > 0.6


def test_what_validation_says_of_the_score_holds_for_new_classes(confidence, fresh):
    areas = []
    for part in fresh:
        half = part.among(np.arange(part.n_seen + 10))
        areas.append(roc_auc_score(half.truth < 0, novelty_of(half, confidence)))
    assert np.mean(areas) == pytest.approx(confidence.novelty.auroc, abs=0.06)


def test_noise_is_not_told_from_noise():
    rng = np.random.default_rng(0)
    folds = [
        FoldSample(rng.normal(size=(400, 20)), rng.integers(20, size=400), 10, tuple(range(10)))
        for _ in range(4)
    ]
    assert fit_confidence(folds, Calibration()).novelty.auroc == pytest.approx(0.5, abs=0.06)


def test_order_is_kept_beyond_what_validation_saw(confidence):
    novelty = Novelty(np.array([0.0, 0.0, 1.0]), np.linspace(0.0, 1.0, 1001), 0.8)
    scores = -np.array([-9.0, -1.0, 0.0, 0.2, 0.5, 1.0, 1.5, 9.0])[:, None]
    values = novelty(scores, np.ones((8, 1)))
    assert (np.diff(values) > 0).all()
    assert 0 < values[0] < values[-1] < 1
    assert values[4] == pytest.approx(0.5, abs=0.002)


def test_statistics_do_not_grow_with_classes_that_are_out_of_the_question():
    few = np.array([[0.7, 0.2, 0.1]])
    many = np.concatenate([few, np.zeros((1, 97))], axis=1)
    scores = np.zeros((1, 1))
    one, other = (row_statistics(scores, table)[0] for table in (few, many))
    assert dict(zip(STATISTICS, one, strict=True))["largest probability"] == other[0]
    assert other[1] < one[1] < 1


def test_a_confidence_comes_back_from_its_arrays(confidence):
    again = Confidence.from_arrays(confidence.to_arrays())
    assert again.temperatures == confidence.temperatures
    assert again.sets.added.threshold(0.9) == confidence.sets.added.threshold(0.9)
    assert again.novelty.chosen == confidence.novelty.chosen
