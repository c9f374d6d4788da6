"""How right confidence is, against scikit-learn; and rows of classes that nobody added."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from sklearn.metrics import auc, log_loss, roc_curve

import hgkt
from hgkt.evaluation.confidence import calibration_error, oscr, reliability, risk_coverage
from hgkt.evaluation.records import RunRecord
from hgkt.exceptions import DataError


@pytest.fixture(scope="module")
def record():
    digits = hgkt.load_dataset("digits")
    return hgkt.evaluate(hgkt.HGKTClassifier(), digits, stages=[], unknown_classes=1)


def test_bins_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    table = rng.dirichlet(np.ones(4) * 0.4, size=2000)
    truth = rng.integers(4, size=2000)
    bins = np.array(reliability(table, truth))
    right = table.argmax(axis=1) == truth
    accuracy, confidence = calibration_curve(right, table.max(axis=1), n_bins=15)
    np.testing.assert_allclose(bins[:, 0], confidence)
    np.testing.assert_allclose(bins[:, 1], accuracy)
    assert bins[:, 2].sum() == pytest.approx(1.0)


def test_answers_that_are_as_sure_as_right_have_no_error():
    rng = np.random.default_rng(0)
    table = rng.dirichlet(np.ones(5), size=40_000)
    truth = (rng.random((40_000, 1)) > np.cumsum(table, axis=1)).sum(axis=1)
    assert calibration_error(reliability(table, truth)) < 0.01
    assert calibration_error(reliability(np.eye(5)[truth - 1], truth)) == pytest.approx(1.0)


def test_the_last_risk_is_the_error_rate():
    rng = np.random.default_rng(0)
    sureness = rng.random(500)
    right = rng.random(500) < sureness
    risks = risk_coverage(sureness, right)
    assert risks[-1] == pytest.approx(1 - right.mean())
    assert risks[100] < risks[-1]


def test_oscr_is_the_roc_area_where_every_known_row_is_right():
    rng = np.random.default_rng(0)
    unknown = rng.random(800) < 0.4
    sureness = rng.normal(size=800) - unknown
    false, true, _ = roc_curve(~unknown, sureness)
    assert oscr(sureness, ~unknown, unknown) == pytest.approx(auc(false, true), abs=0.002)


def test_a_run_says_how_sure_answers_are_in_each_group(record):
    for group in (record.confidence_seen, record.confidence_unseen):
        assert group.ece < group.ece_before
        assert group.log_loss < group.log_loss_before
        assert 0 <= group.aurc <= 100
        assert len(group.sets) == 8
    assert RunRecord.from_dict(json.loads(json.dumps(record.to_dict()))) == record


def test_the_log_loss_is_that_of_the_model(record):
    data = hgkt.load_dataset("digits")
    X, y = data.rows("train")
    search = hgkt.ClassFoldSearch(hgkt.HGKTClassifier(), stages=[])
    search.fit(X, y, data.attributes_of(data.seen_classes))
    search.add_classes(data.attributes_of(data.unseen_classes))
    rows, truth = data.rows("test_seen")
    expected = log_loss(truth, search.predict_proba(rows), labels=search.classes_)
    assert record.confidence_seen.log_loss == pytest.approx(expected, abs=1e-6)


def test_rows_of_a_class_that_was_not_added_are_looked_at(record):
    found = record.unknown
    assert found.n_unknown == 1
    for value in (found.auroc, found.auroc_softmax, found.auroc_mahalanobis, found.oscr):
        assert 50 < value < 100
    assert found.oscr < found.auroc


def test_more_unknown_classes_than_there_are_is_refused():
    with pytest.raises(DataError, match=r"unknown_classes must be an integer in \[1, 2\]"):
        hgkt.evaluate(hgkt.HGKTClassifier(), hgkt.load_dataset("digits"), unknown_classes=3)


def test_unknown_classes_need_thresholds():
    with pytest.raises(DataError, match="without thresholds from validation classes"):
        hgkt.evaluate(
            hgkt.HGKTClassifier(calibration=0.2), hgkt.load_dataset("digits"), unknown_classes=1
        )
