"""Own data as two tables, one row per instance and one row per class: Parquet, CSV and arrays."""

from __future__ import annotations

import csv
import io
import json
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from hgkt._arrays import batches
from hgkt._files import (
    Refusal,
    atomic_folder,
    check_unfolded,
    escape_frame,
    parse_json,
    plain_cell,
    read_json,
    reading,
)
from hgkt._plain import json_text
from hgkt._validation import check_choice, check_number, label_text
from hgkt.data.arrays import open_npy, read_npz
from hgkt.data.dataset import SPLITS, ClassFold, GZSLDataset, hold_out
from hgkt.exceptions import DataError

SUFFIXES = (".parquet", ".csv")
SAMPLE_COLUMNS = ("id", "class", "split", "features")
PARENT = "parent"
_CLASS_COLUMNS = ("name", "seen", "description", "attributes", PARENT)
_METADATA_KEY = b"hgkt"
FORMATS = ("parquet", "csv", "npz", "npy")
TEXT_COLUMNS = ("name", "class", "split", "id", "description", "file", PARENT)
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


def read_frame(path: Path) -> pd.DataFrame:
    """Read a Parquet or CSV file."""
    return read_table(path)[0]


def read_table(path: Path) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Read a Parquet or CSV file, and what hgkt wrote into it about its class vectors.

    Parameters
    ----------
    path : Path
        The file, .parquet or .csv; it is opened once.

    Returns
    -------
    frame : DataFrame
    origin : dict
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
        origin = parse_json((table.schema.metadata or {}).get(_METADATA_KEY, b"{}"))
        frame = table.to_pandas()
        # What pandas keeps in a file may name columns otherwise than the file itself.
        check_columns(list(map(str, frame.columns)), path)
    if not isinstance(origin, dict):
        raise DataError(f"{path} has metadata of another kind under the key 'hgkt'")
    return frame, {key: value for key, value in origin.items() if value is not None}


def parse_classes(
    frame: pd.DataFrame, path: Path
) -> tuple[tuple[str, ...], NDArray[np.float32], tuple[str, ...] | None]:
    """Return names, attributes (C, d) and, where columns have some, attribute names."""
    check_named(frame, path)
    names = tuple(frame["name"].astype(str))
    if "attributes" in frame:
        return names, stack_vectors(frame["attributes"], names, f"attributes in {path}"), None
    values, columns = numeric_columns(frame, _CLASS_COLUMNS, "a", path, "attributes")
    plain = columns == numbered_columns(columns, "a")
    return names, values, None if plain else tuple(columns)


def check_named(frame: pd.DataFrame, path: Path) -> None:
    """Refuse a table of classes without names."""
    check_column(frame, path, "name", "one row per class is expected")


def check_column(frame: pd.DataFrame, path: Path, column: str, expected: str) -> None:
    """Refuse a table without a column, and say which columns it has."""
    if column in frame:
        return
    found = [str(name) for name in frame.columns]
    shown = ", ".join(map(repr, found[:8])) + (", …" if len(found) > 8 else "")
    if len(found) == 1 and re.search(r"[;\t|]", found[0]):
        hint = "; columns are separated by commas"
    elif any(name.strip().lower() == column for name in found):
        hint = f"; write {column!r} in small letters, without spaces"
    else:
        hint = ""
    raise DataError(f"{path} has no column {column!r}; {expected}; it has {shown}{hint}")


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


def parse_parents(frame: pd.DataFrame, path: Path) -> dict[str, str]:
    """Return the group of each class that a column ``parent`` puts into one."""
    if PARENT not in frame:
        return {}
    found: dict[str, str] = {}
    pairs = frame[["name", PARENT]].dropna()
    for name, parent in zip(pairs["name"], pairs[PARENT], strict=True):
        # A class whose parent is its own name is in no group.
        if parent == name or not str(parent).strip():
            continue
        if found.setdefault(name, parent) != parent:
            raise DataError(f"{path} has class {name!r} in {found[name]!r} and in {parent!r}")
    return found


def has_attributes(frame: pd.DataFrame) -> bool:
    """Say whether a table of classes has numbers: a list column ``attributes`` or columns."""
    rest = frame.drop(columns=[name for name in _CLASS_COLUMNS if name in frame])
    return "attributes" in frame or any(_is_numeric(rest[column]) for column in rest)


def parse_features(frame: pd.DataFrame, path: Path) -> NDArray[np.float32]:
    """Return the features (n, D) of a table: its list column ``features``, or numeric columns."""
    if "features" in frame:
        rows = [row_text(path, row) for row in range(len(frame))]
        return stack_vectors(frame["features"], rows, f"features in {path}")
    return numeric_columns(frame, SAMPLE_COLUMNS, "f", path, "features")[0]


def numbered_columns(names: Iterable[str], letter: str) -> list[str]:
    """Return those of `names` that are a letter and a number, by the number.

    Examples
    --------
    >>> numbered_columns(["class", "f10", "f9"], "f")
    ['f9', 'f10']
    """
    found = [name for name in names if re.fullmatch(rf"{letter}\d+", name)]
    return sorted(found, key=lambda name: int(name[1:]))


def numeric_columns(
    frame: pd.DataFrame, others: tuple[str, ...], letter: str, path: Path, what: str
) -> tuple[NDArray[np.float32], list[str]]:
    """Return the numbered columns, else all numbers but `others`, and their names."""
    columns = numbered_columns(map(str, frame.columns), letter)
    if not columns:
        rest = frame.drop(columns=[name for name in others if name in frame])
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
    from pyarrow import parquet

    plain = pa.Table.from_pandas(frame, preserve_index=False)
    field = pa.field("features", pa.list_(pa.float32(), width))
    with parquet.ParquetWriter(path, plain.schema.append(field)) as file:
        for batch in batches(len(frame)):
            part = plain.slice(batch.start, batch.stop - batch.start)
            column = _list_column(rows(batch))
            file.write_table(part.append_column(field, column))


def write_classes(
    path: Path,
    frame: pd.DataFrame,
    attributes: NDArray[Any],
    origin: dict[str, Any] | None = None,
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
    origin : dict, optional
        What they were made with; `read_table` returns it.
    """
    from pyarrow import parquet

    table = pa.Table.from_pandas(frame, preserve_index=False)
    table = table.append_column("attributes", _list_column(attributes))
    if origin is not None:
        table = table.replace_schema_metadata({_METADATA_KEY: json.dumps(origin)})
    parquet.write_table(table, path)


def _list_column(values: NDArray[Any]) -> Any:
    flat = np.ascontiguousarray(values, dtype=np.float32).ravel()
    return pa.FixedSizeListArray.from_arrays(pa.array(flat), values.shape[1])


def read_tables(
    folder: str | Path, mmap: bool = False, test_fraction: float = 0.2, seed: int = 0
) -> GZSLDataset:
    """Read own data from a folder with a table of instances and a table of classes.

    ``samples.parquet``, ``.csv`` or ``.npz`` has a column ``class``, optionally ``id`` and
    ``split`` (train, test_seen, test_unseen; empty: not used), and the features as one list
    column ``features``, as numeric columns (``f0, f1, …``), or in ``features.npy`` beside it.
    ``classes.parquet`` or ``.csv`` has ``name``, optionally ``seen``, ``description`` and
    ``parent``, and the attributes as one list column ``attributes`` or as numeric columns.

    Without a column ``split`` all rows are train, and a class without rows is known by its
    attributes alone. Only where a class with rows is marked as unseen (``seen`` false) is there
    something to test: its rows are test_unseen then, and a share of each seen class is test_seen.

    Parameters
    ----------
    folder : path
        The folder.
    mmap : bool
        Whether ``features.npy`` stays on disk.
    test_fraction : float
        Share of each seen class that becomes test_seen where a split is made for testing.
    seed : int
        Seed of that choice.

    Returns
    -------
    GZSLDataset
    """
    folder = Path(folder)
    check_number("test_fraction", test_fraction, low=0.0, high=0.9, open_low=True)
    classes_path = _table_path(folder, "classes", SUFFIXES)
    classes, origin = read_table(classes_path)
    names, attributes, attribute_names = parse_classes(classes, classes_path)
    samples_path = _table_path(folder, "samples", (*SUFFIXES, ".npz"))
    samples, features, feature_file = _read_samples(samples_path, mmap)
    labels = _labels(samples, names, samples_path, classes_path.name)
    extra = read_extra(folder / "dataset.json")
    if "split" in samples:
        rows, note = _given_split(samples["split"], samples_path), "given"
    else:
        seen = parse_seen(classes, classes_path)
        rows, note = _made_split(labels, seen, test_fraction, seed)
    code = {name: position for position, name in enumerate(names)}
    try:
        folds = tuple(
            ClassFold([code[c] for c in train], [code[c] for c in val])  # type: ignore[arg-type]
            for train, val in extra.get("folds", [])
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"folds in {folder / 'dataset.json'} name no known class: {error}"
        ) from None
    about: dict[str, Any] = {
        "features": feature_file, "attributes": classes_path.name, "split": note,
    }  # fmt: skip
    if parents := parse_parents(classes, classes_path):
        about["parents"] = parents
    return GZSLDataset(
        name=str(extra.get("name", folder.resolve().name)),
        features=features,
        labels=labels,
        class_names=names,
        class_attributes=attributes,
        **rows,
        folds=folds,
        attribute_names=extra.get("attribute_names") or attribute_names,
        image_files=tuple(samples["id"].astype(str)) if "id" in samples else None,
        about={
            "attribute_blocks": [attributes.shape[1]],
            **about,
            **origin,
            **extra.get("about", {}),
            "layout": "tables",
        },
    )


def read_extra(path: Path) -> dict[str, Any]:
    """Read what else is known of a data set, each entry of its own kind; nothing without a file."""
    found = read_json(path) if path.is_file() else {}
    extra = {key: value for key, value in found.items() if value is not None}
    kinds = {"name": str, "folds": list, "attribute_names": list, "about": dict}
    for key, kind in kinds.items():
        if key in extra and not isinstance(extra[key], kind):
            value = str(extra[key])[:60]
            raise DataError(f"{key!r} of {path} is {value!r}; {kind.__name__} expected")
    return extra


def _table_path(folder: Path, stem: str, suffixes: tuple[str, ...]) -> Path:
    for suffix in suffixes:
        if (folder / f"{stem}{suffix}").is_file():
            return folder / f"{stem}{suffix}"
    choices = ", ".join(f"{stem}{suffix}" for suffix in suffixes)
    raise DataError(
        f"{folder} is neither in the benchmark's layout (att_splits.mat) nor a folder of tables: "
        f"it has none of {choices}"
    )


def _read_samples(path: Path, mmap: bool) -> tuple[pd.DataFrame, Any, str]:
    npy = path.with_name("features.npy")
    if path.suffix == ".npz":
        samples, features = _read_npz(path)
        if features is not None:
            return samples, features, path.name
    else:
        samples = read_frame(path)
    check_column(samples, path, "class", "the class of each row is expected")
    if npy.is_file() and "features" not in samples:
        features = open_npy(npy, mmap)
        if len(features) != len(samples):
            raise DataError(f"{npy} has {len(features)} rows; {path} has {len(samples)}")
        return samples, features, npy.name
    return samples, parse_features(samples, path), path.name


def _read_npz(path: Path) -> tuple[pd.DataFrame, NDArray[np.float32] | None]:
    arrays = read_npz(path, SAMPLE_COLUMNS)
    features = arrays.pop("features", None)
    if "class" not in arrays:
        raise DataError(f"{path} has no array 'class'; the class of each row is expected")
    for name, values in arrays.items():
        if values.ndim != 1:
            raise DataError(f"{name} in {path} has shape {values.shape}; a vector is expected")
    for name, values in {**arrays, **({} if features is None else {"features": features})}.items():
        n_rows = len(values) if values.ndim else 0
        if n_rows != len(arrays["class"]):
            raise DataError(f"{name} in {path} has {n_rows} rows; class differs in length")
    return pd.DataFrame({name: values.astype(str) for name, values in arrays.items()}), features


def _labels(
    samples: pd.DataFrame, names: tuple[str, ...], path: Path, classes_name: str
) -> NDArray[np.intp]:
    codes = pd.Index(names)
    if codes.has_duplicates:
        twice = label_text(codes[codes.duplicated()][0])
        raise DataError(f"class {twice} occurs twice in {classes_name}")
    labels = codes.get_indexer(pd.Index(samples["class"].astype(str)))
    for row in np.flatnonzero(labels < 0)[:1]:
        found = label_text(samples["class"].iloc[row])
        raise DataError(
            f"{row_text(path, row)} of {path} has class {found}, which is not in {classes_name}"
        )
    return np.asarray(labels, dtype=np.intp)


def _given_split(column: pd.Series, path: Path) -> dict[str, NDArray[np.intp]]:
    values = column.fillna("").astype(str).str.strip().to_numpy(dtype=object)
    for row in np.flatnonzero(~np.isin(values, [*SPLITS, ""]))[:1]:
        raise DataError(
            f"{row_text(path, row)} of {path} has split {label_text(values[row])}; expected is "
            f"one of {', '.join(SPLITS)}"
        )
    return {split: np.flatnonzero(values == split) for split in SPLITS}


def _made_split(
    labels: NDArray[np.intp], seen: NDArray[np.bool_] | None, fraction: float, seed: int
) -> tuple[dict[str, NDArray[np.intp]], str]:
    """Return the rows of the split, and how it was made."""
    if seen is None or seen[labels].all():
        none = np.zeros(0, dtype=np.intp)
        rows = {"train": np.arange(len(labels)), "test_seen": none, "test_unseen": none}
        return rows, "all rows are train"
    train, test_seen = hold_out(np.flatnonzero(seen[labels]), labels, fraction, seed)
    rows = {
        "train": train,
        "test_seen": test_seen,
        "test_unseen": np.flatnonzero(~seen[labels]),
    }
    return rows, f"test_seen is {fraction:g} of each seen class, seed {seed}"


# ---------------------------------------------------------------------- writing
def write_tables(dataset: GZSLDataset, path: str | Path, format: str = "parquet") -> Path:
    """Write instances, classes and what else is known to a new folder.

    Parameters
    ----------
    dataset : GZSLDataset
        The data set.
    path : path
        A folder that does not exist yet, or is empty.
    format : {"parquet", "csv", "npz", "npy"}
        "parquet": both tables, features as one list column; "csv": both tables, one column per
        number; "npz": compressed arrays; "npy": ``features.npy``, which can be memory-mapped,
        beside ``samples.csv``.

    Returns
    -------
    Path
        The folder.

    Examples
    --------
    >>> import tempfile
    >>> from hgkt.data import load_digits, read_tables
    >>> data = load_digits()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     again = read_tables(write_tables(data, f"{folder}/digits"))
    >>> again.fingerprint() == data.fingerprint()
    True
    """
    check_choice("format", format, FORMATS)
    with atomic_folder(path) as folder:
        samples = _samples_frame(dataset)
        writer = {"parquet": _parquet, "csv": _csv, "npz": _npz, "npy": _npy}[format]
        writer(dataset, samples, folder)
        extra = {
            "name": dataset.name,
            "folds": dataset.class_folds(),
            "attribute_names": dataset.attribute_names,
            "about": dataset.about,
        }
        (folder / "dataset.json").write_text(json_text(extra), encoding="utf-8")
    return Path(path)


def _samples_frame(dataset: GZSLDataset) -> pd.DataFrame:
    split = np.full(len(dataset.labels), "", dtype=object)
    for name in SPLITS:
        split[getattr(dataset, name)] = name
    columns: dict[str, Any] = {} if dataset.image_files is None else {"id": dataset.image_files}
    columns["class"] = np.array(dataset.class_names, dtype=object)[dataset.labels]
    return pd.DataFrame({**columns, "split": split})


def _classes_frame(dataset: GZSLDataset) -> pd.DataFrame:
    seen = np.isin(np.arange(len(dataset.class_names)), dataset.seen_classes)
    return pd.DataFrame({"name": dataset.class_names, "seen": seen})


def _parquet(dataset: GZSLDataset, samples: pd.DataFrame, folder: Path) -> None:
    write_classes(folder / "classes.parquet", _classes_frame(dataset), dataset.class_attributes)
    width = dataset.features.shape[1]
    write_samples(folder / "samples.parquet", samples, width, lambda rows: dataset.features[rows])


def _csv(dataset: GZSLDataset, samples: pd.DataFrame, folder: Path) -> None:
    _csv_classes(dataset, folder)
    for rows in batches(len(samples)):
        part = _with_numbers(samples.iloc[rows].reset_index(drop=True), dataset.features[rows], "f")
        part.to_csv(folder / "samples.csv", mode="a", header=rows.start == 0, index=False)


def _csv_classes(dataset: GZSLDataset, folder: Path) -> None:
    frame = _with_numbers(_classes_frame(dataset), dataset.class_attributes, "a")
    frame.to_csv(folder / "classes.csv", index=False)


def _with_numbers(frame: pd.DataFrame, values: NDArray[Any], letter: str) -> pd.DataFrame:
    """Return a table for CSV: words, then numbers in columns ``f0, f1, …``."""
    columns = [f"{letter}{number}" for number in range(values.shape[1])]
    numbers = pd.DataFrame(np.asarray(values, dtype=np.float32), columns=columns)
    return pd.concat([escape_frame(frame), numbers], axis=1)


def _npz(dataset: GZSLDataset, samples: pd.DataFrame, folder: Path) -> None:
    _csv_classes(dataset, folder)
    arrays = {str(name): samples[name].to_numpy(dtype=str) for name in samples}
    features = np.asarray(dataset.features, dtype=np.float32)
    np.savez_compressed(folder / "samples.npz", allow_pickle=False, features=features, **arrays)


def _npy(dataset: GZSLDataset, samples: pd.DataFrame, folder: Path) -> None:
    _csv_classes(dataset, folder)
    escape_frame(samples).to_csv(folder / "samples.csv", index=False)
    shape = dataset.features.shape
    target = np.lib.format.open_memmap(
        folder / "features.npy", mode="w+", dtype=np.float32, shape=shape
    )
    for rows in batches(len(target)):
        target[rows] = dataset.features[rows]
    target.flush()
