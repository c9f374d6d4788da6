"""Class folds and their rows."""

from __future__ import annotations

import numpy as np
import pytest

from hgkt.evaluation import class_folds, split_fold
from hgkt.exceptions import DataError


def test_class_folds_are_disjoint_and_complete():
    classes = [f"c{i}" for i in range(40)]
    folds = class_folds(classes, n_folds=3)
    for train, val in folds:
        assert len(val) == 10
        assert not set(train) & set(val)
        assert set(train) | set(val) == set(classes)
    chosen = [name for _, val in folds for name in val]
    assert len(set(chosen)) == 30  # enough classes: no class validates twice


def test_class_folds_go_round_where_classes_are_few():
    folds = class_folds(range(4), n_folds=5)
    assert all(len(train) == 2 and len(val) == 2 for train, val in folds)
    assert set(np.concatenate([val for _, val in folds])) == {0, 1, 2, 3}


def test_class_folds_ignore_the_order_of_classes_but_not_the_seed():
    names = list("abcdefghij")
    assert class_folds(names) == class_folds(names[::-1])
    assert class_folds(names) != class_folds(names, random_state=1)


@pytest.mark.parametrize(("share", "n_val"), [(0.2, 4), (1 / 3, 7), (0.01, 2), (1.0, 18)])
def test_class_folds_share_sets_the_number_of_validation_classes(share, n_val):
    assert {len(val) for _, val in class_folds(range(20), share=share)} == {n_val}


def test_class_folds_refuse_too_few_classes():
    assert [len(val) for _, val in class_folds("abc", n_folds=1)] == [1]
    with pytest.raises(DataError, match="at least three"):
        class_folds("ab")


def test_split_fold_divides_rows_by_class():
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat([f"c{i}" for i in range(8)], 20))
    train, val = ["c0", "c1", "c2", "c3", "c4"], ["c5", "c6"]
    rows = split_fold(y, train, val)
    assert set(y[rows.val_unseen]) == set(val)
    assert len(rows.val_unseen) == 40
    together = np.sort(np.concatenate([rows.fit, rows.val_seen]))
    assert together.tolist() == np.flatnonzero(np.isin(y, train)).tolist()  # c7 is left out
    for name in train:
        assert np.sum(y[rows.val_seen] == name) == 4


def test_split_fold_leaves_small_classes_to_fit():
    y = ["one", "two", "two", "three", "three", "three", "new"]
    rows = split_fold(y, ["one", "two", "three"], ["new"])
    labels = np.array(y)
    assert sorted(labels[rows.fit].tolist()) == ["one", "three", "three", "two"]
    assert sorted(labels[rows.val_seen].tolist()) == ["three", "two"]
    nearly_all = split_fold(y, ["one", "two", "three"], ["new"], holdout=1.0)
    assert set(labels[nearly_all.fit]) == {"one", "two", "three"}


def test_split_fold_depends_on_the_seed_only():
    y = np.repeat(np.arange(6), 10)
    first = split_fold(y, [0, 1, 2], [3, 4], random_state=5)
    again = split_fold(y, [2, 1, 0], [4, 3], random_state=5)
    other = split_fold(y, [0, 1, 2], [3, 4], random_state=6)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first.val_seen, other.val_seen)


def test_split_fold_refuses_overlap_and_unknown_classes():
    with pytest.raises(DataError, match="'a' is both"):
        split_fold(["a", "b", "c"], ["a", "b"], ["a"])
    with pytest.raises(DataError, match="'z', which has no instance"):
        split_fold(["a", "b", "c"], ["a", "b"], ["z"])


@pytest.mark.parametrize("holdout", [0.1, 0.25, 0.5, 0.9])
def test_split_fold_holds_out_the_share_it_is_told(holdout):
    y = np.repeat(["a", "b", "new"], [20, 40, 10])
    rows = split_fold(y, ["a", "b"], ["new"], holdout=holdout)
    assert [np.sum(y[rows.val_seen] == name) for name in "ab"] == [20 * holdout, 40 * holdout]
    assert len(rows.fit) == 60 - len(rows.val_seen)


@pytest.mark.parametrize("holdout", [0.0, -0.1, 1.5])
def test_split_fold_refuses_a_share_that_is_none(holdout):
    with pytest.raises(DataError, match=r"^holdout must be"):
        split_fold(["a", "a", "b"], ["a"], ["b"], holdout=holdout)


@pytest.mark.parametrize("n_folds", [0, -1, 1.5, None])
def test_class_folds_refuse_a_number_of_folds_that_is_none(n_folds):
    with pytest.raises(DataError, match=r"^n_folds must be"):
        class_folds("abcdef", n_folds=n_folds)
