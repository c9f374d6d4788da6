"""Exact optimal transport on a line of bins with cost (i−j)²: barycenters and distances.

A histogram on the bins 0, …, n−1 has a cumulative function F and a quantile function Q. On a line
the monotone coupling is optimal for every convex cost, so W₂²(a, b) = ∫(Q_a(t) − Q_b(t))² dt and
everything below follows from sorted cumulative sums: no regularisation, no iterations. The formulas
are written once; `xp` is the array module they run on, NumPy or torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgkt._arrays import array_module, batches, is_tensor, to_numpy
from hgkt.exceptions import DataError
from hgkt.transport.simplex import check_histograms, check_weights

if TYPE_CHECKING:
    import torch

# Numbers in one temporary: 2 MiB, which stays in the cache; 128 MiB on a device.
_BATCH_NUMPY, _BATCH_TORCH = 2**18, 2**24


def line_barycenter(
    histograms: ArrayLike | torch.Tensor,
    weights: ArrayLike | None = None,
    device: str | None = None,
) -> Any:
    """Return the histogram a on the same bins that minimises Σ_s λ_s W₂²(a, b_s), exactly.

    The sum is ∫ Σ_s λ_s (Q_a(t) − Q_s(t))² dt over t in [0, 1]. It is minimised point by point, by
    the bin nearest to the mean quantile Σ_s λ_s Q_s(t), which is monotone in t and hence a quantile
    function. Where two bins are equally good the lower one is taken.

    Parameters
    ----------
    histograms : array-like or torch tensor of shape (K, n)
        Rows are non-negative and sum to one.
    weights : array-like of shape (K,), optional
        Non-negative weights λ_s, scaled to sum to one; equal by default.
    device : str, optional
        A torch device such as ``"cuda"``. NumPy is used for ``None`` and ``"cpu"``, unless
        `histograms` is a torch tensor.

    Returns
    -------
    ndarray or torch tensor of shape (n,), float64
        The barycenter; a tensor where a tensor came in.

    Notes
    -----
    The mean quantile is a step function that rises by λ_s at every F_s(j), j < n−1. With the K(n−1)
    cumulative values sorted once, the barycenter's cumulative function at bin k is the value at
    which that step function passes k + 1/2: O(K n log(K n)).

    Examples
    --------
    >>> line_barycenter([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    array([0., 1., 0.])
    """
    matrix = check_histograms(histograms, device=device)
    scaled = check_weights(weights, len(matrix))
    inner = _mean_quantile_cdf(cumulative(matrix)[:, :-1], scaled)
    return _like(histograms, histogram_of(inner))


def line_distances(
    histograms: ArrayLike | torch.Tensor,
    target: ArrayLike | torch.Tensor,
    device: str | None = None,
) -> Any:
    r"""Return W₂² between each of K histograms and one target, exactly.

    Parameters
    ----------
    histograms : array-like or torch tensor of shape (K, n)
        Rows are non-negative and sum to one.
    target : array-like or torch tensor of shape (n,)
        One histogram.
    device : str, optional
        As in :func:`line_barycenter`.

    Returns
    -------
    ndarray or torch tensor of shape (K,), float64
        Squared distances.

    Notes
    -----
    Summation by parts turns ∫(Q_F − Q_G)² into

        Σ_{i<n−1} ∫ from G(i) to F(i) of (2 Q_G(t) − 2i − 1) dt,

    whose terms are all non-negative because Q_G passes from ≤ i to > i at G(i). The integral of Q_G
    is piecewise linear with knots at G: one interpolation per bin replaces the merging of two
    cumulative functions.

    Examples
    --------
    >>> line_distances([[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]], [0.0, 0.0, 1.0])
    array([4. , 0.5])
    """
    matrix = check_histograms(histograms, device=device)
    row: Any = target if is_tensor(target) else np.asarray(target)
    if row.ndim != 1:
        raise DataError(f"target must be one histogram; got shape {tuple(row.shape)}")
    other = _check_other(row[None, :], "target", matrix)
    return _like(histograms, distances_to(matrix, cumulative(other)[0, :-1]))


def line_pairwise(
    A: ArrayLike | torch.Tensor,
    B: ArrayLike | torch.Tensor | None = None,
    device: str | None = None,
) -> Any:
    """Return W₂² between every row of A and every row of B, exactly.

    Parameters
    ----------
    A : array-like or torch tensor of shape (m, n)
        Histograms.
    B : array-like or torch tensor of shape (k, n), optional
        Histograms; A itself by default, and then the result is symmetric with a zero diagonal.
    device : str, optional
        As in :func:`line_barycenter`.

    Returns
    -------
    ndarray or torch tensor of shape (m, k), float64

    Examples
    --------
    >>> line_pairwise([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    array([[0., 1., 4.],
           [1., 0., 1.],
           [4., 1., 0.]])
    """
    rows = check_histograms(A, "A", device)
    goals = cumulative(rows if B is None else _check_other(B, "B", rows))[:, :-1]
    xp = array_module(rows)
    result = xp.zeros((len(rows), len(goals)), dtype=xp.float64, device=rows.device)
    for j, goal in enumerate(goals):
        first = j + 1 if B is None else 0
        if first < len(rows):
            result[first:, j] = distances_to(rows[first:], goal)
    return _like(A, result if B is not None else result + result.T)


def cumulative(histograms: Any) -> Any:
    """Return cumulative sums (K, n) in float64 that end in one exactly and never exceed it."""
    xp = array_module(histograms)
    cdf = xp.cumsum(histograms, axis=1, dtype=xp.float64)
    if xp is not np:
        # A parallel scan adds in another order at every position: rounding may make it dip.
        cdf = cdf.cummax(dim=1).values
    cdf /= cdf[:, -1:] * 1.0  # a copy, which the division must not overwrite
    return cdf


def histogram_of(inner: Any) -> Any:
    """Return the histogram (n,) with the inner cumulative values (n−1,)."""
    xp = array_module(inner)
    return xp.diff(_with_ends(inner, xp))


def distances_to(histograms: Any, goal: Any) -> Any:
    """Return W₂² (K,) of histograms (K, n) to one with inner cumulative values `goal` (n−1,)."""
    xp, n_inner = array_module(histograms), len(goal)
    result = xp.zeros(len(histograms), dtype=xp.float64, device=histograms.device)
    if n_inner == 0:
        return result
    knots, heights = _integral_of_quantile(goal, xp)
    at_goal = _interpolate(goal, knots, heights, xp)
    slopes = 2.0 * xp.arange(n_inner, dtype=xp.float64, device=goal.device) + 1.0
    size = _BATCH_NUMPY if xp is np else _BATCH_TORCH
    for batch in batches(len(histograms), max(1, size // (n_inner + 1))):
        cdf = cumulative(histograms[batch])[:, :-1]
        terms = _interpolate(cdf, knots, heights, xp)
        terms -= at_goal
        terms *= 2.0
        cdf -= goal
        cdf *= slopes
        terms -= cdf
        # Rounding can leave a distance of zero at −1e-13.
        result[batch] = xp.clip(terms.sum(axis=1), 0.0, None)
    return result


def _mean_quantile_cdf(cdf: Any, weights: NDArray[np.float64] | None) -> Any:
    """Cumulative function (n−1,) of the rounded mean quantile, from cumulative values (K, n−1)."""
    n_rows, n_inner = cdf.shape
    xp, jumps = array_module(cdf), cdf.reshape(-1)
    odd = 2 * xp.arange(n_inner, device=cdf.device) + 1
    if weights is None or n_inner == 0:
        # After m jumps the mean quantile is m/K, so only n−1 order statistics are needed.
        if xp is np:
            jumps.sort()  # in place: `cdf` is the caller's no longer
        else:
            jumps = jumps.sort().values
        return jumps[n_rows * odd // 2]
    # Whole numbers add up exactly in any order, so that ties between bins are found as such
    # whatever the order of the instances; the scale leaves room for a sum of `n_inner`, and is so
    # coarse that a weight's own rounding in float64 moves it by less than a unit.
    exponent = min(52, 61 - n_inner.bit_length())
    units = xp.asarray(np.rint(weights * 2.0**exponent).astype(np.int64), device=cdf.device)
    rank = xp.argsort(jumps)
    level = xp.cumsum(units[rank // n_inner], axis=0)
    tie = len(jumps)  # one unit per jump: more than rounding the weights can add up to
    passes = xp.searchsorted(level, odd * 2 ** (exponent - 1) + tie, side="right")
    return jumps[rank[xp.clip(passes, None, len(jumps) - 1)]]


def _integral_of_quantile(goal: Any, xp: Any) -> tuple[Any, Any]:
    """Knots and heights of t ↦ ∫₀ᵗ Q(s) ds for inner cumulative values `goal` (n−1,)."""
    knots = _with_ends(goal, xp)
    steps = xp.diff(knots)
    bins = xp.arange(len(steps), dtype=xp.float64, device=goal.device)
    heights = xp.cumsum(steps * bins, axis=0)
    distinct = steps > 0
    ends = knots[:1], heights[:1]  # both are zero
    return (
        xp.concatenate([ends[0], knots[1:][distinct]]),
        xp.concatenate([ends[1], heights[distinct]]),
    )


def _interpolate(values: Any, knots: Any, heights: Any, xp: Any) -> Any:
    if xp is np:
        return np.interp(values, knots, heights)  # 1.5 times as fast as the search below
    slopes = xp.diff(heights) / xp.diff(knots)
    bins = xp.clip(
        xp.searchsorted(knots, values.contiguous(), side="right") - 1, 0, len(slopes) - 1
    )
    return heights[bins] + slopes[bins] * (values - knots[bins])


def _with_ends(inner: Any, xp: Any) -> Any:
    """Put 0 before and 1 after the inner cumulative values."""
    ends = xp.asarray([0.0, 1.0], dtype=xp.float64, device=inner.device)
    return xp.concatenate([ends[:1], inner, ends[1:]])


def _check_other(histograms: Any, what: str, matrix: Any) -> Any:
    """Check what a matrix is compared with, and bring it there."""
    if isinstance(matrix, np.ndarray):
        other = check_histograms(np.asarray(histograms), what)
    else:
        other = check_histograms(histograms, what, matrix.device)
    if matrix.shape[1] != other.shape[1]:
        raise DataError(
            f"histograms have {matrix.shape[1]} bins, their target {other.shape[1]}; both must "
            "agree"
        )
    return other


def _like(template: Any, result: Any) -> Any:
    """Hand back a tensor where a tensor came in, an array otherwise."""
    return result if is_tensor(template) else to_numpy(result)
