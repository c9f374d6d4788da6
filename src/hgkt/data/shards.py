"""Rows that never are in memory together: shards, each a range of rows of one file.

A folder of Parquet files, of .npy pairs, or any folder that `load_dataset` reads, is
opened as `ShardedData`: what it is made of and what its classes are, without its features.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import parquet

from hgkt._arrays import batches
from hgkt._files import reading, sha256
from hgkt._validation import check_number, label_text
from hgkt.data.arrays import open_npy, read_npy
from hgkt.data.attributes import is_file
from hgkt.data.dataset import GZSLDataset, provenance
from hgkt.data.load import find_folder, load_dataset
from hgkt.data.tables import (
    SAMPLE_COLUMNS,
    SUFFIXES,
    numbered_columns,
    parse_classes,
    parse_seen,
    read_extra,
    read_table,
)
from hgkt.exceptions import DataError

SHARD_ROWS = 65_536
"""Rows of a shard where the files do not say otherwise."""

_TRAIN = "train"
_FEATURES, _LABELS = "features", "labels"
_BATCH_NUMBERS = 2**22  # of one batch: 16 MiB in float32
_SAMPLED_BYTES = 65_536
_PARQUET = "a shard of Parquet (it is truncated or of another kind)"

Batch = tuple[NDArray[np.float32], NDArray[np.str_]]
"""Features (n, D) and the names of their classes (n,)."""

Labels = tuple[NDArray[np.str_], NDArray[np.bool_]]
"""Names of classes (n,), and which of the rows are trained on (n,)."""


@dataclass(frozen=True)
class ShardedData:
    """A data set in shards: its files and classes, not its rows.

    Parameters
    ----------
    name : str
        Name of the data set.
    shards : sequence of Shard
        In a fixed order.
    class_attributes : dict of str to ndarray
        Vector of each class that the table of classes has; empty where there is none.
    tested : frozenset of str
        Classes that are known to have rows, but none to train on.
    folds : list of (train classes, validation classes)
        Published class folds.
    about : dict
        What features and attributes are, as `GZSLDataset.about`.
    """

    name: str
    shards: Sequence[Shard]
    class_attributes: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    tested: frozenset[str] = frozenset()
    folds: list[tuple[list[str], list[str]]] = field(default_factory=list)
    about: dict[str, Any] = field(default_factory=dict)

    @property
    def class_counts(self) -> dict[str, int]:
        """How many train rows each class has, by name; labels are read once, features are not."""
        return {name: count for name, count in self._counts.items() if count}

    @cached_property
    def _counts(self) -> dict[str, int]:
        counts: Counter[str] = Counter()
        for shard in self.shards:
            labels, train = shard.labels()
            names, codes = np.unique(labels, return_inverse=True)
            found = np.bincount(codes, train, minlength=len(names)).astype(int)
            for name, count in zip(names.tolist(), found.tolist(), strict=True):
                if self.class_attributes and name not in self.class_attributes:
                    raise DataError(
                        f"{shard.name} has rows of class {label_text(name)}, which is not in the "
                        "table of classes"
                    )
                counts[name] += count
        if not sum(counts.values()):
            raise DataError(f"data set {self.name!r} has no rows to train on")
        return dict(sorted(counts.items()))

    @property
    def unseen_classes(self) -> dict[str, NDArray[np.float64]]:
        """Attributes of the classes without rows to train on."""
        return {k: v for k, v in self.class_attributes.items() if not self._counts.get(k)}

    @property
    def described_classes(self) -> dict[str, NDArray[np.float64]]:
        """Attributes of the classes without any rows: all there is."""
        with_rows = self.tested | self._counts.keys()
        return {k: v for k, v in self.class_attributes.items() if k not in with_rows}

    def provenance(self) -> dict[str, Any]:
        """Return what a model that is trained on this data should remember of it."""
        fingerprint = {"shards": sha256("".join(shard.digest() for shard in self.shards))}
        return provenance(self.name, fingerprint, self.about)


# ---------------------------------------------------------------------- kinds of shards
@dataclass(frozen=True)
class NpyShard:
    """Some rows of a .npy matrix.

    Parameters
    ----------
    name : str
        What the shard is called.
    features : Path
        The matrix (N, D).
    rows : range or ndarray of shape (n,)
        Rows of the matrix, ascending; a range where a file has their classes.
    classes : Path or ndarray of shape (n,)
        A .npy vector (N,) of names or whole numbers, or the code of each row's class.
    class_names : tuple of str
        The name of each code.
    """

    name: str
    features: Path
    rows: range | NDArray[np.intp]
    classes: Path | NDArray[np.intp]
    class_names: tuple[str, ...] = ()

    def digest(self) -> str:
        """Return another text when a file has changed, or which rows are meant."""
        if isinstance(self.classes, Path):
            which = (self.rows[0], self.rows[-1] + 1, file_digest(self.classes))
            return file_digest(self.features, *which)
        parts = (np.asarray(self.rows).tobytes(), self.classes.tobytes())
        return file_digest(self.features, *parts, "".join(self.class_names))

    def labels(self) -> Labels:
        """Return the class (n,) of every row; all are trained on."""
        if isinstance(self.classes, Path):
            vector = _class_vector(read_npy(self.classes, mmap=True), self.classes)
            names = vector[self.rows[0] : self.rows[-1] + 1].astype(str)
        else:
            names = np.array(self.class_names)[self.classes]
        return names, np.ones(len(names), dtype=bool)

    def batches(self) -> Iterator[Batch]:
        """Yield the rows; the file is mapped anew for each batch, so that none stays in memory."""
        names, _ = self.labels()
        for part in batches(len(names), batch_rows(open_npy(self.features).shape[1])):
            X = open_npy(self.features)[np.asarray(self.rows[part])]
            yield np.asarray(X, dtype=np.float32), names[part]


@dataclass(frozen=True)
class ParquetShard:
    """Consecutive row groups of a Parquet file.

    Parameters
    ----------
    path : Path
        The file; it has a column ``class``, perhaps ``split``, and the features as a list column
        ``features`` or as numeric columns.
    label : str
        What the file is called within its folder.
    groups : tuple of int
        The row groups.
    n_rows : int
        How many rows they have.
    columns : tuple of str
        The columns of features.
    n_features : int
        Width of a row, where the file says it; 0 for lists of any length.
    has_split : bool
        Whether the file says which rows are trained on.
    """

    path: Path
    label: str
    groups: tuple[int, ...]
    n_rows: int
    columns: tuple[str, ...]
    n_features: int
    has_split: bool

    @property
    def name(self) -> str:
        """File and row groups."""
        first, last = self.groups[0], self.groups[-1]
        which = f"row group {first}" if first == last else f"row groups {first}–{last}"
        return f"{self.label} {which}"

    def digest(self) -> str:
        """Return another text when the file has changed."""
        return file_digest(self.path, self.label, *self.groups)

    def labels(self) -> Labels:
        """Return the class (n,) of every row, and which are trained on."""
        parts = [self._labels(batch) for batch in self._read(self._label_columns, self.n_rows)]
        names, train = zip(*parts, strict=True)
        return np.concatenate(names), np.concatenate(train)

    def batches(self) -> Iterator[Batch]:
        """Yield the train rows."""
        for X, batch in self.rows(self._label_columns):
            names, train = self._labels(batch)
            yield (X[train], names[train]) if self.has_split else (X, names)

    def rows(
        self, columns: Sequence[str] | None = None
    ) -> Iterator[tuple[NDArray[np.float32], pa.RecordBatch]]:
        """Yield features (n, D) and other columns of all rows; by default all other columns."""
        wanted = None if columns is None else [*columns, *self.columns]
        width = self.n_features or self._measured_width()
        for batch in self._read(wanted, batch_rows(width)):
            others = [name for name in batch.schema.names if name not in set(self.columns)]
            yield self._features(batch, width), batch.select(others)

    @property
    def _label_columns(self) -> list[str]:
        return ["class", "split"] if self.has_split else ["class"]

    def _read(self, columns: list[str] | None, n_rows: int) -> Iterator[pa.RecordBatch]:
        with (
            reading(self.path, _PARQUET),
            parquet.ParquetFile(self.path, memory_map=False, pre_buffer=False) as file,
        ):
            yield from file.iter_batches(n_rows, row_groups=list(self.groups), columns=columns)

    def _measured_width(self) -> int:
        """Return how many numbers the first list has."""
        for batch in self._read(list(self.columns), 1):
            return len(batch.column(0)[0].as_py() or ())
        return 0

    def _labels(self, batch: pa.RecordBatch) -> Labels:
        column = batch.column("class")
        if column.null_count:
            raise DataError(f"{self.name} has rows without a class; each row needs one")
        names = np.asarray(column.cast(pa.string()).to_numpy(zero_copy_only=False), dtype=str)
        if not self.has_split:
            return names, np.ones(len(names), dtype=bool)
        train = pc.fill_null(pc.equal(batch.column("split"), _TRAIN), False)
        return names, train.to_numpy(zero_copy_only=False)

    def _features(self, batch: pa.RecordBatch, width: int) -> NDArray[np.float32]:
        """Return the features (n, D) of a batch, all of one width."""
        if self.columns != (_FEATURES,):
            parts = [self._numbers(batch.column(name), name) for name in self.columns]
            return np.column_stack(parts)
        column = batch.column(_FEATURES)
        if hasattr(column, "offsets"):
            lengths = np.diff(column.offsets.to_numpy())
        else:
            lengths = np.full(len(column), column.type.list_size)
        if column.null_count or not (lengths == width).all():
            raise DataError(
                f"{self.name} has features of several widths; {width} numbers in each row are "
                "expected"
            )
        return self._numbers(column.flatten(), _FEATURES).reshape(len(column), width)

    def _numbers(self, column: pa.Array, what: str) -> NDArray[np.float32]:
        if column.null_count:
            raise DataError(f"{what} of {self.name} have empty cells; only numbers are accepted")
        numbers = column.to_numpy(zero_copy_only=False)
        if numbers.dtype.kind not in "fiub":
            raise DataError(f"{what} of {self.name} are {numbers.dtype}; numbers are expected")
        return np.asarray(numbers, dtype=np.float32)


@dataclass(frozen=True)
class FilteredShard:
    """A shard without the rows of some classes.

    Parameters
    ----------
    shard : Shard
        All rows.
    without : frozenset of str
        The classes that are not trained on.
    """

    shard: Shard
    without: frozenset[str]

    @property
    def name(self) -> str:
        """Name of the shard."""
        return self.shard.name

    def digest(self) -> str:
        """Return another text when the shard has changed, or which classes are left out."""
        return sha256("|".join([self.shard.digest(), *sorted(self.without)]))

    def labels(self) -> Labels:
        """Return the class (n,) of every row, and which are trained on."""
        names, train = self.shard.labels()
        return names, train & ~np.isin(names, list(self.without))

    def batches(self) -> Iterator[Batch]:
        """Yield the rows of other classes."""
        for X, names in self.shard.batches():
            others = ~np.isin(names, list(self.without))
            yield X[others], names[others]


Shard = NpyShard | ParquetShard | FilteredShard
"""A range of rows of one file. It can be pickled and holds no rows itself.

Every kind has a `name` within its folder, a cheap `digest` that changes with it, `labels`, which
reads no features, and `batches` of the rows that are trained on, always the same ones.
"""


def batch_rows(n_features: int) -> int:
    """Return how many rows of so many features a batch has; nothing else may decide it."""
    return max(1, _BATCH_NUMBERS // max(1, n_features))


def file_digest(path: Path, *what: object) -> str:
    """Return a digest of a file's name, size, time of change, first and last 64 KiB.

    The end of a Parquet file holds size and statistics of each of its parts. A file of many
    gigabytes is not read for it.

    Parameters
    ----------
    path : Path
        The file.
    *what
        Which part of it.
    """
    with reading(path, "a shard"), open(path, "rb") as file:
        status = path.stat()
        ends = [file.read(_SAMPLED_BYTES)]
        file.seek(max(0, status.st_size - _SAMPLED_BYTES))
        ends.append(file.read())
    facts = (path.name, status.st_size, status.st_mtime_ns, *(sha256(end) for end in ends), *what)
    return sha256("|".join(map(str, facts)))


def _class_vector(array: NDArray[Any], path: Path) -> NDArray[Any]:
    """Refuse an array that is no vector of classes, or return it."""
    if array.ndim != 1 or array.dtype.kind not in "Uiu":
        raise DataError(
            f"{path} holds {array.dtype} of shape {array.shape}; a vector of class names (or whole "
            "numbers) is expected"
        )
    return array


# ---------------------------------------------------------------------- files into shards
def npy_shards(features: Path, labels: Path, size: int = SHARD_ROWS) -> list[NpyShard]:
    """Divide a .npy matrix, whose classes are in another file, into shards."""
    n_rows = len(open_npy(features))
    n_labels = len(_class_vector(read_npy(labels, mmap=True), labels))
    if n_rows != n_labels:
        raise DataError(f"{features} has {n_rows} rows; {labels} has {n_labels}")
    return [
        NpyShard(
            f"{features.name} rows {part.start}–{part.stop - 1}",
            features,
            range(part.start, part.stop),
            labels,
        )
        for part in batches(n_rows, size)
    ]


def dataset_shards(dataset: GZSLDataset, size: int = SHARD_ROWS) -> list[NpyShard]:
    """Divide the train rows of a data set whose features are a memory map into shards."""
    features, rows = dataset.features, np.sort(dataset.train)
    if not isinstance(features, np.memmap):
        raise DataError(
            f"the features of data set {dataset.name!r} are in memory already; it needs no shards"
        )
    path = Path(str(features.filename))
    return [
        NpyShard(
            f"{path.name} part {number}",
            path,
            rows[part],
            dataset.labels[rows[part]],
            dataset.class_names,
        )
        for number, part in enumerate(batches(len(rows), size))
    ]


def parquet_shards(
    path: Path, label: str, size: int = SHARD_ROWS, labelled: bool = True
) -> list[ParquetShard]:
    """Divide a Parquet file into shards of about `size` rows, by its row groups.

    Parameters
    ----------
    path : Path
        The file.
    label : str
        What it is called within its folder.
    size : int
        Rows of a shard; a row group is never divided.
    labelled : bool
        Whether rows must have a class; without one, they can only be predicted.
    """
    with reading(path, _PARQUET), parquet.ParquetFile(path) as file:
        schema, metadata = file.schema_arrow, file.metadata
        sizes = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    if labelled and "class" not in schema.names:
        raise DataError(f"{path} has no column 'class'; the class of each row is expected")
    columns = _feature_columns(schema, path)
    listed = columns == (_FEATURES,)
    width = getattr(schema.field(_FEATURES).type, "list_size", 0) if listed else len(columns)
    shards: list[ParquetShard] = []
    groups: list[int] = []
    for number in range(len(sizes)):
        groups.append(number)
        n_rows = sum(sizes[groups[0] : number + 1])
        if n_rows and (n_rows >= size or number == len(sizes) - 1):
            about = (tuple(groups), n_rows, columns, width, "split" in schema.names)
            shards.append(ParquetShard(path, label, *about))
            groups = []
    return shards


def _feature_columns(schema: pa.Schema, path: Path) -> tuple[str, ...]:
    if _FEATURES in schema.names:
        return (_FEATURES,)
    numbers = (pa.types.is_floating, pa.types.is_integer, pa.types.is_boolean)
    columns = numbered_columns(schema.names, "f") or [
        name
        for name in schema.names
        if name not in SAMPLE_COLUMNS and any(kind(schema.field(name).type) for kind in numbers)
    ]
    if not columns:
        raise DataError(
            f"{path} has no features: a list column 'features' or numeric columns expected"
        )
    return tuple(columns)


# ---------------------------------------------------------------------- folders
def open_shards(
    path: str | Path,
    root: str | Path | None = None,
    features: str | None = None,
    attributes: str = "att",
    shard_rows: int = SHARD_ROWS,
) -> ShardedData:
    """Open a folder of any number of rows; no features are read.

    The folder holds one of

    - Parquet files, in any depth: a column ``class``, the features as a list column ``features``
      or as numeric columns, and perhaps ``split``, by which only "train" rows are read;
    - pairs ``NAMEfeatures.npy`` (N, D) and ``NAMElabels.npy`` (N,), names or whole numbers;
    - whatever `load_dataset` reads from ``features.npy`` or the benchmark's .mat files. A .mat file
      is converted once, in pieces, see `load_dataset`.

    A table ``classes.parquet`` or ``classes.csv`` beside gives the class attributes. Rows of
    classes that it marks as unseen (``seen`` false) are not trained on.

    Parameters
    ----------
    path : str or path
        The folder, its name under `root`, or one Parquet file.
    root : path, optional
        Folder that holds the benchmark's folders; by default ``$HGKT_DATA``.
    features, attributes : str
        Of the benchmark's folders, as for `load_dataset`; of others `attributes` may be a table of
        classes in the place of the one beside.
    shard_rows : int, default=65,536
        Rows of a shard, where a file has more; a Parquet row group is never divided.

    Returns
    -------
    ShardedData

    Examples
    --------
    >>> import tempfile
    >>> from hgkt.data import load_digits, write_tables
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     data = open_shards(write_tables(load_digits(), f"{folder}/digits"))
    ...     len(data.shards), sum(data.class_counts.values()), len(data.unseen_classes)
    (1, 1151, 2)
    """
    check_number("shard_rows", shard_rows, low=1, integer=True)
    if Path(path).is_file():
        one = Path(path)
        return _open(one.parent, parquet_shards(one, one.name, shard_rows), one.name, attributes)
    folder = find_folder(path, root)
    mapped = _has_samples(folder) and (folder / "features.npy").is_file()
    if mapped or (folder / "att_splits.mat").is_file():
        dataset = load_dataset(
            folder, features=features, attributes=attributes, mmap=True, validate=False
        )
        return _of_dataset(dataset, shard_rows)
    shards, what = _shards_in(folder, shard_rows)
    if not shards:
        raise DataError(
            f"{folder} has no rows to train on: Parquet files, pairs of {_FEATURES}.npy and "
            f"{_LABELS}.npy or a data set of the benchmark's layout are expected"
        )
    return _open(folder, shards, what, attributes)


def has_shards(path: str | Path) -> bool:
    """Say whether a folder can be read in shards only: `load_dataset` cannot read it."""
    folder = Path(path)
    if not folder.is_dir() or (folder / "att_splits.mat").is_file() or _has_samples(folder):
        return False
    return bool(_parquet_files(folder) or _npy_pairs(folder))


def _has_samples(folder: Path) -> bool:
    return any((folder / f"samples{suffix}").is_file() for suffix in (*SUFFIXES, ".npz"))


def _shards_in(folder: Path, size: int) -> tuple[list[Shard], str]:
    """Return the shards of the first kind of file that a folder has, and which kind it is."""
    shards: list[Shard] = []
    for path in _parquet_files(folder):
        shards += parquet_shards(path, path.relative_to(folder).as_posix(), size)
    if shards:
        return shards, "*.parquet"
    for features, labels in _npy_pairs(folder):
        shards += npy_shards(features, labels, size)
    return shards, "*.npy"


def _parquet_files(folder: Path) -> list[Path]:
    files = sorted(folder.rglob("*.parquet"))
    return [path for path in files if path != folder / "classes.parquet"]


def _npy_pairs(folder: Path) -> list[tuple[Path, Path]]:
    pairs = []
    for features in sorted(folder.glob(f"*{_FEATURES}.npy")):
        labels = features.with_name(features.name.replace(f"{_FEATURES}.npy", f"{_LABELS}.npy"))
        if not labels.is_file():
            raise DataError(f"{features} has no {labels.name} beside it: the class of each row")
        pairs.append((features, labels))
    return pairs


def _of_dataset(dataset: GZSLDataset, size: int) -> ShardedData:
    codes = range(len(dataset.class_names))
    return ShardedData(
        dataset.name,
        dataset_shards(dataset, size),
        dataset.attributes_of(codes),
        frozenset(dataset.names(np.unique(dataset.labels[dataset.test_unseen]))),
        dataset.class_folds(),
        {"attribute_names": dataset.attribute_names, **dataset.about},
    )


def _open(folder: Path, shards: Sequence[Shard], what: str, attributes: str) -> ShardedData:
    """Read what lies beside the shards: the table of classes, and what else is known."""
    extra = read_extra(folder / "dataset.json")
    about: dict[str, Any] = {"features": what, **extra.get("about", {}), "layout": "shards"}
    vectors: dict[str, Any] = {}
    path = _class_table(folder, attributes)
    if path is not None:
        frame, origin = read_table(path)
        names, values, attribute_names = parse_classes(frame, path)
        vectors = dict(zip(names, values.astype(np.float64), strict=True))
        seen = parse_seen(frame, path)
        if seen is not None and not seen.all():
            unseen = frozenset(np.array(names)[~seen].tolist())
            shards = [FilteredShard(shard, unseen) for shard in shards]
        about = {
            "attribute_blocks": [values.shape[1]],
            "attribute_names": extra.get("attribute_names") or attribute_names,
            "attributes": path.name,
            **origin,
            **about,
        }
    folds = [(list(train), list(val)) for train, val in extra.get("folds", [])]
    name = str(extra.get("name", folder.resolve().name))
    return ShardedData(name, list(shards), vectors, frozenset(), folds, about)


def _class_table(folder: Path, attributes: str) -> Path | None:
    """Return the table of classes beside shards, or the one that is named."""
    if attributes == "att":
        tables = [folder / f"classes{suffix}" for suffix in SUFFIXES]
        return next((path for path in tables if path.is_file()), None)
    if not is_file(attributes):
        raise DataError(
            f"attributes {attributes!r} of shards must be 'att', the table of classes beside them, "
            "or one table (.parquet, .csv)"
        )
    for path in (Path(attributes), folder / attributes):
        if path.is_file():
            return path
    raise DataError(f"{attributes} does not exist; a table of class attributes expected")
