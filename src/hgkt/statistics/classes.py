"""Sufficient statistics of labelled features: counts, sums, second moments, in one pass."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hgkt.exceptions import DataError

_CHUNK_ROWS = 4096
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
    def over(self, rows: NDArray[np.intp], n_classes: int) -> Statistics:
        """Return statistics over more classes, those at hand at `rows`."""

    @abstractmethod
    def without(self, stays: NDArray[np.bool_], factor: NDArray[np.float64]) -> Statistics:
        """Return statistics of the classes that stay (n_classes,), less R (r, D) of the others.

        RᵀR is Σ x xᵀ over their rows.
        """

    @abstractmethod
    def whole(self) -> ClassStatistics:
        """Return the same statistics in all D directions."""

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
        for start in range(0, len(X), _CHUNK_ROWS):
            chunk = np.asarray(X[start : start + _CHUNK_ROWS], dtype=np.float64)
            labels = codes[start : start + _CHUNK_ROWS]
            present, counts, sums = present_sums(chunk, labels)
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

    def over(self, rows: NDArray[np.intp], n_classes: int) -> ClassStatistics:
        """Return statistics over more classes, those at hand at `rows`."""
        spread = ClassStatistics(n_classes, self.n_features)
        spread.counts[rows], spread.sums[rows] = self.counts, self.sums
        spread.second_moment += self.second_moment
        return spread

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
    there = _memory()
    if needed > there:
        raise DataError(
            f"{n_features:,} features need matrices of {n_features:,} × {n_features:,} numbers, "
            f"{needed / 1e9:,.0f} GB in all, and this machine has {there / 1e9:,.0f} GB; reduce "
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
    for start in range(0, len(X), _CHUNK_ROWS):
        labels = codes[start : start + _CHUNK_ROWS]
        counts += np.bincount(labels, minlength=n_classes)
        sums += class_sums(X[start : start + _CHUNK_ROWS], labels, n_classes)
    return counts, sums / np.maximum(counts, 1.0)[:, None]
