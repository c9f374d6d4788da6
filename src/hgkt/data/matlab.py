"""Read MATLAB files, v5 and v7.3, into arrays oriented as MATLAB shows them.

A v7.3 file is HDF5, which may name other files of the machine as the place of its numbers. Nothing
outside the file itself is ever read.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from hgkt._files import check_unfolded, reading
from hgkt._validation import import_extra
from hgkt.data.arrays import pieces_of
from hgkt.exceptions import DataError

_HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_NUMBERS = ("double", "single", *(f"{sign}int{n}" for sign in ("", "u") for n in (8, 16, 32, 64)))


class MatFile:
    """A MATLAB file of version 5 or 7.3, opened once for all that is wanted of it.

    Use it in a ``with`` block. Whatever is wrong with the file is one sentence.

    Parameters
    ----------
    path : Path
        The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle: Any = None  # scipy reads a handle too, whatever its stubs say
        self._hdf5: Any = None

    def __enter__(self) -> Self:
        with _one_sentence(self.path), ExitStack() as stack:
            self._handle = stack.enter_context(open(self.path, "rb"))
            if _is_hdf5(self._handle):
                h5py = import_extra("h5py", "matlab")
                # h5py reads a handle as fast as a path (measured, contiguous and compressed).
                self._hdf5 = stack.enter_context(h5py.File(self._handle, "r"))
            self._opened = stack.pop_all()
        return self

    def __exit__(self, *problem: object) -> None:
        self._opened.close()

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return name and shape, as MATLAB shows it, of every variable; reads no numbers."""
        with _one_sentence(self.path):
            if self._hdf5 is not None:
                found = {name: self._variable(name) for name in self._hdf5}
                return {k: v.shape[::-1] for k, v in found.items() if hasattr(v, "shape")}
            from scipy.io import whosmat

            return {name: tuple(shape) for name, shape, _ in whosmat(self._handle)}

    def read(self, names: Collection[str]) -> dict[str, Any]:
        """Read those of `names` that the file holds.

        Parameters
        ----------
        names : collection of str
            The variables wanted.

        Returns
        -------
        dict
            Numbers as arrays oriented as MATLAB shows them, text and cells of text as tuples of
            str.
        """
        with _one_sentence(self.path):
            if self._hdf5 is not None:
                present = [name for name in names if name in self._hdf5.keys()]  # noqa: SIM118
                return {name: self._from_hdf5(self._variable(name)) for name in present}
            from scipy.io import loadmat, whosmat

            stored = os.fstat(self._handle.fileno()).st_size
            for name, shape, kind in whosmat(self._handle):
                if name in names and kind in _NUMBERS:
                    unfolded = math.prod(shape) * np.dtype(kind).itemsize
                    check_unfolded(self.path, unfolded, stored)
            found = loadmat(self._handle, variable_names=list(names))
            return {
                name: _from_v5(found[name], f"{name} of {self.path}")
                for name in names
                if name in found
            }

    def matrix(self, name: str, instances_first: bool) -> NDArray[np.float32]:
        """Read a matrix as (instances, features) float32.

        Parameters
        ----------
        name : str
            The variable.
        instances_first : bool
            Whether MATLAB shows rows as instances; the benchmark's files show columns.

        Returns
        -------
        ndarray of shape (n_instances, n_features)
        """
        with _one_sentence(self.path):
            values = np.asarray(self._reversed(name))
        return np.ascontiguousarray(values.T if instances_first else values, dtype=np.float32)

    def pieces(self, name: str, instances_first: bool) -> Iterator[NDArray[Any]]:
        """Yield the same matrix in pieces of 64 MiB; nothing is read before the first is asked for.

        A v5 file cannot hold a variable over 2 GB and is read at once.
        """
        with _one_sentence(self.path):
            yield from pieces_of(self._reversed(name), columns=instances_first)

    def _reversed(self, name: str) -> Any:
        """Return a variable with its axes reversed, as HDF5 has it."""
        found = self._variable(name) if self._hdf5 is not None else self.read([name])[name]
        kind = getattr(getattr(found, "dtype", None), "kind", "")
        if not kind or kind not in "fiu":
            raise DataError(f"{name} of {self.path} are not numbers; a matrix D×N is expected")
        return found if self._hdf5 is not None else found.T

    # ------------------------------------------------------------------ HDF5
    def _variable(self, name: str) -> Any:
        """Return a variable of a v7.3 file; refuse one that lies in another file."""
        link = self._hdf5.get(name, getlink=True)
        if type(link).__name__ != "HardLink":  # MATLAB writes no other
            raise DataError(f"{name} of {self.path} is a link; only the file itself is read")
        return self._own(self._hdf5[name], name)

    def _own(self, found: Any, name: str) -> Any:
        """Refuse a data set whose numbers lie elsewhere, or that claims far more than it holds."""
        if hasattr(found, "shape"):
            if found.external or found.is_virtual:
                raise DataError(
                    f"{name} of {self.path} takes its numbers from another file; only the file "
                    "itself is read"
                )
            stored = found.id.get_storage_size()
            check_unfolded(f"{name} of {self.path}", found.nbytes, stored)
        return found

    def _from_hdf5(self, variable: Any) -> Any:
        if not hasattr(variable, "dtype"):
            raise DataError(f"{variable.name} of {self.path} is a structure; numbers are expected")
        if variable.dtype.kind == "O":
            return tuple(self._hdf5_text(item) for item in np.asarray(variable[()]).ravel())
        kind = variable.attrs.get("MATLAB_class", b"")
        values: NDArray[Any] = np.asarray(variable[()]).T
        if kind == b"char" or kind == "char":
            return tuple("".join(map(chr, row)).strip() for row in np.atleast_2d(values))
        return values

    def _hdf5_text(self, item: Any) -> str:
        """Follow a reference to characters (how MATLAB stores a cell), or take a plain string."""
        if isinstance(item, bytes):
            return item.decode().strip()
        if isinstance(item, str):
            return item.strip()
        target = self._own(self._hdf5[item], "a cell")
        if target.attrs.get("MATLAB_empty", 0):
            return ""
        return "".join(map(chr, np.asarray(target[()]).ravel())).strip()


def read_mat(path: Path, names: Collection[str]) -> dict[str, Any]:
    """Read those of `names` that a MAT file holds; see `MatFile.read`."""
    with MatFile(path) as file:
        return file.read(names)


def _is_hdf5(file: BinaryIO) -> bool:
    """Tell whether a file is HDF5 (MAT v7.3); its signature sits at 0 or behind a user block."""
    for offset in (0, 512, 1024, 2048):
        file.seek(offset)
        if file.read(8) == _HDF5_SIGNATURE:
            return True
    return False


def _one_sentence(path: Path) -> AbstractContextManager[None]:
    return reading(path, "a MATLAB file (it is truncated or of another kind)")


def _from_v5(value: Any, what: str) -> Any:
    if hasattr(value, "toarray"):
        raise DataError(f"{what} is a sparse matrix; a full one is expected")
    if value.dtype.kind == "V":
        raise DataError(f"{what} is a structure; numbers or text are expected")
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
