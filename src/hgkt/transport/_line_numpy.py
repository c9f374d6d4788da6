"""Transport on a line with NumPy: the kernels behind `line.py`, on arrays already checked."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_CHUNK_ELEMENTS = 2**18  # numbers in one temporary: 2 MiB, which stays in the cache
_BUCKETS_PER_RANK = 16


def barycenter(
    histograms: NDArray[Any], weights: NDArray[np.float64] | None, p: int
) -> NDArray[np.float64]:
    """Barycenter (n,) of histograms (K, n) under weights (K,) that sum to one, or equal ones."""
    cdf = cumulative(histograms)[:, :-1]
    inner = _mean_quantile_cdf(cdf, weights) if p == 2 else _median_quantile_cdf(cdf, weights)
    return np.diff(inner, prepend=0.0, append=1.0)


def distances(histograms: NDArray[Any], goal: NDArray[np.float64], p: int) -> NDArray[np.float64]:
    """W_p^p (K,) of histograms (K, n) to the target with inner cumulative values `goal` (n−1,)."""
    n_inner = len(goal)
    result = np.zeros(len(histograms))
    if n_inner == 0:
        return result
    knots, heights = _integral_of_quantile(goal)
    at_goal, slopes = np.interp(goal, knots, heights), 2.0 * np.arange(n_inner) + 1.0
    step = max(1, _CHUNK_ELEMENTS // (n_inner + 1))
    for start in range(0, len(histograms), step):
        cdf = cumulative(histograms[start : start + step])[:, :-1]
        if p == 1:
            result[start : start + step] = np.abs(cdf - goal).sum(axis=1)
            continue
        terms = np.interp(cdf, knots, heights)
        terms -= at_goal
        terms *= 2.0
        cdf -= goal
        cdf *= slopes
        terms -= cdf
        # Rounding can leave a distance of zero at −1e-13.
        result[start : start + step] = np.maximum(terms.sum(axis=1), 0.0)
    return result


def pairwise(A: NDArray[Any], B: NDArray[Any] | None, p: int) -> NDArray[np.float64]:
    """W_p^p (m, k) between the rows of A (m, n) and those of B (k, n), or of A itself."""
    goals = cumulative(A if B is None else B)[:, :-1]
    result = np.zeros((len(A), len(goals)))
    for j, goal in enumerate(goals):
        first = j + 1 if B is None else 0
        result[first:, j] = distances(A[first:], goal, p)
    if B is None:
        result += result.T
    return result


def cumulative(histograms: NDArray[Any]) -> NDArray[np.float64]:
    """Cumulative sums (K, n) in float64 that end in one exactly and never exceed it."""
    cdf = np.cumsum(histograms, axis=1, dtype=np.float64)
    cdf /= cdf[:, -1:].copy()
    return cdf


def weight_units(weights: NDArray[np.float64], n_bins: int) -> tuple[NDArray[np.int64], int]:
    """Weights as whole numbers and the whole number that stands for 1/2.

    Whole numbers add up exactly in any order, so that ties between bins are found as such whatever
    the order of the instances; the scale leaves room for a sum of `n_bins`, and is so coarse that
    a weight's own rounding in float64 moves it by less than a unit.
    """
    exponent = min(52, 61 - int(n_bins).bit_length())
    return np.rint(weights * 2.0**exponent).astype(np.int64), 2 ** (exponent - 1)


def _mean_quantile_cdf(
    cdf: NDArray[np.float64], weights: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    """Cumulative function (n−1,) of the rounded mean quantile, from cumulative values (K, n−1)."""
    n_rows, n_inner = cdf.shape
    jumps = cdf.ravel()
    if n_inner == 0:
        return jumps
    if weights is None:
        # After m jumps the mean quantile is m/K, so only n−1 order statistics are needed.
        return _order_statistics(jumps, n_rows * (2 * np.arange(n_inner) + 1) // 2)
    units, half = weight_units(weights, n_inner)
    rank = np.argsort(jumps)
    level = np.cumsum(units[rank // n_inner])
    tie = len(jumps)  # one unit a jump: more than rounding the weights can add up to
    passes = np.searchsorted(level, (2 * np.arange(n_inner) + 1) * half + tie, side="right")
    return jumps[rank[np.minimum(passes, len(jumps) - 1)]]


def _order_statistics(values: NDArray[np.float64], ranks: NDArray[np.intp]) -> NDArray[np.float64]:
    """Values of the given ranks (from 0) among numbers in [0, 1]; no full sort.

    Equal-width buckets keep the order; only those that hold a wanted rank have to be sorted.
    """
    n_buckets = _BUCKETS_PER_RANK * len(ranks)
    bucket = (values * n_buckets).astype(np.int32)
    counts = np.bincount(bucket, minlength=n_buckets + 1)
    home = np.searchsorted(np.cumsum(counts), ranks, side="right")
    needed = np.zeros(len(counts), dtype=bool)
    needed[home] = True
    kept = np.sort(values[needed[bucket]])
    skipped = np.cumsum(np.where(needed, 0, counts))
    found: NDArray[np.float64] = kept[ranks - skipped[home]]
    return found


def _median_quantile_cdf(
    cdf: NDArray[np.float64], weights: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    """Cumulative function (n−1,) of the lower weighted median of the quantiles."""
    if weights is None:
        middle: NDArray[np.float64] = np.partition(cdf, len(cdf) // 2, axis=0)[len(cdf) // 2]
        return middle
    units, half = weight_units(weights, cdf.shape[1])
    rank = np.argsort(cdf, axis=0)[::-1]
    enough = np.cumsum(units[rank], axis=0) >= half - len(cdf)
    first = np.take_along_axis(rank, enough.argmax(axis=0)[None], axis=0)
    return np.take_along_axis(cdf, first, axis=0).ravel()


def _integral_of_quantile(
    goal: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Knots and heights of t ↦ ∫₀ᵗ Q(s) ds for inner cumulative values `goal` (n−1,)."""
    knots = np.concatenate([[0.0], goal, [1.0]])
    steps = np.diff(knots)
    heights = np.concatenate([[0.0], np.cumsum(steps * np.arange(len(steps)))])
    distinct = np.append(steps > 0, True)
    return knots[distinct], heights[distinct]
