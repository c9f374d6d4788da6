"""Read MATLAB files, v5 and v7.3, into arrays oriented as MATLAB shows them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt.exceptions import DataError

_HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"


def is_hdf5(path: Path) -> bool:
    """Tell whether a file is HDF5 (MAT v7.3); its signature sits at 0 or behind a user block."""
    with open(path, "rb") as file:
        for offset in (0, 512, 1024, 2048):
            file.seek(offset)
            if file.read(8) == _HDF5_SIGNATURE:
                return True
    return False


def mat_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Return name and shape of every variable without reading the numbers.

    Parameters
    ----------
    path : Path
        A MAT file.

    Returns
    -------
    dict of str to tuple of int
        Shapes as MATLAB shows them.
    """
    with _one_sentence(path):
        if is_hdf5(path):
            import h5py

            with h5py.File(path, "r") as file:
                return {k: v.shape[::-1] for k, v in file.items() if hasattr(v, "shape")}
        from scipy.io import whosmat

        return {name: tuple(shape) for name, shape, _ in whosmat(path)}


def read_mat(path: Path, names: Collection[str]) -> dict[str, Any]:
    """Read those of `names` that a MAT file holds.

    Parameters
    ----------
    path : Path
        A MAT file of version 5 or 7.3.
    names : collection of str
        The variables wanted.

    Returns
    -------
    dict
        Numbers as arrays oriented as MATLAB shows them, text and cells of text as tuples of str.
    """
    with _one_sentence(path):
        if is_hdf5(path):
            return _read_hdf5(path, names)
        from scipy.io import loadmat

        found = loadmat(path, variable_names=list(names))
        return {name: _from_v5(found[name]) for name in names if name in found}


@contextmanager
def hdf5_variable(path: Path, name: str) -> Iterator[Any]:
    """Open one variable of a v7.3 file for reading piece by piece; its axes are reversed."""
    import h5py

    with _one_sentence(path), h5py.File(path, "r") as file:
        yield file[name]


@contextmanager
def _one_sentence(path: Path) -> Iterator[None]:
    try:
        yield
    except DataError:
        raise
    except FileNotFoundError:
        raise DataError(f"{path} does not exist") from None
    except PermissionError:
        raise DataError(f"{path} may not be read") from None
    # The parsers raise whatever a broken byte leads to: struct, zlib, index, memory errors.
    except Exception as error:
        first_line = (str(error).splitlines() or [""])[0]
        detail = f"{type(error).__name__}: {first_line}" if first_line else type(error).__name__
        raise DataError(
            f"{path} cannot be read as a MATLAB file; it is truncated or of another kind ({detail})"
        ) from error


def _from_v5(value: Any) -> Any:
    return _texts(value) if value.dtype.kind in "OUS" else value


def _texts(value: Any) -> tuple[str, ...]:
    """Flatten a cell of strings, or the rows of a character matrix."""
    texts: list[str] = []
    for item in np.asarray(value).ravel(order="F"):
        if isinstance(item, np.ndarray):
            inner = _texts(item) if item.size else ("",)
            texts.append(inner[0] if inner else "")
        else:
            texts.append(str(item).strip())
    return tuple(texts)


def _read_hdf5(path: Path, names: Collection[str]) -> dict[str, Any]:
    import h5py

    with h5py.File(path, "r") as file:
        return {name: _from_hdf5(file, file[name]) for name in names if name in file}


def _from_hdf5(file: Any, variable: Any) -> Any:
    if variable.dtype.kind == "O":
        return tuple(_hdf5_text(file, item) for item in np.asarray(variable[()]).ravel())
    kind = variable.attrs.get("MATLAB_class", b"")
    values: NDArray[Any] = np.asarray(variable[()]).T
    if kind == b"char" or kind == "char":
        return tuple("".join(map(chr, row)).strip() for row in np.atleast_2d(values))
    return values


def _hdf5_text(file: Any, item: Any) -> str:
    """Follow a reference to characters (how MATLAB stores a cell), or take a plain string."""
    if isinstance(item, bytes):
        return item.decode().strip()
    if isinstance(item, str):
        return item.strip()
    target = file[item]
    if target.attrs.get("MATLAB_empty", 0):
        return ""
    return "".join(map(chr, np.asarray(target[()]).ravel())).strip()
