"""Algorithm 1, steps 1 and 4: from labelled features and representatives to the graph."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgkt._validation import check_choice
from hgkt.exceptions import DataError
from hgkt.graph.heterogeneous import HeterogeneousGraph
from hgkt.graph.neighbors import SPACES, ClassNeighbors, class_graph


def build_graph(
    features: NDArray[Any],
    codes: ArrayLike,
    attributes: ArrayLike,
    *,
    representatives: ArrayLike,
    k: int = 2,
    space: str = "wasserstein",
    symmetric: bool = False,
    intra: bool = True,
    inter: bool = True,
) -> HeterogeneousGraph:
    """Build the heterogeneous graph over the instances of seen classes.

    Parameters
    ----------
    features : array-like of shape (n_instances, n_features)
        Visual features; only the rows of representatives are read.
    codes : array-like of shape (n_instances,)
        Class of each instance, from 0 to n_classes − 1.
    attributes : array-like of shape (n_classes, n_attributes)
        Class attributes; read where `space` is ``"attributes"``.
    representatives : array-like of shape (n_classes,)
        Instance that represents each class (steps 2 and 3 of Algorithm 1).
    k : int
        Number of neighbouring classes; the paper's best is 2.
    space : {"wasserstein", "euclidean", "cosine", "attributes"}
        Where classes are near each other. Paper gap: Algorithm 1 says "k-nearest neighbors in S"
        without a metric; its conclusion speaks of the Wasserstein space.
    symmetric : bool
        Whether inter-class edges carry both ways.
    intra, inter : bool
        Whether the two kinds of edges are there (the paper's ablations leave out one).

    Returns
    -------
    HeterogeneousGraph

    Examples
    --------
    >>> X = np.array([[0.0], [0.2], [1.0], [5.0]])
    >>> graph = build_graph(X, [0, 0, 1, 2], np.eye(3), representatives=[0, 2, 3], k=1,
    ...                     space="euclidean")
    >>> graph.neighbors.indices
    array([1, 0, 1])
    """
    chosen = np.asarray(representatives, dtype=np.intp)
    if len(features) != np.size(codes):
        raise DataError(
            f"there are {len(features)} rows of features and {np.size(codes)} codes; "
            "the same number is expected"
        )
    # A representative that is no row is named below.
    rows = features[chosen] if ((chosen >= 0) & (chosen < len(features))).all() else features[:0]
    return join_representatives(
        rows,
        codes,
        attributes,
        representatives=chosen,
        k=k,
        space=space,
        symmetric=symmetric,
        intra=intra,
        inter=inter,
    )


def join_representatives(
    rows: NDArray[Any],
    codes: ArrayLike,
    attributes: ArrayLike,
    *,
    representatives: ArrayLike,
    k: int = 2,
    space: str = "wasserstein",
    symmetric: bool = False,
    intra: bool = True,
    inter: bool = True,
) -> HeterogeneousGraph:
    """Build the graph from the features of the representatives alone, `rows` (L, D).

    See `build_graph`, which takes the features of all instances.
    """
    check_choice("space", space, SPACES)
    chosen = np.asarray(representatives, dtype=np.intp)
    attributes = np.asarray(attributes)
    if len(attributes) != len(chosen):
        raise DataError(
            f"there are {len(attributes)} rows of attributes and {len(chosen)} representatives; "
            "one of each a class is expected"
        )
    # Checked before neighbours are looked for, so that a wrong representative is named as such.
    bare = HeterogeneousGraph(
        np.asarray(codes, dtype=np.intp), chosen, ClassNeighbors.empty(len(chosen)), intra
    ).validate()
    if not inter:
        return bare
    nodes = attributes if space == "attributes" else rows
    neighbors = class_graph(nodes, k, space, directed=not symmetric)
    return HeterogeneousGraph(bare.codes, chosen, neighbors, intra)
