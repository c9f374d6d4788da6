"""Results on disk: a JSON file per cell, an .npz beside it where there are arrays."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt._files import sha256, write_file
from hgkt._plain import json_text
from hgkt.evaluation.records import FORMAT as RECORD
from hgkt.evaluation.records import PROTOCOL
from hgkt.exceptions import DataError
from hgkt.experiments.plan import Cell, CellResult, DataSpec

FORMAT = "hgkt-cell-1"
MATHEMATICS = "mathematics"
"""Name under ``versions`` of the version of the method's mathematics."""

_PARTS = ("values", "error", "seconds", "versions", "machine")


class ResultStore:
    """A folder of results by cell key. Several processes may read and write it at once.

    A file is written beside and renamed, so a reader sees all of it or nothing. A file that
    cannot be read counts as absent and is told in one line. The key names configuration and
    data, not the version of the package: a result of an older one stays, with its version. But a
    result of other mathematics than the method has now, or an evaluation by another protocol,
    counts as absent: it is run again, and never shown. A result that names no version is of the
    first.

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
    ...     versions = {"mathematics": cell.mathematics}
    ...     _ = store.put(
    ...         CellResult(cell, {"H": 50.0}, {"curve": np.arange(3)}, versions=versions)
    ...     )
    ...     found = store.get(cell)
    >>> found.values, found.arrays
    ({'H': 50.0}, {'curve': array([0, 1, 2])})
    """

    def __init__(self, folder: str | Path, note: Callable[[str], None] | None = None) -> None:
        self.folder = Path(folder)
        self.note = note

    def get(self, cell: Cell) -> CellResult | None:
        """Return what is stored for a cell, success or failure, or None."""
        found = self._read(self._path(cell.key), arrays=True)
        # The folder may have moved since: the cell asked for knows where the data is now.
        return None if found is None else replace(found, cell=cell)

    def load(self, cells: Iterable[Cell]) -> dict[str, CellResult]:
        """Return what is stored for several cells, by key."""
        found = {cell.key: self.get(cell) for cell in cells}
        return {key: result for key, result in found.items() if result is not None}

    def put(self, result: CellResult) -> Path:
        """Write a result and return its JSON file; a failure never replaces a success."""
        path = self._path(result.cell.key)
        if not result.ok:
            stored = self._read(path, arrays=False)
            if stored is not None and stored.ok:
                return path
        document = {
            "format": FORMAT,
            "key": result.cell.key,
            "cell": asdict(result.cell),
            **{name: getattr(result, name) for name in _PARTS},
        }
        if result.arrays:
            content = _pack(result.arrays)
            # The JSON file comes last and knows its arrays: the two cannot be of different runs.
            document["arrays"] = sha256(content)
            write_file(path.with_suffix(".npz"), content)
        return write_file(path, json_text(document, indent=1))

    # ------------------------------------------------------------------ files
    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.json"

    def _read(self, path: Path, arrays: bool) -> CellResult | None:
        if not path.is_file():
            return None
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            result = _result(document, path, arrays)
        except Exception as error:  # what a damaged file leads to has no common base
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
        else:
            return result if _is_current(result) else None
        if self.note is not None:
            self.note(f"{path} is not a readable result and counts as absent ({reason})")
        return None


def _is_current(result: CellResult) -> bool:
    """Tell whether a result is what its cell would give now, as far as versions say."""
    same = result.versions.get(MATHEMATICS, "1") == result.cell.mathematics
    # A run record says by which protocol it was selected; one that does not is of the first.
    record = result.values if result.values.get("format") == RECORD else None
    return same and (record is None or record["versions"].get("protocol", "1") == PROTOCOL)


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
        if sha256(content) != document["arrays"]:
            raise ValueError("the arrays beside it are not the ones it was written with")
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            parts["arrays"] = {name: file[name] for name in file.files}
    return CellResult(cell, **parts)
