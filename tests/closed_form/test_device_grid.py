"""Selection on a torch device against selection by NumPy; here on the CPU that torch has, too."""

from __future__ import annotations

import numpy as np
import pytest
from tests.folds import matrix_fold

from hgkt import HGKTClassifier
from hgkt.calibration.curve import ValidationRows
from hgkt.closed_form import grid
from hgkt.closed_form.family import MixtureFamily
from hgkt.closed_form.grid import FoldScorer
from hgkt.closed_form.mixture import MetricTerm, Mixture
from hgkt.data import load_dataset
from hgkt.evaluation import ClassFoldSearch

torch = pytest.importorskip("torch")

METRICS = (MetricTerm("sqrt+l2", 0.3), MetricTerm("l2", "oas"), MetricTerm(0.25, 0.0))


@pytest.fixture(scope="module")
def fold():
    rng = np.random.default_rng(8)
    attributes = rng.random((24, 6))
    means = np.abs(attributes @ rng.normal(size=(6, 10))) + 0.3 * rng.random((24, 10))
    codes = np.repeat(np.arange(20), rng.integers(2, 9, 20))
    X = np.abs(means[codes] + 0.6 * rng.normal(size=(len(codes), 10)))
    truth = np.repeat(np.arange(24), 4)
    X_eval = np.abs(means[truth] + 0.6 * rng.normal(size=(len(truth), 10)))
    rows = ValidationRows(truth[truth < 20], truth[truth >= 20], range(24), 20)
    return matrix_fold(X, codes, attributes[:20], attributes[20:], X_eval, rows)


def members(metric="cosine"):
    base = MixtureFamily.of(Mixture(metric=metric))
    small = MixtureFamily(base.base, METRICS, ("l2",), (("rbf", 0.5), ("linear", 1.0)), (None,))
    return list(small.members(METRICS, 20, 6))


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_areas_equal_those_of_the_curves(fold, metric, monkeypatch):
    monkeypatch.setattr(grid, "_DEVICE_NUMBERS", 3000)  # rows in several parts
    data, rows = fold, fold.rows
    plain = FoldScorer(data, METRICS, Mixture(), "float64")
    there = FoldScorer(data, METRICS, Mixture(), "float64", "cpu")
    asked = members(metric)
    expected = [rows.curve(plain.scores(member)).area for member in asked]
    np.testing.assert_allclose(there.areas(asked, rows), expected, atol=1e-12)
    assert len({round(value, 6) for value in expected}) > 20


def test_scores_of_mixtures_equal_those_of_numpy(fold):
    data = fold
    mixed = MixtureFamily.of(Mixture()).mix(members())
    for precision, tolerance in (("float64", 1e-10), ("float32", 1e-4)):
        plain = FoldScorer(data, METRICS, Mixture(), precision)
        there = FoldScorer(data, METRICS, Mixture(), precision, "cpu")
        for first in METRICS[::-1]:
            plain.learn_relevance_from(first)
            there.learn_relevance_from(first)
            np.testing.assert_allclose(
                there.scores(mixed), plain.scores(mixed), rtol=tolerance, atol=tolerance
            )


def test_rows_that_change_at_the_same_calibration_count_half():
    rows = ValidationRows(["a", "a", "b"], ["c", "d"], ["a", "b", "c", "d"], 2)
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 3, size=(40, 5, 4)).astype(float)
    areas = grid._Areas(rows, "cpu")
    found = areas([areas.tops(torch.tensor(scores))], 1.0)
    np.testing.assert_allclose(found, [rows.curve(part).area for part in scores], atol=1e-12)


def test_a_search_on_a_device_chooses_what_numpy_chooses(monkeypatch):
    digits = load_dataset("digits")
    X, y = digits.rows("train")
    attributes = digits.attributes_of(digits.seen_classes)
    found = []
    for device in (None, "cpu"):
        if device:
            monkeypatch.setattr(grid, "fitting_device", lambda name: "cpu")
        search = ClassFoldSearch(HGKTClassifier(device="cpu"), n_folds=2).fit(X, y, attributes)
        found.append(search)
    assert found[0].best_score_ == pytest.approx(found[1].best_score_, abs=0.1)
    values = [[result.mean for result in search.cv_results_] for search in found]
    np.testing.assert_allclose(values[0], values[1], atol=0.3)
