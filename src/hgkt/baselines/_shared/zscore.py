"""Feature standardisation by training rows, and linear maps written back to raw features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

_CHUNK_ROWS = 4096


@dataclass(frozen=True)
class ZScore:
    """Standardisation x ↦ (x − mean) / scale with statistics of the training rows.

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
