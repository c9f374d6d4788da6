"""Which attributes carry knowledge: a weight for each, by the marginal likelihood of the means.

The class means are draws of a Gaussian process over classes whose kernel measures the distance of
attributes, Σ_j w_j (a_j − a'_j)². Attributes along which the means vary smoothly get large weights.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from hgkt._arrays import array_module, put, put_like, to_numpy
from hgkt.closed_form.posterior import dual_coefficients

RIDGE = 0.03
N_STEPS, LEARNING_RATE = 30, 0.1
MIN_CLASSES, MAX_RATIO = 20, 4.0


def is_learnable(n_classes: int, n_attributes: int) -> bool:
    """Whether there are classes enough to weigh so many attributes one by one.

    Examples
    --------
    >>> is_learnable(150, 312), is_learnable(150, 1024), is_learnable(8, 20)
    (True, False, False)
    """
    return n_classes >= MIN_CLASSES and n_attributes <= MAX_RATIO * n_classes


def attribute_relevance(
    attributes: NDArray[np.float64],
    gram: NDArray[np.float64],
    noise: NDArray[np.float64],
    device: str | None = None,
) -> NDArray[np.float64]:
    """Learn a weight for each attribute from the seen classes.

    A few steps of Adam on log w from equal weights, on the negative log marginal likelihood with
    the variance of the means profiled out, ½ log|C| + (L/2) log tr(C⁻¹G) for C = K_w + Λ. Few
    steps are the regularisation: weights stay near each other unless the means speak clearly.

    Parameters
    ----------
    attributes : ndarray of shape (L, d)
        Mapped attributes of the seen classes.
    gram : ndarray of shape (L, L)
        G, inner products of their means in the metric.
    noise : ndarray of shape (L,)
        Λ, noise of the means relative to a kernel with k(a, a) = 1.
    device : str, optional
        A torch device to compute derivatives on; by default NumPy does.

    Returns
    -------
    ndarray of shape (d,)
        Positive weights, one on average.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> A = rng.random((60, 4))
    >>> means = np.stack([np.sin(3 * A[:, 0]), np.cos(3 * A[:, 0])], axis=1)
    >>> attribute_relevance(A, means @ means.T, np.full(60, 0.03)).argmax()
    np.int64(0)
    """
    n_attributes = attributes.shape[1]
    logs = np.zeros(n_attributes)
    first, second = np.zeros(n_attributes), np.zeros(n_attributes)
    scale = _median(_squared_distances(attributes, np.ones(n_attributes)))
    parts = [put(array, np.float64, device) for array in (attributes, gram, noise)]
    with threadpool_limits(1, "blas"):  # matrices of L × L: threads would only wait for each other
        for step in range(1, N_STEPS + 1):
            weights = np.exp(logs)
            gradient = weights * to_numpy(likelihood_gradient(weights / scale, *parts))
            first = 0.9 * first + 0.1 * gradient
            second = 0.999 * second + 0.001 * gradient**2
            direction = (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
            logs -= LEARNING_RATE * direction
    weights = np.exp(logs)
    result: NDArray[np.float64] = weights / weights.mean()
    return result


def relevance_noise(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return Λ (L,) under which relevance is learned, of classes with so many instances."""
    result: NDArray[np.float64] = RIDGE * counts.mean() / np.maximum(counts, 1.0)
    return result


def likelihood_gradient(
    weights: NDArray[np.float64], attributes: Any, gram: Any, noise: Any
) -> Any:
    """Return the derivative (d,) of the negative log marginal likelihood by weights (d,).

    The other parameters are those of `attribute_relevance`, as arrays or as tensors.
    """
    xp = array_module(attributes)
    kernel = xp.exp(-_squared_distances(attributes, put_like(weights, attributes)))
    inverse = dual_coefficients(kernel, noise, put_like(np.eye(len(kernel)), kernel))
    solved = inverse @ gram
    by_kernel = 0.5 * inverse - 0.5 * len(kernel) / xp.trace(solved) * (solved @ inverse)
    pairs = by_kernel * kernel
    # Σ_ab P_ab (a_j − b_j)² without an array of shape (L, L, d).
    squares = pairs.sum(axis=1) @ attributes**2
    cross = (attributes * (pairs @ attributes)).sum(axis=0)
    return -2.0 * (squares - cross)


def _squared_distances(attributes: Any, weights: Any) -> Any:
    xp = array_module(attributes)
    rows = attributes * xp.sqrt(weights)
    squares = (rows**2).sum(axis=1)
    return xp.clip(squares[:, None] + squares - 2.0 * rows @ rows.T, 0.0, None)


def _median(squared: NDArray[np.float64]) -> float:
    median = float(np.median(squared[np.triu_indices(len(squared), 1)]))
    return median if median > 0 else 1.0
