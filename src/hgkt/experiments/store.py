"""Results on disk: a JSON file a cell, an .npz beside it where there are arrays."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt._plain import plain
from hgkt.exceptions import DataError
from hgkt.experiments.base import Cell, CellResult, DataSpec

FORMAT = "hgkt-cell-1"
_PARTS = ("values", "error", "seconds", "versions", "machine")


class ResultStore:
    """A folder of results by cell key. Several processes may read and write it at once.

    A file is written beside and renamed, so a reader sees all of it or nothing. A file that
    cannot be read counts as absent and is told in one line. The key names configuration and
    data, not the version of the package: a result of an older one stays, with its version.

    Parameters
    ----------
    folder : path
        Made when the first result is written.
    note : callable, optional
        Called with one line for every file that is ignored.

    Examples
    --------
    >>> import tempfile
    >>> cell = Cell("evaluate", DataSpec("digits", "digits"), method="eszsl")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = ResultStore(folder)
    ...     _ = store.put(CellResult(cell, {"H": 50.0}, {"curve": np.arange(3)}))
    ...     found = store.get(cell)
    >>> found.values, found.arrays
    ({'H': 50.0}, {'curve': array([0, 1, 2])})
    """

    def __init__(self, folder: str | Path, note: Callable[[str], None] | None = None) -> None:
        self.folder = Path(folder)
        self.note = note

    def get(self, cell: Cell) -> CellResult | None:
        """Return what is stored for a cell, success or failure, or None.

        Parameters
        ----------
        cell : Cell
            The work.
        """
        found = self._read(self._path(cell.key), arrays=True)
        # The folder may have moved since: the cell asked for knows where the data is now.
        return None if found is None else replace(found, cell=cell)

    def load(self, cells: Iterable[Cell]) -> dict[str, CellResult]:
        """Return what is stored for several cells, by key.

        Parameters
        ----------
        cells : iterable of Cell
            Those wanted.
        """
        found = {cell.key: self.get(cell) for cell in cells}
        return {key: result for key, result in found.items() if result is not None}

    def results(self) -> Iterator[CellResult]:
        """Yield everything readable in the folder, without arrays."""
        for path in sorted(self.folder.glob("*.json")):
            result = self._read(path, arrays=False)
            if result is not None:
                yield result

    def put(self, result: CellResult) -> Path:
        """Write a result; a failure never replaces a success.

        Parameters
        ----------
        result : CellResult
            What a cell gave.

        Returns
        -------
        Path
            The JSON file.
        """
        path = self._path(result.cell.key)
        if not result.ok:
            there = self._read(path, arrays=False)
            if there is not None and there.ok:
                return path
        document = {
            "format": FORMAT,
            "key": result.cell.key,
            "cell": plain(asdict(result.cell)),
            **{name: plain(getattr(result, name)) for name in _PARTS},
        }
        if result.arrays:
            content = _pack(result.arrays)
            # The JSON file comes last and knows its arrays: the two cannot be of different runs.
            document["arrays"] = hashlib.sha256(content).hexdigest()
            self._write(path.with_suffix(".npz"), content)
        self._write(path, (json.dumps(document, indent=1, allow_nan=False) + "\n").encode())
        return path

    # ------------------------------------------------------------------ files
    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.json"

    def _read(self, path: Path, arrays: bool) -> CellResult | None:
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            return _result(document, path, arrays)
        except FileNotFoundError as error:
            if error.filename == str(path):
                return None
            reason = f"{Path(error.filename).name} is missing"
        except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
        if self.note is not None:
            self.note(f"{path} is not a readable result and counts as absent ({reason})")
        return None

    def _write(self, path: Path, content: bytes) -> None:
        scratch = None
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            handle, scratch = tempfile.mkstemp(prefix=".", suffix=".part", dir=self.folder)
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            Path(scratch).chmod(0o644)  # mkstemp makes it private
            os.replace(scratch, path)
        except OSError as error:
            if scratch is not None:
                Path(scratch).unlink(missing_ok=True)
            raise DataError(
                f"cannot write the result {path.name} to {self.folder}: {error.strerror}"
            ) from error


def _pack(arrays: dict[str, NDArray[Any]]) -> bytes:
    for name, array in arrays.items():
        if np.asarray(array).dtype.hasobject:
            raise DataError(f"array {name!r} holds Python objects; numbers or text are expected")
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def _result(document: Any, path: Path, arrays: bool) -> CellResult:
    """Make a result of a file's content; whatever is wrong raises one of the errors expected."""
    if document["format"] != FORMAT:
        raise ValueError(f"its format is {document['format']!r}, not {FORMAT!r}")
    asked = dict(document["cell"])
    cell = Cell(**{**asked, "data": DataSpec(**asked["data"])})
    if not cell.key == document["key"] == path.stem:
        raise ValueError("its content belongs to another key")
    parts = {name: document[name] for name in _PARTS}
    if arrays and "arrays" in document:
        content = path.with_suffix(".npz").read_bytes()
        if hashlib.sha256(content).hexdigest() != document["arrays"]:
            raise ValueError("the arrays beside it are not the ones it was written with")
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            parts["arrays"] = {name: file[name] for name in file.files}
    return CellResult(cell, **parts)
