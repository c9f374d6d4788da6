"""Rows that grow, and rows taken a chunk at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

_CHUNK_ELEMENTS = 2**24  # numbers in the largest intermediate of one step: 128 MiB


def row_chunks(n_rows: int, width: int) -> Iterator[slice]:
    """Yield slices over `n_rows` rows of `width` numbers, each of bounded memory.

    Examples
    --------
    >>> list(row_chunks(5, 2**23))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    step = max(1, _CHUNK_ELEMENTS // width)
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


class GrowingRows:
    """An array whose first axis grows by amortised doubling.

    An instance never changes: `append` returns another one, which shares the memory as long as
    nobody else has written there. A reader that holds an older instance keeps what it saw.

    Examples
    --------
    >>> first = GrowingRows(np.array([1.0, 2.0]))
    >>> second = first.append(np.array([3.0]))
    >>> first.array, second.array
    (array([1., 2.]), array([1., 2., 3.]))
    """

    def __init__(self, rows: NDArray[Any]) -> None:
        self._buffer = rows
        self._used = [len(rows)]  # shared by all instances on this buffer
        self.array = rows

    def append(self, rows: NDArray[Any]) -> GrowingRows:
        """Return the rows followed by `rows`."""
        start, stop = len(self.array), len(self.array) + len(rows)
        grown = GrowingRows.__new__(GrowingRows)
        fits = self._used[0] == start and stop <= len(self._buffer)
        if fits and self._buffer.dtype == rows.dtype:
            grown._buffer, grown._used = self._buffer, self._used
        else:
            dtype = np.promote_types(self.array.dtype, rows.dtype)
            grown._buffer = np.empty((max(2 * stop, 8), *rows.shape[1:]), dtype=dtype)
            grown._buffer[:start] = self.array
            grown._used = [start]
        grown._buffer[start:stop] = rows
        grown._used[0] = stop
        grown.array = grown._buffer[:stop]
        return grown
