"""Groups of unknown rows, and which rows to label next."""

from __future__ import annotations

import numpy as np
import pytest

from hgkt.baselines.ridge import RidgeClassMeanClassifier
from hgkt.data import load_dataset
from hgkt.estimators import HGKTClassifier
from hgkt.exceptions import DataError
from hgkt.unknown import find_groups, suggest


@pytest.fixture(scope="module")
def digits():
    return load_dataset("digits")


@pytest.fixture(scope="module")
def model(digits):
    X, y = digits.rows("train")
    return HGKTClassifier(device="cpu").fit(X, y, digits.attributes_of(digits.seen_classes))


def test_each_group_is_of_one_class_and_says_what_it_is_near_to(model, digits):
    X, y = digits.rows("test_unseen")
    groups = find_groups(model, X, n_neighbours=2)
    sizes = [group.size for group in groups]
    assert sizes == sorted(sizes, reverse=True)
    everything = np.concatenate([group.rows for group in groups])
    assert len(everything) == len(set(everything.tolist()))
    for group in groups[:2]:
        assert len(np.unique(y[group.rows])) == 1
        assert 0.0 < group.sureness <= 1.0
        assert [near.label in model.classes_ for near in group.neighbours] == [True, True]
        assert group.neighbours[0].probability >= group.neighbours[1].probability


def test_the_example_of_a_group_is_its_medoid(model, digits):
    X, _ = digits.rows("test_unseen")
    group = find_groups(model, X)[0]
    rows = model.in_metric(X[group.rows])
    distances = np.linalg.norm(rows[:, None] - rows[None], axis=2).mean(axis=1)
    # The metric's leading directions stand for all of it.
    assert distances[0] <= np.quantile(distances, 0.1)


def test_a_pure_group_is_surer_than_a_mixed_one(model):
    rng = np.random.default_rng(0)
    middles = rng.uniform(0, 16, (2, 64))
    close = np.abs(middles[0] + 0.3 * rng.normal(size=(30, 64)))
    wide = np.abs(middles[1] + 2.5 * rng.normal(size=(30, 64)))
    found = {
        min(g.rows) // 30: g.sureness for g in find_groups(model, np.concatenate([close, wide]))
    }
    assert found[0] > found.get(1, 0.0)


@pytest.mark.parametrize("n", [1, 4])
def test_few_rows_have_no_groups(model, digits, n):
    X, _ = digits.rows("test_unseen")
    assert find_groups(model, X[:n]) == []


def test_equal_rows_are_a_group_or_none_and_no_error(model, digits):
    X, _ = digits.rows("test_unseen")
    groups = find_groups(model, np.repeat(X[:1], 12, axis=0))
    assert sum(group.size for group in groups) in (0, 12)


def test_any_method_finds_groups(digits):
    X, y = digits.rows("train")
    model = RidgeClassMeanClassifier().fit(X, y, digits.attributes_of(digits.seen_classes))
    X_new, y_new = digits.rows("test_unseen")
    np.testing.assert_array_equal(model.in_metric(X_new), X_new)
    assert len(np.unique(y_new[find_groups(model, X_new)[0].rows])) == 1


def test_suggestions_are_different_rows_that_are_in_doubt(model, digits):
    X, _ = digits.rows("test_unseen")
    found = suggest(model, X, 30)
    rows = [one.row for one in found]
    assert len(set(rows)) == 30
    worth = [one.worth for one in found]
    assert worth == sorted(worth, reverse=True)
    chances = model.answers(X).probabilities
    ordered = np.sort(chances, axis=1)
    margins = ordered[:, -1] - ordered[:, -2]
    assert margins[rows].mean() < margins.mean()
    assert found[0].label == model.classes_[chances[rows[0]].argmax()]


def test_a_row_and_its_copies_are_asked_for_once(model, digits):
    X, _ = digits.rows("test_unseen")
    first = suggest(model, X, 1)[0].row
    copies = np.concatenate([X[[first]], X[[first]], X[:40]])
    chosen = [one.row for one in suggest(model, copies, 10)]
    assert {0, 1} - set(chosen)
    assert sorted(one.row for one in suggest(model, copies, 100)) == list(range(42))


@pytest.mark.parametrize(("call", "word"), [(find_groups, "min_size"), (suggest, "n must")])
def test_wrong_numbers_are_refused(model, digits, call, word):
    X, _ = digits.rows("test_unseen")
    with pytest.raises(DataError, match=word):
        call(model, X, 0)


def test_rows_that_nothing_splits_are_one_group(model):
    rng = np.random.default_rng(0)
    rows = np.abs(rng.uniform(0, 16, 64) + 0.2 * rng.normal(size=(8, 64)))
    (group,) = find_groups(model, rows)
    assert 5 <= group.size <= 8
