"""Means and variances within classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt.statistics import class_sums

_CHUNK_ROWS = 4096


def class_means_and_variances(
    X: NDArray[Any], codes: NDArray[np.intp], n_classes: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return means and unbiased variances of each class, (n_classes, D) both, in one pass.

    Examples
    --------
    >>> class_means_and_variances(np.array([[1.0], [3.0], [9.0]]), np.array([0, 0, 1]), 2)
    (array([[2.],
           [9.]]), array([[2.],
           [2.]]))
    """
    shift = np.asarray(X[0], dtype=np.float64)  # keeps the squares small against their differences
    counts, sums = np.zeros(n_classes), np.zeros((n_classes, X.shape[1]))
    squares = np.zeros_like(sums)
    for start in range(0, len(X), _CHUNK_ROWS):
        rows = np.asarray(X[start : start + _CHUNK_ROWS], dtype=np.float64) - shift
        labels = codes[start : start + _CHUNK_ROWS]
        counts += np.bincount(labels, minlength=n_classes)
        sums += class_sums(rows, labels, n_classes)
        squares += class_sums(rows**2, labels, n_classes)
    means = sums / np.maximum(counts, 1.0)[:, None]
    return means + shift, variances_of(counts, means, squares)


def variances_of(
    counts: NDArray[np.float64], means: NDArray[np.float64], squares: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the unbiased variances (n_classes, D) from counts, means and sums of squares.

    Paper gap: a class of one instance has no variance; it takes the pooled one of all classes.

    Examples
    --------
    >>> variances_of(np.array([2.0, 1.0]), np.array([[2.0], [9.0]]), np.array([[10.0], [81.0]]))
    array([[2.],
           [2.]])
    """
    scatters = np.maximum(squares - counts[:, None] * means**2, 0.0)
    pooled = scatters.sum(axis=0) / max(float((counts - 1.0).clip(0.0).sum()), 1.0)
    variances: NDArray[np.float64] = scatters / np.maximum(counts - 1.0, 1.0)[:, None]
    variances[counts < 2] = pooled
    return variances
