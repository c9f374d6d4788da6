"""Features of raw items that survive an interrupt: what is on disk is not made again."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hgkt._files import locked
from hgkt.exceptions import DataError

_VERSION = 2
_INDEX, _FEATURES = "rows.jsonl", "features.f32"

Key = tuple[str | int, ...]
"""What tells an item from others and from itself once it has changed."""


class Journal:
    """Features on disk, one row per item, each written before the line that names it.

    A line without its features, or a half-written line, can only be at the end and is cut off
    when the journal is opened again.

    Parameters
    ----------
    folder : path
        Made where it is missing.
    identity : mapping
        What made the features, by its kind ("backbone", "encoder"); a journal of another identity
        is refused.
    n_features : int
        Length of a row.

    Examples
    --------
    >>> import tempfile
    >>> key = ("a.jpg", 10, 20)
    >>> folder = tempfile.mkdtemp()
    >>> with Journal(folder, {"backbone": "x"}, 2) as journal:
    ...     journal.append([key], np.ones((1, 2), dtype=np.float32))
    >>> with Journal(folder, {"backbone": "x"}, 2) as journal:
    ...     key in journal, journal.rows([key]).tolist()
    (True, [[1.0, 1.0]])
    """

    def __init__(self, folder: str | Path, identity: Mapping[str, Any], n_features: int) -> None:
        self.folder = Path(folder)
        self.n_features = n_features
        self._maker = next(iter(identity), "origin")
        self._row_bytes = 4 * n_features
        self._rows: dict[Key, int] = {}
        self._header = {"version": _VERSION, "n_features": n_features, **identity}

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                busy = f"another extraction is writing {self.folder}; wait for it"
                stack.enter_context(locked(self.folder / _INDEX, busy=busy))
                self._index = stack.enter_context(open(self.folder / _INDEX, "a+b"))
                self._features = stack.enter_context(open(self.folder / _FEATURES, "a+b"))
            except OSError as error:
                raise DataError(f"cannot write {self.folder}: {error.strerror}") from None
            self._recover()
            self._opened = stack.pop_all()
        return self

    def __exit__(self, *problem: object) -> None:
        self._opened.close()

    def __contains__(self, key: object) -> bool:
        return key in self._rows

    def __len__(self) -> int:
        return len(self._rows)

    def append(self, keys: Sequence[Key], features: NDArray[np.float32]) -> None:
        """Add rows; when this returns they are on the disk."""
        first = self._size(self._features) // self._row_bytes
        self._write(self._features, np.ascontiguousarray(features, dtype="<f4").tobytes())
        lines = [json.dumps([*key, first + n]) + "\n" for n, key in enumerate(keys)]
        self._write(self._index, "".join(lines).encode())
        self._rows.update((key, first + n) for n, key in enumerate(keys))

    def rows(self, keys: Sequence[Key]) -> NDArray[np.float32]:
        """Return the features of `keys`, in that order."""
        numbers = [self._rows[key] for key in keys]
        stored = np.memmap(self.folder / _FEATURES, dtype="<f4", mode="r")
        whole = len(stored) // self.n_features
        matrix = stored[: whole * self.n_features].reshape(whole, self.n_features)
        return np.asarray(matrix[numbers], dtype=np.float32)

    def remove(self) -> None:
        """Delete the journal."""
        self._opened.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _recover(self) -> None:
        """Read the index, and cut both files back to the rows that are whole."""
        self._index.seek(0)
        lines = self._index.read().split(b"\n")
        if len(lines) < 2:  # not even the header was finished
            self._index.truncate(0)
            self._features.truncate(0)
            self._write(self._index, (json.dumps(self._header) + "\n").encode())
            return
        self._check_header(lines[0])
        whole = self._size(self._features) // self._row_bytes
        good = len(lines[0]) + 1
        for line in lines[1:-1]:
            try:
                *key, row = json.loads(line)
            except (ValueError, TypeError, RecursionError):
                break
            if type(row) is not int or not 0 <= row < whole:
                break
            self._rows[tuple(key)] = row
            good += len(line) + 1
        self._index.truncate(good)
        self._features.truncate(whole * self._row_bytes)

    def _check_header(self, line: bytes) -> None:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            found = None
        # Through JSON, so that tuples and lists compare equal.
        if found != json.loads(json.dumps(self._header)):
            raise DataError(
                f"{self.folder} holds an unfinished extraction with another {self._maker}; finish "
                "it, delete it, or choose another --out"
            )

    @staticmethod
    def _size(file: Any) -> int:
        return os.fstat(file.fileno()).st_size

    def _write(self, file: Any, data: bytes) -> None:
        try:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        except OSError as error:
            raise DataError(f"cannot write {self.folder}: {error.strerror}") from None


class MemoryRows(dict[Key, NDArray[np.float32]]):
    """Rows that are kept for this run only, as `Journal` keeps them on disk."""

    def append(self, keys: Sequence[Key], features: NDArray[np.float32]) -> None:
        """Add rows."""
        self.update(zip(keys, features, strict=True))

    def rows(self, keys: Sequence[Key]) -> NDArray[np.float32]:
        """Return the features of `keys`, in that order."""
        return np.stack([self[key] for key in keys])
