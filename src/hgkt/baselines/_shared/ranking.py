"""Ranking losses: an instance should score its own class above the others by a margin."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

ValueAndSlope = tuple[float, NDArray[Any]]
"""A loss summed over rows, and its derivative by the scores."""


def _violations(
    scores: NDArray[Any], codes: NDArray[np.intp], margin: float
) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return margin + F(x_n, c) − F(x_n, y_n), minus infinity at the own class, and the rows."""
    rows = np.arange(len(scores))
    gaps = scores + (margin - scores[rows, codes])[:, None]
    gaps[rows, codes] = -np.inf
    return gaps, rows


def hinge_sum(scores: NDArray[Any], codes: NDArray[np.intp], margin: float) -> ValueAndSlope:
    """Σ_n Σ_{c≠y_n} [m + F(x_n, c) − F(x_n, y_n)]₊, the loss of DeViSE.

    Examples
    --------
    >>> hinge_sum(np.array([[2.0, 1.5, 0.0]]), np.array([0]), 1.0)
    (0.5, array([[-1.,  1.,  0.]]))
    """
    gaps, rows = _violations(scores, codes, margin)
    slope = (gaps > 0).astype(scores.dtype)
    slope[rows, codes] = -slope.sum(axis=1)
    return float(np.maximum(gaps, 0).sum()), slope


def warp(scores: NDArray[Any], codes: NDArray[np.intp], margin: float) -> ValueAndSlope:
    """Σ_n (β_r/r) Σ_{c≠y_n} [m + F(x_n, c) − F(x_n, y_n)]₊, the loss of ALE.

    r counts the classes that violate the margin and β_r = Σ_{j≤r} 1/j. Both are exact, where the
    sampled algorithm estimates r from the number of draws up to the first violation. The weight
    is constant between kinks, so this slope is the derivative wherever there is one.

    Examples
    --------
    >>> warp(np.array([[2.0, 1.5, 1.5]]), np.array([0]), 1.0)
    (0.75, array([[-1.5 ,  0.75,  0.75]]))
    """
    gaps, rows = _violations(scores, codes, margin)
    violated = gaps > 0
    ranks = violated.sum(axis=1)
    beta = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, scores.shape[1] + 1))])
    weights = (beta[ranks] / np.maximum(ranks, 1)).astype(scores.dtype)
    slope = violated * weights[:, None]
    slope[rows, codes] = -slope.sum(axis=1)
    return float((weights * np.maximum(gaps, 0).sum(axis=1)).sum()), slope


def hinge_max(scores: NDArray[Any], codes: NDArray[np.intp], margin: float) -> ValueAndSlope:
    """Σ_n [max_c (m·1[c≠y_n] + F(x_n, c)) − F(x_n, y_n)]₊, the loss of SJE.

    Classes that tie for the maximum share the slope equally (a subgradient too), so that nothing
    hangs on the order of the classes: at W = 0 all of them tie.

    Examples
    --------
    >>> hinge_max(np.array([[2.0, 1.5, 0.0], [0.0, 0.0, 0.0]]), np.array([0, 0]), 1.0)
    (1.5, array([[-1. ,  1. ,  0. ],
           [-1. ,  0.5,  0.5]]))
    """
    gaps, rows = _violations(scores, codes, margin)
    worst = gaps.max(axis=1)
    slope = ((gaps == worst[:, None]) & (worst > 0)[:, None]).astype(scores.dtype)
    slope /= np.maximum(slope.sum(axis=1), 1)[:, None]
    slope[rows, codes] = -slope.sum(axis=1)
    return float(np.maximum(worst, 0).sum()), slope


def latent(
    pieces: NDArray[Any],
    rivals: NDArray[np.intp],
    codes: NDArray[np.intp],
    attributes: NDArray[Any],
    margin: float,
) -> ValueAndSlope:
    """Σ_n [m + F(x_n, rival_n) − F(x_n, y_n)]₊ with F(x, c) = max_k xᵀW_k a_c: LatEm's loss.

    Parameters
    ----------
    pieces : ndarray of shape (n, K, d)
        The projections xᵀW_k.
    rivals, codes : ndarray of shape (n,)
        One wrong class for each row, and its own class.
    attributes : ndarray of shape (L, d)
        Attributes of the classes.
    margin : float
        The margin m.

    Returns
    -------
    loss : float
        The sum over rows.
    slope : ndarray of shape (n, K, d)
        Its derivative by `pieces`: only the winning matrix of either class moves.

    Examples
    --------
    >>> loss, slope = latent(
    ...     np.array([[[1.0, 0.0], [0.0, 2.0]]]), np.array([1]), np.array([0]), np.eye(2), 1.0
    ... )
    >>> loss, slope.tolist()
    (2.0, [[[-1.0, 0.0], [0.0, 1.0]]])
    """
    rows = np.arange(len(pieces))
    wrong, right = attributes[rivals], attributes[codes]
    wrong_scores = np.einsum("nkd,nd->nk", pieces, wrong)
    right_scores = np.einsum("nkd,nd->nk", pieces, right)
    gaps = margin + wrong_scores.max(axis=1) - right_scores.max(axis=1)
    violated = (gaps > 0).astype(pieces.dtype)[:, None]
    slope = np.zeros_like(pieces)
    slope[rows, wrong_scores.argmax(axis=1)] += violated * wrong
    slope[rows, right_scores.argmax(axis=1)] -= violated * right
    return float(np.maximum(gaps, 0).sum()), slope
