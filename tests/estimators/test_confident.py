"""Every method says how sure it is; models keep it, and it follows classes that come and grow."""

from __future__ import annotations

import warnings
from copy import deepcopy

import numpy as np
import pytest

import hgkt
from hgkt.estimators import load_model
from hgkt.estimators.methods import METHODS
from hgkt.exceptions import ConfidenceWarning, DataError


@pytest.fixture(scope="module")
def data():
    return hgkt.load_dataset("digits")


@pytest.fixture(scope="module")
def model(data):
    X, y = data.rows("train")
    fitted = hgkt.HGKTClassifier().fit(X, y, class_attributes=data.attributes_of(data.seen_classes))
    return fitted.add_classes(data.attributes_of(data.unseen_classes))


@pytest.fixture(scope="module")
def rows(data):
    return np.concatenate([data.rows(part)[0] for part in ("test_seen", "test_unseen")])


@pytest.mark.parametrize("among", ["all", "seen", "unseen", ["two", "one", "six"]])
def test_the_likeliest_class_is_the_predicted_one(model, rows, among):
    probabilities = model.predict_proba(rows, among)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    columns = model.candidates(among) if among != "all" else np.arange(len(model.classes_))
    best = model.classes_[columns][probabilities.argmax(axis=1)]
    np.testing.assert_array_equal(best, model.predict(rows, among))


def test_rejected_rows_are_the_strangest(model, rows):
    labels, novelty = model.predict(rows, reject=0.4), model.novelty(rows)
    rejected = labels == hgkt.UNKNOWN
    assert 0 < rejected.sum() < len(rows)
    assert novelty[rejected].min() > novelty[~rejected].max()
    np.testing.assert_array_equal(labels[~rejected], model.predict(rows)[~rejected])


def test_images_of_no_digit_are_stranger_than_digits(model, rows):
    noise = np.random.default_rng(0).permuted(rows[:300], axis=1)
    assert np.median(model.novelty(noise)) > np.median(model.novelty(rows)) + 0.2


def test_a_higher_coverage_gives_larger_sets(model, rows):
    small, large = (model.predict_set(rows, coverage=level) for level in (0.5, 0.85))
    assert all(set(a.tolist()) <= set(b.tolist()) for a, b in zip(small, large, strict=True))
    assert [found[0] for found in large] == model.predict(rows).tolist()
    assert sum(map(len, small)) < sum(map(len, large))


def test_a_promise_that_eight_classes_cannot_make_is_said(model, rows):
    with pytest.warns(ConfidenceWarning, match=r"8 held-out classes .* of 0\.89"):
        model.predict_set(rows[:2], coverage=0.95)


def test_one_call_answers_as_the_single_ones_do(model, rows):
    answers = model.answers(rows, reject=0.1, coverage=0.8)
    np.testing.assert_array_equal(answers.labels, model.predict(rows, reject=0.1))
    np.testing.assert_array_equal(answers.novelty, model.novelty(rows))
    for one, other in zip(answers.sets(), model.predict_set(rows, coverage=0.8), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_saved_model_is_as_sure_as_before(model, rows, tmp_path):
    again = load_model(model.save(tmp_path / "model"))
    np.testing.assert_array_equal(again.predict_proba(rows), model.predict_proba(rows))
    np.testing.assert_array_equal(again.novelty(rows), model.novelty(rows))


def test_what_grew_is_a_group_of_its_own_and_probabilities_follow(data, model, rows):
    X, y = data.rows("test_unseen")
    grown = deepcopy(model).partial_fit(X[:20], y[:20])
    names = np.unique(y[:20])
    assert set(grown.class_groups()[np.isin(grown.classes_, names)].tolist()) == {2}
    probabilities = grown.predict_proba(rows)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert grown.predict(rows, reject=0.05).shape == (len(rows),)


def test_sets_of_classes_that_grew_shrink_and_still_hold_the_truth(data, model):
    X, y = data.rows("test_unseen")
    first = np.concatenate([np.flatnonzero(y == name)[:10] for name in np.unique(y)])
    rest = np.setdiff1d(np.arange(len(y)), first)
    grown = deepcopy(model).partial_fit(X[first], y[first])
    before, after = (m.predict_set(X[rest], coverage=0.85) for m in (model, grown))
    assert sum(map(len, after)) < sum(map(len, before))
    assert np.mean([truth in names for truth, names in zip(y[rest], after, strict=True)]) > 0.85


@pytest.mark.parametrize("name", ["ridge", "eszsl", "sae", "conse", "gfzsl"])
def test_other_methods_have_probabilities_after_a_search(data, name):
    X, y = data.rows("train")
    attributes = data.attributes_of(data.seen_classes)
    search = hgkt.ClassFoldSearch(METHODS.load(name)(), stages=[], n_folds=2)
    search.fit(X, y, attributes).add_classes(data.attributes_of(data.unseen_classes))
    probabilities = search.predict_proba(X[:50])
    assert probabilities.shape == (50, 10)
    np.testing.assert_array_equal(
        search.classes_[probabilities.argmax(axis=1)], search.predict(X[:50])
    )


def test_without_folds_probabilities_warn_and_promises_are_refused(data, rows):
    X, y = data.rows("train")
    attributes = data.attributes_of(data.seen_classes)
    plain = hgkt.HGKTClassifier(calibration=0.0).fit(X, y, class_attributes=attributes)
    with pytest.warns(ConfidenceWarning, match="not calibrated"):
        probabilities = plain.predict_proba(rows)
    np.testing.assert_array_equal(plain.classes_[probabilities.argmax(axis=1)], plain.predict(rows))
    for call in (
        lambda: plain.predict(rows, reject=0.1),
        lambda: plain.predict_set(rows),
        lambda: plain.novelty(rows),
    ):
        with pytest.raises(DataError, match="no thresholds from validation classes"):
            call()


@pytest.mark.parametrize("value", [0, 1, -0.1, 1.5, "much", True])
def test_shares_outside_zero_and_one_are_refused(model, rows, value):
    with pytest.raises(DataError, match=r"reject must be a number in \(0, 1\)"):
        model.predict(rows, reject=value)
    with pytest.raises(DataError, match=r"coverage must be a number in \(0, 1\)"):
        model.predict_set(rows, coverage=value)


def test_no_class_may_be_called_unknown(model):
    with pytest.raises(DataError, match="rejected rows"):
        model.add_classes({hgkt.UNKNOWN: model.class_attributes_[0] * 0.5})


def test_numbers_as_labels_can_be_rejected(data):
    X, y = data.rows("train")
    names, codes = np.unique(y, return_inverse=True)
    attributes = data.attributes_of(data.seen_classes)
    table = {code: attributes[name] for code, name in enumerate(names.tolist())}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = hgkt.HGKTClassifier().fit(X, codes, class_attributes=table)
    labels = model.predict(X, reject=0.2)
    assert {type(label) for label in labels.tolist()} == {int, str}
