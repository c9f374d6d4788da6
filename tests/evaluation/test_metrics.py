"""Metrics against scikit-learn and brute force."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score, recall_score, top_k_accuracy_score

from hgkt.evaluation import (
    class_accuracies,
    gzsl_metrics,
    harmonic_mean,
    per_class_accuracy,
    top_k_accuracy,
)
from hgkt.exceptions import DataError

CLASSES = np.array(["ant", "bee", "cat", "dog", "eel", "fox", "gnu"])
N_SEEN = 4


def random_case(seed, step=None):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(90, 7))
    y_seen = rng.choice(CLASSES[:N_SEEN], size=50, p=[0.6, 0.2, 0.1, 0.1])
    y_unseen = rng.choice(CLASSES[N_SEEN:], size=40, p=[0.7, 0.2, 0.1])
    truth = np.concatenate([y_seen, y_unseen])
    scores[np.arange(90), np.searchsorted(CLASSES, truth)] += 1.0
    scores[:, :N_SEEN] += 0.7
    if step is not None:
        scores = np.round(scores / step) * step  # many exact ties, also between the groups
    return scores[:50], y_seen, scores[50:], y_unseen


@pytest.mark.parametrize("seed", range(5))
def test_per_class_accuracy_equals_balanced_accuracy(seed):
    rng = np.random.default_rng(seed)
    truth, predicted = rng.integers(0, 6, 80), rng.integers(0, 6, 80)
    assert per_class_accuracy(truth, predicted) == pytest.approx(
        balanced_accuracy_score(truth, predicted)
    )


def test_per_class_accuracy_ignores_classes_that_are_only_predicted():
    truth, predicted = ["a", "a", "b"], ["z", "a", "y"]
    expected = recall_score(truth, predicted, labels=["a", "b"], average="macro", zero_division=0)
    assert per_class_accuracy(truth, predicted) == expected == 0.25


def test_per_class_accuracy_refuses_lengths_that_differ():
    with pytest.raises(DataError, match="one length"):
        per_class_accuracy([1, 2], [1])


@pytest.mark.parametrize("k", [1, 2, 5, 7])
def test_top_k_accuracy_equals_weighted_sklearn(k):
    scores, y, _, _ = random_case(1)
    counts = {name: np.sum(y == name) for name in CLASSES}
    weights = [1 / counts[name] for name in y]
    expected = (
        top_k_accuracy_score(y, scores, k=k, labels=CLASSES, sample_weight=weights) if k < 7 else 1
    )
    assert top_k_accuracy(scores, y, CLASSES, k) == pytest.approx(expected)


def test_top_k_accuracy_ranks_the_earlier_column_first_on_ties():
    scores = np.zeros((2, 3))
    assert top_k_accuracy(scores, ["a", "b"], ["a", "b", "c"], k=1) == 0.5
    assert top_k_accuracy(scores, ["a", "b"], ["a", "b", "c"], k=2) == 1.0


@pytest.mark.parametrize("step", [None, 0.25])
@pytest.mark.parametrize("gamma", [0.0, 0.75, -0.5, 100.0])
def test_gzsl_metrics_equals_brute_force(gamma, step):
    s_seen, y_seen, s_unseen, y_unseen = random_case(3, step)
    result = gzsl_metrics(s_seen, y_seen, s_unseen, y_unseen, CLASSES, N_SEEN, calibration=gamma)
    shift = np.where(np.arange(7) < N_SEEN, gamma, 0.0)
    p_seen = CLASSES[(s_seen - shift).argmax(axis=1)]
    p_unseen = CLASSES[(s_unseen - shift).argmax(axis=1)]

    def macro(truth, good):
        return 100 * np.mean([good[truth == name].mean() for name in np.unique(truth)])

    tr, ts = macro(y_seen, p_seen == y_seen), macro(y_unseen, p_unseen == y_unseen)
    zsl = macro(y_unseen, CLASSES[N_SEEN:][s_unseen[:, N_SEEN:].argmax(axis=1)] == y_unseen)
    assert result.tr == pytest.approx(tr)
    assert result.ts == pytest.approx(ts)
    assert pytest.approx(2 * tr * ts / (tr + ts) if tr + ts else 0.0) == result.H
    assert result.zsl == pytest.approx(zsl)
    assert result.seen_as_unseen == pytest.approx(macro(y_seen, np.isin(p_seen, CLASSES[N_SEEN:])))
    assert result.unseen_as_seen == pytest.approx(
        macro(y_unseen, np.isin(p_unseen, CLASSES[:N_SEEN]))
    )
    assert result.top5_tr == pytest.approx(100 * top_k_accuracy(s_seen - shift, y_seen, CLASSES))
    assert result.H_star + 1e-9 >= result.H
    assert result.top5_ts >= result.ts


def test_gzsl_metrics_of_a_perfect_model_are_all_hundred():
    s_seen, s_unseen = np.eye(7)[:4] * 9, np.eye(7)[4:] * 9
    result = gzsl_metrics(s_seen, CLASSES[:4], s_unseen, CLASSES[4:], CLASSES, N_SEEN)
    assert result.to_dict() == {
        **dict.fromkeys(["ts", "tr", "H", "zsl", "ausuc", "H_star", "top5_ts", "top5_tr"], 100.0),
        "seen_as_unseen": 0.0,
        "unseen_as_seen": 0.0,
    }
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.H = 1.0


def test_gzsl_metrics_refuses_a_label_of_the_other_group():
    scores = np.zeros((1, 7))
    with pytest.raises(DataError, match="'fox' is among the seen images"):
        gzsl_metrics(scores, ["fox"], scores, ["fox"], CLASSES, N_SEEN)
    with pytest.raises(DataError, match=r"'yak' \(row 0\)"):
        gzsl_metrics(scores, ["yak"], scores, ["fox"], CLASSES, N_SEEN)


def test_gzsl_metrics_refuses_nan_empty_and_wrong_shapes():
    scores = np.zeros((1, 7))
    with pytest.raises(DataError, match="NaN"):
        gzsl_metrics(np.full((1, 7), np.nan), ["ant"], scores, ["fox"], CLASSES, N_SEEN)
    with pytest.raises(DataError, match="no images of seen classes"):
        gzsl_metrics(scores[:0], CLASSES[:0], scores, ["fox"], CLASSES, N_SEEN)
    with pytest.raises(DataError, match=r"\(n, 7\) is expected"):
        gzsl_metrics(scores[:, :3], ["ant"], scores, ["fox"], CLASSES, N_SEEN)
    with pytest.raises(DataError, match="n_seen is 7"):
        gzsl_metrics(scores, ["ant"], scores, ["fox"], CLASSES, 7)


def test_harmonic_mean_of_zeros_is_zero():
    assert harmonic_mean(0.0, 0.0) == 0.0
    assert harmonic_mean(30.0, 60.0) == pytest.approx(40.0)


@pytest.mark.parametrize("gamma", [0.0, 0.75, -0.5, 100.0])
def test_gzsl_metrics_counts_the_five_best_of_both_groups_after_calibration(gamma):
    s_seen, y_seen, s_unseen, y_unseen = random_case(4)
    result = gzsl_metrics(s_seen, y_seen, s_unseen, y_unseen, CLASSES, N_SEEN, calibration=gamma)
    shift = np.where(np.arange(7) < N_SEEN, gamma, 0.0)
    for value, scores, truth in [
        (result.top5_tr, s_seen, y_seen),
        (result.top5_ts, s_unseen, y_unseen),
    ]:
        order = CLASSES[np.argsort(-(scores - shift), axis=1)]
        good = (order[:, :5] == truth[:, None]).any(axis=1)
        by_class = [good[truth == name].mean() for name in np.unique(truth)]
        assert value == pytest.approx(100 * np.mean(by_class))


def test_gzsl_metrics_top_five_tells_the_fifth_from_the_sixth_and_from_the_first():
    # The unseen classes eel, fox, gnu rank fifth, sixth and last behind the four seen ones.
    scores = np.tile(-np.arange(7.0), (3, 1))
    arguments = scores[:1], CLASSES[:1], scores, CLASSES[N_SEEN:], CLASSES, N_SEEN
    assert gzsl_metrics(*arguments).ts == 0.0
    assert gzsl_metrics(*arguments).top5_ts == pytest.approx(100 / 3)
    assert gzsl_metrics(*arguments, calibration=2.5).top5_ts == pytest.approx(200 / 3)
    assert gzsl_metrics(*arguments, calibration=2.5).top5_tr == 100.0
    assert gzsl_metrics(*arguments, calibration=9.0).top5_ts == 100.0


def test_class_accuracies_are_what_the_metrics_are_means_of():
    rng = np.random.default_rng(0)
    classes, n_seen = list("abcdefg"), 4
    y_seen, y_unseen = rng.choice(list("abcd"), 80), rng.choice(list("efg"), 60)
    data = (rng.normal(size=(80, 7)), y_seen, rng.normal(size=(60, 7)), y_unseen, classes, n_seen)
    found = class_accuracies(*data, calibration=0.7)
    for gamma, suffix in ((0.7, ""), (0.0, "_uncalibrated")):
        metrics = gzsl_metrics(*data, calibration=gamma)
        assert np.mean(getattr(found, f"ts{suffix}")) == pytest.approx(metrics.ts)
        assert np.mean(getattr(found, f"tr{suffix}")) == pytest.approx(metrics.tr)
        assert np.mean(found.zsl) == pytest.approx(metrics.zsl)
    among = np.array(classes[n_seen:])[data[2][:, n_seen:].argmax(axis=1)]
    assert found.zsl[1] == pytest.approx(100 * np.mean(among[y_unseen == "f"] == "f"))
