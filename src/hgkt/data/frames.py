"""Parquet and CSV files as data frames: words stay words, vectors are lists or numeric columns."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hgkt._reading import parse_json, reading
from hgkt._validation import label_text
from hgkt.data.table_files import check_columns, read_csv, read_parquet
from hgkt.exceptions import DataError

SUFFIXES = (".parquet", ".csv")
SAMPLE_COLUMNS = ("id", "class", "split", "features")
_CLASS_COLUMNS = ("name", "seen", "description", "attributes")
_METADATA_KEY = b"hgkt"
_CHUNK_ROWS = 4096


def read_frame(path: Path) -> pd.DataFrame:
    """Read a Parquet or CSV file."""
    return read_made(path)[0]


def read_made(path: Path) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Read a Parquet or CSV file, and what hgkt wrote into it about its class vectors.

    Parameters
    ----------
    path : Path
        The file, .parquet or .csv; it is opened once.

    Returns
    -------
    frame : DataFrame
    made : dict
        Empty where hgkt did not write the file, and for CSV.
    """
    if path.suffix.lower() not in SUFFIXES:
        kind = "is a folder" if path.is_dir() else f"has the suffix {path.suffix!r}"
        raise DataError(f"{path} {kind}; a table as .csv or .parquet is expected")
    if not path.exists():
        raise DataError(f"{path} does not exist; a table is expected there")
    if path.suffix.lower() != ".parquet":
        return read_csv(path), {}
    table = read_parquet(path)
    with reading(path, "a table"):
        made = parse_json((table.schema.metadata or {}).get(_METADATA_KEY, b"{}"))
        frame = table.to_pandas()
        # What pandas keeps in a file may name columns otherwise than the file itself.
        check_columns(list(map(str, frame.columns)), path)
    if not isinstance(made, dict):
        raise DataError(f"{path} has metadata of another kind under the key 'hgkt'")
    return frame, {key: value for key, value in made.items() if value is not None}


def parse_classes(
    frame: pd.DataFrame, path: Path
) -> tuple[tuple[str, ...], NDArray[np.float32], tuple[str, ...] | None]:
    """Return names, attributes (C, d) and, where columns have some, attribute names."""
    check_named(frame, path)
    names = tuple(frame["name"].astype(str))
    if "attributes" in frame:
        return names, stack_vectors(frame["attributes"], names, f"attributes in {path}"), None
    values, columns = numeric_columns(frame, _CLASS_COLUMNS, r"a\d+", path, "attributes")
    plain = all(re.fullmatch(r"a\d+", column) for column in columns)
    return names, values, None if plain else tuple(columns)


def check_named(frame: pd.DataFrame, path: Path) -> None:
    """Refuse a table of classes without names."""
    if "name" not in frame:
        raise DataError(f"{path} has no column 'name'; one row per class is expected")


def row_text(path: Path, row: int) -> str:
    """Say where a row of a table is, as an editor counts: from 1, a CSV file's header included.

    Examples
    --------
    >>> row_text(Path("samples.csv"), 0), row_text(Path("samples.parquet"), 0)
    ('line 2', 'row 1')
    """
    return f"line {row + 2}" if path.suffix.lower() == ".csv" else f"row {row + 1}"


def parse_seen(frame: pd.DataFrame, path: Path) -> NDArray[np.bool_] | None:
    """Return which classes a table marks as seen, None where it has no column ``seen``."""
    if "seen" not in frame:
        return None
    words = frame["seen"].astype(str).str.strip().str.lower()
    flags = words.map({"true": True, "1": True, "1.0": True, "yes": True,
                       "false": False, "0": False, "0.0": False, "no": False})  # fmt: skip
    for row in np.flatnonzero(flags.isna())[:1]:
        raise DataError(
            f"{row_text(path, row)} of {path} has seen = {label_text(words.iloc[row])}; true or "
            "false expected"
        )
    return flags.to_numpy(dtype=bool)


def has_attributes(frame: pd.DataFrame) -> bool:
    """Say whether a table of classes has numbers: a list column ``attributes`` or columns."""
    rest = frame.drop(columns=[name for name in _CLASS_COLUMNS if name in frame])
    return "attributes" in frame or any(_is_numeric(rest[column]) for column in rest)


def parse_features(frame: pd.DataFrame, path: Path) -> NDArray[np.float32]:
    """Return the features (n, D) of a table: its list column ``features``, or numeric columns."""
    if "features" in frame:
        rows = [row_text(path, row) for row in range(len(frame))]
        return stack_vectors(frame["features"], rows, f"features in {path}")
    return numeric_columns(frame, SAMPLE_COLUMNS, r"f\d+", path, "features")[0]


def numeric_columns(
    frame: pd.DataFrame, known: tuple[str, ...], pattern: str, path: Path, what: str
) -> tuple[NDArray[np.float32], list[str]]:
    """Return the columns that match `pattern`, else all that are not `known`, and their names."""
    columns = [str(column) for column in frame if re.fullmatch(pattern, str(column))]
    if columns:
        columns.sort(key=lambda column: int(column[1:]))
    else:
        rest = frame.drop(columns=[name for name in known if name in frame])
        columns = [str(column) for column in rest if _is_numeric(rest[column])]
    if not columns:
        raise DataError(f"{path} has no {what}: a list column {what!r} or numeric columns expected")
    for column in columns:
        if frame[column].dtype.kind not in "fiub":
            raise DataError(
                f"column {label_text(column)} of {path} holds something that is not a number"
            )
    return frame[columns].to_numpy(dtype=np.float32), columns


def _is_numeric(column: pd.Series) -> bool:
    """Tell numbers from text; numbers among which a word strayed count as numbers."""
    return column.dtype.kind in "fiub" or bool(pd.to_numeric(column, errors="coerce").notna().any())


def stack_vectors(column: pd.Series, who: Sequence[str], what: str) -> NDArray[np.float32]:
    """Stack a list column; in CSV a list is written as JSON."""
    vectors: list[NDArray[np.float32]] = []
    for owner, value in zip(who, column, strict=True):
        try:
            vector = np.asarray(parse_json(value) if isinstance(value, str) else value, np.float32)
        except (TypeError, ValueError, RecursionError):
            raise DataError(
                f"{what}: {owner} holds something that is not a list of numbers"
            ) from None
        if vector.ndim != 1 or (vectors and len(vector) != len(vectors[0])):
            expected = f"{len(vectors[0])} numbers" if vectors else "a list of numbers"
            raise DataError(f"{what}: {owner} has shape {vector.shape}; {expected} are expected")
        vectors.append(vector)
    return np.array(vectors, dtype=np.float32).reshape(len(vectors), -1 if vectors else 0)


# ---------------------------------------------------------------------- writing Parquet
def write_samples(
    path: Path,
    frame: pd.DataFrame,
    width: int,
    rows: Callable[[slice], NDArray[Any]],
) -> None:
    """Write a table of instances with their features in a list column, a chunk at a time.

    Parameters
    ----------
    path : Path
        The Parquet file.
    frame : DataFrame
        The other columns.
    width : int
        Number of features.
    rows : callable
        Takes a slice of the rows and returns their features.
    """
    import pyarrow as pa
    from pyarrow import parquet

    plain = pa.Table.from_pandas(frame, preserve_index=False)
    field = pa.field("features", pa.list_(pa.float32(), width))
    with parquet.ParquetWriter(path, plain.schema.append(field)) as file:
        for start in range(0, len(frame), _CHUNK_ROWS):
            part = plain.slice(start, _CHUNK_ROWS)
            column = _list_column(rows(slice(start, start + _CHUNK_ROWS)))
            file.write_table(part.append_column(field, column))


def write_classes(
    path: Path,
    frame: pd.DataFrame,
    attributes: NDArray[Any],
    made: dict[str, Any] | None = None,
) -> None:
    """Write a table of classes with their attributes in a list column.

    Parameters
    ----------
    path : Path
        The Parquet file.
    frame : DataFrame
        The other columns.
    attributes : ndarray of shape (n_classes, n_attributes)
        The vectors.
    made : dict, optional
        What they were made with; `read_made` returns it.
    """
    import pyarrow as pa
    from pyarrow import parquet

    table = pa.Table.from_pandas(frame, preserve_index=False)
    table = table.append_column("attributes", _list_column(attributes))
    if made is not None:
        table = table.replace_schema_metadata({_METADATA_KEY: json.dumps(made)})
    parquet.write_table(table, path)


def _list_column(values: NDArray[Any]) -> Any:
    import pyarrow as pa

    flat = np.ascontiguousarray(values, dtype=np.float32).ravel()
    return pa.FixedSizeListArray.from_arrays(pa.array(flat), values.shape[1])
