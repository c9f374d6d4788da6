"""Attribute vectors as a user writes them: numbers, a file, attribute names, a table."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt.exceptions import DataError


def from_text(text: str) -> NDArray[np.float64]:
    """Read ``"0.1, 0.2"``, or ``@FILE`` with the numbers as text, JSON list or .npy.

    Examples
    --------
    >>> from_text("0.5, 1")
    array([0.5, 1. ])
    """
    source = "--attributes"
    if text.startswith("@"):
        path = Path(text[1:])
        source = str(path)
        try:
            if path.suffix == ".npy":
                return _vector(np.load(path, allow_pickle=False), source)
            text = path.read_text(encoding="utf-8")
        except (OSError, ValueError, EOFError) as error:
            reason = getattr(error, "strerror", None) or error
            raise DataError(f"{path} cannot be read as attributes: {reason}") from error
    words = [word for word in re.split(r"[\s,;\[\]]+", text) if word]
    try:
        return _vector(np.array([float(word) for word in words]), source)
    except ValueError as error:
        raise DataError(f"{source}: {error}; numbers with commas between are expected") from None


def from_named(pairs: list[str], names: list[str] | None) -> NDArray[np.float64]:
    """Read ``NAME=VALUE`` pairs into a vector over the model's attribute names; others are 0.

    Examples
    --------
    >>> from_named(["striped=1", "Hooves=0.5"], ["black", "hooves", "striped"])
    array([0. , 0.5, 1. ])
    """
    if not names:
        raise DataError("this model knows no attribute names; give all numbers with --attributes")
    columns = {name.lower(): column for column, name in enumerate(names)}
    vector = np.zeros(len(names))
    for pair in pairs:
        name, equals, value = pair.rpartition("=")
        if not equals:
            raise DataError(f"--attribute expects NAME=VALUE; got {pair!r}")
        column = columns.get(name.strip().lower())
        if column is None:
            listing = _listing(name, names)
            raise DataError(f"the model has no attribute {name!r}; it has: {listing}")
        try:
            vector[column] = float(value)
        except ValueError:
            raise DataError(
                f"attribute {name!r} has the value {value!r}; a number is expected"
            ) from None
    return vector


def from_file(path: Path, names: list[str] | None, n_attributes: int) -> dict[str, Any]:
    """Read classes from a table: ``name`` and attribute columns, or a list column ``attributes``.

    Columns named as the model's attributes may come in any order; other columns are left out.

    Parameters
    ----------
    path : Path
        A .csv or .parquet file.
    names : list of str or None
        The model's attribute names, where it has some.
    n_attributes : int
        The length of a vector.
    """
    from hgkt.data.tables import parse_classes, read_frame

    if path.suffix not in (".csv", ".parquet"):
        raise DataError(f"{path} has the suffix {path.suffix!r}; .csv or .parquet is expected")
    frame = read_frame(path)
    if names and set(names) <= set(map(str, frame.columns)):
        frame = frame[["name", *names]] if "name" in frame else frame
    classes, rows, columns = parse_classes(frame, path)
    if columns is not None and names and set(columns) == set(names):
        rows = rows[:, [columns.index(name) for name in names]]
    if rows.shape[1] != n_attributes:
        raise DataError(
            f"{path} has {rows.shape[1]} attributes a class; the model expects {n_attributes}"
        )
    table = dict(zip(classes, rows.astype(np.float64), strict=True))
    if len(table) < len(classes):
        twice = next(name for name in classes if classes.count(name) > 1)
        raise DataError(f"{path} has class {twice!r} twice; one row a class is expected")
    if not table:
        raise DataError(f"{path} holds no class")
    return table


def _vector(values: NDArray[Any], source: str) -> NDArray[np.float64]:
    if values.ndim != 1 or values.dtype.kind not in "fiub" or not len(values):
        raise DataError(f"{source} must hold one vector of numbers; got shape {values.shape}")
    return values.astype(np.float64)


def _listing(name: str, names: list[str]) -> str:
    """All names, or the closest ones where there are many."""
    from difflib import get_close_matches

    if len(names) <= 30:
        return ", ".join(map(repr, names))
    close = get_close_matches(name, names, n=3, cutoff=0.3) or names[:5]
    return ", ".join(map(repr, close)) + f" … ({len(names)} in all; see `hgkt classes list --json`)"
