"""What the variables of a MATLAB v5 file claim, looked at before SciPy takes memory for them.

SciPy follows the file wherever it leads: cells in cells until the stack overflows, zeros that
unfold to gigabytes. The walk here takes the same steps, and reads no numbers.
"""

from __future__ import annotations

import math
import os
import struct
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from hgkt._reading import check_unfolded
from hgkt.exceptions import DataError

_HEADER = 128
_MATRIX, _COMPRESSED = 14, 15
_CELL, _CHAR, _SPARSE = 1, 4, 5
_NUMERIC = range(6, 16)
_DEPTH = 8
_BLOCK = 2**16


class _Source(Protocol):
    def read(self, n: int) -> bytes: ...

    def skip(self, n: int) -> None: ...


def check_mat5(file: BinaryIO, path: Path, names: Collection[str]) -> None:
    """Refuse variables that nest deeply, or unfold to far more than the file holds.

    Parameters
    ----------
    file : binary file
        A MAT file that is not HDF5; it stands at its beginning afterwards. One of version 4, which
        neither nests nor compresses, passes.
    path : Path
        Its name, for messages.
    names : collection of str
        The variables that will be read.
    """
    size = os.fstat(file.fileno()).st_size
    file.seek(0)
    header = file.read(_HEADER)
    order = {b"IM": "<", b"MI": ">"}.get(header[126:128])
    if order is not None and 0 not in header[:4]:
        walk = _Walk(path, order, size)
        position = _HEADER
        while position + 8 <= size:
            file.seek(position)
            kind, length = struct.unpack(f"{order}II", file.read(8))
            position += 8 + length
            if kind == _COMPRESSED:
                walk.variable(_Inflated(file, length), names)
            elif kind == _MATRIX:
                file.seek(-8, os.SEEK_CUR)
                walk.variable(_Plain(file), names)
    file.seek(0)


class _Walk:
    """Goes through variables and adds up what they unfold to."""

    def __init__(self, path: Path, order: str, size: int) -> None:
        self._path, self._order, self._size = path, order, size
        self._unfolded = 0

    def variable(self, source: _Source, names: Collection[str]) -> None:
        """Look at one variable, as far as it is wanted."""
        length = self._matrix_tag(source)
        if length:
            kind, is_complex, n_items, name = self._matrix_header(source)
            if name in names:
                self._content(source, name, kind, is_complex, n_items, length, 0)

    def _content(
        self,
        source: _Source,
        name: str,
        kind: int,
        is_complex: bool,
        n_items: int,
        length: int,
        depth: int,
    ) -> None:
        if kind == _CELL:
            if depth > _DEPTH:
                raise DataError(f"{name} of {self._path} is nested too deeply: cells in cells")
            if 8 * n_items > length:
                raise DataError(f"{name} of {self._path} claims {n_items} cells and has fewer")
            for _ in range(n_items):
                self._child(source, name, depth + 1)
        elif kind in (_CHAR, _SPARSE, *_NUMERIC):
            parts = (3 if kind == _SPARSE else 1) + is_complex
            # At the top nothing follows that matters, so numbers need not be unfolded to pass them.
            for part in range(parts):
                last = depth == 0 and part == parts - 1
                self._element(source, count=True, leave=last)
        else:
            raise DataError(f"{name} of {self._path} is a structure; numbers or text are expected")

    def _child(self, source: _Source, name: str, depth: int) -> None:
        length = self._matrix_tag(source)
        if length:
            kind, is_complex, n_items, _ = self._matrix_header(source)
            self._content(source, name, kind, is_complex, n_items, length, depth)

    def _matrix_tag(self, source: _Source) -> int:
        kind, length = struct.unpack(f"{self._order}II", source.read(8))
        if kind != _MATRIX:
            raise DataError(f"{self._path} has something else where a variable should begin")
        return int(length)

    def _matrix_header(self, source: _Source) -> tuple[int, bool, int, str]:
        """Return kind, whether it is complex, number of items and name."""
        source.skip(8)
        flags, _ = struct.unpack(f"{self._order}II", source.read(8))
        shape = self._element(source)
        if len(shape) % 4 or len(shape) > 4 * 32:
            raise DataError(f"{self._path} has a variable of {len(shape) / 4:g} dimensions")
        sizes = struct.unpack(f"{self._order}{len(shape) // 4}i", shape)
        name = self._element(source).decode("latin-1")
        return flags & 0xFF, bool(flags & 0x800), max(math.prod(sizes), 0), name

    def _element(self, source: _Source, count: bool = False, leave: bool = False) -> bytes:
        """Read one element; with `count` its size counts and it is passed, or left where it is."""
        words = source.read(8)
        (first,) = struct.unpack(f"{self._order}I", words[:4])
        if first >> 16:  # a small element: its bytes are in its tag
            return words[4 : 4 + min(first >> 16, 4)]
        (length,) = struct.unpack(f"{self._order}I", words[4:])
        if count:
            self._unfolded += length
            check_unfolded(self._path, self._unfolded, self._size)
        if leave:
            return b""
        if count:
            source.skip(length + -length % 8)
            return b""
        if length > _BLOCK:
            raise DataError(f"{self._path} has a name or a shape of {length} bytes")
        return source.read(length + -length % 8)[:length]


class _Plain:
    """Elements as they stand in the file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def read(self, n: int) -> bytes:
        data = self._file.read(n)
        if len(data) < n:
            raise EOFError("it ends in the middle of a variable")
        return data

    def skip(self, n: int) -> None:
        self._file.seek(n, os.SEEK_CUR)


class _Inflated:
    """Elements of a compressed variable, unfolded a block at a time."""

    def __init__(self, file: BinaryIO, length: int) -> None:
        self._file, self._left = file, length
        self._zlib: Any = zlib.decompressobj()

    def read(self, n: int) -> bytes:
        parts = bytearray()
        while len(parts) < n:
            block = self._zlib.unconsumed_tail
            if not block:
                block = self._file.read(min(self._left, _BLOCK))
                self._left -= len(block)
            part = self._zlib.decompress(block, n - len(parts))
            if not part and not block:
                raise EOFError("it ends in the middle of a variable")
            parts += part
        return bytes(parts)

    def skip(self, n: int) -> None:
        while n > 0:
            n -= len(self.read(min(n, _BLOCK)))
