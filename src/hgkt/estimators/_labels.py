"""Lists of class labels as users give them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt.exceptions import DataError


def label_list(classes: Any) -> list[Any]:
    """Turn a sequence of labels into a list of plain strings or numbers."""
    if isinstance(classes, str):
        raise DataError(f"a list of classes is expected; got the string {classes!r}")
    return [name.item() if isinstance(name, np.generic) else name for name in classes]


def label_array(names: list[Any], like: NDArray[Any]) -> NDArray[Any]:
    """Make an array of labels of the kind that `like` has."""
    if like.dtype.kind == "O":
        array = np.empty(len(names), dtype=object)
        array[:] = names
        return array
    return np.array(names)
