"""Neighbour sampling as GraphSAGE trains, without an edge list.

All that a drawn neighbour tells is its class and role, so a draw of S neighbours is: how many of
them are ordinary members of the node's own class, and which of the few others were hit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgkt._validation import check_number
from hgkt.graph.quotient import Quotient


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
