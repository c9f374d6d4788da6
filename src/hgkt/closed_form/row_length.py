"""The length of one row in the metric, from half the bytes of the metric.

‖uᵀP‖² = uᵀP Pᵀu, and P Pᵀ = L Lᵀ with L lower triangular, so ‖Lᵀu‖ is the same length. A single row
is bound by what it reads, and packed without its zeros L has half the numbers of P.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

from hgkt._geometry import safe_lengths


class RowLength:
    """A triangular factor of the metric, packed, in the type of the projection.

    Parameters
    ----------
    packed : ndarray of shape (D(D + 1)/2,)
        The columns of L from the diagonal on.
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
        """Factor P Pᵀ of a projection P (D, D) in float64: its condition is that of P, squared."""
        largest = np.abs(projection).max()
        wide = np.asarray(projection, dtype=np.float64) / largest  # its squares may overflow
        factor = scipy.linalg.cholesky(
            wide @ wide.T, lower=True, overwrite_a=True, check_finite=False
        )
        scaled = (factor * largest).astype(projection.dtype)
        pack = lapack.strttp if scaled.dtype == np.float32 else lapack.dtrttp
        return cls(pack(scaled, uplo="L")[0], len(projection))

    def __call__(self, row: NDArray[Any]) -> float:
        """Return the length of a row u (D,) in the metric; 1 where it has none."""
        product = blas.stpmv if self._packed.dtype == np.float32 else blas.dtpmv
        projected = product(self._n_features, self._packed, row, lower=1, trans=1)
        return float(safe_lengths(projected[None])[0])
