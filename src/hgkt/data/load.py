"""Load a data set by its name or its path, or rows of features from a file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt._registry import Entry, Registry
from hgkt._validation import check_features
from hgkt.data.dataset import GZSLDataset
from hgkt.exceptions import DataError, UnknownNameError

FEATURE_SUFFIXES = (".npy", ".npz", ".csv", ".parquet", ".mat")
"""Files of rows of features; see `read_features`."""

DATASETS = Registry(
    "data set",
    {
        "digits": Entry(
            "hgkt.data.digits:load_digits",
            "handwritten digits with seven-segment and shape attributes; needs no download",
            "Alpaydin and Kaynak, Optical Recognition of Handwritten Digits, UCI, 1998",
            "embedded",
        ),
        "synthetic": Entry(
            "hgkt.data.synthetic:make_synthetic",
            "any size; class means are a smooth, non-linear map of the attributes",
            family="generated",
        ),
    },
)


def load_dataset(
    name_or_path: str | Path,
    root: str | Path | None = None,
    features: str | None = None,
    attributes: str = "att",
    mmap: bool = False,
    validate: bool = True,
    **options: Any,
) -> GZSLDataset:
    """Load a data set by name or path.

    Parameters
    ----------
    name_or_path : str or path
        A registered name ("digits", "synthetic"), the name of a benchmark folder under `root`
        (upper or lower case), or a path to a folder in the xlsa17 or the table layout.
    root : path, optional
        Folder that holds the benchmark's folders; by default ``$HGKT_DATA``.
    features : str, optional
        Feature file of an xlsa17 folder, without its suffix; by default "res101", or the only one
        that is there.
    attributes : str
        Class attributes: of an xlsa17 folder "att", "original_att" or the NAME of a
        ``NAME_splits.mat`` ("sent"); of any data set
        a file of class vectors (``names.parquet``, ``.csv``); or kinds joined by "+", where
        "att" stands for the data set's own. Each part of a "+" is scaled to length one.
    mmap : bool
        Whether features stay on disk, memory-mapped.
    validate : bool
        Whether to look at every number and refuse an unusable data set.
    **options
        Passed to the loader: ``unseen=`` of digits, the sizes of synthetic, ``seed=`` of tables.

    Returns
    -------
    GZSLDataset

    Examples
    --------
    >>> load_dataset("digits", unseen=("three", "six")).summary()["n_unseen_classes"]
    2
    """
    kinds, own = _split_kinds(attributes)
    folder: Path | None = None
    loader: Callable[..., GZSLDataset]
    # A Path is always a folder, even one that is called "digits".
    if isinstance(name_or_path, str) and name_or_path in DATASETS:
        loader = DATASETS.load(name_or_path)
    else:
        folder = find_folder(name_or_path, root)
        options = {"mmap": mmap, **options}
        if (folder / "att_splits.mat").is_file():
            from hgkt.data.xlsa17 import read_xlsa17

            loader = partial(read_xlsa17, folder)
            options = {"features": features, "attributes": own, **options}
        else:
            from hgkt.data.tables import read_tables

            loader = partial(read_tables, folder)
    _check_options(loader, options, str(folder or name_or_path))
    data = loader(**options)
    if own != attributes:
        from hgkt.data.attributes import join_attributes

        data = join_attributes(data, kinds, folder)
    return data.validate() if validate else data


def _split_kinds(attributes: str) -> tuple[list[str], str]:
    """Return all attribute kinds, and those that are no files as the readers take them."""
    if not any(suffix in attributes for suffix in (".parquet", ".csv")):
        return [attributes], attributes
    from hgkt.data.attributes import is_file, split_kinds

    kinds = split_kinds(attributes)
    own = [kind for kind in kinds if not is_file(kind)]
    # A folder's own attributes are read in any case: they say how many classes there are.
    return kinds, "+".join(own) or "att"


def _check_options(loader: Callable[..., GZSLDataset], options: Iterable[str], name: str) -> None:
    """Refuse an option that a loader does not have with one sentence, not a traceback."""
    choices = list(signature(loader).parameters)
    for option in options:
        if option not in choices:
            raise DataError(
                f"data set {name!r} has no option {option!r}; it has: {', '.join(choices)}"
            )


def data_root(root: str | Path | None = None) -> Path | None:
    """Return `root`, else the folder that ``$HGKT_DATA`` names, else None."""
    chosen = root if root is not None else os.environ.get("HGKT_DATA")
    return Path(chosen) if chosen else None


def find_folder(name_or_path: str | Path, root: str | Path | None = None) -> Path:
    """Return the folder of a data set, given its path or its name under `root`.

    Parameters
    ----------
    name_or_path : str or path
        A folder, or the name of one under `root` in upper or lower case.
    root : path, optional
        By default ``$HGKT_DATA``.

    Returns
    -------
    Path
    """
    base = data_root(root)
    inside = [p for p in sorted(base.iterdir()) if p.is_dir()] if base and base.is_dir() else []
    for folder in inside:
        if folder.name.lower() == str(name_or_path).lower():
            return folder
    path = Path(name_or_path)
    if path.is_dir():
        return path
    names = ", ".join([*DATASETS, *(p.name for p in inside if not p.name.startswith("."))])
    where = f"in {base}" if base else "anywhere, as neither root nor $HGKT_DATA is set"
    raise UnknownNameError(
        f"data set {str(name_or_path)!r} is no folder and was not found {where}; there is: {names}"
    )


# ---------------------------------------------------------------------- rows of features
def read_features(path: str | Path, n_features: int) -> NDArray[Any]:
    """Read a matrix with `n_features` columns; one row per instance.

    A table has the features as numeric columns (``f0, f1, …``) or as one list column
    ``features``; an archive has them under ``features`` or holds a single matrix. A MATLAB file
    may hold them as the benchmark does, one column per instance. One vector counts as one row.

    Parameters
    ----------
    path : path
        The file: .npy, .npz, .csv, .parquet or .mat.
    n_features : int
        What the model expects.

    Returns
    -------
    ndarray of shape (n, n_features)
    """
    path = Path(path)
    if path.suffix not in FEATURE_SUFFIXES:
        raise DataError(
            f"{path} has the suffix {path.suffix!r}; one of {', '.join(FEATURE_SUFFIXES)} is "
            "expected"
        )
    if not path.is_file():
        raise DataError(f"{path} does not exist")
    readers = {".npy": _read_numpy, ".npz": _read_numpy, ".mat": _read_mat}
    matrix = np.asarray(readers.get(path.suffix, _read_table)(path))
    if matrix.dtype.kind not in "fiub":
        raise DataError(f"{path} holds {matrix.dtype}; numbers are expected")
    if matrix.ndim == 1:
        matrix = matrix[None, :]
    if path.suffix == ".mat" and matrix.shape[0] == n_features != matrix.shape[1]:
        matrix = matrix.T
    if matrix.ndim != 2 or not len(matrix):
        raise DataError(f"{path} has shape {matrix.shape}; rows of features are expected")
    if matrix.shape[1] != n_features:
        raise DataError(
            f"{path} has {matrix.shape[1]} features a row; the model expects {n_features}"
        )
    if matrix.dtype != np.float32:  # small numbers fit float32 without loss
        matrix = matrix.astype(np.float32 if matrix.dtype.itemsize <= 2 else np.float64)
    check_features(matrix, f"features in {path}")
    return matrix


def _read_numpy(path: Path) -> NDArray[Any]:
    from hgkt.data.arrays import read_npy, read_npz

    if path.suffix == ".npy":
        return read_npy(path)
    matrices = read_npz(path)
    if "features" in matrices:
        return matrices["features"]
    wide = [array for array in matrices.values() if array.ndim == 2]
    if len(wide) != 1:
        raise DataError(
            f"{path} has no array 'features' and not a single matrix; it holds: "
            f"{', '.join(matrices) or 'nothing'}"
        )
    return wide[0]


def _read_mat(path: Path) -> NDArray[Any]:
    from hgkt.data.matlab import read_mat

    found = read_mat(path, ["features"])
    if "features" not in found:
        raise DataError(f"{path} has no variable 'features'")
    return np.asarray(found["features"])


def _read_table(path: Path) -> NDArray[Any]:
    from hgkt.data.tables import parse_features, read_frame

    return parse_features(read_frame(path), path)
