"""Own data in two tables: one row an instance, one row a class."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hgkt._validation import check_number
from hgkt.data.dataset import SPLITS, ClassFold, GZSLDataset
from hgkt.data.memmaps import open_npy
from hgkt.data.splits import hold_out
from hgkt.exceptions import DataError

_CLASS_COLUMNS = ("name", "seen", "description", "attributes")
SAMPLE_COLUMNS = ("id", "class", "split", "features")
METADATA_KEY = b"hgkt"


def read_tables(
    folder: str | Path, mmap: bool = False, test_fraction: float = 0.2, seed: int = 0
) -> GZSLDataset:
    """Read own data from a folder with a table of instances and a table of classes.

    ``samples.parquet``, ``.csv`` or ``.npz`` has a column ``class``, optionally ``id`` and
    ``split`` (train, test_seen, test_unseen; empty: not used), and the features as one list
    column ``features``, as numeric columns (``f0, f1, …``), or in ``features.npy`` beside it.
    ``classes.parquet`` or ``.csv`` has ``name``, optionally ``seen`` and ``description``, and
    the attributes as one list column ``attributes`` or as numeric columns. Without a column
    ``split``, classes with ``seen`` false are unseen and a share of each seen class is test_seen.

    Parameters
    ----------
    folder : path
        The folder.
    mmap : bool
        Whether ``features.npy`` stays on disk.
    test_fraction : float
        Share of each seen class that becomes test_seen where there is no column ``split``.
    seed : int
        Seed of that choice.

    Returns
    -------
    GZSLDataset
    """
    folder = Path(folder)
    check_number("test_fraction", test_fraction, low=0.0, high=0.9, open_low=True)
    classes_path = _table_path(folder, "classes", (".parquet", ".csv"))
    classes = read_frame(classes_path)
    names, attributes, attribute_names = parse_classes(classes, classes_path)
    samples_path = _table_path(folder, "samples", (".parquet", ".csv", ".npz"))
    samples, features, feature_file = _read_samples(samples_path, mmap)
    labels = _labels(samples, names, samples_path, classes_path.name)
    extra = _read_extra(folder)
    if "split" in samples:
        rows, note = _given_split(samples["split"], samples_path), "given"
    else:
        seen = _seen_flags(classes, classes_path)
        rows = _made_split(labels, seen, test_fraction, seed)
        note = f"test_seen is {test_fraction:g} of each seen class, seed {seed}"
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
    about = {"features": feature_file, "attributes": classes_path.name, "split": note}
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
            **read_metadata(classes_path),
            **extra.get("about", {}),
            "layout": "tables",
        },
    )


def _table_path(folder: Path, stem: str, suffixes: tuple[str, ...]) -> Path:
    for suffix in suffixes:
        if (folder / f"{stem}{suffix}").is_file():
            return folder / f"{stem}{suffix}"
    choices = ", ".join(f"{stem}{suffix}" for suffix in suffixes)
    raise DataError(
        f"{folder} is neither in the benchmark's layout (att_splits.mat) nor a folder of tables: "
        f"it has none of {choices}"
    )


def read_frame(path: Path) -> pd.DataFrame:
    """Read a Parquet or CSV table."""
    try:
        if path.suffix == ".parquet":
            return pd.read_parquet(path)
        # Class names such as "nan" or "007" are names, not missing values or numbers.
        text = dict.fromkeys(("name", "class", "split", "id", "description"), str)
        numbers = [str(name) for name in pd.read_csv(path, nrows=0) if name not in text]
        missing = {name: ["", "nan", "NaN", "NA"] for name in numbers}
        return pd.read_csv(path, dtype=text, keep_default_na=False, na_values=missing)
    except (OSError, ValueError, UnicodeDecodeError, pd.errors.ParserError) as error:
        first_line = (str(error).splitlines() or [""])[0]
        raise DataError(f"{path} cannot be read as a table: {first_line}") from error


def read_metadata(path: Path) -> dict[str, Any]:
    """Return what hgkt wrote about class vectors in a Parquet file; empty where it did not."""
    if path.suffix != ".parquet":
        return {}
    from pyarrow import ArrowException, parquet

    try:
        made = json.loads((parquet.read_schema(path).metadata or {}).get(METADATA_KEY, b"{}"))
    except (ArrowException, OSError, ValueError) as error:
        first_line = (str(error).splitlines() or [""])[0]
        raise DataError(f"{path} cannot be read as a table: {first_line}") from error
    if not isinstance(made, dict):
        raise DataError(f"{path} has metadata of another kind under the key 'hgkt'")
    return {key: value for key, value in made.items() if value is not None}


def parse_classes(
    frame: pd.DataFrame, path: Path
) -> tuple[tuple[str, ...], NDArray[np.float32], tuple[str, ...] | None]:
    """Return names, attributes (C, d) and, where columns have some, attribute names."""
    if "name" not in frame:
        raise DataError(f"{path} has no column 'name'; one row a class is expected")
    names = tuple(frame["name"].astype(str))
    if "attributes" in frame:
        return names, stack_vectors(frame["attributes"], names, f"attributes in {path}"), None
    values, columns = numeric_columns(frame, _CLASS_COLUMNS, r"a\d+", path, "attributes")
    plain = all(re.fullmatch(r"a\d+", column) for column in columns)
    return names, values, None if plain else tuple(columns)


def _read_samples(path: Path, mmap: bool) -> tuple[pd.DataFrame, Any, str]:
    npy = path.with_name("features.npy")
    if path.suffix == ".npz":
        samples, features = _read_npz(path)
        if features is not None:
            return samples, features, path.name
    else:
        samples = read_frame(path)
    if "class" not in samples:
        raise DataError(f"{path} has no column 'class'; the class of each row is expected")
    if "features" in samples:
        rows = [f"row {row}" for row in range(len(samples))]
        return samples, stack_vectors(samples["features"], rows, f"features in {path}"), path.name
    if npy.is_file():
        features = open_npy(npy, mmap)
        if len(features) != len(samples):
            raise DataError(f"{npy} has {len(features)} rows; {path} has {len(samples)}")
        return samples, features, npy.name
    values, _ = numeric_columns(samples, SAMPLE_COLUMNS, r"f\d+", path, "features")
    return samples, values, path.name


def _read_npz(path: Path) -> tuple[pd.DataFrame, NDArray[np.float32] | None]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in SAMPLE_COLUMNS if name in archive}
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path} cannot be read as a .npz file: {error}") from error
    features = arrays.pop("features", None)
    if "class" not in arrays:
        raise DataError(f"{path} has no array 'class'; the class of each row is expected")
    for name, values in [*arrays.items(), ("features", features)]:
        if values is not None and len(values) != len(arrays["class"]):
            raise DataError(f"{name} in {path} has {len(values)} rows; class differs in length")
    return pd.DataFrame({name: values.astype(str) for name, values in arrays.items()}), features


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
            raise DataError(f"column {column!r} of {path} holds something that is not a number")
    return frame[columns].to_numpy(dtype=np.float32), columns


def _is_numeric(column: pd.Series) -> bool:
    """Tell numbers from text; numbers among which a word strayed count as numbers."""
    return column.dtype.kind in "fiub" or bool(pd.to_numeric(column, errors="coerce").notna().any())


def stack_vectors(column: pd.Series, who: Any, what: str) -> NDArray[np.float32]:
    """Stack a list column; in CSV a list is written as JSON."""
    vectors: list[NDArray[np.float32]] = []
    for owner, value in zip(who, column, strict=True):
        try:
            vector = np.asarray(json.loads(value) if isinstance(value, str) else value, np.float32)
        except (TypeError, ValueError):
            raise DataError(
                f"{what}: {owner} holds something that is not a list of numbers"
            ) from None
        if vector.ndim != 1 or (vectors and len(vector) != len(vectors[0])):
            expected = f"{len(vectors[0])} numbers" if vectors else "a list of numbers"
            raise DataError(f"{what}: {owner} has shape {vector.shape}; {expected} are expected")
        vectors.append(vector)
    return np.array(vectors, dtype=np.float32).reshape(len(vectors), -1 if vectors else 0)


def _labels(
    samples: pd.DataFrame, names: tuple[str, ...], path: Path, classes_name: str
) -> NDArray[np.intp]:
    codes = pd.Index(names)
    if codes.has_duplicates:
        raise DataError(f"class {codes[codes.duplicated()][0]!r} occurs twice in {classes_name}")
    labels = codes.get_indexer(pd.Index(samples["class"].astype(str)))
    for row in np.flatnonzero(labels < 0)[:1]:
        raise DataError(
            f"row {row} of {path} has class {samples['class'].iloc[row]!r}, which is not in "
            f"{classes_name}"
        )
    return np.asarray(labels, dtype=np.intp)


def _given_split(column: pd.Series, path: Path) -> dict[str, NDArray[np.intp]]:
    values = column.fillna("").astype(str).str.strip().to_numpy(dtype=object)
    for row in np.flatnonzero(~np.isin(values, [*SPLITS, ""]))[:1]:
        raise DataError(
            f"row {row} of {path} has split {values[row]!r}; expected is one of {', '.join(SPLITS)}"
        )
    return {split: np.flatnonzero(values == split) for split in SPLITS}


def _seen_flags(classes: pd.DataFrame, path: Path) -> NDArray[np.bool_]:
    if "seen" not in classes:
        raise DataError(
            f"which classes are unseen is not said: give the samples a column 'split', or {path} "
            "a column 'seen'"
        )
    words = classes["seen"].astype(str).str.strip().str.lower()
    flags = words.map({"true": True, "1": True, "1.0": True, "yes": True,
                       "false": False, "0": False, "0.0": False, "no": False})  # fmt: skip
    for row in np.flatnonzero(flags.isna())[:1]:
        raise DataError(
            f"row {row} of {path} has seen = {words.iloc[row]!r}; true or false expected"
        )
    return flags.to_numpy(dtype=bool)


def _made_split(
    labels: NDArray[np.intp], seen: NDArray[np.bool_], fraction: float, seed: int
) -> dict[str, NDArray[np.intp]]:
    train, test_seen = hold_out(np.flatnonzero(seen[labels]), labels, fraction, seed)
    return {"train": train, "test_seen": test_seen, "test_unseen": np.flatnonzero(~seen[labels])}


def _read_extra(folder: Path) -> dict[str, Any]:
    path = folder / "dataset.json"
    if not path.is_file():
        return {}
    try:
        extra = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(extra, dict):
        raise DataError(f"{path} must hold one JSON object")
    return extra
