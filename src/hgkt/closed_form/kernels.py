"""The inter-class relation: a kernel between classes on their attributes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hgkt._arrays import FeatureMap, batches, check_map, map_rows
from hgkt._validation import check_choice, check_number
from hgkt.exceptions import DataError

KERNELS = ("rbf", "quadratic", "linear", "knn")

_BLOCK_ROWS = 2048
_MAX_COMPARED = 2048  # classes by whose distances a bandwidth is found

LearnRelevance = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""From mapped attributes (L, d) of the seen classes to a weight for each attribute (d,)."""


@dataclass(frozen=True)
class KernelSettings:
    """What a kernel between attribute vectors depends on.

    Parameters
    ----------
    kernel : {"rbf", "quadratic", "linear", "knn"}
        ``rbf``: exp(−scale·‖a−a'‖²/median), the median squared distance of two seen classes;
        ``quadratic``: (1 + aᵀa')²; ``linear``: aᵀa', a linear map of attributes;
        ``knn``: the rbf kernel kept between nearest neighbours only, a sparse class graph.
    kernel_scale : float
        Multiplies the squared distance of the rbf kernels.
    attribute_map : str or float
        Row-wise map of the attributes before the kernel, see `hgkt._arrays.map_rows`.
    relevance : bool
        Whether attributes are weighted by their relevance, see `hgkt.closed_form.relevance`.
    block_weights : sequence of float, optional
        Weights of the kernels of the attribute blocks, equal by default.
    """

    kernel: str = "rbf"
    kernel_scale: float = 1.0
    attribute_map: FeatureMap = "l2"
    relevance: bool = False
    block_weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        check_choice("kernel", self.kernel, KERNELS)
        check_map("attribute_map", self.attribute_map)
        check_number("kernel_scale", self.kernel_scale, low=0.0, open_low=True)


class ClassKernel:
    """k(a, a') between attribute vectors, a weighted sum over blocks of attributes.

    Parameters
    ----------
    settings : KernelSettings
    blocks : sequence of int, optional
        Widths of blocks of attributes of different origin (attributes, sentences); each block is
        mapped, and has its kernel, on its own.
    n_neighbors : int
        Neighbours of a class in a ``knn`` kernel.

    Attributes
    ----------
    seen : ndarray of shape (L, L)
        K between the seen classes, positive semi-definite.
    references : list of ndarray of shape (L, d_b)
        Mapped attributes of the seen classes by block.
    medians : list of float
        Median squared distance of two seen classes by block.
    spreads : list of ndarray of shape (d_b,)
        Deviation of each mapped attribute over the seen classes by block.
    relevance : list of ndarray of shape (d_b,)
        Factor of each attribute by block; empty without relevance.

    Examples
    --------
    >>> kernel = ClassKernel(KernelSettings("quadratic")).fit(np.array([[1.0, 0.0], [0.0, 2.0]]))
    >>> kernel(np.array([[3.0, 0.0]]))
    array([[1.  , 0.25]])
    """

    seen: NDArray[np.float64]

    def __init__(
        self,
        settings: KernelSettings = KernelSettings(),  # noqa: B008 (it is frozen)
        blocks: Sequence[int] | None = None,
        n_neighbors: int = 2,
    ) -> None:
        self.settings, self.blocks, self.n_neighbors = settings, blocks, n_neighbors
        self.relevance: list[NDArray[np.float64]] = []

    def fit(
        self,
        attributes: NDArray[Any],
        learn: LearnRelevance | None = None,
        relevance: Sequence[NDArray[np.float64]] = (),
    ) -> Self:
        """Take the seen classes' attributes (L, d) as references.

        `learn` weighs the attributes of a block where relevance is asked for; `relevance` are
        factors (d_b,) of each block that were learned before.
        """
        self.weights = self._block_weights().tolist()
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused at the end
            if self.settings.relevance:
                plain = self._map(attributes)
                self.relevance = list(relevance) or [_factors(block, learn) for block in plain]
            self.references = self.mapped(attributes)
            self._squares = [(block**2).sum(axis=1) for block in self.references]
            self.medians = [_median_squared_distance(block) for block in self.references]
            self.spreads = [block.std(axis=0) for block in self.references]
            self.seen = self._between_seen()
        if not (np.isfinite(self.seen).all() and np.diag(self.seen).max() > 0):
            raise DataError(
                "the attributes of the seen classes are too large, or all too small, to be "
                "compared as they are; scale them to ordinary numbers, or map them "
                "(attribute_map='l2')"
            )
        return self

    def _between_seen(self) -> NDArray[np.float64]:
        n_seen = len(self.references[0])
        if self.settings.kernel == "knn" or n_seen <= _BLOCK_ROWS:
            return self._values_of(self.references, seen=True)
        # Products and distances of all pairs at once would take several times the kernel.
        kernel = np.empty((n_seen, n_seen))
        for some in batches(n_seen, _BLOCK_ROWS):
            kernel[some] = self._values_of([block[some] for block in self.references], seen=True)
        return kernel

    def __call__(self, attributes: NDArray[Any]) -> NDArray[np.float64]:
        """Return k(a, A) of shape (n, L) for attributes (n, d); k(a, a) is about 1."""
        return self._values_of(self.mapped(attributes))

    @property
    def is_linear(self) -> bool:
        """Whether it is a linear map of attributes."""
        return self.settings.kernel == "linear"

    def linear_rows(self, attributes: NDArray[Any]) -> NDArray[np.float64]:
        """Return r(a) (n, m): a linear k(a, A) is its product with `linear_references`."""
        rows = zip(self.mapped(attributes), self.weights, strict=True)
        return np.concatenate([weight * block for block, weight in rows], axis=1)

    def linear_references(self) -> NDArray[np.float64]:
        """Return the mapped attributes (L, d) of the seen classes, block beside block."""
        return np.concatenate(self.references, axis=1)

    def own(self, attributes: NDArray[Any]) -> NDArray[np.float64]:
        """Return k(a, a) (n,) of attributes (n, d)."""
        squares = [(rows**2).sum(axis=1) for rows in self.mapped(attributes)]
        parts = [
            weight * self._values(square, np.zeros_like(square))
            for square, weight in zip(squares, self.weights, strict=True)
        ]
        total: NDArray[np.float64] = np.sum(parts, axis=0)
        return total

    def mapped(self, attributes: NDArray[Any]) -> list[NDArray[np.float64]]:
        """Return what the kernel sees of attributes (n, d): rows (n, d_b) of each block."""
        rows = self._map(attributes)
        if self.settings.relevance:
            rows = [r * factors for r, factors in zip(rows, self.relevance, strict=True)]
        return rows

    def attribute_relevance(self) -> NDArray[np.float64]:
        """Return the weight of each attribute (d,), one on average over its block."""
        weights = [factors**2 for factors in self.relevance]
        return np.concatenate([block / block.mean() for block in weights])

    def pairs(
        self, rows: NDArray[np.float64], block: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return products and squared distances (n, L) of mapped rows (n, d_b) of one block."""
        products = rows @ self.references[block].T
        squared = (rows**2).sum(axis=1)[:, None] + self._squares[block] - 2.0 * products
        return products, np.maximum(squared, 0.0)

    def _map(self, attributes: NDArray[Any]) -> list[NDArray[np.float64]]:
        blocks = split_blocks(np.asarray(attributes, dtype=np.float64), self.blocks)
        return [map_rows(block, self.settings.attribute_map) for block in blocks]

    def _values_of(
        self, rows: list[NDArray[np.float64]], seen: bool = False
    ) -> NDArray[np.float64]:
        """Return the kernel (n, L) of rows (n, d_b) of each block with the references."""
        total: Any = None
        for block, (weight, median) in enumerate(zip(self.weights, self.medians, strict=True)):
            if weight > 0:
                products, squared = self.pairs(rows[block], block)
                values = self._values(products, squared / median)
                if self.settings.kernel == "knn":
                    values = self._sparsify(values, seen)
                total = weight * values if total is None else total + weight * values
        found: NDArray[np.float64] = total
        return found

    def _values(
        self, products: NDArray[np.float64], distances: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        if self.settings.kernel == "linear":
            return products
        if self.settings.kernel == "quadratic":
            return (1.0 + products) ** 2 / 4.0  # k(a, a) = 1 on unit vectors
        return np.exp(-self.settings.kernel_scale * distances)

    def _block_weights(self) -> NDArray[np.float64]:
        """Weights of the blocks, summing to one."""
        n_blocks, given = len(self.blocks) if self.blocks else 1, self.settings.block_weights
        weights = np.asarray(given or [1.0] * n_blocks, dtype=np.float64)
        if len(weights) != n_blocks or (weights < 0).any() or weights.sum() <= 0:
            raise DataError(
                f"block_weights must be {n_blocks} numbers, none negative and not all zero; "
                f"got {given!r}"
            )
        result: NDArray[np.float64] = weights / weights.sum()
        return result

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
        result: NDArray[np.float64] = sparse + max(0.0, -lowest) * np.eye(len(sparse))
        return result


def split_blocks(
    attributes: NDArray[np.float64], blocks: Sequence[int] | None
) -> list[NDArray[np.float64]]:
    """Return the attributes (n, d_b) of each block; blocks of a wrong width are refused."""
    if not blocks:
        return [attributes]
    if sum(blocks) != attributes.shape[1]:
        raise DataError(
            f"attribute_blocks {list(blocks)} add up to {sum(blocks)}; "
            f"the attributes have {attributes.shape[1]} columns"
        )
    return np.split(attributes, np.cumsum(blocks)[:-1], axis=1)


def _factors(rows: NDArray[np.float64], learn: LearnRelevance | None) -> NDArray[np.float64]:
    """Factors of attributes from their relevance, such that rows keep a mean length of one."""
    if learn is None:
        raise DataError("a kernel with relevance was fitted without a way to learn it")
    factors = np.sqrt(learn(rows))
    length = np.linalg.norm(rows * factors, axis=1).mean()
    return factors / (length if length > 0 else 1.0)


def _median_squared_distance(rows: NDArray[np.float64]) -> float:
    """Return the median over pairs of rows (n, d), which are evenly spaced ones of many."""
    rows = rows[:: -(-len(rows) // _MAX_COMPARED)]
    squares = (rows**2).sum(axis=1)
    squared = squares[:, None] + squares - 2.0 * rows @ rows.T
    above = squared[np.triu_indices(len(rows), 1)]
    median = float(np.median(above)) if len(above) else 1.0
    # Equal rows have no distance, up to the rounding of the products.
    return median if median > 1e-12 * max(float(squares.max()), 1e-300) else 1.0


def simplex_grid(n_blocks: int, n_parts: int) -> list[tuple[float, ...]]:
    """Return all weights of `n_blocks` blocks in steps of 1/n_parts, the equal-most first.

    Examples
    --------
    >>> simplex_grid(2, 2)
    [(0.5, 0.5), (0.0, 1.0), (1.0, 0.0)]
    """
    parts = product(range(n_parts + 1), repeat=n_blocks)
    grid = [tuple(part / n_parts for part in row) for row in parts if sum(row) == n_parts]
    return sorted(grid, key=lambda row: (max(row) - min(row), row))
