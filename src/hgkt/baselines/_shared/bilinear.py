"""Bilinear compatibility F(x, c) = max_k xᵀW_k a_c: ranking losses and one trainer for all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt._validation import check_choice

Loss = Callable[[NDArray[Any], NDArray[np.intp], float], tuple[float, NDArray[Any]]]
"""``loss(scores (n, L), codes (n,), margin)`` -> sum of the losses, derivative by the scores."""

LOSSES = ("warp", "hinge_sum", "hinge_max", "latent")


def _violations(
    scores: NDArray[Any], codes: NDArray[np.intp], margin: float
) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return margin + F(x_n, c) − F(x_n, y_n), minus infinity at the own class, and the rows."""
    rows = np.arange(len(scores))
    gaps = scores + (margin - scores[rows, codes])[:, None]
    gaps[rows, codes] = -np.inf
    return gaps, rows


def hinge_sum(
    scores: NDArray[Any], codes: NDArray[np.intp], margin: float
) -> tuple[float, NDArray[Any]]:
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


def warp(
    scores: NDArray[Any], codes: NDArray[np.intp], margin: float
) -> tuple[float, NDArray[Any]]:
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


def hinge_max(
    scores: NDArray[Any], codes: NDArray[np.intp], margin: float
) -> tuple[float, NDArray[Any]]:
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
) -> tuple[float, NDArray[Any]]:
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


_SCORE_LOSSES: dict[str, Loss] = {"warp": warp, "hinge_sum": hinge_sum, "hinge_max": hinge_max}


@dataclass
class BilinearTrainer:
    """Mini-batch stochastic subgradient descent on a ranking loss, one epoch at a time.

    A step takes ``learning_rate`` times the *sum* of the batch's subgradients, so the learning
    rate is the one of a single instance, as published, and ``batch_size=1`` is the published
    algorithm. There is no schedule: the state after e epochs does not depend on how many follow.

    Subgradients lie in the span of the seen attributes, so the matrices are kept in a basis of
    that span; with more attributes than classes this is smaller, and exactly the same descent.

    Parameters
    ----------
    X : ndarray of shape (N, D)
        Features; rows are read batch by batch and passed through `scale`.
    codes : ndarray of shape (N,)
        Class codes.
    attributes : ndarray of shape (L, d)
        Attributes of the seen classes.
    scale : callable
        Maps raw rows to what the method sees.
    rng : numpy Generator
        Source of the order of rows, the sampled rivals and the random start (in the same span).
    loss : {"warp", "hinge_sum", "hinge_max", "latent"}
        The loss; "latent" starts at N(0, 1)/√D, since equal matrices would stay equal, the
        others at zero.
    margin : float
        The margin.
    learning_rate : float
        Step per instance.
    batch_size : int
        Rows a step.
    n_matrices : int
        K; more than one makes sense for "latent" only.
    """

    X: NDArray[Any]
    codes: NDArray[np.intp]
    attributes: NDArray[np.float64]
    scale: Callable[[NDArray[Any]], NDArray[Any]]
    rng: np.random.Generator
    loss: str = "warp"
    margin: float = 1.0
    learning_rate: float = 0.01
    batch_size: int = 64
    n_matrices: int = 1

    def __post_init__(self) -> None:
        check_choice("loss", self.loss, LOSSES)
        n_classes, n_attributes = self.attributes.shape
        self._basis = np.eye(n_attributes)
        if n_attributes > n_classes:
            self._basis = np.linalg.qr(self.attributes.T)[0]
        dtype = self.X.dtype
        self._coordinates = (self.attributes @ self._basis).astype(dtype)
        shape = (self.X.shape[1], self.n_matrices * self._basis.shape[1])
        # Paper gap: the start of the bilinear methods is not given. Zero adds no random part that
        # early stopping would leave in W, and makes the margin a mere unit.
        self._state = np.zeros(shape, dtype=dtype)
        if self.loss == "latent":
            self._state += self.rng.standard_normal(shape) / np.sqrt(shape[0])

    @property
    def weights(self) -> NDArray[np.float64]:
        """The matrices W_k, of shape (K, D, d)."""
        blocks = self._state.reshape(len(self._state), self.n_matrices, -1)
        return blocks.transpose(1, 0, 2).astype(np.float64) @ self._basis.T

    def run_epoch(self) -> float:
        """Visit every row once in random order; return the mean loss met on the way."""
        order = self.rng.permutation(len(self.X))
        total = 0.0
        for start in range(0, len(order), self.batch_size):
            rows = order[start : start + self.batch_size]
            total += self._step(self.scale(self.X[rows]), self.codes[rows])
        return total / len(order)

    def _step(self, batch: NDArray[Any], codes: NDArray[np.intp]) -> float:
        projected = batch @ self._state
        if self.loss == "latent":
            rivals = self.rng.integers(len(self._coordinates) - 1, size=len(codes))
            rivals += rivals >= codes
            pieces = projected.reshape(len(batch), self.n_matrices, -1)
            value, by_piece = latent(pieces, rivals, codes, self._coordinates, self.margin)
            slope = by_piece.reshape(projected.shape)
        else:
            scores = projected @ self._coordinates.T
            value, by_score = _SCORE_LOSSES[self.loss](scores, codes, self.margin)
            slope = by_score @ self._coordinates
        moved = slope.any(axis=1)  # late in training few rows still violate the margin
        self._state -= batch[moved].T @ (self.learning_rate * slope[moved])
        return value
