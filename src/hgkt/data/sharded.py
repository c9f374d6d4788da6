"""Open a folder, whatever its layout, as shards."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hgkt._validation import check_number
from hgkt.data import find_folder, load_dataset
from hgkt.data.array_shards import NpzShard, dataset_shards, npy_shards
from hgkt.data.attribute_files import is_file
from hgkt.data.dataset import GZSLDataset
from hgkt.data.frames import SUFFIXES, parse_classes, parse_seen, read_made
from hgkt.data.own_data import read_extra
from hgkt.data.parquet_shards import parquet_shards
from hgkt.data.shards import SHARD_ROWS, KeptShard, Shard, ShardedData
from hgkt.exceptions import DataError

_FEATURES, _LABELS = "features", "labels"


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
    - .npz files with arrays ``features``, ``class`` and perhaps ``split``;
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
        found = parquet_shards(one, one.name, shard_rows)
        return _open(one.parent, found, one.name, attributes)
    folder = find_folder(path, root)
    if (folder / "att_splits.mat").is_file() or _is_table_beside_npy(folder):
        dataset = load_dataset(
            folder, features=features, attributes=attributes, mmap=True, validate=False
        )
        return _of_dataset(dataset, shard_rows)
    shards, what = _shards_in(folder, shard_rows)
    if not shards:
        raise DataError(
            f"{folder} has no rows to train on: Parquet files, pairs of {_FEATURES}.npy and "
            f"{_LABELS}.npy, .npz files or a data set of the benchmark's layout are expected"
        )
    return _open(folder, shards, what, attributes)


def has_shards(path: str | Path) -> bool:
    """Say whether a folder can be read in shards only: `load_dataset` cannot read it."""
    folder = Path(path)
    if not folder.is_dir() or (folder / "att_splits.mat").is_file():
        return False
    if any((folder / f"samples{suffix}").is_file() for suffix in (*SUFFIXES, ".npz")):
        return False
    return bool(_parquet_files(folder) or _npy_pairs(folder) or list(folder.glob("*.npz")))


def _shards_in(folder: Path, size: int) -> tuple[list[Shard], str]:
    shards: list[Shard] = []
    for path in _parquet_files(folder):
        shards += parquet_shards(path, path.relative_to(folder).as_posix(), size)
    if shards:
        return shards, "*.parquet"
    for features, labels in _npy_pairs(folder):
        shards += npy_shards(features, labels, size)
    if shards:
        return shards, "*.npy"
    return [NpzShard(path) for path in sorted(folder.glob("*.npz"))], "*.npz"


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


def _is_table_beside_npy(folder: Path) -> bool:
    beside = any((folder / f"samples{suffix}").is_file() for suffix in (*SUFFIXES, ".npz"))
    return beside and (folder / "features.npy").is_file()


def _of_dataset(dataset: GZSLDataset, size: int) -> ShardedData:
    codes = range(len(dataset.class_names))
    tested = dataset.names(np.unique(dataset.labels[dataset.test_unseen]))
    about = {"attribute_names": dataset.attribute_names, **dataset.about}
    attributes, folds = dataset.attributes_of(codes), dataset.class_folds()
    shards = dataset_shards(dataset, size)
    return ShardedData(dataset.name, shards, attributes, frozenset(tested), folds, about)


def _open(folder: Path, shards: Sequence[Shard], what: str, attributes: str) -> ShardedData:
    """Read what lies beside the shards: the table of classes, and what else is known."""
    tables = [folder / f"classes{suffix}" for suffix in SUFFIXES]
    path = next((path for path in tables if path.is_file()), None)
    if is_file(attributes):
        path = next((p for p in (Path(attributes), folder / attributes) if p.is_file()), None)
        if path is None:
            raise DataError(f"{attributes} does not exist; a table of class attributes expected")
    elif attributes != "att":
        raise DataError(
            f"attributes {attributes!r} of shards must be 'att', the table of classes beside them, "
            "or one table (.parquet, .csv)"
        )
    extra_path = folder / "dataset.json"
    extra = read_extra(extra_path) if extra_path.is_file() else {}
    about: dict[str, Any] = {"features": what, **extra.get("about", {}), "layout": "shards"}
    vectors: dict[str, Any] = {}
    if path is not None:
        frame, made = read_made(path)
        names, values, attribute_names = parse_classes(frame, path)
        vectors = dict(zip(names, values.astype(np.float64), strict=True))
        seen = parse_seen(frame, path)
        if seen is not None and not seen.all():
            unseen = frozenset(np.array(names)[~seen].tolist())
            shards = [KeptShard(shard, unseen) for shard in shards]
        about = {
            "attribute_blocks": [values.shape[1]],
            "attribute_names": extra.get("attribute_names") or attribute_names,
            "attributes": path.name,
            **made,
            **about,
        }
    folds = [(list(train), list(val)) for train, val in extra.get("folds", [])]
    name = str(extra.get("name", folder.resolve().name))
    return ShardedData(name, list(shards), vectors, frozenset(), folds, about)
