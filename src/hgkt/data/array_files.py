""".npy and .npz files, with their claims checked before memory is taken; nothing is unpickled."""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from hgkt._reading import Refusal, check_unfolded, reading
from hgkt.exceptions import DataError

_MOST_MEMBERS = 10_000


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
    members = archive.infolist()
    if len(members) > _MOST_MEMBERS:
        raise DataError(f"{path} has {len(members)} arrays; at most {_MOST_MEMBERS} are accepted")
    met: set[str] = set()
    unfolded = 0
    for member in members:
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
    claimed, there = math.prod(shape) * dtype.itemsize, size - file.tell()
    if claimed != there:
        raise error(f"{what} claims {claimed} bytes of {dtype}, but {there} bytes follow")
