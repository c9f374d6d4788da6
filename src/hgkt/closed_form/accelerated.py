"""Heavy steps of the closed form on a torch device, and what its modules do with tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hgkt._arrays import FeatureMap, power_of
from hgkt.statistics import ClassStatistics

if TYPE_CHECKING:
    import torch

_CHUNK_ROWS = 32768


def gather_on(
    device: str, X: NDArray[Any], codes: NDArray[np.intp], n_classes: int, feature_map: FeatureMap
) -> ClassStatistics:
    """Collect the statistics of mapped features (N, D) on a torch device, in float64."""
    import torch

    statistics = ClassStatistics(n_classes, X.shape[1])
    sums = torch.zeros(n_classes, X.shape[1], dtype=torch.float64, device=device)
    moment = torch.zeros(X.shape[1], X.shape[1], dtype=torch.float64, device=device)
    for start in range(0, len(X), _CHUNK_ROWS):
        rows = torch.from_numpy(np.array(X[start : start + _CHUNK_ROWS])).to(device).double()
        rows = map_tensor(rows, feature_map)
        labels = torch.from_numpy(codes[start : start + _CHUNK_ROWS].astype(np.int64)).to(device)
        # In the order of the rows; `index_add_` adds in whatever order threads come.
        sums.index_put_((labels,), rows, accumulate=True)
        moment += rows.T @ rows
    statistics.counts += np.bincount(codes, minlength=n_classes)
    statistics.sums += sums.cpu().numpy()
    statistics.second_moment += moment.cpu().numpy()
    return statistics


def eigh_on(
    device: str, matrix: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Decompose a symmetric matrix (D, D) on a torch device: eigenvalues (D,), vectors (D, D)."""
    import torch

    eigenvalues, vectors = torch.linalg.eigh(torch.from_numpy(matrix).to(device))
    return eigenvalues.cpu().numpy(), vectors.cpu().numpy()


def relevance_gradient_on(
    device: str,
    attributes: NDArray[np.float64],
    gram: NDArray[np.float64],
    noise: NDArray[np.float64],
) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    """Return what `relevance.attribute_relevance` follows, computed on a torch device.

    Parameters
    ----------
    device : str
        A torch device.
    attributes, gram, noise
        As for `attribute_relevance`.
    """
    import torch

    rows, products, extra = (torch.tensor(a, device=device) for a in (attributes, gram, noise))

    def gradient(weights: NDArray[np.float64]) -> NDArray[np.float64]:
        scaled = rows * torch.tensor(np.sqrt(weights), device=device)
        squares = (scaled**2).sum(dim=1)
        kernel = (2.0 * scaled @ scaled.T - squares[:, None] - squares).clamp_(max=0.0).exp_()
        inverse = torch.cholesky_inverse(torch.linalg.cholesky(kernel + torch.diag(extra)))
        solved = inverse @ products
        share = 0.5 * len(rows) / torch.trace(solved)
        pairs = (0.5 * inverse - share * (solved @ inverse)) * kernel
        cross = (rows * (pairs @ rows)).sum(dim=0)
        found: NDArray[np.float64] = (-2.0 * (pairs.sum(dim=1) @ rows**2 - cross)).cpu().numpy()
        return found

    return gradient


def map_tensor(rows: torch.Tensor, feature_map: FeatureMap) -> torch.Tensor:
    """Map each row of an (n, D) tensor; an all-zero row stays zero."""
    powers = to_power(rows, feature_map)
    if powers is None:
        return rows
    powers, lengths = measured(powers)
    return powers / positive(lengths)[:, None]


def to_power(rows: torch.Tensor, feature_map: FeatureMap) -> torch.Tensor | None:
    """Return rows (n, D) to the power of a map, signs kept, not yet of unit length.

    None where the map is none.
    """
    import torch

    power = power_of(feature_map)
    if power is None or power == 1.0:
        return None if power is None else rows
    sizes = rows.abs()
    if power == 0.5:
        return torch.copysign(sizes.sqrt_(), rows)
    return torch.copysign(sizes.pow_(power), rows)


def lengths_of(rows: torch.Tensor) -> torch.Tensor:
    """Return the Euclidean lengths along the last axis."""
    import torch

    lengths: torch.Tensor = torch.linalg.vector_norm(rows, dim=-1)
    return lengths


def measured(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return rows (n, D) and their lengths (n,); squares of tiny numbers are zero.

    A row whose length is lost so is divided by its largest number first.
    """
    import torch

    lengths = lengths_of(rows)
    lost = lengths == 0
    if bool(lost.any()):
        sizes = torch.where(lost, positive(rows.abs().amax(dim=1)), 1.0)
        rows = rows / sizes[:, None]
        lengths = lengths_of(rows)
    return rows, lengths


def positive(numbers: torch.Tensor) -> torch.Tensor:
    """Return lengths to divide by: one in the place of zero."""
    import torch

    return torch.where(numbers > 0, numbers, 1.0)
