"""A bounded sample of rows, as many of each class as fit: what validation scores."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt._files import sha256

SAMPLE_ROWS = 20_000
"""Rows kept by default: two numbers, γ's law, do not get better with more."""

_FEWEST = 2  # rows of a class, whatever the limit: one to hold out, one to stay
_SLACK = 1.25  # how far over its limit a sample may grow before it is cut


def draw_priorities(seed: int, name: str, n_rows: int) -> NDArray[np.float64]:
    """Draw the priorities (n_rows,) of the rows of a shard: a matter of its name alone.

    Examples
    --------
    >>> (draw_priorities(0, "a", 3) == draw_priorities(0, "a", 3)).all()
    np.True_
    """
    return np.random.default_rng([seed, int(sha256(name)[:16], 16)]).random(n_rows)


def quota(counts: NDArray[Any], limit: int) -> int:
    """Return how many rows of each class fit: the largest q with Σ_c min(n_c, q) ≤ limit.

    It is two or more, and no more than the largest class has.

    Examples
    --------
    >>> quota(np.array([100, 3, 50]), 43), quota(np.array([9, 9]), 1), quota(np.array([9, 4]), 99)
    (20, 2, 9)
    """
    low, high = _FEWEST, max(int(counts.max(initial=0)), _FEWEST)
    while low < high:
        middle = (low + high + 1) // 2
        fits = np.minimum(counts, middle).sum() <= limit
        low, high = (middle, high) if fits else (low, middle - 1)
    return low


class RowSample:
    """Of every class the rows of lowest priority, as many as `quota` says.

    Every row draws a priority at random, so each is as likely to be kept as any other of its
    class. Which rows are kept does not depend on the order in which they came: samples of parts
    are joined and cut to the sample of the whole.

    Parameters
    ----------
    limit : int
        Rows to keep; 0 for none.

    Attributes
    ----------
    features : ndarray of shape (n, D)
        As they came, in the order in which they came.
    codes : ndarray of shape (n,)
        The class of each row.
    priorities : ndarray of shape (n,)
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._parts: list[tuple[NDArray[Any], NDArray[np.intp], NDArray[np.float64]]] = []
        self._bars = np.zeros(0)  # of each class the priority that a row must be below
        self.n_rows = 0

    def take(
        self,
        X: NDArray[Any],
        codes: NDArray[np.intp],
        priorities: NDArray[np.float64],
        counts: NDArray[Any],
    ) -> None:
        """Take in rows (n, D); `counts` (L,) are those of all rows so far, these included."""
        if not self.limit:
            return
        self._know(counts)
        low = np.flatnonzero(priorities < self._bars[codes])
        if len(low):
            self._parts.append((X[low], codes[low], priorities[low]))
            self.n_rows += len(low)
        if self.n_rows > _SLACK * self.limit:
            self.cut(counts)

    def merge(self, other: RowSample, rows: NDArray[np.intp], counts: NDArray[Any]) -> None:
        """Take in another sample, whose class c is class ``rows[c]`` here; counts as in `take`.

        Its rows are not copied before it is known which of them stay.
        """
        if not self.limit:
            return
        self._know(counts)
        for X, codes, priorities in other._parts:
            self._parts.append((X, rows[codes], priorities))
        self.n_rows += other.n_rows
        if self.n_rows > _SLACK * self.limit:
            self.cut(counts)

    def _know(self, counts: NDArray[Any]) -> None:
        if len(counts) > len(self._bars):
            new = np.full(len(counts) - len(self._bars), np.inf)
            self._bars = np.concatenate([self._bars, new])

    def cut(self, counts: NDArray[Any]) -> None:
        """Leave what the quota allows for classes of so many rows (L,)."""
        if counts.sum() <= self.limit or not self.n_rows:
            return
        codes = np.concatenate([part[1] for part in self._parts])
        priorities = np.concatenate([part[2] for part in self._parts])
        most = quota(counts, self.limit)
        order = np.lexsort((priorities, codes))
        _, starts, sizes = np.unique(codes[order], return_index=True, return_counts=True)
        ranks = np.arange(len(codes)) - np.repeat(starts, sizes)
        last = order[ranks == most - 1]
        self._bars[codes[last]] = np.nextafter(priorities[last], np.inf)
        kept = np.sort(order[ranks < most])
        if len(kept) < len(codes):
            self._set(self._rows_at(kept), codes[kept], priorities[kept])

    def _rows_at(self, kept: NDArray[np.intp]) -> NDArray[Any]:
        """Return some rows, by ascending number; the others are not copied on the way."""
        sizes = [len(part[1]) for part in self._parts]
        stops = np.cumsum(sizes)
        places = np.searchsorted(kept, [0, *stops])
        dtype = np.result_type(*(part[0].dtype for part in self._parts))
        found = np.empty((len(kept), self._parts[0][0].shape[1]), dtype)
        for (X, _, _), size, stop, first, last in zip(
            self._parts, sizes, stops, places[:-1], places[1:], strict=True
        ):
            found[first:last] = X[kept[first:last] - (stop - size)]
        return found

    @property
    def features(self) -> NDArray[Any]:
        """Features (n, D) of the rows kept."""
        return self._joined()[0]

    @property
    def codes(self) -> NDArray[np.intp]:
        """Class (n,) of each row."""
        return self._joined()[1]

    @property
    def priorities(self) -> NDArray[np.float64]:
        """Priority (n,) of each row."""
        return self._joined()[2]

    def _joined(self) -> tuple[NDArray[Any], NDArray[np.intp], NDArray[np.float64]]:
        if not self._parts:
            return np.zeros((0, 0), np.float32), np.zeros(0, np.intp), np.zeros(0)
        if len(self._parts) > 1:
            X, codes, priorities = zip(*self._parts, strict=True)
            self._set(np.concatenate(X), np.concatenate(codes), np.concatenate(priorities))
        return self._parts[0]

    def _set(
        self, X: NDArray[Any], codes: NDArray[np.intp], priorities: NDArray[np.float64]
    ) -> None:
        self._parts, self.n_rows = [(X, codes, priorities)], len(codes)
