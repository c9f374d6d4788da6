"""A search that chooses an ensemble of closed forms against fits of its settings."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from hgkt import HGKTClassifier, load_model
from hgkt.calibration import Calibration
from hgkt.closed_form.ensemble import N_MEMBERS, single_setting
from hgkt.closed_form.member import Member
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
    ensembles = [result for result in search.cv_results_ if result.stage == 1]
    assert {result.stage for result in search.cv_results_} == {0, 1}
    for result in (*members[:: len(members) // 4], *ensembles):
        [expected] = by_hand(toy, result.params, search.folds_)
        # Scores of single precision may order two rows otherwise than the fit does.
        assert result.values == pytest.approx([getattr(expected, name)], abs=0.2)
        assert result.mean == result.values[0]
    best = max(ensembles, key=lambda result: result.mean)
    assert search.best_params_ == best.params
    assert set(best.params) == {"members", "metric"}
    assert search.best_score_ == best.mean
    assert search.best_estimator_.members == best.params["members"]
    assert search.best_estimator_.metric == best.params["metric"]
    law = search.calibration_ if calibrate else Calibration()
    assert search.best_estimator_.calibration_ == law
    assert np.isnan(members[0].calibration)
    assert np.isnan(members[0].H)
    own = {key: value for key, value in members[0].params.items() if key != "metric"}
    assert members[0].params == single_setting(Member(**own), members[0].params["metric"])


def test_members_are_few_differ_and_were_tried_alone(toy) -> None:
    X, y = toy.rows("train")
    search = ClassFoldSearch(HGKTClassifier(), n_folds=1)
    search.fit(X, y, toy.attributes_of(toy.seen_classes))
    chosen = [dict(member) for member in search.best_params_["members"]]
    weights = [member.pop("weight") for member in chosen]
    assert 1 < len(chosen) <= N_MEMBERS
    assert weights == sorted(weights, reverse=True)
    assert sum(weights) == pytest.approx(1.0)
    metric = search.best_params_["metric"]
    tried = [result for result in search.cv_results_ if result.stage == 0]
    alone = [result.params for result in tried]
    for number, member in enumerate(chosen):
        assert member | {"metric": metric} in alone
        assert member not in chosen[:number]
    assert {result.params["metric"] for result in tried} == {metric}
    assert search.best_score_ > np.mean([result.mean for result in tried])


def test_the_members_of_a_search_fit_the_model_that_it_has(toy, tmp_path) -> None:
    """As parameters of a new classifier, and of one that was saved."""
    X, y = toy.rows("train")
    table = toy.attributes_of(toy.seen_classes)
    search = ClassFoldSearch(HGKTClassifier(), n_folds=1).fit(X, y, table)
    again = HGKTClassifier(**search.best_params_, calibration=0).fit(X, y, table)
    expected = search.score_classes(X, penalty=False)
    np.testing.assert_array_equal(again.score_classes(X), expected)
    loaded = load_model(search.save(tmp_path / "model"))
    np.testing.assert_array_equal(loaded.score_classes(X, penalty=False), expected)
    assert loaded.members == json.loads(json.dumps(search.best_params_["members"]))


def test_a_search_with_stages_chooses_no_members(toy) -> None:
    X, y = toy.rows("train")
    table = toy.attributes_of(toy.seen_classes)
    search = ClassFoldSearch(HGKTClassifier(), stages=[{"ridge": [0.1]}], n_folds=1)
    assert search.fit(X, y, table).best_params_ == {"ridge": 0.1}
    assert search.best_estimator_.members is None


def test_distances_win_where_features_are_few_and_lengths_matter() -> None:
    """Seven segments, eight digits: cosines lose what a length says."""
    data = load_dataset("digits")
    X, y = data.rows("train")
    table = data.attributes_of(data.seen_classes)
    free = ClassFoldSearch(HGKTClassifier()).fit(X, y, table)
    assert free.best_params_["metric"] == free.best_estimator_.metric == "euclidean"
    members = free.best_params_["members"]
    assert len({(member["feature_map"], member["shrinkage"]) for member in members}) == 1
    assert {member["norm_power"] for member in members} == {1.0}
    fixed = ClassFoldSearch(HGKTClassifier(metric="euclidean")).fit(X, y, table)
    assert fixed.best_params_ == free.best_params_


def test_a_relation_that_is_left_out_stays_out() -> None:
    data = load_dataset("digits")
    X, y = data.rows("train")
    search = ClassFoldSearch(HGKTClassifier(intra=False, inter=False), n_folds=1)
    search.fit(X[::3], y[::3], data.attributes_of(data.seen_classes))
    params = [result.params for result in search.cv_results_ if result.stage == 0]
    members = params + search.best_params_["members"]
    assert {member["shrinkage"] for member in members} == {1.0}
    assert {member["kernel"] for member in members} == {"linear"}
