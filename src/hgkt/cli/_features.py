"""Feature matrices from files that a user hands in: .npy, .npz, .csv, .parquet, .mat."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from hgkt._validation import check_finite
from hgkt.exceptions import DataError

_SUFFIXES = (".npy", ".npz", ".csv", ".parquet", ".mat")

InputOption = Annotated[
    Path | None,
    typer.Option("--input", metavar="FILE", help=f"Features: {', '.join(_SUFFIXES)}."),
]


def read_features(path: Path, n_features: int) -> NDArray[Any]:
    """Read a matrix with `n_features` columns; one row an instance.

    A table has the features as numeric columns (``f0, f1, …``) or as one list column
    ``features``; an archive has them under ``features`` or holds a single matrix. A MATLAB file
    may hold them as the benchmark does, one column an instance. One vector counts as one row.

    Parameters
    ----------
    path : Path
        The file.
    n_features : int
        What the model expects.

    Returns
    -------
    ndarray of shape (n, n_features)
    """
    if path.suffix not in _SUFFIXES:
        raise DataError(
            f"{path} has the suffix {path.suffix!r}; one of {', '.join(_SUFFIXES)} is expected"
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
    matrix = matrix if matrix.dtype == np.float32 else matrix.astype(np.float64)
    check_finite(matrix, f"features in {path}")
    return matrix


def _read_numpy(path: Path) -> NDArray[Any]:
    try:
        loaded = np.load(path, allow_pickle=False)
        if path.suffix == ".npy":
            return np.asarray(loaded)
        with loaded as archive:
            matrices = {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, KeyError) as error:
        raise DataError(f"{path} cannot be read as a {path.suffix} file: {error}") from error
    if "features" in matrices:
        return matrices["features"]
    wide = [name for name, array in matrices.items() if array.ndim == 2]
    if len(wide) != 1:
        raise DataError(
            f"{path} has no array 'features' and not a single matrix; it holds: "
            f"{', '.join(matrices) or 'nothing'}"
        )
    return matrices[wide[0]]


def _read_mat(path: Path) -> NDArray[Any]:
    from hgkt.data.matfile import read_mat

    found = read_mat(path, ["features"])
    if "features" not in found:
        raise DataError(f"{path} has no variable 'features'")
    return np.asarray(found["features"])


def _read_table(path: Path) -> NDArray[Any]:
    from hgkt.data.tables import SAMPLE_COLUMNS, numeric_columns, read_frame, stack_vectors

    frame = read_frame(path)
    if "features" in frame:
        rows = [f"row {row}" for row in range(len(frame))]
        return stack_vectors(frame["features"], rows, f"features in {path}")
    return numeric_columns(frame, SAMPLE_COLUMNS, r"f\d+", path, "features")[0]
