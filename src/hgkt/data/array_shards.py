"""Shards of .npy pairs, of .npz files, and of the train rows of a data set."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt.data.array_files import read_npy, read_npz
from hgkt.data.dataset import GZSLDataset
from hgkt.data.memmaps import open_npy
from hgkt.data.shards import SHARD_ROWS, Batch, Labels, batch_rows, file_digest, ranges
from hgkt.exceptions import DataError

TRAIN = "train"


@dataclass(frozen=True)
class NpyShard:
    """Rows of a .npy matrix whose classes are in another .npy file.

    Parameters
    ----------
    features, labels : Path
        A matrix (N, D) and a vector (N,) of names or whole numbers.
    start, stop : int
        Which rows.
    """

    features: Path
    labels_file: Path
    start: int
    stop: int

    @property
    def name(self) -> str:
        """File and rows."""
        return f"{self.features.name} rows {self.start}–{self.stop - 1}"

    def digest(self) -> str:
        """Return another text when one of the two files has changed."""
        labels = file_digest(self.labels_file)
        return file_digest(self.features, self.start, self.stop, labels)

    def labels(self) -> Labels:
        """Return the class (n,) of every row; all are trained on."""
        array = _names(read_npy(self.labels_file, mmap=True), self.labels_file)
        return _all(array[self.start : self.stop].astype(str))

    def batches(self) -> Iterator[Batch]:
        """Yield the rows; the file is mapped anew for each batch, so that none stays in memory."""
        labels, _ = self.labels()
        for rows in _slices(self.features, self.start, self.stop):
            yield (
                np.array(open_npy(self.features)[rows], dtype=np.float32),
                labels[rows.start - self.start : rows.stop - self.start],
            )


@dataclass(frozen=True)
class RowShard:
    """Some rows of a .npy matrix, with their classes as codes: a part of a data set.

    Parameters
    ----------
    features : Path
        The matrix (N, D).
    number : int
        Number of the shard.
    rows : ndarray of shape (n,)
        Rows of the matrix, ascending.
    codes : ndarray of shape (n,)
        Their classes.
    classes : tuple of str
        The name of each code.
    """

    features: Path
    number: int
    rows: NDArray[np.intp]
    codes: NDArray[np.intp]
    classes: tuple[str, ...]

    @property
    def name(self) -> str:
        """File and number."""
        return f"{self.features.name} part {self.number}"

    def digest(self) -> str:
        """Return another text when the file has changed, or which rows are meant."""
        text = "".join(self.classes)
        return file_digest(self.features, self.rows.tobytes(), self.codes.tobytes(), text)

    def labels(self) -> Labels:
        """Return the class (n,) of every row; all are trained on."""
        return _all(np.array(self.classes)[self.codes])

    def batches(self) -> Iterator[Batch]:
        """Yield the rows; the file is mapped anew for each batch."""
        labels, _ = self.labels()
        for part in _slices(self.features, 0, len(self.rows)):
            X = np.array(open_npy(self.features)[self.rows[part]], dtype=np.float32)
            yield X, labels[part]


@dataclass(frozen=True)
class NpzShard:
    """A .npz file with arrays ``features`` (n, D), ``class`` (n,) and perhaps ``split`` (n,)."""

    path: Path

    @property
    def name(self) -> str:
        """Name of the file."""
        return self.path.name

    def digest(self) -> str:
        """Return another text when the file has changed."""
        return file_digest(self.path)

    def labels(self) -> Labels:
        """Return the class (n,) of every row, and which are trained on."""
        arrays = read_npz(self.path, ["class", "split"])
        if "class" not in arrays:
            raise DataError(
                f"{self.path} has no array 'class'; the class of each row is expected there"
            )
        names = _names(arrays["class"], self.path).astype(str)
        if "split" not in arrays:
            return _all(names)
        if arrays["split"].shape != names.shape:
            raise DataError(
                f"split in {self.path} has shape {arrays['split'].shape}; class has {names.shape}"
            )
        return names, arrays["split"].astype(str) == TRAIN

    def batches(self) -> Iterator[Batch]:
        """Yield the train rows; a file is read whole, an archive cannot be mapped."""
        features = read_npz(self.path, ["features"]).get("features")
        if features is None or features.ndim != 2 or features.dtype.kind not in "fiu":
            raise DataError(f"{self.path} has no array 'features' of numbers (n, D)")
        names, train = self.labels()
        if len(features) != len(names):
            raise DataError(
                f"{self.path} has {len(features)} rows of features for {len(names)} classes"
            )
        rows = np.flatnonzero(train)
        for start, stop in ranges(len(rows), batch_rows(features.shape[1])):
            part = rows[start:stop]
            yield np.asarray(features[part], dtype=np.float32), names[part]


def npy_shards(features: Path, labels: Path, size: int = SHARD_ROWS) -> list[NpyShard]:
    """Divide a .npy matrix, whose classes are in another file, into shards."""
    n_rows = len(open_npy(features))
    n_labels = len(_names(read_npy(labels, mmap=True), labels))
    if n_rows != n_labels:
        raise DataError(f"{features} has {n_rows} rows; {labels} has {n_labels}")
    return [NpyShard(features, labels, *part) for part in ranges(n_rows, size)]


def dataset_shards(dataset: GZSLDataset, size: int = SHARD_ROWS) -> list[RowShard]:
    """Divide the train rows of a data set whose features are a memory map into shards."""
    path = getattr(dataset.features, "filename", None)
    if path is None:
        raise DataError(
            f"the features of data set {dataset.name!r} are in memory already; it needs no shards"
        )
    rows = np.sort(dataset.train)
    return [
        RowShard(Path(path), k, rows[a:b], dataset.labels[rows[a:b]], dataset.class_names)
        for k, (a, b) in enumerate(ranges(len(rows), size))
    ]


def _slices(features: Path, start: int, stop: int) -> Iterator[slice]:
    step = batch_rows(open_npy(features).shape[1])
    for first, last in ranges(stop - start, step):
        yield slice(start + first, start + last)


def _all(names: NDArray[np.str_]) -> Labels:
    return names, np.ones(len(names), dtype=bool)


def _names(array: NDArray[Any], path: Path) -> NDArray[Any]:
    if array.ndim != 1 or array.dtype.kind not in "Uiu":
        raise DataError(
            f"{path} holds {array.dtype} of shape {array.shape}; a vector of class names (or whole "
            "numbers) is expected"
        )
    return array
