"""The inter-class relation: a kernel between classes on their attributes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from hgkt._geometry import FeatureMap, map_rows
from hgkt._validation import check_choice
from hgkt.exceptions import DataError

KERNELS = ("rbf", "quadratic", "linear", "knn")


@dataclass(frozen=True)
class ClassKernel:
    """A kernel between attribute vectors, or a weighted sum of one kernel per attribute block.

    Parameters
    ----------
    kind : {"rbf", "quadratic", "linear", "knn"}
        ``rbf``: exp(−scale·‖a−a'‖²/median), the median squared distance of two seen classes;
        ``quadratic``: (1 + aᵀa')²; ``linear``: aᵀa', a linear map of attributes;
        ``knn``: the rbf kernel kept between nearest neighbours only, a sparse class graph.
    scale : float
        Multiplies the squared distance of the rbf kernels.
    attribute_map : str or float
        Row-wise map of the attributes before the kernel, see `hgkt._geometry`.
    blocks : sequence of int, optional
        Widths of blocks of attributes of different origin (attributes, sentences); each block is
        mapped, and has its kernel, on its own.
    block_weights : sequence of float, optional
        Weights of the blocks' kernels, equal by default.
    n_neighbors : int
        Neighbours of a class in the ``knn`` kernel.

    Examples
    --------
    >>> kernel = ClassKernel("quadratic").fit(np.array([[1.0, 0.0], [0.0, 2.0]]))
    >>> kernel(np.array([[3.0, 0.0]]))
    array([[1.  , 0.25]])
    """

    kind: str = "rbf"
    scale: float = 1.0
    attribute_map: FeatureMap = "l2"
    blocks: Sequence[int] | None = None
    block_weights: Sequence[float] | None = None
    n_neighbors: int = 2
    references: tuple[NDArray[np.float64], ...] = field(default=(), repr=False)
    medians: tuple[float, ...] = field(default=(), repr=False)

    def fit(self, attributes: NDArray[Any]) -> ClassKernel:
        """Return the kernel with the seen classes' attributes (L, d) as its references."""
        check_choice("kernel", self.kind, KERNELS)
        references = tuple(map_rows(block, self.attribute_map) for block in self._split(attributes))
        medians = tuple(_median_squared_distance(block) for block in references)
        return ClassKernel(
            self.kind, self.scale, self.attribute_map, self.blocks, self.block_weights,
            self.n_neighbors, references, medians,
        )  # fmt: skip

    def __call__(self, attributes: NDArray[Any]) -> NDArray[np.float64]:
        """Return k(a, A) of shape (n, L) for attributes (n, d); k(a, a) is about 1."""
        total = np.zeros((len(attributes), len(self.references[0])))
        weights = self.weights
        for index, block in enumerate(self._split(attributes)):
            if weights[index] > 0:
                rows = map_rows(block, self.attribute_map)
                total += weights[index] * self._block_kernel(rows, index)
        return total

    @property
    def seen(self) -> NDArray[np.float64]:
        """K between the seen classes (L, L), positive semi-definite."""
        total = np.zeros((len(self.references[0]),) * 2)
        for index, (weight, block) in enumerate(zip(self.weights, self.references, strict=True)):
            if weight > 0:
                total += weight * self._block_kernel(block, index, seen=True)
        return total

    @property
    def weights(self) -> NDArray[np.float64]:
        """Weights of the blocks, summing to one."""
        n_blocks = len(self.blocks) if self.blocks else 1
        weights = np.asarray(self.block_weights or [1.0] * n_blocks, dtype=np.float64)
        if len(weights) != n_blocks or (weights < 0).any() or weights.sum() <= 0:
            raise DataError(
                f"block_weights must be {n_blocks} numbers, none negative and not all zero; "
                f"got {self.block_weights!r}"
            )
        return weights / weights.sum()

    def _split(self, attributes: NDArray[Any]) -> list[NDArray[Any]]:
        if not self.blocks:
            return [attributes]
        if sum(self.blocks) != attributes.shape[1]:
            raise DataError(
                f"attribute_blocks {list(self.blocks)} add up to {sum(self.blocks)}; "
                f"the attributes have {attributes.shape[1]} columns"
            )
        return np.split(attributes, np.cumsum(self.blocks)[:-1], axis=1)

    def _block_kernel(
        self, rows: NDArray[Any], index: int, seen: bool = False
    ) -> NDArray[np.float64]:
        references = self.references[index]
        if self.kind == "linear":
            return rows @ references.T
        if self.kind == "quadratic":
            return (1.0 + rows @ references.T) ** 2 / 4.0  # k(a, a) = 1 on unit vectors
        kernel = np.exp(-self.scale * cdist(rows, references, "sqeuclidean") / self.medians[index])
        return self._sparsify(kernel, seen) if self.kind == "knn" else kernel

    def _sparsify(self, kernel: NDArray[np.float64], seen: bool) -> NDArray[np.float64]:
        k = self.n_neighbors + seen  # a seen class is its own nearest neighbour
        if k >= kernel.shape[1]:
            return kernel
        kth = -np.partition(-kernel, k - 1, axis=1)[:, k - 1 : k]
        keep = kernel >= kth
        if not seen:
            return kernel * keep
        sparse = kernel * (keep | keep.T)
        # Cutting edges may cost positive definiteness; lifting the diagonal restores it.
        lowest = np.linalg.eigvalsh(sparse)[0]
        return sparse + max(0.0, -lowest) * np.eye(len(sparse))


def _median_squared_distance(rows: NDArray[Any]) -> float:
    squared = cdist(rows, rows, "sqeuclidean")[np.triu_indices(len(rows), 1)]
    median = float(np.median(squared)) if len(squared) else 1.0
    return median if median > 0 else 1.0


def simplex_grid(n_blocks: int, n_parts: int) -> list[list[float]]:
    """Return all weights of `n_blocks` blocks in steps of 1/n_parts, the equal-most first.

    Examples
    --------
    >>> simplex_grid(2, 2)
    [[0.5, 0.5], [0.0, 1.0], [1.0, 0.0]]
    """
    parts = product(range(n_parts + 1), repeat=n_blocks)
    grid = [[part / n_parts for part in row] for row in parts if sum(row) == n_parts]
    return sorted(grid, key=lambda row: (max(row) - min(row), row))
