"""Statistics that are updated, merged and saved, against sums over all rows."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hgkt._arrays import map_rows
from hgkt.exceptions import DataError
from hgkt.statistics import GatheredStatistics
from hgkt.statistics.gathered import FoldSums, quota

FOLDS = [(["b", "c", "d"], ["a"]), (["a", "b"], ["c", "d"])]
MAPS = ("sqrt+l2", "none")


def make(seed=0, n=60, n_features=5, names="abcd"):
    rng = np.random.default_rng(seed)
    X = rng.normal(1.0, 2.0, (n, n_features))
    return X, rng.choice(list(names), n)


def gathered(X, y, **options):
    return GatheredStatistics(MAPS, FOLDS, squares=True, **options).update(X, y)


def by_loop(X, y, feature_map, classes):
    rows = map_rows(X, feature_map)
    parts = [rows[y == name] for name in classes]
    return (
        np.array([len(part) for part in parts]),
        np.array([part.sum(axis=0) for part in parts]),
        sum((part.T @ part for part in parts), np.zeros((X.shape[1],) * 2)),
        np.array([(part**2).sum(axis=0) for part in parts]),
    )


def check(sums, X, y, classes):
    assert sums.classes.tolist() == list(classes)
    for feature_map in MAPS:
        found = sums.of(feature_map)
        own = (found.counts, found.sums, found.second_moment, sums.squares_of(feature_map))
        for value, expected in zip(own, by_loop(X, y, feature_map, classes), strict=True):
            np.testing.assert_allclose(value, expected, rtol=1e-10, atol=1e-10)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_any_order_of_updates_and_merges_gives_the_sums_of_all_rows(data):
    seed = data.draw(st.integers(0, 10))
    X, y = make(seed, n=data.draw(st.integers(1, 40)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(y)), max_size=5)))
    edges = [0, *cuts, len(y)]
    parts = [slice(a, b) for a, b in pairwise(edges)]
    pieces = [gathered(X[part], y[part]) for part in data.draw(st.permutations(parts))]
    while len(pieces) > 1:
        left = pieces.pop(data.draw(st.integers(0, len(pieces) - 1)))
        target = data.draw(st.integers(0, len(pieces) - 1))
        if data.draw(st.booleans()):
            pieces[target].merge(left)
        else:
            pieces[target] = left.merge(pieces[target])
    whole = pieces[0]
    check(whole, X, y, sorted(set(y)))
    kept, labels = whole.rows()
    rows = {(*row, name) for row, name in zip(kept.tolist(), labels.tolist(), strict=True)}
    assert rows == {(*row, name) for row, name in zip(X.tolist(), y.tolist(), strict=True)}


def test_the_sums_of_a_fold_are_those_of_its_training_rows():
    X, y = make(n=80)
    whole = gathered(X, y)
    assert whole.folds == FOLDS
    held = np.flatnonzero(np.isin(y, ["a", "b"]))[::4]
    fold = FoldSums(whole, 1, X[held], y[held])
    rows = np.setdiff1d(np.flatnonzero(np.isin(y, ["a", "b"])), held)
    check(fold, X[rows], y[rows], "ab")


def test_saved_statistics_come_back_to_the_bit(tmp_path):
    X, y = make(n=50)
    whole = gathered(X.astype(np.float32), y, sample=20)
    again = GatheredStatistics.load(whole.save(tmp_path / "sums.safetensors"))
    assert again.dtype == np.float32
    assert again.folds == whole.folds
    for feature_map in MAPS:
        left, right = whole.of(feature_map), again.of(feature_map)
        assert (left.sums == right.sums).all()
        assert (left.second_moment == right.second_moment).all()
        assert (whole.squares_of(feature_map) == again.squares_of(feature_map)).all()
    for left, right in zip(whole.rows(), again.rows(), strict=True):
        assert (left == right).all()
    # They go on as if they had never been away.
    more, labels = make(seed=1)
    check(again.update(more, labels), np.concatenate([X.astype(np.float32), more]),
          np.concatenate([y, labels]), "abcd")  # fmt: skip


def test_labels_may_be_whole_numbers(tmp_path):
    X, _ = make(n=6)
    whole = GatheredStatistics(["none"]).update(X, [3, 10, 3, 2, 2, 10])
    again = GatheredStatistics.load(whole.save(tmp_path / "sums"))
    assert again.classes.tolist() == [2, 3, 10]
    assert again.counts.tolist() == [2, 2, 2]
    with pytest.raises(DataError, match="class 'a' is of another kind than class 2"):
        again.update(X, ["a"] * 6)


@pytest.mark.parametrize("n_parts", [1, 3])
def test_the_sample_is_bounded_and_the_same_however_rows_are_merged(n_parts):
    X, y = make(n=400)
    y[:30] = "a"
    batches = [(X[k : k + 50], y[k : k + 50], f"batch {k}") for k in range(0, 400, 50)]
    parts = []
    for chunk in np.array_split(np.arange(8), n_parts):
        part = GatheredStatistics(["none"], sample=40)
        for number in chunk:
            part.update(*batches[number])
        parts.append(part)
    whole = parts[0]
    for part in parts[1:]:
        whole.merge(part)
    rows, labels = whole.rows()
    assert len(labels) == 40
    assert {name: int((labels == name).sum()) for name in "abcd"} == dict.fromkeys("abcd", 10)
    one = GatheredStatistics(["none"], sample=40)
    for batch in batches:
        one.update(*batch)
    np.testing.assert_array_equal(rows, one.rows()[0])
    # Rows come in the order in which they were read.
    order = [np.flatnonzero((row == X).all(axis=1))[0] for row in rows]
    assert order == sorted(order)


def test_every_row_of_a_class_is_as_likely_to_be_kept():
    X = np.arange(50.0)[:, None]
    kept = np.zeros(50)
    for seed in range(300):
        sample = GatheredStatistics(["none"], sample=5, seed=seed).update(X, ["a"] * 50)
        kept[sample.rows()[0].ravel().astype(int)] += 1
    assert kept.sum() == 1500
    assert kept.min() > 10  # thirty are expected
    assert kept.max() < 60


@given(st.lists(st.integers(1, 50), min_size=1, max_size=8), st.integers(0, 200))
def test_the_quota_is_the_largest_that_fits(counts, limit):
    found, counts = quota(np.array(counts), limit), np.array(counts)
    assert 2 <= found <= max(2, counts.max())
    if found > 2:
        assert np.minimum(counts, found).sum() <= limit
    if found < counts.max():
        assert np.minimum(counts, found + 1).sum() > limit


@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        ({"feature_maps": ["none"]}, "with feature_maps"),
        ({"folds": [FOLDS[0], (["a", "b", "d"], ["c"])]}, "class 'd' is held out in other"),
        ({"folds": FOLDS[:1]}, "with number of folds 2 and 1"),
        ({"width": 4}, "of 5 and of 4 features"),
    ],
)
def test_statistics_of_other_kinds_are_not_merged(other, sentence):
    X, y = make()
    whole = GatheredStatistics(MAPS, FOLDS).update(X, y)
    options = {"feature_maps": MAPS, "folds": FOLDS, **other}
    rows = X[:, : options.pop("width", 5)]
    with pytest.raises(DataError, match=sentence):
        whole.merge(GatheredStatistics(**options).update(rows, y))
    check_unchanged = GatheredStatistics(MAPS, FOLDS).update(X, y).of("none")
    assert (whole.of("none").sums == check_unchanged.sums).all()


def test_what_cannot_be_summed_is_refused_in_a_sentence():
    X, y = make(n=4)
    stats = GatheredStatistics(["none"]).update(X, y)
    with pytest.raises(DataError, match="rows have 4 features; those before have 5"):
        stats.update(X[:, :4], y)
    with pytest.raises(DataError, match="labels of shape"):
        stats.update(X, y[:3])
    X[2, 1] = np.nan
    with pytest.raises(DataError, match="NaN in row 2"):
        stats.update(X, y)
    with pytest.raises(DataError, match="feature maps 'none'; 'l2' is needed"):
        stats.of("l2")
    with pytest.raises(DataError, match="gather with squares=True"):
        stats.squares_of("none")


def test_a_damaged_file_of_statistics_is_refused(tmp_path):
    path = gathered(*make()).save(tmp_path / "sums")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DataError, match="sums cannot be read as statistics"):
        GatheredStatistics.load(path)
