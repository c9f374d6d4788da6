"""Counts, sums and second moments of labelled features, in all directions or in their span."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from hgkt._arrays import batches
from hgkt.exceptions import DataError

_N_SQUARES = 4  # a fit holds the moment, the scatter, its eigenvectors and room to find them


class Statistics(ABC):
    """Counts, sums and second moment of labelled features, in some coordinates.

    Attributes
    ----------
    n_classes, n_features : int
        How many classes there are, and how wide a row is.
    counts : ndarray of shape (n_classes,)
    sums : ndarray of shape (n_classes, n_coordinates)
    second_moment : ndarray of shape (n_coordinates, n_coordinates)
        Σ_i x_i x_iᵀ.
    """

    n_classes: int
    n_features: int
    counts: NDArray[np.float64]
    sums: NDArray[np.float64]
    second_moment: NDArray[np.float64]

    @abstractmethod
    def coordinates(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return rows (n, D) in the coordinates of sums and moments, in their type."""

    @abstractmethod
    def empty(self, n_classes: int) -> Self:
        """Return statistics of so many classes without rows, in the same coordinates."""

    @abstractmethod
    def without(self, stays: NDArray[np.bool_], factor: NDArray[np.float64]) -> Statistics:
        """Return statistics of the classes that stay (n_classes,), less R (r, D) of the others.

        RᵀR is Σ x xᵀ over their rows.
        """

    @abstractmethod
    def whole(self) -> ClassStatistics:
        """Return the same statistics in all D directions."""

    def over(self, rows: NDArray[np.intp], n_classes: int) -> Self:
        """Return statistics over more classes, those at hand at `rows`."""
        spread = self.empty(n_classes)
        spread.counts[rows], spread.sums[rows] = self.counts, self.sums
        spread.second_moment += self.second_moment
        return spread

    @property
    def n_instances(self) -> int:
        """Number of instances seen."""
        return int(self.counts.sum())

    @property
    def means(self) -> NDArray[np.float64]:
        """Class means (n_classes, n_coordinates); zero for a class without instances."""
        return self.sums / np.maximum(self.counts, 1.0)[:, None]

    @property
    def within_scatter(self) -> NDArray[np.float64]:
        """Σ_c Σ_{i∈c} (x_i − x̄_c)(x_i − x̄_c)ᵀ of shape (n_coordinates, n_coordinates).

        This is XᵀLX for the Laplacian L of the graph that joins all instances of a class with
        weight 1/N_c: the paper's complete in-class graph.
        """
        weighted = self.means * np.sqrt(self.counts)[:, None]
        return self.second_moment - weighted.T @ weighted


@dataclass
class ClassStatistics(Statistics):
    """What closed-form methods need of the data, whatever its size.

    Sums are kept in float64 and can be updated batch by batch or merged across machines in any
    order.

    Parameters
    ----------
    n_classes, n_features : int
        Sizes; class codes run from 0 to ``n_classes - 1``.

    Attributes
    ----------
    counts : ndarray of shape (n_classes,)
    sums : ndarray of shape (n_classes, n_features)
    second_moment : ndarray of shape (n_features, n_features)
        Σ_i x_i x_iᵀ.

    Examples
    --------
    >>> X, codes = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 4.0]]), np.array([0, 0, 1])
    >>> stats = ClassStatistics(2, 2).update(X[:1], codes[:1])
    >>> stats.merge(ClassStatistics(2, 2).update(X[1:], codes[1:])).means
    array([[1., 2.],
           [4., 4.]])
    """

    n_classes: int
    n_features: int
    counts: NDArray[np.float64] = field(init=False)
    sums: NDArray[np.float64] = field(init=False)
    second_moment: NDArray[np.float64] = field(init=False)

    def __post_init__(self) -> None:
        check_square(self.n_features)
        self.counts = np.zeros(self.n_classes)
        self.sums = np.zeros((self.n_classes, self.n_features))
        self.second_moment = np.zeros((self.n_features, self.n_features))

    def update(self, X: NDArray[Any], codes: NDArray[np.intp]) -> Self:
        """Take in features (n, D) with their class codes (n,)."""
        for batch in batches(len(X)):
            chunk = np.asarray(X[batch], dtype=np.float64)
            present, counts, sums = present_sums(chunk, codes[batch])
            self.counts[present] += counts
            self.sums[present] += sums
            self.second_moment += chunk.T @ chunk
        return self

    def merge(self, other: ClassStatistics) -> Self:
        """Add the statistics of other instances of the same classes."""
        self.counts += other.counts
        self.sums += other.sums
        self.second_moment += other.second_moment
        return self

    def coordinates(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return rows (n, D) as sums and moments have them: as they are."""
        return rows

    def empty(self, n_classes: int) -> Self:
        """Return statistics of so many classes without rows."""
        return type(self)(n_classes, self.n_features)

    def without(self, stays: NDArray[np.bool_], factor: NDArray[np.float64]) -> ClassStatistics:
        """Return statistics of the classes that stay (n_classes,), less R (r, D) of the others."""
        left = ClassStatistics(int(stays.sum()), self.n_features)
        left.counts, left.sums = self.counts[stays], self.sums[stays]
        left.second_moment = self.second_moment - factor.T @ factor
        return left

    def whole(self) -> ClassStatistics:
        """Return the same statistics in all D directions."""
        return self

    def shifted(self, center: NDArray[np.float64]) -> ClassStatistics:
        """Return the statistics of the same instances less a point (D,).

        Examples
        --------
        >>> X, codes = np.array([[0.0, 1.0], [2.0, 3.0]]), np.array([0, 1])
        >>> ClassStatistics(2, 2).update(X, codes).shifted(np.array([1.0, 2.0])).second_moment
        array([[2., 2.],
               [2., 2.]])
        """
        moved = ClassStatistics(self.n_classes, self.n_features)
        moved.counts, moved.sums = self.counts, self.sums - np.outer(self.counts, center)
        cross = np.outer(self.sums.sum(axis=0), center)
        moved.second_moment = (
            self.second_moment - cross - cross.T + self.counts.sum() * np.outer(center, center)
        )
        return moved


def check_square(n_features: int) -> None:
    """Refuse so many features that matrices of their square do not fit in memory."""
    needed = _N_SQUARES * 8 * n_features**2
    memory = _memory()
    if needed > memory:
        raise DataError(
            f"{n_features:,} features need matrices of {n_features:,} × {n_features:,} numbers, "
            f"{needed / 1e9:,.0f} GB in all, and this machine has {memory / 1e9:,.0f} GB; reduce "
            f"the features first, or fit HGKT on at most {n_features // 4:,} rows, of which it "
            "needs the span alone"
        )


def _memory() -> float:
    """Return the bytes of this machine's memory; infinity where nobody says."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return np.inf


def present_sums(
    X: NDArray[Any], codes: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float64]]:
    """Sum the rows of X (n, D) by class, for the classes that occur: what many classes need.

    Returns
    -------
    present : ndarray of shape (p,)
        The codes that occur, sorted.
    counts : ndarray of shape (p,)
    sums : ndarray of shape (p, D)
        In float64.

    Examples
    --------
    >>> present_sums(np.array([[1.0], [3.0], [5.0]]), np.array([7, 2, 7]))
    (array([2, 7]), array([1, 2]), array([[3.],
           [6.]]))
    """
    order = np.argsort(codes, kind="stable")
    present, starts, counts = np.unique(codes[order], return_index=True, return_counts=True)
    if not len(codes):
        return present, counts, np.zeros((0, X.shape[1]))
    return present, counts, np.add.reduceat(X[order], starts, axis=0, dtype=np.float64)


def class_sums(X: NDArray[Any], codes: NDArray[np.intp], n_classes: int) -> NDArray[np.float64]:
    """Sum the rows of X (n, D) by class: (n_classes, D), in float64."""
    present, _, found = present_sums(X, codes)
    sums = np.zeros((n_classes, X.shape[1]))
    sums[present] = found
    return sums


def class_counts_and_means(
    X: NDArray[Any], codes: NDArray[np.intp], n_classes: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return counts (n_classes,) and means (n_classes, D) in one chunked pass.

    Examples
    --------
    >>> class_counts_and_means(np.array([[1.0], [3.0], [5.0]]), np.array([0, 0, 1]), 2)
    (array([2., 1.]), array([[2.],
           [5.]]))
    """
    counts, sums = np.zeros(n_classes), np.zeros((n_classes, X.shape[1]))
    for batch in batches(len(X)):
        counts += np.bincount(codes[batch], minlength=n_classes)
        sums += class_sums(X[batch], codes[batch], n_classes)
    return counts, sums / np.maximum(counts, 1.0)[:, None]


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
        counts = np.bincount(codes, minlength=n_classes).astype(np.float64)
        return cls.of_factor(rows, class_sums(rows, codes, n_classes), counts)

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

    def empty(self, n_classes: int) -> Self:
        """Return statistics of so many classes without rows, in the same span."""
        return type(self)(self.span, n_classes)

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
    return restored(counts, sums, factor.T @ factor)


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
