"""The best classes of each row, found as scores come block by block."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_FEW = 64  # among so few candidates sorting all is the fastest
_MANY = 1024  # among so many, looking at the maxima of groups first is
_GROUP = 64

Places = int | NDArray[np.intp]
"""Where the columns of a block stand among all candidates: from here on, or one by one."""

Penalty = float | NDArray[np.float64]
"""What γ takes off the columns of a block: the same off all, or one by one."""


class BestFew:
    """The `k` best classes of each row so far.

    Attributes
    ----------
    positions : ndarray of shape (n, k)
        Among the candidates, the best first; of equals the first one.
    scores : ndarray of shape (n, k)
        Their scores.
    """

    def __init__(self, n_rows: int, k: int) -> None:
        self.positions = np.empty((n_rows, k), dtype=np.intp)
        self.scores = np.empty((n_rows, k))
        self._n_known = np.zeros(n_rows, dtype=np.intp)

    def take(self, rows: slice, scores: NDArray[Any], places: Places, penalty: Penalty) -> None:
        """Look at scores (n, c) of some rows and classes, what γ takes off still in."""
        k = self.positions.shape[1]
        if isinstance(penalty, np.ndarray):
            scores, penalty = scores - penalty, 0.0
        found = best_columns(scores, min(k, scores.shape[1]))
        values = np.take_along_axis(scores, found, axis=1).astype(np.float64) - penalty
        positions = _positions(places, found)
        n_known = int(self._n_known[rows.start])
        if n_known:
            positions = np.concatenate([self.positions[rows, :n_known], positions], axis=1)
            values = np.concatenate([self.scores[rows, :n_known], values], axis=1)
            order = np.lexsort((positions, -values), axis=1)[:, :k]
            positions = np.take_along_axis(positions, order, axis=1)
            values = np.take_along_axis(values, order, axis=1)
        n_known = positions.shape[1]
        self.positions[rows, :n_known], self.scores[rows, :n_known] = positions, values
        self._n_known[rows] = n_known


class BestOne:
    """As `BestFew` for k = 1, in fewer steps."""

    def __init__(self, n_rows: int) -> None:
        self.positions = np.full((n_rows, 1), -1, dtype=np.intp)
        self.scores = np.empty((n_rows, 1))

    def take(self, rows: slice, scores: NDArray[Any], places: Places, penalty: Penalty) -> None:
        """Look at scores (n, c) of some rows and classes, what γ takes off still in."""
        if isinstance(penalty, np.ndarray):
            scores, penalty = scores - penalty, 0.0
        found = scores.argmax(axis=1)
        values = scores[np.arange(len(found)), found].astype(np.float64) - penalty
        positions = _positions(places, found)
        own_positions, own_scores = self.positions[rows, 0], self.scores[rows, 0]  # views
        if own_positions[0] >= 0:
            first = (values == own_scores) & (positions < own_positions)
            better = (values > own_scores) | first
            positions = np.where(better, positions, own_positions)
            values = np.where(better, values, own_scores)
        own_positions[:], own_scores[:] = positions, values


def best_columns(scores: NDArray[Any], k: int) -> NDArray[np.intp]:
    """Return the columns (n, k) of the highest scores, the best first; the first one of equals.

    Examples
    --------
    >>> best_columns(np.array([[1.0, 3.0, 2.0, 3.0]]), 3)
    array([[1, 3, 2]])
    """
    if k == 1:
        first: NDArray[np.intp] = scores.argmax(axis=1)
        return first[:, None]
    n_classes = scores.shape[1]
    if n_classes <= max(_FEW, 2 * k):
        return np.argsort(-scores, axis=1, kind="stable")[:, :k]
    if n_classes >= _MANY and k <= n_classes // (2 * _GROUP):
        return _grouped_best(scores, k)
    found = np.argpartition(-scores, k - 1, axis=1)[:, :k]
    best = _sorted_best(scores, found)
    # Of equals at the end of the list a partition may keep any.
    last = np.take_along_axis(scores, best[:, -1:], axis=1)
    return _resolved(scores, best, (scores >= last).sum(axis=1) > k)


def _grouped_best(scores: NDArray[Any], k: int) -> NDArray[np.intp]:
    """As `best_columns` for many classes: the `k` best are in the `k` groups of the best maxima."""
    n_rows, n_groups = len(scores), scores.shape[1] // _GROUP
    whole = n_groups * _GROUP
    maxima = scores[:, :whole].reshape(n_rows, _GROUP, n_groups).max(axis=1)
    groups = np.argpartition(-maxima, k, axis=1)
    inside = groups[:, :k, None] + n_groups * np.arange(_GROUP)
    tail = np.broadcast_to(np.arange(whole, scores.shape[1]), (n_rows, scores.shape[1] - whole))
    columns = np.concatenate([inside.reshape(n_rows, -1), tail], axis=1)
    few = np.take_along_axis(scores, columns, axis=1)
    found = np.argpartition(-few, k - 1, axis=1)[:, :k]
    best = _sorted_best(scores, np.take_along_axis(columns, found, axis=1))
    last = np.take_along_axis(scores, best[:, -1:], axis=1)
    # A group left out has no better class than the first of those, and equal ones at most.
    outside = np.take_along_axis(maxima, groups[:, k : k + 1], axis=1)
    tied = (outside >= last)[:, 0] | ((few >= last).sum(axis=1) > k)
    return _resolved(scores, best, tied)


def _sorted_best(scores: NDArray[Any], found: NDArray[np.intp]) -> NDArray[np.intp]:
    """Sort columns (n, k) by their scores, the first one of equals in front."""
    found = np.sort(found, axis=1)
    order = np.argsort(-np.take_along_axis(scores, found, axis=1), axis=1, kind="stable")
    best: NDArray[np.intp] = np.take_along_axis(found, order, axis=1)
    return best


def _resolved(
    scores: NDArray[Any], best: NDArray[np.intp], tied: NDArray[np.bool_]
) -> NDArray[np.intp]:
    """Sort the rows anew in which other classes equal the last of the best."""
    rows = np.flatnonzero(tied)
    if len(rows):
        best[rows] = np.argsort(-scores[rows], axis=1, kind="stable")[:, : best.shape[1]]
    return best


def _positions(places: Places, found: NDArray[np.intp]) -> NDArray[np.intp]:
    return places + found if isinstance(places, int) else places[found]
