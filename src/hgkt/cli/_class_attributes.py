"""Attribute vectors as a user writes them: numbers, a file, attribute names, a table."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hgkt.exceptions import DataError

if TYPE_CHECKING:
    from hgkt.language import Describer


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


def from_pairs(pairs: list[str]) -> dict[str, float]:
    """Read ``NAME=VALUE`` pairs; a name may hold an equals sign itself.

    Examples
    --------
    >>> from_pairs(["striped=1", "Hooves = 0.5"])
    {'striped': 1.0, 'Hooves': 0.5}
    """
    values = {}
    for pair in pairs:
        name, equals, value = pair.rpartition("=")
        if not equals:
            raise DataError(f"--attribute expects NAME=VALUE; got {pair!r}")
        try:
            values[name.strip()] = float(value)
        except ValueError:
            raise DataError(
                f"attribute {name!r} has the value {value!r}; a number is expected"
            ) from None
    return values


def from_file(path: Path, describer: Describer) -> dict[str, Any]:
    """Read classes from a table: ``name`` and attribute columns, or a list column ``attributes``.

    Columns named as the model's attributes may come in any order; other columns are left out.

    Parameters
    ----------
    path : Path
        A .csv or .parquet file.
    describer : Describer
        Of the model: it refuses vectors that were made in another way than the model's.
    """
    from hgkt.data import read_attribute_file

    file = read_attribute_file(path, describer.attribute_names)
    describer.check_made_with(str(path), file.encoder, file.blocks, file.kinds)
    return dict(zip(file.names, file.attributes.astype(np.float64), strict=True))


def _vector(values: NDArray[Any], source: str) -> NDArray[np.float64]:
    if values.ndim != 1 or values.dtype.kind not in "fiub" or not len(values):
        raise DataError(f"{source} must hold one vector of numbers; got shape {values.shape}")
    return values.astype(np.float64)
