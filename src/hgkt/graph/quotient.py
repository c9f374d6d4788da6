"""The class-level quotient: message passing on two rows per class that equals the full graph.

All instances of a class start from the same attributes and, the representative aside, have the
same neighbourhood. By induction over layers a class has two distinct states: u of its ordinary
instances and r of its representative. A mean over instances is then a weighted mean of states.

Drawing neighbours, as GraphSAGE and the paper train, needs no edge list either: all that a drawn
neighbour tells is its class and role, so a draw of S neighbours is how many of them are ordinary
members of the node's own class, and which of the few others were hit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from hgkt._validation import check_choice, check_number
from hgkt.exceptions import DataError
from hgkt.graph.construction import ClassNeighbors, HeterogeneousGraph, frozen_array

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


@dataclass(frozen=True, eq=False)
class SampledNeighbors:
    """Drawn neighbours of B nodes; a node's neighbour mean is the weighted sum over its draws.

    Parameters
    ----------
    classes : ndarray of shape (B, n_draws)
        Class of each drawn neighbour.
    representative : ndarray of bool, shape (B, n_draws)
        Role of each drawn neighbour.
    weights : ndarray of shape (B, n_draws)
        Rows sum to one.
    """

    classes: NDArray[np.intp]
    representative: NDArray[np.bool_]
    weights: NDArray[np.float64]

    def class_weights(self, n_classes: int) -> NDArray[np.float64]:
        """Sum the weights by class, (B, n_classes): all that layer one needs."""
        n_nodes, n_draws = self.classes.shape
        cells = np.repeat(np.arange(n_nodes) * n_classes, n_draws) + self.classes.ravel()
        sums = np.bincount(cells, self.weights.ravel(), minlength=n_nodes * n_classes)
        return sums.reshape(n_nodes, n_classes).astype(np.float64, copy=False)


def sample_neighbors(
    quotient: Quotient,
    classes: ArrayLike,
    representative: ArrayLike,
    n_sampled: int,
    rng: np.random.Generator,
) -> SampledNeighbors:
    """Draw `n_sampled` neighbours of each node uniformly from all it has in the full graph.

    As in GraphSAGE's code, draws are without replacement where a node has `n_sampled` neighbours
    or more, else with replacement. The expected mean is the full mean either way. A node without
    neighbours draws itself. Under ``per-type`` aggregation `n_sampled` are drawn from each kind
    of edge; under ``inter-only`` a representative draws from its inter-class neighbours.

    Parameters
    ----------
    quotient : Quotient
        The graph.
    classes : array-like of shape (B,)
        Class of each node.
    representative : array-like of bool, shape (B,)
        Role of each node.
    n_sampled : int
        Number of draws S; 50 in the paper.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    SampledNeighbors
        With ``n_draws`` = `n_sampled`, or twice that under ``per-type``.

    Examples
    --------
    >>> from hgkt.graph import ClassNeighbors
    >>> quotient = Quotient([4, 4], ClassNeighbors.from_rows([[1], [0]]))
    >>> draws = sample_neighbors(quotient, [0], [True], 4, np.random.default_rng(0))
    >>> draws.class_weights(2)  # degree 4: every neighbour exactly once
    array([[0.75, 0.25]])
    """
    check_number("n_sampled", n_sampled, low=1, integer=True)
    nodes, roles = np.asarray(classes, dtype=np.intp), np.asarray(representative, dtype=bool)
    n_ordinary, others, n_others = _neighborhoods(quotient, nodes, roles)
    none = np.zeros_like(n_ordinary)
    if quotient.aggregation == "inter-only":
        n_ordinary = np.where(roles, none, n_ordinary)
    split = roles & (n_ordinary > 0) & (n_others > 0)
    if quotient.aggregation != "per-type":
        split = np.zeros_like(split)
    # Nodes whose kinds are averaged apart draw from each kind; the rest draw from all they have.
    first = _draw(nodes, roles, n_ordinary, others, np.where(split, 0, n_others), n_sampled, rng)
    if quotient.aggregation != "per-type":
        return first
    second = _draw(nodes, roles, np.where(split, 0, n_ordinary), others, n_others, n_sampled, rng)
    return SampledNeighbors(
        np.concatenate([first.classes, second.classes], axis=1),
        np.concatenate([first.representative, second.representative], axis=1),
        np.concatenate([first.weights, second.weights], axis=1) / 2,
    )


def _neighborhoods(
    quotient: Quotient, nodes: NDArray[np.intp], roles: NDArray[np.bool_]
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Return each node's number of ordinary in-class neighbours and its representative ones."""
    counts = quotient.counts[nodes] if quotient.intra else np.zeros_like(nodes)
    n_ordinary = np.maximum(counts - np.where(roles, 1, 2), 0)
    degrees = quotient.neighbors.degrees
    table = np.zeros((quotient.n_classes, max(int(degrees.max(initial=0)), 1)), dtype=np.intp)
    edges = quotient.neighbors.rows
    table[edges, np.arange(len(edges)) - quotient.neighbors.indptr[edges]] = (
        quotient.neighbors.indices
    )
    others = np.where(roles[:, None], table[nodes], nodes[:, None])
    # An ordinary instance knows one representative, its own; it is one of N_c ≥ 2 instances.
    n_others = np.where(roles, degrees[nodes], (counts >= 2).astype(np.intp))
    return n_ordinary, others, n_others


def _draw(
    nodes: NDArray[np.intp],
    roles: NDArray[np.bool_],
    n_ordinary: NDArray[np.intp],
    others: NDArray[np.intp],
    n_others: NDArray[np.intp],
    n_sampled: int,
    rng: np.random.Generator,
) -> SampledNeighbors:
    """Draw from `n_ordinary` in-class instances and the first `n_others` of `others`."""
    n_nodes, width = others.shape
    degree = n_ordinary + n_others
    distinct = degree >= n_sampled
    hits = np.where(
        distinct,
        rng.hypergeometric(
            np.where(distinct, n_others, n_sampled), np.where(distinct, n_ordinary, 0), n_sampled
        ),
        rng.binomial(n_sampled, n_others / np.maximum(degree, 1)),
    )
    # Which of the others: a random order without replacement, independent picks with.
    keys = np.where(np.arange(width) < n_others[:, None], rng.random((n_nodes, width)), np.inf)
    order = np.argsort(keys, axis=1)[:, np.minimum(np.arange(n_sampled), width - 1)]
    free = (rng.random((n_nodes, n_sampled)) * n_others[:, None]).astype(np.intp)
    picks = np.take_along_axis(others, np.where(distinct[:, None], order, free), axis=1)
    hit = np.arange(n_sampled) < hits[:, None]
    isolated = (degree == 0)[:, None]
    return SampledNeighbors(
        np.where(hit, picks, nodes[:, None]),
        np.where(isolated, roles[:, None], hit),
        np.full((n_nodes, n_sampled), 1.0 / n_sampled),
    )
