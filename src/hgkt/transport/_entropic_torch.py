"""Entropic transport on a torch device: all histograms of a class at once, in the log domain."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

_CHECK_EVERY = 10
_CHUNK = 64

Solved = tuple[NDArray[np.float64], float]
"""What was asked for, and how far the marginals still are from what they should be."""


@torch.inference_mode()
def barycenter(
    histograms: NDArray[np.float64],
    cost: NDArray[np.float64],
    reg: float,
    weights: NDArray[np.float64] | None,
    max_iter: int,
    tol: float,
    device: str,
) -> Solved:
    """Return the entropic barycenter (n,) of positive histograms (K, n): POT's iteration.

    Weights (K,) sum to one; None for equal ones. The error is the sum over bins of the standard
    deviation of the K marginals.
    """
    kernel = -_tensor(cost, device) / reg
    logs = _tensor(histograms, device).log()
    shares = _tensor(np.full(len(logs), 1.0 / len(logs)) if weights is None else weights, device)
    potentials, error = torch.zeros_like(logs), np.inf
    for step in range(max_iter):
        spread = _blur(kernel.T, logs - _blur(kernel, potentials))
        center = shares @ spread
        if step % _CHECK_EVERY == 1:
            error = float((potentials + spread).exp().std(dim=0, correction=0).sum())
            if error < tol:
                break
        potentials = center - spread
    return center.exp().cpu().numpy(), error


@torch.inference_mode()
def distances(
    histograms: NDArray[np.float64],
    target: NDArray[np.float64],
    cost: NDArray[np.float64],
    reg: float,
    max_iter: int,
    tol: float,
    device: str,
) -> Solved:
    """Return ⟨P, C⟩ (K,) of the entropic plans between positive histograms (K, n) and one (n,).

    The error is the largest distance between a plan's marginal and the target.
    """
    costs = _tensor(cost, device)
    kernel, goal = -costs / reg, _tensor(target, device)
    logs, error = _tensor(histograms, device).log(), np.inf
    sources = torch.zeros_like(logs)
    for step in range(max_iter):
        targets = goal.log() - _blur(kernel.T, sources)
        sources = logs - _blur(kernel, targets)
        if step % _CHECK_EVERY == 0:
            marginals = (targets + _blur(kernel.T, sources)).exp()
            error = float(torch.linalg.vector_norm(marginals - goal, dim=1).max())
            if error < tol:
                break
    found = [
        ((kernel + u[:, :, None] + v[:, None, :]).exp() * costs).sum(dim=(1, 2))
        for u, v in zip(torch.split(sources, _CHUNK), torch.split(targets, _CHUNK), strict=True)
    ]
    return torch.cat(found).cpu().numpy(), error


def _blur(kernel: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Return log Σ_j exp(kernel_ij + values_kj), of shape (K, n)."""
    parts = torch.split(values, _CHUNK)
    return torch.cat([torch.logsumexp(kernel + part[:, None, :], dim=2) for part in parts])


def _tensor(array: NDArray[Any], device: str) -> torch.Tensor:
    return torch.as_tensor(array, dtype=torch.float64, device=device)
