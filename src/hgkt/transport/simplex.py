"""Histograms: the map of features into the probability simplex, and the checks of what is one."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgkt._arrays import array_module, is_tensor
from hgkt._validation import check_finite
from hgkt.exceptions import DataError

_MASS_TOLERANCE = 1e-6


def to_simplex(features: ArrayLike) -> NDArray[np.float64]:
    """Turn each row into a histogram: non-negative numbers that sum to one.

    A row without negative entries becomes x/Σx; from one that has some its minimum is subtracted
    first. A row of zeros carries no direction; it becomes the uniform histogram and a warning says
    so. No row depends on another one.

    Paper gap: the paper normalises "into the n-simplex" and does not say how; its features are
    non-negative, for which x/Σx is the plain reading.

    Parameters
    ----------
    features : array-like of shape (N, D)
        Finite numbers; ResNet features after pooling are non-negative already.

    Returns
    -------
    ndarray of shape (N, D), float64

    Examples
    --------
    >>> to_simplex([[1.0, 3.0], [-1.0, 1.0]])
    array([[0.25, 0.75],
           [0.  , 1.  ]])
    """
    matrix = as_matrix(features, "features")
    check_finite(matrix, "features")
    rows = np.array(matrix, dtype=np.float64, order="C")
    warn_zero_rows([simplex_in_place(rows, np.arange(len(rows)))])
    return rows


def simplex_in_place(block: NDArray[np.float64], rows: NDArray[np.intp]) -> NDArray[np.intp]:
    """Overwrite `block` (k, D) with histograms; `rows` (k,) name its rows in messages.

    Returns the rows, out of `rows`, that were all zero and became uniform.
    """
    lowest = block.min(axis=1)
    if (lowest < 0).any():
        block -= np.minimum(lowest, 0.0)[:, None]
    with np.errstate(over="ignore"):  # said below
        totals = block.sum(axis=1)
    if not np.isfinite(totals).all():
        raise DataError(
            f"features in row {rows[np.argmax(~np.isfinite(totals))]} are too large to be summed "
            "in float64; scale them down"
        )
    zero = totals == 0.0
    if zero.any():
        block[zero] = 1.0
        totals[zero] = block.shape[1]
    block /= totals[:, None]
    return rows[np.flatnonzero(zero)]


def warn_zero_rows(found: list[NDArray[np.intp]]) -> None:
    """Say once how many rows were all zero, and which one is the first."""
    rows = np.concatenate(found) if found else np.empty(0, dtype=np.intp)
    if len(rows):
        warnings.warn(
            f"{len(rows)} rows of features are zero everywhere (the first is row {rows.min()}) "
            "and were made uniform histograms",
            UserWarning,
            stacklevel=3,
        )


def as_matrix(array: Any, what: str) -> Any:
    """Return an array or tensor with two dimensions and at least one column, or say what it is."""
    matrix: Any = array.detach() if is_tensor(array) else np.asarray(array)
    if isinstance(matrix, np.ndarray) and matrix.dtype.kind not in "fiub":
        raise DataError(f"{what} must be numbers; got an array of type {matrix.dtype}")
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise DataError(
            f"{what} must be a matrix with one row an instance; got shape {tuple(matrix.shape)}"
        )
    return matrix


def on_device(array: Any, device: Any) -> Any:
    """Return a float64 tensor on a torch device; NumPy arrays stay what they are on the CPU."""
    if not is_tensor(array) and device in (None, "cpu"):
        return array
    import torch

    return torch.as_tensor(array).to(device=device, dtype=torch.float64)


def check_histograms(histograms: Any, what: str = "histograms", device: Any = None) -> Any:
    """Return a matrix whose rows are histograms, or name the first row that is none.

    It is a float64 tensor where a tensor came in or `device` is not the CPU.
    """
    matrix = as_matrix(histograms, what)
    if isinstance(matrix, np.ndarray):
        check_finite(matrix, what)
    matrix = on_device(matrix, device)
    if len(matrix) == 0:
        raise DataError(f"{what} have no rows; at least one is expected")
    xp = array_module(matrix)
    lowest, totals = xp.amin(matrix, axis=1), xp.sum(matrix, axis=1, dtype=xp.float64)
    good = (lowest >= 0) & (xp.abs(totals - 1.0) <= _MASS_TOLERANCE)  # neither holds for NaN
    if not bool(good.all()):
        row = int(xp.argmin(1 * good))
        raise DataError(
            f"{what} must be non-negative and sum to one; row {row} has minimum "
            f"{float(lowest[row]):g} and sum {float(totals[row]):g} (see to_simplex)"
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
