"""From the attributes of new classes to their embeddings, reading no more than they need.

An embedding is a kernel row times what all seen classes hold, L × D numbers. A linear kernel needs
them once only: k(a, A)α = a(Aᵀα). A sparse one needs the rows of the neighbours alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt._arrays import FeatureMap
from hgkt.closed_form.kernels import ClassKernel

_FEW = 4  # rows are gathered where they are at most one in so many


class Carrier:
    """Kernel rows of new classes times the dual coefficients of each visual space.

    Parameters
    ----------
    kernel : ClassKernel
        Between attributes and those of seen classes.
    duals : mapping of feature map to ndarray of shape (L, D)
        What seen classes hold.

    Examples
    --------
    >>> from hgkt.closed_form.kernels import KernelTerm
    >>> kernel = ClassKernel([KernelTerm("linear", attribute_map="none")])
    >>> carry = Carrier(kernel.fit(np.array([[1.0], [2.0], [3.0]])), {"l2": np.eye(3)})
    >>> carry(np.array([[2.0]]))["l2"]
    array([[2., 4., 6.]])
    """

    def __init__(self, kernel: ClassKernel, duals: Mapping[FeatureMap, NDArray[Any]]) -> None:
        self._kernel, self._duals = kernel, duals

    def __call__(self, attributes: NDArray[np.float64]) -> dict[FeatureMap, NDArray[Any]]:
        """Return the products (n, D) of attributes (n, d) in every visual space."""
        kernel = self._kernel
        if kernel.is_linear and kernel.linear_references().shape[1] < len(kernel.seen):
            rows = kernel.linear_rows(attributes)
            return {name: _product(rows, map_) for name, map_ in self._linear_maps.items()}
        rows = kernel(attributes)
        return {name: _product(rows, dual) for name, dual in self._duals.items()}

    @cached_property
    def _linear_maps(self) -> dict[FeatureMap, NDArray[Any]]:
        """The maps (d', D) that a linear kernel amounts to."""
        references = self._kernel.linear_references()
        return {
            name: (references.T @ dual.astype(np.float64)).astype(dual.dtype)
            for name, dual in self._duals.items()
        }


def _product(rows: NDArray[np.float64], held: NDArray[Any]) -> NDArray[Any]:
    """Multiply rows (n, L) with (L, D); where nearly all are zero only those that are not."""
    rows = rows.astype(held.dtype)
    used = np.flatnonzero(rows.any(axis=0))
    few = _FEW * len(used) <= len(held)
    product: NDArray[Any] = rows[:, used] @ held[used] if few else rows @ held
    return product
