"""CSV and Parquet files as they are on disk, opened with their claims checked first."""

from __future__ import annotations

import csv
import io
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from hgkt._reading import Refusal, check_unfolded, reading
from hgkt._spreadsheets import plain_cell
from hgkt._validation import label_text
from hgkt.exceptions import DataError

TEXT_COLUMNS = ("name", "class", "split", "id", "description", "file")
_MOST_COLUMNS = 20_000
_MISSING = ("", "nan", "NaN", "NA")


def read_csv(path: Path) -> pd.DataFrame:
    """Read a CSV file; words stay words, such as classes named "nan" or "007".

    Parameters
    ----------
    path : Path
        The file; its first line names the columns, each once.
    """
    text = dict.fromkeys(TEXT_COLUMNS, str)
    with reading(path, "a table"), open(path, "rb") as file, warnings.catch_warnings():
        # A row that is longer than the header would shift, or be cut, with a warning.
        warnings.simplefilter("error", pd.errors.ParserWarning)
        names = _header(file)
        # pandas gives columns without a name one of their own.
        check_columns([name or f"Unnamed: {i}" for i, name in enumerate(names)], path)
        file.seek(0)
        missing = {name: list(_MISSING) for name in names if name not in text}
        frame = pd.read_csv(
            file, dtype=text, keep_default_na=False, na_values=missing, index_col=False
        )
    for name in [name for name in TEXT_COLUMNS if name in frame]:
        frame[name] = frame[name].map(plain_cell)
    return frame.rename(columns=plain_cell)


def _header(file: Any) -> list[str]:
    """Return the names of the first line that has some, as the file has them."""
    text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
    try:
        return next((row for row in csv.reader(text) if row), [])
    finally:
        text.detach()


def read_parquet(path: Path, data: bytes | None = None, error: Refusal = DataError) -> Any:
    """Read a Parquet file as a pyarrow Table.

    Parameters
    ----------
    path : Path
        The file.
    data : bytes, optional
        Its content, where it has been read already.
    error : type of HGKTError, or callable
        Makes what is raised.
    """
    import pyarrow as pa
    from pyarrow import parquet

    with reading(path, "a table", error):
        size = path.stat().st_size if data is None else len(data)
        with parquet.ParquetFile(path if data is None else pa.BufferReader(data)) as file:
            check_columns(file.schema_arrow.names, path, error)
            found = file.metadata
            groups = [found.row_group(number) for number in range(found.num_row_groups)]
            n_values = sum(
                group.column(number).num_values
                for group in groups
                for number in range(group.num_columns)
            )
            stored = sum(group.total_byte_size for group in groups)
            check_unfolded(path, max(stored, 8 * n_values), size, error)
            return file.read()


def check_columns(names: Sequence[str], path: Path, error: Refusal = DataError) -> None:
    """Refuse a table that has a column twice, or more columns than a table can be read with."""
    if len(names) > _MOST_COLUMNS:
        raise error(
            f"{path} has {len(names)} columns; at most {_MOST_COLUMNS} are accepted: write longer "
            "rows as a list column of Parquet, as .npz or as .npy"
        )
    met: set[str] = set()
    for name in names:
        if name in met:
            raise error(f"{path} has the column {label_text(name)} twice; names must be unique")
        met.add(name)
