"""Own data as two tables, one row per instance and one row per class: read and written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hgkt._files import atomic_folder, read_json
from hgkt._plain import json_text
from hgkt._spreadsheets import escape_frame
from hgkt._validation import check_choice, check_number, label_text
from hgkt.data.array_files import read_npz
from hgkt.data.dataset import SPLITS, ClassFold, GZSLDataset, hold_out
from hgkt.data.frames import (
    SAMPLE_COLUMNS,
    SUFFIXES,
    parse_classes,
    parse_features,
    parse_seen,
    read_frame,
    read_made,
    row_text,
    write_classes,
    write_samples,
)
from hgkt.data.memmaps import open_npy
from hgkt.exceptions import DataError

FORMATS = ("parquet", "csv", "npz", "npy")
_CHUNK_ROWS = 4096


def read_tables(
    folder: str | Path, mmap: bool = False, test_fraction: float = 0.2, seed: int = 0
) -> GZSLDataset:
    """Read own data from a folder with a table of instances and a table of classes.

    ``samples.parquet``, ``.csv`` or ``.npz`` has a column ``class``, optionally ``id`` and
    ``split`` (train, test_seen, test_unseen; empty: not used), and the features as one list
    column ``features``, as numeric columns (``f0, f1, …``), or in ``features.npy`` beside it.
    ``classes.parquet`` or ``.csv`` has ``name``, optionally ``seen`` and ``description``, and
    the attributes as one list column ``attributes`` or as numeric columns.

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
    classes, made = read_made(classes_path)
    names, attributes, attribute_names = parse_classes(classes, classes_path)
    samples_path = _table_path(folder, "samples", (*SUFFIXES, ".npz"))
    samples, features, feature_file = _read_samples(samples_path, mmap)
    labels = _labels(samples, names, samples_path, classes_path.name)
    extra_path = folder / "dataset.json"
    extra = read_extra(extra_path) if extra_path.is_file() else {}
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
        raise DataError(f"folds in {extra_path} name no known class: {error}") from None
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
            **made,
            **extra.get("about", {}),
            "layout": "tables",
        },
    )


def read_extra(path: Path) -> dict[str, Any]:
    """Read what else is known of a data set, each entry of its own kind."""
    extra = {key: value for key, value in read_json(path).items() if value is not None}
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
    if "class" not in samples:
        raise DataError(f"{path} has no column 'class'; the class of each row is expected")
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
    columns = [f"f{number}" for number in range(dataset.features.shape[1])]
    for start in range(0, len(samples), _CHUNK_ROWS):
        rows = slice(start, start + _CHUNK_ROWS)
        part = escape_frame(samples.iloc[rows].reset_index(drop=True))
        values = np.asarray(dataset.features[rows], dtype=np.float32)
        frame = pd.concat([part, pd.DataFrame(values, columns=columns)], axis=1)
        frame.to_csv(folder / "samples.csv", mode="a", header=start == 0, index=False)


def _csv_classes(dataset: GZSLDataset, folder: Path) -> None:
    columns = [f"a{number}" for number in range(dataset.class_attributes.shape[1])]
    values = pd.DataFrame(dataset.class_attributes, columns=columns)
    frame = pd.concat([escape_frame(_classes_frame(dataset)), values], axis=1)
    frame.to_csv(folder / "classes.csv", index=False)


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
    for start in range(0, len(target), _CHUNK_ROWS):
        target[start : start + _CHUNK_ROWS] = dataset.features[start : start + _CHUNK_ROWS]
    target.flush()
