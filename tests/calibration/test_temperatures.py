"""Temperatures: found where scores are likelihoods, and never against `predict`."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import log_loss

from hgkt.calibration import Calibration, FoldSample, Temperatures, plain_probabilities
from hgkt.calibration.temperatures import fit_temperatures
from hgkt.evaluation.confidence import calibration_error, reliability

GROUPS = np.array([0, 0, 1, 1])


def test_the_temperature_of_likelihoods_is_found(folds):
    found = fit_temperatures(folds, Calibration())
    assert found.seen == pytest.approx(0.3, rel=0.1)
    assert found.added == pytest.approx(0.3, rel=0.1)


def test_probabilities_of_classes_no_fold_saw_are_calibrated(folds, fresh):
    found = fit_temperatures(folds, Calibration())
    for of_seen in (True, False):
        tables, truths = [], []
        for part in fresh:
            rows = part.of_seen == of_seen
            tables.append(found.probabilities(part.calibrated(Calibration()), part.groups)[rows])
            truths.append(part.truth[rows])
        bins = reliability(np.concatenate(tables), np.concatenate(truths))
        assert calibration_error(bins) < 0.04


def test_log_loss_is_lower_than_with_neighbouring_temperatures(folds):
    found = fit_temperatures(folds, Calibration())

    def loss(factor):
        scaled = Temperatures(found.seen * factor, found.added * factor, found.grown)
        return np.mean([
            log_loss(
                part.truth,
                scaled.probabilities(part.calibrated(Calibration()), part.groups),
                labels=np.arange(part.n_classes),
            )
            for part in folds
        ])  # fmt: skip

    assert loss(1.0) < min(loss(0.5), loss(2.0))


def test_probabilities_never_contradict_the_scores():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(500, 4))
    found = Temperatures(0.1, 3.0, 0.7).probabilities(scores, GROUPS)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    np.testing.assert_array_equal(np.argsort(found, axis=1), np.argsort(scores, axis=1))


def test_a_row_takes_the_temperature_of_its_best_class():
    scores = np.array([[2.0, 0.0, 1.0, 0.0], [0.0, 0.0, 2.0, 1.0]])
    found = Temperatures(1.0, 2.0, 9.0).probabilities(scores, GROUPS)
    for row, temperature in enumerate((1.0, 2.0)):
        expected = np.exp(scores[row] / temperature)
        np.testing.assert_allclose(found[row], expected / expected.sum())


def test_without_temperatures_the_unit_of_scores_does_not_matter():
    scores = np.random.default_rng(0).normal(size=(5, 7))
    np.testing.assert_allclose(plain_probabilities(scores), plain_probabilities(40 * scores + 3))
    assert np.isfinite(plain_probabilities(np.zeros((2, 3)))).all()


def test_scores_that_are_all_alike_give_equal_probabilities():
    flat = FoldSample(np.zeros((6, 4), dtype=np.float32), np.array([0, 0, 1, 2, 3, 3]), 2, (2, 3))
    found = fit_temperatures([flat], Calibration())
    np.testing.assert_allclose(found.probabilities(np.zeros((1, 4)), GROUPS), 0.25)


def test_no_rows_give_no_probabilities():
    empty = np.zeros((0, 4))
    assert Temperatures(1.0, 1.0, 1.0).probabilities(empty, GROUPS).shape == (0, 4)
    assert plain_probabilities(empty).shape == (0, 4)
