"""The election of a mixture against the same election written out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hgkt import HGKTClassifier
from hgkt.calibration import Calibration
from hgkt.calibration.curve import ValidationRows
from hgkt.closed_form import MetricTerm, Mixture
from hgkt.closed_form.family import NORM_POWERS, MixtureFamily, single_setting
from hgkt.closed_form.grid import FoldScorer, GridData
from hgkt.data import load_dataset
from hgkt.evaluation import ClassFoldSearch, gzsl_metrics, split_fold
from hgkt.evaluation.election import ElectionFold, elect_mixture

METRICS = (
    MetricTerm("sqrt+l2", 0.3),
    MetricTerm("l2", 0.9),
    MetricTerm("sqrt+l2", 0.9),
    MetricTerm("l2", 0.3),
    MetricTerm(0.25, 0.5),
)


def make_folds(n_classes: int = 24, n_folds: int = 2) -> list[ElectionFold]:
    rng = np.random.default_rng(8)
    attributes = rng.random((n_classes, 6))
    means = np.abs(attributes @ rng.normal(size=(6, 10))) + 0.3 * rng.random((n_classes, 10))
    folds = []
    for k in range(n_folds):
        order = rng.permutation(n_classes)
        seen, new = np.sort(order[:-4]), np.sort(order[-4:])
        codes = np.repeat(np.arange(len(seen)), 6)
        X = np.abs(means[seen][codes] + 0.6 * rng.normal(size=(len(codes), 10)))
        y_seen, y_new = np.repeat(seen, 2), np.repeat(new, 5)
        truth = np.concatenate([y_seen, y_new])
        X_eval = np.abs(means[truth] + (0.6 + k) * rng.normal(size=(len(truth), 10)))
        rows = ValidationRows(y_seen, y_new, np.concatenate([seen, new]), len(seen))
        data = GridData(X, codes, attributes[seen], attributes[new], X_eval)
        folds.append(ElectionFold(data, rows))
    return folds


def make_family(**changes: Any) -> MixtureFamily:
    family = MixtureFamily(
        Mixture(),
        METRICS,
        ("l2",),
        (("rbf", 0.5), ("rbf", 4.0), ("linear", 1.0)),
        (None,),
        n_votes=(5, 12),
        weighs_attributes=False,
    )
    return replace(family, **changes)


def values_of(members: list[Mixture], folds: list[ElectionFold], value: Any) -> np.ndarray:
    scorers = [FoldScorer(fold.data, METRICS, Mixture()) for fold in folds]
    return np.array(
        [
            [value(fold.rows.curve(s.scores(m))) for s, fold in zip(scorers, folds, strict=True)]
            for m in members
        ]
    )


VALUES = {"area": lambda curve: curve.area, "zsl": lambda curve: curve.zsl}


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("max_metrics", [1, 2, 3])
def test_the_best_metrics_stay_and_the_best_members_vote(kind: str, max_metrics: int) -> None:
    folds, value = make_folds(), VALUES[kind]
    family = make_family(max_metrics=max_metrics)
    election = elect_mixture([family], iter(folds), value)
    # Screening: a metric is worth the mean of its four best members.
    screened = list(family.screening())
    means = values_of(screened, folds, value).mean(axis=1)
    worth = {
        metric: np.mean(
            sorted(m for m, s in zip(means, screened, strict=True) if s.metrics[0] == metric)[-4:]
        )
        for metric in METRICS
    }
    metrics = sorted(METRICS, key=lambda metric: -worth[metric])[:max_metrics]
    # Voting: every member in those metrics.
    voters = list(family.voters(metrics, 20, 6))
    assert [member for member, _ in election.members] == voters
    found = values_of(voters, folds, value)
    np.testing.assert_allclose([values for _, values in election.members], 100 * found)
    order = sorted(range(len(voters)), key=lambda index: -found[index].mean())
    elected = [family.elect([voters[i] for i in order[:n]]) for n in (5, 12)]
    assert len(election.mixtures) == 2 * len(NORM_POWERS)
    for index, candidate in enumerate(election.mixtures):
        one = elected[index // len(NORM_POWERS)]
        assert candidate.mixture.norm_power == NORM_POWERS[index % len(NORM_POWERS)]
        assert candidate.mixture.kernels == one.kernels
        assert candidate.mixture.ridges == one.ridges
        names = [(term.feature_map, term.shrinkage) for term in candidate.mixture.metrics]
        assert names == [(term.feature_map, term.shrinkage) for term in one.metrics]
        check_balance(candidate.mixture, one, folds)
        expected = values_of([candidate.mixture], folds, value)[0]
        np.testing.assert_allclose([value(curve) for curve in candidate.curves], expected)


def check_balance(mixture: Mixture, elected: Mixture, folds: list[ElectionFold]) -> None:
    """A metric counts by its votes, its scores brought to one deviation over seen rows."""
    if len(mixture.metrics) == 1:
        assert mixture.metrics[0].weight == 1.0
        return
    scorers = [FoldScorer(fold.data, METRICS, Mixture()) for fold in folds]
    votes = np.array([term.weight for term in elected.metrics])
    for term, share in zip(mixture.metrics, votes / votes.sum(), strict=True):
        deviations = [
            scorer.metric_scores(mixture, term)[: fold.rows.n_seen_rows].std()
            for scorer, fold in zip(scorers, folds, strict=True)
        ]
        assert term.weight == pytest.approx(share / np.mean(deviations), rel=1e-5)


def test_all_vote_where_classes_are_few() -> None:
    folds = make_folds(n_classes=16)
    election = elect_mixture([make_family()], folds)
    assert len(election.mixtures) == len(NORM_POWERS)
    elected = make_family().elect([member for member, _ in election.members])
    assert set(election.mixtures[0].mixture.kernels) == set(elected.kernels)
    assert set(election.mixtures[0].mixture.ridges) == set(elected.ridges)
    # AUSUC is what is maximised unless told.
    members = [member for member, _ in election.members]
    found = values_of(members, folds, VALUES["area"])
    np.testing.assert_allclose([values for _, values in election.members], 100 * found)


def test_relevance_stands_where_the_smallest_fold_allows_it() -> None:
    family = make_family(weighs_attributes=True)
    large = elect_mixture([family], make_folds(n_classes=24))
    small = elect_mixture([family], make_folds(n_classes=23))  # 19 train classes: one too few
    assert {member.kernels[0].relevance for member, _ in large.members} == {False, True}
    assert {member.kernels[0].relevance for member, _ in small.members} == {False}


def test_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Members are scored on as many threads as products would have."""
    family, folds = make_family(weighs_attributes=True), make_folds()
    found = []
    for n_threads in (1, 3):
        pools = [{"num_threads": n_threads}]
        monkeypatch.setattr("hgkt.evaluation.election.threadpool_info", lambda pools=pools: pools)
        found.append(elect_mixture([family, make_family(base=Mixture(metric="euclidean"))], folds))
    assert found[0].members == found[1].members
    for one, other in zip(found[0].mixtures, found[1].mixtures, strict=True):
        assert one.mixture == other.mixture
        for left, right in zip(one.curves, other.curves, strict=True):
            np.testing.assert_array_equal(left.gammas, right.gammas)


def test_progress_tells_of_every_twentieth_setting_and_of_the_last() -> None:
    heard: list[Any] = []
    family, folds = make_family(max_metrics=1), make_folds()
    election = elect_mixture([family], folds, progress=lambda *call: heard.append(call))
    total = 2 * (len(list(family.screening())) + len(election.members))
    assert [call[:3] for call in heard] == [
        ("select", done, total) for done in (*range(20, total, 20), total)
    ]
    last = election.members[-1][1][-1]
    assert heard[-1][3] == {"ausuc": pytest.approx(last)}


# ------------------------------------------------------------------ in a search
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
def test_a_search_elects_by_its_metric(toy, metric: str, calibrate: bool, name: str) -> None:
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


def test_a_search_with_stages_elects_nothing(toy) -> None:
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
