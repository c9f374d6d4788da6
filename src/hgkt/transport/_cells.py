"""What is kept of a class whose rows are not: enough for its center, and a bound of its error."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hgkt.transport import _line_numpy
from hgkt.transport.simplex import simplex_in_place


class Gathered(Protocol):
    """Takes in the rows of a class one batch after the other; its size does not depend on them."""

    zero_rows: list[NDArray[np.intp]]

    def add(self, rows: NDArray[Any], numbers: NDArray[np.intp]) -> None:
        """Take in rows (k, D) with their numbers (k,)."""
        ...

    def settle(self) -> None:
        """Find the center, once all rows are in."""
        ...

    def distances(self, rows: NDArray[Any], numbers: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return how far rows (k, D) are from the center: what a representative minimises."""
        ...

    center: NDArray[np.float64]
    excess: float
    """By how much more than the nearest instance the chosen one may be off the exact center."""


class QuantileCells:
    """The barycenter of a class on a line, from counts of cumulative values in equal cells.

    The barycenter's cumulative function at bin k is the order statistic of rank ⌊K(2k + 1)/2⌋
    among the K(n − 1) cumulative values of the class. Counts in T cells of [0, 1] say in which
    cell it lies, so it is known to 1/T. Let B₋ and B₊ have all values at the lower and at the
    upper ends of their cells: the quantile functions of the exact barycenter B and of any B̂ in
    between lie between theirs, so that W₂(B̂, B) ≤ ε = W₂(B₋, B₊). By the triangle inequality the
    instance nearest to B̂ is at most 2ε farther from B than the one nearest to B.

    Parameters
    ----------
    n_features : int
        Bins of a histogram, n.
    n_cells : int
        T.
    negative : str
        How rows with negative entries become histograms.
    """

    def __init__(self, n_features: int, n_cells: int, negative: str) -> None:
        self._negative, self._n_cells, self._n_inner = negative, n_cells, n_features - 1
        self._counts = np.zeros(n_cells + 1, dtype=np.int64)  # the last one for 1 itself
        self._n_rows = 0
        self.zero_rows: list[NDArray[np.intp]] = []
        self.center = np.zeros(0)
        self.excess = 0.0

    def add(self, rows: NDArray[Any], numbers: NDArray[np.intp]) -> None:
        """Take in rows (k, D) with their numbers (k,)."""
        histograms = self._histograms(rows, numbers)
        values = _line_numpy.cumulative(histograms)[:, :-1] * self._n_cells
        self._counts += np.bincount(values.astype(np.int64).ravel(), minlength=self._n_cells + 1)
        self._n_rows += len(rows)

    def settle(self) -> None:
        """Find the barycenter and the bound."""
        ranks = self._n_rows * (2 * np.arange(self._n_inner) + 1) // 2
        below = np.cumsum(self._counts)
        cell = np.searchsorted(below, ranks, side="right")
        inside = (ranks - below[cell] + self._counts[cell] + 0.5) / self._counts[cell]
        low = cell / self._n_cells
        high = np.minimum((cell + 1) / self._n_cells, 1.0)
        self.center = _histogram(np.minimum((cell + inside) / self._n_cells, 1.0))
        gap = _line_numpy.distances(_histogram(low)[None, :], high, 2)[0]
        self.excess = 2.0 * float(np.sqrt(gap))

    def distances(self, rows: NDArray[Any], numbers: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return W₂² (k,) of rows to the barycenter."""
        goal = _line_numpy.cumulative(self.center[None, :])[0, :-1]
        return _line_numpy.distances(self._histograms(rows, None), goal, 2)

    def _histograms(
        self, rows: NDArray[Any], numbers: NDArray[np.intp] | None
    ) -> NDArray[np.float64]:
        histograms = np.array(rows, dtype=np.float64)
        named = np.arange(len(rows)) if numbers is None else numbers
        zero = simplex_in_place(histograms, named, self._negative)
        if numbers is not None:
            self.zero_rows.append(zero)
        return histograms


class MeanSums:
    """The mean of a class: exact, whatever its size."""

    def __init__(self, n_features: int) -> None:
        self._sums, self._n_rows = np.zeros(n_features), 0
        self.zero_rows: list[NDArray[np.intp]] = []
        self.center = np.zeros(0)
        self.excess = 0.0

    def add(self, rows: NDArray[Any], numbers: NDArray[np.intp]) -> None:
        """Take in rows (k, D)."""
        self._sums += rows.sum(axis=0, dtype=np.float64)
        self._n_rows += len(rows)

    def settle(self) -> None:
        """Divide."""
        self.center = self._sums / self._n_rows

    def distances(self, rows: NDArray[Any], numbers: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the Euclidean distance (k,) of rows to the mean."""
        found: NDArray[np.float64] = np.linalg.norm(rows - self.center, axis=1)
        return found


def _histogram(inner: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the histogram (n,) with the inner cumulative values (n−1,)."""
    return np.diff(inner, prepend=0.0, append=1.0)
