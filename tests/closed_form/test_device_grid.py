"""Selection on a torch device against selection by NumPy; here on the CPU that torch has, too."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.folds import matrix_fold

from hgkt import HGKTClassifier
from hgkt.calibration.curve import ValidationRows
from hgkt.closed_form import Ensemble, KernelSettings, grid
from hgkt.closed_form.ensemble import MemberPool
from hgkt.closed_form.grid import FoldScorer
from hgkt.data import load_dataset
from hgkt.evaluation import ClassFoldSearch

torch = pytest.importorskip("torch")

METRICS = (("sqrt+l2", 0.3), ("l2", "oas"), (0.25, 0.0))


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


def members(metric="cosine", shared=False, relevance=False):
    """Members of each kind: observed or not, powers, priors, ridges."""
    kernels = (KernelSettings("rbf", 0.5, "l2"), KernelSettings("linear", 1.0, "l2"))
    pool = MemberPool(
        Ensemble(metric=metric),
        METRICS,
        kernels,
        ridges=(0.001, 0.03, 1.0),
        powers=(1.0, 1.3) if metric == "cosine" else (1.0,),
        priors=(0.0, 0.6) if shared else (0.0,),
    )
    return [v for m in pool.members(METRICS) for v in pool.variants(m, relevance)]


def described(fold):
    """The same fold with descriptions in the space of the ten features."""
    rng = np.random.default_rng(9)
    means = np.stack([fold.training.X[fold.training.codes == c].mean(axis=0) for c in range(20)])
    texts = means + 0.3 * rng.normal(size=means.shape)
    return replace(fold, attributes=texts, new_attributes=rng.random((4, 10)))


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_areas_equal_those_of_the_curves(fold, metric, shared, monkeypatch):
    monkeypatch.setattr(grid, "_DEVICE_NUMBERS", 3000)  # rows in several parts
    data, base = described(fold) if shared else fold, Ensemble(shared_space=shared, metric=metric)
    plain = FoldScorer(data, METRICS, base, "float64")
    there = FoldScorer(data, METRICS, base, "float64", "cpu")
    asked = members(metric, shared)
    alone = [replace(base, members=(member,)) for member in asked]
    expected = [data.rows.curve(plain.scores(one)).area for one in alone]
    np.testing.assert_allclose(there.areas(asked, data.rows, metric), expected, atol=1e-12)
    assert len({round(value, 6) for value in expected}) > 20
    # In whatever order they come.
    order = np.random.default_rng(1).permutation(len(asked))
    found = there.areas([asked[i] for i in order], data.rows, metric)
    np.testing.assert_allclose(found, np.array(expected)[order], atol=1e-12)


def test_areas_with_relevance_are_nearly_those_of_the_curves(fold):
    plain, there = (FoldScorer(fold, METRICS, Ensemble(), "float64", d) for d in (None, "cpu"))
    asked = [member for member in members(relevance=True) if member.relevance][::5]
    expected = [fold.rows.curve(plain.scores(Ensemble((member,)))).area for member in asked]
    np.testing.assert_allclose(there.areas(asked, fold.rows, "cosine"), expected, atol=1e-9)


@pytest.mark.parametrize("shared", [False, True])
def test_scores_of_ensembles_equal_those_of_numpy(fold, shared):
    data = described(fold) if shared else fold
    chosen = members(shared=shared, relevance=True)[::7]
    mixed = Ensemble(
        tuple(replace(m, weight=1.0 + i % 3) for i, m in enumerate(chosen)),
        zero_shot=2.0 if shared else 0.0,
        shared_space=shared,
    )
    assert {m.metric_key for m in chosen} == set(METRICS)
    assert {(m.observed, m.relevance) for m in chosen} == {
        (o, r) for o in (False, True) for r in (False, True)
    }
    for precision, tolerance in (("float64", 1e-10), ("float32", 1e-4)):
        plain = FoldScorer(data, METRICS, mixed, precision)
        there = FoldScorer(data, METRICS, mixed, precision, "cpu")
        expected = plain.scores(mixed)
        atol = tolerance * max(1.0, np.abs(expected).max())
        np.testing.assert_allclose(there.scores(mixed), expected, rtol=tolerance, atol=atol)


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
