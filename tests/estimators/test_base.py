"""The messages of the contract: one sentence each, and nothing is damaged."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from hgkt.estimators import HGKTClassifier
from hgkt.estimators.class_table import GrowingRows
from hgkt.exceptions import ClassWarning, DataError


@pytest.fixture
def fitted(small):
    return HGKTClassifier().fit(small["X"], small["y"], class_attributes=small["seen"])


def check_refused(match, function, *args, **kwargs):
    with pytest.raises(DataError, match=match) as caught:
        function(*args, **kwargs)
    assert "\n" not in str(caught.value)


def test_fit_refuses_bad_features(small):
    fit = HGKTClassifier().fit
    X = small["X"].copy()
    X[4, 2] = np.nan
    check_refused("features contain NaN in row 4", fit, X, small["y"], small["seen"])
    X[4, 2] = np.inf
    check_refused("features contain infinity", fit, X, small["y"], small["seen"])


def test_fit_refuses_bad_attributes(small):
    fit, X, y = HGKTClassifier().fit, small["X"], small["y"]
    table = dict(small["seen"])
    check_refused("bare array", fit, X, y, np.array(list(table.values())))
    check_refused(
        "class 'class f' has no attributes", fit, X, y, {k: table[k] for k in list(table)[:5]}
    )
    check_refused("class 'class c' has 4 attributes; 5 are expected", fit, X, y,
            {**table, "class c": np.ones(4)})  # fmt: skip
    check_refused("class 'class c' contain NaN or infinity at position 1", fit, X, y,
            {**table, "class c": [1, np.nan, 1, 1, 1]})  # fmt: skip
    check_refused("are not numbers", fit, X, y, {**table, "class c": ["red"] * 5})
    frame = pd.DataFrame([np.ones(5)] * 7, index=[*table, "class a"])
    check_refused("'class a' twice", fit, X, y, frame)


def test_fit_refuses_one_class(small):
    check_refused("one class only", HGKTClassifier().fit, small["X"][:5], ["a"] * 5, {"a": [1.0]})


def test_add_classes_is_all_or_nothing(fitted, small):
    before = fitted.score_classes(small["X_unseen"])
    good = small["unseen"]["class g"]
    check_refused("'class a' is there already", fitted.add_classes, {"new": good, "class a": good})
    check_refused(
        "'other' has 3 attributes; 5 are", fitted.add_classes, {"new": good, "other": good[:3]}
    )
    check_refused("'other' contain NaN", fitted.add_classes, {"new": good, "other": good * np.nan})
    check_refused("class 3: the classes of this model are strings", fitted.add_classes, {3: good})
    check_refused("bare array", fitted.add_classes, np.ones((1, 5)))
    assert fitted.classes_.tolist() == list(small["seen"])
    assert np.array_equal(fitted.score_classes(small["X_unseen"]), before)


def test_remove_classes_is_all_or_nothing(fitted, small):
    fitted.add_classes(small["unseen"])
    check_refused("'zebra' is unknown", fitted.remove_classes, ["class g", "zebra"])
    check_refused(
        "'class a' was learned from instances", fitted.remove_classes, ["class g", "class a"]
    )
    check_refused("a list of classes is expected", fitted.remove_classes, "class g")
    assert fitted.unseen_classes_.tolist() == ["class g", "class h"]


def test_predict_refuses_what_it_cannot_do(fitted, small):
    check_refused("no class has been added", fitted.predict, small["X"], among="unseen")
    check_refused("among must be", fitted.predict, small["X"], among="some")
    check_refused("'zebra', which the model has not", fitted.predict, small["X"], among=["zebra"])
    check_refused("empty list", fitted.predict, small["X"], among=[])
    with pytest.raises(ValueError, match="expecting 12 features"):
        fitted.predict(small["X"][:, :4])
    with pytest.raises(ValueError, match="0 sample"):
        fitted.predict(small["X"][:0])


@pytest.mark.parametrize("among", [None, 5])
def test_predict_refuses_candidates_that_are_no_list(fitted, small, among):
    check_refused("a list of classes is expected; got", fitted.predict, small["X"], among=among)


def test_labels_and_attributes_of_a_wrong_kind_are_refused(fitted, small):
    fitted.add_classes(small["unseen"])
    check_refused(r"class \['class g'\] is unknown", fitted.remove_classes, [["class g"]])
    good = small["unseen"]["class g"]
    check_refused("one Series; a vector per class", fitted.add_classes, pd.Series(good))
    check_refused("'x' are not real numbers", fitted.add_classes, {"x": good + 1j})


def test_model_without_attributes_takes_no_classes(small):
    with pytest.warns(ClassWarning, match="none can be added; give class_attributes="):
        model = HGKTClassifier().fit(small["X"], small["y"])
    check_refused("fitted without class_attributes", model.add_classes, {"zebra": [1.0]})


def test_scores_in_chunks_equal_scores_at_once(fitted, small, monkeypatch):
    whole = fitted.score_classes(small["X"])
    monkeypatch.setattr("hgkt.estimators.scoring._BLOCK_NUMBERS", 84)
    np.testing.assert_allclose(fitted.score_classes(small["X"]), whole, rtol=1e-12)


def test_decision_function_of_two_classes_follows_scikit_learn(small):
    two = np.isin(small["y"], ["class a", "class b"])
    model = HGKTClassifier().fit(small["X"][two], small["y"][two])
    scores = model.score_classes(small["X"])
    np.testing.assert_allclose(model.decision_function(small["X"]), scores[:, 1] - scores[:, 0])


def test_growing_rows_keep_what_a_reader_holds():
    first = GrowingRows(np.zeros((1, 2))).append(np.ones((1, 2)))
    branch_a, branch_b = first.append(np.full((1, 2), 2.0)), first.append(np.full((1, 2), 3.0))
    assert branch_a.array[-1, 0] == 2.0
    assert branch_b.array[-1, 0] == 3.0
    assert len(first.array) == 2


def test_growing_rows_append_without_copying_everything():
    rows = GrowingRows(np.zeros((1000, 4))).append(np.ones((1, 4)))
    assert rows.append(np.ones((1, 4))).array.base is rows.array.base
