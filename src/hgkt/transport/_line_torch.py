"""Transport on a line with torch: the kernels of `_line_numpy.py` on any device."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hgkt.exceptions import DataError
from hgkt.transport._checks import MASS_TOLERANCE
from hgkt.transport._line_numpy import weight_units

_CHUNK_ELEMENTS = 2**24  # numbers in one temporary: 128 MiB of device memory


def as_histograms(array: Any, device: Any, what: str = "histograms") -> torch.Tensor:
    """Move to `device` (by default the tensor's own) as float64 and check that rows are such."""
    tensor = array if torch.is_tensor(array) else torch.as_tensor(np.asarray(array))
    tensor = tensor.detach().to(device=device or tensor.device, dtype=torch.float64)
    if tensor.ndim != 2 or tensor.shape[0] == 0 or tensor.shape[1] == 0:
        raise DataError(f"{what} must be a matrix with rows; got shape {tuple(tensor.shape)}")
    lowest, totals = tensor.amin(dim=1), tensor.sum(dim=1)
    good = (lowest >= 0) & ((totals - 1.0).abs() <= MASS_TOLERANCE)
    if not bool(good.all()):
        row = int((~good).to(torch.uint8).argmax())
        raise DataError(
            f"{what} must be non-negative and sum to one; row {row} has minimum "
            f"{float(lowest[row]):g} and sum {float(totals[row]):g} (see to_simplex)"
        )
    return tensor


def barycenter(
    histograms: torch.Tensor, weights: NDArray[np.float64] | None, p: int
) -> torch.Tensor:
    """Barycenter (n,) of histograms (K, n) under weights (K,) that sum to one, or equal ones."""
    cdf = cumulative(histograms)[:, :-1]
    inner = _mean_quantile_cdf(cdf, weights) if p == 2 else _median_quantile_cdf(cdf, weights)
    return torch.diff(inner, prepend=inner.new_zeros(1), append=inner.new_ones(1))


def distances(histograms: torch.Tensor, goal: torch.Tensor, p: int) -> torch.Tensor:
    """W_p^p (K,) of histograms (K, n) to the target with inner cumulative values `goal` (n−1,)."""
    n_inner = len(goal)
    if n_inner == 0:
        return histograms.new_zeros(len(histograms))
    knots = torch.cat([goal.new_zeros(1), goal])
    heights = _integral_of_quantile(goal)
    slopes = 2.0 * torch.arange(n_inner, device=goal.device) + 1.0
    found = []
    for part in torch.split(histograms, max(1, _CHUNK_ELEMENTS // (n_inner + 1))):
        cdf = cumulative(part)[:, :-1].contiguous()
        if p == 1:
            found.append((cdf - goal).abs().sum(dim=1))
            continue
        # The last knot at or below t: Q is constant, equal to its number, from there up to t.
        bins = torch.searchsorted(knots, cdf, right=True) - 1
        integral = heights[bins] + bins * (cdf - knots[bins])
        terms = 2.0 * (integral - heights[1:]) - slopes * (cdf - goal)
        found.append(terms.sum(dim=1).clamp_(min=0.0))
    return torch.cat(found)


def pairwise(A: torch.Tensor, B: torch.Tensor | None, p: int) -> torch.Tensor:
    """W_p^p (m, k) between the rows of A (m, n) and those of B (k, n), or of A itself."""
    goals = cumulative(A if B is None else B)[:, :-1]
    result = A.new_zeros(len(A), len(goals))
    for j, goal in enumerate(goals):
        first = j + 1 if B is None else 0
        if first < len(A):
            result[first:, j] = distances(A[first:], goal, p)
    return result if B is not None else result + result.T


def cumulative(histograms: torch.Tensor) -> torch.Tensor:
    """Cumulative sums (K, n) that end in one exactly and, unlike a raw scan, never decrease."""
    cdf = histograms.cumsum(dim=1)
    # A parallel scan adds in another order at every position: rounding may make it dip.
    cdf = cdf.cummax(dim=1).values
    return cdf / cdf[:, -1:]


def _mean_quantile_cdf(cdf: torch.Tensor, weights: NDArray[np.float64] | None) -> torch.Tensor:
    n_rows, n_inner = cdf.shape
    bins = torch.arange(n_inner, device=cdf.device)
    jumps, rank = cdf.reshape(-1).sort()
    if weights is None or n_inner == 0:
        return jumps[n_rows * (2 * bins + 1) // 2]
    units, half = weight_units(weights, n_inner)
    level = torch.as_tensor(units, device=cdf.device)[rank // n_inner].cumsum(dim=0)
    passes = torch.searchsorted(level, (2 * bins + 1) * half + len(jumps), right=True)
    return jumps[passes.clamp(max=len(jumps) - 1)]


def _median_quantile_cdf(cdf: torch.Tensor, weights: NDArray[np.float64] | None) -> torch.Tensor:
    ordered, rank = cdf.sort(dim=0, descending=True)
    if weights is None:
        return ordered[(len(cdf) - 1) // 2]
    units, half = weight_units(weights, cdf.shape[1])
    summed = torch.as_tensor(units, device=cdf.device)[rank].cumsum(dim=0)
    first = (summed >= half - len(cdf)).to(torch.uint8).argmax(dim=0, keepdim=True)
    return ordered.gather(0, first)[0]


def _integral_of_quantile(goal: torch.Tensor) -> torch.Tensor:
    """∫₀ᵗ Q(s) ds at t = 0 and at each of the inner cumulative values `goal` (n−1,)."""
    masses = torch.diff(goal, prepend=goal.new_zeros(1))
    bins = torch.arange(len(goal), device=goal.device)
    return torch.cat([goal.new_zeros(1), (masses * bins).cumsum(dim=0)])
