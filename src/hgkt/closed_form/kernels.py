"""The inter-class relation: a kernel between classes on their attributes, or several added."""

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


View = tuple[FeatureMap, bool]
"""Map of the attributes, and whether they are weighted by their relevance."""

Pairs = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Products and squared distances (n, L) of rows with the references."""


@dataclass(frozen=True)
class KernelTerm:
    """One kernel between attribute vectors, as a term of a `ClassKernel`.

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
    weight : float
        Share of this term in the kernel.
    """

    kernel: str = "rbf"
    kernel_scale: float = 1.0
    attribute_map: FeatureMap = "l2"
    relevance: bool = False
    block_weights: tuple[float, ...] | None = None
    weight: float = 1.0

    def __post_init__(self) -> None:
        check_choice("kernel", self.kernel, KERNELS)
        check_map("attribute_map", self.attribute_map)
        check_number("kernel_scale", self.kernel_scale, low=0.0, open_low=True)
        check_number("weight", self.weight, low=0.0, open_low=True)

    @property
    def view(self) -> View:
        """What of the attributes the term looks at; terms of one view share products."""
        return (self.attribute_map, self.relevance)


class ClassKernel:
    """k(a, a') = Σ_t w_t k_t(a, a')/k̄_t with k̄_t the mean of k_t(a, a) over seen classes.

    Parameters
    ----------
    terms : sequence of KernelTerm
        The kernels; a single one is taken as it is, k̄ = 1.
    blocks : sequence of int, optional
        Widths of blocks of attributes of different origin (attributes, sentences); each block is
        mapped, and has its kernel, on its own.
    n_neighbors : int
        Neighbours of a class in ``knn`` terms.

    Attributes
    ----------
    seen : ndarray of shape (L, L)
        K between the seen classes, positive semi-definite.
    references, medians, spreads : dict of view to list
        Mapped attributes (L, d_b) of the seen classes by block, their median squared distance and
        the deviation (d_b,) of each.
    shares : ndarray of shape (n_terms,)
        w_t/k̄_t.
    relevance : dict of (attribute map, block) to ndarray
        Factor of each attribute in views with relevance.

    Examples
    --------
    >>> kernel = ClassKernel([KernelTerm("quadratic")]).fit(np.array([[1.0, 0.0], [0.0, 2.0]]))
    >>> kernel(np.array([[3.0, 0.0]]))
    array([[1.  , 0.25]])
    """

    seen: NDArray[np.float64]

    def __init__(
        self,
        terms: Sequence[KernelTerm] = (KernelTerm(),),
        blocks: Sequence[int] | None = None,
        n_neighbors: int = 2,
    ) -> None:
        self.terms, self.blocks, self.n_neighbors = tuple(terms), blocks, n_neighbors
        self.relevance: dict[tuple[FeatureMap, int], NDArray[np.float64]] = {}

    def fit(
        self,
        attributes: NDArray[Any],
        learn: LearnRelevance | None = None,
        relevance: dict[tuple[FeatureMap, int], NDArray[np.float64]] | None = None,
    ) -> Self:
        """Take the seen classes' attributes (L, d) as references.

        `learn` weighs the attributes of a block where a term asks for relevance; `relevance` are
        factors that were learned before.
        """
        self.relevance = dict(relevance or {})
        self._block_weights = {term: self.block_weights(term).tolist() for term in self.terms}
        self._squares: dict[View, list[NDArray[np.float64]]] = {}
        self.references: dict[View, list[NDArray[np.float64]]] = {}
        self.medians: dict[View, list[float]] = {}
        self.spreads: dict[View, list[NDArray[np.float64]]] = {}
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused at the end
            self._fit_views(attributes, learn)
            self._fit_terms()
        if not (np.isfinite(self.seen).all() and np.diag(self.seen).max() > 0):
            raise DataError(
                "the attributes of the seen classes are too large, or all too small, to be "
                "compared as they are; scale them to ordinary numbers, or map them "
                "(attribute_map='l2')"
            )
        return self

    def _fit_views(self, attributes: NDArray[Any], learn: LearnRelevance | None) -> None:
        for view in dict.fromkeys(term.view for term in self.terms):
            if view[1]:
                for index, block in enumerate(self.mapped(attributes, (view[0], False))):
                    if (view[0], index) not in self.relevance:
                        self.relevance[view[0], index] = _factors(block, learn)
            rows = self.references[view] = self.mapped(attributes, view)
            self._squares[view] = [(block**2).sum(axis=1) for block in rows]
            self.medians[view] = [_median_squared_distance(block) for block in rows]
            self.spreads[view] = [block.std(axis=0) for block in rows]

    def _fit_terms(self) -> None:
        self.shares = np.ones(1)
        first = self.terms[0]
        n_seen = len(self.references[first.view][0])
        if len(self.terms) == 1 and first.kernel != "knn" and n_seen > _BLOCK_ROWS:
            # Products and distances of all pairs at once would take several times the kernel.
            self.seen = np.empty((n_seen, n_seen))
            for some in batches(n_seen, _BLOCK_ROWS):
                rows = [block[some] for block in self.references[first.view]]
                self.seen[some] = self._term(first, self._pairs(rows, first.view), seen=True)
            return
        pairs = {view: self._pairs(rows, view) for view, rows in self.references.items()}
        parts = [self._term(term, pairs[term.view], seen=True) for term in self.terms]
        if len(parts) > 1:
            shares = np.array([term.weight for term in self.terms])
            means = np.array([np.diag(part).mean() for part in parts])
            self.shares = shares / shares.sum() / np.where(means > 0, means, 1.0)
        self.seen = np.einsum("t,tij->ij", self.shares, np.stack(parts))

    def __call__(self, attributes: NDArray[Any]) -> NDArray[np.float64]:
        """Return k(a, A) of shape (n, L) for attributes (n, d); k(a, a) is about 1."""
        views = {view: self.mapped(attributes, view) for view in self.references}
        pairs = {view: self._pairs(rows, view) for view, rows in views.items()}
        total = np.zeros((len(attributes), len(self.seen)))
        for share, term in zip(self.shares, self.terms, strict=True):
            total += share * self._term(term, pairs[term.view])
        return total

    @property
    def is_linear(self) -> bool:
        """Whether all terms are."""
        return all(term.kernel == "linear" for term in self.terms)

    def linear_rows(self, attributes: NDArray[Any]) -> NDArray[np.float64]:
        """Return r(a) (n, m): for linear terms k(a, A) is its product with `linear_references`."""
        parts = []
        for share, term in zip(self.shares, self.terms, strict=True):
            rows = self.mapped(attributes, term.view)
            weights = zip(rows, self._block_weights[term], strict=True)
            parts += [share * weight * block for block, weight in weights]
        return np.concatenate(parts, axis=1)

    def linear_references(self) -> NDArray[np.float64]:
        """Return the mapped attributes (L, d') of the seen classes, side by side for each term."""
        return np.concatenate([b for t in self.terms for b in self.references[t.view]], axis=1)

    def own(self, attributes: NDArray[Any]) -> NDArray[np.float64]:
        """Return k(a, a) (n,) of attributes (n, d)."""
        total = np.zeros(len(attributes))
        for share, term in zip(self.shares, self.terms, strict=True):
            squares = [(rows**2).sum(axis=1) for rows in self.mapped(attributes, term.view)]
            pairs = [(square, np.zeros_like(square)) for square in squares]
            total += share * self._term(term, pairs, sparse=False)
        return total

    def mapped(self, attributes: NDArray[Any], view: View) -> list[NDArray[np.float64]]:
        """Return what a view sees of attributes (n, d): rows (n, d_b) of each block."""
        blocks = self._split(np.asarray(attributes, dtype=np.float64))
        rows = [map_rows(block, view[0]) for block in blocks]
        if view[1]:
            rows = [r * self.relevance[view[0], i] for i, r in enumerate(rows)]
        return rows

    def attribute_relevance(self) -> NDArray[np.float64]:
        """Return the weight of each attribute (d,), one on average over its block.

        Where several maps of the attributes have weights of their own, their mean.
        """
        if not self.relevance:
            raise AttributeError("no kernel of this model weighs attributes by their relevance")
        n_blocks = 1 + max(block for _, block in self.relevance)
        parts = []
        for index in range(n_blocks):
            found = [f**2 for (_, block), f in self.relevance.items() if block == index]
            parts.append(np.mean([w / w.mean() for w in found], axis=0))
        return np.concatenate(parts)

    def _pairs(self, blocks: list[NDArray[np.float64]], view: View) -> list[Pairs]:
        """Return products and squared distances of each block of mapped rows."""
        return [self.pairs(rows, view, block) for block, rows in enumerate(blocks)]

    def pairs(self, rows: NDArray[np.float64], view: View, block: int) -> Pairs:
        """Compare mapped rows (n, d_b) of one block with the references."""
        products = rows @ self.references[view][block].T
        squared = (rows**2).sum(axis=1)[:, None] + self._squares[view][block] - 2.0 * products
        return products, np.maximum(squared, 0.0)

    def _term(
        self,
        term: KernelTerm,
        pairs: list[Pairs],
        seen: bool = False,
        sparse: bool = True,
    ) -> NDArray[np.float64]:
        medians, weights = self.medians[term.view], self._block_weights[term]
        parts = [
            weight * self._values(term, products, squared / median, seen, sparse)
            for (products, squared), median, weight in zip(pairs, medians, weights, strict=True)
            if weight > 0
        ]
        total: NDArray[np.float64] = parts[0] if len(parts) == 1 else np.sum(parts, axis=0)
        return total

    def _values(
        self,
        term: KernelTerm,
        products: NDArray[np.float64],
        distances: NDArray[np.float64],
        seen: bool,
        sparse: bool = True,
    ) -> NDArray[np.float64]:
        if term.kernel == "linear":
            return products
        if term.kernel == "quadratic":
            return (1.0 + products) ** 2 / 4.0  # k(a, a) = 1 on unit vectors
        kernel = np.exp(-term.kernel_scale * distances)
        return self._sparsify(kernel, seen) if term.kernel == "knn" and sparse else kernel

    def block_weights(self, term: KernelTerm) -> NDArray[np.float64]:
        """Weights of the blocks in a term, summing to one."""
        n_blocks = len(self.blocks) if self.blocks else 1
        weights = np.asarray(term.block_weights or [1.0] * n_blocks, dtype=np.float64)
        if len(weights) != n_blocks or (weights < 0).any() or weights.sum() <= 0:
            raise DataError(
                f"block_weights must be {n_blocks} numbers, none negative and not all zero; "
                f"got {term.block_weights!r}"
            )
        result: NDArray[np.float64] = weights / weights.sum()
        return result

    def _split(self, attributes: NDArray[Any]) -> list[NDArray[Any]]:
        if not self.blocks:
            return [attributes]
        if sum(self.blocks) != attributes.shape[1]:
            raise DataError(
                f"attribute_blocks {list(self.blocks)} add up to {sum(self.blocks)}; "
                f"the attributes have {attributes.shape[1]} columns"
            )
        return np.split(attributes, np.cumsum(self.blocks)[:-1], axis=1)

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


def relevance_keys(kernel: ClassKernel) -> list[tuple[FeatureMap, int]]:
    """Return map and block of each vector of factors, in the order in which they are saved."""
    maps = {term.attribute_map for term in kernel.terms if term.relevance}
    n_blocks = len(kernel.blocks) if kernel.blocks else 1
    return sorted(((name, block) for name in maps for block in range(n_blocks)), key=repr)


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
