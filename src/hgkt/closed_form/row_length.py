"""The length of one row in the metric, from half the bytes of the metric.

Pᵀ = QR with Q orthogonal and R upper triangular, so ‖Pᵀu‖ = ‖Ru‖. A single row is bound by what it
reads, and packed without its zeros R has half the numbers of P.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

from hgkt._arrays import safe_lengths


class RowLength:
    """A triangular factor of the metric, packed, in the type of the projection.

    Parameters
    ----------
    packed : ndarray of shape (D(D + 1)/2,)
        The columns of R down to the diagonal.
    n_features : int
        D.

    Examples
    --------
    >>> length = RowLength.of(np.array([[3.0, 0.0], [0.0, 4.0]]))
    >>> round(length(np.array([1.0, 1.0])), 9)
    5.0
    """

    def __init__(self, packed: NDArray[Any], n_features: int) -> None:
        self._packed, self._n_features = packed, n_features

    @classmethod
    def of(cls, projection: NDArray[Any]) -> Self:
        """Factor a projection P (D, D) in float64, not by P Pᵀ, whose condition is squared."""
        wide = np.asarray(projection, dtype=np.float64)
        factor = scipy.linalg.qr(wide.T, mode="r", check_finite=False)[0].astype(projection.dtype)
        pack = lapack.strttp if factor.dtype == np.float32 else lapack.dtrttp
        return cls(pack(factor, uplo="U")[0], len(projection))

    def __call__(self, row: NDArray[Any]) -> float:
        """Return the length of a row u (D,) in the metric; 1 where it has none."""
        product = blas.stpmv if self._packed.dtype == np.float32 else blas.dtpmv
        projected = product(self._n_features, self._packed, row)
        return float(safe_lengths(projected[None])[0])
