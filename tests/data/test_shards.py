"""Folders of every layout opened as shards: the rows of the whole, in batches."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from hgkt.data import has_shards, load_digits, open_shards, write_tables, write_xlsa17
from hgkt.exceptions import DataError


@pytest.fixture(scope="module")
def digits():
    return load_digits()


@pytest.fixture(scope="module")
def train(digits):
    rows = np.sort(digits.train)
    return digits.features[rows], np.array(digits.class_names)[digits.labels[rows]]


def rows_of(data):
    batches = [batch for shard in data.shards for batch in shard.batches()]
    X, y = zip(*batches, strict=True)
    return np.concatenate(X), np.concatenate(y)


def check(data, train):
    X, y = rows_of(data)
    assert X.dtype == np.float32
    np.testing.assert_array_equal(X, train[0])
    assert y.tolist() == train[1].tolist()
    assert len({shard.name for shard in data.shards}) == len(data.shards)
    assert len({shard.digest() for shard in data.shards}) == len(data.shards)
    names, counts = np.unique(y, return_counts=True)
    assert data.class_counts == dict(zip(names.tolist(), counts.tolist(), strict=True))
    again = pickle.loads(pickle.dumps(data.shards))  # noqa: S301
    assert [shard.digest() for shard in again] == [shard.digest() for shard in data.shards]


def write_classes(digits, folder, **columns):
    frame = pd.DataFrame(digits.class_attributes, columns=digits.attribute_names)
    frame.insert(0, "name", digits.class_names)
    frame.assign(**columns).to_csv(folder / "classes.csv", index=False)


@pytest.mark.parametrize("columns", ["fixed lists", "lists", "numbers"])
def test_parquet_files_in_any_depth(digits, train, tmp_path, columns):
    X, y = train
    (tmp_path / "b").mkdir()
    write_classes(digits, tmp_path)
    values = pa.array(X.ravel())
    if columns == "fixed lists":
        table = {"features": pa.FixedSizeListArray.from_arrays(values, 64)}
    elif columns == "lists":
        table = {"features": pa.array(list(X.astype(np.float64)))}
    else:
        table = {f"f{k}": X[:, k] for k in reversed(range(64))}
    whole = pa.table({"id": np.arange(len(y)), "class": pa.array(y).dictionary_encode(), **table})
    parquet.write_table(whole[:500], tmp_path / "a.parquet", 150)
    parquet.write_table(whole[500:], tmp_path / "b" / "a.parquet", 1000)
    assert has_shards(tmp_path)
    data = open_shards(tmp_path, shard_rows=300)
    assert [shard.name for shard in data.shards] == [
        "a.parquet row groups 0–1", "a.parquet row groups 2–3", "b/a.parquet row group 0"
    ]  # fmt: skip
    check(data, train)
    assert set(data.unseen_classes) == set(digits.names(digits.unseen_classes))
    assert data.described_classes.keys() == data.unseen_classes.keys()
    assert data.about["attribute_names"] == digits.attribute_names


def test_npy_pairs(digits, train, tmp_path):
    X, y = train
    for name, part in (("a-", slice(0, 700)), ("b-", slice(700, None))):
        np.save(tmp_path / f"{name}features.npy", X[part])
        np.save(tmp_path / f"{name}labels.npy", y[part])
    data = open_shards(tmp_path, shard_rows=400)
    assert [shard.name for shard in data.shards][:2] == [
        "a-features.npy rows 0–399", "a-features.npy rows 400–699"
    ]  # fmt: skip
    check(data, train)
    # A file that was cut off is named.
    path = tmp_path / "b-features.npy"
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(DataError, match=r"b-features\.npy claims \d+ bytes of float32, but \d+"):
        open_shards(tmp_path)
    np.save(path, X[700:800])
    with pytest.raises(DataError, match=r"b-features\.npy has 100 rows; .*b-labels\.npy has 451"):
        open_shards(tmp_path)
    (tmp_path / "b-labels.npy").unlink()
    with pytest.raises(DataError, match=r"b-features\.npy has no b-labels\.npy beside it"):
        open_shards(tmp_path)


def write_parquet(path, X, names, split):
    features = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), X.shape[1])
    parquet.write_table(pa.table({"class": names, "split": split, "features": features}), path)


def test_files_and_their_split(digits, train, tmp_path):
    names = np.array(digits.class_names)[digits.labels]
    split = np.full(len(names), "test_seen")
    split[digits.train] = "train"
    for number, part in enumerate(np.array_split(np.arange(len(names)), 3)):
        path = tmp_path / f"{number}.parquet"
        write_parquet(path, digits.features[part], names[part], split[part])
    write_classes(digits, tmp_path)
    data = open_shards(tmp_path)
    check(data, train)
    # Classes with test rows are not known by their description alone.
    assert set(data.unseen_classes) == set(digits.names(digits.unseen_classes))
    assert data.described_classes == {}
    path = tmp_path / "1.parquet"
    path.write_bytes(path.read_bytes()[:-400])
    with pytest.raises(DataError, match=r"1\.parquet cannot be read as a shard of Parquet"):
        open_shards(tmp_path).class_counts  # noqa: B018


def test_a_shard_without_rows_to_train_on_has_no_batches(train, tmp_path):
    X, y = train
    write_parquet(tmp_path / "a.parquet", X, y, np.full(len(y), "train"))
    write_parquet(tmp_path / "b.parquet", X[:3], y[:3], ["test_seen"] * 3)
    data = open_shards(tmp_path)
    assert [sum(len(names) for _, names in shard.batches()) for shard in data.shards] == [len(y), 0]


@pytest.mark.parametrize("format", ["parquet", "npy"])
def test_tables_of_ones_own(digits, train, tmp_path, format):
    data = open_shards(write_tables(digits, tmp_path / "digits", format), shard_rows=600)
    assert not has_shards(tmp_path / "digits")  # load_dataset reads them too
    check(data, train)
    assert data.name == digits.name
    assert data.described_classes == {}
    assert len(data.unseen_classes) == 2


def test_the_benchmarks_layout_with_its_folds(digits, train, tmp_path, monkeypatch):
    monkeypatch.setenv("HGKT_CACHE", str(tmp_path / "cache"))
    write_xlsa17(digits, tmp_path / "D", features="pixels")
    data = open_shards(tmp_path / "D", features="pixels", shard_rows=500)
    assert len(data.shards) == 3
    check(data, train)
    assert set(data.unseen_classes) == set(digits.names(digits.unseen_classes))
    assert data.described_classes == {}


def test_rows_of_classes_that_are_marked_unseen_are_not_trained_on(digits, train, tmp_path):
    X, y = train
    table = pa.table({"class": y, "features": pa.array(list(X))})
    parquet.write_table(table, tmp_path / "a.parquet")
    seen = [name not in ("eight", "two") for name in digits.class_names]
    write_classes(digits, tmp_path, seen=seen)
    data = open_shards(tmp_path)
    kept = y != "eight"
    check(data, (X[kept], y[kept]))
    # "two" has no rows at all, "eight" has some that are for tests.
    assert "eight" in data.unseen_classes
    assert "eight" not in data.described_classes
    assert "two" in data.described_classes


def test_a_digest_changes_with_the_file_and_the_range(train, tmp_path):
    X, y = train
    path = tmp_path / "a.parquet"
    table = pa.table({"class": y, "features": pa.array(list(X))})
    parquet.write_table(table, path, 400)
    before = [shard.digest() for shard in open_shards(path, shard_rows=1).shards]
    assert len(set(before)) == 3
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    after = [shard.digest() for shard in open_shards(path, shard_rows=1).shards]
    assert not set(before) & set(after)


def test_what_is_no_shard_is_refused_in_a_sentence(train, tmp_path):
    y = train[1]
    with pytest.raises(DataError, match="has no rows to train on: Parquet files"):
        open_shards(tmp_path)
    path = tmp_path / "a.parquet"
    for columns, sentence in (
        ({"label": y}, r"a\.parquet has no column 'class'"),
        ({"class": y}, r"a\.parquet has no features: a list column"),
    ):
        parquet.write_table(pa.table(columns), path)
        with pytest.raises(DataError, match=sentence):
            open_shards(path)
    for values, sentence in (
        ([[1.0, 2.0], [3.0]], "row group 0 has features of several widths; 2 numbers"),
        ([[1.0, 2.0], None], "row group 0 has features of several widths"),
        ([[1.0, 2.0], [1.0, None]], "features of a.parquet row group 0 have empty cells"),
        ([["a"], ["b"]], "features of a.parquet row group 0 are object"),
    ):
        parquet.write_table(pa.table({"class": ["a", "b"], "features": values}), path)
        with pytest.raises(DataError, match=sentence):
            list(open_shards(path).shards[0].batches())
    parquet.write_table(pa.table({"class": ["a", None], "f0": [1, 2]}), path)
    with pytest.raises(DataError, match="has rows without a class"):
        open_shards(path).class_counts  # noqa: B018
