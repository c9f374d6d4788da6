"""Rows of features: moments by class, scaling, comparison with class embeddings, hinge loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

from hgkt._arrays import batches, distance_scores, unit_rows
from hgkt.statistics import class_sums

METRICS = ("euclidean", "cosine")

ValueAndSlope = tuple[float, NDArray[Any]]
"""A loss summed over rows, and its derivative by the scores."""


@dataclass(frozen=True)
class ZScore:
    """Standardisation x ↦ (x − mean) / scale with statistics of the training rows.

    The statistics are scikit-learn's; a scaler of its kind can neither be divided by a factor nor
    be written into the weights of a linear map.

    Parameters
    ----------
    mean : ndarray of shape (n_features,)
        Mean of each feature.
    scale : ndarray of shape (n_features,)
        What each centred feature is divided by; 1 where a feature is constant.

    Examples
    --------
    >>> zscore = ZScore.of(np.array([[1.0, 5.0], [3.0, 5.0]]))
    >>> zscore.apply(np.array([[4.0, 5.0]]))
    array([[2., 0.]])
    """

    mean: NDArray[np.float64]
    scale: NDArray[np.float64]

    @classmethod
    def of(cls, X: NDArray[Any]) -> Self:
        """Measure features (N, D) chunk by chunk, in double precision."""
        scaler = StandardScaler()
        for rows in batches(len(X)):
            scaler.partial_fit(np.asarray(X[rows], dtype=np.float64))
        return cls(scaler.mean_, scaler.scale_)

    @classmethod
    def below_one(cls, X: NDArray[Any]) -> ZScore:
        """Measure features and divide by the largest z-score of any of them.

        Examples
        --------
        >>> X = np.array([[0.0, 5.0], [2.0, 5.0], [4.0, 5.0]])
        >>> ZScore.below_one(X).apply(X)
        array([[-1.,  0.],
               [ 0.,  0.],
               [ 1.,  0.]])
        """
        zscore = cls.of(X)
        # The largest z-score of a feature is that of its largest value.
        top = X.max(axis=0, keepdims=True).astype(np.float64)
        largest = float(zscore.apply(top).max())
        return zscore.divided_by(largest) if largest > 0 else zscore

    def divided_by(self, factor: float) -> ZScore:
        """Return the standardisation followed by a division by `factor`."""
        return ZScore(self.mean, self.scale * factor)

    def apply(self, X: NDArray[Any]) -> NDArray[Any]:
        """Standardise features (n, D) in their own precision."""
        centred: NDArray[Any] = X - self.mean.astype(X.dtype)
        centred /= self.scale.astype(X.dtype)
        return centred

    def to_raw(
        self, weights: NDArray[np.float64], bias: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Rewrite a linear map of standardised features as one of raw features.

        Parameters
        ----------
        weights : ndarray of shape (n_outputs, n_features)
            Weights on standardised features.
        bias : ndarray of shape (n_outputs,)
            Bias.

        Returns
        -------
        tuple of ndarray
            Weights and bias with the same outputs on raw features.
        """
        raw = weights / self.scale
        return raw, bias - raw @ self.mean


def similarity_scores(
    X: NDArray[Any], embeddings: NDArray[Any], metric: str
) -> NDArray[np.float64]:
    """Score rows (n, D) against embeddings (C, D): −‖x−z‖², or cos(x, z).

    A zero vector has cosine 0 with everything.

    Examples
    --------
    >>> X, Z = np.array([[3.0, 4.0]]), np.array([[3.0, 0.0], [0.0, 0.0]])
    >>> similarity_scores(X, Z, "euclidean")
    array([[-16., -25.]])
    >>> similarity_scores(X, Z, "cosine")
    array([[0.6, 0. ]])
    """
    X = np.asarray(X, dtype=np.float64)
    embeddings = np.asarray(embeddings, dtype=np.float64)
    if metric == "cosine":
        X, embeddings = unit_rows(X), unit_rows(embeddings)
        cosines: NDArray[np.float64] = X @ embeddings.T
        return cosines
    return distance_scores(X, embeddings)


def class_means_and_variances(
    X: NDArray[Any], codes: NDArray[np.intp], n_classes: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return means and unbiased variances of each class, (n_classes, D) both, in one pass.

    Examples
    --------
    >>> class_means_and_variances(np.array([[1.0], [3.0], [9.0]]), np.array([0, 0, 1]), 2)
    (array([[2.],
           [9.]]), array([[2.],
           [2.]]))
    """
    shift = np.asarray(X[0], dtype=np.float64)  # keeps the squares small against their differences
    counts, sums = np.zeros(n_classes), np.zeros((n_classes, X.shape[1]))
    squares = np.zeros_like(sums)
    for part in batches(len(X)):
        rows, labels = np.asarray(X[part], dtype=np.float64) - shift, codes[part]
        counts += np.bincount(labels, minlength=n_classes)
        sums += class_sums(rows, labels, n_classes)
        squares += class_sums(rows**2, labels, n_classes)
    means = sums / np.maximum(counts, 1.0)[:, None]
    return means + shift, variances_of(counts, means, squares)


def variances_of(
    counts: NDArray[np.float64], means: NDArray[np.float64], squares: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the unbiased variances (n_classes, D) from counts, means and sums of squares.

    Paper gap: a class of one instance has no variance; it takes the pooled one of all classes.

    Examples
    --------
    >>> variances_of(np.array([2.0, 1.0]), np.array([[2.0], [9.0]]), np.array([[10.0], [81.0]]))
    array([[2.],
           [2.]])
    """
    scatters = np.maximum(squares - counts[:, None] * means**2, 0.0)
    pooled = scatters.sum(axis=0) / max(float((counts - 1.0).clip(0.0).sum()), 1.0)
    variances: NDArray[np.float64] = scatters / np.maximum(counts - 1.0, 1.0)[:, None]
    variances[counts < 2] = pooled
    return variances


def violations(
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
    gaps, rows = violations(scores, codes, margin)
    slope = (gaps > 0).astype(scores.dtype)
    slope[rows, codes] = -slope.sum(axis=1)
    return float(np.maximum(gaps, 0).sum()), slope
