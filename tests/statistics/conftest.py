"""Digits in shards of every kind."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from hgkt.data import load_digits


def _write(path, X, y, rows_in_group=100):
    column = pa.FixedSizeListArray.from_arrays(pa.array(X.astype(np.float32).ravel()), X.shape[1])
    parquet.write_table(pa.table({"class": y, "features": column}), path, rows_in_group)


@pytest.fixture(scope="session")
def write_parquet():
    """Write rows to a Parquet file, a hundred in a row group."""
    return _write


@pytest.fixture(scope="session")
def digits():
    """Train rows of digits with their attributes."""
    data = load_digits()
    X, y = data.rows("train")
    return SimpleNamespace(data=data, X=X, y=y, table=data.attributes_of(data.seen_classes))


@pytest.fixture
def shard_folder(digits, write_parquet, tmp_path):
    """Seven Parquet files, two row groups each."""
    folder = tmp_path / "shards"
    folder.mkdir()
    for number, rows in enumerate(np.array_split(np.arange(len(digits.y)), 7)):
        write_parquet(folder / f"part-{number}.parquet", digits.X[rows], digits.y[rows])
    return folder
