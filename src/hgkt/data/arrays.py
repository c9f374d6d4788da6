""".npy and .npz files, read or mapped: claims are checked before memory is taken, no pickles."""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from hgkt._arrays import batches
from hgkt._files import Refusal, atomic_file, check_unfolded, reading, sha256
from hgkt.exceptions import DataError

_CHUNK_BYTES = 2**26


def read_npy(path: Path, mmap: bool = False, error: Refusal = DataError) -> NDArray[Any]:
    """Read a .npy file.

    Parameters
    ----------
    path : Path
        The file; its header must claim no more than it holds.
    mmap : bool
        Whether the numbers stay on disk.
    error : type of HGKTError, or callable
        Makes what is raised.
    """
    with reading(path, "a .npy file", error), open(path, "rb") as file:
        _check_claim(file, os.fstat(file.fileno()).st_size, str(path), error)
        file.seek(0)
        array: NDArray[Any] = (
            np.load(path, mmap_mode="r", allow_pickle=False)
            if mmap
            else np.load(file, allow_pickle=False)
        )
        return array


def read_npz(path: Path, names: Collection[str] | None = None) -> dict[str, NDArray[Any]]:
    """Read the arrays of a .npz file.

    Parameters
    ----------
    path : Path
        The file.
    names : collection of str, optional
        Those wanted, as far as they are there; by default all.
    """
    with reading(path, "a .npz file"), open(path, "rb") as file:
        with zipfile.ZipFile(file) as archive:
            _check_members(archive, path, names)
        file.seek(0)
        with np.load(file, allow_pickle=False) as found:
            wanted = found.files if names is None else [name for name in names if name in found]
            return {name: found[name] for name in wanted}


def _check_members(archive: zipfile.ZipFile, path: Path, names: Collection[str] | None) -> None:
    """Refuse arrays that occur twice, or are not of the size that the archive says."""
    met: set[str] = set()
    unfolded = 0
    for member in archive.infolist():
        name = member.filename.removesuffix(".npy")
        if name in met:
            raise DataError(f"{path} has the array {name!r} twice; names must be unique")
        met.add(name)
        if names is None or name in names:
            unfolded += member.file_size
            with archive.open(member) as file:
                _check_claim(file, member.file_size, f"{name!r} of {path}")
    check_unfolded(path, unfolded, os.path.getsize(path))


def _check_claim(file: IO[bytes], size: int, what: str, error: Refusal = DataError) -> None:
    """Refuse an array whose header claims more, or other, numbers than follow it."""
    version = np.lib.format.read_magic(file)
    readers = {1: np.lib.format.read_array_header_1_0, 2: np.lib.format.read_array_header_2_0}
    if version[0] not in readers:  # 3.0 is for names of fields, which plain numbers have not
        raise error(f"{what} is of the .npy version {version[0]}; 1 and 2 are read")
    shape, _, dtype = readers[version[0]](file)
    if dtype.hasobject:
        raise error(f"{what} holds Python objects, which are not loaded; numbers are expected")
    claimed, stored = math.prod(shape) * dtype.itemsize, size - file.tell()
    if claimed != stored:
        raise error(f"{what} claims {claimed} bytes of {dtype}, but {stored} bytes follow")


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

    The cache is the folder ``$HGKT_CACHE``, else ``~/.cache/hgkt``.

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
    cache = Path(os.environ.get("HGKT_CACHE") or Path.home() / ".cache" / "hgkt")
    target = cache / f"{source.stem}-{sha256(key)[:16]}.npy"
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
    for rows in batches(n_rows, step):
        yield np.asarray(values[:, rows]).T if columns else np.asarray(values[rows])
