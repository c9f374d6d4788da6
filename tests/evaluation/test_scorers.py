"""Scikit-learn's model selection with generalized zero-shot scorers and class folds."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer, top_k_accuracy_score
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from hgkt import HGKTClassifier, evaluate, load_dataset
from hgkt.evaluation import (
    ClassKFold,
    ausuc,
    gzsl_metrics,
    h_score,
    top_k_accuracy,
    zsl_score,
)
from hgkt.exceptions import DataError

DIGITS = load_dataset("digits")
X, Y = DIGITS.features, np.array(DIGITS.class_names)[DIGITS.labels]
TABLE = DIGITS.attributes_of(range(len(DIGITS.class_names)))


def test_scikit_learns_top_k_is_right_after_classes_were_added():
    train, test = next(ClassKFold(3, random_state=1).split(X, Y))
    model = HGKTClassifier(calibration=0.1).fit(X[train], Y[train], TABLE)
    assert len(model.unseen_classes_) > 0
    top_3 = make_scorer(top_k_accuracy_score, response_method="decision_function", k=3)
    best = np.argsort(-model.decision_function(X[test]), axis=1)[:, :3]
    hits = (model.classes_[best] == Y[test][:, None]).any(axis=1)
    assert top_3(model, X[test], Y[test]) == pytest.approx(hits.mean())
    ours = top_k_accuracy(model.score_classes(X[test]), Y[test], model.classes_, k=3)
    assert ours > 0.8
    assert hits.mean() > 0.8


def test_scorers_agree_with_the_protocol():
    rows, labels = DIGITS.rows("train")
    model = HGKTClassifier(calibration=0.1).fit(rows, labels, TABLE)
    splits = DIGITS.rows("test_seen"), DIGITS.rows("test_unseen")
    features, truth = (np.concatenate(parts) for parts in zip(*splits, strict=True))
    metrics = evaluate(HGKTClassifier(calibration=0.1), DIGITS, calibrate=False).metrics
    found = [100 * score(model, features, truth) for score in (h_score, ausuc, zsl_score)]
    assert found == pytest.approx([metrics.H, metrics.ausuc, metrics.zsl])


def test_class_folds_hold_out_whole_classes_and_some_rows_of_the_others():
    folds = list(ClassKFold(3).split(X, Y))
    assert ClassKFold(3).get_n_splits() == len(folds) == 3
    for train, test in folds:
        assert not set(train) & set(test)
        unseen = set(Y[test]) - set(Y[train])
        assert len(unseen) >= 3
        assert set(Y[test]) == set(Y)
        assert len(train) + len(test) == len(Y)


def metrics_by_hand(train, test):
    """The figures of one fold by `gzsl_metrics`, columns of seen classes put first."""
    model = HGKTClassifier(calibration=0.1).fit(X[train], Y[train], TABLE)
    seen = [name for name in model.classes_.tolist() if name in Y[train]]
    unseen = [name for name in model.classes_.tolist() if name not in Y[train]]
    order = [model.classes_.tolist().index(name) for name in seen + unseen]
    scores, known = model.score_classes(X[test], penalty=False)[:, order], np.isin(Y[test], seen)
    parts = scores[known], Y[test][known], scores[~known], Y[test][~known]
    return gzsl_metrics(*parts, seen + unseen, len(seen), calibration=0.1)


def test_cross_validation_by_class_scores_generalized_zero_shot():
    expected = [metrics_by_hand(*fold) for fold in ClassKFold(3).split(X, Y)]
    for score, name in ((h_score, "H"), (ausuc, "ausuc"), (zsl_score, "zsl")):
        found = cross_val_score(
            HGKTClassifier(calibration=0.1),
            X,
            Y,
            cv=ClassKFold(3),
            scoring=score,
            params={"class_attributes": TABLE},
            error_score="raise",
        )
        assert 100 * found == pytest.approx([getattr(metrics, name) for metrics in expected])


def test_folds_of_scikit_learn_by_group_are_enough_for_zsl():
    folds = GroupKFold(5)
    found = cross_val_score(
        HGKTClassifier(calibration=0.1),
        X,
        Y,
        groups=Y,
        cv=folds,
        scoring=zsl_score,
        params={"class_attributes": TABLE},
        error_score="raise",
    )
    expected = []
    for train, test in folds.split(X, Y, Y):
        model = HGKTClassifier(calibration=0.1).fit(X[train], Y[train], TABLE)
        named = model.predict(X[test], among=sorted(set(Y[test])))
        hits = [(named == name)[Y[test] == name].mean() for name in set(Y[test])]
        assert len(hits) == 2
        expected.append(np.mean(hits))
    assert found == pytest.approx(expected)


def test_grid_search_chooses_by_ausuc_within_a_pipeline():
    model = make_pipeline(FunctionTransformer(), HGKTClassifier())
    search = GridSearchCV(
        model, {"hgktclassifier__intra": [True, False]}, cv=ClassKFold(2), scoring=ausuc
    )
    search.fit(X, Y, hgktclassifier__class_attributes=TABLE)
    alone = [
        cross_val_score(
            HGKTClassifier(intra=intra),
            X,
            Y,
            cv=ClassKFold(2),
            scoring=ausuc,
            params={"class_attributes": TABLE},
        ).mean()
        for intra in (True, False)
    ]
    assert search.cv_results_["mean_test_score"] == pytest.approx(alone)
    assert alone[0] != pytest.approx(alone[1])


def test_scorers_say_what_is_missing():
    rows, labels = DIGITS.rows("train")
    model = HGKTClassifier().fit(rows, labels, TABLE)
    with pytest.raises(DataError, match="no unseen class; split by class"):
        h_score(model, rows, labels)
    with pytest.raises(DataError, match=r"no seen class, .*ClassKFold"):
        ausuc(model, *DIGITS.rows("test_unseen"))
    with pytest.raises(DataError, match="needs a method of hgkt; got LogisticRegression"):
        zsl_score(LogisticRegression(), rows, labels)
