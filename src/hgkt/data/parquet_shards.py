"""Shards of Parquet files: ranges of row groups, read in batches of bounded memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt._reading import reading
from hgkt.data.frames import SAMPLE_COLUMNS
from hgkt.data.shards import SHARD_ROWS, Batch, Labels, batch_rows, file_digest
from hgkt.exceptions import DataError

TRAIN = "train"
_WHAT = "a shard of Parquet (it is truncated or of another kind)"


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
        parts = [(self._names(b), self._train(b)) for b in self._read(self._plain, self.n_rows)]
        names, train = zip(*parts, strict=True)
        return np.concatenate(names), np.concatenate(train)

    def batches(self) -> Iterator[Batch]:
        """Yield the train rows."""
        width = self.n_features or self._measured()
        for batch in self._read([*self._plain, *self.columns], batch_rows(width)):
            X, names = self._features(batch, width), self._names(batch)
            if self.has_split:
                train = self._train(batch)
                X, names = X[train], names[train]
            yield X, names

    def rows(self) -> Iterator[tuple[NDArray[np.float32], Any]]:
        """Yield features (n, D) and the other columns (a pyarrow record batch) of all rows."""
        width = self.n_features or self._measured()
        for batch in self._read(None, batch_rows(width)):
            others = [name for name in batch.schema.names if name not in set(self.columns)]
            yield self._features(batch, width), batch.select(others)

    @property
    def _plain(self) -> list[str]:
        return ["class", "split"] if self.has_split else ["class"]

    def _read(self, columns: list[str] | None, n_rows: int) -> Iterator[Any]:
        from pyarrow import parquet

        with (
            reading(self.path, _WHAT),
            parquet.ParquetFile(self.path, memory_map=False, pre_buffer=False) as file,
        ):
            yield from file.iter_batches(n_rows, row_groups=list(self.groups), columns=columns)

    def _measured(self) -> int:
        """Return how many numbers the first list has."""
        for batch in self._read(list(self.columns), 1):
            return len(batch.column(0)[0].as_py() or ())
        return 0

    def _names(self, batch: Any) -> NDArray[np.str_]:
        import pyarrow as pa

        column = batch.column("class")
        if column.null_count:
            raise DataError(f"{self.name} has rows without a class; each row needs one")
        return np.asarray(column.cast(pa.string()).to_numpy(zero_copy_only=False), dtype=str)

    def _train(self, batch: Any) -> NDArray[np.bool_]:
        import pyarrow.compute as pc

        if not self.has_split:
            return np.ones(len(batch), dtype=bool)
        found = pc.fill_null(pc.equal(batch.column("split"), TRAIN), False)
        result: NDArray[np.bool_] = found.to_numpy(zero_copy_only=False)
        return result

    def _features(self, batch: Any, width: int) -> NDArray[np.float32]:
        """Return the features (n, D) of a batch, all of one width."""
        if self.columns != ("features",):
            parts = [self._numbers(batch.column(name), name) for name in self.columns]
            return np.column_stack(parts)
        column = batch.column("features")
        if hasattr(column, "offsets"):
            lengths = np.diff(column.offsets.to_numpy())
        else:
            lengths = np.full(len(column), column.type.list_size)
        if column.null_count or not (lengths == width).all():
            raise DataError(
                f"{self.name} has features of several widths; {width} numbers in each row are "
                "expected"
            )
        return self._numbers(column.flatten(), "features").reshape(len(column), width)

    def _numbers(self, column: Any, what: str) -> NDArray[np.float32]:
        if column.null_count:
            raise DataError(f"{what} of {self.name} have empty cells; only numbers are accepted")
        numbers = column.to_numpy(zero_copy_only=False)
        if numbers.dtype.kind not in "fiub":
            raise DataError(f"{what} of {self.name} are {numbers.dtype}; numbers are expected")
        return np.asarray(numbers, dtype=np.float32)


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
    from pyarrow import parquet

    with reading(path, _WHAT), parquet.ParquetFile(path) as file:
        schema, metadata = file.schema_arrow, file.metadata
        if labelled and "class" not in schema.names:
            raise DataError(f"{path} has no column 'class'; the class of each row is expected")
        columns = _feature_columns(schema, path)
        kind = schema.field(columns[0]).type
        width = getattr(kind, "list_size", 0) if columns == ("features",) else len(columns)
        groups, shards, n_rows = [], [], 0
        for number in range(metadata.num_row_groups):
            groups.append(number)
            n_rows += metadata.row_group(number).num_rows
            if n_rows >= size or number == metadata.num_row_groups - 1:
                shards.append((tuple(groups), n_rows))
                groups, n_rows = [], 0
        has_split = "split" in schema.names
    return [
        ParquetShard(path, label, numbers, n, columns, width, has_split)
        for numbers, n in shards
        if n
    ]


def _feature_columns(schema: Any, path: Path) -> tuple[str, ...]:
    import pyarrow.types as kinds

    if "features" in schema.names:
        return ("features",)
    named = [name for name in schema.names if re.fullmatch(r"f\d+", name)]
    if named:
        return tuple(sorted(named, key=lambda name: int(name[1:])))
    rest = [name for name in schema.names if name not in SAMPLE_COLUMNS]

    def is_number(name: str) -> bool:
        kind = schema.field(name).type
        return bool(kinds.is_floating(kind) or kinds.is_integer(kind) or kinds.is_boolean(kind))

    columns = tuple(name for name in rest if is_number(name))
    if not columns:
        raise DataError(
            f"{path} has no features: a list column 'features' or numeric columns expected"
        )
    return columns
