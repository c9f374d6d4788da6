"""Feature matrices that stay on disk: converted once, in pieces, then memory-mapped."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt.data.matfile import hdf5_variable, is_hdf5, read_mat
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
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r" if mmap else None, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path} cannot be read as a .npy file: {error}") from error
    if array.ndim != 2 or array.dtype.kind not in "fiu":
        raise DataError(
            f"{path} must hold a matrix of numbers (instances, features); "
            f"got {array.dtype} of shape {array.shape}"
        )
    if mmap and array.dtype.kind != "f":
        return cached_npy(path, array.dtype.str, array.shape, _pieces_of(array))
    return array


def mat_features(path: Path, instances_first: bool) -> NDArray[np.float32]:
    """Memory-map the variable `features` of a MAT file as (instances, features) float32.

    A v7.3 file is converted in pieces of 64 MiB, so that a matrix of 20 GB needs no 20 GB of
    memory; a v5 file cannot hold a variable over 2 GB and is read at once.

    Parameters
    ----------
    path : Path
        The MAT file.
    instances_first : bool
        Whether MATLAB would show rows as instances (the benchmark's files show columns).

    Returns
    -------
    memmap of shape (n_instances, n_features)
    """
    if not is_hdf5(path):
        values = read_mat(path, ["features"])["features"]
        values = values if instances_first else values.T
        return cached_npy(path, "features", values.shape, _pieces_of(values))
    with hdf5_variable(path, "features") as variable:
        shape = variable.shape[::-1] if instances_first else variable.shape
        pieces = _pieces_of(variable, columns=instances_first)
        return cached_npy(path, "features", shape, pieces)


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
    digest = hashlib.sha256(key.encode()).hexdigest()[:16]
    target = cache_folder() / f"{source.stem}-{digest}.npy"
    if not target.is_file():
        try:
            _write_npy(target, shape, pieces)
        except OSError as error:
            raise DataError(
                f"cannot write the converted features of {source} to {target.parent} "
                f"({error.strerror}); name another folder with HGKT_CACHE"
            ) from error
    return open_npy(target)


def _write_npy(target: Path, shape: tuple[int, ...], pieces: Iterator[NDArray[Any]]) -> None:
    """Write beside and rename: a crash leaves no half file under the final name."""
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            header = {"descr": "<f4", "fortran_order": False, "shape": tuple(map(int, shape))}
            np.lib.format.write_array_header_2_0(file, header)
            for piece in pieces:
                file.write(np.ascontiguousarray(piece, dtype="<f4").data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)  # mkstemp makes it private; a cache may be shared
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _pieces_of(values: Any, columns: bool = False) -> Iterator[NDArray[Any]]:
    """Yield consecutive rows of an array or HDF5 variable (or its columns, as rows)."""
    n_rows, n_columns = values.shape[::-1] if columns else values.shape
    step = max(1, _CHUNK_BYTES // max(1, n_columns * values.dtype.itemsize))
    for start in range(0, n_rows, step):
        if columns:
            yield np.asarray(values[:, start : start + step]).T
        else:
            yield np.asarray(values[start : start + step])
