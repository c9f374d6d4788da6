"""The class-level quotient: message passing on two rows a class that equals the full graph.

All instances of a class start from the same attributes and, the representative aside, have the
same neighbourhood. By induction over layers a class has two distinct states: u of its ordinary
instances and r of its representative. A mean over instances is then a weighted mean of states.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hgkt._validation import check_choice
from hgkt.exceptions import DataError
from hgkt.graph.heterogeneous import HeterogeneousGraph
from hgkt.graph.neighbors import ClassNeighbors, frozen_array

AGGREGATIONS = ("union", "per-type", "inter-only")
"""How a representative averages over its two kinds of neighbours."""


@dataclass(frozen=True, eq=False)
class Quotient:
    """What message passing needs of a heterogeneous graph.

    Parameters
    ----------
    counts : array-like of shape (n_classes,)
        Number of instances of each class.
    neighbors : ClassNeighbors
        Inter-class edges.
    intra : bool
        Whether the complete in-class graphs are there.
    aggregation : {"union", "per-type", "inter-only"}
        ``union``: one mean over all neighbours, as the paper writes it. Paper gap: with N_c
        instances and k = 2 the inter-class share is 2/(N_c + 1), 0.3 % on AwA2, so two variants
        are kept. ``per-type``: a mean for each kind of edge that is there, then their average.
        ``inter-only``: representatives average over inter-class neighbours alone, which is what a
        class without instances does.

    Examples
    --------
    >>> quotient = Quotient([3, 1], ClassNeighbors.from_rows([[1], [0]]))
    >>> quotient.mixing().toarray().round(3)
    array([[0.5  , 0.   , 0.5  , 0.   ],
           [0.   , 1.   , 0.   , 0.   ],
           [0.667, 0.   , 0.   , 0.333],
           [0.   , 0.   , 1.   , 0.   ]])
    """

    counts: NDArray[np.intp]
    neighbors: ClassNeighbors
    intra: bool = True
    aggregation: str = "union"

    def __post_init__(self) -> None:
        check_choice("aggregation", self.aggregation, AGGREGATIONS)
        object.__setattr__(self, "counts", frozen_array(self.counts, np.intp))
        if len(self.counts) != self.neighbors.n_classes:
            raise DataError(
                f"there are {len(self.counts)} counts and {self.neighbors.n_classes} classes in "
                "the class graph; the same number is expected"
            )
        if (self.counts < 1).any():
            code = int(np.flatnonzero(self.counts < 1)[0])
            raise DataError(f"class {code} has no instance; at least one is expected")

    @classmethod
    def from_graph(cls, graph: HeterogeneousGraph, aggregation: str = "union") -> Quotient:
        """Collapse a heterogeneous graph."""
        return cls(graph.counts, graph.neighbors, graph.intra, aggregation)

    @property
    def n_classes(self) -> int:
        """Number of classes L; there are 2L states."""
        return len(self.counts)

    def mixing(self) -> sparse.csr_array:
        """Return M of shape (2L, 2L) with neighbour means = M · states, rows summing to one.

        States are stacked as the L ordinary rows, then the L representative rows. A node without
        neighbours keeps its own state (Paper gap: this makes the network without inter-class
        edges a plain two-layer perceptron). The ordinary row of a class of one instance stands
        for nobody: no representative reads it, and it keeps its own state to stay finite.
        """
        n = self.n_classes
        own, codes = np.arange(2 * n), np.arange(n)
        n_ordinary = self.counts - 1
        in_class = self._intra_share()
        degrees = np.maximum(self.neighbors.degrees, 1)
        heads = self.neighbors.rows
        entries = [
            # Ordinary instance: the N_c − 2 other ordinary ones and the representative.
            (codes, codes, np.where(self._joined, (n_ordinary - 1) / np.maximum(n_ordinary, 1), 0)),
            (codes, codes + n, np.where(self._joined, 1 / np.maximum(n_ordinary, 1), 0)),
            # Representative: its share of in-class neighbours, the rest to other classes.
            (codes + n, codes, in_class),
            (heads + n, self.neighbors.indices + n, ((1 - in_class) / degrees)[heads]),
            (own, own, self._isolated.astype(float)),
        ]
        rows, columns, weights = (np.concatenate(part) for part in zip(*entries, strict=True))
        matrix = sparse.coo_array((weights, (rows, columns)), shape=(2 * n, 2 * n)).tocsr()
        matrix.eliminate_zeros()
        return matrix

    @property
    def _joined(self) -> NDArray[np.bool_]:
        """Whether ordinary instances of each class have neighbours."""
        return (self.counts > 1) & self.intra

    def _intra_share(self) -> NDArray[np.float64]:
        """Weight of in-class neighbours in each representative's mean."""
        n_intra = np.where(self._joined, self.counts - 1, 0)
        degrees = self.neighbors.degrees
        if self.aggregation == "union":
            return n_intra / np.maximum(n_intra + degrees, 1)
        if self.aggregation == "per-type":
            return (n_intra > 0) / np.maximum((n_intra > 0) + (degrees > 0).astype(np.float64), 1)
        return np.zeros(self.n_classes)

    @property
    def _isolated(self) -> NDArray[np.bool_]:
        """Rows of the 2L that have no neighbour at all."""
        alone = (self.neighbors.degrees == 0) & (self._intra_share() == 0)
        return np.concatenate([~self._joined, alone])
