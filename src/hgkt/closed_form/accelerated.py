"""The two heavy steps of the closed form on a CUDA device; results come back as NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt._geometry import FeatureMap, power_of
from hgkt.statistics import ClassStatistics

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
        power = power_of(feature_map)
        if power is not None:
            rows = torch.sign(rows) * rows.abs().pow(power)
            norms = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
            rows = rows / torch.where(norms > 0, norms, 1.0)
        labels = torch.from_numpy(codes[start : start + _CHUNK_ROWS].astype(np.int64)).to(device)
        sums.index_add_(0, labels, rows)
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
