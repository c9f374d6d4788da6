"""What an evaluation tells while it runs and after: progress, the tested model, versions."""

from __future__ import annotations

import sys
import types
from importlib.metadata import PackageNotFoundError
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from hgkt import HGKTClassifier, HGKTNetworkClassifier
from hgkt.evaluation import ClassFoldSearch, SeenUnseenCurve, evaluate, gzsl_metrics, records


def test_search_reports_the_figures_of_each_setting_and_fold(toy) -> None:
    X, y = toy.rows("train")
    heard: list[Any] = []
    search = ClassFoldSearch(
        HGKTClassifier(),
        stages=[{"ridge": [0.01, 1.0]}, {"shrinkage": [0.2, 0.5]}],
        n_folds=2,
        metric="zsl",
        calibrate=False,
        progress=lambda *call: heard.append(call),
    ).fit(X, y, toy.attributes_of(toy.seen_classes))
    calls = [call for call in heard if call[0].startswith("select")]
    assert [call[:3] for call in calls[:4]] == [("select 1/2", done, 4) for done in range(1, 5)]
    assert {call[0] for call in calls[4:]} == {"select 2/2"}
    first = search.cv_results_[:2]
    told = sorted(call[3]["zsl"] for call in calls[:4])
    assert told == pytest.approx(sorted(value for result in first for value in result.values))
    mean_h = np.mean([call[3]["H"] for call in calls[:4]])
    assert mean_h == pytest.approx(np.mean([result.H for result in first]))
    assert all(set(call[3]) == {"zsl", "H"} for call in calls)


def test_search_reports_the_best_h_where_it_calibrates(toy) -> None:
    X, y = toy.rows("train")
    heard: list[Any] = []
    search = ClassFoldSearch(
        HGKTClassifier(), stages=[], n_folds=1, metric="ausuc", calibrate=True,
        progress=lambda *call: heard.append(call),
    )  # fmt: skip
    search.fit(X, y, toy.attributes_of(toy.seen_classes))
    told = next(call[3] for call in heard if call[0] == "select")
    assert told["H"] == pytest.approx(search.cv_results_[0].H)  # one fold: its own best
    assert told["ausuc"] == pytest.approx(search.best_score_)


def test_search_passes_on_the_training_of_each_fold(toy) -> None:
    X, y = toy.rows("train")
    heard: list[Any] = []
    network = HGKTNetworkClassifier(n_hidden=4, n_steps=3, random_state=0, device="cpu")
    search = ClassFoldSearch(
        network, stages=[], n_folds=2, calibrate=False, progress=lambda *call: heard.append(call)
    )
    search.fit(np.abs(X), y, toy.attributes_of(toy.seen_classes))
    trained = [call for call in heard if call[0] == "fold 2 train"]
    assert [call[1:3] for call in trained] == [(3, 3)]
    assert set(trained[0][3]) == {"loss"}
    assert ("fold 1 representatives", 9, 9, {}) in heard
    assert heard[-1][0] == "train"  # the final fit


def test_results_are_a_table_with_a_column_for_everything(toy) -> None:
    X, y = toy.rows("train")
    search = ClassFoldSearch(HGKTClassifier(), stages=[{"norm_power": [0.5, 1.0]}], n_folds=2)
    frame = search.fit(X, y, toy.attributes_of(toy.seen_classes)).results_frame()
    columns = ["stage", "norm_power", "mean", "fold_0", "fold_1", "calibration", "H", "zsl"]
    assert frame.columns.tolist() == columns
    for row, result in zip(frame.to_dict("records"), search.cv_results_, strict=True):
        assert row["norm_power"] == result.params["norm_power"]
        assert (row["mean"], row["H"]) == (result.mean, result.H)
        assert row["calibration"] == result.calibration
        assert (row["fold_0"], row["fold_1"]) == result.values


def test_a_search_predicts_once_it_is_fitted(toy) -> None:
    X, y = toy.rows("train")
    search = ClassFoldSearch(HGKTClassifier(), stages=[], n_folds=1)
    with pytest.raises(NotFittedError):
        search.predict(X)
    search.fit(X, y, toy.attributes_of(toy.seen_classes))
    search.add_classes(toy.attributes_of(toy.unseen_classes))
    for among in ("all", "seen", "unseen"):
        expected = search.best_estimator_.predict(X, among)
        assert search.predict(X, among).tolist() == expected.tolist()
    assert search.predict(X).tolist() == search.predict(X, "all").tolist()


def test_evaluate_listens_to_the_search_or_to_the_caller(toy) -> None:
    own: list[Any] = []
    search = ClassFoldSearch(
        HGKTClassifier(), stages=[], n_folds=1, progress=lambda *call: own.append(call)
    )
    evaluate(search, toy)
    assert own
    mine: list[Any] = []
    before = len(own)
    evaluate(search, toy, progress=lambda *call: mine.append(call))
    assert mine
    assert len(own) == before


def test_evaluate_hands_on_the_model_it_tested_and_its_curve(toy) -> None:
    seen: list[Any] = []
    record = evaluate(
        HGKTClassifier(calibration=0.05),
        toy,
        on_test=lambda model, curve: seen.append((model, curve)),
    )
    [(model, curve)] = seen
    assert model.calibration == 0.05
    assert model.classes_.tolist() == sorted(toy.class_names)
    assert 100 * curve.area == pytest.approx(record.metrics.ausuc)
    assert 100 * curve.zsl == pytest.approx(record.metrics.zsl)
    (X_seen, y_seen), (X_unseen, y_unseen) = toy.rows("test_seen"), toy.rows("test_unseen")
    scores = [model.score_classes(rows, penalty=False) for rows in (X_seen, X_unseen)]
    expected = gzsl_metrics(
        scores[0], y_seen, scores[1], y_unseen, model.classes_, len(model.seen_classes_), 0.05
    )
    assert record.metrics == expected


def test_a_record_tells_how_its_model_was_chosen(toy) -> None:
    stages = [{"ridge": [0.01, 1.0]}]
    record = evaluate(HGKTClassifier(), toy, stages=stages, calibrate=True, n_folds=2)
    X, y = toy.rows("train")
    search = ClassFoldSearch(HGKTClassifier(), stages, n_folds=2, calibrate=True)
    search.fit(X, y, toy.attributes_of(toy.seen_classes))
    assert record.validation == {
        "metric": "ausuc",
        "score": search.best_score_,
        "calibration": search.calibration_.to_dict(),
        "n_folds": 2,
        "n_settings": 2,
    }
    assert record.selected == {**search.best_params_, "calibration": search.calibration_.to_dict()}
    assert record.method == "hgkt"
    plain = evaluate(HGKTClassifier(), toy, calibrate=False)
    assert (plain.validation, plain.selected, plain.calibrated) == ({}, {}, None)


def test_the_harmonic_mean_of_nothing_is_zero_at_every_point() -> None:
    zeros = np.zeros(40)
    for _ in range(5):
        np.full(40, 7.0)  # leaves memory behind that is not zero
        assert not SeenUnseenCurve(np.arange(40.0), zeros, zeros).harmonic.any()


def test_versions_name_what_is_loaded_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(package: str) -> str:
        raise PackageNotFoundError(package)

    monkeypatch.setattr(records, "version", unknown)
    monkeypatch.setitem(sys.modules, "scipy", types.ModuleType("scipy"))
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    found = records.versions()
    assert found["scipy"] == "unknown"
    assert found["numpy"] == np.__version__
    assert "torch" not in found
    assert list(found)[:2] == ["python", "hgkt"]
