"""Feature matrices that stay on disk: converted once, in pieces, then memory-mapped."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt._files import atomic_file, sha256
from hgkt.data.array_files import read_npy
from hgkt.exceptions import DataError

_CHUNK_BYTES = 2**26


def cache_folder() -> Path:
    """Return the folder of converted files: ``$HGKT_CACHE``, else ``~/.cache/hgkt``."""
    chosen = os.environ.get("HGKT_CACHE")
    return Path(chosen) if chosen else Path.home() / ".cache" / "hgkt"


def open_npy(path: Path, mmap: bool = True) -> NDArray[Any]:
    """Open a .npy matrix, memory-mapped or read whole; never unpickles.

    Parameters
    ----------
    path : Path
        The file.
    mmap : bool
        Whether the numbers stay on disk.

    Returns
    -------
    ndarray or memmap
    """
    array = read_npy(path, mmap)
    if array.ndim != 2 or array.dtype.kind not in "fiu":
        raise DataError(
            f"{path} must hold a matrix of numbers (instances, features); "
            f"got {array.dtype} of shape {array.shape}"
        )
    if mmap and array.dtype.kind != "f":
        return cached_npy(path, array.dtype.str, array.shape, pieces_of(array))
    return array


def cached_npy(
    source: Path, what: str, shape: tuple[int, ...], pieces: Iterator[NDArray[Any]]
) -> NDArray[np.float32]:
    """Write `pieces` of rows to the cache as float32, unless they are there, and memory-map them.

    Parameters
    ----------
    source : Path
        The file the pieces come from; a changed file is converted anew.
    what : str
        Which part of the file.
    shape : tuple of int
        Shape of the whole.
    pieces : iterator of ndarray
        Consecutive rows.

    Returns
    -------
    memmap of shape `shape`
    """
    status = source.stat()
    key = f"{source.resolve()}|{status.st_size}|{status.st_mtime_ns}|{what}|{shape}"
    target = cache_folder() / f"{source.stem}-{sha256(key)[:16]}.npy"
    if not target.is_file():

        def error(sentence: str) -> DataError:
            hint = "name another folder with HGKT_CACHE"
            return DataError(f"{sentence} (the converted features of {source}); {hint}")

        with atomic_file(target, error) as scratch, open(scratch, "wb") as file:
            header = {"descr": "<f4", "fortran_order": False, "shape": tuple(map(int, shape))}
            np.lib.format.write_array_header_2_0(file, header)
            for piece in pieces:
                file.write(np.ascontiguousarray(piece, dtype="<f4").data)
    return open_npy(target)


def pieces_of(values: Any, columns: bool = False) -> Iterator[NDArray[Any]]:
    """Yield consecutive rows of an array or HDF5 variable (or its columns, as rows)."""
    n_rows, n_columns = values.shape[::-1] if columns else values.shape
    step = max(1, _CHUNK_BYTES // max(1, n_columns * values.dtype.itemsize))
    for start in range(0, n_rows, step):
        if columns:
            yield np.asarray(values[:, start : start + step]).T
        else:
            yield np.asarray(values[start : start + step])
