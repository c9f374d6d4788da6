"""Quadratic programs on the simplex, many at once, by accelerated projected gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_MAX_STEPS = 5000
_TOLERANCE = 1e-10


def project_to_simplex(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the nearest point of the simplex {z ≥ 0, Σz = 1} to each row (n, L).

    Examples
    --------
    >>> project_to_simplex(np.array([[0.5, 0.7], [3.0, 0.0]]))
    array([[0.4, 0.6],
           [1. , 0. ]])
    """
    ordered = -np.sort(-rows, axis=1)
    excess = ordered.cumsum(axis=1) - 1.0
    ranks = np.arange(1, rows.shape[1] + 1)
    support = (ordered * ranks > excess).sum(axis=1)
    shift = excess[np.arange(len(rows)), support - 1] / support
    return np.maximum(rows - shift[:, None], 0.0)


def simplex_mixtures(
    targets: NDArray[Any], sources: NDArray[Any], gamma: float
) -> NDArray[np.float64]:
    """Write each target as a mixture of sources.

    Solves, for every row a of the targets,

        min ½‖a − Sᵀz‖² + (γ/2)‖z‖²   over z ≥ 0, Σz = 1,

    that is ½ zᵀ(SSᵀ + γI)z − (Sa)ᵀz, by FISTA whose momentum restarts for a target when it points
    uphill (O'Donoghue, Candès 2015).

    Parameters
    ----------
    targets : ndarray of shape (n, d)
        What is to be written as mixtures.
    sources : ndarray of shape (n_sources, d)
        S.
    gamma : float
        γ; larger values spread the mixture.

    Returns
    -------
    ndarray of shape (n, n_sources)

    Examples
    --------
    >>> simplex_mixtures(np.array([[1.0, 1.0]]), np.eye(2), 0.1)
    array([[0.5, 0.5]])
    """
    hessian = sources @ sources.T
    hessian[np.diag_indices_from(hessian)] += gamma
    linear = targets @ sources.T
    step = 1.0 / max(float(np.linalg.eigvalsh(hessian)[-1]), np.finfo(float).tiny)
    mixtures = np.full(linear.shape, 1.0 / len(sources))
    ahead, momentum = mixtures, np.ones((len(targets), 1))
    for _ in range(_MAX_STEPS):
        moved = project_to_simplex(ahead - step * (ahead @ hessian - linear))
        change = moved - mixtures
        if np.abs(moved - ahead).max(initial=0.0) < _TOLERANCE:
            return moved
        uphill = ((ahead - moved) * change).sum(axis=1, keepdims=True) > 0.0
        momentum = np.where(uphill, 1.0, momentum)
        following = 0.5 + np.sqrt(0.25 + momentum**2)
        ahead = moved + (momentum - 1.0) / following * change
        mixtures, momentum = moved, following
    return mixtures
