"""Methods fitted on gathered statistics are those fitted on the rows."""

from __future__ import annotations

import numpy as np
import pytest

from hgkt import ClassFoldSearch, HGKTClassifier, gather, load_dataset, load_model
from hgkt.baselines.eszsl import ESZSLClassifier
from hgkt.baselines.gfzsl import GFZSLClassifier
from hgkt.baselines.ridge import RidgeClassMeanClassifier
from hgkt.baselines.sae import SAEClassifier
from hgkt.baselines.sse import SSEClassifier
from hgkt.evaluation import fit_dataset, fit_gathered
from hgkt.exceptions import DataError
from hgkt.statistics import GatheredStatistics

MEMBERS = [
    {"shrinkage": 0.5, "attribute_map": "l2", "ridge": 0.03, "weight": 2.0},
    {"shrinkage": 0.5, "attribute_map": "l2", "ridge": 0.3, "observed": True},
    {"feature_map": "l2", "shrinkage": 0.9, "attribute_map": "l2", "norm_power": 1.2},
]


@pytest.fixture(scope="module")
def digits():
    data = load_dataset("digits")
    X, y = data.rows("train")
    seen, unseen = (data.attributes_of(c) for c in (data.seen_classes, data.unseen_classes))
    tests = np.concatenate([data.rows(part)[0] for part in ("test_seen", "test_unseen")])
    return X[::3].astype(np.float64), y[::3], seen, unseen, tests.astype(np.float64)


def batches_of(X, y, size=71):
    return [(X[k : k + size], y[k : k + size]) for k in range(0, len(y), size)]


@pytest.mark.parametrize(
    "model",
    [
        HGKTClassifier(calibration=0.0),
        HGKTClassifier(members=MEMBERS, calibration=0.1),
        HGKTClassifier(observed=True, calibration=0.1),
        HGKTClassifier(metric="euclidean", feature_map="none", relevance=True, calibration=0.0),
        HGKTClassifier(shrinkage="oas", feature_map=0.25, intra=True, inter=False, calibration=0),
        RidgeClassMeanClassifier(),
        RidgeClassMeanClassifier(feature_map="l2", metric="cosine"),
        ESZSLClassifier(feature_map="sqrt+l2", label_coding="signed"),
        SAEClassifier(),
        *(
            kind(feature_map="l2", centering="both")
            for kind in (ESZSLClassifier, SAEClassifier, GFZSLClassifier)
        ),
        ESZSLClassifier(centering="attributes"),
        GFZSLClassifier(feature_map="l2", variance_ridge=1.0),
        GFZSLClassifier(seen_parameters="empirical", calibration={"offset": 1.0}),
    ],
    ids=lambda model: f"{type(model).__name__}",
)
def test_fit_statistics_equals_fit(model, digits, tmp_path):
    X, y, seen, unseen, tests = digits
    stats = gather(batches_of(X, y), **model.gather_options())
    stats = GatheredStatistics.load(stats.save(tmp_path / "sums.safetensors"))
    both = {**seen, **unseen}  # classes without rows are added
    found = type(model)(**model.get_params()).fit_statistics(stats, class_attributes=both)
    expected = model.fit(X, y, class_attributes=both)
    scores = expected.score_classes(tests)
    np.testing.assert_allclose(
        found.score_classes(tests), scores, rtol=1e-8, atol=1e-9 * abs(scores).max()
    )
    assert found.n_features_in_ == 64
    assert found.unseen_classes_.tolist() == expected.unseen_classes_.tolist()
    again = load_model(found.save(tmp_path / "model"))
    np.testing.assert_array_equal(again.score_classes(tests), found.score_classes(tests))


def test_calibration_and_confidence_come_from_the_folds_of_the_statistics(digits):
    X, y, seen, unseen, tests = digits
    stats = gather(batches_of(X, y), classes=seen)
    found = HGKTClassifier().fit_statistics(stats, seen).add_classes(unseen)
    expected = HGKTClassifier().fit(X, y, seen).add_classes(unseen)
    assert found.calibration_.offset == pytest.approx(expected.calibration_.offset, rel=1e-9)
    assert found.gamma_ > 0
    np.testing.assert_allclose(found.predict_proba(tests), expected.predict_proba(tests), atol=1e-7)
    np.testing.assert_allclose(found.novelty(tests), expected.novelty(tests), atol=1e-6)


def test_a_sample_of_the_rows_finds_nearly_the_same_calibration(digits):
    X, y, seen, unseen, tests = digits
    stats = gather(batches_of(X, y), classes=seen, sample=207)
    assert len(stats.rows()[1]) == 200  # 25 of each class
    sampled = HGKTClassifier().fit_statistics(stats, seen).add_classes(unseen)
    whole = HGKTClassifier().fit(X, y, seen).add_classes(unseen)
    assert sampled.calibration_.offset == pytest.approx(whole.calibration_.offset, abs=0.1)
    assert (sampled.predict(tests) == whole.predict(tests)).mean() > 0.9


@pytest.mark.parametrize("method", [HGKTClassifier, RidgeClassMeanClassifier])
def test_selection_from_statistics_chooses_as_that_from_rows(method, digits):
    X, y, seen, *_ = digits
    stats = gather(batches_of(X, y), classes=seen, **method().gather_options(select=True))
    found = ClassFoldSearch(method(), n_folds=2, calibrate=True).fit_statistics(stats, seen)
    expected = ClassFoldSearch(method(), n_folds=2, calibrate=True)
    expected.fit(X, y, seen, folds=stats.folds)
    assert found.best_params_.keys() == expected.best_params_.keys()
    assert found.best_score_ == pytest.approx(expected.best_score_)
    assert found.calibration_.offset == pytest.approx(expected.calibration_.offset, rel=1e-4)
    if method is RidgeClassMeanClassifier:
        assert found.best_params_ == expected.best_params_
    else:
        chosen, members = (s.best_params_["members"] for s in (found, expected))
        for own, other in zip(chosen, members, strict=True):
            assert own == {**other, "weight": pytest.approx(other["weight"], rel=1e-4)}
    assert found.best_estimator_.confidence_ is not None
    assert found.predict(X[:3]).tolist() == expected.predict(X[:3]).tolist()


def test_fit_gathered_does_what_fit_dataset_does(digits):
    data = load_dataset("digits")
    X, y = data.rows("train")
    seen = digits[2]
    stats = gather(batches_of(X, y), classes=seen)
    found = fit_gathered(HGKTClassifier(), stats, seen)
    expected = fit_dataset(HGKTClassifier(), data)
    assert found.validation["score"] == pytest.approx(expected.validation["score"], rel=1e-5)
    assert found.chosen["calibration"]["offset"] == pytest.approx(
        expected.chosen["calibration"]["offset"], rel=1e-3
    )
    assert found.validation["folds"] == "random"


def test_what_cannot_be_learned_from_sums_is_refused_in_a_sentence(digits):
    X, y, seen, *_ = digits
    stats = gather(batches_of(X, y))
    for call in (
        lambda: SSEClassifier().fit_statistics(stats, seen),
        SSEClassifier().gather_options,
    ):
        with pytest.raises(DataError, match="SSEClassifier learns from rows, not from their sums"):
            call()
    with pytest.raises(DataError, match="'auto' needs statistics with class folds"):
        HGKTClassifier().fit_statistics(stats, seen)
    with pytest.raises(DataError, match="selection needs statistics with class folds"):
        ClassFoldSearch(HGKTClassifier()).fit_statistics(stats, seen)
    with pytest.raises(DataError, match="feature maps 'sqrt\\+l2'; 'none' is needed"):
        RidgeClassMeanClassifier().fit_statistics(stats, seen)
    few = {name: row for name, row in seen.items() if name != "eight"}
    with pytest.raises(DataError, match="class 'eight' has no attributes"):
        HGKTClassifier().fit_statistics(stats, few)
    bare = gather(batches_of(X, y), classes=seen, sample=0)
    with pytest.raises(DataError, match="no rows to validate on"):
        HGKTClassifier().fit_statistics(bare, seen)
    one = gather([(X[:5], ["zero"] * 5)])
    with pytest.raises(DataError, match="of one class only"):
        HGKTClassifier(calibration=0.0).fit_statistics(one, seen)


def test_without_attributes_it_is_a_plain_classifier(digits):
    X, y, *_, tests = digits
    stats = gather(batches_of(X, y))
    found = HGKTClassifier().fit_statistics(stats)
    np.testing.assert_array_equal(found.predict(tests), HGKTClassifier().fit(X, y).predict(tests))
