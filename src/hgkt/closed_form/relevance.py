"""Which attributes carry knowledge: a weight for each, by the marginal likelihood of the means.

The class means are draws of a Gaussian process over classes whose kernel measures the distance of
attributes, Σ_j w_j (a_j − a'_j)². Attributes along which the means vary smoothly get large weights.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

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
    gradient_at: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None,
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
    gradient_at : callable, optional
        Another way to the derivative by the weights (d,): on a GPU, see
        `hgkt.closed_form.accelerated.relevance_gradient_on`.

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
    if gradient_at is None:
        gradient_at = partial(_gradient, attributes, gram=gram, noise=noise)
    n_attributes = attributes.shape[1]
    logs = np.zeros(n_attributes)
    first, second = np.zeros(n_attributes), np.zeros(n_attributes)
    scale = _median(_squared_distances(attributes, np.ones(n_attributes)))
    with threadpool_limits(1, "blas"):  # matrices of L × L: threads would only wait for each other
        for step in range(1, N_STEPS + 1):
            weights = np.exp(logs)
            gradient = weights * gradient_at(weights / scale)
            first = 0.9 * first + 0.1 * gradient
            second = 0.999 * second + 0.001 * gradient**2
            direction = (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
            logs -= LEARNING_RATE * direction
    weights = np.exp(logs)
    result: NDArray[np.float64] = weights / weights.mean()
    return result


def _gradient(
    attributes: NDArray[np.float64],
    weights: NDArray[np.float64],
    gram: NDArray[np.float64],
    noise: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Derivative (d,) of the negative log marginal likelihood by the weights, times the scale."""
    kernel = np.exp(-_squared_distances(attributes, weights))
    factor = scipy.linalg.cho_factor(kernel + np.diag(noise), lower=True)
    inverse = scipy.linalg.cho_solve(factor, np.eye(len(kernel)))
    solved = inverse @ gram
    by_kernel = 0.5 * inverse - 0.5 * len(kernel) / np.trace(solved) * (solved @ inverse)
    pairs = by_kernel * kernel
    # Σ_ab P_ab (a_j − b_j)² without an array of shape (L, L, d).
    squares = pairs.sum(axis=1) @ attributes**2
    cross = (attributes * (pairs @ attributes)).sum(axis=0)
    result: NDArray[np.float64] = -2.0 * (squares - cross)
    return result


def _squared_distances(
    attributes: NDArray[np.float64], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    rows = attributes * np.sqrt(weights)
    squares = (rows**2).sum(axis=1)
    result: NDArray[np.float64] = np.maximum(squares[:, None] + squares - 2.0 * rows @ rows.T, 0.0)
    return result


def _median(squared: NDArray[np.float64]) -> float:
    median = float(np.median(squared[np.triu_indices(len(squared), 1)]))
    return median if median > 0 else 1.0
