"""Selection on class folds against the same search written out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from hgkt.calibration import Calibration
from hgkt.data import make_synthetic
from hgkt.estimators import HGKTClassifier
from hgkt.evaluation import ClassFoldSearch, class_folds, gzsl_metrics, split_fold
from hgkt.exceptions import DataError


def training_data(toy):
    X, y = toy.rows("train")
    return X, y, toy.attributes_of(toy.seen_classes)


def fold_metrics(estimator, X, y, table, train, val, seed, gamma=0.0):
    rows = split_fold(y, train, val, 0.2, seed)
    model = clone(estimator).fit(X[rows.fit], y[rows.fit], {name: table[name] for name in train})
    model.add_classes({name: table[name] for name in val})
    columns = model.candidates()
    return gzsl_metrics(
        model.score_classes(X[rows.val_seen], penalty=False)[:, columns],
        y[rows.val_seen],
        model.score_classes(X[rows.val_unseen], penalty=False)[:, columns],
        y[rows.val_unseen],
        model.classes_[columns],
        len(train),
        calibration=gamma,
    )


@pytest.mark.parametrize("metric", ["ausuc", "H", "zsl"])
def test_search_scores_every_setting_as_by_hand(toy, ridge, metric):
    X, y, table = training_data(toy)
    stages = [{"alpha": [1e3, 0.01, 1.0], "scale": [1.0, 2.0]}]
    search = ClassFoldSearch(ridge(), stages, metric=metric, calibrate=False, random_state=4)
    search.fit(X, y, table)
    folds = class_folds(np.unique(y), 3, random_state=4)
    assert search.folds_ == folds
    means = []
    for result in search.cv_results_:
        by_hand = [
            getattr(fold_metrics(ridge(**result.params), X, y, table, *fold, [4, k]), metric)
            for k, fold in enumerate(folds)
        ]
        assert result.values == pytest.approx(by_hand)
        means.append(np.mean(by_hand))
    assert len(means) == 6
    assert search.best_params_ == search.cv_results_[int(np.argmax(np.round(means, 9)))].params
    assert search.best_score_ == pytest.approx(max(means))


def test_search_takes_the_first_of_equal_settings(toy, ridge):
    # AUSUC does not change with the scale of scores (powers of two: not even by rounding).
    X, y, table = training_data(toy)
    search = ClassFoldSearch(ridge(), [{"scale": [4.0, 1.0, 2.0]}]).fit(X, y, table)
    assert search.best_params_ == {"scale": 4.0}


def test_search_fixes_earlier_stages(toy, ridge):
    X, y, table = training_data(toy)
    stages = [{"alpha": [1e4, 0.01]}, {"scale": [2.0, 1.0]}]
    search = ClassFoldSearch(ridge(), stages).fit(X, y, table)
    assert search.best_params_ == {"alpha": 0.01, "scale": 2.0}
    assert [r.params for r in search.cv_results_] == [
        {"alpha": 1e4},
        {"alpha": 0.01},
        {"alpha": 0.01, "scale": 2.0},
        {"alpha": 0.01, "scale": 1.0},
    ]
    frame = search.results_frame()
    assert frame["stage"].tolist() == [0, 0, 1, 1]
    assert frame["mean"].tolist() == [r.mean for r in search.cv_results_]
    assert frame[["fold_0", "fold_1", "fold_2"]].mean(axis=1).tolist() == pytest.approx(
        frame["mean"].tolist()
    )


def test_search_uses_the_methods_own_stages_and_refits_on_everything(toy, ridge):
    X, y, table = training_data(toy)
    search = ClassFoldSearch(ridge()).fit(X, y, table)
    assert set(search.best_params_) == {"alpha"}
    assert len(search.cv_results_) == 3
    expected = ridge(**search.best_params_, calibration=search.calibration_).fit(X, y, table)
    assert np.array_equal(search.score_classes(X), expected.score_classes(X))
    assert search.seen_classes_.tolist() == np.unique(y).tolist()
    assert type(search.best_estimator_) is ridge


def test_search_calibration_maximises_mean_validation_h(toy, ridge):
    X, y, table = training_data(toy)
    search = ClassFoldSearch(ridge(), stages=[]).fit(X, y, table)

    def mean_h(gamma):
        return np.mean(
            [
                fold_metrics(ridge(), X, y, table, *fold, [0, k], gamma=gamma).H
                for k, fold in enumerate(search.folds_)
            ]
        )

    gamma = search.calibration_.gamma(9, 3)
    assert gamma > 0  # scores of classes learned from instances are too high
    grid = np.linspace(-20, 40, 61)
    # The law speaks for other numbers of classes too, so it may lose a little on these.
    assert mean_h(gamma) >= max(mean_h(gamma) for gamma in grid) - 5
    assert min(mean_h(-20), mean_h(40)) < mean_h(gamma) - 5


def test_search_calibrates_every_method(toy, ridge):
    X, y, table = training_data(toy)
    search = ClassFoldSearch(ridge(), stages=[]).fit(X, y, table)  # "auto"
    assert type(search.best_estimator_) is ridge
    assert search.best_estimator_.calibration_ == search.calibration_
    gamma = search.calibration_.gamma(len(table), 1)  # before any class is added, that for one
    assert gamma == search.gamma_ != 0.0
    raw, shifted = search.score_classes(X, penalty=False), search.score_classes(X)
    assert np.array_equal(raw - gamma, shifted)  # all classes are seen here


def test_search_auto_leaves_a_calibration_set_by_hand_alone(toy, ridge):
    X, y, table = training_data(toy)
    by_hand = ridge(calibration=3.0)
    search = ClassFoldSearch(by_hand, stages=[]).fit(X, y, table)
    assert search.best_estimator_.calibration == 3.0
    assert search.calibration_ not in (Calibration(3.0), Calibration())
    forced = ClassFoldSearch(by_hand, stages=[], calibrate=True).fit(X, y, table)
    assert forced.best_estimator_.calibration_ == search.calibration_


def test_search_h_is_taken_at_the_calibration_in_force(toy, ridge):
    X, y, table = training_data(toy)
    fixed = ClassFoldSearch(ridge(calibration=5.0), [], metric="H", calibrate=False).fit(
        X, y, table
    )
    by_hand = [
        fold_metrics(ridge(), X, y, table, *fold, [0, k], gamma=5.0).H
        for k, fold in enumerate(fixed.folds_)
    ]
    assert fixed.cv_results_[0].values == pytest.approx(by_hand)
    free = ClassFoldSearch(ridge(), [], metric="H", calibrate=True).fit(X, y, table)
    assert free.best_score_ >= fixed.best_score_


def test_search_takes_given_folds(toy, ridge):
    X, y, table = training_data(toy)
    names = np.unique(y).tolist()
    folds = [(names[:8], names[8:]), (names[4:], names[:4])]
    search = ClassFoldSearch(ridge(), stages=[]).fit(X, y, table, folds=folds)
    assert search.folds_ == folds
    assert len(search.cv_results_[0].values) == 2


def test_search_calls_the_grid_hook_once_a_fold(toy, ridge, monkeypatch):
    calls = []

    class Shared(ridge):
        def score_grid(self, grid, *args, **kwargs):
            calls.append(len(grid))
            # Any order is allowed.
            yield from reversed(list(super().score_grid(grid, *args, **kwargs)))

    X, y, table = training_data(toy)
    search = ClassFoldSearch(Shared(), [{"alpha": [1e3, 0.01, 1.0]}]).fit(X, y, table)
    plain = ClassFoldSearch(ridge(), [{"alpha": [1e3, 0.01, 1.0]}]).fit(X, y, table)
    assert calls == [3, 3, 3]  # what the winner was chosen by calibrates it
    assert [r.values for r in search.cv_results_] == [r.values for r in plain.cv_results_]
    monkeypatch.setattr("hgkt.evaluation.selection._MAX_SCORES", 0)
    again = ClassFoldSearch(Shared(), [{"alpha": [1e3, 0.01, 1.0]}]).fit(X, y, table)
    assert calls[3:] == [3, 3, 3]  # where scores are too many to keep, the winner is fitted again
    assert again.calibration_ == search.calibration_


def test_search_reports_progress(toy, ridge):
    X, y, table = training_data(toy)
    seen = []
    ClassFoldSearch(ridge(), metric="ausuc", progress=lambda *args: seen.append(args)).fit(
        X, y, table
    )
    assert [(stage, done, total) for stage, done, total, _ in seen] == [
        ("select", done, 9) for done in range(1, 10)
    ]
    assert all(set(values) == {"ausuc", "H"} for *_, values in seen)


def test_search_leaves_the_given_estimator_alone_and_adds_classes(toy, ridge):
    X, y, table = training_data(toy)
    estimator = ridge(alpha=7.0)
    search = ClassFoldSearch(estimator, calibrate=True).fit(X, y, table)
    assert estimator.alpha == 7.0
    assert not hasattr(estimator, "seen_classes_")
    search.add_classes(toy.attributes_of(toy.unseen_classes))
    X_new, _ = toy.rows("test_unseen")
    assert set(search.predict(X_new, among="unseen")) <= set(search.unseen_classes_)
    assert search.decision_function(X_new).shape == (len(X_new), 16)
    assert search.remove_classes(search.unseen_classes_[:1]).classes_.shape == (15,)
    assert not hasattr(clone(search), "best_estimator_")


def test_search_answers_as_the_model_it_found(toy):
    X, y, table = training_data(toy)
    search = ClassFoldSearch(HGKTClassifier(), [{"ridge": [0.03]}], calibrate=True)
    with pytest.raises(NotFittedError):
        search.predict(X)
    assert not hasattr(search, "explain_class")
    search.fit(np.abs(X), y, {name: np.abs(row) for name, row in table.items()})
    model = search.best_estimator_
    name = str(model.classes_[0])
    assert search.explain_class(name) == model.explain_class(name)
    assert search.n_features_in_ == 8
    search.partial_fit(np.abs(X[:2]), y[:2])
    assert model._transfer.counts.sum() == len(X) + 2


def test_search_works_with_integer_labels(toy, ridge):
    X, y, table = training_data(toy)
    numbers = {name: number for number, name in enumerate(sorted(table))}
    search = ClassFoldSearch(ridge()).fit(
        X, [numbers[name] for name in y], {numbers[name]: v for name, v in table.items()}
    )
    assert search.best_params_ == ClassFoldSearch(ridge()).fit(X, y, table).best_params_


def test_search_refuses_what_it_cannot_use(toy, ridge):
    X, y, table = training_data(toy)
    with pytest.raises(DataError, match="no parameter 'beta'; choose from: alpha"):
        ClassFoldSearch(ridge(), [{"beta": [1]}]).fit(X, y, table)
    with pytest.raises(DataError, match="metric must be one of"):
        ClassFoldSearch(ridge(), metric="accuracy").fit(X, y, table)
    with pytest.raises(DataError, match="needs class_attributes"):
        ClassFoldSearch(ridge()).fit(X, y)
    with pytest.raises(DataError, match="calibrate must be"):
        ClassFoldSearch(ridge(), calibrate="yes").fit(X, y, table)
    rows = [int(np.flatnonzero(y == name)[0]) for name in np.unique(y)]
    with pytest.raises(DataError, match="one image only"):
        ClassFoldSearch(ridge()).fit(X[rows], y[rows], table)


def test_search_ignores_the_order_of_the_attribute_table(toy, ridge):
    X, y, table = training_data(toy)
    backwards = dict(reversed(table.items()))
    first = ClassFoldSearch(ridge()).fit(X, y, table)
    second = ClassFoldSearch(ridge()).fit(X, y, backwards)
    assert first.cv_results_ == second.cv_results_


@pytest.mark.parametrize("calibrate", ["auto", True, False])
def test_search_maximises_ausuc_whatever_becomes_of_the_calibration(toy, ridge, calibrate):
    X, y, table = training_data(toy)
    search = ClassFoldSearch(ridge(), calibrate=calibrate).fit(X, y, table)
    assert search.metric_ == "ausuc"
    assert ClassFoldSearch(ridge(), metric="ausuc").fit(X, y, table).best_score_ == (
        search.best_score_
    )


def best_mean_over_classes(model, parts):
    """The highest mean accuracy over all classes of any γ, each tried."""
    columns = model.candidates()
    scores = np.concatenate([model.score_classes(X, penalty=False) for X, _ in parts])[:, columns]
    truth = np.concatenate([y for _, y in parts])
    n_seen = len(model.seen_classes_)
    gaps = np.unique(scores[:, :n_seen].max(axis=1) - scores[:, n_seen:].max(axis=1))
    best = 0.0
    for gamma in [gaps[0] - 1.0, *(gaps[1:] + gaps[:-1]) / 2.0, gaps[-1] + 1.0]:
        found = (scores - gamma * (np.arange(len(columns)) < n_seen)).argmax(axis=1)
        right = model.classes_[columns][found] == truth
        best = max(best, np.mean([right[truth == name].mean() for name in np.unique(truth)]))
    return best


def test_search_maximises_the_mean_over_classes_where_gamma_favours_it(ridge):
    data = make_synthetic(280, 6, n_seen=24, n_unseen=4, noise=2.0)
    X, y, table = training_data(data)
    stages = [{"alpha": [0.01, 1.0, 100.0]}]
    search = ClassFoldSearch(ridge(), stages, favour="classes").fit(X, y, table)
    assert search.metric_ == "favoured"
    by_hand = []
    for number, (train, val) in enumerate(search.folds_):
        rows = split_fold(y, train, val, 0.2, [0, number])
        model = ridge(**search.best_params_)
        model.fit(X[rows.fit], y[rows.fit], {name: table[name] for name in train})
        model.add_classes({name: table[name] for name in val})
        parts = [(X[part], y[part]) for part in (rows.val_seen, rows.val_unseen)]
        by_hand.append(100 * best_mean_over_classes(model, parts))
    assert search.best_score_ == pytest.approx(np.mean(by_hand))
    assert search.best_score_ == max(result.mean for result in search.cv_results_)
    for otherwise in ({"favour": "balanced"}, {"favour": "classes", "calibrate": False}):
        assert ClassFoldSearch(ridge(), stages, **otherwise).fit(X, y, table).metric_ == "ausuc"


def test_search_takes_the_first_of_the_folds_given(toy, ridge):
    X, y, table = training_data(toy)
    folds = ClassFoldSearch(ridge(), stages=[]).fit(X, y, table).folds_
    search = ClassFoldSearch(ridge(), stages=[], n_folds=1).fit(X, y, table, folds=folds)
    assert search.folds_ == folds[:1]


def test_search_does_not_score_a_setting_twice(toy, ridge):
    X, y, table = training_data(toy)
    calls = []
    stages = [{"scale": [1.0, 2.0]}, {"scale": [1.0, 2.0, 4.0]}]
    search = ClassFoldSearch(ridge(), stages, progress=lambda *args: calls.append(args))
    search.fit(X, y, table)
    scored = [call for call in calls if call[0].startswith("select")]
    assert len(scored) == (2 + 1) * len(search.folds_)
    assert [result.stage for result in search.cv_results_] == [0, 0, 1, 1, 1]
