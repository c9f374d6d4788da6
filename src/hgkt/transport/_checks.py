"""Checks of histograms, weights and class codes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgkt._validation import check_finite
from hgkt.exceptions import DataError
from hgkt.transport.simplex import as_matrix

MASS_TOLERANCE = 1e-6


def check_histograms(histograms: Any, what: str = "histograms") -> NDArray[Any]:
    """Return a matrix whose rows are histograms, or name the first row that is none."""
    matrix = as_matrix(histograms, what)
    check_finite(matrix, what)
    if len(matrix) == 0:
        raise DataError(f"{what} have no rows; at least one is expected")
    lowest, totals = matrix.min(axis=1), matrix.sum(axis=1, dtype=np.float64)
    bad = (lowest < 0) | (np.abs(totals - 1.0) > MASS_TOLERANCE)
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(
            f"{what} must be non-negative and sum to one; row {row} has minimum {lowest[row]:g} "
            f"and sum {totals[row]:g} (see to_simplex)"
        )
    return matrix


def check_weights(weights: ArrayLike | None, n_rows: int) -> NDArray[np.float64] | None:
    """Return weights scaled to sum to one, or None."""
    if weights is None:
        return None
    array = np.asarray(weights, dtype=np.float64)
    if array.shape != (n_rows,):
        raise DataError(f"weights must have shape ({n_rows},), one a row; got {array.shape}")
    if not np.isfinite(array).all() or (array < 0).any() or array.sum() <= 0:
        raise DataError("weights must be finite, non-negative and not all zero")
    return array / float(array.sum())


def class_rows(codes: ArrayLike, n_classes: int, n_rows: int) -> list[NDArray[np.intp]]:
    """Return the rows of each class in increasing order, after checking the codes."""
    labels = np.asarray(codes)
    if labels.shape != (n_rows,) or labels.dtype.kind not in "iu":
        raise DataError(
            f"codes must be {n_rows} integers, one a row; got {labels.dtype} {labels.shape}"
        )
    outside = (labels < 0) | (labels >= n_classes)
    if outside.any():
        row = int(np.argmax(outside))
        raise DataError(f"code {labels[row]} in row {row} is not in 0..{n_classes - 1}")
    counts = np.bincount(labels, minlength=n_classes)
    if (counts == 0).any():
        raise DataError(
            f"class code {np.argmin(counts)} has no instance; every class needs at least one"
        )
    return np.split(np.argsort(labels, kind="stable"), np.cumsum(counts)[:-1])
