"""Write a data set as two tables that `read_tables` and any data-frame library can read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hgkt._validation import check_choice
from hgkt.data.dataset import SPLITS, GZSLDataset
from hgkt.data.scratch import new_folder

FORMATS = ("parquet", "csv", "npz", "npy")
_CHUNK_ROWS = 4096


def write_tables(dataset: GZSLDataset, path: str | Path, format: str = "parquet") -> Path:
    """Write instances, classes and what else is known to a new folder.

    Parameters
    ----------
    dataset : GZSLDataset
        The data set.
    path : path
        A folder that does not exist yet, or is empty.
    format : {"parquet", "csv", "npz", "npy"}
        "parquet": both tables, features as one list column; "csv": both tables, one column a
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
    with new_folder(path) as folder:
        samples = _samples_frame(dataset)
        writer = {"parquet": _parquet, "csv": _csv, "npz": _npz, "npy": _npy}[format]
        writer(dataset, samples, folder)
        extra = {
            "name": dataset.name,
            "folds": dataset.class_folds(),
            "attribute_names": dataset.attribute_names,
            "about": dataset.about,
        }
        (folder / "dataset.json").write_text(json.dumps(extra, indent=2) + "\n", encoding="utf-8")
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
    import pyarrow as pa
    from pyarrow import parquet

    classes = pa.Table.from_pandas(_classes_frame(dataset), preserve_index=False)
    classes = classes.append_column("attributes", _list_column(dataset.class_attributes))
    parquet.write_table(classes, folder / "classes.parquet")
    plain = pa.Table.from_pandas(samples, preserve_index=False)
    width = dataset.features.shape[1]
    schema = plain.schema.append(pa.field("features", pa.list_(pa.float32(), width)))
    with parquet.ParquetWriter(folder / "samples.parquet", schema) as file:
        for start in range(0, len(samples), _CHUNK_ROWS):
            part = plain.slice(start, _CHUNK_ROWS)
            column = _list_column(dataset.features[start : start + _CHUNK_ROWS])
            file.write_table(part.append_column(schema.field("features"), column))


def _list_column(values: NDArray[Any]) -> Any:
    import pyarrow as pa

    flat = np.ascontiguousarray(values, dtype=np.float32).ravel()
    return pa.FixedSizeListArray.from_arrays(pa.array(flat), values.shape[1])


def _csv(dataset: GZSLDataset, samples: pd.DataFrame, folder: Path) -> None:
    _csv_classes(dataset, folder)
    columns = [f"f{number}" for number in range(dataset.features.shape[1])]
    for start in range(0, len(samples), _CHUNK_ROWS):
        rows = slice(start, start + _CHUNK_ROWS)
        part = samples.iloc[rows].reset_index(drop=True)
        values = np.asarray(dataset.features[rows], dtype=np.float32)
        frame = pd.concat([part, pd.DataFrame(values, columns=columns)], axis=1)
        frame.to_csv(folder / "samples.csv", mode="a", header=start == 0, index=False)


def _csv_classes(dataset: GZSLDataset, folder: Path) -> None:
    columns = [f"a{number}" for number in range(dataset.class_attributes.shape[1])]
    values = pd.DataFrame(dataset.class_attributes, columns=columns)
    pd.concat([_classes_frame(dataset), values], axis=1).to_csv(folder / "classes.csv", index=False)


def _npz(dataset: GZSLDataset, samples: pd.DataFrame, folder: Path) -> None:
    _csv_classes(dataset, folder)
    arrays = {str(name): samples[name].to_numpy(dtype=str) for name in samples}
    features = np.asarray(dataset.features, dtype=np.float32)
    np.savez_compressed(folder / "samples.npz", allow_pickle=False, features=features, **arrays)


def _npy(dataset: GZSLDataset, samples: pd.DataFrame, folder: Path) -> None:
    _csv_classes(dataset, folder)
    samples.to_csv(folder / "samples.csv", index=False)
    shape = dataset.features.shape
    target = np.lib.format.open_memmap(
        folder / "features.npy", mode="w+", dtype=np.float32, shape=shape
    )
    for start in range(0, len(target), _CHUNK_ROWS):
        target[start : start + _CHUNK_ROWS] = dataset.features[start : start + _CHUNK_ROWS]
    target.flush()
