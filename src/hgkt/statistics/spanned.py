"""Statistics of few rows of many features, on their small side.

n rows of D features span at most n directions. In an orthonormal basis B of those, every sum over
the rows has n numbers instead of D, and a second moment n² instead of D². Of any other row x two
things matter: its coordinates xB, and the length ‖x − xBBᵀ‖ of what lies outside, where no class
has anything and all directions are alike. As one more coordinate the length keeps every inner
product with sums, and every length: nothing is lost.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from hgkt.statistics.classes import ClassStatistics, Statistics, class_sums

_LEAST_FEATURES = 4096  # below, a D × D matrix is small beside what runs it
_FEATURES_PER_ROW = 4


def has_small_side(n_rows: int, n_features: int) -> bool:
    """Whether rows are so few beside their features that their span is used: N ≤ D/4, D ≥ 4096.

    Examples
    --------
    >>> has_small_side(300, 50_000), has_small_side(20_000, 50_000), has_small_side(300, 2048)
    (True, False, False)
    """
    return n_features >= _LEAST_FEATURES and _FEATURES_PER_ROW * n_rows <= n_features


class SpannedStatistics(Statistics):
    """What `ClassStatistics` holds, in coordinates of the span of the rows.

    Parameters
    ----------
    span : ndarray of shape (r, D)
        An orthonormal basis Bᵀ of the span, or of more.
    n_classes : int

    Attributes
    ----------
    n_features : int
        D, the width of a row.
    counts : ndarray of shape (n_classes,)
    sums : ndarray of shape (n_classes, r + 1)
        The last coordinate, what lies outside the span, is zero.
    second_moment : ndarray of shape (r + 1, r + 1)

    Examples
    --------
    >>> X, codes = np.array([[3.0, 0, 0, 4], [0, 1.0, 0, 0]]), np.array([0, 1])
    >>> stats = SpannedStatistics.of_rows(X, codes, 2)
    >>> stats.sums.shape, stats.whole().sums.round(9).tolist()
    ((2, 3), [[3.0, 0.0, 0.0, 4.0], [0.0, 1.0, 0.0, 0.0]])
    >>> np.abs(stats.coordinates(np.array([[3.0, 0, 2, 4]]))).round(9).tolist()
    [[5.0, 0.0, 2.0]]
    """

    def __init__(self, span: NDArray[np.float64], n_classes: int) -> None:
        self.span = span
        self.n_classes, self.n_features = n_classes, span.shape[1]
        n_axes = len(span) + 1
        self.counts = np.zeros(n_classes)
        self.sums = np.zeros((n_classes, n_axes))
        self.second_moment = np.zeros((n_axes, n_axes))
        self._spans: dict[str, NDArray[Any]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return restored, (self.counts, self.sums, self.second_moment, self.span)

    @classmethod
    def of_rows(
        cls, rows: NDArray[np.float64], codes: NDArray[np.intp], n_classes: int
    ) -> SpannedStatistics:
        """Return the statistics of mapped rows (n, D) with their class codes (n,)."""
        span, coordinates = _orthonormal(rows)
        statistics = cls(span, n_classes)
        statistics.counts += np.bincount(codes, minlength=n_classes)
        statistics.sums[:, :-1] = class_sums(coordinates, codes, n_classes)
        statistics.second_moment[:-1, :-1] = coordinates.T @ coordinates
        return statistics

    @classmethod
    def of_factor(
        cls, factor: NDArray[np.float64], sums: NDArray[np.float64], counts: NDArray[np.float64]
    ) -> SpannedStatistics:
        """Return statistics from R (r, D) with RᵀR = Σ x xᵀ, class sums (n_classes, D) and counts.

        The rows of R span what the rows that were summed did.
        """
        span, coordinates = _orthonormal(factor)
        statistics = cls(span, len(sums))
        statistics.counts = counts
        statistics.sums[:, :-1] = sums @ span.T
        statistics.second_moment[:-1, :-1] = coordinates.T @ coordinates
        return statistics

    def coordinates(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return the coordinates (n, r + 1) of rows (n, D), in their type."""
        kind = rows.dtype.str
        if kind not in self._spans:
            self._spans[kind] = self.span.astype(kind, copy=False)
        span = self._spans[kind]
        inside = rows @ span.T
        # Not the root of a difference of squares, of which rounding would be left.
        outside = np.linalg.norm(rows - inside @ span, axis=1, keepdims=True)
        return np.concatenate([inside, outside], axis=1)

    def over(self, rows: NDArray[np.intp], n_classes: int) -> SpannedStatistics:
        """Return statistics over more classes, those at hand at `rows`."""
        spread = SpannedStatistics(self.span, n_classes)
        spread.counts[rows], spread.sums[rows] = self.counts, self.sums
        spread.second_moment += self.second_moment
        return spread

    def without(self, stays: NDArray[np.bool_], factor: NDArray[np.float64]) -> SpannedStatistics:
        """Return statistics of the classes that stay (n_classes,), less R (r, D) of the others."""
        left = SpannedStatistics(self.span, int(stays.sum()))
        left.counts, left.sums = self.counts[stays], self.sums[stays]
        coordinates = factor @ self.span.T
        left.second_moment += self.second_moment
        left.second_moment[:-1, :-1] -= coordinates.T @ coordinates
        return left

    def whole(self) -> ClassStatistics:
        """Return the same statistics in all D directions."""
        statistics = ClassStatistics(self.n_classes, self.n_features)
        statistics.counts += self.counts
        statistics.sums += self.sums[:, :-1] @ self.span
        statistics.second_moment += self.span.T @ self.second_moment[:-1, :-1] @ self.span
        return statistics

    def _turned(self, span: NDArray[np.float64], turn: NDArray[np.float64]) -> SpannedStatistics:
        """Return the statistics in another span; `turn` (r, r') leads there."""
        turned = SpannedStatistics(span, self.n_classes)
        turned.counts = self.counts
        turned.sums[:, :-1] = self.sums[:, :-1] @ turn
        turned.second_moment[:-1, :-1] = turn.T @ self.second_moment[:-1, :-1] @ turn
        return turned


def together(first: Statistics, second: Statistics) -> Statistics:
    """Return the statistics of the rows of both, which are of the same classes.

    In the span of both as long as that is small; in all directions otherwise.
    """
    if isinstance(first, SpannedStatistics) and isinstance(second, SpannedStatistics):
        n_first = len(first.span)
        if has_small_side(n_first + len(second.span), first.n_features):
            span, turns = _orthonormal(np.concatenate([first.span, second.span]))
            joint = first._turned(span, turns[:n_first])
            other = second._turned(span, turns[n_first:])
            joint.counts = joint.counts + other.counts
            joint.sums += other.sums
            joint.second_moment += other.second_moment
            return joint
    return first.whole().merge(second.whole())


def summed(
    factor: NDArray[np.float64], sums: NDArray[np.float64], counts: NDArray[np.float64]
) -> Statistics:
    """Return statistics from R (r, D) with RᵀR = Σ x xᵀ, class sums (n_classes, D) and counts."""
    if has_small_side(*factor.shape):
        return SpannedStatistics.of_factor(factor, sums, counts)
    statistics = ClassStatistics(*sums.shape)
    statistics.counts, statistics.sums = counts, sums
    statistics.second_moment = factor.T @ factor
    return statistics


def restored(
    counts: NDArray[np.float64],
    sums: NDArray[np.float64],
    second_moment: NDArray[np.float64],
    span: NDArray[np.float64] | None = None,
) -> Statistics:
    """Return the statistics that hold these arrays, on the small side where there is a span."""
    statistics: Statistics
    if span is None:
        statistics = ClassStatistics(*sums.shape)
    else:
        statistics = SpannedStatistics(span, len(counts))
    statistics.counts, statistics.sums, statistics.second_moment = counts, sums, second_moment
    return statistics


def _orthonormal(
    rows: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return an orthonormal basis (n, D) of the span of rows (n, D), and their coordinates (n, n).

    Where rows depend on each other the basis spans more than they do.
    """
    basis, factor = scipy.linalg.qr(rows.T, mode="economic", check_finite=False)
    return np.ascontiguousarray(basis.T, dtype=np.float64), np.asarray(factor.T, dtype=np.float64)
