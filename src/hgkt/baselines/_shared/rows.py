"""How rows are scaled before training, and compared with class embeddings after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

from hgkt._geometry import distance_scores, unit_rows

METRICS = ("euclidean", "cosine")
_CHUNK_ROWS = 4096


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
        for start in range(0, len(X), _CHUNK_ROWS):
            scaler.partial_fit(np.asarray(X[start : start + _CHUNK_ROWS], dtype=np.float64))
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
        centred = X - self.mean.astype(X.dtype)
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
        return unit_rows(X) @ unit_rows(embeddings).T
    return distance_scores(X, embeddings)
