"""`fit_dataset`: what the rows of a data set allow to choose, and no more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hgkt.calibration import Calibration
from hgkt.data import load_dataset
from hgkt.estimators import HGKTClassifier
from hgkt.evaluation import fit_dataset
from hgkt.exceptions import DataError


@pytest.fixture(scope="module")
def digits():
    return load_dataset("digits")


def test_classes_or_groups_are_favoured(digits):
    distances = HGKTClassifier(metric="euclidean")  # which is left as it is, whatever is favoured
    groups = fit_dataset(distances, digits).chosen["calibration"]
    assert groups["slope"] > 0
    fitted = fit_dataset(distances, digits, favour="classes")
    found = fitted.chosen["calibration"]
    assert found == {"offset": groups["offset"], "slope": 0.0}  # of few classes
    model = fitted.model
    before = model.gamma_
    model.add_classes(digits.attributes_of(digits.unseen_classes))
    assert model.gamma_ == before == found["offset"]
    with pytest.raises(DataError, match="favour must be one of 'balanced', 'classes'"):
        fit_dataset(HGKTClassifier(), digits, favour="rows")


def test_what_the_estimator_favours_wins_over_what_is_asked_for_all(digits):
    own = HGKTClassifier(metric="euclidean", calibration={"favour": 0.1})
    asked = fit_dataset(HGKTClassifier(metric="euclidean"), digits, favour=0.1)
    assert fit_dataset(own, digits).chosen == asked.chosen
    assert asked.model.calibration_ == Calibration(**asked.chosen["calibration"])


def test_no_calibration_is_none_at_all(digits):
    fitted = fit_dataset(HGKTClassifier(), digits, calibrate=False)
    assert fitted.model.gamma_ == 0.0
    assert (fitted.chosen, fitted.validation, fitted.selected) == ({}, None, False)
    own = fit_dataset(HGKTClassifier(calibration=0.25), digits)
    assert own.model.gamma_ == 0.25


def test_single_rows_are_fitted_without_choosing(digits):
    labels = digits.labels[digits.train]
    first = digits.train[np.unique(labels, return_index=True)[1]]
    single = replace(digits, train=first, test_seen=[], test_unseen=[])
    fitted = fit_dataset(HGKTClassifier(), single, select="auto")
    assert fitted.validation is None
    assert len(fitted.model.seen_classes_) == 8
