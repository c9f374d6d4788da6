"""A search that mixes closed forms against fits of its settings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hgkt import HGKTClassifier
from hgkt.calibration import Calibration
from hgkt.closed_form import Mixture
from hgkt.closed_form.family import single_setting
from hgkt.data import load_dataset
from hgkt.evaluation import ClassFoldSearch, gzsl_metrics, split_fold


def by_hand(toy: Any, parameters: dict[str, Any], folds: Any) -> list[Any]:
    X, y = toy.rows("train")
    table = toy.attributes_of(toy.seen_classes)
    found = []
    for k, (train, val) in enumerate(folds):
        rows = split_fold(y, train, val, 0.2, [0, k])
        model = HGKTClassifier(**parameters, calibration=0)
        model.fit(X[rows.fit], y[rows.fit], {name: table[name] for name in train})
        model.add_classes({name: table[name] for name in val})
        columns, parts = model.candidates(), (rows.val_seen, rows.val_unseen)
        scores = [model.score_classes(X[part])[:, columns] for part in parts]
        found.append(
            gzsl_metrics(
                scores[0],
                y[rows.val_seen],
                scores[1],
                y[rows.val_unseen],
                model.classes_[columns],
                len(train),
            )
        )
    return found


@pytest.mark.parametrize(
    ("metric", "calibrate", "name"),
    [("auto", True, "ausuc"), ("zsl", True, "zsl"), ("H", True, "H_star"), ("H", False, "H")],
)
def test_a_search_chooses_by_its_metric(toy, metric: str, calibrate: bool, name: str) -> None:
    X, y = toy.rows("train")
    search = ClassFoldSearch(HGKTClassifier(), n_folds=1, metric=metric, calibrate=calibrate)
    search.fit(X, y, toy.attributes_of(toy.seen_classes))
    members = [result for result in search.cv_results_ if result.stage == 0]
    mixtures = [result for result in search.cv_results_ if result.stage == 1]
    for result in (*members[:: len(members) // 4], *mixtures):
        [expected] = by_hand(toy, result.params, search.folds_)
        # Scores of single precision may order two rows otherwise than the fit does.
        assert result.values == pytest.approx([getattr(expected, name)], abs=0.2)
        assert result.mean == result.values[0]
    best = max(mixtures, key=lambda result: result.mean)
    assert search.best_params_ == best.params
    assert set(best.params) == {"mixture", "metric", "norm_power"}
    assert search.best_score_ == best.mean
    assert search.best_estimator_.mixture == best.params["mixture"]
    law = search.calibration_ if calibrate else Calibration()
    assert search.best_estimator_.calibration_ == law
    assert np.isnan(members[0].calibration)
    assert np.isnan(members[0].H)
    assert members[0].params == single_setting(
        Mixture.from_dict(
            {
                "metrics": [{key: members[0].params[key] for key in ("feature_map", "shrinkage")}],
                "kernels": [
                    {
                        key: members[0].params[key]
                        for key in ("kernel", "kernel_scale", "attribute_map", "relevance")
                    }
                ],
                "ridges": [{"ridge": members[0].params["ridge"]}],
            },
            norm_power=members[0].params["norm_power"],
        )
    )


def test_a_search_with_stages_mixes_nothing(toy) -> None:
    X, y = toy.rows("train")
    table = toy.attributes_of(toy.seen_classes)
    search = ClassFoldSearch(HGKTClassifier(), stages=[{"ridge": [0.1]}], n_folds=1)
    assert search.fit(X, y, table).best_params_ == {"ridge": 0.1}
    assert search.best_estimator_.mixture is None


def test_distances_win_where_features_are_few_and_lengths_matter() -> None:
    """Seven segments, eight digits: cosines lose what a length says."""
    data = load_dataset("digits")
    X, y = data.rows("train")
    table = data.attributes_of(data.seen_classes)
    free = ClassFoldSearch(HGKTClassifier()).fit(X, y, table)
    assert free.best_params_["metric"] == free.best_estimator_.metric == "euclidean"
    assert len(free.best_params_["mixture"]["metrics"]) == 1
    assert free.best_params_["norm_power"] == 1.0
    fixed = ClassFoldSearch(HGKTClassifier(metric="euclidean")).fit(X, y, table)
    assert fixed.best_params_ == free.best_params_
