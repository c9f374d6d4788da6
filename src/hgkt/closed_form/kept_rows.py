"""What scoring needs of each row of a class table, computed once per row."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

_Key = tuple[int, int, tuple[int, ...], int, str]


class KeptRows:
    """Rows computed from those of tables that grow at their end and never change elsewhere.

    Scores need something of every class, such as the length of its embedding. Computing it for
    each batch of features reads the whole class table once more; kept here, it is computed once
    per class. What is kept of a table goes when the table goes, and a copy or a pickle starts
    empty.

    Parameters
    ----------
    join : callable
        Puts a list of what is computed in one, row after row: ``torch.cat`` where it is tensors.

    Examples
    --------
    >>> kept = KeptRows()
    >>> buffer = np.array([[3.0, 4.0], [6.0, 8.0]])
    >>> kept.of(buffer[:1], lambda rows: np.linalg.norm(rows, axis=1))
    array([5.])
    >>> kept.of(buffer, lambda rows: np.linalg.norm(rows, axis=1))  # computes one more
    array([ 5., 10.])
    """

    def __init__(self, join: Callable[[list[Any]], Any] = np.concatenate) -> None:
        self._join = join
        self._kept: dict[_Key, tuple[weakref.ref[Any], Any]] = {}

    def __reduce__(self) -> tuple[type[KeptRows], tuple[Any]]:
        return type(self), (self._join,)

    def of(self, table: NDArray[Any], compute: Callable[[NDArray[Any]], Any]) -> Any:
        """Return what `compute`, always the same function, makes of the rows (C, …) of a table."""
        root = table.base if isinstance(table.base, np.ndarray) else table
        place = table.__array_interface__["data"][0]
        key = (id(root), place, table.strides, table.shape[1], table.dtype.str)
        kept = self._kept.get(key)
        known = kept[1] if kept is not None and kept[0]() is root else None
        if known is None:
            found = compute(table)
        elif len(known) >= len(table):
            return known[: len(table)]
        else:
            found = self._join([known, compute(table[len(known) :])])
        gone = weakref.ref(root, lambda _: self._kept.pop(key, None))
        self._kept[key] = (gone, found)
        return found
