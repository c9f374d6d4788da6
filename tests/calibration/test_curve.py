"""The exact seen–unseen curve against a slow twin that tries every calibration."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import recall_score

from hgkt.calibration.curve import best_calibration
from hgkt.evaluation import seen_unseen_curve
from hgkt.exceptions import DataError

CLASSES, N_SEEN = np.arange(10), 6


def random_case(seed, step=None, n=120):
    rng = np.random.default_rng(seed)
    y_seen, y_unseen = rng.integers(0, N_SEEN, n), rng.integers(N_SEEN, 10, n)
    scores = rng.normal(size=(2 * n, 10))
    scores[np.arange(2 * n), np.concatenate([y_seen, y_unseen])] += 1.2
    scores[:, :N_SEEN] += 0.8
    if step is not None:  # many exact ties; multiples of a power of two subtract without rounding
        scores = np.round(scores / step) * step
    return scores[:n], y_seen, scores[n:], y_unseen, CLASSES, N_SEEN


def slow_point(case, gamma):
    """Accuracies at one γ, unseen winning where s − γ ties."""
    s_seen, y_seen, s_unseen, y_unseen, _, n_seen = case

    def accuracy(scores, truth):
        shifted = scores - np.where(np.arange(10) < n_seen, gamma, 0.0)
        flipped = np.concatenate([shifted[:, n_seen:], shifted[:, :n_seen]], axis=1)
        predicted = np.concatenate([np.arange(n_seen, 10), np.arange(n_seen)])[flipped.argmax(1)]
        return recall_score(truth, predicted, labels=np.unique(truth), average="macro")

    return accuracy(s_seen, y_seen), accuracy(s_unseen, y_unseen)


@pytest.mark.parametrize("step", [None, 0.125, 1.0])
def test_seen_unseen_curve_equals_slow_twin_at_every_change(step):
    case = random_case(0, step, n=40)
    curve = seen_unseen_curve(*case)
    tiny = 1e-9  # on each side of a change, away from the rounding of s − γ
    for gamma in np.concatenate([curve.gammas[1:] - tiny, curve.gammas[1:] + tiny]):
        assert np.array(curve.at(gamma)) == pytest.approx(np.array(slow_point(case, gamma)))


@pytest.mark.parametrize("step", [None, 0.125, 1.0])
def test_seen_unseen_curve_area_equals_dense_grid(step):
    case = random_case(1, step)
    curve = seen_unseen_curve(*case)
    # The grid visits every interval between distinct gaps, so its trapezoids are the exact ones.
    gaps = np.concatenate([s[:, :6].max(1) - s[:, 6:].max(1) for s in (case[0], case[2])])
    edges = np.unique(gaps)
    middles = np.concatenate([[edges[0] - 1], (edges[1:] + edges[:-1]) / 2, [edges[-1] + 1]])
    points = np.array([slow_point(case, gamma) for gamma in middles])
    area = np.sum((points[1:, 0] + points[:-1, 0]) / 2 * np.diff(points[:, 1]))
    assert curve.area == pytest.approx(area, abs=1e-12)
    h = 2 * points[:, 0] * points[:, 1] / np.maximum(points.sum(axis=1), 1e-12)
    assert curve.best()[0] == pytest.approx(h.max())
    assert curve.zsl == pytest.approx(points[-1, 1])


def test_seen_unseen_curve_flips_ties_together():
    # One seen and one unseen image change at the same γ: a single slanted segment, area 1/2.
    curve = seen_unseen_curve([[1.0, 0.0]], [0], [[1.0, 0.0]], [1], [0, 1], 1)
    assert curve.gammas.tolist() == [-np.inf, 1.0]
    assert curve.area == 0.5
    assert curve.best()[0] == 0.0


def test_seen_unseen_curve_starts_and_ends_exactly():
    case = random_case(2)
    curve = seen_unseen_curve(*case)
    seen_only = recall_score(case[1], case[0][:, :N_SEEN].argmax(axis=1), average="macro")
    assert curve.unseen[0] == 0.0
    assert curve.seen[-1] == 0.0
    assert curve.seen[0] == pytest.approx(seen_only)
    assert (np.diff(curve.seen) <= 0).all()
    assert (np.diff(curve.unseen) >= 0).all()


def test_seen_unseen_curve_area_is_invariant_to_shift_and_scale():
    s_seen, y_seen, s_unseen, y_unseen, classes, n = random_case(3)
    area = seen_unseen_curve(s_seen, y_seen, s_unseen, y_unseen, classes, n).area
    for a, b in [(1.0, 17.0), (3.5, 0.0), (0.01, -2.0)]:
        other = seen_unseen_curve(a * s_seen + b, y_seen, a * s_unseen + b, y_unseen, classes, n)
        assert other.area == pytest.approx(area)
    column = np.where(np.arange(10) < n, 5.0, 0.0)  # a calibration moves along the curve
    moved = seen_unseen_curve(s_seen - column, y_seen, s_unseen - column, y_unseen, classes, n)
    assert moved.area == pytest.approx(area)


def test_best_calibration_is_the_best_of_a_dense_grid_over_folds():
    curves = [seen_unseen_curve(*random_case(seed, n=30)) for seed in range(3)]
    gamma, values = best_calibration(curves)
    grid = np.linspace(-6, 6, 20001)
    h = np.zeros(len(grid))
    for curve in curves:
        seen, unseen = curve.at(grid)
        h += 2 * seen * unseen / np.maximum(seen + unseen, 1e-12) / 3
    assert np.mean(values) >= h.max() - 1e-12
    assert np.mean(values) == pytest.approx(h.max(), abs=2e-3)
    # The middle of a plateau: small moves to either side change nothing.
    for step in (-1e-7, 1e-7):
        moved = [harmonic(*curve.at(gamma + step)) for curve in curves]
        assert moved == pytest.approx(values.tolist())


def harmonic(a, b):
    return 2 * float(a) * float(b) / (float(a) + float(b))


def test_best_calibration_is_zero_where_nothing_helps():
    curve = seen_unseen_curve([[0.0, 1.0, 0.0]], [0], [[0.0, 1.0, 0.0]], [2], [0, 1, 2], 2)
    gamma, values = best_calibration([curve])
    assert gamma == 0.0
    assert values.tolist() == [0.0]


def test_seen_unseen_curve_refuses_nan():
    with pytest.raises(DataError, match="NaN"):
        seen_unseen_curve([[np.nan, 0.0]], [0], [[1.0, 0.0]], [1], [0, 1], 1)


@pytest.mark.parametrize(
    ("gaps", "expected"),
    [
        ((1.0, 5.0, 6.0, 7.0), 3.0),  # the first plateau is the wider one
        ((1.0, 2.0, 3.0, 7.0), 5.0),  # the last one is
    ],
)
def test_best_calibration_is_the_middle_of_the_widest_of_equal_plateaus(gaps, expected):
    # An unseen image is won, a seen one lost, the other unseen one won, the other seen one lost:
    # the accuracies are (1, ½), (½, ½), (½, 1), so H has two plateaus of the same height.
    won, lost, won_too, lost_too = gaps
    seen = [[lost, -9.0, 0.0, -9.0], [-9.0, lost_too, 0.0, -9.0]]
    unseen = [[won, -9.0, 0.0, -9.0], [won_too, -9.0, -9.0, 0.0]]
    curve = seen_unseen_curve(seen, [0, 1], unseen, [2, 3], [0, 1, 2, 3], 2)
    assert curve.harmonic.tolist() == pytest.approx([0, 2 / 3, 1 / 2, 2 / 3, 0])
    gamma, values = best_calibration([curve])
    assert gamma == pytest.approx(expected)
    assert values == pytest.approx([2 / 3])
    assert curve.best() == (pytest.approx(2 / 3), pytest.approx(expected))
