"""The choice of a mixture against the same choice written out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.folds import matrix_fold

from hgkt.calibration import Fold
from hgkt.calibration.curve import ValidationRows
from hgkt.closed_form import MetricTerm, Mixture
from hgkt.closed_form.family import NORM_POWERS, MixtureFamily, choose_mixture
from hgkt.closed_form.grid import FoldScorer

METRICS = (
    MetricTerm("sqrt+l2", 0.3),
    MetricTerm("l2", 0.9),
    MetricTerm("sqrt+l2", 0.9),
    MetricTerm("l2", 0.3),
    MetricTerm(0.25, 0.5),
)


def make_folds(n_classes: int = 24, n_folds: int = 2) -> list[Fold]:
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
        folds.append(matrix_fold(X, codes, attributes[seen], attributes[new], X_eval, rows))
    return folds


def make_family(**changes: Any) -> MixtureFamily:
    family = MixtureFamily(
        Mixture(),
        METRICS,
        ("l2",),
        (("rbf", 0.5), ("rbf", 4.0), ("linear", 1.0)),
        (None,),
        n_members=(5, 12),
        weighs_attributes=False,
    )
    return replace(family, **changes)


def values_of(members: list[Mixture], folds: list[Fold], value: Any) -> np.ndarray:
    scorers = [FoldScorer(fold, METRICS, Mixture()) for fold in folds]
    return np.array(
        [
            [value(f.rows.curve(s.scores(m))) for s, f in zip(scorers, folds, strict=True)]
            for m in members
        ]
    )


VALUES = {"area": lambda curve: curve.area, "zsl": lambda curve: curve.zsl}


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("max_metrics", [1, 2, 3])
def test_the_best_metrics_stay_and_the_best_members_are_mixed(kind: str, max_metrics: int) -> None:
    folds, value = make_folds(), VALUES[kind]
    family = make_family(max_metrics=max_metrics)
    choice = choose_mixture([family], iter(folds), value)
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
    # Then every member in those metrics.
    members = list(family.members(metrics, 20, 6))
    assert [member for member, _ in choice.members] == members
    found = values_of(members, folds, value)
    np.testing.assert_allclose([values for _, values in choice.members], 100 * found)
    order = sorted(range(len(members)), key=lambda index: -found[index].mean())
    mixed = [family.mix([members[i] for i in order[:n]]) for n in (5, 12)]
    assert len(choice.mixtures) == 2 * len(NORM_POWERS)
    for index, candidate in enumerate(choice.mixtures):
        one = mixed[index // len(NORM_POWERS)]
        assert candidate.mixture.norm_power == NORM_POWERS[index % len(NORM_POWERS)]
        assert candidate.mixture.kernels == one.kernels
        assert candidate.mixture.ridges == one.ridges
        names = [(term.feature_map, term.shrinkage) for term in candidate.mixture.metrics]
        assert names == [(term.feature_map, term.shrinkage) for term in one.metrics]
        check_balance(candidate.mixture, one, folds)
        expected = values_of([candidate.mixture], folds, value)[0]
        np.testing.assert_allclose([value(curve) for curve in candidate.curves], expected)


def check_balance(mixture: Mixture, mixed: Mixture, folds: list[Fold]) -> None:
    """A metric counts by its counts, its scores brought to one deviation over seen rows."""
    if len(mixture.metrics) == 1:
        assert mixture.metrics[0].weight == 1.0
        return
    scorers = [FoldScorer(fold, METRICS, Mixture()) for fold in folds]
    counts = np.array([term.weight for term in mixed.metrics])
    for term, share in zip(mixture.metrics, counts / counts.sum(), strict=True):
        deviations = [
            scorer.metric_scores(mixture, term)[: fold.rows.n_seen_rows].std()
            for scorer, fold in zip(scorers, folds, strict=True)
        ]
        assert term.weight == pytest.approx(share / np.mean(deviations), rel=1e-5)


def test_all_are_mixed_where_classes_are_few() -> None:
    folds = make_folds(n_classes=16)
    choice = choose_mixture([make_family()], folds)
    assert len(choice.mixtures) == len(NORM_POWERS)
    mixed = make_family().mix([member for member, _ in choice.members])
    assert set(choice.mixtures[0].mixture.kernels) == set(mixed.kernels)
    assert set(choice.mixtures[0].mixture.ridges) == set(mixed.ridges)
    # AUSUC is what is maximised unless told.
    members = [member for member, _ in choice.members]
    found = values_of(members, folds, VALUES["area"])
    np.testing.assert_allclose([values for _, values in choice.members], 100 * found)


def test_relevance_is_tried_where_the_smallest_fold_allows_it() -> None:
    family = make_family(weighs_attributes=True)
    large = choose_mixture([family], make_folds(n_classes=24))
    small = choose_mixture([family], make_folds(n_classes=23))  # 19 train classes: one too few
    assert {member.kernels[0].relevance for member, _ in large.members} == {False, True}
    assert {member.kernels[0].relevance for member, _ in small.members} == {False}


def test_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Members are scored on as many threads as products would have."""
    family, folds = make_family(weighs_attributes=True), make_folds()
    found = []
    for n_threads in (1, 3):
        pools = [{"num_threads": n_threads}]
        monkeypatch.setattr("hgkt.closed_form.family.threadpool_info", lambda pools=pools: pools)
        found.append(choose_mixture([family, make_family(base=Mixture(metric="euclidean"))], folds))
    assert found[0].members == found[1].members
    for one, other in zip(found[0].mixtures, found[1].mixtures, strict=True):
        assert one.mixture == other.mixture
        for left, right in zip(one.curves, other.curves, strict=True):
            np.testing.assert_array_equal(left.gammas, right.gammas)


def test_progress_tells_of_every_twentieth_setting_and_of_the_last() -> None:
    heard: list[Any] = []
    family, folds = make_family(max_metrics=1), make_folds()
    choice = choose_mixture([family], folds, progress=lambda *call: heard.append(call))
    total = 2 * (len(list(family.screening())) + len(choice.members))
    assert [call[:3] for call in heard] == [
        ("select", done, total) for done in (*range(20, total, 20), total)
    ]
    last = choice.members[-1][1][-1]
    assert heard[-1][3] == {"ausuc": pytest.approx(last)}
